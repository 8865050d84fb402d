//! Danger: the mark of UTF-8 that a text begins with becomes part of its first key, which nobody finds any more; or a key
//! that begins with its bytes loses them.

mod common;

use common::{error_of, read, read_through, write};
use credenza_formats::Format;
use std::path::Path;

const MARKED: [(Format, &str, &str); 3] = [
    (Format::Tsv, "a\tb\n", "b"),
    (Format::Lines, "a\n", ""),
    (Format::JsonLines, "{\"key\":\"a\",\"value\":\"b\"}\n", "b"),
];

#[test]
fn the_mark_is_no_part_of_the_first_key() {
    for (format, text, value) in MARKED {
        let marked = format!("\u{feff}{text}");
        for buffer in [1, 2, 3, 8192] {
            let (found, error) = read_through(format, marked.as_bytes(), buffer);
            assert!(error.is_none() && found == [(b"a".to_vec(), value.into())], "{format}");
        }
        assert_eq!(read(format, "\u{feff}".as_bytes()), []);
        let name = if format == Format::Lines { "x.lines" } else { "x" };
        assert_eq!(Format::guess(marked.as_bytes(), Some(Path::new(name))), Some(format));
    }
    // One is skipped, and none further on.
    let twice = "\u{feff}\u{feff}a\n\u{feff}b\n".as_bytes();
    let keys: Vec<_> = read(Format::Lines, twice).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["\u{feff}a".as_bytes(), "\u{feff}b".as_bytes()]);
    let (line, column, _) = error_of(Format::Tsv, "\u{feff}no tab\n".as_bytes());
    assert_eq!((line, column), (1, 7));
}

#[test]
fn a_part_of_the_mark_is_none() {
    for begin in [&b"\xef"[..], b"\xef\xbb", b"\xef\xbb\xbe"] {
        for buffer in [1, 2, 3, 8192] {
            for end in [&b""[..], b"a\n", b"\n"] {
                let text = [begin, end].concat();
                let (found, error) = read_through(Format::Lines, &text, buffer);
                let key = text.strip_suffix(b"\n").unwrap_or(&text).to_vec();
                assert!(error.is_none() && found == [(key, Vec::new())], "{}", text.escape_ascii());
            }
        }
    }
}

/// A mark before it makes it no JSON, in whose first line the bytes of the key do not come first.
#[test]
fn a_line_of_json_has_no_mark_before_it() {
    let records = vec![("\u{feff}a".as_bytes().to_vec(), b"v".to_vec())];
    let text = write(Format::JsonLines, &records);
    assert_eq!(text, "{\"key\":\"\u{feff}a\",\"value\":\"v\"}\n".as_bytes());
    assert_eq!(read(Format::JsonLines, &text), records);
}

#[test]
fn a_key_that_begins_as_the_mark_comes_back() {
    for format in Format::ALL {
        let value = if format == Format::Lines { "" } else { "v" };
        let keys = ["\u{feff}", "\u{feff}a", "\u{feff}\u{feff}b", "c"];
        for first in 0..keys.len() {
            let keys = keys.iter().skip(first);
            let records: Vec<_> = keys.map(|key| (key.as_bytes().to_vec(), value.into())).collect();
            assert_eq!(read(format, &write(format, &records)), records, "{format}");
        }
    }
}
