//! Histories of reads and writes, and whether one order explains what everybody saw.
//!
//! Every write gives a key the version after the one that it found, so the versions say in which
//! order the writes came. A history is linearizable if no call disagrees with that order and with
//! the clock: who is done before another begins comes before it.

use std::collections::HashMap;

/// A call on one key: when it began and ended, and which version it wrote or read (0: none).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub key: u64,
    pub is_write: bool,
    pub version: u64,
    pub begin: u64,
    pub end: u64,
}

impl Event {
    pub fn encode(&self) -> [u8; 40] {
        let words = [self.key, u64::from(self.is_write), self.version, self.begin, self.end];
        let mut bytes = [0; 40];
        for (place, word) in bytes.chunks_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub fn decode_all(bytes: &[u8]) -> Vec<Event> {
        let decode = |bytes: &[u8]| {
            let word = |i: usize| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap());
            let (is_write, version) = (word(1) == 1, word(2));
            Event { key: word(0), is_write, version, begin: word(3), end: word(4) }
        };
        bytes.chunks_exact(40).map(decode).collect()
    }
}

/// What is wrong with a history, if anything is.
pub fn check(events: &[Event]) -> Result<(), String> {
    let mut keys: HashMap<u64, Vec<Event>> = HashMap::new();
    for event in events {
        keys.entry(event.key).or_default().push(*event);
    }
    keys.values_mut().try_for_each(|events| check_key(events))
}

fn check_key(events: &mut [Event]) -> Result<(), String> {
    let mut writes: HashMap<u64, Event> = HashMap::new();
    for event in events.iter().filter(|event| event.is_write) {
        if let Some(other) = writes.insert(event.version, *event) {
            return Err(format!("two writes made one version: {event:?} and {other:?}"));
        }
    }
    for read in events.iter().filter(|event| !event.is_write && event.version > 0) {
        let Some(write) = writes.get(&read.version) else {
            return Err(format!("what nobody wrote was read: {read:?}"));
        };
        if read.end < write.begin {
            return Err(format!("read before it was written: {read:?}, {write:?}"));
        }
    }
    // In the order of their beginnings: nothing may be older than what had been seen or written by
    // calls that were done before it began.
    events.sort_by_key(|event| event.begin);
    let mut by_end: Vec<Event> = events.to_vec();
    by_end.sort_by_key(|event| event.end);
    let (mut done, mut newest): (usize, Option<Event>) = (0, None);
    for event in events.iter() {
        while by_end[done].end < event.begin {
            let before = by_end[done];
            newest = newest.filter(|newest| newest.version >= before.version).or(Some(before));
            done += 1;
        }
        let Some(newest) = newest else { continue };
        let is_old =
            event.version < newest.version || event.is_write && event.version == newest.version;
        if is_old {
            return Err(format!("{event:?} is behind {newest:?}, which was done before it began"));
        }
    }
    Ok(())
}

#[test]
fn histories_that_cannot_be_are_found() {
    let event = |is_write, version, begin, end| Event { key: 1, is_write, version, begin, end };
    let write = |version, begin, end| event(true, version, begin, end);
    let read = |version, begin, end| event(false, version, begin, end);
    check(&[write(1, 0, 10), read(0, 1, 5), read(1, 4, 6), write(2, 11, 20), read(1, 12, 13)])
        .unwrap();
    let wrong: [&[Event]; 5] = [
        &[write(1, 0, 10), read(0, 11, 12)],
        &[write(1, 0, 10), write(2, 1, 20), read(2, 2, 4), read(1, 5, 6)],
        &[write(1, 0, 10), write(1, 20, 30)],
        &[write(2, 0, 10), write(1, 20, 30)],
        &[read(7, 0, 10)],
    ];
    for history in wrong {
        check(history).unwrap_err();
    }
    assert_eq!(Event::decode_all(&write(3, 4, 5).encode()), [write(3, 4, 5)]);
}
