//! Changes where there is no room for all of them.

use super::subject::{Operation, State, Subject, state_of};
use super::{Rng, sys};

/// Changes a new store of so many keys, and values of up to so many bytes, while files may have no more than a length that
/// becomes 4 KiB more with each change that is refused, from 12 KiB to `until`: `refused` looks at what is left then, and at
/// the error. Returns how many were.
pub fn change_with_little_room<S: Subject>(
    store: &S,
    (keys, longest): (u64, u64),
    until: u64,
    refused: impl Fn(&State, &str, &str),
) -> u32 {
    let mut state = State::new();
    let mut rng = Rng::new(3);
    let (mut errors, mut limit) = (0, 12 << 10);
    while limit < until {
        sys::limit_file_size(Some(limit));
        let operation = Operation::random(&mut rng, keys, longest);
        let mut after = state.clone();
        operation.change(&mut after);
        match store.apply(&operation) {
            Ok(()) => state = after,
            Err(error) => {
                errors += 1;
                let (text, what) = (error.to_string(), format!("limit {limit}, {operation:.60?}"));
                assert!(text.contains("large"), "{what}: {text}");
                refused(&state, &text, &what);
                limit += 4096;
            }
        }
    }
    sys::limit_file_size(None);
    let last = Operation::Insert(b"after".to_vec(), b"wards".to_vec());
    store.apply(&last).unwrap();
    last.change(&mut state);
    assert!(state_of(store, "with room again") == state);
    errors
}
