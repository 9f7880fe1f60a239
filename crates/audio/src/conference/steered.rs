//! Reads the parts' sound from the place that met the DAC when the captured frames met the ADC.
//!
//! The place advances with captured frames. With two clocks, a [`Servo`] steers a resampler per
//! part. The place jumps only after an interruption, with a fade.

use tautline_dsp::resample::{Quality, Resampler, Step};
use tautline_proto::device::Settings;
use tautline_proto::servo::{Observation, Servo};
use tautline_proto::time::{FineFrames, Frames, LocalTime, MediaPoint, MediaTime, Span};

use super::bus::BusReader;
use crate::toolbox::part::PieceTimes;

/// Minimum error that causes a jump. The servo would take ten seconds.
const JUMP: Span = Span::from_millis(2);

struct SteeredPart {
    resampler: Resampler,
    used: bool,
    block: Box<[f32]>,
}

pub(crate) struct SteeredReader {
    bus: BusReader,
    settings: Settings,
    parts: Box<[SteeredPart]>,
    servo: Servo,
    place: Option<MediaPoint>,
    before: Box<[f32]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReadNews {
    pub(crate) realigned: bool,
    pub(crate) missed: bool,
}

impl SteeredReader {
    pub(crate) fn new(bus: BusReader, settings: Settings, parts: usize) -> Self {
        let (channels, period) = (settings.channels.count(), settings.period.as_len().max(1));
        let part = |_| SteeredPart {
            resampler: Resampler::new(Quality::default(), channels, period),
            used: false,
            block: vec![0.0; channels * period].into(),
        };
        Self {
            bus,
            settings,
            parts: (0..parts).map(part).collect(),
            servo: Servo::new(settings.rate),
            place: None,
            before: vec![0.0; channels * period].into(),
        }
    }

    pub(crate) fn read(
        &mut self,
        frames: usize,
        times: PieceTimes,
        is_received: impl Fn(usize) -> bool,
    ) -> ReadNews {
        self.bus.take();
        let mut news = ReadNews::default();
        let Some((newest, first)) = self.bus.newest() else { return news };
        let due = self.due(first, newest.meets, times.meets);
        let mut place = match self.place {
            Some(place) => place + FineFrames::from(times.skipped),
            None => MediaPoint::from(due.nearest()),
        };
        let one_clock = times.clock.is_some() && times.clock == newest.clock;
        let jump = self.settings.rate.frames_nearest(JUMP).count();
        let alongside = (due - place).as_f64().abs() > jump as f64;
        let from =
            (alongside || self.servo.is_beside() || self.servo.is_misplaced()).then_some(place);
        if from.is_some() {
            place = MediaPoint::from(due.nearest());
            self.servo.moved();
            if alongside {
                self.servo = Servo::new(self.settings.rate);
            }
            news.realigned = true;
        }
        let frame = self.settings.rate.frame_length();
        let half = self.parts.first().map_or(0, |part| part.resampler.half());
        let uncertainty = newest.uncertainty + times.uncertainty;
        let count = Frames::from_len(frames);
        let observed = Observation {
            due,
            place,
            tolerance: uncertainty + frame.frames(1),
            strays: uncertainty.divided(8) + frame.frames(2),
            precision: None,
            looks_ahead: self.bus.ahead_of(place.frame.as_frames())
                >= count + Frames::from_len(half),
            frames: count,
            skipped: times.skipped,
            one_clock,
        };
        let step = self.servo.step(&observed);
        if self.servo.copies() && place.fraction > 0 {
            place.fraction = 0;
            self.parts.iter_mut().for_each(|part| part.resampler.set_fraction(0));
        }
        let plays = |part| newest.plays(part) && is_received(part);
        news.missed =
            self.bus.ahead_of(place.frame.as_frames()) < count && (0..self.parts.len()).any(plays);
        for part in 0..self.parts.len() {
            let reaches = place.frame.as_frames() - half as i64;
            let sounds = is_received(part) && self.bus.sounds_from(part, reaches);
            if sounds {
                news.missed |= self.pull(part, frames, (from, place), step);
            }
            if let Some(part) = self.parts.get_mut(part) {
                part.used = sounds;
            }
        }
        let moved = i64::try_from(u128::from(step.bits()) * frames as u128).unwrap_or(i64::MAX);
        self.place = Some(place + FineFrames::from_parts(moved));
        news
    }

    fn due(&self, first: i64, meets: LocalTime, at: LocalTime) -> MediaPoint {
        self.settings.rate.point_after(MediaTime::from_frames(first), at - meets)
    }

    fn pull(
        &mut self,
        index: usize,
        frames: usize,
        (from, place): (Option<MediaPoint>, MediaPoint),
        step: Step,
    ) -> bool {
        let Self { bus, parts, before, .. } = self;
        let Some(part) = parts.get_mut(index) else { return false };
        let samples = frames * bus.channels;
        let fades = from.filter(|_| part.used);
        if let Some(from) = fades {
            let _ = part.feed(bus, index, frames, from, step);
            part.resampler.pull(&mut before[..samples], step);
        }
        if fades.is_some() || !part.used {
            part.begin(bus, index, place);
        }
        let missed = part.feed(bus, index, frames, place, step);
        let block = &mut part.block[..samples];
        part.resampler.pull(block, step);
        if fades.is_some() {
            fade(&before[..samples], block, bus.channels);
        }
        missed
    }

    pub(crate) fn block(&self, part: usize, samples: usize) -> Option<&[f32]> {
        self.parts.get(part).filter(|part| part.used).and_then(|part| part.block.get(..samples))
    }
}

impl SteeredPart {
    fn begin(&mut self, bus: &BusReader, index: usize, place: MediaPoint) {
        self.resampler.reset();
        let half = self.resampler.half();
        for frames in bus.frames(index, place.frame.as_frames() - half as i64, half) {
            self.resampler.pass(frames);
        }
        self.resampler.set_fraction(place.fraction);
    }

    fn feed(
        &mut self,
        bus: &BusReader,
        index: usize,
        frames: usize,
        place: MediaPoint,
        step: Step,
    ) -> bool {
        let wants = self.resampler.wants(frames, step);
        let next = place.frame.as_frames() + self.resampler.ahead() as i64;
        let pieces = bus.frames(index, next, wants);
        let found: usize = pieces.iter().map(|piece| piece.len()).sum();
        pieces.into_iter().for_each(|piece| self.resampler.push(piece));
        found < wants * bus.channels
    }
}

fn fade(before: &[f32], now: &mut [f32], channels: usize) {
    let frames = (now.len() / channels).max(1) as f32;
    for (at, (now, before)) in now.chunks_mut(channels).zip(before.chunks(channels)).enumerate() {
        let share = at as f32 / frames;
        for (now, before) in now.iter_mut().zip(before) {
            *now = *before + (*now - *before) * share;
        }
    }
}
