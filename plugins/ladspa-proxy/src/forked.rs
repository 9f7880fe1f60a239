//! In a fork, earlier instances pass their input through; new instances start their own threads.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tautline_io::socket::forks::{at_forks, leave_sockets};

use crate::client_thread;

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Detects later forks. The library is never unloaded.
pub(crate) fn watch() -> std::io::Result<()> {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    leave_sockets()?;
    // SAFETY: the handler is async-signal-safe and is never unloaded.
    unsafe { at_forks(&WATCHED, leave) }
}

extern "C" fn leave() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    client_thread::forget_all();
}

pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}
