//! Ports of one channel each, of which a cycle makes a block of frames and the other way round.

/// The samples of one cycle, port by port; a port for each channel, all of one length. A server may
/// have no buffer for one, as PipeWire's has none while a port comes or goes.
pub(crate) trait Ports {
    /// What came in at this channel's port; silence if `None`.
    fn heard(&self, channel: usize) -> Option<&[f32]>;

    /// What goes out at this channel's port, if anything can.
    fn played(&mut self, channel: usize) -> Option<&mut [f32]>;
}

/// The first of a block, all of one that is empty.
pub(crate) fn part(block: &mut [f32], samples: usize) -> &mut [f32] {
    let samples = samples.min(block.len());
    &mut block[..samples]
}

/// What came in at the ports, from `from` frames into the cycle on. Real-time.
pub(crate) fn interleave(ports: &impl Ports, channels: usize, from: usize, block: &mut [f32]) {
    if block.is_empty() {
        return;
    }
    for channel in 0..channels {
        let samples = block.iter_mut().skip(channel).step_by(channels);
        match ports.heard(channel) {
            Some(heard) => samples.zip(&heard[from..]).for_each(|(sample, heard)| *sample = *heard),
            None => samples.for_each(|sample| *sample = 0.0),
        }
    }
}

/// Gives a block to the ports, from `from` frames into the cycle on. Real-time.
pub(crate) fn lay_out(block: &[f32], channels: usize, from: usize, ports: &mut impl Ports) {
    if block.is_empty() {
        return;
    }
    for channel in 0..channels {
        let Some(out) = ports.played(channel) else { continue };
        let samples = block.iter().skip(channel).step_by(channels);
        samples.zip(&mut out[from..]).for_each(|(sample, out)| *out = *sample);
    }
}
