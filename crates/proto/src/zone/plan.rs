//! Decides which announcement plays when: a pure function of the announcements.

use super::announcement::{Announcement, Moment};
use super::claim::{AnnouncementId, Claim, Class};
use super::curve::GainCurve;
use crate::time::{LocalTime, Span};
use tautline_dsp::gain::Gain;

/// Time during which an announcement plays, in the order of starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Turn {
    /// Index of the announcement.
    pub(super) index: usize,
    /// The claim, with its start in the time common to all stations.
    claim: Claim,
    pub(super) begins: Moment,
    pub(super) ends: Moment,
    /// Index of the announcement that pre-empted this turn at `ends`.
    pub(super) preempted_by: Option<usize>,
}

/// Turns, and announcements that lost at their start, each with the winner.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) turns: Vec<Turn>,
    pub(super) refused: Vec<(usize, usize)>,
    candidates: Vec<Turn>,
}

/// The announcement that silences this announcement at its start, preferably itself.
pub(super) fn muting(all: &[Announcement], turn: &Turn) -> Option<AnnouncementId> {
    let (before, rest) = all.split_at(turn.index);
    let at = turn.begins.local;
    let mutes = |it: &&Announcement| {
        it.mutes_during().is_some_and(|(begins, ends)| begins <= at && at < ends)
    };
    let muting = rest.iter().chain(before).find(mutes).map(|it| it.claim.id);
    muting.filter(|_| all[turn.index].is_muted())
}

/// Station's wall clock minus ours.
fn ahead(moment: Moment) -> i64 {
    moment.wall.as_unix_nanos().saturating_sub(moment.local.as_nanos())
}

/// Claims are compared unchanged if the stations' clocks agree to half of this time, as with NTP.
/// So zones with different estimates of a clock compare the same numbers. Larger errors are
/// corrected in whole multiples.
const COMPARABLE: i64 = 100_000_000;

impl Plan {
    pub(super) fn with_capacity(count: usize) -> Self {
        let candidates = Vec::with_capacity(count);
        Self { turns: Vec::with_capacity(count), refused: Vec::with_capacity(count), candidates }
    }

    /// At each start, the announcement plays if none plays or if it takes precedence. A loser does
    /// not return when the winner ends.
    pub(super) fn make(&mut self, all: &[Announcement]) {
        self.turns.clear();
        self.refused.clear();
        self.find_candidates(all);
        for next in &self.candidates {
            match self.turns.last_mut().filter(|turn| turn.ends.wall > next.begins.wall) {
                Some(turn) if next.claim.precedence(&turn.claim).is_lt() => {
                    self.refused.push((next.index, turn.index));
                    continue;
                }
                Some(turn) => {
                    turn.ends = next.begins;
                    turn.preempted_by = Some(next.index);
                }
                None => {}
            }
            self.turns.push(*next);
        }
    }

    fn find_candidates(&mut self, all: &[Announcement]) {
        self.candidates.clear();
        for (index, it) in all.iter().enumerate().filter(|(_, it)| it.competes()) {
            let (claim, begins, ends) = (it.claim, it.starts, it.ends());
            self.candidates.push(Turn { index, claim, begins, ends, preempted_by: None });
        }
        // The median, so that one wrong clock does not move the other clocks.
        self.candidates.sort_unstable_by_key(|it| ahead(it.begins));
        let middle = self.candidates.get(self.candidates.len() / 2);
        let reference = middle.map_or(0, |it| ahead(it.begins));
        for turn in &mut self.candidates {
            let error = ahead(turn.begins).saturating_sub(reference);
            let steps = error.saturating_add(COMPARABLE / 2).div_euclid(COMPARABLE);
            let correction = Span::from_nanos(steps.saturating_mul(-COMPARABLE));
            turn.begins.wall = turn.begins.wall + correction;
            turn.ends.wall = turn.ends.wall + correction;
            turn.claim.starts = turn.begins.wall;
        }
        self.candidates.sort_unstable_by(|a, b| {
            a.begins.wall.cmp(&b.begins.wall).then(b.claim.precedence(&a.claim))
        });
    }

    /// Gain of all programs.
    pub(super) fn duck(&self, all: &[Announcement]) -> GainCurve {
        let mut curve = GainCurve::constant(Gain::UNITY);
        for turn in &self.turns {
            let duck = turn.claim.duck;
            curve.ramp(turn.begins.local, duck.down, duck.depth);
            if turn.preempted_by.is_none() {
                curve.ramp(all[turn.index].restores(), duck.up, Gain::UNITY);
            }
        }
        curve
    }

    /// Gain of everything but emergencies in the room of a station.
    pub(super) fn mute(&self, all: &[Announcement], fade: Span) -> GainCurve {
        let mut curve = GainCurve::constant(Gain::UNITY);
        let mutes = || all.iter().filter_map(Announcement::mutes_during);
        let mut after = LocalTime::ZERO;
        // The next mute by its start, with all mutes that begin before it ends.
        while let Some((begins, mut ends)) = mutes().filter(|(at, _)| *at >= after).min() {
            while let Some(later) =
                mutes().filter(|(at, until)| *at <= ends && *until > ends).map(|it| it.1).max()
            {
                ends = later;
            }
            curve.ramp(begins, fade, Gain::SILENCE);
            curve.ramp(ends, fade, Gain::UNITY);
            after = ends + Span::from_nanos(1);
        }
        curve
    }

    /// Full while an emergency plays.
    pub(super) fn emergency(&self) -> GainCurve {
        let mut curve = GainCurve::constant(Gain::SILENCE);
        let turns = self.turns.iter();
        for turn in turns.filter(|turn| turn.claim.priority.class() == Class::Emergency) {
            curve.ramp(turn.begins.local, Span::ZERO, Gain::UNITY);
            curve.ramp(turn.ends.local, Span::ZERO, Gain::SILENCE);
        }
        curve
    }

    /// Gain of the announcements of stream `ssrc`. A pre-empted announcement fades while the winner
    /// lowers the program.
    pub(super) fn announced(&self, ssrc: u32, all: &[Announcement]) -> GainCurve {
        let mut curve = GainCurve::constant(Gain::SILENCE);
        for turn in self.turns.iter().filter(|turn| all[turn.index].ssrc == ssrc) {
            curve.ramp(turn.begins.local, Span::ZERO, Gain::UNITY);
            let fade = turn.preempted_by.map(|by| all[by].claim.duck.down);
            let fade = fade.unwrap_or_else(|| all[turn.index].fade());
            curve.ramp(turn.ends.local, fade, Gain::SILENCE);
        }
        curve
    }
}
