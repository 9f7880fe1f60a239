use tautline_proto::device::Direction;
use tautline_proto::time::{LocalTime, Span};

use super::HandoverSide;
use super::client::{Call, HandedBlock};
use crate::report::{Points, ReportRow};
use crate::statistics::{Series, Sorted};

pub(super) fn rows(side: &HandoverSide, calls: &[Call], overflowed: u64) -> Vec<ReportRow> {
    let mut rows = vec![interval(side, calls, overflowed)];
    rows.extend(side.directions.each().map(|direction| lateness(side, direction, calls)));
    rows
}

fn interval(side: &HandoverSide, calls: &[Call], overflowed: u64) -> ReportRow {
    let mut intervals = Series::with_room(calls.len());
    for pair in calls.windows(2) {
        intervals.push(pair[1].at, pair[1].at - pair[0].at);
    }
    let mut row = ReportRow::named(format!("{} interval", side.name)).with(&intervals);
    row.configured = Some(side.settings.rate.span_of(side.settings.period));
    row.add("xruns", "xruns", calls.iter().map(|call| u64::from(call.xruns)).sum::<u64>());
    row.add("stdev_ns", "stdev", row.measured.and_then(|measured| measured.stdev_ns));
    if overflowed > 0 {
        row.add("unkept", "calls without room", overflowed);
    }
    row.points = vec![Points::of("interval", &intervals)];
    row
}

/// Against the device clock's grid. A skipped block is handed over with the next.
fn lateness(side: &HandoverSide, direction: Direction, calls: &[Call]) -> ReportRow {
    let name = direction.name();
    let (period, rate) = (side.settings.period, side.settings.rate);
    let blocks = || calls.iter().map(|call| (call.at, call.block(direction)));
    let skipped = |block: &HandedBlock| block.skipped.count().max(0);
    let due = blocks().map(|(_, block)| 1 + skipped(block) / period.count().max(1)).sum::<i64>();
    let from_grid = |at: LocalTime, block: &HandedBlock| match direction {
        Direction::Capture => at - (block.meets + rate.span_of(block.frames)),
        Direction::Playback => at - block.meets,
    };
    let earliest = blocks().map(|(at, block)| from_grid(at, block)).min().unwrap_or(Span::ZERO);
    // The device's skip count may be wrong.
    const MAX: i64 = 1 << 20;
    let mut late = Series::with_room(due.clamp(0, MAX + calls.len() as i64) as usize);
    let length = rate.span_of(period);
    for (at, block) in blocks() {
        let own = from_grid(at, block) - earliest;
        let whole = (skipped(block) / period.count().max(1)).min(MAX);
        for back in (0..=whole).rev() {
            let lateness = own + length.times(back);
            late.push(at - lateness, lateness);
        }
    }
    let mut row = ReportRow::named(format!("{} {name}", side.name)).with(&late);
    row.count_missed(&late, |late| late >= length);
    row.uncertainty = blocks().map(|(_, block)| block.uncertainty).max();
    let skips = blocks().map(|(_, block)| skipped(block)).sum::<i64>();
    row.add("skipped_frames", "skipped frames", skips);
    let ahead = Sorted::of(blocks().map(|(at, block)| match direction {
        Direction::Capture => at - block.meets,
        Direction::Playback => block.meets - at,
    }));
    let (key, words) = match direction {
        Direction::Capture => ("since_adc_p50_ns", "first frame's ADC to hand-over"),
        Direction::Playback => ("to_dac_p50_ns", "hand-over to first frame's DAC"),
    };
    row.add(key, words, ahead.summary().p50_ns);
    row.points = vec![Points::of("lateness", &late)];
    row
}
