//! Text about clocks: the sender's, the followed one, and TAI.

use core::fmt::{self, Write};

use super::{Nanos, others};
use crate::digits::ppm_with_error;
use crate::{FollowedClockReport, Report, StreamReport, TaiReport};

pub(super) fn of_sender(out: &mut String, stream: &StreamReport) -> fmt::Result {
    let Some(clock) = &stream.clock else { return Ok(()) };
    let known = Nanos(clock.uncertainty_ns.unwrap_or(0));
    write!(out, "sender's clock: ")?;
    match &*clock.source {
        "rtcp" => write!(out, "known to ± {known} by RTCP")?,
        "ptp" => write!(out, "known to ± {known} by PTP at both ends, the sum of their errors")?,
        "host" => write!(out, "this machine's, so the latency is known to half a frame")?,
        "tai" if stream.counters.uncertain_clock > 0 => {
            write!(out, "TAI, which the sender reports as uncertain")?;
        }
        "tai" if clock.uncertainty_ns.is_none() => {
            write!(out, "TAI, which is uncertain on this machine")?;
        }
        "tai" => write!(out, "TAI, as each end knows it")?,
        _ => write!(
            out,
            "known to ± {known} by the synchronised system clocks of both ends, the sum of their errors"
        )?,
    }
    if let Some(round_trip) = clock.round_trip_ns {
        let trip = Nanos(round_trip);
        write!(
            out,
            ": half of the round trip {trip}, as the way back may differ, and the drift since"
        )?;
    }
    if let Some(rate) = clock.rate_ppm.filter(|_| clock.source != "host") {
        write!(out, "; runs {}", ppm_with_error(rate, clock.rate_uncertainty_ppm))?;
    }
    if let Some(card) = clock.card_ppm {
        write!(out, "; its card {}", ppm_with_error(card, clock.card_uncertainty_ppm))?;
    }
    writeln!(out)
}

pub(super) fn followed(out: &mut String, report: &Report) -> fmt::Result {
    let Some(clock) = &report.clock else { return Ok(()) };
    write_followed(out, clock, report.started_ns.saturating_add(report.duration_ns))
}

fn write_followed(out: &mut String, clock: &FollowedClockReport, ended: i64) -> fmt::Result {
    write!(out, "clock followed: ")?;
    match &clock.stream {
        Some(stream) => write!(out, "CRF of {stream} at {}", clock.address)?,
        None => write!(out, "CRF at {}", clock.address)?,
    }
    match (clock.rate_ppm, clock.uncertainty_ppm) {
        (Some(rate), Some(unsure)) => write!(out, ", {rate:+.2} ± {unsure:.2} ppm against TAI")?,
        _ if clock.counters.received == 0 => {
            write!(out, ", never received: the rate is from the streams' own packets")?;
        }
        _ => write!(out, ", not received for long enough")?,
    }
    write!(out, "; {} packets, {} lost", clock.counters.received, clock.counters.lost)?;
    others(out, clock.counters.each())?;
    if let Some(since) = clock.holdover_since_ns {
        let seconds = ended.saturating_sub(since).max(0) as f64 / 1e9;
        write!(out, "; silent for {seconds:.1} s, rate held")?;
    }
    writeln!(out)?;
    let mut invalid = clock.invalid.iter();
    invalid.try_for_each(|one| writeln!(out, "  invalid: {} × {}", one.count, one.reason))
}

pub(super) fn tai(out: &mut String, report: &Report) -> fmt::Result {
    let Some(tai) = &report.host.tai else { return Ok(()) };
    let ended = report.started_ns.saturating_add(report.duration_ns);
    write_tai(out, tai, ended, report.role == "send")
}

fn write_tai(out: &mut String, tai: &TaiReport, ended: i64, sends: bool) -> fmt::Result {
    write!(out, "TAI: ")?;
    match &*tai.state {
        "free" => write!(out, "not synchronised, this host's own clock")?,
        state => {
            let seconds =
                ended.saturating_sub(tai.since_ns.unwrap_or(ended)).max(0) / 1_000_000_000;
            write!(out, "{state} for {seconds} s")?;
            match tai.reference.as_deref() {
                Some("ptp") => write!(out, " (PTP)")?,
                _ => write!(out, " (the system clock)")?,
            }
        }
    }
    if let Some(uncertainty) = tai.uncertainty_ns {
        write!(out, ", known to ± {}", Nanos(uncertainty))?;
    }
    if let Some(ptp) = &tai.ptp4l {
        write!(out, "; ptp4l is {}", ptp.port)?;
        if let Some(grandmaster) = &ptp.grandmaster {
            write!(out, ", {} off {grandmaster}", Nanos(ptp.offset_ns))?;
        }
    }
    if tai.steps > 0 {
        write!(out, "; stepped {} times", tai.steps)?;
    }
    if tai.uncertain && sends {
        write!(out, "; packets mark it as uncertain")?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use tautline_proto::crf_follower::CrfCounters;
    use tautline_trial::snapshot;

    use super::*;
    use crate::{InvalidCount, PtpReport};

    #[test]
    fn followed_clock_text_has_quality_and_silence() {
        let never = FollowedClockReport {
            address: "avtp://eth0/91:E0:F0:00:FE:01".to_owned(),
            stream: None,
            rate_ppm: None,
            uncertainty_ppm: None,
            holdover_since_ns: None,
            counters: CrfCounters::default(),
            socket_drops: 0,
            invalid: Vec::new(),
        };
        let reported = |clock: &FollowedClockReport| {
            let mut out = String::new();
            write_followed(&mut out, clock, 14_000_000_000).unwrap();
            out
        };
        snapshot!(reported(&never));
        let held = FollowedClockReport {
            stream: Some("02:22:33:44:55:66:0007".to_owned()),
            rate_ppm: Some(-12.345),
            uncertainty_ppm: Some(0.204),
            holdover_since_ns: Some(2_000_000_000),
            counters: CrfCounters {
                received: 500,
                lost: 3,
                jumps: 1,
                media_clock_restarts: 2,
                ..never.counters
            },
            invalid: vec![InvalidCount { reason: "version".into(), count: 2 }],
            ..never
        };
        snapshot!(reported(&held));
    }

    fn reported_tai(tai: &TaiReport, sends: bool) -> String {
        let mut out = String::new();
        write_tai(&mut out, tai, 14_000_000_000, sends).unwrap();
        out
    }

    #[test]
    fn source_of_tai_is_shown_with_its_uncertainty() {
        let free = TaiReport {
            state: "free".into(),
            reference: None,
            since_ns: None,
            uncertainty_ns: None,
            uncertain: true,
            steps: 0,
            ptp4l: None,
        };
        let said = "TAI: not synchronised, this host's own clock; packets mark it as uncertain\n";
        assert_eq!(reported_tai(&free, true), said);
        let received = reported_tai(&free, false);
        assert!(!received.contains("packets"), "a receiver marks none: {received}");
        let locked = TaiReport {
            state: "locked".into(),
            reference: Some("ptp".into()),
            since_ns: Some(2_000_000_000),
            uncertainty_ns: Some(3_000),
            uncertain: false,
            steps: 0,
            ptp4l: Some(PtpReport {
                port: "SLAVE".into(),
                grandmaster: Some("001b21.fffe.0a0b0c".to_owned()),
                offset_ns: -2_000,
                path_delay_ns: 900,
            }),
        };
        let said = reported_tai(&locked, true);
        snapshot!(said);
        assert!(said.ends_with(" off 001b21.fffe.0a0b0c\n"), "{said}");
    }
}
