//! PCMs in a forked process, where nothing plays or records. ALSA often answers from its own state without asking us,
//! so a fork finds its PCMs disconnected, as if a card had been pulled out.

use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use alsa_sys::SND_PCM_STATE_DISCONNECTED;
use tautline_io::socket::forks::at_forks;

use crate::ffi::Ioplug;

/// PCMs that are known. Of what is opened beyond them a fork learns at its first call.
const MOST: usize = 256;

static OPEN: [AtomicPtr<Ioplug>; MOST] = [const { AtomicPtr::new(null_mut()) }; MOST];

/// From now on a fork of this process finds its PCMs disconnected. We are never unloaded.
pub(crate) fn watch() -> std::io::Result<()> {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    // SAFETY: the handler does what a signal's handler may, and stays.
    unsafe { at_forks(&WATCHED, leave) }
}

extern "C" fn leave() {
    for known in &OPEN {
        let io = known.swap(null_mut(), Ordering::Acquire);
        if !io.is_null() {
            // SAFETY: it was forgotten before it was freed, and no other thread is there.
            unsafe { disconnect(io) };
        }
    }
}

/// ALSA answers `ENODEV` from now on, wherever it looks at the state.
///
/// # Safety
/// `io` is a PCM of ALSA's that lives.
pub(crate) unsafe fn disconnect(io: *mut Ioplug) {
    // SAFETY: the caller vouches that the PCM lives, and of the threads that use it only this one does
    // so now: in a fork no other is there, in a callback ALSA holds its lock.
    // `snd_pcm_ioplug_set_state` does the same; a fork's handler calls nobody.
    unsafe { (&raw mut (*io).state).write_volatile(SND_PCM_STATE_DISCONNECTED as c_int) };
}

pub(crate) fn remember(io: *mut Ioplug) {
    let free = |known: &&AtomicPtr<Ioplug>| {
        known.compare_exchange(null_mut(), io, Ordering::Release, Ordering::Relaxed).is_ok()
    };
    let _ = OPEN.iter().find(free);
}

pub(crate) fn forget(io: *mut Ioplug) {
    let known = |known: &&AtomicPtr<Ioplug>| {
        known.compare_exchange(io, null_mut(), Ordering::Release, Ordering::Relaxed).is_ok()
    };
    let _ = OPEN.iter().find(known);
}
