//! The signal of who changes a page through a map, and there is no room for it.
//!
//! It is handled as long as the process lives, as others may have put their handlers before this one meanwhile. What
//! is not for maps that room is kept for goes on to whoever handled it before.
//!
//! Threads: any, each for itself; everything here is called in the handler, but for [`handle`].

#![allow(unsafe_code)]

use super::SLOTS;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

/// What was done with the signal before: its handler, and the flags of that.
static BEFORE: (AtomicUsize, AtomicI32) = (AtomicUsize::new(libc::SIG_DFL), AtomicI32::new(0));
static IS_HANDLED: AtomicBool = AtomicBool::new(false);

/// Has the signal handled from now on. A `OnceLock` would be waited for for ever by whoever is forked while another thread is
/// at it: here both do the same.
pub(super) fn handle() {
    if IS_HANDLED.load(Ordering::Acquire) {
        return;
    }
    let own = on_signal as *const () as usize;
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: what is there is written to a place for it.
    let before = unsafe {
        libc::sigaction(libc::SIGBUS, std::ptr::null(), before.as_mut_ptr());
        before.assume_init()
    };
    if before.sa_sigaction != own {
        // Before the handler may be called.
        BEFORE.0.store(before.sa_sigaction, Ordering::Release);
        BEFORE.1.store(before.sa_flags, Ordering::Release);
        // SAFETY: all of it is zero but for what is set: no signal is blocked meanwhile. The handler is of the type that the
        // flags say, and calls nothing that a handler may not.
        unsafe {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            action.sa_sigaction = own;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
        }
    }
    IS_HANDLED.store(true, Ordering::Release);
}

/// Gives room up. Whoever returns from here does again what he could not do.
extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the place of this thread's number of its last error, which calls below change.
    let (place, error) = unsafe {
        let place = libc::__errno_location();
        (place, *place)
    };
    // SAFETY: the kernel gives what tells of the signal, with where the memory is that could not be had.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // Neither one that a process sent, which has no address, nor one of broken memory, for which no room helps.
    let is_done = code == libc::BUS_ADRERR
        && SLOTS.iter().any(|slot| slot.is_at(address) && slot.give_up(address));
    if !is_done {
        as_before(signal, info, context);
    }
    // SAFETY: as above.
    unsafe { *place = error };
}

/// Does what was done with the signal before there was room to give up.
fn as_before(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let (before, flags) = (BEFORE.0.load(Ordering::Acquire), BEFORE.1.load(Ordering::Acquire));
    // SAFETY: as in `on_signal`.
    let code = unsafe { (*info).si_code };
    // What a process sent, with a number that is not positive, does not come again by itself, nor does word of broken memory
    // that nobody has asked for yet.
    let is_sent = code <= 0 || code == libc::BUS_MCEERR_AO;
    match before {
        libc::SIG_IGN if is_sent => {}
        // SAFETY: it comes again at once, as what raised it is done again, and then ends the process.
        libc::SIG_DFL | libc::SIG_IGN => unsafe {
            libc::signal(signal, libc::SIG_DFL);
            if is_sent {
                libc::raise(signal);
            }
        },
        handler if flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: a handler of three arguments, as its flags say, called as the kernel would.
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: a handler of one argument, as its flags say.
            let handler: extern "C" fn(i32) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}
