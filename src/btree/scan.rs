//! Reading many records in order, a leaf at a time.

use super::cursor::Walk;
use super::format::{PAGE_BYTES, Tree};
use super::leaf;
use super::tree::{Pages, of};
use crate::Result;

/// Calls `f` with every record from `from` on, in order, until it says `false`.
pub(crate) fn scan<P: Pages>(
    pages: &P,
    tree: Tree,
    from: Option<&[u8]>,
    mut f: impl FnMut(&[u8], &[u8]) -> Result<bool>,
) -> Result<()> {
    let mut walk = Walk::new(pages, tree);
    let mut is_there = match from {
        Some(from) => walk.seek(from)?,
        None => walk.first()?,
    };
    let mut key = Vec::new();
    while is_there && let Some((page, at, count)) = walk.leaf() {
        let bytes = pages.page(page)?;
        let mut records = of(page, leaf::Records::new(bytes, &mut key))?;
        for i in at..count {
            let (key, value) = of(page, records.get(i, pages))?;
            if !f(key, pages.value(page, value)?)? {
                return Ok(());
            }
        }
        is_there = walk.next_leaf()?;
        if let Some((page, ..)) = walk.leaf() {
            // The leaf is read from front to back: the memory's own foresight does the rest.
            pages.prefetch(page * PAGE_BYTES);
        }
    }
    Ok(())
}
