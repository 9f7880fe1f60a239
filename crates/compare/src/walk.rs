//! Walks through a recording: continues the last line, else searches near it, else anywhere.

mod first;
mod rank;
mod settle;

use core::ops::Range;
use std::rc::Rc;

use tautline_dsp::align::Backoff;

use super::exact::{Both, PROBE, RUN};
use super::fit::{Fitted, MIN, WINDOW, WindowFitter};
use super::pieces::{
    BLOCK, ChannelRouting, FrameLine, GainRange, Kind, Piece, Places, RoutedLine, take_volumes,
};
use super::seek::{Coarse, Likely};

/// Frames skipped at the start, because the previous end is known only to a block.
const NEAR_FROM: usize = 2 * BLOCK;
const AHEAD: usize = 4800;
/// Maximum searches, and frames before the second; the distance doubles.
const SEARCHES: u32 = 12;
const FIRST_REST: usize = 8 * WINDOW;
/// Maximum residual of the same sound: −40 dB.
const SAME: f64 = 1e-4;
/// Maximum distance of resampled sound, in frames.
const BESIDE: f64 = 0.05;

struct Seed {
    at: usize,
    line: FrameLine,
    routing: Rc<ChannelRouting>,
    exact: bool,
}

struct SearchBackoff {
    near: Backoff,
    /// Next whole search, and the distance to the search after it.
    wide: usize,
    further: usize,
}

impl SearchBackoff {
    fn none(at: usize) -> Self {
        Self { near: Backoff::after(1), wide: at, further: FIRST_REST }
    }
}

pub(super) struct PieceWalk<'a> {
    both: Both<'a>,
    sounding: Range<usize>,
    /// In frames.
    reach: i64,
    coarse: Coarse,
    fit: WindowFitter<'a>,
    pieces: Vec<Piece>,
    searches: u32,
    settles: u32,
    period: Option<f64>,
    progress: &'a mut dyn FnMut(usize),
}

impl<'a> PieceWalk<'a> {
    pub(super) fn new(
        both: Both<'a>,
        bits: Option<u32>,
        progress: &'a mut dyn FnMut(usize),
    ) -> Self {
        Self {
            both,
            sounding: both.sent.sounding(),
            reach: i64::from(both.sent.rate.hertz()),
            coarse: Coarse::new(both.sent, both.received),
            fit: WindowFitter::new(both, bits),
            pieces: Vec::new(),
            searches: SEARCHES,
            settles: settle::SETTLES,
            period: None,
            progress,
        }
    }

    pub(super) fn run(mut self) -> Vec<Piece> {
        let all = 0..self.both.received.frames();
        let Some(first) = self.first() else { return Vec::new() };
        let first = self.settled(first, &all, &all, &FrameLine::whole(0));
        let (Range { start, end }, modulo) = (first.received.clone(), first.modulo);
        let line = FrameLine { at: start as f64, place: first.from, ..first.line() };
        let [before, after] = self.beyond(&first);
        if !before {
            self.between(0..start, RoutedLine { line, routing: first.routing.clone() }, modulo);
        }
        let line = RoutedLine { line: first.line(), routing: first.routing.clone() };
        self.push(first);
        if !after {
            self.between(end..all.end, line, modulo);
        }
        self.pieces
    }

    /// Next to line `last` or lines `modulo` apart.
    fn between(&mut self, received: Range<usize>, mut last: RoutedLine, mut modulo: Option<f64>) {
        let (mut at, mut free, mut ahead) = (received.start, received.start, AHEAD);
        let mut rest = SearchBackoff::none(at);
        while let Some(sounds) =
            (at..received.end).find(|frame| !self.both.received.is_silent(*frame))
        {
            at = sounds;
            (self.progress)(at);
            let found = self.next(at..received.end, ahead, &last, &mut rest);
            let piece = found.map(|(seed, on_line)| {
                let piece = self.grow(&seed, free..received.end);
                let piece = if on_line || !self.says(&piece) {
                    Piece { modulo, ..piece }
                } else {
                    let evidence = Self::after_break(&(at..received.end));
                    self.settled(piece, &evidence, &(free..received.end), &last.line)
                };
                self.kept(piece, &last.line)
            });
            match piece.filter(|piece| piece.received.end > at && self.says(piece)) {
                Some(piece) => {
                    (at, free, ahead) = (piece.received.end, piece.received.end, AHEAD);
                    last = RoutedLine { line: piece.line(), routing: piece.routing.clone() };
                    modulo = piece.modulo;
                    rest = SearchBackoff::none(at);
                    self.push(piece);
                }
                None => (at, ahead) = (at + WINDOW, WINDOW),
            }
        }
    }

    /// Adds the piece, and the gap before it if that gap is the same sound.
    fn push(&mut self, mut piece: Piece) {
        if let Some(mut last) = self.pieces.pop() {
            let between = last.received.end..piece.received.start;
            last.meet(&mut piece);
            if !last.is_exact() && last.received.end > between.start {
                let at = (between.start + between.len() / 2).saturating_sub(WINDOW / 2);
                let window = at..at + WINDOW.min(self.both.received.frames() - at);
                let clicks = self.clicks(&between, &window, &last.line(), &last.routing);
                last.clicks.extend(clicks);
            }
            self.pieces.push(last);
        }
        if let Some(gap) = self.pieces.last().and_then(|last| gap(last, &piece)) {
            let bridged = self.bridged(gap);
            self.pieces.extend(bridged);
        }
        self.pieces.push(piece);
    }

    fn bridged(&mut self, gap: Piece) -> Option<Piece> {
        let (line, routing) = (gap.line(), gap.routing.clone());
        let floor = self.fit.floor() * routing.gains.len() as f64;
        let same =
            |held: &Fitted, count: usize| held.rest <= SAME * held.energy + floor * count as f64;
        let mut all = Windows::none(&routing);
        // Equal lengths: a short window has too little information.
        let windows = gap.received.len().div_ceil(WINDOW);
        let edge = |window: usize| gap.received.start + gap.received.len() * window / windows;
        for window in 0..windows {
            let window = edge(window)..edge(window + 1);
            let count = window.len();
            let held = self.fit.holds(&window, &line, &routing);
            match held.filter(|held| same(held, count)) {
                Some(held) => all.take(&held),
                None => {
                    let near = self.fit.window(&window, &line, &routing)?;
                    let centre = (window.start + count / 2) as f64;
                    let off = near.line.place(centre) - line.place(centre);
                    if off.abs() > BESIDE || !same(&near, count) {
                        return None;
                    }
                    all.take(&near);
                    all.resampled = true;
                }
            }
        }
        Some(Piece { kind: all.kind(), volumes: all.volumes, ..gap })
    }

    /// Returns whether the seed is on the line.
    fn next(
        &mut self,
        received: Range<usize>,
        ahead: usize,
        RoutedLine { line, routing }: &RoutedLine,
        rest: &mut SearchBackoff,
    ) -> Option<(Seed, bool)> {
        let (at, sources) = (received.start, &routing.sources);
        let straight = routing.loud_as_sent();
        let offset = line.nearest(at);
        let near = at..received.end.min(at + ahead);
        if let Some(routing) = &straight
            && let Some(at) = self.both.resumes(sources, near, offset)
        {
            return Some((Seed::exact(at, offset, routing.clone()), true));
        }
        let rests = !rest.near.is_over();
        if !rests {
            let some = (at..received.end.min(at + WINDOW)).step_by(PROBE / 2);
            let moved = straight.and_then(|routing| {
                some.into_iter().find_map(|at| {
                    let offset = self.both.near(sources, at, line.nearest(at), self.reach)?;
                    Some(Seed::exact(at, offset, routing.clone()))
                })
            });
            if let Some(moved) = moved {
                return Some((moved, false));
            }
        }
        if let Some(seed) = self.on_line(&received, line, routing) {
            return Some((seed, true));
        }
        let found = if rests { None } else { self.near(&received, line) };
        if found.is_none() && !rests {
            rest.near.fail();
        }
        let found = found.or_else(|| self.anywhere(&received, line, rest));
        found.map(|seed| (seed, false))
    }

    fn on_line(
        &mut self,
        within: &Range<usize>,
        line: &FrameLine,
        routing: &ChannelRouting,
    ) -> Option<Seed> {
        let places = [0, NEAR_FROM, WINDOW / 2].map(|later| within.start + later);
        places.into_iter().find_map(|at| {
            let end = self.both.received.frames().min(at + WINDOW);
            let channel = self.both.received.loudest(at.min(end)..end);
            let sent = usize::try_from(line.nearest(at) + at as i64).ok()?;
            let likely = Likely { received: at, sent, channel, source: routing.sources[channel] };
            self.acquire(&likely, line.step, within, Some((line, routing.gains[channel])))
        })
    }

    fn near(&mut self, within: &Range<usize>, line: &FrameLine) -> Option<Seed> {
        let at = within.start + NEAR_FROM;
        let edge = |away: i64| {
            let place = line.nearest(at) + at as i64 + away;
            usize::try_from(place).unwrap_or(0).min(self.sounding.end)
        };
        let among = edge(-self.reach)..edge(self.reach);
        let likely = self.coarse.find_received(at, Some(among));
        likely.iter().find_map(|likely| self.acquire(likely, line.step, within, None))
    }

    /// Searches within the budget.
    fn anywhere(
        &mut self,
        within: &Range<usize>,
        line: &FrameLine,
        rest: &mut SearchBackoff,
    ) -> Option<Seed> {
        let at = within.start;
        if at < rest.wide || self.searches == 0 {
            return None;
        }
        let exact = self.both.find_received(at);
        let exact = exact.map(|(offset, routing)| Seed::exact(at, offset, routing.into()));
        let found = exact.or_else(|| {
            let likely = self.coarse.find_received(at, None);
            likely.iter().find_map(|likely| self.acquire(likely, line.step, within, None))
        });
        if found.is_none() {
            self.searches -= 1;
            (rest.wide, rest.further) = (at + rest.further, 2 * rest.further);
        }
        found
    }

    fn acquire(
        &mut self,
        likely: &Likely,
        step: f64,
        within: &Range<usize>,
        expected: Option<(&FrameLine, f64)>,
    ) -> Option<Seed> {
        if !within.contains(&likely.received) {
            return None;
        }
        let RoutedLine { line, routing } = self.fit.acquire(likely, step, expected)?;
        Some(Seed { at: likely.received, line, routing, exact: false })
    }

    fn grow(&mut self, seed: &Seed, within: Range<usize>) -> Piece {
        match seed.line.offset().filter(|_| seed.exact) {
            Some(offset) => {
                self.fit.forget_noise();
                let received = |sent: usize| usize::try_from(sent as i64 - offset).unwrap_or(0);
                let Range { start, end } = self.sounding;
                let within = within.start.max(received(start))..within.end.min(received(end));
                let received = self.both.grow(&seed.routing.sources, seed.at, within, offset);
                let place = |at: usize| seed.line.place(at as f64);
                let places = place(received.start)..place(received.end);
                Piece::exact(received, places, seed.routing.clone(), None)
            }
            None => self.grow_alike(seed, within),
        }
    }

    /// Except within a block of either end.
    fn clicks(
        &mut self,
        among: &Range<usize>,
        window: &Range<usize>,
        line: &FrameLine,
        routing: &ChannelRouting,
    ) -> Vec<(usize, usize)> {
        let inner = self.sounding.start + BLOCK..self.sounding.end.saturating_sub(BLOCK);
        let mut clicks = self.fit.clicks(among, window, line, routing);
        clicks.retain(|(_, sent)| inner.contains(sent));
        clicks
    }

    fn grow_alike(&mut self, seed: &Seed, within: Range<usize>) -> Piece {
        let (mut all, mut clicks) = (Windows::none(&seed.routing), Vec::new());
        let mut places = Places::default();
        let (mut last, mut end) = (seed.line, seed.at);
        let mut before = (last, end);
        while let count @ 1.. = self.room_after(end, &last, within.end) {
            if end > seed.at && self.is_exact(end..end + RUN.min(count), &last, &seed.routing) {
                // A match within the last window proves nothing.
                let within = before.1..end + 1;
                let again = self.both.grow(&seed.routing.sources, end, within, last.nearest(end));
                (last, end) = (if again.start < end { before.0 } else { last }, again.start);
                break;
            }
            before = (last, end);
            let window = end..end + count;
            let Some(fitted) = self.fit.window(&window, &last, &seed.routing) else {
                end += self.edge(count, |some| end..end + some, &last, &seed.routing);
                break;
            };
            all.take(&fitted);
            places.add(&fitted.line, (window.start + count / 2) as f64, fitted.energy);
            clicks.extend(self.clicks(&window, &window, &fitted.line, &seed.routing));
            (last, end) = (fitted.line, end + count);
            (self.progress)(end);
        }
        let (mut first, mut start) = (seed.line, seed.at);
        while let count @ 1.. = self.room_before(start, &first, within.start) {
            if self.is_exact(start - RUN.min(count)..start, &first, &seed.routing) {
                break;
            }
            let window = start - count..start;
            let Some(fitted) = self.fit.window(&window, &first, &seed.routing) else {
                start -= self.edge(count, |some| start - some..start, &first, &seed.routing);
                break;
            };
            all.take(&fitted);
            places.add(&fitted.line, (window.start + count / 2) as f64, fitted.energy);
            clicks.extend(self.clicks(&window, &window, &fitted.line, &seed.routing));
            (first, start) = (fitted.line, start - count);
        }
        let (from, to) = (first.place(start as f64), last.place(end as f64));
        clicks.sort_unstable();
        clicks.retain(|(at, _)| (start..end).contains(at));
        let piece = Piece::exact(start..end, from..to, seed.routing.clone(), None);
        Piece { kind: all.kind(), places, volumes: all.volumes, clicks, ..piece }
    }

    /// Whether a piece is more than an edge and more than noise.
    fn says(&self, piece: &Piece) -> bool {
        let Kind::Alike { energy, rest, .. } = piece.kind else { return true };
        let (from, to) = (self.sounding.start as f64, self.sounding.end as f64);
        let sounds = piece.to.min(to) - piece.from.max(from);
        // `energy` is the energy of whole windows.
        sounds.round() >= MIN as f64 && (energy == 0.0 || rest < energy / 2.0)
    }

    /// Leading frames of a failed window, in whole blocks.
    fn edge(
        &mut self,
        count: usize,
        frames: impl Fn(usize) -> Range<usize>,
        line: &FrameLine,
        routing: &ChannelRouting,
    ) -> usize {
        let blocks = (1..=count / BLOCK)
            .take_while(|blocks| self.fit.holds(&frames(blocks * BLOCK), line, routing).is_some());
        blocks.count() * BLOCK
    }

    fn is_exact(&self, received: Range<usize>, line: &FrameLine, routing: &ChannelRouting) -> bool {
        received.len() == RUN
            && self.both.agree(&routing.sources, received.clone(), line.nearest(received.start))
            && self.both.received.notifies(received)
    }

    fn room_after(&self, at: usize, line: &FrameLine, end: usize) -> usize {
        // The cast saturates.
        let left = (self.sounding.end as f64 - line.place(at as f64)) / line.step + 0.5;
        WINDOW.min(left as usize).min(end.saturating_sub(at))
    }

    fn room_before(&self, at: usize, line: &FrameLine, start: usize) -> usize {
        let left = (line.place(at as f64) - self.sounding.start as f64) / line.step + 0.5;
        WINDOW.min(left as usize).min(at.saturating_sub(start))
    }
}

impl Seed {
    fn exact(at: usize, offset: i64, routing: Rc<ChannelRouting>) -> Self {
        Self { at, line: FrameLine::whole(offset), routing, exact: true }
    }
}

struct Windows {
    resampled: bool,
    energy: f64,
    rest: f64,
    volumes: Vec<Option<GainRange>>,
}

impl Windows {
    fn none(routing: &ChannelRouting) -> Self {
        let volumes = vec![None; routing.gains.len()];
        Self { resampled: false, energy: 0.0, rest: 0.0, volumes }
    }

    fn take(&mut self, fitted: &Fitted) {
        self.resampled |= fitted.line.offset().is_none();
        self.energy += fitted.energy;
        self.rest += fitted.rest;
        take_volumes(&mut self.volumes, &fitted.volumes);
    }

    fn kind(&self) -> Kind {
        Kind::Alike { resampled: self.resampled, energy: self.energy, rest: self.rest }
    }
}

/// Gap between exact pieces on the same line.
fn gap(last: &Piece, next: &Piece) -> Option<Piece> {
    let received = last.received.end..next.received.start;
    let both = last.is_exact() && next.is_exact() && last.routing == next.routing;
    let same = next.from - last.to == received.len() as f64 && !received.is_empty();
    (both && same)
        .then(|| Piece::exact(received, last.to..next.from, last.routing.clone(), last.modulo))
}
