//! Detects whether a host runs in real time.

use crate::time::{Frames, LocalTime, Span};
use crate::units::Rate;

/// Maximum lead in real time. Hosts with deep buffers fill them in a burst.
const AHEAD: Span = Span::from_millis(250);
const LOOK: Span = Span::from_millis(250);
/// Maximum gap that a host catches up.
const STOPPED: Span = Span::from_secs(10);
/// Reserve for hosts with deep buffers.
const LEFT: Span = Span::from_millis(50);
/// Divisor of the elapsed time, of which a tenth is forgiven. A host that misses periods never
/// catches up.
const FORGIVEN: i64 = 10;

/// Divisor of the sound, of which a thousandth does not count as lead. If it did, any fast card
/// would be 250 ms ahead some day.
const SURELY: i64 = 1000;

/// Waiting time that delayed a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldUp {
    /// Total.
    pub span: Span,
    /// Part without an answer.
    pub in_vain: Span,
}

impl core::ops::AddAssign for HeldUp {
    fn add_assign(&mut self, other: Self) {
        self.span += other.span;
        self.in_vain += other.in_vain;
    }
}

/// Distinguishes a host that renders from a host that waits for a card.
///
/// Compares the sound sent with the elapsed time. A host that lags may catch up. Once it is 250 ms
/// ahead, it renders, until 250 ms contain less than 1.5 times as much sound. During a render,
/// answered waits do not count.
///
/// A host that fills deep buffers looks like a render, so waits are limited to its lead
/// ([`RunPace::timeout`]).
#[derive(Debug, Clone, Copy)]
pub struct RunPace {
    rate: Rate,
    last: Option<LocalTime>,
    /// Negative if the host lags.
    ahead: Span,
    faster: bool,
    look: (Span, Span),
}

impl RunPace {
    /// Creates the state for this sample rate.
    pub const fn new(rate: Rate) -> Self {
        let look = (Span::ZERO, Span::ZERO);
        Self { rate, last: None, ahead: Span::ZERO, faster: false, look }
    }

    /// Begins an activation. Time before its first run does not count.
    pub fn begin(&mut self) {
        (self.last, self.ahead, self.look) = (None, Span::ZERO, (Span::ZERO, Span::ZERO));
    }

    /// Whether the host runs faster than real time.
    pub const fn is_faster(&self) -> bool {
        self.faster
    }

    /// Maximum wait for an answer: the lead minus 50 ms in a render, else zero.
    pub fn timeout(&self) -> Span {
        if self.faster { (self.ahead - LEFT).max(Span::ZERO) } else { Span::ZERO }
    }

    /// Records a run that begins at `now`, and the wait since the last run. Returns
    /// [`Self::is_faster`].
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
