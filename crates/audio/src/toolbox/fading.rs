//! Fades a device before it ends, to avoid a click.

#[cfg(test)]
mod tests;

use tautline_dsp::gain::{Gain, Volume};
use tautline_proto::device::{Cycle, Device, Settings, Side, Stop};
use tautline_proto::time::{LocalTime, Span};

use super::tapped::{DeviceTap, TappedDevice};

const FADE: Span = Span::from_millis(5);
/// Timeout of a fade. It exceeds the device buffer and the fade.
pub const FADED_WITHIN: Span = Span::from_millis(500);

/// When `ends` is requested, the device fades within 5 ms and finishes.
pub fn fading(device: Box<dyn Device>, ends: Stop) -> Box<dyn Device> {
    let tap = FadingTap::new(device.settings(), ends);
    Box::new(TappedDevice::new(device, tap))
}

struct FadingTap {
    settings: Settings,
    ends: Stop,
    volume: Volume,
    silent: LocalTime,
}

impl FadingTap {
    fn new(settings: Settings, ends: Stop) -> Self {
        let volume = Volume::over(Gain::UNITY, settings.rate.frames_within(FADE).as_len());
        Self { settings, ends, volume, silent: LocalTime::NEVER }
    }

    fn fade(&mut self, side: &mut Side<'_>) {
        let Settings { rate, channels, .. } = self.settings;
        if side.samples.is_empty() {
            return;
        }
        let gain = if self.ends.is_requested() { Gain::SILENCE } else { Gain::UNITY };
        self.volume.apply(gain, channels.count(), side.samples);
        if self.volume.current() == Gain::SILENCE {
            let end = side.meets + rate.span_of(channels.frames_in(side.samples.len()));
            self.silent = self.silent.min(end);
        }
    }
}

impl DeviceTap for FadingTap {
    #[inline(never)]
    fn before(&mut self, cycle: &mut Cycle<'_>) {
        self.fade(&mut cycle.capture);
    }

    #[inline(never)]
    fn after(&mut self, cycle: &mut Cycle<'_>) {
        self.fade(&mut cycle.playback);
    }

    fn ends(&self, now: LocalTime) -> bool {
        now >= self.silent
    }
}
