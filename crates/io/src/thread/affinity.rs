//! Cores of a thread (`sched_setaffinity(2)`).

use std::io;

/// Cores that this thread may use, ascending.
pub fn usable_cores() -> Vec<usize> {
    // SAFETY: all zeros are a valid, empty set, which the call fills.
    let set = unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) != 0 {
            return vec![0];
        }
        set
    };
    // SAFETY: the index is within the set's bits.
    (0..CORES).filter(|&core| unsafe { libc::CPU_ISSET(core, &set) }).collect()
}

/// Pins this thread; unchanged on error.
pub fn pin_to(core: usize) -> io::Result<()> {
    if core >= CORES {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: all zeros are a valid, empty set; `core` is within its bits.
    let answer = unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

const CORES: usize = 8 * size_of::<libc::cpu_set_t>();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_kept_on_a_core_may_run_on_no_other() {
        for core in usable_cores() {
            let kept = std::thread::spawn(move || pin_to(core).map(|()| usable_cores()));
            assert_eq!(kept.join().unwrap().unwrap(), [core]);
        }
    }

    #[test]
    fn a_core_that_is_not_there_is_refused() {
        assert!(pin_to(CORES).is_err() && pin_to(CORES - 1).is_err());
    }
}
