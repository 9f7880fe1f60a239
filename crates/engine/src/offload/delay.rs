//! Delay of an offloaded plugin in frames. It is learned if it is given in blocks.

/// Delay from an input to its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffloadDelay {
    /// Fixed number of frames, for any block size.
    Frames(u32),
    /// Number of the host's blocks.
    Window(u32),
}

impl OffloadDelay {
    /// No delay: each answer must arrive within its run.
    pub const NONE: Self = Self::Frames(0);

    /// Returns the maximum delay in frames for runs of at most `max_frames`.
    pub const fn most(self, max_frames: u32) -> u32 {
        match self {
            Self::Frames(frames) => frames,
            Self::Window(blocks) => blocks.saturating_mul(max_frames),
        }
    }
}

/// Learns the host's block size for a delay in blocks.
///
/// A single run proves little, because hosts make one of any length to read the latency port. So
/// two consecutive runs of an activation are needed; the result holds for later activations. Until
/// then, the delay follows the longest run. This is inaudible, because an activation begins with at
/// least that much silence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DelayLearner {
    asked: OffloadDelay,
    /// Longest run of this activation and of earlier ones with two runs.
    block: u32,
    runs: u32,
    learnt: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DelayChange {
    None,
    /// New delay in frames, at a time when only the initial silence was played.
    Begins(u32),
    /// New, longer delay in frames, in the middle of the sound.
    Grows(u32),
}

impl DelayLearner {
    pub(crate) const fn new(asked: OffloadDelay) -> Self {
        Self { asked, block: 0, runs: 0, learnt: 0 }
    }

    /// Starts an activation and returns its delay so far.
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
            // The first two runs are no longer than the first delay, so only silence was played.
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
