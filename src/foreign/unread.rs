//! Files of stores that are not read in place: what wrote them, and how their records come into a store of this library.
//!
//! By their first bytes alone, and folders by the names of files in them. The commands were tried with what the stores' own
//! tools had written, with binary keys and values where the way is not `db_dump`'s; but NTDB's and MDBM's, whose tools Debian
//! does not have.
//!
//! Threads: functions of their arguments, and of the names in a folder, only.

use crate::bytes::le32;
use std::path::Path;

/// Writes what Tokyo Cabinet and Kyoto Cabinet print in hexadecimal as TSV.
const FROM_HEX: &str = r"sed -E 's/([0-9A-F]{2}) ?/\\x\1/g' | credenza load --from tsv STORE";

/// What a file is that begins so, as in "it is ...", and what makes a store of its records, if another store wrote it
/// that is known here and not read. The longest beginning looked at has 65 bytes, and each has one that is zero,
/// as text has none.
///
/// ```
/// let what = credenza::foreign::unread(b"TDB file\n\0\0").unwrap();
/// assert!(what.contains("tdbdump FILE | credenza load STORE"));
/// ```
pub fn unread(head: &[u8]) -> Option<String> {
    let (name, dump) = name_and_dump(head)?;
    Some(match dump {
        Some(dump) => {
            format!("a file of {name}: {dump} makes a store of its records")
        }
        None => format!(
            "a file of {name}: write its records as text, such as JSON lines, and `credenza load` makes a store of them"
        ),
    })
}

/// The same of a folder at `path` in which another store keeps its files, by their names.
pub fn unread_folder(path: &Path) -> Option<String> {
    let has = |name: &str| path.join(name).is_file();
    let of = |name: &str, dump: &str| Some(format!("a folder of {name}: {dump}"));
    if has("data.mdb") {
        return of("LMDB", &format!("{} makes a store of its records", lmdb("")));
    }
    if has("__db.001") || has("log.0000000001") {
        let dump = "`db_dump -h FOLDER FILE | credenza load STORE` makes a store of the records of a file in it";
        return of("Berkeley DB", dump);
    }
    None
}

/// The name of a store, and what makes a store of this library of its file.
fn name_and_dump(head: &[u8]) -> Option<(&'static str, Option<String>)> {
    if !head.contains(&0) {
        return None;
    }
    let begins = |with: &[u8]| head.starts_with(with);
    Some(if begins(b"TDB file\n") {
        ("TDB", Some(loaded("tdbdump")))
    } else if begins(b"NTDB file\n") {
        ("NTDB", Some(loaded("ntdbdump")))
    } else if begins(b"ToKyO CaBiNeT\n") {
        let tools = [(0, "tchmgr"), (1, "tcbmgr")];
        ("Tokyo Cabinet", by_kind(head.get(32), &tools))
    } else if begins(b"KC\n\0") {
        let tools = [(0x30, "kchashmgr"), (0x31, "kctreemgr")];
        ("Kyoto Cabinet", by_kind(head.get(8), &tools))
    } else if begins(b"TkrzwHDB\n") {
        // A tree is kept in the values of a hashed store, which has its mark.
        let is_tree = head.get(62..65) == Some(b"TDB");
        ("Tkrzw", Some(tkrzw(if is_tree { "tree" } else { "hash" })))
    } else if begins(b"TkrzwSDB\n") {
        ("Tkrzw", Some(tkrzw("skip")))
    } else if begins(b"SQLite format 3\0") {
        ("SQLite", None)
    } else {
        return of_numbers(head);
    })
}

/// What makes a store of a file that a tool writes as a text whose format is recognised.
fn loaded(tool: &str) -> String {
    format!("`{tool} FILE | credenza load STORE`")
}

/// What makes a store of LMDB's records.
fn lmdb(or_else: &str) -> String {
    format!(
        "`mdb_dump FOLDER | credenza load STORE`{or_else}, or of databases with names `mdb_dump -a FOLDER | credenza \
         convert --to btree - STORE`,"
    )
}

/// What makes a store of a file of Tokyo Cabinet or Kyoto Cabinet, of the kind that its byte says.
fn by_kind(kind: Option<&u8>, tools: &[(u8, &str)]) -> Option<String> {
    let (_, tool) = tools.iter().find(|(of, _)| kind == Some(of))?;
    Some(format!("`{tool} list -pv -px FILE | {FROM_HEX}`"))
}

/// The same of Tkrzw; without its kind the tool goes by how the file's name ends.
fn tkrzw(kind: &str) -> String {
    format!("`tkrzw_dbm_util list --dbm {kind} --escape FILE | credenza load --from tsv STORE`")
}

/// The same of those that begin with a number, in either order of bytes where the machine's is written.
fn of_numbers(head: &[u8]) -> Option<(&'static str, Option<String>)> {
    let is_at = |at, magics: &[u32]| {
        le32(head, at).is_some_and(|n| magics.contains(&n) || magics.contains(&n.swap_bytes()))
    };
    // Behind the page's log sequence number and its own number: hash, btree, queue and heap.
    if is_at(12, &[0x0006_1561, 0x0005_3162, 0x0004_2253, 0x0007_4582]) {
        return Some(("Berkeley DB", Some(loaded("db_dump"))));
    }
    // Behind the number and the flags of the first page. The tool takes the lock of the folder, which programs that write
    // look at, and says nothing where what it was not asked for has the records.
    if is_at(16, &[0xbeef_c0de]) {
        return Some(("LMDB", Some(lmdb(" (`-n FILE` if it was made without a folder)"))));
    }
    if is_at(0, &[0x1357_9ace, 0x1357_9acd, 0x1357_9acf, 0x1357_9ad0, 0x1357_9ad1]) {
        return Some(("GDBM", None));
    }
    if is_at(0, &[0x0102_3962, 0x0102_3963, 0x0102_3964]) {
        let dump = "`mdbm_export FILE | credenza load --from mdbm_export STORE`";
        return Some(("MDBM", Some(dump.into())));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_how_they_begin() {
        // Of files that the stores' tools made on a little-endian machine.
        let bdb = |magic: [u8; 4]| [&[0; 12][..], &magic].concat();
        let tokyo = |kind| [&b"ToKyO CaBiNeT\n1.0:911\n"[..], &[0; 10], &[kind, 0, 4, 10]].concat();
        let kyoto = |kind| [&b"KC\n\0\x10\x0e\x06\xbc"[..], &[kind, 3, 10, 0]].concat();
        let tkrzw = |mark: &[u8]| [&b"TkrzwHDB\n"[..], &[0; 53], mark].concat();
        let cases: [(Vec<u8>, &str); 17] = [
            (bdb([0x61, 0x15, 6, 0]), "`db_dump FILE | credenza load STORE`"),
            (bdb([0x62, 0x31, 5, 0]), "`db_dump FILE | credenza load STORE`"),
            (bdb([0, 5, 0x31, 0x62]), "`db_dump FILE | credenza load STORE`"),
            (
                [&[0; 16][..], &[0xde, 0xc0, 0xef, 0xbe]].concat(),
                "`mdb_dump FOLDER | credenza load STORE` (`-n FILE`",
            ),
            (b"TDB file\n\0\0".into(), "`tdbdump FILE | "),
            (b"NTDB file\n\0".into(), "`ntdbdump FILE | "),
            (tokyo(0), "`tchmgr list -pv -px FILE | sed "),
            (tokyo(1), "`tcbmgr list -pv -px FILE | sed "),
            (tokyo(2), "of Tokyo Cabinet: write its records as text"),
            (kyoto(0x30), "`kchashmgr list -pv -px FILE | sed "),
            (kyoto(0x31), "`kctreemgr list -pv -px FILE | sed "),
            (tkrzw(b"\0\0\0"), "`tkrzw_dbm_util list --dbm hash --escape FILE | "),
            (tkrzw(b"TDB"), "`tkrzw_dbm_util list --dbm tree --escape FILE | "),
            (b"TkrzwSDB\n\0".into(), "`tkrzw_dbm_util list --dbm skip --escape FILE | "),
            (b"SQLite format 3\0".into(), "of SQLite: write its records as text"),
            (vec![0xcf, 0x9a, 0x57, 0x13, 0, 0x10], "of GDBM: write its records as text"),
            (
                vec![0x64, 0x39, 2, 1, 0, 0, 0, 2],
                "`mdbm_export FILE | credenza load --from mdbm_export",
            ),
        ];
        for (head, wanted) in cases {
            let what = unread(&head).unwrap_or_default();
            assert!(what.contains(wanted), "{what:?} of {head:x?}");
        }
        assert_eq!(unread(b""), None);
        for text in [&b"key\tvalue\n"[..], b"TDB file\nand more\n", b"TkrzwHDB\n"] {
            assert_eq!(unread(text), None);
        }
    }
}
