//! Whether a host runs in real time, told from when it runs.

use crate::time::{Frames, LocalTime, Span};
use crate::units::Rate;

/// How far a host in real time gets ahead of itself at most: with deep buffers it fills them at once.
const AHEAD: Span = Span::from_millis(250);
/// How long is looked at whether a host that ran ahead still does.
const LOOK: Span = Span::from_millis(250);
/// Longer between two runs, and the host had stopped.
const STOPPED: Span = Span::from_secs(1);

/// Of sound, the part that does not count as ahead: no card is as fast as that beside this host's clock, and one that
/// is fast at all would be a quarter of a second ahead some day.
const SURELY: i64 = 1000;

/// Tells a render, which runs as fast as it can, from a host that waits for a card.
///
/// The sound that was handed out is held against the time that went by. What a host lags behind, as after a stall, it may
/// catch up with, but for a quarter of a second at most; once it is another quarter ahead, it renders. It is in real time
/// again as soon as a look of a quarter of a second is worth less than half as much again of sound. While it renders, the
/// time for which it was held up by us does not count.
#[derive(Debug, Clone, Copy)]
pub struct RunPace {
    rate: Rate,
    /// When the last run was.
    last: Option<LocalTime>,
    /// By how much sound is ahead of time.
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

    /// A run of so many frames begins at `now`, and the one before was held up by us for `waited`. Returns whether the host
    /// runs faster than real time.
    pub fn observe(&mut self, frames: u32, now: LocalTime, waited: Span) -> bool {
        let sound = self.rate.span_of(Frames::new(frames.into()));
        let Some(last) = self.last.replace(now) else { return self.faster };
        let passed = now - last;
        if passed >= STOPPED && !self.faster {
            self.ahead = Span::ZERO;
            return false;
        }
        if self.faster {
            self.look_again(sound, (passed - waited).max(Span::ZERO));
        } else {
            let sound = sound - sound.divided(SURELY);
            self.ahead = (self.ahead + sound - passed).max(-AHEAD);
            self.faster = self.ahead > AHEAD;
            self.look = (Span::ZERO, Span::ZERO);
        }
        self.faster
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
