//! How long before a block meets the converter a device asks for it, by what it says at each wake-up:
//! some know it only once they run, and to some another is connected while they do.

use crate::device::Settings;
use crate::time::Span;

/// The longest lead that a device keeps to. For its own thread: a comparison each period.
#[derive(Debug, Clone, Copy)]
pub struct Lead {
    /// The least of the latest wake-ups: a thread that wakes late has less, none has more.
    least: Option<Span>,
    wakes: u32,
    kept: Option<Span>,
    /// The most of all wake-ups of a while that is not over, and how many they are.
    most: Option<Span>,
    while_wakes: u32,
}

impl Lead {
    /// Wake-ups after which a lead is one that is kept to.
    const ENOUGH: u32 = 16;
    /// Wake-ups of which none had more than a lead that has become shorter: on a busy machine so many
    /// are never all late.
    const SURE: u32 = 1024;

    /// Of a device that has not run and does not say what it will keep to.
    pub const NONE: Self = Self { least: None, wakes: 0, kept: None, most: None, while_wakes: 0 };

    /// Of a device that is to keep to this by its settings.
    pub fn of(settings: &Settings) -> Self {
        Self { kept: Some(settings.playback_lead()), ..Self::NONE }
    }

    /// It woke, and what it asks for meets the converter so much later.
    pub fn wake(&mut self, lead: Span) {
        self.least = Some(self.least.map_or(lead, |least| least.min(lead)));
        self.wakes += 1;
        if self.wakes == Self::ENOUGH {
            self.kept = self.kept.max(self.least);
            (self.least, self.wakes) = (None, 0);
        }
        let most = self.most.map_or(lead, |most| most.max(lead));
        self.most = Some(most);
        self.while_wakes += 1;
        if self.while_wakes == Self::SURE {
            self.kept = self.kept.map(|kept| kept.min(most));
            (self.most, self.while_wakes) = (None, 0);
        }
    }

    /// The longest of late, once there were enough.
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
    fn a_lead_is_what_every_wake_up_of_some_has_and_no_outlier() {
        let mut lead = Lead::NONE;
        let wakes = |lead: &mut Lead, millis: &[i64]| {
            millis.iter().for_each(|millis| lead.wake(Span::from_millis(*millis)));
        };
        wakes(&mut lead, &[21; 15]);
        assert_eq!(lead.kept(), None);
        // It woke late once.
        wakes(&mut lead, &[20]);
        assert_eq!(lead.kept(), Some(Span::from_millis(20)));
        wakes(&mut lead, &[[90; 1].as_slice(), &[5; 15]].concat());
        assert_eq!(lead.kept(), Some(Span::from_millis(20)));
        wakes(&mut lead, &[42; 16]);
        assert_eq!(lead.kept(), Some(Span::from_millis(42)));
    }

    #[test]
    fn a_lead_is_shorter_once_no_wake_up_of_very_many_had_more() {
        let millis = Span::from_millis;
        let settings = Settings {
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            period: Frames::new(96),
            periods: 3,
        };
        let mut lead = Lead::of(&settings);
        // A cable goes from the card to what takes no time, in the middle of a while.
        (0..500).for_each(|_| lead.wake(millis(4)));
        (500..1024 + 1023).for_each(|_| lead.wake(-millis(1)));
        assert_eq!(lead.kept(), Some(millis(4)));
        lead.wake(Span::ZERO);
        // The one that was on time is the one that counts.
        assert_eq!(lead.kept(), Some(Span::ZERO));
        (0..16).for_each(|_| lead.wake(millis(4)));
        assert_eq!(lead.kept(), Some(millis(4)), "and back, at once");
    }
}
