//! Microphone of an announcement: a chime precedes it, and silence ends it.

#[cfg(test)]
mod tests;

use tautline_dsp::level::{self, Level};
use tautline_proto::device::{Cycle, Device, Settings, Stop};
use tautline_proto::time::{Frames, LocalTime, Span};

use super::tapped::{DeviceTap, TappedDevice};

/// Highest level of silence, as root mean square of the loudest channel: −50 dBFS.
const SILENT: f32 = 0.003_162;

/// Chime and end of a microphone.
#[derive(Debug, Clone, Default)]
pub struct MicrophoneOptions {
    /// One channel. Replaces the first captured frames, on all channels.
    pub chime: Vec<f32>,
    /// Requested when the microphone is sent: after the chime.
    pub opens: Stop,
    /// Ends the device after this time below −50 dBFS.
    pub end_after: Option<Span>,
}

/// A capturing device with a chime before its sound.
pub fn microphone(device: Box<dyn Device>, options: MicrophoneOptions) -> Box<dyn Device> {
    let tap = MicrophoneTap::new(device.settings(), options);
    Box::new(TappedDevice::new(device, tap))
}

struct MicrophoneTap {
    settings: Settings,
    options: MicrophoneOptions,
    /// Frames of the chime that were sent.
    chimed: usize,
    levels: Box<[Level]>,
    silent: Frames,
}

impl MicrophoneTap {
    fn new(settings: Settings, options: MicrophoneOptions) -> Self {
        let levels = vec![Level::default(); settings.channels.count()].into();
        Self { settings, options, chimed: 0, levels, silent: Frames::ZERO }
    }
}

impl DeviceTap for MicrophoneTap {
    #[inline(never)]
    fn before(&mut self, cycle: &mut Cycle<'_>) {
        let channels = self.settings.channels.count();
        let samples = &mut *cycle.capture.samples;
        let left = &self.options.chime[self.chimed..];
        if !left.is_empty() {
            let frames = samples.chunks_exact_mut(channels).zip(left);
            self.chimed += frames.map(|(frame, sample)| frame.fill(*sample)).count();
            return;
        }
        if !self.options.opens.is_requested() {
            self.options.opens.request();
        }
        self.levels.fill(Level::default());
        level::handle(&mut self.levels, samples);
        match self.levels.iter().all(|level| level.rms() < SILENT) {
            true => self.silent += self.settings.channels.frames_in(samples.len()),
            false => self.silent = Frames::ZERO,
        }
    }

    fn ends(&self, _: LocalTime) -> bool {
        let limit = self.options.end_after.unwrap_or(Span::MAX);
        self.settings.rate.span_of(self.silent) >= limit
    }
}
