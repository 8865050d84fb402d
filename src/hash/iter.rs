//! Every record, one after the other.

use super::handle::Hash;
use super::pass::Pass;
use crate::observe::Walk;
use crate::os::file::copy_of;
use crate::stats::Moved;
use crate::{Error, Result};
use std::collections::VecDeque;
use std::iter::FusedIterator;

/// The records of a store, each copied; see [`Hash::iter`].
#[derive(Debug)]
pub struct Iter<'s> {
    store: &'s Hash,
    /// Where the next page begins.
    from: Option<u64>,
    pass: Pass,
    page: VecDeque<(Vec<u8>, Vec<u8>)>,
    /// What ends it, behind the records that were read before.
    failed: Option<Error>,
    /// What counts the records, if that is asked for.
    walk: Option<Walk<'s>>,
}

impl Hash {
    /// Every key and value, in no order that means anything. Others may write meanwhile: a record
    /// that is there, unchanged, from beginning to end is given exactly once; one that comes, goes
    /// or changes may be given as it was before or after, or not at all if it was not there
    /// throughout; none is given twice. Nothing is held between two records. Where the index is made anew
    /// with another hash meanwhile ([`Hash::rebuild_index`], or as its file is gone) the last item is an
    /// error: then begin again. So it is where damage ends it.
    pub fn iter(&self) -> Iter<'_> {
        self.core().expect_scan();
        Iter {
            store: self,
            from: Some(0),
            pass: Pass::default(),
            page: VecDeque::new(),
            failed: None,
            walk: self.walk(),
        }
    }
}

impl Iterator for Iter<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.page.pop_front() {
                return Some(Ok(record));
            }
            if let Some(error) = self.failed.take() {
                return Some(Err(error));
            }
            let from = self.from.take()?;
            let page = &mut self.page;
            let mut kept = Ok(());
            let mut keep = |key: &[u8], value: &[u8]| {
                if kept.is_ok() {
                    kept = copies_of(key, value).map(|copies| page.push_back(copies));
                }
            };
            let read = self.store.core().scan_page(from, &mut self.pass, &mut keep);
            let read = read.and_then(|next| kept.map(|()| next));
            if let Some(walk) = &mut self.walk {
                let mut moved = Moved::default();
                self.page.iter().for_each(|(key, value)| moved.record(key, value));
                walk.moved(moved);
                if read.is_err() {
                    walk.failed();
                }
            }
            match read {
                Ok(next) => self.from = next,
                Err(error) => self.failed = Some(self.store.named(error)),
            }
        }
    }
}

impl FusedIterator for Iter<'_> {}

impl<'s> IntoIterator for &'s Hash {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    type IntoIter = Iter<'s>;

    fn into_iter(self) -> Iter<'s> {
        self.iter()
    }
}

/// Copies of a record, which may be long.
pub(super) fn copies_of(key: &[u8], value: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
    Ok((copy_of(key)?, copy_of(value)?))
}
