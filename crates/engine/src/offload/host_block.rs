//! Interface to the buffers of a plugin's host.

/// One run of a host.
///
/// A host may use one buffer for an input and an output, because all inputs are read before
/// anything is written. A run longer than [`max_frames`](super::sound_set::SoundSet::max_frames)
/// is split; each part is read before it is written. All methods must be real-time safe.
pub trait HostBlock {
    /// Returns the number of frames in this run.
    fn frames(&self) -> usize;

    /// Copies samples of an input, from frame `from` on.
    fn input(&mut self, channel: usize, from: usize, samples: &mut [f32]);

    /// Returns the value of a control input.
    fn control(&mut self, index: usize) -> f32;

    /// Writes samples of an output, from frame `from` on.
    fn output(&mut self, channel: usize, from: usize, samples: &[f32]);

    /// Writes the value of a control output.
    fn control_out(&mut self, index: usize, value: f32);
}
