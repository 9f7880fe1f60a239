//! What a receiver keeps of its own wishes for what it plays.

use tautline_dsp::gain::Gain;

/// The gain of one stream or of all, and whether that is withheld.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own {
    pub(crate) gain: Gain,
    pub(crate) muted: bool,
}

impl Own {
    pub(crate) fn wanted(self) -> Gain {
        if self.muted { Gain::SILENCE } else { self.gain }
    }
}

impl core::fmt::Display for Own {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}{}", self.gain, if self.muted { " muted" } else { "" })
    }
}

/// The device's thread has not taken what was said before.
pub(crate) const BUSY: &str =
    "the device takes no changes at the moment; say it again once it runs";
