use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};
use tautline_io::thread::realtime;
use tautline_proto::clock::ClockId;
use tautline_proto::device::{
    Cycle, Device, DeviceError, Direction, Ended, Flow, Process, ReplacedTime, Settings, Side,
    Stop, TimestampSource,
};
use tautline_proto::time::{Frames, LocalTime, Span};

use super::Notes;
use super::{STACK, spawn_error};

/// Polling interval, because waking the opener would be a system call.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) type Opener = Box<dyn FnMut() -> Result<Box<dyn Device>, DeviceError> + Send>;

pub(crate) struct Fallback {
    /// Created before the run because that allocates.
    pub(crate) timer: Box<dyn Device>,
    pub(crate) open: Opener,
    pub(crate) retry: Duration,
}

impl Fallback {
    pub(crate) fn new(timer: Box<dyn Device>, open: Opener) -> Self {
        Self { timer, open, retry: Duration::from_secs(1) }
    }
}

#[derive(Debug)]
struct SupervisionShared {
    losses: AtomicU64,
    away: AtomicBool,
    back: AtomicBool,
    finished: AtomicBool,
    switched: AtomicBool,
    end: AtomicI64,
    replaced: ReplacedTime,
}

impl SupervisionShared {
    const NOTHING_YET: i64 = i64::MIN;

    fn end(&self) -> Option<LocalTime> {
        let end = self.end.load(Ordering::Relaxed);
        (end != Self::NOTHING_YET).then(|| LocalTime::from_nanos(end))
    }
}

impl Default for SupervisionShared {
    fn default() -> Self {
        let flag = || AtomicBool::new(false);
        Self {
            losses: AtomicU64::new(0),
            away: flag(),
            back: flag(),
            finished: flag(),
            switched: flag(),
            end: AtomicI64::new(Self::NOTHING_YET),
            replaced: ReplacedTime::default(),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Supervision(Arc<SupervisionShared>);

impl Supervision {
    pub fn losses(&self) -> u64 {
        self.0.losses.load(Ordering::Relaxed)
    }

    pub fn is_away(&self) -> bool {
        self.0.away.load(Ordering::Relaxed)
    }
}

/// A device that a timer replaces after a loss, until reopened. After a change, [`Side::skipped`]
/// has the frames in between.
pub(crate) struct Supervised {
    direction: Direction,
    settings: Settings,
    device: Option<Box<dyn Device>>,
    timer: Box<dyn Device>,
    shared: Arc<SupervisionShared>,
    lost: Option<Producer<Lost>>,
    found: Consumer<Box<dyn Device>>,
    opener: Option<JoinHandle<()>>,
}

type Lost = (Box<dyn Device>, DeviceError);

impl Supervised {
    pub(crate) fn new(
        device: Box<dyn Device>,
        direction: Direction,
        remedy: Fallback,
        notes: &Notes,
    ) -> Result<(Self, Supervision), DeviceError> {
        let Fallback { timer, open, retry } = remedy;
        let settings = device.settings();
        let shared = Arc::new(SupervisionShared::default());
        let (lost, gone) = RingBuffer::new(1);
        let (returned, found) = RingBuffer::new(1);
        let watch = DeviceWatch {
            open,
            retry,
            settings,
            gone,
            returned,
            shared: Arc::clone(&shared),
            notes: notes.clone(),
        };
        let opener = thread::Builder::new()
            .name("taut-reopen".to_owned())
            .stack_size(STACK)
            .spawn(move || watch.run())
            .map_err(|error| spawn_error("supervision", &error))?;
        let supervision = Supervision(Arc::clone(&shared));
        let supervised = Self {
            direction,
            settings,
            device: Some(device),
            timer,
            shared,
            lost: Some(lost),
            found,
            opener: Some(opener),
        };
        Ok((supervised, supervision))
    }

    fn lose(&mut self, error: DeviceError) {
        let _realtime = realtime::scope();
        self.shared.losses.fetch_add(1, Ordering::Relaxed);
        self.shared.away.store(true, Ordering::Relaxed);
        if let (Some(device), Some(lost)) = (self.device.take(), &mut self.lost) {
            let _ = lost.push((device, error));
        }
        self.shared.switched.store(true, Ordering::Relaxed);
    }

    fn find(&mut self) {
        let _realtime = realtime::scope();
        self.shared.back.store(false, Ordering::Relaxed);
        if let Ok(device) = self.found.pop() {
            self.device = Some(device);
            self.shared.away.store(false, Ordering::Relaxed);
        }
        self.shared.switched.store(true, Ordering::Relaxed);
    }

    /// Waits for the last block's end: time never runs backwards.
    fn wait_for_end(&self) {
        let lead = match self.direction {
            Direction::Capture => Span::ZERO,
            Direction::Playback => self.settings.playback_lead(),
        };
        if let Some(end) = self.shared.end() {
            tautline_io::clock::sleep_until(end - lead);
        }
    }
}

impl Device for Supervised {
    fn settings(&self) -> Settings {
        self.settings
    }

    fn clock(&self) -> Option<ClockId> {
        self.device.as_ref().and_then(|device| device.clock())
    }

    fn timestamp_source(&self) -> TimestampSource {
        self.device.as_ref().map_or(TimestampSource::Due, |device| device.timestamp_source())
    }

    fn replaced(&self) -> ReplacedTime {
        self.shared.replaced.clone()
    }

    fn run(&mut self, process: Box<dyn Process>, stop: &Stop) -> (Box<dyn Process>, Ended) {
        self.shared.finished.store(false, Ordering::Relaxed);
        let shared = Arc::clone(&self.shared);
        let mut process: Box<dyn Process> =
            Box::new(Bridge { inner: process, settings: self.settings, shared });
        loop {
            let (returned, ended) = match &mut self.device {
                Some(device) => device.run(process, stop),
                None => self.timer.run(process, stop),
            };
            process = returned;
            let finished = self.shared.finished.load(Ordering::Relaxed);
            match ended {
                Ended::Gone(error) if self.device.is_some() => self.lose(error),
                Ended::Finished if self.device.is_none() && !finished => self.find(),
                ended => return (process, ended),
            }
            self.wait_for_end();
        }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.device = None;
        self.lost = None;
        if let Some(opener) = self.opener.take() {
            opener.thread().unpark();
            let _ = opener.join();
        }
    }
}

/// Bridges gaps between clocks; ends the timer when the device is back.
struct Bridge {
    inner: Box<dyn Process>,
    settings: Settings,
    shared: Arc<SupervisionShared>,
}

impl Bridge {
    fn span_gap(&self, cycle: &mut Cycle<'_>) {
        let Some(end) = self.shared.end() else { return };
        let rate = self.settings.rate;
        for side in [&mut cycle.capture, &mut cycle.playback] {
            if !side.samples.is_empty() {
                side.skipped += rate.frames_nearest(side.meets - end).max(Frames::ZERO);
            }
        }
        cycle.xruns += 1;
    }

    fn end_of(&self, side: &Side<'_>) -> Option<LocalTime> {
        let frames = self.settings.channels.frames_in(side.samples.len());
        (frames > Frames::ZERO).then(|| side.meets + self.settings.rate.span_of(frames))
    }
}

impl Process for Bridge {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        if self.shared.switched.swap(false, Ordering::Relaxed) {
            self.span_gap(cycle);
        }
        if self.shared.away.load(Ordering::Relaxed) {
            let samples = cycle.capture.samples.len().max(cycle.playback.samples.len());
            let frames = self.settings.channels.frames_in(samples);
            self.shared.replaced.add(self.settings.rate.span_of(frames));
        }
        let end = self.end_of(&cycle.playback).or(self.end_of(&cycle.capture));
        let flow = self.inner.process(cycle);
        if let Some(end) = end {
            self.shared.end.store(end.as_nanos(), Ordering::Relaxed);
        }
        if flow == Flow::Finished {
            self.shared.finished.store(true, Ordering::Relaxed);
            return flow;
        }
        if self.shared.back.load(Ordering::Acquire) { Flow::Finished } else { flow }
    }

    fn finish(&mut self) {
        self.inner.finish();
    }
}

struct DeviceWatch {
    open: Opener,
    retry: Duration,
    settings: Settings,
    gone: Consumer<Lost>,
    returned: Producer<Box<dyn Device>>,
    shared: Arc<SupervisionShared>,
    notes: Notes,
}

impl DeviceWatch {
    fn run(mut self) {
        loop {
            let Ok((device, error)) = self.gone.pop() else {
                if self.gone.is_abandoned() {
                    return;
                }
                thread::park_timeout(self.retry.min(LOOK));
                continue;
            };
            // Reopening needs its resources.
            drop(device);
            self.notes.add(format!("{error}; a timer replaces it"));
            let Some(device) = self.reopen() else { return };
            if self.returned.push(device).is_err() {
                return;
            }
            self.shared.back.store(true, Ordering::Release);
            self.notes.add(format!("{}: it is back", error.tried));
        }
    }

    fn reopen(&mut self) -> Option<Box<dyn Device>> {
        let mut said = None;
        loop {
            thread::park_timeout(self.retry);
            if self.gone.is_abandoned() {
                return None;
            }
            let answer = match (self.open)() {
                Ok(device) if device.settings() == self.settings => return Some(device),
                Ok(device) => changed(&self.settings, &device.settings()),
                Err(error) => error,
            };
            if said.as_ref() != Some(&answer) {
                self.notes.add(answer.to_string());
                said = Some(answer);
            }
        }
    }
}

fn changed(before: &Settings, now: &Settings) -> DeviceError {
    DeviceError {
        tried: "the returned device".to_owned(),
        answer: format!(
            "it has {}, {} channels and periods of {} × {} instead of {}, {} channels and {} × {}",
            now.rate,
            now.channels,
            now.periods,
            now.period,
            before.rate,
            before.channels,
            before.periods,
            before.period
        ),
        hint: "restore its settings, or restart taut".to_owned(),
    }
}
