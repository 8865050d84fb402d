//! Danger: a command puts a new file in the place of one that nobody wanted to lose: the store that it reads, a
//! store that others write to, or a file that is no store at all.

mod common;
use common::*;

fn is_there(store: &str) {
    assert_eq!(run(&["get", store, "bob"]).expect(0).text(), "1001");
    run(&["verify", store]).expect(0);
}

/// STORE was forgotten, so that the input stands in its place.
#[test]
fn load_does_not_replace_what_is_no_store() {
    let folder = Folder::new();
    let text = b"bob\t1001\n";
    let words = folder.file("words.tsv", text);
    for kind in ALL_KINDS {
        let got = run(&["load", &words, "--from", "tsv", "--to", kind]).expect(111);
        assert!(got.err.contains("it is no store"), "{}", got.err);
        assert_eq!(std::fs::read(&words).expect("the text"), text);
    }
    assert_eq!(folder.names(), ["words.tsv"]);
    let empty = folder.file("empty", "");
    run(&["load", &empty, &words]).expect(0);
    is_there(&empty);
    run(&["load", &empty, &words]).expect(0);
}
