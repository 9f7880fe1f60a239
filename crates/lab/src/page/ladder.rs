//! All rows: configured, measured and published values, with differences.

use super::markup::{Unit, with_error};
use super::plot::{Axis, Plot};
use super::svg::{Anchor, Chart, FINE, Ink};
use crate::report::{Published, ReportRow};

const ROW: i32 = 40;
const MARKS: f64 = 0.68;

struct LadderMark<'a> {
    row: &'a ReportRow,
    configured: Option<f64>,
    middle: Option<f64>,
    error: f64,
    minimum: Option<f64>,
    maximum: Option<f64>,
    published: Vec<f64>,
}

impl<'a> LadderMark<'a> {
    fn of(row: &'a ReportRow) -> Option<Self> {
        let nanos = |value: i64| value as f64;
        let measured = row.measured.as_ref().filter(|_| row.invalid.is_none());
        let step = Self {
            row,
            configured: row.configured.map(|span| nanos(span.as_nanos())),
            middle: measured.and_then(|m| m.p50_ns.or(m.mean_ns)).map(nanos),
            error: row.uncertainty.map_or(0.0, |error| nanos(error.as_nanos())),
            minimum: measured.and_then(|m| m.min_ns).map(nanos),
            maximum: measured.and_then(|m| m.p99_ns.or(m.max_ns)).map(nanos),
            published: drawn(row).map(|there| nanos(there.value_ns)).collect(),
        };
        let any = step.values().next().is_some();
        any.then_some(step)
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let own = [self.configured, self.middle, self.minimum, self.maximum];
        let error = [-1.0, 1.0].map(|sign| self.middle.map(|middle| middle + sign * self.error));
        own.into_iter().chain(error).flatten().chain(self.published.iter().copied())
    }

    fn rest(&self) -> Option<f64> {
        Some(self.middle? - self.configured?)
    }
}

fn drawn(row: &ReportRow) -> impl Iterator<Item = &Published> {
    row.published.iter().filter(|there| there.statistic.is_typical())
}

fn steps(rows: &[ReportRow]) -> Vec<LadderMark<'_>> {
    rows.iter().filter_map(LadderMark::of).collect()
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(minimum, maximum), value| {
        (minimum.min(value), maximum.max(value))
    })
}

pub(super) fn ladder(rows: &[ReportRow]) -> Option<Chart> {
    let steps = steps(rows);
    if steps.len() < 2 || steps.iter().all(|step| step.middle.is_none()) {
        return None;
    }
    let (minimum, maximum) = range(steps.iter().flat_map(LadderMark::values));
    let axis = match minimum > 0.0 && maximum / minimum > 30.0 {
        true => Axis::fitting(minimum, maximum, Unit::Time),
        false => Axis::linear(minimum.min(0.0), maximum.max(0.0) * 1.03, Unit::Time),
    };
    let label = format!("measured in each of {} rows", steps.len());
    let figure = |step: &LadderMark<'_>| step.middle.map(|middle| with_error(middle, step.error));
    let mut chart = stacked("Row by row", label, axis, &steps, figure, |chart, plot, step, y| {
        for value in &step.published {
            let (x, wide) = (plot.x(*value), 5 * FINE);
            let diamond = [(x - wide, y), (x, y - wide), (x + wide, y), (x, y + wide)];
            chart.shape(diamond, Ink::PUBLISHED, 1.0);
        }
        if let Some(value) = step.configured {
            tick(chart, (plot.x(value), y), 8, Ink::CONFIGURED);
        }
        if let Some((minimum, maximum)) = step.minimum.zip(step.maximum) {
            chart.path([(plot.x(minimum), y), (plot.x(maximum), y)], Ink::MEASURED, FINE);
        }
        if let Some(middle) = step.middle {
            bounded(chart, plot, (middle, step.error), y);
        }
    });
    "●\u{a0}median ± uncertainty, with a line from the minimum to p99".clone_into(&mut chart.words);
    if steps.iter().any(|step| step.configured.is_some()) {
        chart.words += "; ❘\u{a0}configured";
    }
    let mut others: Vec<&str> = Vec::new();
    for there in rows.iter().flat_map(drawn) {
        if !others.contains(&there.source) {
            others.push(there.source);
        }
    }
    if !others.is_empty() {
        chart.words += &format!("; ◆\u{a0}{}", others.join(", "));
    }
    Some(chart)
}

pub(super) fn rests(rows: &[ReportRow]) -> Option<Chart> {
    let mut steps = steps(rows);
    steps.retain(|step| step.rest().is_some());
    if steps.len() < 2 {
        return None;
    }
    let ends =
        |step: &LadderMark<'_>| step.rest().map(|rest| [rest - step.error, rest + step.error]);
    let (minimum, maximum) = range(steps.iter().filter_map(ends).flatten().chain([0.0]));
    let room = ((maximum - minimum) * 0.06).max(1.0);
    let axis = Axis::linear(minimum - room, maximum + room, Unit::Time);
    let label = "measured minus configured, row by row".to_owned();
    let figure = |step: &LadderMark<'_>| step.rest().map(|rest| with_error(rest, step.error));
    let title = "Measured minus configured";
    let mut chart = stacked(title, label, axis, &steps, figure, |chart, plot, step, y| {
        tick(chart, (plot.x(0.0), y), 8, Ink::CONFIGURED);
        bounded(chart, plot, (step.rest().unwrap_or(0.0), step.error), y);
    });
    "●\u{a0}the difference ± its uncertainty; ❘\u{a0}no difference".clone_into(&mut chart.words);
    Some(chart)
}

fn tick(chart: &mut Chart, (x, y): (i32, i32), tall: i32, ink: Ink) {
    chart.path([(x, y - tall * FINE), (x, y + tall * FINE)], ink, 2 * FINE);
}

fn bounded(chart: &mut Chart, plot: &Plot, (value, error): (f64, f64), y: i32) {
    let ends = [value - error, value + error].map(|end| (plot.x(end), y));
    chart.path(ends, Ink::MEASURED, 2 * FINE);
    ends.into_iter().for_each(|end| tick(chart, end, 4, Ink::MEASURED));
    chart.disc((plot.x(value), y), 4, Ink::MEASURED);
}

fn stacked(
    title: &str,
    label: String,
    axis: Axis,
    steps: &[LadderMark<'_>],
    figure: impl Fn(&LadderMark<'_>) -> Option<String>,
    mark: impl Fn(&mut Chart, &Plot, &LadderMark<'_>, i32),
) -> Chart {
    let mut chart = Chart::new(title, label, ROW * steps.len() as i32 + 34);
    let axes = (axis, Axis::unnamed(steps.len()));
    let plot = Plot::whole(&mut chart, axes, [12 * FINE, 22 * FINE]);
    for (index, step) in steps.iter().enumerate() {
        let top = (steps.len() - index) as f64;
        let (y, figure) = (plot.y(top), figure(step).unwrap_or_default());
        let name = fitted(&step.row.name, 46_usize.saturating_sub(figure.chars().count()));
        chart.text(&name, Ink::TEXT, Anchor::LEFT_TOP, (plot.left - 10 * FINE, y));
        chart.text(&figure, Ink::MEASURED, Anchor::RIGHT_TOP, (plot.right + 20 * FINE, y));
        mark(&mut chart, &plot, step, plot.y(top - MARKS));
    }
    chart
}

/// Keeps the beginning of the name (the case) and its end (the row).
fn fitted(name: &str, room: usize) -> String {
    const HEAD: usize = 5;
    let length = name.chars().count();
    if length <= room {
        return name.to_owned();
    }
    let tail = length - room.saturating_sub(HEAD + 1);
    name.chars().take(HEAD).chain(['…']).chain(name.chars().skip(tail)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Statistic;
    use crate::statistics::Series;
    use tautline_proto::time::{LocalTime, Span};

    #[test]
    fn a_deviation_of_others_is_not_drawn_as_a_delay() {
        let mut series = Series::with_room(20);
        (0..20).for_each(|at| {
            series.push(LocalTime::ZERO + Span::from_millis(at), Span::from_millis(45));
        });
        let reported = |statistic| {
            let there = Published { source: "theirs", name: "A", statistic, value_ns: 40_000_000 };
            let row = |name| ReportRow { published: vec![there.clone()], ..row(name, &series) };
            ladder(&[row("a"), row("b")]).unwrap()
        };
        let none = ladder(&[row("a", &series), row("b", &series)]).unwrap();
        for statistic in [Statistic::Stdev, Statistic::Max] {
            assert_eq!(reported(statistic), none, "{statistic:?}");
        }
        for statistic in [Statistic::Single, Statistic::Mean] {
            let Chart { words, .. } = reported(statistic);
            let shapes = |chart: &Chart| chart.figure().matches("class=\"f5\"").count();
            let drawn = shapes(&reported(statistic)) > shapes(&none);
            assert!(words.ends_with("theirs") && drawn, "{statistic:?}: {words}");
        }
    }

    #[test]
    fn shortened_name_keeps_its_distinguishing_end() {
        let mode = "20ms: periods of 5ms, packets of 1ms (test 10)";
        assert_eq!(fitted(mode, 46), mode);
        assert_eq!(fitted(mode, 26), "20ms:…ets of 1ms (test 10)");
        assert_eq!(fitted(&format!("{mode}, all at once"), 29), "20ms:… (test 10), all at once");
    }

    fn row(name: &str, series: &Series) -> ReportRow {
        ReportRow::named(name).with(series)
    }
}
