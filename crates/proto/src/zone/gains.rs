//! All gains of a zone at once, for the device thread.

use tautline_dsp::gain::Gain;

use super::{Arbiter, GainCurve};

/// Gains of a zone. Plain data: replaced as a whole, so streams never follow different decisions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ZoneGains {
    /// Gain of all programs.
    pub duck: GainCurve,
    /// Further gain of all programs, and of announcements with [`AnnouncedGain::is_muted`].
    pub mute: GainCurve,
    /// Full gain while an emergency announcement plays, else silence.
    pub emergency: GainCurve,
    announced: [AnnouncedGain; Arbiter::MAX_ANNOUNCEMENTS],
    count: usize,
}

/// Gain of an announcement stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AnnouncedGain {
    /// SSRC of the announcement's stream.
    pub ssrc: u32,
    /// Gain.
    pub curve: GainCurve,
    /// Whether [`ZoneGains::mute`] silences it.
    pub is_muted: bool,
}

impl ZoneGains {
    /// No announcements: programs play, announcement ports are silent.
    pub const IDLE: Self = Self {
        duck: GainCurve::constant(Gain::UNITY),
        mute: GainCurve::constant(Gain::UNITY),
        emergency: GainCurve::constant(Gain::SILENCE),
        announced: [AnnouncedGain {
            ssrc: 0,
            curve: GainCurve::constant(Gain::SILENCE),
            is_muted: true,
        }; Arbiter::MAX_ANNOUNCEMENTS],
        count: 0,
    };

    pub(super) fn new(
        [duck, mute, emergency]: [GainCurve; 3],
        announced: impl Iterator<Item = AnnouncedGain>,
    ) -> Self {
        let mut gains = Self { duck, mute, emergency, ..Self::IDLE };
        for (slot, stream) in gains.announced.iter_mut().zip(announced) {
            *slot = stream;
            gains.count += 1;
        }
        gains
    }

    /// Gain of announcement stream `ssrc`; `None` without a claim: silence.
    pub fn announced(&self, ssrc: u32) -> Option<&AnnouncedGain> {
        self.announced[..self.count].iter().find(|it| it.ssrc == ssrc)
    }
}
