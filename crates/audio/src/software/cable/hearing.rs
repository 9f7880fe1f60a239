use tautline_dsp::resample::{Quality, Resampler, Step};
use tautline_proto::card_clock::CardClock;
use tautline_proto::device::{DeviceError, Settings};
use tautline_proto::time::{Frames, Span};

use super::ring::{Playing, RingLayout};
use super::{CableName, CablePlug, End, error};
use crate::software::filled::Filled;

const QUALITY: Quality = Quality::Balanced;

pub(crate) struct HearingEnd {
    plug: CablePlug,
    channels: usize,
    delay: Span,
    clock: Option<CardClock>,
    next: i64,
    resampler: Resampler,
    frames: Box<[f32]>,
}

impl HearingEnd {
    pub(crate) fn new(
        name: &CableName,
        delay: Span,
        settings: &Settings,
    ) -> Result<Self, DeviceError> {
        if delay > RingLayout::LONGEST_DELAY {
            let answer = format!("delay {delay} is too long");
            return Err(error(name, answer, &format!("use up to {}", RingLayout::LONGEST_DELAY)));
        }
        let plug = CablePlug::new(name, End::Hearing, settings)?;
        let longest = settings.period.as_len();
        let channels = settings.channels.count();
        let resampler = Resampler::new(QUALITY, channels, longest);
        let maximum = resampler.wants(longest, Step::MAX).max(resampler.half());
        let frames = vec![0.0; maximum * channels].into();
        Ok(Self { plug, channels, delay, clock: None, next: 0, resampler, frames })
    }

    pub(crate) fn begin(&mut self, clock: &CardClock) {
        (self.clock, self.next) = (Some(*clock), 0);
    }

    pub(crate) fn fill(&mut self, out: &mut [f32]) -> Filled {
        let first = self.next;
        self.next += (out.len() / self.channels) as i64;
        let received = self.clock.zip(self.plug.ring.playing());
        let Some((clock, playing)) = received else {
            out.fill(0.0);
            return Filled::Whole;
        };
        let place = clock.place_among(&playing.clock, first, self.delay);
        let step = Step::from_bits(clock.step_among(&playing.clock));
        let (from, filled) = if place.fraction == 0 && step == Step::ONE {
            self.plug.ring.read(&playing, place.frame, out);
            (place.frame, Filled::Whole)
        } else {
            self.resampler.reset();
            let from = place.frame.saturating_sub(self.resampler.half() as i64);
            self.pass(&playing, from);
            self.resampler.set_fraction(place.fraction);
            (from, self.interpolate(&playing, place.frame, step, out))
        };
        if !self.plug.ring.was_kept(&playing, from) {
            out.fill(0.0);
        }
        filled
    }

    pub(crate) fn skip(&mut self, frames: Frames) {
        self.next += frames.count();
    }

    fn pass(&mut self, playing: &Playing, from: i64) {
        let before = &mut self.frames[..self.resampler.half() * self.channels];
        self.plug.ring.read(playing, from, before);
        self.resampler.pass(before);
    }

    fn interpolate(&mut self, playing: &Playing, from: i64, step: Step, out: &mut [f32]) -> Filled {
        let wanted = self.resampler.wants(out.len() / self.channels, step);
        let frames = &mut self.frames[..wanted * self.channels];
        self.plug.ring.read(playing, from, frames);
        self.resampler.push(frames);
        self.resampler.pull(out, step);
        let end = from.saturating_add(wanted as i64);
        let cut = (from.saturating_add(1)..end).contains(&playing.written);
        if cut { Filled::Starved } else { Filled::Whole }
    }
}
