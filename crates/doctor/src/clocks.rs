//! Clocks: cost of reading, timer resolution, and synchronization.

use tautline_io::clock::disciplined::{HardwareClock, KernelClock};
use tautline_io::clock::ptp4l::Ptp4l;
use tautline_io::thread::limits::timer_slack;
use tautline_io::thread::{Scheduler, spawn};
use tautline_proto::clock::{ClockSource, DisciplinedClock};
use tautline_proto::time::Span;
use tautline_proto::wire::ptp::{Domain, PortState, PtpState};

use crate::Verdict::{Failure, Unknown, Warning};
use crate::{Finding, Machine};

/// Slow clock sources: 1 µs or more per reading.
const SLOW: [&str; 2] = ["hpet", "acpi_pm"];

pub(crate) fn clocksource(machine: &Machine) -> Option<Finding> {
    const FOLDER: &str = "sys/devices/system/clocksource/clocksource0";
    let current = machine.read(&format!("{FOLDER}/current_clocksource"))?;
    if current == "jiffies" || current == "refined-jiffies" {
        let what = format!("the clock source counts ticks of the kernel ({current})");
        let why = "times are precise only to milliseconds; boot without clocksource=";
        return Some(Finding::new(Failure, what, why));
    }
    let what = format!("time is read from {current}");
    if !SLOW.contains(&current.as_str()) {
        return Some(Finding::passed(what));
    }
    let why = "each reading takes a microsecond or more, several times per packet";
    let available = machine.read(&format!("{FOLDER}/available_clocksource")).unwrap_or_default();
    Some(if available.split_whitespace().any(|other| other == "tsc") {
        Finding::new(Warning, what, why)
            .fix(format!("echo tsc | sudo tee /{FOLDER}/current_clocksource"))
    } else {
        let why = format!("{why}; the kernel rejected the processor's own counter, and logged why");
        Finding::new(Warning, what, why).details("sudo dmesg | grep -i tsc")
    })
}

pub(crate) fn timers(resolution: Span) -> Finding {
    if resolution <= Span::from_micros(1) {
        return Finding::passed(format!("timers have a resolution of {resolution}"));
    }
    let what = format!("timers expire only every {resolution}");
    let why = "shorter periods and packets come in bursts; boot without highres=off and nohz=off";
    Finding::new(Failure, what, why).details("grep -o 'highres=[^ ]*' /proc/cmdline")
}

pub(crate) fn thread_slack() -> Option<Span> {
    let (thread, _) = spawn("taut-doctor", Scheduler::Other, 0, timer_slack).ok()?;
    thread.join().ok()
}

pub(crate) fn slack(slack: Span) -> Finding {
    if slack <= Span::from_micros(1) {
        return Finding::passed(format!("taut's threads have a timer slack of {slack}"));
    }
    let what = format!("timers of threads without priority may be {slack} late");
    let why = "the system ignores that taut requested exact timers (PR_SET_TIMERSLACK)";
    Finding::new(Warning, what, why)
}

pub(crate) fn kept(
    kernel: Option<KernelClock>,
    clock: Option<DisciplinedClock>,
    hardware: &[HardwareClock],
) -> Finding {
    if let Some(clock) = clock {
        let by = match clock.source {
            ClockSource::Ptp => "a hardware clock that follows PTP",
            _ => "NTP or similar",
        };
        let maximum = rounded(clock.uncertainty);
        let said = kernel.map_or(String::new(), |kernel| {
            format!("; the kernel reports it synchronised, at most {} off", rounded(kernel.maximum))
        });
        return Finding::passed(format!(
            "the system clock is synchronised by {by}, to {maximum}{said}"
        ));
    }
    let what = match kernel {
        Some(kernel) => format!(
            "the system clock is not synchronised: up to {} off, as reported by the kernel",
            rounded(kernel.maximum)
        ),
        None => "the kernel does not report whether its clock is synchronised".to_owned(),
    };
    let why = "clocks are mapped with RTCP alone; if one way of a network takes longer than the \
               other, the latency is off by half of the difference";
    let (more, fix) = match hardware.first() {
        None => (String::new(), "sudo apt install chrony"),
        Some(clock) => (
            format!(", though there is {} ({})", clock.device, clock.name),
            "sudo apt install linuxptp chrony",
        ),
    };
    Finding::new(Warning, what + &more, why).fix(fix)
}

pub(crate) fn tai(kernel: KernelClock) -> Finding {
    let ahead = kernel.tai_offset;
    if ahead > Span::ZERO {
        return Finding::passed(format!("the kernel's TAI is {ahead} ahead of UTC"));
    }
    let what = "the kernel's TAI offset is not set (0), which matters for AVTP only";
    let why = "presentation times are 37 s off (since 2017) for hosts that know TAI, and packets \
               mark them as uncertain (tu); ptp4l or phc2sys sets the offset if it sets this \
               clock, otherwise chrony does with leapsectz (on Debian 13 with tzdata-legacy \
               installed)";
    let fix = "echo 'leapsectz right/UTC' | sudo tee /etc/chrony/conf.d/tai.conf \
                && sudo systemctl restart chrony";
    Finding::new(Warning, what, why).fix(fix)
}

const ANSWERS: Span = Span::from_millis(200);

/// `None` if linuxptp does not run, `Some(None)` if it does not answer.
pub(crate) fn ask_ptp4l() -> Option<Option<(PtpState, Domain)>> {
    let mut daemon = Ptp4l::find(true)?;
    // If its domain is unknown, each attempt tries other domains.
    let answered = (0..2).find_map(|_| {
        daemon.request().ok()?;
        daemon.wait(ANSWERS)
    });
    Some(answered.zip(daemon.domain()))
}

pub(crate) fn ptp(answered: Option<(PtpState, Domain)>) -> Finding {
    const LOOK: &str = "sudo pmc -u -b 0 'GET TIME_STATUS_NP' 'GET PORT_DATA_SET'";
    let Some((state, Domain { number: domain, .. })) = answered else {
        let why = "whether it follows a grandmaster is unknown; it may run in another network \
                   namespace, or its domain cannot be read and is not a usual one (0 and 127)";
        return Finding::new(Unknown, "ptp4l runs and does not answer", why).details(LOOK);
    };
    let PtpState { port, grandmaster, offset, path_delay, .. } = state;
    if state.is_locked() {
        let what = format!(
            "ptp4l follows {grandmaster} in domain {domain}: offset {offset} as reported, path \
             delay {path_delay}"
        );
        return Finding::passed(what);
    }
    if port == PortState::Master {
        let what = "ptp4l is the grandmaster: other hosts follow this one";
        return Finding::passed(what);
    }
    let what = format!("ptp4l runs and follows no grandmaster ({})", port.name());
    let why =
        "presentation by TAI drifts by up to 15 us per second from the presentation of other hosts";
    Finding::new(Warning, what, why).details(LOOK)
}

const fn rounded(span: Span) -> Span {
    Span::from_micros((span.as_nanos() + 999) / 1000)
}

#[cfg(test)]
mod tests {
    use tautline_proto::wire::ptp::ClockIdentity;
    use tautline_trial::snapshot;

    use super::*;
    use crate::Verdict::Passed;

    fn read_from(current: &str, available: &str) -> Finding {
        const FOLDER: &str = "sys/devices/system/clocksource/clocksource0";
        let files = [("current", current), ("available", available)];
        let files = files.map(|(which, text)| (format!("{FOLDER}/{which}_clocksource"), text));
        clocksource(&Machine::of(&files)).unwrap()
    }

    #[test]
    fn a_clock_over_a_bus_is_slow_and_one_of_ticks_is_none() {
        assert_eq!(read_from("tsc\n", "tsc hpet acpi_pm \n").verdict, Passed);
        assert_eq!(read_from("arch_sys_counter", "").verdict, Passed);
        assert_eq!(read_from("kvm-clock", "").verdict, Passed);
        let found = read_from("hpet", "tsc hpet");
        assert!(found.fix.unwrap().starts_with("echo tsc"));
        let found = read_from("acpi_pm", "hpet acpi_pm");
        assert_eq!(found.details.as_deref(), Some("sudo dmesg | grep -i tsc"));
        assert_eq!(read_from("jiffies", "jiffies").verdict, Failure);
        assert!(clocksource(&Machine::empty()).is_none());
    }

    #[test]
    fn timers_of_ticks_spoil_short_packets() {
        assert_eq!(timers(Span::from_nanos(1)).verdict, Passed);
        let found = timers(Span::from_millis(4));
        assert_eq!(found.verdict, Failure);
        snapshot!(found.message);
    }

    #[test]
    fn forced_timer_slack_is_reported() {
        assert_eq!(slack(Span::from_nanos(1)).verdict, Passed);
        assert_eq!(slack(Span::from_micros(50)).verdict, Warning);
    }

    #[test]
    fn state_of_ptp4l_is_reported() {
        let state = PtpState {
            port: PortState::Slave,
            present: true,
            grandmaster: ClockIdentity([0, 0x1b, 0x21, 0xff, 0xfe, 1, 2, 3]),
            offset: Span::from_nanos(-85),
            path_delay: Span::from_nanos(640),
            ingress: 0,
        };
        let ptp = |state| ptp(Some((state, Domain { number: 44, transport: 0 })));
        let found = ptp(state);
        assert_eq!(found.verdict, Passed);
        let reported = "ptp4l follows 001b21.fffe.010203 in domain 44: ";
        assert!(found.message.starts_with(reported), "{found:?}");
        let listens = PtpState { port: PortState::Listening, present: false, ..state };
        let found = ptp(listens);
        assert!(found.verdict == Warning && found.message.ends_with("(LISTENING)"), "{found:?}");
        let leads = PtpState { port: PortState::Master, present: false, ..state };
        assert_eq!(ptp(leads).verdict, Passed);
        assert_eq!(super::ptp(None).verdict, Unknown);
    }

    #[test]
    fn free_running_clock_warns_with_suitable_hardware() {
        let maximum = Span::from_millis(16_000);
        let kernel = KernelClock { synchronised: false, maximum, tai_offset: Span::ZERO };
        let found = kept(Some(kernel), None, &[]);
        snapshot!("not synchronised", found.message);
        assert_eq!(found.fix.as_deref(), Some("sudo apt install chrony"));
        let clock = HardwareClock {
            device: "/dev/ptp0".to_owned(),
            name: "igb".to_owned(),
            offset: None,
            uncertainty: Span::ZERO,
        };
        let found = kept(Some(kernel), None, &[clock]);
        snapshot!("with hardware", found.message);
        let uncertainty = Span::from_nanos(350_200);
        let clock =
            DisciplinedClock { offset: Span::ZERO, uncertainty, source: ClockSource::System };
        let maximum = Span::from_micros(350);
        let kernel = KernelClock { synchronised: true, maximum, ..kernel };
        let found = kept(Some(kernel), Some(clock), &[]);
        snapshot!("kept", found.message);
    }

    #[test]
    fn kernel_without_tai_offset_warns_with_the_cost_for_avtp() {
        let kernel = |seconds| KernelClock {
            synchronised: true,
            maximum: Span::from_micros(350),
            tai_offset: Span::from_secs(seconds),
        };
        let found = tai(kernel(37));
        assert_eq!(found.verdict, Passed);
        snapshot!("37 s", found.message);
        let found = tai(kernel(0));
        assert!(found.message.contains("AVTP"), "{}", found.message);
        snapshot!("0 s", found.message);
        let why = found.reason.unwrap();
        assert!(why.contains("phc2sys"), "{why}");
        assert!(found.fix.unwrap().starts_with("echo 'leapsectz right/UTC'"));
    }
}
