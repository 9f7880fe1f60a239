//! The opener's scheduling, for the graph's thread.
#![expect(unsafe_code, reason = "the scheduler's system calls")]

use std::sync::atomic::{AtomicI32, Ordering};

#[derive(Debug, Default)]
pub(super) struct Priority {
    class: AtomicI32,
    level: AtomicI32,
}

impl Priority {
    pub(super) fn take_from_this_thread(&self) {
        let mut parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: 0 is the calling thread, and the kernel fills the borrowed structure.
        let (class, known) =
            unsafe { (libc::sched_getscheduler(0), libc::sched_getparam(0, &mut parameters)) };
        if known == 0 {
            self.level.store(parameters.sched_priority, Ordering::Relaxed);
            self.class.store(class, Ordering::Relaxed);
        }
    }

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
