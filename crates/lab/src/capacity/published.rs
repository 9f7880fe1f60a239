//! The paper's results in text: N. P. Lago and F. Kon, *A Middleware System for Distributed
//! Real-Time Multimedia Processing*, 2003, section 5.3. PCs of 350 to 1400 MHz on Fast Ethernet.

use super::grid::CapacityPoint;
use crate::report::{Published, Statistic};

struct PaperPoint {
    hertz: u32,
    period: u32,
    /// 0 if the plugin ran on the master.
    window: u32,
    workers: usize,
    source: &'static str,
    usable: i64,
}

const fn paper(
    (hertz, period): (u32, u32),
    (window, workers): (u32, usize),
    source: &'static str,
    usable: i64,
) -> PaperPoint {
    PaperPoint { hertz, period, window, workers, source, usable }
}

const FIGURE_5: &str = "Lago and Kon 2003, section 5.3 and figure 5: one machine, Athlon 1.4 GHz";
const FIGURE_6: &str = "Lago and Kon 2003, section 5.3 and figure 6: the maximum at any period, \
                        the master busy-waiting";
const FIGURE_8: &str = "Lago and Kon 2003, section 5.3 and figure 8: 7 machines on Fast Ethernet, \
                        the master busy-waiting";

const POINTS: [PaperPoint; 6] = [
    paper((44_100, 64), (0, 0), FIGURE_5, 89),
    paper((44_100, 132), (0, 0), FIGURE_5, 96),
    paper((44_100, 96), (0, 1), FIGURE_6, 73),
    paper((44_100, 96), (0, 2), FIGURE_6, 27),
    paper((44_100, 96), (0, 3), FIGURE_6, 9),
    paper((96_000, 210), (1, 7), FIGURE_8, 96),
];

pub(super) fn of(point: &CapacityPoint) -> Vec<Published> {
    let same = |there: &&PaperPoint| {
        (there.hertz, there.period) == (point.rate.hertz(), point.period)
            && (there.window, there.workers) == (point.window, point.workers)
    };
    let reported = |there: &PaperPoint| Published {
        source: there.source,
        name: "usable, Lago and Kon",
        statistic: Statistic::Single,
        value_ns: point.period_span().as_nanos() * there.usable / 100,
    };
    POINTS.iter().filter(same).map(reported).collect()
}

/// Figure 7 and section 5.3.
pub(super) const MASTER: &str = "the paper's master took 45 % user and 20 % system of an Athlon \
                                 1.4 GHz with 7 workers at 96 kHz and 2.19 ms, busy-waiting";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::CapacityGrid;

    #[test]
    fn each_published_point_is_in_the_grid_next_to_one_row() {
        let points = CapacityGrid::Paper.points(2);
        for there in &POINTS {
            let reported = |point: &CapacityPoint| {
                let found = of(point);
                let share = |found: &Published| {
                    found.value_ns as f64 * 100.0 / point.period_span().as_nanos() as f64
                };
                found.iter().any(|one| {
                    one.source == there.source && (share(one) - there.usable as f64).abs() < 0.01
                })
            };
            let at = |point: &&CapacityPoint| {
                (point.rate.hertz(), point.period) == (there.hertz, there.period) && reported(point)
            };
            assert_eq!(points.iter().filter(at).count(), 1, "{} %", there.usable);
        }
    }
}
