//! Aligns periodic sound: selects the proven one of lines a period apart.

use core::ops::Range;
use std::borrow::Cow;

use super::rank::{SPAN, other_sound, rank, similarity_at};
use super::{PieceWalk, Seed};
use crate::exact::{Both, PROBE, RUN, find};
use crate::fit::{QUIET, WINDOW};
use crate::pieces::{BLOCK, ChannelRouting, FrameLine, Piece};
use crate::seek::{Likely, PATTERN};
use crate::sound::{Sound, power};
use tautline_dsp::align::Similarity;
use tautline_dsp::align::rivals::{
    Beyond, CLEAR, Candidate, Choice, Contest, Correlation, FittedLags, Pair, choose, repeats,
};

const REPEATS: f64 = 0.9;
/// Maximum search distance: 11 s at 48 kHz.
const REACH: usize = 1 << 19;
const SEARCHES: usize = 16;
pub(super) const SETTLES: u32 = 32;
/// Maximum frames after a break: 2.7 s at 48 kHz.
const AHEAD: usize = 1 << 17;
/// Minimum move in frames. A smaller one leaves a piece unchanged.
const STAYS: f64 = 0.5;
/// Maximum distance in frames of a piece from its line. A piece further away has moved.
const GOES_ON: f64 = 8.0;
/// Maximum distance from whole frames.
const WHOLE: f64 = 0.05;
const SEEDS: usize = 16;
const MARGIN: i64 = 2;
/// Similarity of repeated sound that continues beyond a file's end.
const CONTINUES: f64 = 0.95;
/// Minimum power: −20 dB.
const AUDIBLE: f64 = 0.01;

struct Settled {
    line: FrameLine,
    is_flipped: bool,
    period: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
struct Live {
    channel: usize,
    source: usize,
    gain: f64,
}

impl<'a> PieceWalk<'a> {
    /// On the proven line, else closest to `near`, with the period.
    pub(super) fn settled(
        &mut self,
        piece: Piece,
        evidence: &Range<usize>,
        within: &Range<usize>,
        near: &FrameLine,
    ) -> Piece {
        if self.settles == 0 {
            return Piece { modulo: self.period, ..piece };
        }
        if piece.is_exact() && self.is_all_of_both(&piece) {
            return piece;
        }
        let Some(settled) = self.line_of(&piece, evidence, near) else { return piece };
        let middle = (piece.received.start + piece.received.len() / 2) as f64;
        let moved = settled.line.place(middle) - piece.straight().place(middle);
        let stays = moved.abs() < STAYS && !settled.is_flipped;
        let grown = if stays { None } else { self.grown_on(&settled, &piece, within) };
        Piece { modulo: settled.period, ..grown.unwrap_or(piece) }
    }

    /// Moves a piece, unless its own line is clearly better.
    pub(super) fn kept(&mut self, piece: Piece, line: &FrameLine) -> Piece {
        let (own, middle) =
            (piece.straight(), (piece.received.start + piece.received.len() / 2) as f64);
        let moved = own.place(middle) - line.place(middle);
        if piece.is_exact() || moved.abs() < STAYS || moved.abs() > GOES_ON {
            return piece;
        }
        let (live, sign) = (live(&piece.routing), turn(&piece.routing));
        let end = piece.received.end;
        let spans = piece.received.clone().step_by(SPAN);
        let counts: Vec<_> = spans.map(|from| from..end.min(from + SPAN)).collect();
        let along = [own, *line]
            .map(|line| (line, self.similarity(&live, &line, &counts).gain_of_sign(sign)));
        let lead = self.lead(&live, &counts, along, &(f64::NEG_INFINITY..f64::INFINITY));
        if lead >= CLEAR { piece } else { piece.shifted(-moved) }
    }

    fn is_all_of_both(&self, piece: &Piece) -> bool {
        let Range { start, end } = self.sounding;
        (piece.from, piece.to) == (start as f64, end as f64)
            && piece.received == self.both.received.sounding()
    }

    /// Whether sound continues before both files, and after them.
    fn continues(&self) -> [bool; 2] {
        let Both { sent, received } = self.both;
        let is_periodic = self.period.is_some();
        [false, true].map(|is_end| {
            is_periodic && [sent, received].iter().all(|sound| continues(sound, is_end))
        })
    }

    /// Whether sound continues before and after the sent file.
    pub(super) fn beyond(&self, piece: &Piece) -> [bool; 2] {
        let (received, Range { start, end }) = (self.both.received, self.sounding.clone());
        let frames = received.frames();
        let mean = |part: Range<usize>| received.energy(&part) / part.len() as f64;
        let loud = AUDIBLE * mean(piece.received.clone());
        let sounds = |part: Range<usize>| {
            part.step_by(SPAN).all(|at| {
                let from = at.min(frames.saturating_sub(SPAN));
                mean(from..frames.min(from + SPAN)) >= loud
            })
        };
        let [before, after] = self.continues();
        let is_first = piece.from < (start + BLOCK) as f64;
        let is_last = piece.to > end.saturating_sub(BLOCK) as f64;
        let rest = piece.received.end..frames;
        [before && is_first && sounds(0..piece.received.start), after && is_last && sounds(rest)]
    }

    /// Bounded only if periodic sound continues.
    fn known(&self) -> Range<f64> {
        let ([before, after], frames) = (self.continues(), self.both.sent.frames());
        // Near an end a resampler renders unknown sound.
        let (start, end) = (SPAN as f64, (frames.saturating_sub(SPAN)) as f64);
        (if before { start } else { f64::NEG_INFINITY })..(if after { end } else { f64::INFINITY })
    }

    pub(super) fn after_break(received: &Range<usize>) -> Range<usize> {
        received.start..received.end.min(received.start + AHEAD)
    }

    fn line_of(
        &mut self,
        piece: &Piece,
        evidence: &Range<usize>,
        near: &FrameLine,
    ) -> Option<Settled> {
        let (mut line, mut turn) = (piece.straight(), turn(&piece.routing));
        let mut pattern = self.pattern(piece);
        let reach = REACH.min(4 * evidence.len());
        for _ in 0..SEARCHES {
            self.settles = self.settles.saturating_sub(1);
            let mut repeats = self.repeats(piece, &pattern, reach);
            let upright = repeats.iter().filter(|one| one.similarity > 0.0);
            let apart = upright.map(|one| one.lag.abs()).filter(|apart| *apart > STAYS);
            self.period = apart.min_by(f64::total_cmp);
            if repeats.len() < 2 {
                return None;
            }
            repeats.iter_mut().for_each(|one| one.similarity *= turn);
            let choice = self.choice((piece, &line), (&pattern, repeats), evidence, near)?;
            let Choice { candidate, period } = choice;
            line.place += candidate.lag;
            if 2.0 * candidate.lag.abs() < reach as f64 {
                let is_flipped = candidate.similarity * self::turn(&piece.routing) < 0.0;
                return Some(Settled { line, is_flipped, period });
            }
            // A better lag may lie beyond `reach`.
            turn = candidate.similarity.signum();
            let later = candidate.lag.round() as i64;
            let moved = |at: usize| usize::try_from(at as i64 + later).unwrap_or(0);
            pattern = moved(pattern.start)..moved(pattern.end);
        }
        None
    }

    fn pattern(&self, piece: &Piece) -> Range<usize> {
        let sounding = &self.sounding;
        let clip =
            |place: f64| (place.round().max(0.0) as usize).clamp(sounding.start, sounding.end);
        let (from, to) = (clip(piece.from), clip(piece.to));
        let from = self.loudest(from..to.max(from));
        let loudest = from..sounding.end.min(from + PATTERN);
        if !piece.is_exact() {
            return loudest;
        }
        let energy = |from: &usize| self.both.sent.energy(&(*from..to.min(from + PROBE)));
        let probes = (from..to.min(loudest.end)).step_by(PROBE);
        let from = probes.max_by(|a, b| energy(a).total_cmp(&energy(b))).unwrap_or(from);
        from..to.min(from + PROBE)
    }

    fn repeats(&self, piece: &Piece, pattern: &Range<usize>, reach: usize) -> Vec<Candidate> {
        let (sent, sources) = (self.both.sent, &piece.routing.sources);
        if pattern.end > sent.frames() || !sent.notifies(pattern.clone()) {
            return Vec::new();
        }
        let channel = &sent.channels[sent.loudest(pattern.clone())];
        if !piece.is_exact() {
            return repeats(channel, pattern, reach, REPEATS);
        }
        let is_same = |at: &usize| {
            sources
                .iter()
                .map(|source| &sent.channels[*source])
                .all(|channel| channel[*at..*at + pattern.len()] == channel[pattern.clone()])
        };
        let near = |at: &usize| at.abs_diff(pattern.start) <= reach;
        let places = find(&channel[pattern.clone()], channel).filter(near).filter(is_same);
        let lag = |at: usize| at as f64 - pattern.start as f64;
        let mut all: Vec<_> =
            places.map(|at| Candidate { lag: lag(at), similarity: 1.0, score: 0.0 }).collect();
        if all.len() > 1 {
            let alike = repeats(channel, pattern, reach, REPEATS);
            all.extend(alike.into_iter().filter(|one| one.similarity < 0.0));
        }
        all.sort_by(|one, other| one.lag.total_cmp(&other.lag));
        all
    }

    fn choice(
        &mut self,
        (piece, line): (&Piece, &FrameLine),
        (pattern, mut all): (&Range<usize>, Vec<Candidate>),
        evidence: &Range<usize>,
        near: &FrameLine,
    ) -> Option<Choice> {
        let (begin, both) = (evidence.start as f64, self.both);
        if line.offset().is_some() {
            for one in all.iter_mut().filter(|one| (one.lag - one.lag.round()).abs() < WHOLE) {
                one.lag = one.lag.round();
            }
        }
        // The sent sound at the recording's rate.
        let steps = line.place(begin) / line.step;
        let (first, begins) = (steps.floor() as i64, (steps - steps.floor()) * line.step);
        let frames = ((both.sent.frames() as f64 - begins) / line.step).ceil().max(0.0) as usize;
        let lag = |one: Option<&Candidate>| one.map_or(0, |one| (one.lag / line.step) as i64);
        let lags = first + lag(all.first()) - MARGIN..first + lag(all.last()) + MARGIN;
        let clip = |at: i64| usize::try_from(at).unwrap_or(0).min(frames);
        let part = clip(lags.start)..clip(lags.end + evidence.len() as i64);
        let (base, live) = (part.start as i64, live(&piece.routing));
        let sent: Vec<_> =
            live.iter().map(|one| self.along(one.source, begins, line.step, &part)).collect();
        let pairs: Vec<_> = live
            .iter()
            .zip(&sent)
            .map(|(one, sent)| Pair {
                received: &both.received.channels[one.channel][evidence.clone()],
                sent,
                gain: one.gain,
            })
            .collect();
        let lags = lags.start - base..lags.end - base;
        // Ranks lags with more common frames higher.
        let found = Correlation::of(&pairs, lags, Beyond::Silence);
        let at = |one: &Candidate| (first - base) as f64 + one.lag / line.step;
        for one in &mut all {
            let explained = found.explained(at(one), one.similarity.signum());
            one.score = explained.unwrap_or(f64::NEG_INFINITY);
        }
        let whole = |one: &Candidate| (at(one).round() as i64, one.similarity.signum());
        let middle = (pattern.start + pattern.len() / 2) as f64;
        let middle = ((middle - begins) / line.step) as i64 - base;
        let other = other_sound(&pairs, &all, whole, middle);
        let counts: Vec<_> = (evidence.clone().step_by(SPAN).enumerate())
            .filter(|(window, _)| !other[*window])
            .map(|(_, from)| from..evidence.end.min(from + SPAN))
            .collect();
        // At whole lags, which is less precise.
        if other.contains(&true) {
            rank(&mut all, |one| {
                let (lag, sign) = whole(one);
                let window = |window: &Range<usize>| {
                    let window = window.start - evidence.start..window.end - evidence.start;
                    similarity_at(&pairs, &window, lag)
                };
                let all =
                    counts.iter().map(window).fold(Similarity::default(), |all, one| all.and(&one));
                all.rest_rounded(all.gain_of_sign(sign))
            });
        }
        let (wanted, known) = (near.place(begin) - line.place(begin), self.known());
        let mut fitted = FittedLags::default();
        choose(&all, wanted, |one, other| {
            let at = |lag: f64| FrameLine { place: line.place + lag, ..*line };
            let along = [one, other].map(|one| {
                let similarity = |lag: f64| self.similarity(&live, &at(lag), &counts);
                let (lag, gain) = fitted.of(one, similarity);
                (at(lag), gain)
            });
            self.lead(&live, &counts, along, &known)
        })
    }

    fn along(
        &mut self,
        source: usize,
        begins: f64,
        step: f64,
        part: &Range<usize>,
    ) -> Cow<'a, [f32]> {
        let both = self.both;
        if begins == 0.0 && step == 1.0 {
            return Cow::Borrowed(&both.sent.channels[source][part.clone()]);
        }
        let line = FrameLine { at: 0.0, place: begins, step };
        let mut all = Vec::with_capacity(part.len());
        for from in part.clone().step_by(WINDOW) {
            let window = from..part.end.min(from + WINDOW);
            all.extend_from_slice(self.fit.rendered(source, &window, &line));
        }
        Cow::Owned(all)
    }

    fn similarity(
        &mut self,
        live: &[Live],
        line: &FrameLine,
        counts: &[Range<usize>],
    ) -> Similarity {
        let mut all = Similarity::default();
        for window in counts {
            for Live { channel, source, gain } in live.iter().copied() {
                let sent = self.fit.rendered(source, window, line);
                let received = &self.both.received.channels[channel][window.clone()];
                all = all.and(&Similarity::between(received, sent).louder(gain));
            }
        }
        all
    }

    /// Lead in standard deviations.
    fn lead(
        &mut self,
        live: &[Live],
        counts: &[Range<usize>],
        [one, other]: [(FrameLine, f64); 2],
        known: &Range<f64>,
    ) -> f64 {
        let (floor, frames) = (self.fit.floor() + QUIET, self.both.sent.frames() as f64);
        let (mut contest, mut first) = (Contest::default(), Vec::with_capacity(SPAN));
        let [one_known, other_known] = [one.0, other.0].map(|line| {
            let at = |place: f64| line.at + (place - line.place) / line.step;
            at(known.start)..at(known.end)
        });
        // The casts saturate.
        let start = one_known.start.max(other_known.start).ceil() as usize;
        let end = one_known.end.min(other_known.end).floor() as usize;
        for window in counts {
            let window = window.start.max(start)..window.end.min(end);
            if window.is_empty() {
                continue;
            }
            let (begin, end) = (window.start as f64, window.end as f64);
            let has_sound = |line: &FrameLine| line.place(begin) < frames && line.place(end) > 0.0;
            if !has_sound(&one.0) && !has_sound(&other.0) {
                continue;
            }
            for Live { channel, source, gain } in live.iter().copied() {
                first.clear();
                first.extend_from_slice(self.fit.rendered(source, &window, &one.0));
                let second = self.fit.rendered(source, &window, &other.0);
                let received = &self.both.received.channels[channel][window.clone()];
                contest.add(received, (&first, gain * one.1), (second, gain * other.1), floor);
            }
        }
        contest.deviations()
    }

    fn grown_on(
        &mut self,
        Settled { line, is_flipped, .. }: &Settled,
        piece: &Piece,
        within: &Range<usize>,
    ) -> Option<Piece> {
        let mut routing = (*piece.routing).clone();
        if *is_flipped {
            routing.gains.iter_mut().for_each(|gain| *gain = -*gain);
        }
        let received = |sent: usize| {
            let at = line.at + (sent as f64 - line.place) / line.step;
            (at.round().max(0.0) as usize).clamp(within.start, within.end)
        };
        let sounding = received(self.sounding.start)..received(self.sounding.end);
        // Loudest first: sound may be sparse.
        let energy = |at: &usize| self.both.received.energy(&(*at..within.end.min(at + WINDOW)));
        let mut places: Vec<_> = sounding.step_by(WINDOW / 2).map(|at| (energy(&at), at)).collect();
        places.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        let middle = piece.received.start + piece.received.len() / 2;
        let places = places.into_iter().take(SEEDS).map(|(_, at)| at);
        core::iter::once(middle).chain(places).find_map(|at| {
            let seed = self.seed_on(at, line, &routing)?;
            let piece = self.grow(&seed, within.clone());
            self.says(&piece).then_some(piece)
        })
    }

    fn seed_on(&mut self, at: usize, line: &FrameLine, routing: &ChannelRouting) -> Option<Seed> {
        let agrees = |offset: i64| self.both.agree(&routing.sources, at..at + RUN, offset);
        let offset = line.offset().filter(|offset| agrees(*offset));
        if let Some((offset, routing)) = offset.zip(routing.loud_as_sent()) {
            return Some(Seed::exact(at, offset, routing));
        }
        let (received, place) = (self.both.received, line.place(at as f64).round());
        let end = received.frames().min(at + WINDOW);
        let channel = self.fit.loudest(&(at.min(end)..end), routing);
        let (source, gain) = (routing.sources[channel], routing.gains[channel]);
        let likely = Likely { received: at, sent: place.max(0.0) as usize, channel, source };
        let all = 0..received.frames();
        self.acquire(&likely, line.step, &all, Some((line, gain)))
    }
}

/// Whether the sound repeats within the file.
fn continues(sound: &Sound, is_end: bool) -> bool {
    let frames = sound.frames();
    let channel = &sound.channels[sound.loudest(0..frames)];
    let part = |length: usize| if is_end { frames - length..frames } else { 0..length };
    let loud = AUDIBLE * power(channel) / frames as f64;
    let is_loud = |length: &usize| power(&channel[part(*length)]) > loud * SPAN as f64;
    let Some(length) = (SPAN..frames.saturating_sub(SPAN)).step_by(SPAN).find(is_loud) else {
        return false;
    };
    let again = repeats(channel, &part(length + SPAN), REACH.min(frames), CONTINUES);
    again.iter().any(|one| one.similarity > 0.0 && one.lag.abs() > STAYS)
}

fn live(routing: &ChannelRouting) -> Vec<Live> {
    let turn = turn(routing);
    let channels = routing.gains.iter().zip(&routing.sources).enumerate();
    let live = channels.filter(|(_, (gain, _))| **gain != 0.0);
    live.map(|(channel, (gain, source))| Live { channel, source: *source, gain: gain * turn })
        .collect()
}

fn turn(routing: &ChannelRouting) -> f64 {
    routing.gains.iter().find(|gain| **gain != 0.0).map_or(1.0, |gain| gain.signum())
}
