//! Danger: a record changes on its way into a text and out of it.

mod common;

use common::{Records, Rng, read, read_through};
use credenza_formats::{Format, writer};

const ROUNDS: u64 = 100;

/// Writes what the format takes of random records; the text and the records it took.
fn random_text(format: Format, rng: &mut Rng) -> (Vec<u8>, Records) {
    let mut text = Vec::new();
    let mut taken = Vec::new();
    let mut writer = writer(format, &mut text);
    for _ in 0..rng.below(150) {
        let longest = [0, 3, 40, 600][rng.below(4) as usize];
        let key = rng.bytes(longest);
        let longest =
            if format == Format::Lines { 0 } else { [0, 3, 40, 2000][rng.below(4) as usize] };
        let value = rng.bytes(longest);
        match writer.write(&key, &value) {
            Ok(()) => taken.push((key, value)),
            Err(error) => {
                let may = matches!(format, Format::Map | Format::Lines | Format::MdbmExport);
                assert!(may, "{format}: {error}");
            }
        }
    }
    writer.finish().unwrap();
    (text, taken)
}

#[test]
fn random_records_come_back() {
    for format in Format::ALL {
        let mut count = 0;
        for round in 0..ROUNDS {
            let mut rng = Rng::new(round + 1);
            let (text, records) = random_text(format, &mut rng);
            count += records.len();
            for buffer in [1 + round as usize, 8192] {
                let (found, error) = read_through(format, &text, buffer);
                assert!(error.is_none(), "{format}: {}", error.unwrap());
                assert_eq!(found, records, "{format}, a buffer of {buffer} bytes");
            }
        }
        assert!(count > 1000, "{format} took only {count} records");
    }
}

#[test]
fn the_longest_keys_and_long_values_come_back() {
    let key: Vec<u8> = (0..64 << 10).map(|i| b'!' + (i % 2) as u8 * 59).collect();
    let value: Vec<u8> = (0..1 << 20).map(|i| b'!' + (i % 3) as u8 * 59).collect();
    for format in Format::ALL {
        let value = if format == Format::Lines { Vec::new() } else { value.clone() };
        let records = vec![(key.clone(), value)];
        assert_eq!(read(format, &common::write(format, &records)), records, "{format}");
    }
}

#[test]
fn no_records_is_a_whole_text() {
    for format in Format::ALL {
        assert_eq!(read(format, &common::write(format, &Vec::new())), Vec::new(), "{format}");
    }
}

#[test]
fn what_a_format_cannot_hold_is_refused_by_name() {
    let cases: [(Format, &[u8], &[u8], &str); 10] = [
        (Format::Lines, b"k", b"v", "has a value"),
        (Format::Lines, b"k\nl", b"", "line feed"),
        (Format::Map, b"", b"v", "empty"),
        (Format::Map, b"#k", b"v", "'#'"),
        (Format::Map, b"k k", b"v", "blank"),
        (Format::Map, b"k\tk", b"v", "blank"),
        (Format::Map, b"k", b" v", "blank"),
        (Format::Map, b"k", b"\tv", "blank"),
        (Format::Map, b"k", b"v\nw", "line feed"),
        (Format::MdbmExport, b"", b"v", "empty"),
    ];
    for (format, key, value, why) in cases {
        let mut text = Vec::new();
        let mut writer = writer(format, &mut text);
        let first = if format == Format::Lines { &b""[..] } else { b"first" };
        writer.write(b"good", first).unwrap();
        let message = writer.write(key, value).unwrap_err().to_string();
        let name = format!("'{}'", key.escape_ascii());
        assert!(message.contains(why) && message.contains(&name), "{message}");
        writer.write(b"better", first).unwrap();
        writer.finish().unwrap();
        let records = [(b"good".to_vec(), first.to_vec()), (b"better".to_vec(), first.to_vec())];
        assert_eq!(read(format, &text), records, "a refused record must leave no trace");
    }
}

#[test]
fn a_refused_long_key_is_cut_in_the_message() {
    let message =
        writer(Format::Map, Vec::new()).write(&[b' '; 5000], b"").unwrap_err().to_string();
    assert!(message.len() < 300 && message.contains("..."), "{message}");
}
