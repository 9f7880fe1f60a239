//! A PCM as a device: one loop, whichever way the sound goes.

use tautline_io::{clock, realtime};
use tautline_proto::device::{
    Cycle, Device, Direction, Ended, Flow, Process, Settings, Side, Stop,
};
use tautline_proto::time::{Frames, LocalTime, Span};

use super::Wakeup;
use super::pace::Pace;
use super::pcm::{Pcm, Reading, Trouble, hush};
use super::refuse::Losses;

/// How long a card may be silent before it counts as gone: a host may freeze for a tenth of that.
const SILENT: Span = Span::from_millis(500);
/// How often a card that was asleep is asked whether it is awake, and how often at most.
const ASLEEP: (Span, u32) = (Span::from_millis(10), 500);
/// Starts without a single block in between after which nothing is to be expected any more.
const VAIN: u32 = 20;

/// The device.
pub(super) struct Card {
    pcm: Pcm,
    direction: Direction,
    settings: Settings,
    wakeup: Wakeup,
    pace: Pace,
    block: Box<[f32]>,
    losses: Losses,
    /// Starts since the last block.
    starts: u32,
    xruns: u32,
}

impl Card {
    pub(super) fn new(
        pcm: Pcm,
        (direction, settings): (Direction, Settings),
        wakeup: Wakeup,
        losses: Losses,
    ) -> Self {
        let block = vec![0.0; settings.channels.samples_in(settings.period)].into();
        let pace = Pace::new(direction, settings);
        Self { pcm, direction, settings, wakeup, pace, block, losses, starts: 0, xruns: 0 }
    }

    /// Starts, or starts again after an xrun.
    fn start(&mut self, stop: &Stop) -> Result<(), Ended> {
        loop {
            if stop.is_requested() {
                return Err(Ended::Stopped);
            }
            self.starts += 1;
            if self.starts > VAIN {
                return Err(self.gone(Trouble::Stopped));
            }
            let began = clock::now();
            match self.pcm.start(&mut self.block) {
                Ok(()) => {
                    self.pace.start(began, self.pcm.read().ok());
                    return Ok(());
                }
                Err(Trouble::Suspended) => self.awake(stop)?,
                Err(Trouble::Stopped | Trouble::NotReady) => {}
                Err(trouble) => return Err(self.gone(trouble)),
            }
        }
    }

    /// Waits until the card is awake.
    fn awake(&mut self, stop: &Stop) -> Result<(), Ended> {
        let (between, times) = ASLEEP;
        for _ in 0..times {
            if stop.is_requested() {
                return Err(Ended::Stopped);
            }
            if self.pcm.resume() {
                return Ok(());
            }
            clock::sleep_until(clock::now() + between);
        }
        Err(self.gone(Trouble::Suspended))
    }

    /// The card went, or does as if.
    fn gone(&mut self, trouble: Trouble) -> Ended {
        Ended::Gone(self.losses.take(trouble))
    }

    /// Waits until a period is ready and says where the card is then.
    fn wait(&mut self, stop: &Stop) -> Result<Reading, Result<Trouble, Ended>> {
        let limit = clock::now() + SILENT.max(self.span(8));
        loop {
            let early = self.sleep(limit);
            if stop.is_requested() {
                return Err(Err(Ended::Stopped));
            }
            let reading = {
                let _realtime = realtime::scope();
                self.pcm.read()
            };
            match reading {
                Ok(reading) if self.pace.is_ready(&reading) => return Ok(reading),
                Ok(reading) => self.pace.not_yet(&reading),
                Err(Trouble::NotReady) => {}
                Err(trouble) => return Err(Ok(trouble)),
            }
            let now = clock::now();
            if now > limit {
                return Err(Err(self.gone(Trouble::NotReady)));
            }
            if early {
                // It said that there is something, and there is not.
                clock::sleep_until(now + self.span(1).divided(8));
            }
        }
    }

    /// Sleeps until the card wakes this thread, a period at most; whether it did.
    fn sleep(&mut self, limit: LocalTime) -> bool {
        if let Some(wakes) = self.pace.wakes(self.wakeup) {
            clock::sleep_until(wakes.min(limit).min(clock::now() + self.span(2)));
            return false;
        }
        // A healthy card wakes it earlier. One that does not is to see whether it is to stop.
        self.pcm.wait(self.span(1).max(Span::from_millis(1)))
    }

    /// So many periods.
    fn span(&self, periods: i64) -> Span {
        self.settings.rate.span_of(Frames::new(self.settings.period.count() * periods))
    }

    /// One period.
    fn cycle(&mut self, reading: &Reading, process: &mut dyn Process) -> Result<Flow, Trouble> {
        let _realtime = realtime::scope();
        let met = self.pace.begin(reading);
        match self.direction {
            Direction::Capture => self.pcm.transfer(&mut self.block)?,
            Direction::Playback => self.block.fill(0.0),
        }
        let side = Side {
            samples: &mut self.block,
            meets: met.meets,
            uncertainty: met.uncertainty,
            skipped: met.skipped,
        };
        let xruns = std::mem::take(&mut self.xruns) + met.xruns;
        let mut cycle = Cycle::one_way(self.direction, reading.now, side, xruns);
        let flow = process.process(&mut cycle);
        if self.direction == Direction::Playback {
            self.pcm.transfer(&mut self.block)?;
        }
        self.pace.finish(reading);
        self.starts = 0;
        Ok(flow)
    }

    fn go(&mut self, process: &mut dyn Process, stop: &Stop) -> Result<Ended, Ended> {
        self.start(stop)?;
        loop {
            let cycle = match self.wait(stop) {
                Ok(reading) => self.cycle(&reading, process),
                Err(trouble) => Err(trouble?),
            };
            match cycle {
                Ok(Flow::Continue) => {}
                Ok(Flow::Finished) => {
                    self.play_out();
                    return Ok(Ended::Finished);
                }
                Err(trouble @ (Trouble::Unplugged | Trouble::Refused(_))) => {
                    return Err(self.gone(trouble));
                }
                Err(trouble) => {
                    self.xruns += 1;
                    if trouble == Trouble::Suspended {
                        self.awake(stop)?;
                    }
                    self.start(stop)?;
                }
            }
        }
    }

    /// Waits until what was written last has been heard.
    fn play_out(&self) {
        if let (Direction::Playback, Some(end)) = (self.direction, self.pace.end()) {
            let longest = self.span(i64::from(self.settings.periods) + 1);
            clock::sleep_until(end.min(clock::now() + longest));
        }
    }
}

impl Device for Card {
    fn settings(&self) -> Settings {
        self.settings
    }

    fn run(&mut self, mut process: Box<dyn Process>, stop: &Stop) -> (Box<dyn Process>, Ended) {
        hush();
        let ended = self.go(process.as_mut(), stop).unwrap_or_else(|ended| ended);
        (process, ended)
    }
}
