//! What the machine is, and the state it is in: read from `/proc` and `/sys`.
//!
//! Whatever the kernel does not tell stays empty or zero: the report then says nothing of it.

use crate::driver::kernel;
use crate::report::text::binary_bytes;
use crate::result::{Cache, Machine};
use credenza::{Error, Result};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The facts of this machine, for stores in `dir`; measured processes run on `cpu`.
pub(crate) fn facts(dir: &Path, cpu: Option<usize>, clock_ns: f64) -> Machine {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let huge = |file: &str| chosen(&text(&format!("/sys/kernel/mm/transparent_hugepage/{file}")));
    Machine {
        cpu: field(&text("/proc/cpuinfo"), "model name").unwrap_or_default(),
        cores: kernel::allowed_cpus().len(),
        caches: caches(cpu.unwrap_or(0)),
        memory_bytes: memory_bytes(),
        kernel: format!(
            "{} {}",
            text("/proc/sys/kernel/ostype").trim(),
            text("/proc/sys/kernel/osrelease").trim()
        ),
        os: os_name(),
        filesystem: filesystem_of(dir),
        transparent_huge_pages: format!("{}, {}", huge("enabled"), huge("shmem_enabled")),
        governor: text(&format!(
            "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor",
            cpu.unwrap_or(0)
        ))
        .trim()
        .to_owned(),
        load_average: load_average(),
        clock_ns,
        started_unix: since_1970.as_secs(),
        program: program(cfg!(debug_assertions)),
    }
}

/// What a program that was built without `--release` says of itself behind its version.
const UNOPTIMISED: &str = ", without optimisation";

fn program(is_debug: bool) -> String {
    format!("credenza {}{}", env!("CARGO_PKG_VERSION"), if is_debug { UNOPTIMISED } else { "" })
}

/// Our engines are part of the program, rivals mostly are libraries that somebody else has
/// optimised: beside these ours are measured far too slow where the program is not.
pub(crate) fn about_program(machine: &Machine) -> Option<String> {
    machine.program.ends_with(UNOPTIMISED).then(|| {
        "this program was built without optimisation: what is part of it, as constant, hash, btree \
         and redb, is many times slower than in one built with --release"
            .to_owned()
    })
}

/// The machine's memory in bytes.
pub(crate) fn memory_bytes() -> u64 {
    kib_field("/proc/meminfo", "MemTotal")
}

/// Refuses to make more data where memory is running out: the kernel would end this program, or another.
pub(crate) fn check_memory_is_left() -> Result<()> {
    let [all, left] = ["MemTotal", "MemAvailable"].map(|name| kib_field("/proc/meminfo", name));
    if left == 0 || left >= all / 20 {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "of {} of memory {} are left while the data are made: use fewer --records, or --gets",
        binary_bytes(all),
        binary_bytes(left)
    )))
}

/// Bytes that are free in the filesystem that holds `path`; 0 if unknown.
pub(crate) fn free_bytes(path: &Path) -> u64 {
    kernel::free_bytes(path).unwrap_or(0)
}

/// Whether both are on one filesystem; false if that of either is unknown.
pub(crate) fn are_on_one_filesystem(one: &Path, other: &Path) -> bool {
    let device = |path: &Path| path.metadata().ok().map(|facts| facts.dev());
    device(one).is_some_and(|of_one| device(other) == Some(of_one))
}

/// The folder for stores where none is named: in memory, if there is one.
pub(crate) fn usual_folder() -> PathBuf {
    let shared_memory = Path::new("/dev/shm");
    let is_in_memory = filesystem_of(shared_memory) == "tmpfs";
    if is_in_memory { shared_memory.to_owned() } else { std::env::temp_dir() }
}

/// The type of the filesystem that holds `path`: "tmpfs", "ext4"; empty if unknown.
pub(crate) fn filesystem_of(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let holders = mounts().into_iter().filter(|(point, _)| path.starts_with(point));
    // The longest mount point wins, and of equal ones the last: it covers those before.
    let last = holders.max_by_key(|(point, _)| point.as_os_str().as_bytes().len());
    last.map_or_else(String::new, |(_, kind)| kind)
}

/// Where filesystems of this type are mounted.
pub(crate) fn mounts_of(kind: &str) -> Vec<PathBuf> {
    let of_kind = mounts().into_iter().filter(|(_, of)| of == kind);
    of_kind.map(|(point, _)| point).collect()
}

/// Every mount point, with the type of what is mounted there.
fn mounts() -> Vec<(PathBuf, String)> {
    let of_line = |line: &str| {
        let (mount, kind) = line.split_once(" - ")?;
        let point = PathBuf::from(unescaped(mount.split(' ').nth(4)?));
        Some((point, kind.split(' ').next()?.to_owned()))
    };
    text("/proc/self/mountinfo").lines().filter_map(of_line).collect()
}

/// Whether memory can go to a disk.
pub(crate) fn has_swap() -> bool {
    text("/proc/swaps").lines().count() > 1
}

/// Mount points write a space as `\040`.
fn unescaped(point: &str) -> String {
    point.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

/// The most memory this process had resident since [`reset_peak`], in bytes.
pub(crate) fn peak_rss_bytes() -> u64 {
    kib_field("/proc/self/status", "VmHWM")
}

/// The memory this process has resident, in bytes.
pub(crate) fn rss_bytes() -> u64 {
    kib_field("/proc/self/status", "VmRSS")
}

/// What this process has read and written so far.
pub(crate) struct Io {
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) disk_read_bytes: u64,
    pub(crate) disk_written_bytes: u64,
    /// What asking took, which the next answer counts as read.
    pub(crate) asking_bytes: u64,
}

impl Io {
    pub(crate) fn so_far() -> Io {
        let text = text("/proc/self/io");
        let number =
            |name: &str| field(&text, name).and_then(|value| value.parse().ok()).unwrap_or(0);
        Io {
            read_bytes: number("rchar"),
            written_bytes: number("wchar"),
            disk_read_bytes: number("read_bytes"),
            disk_written_bytes: number("write_bytes"),
            asking_bytes: text.len() as u64,
        }
    }
}

/// Lets the peak start again from what is resident; says whether the kernel did so.
pub(crate) fn reset_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The value of the first line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let of_line = |line: &str| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    };
    text.lines().find_map(of_line)
}

fn kib_field(path: &str, name: &str) -> u64 {
    let value = field(&text(path), name).unwrap_or_default();
    value.split(' ').next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// The word in brackets: `always [madvise] never`.
fn chosen(text: &str) -> String {
    let word = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    word.map_or_else(String::new, |(word, _)| word.to_owned())
}

fn os_name() -> String {
    let release = text("/etc/os-release");
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or_default().trim_matches('"').to_owned()
}

fn load_average() -> [f64; 3] {
    let text = text("/proc/loadavg");
    let mut numbers = text.split(' ').map_while(|word| word.parse().ok());
    std::array::from_fn(|_| numbers.next().unwrap_or(0.0))
}

fn caches(cpu: usize) -> Vec<Cache> {
    let of_index = |index: usize| {
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
        let fact = |name: &str| text(&format!("{folder}/{name}")).trim().to_owned();
        let kib: u64 = fact("size").strip_suffix('K')?.parse().ok()?;
        Some(Cache { level: fact("level").parse().ok()?, kind: fact("type"), bytes: kib * 1024 })
    };
    (0..).map_while(of_index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Danger: our engines beside rivals that are optimised, and figures that are none of theirs.
    #[test]
    fn a_program_without_optimisation_says_so() {
        let of = |is_debug| Machine { program: program(is_debug), ..Machine::default() };
        assert_eq!(about_program(&of(false)), None);
        assert!(about_program(&of(true)).unwrap().contains("without optimisation"));
    }

    #[test]
    fn facts_are_read() {
        assert!(memory_bytes() > 1 << 20);
        assert!(rss_bytes() > 1 << 16);
        assert!(peak_rss_bytes() >= rss_bytes() / 2);
        assert_eq!(filesystem_of(Path::new("/proc/self")), "proc");
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(field("a\t: b\nc: d e", "c").as_deref(), Some("d e"));
        assert_eq!(unescaped("/mnt/a\\040b"), "/mnt/a b");
    }
}
