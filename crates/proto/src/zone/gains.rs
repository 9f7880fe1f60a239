//! All gains of a zone at once, for the device thread.

use tautline_dsp::gain::Gain;

use super::{Arbiter, GainCurve};

/// Gains of a zone. Plain data: replaced as a whole, so streams never follow different decisions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ZoneGains {
    /// Gain of all programs.
    pub duck: GainCurve,
    announced: [(u32, GainCurve); Arbiter::MAX_ANNOUNCEMENTS],
    count: usize,
}

impl ZoneGains {
    /// No announcements: programs play, announcement ports are silent.
    pub const IDLE: Self = Self {
        duck: GainCurve::constant(Gain::UNITY),
        announced: [(0, GainCurve::constant(Gain::SILENCE)); Arbiter::MAX_ANNOUNCEMENTS],
        count: 0,
    };

    pub(super) fn new(duck: GainCurve, announced: impl Iterator<Item = (u32, GainCurve)>) -> Self {
        let mut gains = Self { duck, ..Self::IDLE };
        for (slot, stream) in gains.announced.iter_mut().zip(announced) {
            *slot = stream;
            gains.count += 1;
        }
        gains
    }

    /// Gain of announcement stream `ssrc`; `None` without a claim: silence.
    pub fn announced(&self, ssrc: u32) -> Option<&GainCurve> {
        let claimed = &self.announced[..self.count];
        claimed.iter().find(|(of, _)| *of == ssrc).map(|(_, curve)| curve)
    }
}
