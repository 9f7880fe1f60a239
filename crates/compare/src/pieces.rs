//! Splits a recording into pieces, each aligned along one line.

use core::ops::Range;
use std::rc::Rc;

use tautline_dsp::align::Along;

/// The shortest detected hole, in frames.
pub(super) const BLOCK: usize = 32;
/// Maximum gain error of resampled sound.
pub(super) const NO_GAIN: f64 = 0.006;
/// Maximum gain change between windows: 0.5 dB.
const ANOTHER_GAIN: f64 = 1.06;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChannelRouting {
    pub(super) sources: Vec<usize>,
    /// Negative if inverted, 0 if unrelated.
    pub(super) gains: Vec<f64>,
}

impl ChannelRouting {
    pub(super) fn straight(channels: usize) -> Self {
        Self { sources: (0..channels).collect(), gains: vec![1.0; channels] }
    }

    pub(super) fn loud_as_sent(&self) -> Option<Rc<Self>> {
        let loud = self.gains.iter().all(|gain| (gain - 1.0).abs() < NO_GAIN);
        let straight = Self::straight(self.gains.len());
        loud.then(|| Rc::new(Self { sources: self.sources.clone(), ..straight }))
    }

    pub(super) fn leads_as(&self, other: &Self) -> bool {
        let signs = |routing: &Self| {
            routing.gains.iter().map(|gain| gain.partial_cmp(&0.0)).collect::<Vec<_>>()
        };
        self.sources == other.sources && signs(self) == signs(other)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct GainRange {
    pub(super) minimum: f64,
    pub(super) maximum: f64,
}

impl GainRange {
    pub(super) fn of(gain: f64) -> Self {
        Self { minimum: gain.abs(), maximum: gain.abs() }
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self { minimum: self.minimum.min(other.minimum), maximum: self.maximum.max(other.maximum) }
    }

    pub(super) fn changes(self) -> bool {
        self.maximum > ANOTHER_GAIN * self.minimum
    }
}

pub(super) fn take_volumes(volumes: &mut [Option<GainRange>], more: &[Option<GainRange>]) {
    for (all, more) in volumes.iter_mut().zip(more) {
        *all = all.map_or(*more, |all| Some(more.map_or(all, |more| all.and(more))));
    }
}

/// Maps recorded to sent frames.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FrameLine {
    /// Recorded frame, and sent position.
    pub(super) at: f64,
    pub(super) place: f64,
    pub(super) step: f64,
}

impl FrameLine {
    pub(super) fn whole(offset: i64) -> Self {
        Self { at: 0.0, place: offset as f64, step: 1.0 }
    }

    pub(super) fn place(&self, at: f64) -> f64 {
        self.place + (at - self.at) * self.step
    }

    pub(super) fn of(Along { place, drift }: Along, at: usize) -> Self {
        Self { at: at as f64, place, step: 1.0 + drift }
    }

    pub(super) fn along(&self, at: usize) -> Along {
        Along { place: self.place(at as f64), drift: self.step - 1.0 }
    }

    pub(super) fn offset(&self) -> Option<i64> {
        let offset = self.place - self.at;
        (self.step == 1.0 && offset.fract() == 0.0).then_some(offset as i64)
    }

    pub(super) fn nearest(&self, at: usize) -> i64 {
        (self.place(at as f64) - at as f64).round() as i64
    }
}

const PLACES: u32 = 8;

/// Linear regression over window positions.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Places {
    count: u32,
    weight: f64,
    at: f64,
    off: f64,
    squares: f64,
    products: f64,
}

impl Places {
    pub(super) fn add(&mut self, line: &FrameLine, at: f64, weight: f64) {
        let off = line.place(at) - at;
        self.count += 1;
        self.weight += weight;
        self.at += weight * at;
        self.off += weight * off;
        self.squares += weight * at * at;
        self.products += weight * at * off;
    }

    fn and(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            weight: self.weight + other.weight,
            at: self.at + other.at,
            off: self.off + other.off,
            squares: self.squares + other.squares,
            products: self.products + other.products,
        }
    }

    /// Sent frames per recorded frame.
    fn slope(&self) -> Option<f64> {
        let spread = self.squares * self.weight - self.at * self.at;
        let says = self.count >= PLACES && spread > 1e-9 * self.at * self.at;
        says.then(|| (self.products * self.weight - self.at * self.off) / spread)
    }
}

#[derive(Debug, Clone)]
pub(super) struct RoutedLine {
    pub(super) line: FrameLine,
    pub(super) routing: Rc<ChannelRouting>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Exact,
    Alike { resampled: bool, energy: f64, rest: f64 },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    pub(super) received: Range<usize>,
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) kind: Kind,
    pub(super) routing: Rc<ChannelRouting>,
    /// Window positions, unless exact.
    pub(super) places: Places,
    pub(super) volumes: Vec<Option<GainRange>>,
    pub(super) clicks: Vec<(usize, usize)>,
    /// In sent frames.
    pub(super) modulo: Option<f64>,
}

impl Piece {
    pub(super) fn exact(
        received: Range<usize>,
        places: Range<f64>,
        routing: Rc<ChannelRouting>,
        modulo: Option<f64>,
    ) -> Self {
        Self {
            received,
            from: places.start,
            to: places.end,
            kind: Kind::Exact,
            volumes: vec![None; routing.gains.len()],
            routing,
            places: Places::default(),
            clicks: Vec::new(),
            modulo,
        }
    }

    pub(super) fn is_exact(&self) -> bool {
        self.kind == Kind::Exact
    }

    pub(super) fn is_resampled(&self) -> bool {
        matches!(self.kind, Kind::Alike { resampled: true, .. })
    }

    pub(super) fn ppm(&self) -> f64 {
        let ends = (self.to - self.from) / self.received.len() as f64 - 1.0;
        1e6 * self.places.slope().unwrap_or(ends)
    }

    pub(super) fn straight(&self) -> FrameLine {
        let (at, length) = (self.received.start as f64, self.received.len() as f64);
        if !self.is_resampled() {
            return FrameLine { at, place: self.from, step: 1.0 };
        }
        // A short piece's ends do not determine drift.
        let step = 1.0 + self.places.slope().unwrap_or(0.0);
        FrameLine { at: at + length / 2.0, place: (self.from + self.to) / 2.0, step }
    }

    pub(super) fn shifted(mut self, frames: f64) -> Self {
        self.from += frames;
        self.to += frames;
        self.places.off += self.places.weight * frames;
        self.places.products += self.places.at * frames;
        self
    }

    pub(super) fn line(&self) -> FrameLine {
        let length = self.received.len() as f64;
        let step = if self.is_resampled() { (self.to - self.from) / length } else { 1.0 };
        FrameLine { at: self.received.end as f64, place: self.to, step }
    }

    pub(super) fn goes_on(&self, other: &Self) -> bool {
        self.received.end == other.received.start && (other.from - self.to).abs() < 0.5
    }

    /// Closes a gap at an uncertain edge.
    pub(super) fn meet(&mut self, next: &mut Self) {
        let gap = next.received.start - self.received.end;
        let on_line = (next.from - self.to - gap as f64).abs() < 0.5;
        if gap >= BLOCK || !on_line {
            return;
        }
        if !self.is_exact() {
            self.received.end = next.received.start;
            self.to += gap as f64;
        } else if !next.is_exact() {
            next.received.start = self.received.end;
            next.from -= gap as f64;
        }
    }

    fn take(&mut self, other: &Self) {
        (self.received.end, self.to) = (other.received.end, other.to);
        self.places = self.places.and(other.places);
        take_volumes(&mut self.volumes, &other.volumes);
        self.clicks.extend(&other.clicks);
        if let Kind::Alike { resampled, energy, rest } = &mut self.kind {
            let Kind::Alike { resampled: too, energy: more, rest: left } = other.kind else {
                return;
            };
            *resampled |= too;
            *energy += more;
            *rest += left;
        }
    }
}

/// Minimum frames of an exact piece. Fewer are coincidence.
const CHANCE: usize = 1024;

/// Joins continuous pieces, which chance matches split.
pub(super) fn joined(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut all: Vec<Piece> = Vec::with_capacity(pieces.len());
    for (index, piece) in pieces.iter().enumerate() {
        let Some(last) = all.last_mut().filter(|last| last.goes_on(piece)) else {
            all.push(piece.clone());
            continue;
        };
        let by_chance = last.is_resampled()
            && piece.received.len() < CHANCE
            && pieces.get(index + 1).is_some_and(|next| !next.is_exact() && piece.goes_on(next));
        let alike = last.is_exact() == piece.is_exact() || (piece.is_exact() && by_chance);
        if alike && last.routing.leads_as(&piece.routing) {
            last.take(piece);
        } else {
            all.push(piece.clone());
        }
    }
    all
}
