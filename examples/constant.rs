//! A constant store from end to end: build, look up, replace while it is being read.
//!
//!     cargo run --example constant

use credenza::constant::{BuildOptions, Builder, Constant};
use credenza::{Get, Result, Scan};
use std::time::{SystemTime, UNIX_EPOCH};

fn main() -> Result<()> {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    let path = std::env::temp_dir().join(format!("colours-{nanos}.constant"));
    let done = tour(&path);
    let _ = std::fs::remove_file(&path);
    done
}

fn tour(path: &std::path::Path) -> Result<()> {
    // Any order, any sizes; nothing is to be seen at `path` until `finish` returns.
    let mut builder = Builder::create(path)?;
    builder.add(b"red", b"#ff0000")?;
    builder.add(b"green", b"#00ff00")?;
    builder.add(b"green", b"#008000")?;
    let stats = builder.finish()?;
    println!("built {} records in {} bytes", stats.records, stats.file_bytes);

    // A handle is cheap to clone and may be used by any number of threads.
    let mut colours = Constant::open(path)?;
    assert_eq!(colours.get(b"red")?.as_deref(), Some(&b"#ff0000"[..]));
    assert_eq!(colours.get(b"blue")?, None);
    // The values of a key come in the order in which they were added.
    assert_eq!(colours.get_all(b"green")?, [&b"#00ff00"[..], b"#008000"]);

    // Many keys at once: the waits for memory overlap.
    let keys = ["green", "blue", "red"];
    colours.get_many(&keys, |i, value| {
        let value = value.map_or("absent".into(), String::from_utf8_lossy);
        println!("{} is {value}", keys[i]);
    })?;

    // Replacing the file disturbs nobody: whoever has it open reads on in the old one...
    let mut builder = BuildOptions::new().memory_budget(64 << 20).create(path)?;
    for record in &colours {
        let (key, value) = record?;
        builder.add(&key, &value)?;
    }
    builder.add(b"blue", b"#0000ff")?;
    builder.finish()?;
    assert_eq!(colours.get(b"blue")?, None);
    // ...until it asks for the new one.
    assert!(colours.refresh()?);
    assert!(colours.contains_key(b"blue")?);

    colours.verify(|_, _| ())?;
    println!("every byte of {} records is as it was written", colours.len()?);
    Ok(())
}
