//! How TAI is known, for people.

use core::fmt::{self, Write};

use super::Nanos;
use crate::{Report, TaiReport};

/// One line, where packets say when they are to be presented.
pub(super) fn tai(out: &mut String, report: &Report) -> fmt::Result {
    let Some(tai) = &report.host.tai else { return Ok(()) };
    let ended = report.began_ns.saturating_add(report.duration_ns);
    tell(out, tai, ended)
}

fn tell(out: &mut String, tai: &TaiReport, ended: i64) -> fmt::Result {
    write!(out, "TAI: ")?;
    match tai.state {
        "free" => write!(out, "nothing keeps it, so it is this host's own")?,
        state => {
            let seconds =
                ended.saturating_sub(tai.since_ns.unwrap_or(ended)).max(0) / 1_000_000_000;
            write!(out, "{state} for {seconds} s")?;
            match tai.by {
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
    if tai.uncertain {
        write!(out, "; packets say that it is uncertain")?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use crate::PtpReport;

    fn told(tai: &TaiReport) -> String {
        let mut out = String::new();
        tell(&mut out, tai, 14_000_000_000).unwrap();
        out
    }

    #[test]
    fn what_keeps_tai_is_told_with_how_sure_that_is() {
        let free = TaiReport {
            state: "free",
            by: None,
            since_ns: None,
            uncertainty_ns: None,
            uncertain: true,
            steps: 0,
            ptp4l: None,
        };
        let said =
            "TAI: nothing keeps it, so it is this host's own; packets say that it is uncertain\n";
        assert_eq!(told(&free), said);
        let locked = TaiReport {
            state: "locked",
            by: Some("ptp"),
            since_ns: Some(2_000_000_000),
            uncertainty_ns: Some(3_000),
            uncertain: false,
            steps: 0,
            ptp4l: Some(PtpReport {
                port: "SLAVE",
                grandmaster: Some("001b21.fffe.0a0b0c".to_owned()),
                offset_ns: -2_000,
                path_delay_ns: 900,
            }),
        };
        let said = told(&locked);
        snapshot!(said);
        assert!(said.ends_with(" off 001b21.fffe.0a0b0c\n"), "{said}");
    }
}
