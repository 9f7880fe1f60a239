//! Axes: one type for all, so that plotters is compiled once.

use core::ops::Range;
use std::collections::BTreeSet;

use plotters::chart::ChartBuilder;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::drawing::DrawingArea;
use plotters::element::{Circle, PathElement, Polygon, Text};
use plotters::style::text_anchor::{HPos, VPos};
use plotters::style::{ShapeStyle, TRANSPARENT, TextStyle};

use super::svg::{Area, Drawn, FINE, Ink, LETTERS, Svg, letters, line, width};
use super::words::{Unit, told};

/// What an axis shows, from where to where.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    from: f64,
    to: f64,
    log: bool,
    unit: Unit,
    /// Values that are named, at most.
    most: usize,
}

/// From this ratio on an axis is logarithmic where it may be.
const WIDE: f64 = 8.0;
/// The least that an axis shows of its greatest value.
const NEAR: f64 = 5e-4;
/// Values that an axis names, at most, and lines to read them by.
const MARKS: usize = 6;

impl Axis {
    pub(super) fn linear(from: f64, to: f64, unit: Unit) -> Self {
        // Of nearly one value there is an axis, too, and its names differ in digits that are read.
        let room = ((from.abs().max(to.abs()) * NEAR).max(1.0) - (to - from)).max(0.0) / 2.0;
        Self { from: from - room, to: to + room, log: false, unit, most: MARKS }
    }

    /// For what stands one below the other, with no scale.
    pub(super) fn unnamed(count: usize) -> Self {
        Self { from: 0.0, to: count as f64, log: false, unit: Unit::Number, most: 0 }
    }

    /// In equal ratios; both ends are above zero.
    pub(super) fn log(from: f64, to: f64, unit: Unit) -> Self {
        Self { from, to: to.max(from * 1.01), log: true, unit, most: MARKS }
    }

    /// In ratios if that shows more, from a bit before to a bit after.
    pub(super) fn fitting(from: f64, to: f64, unit: Unit) -> Self {
        if from > 0.0 && to / from > WIDE {
            return Self::log(from / 1.2, to * 1.2, unit);
        }
        let room = (to - from) * 0.04;
        Self::linear(from - room, to + room, unit)
    }

    /// The same, and a share of it more after its end.
    pub(super) fn with_room(self, share: f64) -> Self {
        let to = match self.log {
            true => self.to * (self.to / self.from).powf(share),
            false => self.to + (self.to - self.from) * share,
        };
        Self { to, ..self }
    }

    /// Ends of so many equal parts as they are seen.
    pub(super) fn parts(&self, count: usize) -> Vec<f64> {
        let part = |index: usize| {
            let share = index as f64 / count as f64;
            match self.log {
                true => self.from * (self.to / self.from).powf(share),
                false => self.from + (self.to - self.from) * share,
            }
        };
        (0..=count).map(part).collect()
    }

    /// Values that are named, and the step between them.
    fn marks(&self) -> (Vec<f64>, f64) {
        if self.most == 0 {
            return (Vec::new(), 0.0);
        }
        if self.log {
            return (self.ratios(), 0.0);
        }
        let rough = (self.to - self.from) / self.most as f64;
        let decade = 10_f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|of| of * decade);
        let fits = |step: &f64| *step >= rough && (self.unit != Unit::Count || *step >= 1.0);
        let step = steps.into_iter().find(fits).unwrap_or(rough.max(1.0));
        let (first, last) = ((self.from / step).ceil() as i64, (self.to / step).floor() as i64);
        ((first..=last).map(|at| at as f64 * step).collect(), step)
    }

    /// As many to a decade as there is room for; of many decades not each.
    fn ratios(&self) -> Vec<f64> {
        let (first, last) = (self.from.log10().floor() as i32, self.to.log10().floor() as i32);
        let seen = |of: &[f64], every: usize| -> Vec<f64> {
            let decades = (first..=last).filter(|at| at.rem_euclid(every as i32) == 0);
            let all = decades.flat_map(|at| of.iter().map(move |of| of * 10_f64.powi(at)));
            all.filter(|at| (self.from..=self.to).contains(at)).collect()
        };
        let ways =
            [(&[1.0, 2.0, 5.0][..], 1), (&[1.0, 3.0], 1), (&[1.0], 1), (&[1.0], 2), (&[1.0], 3)];
        let mut ways = ways.map(|(of, every)| seen(of, every)).into_iter();
        let few = ways.find(|marks| marks.len() <= self.most);
        few.unwrap_or_else(|| vec![self.from, self.to])
    }

    fn named(&self, value: f64) -> String {
        let (_, step) = self.marks();
        told(value, self.unit, step, self.from.abs().max(self.to.abs()))
    }

    /// How wide each name is, in steps.
    fn widths(&self) -> impl Iterator<Item = u32> {
        self.marks().0.into_iter().map(|mark| width(&self.named(mark)))
    }

    /// What its names take beside it, in steps.
    pub(super) fn room(&self) -> u32 {
        self.widths().max().unwrap_or(0) + 8 * FINE
    }

    /// The same with fewer names.
    pub(super) const fn with_few_names(mut self) -> Self {
        self.most = 2;
        self
    }

    /// The same with as many names as stand side by side on so many steps.
    fn across(mut self, room: u32) -> Self {
        let room = |axis: &Self| axis.widths().map(|width| width + 14 * FINE).sum::<u32>() <= room;
        while self.most > 2 && !room(&self) {
            self.most -= 1;
        }
        self
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (begin, end): (i32, i32)) -> i32 {
        let value = value.clamp(self.from, self.to);
        let share = match self.log {
            true => (value / self.from).ln() / (self.to / self.from).ln(),
            false => (value - self.from) / (self.to - self.from),
        };
        begin + (share * f64::from(end - begin)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks().0
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.named(*value)
    }
}

/// What of the axes is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    Both,
    /// What lies across; what lies upwards has no scale.
    Across,
    /// What lies upwards: below stands another chart of the same run.
    Upwards,
}

/// Free room around a chart, in pixels.
const MARGIN: u32 = 6;
/// On the right: half of a name that stands below the end of the axis.
pub(super) const RIGHT: u32 = 22;

/// A chart with its axes, to draw into.
pub(super) struct Plot<'b> {
    area: DrawingArea<Svg<'b>, Cartesian2d<Axis, Axis>>,
    screen: Area<'b>,
}

impl<'b> Plot<'b> {
    /// Draws axes; `left` and `right` are what is kept free beside them at least, in steps.
    pub(super) fn begin(
        area: &Area<'b>,
        (x, y): (Axis, Axis),
        named: Named,
        [left, right]: [u32; 2],
    ) -> Drawn<Self> {
        let below = if named == Named::Upwards { LETTERS / 2 } else { LETTERS + 9 } * FINE;
        let beside = if named == Named::Across { left } else { left.max(y.room()) };
        let right = right.max(RIGHT * FINE);
        let (width, _) = area.dim_in_pixel();
        let x = x.across(width.saturating_sub(beside + right));
        let mut chart = ChartBuilder::on(area)
            .margin_top(MARGIN * FINE)
            .margin_bottom(if named == Named::Upwards { below } else { FINE })
            .margin_right(right)
            .x_label_area_size(if named == Named::Upwards { 0 } else { below })
            .y_label_area_size(beside)
            .build_cartesian_2d(x, y)?;
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(TRANSPARENT)
            .bold_line_style(line(Ink::Grid, FINE))
            .axis_style(TRANSPARENT)
            .set_all_tick_mark_size(3 * FINE)
            .x_label_style(letters(Ink::Aside, HPos::Center, VPos::Top))
            .y_label_style(letters(Ink::Aside, HPos::Right, VPos::Center));
        if named == Named::Across {
            mesh.disable_y_mesh();
        }
        mesh.draw()?;
        drop(mesh);
        let plotting = chart.plotting_area();
        Ok(Self { area: plotting.clone(), screen: area.use_screen_coord() })
    }

    /// Where a value stands, in steps of the whole drawing.
    pub(super) fn at(&self, x: f64, y: f64) -> (i32, i32) {
        self.area.map_coordinate(&(x, y))
    }

    /// From left to right and from top to bottom, in steps of the whole drawing.
    pub(super) fn bounds(&self) -> (Range<i32>, Range<i32>) {
        self.area.get_pixel_range()
    }

    /// A line through these places.
    pub(super) fn path(
        &self,
        places: impl IntoIterator<Item = (i32, i32)>,
        style: ShapeStyle,
    ) -> Drawn {
        self.screen.draw(&PathElement::new(places.into_iter().collect::<Vec<_>>(), style))
    }

    /// Lines from top to bottom where these values stand across, none upon another.
    pub(super) fn rules(&self, across: impl Iterator<Item = f64>, style: ShapeStyle) -> Drawn {
        let (_, upwards) = self.bounds();
        let places: BTreeSet<i32> = across.map(|value| self.at(value, 1.0).0).collect();
        places
            .into_iter()
            .try_for_each(|x| self.path([(x, upwards.start), (x, upwards.end)], style))
    }

    /// What these places enclose.
    pub(super) fn shape(
        &self,
        places: impl IntoIterator<Item = (i32, i32)>,
        style: ShapeStyle,
    ) -> Drawn {
        self.screen.draw(&Polygon::new(places.into_iter().collect::<Vec<_>>(), style))
    }

    /// A disc or ring around a place.
    pub(super) fn disc(&self, place: (i32, i32), radius: u32, style: ShapeStyle) -> Drawn {
        self.screen.draw(&Circle::new(place, radius, style))
    }

    /// Words at a place.
    pub(super) fn words(&self, words: &str, style: &TextStyle<'_>, place: (i32, i32)) -> Drawn {
        self.screen.draw(&Text::new(words, place, style))
    }

    /// One of many points.
    pub(super) fn point(&self, place: (i32, i32), ink: Ink) -> Drawn {
        self.screen.draw_pixel(place, &ink)
    }
}
