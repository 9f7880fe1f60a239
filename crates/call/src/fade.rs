//! A device that fades before it ends: a sound that ends at full amplitude is a click.

#[cfg(test)]
mod tests;

use tautline_dsp::gain::{Gain, Volume};
use tautline_proto::clock::ClockId;
use tautline_proto::device::{
    Cycle, Device, Ended, Flow, Process, Settings, Side, Stop, TimestampSource,
};
use tautline_proto::time::{LocalTime, Span};

const FADE: Span = Span::from_millis(5);

/// See the module. It goes one way.
pub(crate) struct FadingDevice {
    device: Box<dyn Device>,
    ends: Stop,
}

impl FadingDevice {
    /// Once `ends` is requested, it fades and finishes, if something still turns the device.
    pub(crate) const fn new(device: Box<dyn Device>, ends: Stop) -> Self {
        Self { device, ends }
    }
}

impl Device for FadingDevice {
    fn settings(&self) -> Settings {
        self.device.settings()
    }

    fn clock(&self) -> Option<ClockId> {
        self.device.clock()
    }

    fn timestamp_source(&self) -> TimestampSource {
        self.device.timestamp_source()
    }

    fn run(&mut self, inner: Box<dyn Process>, stop: &Stop) -> (Box<dyn Process>, Ended) {
        let (settings, ends) = (self.settings(), self.ends.clone());
        let frames = settings.rate.frames_within(FADE).as_len();
        let volume = Volume::over(Gain::UNITY, frames);
        let process = FadingProcess { inner, settings, ends, volume, silent: LocalTime::NEVER };
        self.device.run(Box::new(process), stop)
    }
}

struct FadingProcess {
    inner: Box<dyn Process>,
    settings: Settings,
    ends: Stop,
    volume: Volume,
    /// When the last frame of the fade meets the converter.
    silent: LocalTime,
}

impl FadingProcess {
    fn fade(&mut self, gain: Gain, side: &mut Side<'_>) {
        let Settings { rate, channels, .. } = self.settings;
        if side.samples.is_empty() {
            return;
        }
        self.volume.apply(gain, channels.count(), side.samples);
        if self.volume.current() == Gain::SILENCE {
            let end = side.meets + rate.span_of(channels.frames_in(side.samples.len()));
            self.silent = self.silent.min(end);
        }
    }
}

impl Process for FadingProcess {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let gain = if self.ends.is_requested() { Gain::SILENCE } else { Gain::UNITY };
        self.fade(gain, &mut cycle.capture);
        let flow = self.inner.process(cycle);
        self.fade(gain, &mut cycle.playback);
        // A card drops what it has not played yet.
        if cycle.now >= self.silent { Flow::Finished } else { flow }
    }

    fn finish(&mut self) {
        self.inner.finish();
    }
}
