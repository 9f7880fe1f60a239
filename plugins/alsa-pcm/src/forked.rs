//! PCMs in a forked process cannot play or record. They appear disconnected, like a removed card.

use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use alsa_sys::SND_PCM_STATE_DISCONNECTED;
use tautline_io::socket::forks::at_forks;

use crate::ffi::Ioplug;

/// Maximum PCMs remembered. A fork discovers further PCMs later.
const MAX: usize = 256;

static OPEN: [AtomicPtr<Ioplug>; MAX] = [const { AtomicPtr::new(null_mut()) }; MAX];

/// The library is never unloaded.
pub(crate) fn watch() -> std::io::Result<()> {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    // SAFETY: the handler is async-signal-safe and is never unloaded.
    unsafe { at_forks(&WATCHED, leave) }
}

extern "C" fn leave() {
    for known in &OPEN {
        let io = known.swap(null_mut(), Ordering::Acquire);
        if !io.is_null() {
            // SAFETY: a PCM is forgotten before it is freed; a fork has no other thread.
            unsafe { disconnect(io) };
        }
    }
}

/// Makes ALSA return `ENODEV` whenever it checks the state.
///
/// # Safety
/// `io` is a live PCM of ALSA.
pub(crate) unsafe fn disconnect(io: *mut Ioplug) {
    // SAFETY: the PCM is live, and no other thread uses it: a fork has none, and during a callback
    // ALSA holds its lock. `snd_pcm_ioplug_set_state` does the same, but a fork handler must not
    // call other code.
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
