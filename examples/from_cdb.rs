//! From a cdb file to a constant store, and back for whoever still has the cdb tools.
//!
//!     cargo run --example from_cdb [FILE.cdb]

use credenza::constant::{Builder, Constant};
use credenza::foreign::{Cdb, CdbWriter};
use credenza::{Get, Result, Scan};
use std::path::Path;

fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("from-cdb-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| credenza::Error::io("make", e).at(&folder))?;
    let cdb = folder.join("ports.cdb");
    let done = match std::env::args_os().nth(1) {
        Some(given) => round_trip(Path::new(&given), &folder),
        None => make_one(&cdb).and_then(|()| round_trip(&cdb, &folder)),
    };
    let _ = std::fs::remove_dir_all(&folder);
    done
}

/// A small cdb file, as `cdb -c` would write it.
fn make_one(path: &Path) -> Result<()> {
    let mut writer = CdbWriter::create(path)?;
    for (name, port) in [("ssh", "22"), ("http", "80"), ("http", "8080"), ("https", "443")] {
        writer.add(name.as_bytes(), port.as_bytes())?;
    }
    writer.finish()
}

fn round_trip(cdb: &Path, folder: &Path) -> Result<()> {
    // The same two traits read every kind of file, and the formats that are not ours in place.
    let old = Cdb::open(cdb)?;
    let store = folder.join("ports.constant");
    let mut builder = Builder::create(&store)?;
    old.scan(|key, value| builder.add(key, value))?;
    let stats = builder.finish()?;
    println!("{}: {} records, {} bytes", cdb.display(), stats.records, stats.file_bytes);

    // Every answer of the new store is the old one's, duplicates in their order included.
    let new = Constant::open(&store)?;
    old.scan(|key, _| {
        assert_eq!(new.get_all(key)?, old.get_all(key)?);
        Ok(())
    })?;

    let mut back = CdbWriter::create(folder.join("back.cdb"))?;
    new.scan(|key, value| back.add(key, value))?;
    back.finish()?;
    println!("back.cdb has {} records", Cdb::open(folder.join("back.cdb"))?.len()?);
    Ok(())
}
