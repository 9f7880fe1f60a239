//! Times of a stream's blocks, from the graph's cycle reports, without I/O. A graph passes a block
//! on within one cycle.

use tautline_proto::device::Direction;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;

const NANOS_PER_SECOND: i128 = 1_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CycleReport {
    pub(super) began: LocalTime,
    pub(super) ticks: u64,
    pub(super) hertz: u32,
    /// Ticks from stream to converter with the cycle; 0 for a device of other programs.
    pub(super) delay: i64,
    pub(super) buffered: Frames,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockPlace {
    pub(super) meets: LocalTime,
    pub(super) uncertainty: Span,
    pub(super) skipped: Frames,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    report: CycleReport,
    length: i64,
    end: LocalTime,
}

#[derive(Debug, Clone)]
pub(super) struct GraphTiming {
    direction: Direction,
    rate: Rate,
    to_converter: bool,
    last: Option<Last>,
    quantum: Option<u64>,
    graph_delay: Span,
}

impl GraphTiming {
    pub(super) fn new(direction: Direction, rate: Rate) -> Self {
        let (last, quantum, graph_delay) = (None, None, Span::ZERO);
        Self { direction, rate, to_converter: true, last, quantum, graph_delay }
    }

    #[cfg(any(feature = "pipewire", test))]
    pub(super) fn at_ports(self) -> Self {
        Self { to_converter: false, ..self }
    }

    pub(super) fn restart(&mut self) {
        self.last = None;
    }

    pub(super) fn quantum(&self) -> Option<u64> {
        self.quantum
    }

    #[cfg(feature = "pipewire")]
    pub(super) fn graph_delay(&self) -> Span {
        self.graph_delay
    }

    pub(super) fn place(&mut self, report: CycleReport, frames: Frames) -> BlockPlace {
        let (own, hertz) = (i128::from(self.rate.hertz()), i128::from(report.hertz.max(1)));
        let ticks =
            |ticks: i64| Span::from_nanos((i128::from(ticks) * NANOS_PER_SECOND / hertz) as i64);
        let buffered = self.rate.span_of(report.buffered);
        let graph_delay = match self.to_converter {
            true => (ticks(report.delay) + buffered).max(self.rate.span_of(frames)),
            false => buffered,
        };
        self.graph_delay = graph_delay;
        let mut meets = match self.direction {
            Direction::Capture => report.began - graph_delay,
            Direction::Playback => report.began + graph_delay,
        };
        let mut skipped = Frames::ZERO;
        if let Some(last) = self.last {
            if last.report.ticks == report.ticks && last.report.began == report.began {
                meets = last.end;
            } else {
                skipped = self.gap(&last, &report, meets);
            }
        }
        let length = (i128::from(frames.count()) * hertz / own) as i64;
        self.last = Some(Last { report, length, end: meets + self.rate.span_of(frames) });
        let uncertainty = self.rate.span_of(Frames::new(1)) + ticks(1);
        BlockPlace { meets, uncertainty, skipped }
    }

    /// Whole cycles between the last block and `meets`; under half a cycle is rounding or a late
    /// driver.
    fn gap(&mut self, last: &Last, now: &CycleReport, meets: LocalTime) -> Frames {
        let half = last.length / 2;
        let went = now.ticks.checked_sub(last.report.ticks).filter(|went| *went > 0);
        let Some(went) = went.filter(|_| now.hertz == last.report.hertz) else {
            let gap = self.rate.frames_nearest(meets - last.end);
            return if gap.count() > half { gap } else { Frames::ZERO };
        };
        let missed = i64::try_from(went).unwrap_or(i64::MAX).saturating_sub(last.length);
        if missed <= half {
            self.quantum = Some(went);
            return Frames::ZERO;
        }
        let own = i128::from(self.rate.hertz());
        Frames::new((i128::from(missed) * own / i128::from(now.hertz.max(1))) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUANTUM: i64 = 64;

    fn at(tick: i64) -> LocalTime {
        LocalTime::from_nanos(7_000_000_000 + tick * 1_000_000_000 / 48_000)
    }

    fn report(tick: i64) -> CycleReport {
        let ticks = 1000 + tick as u64;
        CycleReport { began: at(tick), ticks, hertz: 48_000, delay: 0, buffered: Frames::ZERO }
    }

    fn course(direction: Direction) -> GraphTiming {
        GraphTiming::new(direction, Rate::HZ_48000)
    }

    fn skipped(course: &mut GraphTiming, report: CycleReport) -> i64 {
        course.place(report, Frames::new(QUANTUM)).skipped.count()
    }

    #[test]
    fn a_block_was_captured_a_delay_ago_and_is_played_a_delay_later() {
        let said = CycleReport { delay: 96, buffered: Frames::new(48), ..report(0) };
        let met = |direction| course(direction).place(said, Frames::new(QUANTUM)).meets - at(0);
        assert_eq!(met(Direction::Capture), Span::from_nanos(-3_000_000));
        assert_eq!(met(Direction::Playback), Span::from_nanos(3_000_000));
    }

    #[test]
    fn port_times_are_cycle_begin_plus_resampler_delay() {
        for (buffered, graph_delay) in [(0, 0), (48, 1)] {
            let said = CycleReport { delay: 960, buffered: Frames::new(buffered), ..report(0) };
            let met = |direction| {
                course(direction).at_ports().place(said, Frames::new(QUANTUM)).meets - at(0)
            };
            assert_eq!(met(Direction::Capture), Span::from_millis(-graph_delay));
            assert_eq!(met(Direction::Playback), Span::from_millis(graph_delay));
        }
    }

    #[test]
    fn cycles_that_follow_each_other_skip_nothing() {
        let mut course = course(Direction::Capture);
        for cycle in 0..1000 {
            assert_eq!(skipped(&mut course, report(cycle * QUANTUM)), 0);
        }
        assert_eq!(course.quantum(), Some(64));
    }

    #[test]
    fn missed_graph_cycles_are_counted_exactly() {
        let mut course = course(Direction::Playback);
        skipped(&mut course, report(0));
        assert_eq!(skipped(&mut course, report(4 * QUANTUM)), 3 * QUANTUM);
        assert_eq!(skipped(&mut course, report(5 * QUANTUM)), 0);
        assert_eq!(course.quantum(), Some(64));
    }

    #[test]
    fn without_a_converter_a_block_is_a_cycle_away() {
        let met = |direction| course(direction).place(report(0), Frames::new(48)).meets - at(0);
        assert_eq!(met(Direction::Capture), Span::from_millis(-1));
        assert_eq!(met(Direction::Playback), Span::from_millis(1));
    }

    #[test]
    fn a_driver_that_wakes_late_skips_nothing() {
        let mut course = course(Direction::Capture);
        skipped(&mut course, report(0));
        let late = CycleReport { began: at(QUANTUM * 3), ..report(QUANTUM) };
        assert_eq!(skipped(&mut course, late), 0);
    }

    #[test]
    fn time_gives_the_frames_skipped_by_a_driver_change() {
        let mut course = course(Direction::Capture);
        skipped(&mut course, report(0));
        let other = CycleReport { ticks: 1000, ..report(10 * QUANTUM) };
        assert_eq!(skipped(&mut course, other), 9 * QUANTUM);
        let slower = CycleReport { ticks: 9000, hertz: 44_100, ..report(11 * QUANTUM) };
        assert_eq!(skipped(&mut course, slower), 0);
        let backwards = CycleReport { hertz: 44_100, ..report(5 * QUANTUM) };
        assert_eq!(skipped(&mut course, backwards), 0);
    }

    #[test]
    fn second_pull_of_a_resampler_gets_the_next_block() {
        let mut course = course(Direction::Playback);
        let first = course.place(report(0), Frames::new(48));
        let second = course.place(report(0), Frames::new(48));
        assert_eq!(
            (second.meets - first.meets, second.skipped),
            (Span::from_millis(1), Frames::ZERO)
        );
    }

    #[test]
    fn a_graph_at_another_rate_is_missed_in_frames_of_the_stream() {
        let mut course = GraphTiming::new(Direction::Capture, Rate::new(96_000).unwrap());
        course.place(report(0), Frames::new(128));
        assert_eq!(course.place(report(64), Frames::new(127)).skipped, Frames::ZERO);
        assert_eq!(course.place(report(192), Frames::new(128)).skipped, Frames::new(130));
    }

    #[test]
    fn restart_skips_nothing() {
        let mut course = course(Direction::Capture);
        skipped(&mut course, report(0));
        course.restart();
        assert_eq!(skipped(&mut course, report(1_000_000)), 0);
    }
}
