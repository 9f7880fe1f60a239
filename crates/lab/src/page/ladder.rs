//! All rows side by side: what was set, what was measured, what others published; and what is left between.

use plotters::style::text_anchor::{HPos, VPos};

use super::axis::{Axis, Named, Plot};
use super::svg::{Drawn, FINE, Ink, filled, letters, line, svg};
use super::words::{Unit, with_error};
use crate::report::{Published, ReportRow};

/// How tall one row is, in pixels: its name, and its marks below it.
const ROW: u32 = 40;
/// Of the marks, from the top of a row.
const MARKS: f64 = 0.68;

/// One row, in nanoseconds.
struct LadderMark<'a> {
    row: &'a ReportRow,
    configured: Option<f64>,
    middle: Option<f64>,
    error: f64,
    least: Option<f64>,
    most: Option<f64>,
    published: Vec<f64>,
}

impl<'a> LadderMark<'a> {
    fn of(row: &'a ReportRow) -> Option<Self> {
        let nanos = |value: i64| value as f64;
        let measured = row.measured.as_ref().filter(|_| row.void.is_none());
        let step = Self {
            row,
            configured: row.configured.map(|span| nanos(span.as_nanos())),
            middle: measured.and_then(|m| m.p50_ns.or(m.mean_ns)).map(nanos),
            error: row.uncertainty.map_or(0.0, |error| nanos(error.as_nanos())),
            least: measured.and_then(|m| m.min_ns).map(nanos),
            most: measured.and_then(|m| m.p99_ns.or(m.max_ns)).map(nanos),
            published: drawn(row).map(|there| nanos(there.value_ns)).collect(),
        };
        let any = step.values().next().is_some();
        any.then_some(step)
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let own = [self.configured, self.middle, self.least, self.most];
        let error = [-1.0, 1.0].map(|sign| self.middle.map(|middle| middle + sign * self.error));
        own.into_iter().chain(error).flatten().chain(self.published.iter().copied())
    }

    fn rest(&self) -> Option<f64> {
        Some(self.middle? - self.configured?)
    }
}

/// What others published of the same kind as what stands beside it.
fn drawn(row: &ReportRow) -> impl Iterator<Item = &Published> {
    row.published.iter().filter(|there| there.statistic.is_typical())
}

fn steps(rows: &[ReportRow]) -> Vec<LadderMark<'_>> {
    rows.iter().filter_map(LadderMark::of).collect()
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
        (least.min(value), most.max(value))
    })
}

/// A chart of all rows, where there are several; with what it shows in a sentence.
pub(super) fn ladder(rows: &[ReportRow]) -> Option<(String, String)> {
    let steps = steps(rows);
    if steps.len() < 2 || steps.iter().all(|step| step.middle.is_none()) {
        return None;
    }
    let (least, most) = range(steps.iter().flat_map(LadderMark::values));
    let axis = match least > 0.0 && most / least > 30.0 {
        true => Axis::fitting(least, most, Unit::Time),
        false => Axis::linear(least.min(0.0), most.max(0.0) * 1.03, Unit::Time),
    };
    let label = format!("measured in each of {} rows", steps.len());
    let chart = stacked(
        &label,
        axis,
        &steps,
        |plot, step, height| {
            let at = |value: f64| plot.at(value, height);
            for value in &step.published {
                let (x, y) = at(*value);
                let wide = 5 * FINE as i32;
                let diamond = [(x - wide, y), (x, y - wide), (x + wide, y), (x, y + wide)];
                plot.shape(diamond, filled(Ink::Published, 1.0))?;
            }
            if let Some(value) = step.configured {
                let ((x, y), tall) = (at(value), 8 * FINE as i32);
                plot.path([(x, y - tall), (x, y + tall)], line(Ink::Configured, 2 * FINE))?;
            }
            if let Some((least, most)) = step.least.zip(step.most) {
                plot.path([at(least), at(most)], line(Ink::Measured, FINE))?;
            }
            let Some(middle) = step.middle else { return Ok(()) };
            bar(plot, at(middle - step.error), at(middle + step.error))?;
            plot.disc(at(middle), 4 * FINE, filled(Ink::Measured, 1.0))
        },
        |step| step.middle.map(|middle| with_error(middle, step.error)),
    );
    let mut words =
        "●\u{a0}median ± uncertainty, with a line from the least to 99 of 100".to_owned();
    if steps.iter().any(|step| step.configured.is_some()) {
        words += "; ❘\u{a0}configured";
    }
    let mut others: Vec<&str> = Vec::new();
    for there in rows.iter().flat_map(drawn) {
        if !others.contains(&there.source) {
            others.push(there.source);
        }
    }
    if !others.is_empty() {
        words += &format!("; ◆\u{a0}{}", others.join(", "));
    }
    Some((words, chart))
}

/// What is measured beyond what was configured, on an axis of its own.
pub(super) fn rests(rows: &[ReportRow]) -> Option<String> {
    let steps: Vec<LadderMark<'_>> =
        steps(rows).into_iter().filter(|step| step.rest().is_some()).collect();
    if steps.len() < 2 {
        return None;
    }
    let ends =
        |step: &LadderMark<'_>| step.rest().map(|rest| [rest - step.error, rest + step.error]);
    let (least, most) = range(steps.iter().filter_map(ends).flatten().chain([0.0]));
    let room = ((most - least) * 0.06).max(1.0);
    let axis = Axis::linear(least - room, most + room, Unit::Time);
    let chart = stacked(
        "measured less configured, row by row",
        axis,
        &steps,
        |plot, step, height| {
            let rest = step.rest().unwrap_or(0.0);
            let (zero, tall) = (plot.at(0.0, height), 8 * FINE as i32);
            plot.path(
                [(zero.0, zero.1 - tall), (zero.0, zero.1 + tall)],
                line(Ink::Configured, 2 * FINE),
            )?;
            bar(plot, plot.at(rest - step.error, height), plot.at(rest + step.error, height))?;
            plot.disc(plot.at(rest, height), 4 * FINE, filled(Ink::Measured, 1.0))
        },
        |step| step.rest().map(|rest| with_error(rest, step.error)),
    );
    Some(chart)
}

/// How far a figure may be off, with ends that are seen.
fn bar(plot: &Plot<'_>, from: (i32, i32), to: (i32, i32)) -> Drawn {
    let (style, tall) = (line(Ink::Measured, 2 * FINE), 4 * FINE as i32);
    plot.path([from, to], style)?;
    [from, to].into_iter().try_for_each(|(x, y)| plot.path([(x, y - tall), (x, y + tall)], style))
}

/// Rows one below the other, each with its name and a figure above its marks.
fn stacked(
    label: &str,
    axis: Axis,
    steps: &[LadderMark<'_>],
    mark: impl Fn(&Plot<'_>, &LadderMark<'_>, f64) -> Drawn,
    figure: impl Fn(&LadderMark<'_>) -> Option<String>,
) -> String {
    let count = steps.len() as f64;
    svg(ROW * steps.len() as u32 + 34, label, 1, |area| {
        let upwards = Axis::unnamed(steps.len());
        let plot = Plot::begin(area, (axis, upwards), Named::Across, [12 * FINE, 22 * FINE])?;
        let (across, _) = plot.bounds();
        for (index, step) in steps.iter().enumerate() {
            let top = count - index as f64;
            let (_, y) = plot.at(0.0, top);
            let figure = figure(step).unwrap_or_default();
            let room = 46_usize.saturating_sub(figure.chars().count());
            let name = fitted(&step.row.name, room);
            let above = VPos::Top;
            plot.words(
                &name,
                &letters(Ink::Text, HPos::Left, above),
                (across.start - 10 * FINE as i32, y),
            )?;
            plot.words(
                &figure,
                &letters(Ink::Measured, HPos::Right, above),
                (across.end + 20 * FINE as i32, y),
            )?;
            mark(&plot, step, top - MARKS)?;
        }
        Ok(())
    })
}

/// A name in so much room, in characters. What tells rows of one rung apart stands at its end, and by what
/// the rung is known at its beginning.
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
        let told = |statistic| {
            let there = Published { source: "theirs", name: "A", statistic, value_ns: 40_000_000 };
            let row = |name| ReportRow { published: vec![there.clone()], ..row(name, &series) };
            ladder(&[row("a"), row("b")]).unwrap()
        };
        let (none, bare) = ladder(&[row("a", &series), row("b", &series)]).unwrap();
        for statistic in [Statistic::Stdev, Statistic::Max] {
            assert_eq!(told(statistic), (none.clone(), bare.clone()), "{statistic:?}");
        }
        for statistic in [Statistic::Single, Statistic::Mean] {
            let (words, chart) = told(statistic);
            assert!(words.ends_with("theirs") && chart != bare, "{statistic:?}: {words}");
        }
    }

    #[test]
    fn a_name_that_has_no_room_keeps_what_tells_it_from_its_neighbours() {
        let rung = "20ms: periods of 5ms, packets of 1ms (test 10)";
        assert_eq!(fitted(rung, 46), rung);
        assert_eq!(fitted(rung, 26), "20ms:…ets of 1ms (test 10)");
        assert_eq!(fitted(&format!("{rung}, all at once"), 29), "20ms:… (test 10), all at once");
    }

    fn row(name: &str, series: &Series) -> ReportRow {
        ReportRow::named(name).with(series)
    }
}
