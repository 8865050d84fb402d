//! Danger: we read what we write, but not what the real tools write. `fixtures/README.md` says how
//! the samples were made.

mod common;

use common::{Records, error_of, read, write};
use credenza_formats::{Compression, Format};
use std::path::Path;

fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    std::fs::read(folder.join(name)).unwrap()
}

/// What every sample was made of, in the order of `cdb -d`.
fn records() -> Records {
    let ascending: Vec<u8> = (0..=255).collect();
    let descending: Vec<u8> = (0..=255).rev().collect();
    let pairs: [(&[u8], &[u8]); 12] = [
        (b"one", b"1"),
        (b"two words", b"second value"),
        (b"", b"empty key"),
        (b"empty value", b""),
        (&ascending, &descending),
        (b"tab\tkey", b"line\nbreak\r\n"),
        (b"back\\slash", b"\"quote\""),
        ("ключ".as_bytes(), "значение".as_bytes()),
        (b"1", b"#"),
        (b"dup", b"first"),
        (b"dup", b"second"),
        (b"dup", b"third"),
    ];
    pairs.map(|(key, value)| (key.to_vec(), value.to_vec())).to_vec()
}

fn sorted(mut records: Records) -> Records {
    records.sort();
    records
}

/// What a store without duplicates, or without empty keys, holds of the records.
fn without(duplicates: bool, empty_key: bool) -> Records {
    let mut records = records();
    records.retain(|(k, _)| (!duplicates || k != b"dup") && (!empty_key || !k.is_empty()));
    records
}

/// The lines of a dump between its header and its trailer.
fn body(text: &[u8]) -> &[u8] {
    let marker = b"HEADER=END\n";
    let at = text.windows(marker.len()).position(|w| w == marker).unwrap() + marker.len();
    text[at..].strip_suffix(b"DATA=END\n").unwrap_or(&text[at..])
}

#[test]
fn tinycdb() {
    let text = fixture("tinycdb.cdbtext");
    assert_eq!(read(Format::CdbText, &text), records());
    assert_eq!(write(Format::CdbText, &records()), text);
}

#[test]
fn tinycdb_map() {
    let text = fixture("tinycdb.map");
    let pairs: [(&[u8], &[u8]); 3] =
        [(b"one", b"1"), (b"two", b"second value"), (b"three", b"x\ty ")];
    let records = pairs.map(|(key, value)| (key.to_vec(), value.to_vec())).to_vec();
    assert_eq!(read(Format::Map, &text), records);
    assert_eq!(write(Format::Map, &records), text);
}

fn replaced(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let (mut rest, mut done) = (text, Vec::new());
    while let Some(at) = rest.windows(from.len()).position(|w| w == from) {
        done.extend_from_slice(&rest[..at]);
        done.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    done.extend_from_slice(rest);
    done
}

#[test]
fn berkeley_db() {
    for kind in ["hash", "btree"] {
        for (flag, flavour) in [("", Format::DbDump), ("-p", Format::DbDumpPrint)] {
            let text = fixture(&format!("db5.3_{kind}{flag}.dump"));
            // The header decides, whichever of the two names is said.
            for format in [Format::DbDump, Format::DbDumpPrint] {
                assert_eq!(sorted(read(format, &text)), sorted(records()), "{kind}{flag}");
            }
            // As db_dump writes it, but for a backslash, of which older mdb_load make something else.
            let wanted =
                if flag == "-p" { replaced(&text, b"\\\\", b"\\5c") } else { text.clone() };
            assert_eq!(body(&write(flavour, &read(flavour, &text))), body(&wanted));
        }
    }
}

#[test]
fn berkeley_db_record_numbers() {
    let mut values: Vec<Vec<u8>> = records().into_iter().map(|(_, value)| value).collect();
    values.retain(|value| !value.is_empty());
    let number = |(i, value): (usize, Vec<u8>)| ((i + 1).to_string().into_bytes(), value);
    let wanted: Records = values.into_iter().enumerate().map(number).collect();
    for flag in ["", "-p"] {
        let text = fixture(&format!("db5.3_recno_keys{flag}.dump"));
        assert_eq!(read(Format::DbDump, &text), wanted);
    }
    let (line, column, what) = error_of(Format::DbDump, &fixture("db5.3_recno.dump"));
    assert_eq!((line, column), (3, 1));
    assert!(what.contains("db_dump -k"), "{what}");
}

#[test]
fn several_databases_in_one_dump() {
    let twice = [records(), records()].concat();
    assert_eq!(sorted(read(Format::DbDump, &fixture("db5.3_two.dump"))), sorted(twice));
    let pairs: [(&[u8], &[u8]); 3] = [(b"a", b"1"), (b"b", b"2"), (b"c", b"")];
    let wanted = pairs.map(|(key, value)| (key.to_vec(), value.to_vec()));
    assert_eq!(read(Format::DbDump, &fixture("mdb_two.dump")), wanted);
    // The same dump twice: the second header names a database again.
    let doubled = fixture("mdb_two.dump").repeat(2);
    let (line, column, what) = error_of(Format::DbDump, &doubled);
    assert_eq!((line, column), (27, 1), "{what}");
    assert!(what.contains("'first'"), "{what}");
    // Dumps without names may follow each other.
    let doubled = fixture("db5.3_hash.dump").repeat(2);
    assert_eq!(read(Format::DbDump, &doubled).len(), 2 * records().len());
}

#[test]
fn lmdb() {
    let text = fixture("mdb.dump");
    let mut wanted = without(true, true);
    wanted.push((b"dup".to_vec(), b"third".to_vec()));
    assert_eq!(sorted(read(Format::DbDump, &text)), sorted(wanted));
    assert_eq!(body(&write(Format::DbDump, &read(Format::DbDump, &text))), body(&text));
}

#[test]
fn lmdb_printable_with_its_ambiguous_backslash() {
    let (line, column, what) = error_of(Format::DbDumpPrint, &fixture("mdb-p.dump"));
    assert_eq!((line, column), (8, 158), "{what}");
    assert!(what.contains("without -p"), "{what}");
}

#[test]
fn tdb() {
    let text = fixture("tdbdump.dump");
    assert_eq!(sorted(read(Format::TdbDump, &text)), sorted(without(true, false)));
    assert_eq!(write(Format::TdbDump, &read(Format::TdbDump, &text)), text);
}

#[test]
fn mdbm() {
    let text = fixture("mdbm_export.dump");
    assert_eq!(sorted(read(Format::MdbmExport, &text)), sorted(without(true, true)));
    let again = write(Format::MdbmExport, &read(Format::MdbmExport, &text));
    assert_eq!(body(&again), body(&text));
}

#[test]
fn every_sample_is_recognised() {
    let samples = [
        ("tinycdb.cdbtext", Format::CdbText),
        ("tinycdb.map", Format::Map),
        ("db5.3_hash.dump", Format::DbDump),
        ("db5.3_btree-p.dump", Format::DbDumpPrint),
        ("db5.3_two.dump", Format::DbDump),
        ("mdb.dump", Format::DbDump),
        ("mdb-p.dump", Format::DbDumpPrint),
        ("tdbdump.dump", Format::TdbDump),
        ("mdbm_export.dump", Format::MdbmExport),
    ];
    for (name, format) in samples {
        assert_eq!(Format::guess(&fixture(name), Some(Path::new(name))), Some(format), "{name}");
    }
}

#[test]
fn guesses_go_by_content_then_name_then_tab() {
    let guess = |text: &str, name: &str| Format::guess(text.as_bytes(), Some(Path::new(name)));
    assert_eq!(guess("{\"key\":\"a\",\"value\":\"b\"}\n", "x.tsv"), Some(Format::JsonLines));
    assert_eq!(guess("+1,1:a->b\n\n", "x.txt"), Some(Format::CdbText));
    assert_eq!(guess("+1 1\tb\n", "x"), Some(Format::Tsv));
    assert_eq!(guess("a\tb\n", "x.map"), Some(Format::Map));
    assert_eq!(guess("a\tb\n", "x"), Some(Format::Tsv));
    assert_eq!(guess("word\n", "x.lines"), Some(Format::Lines));
    // All that is before the line feed became a key.
    assert_eq!(guess("192.0.2.1 REJECT\n", "x.txt"), None);
    assert_eq!(guess("key\tvalue\n", "x.txt"), Some(Format::Tsv));
    assert_eq!(guess("word\n", "x"), None);
    assert_eq!(guess("", "x.tsv"), Some(Format::Tsv));
    assert_eq!(guess("\n", "x.txt"), Some(Format::CdbText));
    assert_eq!(guess("\n", "x.lines"), Some(Format::Lines));
    assert_eq!(guess("\n\n", "x"), None);
    assert_eq!(Format::guess(b"", None), None);
}

/// What is no text has a tab somewhere, and was taken for one record of TSV.
#[test]
fn what_is_no_text_has_no_format() {
    let guess = |bytes: &[u8], name: &str| Format::guess(bytes, Some(Path::new(name)));
    let names = ["x", "x.tsv", "x.txt", "x.jsonl"];
    for packed in [
        &b"\x1f\x8b\x08\ta\tb\n"[..],
        b"\x28\xb5\x2f\xfda\tb\n",
        b"\xfd7zXZ\0a\tb\n",
        b"BZh91AY&SYa\tb\n",
        b"BZh9\x17rE8P\x90a\tb\n",
        b"PK\x03\x04a\tb\n",
    ] {
        for name in names.iter().chain(&["x.map", "x.lines"]) {
            assert_eq!(guess(packed, name), None, "{} {name}", packed.escape_ascii());
        }
        assert!(Compression::of(packed).is_some(), "{}", packed.escape_ascii());
    }
    for bytes in [&b"a\tb\n\0"[..], b"\0a\tb\n", b"\xff\xfea\0\t\0b\0\n\0"] {
        for name in names {
            assert_eq!(guess(bytes, name), None, "{} {name}", bytes.escape_ascii());
        }
    }
    // Texts with such a byte in them, and one behind what is looked at.
    assert_eq!(guess(b"+1,1:\0->\t\n\n", "x"), Some(Format::CdbText));
    assert_eq!(guess(b"VERSION=3\nformat=print\n\0", "x"), Some(Format::DbDumpPrint));
    assert_eq!(guess(b"{\"key\":\"\0\"", "x.tsv"), Some(Format::JsonLines));
    assert_eq!(guess(b"a \0\n", "x.map"), Some(Format::Map));
    assert_eq!(guess(b"a\0\n", "x.lines"), Some(Format::Lines));
    assert_eq!(guess(b"BZhang\tb\n", "x"), Some(Format::Tsv));
    let long = [b"a\tb\n".repeat(Format::LOOKED_AT / 4), b"\0".to_vec()].concat();
    assert_eq!(guess(&long, "x"), Some(Format::Tsv));
}

#[test]
fn names_lead_to_their_formats() {
    for format in Format::ALL {
        assert_eq!(format.to_string().parse::<Format>().unwrap(), format);
    }
    let message = "csv".parse::<Format>().unwrap_err().to_string();
    assert!(message.contains("'csv'") && message.contains("jsonl"), "{message}");
}
