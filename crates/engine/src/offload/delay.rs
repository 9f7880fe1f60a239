//! Delay of an offloaded plugin, learned if given in blocks.

/// Input to output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffloadDelay {
    /// Fixed number of frames, for any block size.
    Frames(u32),
    /// Host blocks.
    Window(u32),
}

impl OffloadDelay {
    /// No delay: answers arrive within the run.
    pub const NONE: Self = Self::Frames(0);

    /// Maximum frames for runs up to `max_frames`.
    pub const fn maximum(self, max_frames: u32) -> u32 {
        match self {
            Self::Frames(frames) => frames,
            Self::Window(blocks) => blocks.saturating_mul(max_frames),
        }
    }
}

/// Learns the host's block size from two consecutive runs, because hosts make single runs to read
/// the latency port. Until then the delay follows the longest run. This is inaudible, because an
/// activation begins with that much silence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DelayLearner {
    requested: OffloadDelay,
    block: u32,
    runs: u32,
    learnt: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DelayChange {
    None,
    Begins(u32),
    Grows(u32),
}

impl DelayLearner {
    pub(crate) const fn new(requested: OffloadDelay) -> Self {
        Self { requested, block: 0, runs: 0, learnt: 0 }
    }

    pub(crate) fn begin(&mut self) -> u32 {
        (self.block, self.runs) = (self.learnt, 0);
        self.frames()
    }

    pub(crate) const fn frames(&self) -> u32 {
        match self.requested {
            OffloadDelay::Frames(frames) => frames,
            OffloadDelay::Window(blocks) => blocks.saturating_mul(self.block),
        }
    }

    pub(crate) fn observe(&mut self, frames: u32) -> DelayChange {
        if frames == 0
            || matches!(self.requested, OffloadDelay::Frames(_) | OffloadDelay::Window(0))
        {
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
    fn delay_grows_with_longer_blocks_only() {
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
        for requested in [OffloadDelay::Frames(300), OffloadDelay::Window(0)] {
            let mut delay = DelayLearner::new(requested);
            let frames = delay.begin();
            assert!((0..5).all(|run| delay.observe(100 * run) == DelayChange::None));
            assert_eq!(delay.frames(), frames);
        }
    }
}
