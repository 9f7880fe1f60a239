//! Signals between a program and its children.

use std::process::Child;

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tautline_proto::device::Stop;
use tautline_ui::failure::Failure;

/// Interrupts a child like Ctrl-C. Does nothing after it ended, as its ID may be reused.
pub(crate) fn interrupt(child: &mut Child) {
    if let (Ok(None), Ok(pid)) = (child.try_wait(), i32::try_from(child.id())) {
        let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::INT));
    }
}

/// For an agent and its children: signals of an ending login must not prevent it from restoring its
/// host.
pub(crate) fn stop_in_order() -> Result<Stop, Failure> {
    let stop = Stop::default();
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.flag())
            .map_err(|error| Failure::running(format!("waiting for signals: {error}")))?;
    }
    Ok(stop)
}

/// For programs started by an agent. The kernel sends SIGHUP when the parent is gone, even if
/// killed (PR_SET_PDEATHSIG), so loads and monitors do not outlive their agent. It comes once per
/// parent thread that ends. A parent that ended before this call is not noticed.
pub(crate) fn stop_with_agent() -> Result<Stop, Failure> {
    let stop = stop_in_order()?;
    // Without it, the program ends only on request.
    let _ = set_parent_process_death_signal(Some(Signal::HUP));
    Ok(stop)
}
