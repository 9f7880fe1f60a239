//! Packets that were not found in what the card played, and what hid them.

/// What hid a packet where it was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// Silence there: as much is found anywhere.
    Silent,
    /// Its sound is found at several places, as that of a tone.
    Repeats,
    /// Other sound than its own: a glitch, a hole beside it, another stream in the mix.
    Unlike,
    /// The card told of no sound of that time.
    Untold,
}

/// Packets that were played and not found in the sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Unfound {
    pub(crate) silent: u64,
    pub(crate) repeats: u64,
    pub(crate) unlike: u64,
    pub(crate) untold: u64,
}

impl Unfound {
    pub(crate) fn count(&mut self, why: Why) {
        match why {
            Why::Silent => self.silent += 1,
            Why::Repeats => self.repeats += 1,
            Why::Unlike => self.unlike += 1,
            Why::Untold => self.untold += 1,
        }
    }

    pub(crate) fn add(&mut self, others: Self) {
        self.silent += others.silent;
        self.repeats += others.repeats;
        self.unlike += others.unlike;
        self.untold += others.untold;
    }

    pub(crate) fn total(&self) -> u64 {
        self.silent + self.repeats + self.unlike + self.untold
    }
}
