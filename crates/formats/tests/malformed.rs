//! Danger: bad input goes unnoticed, or the message sends the user to the wrong place.

mod common;

use common::{Records, error_of, read, read_through, write};
use credenza::{ErrorKind, Result};
use credenza_formats::{Format, reader};
use std::io::{self, BufRead, BufReader, Cursor, Read};

fn sample(format: Format) -> Records {
    let binary = [b"\xff\x00", &b"a\n\nb\\\""[..]].concat();
    let value = |value: &[u8]| if format == Format::Lines { Vec::new() } else { value.to_vec() };
    let mut records = vec![
        (b"one".to_vec(), value(b"first")),
        (b"two".to_vec(), value(b"\"second\" value")),
        ("drei".into(), value("dritter \u{e9}".as_bytes())),
    ];
    if !matches!(format, Format::Map | Format::Lines) {
        records.push((binary.clone(), binary));
    }
    records
}

/// A line of `format` made bad, and the column where it is.
fn spoilt(format: Format, line: &[u8]) -> (Vec<u8>, u64) {
    let prefixed = |prefix: &[u8]| [prefix, line].concat();
    let without = |byte: u8| line.iter().copied().filter(|b| *b != byte).collect::<Vec<u8>>();
    match format {
        Format::CdbText | Format::TdbDump | Format::JsonLines => (prefixed(b"x"), 1),
        Format::Tsv => (without(b'\t'), line.len() as u64),
        Format::Map | Format::Lines => (prefixed(&[b'k'; (64 << 10) + 1]), 1),
        Format::DbDump if line.starts_with(b" ") => {
            ([b" 00", &line[1..], b"z"].concat(), line.len() as u64 + 3)
        }
        Format::DbDumpPrint if line.starts_with(b" ") => {
            ([line, b"\\0"].concat(), line.len() as u64 + 1)
        }
        Format::DbDump | Format::DbDumpPrint if line == b"DATA=END" => (b"DATA=BEGIN".to_vec(), 6),
        Format::MdbmExport if !line.contains(&b'=') => {
            ([line, b"\\q"].concat(), line.len() as u64 + 1)
        }
        Format::DbDump | Format::DbDumpPrint | Format::MdbmExport => (without(b'='), 1),
    }
}

#[test]
fn an_error_in_any_line_is_placed() {
    for format in Format::ALL {
        let mut records = sample(format);
        if format == Format::CdbText {
            // A line feed inside a key or value begins a line that no error can begin in.
            records.pop();
        }
        let text = write(format, &records);
        let lines: Vec<&[u8]> = text.strip_suffix(b"\n").unwrap().split(|b| *b == b'\n').collect();
        for at in 0..lines.len() {
            let (bad, column) = spoilt(format, lines[at]);
            let mut lines = lines.clone();
            lines[at] = &bad;
            let mut text = lines.join(&b'\n');
            text.push(b'\n');
            let found = error_of(format, &text);
            assert_eq!((found.0, found.1), (at as u64 + 1, column), "{format}: {}", found.2);
            let (before, _) = read_through(format, &text, 8192);
            assert_eq!(before[..], records[..before.len()], "{format}");
        }
    }
}

/// Bad texts, each with the line, the column and a part of the message.
const BAD: &[(Format, &str, u64, u64, &str)] = &[
    (Format::CdbText, "", 1, 1, "empty line"),
    (Format::CdbText, "+1,1:a->b\n", 2, 1, "the input ends"),
    (Format::CdbText, "+1,1:a->b\n\n+1,1:a->b\n\n", 3, 1, "nothing after the empty line"),
    (Format::CdbText, "+1,1:a->b\r\n\n", 1, 10, "'\\n', but found '\\r'"),
    (Format::CdbText, "+1,1:a=>b\n\n", 1, 7, "'-', but found '='"),
    (Format::CdbText, "+1,1:a-b\n\n", 1, 8, "'>'"),
    (Format::CdbText, "+,1:a->b\n\n", 1, 2, "decimal length"),
    (Format::CdbText, "+1;1:a->b\n\n", 1, 3, "','"),
    (Format::CdbText, "+1,-1:a->b\n\n", 1, 4, "decimal length"),
    (Format::CdbText, "+1,9:a->b\n\n", 3, 1, "6 bytes are missing"),
    (Format::CdbText, "+1,2:a->\n\nx", 3, 1, "'\\n', but found 'x'"),
    (Format::CdbText, "+65537,1:", 1, 2, "65536"),
    (Format::CdbText, "+1,4294967296:a", 1, 4, "4294967295"),
    (Format::CdbText, "+1000000000000000000,1:a", 1, 2, "65536"),
    (Format::CdbText, "+1,99999999999999999999:a", 1, 4, "4294967295"),
    (Format::CdbText, "+1,000000000000000000001:a", 1, 4, "digits"),
    (Format::CdbText, "+1,4294967295:a->b", 1, 19, "4294967294 bytes are missing"),
    (Format::Tsv, "a\tb\nc", 2, 2, "no tab"),
    (Format::Tsv, "\n", 1, 1, "no tab"),
    (Format::Tsv, "a\\y\tb\n", 1, 2, "backslash"),
    (Format::Tsv, "a\tb\\x4\n", 1, 4, "backslash"),
    (Format::Tsv, "a\tb\\", 1, 4, "backslash"),
    (Format::Tsv, "a\\n\t\\xg0\n", 1, 5, "backslash"),
    (Format::DbDump, "", 1, 1, "the input ends inside the header"),
    (Format::DbDump, "VERSION=2\nformat=print\nHEADER=END\nDATA=END\n", 1, 1, "VERSION=3"),
    (Format::DbDump, "VERSION=3\nformat=base64\nHEADER=END\nDATA=END\n", 2, 8, "bytevalue"),
    (Format::DbDump, "VERSION=3\ntype=hash\nHEADER=END\nDATA=END\n", 4, 1, "format="),
    (Format::DbDump, "VERSION=3\nformat=print\ntype=queue\nHEADER=END\n", 3, 1, "-k"),
    (Format::DbDump, "VERSION=3\nformat=bytevalue\nHEADER=END\n 61\nDATA=END\n", 5, 1, "value"),
    (Format::DbDump, "VERSION=3\nformat=bytevalue\nHEADER=END\n 616\n 61\n", 4, 5, "digit"),
    (Format::DbDump, "VERSION=3\nformat=bytevalue\nHEADER=END\n61\n 61\n", 4, 1, "a blank"),
    (Format::DbDump, "VERSION=3\nformat=bytevalue\nHEADER=END\n 61\n 61", 5, 4, "DATA=END"),
    (Format::DbDump, "VERSION=3\nformat=print\nHEADER=END\nDATA=END\n\n", 5, 1, "header line"),
    (Format::DbDump, "VERSION=3\nformat=print\nHEADER=END\nDATA=ENDE\n", 4, 9, "'\\n'"),
    (Format::TdbDump, "\n", 1, 1, "'{'"),
    (Format::TdbDump, "{\nkey(1) = \"gh\"\n", 2, 11, "2 bytes, but 1"),
    (Format::TdbDump, "{\nkey(2) = \"a\\4\"\n", 2, 12, "\\5C"),
    (Format::TdbDump, "{\nkey(2) = \"ab\n", 2, 13, "quote"),
    (Format::TdbDump, "{\nkey(1) = \"a\"\nkey(1)", 3, 1, "'d'"),
    (Format::TdbDump, "{\nkey(65537) = \"a\"", 2, 5, "65536"),
    (Format::MdbmExport, "", 1, 1, "header"),
    (Format::MdbmExport, "VERSION=3\nformat=print\nHEADER=END\n", 1, 1, "db_dump"),
    (Format::MdbmExport, "format=bytevalue\nHEADER=END\n", 1, 8, "print"),
    (Format::MdbmExport, "format=print\nHEADER=END\n\nx\n", 3, 1, "empty key"),
    (Format::MdbmExport, "format=print\nHEADER=END\na\n", 4, 1, "in the value"),
    (Format::MdbmExport, "format=print\nHEADER=END\na\nb", 4, 2, "in the value"),
    (Format::MdbmExport, "format=print\nHEADER=END\na\\\nb\n", 3, 2, "backslash"),
    (Format::JsonLines, "[1]\n", 1, 1, "'{'"),
    (Format::JsonLines, "{\"key\":\"a\"}\n", 1, 1, "neither \"value\""),
    (Format::JsonLines, "\n {\"key\":\"a\",\"value\":1}\n", 2, 21, "invalid type"),
    (Format::JsonLines, "{\"key\":\"a\",\"key_base64\":\"\",\"value\":\"\"}", 1, 1, "both \"key\""),
    (Format::JsonLines, "{\"key\":\"a\",\"key\":\"b\",\"value\":\"\"}", 1, 16, "duplicate"),
    (Format::JsonLines, "{\"key\":\"a\",\"val\":\"b\"}", 1, 16, "unknown field"),
    (Format::JsonLines, "{\"key\":\"\\ud800\",\"value\":\"b\"}", 1, 15, "hex escape"),
    (Format::JsonLines, "{\"key\":\"a\",\"value_base64\":\"YQ\"}", 1, 1, "not base64"),
    (Format::JsonLines, "{\"key\":\"a\",\"value\":\"b\"} {}", 1, 25, "trailing"),
    (Format::JsonLines, " {\"key\":\"a\",\"value\":\"b\n", 1, 23, "EOF"),
    (Format::JsonLines, "{\"key\":\"a\",\"value\":\"b\"", 1, 23, "EOF"),
];

#[test]
fn each_kind_of_error_is_named_and_placed() {
    let mut wrong = Vec::new();
    for (format, text, line, column, part) in BAD {
        let (found_line, found_column, what) = error_of(*format, text.as_bytes());
        if (found_line, found_column) != (*line, *column) || !what.contains(part) {
            wrong.push(format!("{format} {text:?}: {found_line}:{found_column}: {what}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Where the reader says that the records of `text` begin, through a buffer of `buffer` bytes; of every record
/// it is asked, or of the last.
fn begins(format: Format, text: &[u8], buffer: usize, of_every: bool) -> Vec<(u64, u64)> {
    let input = BufReader::with_capacity(buffer, Cursor::new(text.to_vec()));
    let mut reader = reader(format, input);
    let (mut found, mut key, mut value) = (Vec::new(), Vec::new(), Vec::new());
    let records = read(format, text).len();
    for number in 1..=records {
        assert!(reader.next_record(&mut key, &mut value).unwrap());
        if !of_every && number < records {
            continue;
        }
        let error = reader.error_of_record("not wanted");
        match error.kind() {
            ErrorKind::Text { line, column, .. } => found.push((*line, *column)),
            other => panic!("{format}: {other:?}"),
        }
    }
    found
}

#[test]
fn a_record_that_is_not_wanted_is_placed_where_it_begins() {
    let place = |text: &[u8]| {
        let line = text.iter().filter(|byte| **byte == b'\n').count();
        let column = text.iter().rev().take_while(|byte| **byte != b'\n').count();
        (line as u64 + 1, column as u64 + 1)
    };
    for format in Format::ALL {
        let records = [sample(format), sample(format)].concat();
        let text = write(format, &records);
        let expected: Vec<(u64, u64)> = (0..records.len())
            .map(|n| {
                // What comes after the last record differs from the begin of one.
                let before = write(format, &records[..n].to_vec());
                let same = before.iter().zip(&text).take_while(|(one, other)| one == other);
                place(&text[..same.count()])
            })
            .collect();
        for buffer in [8192, 1, 7] {
            assert_eq!(begins(format, &text, buffer, true), expected, "{format}, {buffer}");
            let last = begins(format, &text, buffer, false);
            assert_eq!(last, expected[expected.len() - 1..], "{format}, {buffer}");
        }
    }
    for (format, text, place) in [
        (Format::Map, "# not a record\n\n  key value\n", (3, 3)),
        (Format::JsonLines, "\n \n {\"key\":\"a\",\"value\":\"b\"}\n", (3, 2)),
        (
            Format::DbDump,
            "VERSION=3\nformat=print\nHEADER=END\nDATA=END\nVERSION=3\nformat=print\nHEADER=END\n a\n b\nDATA=END\n",
            (8, 1),
        ),
    ] {
        assert_eq!(begins(format, text.as_bytes(), 8192, true), [place], "{format}");
    }
}

#[test]
fn a_byte_of_json_that_is_not_utf8_is_placed_where_it_is() {
    let (line, column, what) =
        error_of(Format::JsonLines, b"\n {\"key\":\"k\xc3\xa9\xffey\",\"value\":\"\"}\n");
    assert_eq!((line, column), (2, 13));
    assert!(what.contains("not UTF-8"), "{what}");
}

#[test]
fn lines_inside_binary_records_count() {
    let (line, column, _) = error_of(Format::CdbText, b"+3,4:a\nb->\n\nc\n\n+1,1:a>\n");
    assert_eq!((line, column), (6, 7));
    let (line, column, _) = error_of(Format::CdbText, b"+3,4:a\nb->\n\ncd\nx\n");
    assert_eq!((line, column), (5, 1));
}

#[test]
fn a_line_feed_at_the_end_may_be_missing_where_nothing_is_lost() {
    let one = |key: &str, value: &str| vec![(key.into(), value.into())];
    for (format, text, records) in [
        (Format::Tsv, "a\tb", one("a", "b")),
        (Format::Tsv, "a\t", one("a", "")),
        (Format::Map, "a b", one("a", "b")),
        (Format::Map, "a", one("a", "")),
        (Format::Map, "a b\n# end", one("a", "b")),
        (Format::Lines, "a", one("a", "")),
        (Format::Lines, "\n", one("", "")),
        (
            Format::DbDumpPrint,
            "VERSION=3\nformat=print\nHEADER=END\n a\n b\nDATA=END",
            one("a", "b"),
        ),
        (Format::TdbDump, "{\nkey(1) = \"a\"\ndata(1) = \"b\"\n}", one("a", "b")),
        (Format::JsonLines, "{\"key\":\"a\",\"value\":\"b\"}", one("a", "b")),
    ] {
        assert_eq!(read(format, text.as_bytes()), records, "{format}");
    }
}

#[test]
fn carriage_returns_are_line_ends_or_data_as_documented() {
    let record = |key: &str, value: &str| (key.into(), value.into());
    for (format, text, wanted) in [
        (Format::Tsv, "a\tb\r\n", record("a", "b")),
        (Format::Tsv, "a\tb\\r\r\n", record("a", "b\r")),
        (Format::Map, "a b\r\n", record("a", "b\r")),
        (Format::Lines, "a\r\n", record("a\r", "")),
        (
            Format::DbDump,
            "VERSION=3\r\nformat=bytevalue\r\nHEADER=END\r\n 61\r\n 62\r\nDATA=END\r\n",
            record("a", "b"),
        ),
        (
            Format::DbDumpPrint,
            "VERSION=3\r\nformat=print\r\nHEADER=END\r\n a\r\n b\r\nDATA=END\r\n",
            record("a", "b"),
        ),
        (Format::TdbDump, "{\r\nkey(1) = \"a\"\r\ndata(1) = \"b\"\r\n}\r\n", record("a", "b")),
        (Format::MdbmExport, "format=print\r\nHEADER=END\r\na\r\nb\r\n", record("a", "b")),
        (Format::JsonLines, "{\"key\":\"a\",\"value\":\"b\"}\r\n\r\n", record("a", "b")),
        (Format::CdbText, "+1,2:a->b\r\n\n", record("a", "b\r")),
    ] {
        assert_eq!(read(format, text.as_bytes()), [wanted], "{format}");
    }
}

#[test]
fn other_spellings_of_the_tools_are_read() {
    let record = |key: &str, value: &str| (key.into(), value.into());
    for (format, text, wanted) in [
        (Format::CdbText, "+001,0000000000001:a->b\n\n", record("a", "b")),
        (Format::Tsv, "a\tb\tc\n", record("a", "b\tc")),
        (Format::Map, " \t a\t \tb c \n", record("a", "b c ")),
        (
            Format::DbDump,
            "VERSION=3\nformat=bytevalue\ntype=recno\nkeys=1\nHEADER=END\n 4A\n 4b\nDATA=END\n",
            record("J", "K"),
        ),
        (Format::TdbDump, "{\nkey(2) = \"6162\"\ndata(1) = \"0A\"\n}\n", record("ab", "\n")),
        (
            Format::TdbDump,
            "{\nkey(4) = \"6162\"\ndata(2) = \"\\5c\\22\"\n}\n",
            record("6162", "\\\""),
        ),
        (
            Format::JsonLines,
            " { \"value_base64\" : \"/wA=\" , \"key\" : \"\\u00e9\" } ",
            ("é".into(), vec![255, 0]),
        ),
    ] {
        assert_eq!(read(format, text.as_bytes()), [wanted], "{format}");
    }
}

#[test]
fn every_truncation_is_an_error_or_a_prefix() {
    for format in Format::ALL {
        let records = sample(format);
        let text = write(format, &records);
        for len in 0..text.len() {
            let (found, error) = read_through(format, &text[..len], 64);
            let whole = found.len().min(records.len());
            let agrees = |n: usize| found[..n] == records[..n];
            // Without a trailer and without the last line feed, the last value may be cut.
            let may_cut = matches!(format, Format::Tsv | Format::Map | Format::Lines);
            let cut = may_cut && whole > 0 && agrees(whole - 1) && {
                let (found, wanted) = (&found[whole - 1], &records[whole - 1]);
                wanted.0.starts_with(&found.0) && wanted.1.starts_with(&found.1)
            };
            assert!(agrees(whole) || cut, "{format}, {len} bytes");
            if format == Format::CdbText {
                assert!(error.is_some(), "{format}, {len} bytes");
            }
            if matches!(format, Format::DbDump | Format::DbDumpPrint) {
                assert_eq!(error.is_some(), len < text.len() - 1, "{format}, {len} bytes");
            }
        }
    }
}

#[test]
fn any_byte_changed_gives_records_or_a_place() {
    for format in Format::ALL {
        let text = write(format, &sample(format));
        for at in 0..text.len() {
            for byte in [0, b'\n', b'"', b'\\', b'0', b' ', 0xff] {
                let mut text = text.clone();
                text[at] = byte;
                let (_, error) = read_through(format, &text, 5);
                if let Some(error) = error {
                    assert!(matches!(error.kind(), ErrorKind::Text { .. }), "{format}: {error}");
                }
            }
        }
    }
}

#[test]
fn an_endless_line_ends_in_an_error() {
    for format in Format::ALL {
        for byte in [b'a', b'+', b'1', b'\\', 0] {
            let endless = BufReader::new(io::repeat(byte));
            let result = reader(format, endless).next_record(&mut Vec::new(), &mut Vec::new());
            assert!(matches!(result.unwrap_err().kind(), ErrorKind::Text { .. }), "{format}");
        }
    }
}

#[test]
fn a_key_at_the_limit_is_read_and_one_byte_more_is_not() {
    for format in Format::ALL {
        for byte in [b'k', b'\\', 0xff] {
            let records = |len: usize| vec![(vec![byte; len], Vec::new())];
            let (fits, over) = (records(64 << 10), records((64 << 10) + 1));
            assert_eq!(read(format, &write(format, &fits)), fits, "{format}");
            let (_, _, what) = error_of(format, &write(format, &over));
            assert!(what.contains("65536"), "{format}: {what}");
        }
    }
}

/// Is interrupted before each byte, and fails in the end.
struct Troubled(Cursor<Vec<u8>>, bool);

impl Read for Troubled {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match self.0.fill_buf()?.is_empty() {
            true => Err(io::Error::other("the cable is out")),
            false => self.0.read(&mut buffer[..1]),
        }
    }
}

#[test]
fn interruptions_are_waited_out_and_failures_reported() -> Result<()> {
    for format in Format::ALL {
        let records = sample(format);
        let text = write(format, &records);
        let mut reader = reader(format, BufReader::new(Troubled(Cursor::new(text), false)));
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for record in &records {
            // The last record may end with the text, where the trouble begins.
            if record == &records[records.len() - 1] {
                break;
            }
            assert!(reader.next_record(&mut key, &mut value)?);
            assert_eq!((&key, &value), (&record.0, &record.1), "{format}");
        }
        let error = loop {
            match reader.next_record(&mut key, &mut value) {
                Ok(more) => assert!(more, "{format}: the failure was taken for the end"),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("the cable is out"), "{format}: {error}");
    }
    Ok(())
}
