//! Hosts that fork. Clerks are threads, so a fork has none: what it has of an instance plays its input
//! on, and what it makes itself has clerks of its own.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tautline_io::socket::forks::{at_forks, leave_sockets};

use crate::clerk;

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
    clerk::forget_all();
}

/// Another number in each fork.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}
