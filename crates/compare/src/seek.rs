//! Finds sound by correlation at a reduced rate.

use core::ops::Range;

use tautline_dsp::align::dot;
use tautline_dsp::fit::hills;

use super::sound::{Sound, power};

/// Frames per decimated frame. With these, an hour is searched in seconds.
const TOGETHER: usize = 8;
/// Length of a pattern in decimated frames: 85 ms at 48 kHz.
const LENGTH: usize = 512;
pub(super) const PATTERN: usize = LENGTH * TOGETHER;
/// Minimum correlation: the correlation of noise with itself, half a decimated frame later.
const LIKE: f64 = 0.35;
const PLACES: usize = 16;

pub(super) struct Coarse {
    sent: Vec<Vec<f32>>,
    received: Vec<Vec<f32>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Likely {
    pub(super) received: usize,
    pub(super) sent: usize,
    pub(super) channel: usize,
    pub(super) source: usize,
}

impl Coarse {
    pub(super) fn new(sent: &Sound, received: &Sound) -> Self {
        let coarse = |sound: &Sound| {
            let mean = |part: &[f32]| part.iter().sum::<f32>() / TOGETHER as f32;
            sound.channels.iter().map(|all| all.chunks(TOGETHER).map(mean).collect()).collect()
        };
        Self { sent: coarse(sent), received: coarse(received) }
    }

    pub(super) fn find_sent(&self, source: usize, from: usize, frames: usize) -> Vec<Likely> {
        let first = from / TOGETHER;
        let found = find(&self.sent[source], first, frames / TOGETHER, &self.received, None);
        let likely =
            |(channel, received)| Likely { received, sent: first * TOGETHER, channel, source };
        found.into_iter().map(likely).collect()
    }

    /// Uses the loudest channel.
    pub(super) fn find_received(&self, from: usize, among: Option<Range<usize>>) -> Vec<Likely> {
        let first = from.div_ceil(TOGETHER);
        let length = LENGTH.min(self.received.first().map_or(0, Vec::len).saturating_sub(first));
        let energy = |all: &Vec<f32>| all.get(first..first + length).map_or(0.0, power);
        let loudest = self.received.iter().map(energy).enumerate();
        let loudest = loudest.max_by(|(_, one), (_, other)| one.total_cmp(other));
        let channel = loudest.map_or(0, |(channel, _)| channel);
        let found = find(&self.received[channel], first, length, &self.sent, among);
        let likely = |(source, sent)| Likely { received: first * TOGETHER, sent, channel, source };
        found.into_iter().map(likely).collect()
    }
}

fn find(
    this: &[f32],
    first: usize,
    length: usize,
    those: &[Vec<f32>],
    among: Option<Range<usize>>,
) -> Vec<(usize, usize)> {
    let part = this.get(first..first + length.min(LENGTH)).unwrap_or_default();
    if power(part) <= 0.0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (other, all) in those.iter().enumerate() {
        let among = among.clone().map_or(0..all.len(), |among| {
            among.start / TOGETHER..(among.end / TOGETHER + length).min(all.len())
        });
        let start = among.start;
        let places = places(part, all.get(among).unwrap_or_default());
        found.extend(places.into_iter().map(|(like, at)| (like, (other, start + at))));
    }
    keep_best(&mut found);
    found.into_iter().map(|(_, (other, at))| (other, at * TOGETHER)).collect()
}

/// Peaks of either polarity, best first.
fn places(needle: &[f32], hay: &[f32]) -> Vec<(f64, usize)> {
    let wanted = power(needle).sqrt();
    let Some(first) = hay.get(..needle.len()) else { return Vec::new() };
    // Silence matches nothing, despite rounding errors.
    let (mut energy, silence) = (power(first), 1e-12 * wanted.powi(2));
    let similarity = (0..=hay.len() - needle.len()).map(|at| {
        if at > 0 {
            let (gone, come) = (f64::from(hay[at - 1]), f64::from(hay[at - 1 + needle.len()]));
            energy = (energy - gone * gone + come * come).max(0.0);
        }
        let both = f64::from(dot(needle, &hay[at..at + needle.len()])).abs();
        if energy > silence { both / (wanted * energy.sqrt()) } else { 0.0 }
    });
    let mut found: Vec<(f64, usize)> = Vec::new();
    for (at, like) in hills(similarity, LIKE) {
        found.push((like, at));
        if found.len() > 64 * PLACES {
            keep_best(&mut found);
        }
    }
    keep_best(&mut found);
    found
}

fn keep_best<T>(found: &mut Vec<(f64, T)>) {
    found.sort_by(|one, other| other.0.total_cmp(&one.0));
    found.truncate(PLACES);
}
