//! How TAI is known, by which packets are presented that say when.

use serde::Serialize;
use tautline_io::clock::tai::Tai;
use tautline_proto::time::Span;
use tautline_proto::wire::ptp::PtpState;

/// How TAI is known at the end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaiReport {
    /// `free` where nothing keeps it, `locked`, or `holdover` where what kept it went.
    pub state: &'static str,
    /// What keeps it, or did: `ptp` or `system`.
    pub by: Option<&'static str>,
    /// Since when it is so, by this machine's monotonic clock.
    pub since_ns: Option<i64>,
    /// How far it may be from the truth, either way; absent where nothing ever said.
    pub uncertainty_ns: Option<i64>,
    /// Whether packets say that their times are not to be relied upon (`tu`).
    pub uncertain: bool,
    /// How often it was too far off to be slewed.
    pub steps: u32,
    /// What linuxptp says of itself; absent where it does not run or does not answer.
    pub ptp4l: Option<PtpReport>,
}

/// What `ptp4l` says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PtpReport {
    /// What its foremost port does, as `SLAVE`.
    pub port: &'static str,
    /// Whom it follows; absent where it follows nobody.
    pub grandmaster: Option<String>,
    /// Its clock less its master's.
    pub offset_ns: i64,
    /// From its master to it.
    pub path_delay_ns: i64,
}

impl TaiReport {
    pub(crate) fn of(tai: &Tai) -> Self {
        Self {
            state: tai.state.name(),
            by: tai.state.source().map(|source| source.name()),
            since_ns: tai.state.since().map(|since| since.as_nanos()),
            uncertainty_ns: tai.uncertainty.map(Span::as_nanos),
            uncertain: tai.uncertain,
            steps: tai.steps,
            ptp4l: tai.ptp.as_ref().map(PtpReport::of),
        }
    }
}

impl PtpReport {
    fn of(state: &PtpState) -> Self {
        Self {
            port: state.port.name(),
            grandmaster: state.present.then(|| state.grandmaster.to_string()),
            offset_ns: state.offset.as_nanos(),
            path_delay_ns: state.path_delay.as_nanos(),
        }
    }
}
