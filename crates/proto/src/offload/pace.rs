//! Whether a host runs in real time, told from when it runs.

use crate::time::{Frames, LocalTime, Span};
use crate::units::Rate;

/// How far a host in real time gets ahead of itself at most: with deep buffers it fills them at once.
const AHEAD: Span = Span::from_millis(250);
/// How long is looked at whether a host that ran ahead still does.
const LOOK: Span = Span::from_millis(250);
/// Longer between two runs, and the host had stopped: no host catches up with so much.
const STOPPED: Span = Span::from_secs(10);
/// What a host with deep buffers has left in them after a wait in vain.
const LEFT: Span = Span::from_millis(50);
/// Of the sound that a host lags behind, a tenth of the time that goes by is forgiven: a host that misses a period now
/// and then never catches up, and may render later.
const FORGIVEN: i64 = 10;

/// Of sound, the part that does not count as ahead: no card is as fast as that beside this host's clock, and one that
/// is fast at all would be a quarter of a second ahead some day.
const SURELY: i64 = 1000;

/// How long the host was held up in a run, by whoever made it wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldUp {
    /// All together.
    pub span: Span,
    /// The part of it that ended without an answer.
    pub in_vain: Span,
}

impl core::ops::AddAssign for HeldUp {
    fn add_assign(&mut self, other: Self) {
        self.span += other.span;
        self.in_vain += other.in_vain;
    }
}

/// Tells a render, which runs as fast as it can, from a host that waits for a card.
///
/// The sound that was handed out is held against the time that went by. A host that lags behind, as after a stall, may
/// catch up with all of it; once it is a quarter of a second ahead of time, it renders. It is in real time again as soon as
/// a look of a quarter of a second is worth less than half as much again of sound. While it renders, the time for which it
/// waited for answers that came does not count.
///
/// A host with deep buffers may look like a render while it fills them. So a host is held up in vain only as long as it is
/// ahead: see [`RunPace::patience`].
#[derive(Debug, Clone, Copy)]
pub struct RunPace {
    rate: Rate,
    last: Option<LocalTime>,
    /// By how much sound is ahead of time; negative if it lags.
    ahead: Span,
    faster: bool,
    /// What went by in the present look, of time and of sound.
    look: (Span, Span),
}

impl RunPace {
    /// Of a host at that rate.
    pub const fn new(rate: Rate) -> Self {
        let look = (Span::ZERO, Span::ZERO);
        Self { rate, last: None, ahead: Span::ZERO, faster: false, look }
    }

    /// A new activation: the host may take as long as it likes to the first run. What was found out holds.
    pub fn begin(&mut self) {
        (self.last, self.ahead, self.look) = (None, Span::ZERO, (Span::ZERO, Span::ZERO));
    }

    /// Whether the host runs faster than real time.
    pub const fn is_faster(&self) -> bool {
        self.faster
    }

    /// How long the present run may be held up without an answer: nothing in real time, and in a render as long as it is
    /// ahead, but for 50 ms, so that even a host with deep buffers has some left.
    pub fn patience(&self) -> Span {
        if self.faster { (self.ahead - LEFT).max(Span::ZERO) } else { Span::ZERO }
    }

    /// A run of so many frames begins at `now`; for how long the host was held up since the one before began. Returns
    /// whether the host runs faster than real time.
    pub fn observe(&mut self, frames: u32, now: LocalTime, held_up: HeldUp) -> bool {
        let sound = self.rate.span_of(Frames::new(frames.into()));
        let Some(last) = self.last.replace(now) else { return self.faster };
        let passed = now - last;
        if passed >= STOPPED && !self.faster {
            self.ahead = Span::ZERO;
            return false;
        }
        if self.faster {
            self.ahead += sound - (passed - (held_up.span - held_up.in_vain));
            self.look_again(sound, (passed - held_up.span).max(Span::ZERO));
        } else {
            self.forgive(sound.min(passed).divided(FORGIVEN));
            self.ahead += sound - sound.divided(SURELY) - passed;
            self.faster = self.ahead > AHEAD;
            self.look = (Span::ZERO, Span::ZERO);
        }
        self.faster
    }

    /// So much of what the host lags behind counts no more.
    fn forgive(&mut self, span: Span) {
        if self.ahead < Span::ZERO {
            self.ahead = (self.ahead + span).min(Span::ZERO);
        }
    }

    fn look_again(&mut self, sound: Span, passed: Span) {
        self.look = (self.look.0 + passed, self.look.1 + sound);
        let (passed, sound) = self.look;
        if passed < LOOK {
            return;
        }
        self.look = (Span::ZERO, Span::ZERO);
        if sound < passed + passed.half() {
            (self.faster, self.ahead) = (false, Span::ZERO);
        }
    }
}
