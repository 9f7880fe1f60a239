use core::fmt;

use serde::Serialize;
use tautline_proto::time::Span;
use tautline_report::distribution::Summary;

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LegReport {
    pub media: PortReport,
    pub control: PortReport,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PortReport {
    pub received: u64,
    /// Includes duplicates.
    pub released: u64,
    pub lost: u64,
    pub loss: f64,
    pub mean_burst: f64,
    pub duplicated: u64,
    pub overflowed: u64,
    pub refused: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RelayReport {
    pub schema: u32,
    pub experiment: &'static str,
    pub seed: u64,
    pub duration_ns: i64,
    pub there: LegReport,
    pub back: LegReport,
    /// Caused by the relay.
    pub lateness: Summary,
    pub kernel_drops: u64,
    /// Datagrams back to the sender, before any sender was known.
    pub unaddressed: u64,
    pub notes: Vec<String>,
}

impl RelayReport {
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}

impl fmt::Display for PortReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} received, {} forwarded, {} lost", self.received, self.released, self.lost)?;
        if self.lost > 0 {
            write!(f, " ({:.2} %, {:.1} in a row)", self.loss * 100.0, self.mean_burst)?;
        }
        write!(f, ", {} twice", self.duplicated)
    }
}

impl fmt::Display for RelayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, {:.1} s", self.seed, self.duration_ns as f64 / 1e9)?;
        for (name, leg) in [("there", &self.there), ("back", &self.back)] {
            writeln!(f, "{name:5} RTP   {}", leg.media)?;
            writeln!(f, "{name:5} RTCP  {}", leg.control)?;
        }
        let shown = |nanos: Option<i64>| {
            nanos.map_or("–".into(), |nanos| format!("{}", Span::from_nanos(nanos)))
        };
        let Summary { p50_ns, p99_ns, max_ns, .. } = self.lateness;
        writeln!(
            f,
            "forwarded late: {} p50, {} p99, {} max",
            shown(p50_ns),
            shown(p99_ns),
            shown(max_ns)
        )?;
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}
