//! Shape of a change without a click.

/// `3t² − 2t³` over a number of frames: a slope of 0 at both ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fade {
    at: usize,
    frames: usize,
}

impl Fade {
    pub(crate) const fn new(frames: usize) -> Self {
        Self { at: 0, frames }
    }

    /// Share of the new value in the next frame: exactly 1 in the last one, and later.
    pub(crate) fn step(&mut self) -> f32 {
        self.at += 1;
        if self.at >= self.frames {
            return 1.0;
        }
        let t = self.at as f32 / self.frames as f32;
        t * t * (3.0 - 2.0 * t)
    }

    pub(crate) const fn left(self) -> usize {
        self.frames.saturating_sub(self.at)
    }
}

/// Exact at shares of 0 and 1.
pub(crate) fn mix(old: f32, new: f32, share: f32) -> f32 {
    old * (1.0 - share) + new * share
}
