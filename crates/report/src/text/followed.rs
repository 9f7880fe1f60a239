//! The clock that was followed beside the streams, for people.

use core::fmt::{self, Write};

use super::others;
use crate::{FollowedClockReport, Report};

/// Some lines, where a clock was to be followed.
pub(super) fn followed(out: &mut String, report: &Report) -> fmt::Result {
    let Some(clock) = &report.clock else { return Ok(()) };
    tell(out, clock, report.began_ns.saturating_add(report.duration_ns))
}

fn tell(out: &mut String, clock: &FollowedClockReport, ended: i64) -> fmt::Result {
    write!(out, "clock followed: ")?;
    match &clock.stream {
        Some(stream) => write!(out, "CRF of {stream} at {}", clock.address)?,
        None => write!(out, "CRF at {}", clock.address)?,
    }
    match (clock.rate_ppm, clock.uncertainty_ppm) {
        (Some(rate), Some(unsure)) => write!(out, ", {rate:+.2} ± {unsure:.2} ppm against TAI")?,
        _ if clock.counters.received == 0 => {
            write!(out, ", never heard: the rate was found by the streams' own packets")?;
        }
        _ => write!(out, ", not heard for long enough to be relied upon")?,
    }
    write!(out, "; {} packets, {} lost", clock.counters.received, clock.counters.lost)?;
    others(out, clock.counters.each())?;
    if let Some(since) = clock.held_since_ns {
        let seconds = ended.saturating_sub(since).max(0) as f64 / 1e9;
        write!(out, "; silent for {seconds:.1} s, and held")?;
    }
    writeln!(out)?;
    let mut invalid = clock.invalid.iter();
    invalid.try_for_each(|one| writeln!(out, "  invalid: {} × {}", one.count, one.reason))
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use tautline_proto::crf_follower::CrfCounters;

    use super::*;
    use crate::InvalidCount;

    #[test]
    fn what_is_followed_is_told_with_how_well_and_since_when_it_is_silent() {
        let never = FollowedClockReport {
            address: "avtp://eth0/91:E0:F0:00:FE:01".to_owned(),
            stream: None,
            rate_ppm: None,
            uncertainty_ppm: None,
            held_since_ns: None,
            counters: CrfCounters::default(),
            socket_drops: 0,
            invalid: Vec::new(),
        };
        let told = |clock: &FollowedClockReport| {
            let mut out = String::new();
            tell(&mut out, clock, 14_000_000_000).unwrap();
            out
        };
        snapshot!(told(&never));
        let held = FollowedClockReport {
            stream: Some("02:22:33:44:55:66:0007".to_owned()),
            rate_ppm: Some(-12.345),
            uncertainty_ppm: Some(0.204),
            held_since_ns: Some(2_000_000_000),
            counters: CrfCounters {
                received: 500,
                lost: 3,
                jumps: 1,
                restarts: 2,
                ..never.counters
            },
            invalid: vec![InvalidCount { reason: "version", count: 2 }],
            ..never
        };
        snapshot!(told(&held));
    }
}
