//! Level of each channel of interleaved frames.

/// Level of one channel.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Level {
    /// Largest absolute sample.
    pub peak: f32,
    /// Sum of squares.
    pub squares: f32,
    /// Number of samples.
    pub frames: u32,
}

impl Level {
    /// Combines this level with a later one.
    #[must_use]
    pub const fn with(self, more: Self) -> Self {
        Self {
            peak: self.peak.max(more.peak),
            squares: self.squares + more.squares,
            frames: self.frames.saturating_add(more.frames),
        }
    }

    /// Root mean square; 0 without samples.
    pub fn rms(self) -> f32 {
        (self.squares / self.frames.max(1) as f32).sqrt()
    }
}

/// Adds frames to `levels`, one per channel.
pub fn handle(levels: &mut [Level], samples: &[f32]) {
    for frame in samples.chunks_exact(levels.len().max(1)) {
        for (level, sample) in levels.iter_mut().zip(frame) {
            let received = Level { peak: sample.abs(), squares: sample * sample, frames: 1 };
            *level = level.with(received);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::Sine;

    #[test]
    fn each_channel_has_its_own_peak_and_rms() {
        let mut levels = [Level::default(); 2];
        handle(&mut levels, &[0.5, -1.0, -0.5, 0.0]);
        handle(&mut levels, &[0.5, 0.0, -0.5, 0.0]);
        let reported = levels.map(|level| (level.peak, level.rms(), level.frames));
        assert_eq!(reported, [(0.5, 0.5, 4), (1.0, 0.5, 4)]);
        assert_eq!(Level::default().rms(), 0.0);
    }

    #[test]
    fn sine_rms_is_3_db_below_its_peak() {
        let mut samples = [0.0; 4800];
        Sine::new("1000".parse().unwrap(), 48_000).fill(1, &mut samples);
        let mut level = [Level::default()];
        handle(&mut level, &samples);
        let crest = 20.0 * (level[0].peak / level[0].rms()).log10();
        assert!((crest - 3.01).abs() < 0.02, "{crest}");
    }
}
