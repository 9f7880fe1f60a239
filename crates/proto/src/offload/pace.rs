//! Detects from the times of its runs whether a host runs in real time.

use crate::time::{Frames, LocalTime, Span};
use crate::units::Rate;

/// Maximum lead of a host in real time, which fills deep buffers at once.
const AHEAD: Span = Span::from_millis(250);
/// Interval for checking whether a host that ran ahead still does.
const LOOK: Span = Span::from_millis(250);
/// Maximum gap between runs: beyond it the host had stopped, since no host catches up that much.
const STOPPED: Span = Span::from_secs(10);
/// Reserve left to a host with deep buffers after an unanswered wait.
const LEFT: Span = Span::from_millis(50);
/// A tenth of the elapsed time is subtracted from the lag: a host that misses periods never catches
/// up, and may render later.
const FORGIVEN: i64 = 10;

/// A thousandth of the sound does not count as lead: no card is that fast, but any fast card would
/// be 250 ms ahead some day.
const SURELY: i64 = 1000;

/// Time for which waiting delayed a run of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldUp {
    /// Total time.
    pub span: Span,
    /// Part that ended without an answer.
    pub in_vain: Span,
}

impl core::ops::AddAssign for HeldUp {
    fn add_assign(&mut self, other: Self) {
        self.span += other.span;
        self.in_vain += other.in_vain;
    }
}

/// Distinguishes a host that renders at full speed from one that waits for a card.
///
/// Compares the sound sent with the elapsed time. A host that lags, as after a stall, may catch up
/// fully; once it is 250 ms ahead, it renders. It is in real time again when an interval of 250 ms
/// contains less than 1.5 times as much sound. While it renders, waits for answers that arrived do
/// not count.
///
/// A host with deep buffers may look like a render while it fills them. It is therefore only
/// delayed in vain while it is ahead: see [`RunPace::timeout`].
#[derive(Debug, Clone, Copy)]
pub struct RunPace {
    rate: Rate,
    last: Option<LocalTime>,
    /// Sound minus elapsed time; negative if the host lags.
    ahead: Span,
    faster: bool,
    /// Elapsed time and sound in the current interval.
    look: (Span, Span),
}

impl RunPace {
    /// Creates the state for a host at this sample rate.
    pub const fn new(rate: Rate) -> Self {
        let look = (Span::ZERO, Span::ZERO);
        Self { rate, last: None, ahead: Span::ZERO, faster: false, look }
    }

    /// Begins an activation: the time until its first run does not count. The result so far stays.
    pub fn begin(&mut self) {
        (self.last, self.ahead, self.look) = (None, Span::ZERO, (Span::ZERO, Span::ZERO));
    }

    /// Whether the host runs faster than real time.
    pub const fn is_faster(&self) -> bool {
        self.faster
    }

    /// Maximum wait for an answer in the current run: zero in real time; in a render the lead minus
    /// 50 ms, a reserve for hosts with deep buffers.
    pub fn timeout(&self) -> Span {
        if self.faster { (self.ahead - LEFT).max(Span::ZERO) } else { Span::ZERO }
    }

    /// Records a run of `frames` frames that begins at `now`. `held_up` is the waiting time since
    /// the previous run began. Returns whether the host runs faster than real time.
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
