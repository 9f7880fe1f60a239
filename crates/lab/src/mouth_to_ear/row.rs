use serde_json::Value;
use tautline_proto::time::{Frames, Span};

use super::MouthToEarFlags;
use super::grid::CallCase;
use super::try_call::MeasuredCall;
use crate::report::ReportRow;
use crate::statistics::Missed;

pub(super) fn row(
    case: &CallCase,
    measured: &MeasuredCall,
    options: &MouthToEarFlags,
) -> ReportRow {
    let stream = measured.received.as_ref();
    let configured = stream.and_then(|one| one.latency.configured_ns).map(Span::from_nanos);
    let median = stream.and_then(|one| one.latency.measured.p50_ns);
    let mut row = match &measured.delays {
        Ok(found) => {
            let mut row = ReportRow::named(&case.name).with(&found.series);
            let all = found.series.values().len() as u64 + found.without;
            row.missed = Some(Missed::of(found.without, all));
            row.uncertainty = Some(found.uncertainty + measured.clock_uncertainty);
            row
        }
        Err(why) => ReportRow::invalid(&case.name, why),
    };
    row.configured = configured;
    row.published.clone_from(&case.published);
    row.add("call_p50_ns", "by the call itself", median);
    let middle = row.measured.as_ref().and_then(|all| all.p50_ns).map(Span::from_nanos);
    // If the latency follows the packets, the call's median counts.
    let kept = match case.latency {
        Some(_) => configured,
        None => median.map(Span::from_nanos),
    };
    if let (Some(middle), Some(kept), Some(unsure)) = (middle, kept, row.uncertainty) {
        let off = middle - kept;
        // Sound is played in whole frames.
        let bound = unsure + case.rate.span_of(Frames::new(1));
        row.add("off_ns", "measured minus configured", off.as_nanos());
        row.add("bound_ns", "known to ±", bound.as_nanos());
        row.add("verdict", "latency", if off.abs() <= bound { "kept" } else { "not kept" });
        if measured.clock_uncertainty > options.clocks.maximum() {
            row.invalid = Some(format!(
                "the clock uncertainty between the hosts is ± {}, above the maximum of {}\nhint: use a \
                 wired network, or a greater --max-uncertainty",
                measured.clock_uncertainty,
                options.clocks.maximum()
            ));
        }
    }
    row.add("lost", "lost, packets", stream.map(|one| one.counters.lost));
    row.add("late", "late, packets", stream.map(|one| one.counters.late));
    if let Some(bulk) = measured.bulk {
        super::bulk::notify(bulk, &mut row);
    }
    cpu(&mut row, measured);
    if let Some(requested) = case.recording {
        row.add("recording_asked_ns", "mouth, requested", requested.as_nanos());
        let held = case.rate.span_of(Frames::new(case.period.count() * i64::from(case.periods)));
        row.add("recording_held_ns", "mouth holds", held.as_nanos());
    }
    row
}

fn cpu(row: &mut ReportRow, measured: &MeasuredCall) {
    if let Some(cap) = measured.cap {
        row.add("near_cpu_cap_percent", "near end's limit, % of a core", cap);
    }
    let Some(used) = measured.used else { return };
    row.add("near_cpu_percent", "near end, % of a core", tenth(used.percent(used.cpu)));
    if let Some(group) = used.group.filter(|group| group.periods > 0) {
        let throttled = group.throttled as f64 * 100.0 / group.periods as f64;
        row.add("throttled_percent", "throttled, % of periods", tenth(throttled));
    }
}

fn tenth(value: f64) -> Value {
    Value::from((value * 10.0).round() / 10.0)
}
