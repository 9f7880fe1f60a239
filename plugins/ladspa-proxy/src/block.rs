use tautline_engine::offload::host_block::HostBlock;

use crate::ports::Connections;
use crate::twin::Twin;

pub(crate) struct HostPorts<'a> {
    connections: &'a Connections,
    frames: usize,
    /// `None` replaces the buffer's content.
    gain: Option<f32>,
    usual: &'a [f32],
    twin: Option<&'a mut Twin>,
}

impl<'a> HostPorts<'a> {
    /// # Safety
    /// Connected ports have memory for `frames` samples (audio) or one value (control). No other
    /// code accesses it.
    pub(crate) unsafe fn new(
        connections: &'a Connections,
        frames: usize,
        gain: Option<f32>,
        usual: &'a [f32],
        twin: Option<&'a mut Twin>,
    ) -> Self {
        Self { connections, frames, gain, usual, twin }
    }

    fn within(&self, from: usize, samples: usize) -> usize {
        self.frames.saturating_sub(from).min(samples)
    }

    pub(crate) fn pass_on(&mut self) {
        let mut chunk = [0.0; 64];
        for from in (0..self.frames).step_by(chunk.len()) {
            for channel in 0..self.connections.outputs.len() {
                chunk.fill(0.0);
                self.input(channel, from, &mut chunk);
                self.output(channel, from, &chunk);
            }
        }
    }
}

impl HostBlock for HostPorts<'_> {
    fn frames(&self) -> usize {
        self.frames
    }

    fn input(&mut self, channel: usize, from: usize, samples: &mut [f32]) {
        let count = self.within(from, samples.len());
        let (received, rest) = samples.split_at_mut(count);
        rest.fill(0.0);
        let place = self.connections.inputs.get(channel).copied();
        let Some(place) = place.filter(|place| !place.is_null()) else {
            received.fill(0.0);
            return;
        };
        // SAFETY: the caller of `new` guarantees these frames; `samples` is our own memory.
        unsafe { core::ptr::copy_nonoverlapping(place.add(from), received.as_mut_ptr(), count) };
    }

    fn control(&mut self, index: usize) -> f32 {
        let place = self.connections.controls.get(index).copied().filter(|place| !place.is_null());
        // SAFETY: the caller of `new` guarantees a value there.
        let value = place.map(|place| unsafe { place.read() });
        value.or_else(|| self.usual.get(index).copied()).unwrap_or(0.0)
    }

    fn output(&mut self, channel: usize, from: usize, samples: &[f32]) {
        let count = self.within(from, samples.len());
        if let Some(twin) = &mut self.twin {
            twin.take(channel, from, &samples[..count]);
        }
        let place = self.connections.outputs.get(channel).copied();
        let Some(place) = place.filter(|place| !place.is_null()) else { return };
        // SAFETY: the caller of `new` guarantees these frames.
        let place = unsafe { place.add(from) };
        match self.gain {
            // SAFETY: as above; `samples` is not the host's memory.
            None => unsafe { core::ptr::copy_nonoverlapping(samples.as_ptr(), place, count) },
            Some(gain) => {
                for (at, sample) in samples[..count].iter().enumerate() {
                    // SAFETY: as above.
                    unsafe { place.add(at).write(place.add(at).read() + gain * sample) };
                }
            }
        }
    }

    fn control_out(&mut self, index: usize, value: f32) {
        // Control outputs are always replaced.
        let place = self.connections.reported.get(index).copied().filter(|place| !place.is_null());
        if let Some(place) = place {
            // SAFETY: the caller of `new` guarantees a value there.
            unsafe { place.write(value) };
        }
    }
}
