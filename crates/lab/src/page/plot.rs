use std::collections::BTreeSet;

use super::markup::{Unit, reported};
use super::svg::{Anchor, Chart, FINE, Ink, LETTERS, Place, WIDTH, width};

#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    from: f64,
    to: f64,
    log: bool,
    unit: Unit,
    maximum: usize,
}

/// [`Axis::fitting`] chooses a logarithmic axis above this ratio of maximum to minimum.
const WIDE: f64 = 8.0;
/// Minimum length of an axis relative to its largest value.
const NEAR: f64 = 5e-4;
const MARKS: usize = 6;

impl Axis {
    pub(super) fn linear(from: f64, to: f64, unit: Unit) -> Self {
        // A nearly constant value needs labels that differ.
        let room = ((from.abs().max(to.abs()) * NEAR).max(1.0) - (to - from)).max(0.0) / 2.0;
        Self { from: from - room, to: to + room, log: false, unit, maximum: MARKS }
    }

    pub(super) fn unnamed(count: usize) -> Self {
        Self { from: 0.0, to: count as f64, log: false, unit: Unit::Number, maximum: 0 }
    }

    pub(super) fn log(from: f64, to: f64, unit: Unit) -> Self {
        Self { from, to: to.max(from * 1.01), log: true, unit, maximum: MARKS }
    }

    /// Logarithmic if that shows more; slightly wider than the values.
    pub(super) fn fitting(from: f64, to: f64, unit: Unit) -> Self {
        if from > 0.0 && to / from > WIDE {
            return Self::log(from / 1.2, to * 1.2, unit);
        }
        let room = (to - from) * 0.04;
        Self::linear(from - room, to + room, unit)
    }

    fn value(&self, share: f64) -> f64 {
        match self.log {
            true => self.from * (self.to / self.from).powf(share),
            false => self.from + (self.to - self.from) * share,
        }
    }

    pub(super) fn with_room(self, share: f64) -> Self {
        Self { to: self.value(1.0 + share), ..self }
    }

    pub(super) fn parts(&self, count: usize) -> Vec<f64> {
        (0..=count).map(|index| self.value(index as f64 / count as f64)).collect()
    }

    fn marks(&self) -> (Vec<f64>, f64) {
        if self.maximum == 0 {
            return (Vec::new(), 0.0);
        }
        if self.log {
            return (self.ratios(), 0.0);
        }
        let rough = (self.to - self.from) / self.maximum as f64;
        let decade = 10_f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|of| of * decade);
        let fits = |step: &f64| *step >= rough && (self.unit != Unit::Count || *step >= 1.0);
        let step = steps.into_iter().find(fits).unwrap_or(rough.max(1.0));
        let (first, last) = ((self.from / step).ceil() as i64, (self.to / step).floor() as i64);
        ((first..=last).map(|at| at as f64 * step).collect(), step)
    }

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
        let few = ways.find(|marks| marks.len() <= self.maximum);
        few.unwrap_or_else(|| vec![self.from, self.to])
    }

    fn named(&self) -> impl Iterator<Item = (f64, String)> {
        let (marks, step) = self.marks();
        let greatest = self.from.abs().max(self.to.abs());
        let unit = self.unit;
        marks.into_iter().map(move |mark| (mark, reported(mark, unit, step, greatest)))
    }

    pub(super) fn room(&self) -> i32 {
        self.named().map(|(_, name)| width(&name)).max().unwrap_or(0) + 8 * FINE
    }

    pub(super) const fn with_few_names(mut self) -> Self {
        self.maximum = 2;
        self
    }

    fn across(mut self, room: i32) -> Self {
        let taken =
            |axis: &Self| axis.named().map(|(_, name)| width(&name) + 14 * FINE).sum::<i32>();
        while self.maximum > 2 && taken(&self) > room {
            self.maximum -= 1;
        }
        self
    }

    fn share(&self, value: f64) -> f64 {
        let value = value.clamp(self.from, self.to);
        match self.log {
            true => (value / self.from).ln() / (self.to / self.from).ln(),
            false => (value - self.from) / (self.to - self.from),
        }
    }
}

const MARGIN: i32 = 6;
/// Right margin: half a label.
pub(super) const RIGHT: i32 = 22;

#[derive(Debug, Clone, Copy)]
pub(super) struct Plot {
    axes: (Axis, Axis),
    pub(super) left: i32,
    pub(super) right: i32,
    pub(super) top: i32,
    pub(super) bottom: i32,
}

impl Plot {
    pub(super) fn whole(chart: &mut Chart, axes: (Axis, Axis), [left, right]: [i32; 2]) -> Self {
        Self::new(chart, (0, chart.height), axes, [left, right], true)
    }

    /// No horizontal labels if another chart follows below.
    pub(super) fn new(
        chart: &mut Chart,
        (top, bottom): (i32, i32),
        (x, y): (Axis, Axis),
        [left, right]: [i32; 2],
        names_across: bool,
    ) -> Self {
        let below = if names_across { LETTERS + 9 + 1 } else { LETTERS / 2 } * FINE;
        let right = WIDTH * FINE - right.max(RIGHT * FINE);
        let left = left.max(y.room()).min(right);
        let x = x.across(right - left);
        let plot =
            Self { axes: (x, y), left, right, top: top + MARGIN * FINE, bottom: bottom - below };
        for (mark, _) in x.named() {
            chart.path(
                [(plot.x(mark), plot.bottom - 1), (plot.x(mark), plot.top)],
                Ink::GRID,
                FINE,
            );
        }
        for (mark, _) in y.named() {
            chart.path([(left, plot.y(mark)), (right - 1, plot.y(mark))], Ink::GRID, FINE);
        }
        for (mark, name) in y.named() {
            chart.text(&name, Ink::ASIDE, Anchor::RIGHT, (left - 6 * FINE, plot.y(mark)));
        }
        for (mark, name) in x.named().filter(|_| names_across) {
            let place = (plot.x(mark), plot.bottom + 6 * FINE);
            chart.text(&name, Ink::ASIDE, Anchor::CENTER_TOP, place);
        }
        plot
    }

    pub(super) fn x(&self, value: f64) -> i32 {
        self.left
            + (self.axes.0.share(value) * f64::from(self.right - 1 - self.left)).round() as i32
    }

    pub(super) fn y(&self, value: f64) -> i32 {
        let bottom = self.bottom - 1;
        bottom + (self.axes.1.share(value) * f64::from(self.top - bottom)).round() as i32
    }

    pub(super) fn at(&self, x: f64, y: f64) -> Place {
        (self.x(x), self.y(y))
    }

    pub(super) fn rules(&self, chart: &mut Chart, across: impl Iterator<Item = f64>) {
        let places: BTreeSet<i32> = across.map(|value| self.x(value)).collect();
        for x in places {
            chart.path([(x, self.top), (x, self.bottom)], Ink::BAD, FINE);
        }
    }
}
