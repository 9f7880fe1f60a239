//! Lead of a device: from its request for a block until it meets the converter.

use crate::device::Settings;
use crate::time::Span;

/// Longest recent lead. Real-time safe: one comparison per period.
#[derive(Debug, Clone, Copy)]
pub struct Lead {
    /// Minimum of the latest wake-ups. Only late wake-ups shorten the lead.
    minimum: Option<Span>,
    wakes: u32,
    kept: Option<Span>,
    /// Maximum and number of the current series.
    maximum: Option<Span>,
    while_wakes: u32,
}

impl Lead {
    /// Wake-ups that confirm a lead.
    const ENOUGH: u32 = 16;
    /// Wake-ups that confirm a shorter lead. Even on a busy machine, not all wake-ups are late.
    const SURE: u32 = 1024;

    /// Unknown lead.
    pub const NONE: Self =
        Self { minimum: None, wakes: 0, kept: None, maximum: None, while_wakes: 0 };

    /// Lead determined by the settings.
    pub fn of(settings: &Settings) -> Self {
        Self { kept: Some(settings.playback_lead()), ..Self::NONE }
    }

    /// Adds a wake-up.
    pub fn wake(&mut self, lead: Span) {
        self.minimum = Some(self.minimum.map_or(lead, |minimum| minimum.min(lead)));
        self.wakes += 1;
        if self.wakes == Self::ENOUGH {
            self.kept = self.kept.max(self.minimum);
            (self.minimum, self.wakes) = (None, 0);
        }
        let maximum = self.maximum.map_or(lead, |maximum| maximum.max(lead));
        self.maximum = Some(maximum);
        self.while_wakes += 1;
        if self.while_wakes == Self::SURE {
            self.kept = self.kept.map(|kept| kept.min(maximum));
            (self.maximum, self.while_wakes) = (None, 0);
        }
    }

    /// Longest recent lead, if confirmed.
    pub const fn kept(&self) -> Option<Span> {
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Frames;
    use crate::units::{Channels, Rate};

    #[test]
    fn lead_ignores_outliers() {
        let mut lead = Lead::NONE;
        let wakes = |lead: &mut Lead, millis: &[i64]| {
            millis.iter().for_each(|millis| lead.wake(Span::from_millis(*millis)));
        };
        wakes(&mut lead, &[21; 15]);
        assert_eq!(lead.kept(), None);
        wakes(&mut lead, &[20]);
        assert_eq!(lead.kept(), Some(Span::from_millis(20)));
        wakes(&mut lead, &[[90; 1].as_slice(), &[5; 15]].concat());
        assert_eq!(lead.kept(), Some(Span::from_millis(20)));
        wakes(&mut lead, &[42; 16]);
        assert_eq!(lead.kept(), Some(Span::from_millis(42)));
    }

    #[test]
    fn lead_shrinks_after_many_wake_ups_with_less() {
        let millis = Span::from_millis;
        let settings = Settings {
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            period: Frames::new(96),
            periods: 3,
        };
        let mut lead = Lead::of(&settings);
        // Reconnected in the middle of a series.
        (0..500).for_each(|_| lead.wake(millis(4)));
        (500..1024 + 1023).for_each(|_| lead.wake(-millis(1)));
        assert_eq!(lead.kept(), Some(millis(4)));
        lead.wake(Span::ZERO);
        assert_eq!(lead.kept(), Some(Span::ZERO));
        (0..16).for_each(|_| lead.wake(millis(4)));
        assert_eq!(lead.kept(), Some(millis(4)), "back immediately");
    }
}
