//! Signals between a program and those that it starts.

use std::process::Child;

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tautline_proto::device::Stop;
use tautline_ui::failure::Failure;

/// Ends a program as Ctrl-C does. Nothing where it is over already: its number may be another's by now.
pub(crate) fn interrupt(child: &mut Child) {
    if let (Ok(None), Ok(pid)) = (child.try_wait(), i32::try_from(child.id())) {
        let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::INT));
    }
}

/// For an agent and its children: no signal that ends a login keeps it from restoring its host.
pub(crate) fn stop_in_order() -> Result<Stop, Failure> {
    let stop = Stop::default();
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.flag())
            .map_err(|error| Failure::running(format!("waiting for signals: {error}")))?;
    }
    Ok(stop)
}

/// For what an agent starts. From now on this program is told by SIGHUP once what started it is gone, also where that
/// was killed (PR_SET_PDEATHSIG): what disturbs or watches a host for an experiment does not outlive its agent. Each
/// thread of what started it says so as it goes, so it comes more than once. One that went before this is not noticed.
pub(crate) fn stop_with_agent() -> Result<Stop, Failure> {
    let stop = stop_in_order()?;
    // Where it cannot be, it ends when it is told to.
    let _ = set_parent_process_death_signal(Some(Signal::HUP));
    Ok(stop)
}
