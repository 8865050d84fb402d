//! What timed work took besides time: calls, page faults, bytes read and written.

use super::processor::Processor;
use serde::{Deserialize, Serialize};
use std::ops::{AddAssign, Sub};

/// What the timed work took besides time: the timed passes of all rounds and of all new stores.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Effort {
    /// The operations that were timed: divide by these.
    pub operations: u64,
    /// How often changes were committed meanwhile: transactions that changed something, and each change that
    /// was in no transaction of several. 0 where nothing is committed before the store is closed, for a build,
    /// which is published once, for what only reads, and in reports from before there was this field.
    pub commits: u64,
    /// The calls that were seen within the timed work.
    pub calls: Calls,
    /// Those that were seen when a changed store was closed, which is not timed; a build is timed
    /// until it is closed.
    pub closing: Calls,
    /// Nanoseconds of closing, all changed stores of all rounds together: not in the time of an operation,
    /// though a store may do then what others have done before. 0 where nothing is changed, for a build,
    /// and in reports from before there was this field.
    pub closing_ns: u64,
    /// Page faults that needed no reading from the disk.
    pub minor_faults: u64,
    /// Page faults that did.
    pub major_faults: u64,
    /// Bytes that calls of any kind read, and wrote, as the kernel counts them (`rchar` and `wchar`
    /// of `/proc/self/io`).
    pub read_bytes: u64,
    /// See `read_bytes`.
    pub written_bytes: u64,
    /// Bytes that were read from a disk, and pages of files on a disk that were changed, in bytes, by
    /// calls or in a map (`read_bytes` and `write_bytes` there); 0 on tmpfs.
    pub disk_read_bytes: u64,
    /// See `disk_read_bytes`.
    pub disk_written_bytes: u64,
    /// The same when a changed store was closed; 0 in reports from before there was this field.
    pub closing_disk_written_bytes: u64,
    /// What the processor counted.
    pub processor: Processor,
}

/// How often the store called what, of the calls that write files or bring them to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Calls {
    /// Calls of `fsync`.
    pub fsync: u64,
    /// Calls of `fdatasync`.
    pub fdatasync: u64,
    /// Calls of `msync` that wait (`MS_SYNC`).
    pub msync: u64,
    /// Calls of `sync_file_range`.
    pub sync_file_range: u64,
    /// Calls of `sync` and `syncfs`, which bring everything to the disk.
    pub sync: u64,
    /// Calls of `write`, `pwrite`, `writev` and `pwritev` that wrote something.
    pub writes: u64,
    /// What these wrote.
    pub written_bytes: u64,
    /// Those of these that had brought it to the disk when they returned: to files opened with `O_DSYNC` or
    /// `O_SYNC`, and `pwritev2` with `RWF_DSYNC` or `RWF_SYNC`.
    pub synced_writes: u64,
}

impl Calls {
    /// All calls that bring something to the disk.
    pub fn syncs(&self) -> u64 {
        let whole = self.fsync + self.fdatasync + self.msync + self.sync;
        whole + self.sync_file_range + self.synced_writes
    }
}

impl Effort {
    /// What there is of so much for a commit; `None` where there were no commits.
    pub fn of_one_commit(&self, count: u64) -> Option<f64> {
        (self.commits > 0).then(|| count as f64 / self.commits as f64)
    }
}

impl Sub for Calls {
    type Output = Calls;

    fn sub(self, before: Calls) -> Calls {
        Calls {
            fsync: self.fsync - before.fsync,
            fdatasync: self.fdatasync - before.fdatasync,
            msync: self.msync - before.msync,
            sync_file_range: self.sync_file_range - before.sync_file_range,
            sync: self.sync - before.sync,
            writes: self.writes - before.writes,
            written_bytes: self.written_bytes - before.written_bytes,
            synced_writes: self.synced_writes - before.synced_writes,
        }
    }
}

impl AddAssign for Calls {
    fn add_assign(&mut self, other: Calls) {
        self.fsync += other.fsync;
        self.fdatasync += other.fdatasync;
        self.msync += other.msync;
        self.sync_file_range += other.sync_file_range;
        self.sync += other.sync;
        self.writes += other.writes;
        self.written_bytes += other.written_bytes;
        self.synced_writes += other.synced_writes;
    }
}

impl AddAssign for Effort {
    fn add_assign(&mut self, other: Effort) {
        self.operations += other.operations;
        self.commits += other.commits;
        self.calls += other.calls;
        self.closing += other.closing;
        self.closing_ns += other.closing_ns;
        self.minor_faults += other.minor_faults;
        self.major_faults += other.major_faults;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.disk_read_bytes += other.disk_read_bytes;
        self.disk_written_bytes += other.disk_written_bytes;
        self.closing_disk_written_bytes += other.closing_disk_written_bytes;
        self.processor += other.processor;
    }
}
