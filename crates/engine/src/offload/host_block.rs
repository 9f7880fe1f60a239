//! Buffers of a plugin's host.

/// A host's run. All methods must be real-time safe.
///
/// A buffer may serve as input and output, because all inputs are read first. A run longer than
/// [`max_frames`](super::sound_set::SoundSet::max_frames) is split, and each part read before it is
/// written.
pub trait HostBlock {
    /// Frames in this run.
    fn frames(&self) -> usize;

    /// Copies input from frame `from`.
    fn input(&mut self, channel: usize, from: usize, samples: &mut [f32]);

    /// Returns a control input.
    fn control(&mut self, index: usize) -> f32;

    /// Writes output from frame `from`.
    fn output(&mut self, channel: usize, from: usize, samples: &[f32]);

    /// Writes a control output.
    fn control_out(&mut self, index: usize, value: f32);
}
