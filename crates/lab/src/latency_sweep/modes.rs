use core::fmt;

use tautline_proto::time::Span;

use crate::loadgen::Noise;
use crate::report::{Published, Statistic};
use crate::streams::LabStream;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepCase {
    pub name: &'static str,
    /// Device buffers hold two periods.
    pub period: Span,
    pub ptime: Span,
    /// The thesis's pipeline latency, our link offset.
    pub latency: Span,
    /// Thesis, in ms: two architectures, silent and noisy network (tables 3.4 and 3.3).
    measured_ms: Option<[[i64; 2]; 2]>,
}

const fn thesis(
    name: &'static str,
    [period, ptime, latency]: [i64; 3],
    measured_ms: [[i64; 2]; 2],
) -> SweepCase {
    SweepCase {
        name,
        period: Span::from_millis(period),
        ptime: Span::from_millis(ptime),
        latency: Span::from_millis(latency),
        measured_ms: Some(measured_ms),
    }
}

const fn below(name: &'static str, [period, ptime, latency]: [i64; 3]) -> SweepCase {
    SweepCase {
        name,
        period: Span::from_micros(period),
        ptime: Span::from_micros(ptime),
        latency: Span::from_micros(latency),
        measured_ms: None,
    }
}

/// Cases of the sweep. Below 1 ms, periods are whole frames at 48 kHz: 32 are 667 µs.
pub const RUNGS: [SweepCase; 14] = [
    thesis("test 1", [20, 20, 100], [[120, 120], [120, 120]]),
    thesis("test 2", [20, 20, 80], [[100, 100], [100, 100]]),
    thesis("test 3", [10, 10, 60], [[70, 70], [70, 70]]),
    thesis("test 4", [10, 5, 60], [[70, 70], [70, 70]]),
    thesis("test 5", [5, 5, 60], [[65, 65], [65, 65]]),
    thesis("test 6", [5, 5, 40], [[45, 45], [45, 50]]),
    thesis("test 7", [5, 5, 30], [[45, 45], [40, 45]]),
    thesis("test 8", [5, 5, 30], [[35, 35], [40, 40]]),
    thesis("test 9", [5, 5, 20], [[25, 30], [25, 35]]),
    thesis("test 10", [5, 1, 20], [[28, 28], [30, 30]]),
    below("2 ms", [2_000, 1_000, 10_000]),
    below("1 ms", [1_000, 1_000, 5_000]),
    below("1 ms, tight", [1_000, 1_000, 4_000]),
    below("0.67 ms", [667, 667, 3_000]),
];

const SILENT: &str = "Lund 2020, table 3.4";
const NOISY: &str = "Lund 2020, table 3.3";

impl fmt::Display for SweepCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, period, ptime, latency, measured_ms } = self;
        match period == ptime {
            true => write!(f, "{latency}: periods and packets of {period}")?,
            false => write!(f, "{latency}: periods of {period}, packets of {ptime}")?,
        }
        measured_ms.map_or(Ok(()), |_| write!(f, " ({name})"))
    }
}

impl SweepCase {
    pub fn plan(&self, base: &LabStream) -> LabStream {
        let frames = self.period.as_nanos() * i64::from(base.rate) + 500_000_000;
        LabStream {
            period: (frames / 1_000_000_000) as u32,
            periods: 2,
            ptime: self.ptime,
            latency: self.latency,
            ..base.clone()
        }
    }

    /// Link offset without the block to fill and both device buffers.
    pub fn left_for_network(&self) -> Span {
        let filled = self.period.max(self.ptime);
        self.latency - filled - self.period - self.period
    }

    /// Only with the same noise.
    pub fn published(&self, noise: Noise) -> Vec<Published> {
        let (source, names, network) = match noise {
            Noise { chatter: false, multicast: false, .. } => (SILENT, ["silent A", "silent B"], 0),
            Noise { chatter: true, .. } => (NOISY, ["noisy A", "noisy B"], 1),
            _ => return Vec::new(),
        };
        let figures = self.measured_ms.map(|networks| networks[network]).into_iter().flatten();
        names
            .into_iter()
            .zip(figures)
            .map(|(name, ms)| Published {
                source,
                name,
                statistic: Statistic::Single,
                value_ns: ms * 1_000_000,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;

    #[test]
    fn each_sweep_case_has_a_unique_name_from_its_settings() {
        let reported = RUNGS.map(|case| case.to_string());
        snapshot!(reported[0]);
        snapshot!(reported[9]);
        snapshot!(reported[11]);
        for (index, name) in reported.iter().enumerate() {
            assert!(!reported[..index].contains(name), "{name}");
        }
    }

    #[test]
    fn each_noise_is_listed_with_its_table() {
        let reported = |noise| {
            let all = RUNGS[5].published(noise).into_iter();
            all.map(|one| (one.source, one.name, one.value_ns / 1_000_000)).collect::<Vec<_>>()
        };
        assert_eq!(reported(Noise::SILENT), [(SILENT, "silent A", 45), (SILENT, "silent B", 45)]);
        assert_eq!(reported(Noise::NOISY), [(NOISY, "noisy A", 45), (NOISY, "noisy B", 50)]);
        assert_eq!(reported(Noise::UNHANDLED), []);
        assert_eq!(RUNGS[13].published(Noise::NOISY), []);
    }
}
