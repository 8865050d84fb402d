//! A store that is closed and opened again within a replay.
//!
//! Invariant: it is absent only while that is done. What fails then ends the replay.

use super::play::Task;
use crate::driver::{Driver, Reading, Shape, Writer};
use credenza::{Error, Result};

/// The store, which is open.
pub(super) fn held<S>(store: &mut Option<S>) -> Result<&mut S> {
    store.as_mut().ok_or_else(|| Error::invalid("the store could not be opened again"))
}

/// One that is only read.
pub(super) fn to_read<'d, D: Driver>(
    driver: &'d D,
    task: &Task,
    shape: &Shape,
    store: &mut Option<D::Store<'d>>,
) -> Result<()> {
    drop(store.take());
    *store = Some(driver.open(&task.path(), shape, Reading::Warm)?);
    Ok(())
}

/// One that is changed, for the same changes, if it can be opened for such again; whether it can.
pub(super) fn to_change<'d, D: Driver>(
    driver: &'d D,
    task: &Task,
    shape: &Shape,
    store: &mut Option<D::Writer<'d>>,
) -> Result<bool> {
    if !D::REOPENS {
        return Ok(false);
    }
    store.take().map_or(Ok(()), Writer::close)?;
    *store = Some(match task.is_durable {
        true => driver.create_durable(&task.path(), shape)?,
        false => driver.reopen(&task.path(), shape, D::COMMITS)?,
    });
    Ok(true)
}
