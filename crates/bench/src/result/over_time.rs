//! One run of a phase over its time: how many operations ended when, and how long they took.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What one run did over its time, in slots of equal length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OverTime {
    /// The length of each slot but the last, which is between a half and one and a half of it, or all
    /// there is.
    pub slot_seconds: f64,
    /// The length of all.
    pub seconds: f64,
    /// All operations.
    pub all: Slots,
    /// The same by the names of operations, where there are several.
    #[serde(default)]
    pub operations: BTreeMap<String, Slots>,
}

/// One figure for each slot; latencies are in nanoseconds, and 0 where no operation ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Slots {
    /// Operations that ended in it.
    pub ops: Vec<u64>,
    /// Half of these took at most this.
    pub p50_ns: Vec<u64>,
    /// 99 of 100.
    pub p99_ns: Vec<u64>,
    /// The slowest.
    pub max_ns: Vec<u64>,
}

impl OverTime {
    /// When slot `i` of `count` begins and ends, in seconds.
    pub fn slot(&self, i: usize, count: usize) -> (f64, f64) {
        let begin = i as f64 * self.slot_seconds;
        (begin, if i + 1 < count { begin + self.slot_seconds } else { self.seconds })
    }

    /// Operations in a second, slot by slot; nothing for a slot without length.
    pub fn per_second<'a>(&'a self, slots: &'a Slots) -> impl Iterator<Item = Option<f64>> + 'a {
        let count = slots.ops.len();
        slots.ops.iter().enumerate().map(move |(i, ops)| {
            let (begin, end) = self.slot(i, count);
            (end > begin).then(|| *ops as f64 / (end - begin))
        })
    }
}
