//! How many frames what is played lies behind what was handed out, and how that is learnt where people ask for blocks.

/// By how much what comes back is played later than it was handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffloadDelay {
    /// So many frames, whatever the host's blocks are.
    Frames(u32),
    /// So many of the host's blocks.
    Window(u32),
}

impl OffloadDelay {
    /// No delay: what comes back has to come back within the run.
    pub const NONE: Self = Self::Frames(0);

    /// The most frames that it can come to with runs of so many frames.
    pub const fn most(self, most_frames: u32) -> u32 {
        match self {
            Self::Frames(frames) => frames,
            Self::Window(blocks) => blocks.saturating_mul(most_frames),
        }
    }
}

/// Learns the host's block, for a window.
///
/// A single run says little: hosts make one, of any length, to look at the latency port. So a block is learnt by two
/// consecutive runs of one activation, and stays learnt for those that follow. Before that the delay is that of the longest run
/// so far, which nobody hears: what an activation begins with is as long a silence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DelayLearner {
    asked: OffloadDelay,
    /// The longest run of this activation and those before that had two.
    block: u32,
    /// Runs of this activation, up to two.
    runs: u32,
    /// [`Self::block`] as it was learnt.
    learnt: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DelayChange {
    None,
    /// It is that many frames, before anything but the silence of the beginning was played.
    Begins(u32),
    /// It grows to that many frames, in the middle of the sound.
    Grows(u32),
}

impl DelayLearner {
    pub(crate) const fn new(asked: OffloadDelay) -> Self {
        Self { asked, block: 0, runs: 0, learnt: 0 }
    }

    /// A new activation; its delay so far.
    pub(crate) fn begin(&mut self) -> u32 {
        (self.block, self.runs) = (self.learnt, 0);
        self.frames()
    }

    pub(crate) const fn frames(&self) -> u32 {
        match self.asked {
            OffloadDelay::Frames(frames) => frames,
            OffloadDelay::Window(blocks) => blocks.saturating_mul(self.block),
        }
    }

    pub(crate) fn observe(&mut self, frames: u32) -> DelayChange {
        if frames == 0 || matches!(self.asked, OffloadDelay::Frames(_) | OffloadDelay::Window(0)) {
            return DelayChange::None;
        }
        self.runs = (self.runs + 1).min(3);
        let grew = frames > self.block;
        self.block = self.block.max(frames);
        if self.runs >= 2 {
            self.learnt = self.block;
        }
        match (grew, self.runs) {
            (false, _) => DelayChange::None,
            // With the first two, no more frames were asked for than the first delay has: all silence.
            (true, ..3) => DelayChange::Begins(self.frames()),
            (true, _) => DelayChange::Grows(self.frames()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(blocks: u32) -> DelayLearner {
        DelayLearner::new(OffloadDelay::Window(blocks))
    }

    #[test]
    fn a_block_is_learnt_by_two_runs_of_one_activation() {
        let mut delay = window(2);
        assert_eq!(delay.begin(), 0);
        assert_eq!(delay.observe(1024), DelayChange::Begins(2048));
        assert_eq!(delay.begin(), 0, "one run was only to look at the latency");
        assert_eq!(delay.observe(64), DelayChange::Begins(128));
        assert_eq!(delay.observe(256), DelayChange::Begins(512));
        assert_eq!(delay.observe(256), DelayChange::None);
        assert_eq!(delay.begin(), 512, "it stays learnt");
        assert_eq!(delay.observe(200), DelayChange::None);
    }

    #[test]
    fn a_longer_block_grows_the_delay_and_a_shorter_one_changes_nothing() {
        let mut delay = window(1);
        delay.begin();
        for (frames, change) in [
            (256, DelayChange::Begins(256)),
            (256, DelayChange::None),
            (17, DelayChange::None),
            (300, DelayChange::Grows(300)),
            (256, DelayChange::None),
        ] {
            assert_eq!(delay.observe(frames), change, "{frames}");
        }
        assert_eq!(delay.begin(), 300);
    }

    #[test]
    fn a_delay_in_frames_and_none_at_all_learn_nothing() {
        for asked in [OffloadDelay::Frames(300), OffloadDelay::Window(0)] {
            let mut delay = DelayLearner::new(asked);
            let frames = delay.begin();
            assert!((0..5).all(|run| delay.observe(100 * run) == DelayChange::None));
            assert_eq!(delay.frames(), frames);
        }
    }
}
