//! Whose the locks in a file are: which boot of the machine they were made in, by programs of which
//! layout, in which namespaces of processes and of time.
//!
//! Four words of a file say it. Where the boot is another, nothing that processes shared counts any
//! more, and whoever opens the file makes it anew; what is written last are these words. But if somebody
//! has it open, it is not the machine that was started: some containers tell of a boot of their own. Whoever
//! opens it while nobody else has it open ([`Standing::Left`]) makes the locks anew: none can be held.
//! Without that a copy of a store in use, of which a process of this machine seems to have the lock,
//! would be waited for until that ends, and a store of one container be closed to all others.

use super::lock::LAYOUT;
use super::opening::{Opening, holds_soon};
use super::process::{BOOT_ID, boot_and_namespace};
use super::shared::{HEAD_BYTES, SharedMap};
use crate::os::atomic::{AtomicU64, Ordering};
use crate::{Error, ErrorKind, Result};
use std::fs::File;
use std::io;

/// How things stand with what processes share in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The machine was started since: nothing of it counts.
    Over,
    /// Who shared it is gone, killed or not; or this file is a copy of one that is in use. What was
    /// done counts; who has locks, or reads, does not.
    Left,
    /// Others share it now.
    Shared,
}

/// Those words: the boot, low half first, the layout, and the namespaces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session<'m>([&'m AtomicU64; 4]);

impl<'m> Session<'m> {
    /// That of a file whose words are at `offset`, within its head.
    pub(crate) fn at(map: &'m SharedMap, offset: u64) -> Session<'m> {
        debug_assert!(offset + 32 <= HEAD_BYTES);
        Session(std::array::from_fn(|i| &map.head()[offset as usize / 8 + i]))
    }

    /// What is to be done with what processes share in it, by one who wants to take part, and is opening the
    /// store.
    ///
    /// # Errors
    /// Others take part that this process cannot share locks with; or nobody can tell which boot it is.
    pub(crate) fn standing(self, opening: &Opening<'_>) -> Result<Standing> {
        let [low, high, layout, of_whom] = self.0.map(|word| word.load(Ordering::Acquire));
        let (boot, namespace) = boot_and_namespace();
        let refuse = |what: &str| Err(Error::new(ErrorKind::Unsupported(what.into())));
        if boot == 0 {
            // One who has no descriptor left can be helped.
            match File::open(BOOT_ID) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io("ask which boot of the machine this is", e));
                }
                _ => {}
            }
            return refuse(
                "there is no /proc/sys/kernel/random/boot_id, so that a power failure could not be told from a \
                 process that died: mount /proc, or open the store before the process has another root \
                 (chroot)",
            );
        }
        let is_over = u128::from(low) | u128::from(high) << 64 != boot;
        let alone = if is_over { Standing::Over } else { Standing::Left };
        if opening.is_alone()? {
            return Ok(alone);
        }
        let what = if is_over {
            "the store is in use by a process that is told of another boot of the machine (another container): close it there"
        } else if layout != LAYOUT {
            "the store is in use by a program with another C library or word size: close it there"
        } else if of_whom != namespace {
            "the store is in use in another process or time namespace (another container): its \
             processes cannot be told from dead ones"
        } else {
            return Ok(Standing::Shared);
        };
        if holds_soon(|| opening.is_alone())? { Ok(alone) } else { refuse(what) }
    }

    /// Whether it began since the machine was started, whoever takes part, as far as anybody can tell.
    pub(crate) fn is_of_this_boot(self) -> bool {
        let [low, high, ..] = self.0.map(|word| u128::from(word.load(Ordering::Acquire)));
        let (boot, _) = boot_and_namespace();
        boot != 0 && low | high << 64 == boot
    }

    /// Says that it began in this boot: when all that processes share is made.
    pub(crate) fn begin(self) {
        let (boot, namespace) = boot_and_namespace();
        let [low, high, layout, of_whom] = self.0;
        layout.store(LAYOUT, Ordering::Release);
        of_whom.store(namespace, Ordering::Release);
        low.store(boot as u64, Ordering::Release);
        high.store((boot >> 64) as u64, Ordering::Release);
    }
}
