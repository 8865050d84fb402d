//! What a store counts itself, asked right before timed work and right after it: never within.

use crate::driver::{OwnCount, Store};
use crate::result::OwnCounter;
use credenza::Result;

/// The counters before; none where nobody wants them.
pub(super) struct OwnCounters(Option<Vec<OwnCount>>);

impl OwnCounters {
    pub(super) fn before<S: Store>(store: &mut S, are_wanted: bool) -> Result<OwnCounters> {
        let counted = are_wanted.then(|| store.own_counters()).transpose();
        counted.map(OwnCounters)
    }

    /// How each went on.
    pub(super) fn after<S: Store>(self, store: &mut S) -> Result<Vec<OwnCounter>> {
        let Some(before) = self.0 else { return Ok(Vec::new()) };
        let after = store.own_counters()?;
        let went_on = |(name, before): OwnCount| {
            let (_, after) = *after.iter().find(|(other, _)| *other == name)?;
            Some(OwnCounter { name: name.to_owned(), before, after })
        };
        Ok(before.into_iter().filter_map(went_on).collect())
    }
}
