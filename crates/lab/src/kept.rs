//! Starts threads with a fixed core and scheduler, or not at all.

use std::sync::mpsc;
use std::thread::JoinHandle;

use tautline_io::thread::affinity::pin_to;
use tautline_io::thread::{Granted, Scheduler, memory, spawn};

/// If the kernel refuses, no thread runs; the error includes the fix.
pub(crate) fn spawn_on<T: Send + 'static>(
    core: usize,
    name: &str,
    scheduler: Scheduler,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<Option<T>>, String> {
    let (notify, handle) = mpsc::sync_channel(1);
    let (start, started) = mpsc::sync_channel::<()>(1);
    let (thread, granted) = spawn(name, scheduler, 0, move || {
        // The channel is closed if the spawner is gone.
        let _ = notify.send(pin_to(core));
        started.recv().ok().map(|()| run())
    })
    .map_err(|error| {
        format!("cannot start its thread: {error}\nhint: end other programs or raise ulimit -u")
    })?;
    let kept = handle.recv().unwrap_or_else(|_| Err(std::io::Error::other("the thread ended")));
    let refused = if granted.is_granted() {
        kept.err().map(|error| {
            format!(
                "cannot pin its thread to core {core}: {error}\nhint: choose an allowed core (taskset \
                 -p $$), and no deadline scheduler, which needs all cores"
            )
        })
    } else {
        Some(would_run_as("its thread", granted))
    };
    if let Some(why) = refused {
        drop(start);
        // The thread has ended, so joining neither waits nor panics.
        let _ = thread.join();
        return Err(why);
    }
    let _ = start.send(());
    Ok(thread)
}

/// The error's text, with the fix as a hint.
pub(crate) fn refusal(granted: Granted) -> String {
    granted.to_string().replacen("; ", "\nhint: ", 1)
}

pub(crate) fn would_run_as(thread: &str, granted: Granted) -> String {
    format!("{thread} would run as {}, or choose --scheduler other", refusal(granted))
}

/// Logs must not be paged out; returns a note on failure.
pub(crate) fn lock_memory() -> Option<String> {
    memory::lock().err().map(|refused| refused.to_string())
}

#[cfg(test)]
mod tests {
    use tautline_io::thread::affinity::usable_cores;

    use super::*;

    #[test]
    fn a_thread_runs_on_its_core_alone() {
        for core in usable_cores() {
            let thread = spawn_on(core, "test", Scheduler::Other, usable_cores).unwrap();
            assert_eq!(thread.join().unwrap(), Some(vec![core]));
        }
    }

    #[test]
    fn thread_that_cannot_be_pinned_does_not_run() {
        let run = || panic!("it was not meant to run");
        let why = spawn_on(1 << 20, "test", Scheduler::Other, run).unwrap_err();
        assert!(why.contains("core 1048576") && why.contains("taskset"), "{why}");
    }
}
