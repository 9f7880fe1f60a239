use core::ops::Range;

use super::{PieceWalk, Seed};
use crate::exact::PROBE;
use crate::fit::WINDOW;
use crate::pieces::Piece;
use crate::seek::{Likely, PATTERN};
use crate::sound::power;

/// Number of probes, each of which takes a pass.
const PROBES: usize = 16;
const PARTS: usize = 4;

impl PieceWalk<'_> {
    pub(super) fn first(&mut self) -> Option<Piece> {
        let (Range { start, end }, all) = (self.sounding.clone(), 0..self.both.received.frames());
        let length = PROBE.min(end - start);
        let step = ((end - start) / PROBES).max(1);
        let exact = (start..=end - length).step_by(step).find_map(|from| {
            let probe = from..from + length;
            if from > start && !self.both.sent.notifies(probe.clone()) {
                return None;
            }
            let (at, routing) = self.both.find_sent(probe)?;
            Some(Seed::exact(at, from as i64 - at as i64, routing.into()))
        });
        if let Some(seed) = exact {
            return Some(self.grow(&seed, all));
        }
        (0..PARTS).find_map(|part| {
            let edge = |part: usize| start + (end - start) * part / PARTS;
            let from = self.loudest(edge(part)..edge(part + 1));
            (0..self.both.sent.channels.len()).find_map(|source| {
                let likely = self.coarse.find_sent(source, from, end - from);
                likely.iter().find_map(|likely| {
                    let grown = self.grown(likely);
                    grown.or_else(|| self.grown(&self.loudest_of(likely)))
                })
            })
        })
    }

    fn grown(&mut self, likely: &Likely) -> Option<Piece> {
        let all = 0..self.both.received.frames();
        let seed = self.acquire(likely, 1.0, &all, None)?;
        let piece = self.grow(&seed, all);
        self.says(&piece).then_some(piece)
    }

    pub(super) fn loudest(&self, part: Range<usize>) -> usize {
        let energy = |from: &usize| {
            self.both.sent.energy(&(*from..(*from + PATTERN).min(self.sounding.end)))
        };
        let last = part.end.saturating_sub(PATTERN).max(part.start);
        let starts = (part.start..=last).step_by(PATTERN);
        starts.max_by(|one, other| energy(one).total_cmp(&energy(other))).unwrap_or(part.start)
    }

    /// The first window may be silent.
    fn loudest_of(&self, likely: &Likely) -> Likely {
        let received = &self.both.received.channels[likely.channel];
        let energy = |later: &usize| {
            let from = received.len().min(likely.received + later);
            power(&received[from..received.len().min(from + WINDOW)])
        };
        let places = (0..PATTERN).step_by(WINDOW / 2);
        let later = places.max_by(|a, b| energy(a).total_cmp(&energy(b))).unwrap_or(0);
        Likely { received: likely.received + later, sent: likely.sent + later, ..*likely }
    }
}
