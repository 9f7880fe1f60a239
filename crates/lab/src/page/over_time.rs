//! Course of a run and other observations: panels on one time axis.

use super::markup::Unit;
use super::plot::{Axis, Plot, RIGHT};
use super::svg::{Anchor, Chart, FINE, Ink, LETTERS, Place, width};
use crate::report::{Events, INTERVAL, Meanwhile, ReportRow};
use crate::statistics::Interval;

const HEIGHT: i32 = 240;
const WORDS: i32 = LETTERS + 5;
const STRIP: i32 = 62;
const MACHINE: i32 = 96;
const TIME: i32 = LETTERS + 3;
/// Minimum intervals of a chart. Fewer show no more than figures.
const MIN: usize = 3;
/// Minimum multiple of the other values' range at which maxima get their own scale.
const APART: f64 = 5.0;

type Values = Vec<(i64, f64)>;

struct Panel<'a> {
    title: &'a str,
    /// A single line has no legend.
    lines: Vec<(&'static str, Values)>,
    counted: bool,
    style: fn(usize) -> (Ink, i32),
    scale: Axis,
    height: i32,
}

impl<'a> Panel<'a> {
    fn strip(title: &'a str, values: Values, counted: bool, scale: Axis) -> Self {
        let style = |_| (Ink::TEXT, FINE + FINE / 2);
        let (lines, scale) = (vec![("", values)], scale.with_few_names());
        Self { title, lines, counted, style, scale, height: STRIP }
    }

    fn of(seen: &'a Meanwhile) -> Option<Self> {
        let values = || seen.values.iter().map(|(_, value)| *value);
        let none = values().filter(|value| *value == 0.0).count();
        // A unit marks a level, not an event count.
        let counted = !seen.words.contains(',')
            && 2 * none >= seen.values.len()
            && values().all(|value| value.fract() == 0.0);
        let (minimum, maximum) = (values().fold(0.0, f64::min), values().fold(0.0, f64::max));
        let unit = if counted { Unit::Count } else { Unit::Number };
        let scale = Axis::linear(minimum, if maximum > 0.0 { maximum } else { 1.0 }, unit);
        let strip = || Self::strip(&seen.words, seen.values.clone(), counted, scale);
        (seen.values.len() >= MIN).then(strip)
    }

    fn happened(events: &'a Events, end: i64) -> Option<Self> {
        let values: Values =
            events.within(0..=end).into_iter().map(|(at, count)| (at, f64::from(count))).collect();
        let maximum = values.iter().map(|(_, count)| *count).reduce(f64::max)?;
        Some(Self::strip(&events.words, values, true, Axis::linear(0.0, maximum, Unit::Count)))
    }

    fn values(&self) -> impl Iterator<Item = &(i64, f64)> {
        self.lines.iter().flat_map(|(_, values)| values)
    }

    fn full_height(&self) -> i32 {
        self.height + WORDS * if self.lines.len() > 1 { 2 } else { 1 }
    }

    fn draw(&self, chart: &mut Chart, mut top: i32, across: Axis, left: i32, is_last: bool) {
        let ink = if self.counted { Ink::BAD } else { Ink::TEXT };
        chart.text(self.title, ink, Anchor::LEFT_TOP, (left, top + FINE));
        top += WORDS * FINE;
        if self.lines.len() > 1 {
            let mut x = left;
            for (index, (name, _)) in self.lines.iter().enumerate() {
                let entry = format!("— {name}");
                chart.text(&entry, (self.style)(index).0, Anchor::LEFT_TOP, (x, top + FINE));
                x += width(&entry) + 4 * FINE;
            }
            top += WORDS * FINE;
        }
        let bottom = top + (self.height + if is_last { TIME } else { 0 }) * FINE;
        let axes = (across, self.scale);
        let plot = Plot::new(chart, (top, bottom), axes, [left, RIGHT * FINE], is_last);
        if self.counted {
            let zero = plot.y(0.0);
            let places = self.values().map(|(at, value)| plot.at(*at as f64, *value));
            for (x, y) in places.filter(|(_, y)| *y < zero) {
                chart.path([(x, zero), (x, y)], Ink::BAD, 3 * FINE);
            }
            return;
        }
        for (index, (_, values)) in self.lines.iter().enumerate() {
            let (ink, width) = (self.style)(index);
            chart.path(places(&plot, values), ink, width);
        }
    }
}

/// A pixel column of more than two values keeps minimum and maximum.
fn places(plot: &Plot, values: &[(i64, f64)]) -> Vec<Place> {
    let at = |(at, value): &(i64, f64)| plot.at(*at as f64, *value);
    let column = |value: &(i64, f64)| at(value).0 / FINE;
    let mut places = Vec::new();
    for near in values.chunk_by(|one, next| column(one) == column(next)) {
        if near.len() <= 2 {
            places.extend(near.iter().map(at));
            continue;
        }
        let by_value = |one: &&(i64, f64), other: &&(i64, f64)| one.1.total_cmp(&other.1);
        let ends = [near.iter().min_by(by_value), near.iter().max_by(by_value)];
        places.extend(ends.into_iter().flatten().map(at));
    }
    places
}

pub(super) fn course(row: &ReportRow) -> Option<Chart> {
    if row.intervals.len() < MIN {
        return None;
    }
    let length = INTERVAL.as_nanos();
    let mut strips: Vec<Panel<'_>> =
        row.meanwhile.iter().filter(|seen| seen.drawn).filter_map(Panel::of).collect();
    let seconds = strips.iter().any(|strip| strip.counted);
    let end = row.intervals.last().map_or(0, |last| last.at_ns + length);
    let end = strips.iter().flat_map(Panel::values).map(|(at, _)| *at).fold(end, i64::max);
    let happened: Vec<Panel<'_>> =
        row.events.iter().filter_map(|events| Panel::happened(events, end)).collect();
    let named = happened.iter().map(|strip| strip.title).collect::<Vec<_>>().join(" and ");
    strips.splice(0..0, happened);
    let minimum = row.intervals.iter().map(|one| one.min_ns).min()? as f64;
    let maximum = row.intervals.iter().map(|one| one.max_ns).max()? as f64;
    let usual = row.intervals.iter().map(high).max()? as f64;
    let apart = maximum - minimum > APART * (usual - minimum);
    if apart {
        let middle = |one: &Interval| (one.at_ns + length / 2, one.max_ns as f64);
        let values = row.intervals.iter().map(middle).collect();
        let scale = Axis::linear(minimum, maximum, Unit::Time);
        strips.insert(0, Panel::strip("maximum of each second", values, false, scale));
    }
    let across = Axis::linear(0.0, end as f64, Unit::Time);
    let upwards = Axis::fitting(minimum, if apart { usual } else { maximum }, Unit::Time);
    let left = strips.iter().map(|strip| &strip.scale).chain([&upwards]).map(Axis::room).max()?;
    let label = format!("{}: {} seconds one after the other", row.name, row.intervals.len());
    let height = HEIGHT + strips.iter().map(Panel::full_height).sum::<i32>();
    let mut chart = Chart::new("Second by second", label, height);
    let mut top = HEIGHT * FINE;
    let plot = Plot::new(&mut chart, (0, top), (across, upwards), [left, RIGHT * FINE], true);
    for strip in strips.iter().filter(|strip| strip.counted) {
        let bad = strip.values().filter(|(_, value)| *value > 0.0);
        plot.rules(&mut chart, bad.map(|(at, _)| *at as f64));
    }
    for run in row.intervals.chunk_by(|a, b| b.at_ns - a.at_ns <= length) {
        band(&mut chart, &plot, run, apart);
    }
    for strip in &strips {
        strip.draw(&mut chart, top, across, left, false);
        top += strip.full_height() * FINE;
    }
    let words = &mut chart.words;
    *words += "median of each second";
    *words += match row.intervals.iter().any(|one| one.p99_ns.is_some()) {
        true => ", in a band from the minimum to p99",
        false if apart => ", in a band down to the minimum",
        false => ", in a band from the minimum to the maximum",
    };
    *words +=
        if apart { "; the maximum below, on a separate scale" } else { "; thin: the maximum" };
    if seconds {
        *words += "; seconds with faults are marked";
    }
    if !named.is_empty() {
        *words += &format!("; {named} are marked, each where it was");
    }
    Some(chart)
}

/// Few values have no percentile.
fn high(one: &Interval) -> i64 {
    one.p99_ns.unwrap_or(one.p50_ns)
}

fn band(chart: &mut Chart, plot: &Plot, run: &[Interval], apart: bool) {
    // Each value covers its whole second.
    let steps = |of: &dyn Fn(&Interval) -> i64| -> Vec<Place> {
        let ends = |one: &Interval| {
            let value = of(one) as f64;
            [0, INTERVAL.as_nanos()].map(|more| plot.at((one.at_ns + more) as f64, value))
        };
        run.iter().flat_map(ends).collect()
    };
    let few = |one: &Interval| if apart { high(one) } else { one.p99_ns.unwrap_or(one.max_ns) };
    let (above, below) = (steps(&few), steps(&|one| one.min_ns));
    chart.shape(above.into_iter().chain(below.into_iter().rev()), Ink::MEASURED, 0.25);
    if !apart {
        chart.path(steps(&|one| one.max_ns), Ink::ASIDE, FINE);
    }
    chart.path(steps(&|one| one.p50_ns), Ink::MEASURED, 2 * FINE);
}

const MACHINES: [(&str, &str); 3] = [
    ("", "Over time"),
    ("sender_", "Sender's machine over time"),
    ("receiver_", "Receiver's machine over time"),
];

const PANELS: [(&str, &[(&str, &str)]); 6] = [
    (
        "processor, % of all cores",
        &[
            ("user_percent", "user"),
            ("system_percent", "system"),
            ("irq_percent", "irq"),
            ("softirq_percent", "softirq"),
        ],
    ),
    ("processor, % of a core", &[("user_core_percent", "user"), ("system_core_percent", "system")]),
    ("interrupts, 1/s", &[("interrupts_per_s", "interrupts")]),
    ("context switches, 1/s", &[("switches_per_s", "switches")]),
    ("network, Mbit/s", &[("mbit_per_s", "all")]),
    ("network, packets/s", &[("packets_per_s", "all")]),
];

pub(super) fn machines(row: &ReportRow) -> Vec<Chart> {
    let drawn = |(prefix, title): &(&str, &str)| {
        let panels = PANELS.iter().filter_map(|(title, series)| {
            let found = |(key, name): &(&str, &'static str)| {
                let is_this = |seen: &&Meanwhile| seen.key.strip_prefix(prefix) == Some(*key);
                let values = &row.meanwhile.iter().find(is_this)?.values;
                (values.len() >= 2).then(|| (*name, values.clone()))
            };
            let lines: Vec<_> = series.iter().filter_map(found).collect();
            let values = lines.iter().flat_map(|(_, values)| values).map(|(_, value)| *value);
            let max = values.reduce(f64::max)?;
            let scale = Axis::linear(0.0, max.max(1.0), Unit::Number).with_few_names();
            let style = |index| (Ink::line(index), 2 * FINE);
            Some(Panel { title, lines, counted: false, style, scale, height: MACHINE })
        });
        machine(row, title, &panels.collect::<Vec<_>>())
    };
    MACHINES.iter().filter_map(drawn).collect()
}

fn machine(row: &ReportRow, title: &str, panels: &[Panel<'_>]) -> Option<Chart> {
    let end = panels.iter().flat_map(Panel::values).map(|(at, _)| *at).max()?;
    let across = Axis::linear(0.0, end as f64, Unit::Time);
    let left = panels.iter().map(|panel| panel.scale.room()).max()?;
    let titles: Vec<&str> = panels.iter().map(|panel| panel.title).collect();
    let label = format!("{}, over time: {}", row.name, titles.join("; "));
    let height = panels.iter().map(Panel::full_height).sum::<i32>() + TIME;
    let mut chart = Chart::new(title, label, height);
    let mut top = 0;
    for (index, panel) in panels.iter().enumerate() {
        panel.draw(&mut chart, top, across, left, index + 1 == panels.len());
        top += panel.full_height() * FINE;
    }
    "each value is the mean since the one before".clone_into(&mut chart.words);
    Some(chart)
}
