//! Result of comparing two files.

use core::ops::Range;

use tautline_proto::units::Rate;

use super::changes::{Difference, changes};
use super::exact::Both;
use super::pieces::{BLOCK, ChannelRouting, GainRange, Kind, NO_GAIN, Piece, joined, take_volumes};
use super::remix::ChannelMix;
use super::resampled::{ResampledRow, passages};
use super::residue::Residue;
use super::sound::{Bits, Sound, power};
use super::tone::{TestTone, tones};

/// Start of the sent file in the recording, in frames.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Delay {
    NotFound,
    Known(i64),
    /// Nothing distinguishes the periods of the sound.
    Ambiguous {
        /// The candidate closest to 0.
        nearest: i64,
        period: f64,
    },
}

#[derive(Debug, Clone)]
pub struct Comparison {
    pub(super) rate: Rate,
    /// Excludes digital silence.
    pub(super) sounding: Range<usize>,
    /// Frames recorded bit for bit.
    pub(super) identical: usize,
    /// Frames recorded in any form.
    pub(super) there: usize,
    pub(super) delay: Delay,
    pub(super) missed_first: usize,
    pub(super) missed_last: usize,
    pub(super) missed_within: usize,
    whole_so_far: bool,
    pub(super) changes: Vec<Difference>,
    pub(super) passages: Vec<ResampledRow>,
    pub(super) routings: Vec<(usize, ChannelRouting)>,
    pub(super) volumes: Vec<Option<GainRange>>,
    /// Energy ratio for frame-aligned sound.
    pub(super) rest: Option<f64>,
    /// Bit depths, if the recording needs fewer.
    pub(super) bits: Option<(Bits, Bits)>,
    pub(super) residue: Option<Residue>,
    pub(super) mix: Option<ChannelMix>,
    pub(super) tones: Vec<TestTone>,
}

/// Divisor of the sound: less unexplained sound needs no other explanation.
const FEW: usize = 100;
/// Maximum residual that needs no other explanation: −50 dB.
const SMALL: f64 = 1e-5;

impl Comparison {
    pub(super) fn of(Both { sent, received }: Both<'_>, pieces: Vec<Piece>) -> Self {
        let pieces = reported_apart(joined(pieces));
        let sounding = sent.sounding();
        let (there, ends) = covered(&sounding, pieces.iter());
        let (missed_first, missed_last) = (ends.start - sounding.start, sounding.end - ends.end);
        let before = pieces.first().map_or(0, |piece| piece.received.start);
        let after = pieces.last().map_or(0, |piece| received.frames() - piece.received.end);
        let exact = pieces.iter().filter(|piece| piece.is_exact());
        let straight = ChannelRouting::straight(received.channels.len());
        let routing = pieces.first().map_or(&straight, |piece| &*piece.routing);
        let left = pieces.iter().filter_map(|piece| match piece.kind {
            Kind::Alike { resampled: false, energy, rest } => Some((energy, rest)),
            _ => None,
        });
        let (energy, rest) = left.fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
        Self {
            rate: sent.rate,
            identical: covered(&sounding, exact).0,
            there,
            delay: delay(&pieces),
            missed_first,
            missed_last,
            missed_within: missed_first.min(before) + missed_last.min(after),
            whole_so_far: is_whole_so_far(&pieces, &sounding),
            changes: changes(received, &pieces),
            passages: passages(&pieces),
            routings: routings(&pieces),
            volumes: volumes(&pieces),
            rest: (energy > 0.0).then(|| rest / energy),
            bits: coarser(sent, received),
            residue: Residue::of(sent, received, &pieces),
            mix: None,
            tones: tones(sent, received, &routing.sources),
            sounding,
        }
    }

    pub(super) fn mixed(self, mix: ChannelMix, both: Both<'_>) -> Self {
        Self { mix: Some(mix), bits: coarser(both.sent, both.received), ..self }
    }

    pub(super) fn is_unexplained(&self, received: &Sound) -> bool {
        let lacks = self.sounding.len() - self.there;
        let differs = self.rest.is_some_and(|rest| rest > SMALL);
        (lacks > self.sounding.len() / FEW || differs || self.holds_other(received))
            && self.identical <= self.there / 2
    }

    fn holds_other(&self, received: &Sound) -> bool {
        let nothing = |channel: usize| {
            let gains = self.routings.iter().map(|(_, routing)| routing.gains[channel]);
            gains.into_iter().any(|gain| gain == 0.0)
        };
        let channels = received.channels.iter().enumerate();
        channels.filter(|(channel, _)| nothing(*channel)).any(|(_, samples)| power(samples) > 0.0)
    }

    fn empty(&self) -> usize {
        let empty = |(_, routing): &(usize, ChannelRouting)| {
            routing.gains.iter().filter(|gain| **gain == 0.0).count()
        };
        self.routings.iter().map(empty).max().unwrap_or(0)
    }

    pub(super) fn explains_more_than(&self, other: &Self) -> bool {
        let few = self.sounding.len() / FEW;
        let rest = |comparison: &Self| comparison.rest.unwrap_or(0.0);
        self.there > other.there + few
            || (self.there + few >= other.there && self.empty() < other.empty())
            || (self.there + few >= other.there && rest(self) < 0.1 * rest(other))
    }

    pub fn is_whole(&self) -> bool {
        self.is_found() && self.identical == self.sounding.len() && self.is_one_piece()
    }

    /// Whether a first part is unchanged, and nothing follows.
    pub fn is_whole_so_far(&self) -> bool {
        self.whole_so_far
    }

    /// Whether every frame was recorded in order and at the same level, perhaps resampled.
    pub fn is_all_there(&self) -> bool {
        self.is_found()
            && self.there == self.sounding.len()
            && self.is_one_piece()
            && self.volumes.iter().all(Option::is_none)
            && self.rest.is_none()
    }

    pub fn is_found(&self) -> bool {
        self.delay != Delay::NotFound
    }

    pub fn delay(&self) -> Delay {
        self.delay
    }

    /// Whether the delay is ambiguous, and no frame is known to be lost.
    pub fn is_open(&self) -> bool {
        self.is_ambiguous() && self.changes.is_empty() && self.missed_within == 0
    }

    pub(super) fn is_ambiguous(&self) -> bool {
        matches!(self.delay, Delay::Ambiguous { .. })
    }

    /// Bit for bit, without digital silence at both ends.
    pub fn identical(&self) -> usize {
        self.identical
    }

    fn is_one_piece(&self) -> bool {
        self.mix.is_none()
            && !self.is_ambiguous()
            && self.changes.is_empty()
            && self.routings.iter().all(|(_, routing)| is_straight(routing))
    }
}

fn delay(pieces: &[Piece]) -> Delay {
    let Some(first) = pieces.first() else { return Delay::NotFound };
    let begins = first.received.start as i64 - first.from.round() as i64;
    let ambiguous = |period: f64| {
        let begins = first.received.start as f64 - first.from;
        let nearest = (begins - (begins / period).round() * period).round() as i64;
        Delay::Ambiguous { nearest, period }
    };
    first.modulo.map_or(Delay::Known(begins), ambiguous)
}

fn coarser(sent: &Sound, received: &Sound) -> Option<(Bits, Bits)> {
    let (before, after) = (sent.bits(), received.bits());
    (before.unwrap_or(u32::MAX) > after.unwrap_or(u32::MAX)).then_some((before, after))
}

pub(super) fn is_straight(routing: &ChannelRouting) -> bool {
    let own = routing.sources.iter().enumerate().all(|(channel, source)| channel == *source);
    own && routing.gains.iter().all(|gain| (gain - 1.0).abs() < NO_GAIN)
}

fn is_whole_so_far(pieces: &[Piece], sounding: &Range<usize>) -> bool {
    let Some((first, rest)) = pieces.split_first() else { return false };
    let begins = first.modulo.is_none()
        && first.is_exact()
        && first.from == sounding.start as f64
        && is_straight(&first.routing);
    begins && !rest.iter().any(Piece::is_exact)
}

/// Pieces that continue a resampled piece are resampled too.
fn reported_apart(mut pieces: Vec<Piece>) -> Vec<Piece> {
    for piece in pieces.iter_mut().filter(|piece| is_on_frames(piece)) {
        if let Kind::Alike { resampled, .. } = &mut piece.kind {
            *resampled = false;
        }
    }
    let mut first = 0;
    while first < pieces.len() {
        let chain = pieces[first..].windows(2).take_while(|two| two[0].goes_on(&two[1])).count();
        let chain = &mut pieces[first..=first + chain];
        if chain.iter().any(Piece::is_resampled) {
            for piece in chain.iter_mut() {
                if let Kind::Alike { resampled, .. } = &mut piece.kind {
                    *resampled = true;
                }
            }
        }
        first += chain.len();
    }
    pieces
}

/// Maximum distance of both ends, in frames.
const ON_FRAME: f64 = 0.02;

/// Whether the piece lies on whole frames. A volume change shifts it slightly.
fn is_on_frames(piece: &Piece) -> bool {
    let (begins, ends) =
        (piece.from - piece.received.start as f64, piece.to - piece.received.end as f64);
    (begins - ends).abs() < ON_FRAME && (begins - begins.round()).abs() < ON_FRAME
}

/// Number, and range.
fn covered<'a>(
    sounding: &Range<usize>,
    pieces: impl Iterator<Item = &'a Piece>,
) -> (usize, Range<usize>) {
    let whole = |place: f64| (place.round() as usize).clamp(sounding.start, sounding.end);
    // Ends of resampled sound are known only to a block.
    let is_known = |piece: &Piece| piece.is_exact() || piece.modulo.is_some();
    let edge = |piece: &Piece| if is_known(piece) { 0 } else { BLOCK };
    let mut parts: Vec<(Range<usize>, usize)> =
        pieces.map(|piece| (whole(piece.from)..whole(piece.to), edge(piece))).collect();
    parts.sort_by_key(|(part, _)| (part.start, part.end));
    let (mut count, mut reached, mut ends) = (0, sounding.start, None::<Range<usize>>);
    let last = parts.iter().map(|(part, edge)| (part.end, *edge)).max();
    for (mut part, edge) in parts {
        if ends.is_none() && part.start - sounding.start < edge {
            part.start = sounding.start;
        }
        if last == Some((part.end, edge)) && sounding.end - part.end < edge {
            part.end = sounding.end;
        }
        count += part.end.saturating_sub(part.start.max(reached));
        reached = reached.max(part.end);
        let from = ends.map_or(part.start, |ends| ends.start);
        ends = Some(from..reached);
    }
    (count, ends.unwrap_or(sounding.start..sounding.start))
}

/// Minimum frames of a piece that shows its routing: 0.1 s at 48 kHz.
const TELLS: usize = 4800;

fn routings(pieces: &[Piece]) -> Vec<(usize, ChannelRouting)> {
    let mut all: Vec<(usize, ChannelRouting)> = Vec::new();
    let alone = pieces.len() == 1;
    let changed = |index: usize| {
        let (piece, last) = (&pieces[index], index.checked_sub(1).map(|last| &pieces[last]));
        piece.is_resampled()
            && last
                .is_some_and(|last| last.goes_on(piece) && !last.routing.leads_as(&piece.routing))
    };
    for (index, piece) in pieces.iter().enumerate() {
        if !alone && piece.received.len() < TELLS && !changed(index) {
            continue;
        }
        let routing = as_reported(piece);
        let as_before = |(_, last): &(usize, ChannelRouting)| {
            let gains = last.gains.iter().zip(&routing.gains);
            last.sources == routing.sources
                && gains.clone().all(|(one, other)| (one - other).abs() <= NO_GAIN * one.abs())
        };
        if !all.last().is_some_and(as_before) {
            all.push((piece.from.round() as usize, routing));
        }
    }
    all
}

/// A changing volume is reported separately.
fn as_reported(piece: &Piece) -> ChannelRouting {
    let mut routing = (*piece.routing).clone();
    for (gain, volume) in routing.gains.iter_mut().zip(&piece.volumes) {
        if volume.is_some_and(GainRange::changes) {
            *gain = gain.signum();
        }
    }
    routing
}

fn volumes(pieces: &[Piece]) -> Vec<Option<GainRange>> {
    let channels = pieces.first().map_or(0, |piece| piece.routing.gains.len());
    let mut all = vec![None; channels];
    for piece in pieces {
        let changed: Vec<_> =
            piece.volumes.iter().map(|volume| volume.filter(|volume| volume.changes())).collect();
        take_volumes(&mut all, &changed);
    }
    all
}
