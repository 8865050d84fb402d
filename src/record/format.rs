//! The bytes of a trace: head, state, blocks. `docs/format/trace.md` says the same in words.

use crate::bytes::{array, le32, le64};
use crate::{Error, ErrorKind, Result};
use std::fmt;
use xxhash_rust::xxh3::xxh3_64;

/// What a trace begins with.
pub(super) const MAGIC: [u8; 8] = *b"\x89CRDNZT\n";
const VERSION: u32 = 1;

/// Whether these bytes begin a trace.
pub(crate) fn begins_a_trace(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

/// What is decided when the trace is made.
const FIXED_BYTES: usize = 128;
const FIXED_SUM_AT: usize = FIXED_BYTES - 8;
/// What changes with each block, and where it lies.
pub(super) const STATE_AT: u64 = FIXED_BYTES as u64;
const STATE_BYTES: usize = 64;
const STATE_SUM_AT: usize = STATE_BYTES - 8;
/// Both together; blocks begin behind.
pub(super) const HEAD_BYTES: usize = FIXED_BYTES + STATE_BYTES;

const BLOCK_MAGIC: [u8; 4] = *b"CRTB";
/// What a block begins with.
pub(super) const BLOCK_HEAD_BYTES: usize = 64;
const BLOCK_SUM_AT: usize = BLOCK_HEAD_BYTES - 8;
/// No block's content is longer.
pub(super) const MAX_BODY: u32 = 1 << 20;

/// A key that is longer is hashed in any case.
pub(super) const MAX_KEY: usize = 4096;

/// The head of a trace: what all of its processes agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fixed {
    pub(super) is_hashed: bool,
    /// A number that no other trace has.
    pub(super) id: u128,
    /// When it began, in nanoseconds after 1970.
    pub(super) begun_at: u64,
    /// The same in nanoseconds of the clock that entries are timed by, which all processes of a boot
    /// share.
    pub(super) begun_ns: u64,
    pub(super) boot: u128,
    /// Bytes that the file may have.
    pub(super) limit: u64,
    /// What the secret makes of the number, by which it is known again; 0 where nobody noted it.
    pub(super) check: u64,
}

impl Fixed {
    pub(super) fn to_bytes(self) -> [u8; FIXED_BYTES] {
        let mut bytes = [0; FIXED_BYTES];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(0, &MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(12, &u32::from(self.is_hashed).to_le_bytes());
        put(16, &self.id.to_le_bytes());
        put(32, &self.begun_at.to_le_bytes());
        put(40, &self.begun_ns.to_le_bytes());
        put(48, &self.boot.to_le_bytes());
        put(64, &self.limit.to_le_bytes());
        put(72, &self.check.to_le_bytes());
        seal(&mut bytes, FIXED_SUM_AT);
        bytes
    }

    /// What is in the head, which may be cut off.
    pub(super) fn read(head: &[u8]) -> Result<Fixed> {
        let is_trace = begins_a_trace(head) || (head.len() < 8 && MAGIC.starts_with(head));
        if !is_trace || head.is_empty() {
            let found = "its first bytes are others; 'credenza record' makes traces".to_owned();
            return Err(Error::new(ErrorKind::WrongFormat { expected: "a trace", found }));
        }
        let Some(fixed) = head.get(..FIXED_BYTES) else {
            return Err(Error::corrupt(head.len() as u64, "the file ends within its head"));
        };
        let version = le32(fixed, 8).unwrap_or(0);
        if version != VERSION {
            return Err(Error::new(ErrorKind::Unsupported(format!(
                "this is a trace of version {version}, and this program reads version {VERSION}: use a \
                 newer one"
            ))));
        }
        if !is_sealed(fixed, FIXED_SUM_AT) {
            return Err(Error::corrupt(0, "the head of the trace does not fit its checksum"));
        }
        let wide = |at| array(fixed, at).map_or(0, u128::from_le_bytes);
        let word = |at| le64(fixed, at).unwrap_or(0);
        let (id, begun_at, begun_ns) = (wide(16), word(32), word(40));
        let is_hashed = match le32(fixed, 12) {
            Some(0) => false,
            Some(1) => true,
            _ => return Err(Error::corrupt(12, "the keys are neither plain nor hashed")),
        };
        let (boot, limit, check) = (wide(48), word(64), word(72));
        Ok(Fixed { is_hashed, id, begun_at, begun_ns, boot, limit, check })
    }
}

/// Why a recording ended before the programs did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stopped {
    /// The file had as many bytes as it may have.
    Limit,
    /// There was no room on the disk, or none within the limit on the size of the process's files.
    NoSpace,
    /// Writing failed otherwise, with this error number of the system.
    Failed(u32),
    /// A process could not have the lock of the file, which another program kept, or a process that was
    /// stopped while it wrote. What it had not written yet is lost.
    Locked,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stopped::Limit => f.write_str("the trace had reached its limit in bytes"),
            Stopped::NoSpace => f.write_str("there was no more room for the file"),
            Stopped::Failed(number) => {
                let error = std::io::Error::from_raw_os_error(number.cast_signed());
                write!(f, "writing failed: {error}")
            }
            Stopped::Locked => f.write_str(
                "somebody kept the lock of the trace, and what a process had not written yet is lost",
            ),
        }
    }
}

/// How far a trace has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Where the next block goes.
    pub(super) end: u64,
    /// Stores that have a number: 1 to this one.
    pub(super) stores: u32,
    pub(super) blocks: u64,
    /// Entries in all blocks.
    pub(super) entries: u64,
    /// Why nothing is added any more, and when, in nanoseconds after the beginning.
    pub(super) stopped: Option<(Stopped, u64)>,
}

impl State {
    pub(super) const NEW: State =
        State { end: HEAD_BYTES as u64, stores: 0, blocks: 0, entries: 0, stopped: None };

    pub(super) fn to_bytes(self) -> [u8; STATE_BYTES] {
        let (why, number, when) = match self.stopped {
            None => (0, 0, 0),
            Some((Stopped::Limit, when)) => (1, 0, when),
            Some((Stopped::NoSpace, when)) => (2, 0, when),
            Some((Stopped::Failed(number), when)) => (3, number, when),
            Some((Stopped::Locked, when)) => (4, 0, when),
        };
        let mut bytes = [0; STATE_BYTES];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(0, &self.end.to_le_bytes());
        put(8, &u64::from(self.stores).to_le_bytes());
        put(16, &self.blocks.to_le_bytes());
        put(24, &self.entries.to_le_bytes());
        put(32, &u32::to_le_bytes(why));
        put(36, &u32::to_le_bytes(number));
        put(40, &when.to_le_bytes());
        seal(&mut bytes, STATE_SUM_AT);
        bytes
    }

    /// What is in the head behind [`Fixed`].
    pub(super) fn read(head: &[u8]) -> Result<State> {
        let Some(bytes) = head.get(FIXED_BYTES..HEAD_BYTES) else {
            return Err(Error::corrupt(head.len() as u64, "the file ends within its head"));
        };
        let damaged = |what: &str| Err(Error::corrupt(STATE_AT, what));
        if !is_sealed(bytes, STATE_SUM_AT) {
            return damaged("what says how far the trace has come does not fit its checksum");
        }
        let word = |at| le64(bytes, at).unwrap_or(0);
        let number = le32(bytes, 36).unwrap_or(0);
        let stopped = match le32(bytes, 32) {
            Some(0) => None,
            Some(1) => Some(Stopped::Limit),
            Some(2) => Some(Stopped::NoSpace),
            Some(3) => Some(Stopped::Failed(number)),
            Some(4) => Some(Stopped::Locked),
            _ => return damaged("the reason why it ended is none that there is"),
        };
        let stopped = stopped.map(|why| (why, word(40)));
        let (end, blocks, entries) = (word(0), word(16), word(24));
        let Ok(stores) = u32::try_from(word(8)) else {
            return damaged("there are more stores than have numbers");
        };
        if end < HEAD_BYTES as u64 {
            return damaged("it ends within its head");
        }
        Ok(State { end, stores, blocks, entries, stopped })
    }
}

/// What is in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A store that has a number now.
    Store,
    /// Entries of one thread.
    Entries,
}

/// What a block begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHead {
    pub(super) content: Content,
    /// Bytes of the content.
    pub(super) len: u32,
    /// Entries, or stores.
    pub(super) count: u32,
    pub(super) process: u32,
    pub(super) thread: u32,
    /// The time that the first entry's is counted from, in nanoseconds after the beginning.
    pub(super) time: u64,
    pub(super) sum: u64,
}

impl BlockHead {
    pub(super) fn to_bytes(self) -> [u8; BLOCK_HEAD_BYTES] {
        let content: u32 = match self.content {
            Content::Store => 1,
            Content::Entries => 2,
        };
        let mut bytes = [0; BLOCK_HEAD_BYTES];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(0, &BLOCK_MAGIC);
        put(4, &content.to_le_bytes());
        put(8, &self.len.to_le_bytes());
        put(12, &self.count.to_le_bytes());
        put(16, &self.process.to_le_bytes());
        put(20, &self.thread.to_le_bytes());
        put(24, &self.time.to_le_bytes());
        put(32, &self.sum.to_le_bytes());
        seal(&mut bytes, BLOCK_SUM_AT);
        bytes
    }

    /// What the block at `offset` begins with.
    pub(super) fn read(bytes: &[u8; BLOCK_HEAD_BYTES], offset: u64) -> Result<BlockHead> {
        let damaged = |what: &str| Err(Error::corrupt(offset, format!("the block here: {what}")));
        if bytes[..4] != BLOCK_MAGIC {
            return damaged("its first bytes are others than a block's");
        }
        if !is_sealed(bytes, BLOCK_SUM_AT) {
            return damaged("its head does not fit its checksum");
        }
        let number = |at| le32(bytes, at).unwrap_or(0);
        let word = |at| le64(bytes, at).unwrap_or(0);
        let content = match number(4) {
            1 => Content::Store,
            2 => Content::Entries,
            _ => return damaged("nobody knows what is in it"),
        };
        let (len, count) = (number(8), number(12));
        // An entry has four bytes at least.
        if len > MAX_BODY || u64::from(count) > u64::from(len) {
            return damaged("it is longer than blocks are, or has more entries than bytes");
        }
        let (process, thread) = (number(16), number(20));
        Ok(BlockHead { content, len, count, process, thread, time: word(24), sum: word(32) })
    }

    /// A block of this content, as it is written.
    pub(super) fn block(self, body: &[u8]) -> Vec<u8> {
        let head = BlockHead { len: body.len() as u32, sum: xxh3_64(body), ..self };
        [&head.to_bytes()[..], body].concat()
    }
}

/// The checksum of a block's content.
pub(super) fn sum_of(body: &[u8]) -> u64 {
    xxh3_64(body)
}

/// Puts the checksum of what is before it in its place.
fn seal(bytes: &mut [u8], at: usize) {
    let sum = xxh3_64(&bytes[..at]);
    bytes[at..at + 8].copy_from_slice(&sum.to_le_bytes());
}

fn is_sealed(bytes: &[u8], at: usize) -> bool {
    bytes.get(..at).is_some_and(|before| le64(bytes, at) == Some(xxh3_64(before)))
}

/// Appends a number, seven bits a byte, the lowest first; the highest bit says that there are more.
pub(super) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number off the front; `None` if it is cut off or over 64 bits.
pub(super) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            return None;
        }
        number |= part << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Takes so many bytes off the front.
pub(super) fn take<'a>(bytes: &mut &'a [u8], len: u64) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(len).ok()?)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for number in [0, 1, 127, 128, 300, 1 << 35, u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            for cut in 0..bytes.len() {
                assert_eq!(take_varint(&mut &bytes[..cut]), None, "{number}");
            }
            let mut rest = &bytes[..];
            assert_eq!((take_varint(&mut rest), rest), (Some(number), &[][..]));
        }
        assert_eq!(take_varint(&mut &[0xff; 10][..]), None);
        assert_eq!(take_varint(&mut &[0x80; 11][..]), None);
    }

    #[test]
    fn heads_come_back() {
        let (id, begun_at, begun_ns, boot) = (7 << 90, 8, 9, 10);
        let fixed = Fixed { is_hashed: true, id, begun_at, begun_ns, boot, limit: 11, check: 12 };
        for stopped in [
            None,
            Some((Stopped::Limit, 1)),
            Some((Stopped::NoSpace, 2)),
            Some((Stopped::Failed(5), 3)),
            Some((Stopped::Locked, 4)),
        ] {
            let state = State { end: 300, stores: 2, blocks: 3, entries: 4, stopped };
            let head = [&fixed.to_bytes()[..], &state.to_bytes()[..]].concat();
            assert_eq!(Fixed::read(&head).unwrap(), fixed);
            assert_eq!(State::read(&head).unwrap(), state);
        }
    }
}
