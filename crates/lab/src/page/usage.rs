//! Processor time, interrupts, context switches and traffic over time: one panel below the other, with the time
//! below the last.

use plotters::style::text_anchor::{HPos, VPos};

use super::axis::{Axis, Named, Plot, RIGHT};
use super::standalone::TitledChart;
use super::svg::{Area, Drawn, FINE, Ink, LETTERS, letters, line, svg, width};
use super::words::Unit;
use crate::report::{Meanwhile, ReportRow};

/// Height of the lines, of a line of words above them, and of the time below the last panel, in pixels.
const LINES: u32 = 96;
const WORDS: u32 = LETTERS + 5;
const TIME: u32 = LETTERS + 3;
/// A line has at least as many values.
const MIN_VALUES: usize = 2;

/// What the keys of a machine or process begin with, and the title of its chart.
const CHARTS: [(&str, &str); 3] = [
    ("", "Over time"),
    ("sender_", "Sender's machine over time"),
    ("receiver_", "Receiver's machine over time"),
];

/// Series that share an axis.
struct PanelKind {
    /// What the axis shows, with its unit.
    title: &'static str,
    /// The key of each series and its name in the legend.
    series: &'static [(&'static str, &'static str)],
}

const PANELS: [PanelKind; 6] = [
    PanelKind {
        title: "processor, % of all cores",
        series: &[
            ("user_percent", "user"),
            ("system_percent", "system"),
            ("irq_percent", "irq"),
            ("softirq_percent", "softirq"),
        ],
    },
    PanelKind {
        title: "processor, % of a core",
        series: &[("user_core_percent", "user"), ("system_core_percent", "system")],
    },
    PanelKind { title: "interrupts, 1/s", series: &[("interrupts_per_s", "interrupts")] },
    PanelKind { title: "context switches, 1/s", series: &[("switches_per_s", "switches")] },
    PanelKind { title: "network, Mbit/s", series: &[("mbit_per_s", "all")] },
    PanelKind { title: "network, packets/s", series: &[("packets_per_s", "all")] },
];

/// A chart for each machine or process that was read meanwhile.
pub(super) fn over_time(row: &ReportRow) -> Vec<TitledChart> {
    let drawn = |(prefix, title): &(&str, &str)| {
        let panels: Vec<_> =
            PANELS.iter().filter_map(|kind| Panel::of(kind, row, prefix)).collect();
        let chart = chart(&row.name, &panels)?;
        let words = "each value is the mean since the one before".to_owned();
        Some(TitledChart { title: (*title).to_owned(), words, chart })
    };
    CHARTS.iter().filter_map(drawn).collect()
}

fn chart(name: &str, panels: &[Panel<'_>]) -> Option<String> {
    let values = || panels.iter().flat_map(|panel| &panel.lines).flat_map(|(_, values)| *values);
    let end = values().map(|(at, _)| *at).max()?;
    let across = Axis::linear(0.0, end as f64, Unit::Time);
    let left = panels.iter().map(|panel| panel.scale.room()).max()?;
    let titles: Vec<&str> = panels.iter().map(|panel| panel.title).collect();
    let height: u32 = panels.iter().map(Panel::height).sum();
    let label = format!("{name}, over time: {}", titles.join("; "));
    let last = panels.len() - 1;
    Some(svg(height + TIME, &label, 1, |area| {
        let mut rest = area.clone();
        for (index, panel) in panels.iter().enumerate() {
            let is_last = index == last;
            let height = panel.height() + if is_last { TIME } else { 0 };
            let (one, below) = rest.split_vertically(height * FINE);
            panel.draw(&one, across, left, is_last)?;
            rest = below;
        }
        Ok(())
    }))
}

/// Lines on one axis.
struct Panel<'a> {
    title: &'static str,
    lines: Vec<(&'static str, &'a [(i64, f64)])>,
    scale: Axis,
}

impl<'a> Panel<'a> {
    /// With the series of this kind whose keys begin so; `None` if the row has none.
    fn of(kind: &PanelKind, row: &'a ReportRow, prefix: &str) -> Option<Self> {
        let found = |(key, name): &(&str, &'static str)| {
            let is_this = |seen: &&Meanwhile| seen.key.strip_prefix(prefix) == Some(*key);
            let values = &row.meanwhile.iter().find(is_this)?.values[..];
            (values.len() >= MIN_VALUES).then_some((*name, values))
        };
        let lines: Vec<_> = kind.series.iter().filter_map(found).collect();
        let values = lines.iter().flat_map(|(_, values)| *values).map(|(_, value)| *value);
        let max = values.reduce(f64::max)?;
        let scale = Axis::linear(0.0, max.max(1.0), Unit::Number).with_few_names();
        Some(Self { title: kind.title, lines, scale })
    }

    fn has_legend(&self) -> bool {
        self.lines.len() > 1
    }

    /// Without the time below it, in pixels.
    fn height(&self) -> u32 {
        LINES + WORDS * (1 + u32::from(self.has_legend()))
    }

    fn draw(&self, area: &Area<'_>, across: Axis, left: u32, is_last: bool) -> Drawn {
        let (title, below) = area.split_vertically(WORDS * FINE);
        let start = (left as i32, FINE as i32);
        title.draw_text(self.title, &letters(Ink::Text, HPos::Left, VPos::Top), start)?;
        let lines = match self.has_legend() {
            true => {
                let (legend, lines) = below.split_vertically(WORDS * FINE);
                self.draw_legend(&legend, start)?;
                lines
            }
            false => below,
        };
        let named = if is_last { Named::Both } else { Named::Upwards };
        let plot = Plot::begin(&lines, (across, self.scale), named, [left, RIGHT * FINE])?;
        for (index, (_, values)) in self.lines.iter().enumerate() {
            plot.path(places(&plot, values), line(Ink::Line(index as u8), 2 * FINE))?;
        }
        Ok(())
    }

    fn draw_legend(&self, area: &Area<'_>, (mut x, y): (i32, i32)) -> Drawn {
        for (index, (name, _)) in self.lines.iter().enumerate() {
            let entry = format!("— {name}");
            let style = letters(Ink::Line(index as u8), HPos::Left, VPos::Top);
            area.draw_text(&entry, &style, (x, y))?;
            x += (width(&entry) + 4 * FINE) as i32;
        }
        Ok(())
    }
}

/// One place for each value. If a column of pixels has more than two, the minimum and the maximum stand for them.
fn places(plot: &Plot<'_>, values: &[(i64, f64)]) -> Vec<(i32, i32)> {
    let at = |(at, value): &(i64, f64)| plot.at(*at as f64, *value);
    let column = |value: &(i64, f64)| at(value).0 / FINE as i32;
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
