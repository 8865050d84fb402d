//! Which stores take part twice in every round, as if they were two: how far one is from itself is what chance
//! makes of a ratio.
//!
//! Each phase that two stores do has one of them again: the baseline, or the first that can do it. So the time
//! that this takes is that of one more store, whatever the number of stores.

use crate::result::StoreInfo;
use crate::workload::Phase;

/// Rounds that it takes: an interval of fewer says too little.
pub(super) const ROUNDS: usize = 5;

/// The stores that are measured again, each with the phases that it does again.
pub(super) fn stores<'s>(
    phases: &[Phase],
    stores: &'s [StoreInfo],
    baseline: Option<&str>,
) -> Vec<(&'s StoreInfo, Vec<Phase>)> {
    let mut again: Vec<(&StoreInfo, Vec<Phase>)> = Vec::new();
    for phase in phases {
        let does = |info: &&StoreInfo| !info.lacks.iter().any(|lacks| lacks == phase.name());
        let able: Vec<&StoreInfo> = stores.iter().filter(does).collect();
        let is_asked = |info: &&&StoreInfo| Some(&*info.store) == baseline;
        // What one store does alone is in no ratio.
        let Some(one) = able.iter().find(is_asked).or(able.first()).filter(|_| able.len() > 1)
        else {
            continue;
        };
        match again.iter_mut().find(|(info, _)| info.store == one.store) {
            Some((_, own)) => own.push(*phase),
            None => again.push((*one, vec![*phase])),
        }
    }
    again
}

#[cfg(test)]
mod tests {
    use super::*;
    use Phase::{Build, GetHit, Range, Remove};

    fn info(store: &str, lacks: &[Phase]) -> StoreInfo {
        let lacks = lacks.iter().map(|phase| phase.name().to_owned()).collect();
        StoreInfo { store: store.to_owned(), lacks, ..StoreInfo::default() }
    }

    /// Danger: phases that the first store cannot do have ratios, and nobody knows how far chance goes there.
    #[test]
    fn each_phase_of_several_stores_has_one_that_is_measured_again() {
        let phases = [Build, GetHit, Range, Remove];
        let all = [info("constant", &[Range, Remove]), info("hash", &[Range]), info("btree", &[])];
        let again = |all: &[StoreInfo], baseline: Option<&str>| -> Vec<(String, Vec<Phase>)> {
            let again = stores(&phases, all, baseline).into_iter();
            again.map(|(info, own)| (info.store.clone(), own)).collect()
        };
        // A range is what one store does alone here.
        let wanted =
            [("constant".to_owned(), vec![Build, GetHit]), ("hash".to_owned(), vec![Remove])];
        assert_eq!(again(&all, None), wanted);
        assert_eq!(again(&all, Some("btree")), [("btree".to_owned(), vec![Build, GetHit, Remove])]);
        let wanted = [("hash".to_owned(), vec![Build, GetHit, Remove])];
        assert_eq!(again(&all[1..], None), wanted);
        assert!(again(&all[..1], None).is_empty(), "one store is in no ratio");
    }
}
