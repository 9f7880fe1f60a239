//! A PCM as a device: one loop, whichever way the sound goes.

use tautline_io::clock;
use tautline_io::clock::host::host_clock;
use tautline_io::thread::realtime;
use tautline_proto::clock::{ClockId, HostClock};
use tautline_proto::device::{
    Cycle, Device, Direction, Ended, Flow, Process, Settings, Side, Stop,
};
use tautline_proto::time::{Frames, LocalTime, Span};

use super::pace::Pace;
use super::pcm::{Pcm, Reading, Trouble, hush};
use super::refuse::Losses;
use super::spec::Wakeup;
use crate::toolbox::notes::Occasion;

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
    /// That of the timer which sets the pace where no card does: the host's.
    timer: Option<ClockId>,
    block: Box<[f32]>,
    losses: Losses,
    /// It was found that there is no card.
    timed: Occasion,
    /// Starts since the last block.
    starts: u32,
    xruns: u32,
}

impl Card {
    pub(super) fn new(
        pcm: Pcm,
        (direction, settings): (Direction, Settings),
        wakeup: Wakeup,
        (losses, timed): (Losses, Occasion),
    ) -> Self {
        let block = vec![0.0; settings.channels.samples_in(settings.period)].into();
        let pace = Pace::new(direction, settings);
        let timer = host_clock().map(HostClock::id);
        let (starts, xruns) = (0, 0);
        Self { pcm, direction, settings, wakeup, pace, timer, block, losses, timed, starts, xruns }
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
                    self.pace.start(began, self.pcm.read(false).ok());
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
            let woke = self.sleep(limit);
            if stop.is_requested() {
                return Err(Err(Ended::Stopped));
            }
            let reading = {
                let _realtime = realtime::scope();
                self.pcm.read(woke)
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
            if woke {
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
        match self.direction {
            // First of all: a block that cannot be had is none.
            Direction::Capture => self.pcm.transfer(&mut self.block)?,
            Direction::Playback => self.block.fill(0.0),
        }
        let met = self.pace.begin(reading);
        if self.pace.is_timed() {
            self.timed.arises();
        }
        let side = Side {
            samples: &mut self.block,
            meets: met.meets,
            uncertainty: met.uncertainty,
            skipped: met.skipped,
        };
        let xruns = std::mem::take(&mut self.xruns) + met.xruns;
        let clock = self.timer.filter(|_| self.pace.is_timed());
        let mut cycle = Cycle::one_way(self.direction, reading.now, side, xruns).by(clock);
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

#[cfg(test)]
mod tests {
    use tautline_proto::units::{Channels, Rate};

    use super::super::params;
    use super::super::spec::AlsaSpec;
    use super::*;

    /// Notes of each block what came before it and where it ends; of a few, as it may not allocate.
    struct Heard(Vec<(Frames, LocalTime)>);

    impl Process for Heard {
        fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
            let period = Rate::HZ_48000.span_of(Frames::new(48));
            self.0.push((cycle.capture.skipped, cycle.capture.meets + period));
            Flow::Continue
        }
    }

    #[test]
    fn a_block_that_could_not_be_had_is_not_booked() {
        let settings = Settings {
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            period: Frames::new(48),
            periods: 2,
        };
        // In the configuration that comes with ALSA's library.
        let spec: AlsaSpec = "null".parse().unwrap();
        let alsa = spec.open(Direction::Capture).unwrap();
        let coding = {
            let (params, coding) = params::narrow(&spec, &alsa, settings).unwrap();
            params::apply(&spec, &alsa, &params, settings).unwrap();
            coding
        };
        let pcm = Pcm::new((alsa, false), (Direction::Capture, settings), coding).unwrap();
        let losses =
            (Losses::new(&spec), crate::toolbox::notes::Notes::default().prepare(String::new()));
        let mut card = Card::new(pcm, (Direction::Capture, settings), Wakeup::Card, losses);
        let (stop, mut heard) = (Stop::default(), Heard(Vec::with_capacity(8)));
        card.start(&stop).unwrap();
        let reading = card.wait(&stop).unwrap();
        card.cycle(&reading, &mut heard).unwrap();
        let end = card.pace.end();
        // It says where it is, and stops before the block is taken.
        let reading = card.wait(&stop).unwrap();
        card.pcm.halt();
        assert_eq!(card.cycle(&reading, &mut heard), Err(Trouble::Stopped));
        assert_eq!((heard.0.len(), card.pace.end()), (1, end), "nothing of it was heard or booked");
        card.start(&stop).unwrap();
        let reading = card.wait(&stop).unwrap();
        card.cycle(&reading, &mut heard).unwrap();
        let [(_, first), (skipped, second)] = heard.0[..] else { panic!("{:?}", heard.0) };
        let apart = Rate::HZ_48000.frames_nearest(second - first) - Frames::new(48);
        assert!(skipped > Frames::ZERO && skipped == apart, "{skipped} of {apart}");
    }
}
