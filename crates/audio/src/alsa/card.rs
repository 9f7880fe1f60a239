use tautline_io::clock::{self, host_clock};
use tautline_io::thread::realtime;
use tautline_proto::clock::{ClockId, HostClock};
use tautline_proto::device::{
    Cycle, Device, Direction, Ended, Flow, Process, Settings, Side, Stop,
};
use tautline_proto::time::{Frames, LocalTime, Span};

use crate::alsa::pace::{Block, PcmPace};
use crate::alsa::pcm::{CardPcm, PcmError, Reading, hush};
use crate::alsa::refuse::CardErrors;
use crate::alsa::spec::Wakeup;
use crate::toolbox::PreparedNote;

/// Timeout for a silent card; typical host stalls are a tenth of it.
const SILENT: Span = Span::from_millis(500);
const ASLEEP: (Span, u32) = (Span::from_millis(10), 500);
const VAIN: u32 = 20;

pub(super) struct Card {
    ends: Vec<CardSide>,
    settings: Settings,
    wakeup: Wakeup,
    timer: Option<ClockId>,
    losses: CardErrors,
    timed: PreparedNote,
    starts: u32,
    xruns: u32,
}

impl Card {
    /// Creates a card; two ends start and stop together if possible.
    pub(super) fn new(
        mut ends: Vec<CardSide>,
        settings: Settings,
        wakeup: Wakeup,
        losses: CardErrors,
        timed: PreparedNote,
    ) -> Self {
        if let [capture, playback] = &mut ends[..] {
            playback.pace.go_beside_capture();
            let _linked = capture.pcm.link(&playback.pcm);
        }
        let timer = host_clock().map(HostClock::id);
        let (starts, xruns) = (0, 0);
        Self { ends, settings, wakeup, timer, losses, timed, starts, xruns }
    }

    fn start(&mut self, stop: &Stop) -> Result<(), Ended> {
        loop {
            if stop.is_requested() {
                return Err(Ended::Stopped);
            }
            self.starts += 1;
            if self.starts > VAIN {
                return Err(self.gone(PcmError::Stopped));
            }
            let began = clock::now();
            match self.start_ends() {
                Ok(()) => {
                    for end in &mut self.ends {
                        end.pace.start(began, end.pcm.read(false).ok());
                    }
                    return Ok(());
                }
                Err(PcmError::Suspended) => self.awake(stop)?,
                Err(PcmError::Stopped | PcmError::NotReady) => {}
                Err(trouble) => return Err(self.gone(trouble)),
            }
        }
    }

    fn start_ends(&mut self) -> Result<(), PcmError> {
        self.ends.iter().try_for_each(|end| end.pcm.stop())?;
        self.ends.iter().try_for_each(|end| end.pcm.prepare())?;
        self.ends.iter_mut().try_for_each(CardSide::prime)?;
        self.ends.iter().try_for_each(|end| end.pcm.start())
    }

    fn awake(&mut self, stop: &Stop) -> Result<(), Ended> {
        let (between, times) = ASLEEP;
        for _ in 0..times {
            if stop.is_requested() {
                return Err(Ended::Stopped);
            }
            if self.ends.iter().all(|end| end.pcm.resume()) {
                return Ok(());
            }
            clock::sleep_until(clock::now() + between);
        }
        Err(self.gone(PcmError::Suspended))
    }

    fn gone(&mut self, trouble: PcmError) -> Ended {
        Ended::Gone(self.losses.take(trouble))
    }

    fn wait(&mut self, stop: &Stop) -> Result<(), Result<PcmError, Ended>> {
        let limit = clock::now() + SILENT.max(self.span(8));
        self.ends.iter_mut().for_each(|end| end.ready = None);
        let mut woke = false;
        for at in 0..self.ends.len() {
            let mut is_next = at > 0;
            loop {
                let next = std::mem::take(&mut is_next);
                woke = if next { woke } else { self.sleep(at, limit) };
                if stop.is_requested() {
                    return Err(Err(Ended::Stopped));
                }
                if self.look(at, woke)? {
                    break;
                }
                let now = clock::now();
                if now > limit {
                    return Err(Err(self.gone(PcmError::NotReady)));
                }
                if woke && !next {
                    clock::sleep_until(now + self.span(1).divided(8));
                }
            }
        }
        Ok(())
    }

    fn look(&mut self, at: usize, woke: bool) -> Result<bool, Result<PcmError, Ended>> {
        let _realtime = realtime::scope();
        let end = &mut self.ends[at];
        match end.pcm.read(woke) {
            Ok(reading) if end.pace.is_ready(&reading) => end.ready = Some(reading),
            Ok(reading) => end.pace.not_yet(&reading),
            Err(PcmError::NotReady) => {}
            Err(trouble) => return Err(Ok(trouble)),
        }
        Ok(end.ready.is_some())
    }

    fn sleep(&mut self, at: usize, limit: LocalTime) -> bool {
        let (one, two) = (self.span(1), self.span(2));
        let end = &mut self.ends[at];
        if let Some(wakes) = end.pace.wakes(self.wakeup) {
            clock::sleep_until(wakes.min(limit).min(clock::now() + two));
            return false;
        }
        end.pcm.wait(one.max(Span::from_millis(1)))
    }

    fn span(&self, periods: i64) -> Span {
        self.settings.rate.span_of(Frames::new(self.settings.period.count() * periods))
    }

    fn cycle(&mut self, process: &mut dyn Process) -> Result<Flow, PcmError> {
        let _realtime = realtime::scope();
        self.ends.iter_mut().try_for_each(CardSide::take)?;
        let (mut capture, mut playback) = (Side::absent(), Side::absent());
        let (mut now, mut xruns, mut timed) = (LocalTime::ZERO, 0, true);
        for end in &mut self.ends {
            let Some(reading) = end.ready else { return Err(PcmError::NotReady) };
            let met = end.pace.begin(&reading);
            now = now.max(reading.now);
            xruns = met.xruns.max(xruns);
            timed &= end.pace.is_timed();
            match end.direction {
                Direction::Capture => capture = end.side(met),
                Direction::Playback => playback = end.side(met),
            }
        }
        if timed {
            self.timed.arises();
        }
        let xruns = std::mem::take(&mut self.xruns) + xruns;
        let clock = self.timer.filter(|_| timed);
        let flow = process.process(&mut Cycle { now, capture, playback, xruns, clock });
        self.ends.iter_mut().try_for_each(CardSide::give)?;
        self.starts = 0;
        Ok(flow)
    }

    fn go(&mut self, process: &mut dyn Process, stop: &Stop) -> Result<Ended, Ended> {
        self.start(stop)?;
        loop {
            let cycle = match self.wait(stop) {
                Ok(()) => self.cycle(process),
                Err(trouble) => Err(trouble?),
            };
            match cycle {
                Ok(Flow::Continue) => {}
                Ok(Flow::Finished) => {
                    self.play_out();
                    return Ok(Ended::Finished);
                }
                Err(trouble @ (PcmError::Unplugged | PcmError::Refused(_))) => {
                    return Err(self.gone(trouble));
                }
                Err(trouble) => {
                    self.xruns += 1;
                    if trouble == PcmError::Suspended {
                        self.awake(stop)?;
                    }
                    self.start(stop)?;
                }
            }
        }
    }

    fn play_out(&self) {
        let plays = self.ends.iter().find(|end| end.direction == Direction::Playback);
        if let Some(end) = plays.and_then(|end| end.pace.end()) {
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

pub(super) struct CardSide {
    pub(super) direction: Direction,
    pub(super) pcm: CardPcm,
    pub(super) pace: PcmPace,
    block: Box<[f32]>,
    pub(super) ready: Option<Reading>,
}

impl CardSide {
    pub(super) fn new(direction: Direction, pcm: CardPcm) -> Self {
        let settings = pcm.settings();
        let block = vec![0.0; settings.channels.samples_in(settings.period)].into();
        let pace = PcmPace::new(direction, settings);
        Self { direction, pcm, pace, block, ready: None }
    }

    pub(super) fn prime(&mut self) -> Result<(), PcmError> {
        if self.direction == Direction::Playback {
            self.block.fill(0.0);
            self.pcm.fill(&mut self.block)?;
        }
        Ok(())
    }

    pub(super) fn take(&mut self) -> Result<(), PcmError> {
        match self.direction {
            Direction::Capture => self.pcm.transfer(&mut self.block),
            Direction::Playback => {
                self.block.fill(0.0);
                Ok(())
            }
        }
    }

    pub(super) fn side(&mut self, met: Block) -> Side<'_> {
        Side {
            samples: &mut self.block,
            meets: met.meets,
            uncertainty: met.uncertainty,
            skipped: met.skipped,
        }
    }

    pub(super) fn give(&mut self) -> Result<(), PcmError> {
        if self.direction == Direction::Playback {
            self.pcm.transfer(&mut self.block)?;
        }
        if let Some(reading) = self.ready.take() {
            self.pace.finish(&reading);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tautline_proto::units::{Channels, Rate};

    use super::super::params;
    use super::super::pcm::CardPcm;
    use super::super::spec::AlsaSpec;
    use super::*;

    struct Received(Vec<(Frames, LocalTime)>);

    impl Process for Received {
        fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
            let period = Rate::HZ_48000.span_of(Frames::new(48));
            self.0.push((cycle.capture.skipped, cycle.capture.meets + period));
            Flow::Continue
        }
    }

    #[test]
    fn block_that_could_not_be_reserved_is_not_counted() {
        let settings = Settings {
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            period: Frames::new(48),
            periods: 2,
        };
        let spec: AlsaSpec = "null".parse().unwrap();
        let alsa = spec.open(Direction::Capture).unwrap();
        let coding = {
            let (params, coding) = params::narrow(&spec, &alsa, settings).unwrap();
            params::apply(&spec, &alsa, &params, settings).unwrap();
            coding
        };
        let pcm = CardPcm::new(alsa, false, Direction::Capture, settings, coding).unwrap();
        let losses =
            (CardErrors::new(&spec), crate::toolbox::Notes::default().prepare(String::new()));
        let ends = vec![CardSide::new(Direction::Capture, pcm)];
        let mut card = Card::new(ends, settings, Wakeup::Card, losses.0, losses.1);
        let (stop, mut received) = (Stop::default(), Received(Vec::with_capacity(8)));
        card.start(&stop).unwrap();
        card.wait(&stop).unwrap();
        card.cycle(&mut received).unwrap();
        let end = card.ends[0].pace.end();
        card.wait(&stop).unwrap();
        card.ends[0].pcm.halt();
        assert_eq!(card.cycle(&mut received), Err(PcmError::Stopped));
        assert_eq!(
            (received.0.len(), card.ends[0].pace.end()),
            (1, end),
            "nothing of it was heard or counted"
        );
        card.start(&stop).unwrap();
        card.wait(&stop).unwrap();
        card.cycle(&mut received).unwrap();
        let [(_, first), (skipped, second)] = received.0[..] else { panic!("{:?}", received.0) };
        let apart = Rate::HZ_48000.frames_nearest(second - first) - Frames::new(48);
        assert!(skipped > Frames::ZERO && skipped == apart, "{skipped} of {apart}");
    }
}
