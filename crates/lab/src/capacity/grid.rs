use core::fmt;

use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Rate;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapacityPoint {
    pub rate: Rate,
    pub period: u32,
    /// Blocks in flight; with 0, a block returns within its period.
    pub window: u32,
    pub workers: usize,
    /// Time that the callback waits for an answer; the period for window 0.
    pub wait: Span,
    pub real: bool,
}

impl CapacityPoint {
    pub fn period_span(&self) -> Span {
        self.rate.span_of(Frames::new(i64::from(self.period)))
    }

    pub fn wait_at_max(&self) -> Span {
        if self.window == 0 { self.period_span() } else { self.wait }
    }

    pub fn local(&self) -> Self {
        Self { window: 0, workers: 0, wait: Span::ZERO, ..*self }
    }
}

impl fmt::Display for CapacityPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = (self.period_span().as_micros_f64() / 10.0).round() / 100.0;
        write!(f, "{} Hz, {} frames ({micros} ms)", self.rate.hertz(), self.period)?;
        let work = if self.real { ", real work" } else { "" };
        if self.workers == 0 {
            return write!(f, ", here{work}");
        }
        let plural = if self.workers == 1 { "" } else { "s" };
        write!(f, ", window {}, {} worker{plural}", self.window, self.workers)?;
        if self.window > 0 && self.wait > Span::ZERO {
            write!(f, ", wait {}", self.wait)?;
        }
        f.write_str(work)
    }
}

/// Several points that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CapacityGrid {
    /// Figures 5 to 8 of Lago and Kon 2003
    Paper,
    /// The project's own goals
    Goals,
}

/// Wait of the master. The paper's master waits until the period's end.
const WAIT: Span = Span::from_micros(250);

/// Periods at 44.1 kHz: 1.45, 2.18 and 3.0 ms.
const LOW: [u32; 3] = [64, 96, 132];
/// Periods at 96 kHz: 1.45, 2.19 and 3.0 ms.
const HIGH: [u32; 3] = [139, 210, 288];

fn high() -> Rate {
    Rate::new(96_000).expect("96 kHz is among the rates of cards")
}

fn point((rate, period): (Rate, u32), window: u32, workers: usize, wait: Span) -> CapacityPoint {
    CapacityPoint { rate, period, window, workers, wait, real: false }
}

impl CapacityGrid {
    pub fn points(self, cores: usize) -> Vec<CapacityPoint> {
        match self {
            Self::Paper => paper(),
            Self::Goals => goals(cores),
        }
    }
}

fn paper() -> Vec<CapacityPoint> {
    let (low, high) = ((Rate::HZ_44100, LOW[1]), (high(), HIGH[1]));
    // Figure 5.
    let here = [(low.0, LOW), (high.0, HIGH)]
        .into_iter()
        .flat_map(|(rate, periods)| periods.map(|period| point((rate, period), 0, 0, Span::ZERO)));
    // Figures 6, 7 and 8.
    let none = (1..=3).map(|workers| point(low, 0, workers, Span::ZERO));
    let two = (1..=4).map(|workers| point(low, 2, workers, WAIT));
    let two_high = [4, 7].map(|workers| point(high, 2, workers, WAIT));
    let one = (1..=7).map(|workers| point(high, 1, workers, WAIT));
    let sweep = [HIGH[0], HIGH[2]].map(|period| point((high.0, period), 1, 4, WAIT));
    here.chain(none).chain(two).chain(two_high).chain(one).chain(sweep).collect()
}

fn goals(cores: usize) -> Vec<CapacityPoint> {
    let (high, short) = ((high(), HIGH[1]), (Rate::HZ_48000, 64));
    let mut points = vec![
        point(high, 1, 7, Span::ZERO),
        point(high, 1, 7, WAIT),
        point(high, 1, 1, Span::ZERO),
        point(high, 2, 7, Span::ZERO),
    ];
    points.extend((1..=3).map(|workers| point(high, 0, workers, Span::ZERO)));
    points.extend([point(short, 1, 7, Span::ZERO), point(short, 1, 7, WAIT)]);
    points.push(CapacityPoint { real: true, ..point(high, 1, cores, WAIT) });
    points
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;

    #[test]
    fn paper_grid_has_the_workers_and_periods_of_each_figure() {
        let points = CapacityGrid::Paper.points(2);
        let of = |window, hertz, wanted: fn(&CapacityPoint) -> u32| -> Vec<u32> {
            let same =
                |p: &&CapacityPoint| p.workers > 0 && (p.window, p.rate.hertz()) == (window, hertz);
            points.iter().filter(same).map(wanted).collect()
        };
        let workers = |point: &CapacityPoint| point.workers as u32;
        assert_eq!(of(0, 44_100, workers), [1, 2, 3], "figure 6");
        assert_eq!(
            (of(2, 44_100, workers), of(2, 96_000, workers)),
            (vec![1, 2, 3, 4], vec![4, 7])
        );
        assert_eq!(of(1, 96_000, workers), [1, 2, 3, 4, 5, 6, 7, 4, 4], "figure 8");
        assert_eq!(of(1, 96_000, |point| point.period)[7..], [139, 288], "and its sweep");
        let here = points.iter().filter(|point| point.workers == 0);
        let periods: Vec<_> = here.map(|point| point.period_span().as_nanos() / 10_000).collect();
        assert_eq!(periods, [145, 217, 299, 144, 218, 300], "figure 5");
    }

    #[test]
    fn goals_grid_has_one_real_point_with_a_worker_per_core() {
        for cores in [1, 2, 16] {
            let points = CapacityGrid::Goals.points(cores);
            let real: Vec<_> = points.iter().filter(|point| point.real).collect();
            assert!(matches!(real[..], [one] if one.workers == cores), "{real:?}");
        }
    }

    #[test]
    fn point_names_its_series() {
        let requested = point((high(), 210), 1, 7, WAIT);
        snapshot!(requested);
        snapshot!(requested.local());
        let none = CapacityPoint { window: 0, workers: 1, real: true, ..requested };
        let name = "96000 Hz, 210 frames (2.19 ms), window 0, 1 worker, real work";
        assert_eq!((none.to_string(), none.wait_at_max()), (name.to_owned(), none.period_span()));
    }
}
