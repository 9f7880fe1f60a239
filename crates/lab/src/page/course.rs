//! How a run went, second by second, and what else was seen in the same seconds.

use plotters::style::text_anchor::{HPos, VPos};

use super::axis::{Axis, Named, Plot, RIGHT};
use super::svg::{Area, Drawn, FINE, Ink, LETTERS, filled, letters, line, svg};
use super::words::Unit;
use crate::report::{Events, INTERVAL, Meanwhile, ReportRow};
use crate::statistics::Interval;

/// Of the values, and of each thing that was seen meanwhile, in pixels.
const HEIGHT: u32 = 240;
const STRIP: u32 = 80;
/// Fewer intervals show nothing that figures do not.
const LEAST: usize = 3;
/// From how many times the range of all else on the greatest values have a scale of their own.
const APART: f64 = 5.0;

/// What stands below the values, by the same time.
struct Strip<'a> {
    title: &'a str,
    values: Vec<(i64, f64)>,
    /// Of what seldom happens, such as xruns.
    counted: bool,
    scale: Axis,
}

/// The chart, where there are seconds enough; with what it shows in a sentence.
pub(super) fn course(row: &ReportRow) -> Option<(String, String)> {
    if row.intervals.len() < LEAST {
        return None;
    }
    let length = INTERVAL.as_nanos();
    let mut strips: Vec<Strip<'_>> =
        row.meanwhile.iter().filter(|seen| seen.drawn).filter_map(Strip::of).collect();
    let seconds = strips.iter().any(|strip| strip.counted);
    let end = row.intervals.last().map_or(0, |last| last.at_ns + length);
    let end = strips.iter().flat_map(|strip| &strip.values).map(|(at, _)| *at).fold(end, i64::max);
    let happened: Vec<Strip<'_>> =
        row.events.iter().filter_map(|events| Strip::happened(events, end)).collect();
    let named: Vec<&str> = happened.iter().map(|strip| strip.title).collect();
    let named = named.join(" and ");
    strips.splice(0..0, happened);
    let across = Axis::linear(0.0, end as f64, Unit::Time);
    let least = row.intervals.iter().map(|one| one.min_ns).min()? as f64;
    let most = row.intervals.iter().map(|one| one.max_ns).max()? as f64;
    let usual = row.intervals.iter().map(high).max()? as f64;
    let apart = most - least > APART * (usual - least);
    if apart {
        strips.insert(0, Strip::greatest(&row.intervals, least, most));
    }
    let upwards = Axis::fitting(least, if apart { usual } else { most }, Unit::Time);
    let left = strips.iter().map(|strip| &strip.scale).chain([&upwards]).map(Axis::room).max()?;
    let height = HEIGHT + STRIP * strips.len() as u32;
    let label = format!("{}: {} seconds one after the other", row.name, row.intervals.len());
    let chart = svg(height, &label, 1, |area| {
        let (main, mut rest) = area.split_vertically(HEIGHT * FINE);
        let plot = Plot::begin(&main, (across, upwards), Named::Both, [left, RIGHT * FINE])?;
        strips.iter().filter(|strip| strip.counted).try_for_each(|strip| mark(&plot, strip))?;
        for run in row.intervals.chunk_by(|a, b| b.at_ns - a.at_ns <= length) {
            band(&plot, run, apart)?;
        }
        for strip in &strips {
            let (one, below) = rest.split_vertically(STRIP * FINE);
            strip.draw(&one, across, left)?;
            rest = below;
        }
        Ok(())
    });
    let mut words = String::from("median of each second");
    words += match row.intervals.iter().any(|one| one.p99_ns.is_some()) {
        true => ", in a band from the least to 99 of 100",
        false if apart => ", in a band down to the least",
        false => ", in a band from the least to the greatest",
    };
    words +=
        if apart { "; the greatest below, on a scale of its own" } else { "; thin: the greatest" };
    if seconds {
        words += "; seconds in which something went wrong are marked";
    }
    if !named.is_empty() {
        words += &format!("; {named} are marked, each where it was");
    }
    Some((words, chart))
}

/// Where the band ends: few values have no percentile.
fn high(one: &Interval) -> i64 {
    one.p99_ns.unwrap_or(one.p50_ns)
}

/// Seconds that follow each other; the greatest too, unless they stand apart.
fn band(plot: &Plot<'_>, run: &[Interval], apart: bool) -> Drawn {
    // Each value stands for its whole second.
    let steps = |of: &dyn Fn(&Interval) -> i64| -> Vec<(i32, i32)> {
        let ends = |one: &Interval| {
            let value = of(one) as f64;
            [0, INTERVAL.as_nanos()].map(|more| plot.at((one.at_ns + more) as f64, value))
        };
        run.iter().flat_map(ends).collect()
    };
    let few = |one: &Interval| if apart { high(one) } else { one.p99_ns.unwrap_or(one.max_ns) };
    let (above, below) = (steps(&few), steps(&|one| one.min_ns));
    plot.shape(above.iter().chain(below.iter().rev()).copied(), filled(Ink::Measured, 0.25))?;
    if !apart {
        plot.path(steps(&|one| one.max_ns), line(Ink::Aside, FINE))?;
    }
    plot.path(steps(&|one| one.p50_ns), line(Ink::Measured, 2 * FINE))
}

/// When it happened, behind the values.
fn mark(plot: &Plot<'_>, strip: &Strip<'_>) -> Drawn {
    let bad = strip.values.iter().filter(|(_, value)| *value > 0.0);
    plot.rules(bad.map(|(at, _)| *at as f64), line(Ink::Bad, FINE))
}

impl<'a> Strip<'a> {
    fn of(seen: &'a Meanwhile) -> Option<Self> {
        let values = seen.values.clone();
        let none = values.iter().filter(|(_, value)| *value == 0.0).count();
        // What has a unit is how something stands, such as a queue, and no event.
        let counted = !seen.words.contains(',')
            && 2 * none >= values.len()
            && values.iter().all(|(_, value)| value.fract() == 0.0);
        let most = values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
        let least = values.iter().map(|(_, value)| *value).fold(0.0, f64::min);
        let unit = if counted { Unit::Count } else { Unit::Number };
        let scale = Axis::linear(least, if most > 0.0 { most } else { 1.0 }, unit).with_few_names();
        let enough = values.len() >= LEAST;
        enough.then_some(Self { title: &seen.words, values, counted, scale })
    }

    /// What happened at instants of its own, of those that the chart shows.
    fn happened(events: &'a Events, end: i64) -> Option<Self> {
        let values: Vec<_> =
            events.within(0..=end).into_iter().map(|(at, count)| (at, f64::from(count))).collect();
        let most = values.iter().map(|(_, count)| *count).fold(0.0, f64::max);
        let scale = Axis::linear(0.0, most, Unit::Count).with_few_names();
        let any = !values.is_empty();
        any.then_some(Self { title: events.words, values, counted: true, scale })
    }

    fn greatest(intervals: &[Interval], least: f64, most: f64) -> Self {
        let half = INTERVAL.as_nanos() / 2;
        let values = intervals.iter().map(|one| (one.at_ns + half, one.max_ns as f64)).collect();
        let scale = Axis::linear(least, most, Unit::Time).with_few_names();
        Self { title: "greatest of each second", values, counted: false, scale }
    }

    fn draw(&self, area: &Area<'_>, across: Axis, left: u32) -> Drawn {
        let (title, below) = area.split_vertically((LETTERS + 5) * FINE);
        let axes = (across, self.scale);
        let plot = Plot::begin(&below, axes, Named::Upwards, [left, RIGHT * FINE])?;
        let ink = if self.counted { Ink::Bad } else { Ink::Text };
        let style = letters(ink, HPos::Left, VPos::Top);
        title.draw_text(self.title, &style, (left as i32, FINE as i32))?;
        let places = self.values.iter().map(|(at, value)| plot.at(*at as f64, *value));
        if !self.counted {
            return plot.path(places, line(Ink::Text, FINE + FINE / 2));
        }
        let (_, zero) = plot.at(0.0, 0.0);
        for (x, y) in places.filter(|(_, y)| *y < zero) {
            plot.path([(x, zero), (x, y)], line(Ink::Bad, 3 * FINE))?;
        }
        Ok(())
    }
}
