//! Which line a piece of a periodic sound lies on: of the lines that explain it, a period apart, the one
//! that an onset, an ending or an envelope proves.

use core::ops::Range;
use std::borrow::Cow;

use tautline_dsp::fit::Likeness;

use super::{PieceWalk, Seed};
use crate::exact::{PROBE, RUN, find};
use crate::fit::{QUIET, WINDOW};
use crate::pieces::{ChannelRouting, FrameLine, Piece};
use crate::rivals::{
    Beyond, CLEAR, Candidate, Choice, Contest, Correlation, Pair, choose, repeats,
};
use crate::seek::{Likely, PATTERN};
use crate::sound::power;

/// A pattern that comes again so much alike within the sent sound may lie there.
const REPEATS: f64 = 0.9;
/// How far from a line others are searched at once, either way: 11 s at 48 kHz.
const REACH: usize = 1 << 19;
/// Searches, each from the line that the last came to.
const SEARCHES: usize = 16;
/// Pieces of which the line is searched: each takes transforms of the sound around it.
pub(super) const SETTLES: u32 = 32;
/// Frames after a break by which its line is judged: 2.7 s at 48 kHz.
const AHEAD: usize = 1 << 17;
/// A piece whose line moves by less stays as it is.
const STAYS: f64 = 0.5;
/// A piece that goes on further from its line than this, in frames, has moved.
const GOES_ON: f64 = 8.0;
/// A line so near whole frames lies on them.
const WHOLE: f64 = 0.05;
/// Places from which a piece is grown on its new line, until it is long enough.
const SEEDS: usize = 16;
/// Heard frames that count together, or not at all.
const SPAN: usize = 256;
/// Sound that is as loud as this part of the loudest, −6 dB, and of which more than this part is left, −3 dB,
/// is other sound.
const LOUD: f64 = 0.25;
const EXPLAINED: f64 = 0.5;
/// Lags of each sign that are ranked by what they leave unexplained.
const RANKED: usize = 8;
/// Lags on each side of those that are scored.
const MARGIN: i64 = 2;
/// How far from a lag the sound is fitted on either side, in frames.
const ASIDE: f64 = 1.0 / 16.0;

/// The line that was chosen.
struct Settled {
    line: FrameLine,
    /// Whether its polarity is not that of the piece.
    is_flipped: bool,
    period: Option<f64>,
}

/// A live channel of a recording.
#[derive(Debug, Clone, Copy)]
struct Live {
    channel: usize,
    source: usize,
    /// Relative to the polarity of the first live channel.
    gain: f64,
}

impl<'a> PieceWalk<'a> {
    /// A piece on the line that the evidence, some heard frames, proves. Without proof it lies on the
    /// line nearest to `near`, and has the period.
    pub(super) fn settled(
        &mut self,
        piece: Piece,
        evidence: &Range<usize>,
        within: &Range<usize>,
        near: &FrameLine,
    ) -> Piece {
        let Some(settled) = self.line_of(&piece, evidence, near) else { return piece };
        let middle = (piece.heard.start + piece.heard.len() / 2) as f64;
        let moved = settled.line.place(middle) - piece.straight().place(middle);
        let stays = moved.abs() < STAYS && !settled.is_flipped;
        let grown = if stays { None } else { self.grown_on(&settled, &piece, within) };
        Piece { modulo: settled.period, ..grown.unwrap_or(piece) }
    }

    /// A piece of sound that goes on: on the line that is expected, unless its own explains clearly more.
    pub(super) fn kept(&mut self, piece: Piece, line: &FrameLine) -> Piece {
        let (own, middle) = (piece.straight(), (piece.heard.start + piece.heard.len() / 2) as f64);
        let moved = own.place(middle) - line.place(middle);
        if piece.is_exact() || moved.abs() < STAYS || moved.abs() > GOES_ON {
            return piece;
        }
        let (live, sign) = (live(&piece.routing), turn(&piece.routing));
        let end = piece.heard.end;
        let spans = piece.heard.clone().step_by(SPAN);
        let counts: Vec<_> = spans.map(|from| from..end.min(from + SPAN)).collect();
        let along = [own, *line].map(|line| (line, self.sums(&live, &line, &counts).gain(sign)));
        if self.lead(&live, &counts, along) >= CLEAR { piece } else { piece.shifted(-moved) }
    }

    /// The frames after a break by which its line is judged.
    pub(super) fn after_break(heard: &Range<usize>) -> Range<usize> {
        heard.start..heard.end.min(heard.start + AHEAD)
    }

    /// The line of a piece, if there are others that may be it.
    fn line_of(
        &mut self,
        piece: &Piece,
        evidence: &Range<usize>,
        near: &FrameLine,
    ) -> Option<Settled> {
        let (mut line, mut turn) = (piece.straight(), turn(&piece.routing));
        let mut pattern = self.pattern(piece);
        for _ in 0..SEARCHES {
            let mut repeats = self.repeats(piece, &pattern);
            if self.settles == 0 || repeats.len() < 2 {
                return None;
            }
            self.settles -= 1;
            repeats.iter_mut().for_each(|one| one.likeness *= turn);
            let choice = self.choice((piece, &line), (&pattern, repeats), evidence, near)?;
            let Choice { candidate, period } = choice;
            line.place += candidate.lag;
            if 2.0 * candidate.lag.abs() < REACH as f64 {
                let is_flipped = candidate.likeness * self::turn(&piece.routing) < 0.0;
                return Some(Settled { line, is_flipped, period });
            }
            // A better one may lie beyond the reach.
            turn = candidate.likeness.signum();
            let later = candidate.lag.round() as i64;
            let moved = |at: usize| usize::try_from(at as i64 + later).unwrap_or(0);
            pattern = moved(pattern.start)..moved(pattern.end);
        }
        None
    }

    /// The sent frames of a piece that are looked for elsewhere.
    fn pattern(&self, piece: &Piece) -> Range<usize> {
        let sounding = &self.sounding;
        let clip =
            |place: f64| (place.round().max(0.0) as usize).clamp(sounding.start, sounding.end);
        let (from, to) = (clip(piece.from), clip(piece.to));
        if piece.is_exact() {
            let from = from + to.saturating_sub(from + PROBE) / 2;
            return from..to.min(from + PROBE);
        }
        let from = self.loudest(from..to.max(from));
        from..sounding.end.min(from + PATTERN)
    }

    /// How many sent frames further on a pattern comes again: bit for bit if its piece was heard so.
    fn repeats(&self, piece: &Piece, pattern: &Range<usize>) -> Vec<Candidate> {
        let (sent, sources) = (self.both.sent, &piece.routing.sources);
        if pattern.is_empty() || pattern.end > sent.frames() {
            return Vec::new();
        }
        let channel = &sent.channels[sent.loudest(pattern.clone())];
        if !piece.is_exact() {
            return repeats(channel, pattern, REACH, REPEATS);
        }
        let is_same = |at: &usize| {
            sources
                .iter()
                .map(|source| &sent.channels[*source])
                .all(|channel| channel[*at..*at + pattern.len()] == channel[pattern.clone()])
        };
        let near = |at: &usize| at.abs_diff(pattern.start) <= REACH;
        let places = find(&channel[pattern.clone()], channel).filter(near).filter(is_same);
        let lag = |at: usize| at as f64 - pattern.start as f64;
        places.map(|at| Candidate { lag: lag(at), likeness: 1.0, score: 0.0 }).collect()
    }

    /// The best of these lags from a line, in sent frames.
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
        // The sent sound in frames of the recording: its frame `first` is the first of the evidence.
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
                heard: &both.heard.channels[one.channel][evidence.clone()],
                sent,
                gain: one.gain,
            })
            .collect();
        let lags = lags.start - base..lags.end - base;
        let found = Correlation::of(&pairs, lags, Beyond::Silence);
        let at = |one: &Candidate| (first - base) as f64 + one.lag / line.step;
        for one in &mut all {
            let explained = found.explained(at(one), one.likeness.signum());
            one.score = explained.unwrap_or(f64::NEG_INFINITY);
        }
        let whole = |one: &Candidate| (at(one).round() as i64, one.likeness.signum());
        let middle = (pattern.start + pattern.len() / 2) as f64;
        let middle = ((middle - begins) / line.step) as i64 - base;
        let other = other_sound(&pairs, &all, whole, middle);
        let counts: Vec<_> = (evidence.clone().step_by(SPAN).enumerate())
            .filter(|(window, _)| !other[*window])
            .map(|(_, from)| from..evidence.end.min(from + SPAN))
            .collect();
        // To whole lags, which is less exact.
        if other.contains(&true) {
            rank(&mut all, |one| {
                let (lag, sign) = whole(one);
                let mut all = Sums::default();
                for window in &counts {
                    let window = window.start - evidence.start..window.end - evidence.start;
                    pairs.iter().for_each(|pair| all.add(pair, &window, lag));
                }
                all.rest(all.gain(sign))
            });
        }
        let wanted = near.place(begin) - line.place(begin);
        let mut fitted: Vec<(f64, (FrameLine, f64))> = Vec::new();
        choose(&all, wanted, |one, other| {
            let along = [one, other].map(|one| {
                if let Some((_, known)) = fitted.iter().find(|(lag, _)| *lag == one.lag) {
                    return *known;
                }
                let line = FrameLine { place: line.place + one.lag, ..*line };
                let there = self.fitted(&live, &line, &counts, one.likeness.signum());
                fitted.push((one.lag, there));
                there
            });
            self.lead(&live, &counts, along)
        })
    }

    /// A sent channel in frames of `step` sent frames each, the first at `begins`.
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
        let mut all = Vec::with_capacity(part.len());
        for from in part.clone().step_by(WINDOW) {
            let (place, count) = (begins + from as f64 * step, WINDOW.min(part.end - from));
            all.extend_from_slice(self.fit.rendered(source, place, step, count));
        }
        Cow::Owned(all)
    }

    /// The line next to this one, and the gain of this sign, that explain most of the frames that count.
    /// The gain is a factor to that of each channel.
    fn fitted(
        &mut self,
        live: &[Live],
        line: &FrameLine,
        counts: &[Range<usize>],
        sign: f64,
    ) -> (FrameLine, f64) {
        let along = |away: f64| FrameLine { place: line.place + away, ..*line };
        let sums = [-ASIDE, 0.0, ASIDE].map(|away| self.sums(live, &along(away), counts));
        let [before, here, after] = sums.map(|sums| sums.rest(sums.gain(sign)));
        let bend = before - 2.0 * here + after;
        let away = if bend > 0.0 { 0.5 * (before - after) / bend } else { 0.0 };
        (along(ASIDE * away.clamp(-1.0, 1.0)), sums[1].gain(sign))
    }

    /// Of the frames that count and of the sent ones along a line.
    fn sums(&mut self, live: &[Live], line: &FrameLine, counts: &[Range<usize>]) -> Sums {
        let mut all = Sums::default();
        for window in counts {
            for Live { channel, source, gain } in live.iter().copied() {
                let place = line.place(window.start as f64);
                let sent = self.fit.rendered(source, place, line.step, window.len());
                let heard = &self.both.heard.channels[channel][window.clone()];
                all.add(&Pair { heard, sent, gain }, &(0..window.len()), 0);
            }
        }
        all
    }

    /// By how many standard deviations the frames that count are better explained along the first line,
    /// with its gain, than along the second.
    fn lead(
        &mut self,
        live: &[Live],
        counts: &[Range<usize>],
        [one, other]: [(FrameLine, f64); 2],
    ) -> f64 {
        let (floor, frames) = (self.fit.floor() + QUIET, self.both.sent.frames() as f64);
        let (mut contest, mut first) = (Contest::default(), Vec::with_capacity(SPAN));
        for window in counts {
            let (begin, end) = (window.start as f64, window.end as f64);
            let has_sound = |line: &FrameLine| line.place(begin) < frames && line.place(end) > 0.0;
            if !has_sound(&one.0) && !has_sound(&other.0) {
                continue;
            }
            for Live { channel, source, gain } in live.iter().copied() {
                let (place, step, count) = (one.0.place(begin), one.0.step, window.len());
                first.clear();
                first.extend_from_slice(self.fit.rendered(source, place, step, count));
                let second = self.fit.rendered(source, other.0.place(begin), step, count);
                let heard = &self.both.heard.channels[channel][window.clone()];
                contest.add(heard, (&first, gain * one.1), (second, gain * other.1), floor);
            }
        }
        contest.deviations()
    }

    /// A piece like this one on another line.
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
        let heard = |sent: usize| {
            let at = line.at + (sent as f64 - line.place) / line.step;
            (at.round().max(0.0) as usize).clamp(within.start, within.end)
        };
        let sounding = heard(self.sounding.start)..heard(self.sounding.end);
        // The loudest first: sound may be sparse.
        let energy = |at: &usize| -> f64 {
            let window = *at..within.end.min(at + WINDOW);
            self.both.heard.channels.iter().map(|channel| power(&channel[window.clone()])).sum()
        };
        let mut places: Vec<_> = sounding.step_by(WINDOW / 2).map(|at| (energy(&at), at)).collect();
        places.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        let middle = piece.heard.start + piece.heard.len() / 2;
        let places = places.into_iter().take(SEEDS).map(|(_, at)| at);
        core::iter::once(middle).chain(places).find_map(|at| {
            let seed = self.seed_on(at, line, &routing)?;
            let piece = self.grow(&seed, within.clone());
            self.says(&piece).then_some(piece)
        })
    }

    /// A seed at a heard frame on a line. How loud the sound is, is learned there.
    fn seed_on(&mut self, at: usize, line: &FrameLine, routing: &ChannelRouting) -> Option<Seed> {
        let agrees = |offset: i64| self.both.agree(&routing.sources, at..at + RUN, offset);
        let offset = line.offset().filter(|offset| agrees(*offset));
        if let Some((offset, routing)) = offset.zip(routing.loud_as_sent()) {
            return Some(Seed::exact(at, offset, routing));
        }
        let (heard, place) = (self.both.heard, line.place(at as f64).round());
        let end = heard.frames().min(at + WINDOW);
        let loud = |channel: &usize| power(&heard.channels[*channel][at.min(end)..end]);
        let live = (0..routing.gains.len()).filter(|channel| routing.gains[*channel] != 0.0);
        let channel = live.max_by(|a, b| loud(a).total_cmp(&loud(b)))?;
        let (source, gain) = (routing.sources[channel], routing.gains[channel]);
        let likely = Likely { heard: at, sent: place.max(0.0) as usize, channel, source };
        let all = 0..heard.frames();
        self.acquire(&likely, line.step, &all, Some((line, gain)))
    }
}

/// Scores anew those of each sign that explain most, by what they leave unexplained; and those that
/// steps from the best lead to, twice as far each.
fn rank(all: &mut [Candidate], mut unexplained: impl FnMut(&Candidate) -> f64) {
    for sign in [1.0, -1.0] {
        let mut of_sign: Vec<_> =
            (0..all.len()).filter(|at| all[*at].likeness * sign > 0.0).collect();
        let count = of_sign.len();
        let mut costs: Vec<Option<f64>> = vec![None; count];
        let mut cost = |at: usize| *costs[at].get_or_insert_with(|| unexplained(&all[of_sign[at]]));
        let score = |at: &usize| all[of_sign[*at]].score;
        let mut likely: Vec<_> = (0..count).collect();
        likely.sort_by(|a, b| score(b).total_cmp(&score(a)));
        let own = (0..count)
            .min_by(|a, b| all[of_sign[*a]].lag.abs().total_cmp(&all[of_sign[*b]].lag.abs()));
        let starts = likely.into_iter().take(RANKED).chain(own);
        let Some(mut best) = starts.min_by(|a, b| cost(*a).total_cmp(&cost(*b))) else { continue };
        loop {
            let steps = (0..usize::BITS).map(|bit| 1 << bit).take_while(|step| *step < count);
            let places = steps.flat_map(|step| [best.checked_sub(step), Some(best + step)]);
            let places = places.flatten().filter(|at| *at < count);
            let next = places.min_by(|a, b| cost(*a).total_cmp(&cost(*b)));
            match next.filter(|next| cost(*next) < cost(best)) {
                Some(next) => best = next,
                None => break,
            }
        }
        for (at, cost) in of_sign.drain(..).zip(costs) {
            all[at].score = cost.map_or(f64::NEG_INFINITY, |cost| -cost);
        }
    }
}

/// The windows of `SPAN` heard frames that say nothing of the lags: loud, and explained by none of them
/// that may, as after a jump of the phase; with those next to them. The best may, that at the line, and
/// the one that puts the middle of the pattern there.
fn other_sound(
    pairs: &[Pair<'_>],
    all: &[Candidate],
    whole: impl Fn(&Candidate) -> (i64, f64),
    middle: i64,
) -> Vec<bool> {
    let mut best: Vec<_> = all.iter().collect();
    best.sort_by(|a, b| b.score.total_cmp(&a.score));
    best.truncate(RANKED);
    best.extend(all.iter().min_by(|a, b| a.lag.abs().total_cmp(&b.lag.abs())));
    let frames = pairs.iter().map(|pair| pair.heard.len()).max().unwrap_or(0);
    let energy = |window: &Range<usize>| -> f64 {
        pairs.iter().map(|pair| power(&pair.heard[window.clone()])).sum()
    };
    let windows: Vec<_> =
        (0..frames).step_by(SPAN).map(|from| from..frames.min(from + SPAN)).collect();
    let loudest = windows.iter().map(energy).fold(0.0, f64::max);
    let is_other = |window: &Range<usize>| {
        let energy = energy(window);
        let place = middle - (window.start + window.len() / 2) as i64;
        let after = all.partition_point(|one| whole(one).0 < place);
        let there = all[after.saturating_sub(1)..all.len().min(after + 1)].iter();
        let left = |one: &Candidate| {
            let ((lag, sign), mut all) = (whole(one), Sums::default());
            pairs.iter().for_each(|pair| all.add(pair, window, lag));
            all.rest(sign)
        };
        energy > LOUD * loudest
            && !best.iter().copied().chain(there).any(|one| left(one) <= EXPLAINED * energy)
    };
    let other: Vec<_> = windows.iter().map(is_other).collect();
    let is_next = |at: usize| other[at.saturating_sub(1)..other.len().min(at + 2)].contains(&true);
    (0..other.len()).map(is_next).collect()
}

/// Energies of what was heard and of what was sent, and the sum of their products.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    heard: f64,
    sent: f64,
    both: f64,
}

impl Sums {
    /// Adds some heard frames at a whole lag.
    fn add(&mut self, pair: &Pair<'_>, window: &Range<usize>, lag: i64) {
        let (gain, from) = (pair.gain, window.start as i64 + lag);
        let heard = &pair.heard[window.clone()];
        let (before, heard) = heard.split_at(usize::try_from(-from).unwrap_or(0).min(heard.len()));
        let sent = pair.sent.get(usize::try_from(from).unwrap_or(0)..).unwrap_or_default();
        let (heard, after) = heard.split_at(heard.len().min(sent.len()));
        let alike = Likeness::between(heard, sent);
        self.heard += alike.energy() + power(before) + power(after);
        if alike.energy_of_other() > 0.0 {
            self.sent += gain * gain * alike.energy_of_other();
            self.both += gain * alike.gain() * alike.energy_of_other();
        }
    }

    /// The best gain of this sign.
    fn gain(&self, sign: f64) -> f64 {
        if self.sent > 0.0 { sign * (sign * self.both / self.sent).max(0.0) } else { 0.0 }
    }

    /// What a gain leaves of what was heard.
    fn rest(&self, gain: f64) -> f64 {
        self.heard - 2.0 * gain * self.both + gain * gain * self.sent
    }
}

fn live(routing: &ChannelRouting) -> Vec<Live> {
    let turn = turn(routing);
    let channels = routing.gains.iter().zip(&routing.sources).enumerate();
    let live = channels.filter(|(_, (gain, _))| **gain != 0.0);
    live.map(|(channel, (gain, source))| Live { channel, source: *source, gain: gain * turn })
        .collect()
}

/// The polarity of the first live channel.
fn turn(routing: &ChannelRouting) -> f64 {
    routing.gains.iter().find(|gain| **gain != 0.0).map_or(1.0, |gain| gain.signum())
}
