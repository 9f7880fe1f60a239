//! Finds periodic components of a series.
//!
//! Values are put on an even grid, with a Hann window and clipped outliers. Noise power is
//! exponentially distributed; a period is named if noise causes it in one of a thousand charts.

use tautline_dsp::align::spectrum::Transform;

use super::markup::{Unit, span};
use super::plot::{Axis, Plot};
use super::svg::{Anchor, Chart, FINE, Ink, Place};
use crate::report::{Points, ReportRow};
use crate::statistics::median;

const HEIGHT: i32 = 230;
const MIN: usize = 256;
/// Maximum grid size: 4 MB temporarily.
const MAX: usize = 1 << 18;
const CHANCE: f64 = 0.001;
const NAMED: usize = 3;
const SAME: f64 = 0.02;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Swing {
    pub(super) period: f64,
    /// Amplitude in nanoseconds.
    pub(super) height: f64,
}

#[derive(Debug, Clone)]
pub(super) struct Periods {
    all: Vec<Swing>,
    pub(super) named: Vec<Swing>,
}

impl Periods {
    pub(super) fn of(values: &[(i64, i64)]) -> Option<Self> {
        let grid = even(values)?;
        let filled = grid.values.len() as f64;
        let mut transform = Transform::new(grid.values.len());
        let (step, size) = (grid.step, transform.length());
        let weighed = grid.values.iter().enumerate().map(|(index, value)| {
            let turn = core::f64::consts::TAU * (index as f64 + 0.5) / filled;
            value * (0.5 - 0.5 * turn.cos())
        });
        let mut heights = Vec::with_capacity(size / 2 + 1);
        transform.spectra(weighed, core::iter::empty(), |_, bin, _| {
            heights.push(4.0 * bin.re.hypot(bin.im) / filled);
        });
        // A chart needs at least two periods of two values.
        let first = (2 * size).div_ceil(grid.values.len()).max(2);
        let swing = |index: usize| Swing {
            period: size as f64 / index as f64 * step,
            height: heights[index],
        };
        let all: Vec<Swing> = (first..size / 2).map(swing).collect();
        let named = standing_out(&all, size as f64 / filled);
        Some(Self { all, named })
    }
}

struct Even {
    step: f64,
    values: Vec<f64>,
}

fn even(values: &[(i64, i64)]) -> Option<Even> {
    if values.len() < MIN {
        return None;
    }
    let steps: Vec<f64> = values.windows(2).map(|two| (two[1].0 - two[0].0) as f64).collect();
    let usual = median(&steps);
    let length = (values[values.len() - 1].0 - values[0].0) as f64;
    let step = usual.max(length / (MAX - 1) as f64);
    if step <= 0.0 || length / step < MIN as f64 {
        return None;
    }
    let usual = Usual::of(values);
    let near = |value: i64| value.clamp(usual.minimum, usual.maximum) as f64;
    let mean = values.iter().map(|(_, value)| near(*value)).sum::<f64>() / values.len() as f64;
    let mut grid = vec![0.0; (length / step).round() as usize + 1];
    for (at, value) in values {
        let place = ((at - values[0].0) as f64 / step).round() as usize;
        if let Some(place) = grid.get_mut(place) {
            *place = near(*value) - mean;
        }
    }
    Some(Even { step, values: grid })
}

struct Usual {
    minimum: i64,
    maximum: i64,
}

impl Usual {
    fn of(values: &[(i64, i64)]) -> Self {
        let mut all: Vec<i64> = values.iter().map(|(_, value)| *value).collect();
        all.sort_unstable();
        let cut = all.len() / 200;
        let (minimum, maximum) = (all[cut], all[all.len() - 1 - cut]);
        let more = maximum.saturating_sub(minimum);
        Self { minimum: minimum.saturating_sub(more), maximum: maximum.saturating_add(more) }
    }
}

/// Peaks above the level that surrounding noise causes anywhere; `finer` is the number of
/// frequencies per independent frequency.
fn standing_out(all: &[Swing], finer: f64) -> Vec<Swing> {
    let powers: Vec<f64> = all.iter().map(|swing| swing.height.powi(2)).collect();
    let independent = (all.len() as f64 / finer).max(1.0);
    let limit = (independent / CHANCE).ln();
    let mut found = Vec::new();
    for at in 0..powers.len() {
        // The window widens a peak to four frequencies.
        let near = (4.0 * finer).ceil() as usize;
        let around = &powers[at.saturating_sub(near)..(at + near + 1).min(powers.len())];
        if powers[at] <= 0.0 || around.iter().any(|power| *power > powers[at]) {
            continue;
        }
        let wide = 16 * near;
        let surroundings = &powers[at.saturating_sub(wide)..(at + wide).min(powers.len())];
        let usual = median(surroundings);
        if powers[at] > limit * usual / core::f64::consts::LN_2 {
            found.push(all[at]);
        }
    }
    found.sort_by(|a, b| b.height.total_cmp(&a.height));
    // A slip of the grid, for example, splits a period.
    let mut named: Vec<Swing> = Vec::new();
    for swing in found {
        let is_same = |other: &Swing| (other.period / swing.period).ln().abs() < SAME;
        if named.len() < NAMED && !named.iter().any(is_same) {
            named.push(swing);
        }
    }
    named
}

/// The line with the most variation: a buffer hides variation from later lines.
fn liveliest(row: &ReportRow) -> Option<&Points> {
    let enough = row.points.iter().filter(|points| points.values.len() >= MIN);
    enough.max_by_key(|points| {
        let usual = Usual::of(&points.values);
        usual.maximum.saturating_sub(usual.minimum)
    })
}

pub(super) fn periodogram(row: &ReportRow) -> Option<Chart> {
    let points = liveliest(row)?;
    let periods = Periods::of(&points.values)?;
    let (first, last) = (periods.all.first()?, periods.all.last()?);
    let maximum = periods.all.iter().map(|swing| swing.height).fold(0.0, f64::max);
    if maximum <= 0.0 {
        return None;
    }
    let label = format!("{}: amplitude of {} by period", row.name, points.name);
    let mut chart = Chart::new("Periods", label, HEIGHT);
    let axes = (
        Axis::log(last.period, first.period, Unit::Time),
        Axis::linear(0.0, maximum * 1.15, Unit::Time),
    );
    let plot = Plot::whole(&mut chart, axes, [0, 0]);
    let mut places: Vec<Place> = Vec::new();
    for swing in &periods.all {
        let place = plot.at(swing.period, swing.height);
        match places.last_mut().filter(|last| (last.0 - place.0).abs() < FINE / 2) {
            Some(last) => last.1 = last.1.min(place.1),
            None => places.push(place),
        }
    }
    chart.path(places, Ink::MEASURED, FINE);
    for swing in &periods.named {
        let (x, y) = plot.at(swing.period, swing.height);
        chart.disc((x, y), 3, Ink::MEASURED);
        let (anchor, away) = match 2 * x < plot.left + plot.right {
            true => (Anchor::LEFT_BOTTOM, 6),
            false => (Anchor::RIGHT_BOTTOM, -6),
        };
        chart.text(&span(swing.period), Ink::TEXT, anchor, (x + away * FINE, y));
    }
    let reported = periods.named.iter();
    let reported =
        reported.map(|swing| format!("{} (± {})", span(swing.period), span(swing.height)));
    let found = match periods.named.is_empty() {
        true => "no period stands out of the noise".to_owned(),
        false => format!("strongest: {}", reported.collect::<Vec<_>>().join(", ")),
    };
    chart.words = format!("amplitude of “{}” by period; {found}", points.name);
    Some(chart)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: u64, count: i64) -> Vec<(i64, i64)> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut one = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        (0..count).map(|at| (at * 1_000_000, 5_000_000 + (1_000.0 * one()) as i64)).collect()
    }

    #[test]
    fn noise_has_no_period() {
        let named = (0..200)
            .filter(|seed| {
                Periods::of(&noise(*seed, 3000)).is_some_and(|found| !found.named.is_empty())
            })
            .count();
        assert!(named <= 2, "{named} of 200, each once in a thousand");
    }

    #[test]
    fn a_swing_below_the_noise_is_found_with_its_period_and_height() {
        let mut values = noise(1, 25_000);
        for (at, value) in &mut values {
            *value += (300.0 * (*at as f64 / 40.5e6 * core::f64::consts::TAU).sin()) as i64;
        }
        values.retain(|(at, _)| at % 97_000_000 != 0);
        values[9_000].1 += 30_000_000;
        let found = Periods::of(&values).unwrap().named;
        assert_eq!(found.len(), 1, "{found:?}");
        assert!((found[0].period / 40.5e6 - 1.0).abs() < 1e-3, "{found:?}");
        assert!((found[0].height / 300.0 - 1.0).abs() < 0.15, "{found:?}");
    }

    #[test]
    fn too_few_values_or_values_at_one_instant_have_no_periods() {
        assert!(Periods::of(&noise(1, 255)).is_none());
        let at_once: Vec<_> = (0..1000).map(|value| (0, value)).collect();
        assert!(Periods::of(&at_once).is_none());
    }
}
