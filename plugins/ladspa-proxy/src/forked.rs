//! Hosts that fork. A fork has no clerks for earlier instances, which play their input on; new ones get clerks of their
//! own.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tautline_io::socket::forks::{at_forks, leave_sockets};

use crate::client_thread;

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// From now on a fork of this process knows that it is one. We are never unloaded.
pub(crate) fn watch() -> std::io::Result<()> {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    leave_sockets()?;
    // SAFETY: the handler does what a signal's handler may, and stays.
    unsafe { at_forks(&WATCHED, leave) }
}

extern "C" fn leave() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    client_thread::forget_all();
}

pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}
