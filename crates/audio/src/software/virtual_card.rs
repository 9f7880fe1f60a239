//! A card without hardware that keeps a clock ([`tautline_proto::card_clock`]). `file:`, `tone:`
//! and `null:` are this card with another source or sink.
//!
//! A `file:` card is *patient*: up to 1 s late, it takes blocks for their due times, so a recording
//! is bit-exact; [`Side::meets`](tautline_proto::device::Side::meets) is then in the past.
//! `virtual:?record=` is strict.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tautline_io::thread::realtime;
use tautline_proto::card_clock::{CaptureRing, CardClock, DuplexRing, PlaybackRing};
use tautline_proto::clock::ClockId;
use tautline_proto::device::{
    Cycle, Device, DeviceError, Direction, Directions, Ended, Flow, Listener, Process, Settings,
    Stop, TimestampSource,
};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Ppm;

use crate::software::cable::PlayingEnd;
use crate::software::filled::Filled;
use crate::software::pace::{HostPace, Pace};
use crate::software::programs::ProgramsEnd;
use crate::software::recorder::Recorder;
use crate::software::source::SampleSource;

const ROOM_IN: Span = Span::from_millis(5);
const MAX_SILENT: i64 = 64;

pub(crate) struct Ends {
    pub(crate) source: SampleSource,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) cable: Option<PlayingEnd>,
    pub(crate) programs: Option<ProgramsEnd>,
    pub(crate) listener: Option<Box<dyn Listener>>,
}

impl Ends {
    pub(crate) fn silent() -> Self {
        let (recorder, cable, programs, listener) = (None, None, None, None);
        Self { source: SampleSource::Silence, recorder, cable, programs, listener }
    }
}

pub(crate) type Dock = Arc<Mutex<Option<Ends>>>;

#[derive(Debug)]
pub struct Disappearance {
    after: Span,
    away: Span,
    went: AtomicI64,
}

impl PartialEq for Disappearance {
    fn eq(&self, other: &Self) -> bool {
        (self.after, self.away) == (other.after, other.away)
    }
}

impl Disappearance {
    const NOT_YET: i64 = i64::MIN;

    pub fn new(after: Span, away: Span) -> Self {
        Self { after, away, went: AtomicI64::new(Self::NOT_YET) }
    }

    fn strikes(&self, start: LocalTime, now: LocalTime) -> bool {
        let due = now - start >= self.after && self.went.load(Ordering::Relaxed) == Self::NOT_YET;
        if due {
            self.went.store(now.as_nanos(), Ordering::Relaxed);
        }
        due
    }

    pub(crate) fn is_away(&self, now: LocalTime) -> bool {
        let went = self.went.load(Ordering::Relaxed);
        went != Self::NOT_YET && now < LocalTime::from_nanos(went) + self.away
    }
}

#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) directions: Directions,
    pub(crate) settings: Settings,
    pub(crate) error: Ppm,
    pub(crate) fault: Option<Arc<Disappearance>>,
    pub(crate) timeout: Frames,
}

pub(crate) struct VirtualCard {
    pub(super) parts: Parts,
    /// Created before the run because that allocates.
    loss: Option<(Arc<Disappearance>, DeviceError)>,
    pub(super) ends: Ends,
    dock: Option<Dock>,
    /// Time of the first frame, if it is not the start of the run.
    begins: Option<LocalTime>,
    pub(super) pace: Box<dyn Pace>,
    pub(super) clock: Option<ClockId>,
    pub(super) block: Box<[f32]>,
    pub(super) taken: Box<[f32]>,
}

impl VirtualCard {
    pub(crate) fn new(parts: Parts, ends: Ends, pace: Box<dyn Pace>) -> Self {
        let samples = parts.settings.channels.samples_in(parts.settings.period);
        let loss = parts.fault.clone().map(|fault| (fault, gone(&parts.name)));
        let (clock, block) = (clock(&parts, pace.as_ref()), vec![0.0; samples].into());
        let taken = if parts.directions == Directions::Both { samples } else { 0 };
        let taken = vec![0.0; taken].into();
        Self { parts, loss, ends, dock: None, begins: None, pace, clock, block, taken }
    }

    pub(crate) fn docked(mut self, dock: Dock) -> Self {
        self.dock = Some(dock);
        self
    }

    pub(crate) fn beginning(mut self, begins: Option<LocalTime>) -> Self {
        self.begins = begins;
        self
    }

    pub(crate) fn paced(mut self, pace: Box<dyn Pace>) -> Self {
        (self.clock, self.pace) = (clock(&self.parts, pace.as_ref()), pace);
        self
    }

    pub(crate) fn timer(direction: Direction, settings: Settings) -> Self {
        let name = "timer".to_owned();
        let (error, timeout) = (Ppm::ZERO, Frames::ZERO);
        let directions = direction.into();
        let parts = Parts { name, directions, settings, error, fault: None, timeout };
        Self::new(parts, Ends::silent(), Box::new(HostPace))
    }

    pub(super) fn wait(
        &mut self,
        start: LocalTime,
        wakes: LocalTime,
        stop: &Stop,
    ) -> Result<LocalTime, Ended> {
        self.pace.sleep_until(wakes);
        let _realtime = realtime::scope();
        let now = self.pace.now();
        if stop.is_requested() {
            return Err(Ended::Stopped);
        }
        match self.loss.take_if(|(fault, _)| fault.strikes(start, now)) {
            Some((_, error)) => Err(Ended::Gone(error)),
            None => Ok(now),
        }
    }

    /// A late program brings more than the recorder's ring holds.
    fn wait_for_room(&mut self, wakes: LocalTime) {
        let Some(recorder) = &self.ends.recorder else { return };
        let limit = wakes + self.parts.settings.rate.span_of(self.parts.timeout);
        while !recorder.has_room(self.block.len()) && !recorder.is_deserted() {
            let now = self.pace.now();
            if now >= limit {
                return;
            }
            self.pace.sleep_until(now + ROOM_IN);
        }
    }

    pub(super) fn start(&mut self) -> (LocalTime, CardClock) {
        let Settings { rate, .. } = self.parts.settings;
        let (playing, hearing) = match &mut self.ends {
            Ends { cable, source: SampleSource::Cable(end), .. } => (cable.as_mut(), Some(end)),
            Ends { cable, .. } => (cable.as_mut(), None),
        };
        let now = self.pace.now();
        let begins = self.begins.take().filter(|begins| *begins > now);
        let start = match self.parts.directions.has(Direction::Capture) {
            _ if begins.is_some() => begins.unwrap_or(now),
            _ if playing.is_some() || hearing.is_some() => CardClock::shared_start(now, rate),
            true => CardClock::start_at_tick(now),
            false => now,
        };
        let clock = CardClock::new(start, rate, self.parts.error);
        if let Some(end) = playing {
            end.begin(&clock);
        }
        if let Some(end) = hearing {
            end.begin(&clock);
        }
        if let SampleSource::Programs(end) = &mut self.ends.source {
            end.begin(&clock);
        }
        if let Some(end) = &mut self.ends.programs {
            end.begin(&clock);
        }
        (start, clock)
    }

    fn play(&mut self, process: &mut dyn Process, stop: &Stop) -> Result<Ended, Ended> {
        let (start, clock) = self.start();
        let mut ring = PlaybackRing::new(clock, &self.parts.settings).patient(self.parts.timeout);
        {
            let _realtime = realtime::scope();
            self.play_silence(&clock, ring.program(), ring.lead());
        }
        let mut late = Frames::ZERO;
        loop {
            self.wait_for_room(ring.wakes());
            let now = self.wait(start, ring.wakes(), stop)?;
            let _realtime = realtime::scope();
            let turn = ring.begin(now);
            self.play_silence(&clock, turn.frame, turn.skipped);
            self.block.fill(0.0);
            let xruns = u32::from(late.max(turn.skipped) > Frames::ZERO);
            let side = turn.side(&mut self.block);
            let cycle = Cycle::one_way(Direction::Playback, now, side, xruns);
            let mut cycle = cycle.by(self.clock);
            let flow = process.process(&mut cycle);
            let taken = self.pace.now();
            late = ring.finish(taken);
            let missed = self.parts.settings.channels.samples_in(late);
            self.block[..missed].fill(0.0);
            self.received(turn.meets, taken);
            if flow == Flow::Finished || self.is_deserted() {
                return Ok(Ended::Finished);
            }
        }
    }

    pub(super) fn is_deserted(&self) -> bool {
        self.ends.recorder.as_ref().is_some_and(Recorder::is_deserted)
    }

    pub(super) fn received(&mut self, meets: LocalTime, taken: LocalTime) {
        let patient = self.parts.timeout > Frames::ZERO;
        let taken = if patient { taken } else { meets };
        if let Some(recorder) = &mut self.ends.recorder {
            recorder.write(&self.block);
        }
        if let Some(cable) = &mut self.ends.cable {
            cable.play(&self.block);
        }
        if let Some(programs) = &mut self.ends.programs {
            programs.play(&self.block);
        }
        if let Some(listener) = &mut self.ends.listener {
            listener.received(meets, taken, &self.block);
        }
    }

    /// Plays `frames` of silence up to `end`. Listeners get a bounded part: a program may have
    /// stopped for an hour.
    pub(super) fn play_silence(&mut self, clock: &CardClock, end: i64, frames: Frames) {
        let Settings { channels, period, .. } = self.parts.settings;
        if let Some(recorder) = &mut self.ends.recorder {
            recorder.silence(channels.samples_in(frames) as u64);
        }
        if let Some(cable) = &mut self.ends.cable {
            cable.play_silence(frames);
        }
        if let Some(programs) = &mut self.ends.programs {
            programs.skip(frames);
        }
        let Some(listener) = &mut self.ends.listener else { return };
        self.block.fill(0.0);
        let blocks = (frames.count() / period.count().max(1)).min(MAX_SILENT);
        for block in (1..=blocks).rev() {
            let meets = clock.instant_of(end - block * period.count());
            listener.received(meets, meets, &self.block);
        }
    }

    fn capture(&mut self, process: &mut dyn Process, stop: &Stop) -> Result<Ended, Ended> {
        let (start, clock) = self.start();
        let mut ring = CaptureRing::new(clock, &self.parts.settings).patient(self.parts.timeout);
        let channels = self.parts.settings.channels.count();
        loop {
            let now = self.wait(start, ring.wakes(), stop)?;
            let _realtime = realtime::scope();
            let turn = ring.begin(now);
            self.ends.source.skip(channels, turn.skipped);
            let filled = self.ends.source.fill(channels, &mut self.block);
            if filled == Filled::Over {
                return Ok(Ended::Finished);
            }
            let overrun = u32::from(turn.skipped > Frames::ZERO);
            let xruns = overrun + u32::from(filled == Filled::Starved);
            let side = turn.side(&mut self.block);
            let mut cycle = Cycle::one_way(Direction::Capture, now, side, xruns).by(self.clock);
            let flow = process.process(&mut cycle);
            if flow == Flow::Finished || filled == Filled::Last {
                return Ok(Ended::Finished);
            }
        }
    }
}

impl Device for VirtualCard {
    fn settings(&self) -> Settings {
        self.parts.settings
    }

    fn clock(&self) -> Option<ClockId> {
        self.clock
    }

    fn timestamp_source(&self) -> TimestampSource {
        TimestampSource::Due
    }

    fn run(&mut self, mut process: Box<dyn Process>, stop: &Stop) -> (Box<dyn Process>, Ended) {
        let ended = match self.parts.directions {
            Directions::One(Direction::Capture) => self.capture(process.as_mut(), stop),
            Directions::One(Direction::Playback) => self.play(process.as_mut(), stop),
            Directions::Both => self.play_and_capture(process.as_mut(), stop),
        };
        (process, ended.unwrap_or_else(|ended| ended))
    }
}

impl Drop for VirtualCard {
    fn drop(&mut self) {
        if let Some(dock) = self.dock.take() {
            let ends = std::mem::replace(&mut self.ends, Ends::silent());
            *dock.lock().unwrap_or_else(PoisonError::into_inner) = Some(ends);
        }
    }
}

fn clock(parts: &Parts, pace: &dyn Pace) -> Option<ClockId> {
    if parts.error == Ppm::ZERO { pace.clock() } else { None }
}

pub(crate) fn gone(name: &str) -> DeviceError {
    DeviceError {
        tried: name.to_owned(),
        answer: "the card was removed".to_owned(),
        hint: "plug it in again".to_owned(),
    }
}

impl VirtualCard {
    pub(super) fn play_and_capture(
        &mut self,
        process: &mut dyn Process,
        stop: &Stop,
    ) -> Result<Ended, Ended> {
        let (start, clock) = self.start();
        let channels = self.parts.settings.channels;
        let mut ring = DuplexRing::new(clock, &self.parts.settings);
        {
            let _realtime = realtime::scope();
            self.play_silence(&clock, ring.lead().count(), ring.lead());
        }
        let mut late = Frames::ZERO;
        loop {
            let now = self.wait(start, ring.wakes(), stop)?;
            let _realtime = realtime::scope();
            let (taken, written) = ring.begin(now);
            self.play_silence(&clock, written.frame, written.skipped);
            self.ends.source.skip(channels.count(), taken.skipped);
            let filled = self.ends.source.fill(channels.count(), &mut self.taken);
            if filled == Filled::Over {
                return Ok(Ended::Finished);
            }
            self.block.fill(0.0);
            let missed = late.max(written.skipped) > Frames::ZERO;
            let mut cycle = Cycle {
                now,
                capture: taken.side(&mut self.taken),
                playback: written.side(&mut self.block),
                xruns: u32::from(missed) + u32::from(filled == Filled::Starved),
                clock: self.clock,
            };
            let flow = process.process(&mut cycle);
            let done = self.pace.now();
            late = ring.finish(done);
            self.block[..channels.samples_in(late)].fill(0.0);
            self.received(written.meets, done);
            if let SampleSource::Loopback(cable) = &mut self.ends.source {
                cable.play(written.frame, &self.block);
            }
            if flow == Flow::Finished || filled == Filled::Last || self.is_deserted() {
                return Ok(Ended::Finished);
            }
        }
    }
}
