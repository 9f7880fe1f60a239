//! Gains as people set them, and how fast they are led there.

use tautline_dsp::gain::Gain;

/// Frames over which a change of gain is spread: 10 ms at 48 kHz, in which a fade to silence bends a
/// tone less than its own curve does.
pub(crate) const VOLUME_RAMP: usize = 480;

/// The gain of one stream or of all, and whether that is withheld.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fader {
    /// The gain.
    pub gain: Gain,
    /// Whether it is withheld.
    pub muted: bool,
}

impl Fader {
    pub(crate) fn wanted(self) -> Gain {
        if self.muted { Gain::SILENCE } else { self.gain }
    }
}

impl core::fmt::Display for Fader {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}{}", self.gain, if self.muted { " muted" } else { "" })
    }
}
