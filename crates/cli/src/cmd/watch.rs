//! `credenza watch`: the changes of a store, as they happen.

use crate::args::{exit_status, seconds, unchanging};
use crate::exit::Status;
use crate::json;
use crate::output::Output;
use crate::way;
use clap::Args;
use credenza::btree::BTree;
use credenza::hash::Hash;
use credenza::{Error, ErrorKind, Result, Store};
use std::fs::metadata;
use std::io::{ErrorKind as IoKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Print a line whenever a hash or btree store has changed, by whomever.
///
/// The line is the number of changes ever made to the store, of a btree store that of commits, as in
/// 'stat'; changes that come faster than they are printed share a line. Moving records when cleaning
/// up counts as a change, too. That the store's file was removed, or another put in its place, is an error:
/// nobody else will change what is watched.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza watch users | while read -r change; do make report; done\n  \
       credenza watch users --count 1 --timeout 60 || echo 'nothing happened'\n  \
       seen=$(credenza stat users --json | jq .changes)\n  \
       credenza watch users --since \"$seen\"       no change since then is missed\n  \
       seen=$(credenza stat events --json | jq .commits)       of a btree store\n",
    exit_status!("  100  --timeout passed before --count changes (without it: any) were seen\n")
))]
pub struct Watch {
    /// The store to watch
    #[arg(value_name = "FILE")]
    store: PathBuf,

    /// Print a line at once if the number of changes is not this one [default: what it is now]
    #[arg(long, value_name = "NUMBER")]
    since: Option<u64>,

    /// End after this many lines
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<u64>,

    /// End after so many seconds, such as 2.5
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

/// A store that wakes who waits for its changes.
enum Watched {
    Hash(Hash),
    BTree(BTree),
}

impl Watched {
    fn changes(&self) -> u64 {
        match self {
            Watched::Hash(store) => store.changes(),
            Watched::BTree(store) => store.changes(),
        }
    }

    fn wait_for_change(&self, since: u64, timeout: Duration) -> Result<u64> {
        match self {
            Watched::Hash(store) => store.wait_for_change(since, timeout),
            Watched::BTree(store) => store.wait_for_change(since, timeout),
        }
    }
}

/// How long at most nobody looks whether the file is still there.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The file that a path leads to, by which it is seen that it leads to another one or none.
struct Place<'p> {
    path: &'p Path,
    file: (u64, u64),
    looked: Instant,
}

impl Place<'_> {
    fn of(path: &Path) -> Result<Place<'_>> {
        Ok(Place { path, file: Self::file_at(path)?, looked: Instant::now() })
    }

    fn file_at(path: &Path) -> Result<(u64, u64)> {
        let meta = metadata(path).map_err(|e| Error::io("look for", e).at(path))?;
        Ok((meta.dev(), meta.ino()))
    }

    /// An error if another file is there now, or none; after a while, as looking costs a call.
    fn check(&mut self) -> Result<()> {
        if self.looked.elapsed() < LOOK_AGAIN {
            return Ok(());
        }
        self.looked = Instant::now();
        let what = match Self::file_at(self.path) {
            Ok(file) if file == self.file => return Ok(()),
            Ok(_) => "another file is in the place of the store that was watched: watch it anew",
            Err(e) if is_absent(&e) => "the store was removed: nothing is left to watch",
            Err(e) => return Err(e),
        };
        Err(Error::invalid(what).at(self.path))
    }
}

fn is_absent(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io { source, .. } if source.kind() == IoKind::NotFound)
}

/// Runs the command.
pub fn run(args: &Watch) -> Result<Status> {
    // Before it is opened: what takes its place meanwhile is not what is watched.
    let place = Place::of(&args.store);
    let store = match way::noting(&args.store, || credenza::open(&args.store))? {
        Store::Hash(store) => Watched::Hash(store),
        Store::BTree(store) => Watched::BTree(store),
        other => {
            return Err(unchanging(other.kind(), "another file takes its place").at(&args.store));
        }
    };
    // What opening says of a store that is not there helps more.
    let mut place = place?;
    let mut out = Output::stdout()?;
    let mut known = args.since.unwrap_or_else(|| store.changes());
    let end = args.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let wanted = args.count.unwrap_or(u64::MAX);
    let mut seen = 0;
    while seen < wanted {
        place.check()?;
        let now = Instant::now();
        let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(now));
        let while_unseen = left.min(LOOK_AGAIN);
        let changes = store.wait_for_change(known, while_unseen)?;
        if changes == known {
            // The time is over, or this is a store that is not waited for.
            if while_unseen == left || now.elapsed() < while_unseen {
                break;
            }
            continue;
        }
        known = changes;
        seen += 1;
        out.put(line(args, changes).as_bytes())?;
        out.flush().map_err(|e| Error::io("write", e).at(out.name()))?;
    }
    let is_enough = seen >= args.count.unwrap_or(1);
    Ok(if is_enough { Status::Done } else { Status::NotFound })
}

fn line(args: &Watch, changes: u64) -> String {
    if args.json {
        let changes = serde_json::json!({ "changes": changes });
        return json::line(&json::with_paths([("store", &args.store)], changes));
    }
    format!("{changes}\n")
}
