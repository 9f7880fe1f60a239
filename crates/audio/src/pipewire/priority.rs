//! The scheduling of one thread, handed to another.
//!
//! PipeWire gives its thread a real-time priority where a module of its client set-up may
//! (`libpipewire-module-rt`, by limits or by rtkit), and that is left as it is. Where it has none,
//! it gets what the device's thread was given.
#![expect(unsafe_code, reason = "system calls")]

use std::sync::atomic::{AtomicI32, Ordering};

/// A class of `sched(7)` and a priority. Wait-free.
#[derive(Debug, Default)]
pub(super) struct Priority {
    class: AtomicI32,
    level: AtomicI32,
}

impl Priority {
    /// Notes that of the calling thread.
    pub(super) fn take_from_this_thread(&self) {
        let mut parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: 0 is the calling thread, and the kernel fills in what is lent to it.
        let (class, known) =
            unsafe { (libc::sched_getscheduler(0), libc::sched_getparam(0, &mut parameters)) };
        if known == 0 {
            self.level.store(parameters.sched_priority, Ordering::Relaxed);
            self.class.store(class, Ordering::Relaxed);
        }
    }

    /// Schedules the calling thread like that, if it is scheduled as any other. A refusal leaves it
    /// so: the report says already what is not permitted here.
    pub(super) fn give_to_this_thread(&self) {
        // SAFETY: 0 is the calling thread.
        let ordinary = unsafe { libc::sched_getscheduler(0) } == libc::SCHED_OTHER;
        let class = self.class.load(Ordering::Relaxed);
        if ordinary && matches!(class, libc::SCHED_FIFO | libc::SCHED_RR) {
            let parameters =
                libc::sched_param { sched_priority: self.level.load(Ordering::Relaxed) };
            // SAFETY: 0 is the calling thread; the parameters outlive the call and are only read.
            unsafe { libc::sched_setscheduler(0, class, &parameters) };
        }
    }
}
