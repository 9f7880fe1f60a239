//! Description of the host for reports, from `/proc`.

use std::fs;

use tautline_io::clock::processor_time;
use tautline_io::clock::tai::{Tai, followed_tai};
use tautline_io::thread::memory::LockRefused;
use tautline_io::thread::stall::Trust;
use tautline_io::thread::{Granted, Scheduler};
use tautline_proto::time::Span;
use tautline_report::{HostReport, PtpReport, Refused, TaiReport};

pub(crate) fn host(scheduler: String, stalls: u64, refused: Refused) -> HostReport {
    HostReport {
        kernel: line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into()),
        scheduler,
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        stalls,
        cpu_ns: processor_time().as_nanos(),
        peak_bytes: peak_memory().unwrap_or(0),
        refused,
        tai: followed_tai().as_ref().map(tai),
    }
}

fn tai(tai: &Tai) -> TaiReport {
    TaiReport {
        state: tai.state.name().into(),
        reference: tai.state.source().map(|source| source.name().into()),
        since_ns: tai.state.since().map(|since| since.as_nanos()),
        uncertainty_ns: tai.uncertainty.map(Span::as_nanos),
        uncertain: tai.uncertain,
        steps: tai.steps,
        ptp4l: tai.ptp.as_ref().map(|ptp| PtpReport {
            port: ptp.port.name().into(),
            grandmaster: ptp.present.then(|| ptp.grandmaster.to_string()),
            offset_ns: ptp.offset.as_nanos(),
            path_delay_ns: ptp.path_delay.as_nanos(),
        }),
    }
}

fn line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn peak_memory() -> Option<u64> {
    let status = line("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    peak.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

pub(crate) fn note_priority(refused: &mut Refused, granted: &Granted) {
    if !granted.is_granted() {
        refused.priority = Some(format!("the device's thread runs as {granted}"));
        refused.by_limit = !matches!(granted.requested, Scheduler::Deadline { .. });
    }
}

pub(crate) fn note_stall_monitor(refused: &mut Refused, trust: &Trust) {
    refused.stall_monitor_priority = trust.refused.map(|_| trust.to_string());
}

pub(crate) fn note_memory(refused: &mut Refused, locked: Result<(), LockRefused>) {
    refused.locked_memory = locked.err().map(|refused| refused.to_string());
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use tautline_proto::time::Span;

    fn refused(requested: Scheduler) -> Granted {
        Granted { requested, errno: 1 }
    }

    #[test]
    fn all_that_an_ordinary_user_lacks_is_one_line() {
        let mut lacking = Refused::default();
        assert_eq!(lacking.line(), None);
        note_memory(&mut lacking, Err(LockRefused { errno: 12 }));
        let memory = "no locked memory: sound may drop out under load; `taut doctor` shows how to \
                      allow it";
        assert_eq!(lacking.line().as_deref(), Some(memory));
        note_stall_monitor(&mut lacking, &Trust { refused: Some(refused(Scheduler::Fifo(99))) });
        note_priority(&mut lacking, &refused(Scheduler::Fifo(70)));
        snapshot!(lacking.line().unwrap());
    }

    #[test]
    fn stall_monitor_without_priority_is_reported() {
        let mut lacking = Refused::default();
        note_stall_monitor(&mut lacking, &Trust { refused: Some(refused(Scheduler::Fifo(99))) });
        let line = lacking.line().unwrap();
        snapshot!(line);
    }

    #[test]
    fn refused_deadline_scheduler_has_its_own_hint() {
        let span = Span::from_millis(1);
        let deadline = Scheduler::Deadline { runtime: span, deadline: span, period: span };
        let mut lacking = Refused::default();
        note_priority(&mut lacking, &refused(deadline));
        let line = lacking.line().unwrap();
        assert!(line.contains("CAP_SYS_NICE on all cores") && !line.contains("doctor"), "{line}");
    }
}
