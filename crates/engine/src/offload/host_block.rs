//! What a host runs a plugin with: its buffers, whatever it keeps them in.

/// One run of a host.
///
/// Hosts may give one buffer for an input and an output. All inputs are read before anything is written, so that this
/// may be as it likes; only a run longer than [`most_frames`](super::sound_set::SoundSet::most_frames) is taken in
/// parts, one after the other, each read before it is written. Real time, as the run itself is.
pub trait HostBlock {
    /// Frames of this run.
    fn frames(&self) -> usize;

    /// Copies the samples of an input from frame `from` on.
    fn input(&mut self, channel: usize, from: usize, samples: &mut [f32]);

    /// The value of a control input.
    fn control(&mut self, index: usize) -> f32;

    /// Takes the samples of an output from frame `from` on.
    fn output(&mut self, channel: usize, from: usize, samples: &[f32]);

    /// Takes the value of a control output.
    fn control_out(&mut self, index: usize, value: f32);
}
