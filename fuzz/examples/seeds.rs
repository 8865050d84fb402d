//! Writes inputs to begin with to `corpus/TARGET`: `cargo run --example seeds`, in this folder.

use credenza::Result;
use credenza::foreign::{Cdb64Writer, CdbWriter, McdbWriter};
use credenza_formats::Format;
use credenza_fuzz::{Records, constant, write};
use std::fs;
use std::path::{Path, PathBuf};

fn main() -> Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let folder = |target: &str| {
        let folder = corpus.join(target);
        fs::create_dir_all(&folder).expect("cannot create the corpus");
        folder
    };
    for format in Format::ALL {
        let target = match format {
            Format::DbDumpPrint => Format::DbDump,
            format => format,
        };
        let folder = folder(&format!("text_{target}"));
        for (i, records) in texts(format).iter().enumerate() {
            save(&folder.join(format!("seed-{format}-{i}")), &write(format, records));
        }
        fixtures(format, &folder);
    }
    // Calls of the first slot, and the bucket of 16 ns, in words of a place and a value.
    save(&folder("stats_file").join("seed-0"), &[0, 2, 8, 0, 0, 0, 0, 0, 9, 0, 0]);
    save(&folder("stats_file").join("seed-1"), &[0, 4, 16, 0, 0, 0, 0, 0, 0, 0, 9]);
    // A block with a store, and one with two entries about it.
    let store = [0, 1, 8, 1, 4, b'h', b'a', b's', b'h', 1, b'/', 0];
    let entries = [1, 2, 12, 0, 0, 1, 2, b'k', 3, 0x25, 2, 1, 2, b'k', 3, 0];
    save(&folder("trace_file").join("seed-0"), &[&store[..], &entries].concat());
    save(&folder("trace_file").join("seed-1"), &entries);
    for (i, (file, records)) in constant::SAMPLES.iter().enumerate() {
        save(&folder("constant_view").join(format!("seed-{i}")), file);
        save(&folder("constant_mutated").join(format!("seed-{i}")), &[i as u8, 7, 0, 0, 0]);
        let small: Records = records.iter().take(30).cloned().collect();
        foreign(&folder("cdb").join(format!("seed-{i}")), &small, 0)?;
        foreign(&folder("cdb64").join(format!("seed-{i}")), &small, 1)?;
        foreign(&folder("mcdb").join(format!("seed-{i}")), &small, 2)?;
    }
    for i in 0..8u8 {
        save(&folder("btree_files").join(format!("seed-{i}")), &[i % 4, i / 2, 0, 48, 9, 1, i]);
        let operations: Vec<u8> =
            (0..400u32).map(|n| (n * n * 11 + n * (u32::from(i) + 3)) as u8).collect();
        save(&folder("btree_operations").join(format!("seed-{i}")), &operations);
    }
    let scratch = tempfile::tempdir().expect("a folder");
    for (i, files) in credenza_fuzz::hash::samples(scratch.path()).iter().enumerate() {
        save(&folder("hash_files").join(format!("seed-{i}")), files);
        let operations: Vec<u8> =
            (0..120u32).map(|n| (n * n * 7 + n * (i as u32 + 3)) as u8).collect();
        save(&folder("hash_operations").join(format!("seed-{i}")), &operations);
    }
    Ok(())
}

fn save(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("cannot write a seed");
}

fn foreign(path: &Path, records: &Records, kind: u32) -> Result<()> {
    macro_rules! build {
        ($writer:ty) => {{
            let mut writer = <$writer>::create(path)?;
            for (key, value) in records {
                writer.add(key, value)?;
            }
            writer.finish().map(drop)
        }};
    }
    match kind {
        0 => build!(CdbWriter),
        1 => build!(Cdb64Writer),
        _ => build!(McdbWriter),
    }
}

/// Records that this format can express.
fn texts(format: Format) -> [Records; 2] {
    let plain = [("one", "1"), ("two", "second value"), ("two", "zwei")];
    let value = |value: &str| if format == Format::Lines { Vec::new() } else { value.into() };
    let plain = plain.map(|(key, v)| (key.into(), value(v))).to_vec();
    let binary = b"\xff\x00\n\r\t\\\"#".to_vec();
    let special = match format {
        Format::Map => vec![("\\\"".into(), "# \r".into())],
        Format::Lines => vec![("a\r\\\t".into(), Vec::new())],
        _ => vec![(binary.clone(), binary), ("empty".into(), Vec::new())],
    };
    [plain, special]
}

/// The samples of the real tools.
fn fixtures(format: Format, folder: &Path) {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/formats/tests/fixtures");
    let entries = fs::read_dir(samples).expect("the samples are in the repository");
    let paths: Vec<PathBuf> = entries.map(|e| e.expect("a sample").path()).collect();
    for path in paths {
        let text = fs::read(&path).expect("a sample");
        if Format::guess(&text, Some(&path)) == Some(format) {
            save(&folder.join(path.file_name().expect("a sample has a name")), &text);
        }
    }
}
