use std::process::Child;

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tautline_proto::device::Stop;
use tautline_ui::failure::Failure;

/// Like Ctrl-C. No-op after its end: the ID may be reused.
pub(crate) fn interrupt(child: &mut Child) {
    if let (Ok(None), Ok(pid)) = (child.try_wait(), i32::try_from(child.id())) {
        let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::INT));
    }
}

/// An ending login's signals must not keep an agent from restoring its host.
pub(crate) fn stop_in_order() -> Result<Stop, Failure> {
    let stop = Stop::default();
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.flag())
            .map_err(|error| Failure::running(format!("waiting for signals: {error}")))?;
    }
    Ok(stop)
}

/// The kernel sends SIGHUP when the parent ends, even if killed (PR_SET_PDEATHSIG). A parent that
/// ended before this call is unnoticed.
pub(crate) fn stop_with_agent() -> Result<Stop, Failure> {
    let stop = stop_in_order()?;
    // Without this signal, the program ends only on request.
    let _ = set_parent_process_death_signal(Some(Signal::HUP));
    Ok(stop)
}
