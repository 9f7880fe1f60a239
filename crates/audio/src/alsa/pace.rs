//! Pace of a PCM, without I/O: its card's, or the host's for `null`, `file` and the like, which
//! wait up to 1 s for a late program.

use tautline_proto::card_clock::{CardClock, CardRing};
use tautline_proto::card_line::CardLine;
use tautline_proto::device::{Direction, Settings};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Ppm;

use super::pcm::Reading;
use super::spec::Wakeup;

/// Maximum age of a timestamp. Older timestamps belong to another clock.
const FAR: Span = Span::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) meets: LocalTime,
    pub(super) uncertainty: Span,
    pub(super) skipped: Frames,
    pub(super) xruns: u32,
}

#[derive(Debug)]
pub(super) struct PcmPace {
    direction: Direction,
    settings: Settings,
    line: CardLine,
    timer: Option<CardRing>,
    beside_capture: bool,
    started: LocalTime,
    moved: i64,
    ready: LocalTime,
}

impl PcmPace {
    pub(super) fn new(direction: Direction, settings: Settings) -> Self {
        let line = CardLine::new(settings.rate, settings.rate.span_of(Frames::new(1)));
        Self {
            direction,
            settings,
            line,
            timer: None,
            beside_capture: false,
            started: LocalTime::ZERO,
            moved: 0,
            ready: LocalTime::ZERO,
        }
    }

    pub(super) fn go_beside_capture(&mut self) {
        self.beside_capture = self.direction == Direction::Playback;
    }

    fn buffer(&self) -> i64 {
        self.settings.period.count() * i64::from(self.settings.periods)
    }

    pub(super) fn start(&mut self, began: LocalTime, reading: Option<Reading>) {
        self.started = began;
        self.line.restart();
        self.moved = match self.direction {
            Direction::Capture => 0,
            Direction::Playback => self.buffer(),
        };
        self.ready = began + self.settings.rate.span_of(self.settings.period);
        if reading.is_some_and(|reading| self.is_ahead(&reading)) {
            self.take_over(began);
        }
    }

    /// Whether the PCM is too fast for a card: half a buffer ahead.
    fn is_ahead(&self, reading: &Reading) -> bool {
        let passed = self.settings.rate.frames_within(reading.now - self.started).count();
        let reached = match self.direction {
            Direction::Capture => self.moved + reading.avail.count(),
            Direction::Playback => self.position(reading),
        };
        reached - passed - passed / 8 >= self.buffer() / 2
    }

    fn take_over(&mut self, now: LocalTime) {
        self.line.restart();
        let Settings { rate, period, .. } = self.settings;
        let begins = if self.beside_capture { now + rate.span_of(period) } else { now };
        let clock = CardClock::new(begins, rate, Ppm::ZERO);
        self.timer = Some(CardRing::new(self.direction, clock, &self.settings));
    }

    pub(super) fn is_timed(&self) -> bool {
        self.timer.is_some()
    }

    fn position(&self, reading: &Reading) -> i64 {
        match self.direction {
            Direction::Capture => self.moved + reading.delay.count(),
            Direction::Playback => self.moved - reading.delay.count(),
        }
    }

    pub(super) fn wakes(&self, wakeup: Wakeup) -> Option<LocalTime> {
        match (&self.timer, wakeup) {
            (Some(timer), _) => Some(timer.wakes()),
            (None, Wakeup::Timer) => Some(self.ready),
            (None, Wakeup::Card) => None,
        }
    }

    pub(super) fn is_ready(&self, reading: &Reading) -> bool {
        let due = self.timer.as_ref().is_none_or(|timer| reading.now >= timer.wakes());
        due && reading.avail >= self.settings.period
    }

    pub(super) fn not_yet(&mut self, reading: &Reading) {
        self.expect(reading);
        // The position may move in steps and lag the timestamp.
        let soon = self.settings.rate.span_of(self.settings.period).divided(8);
        self.ready = self.ready.max(reading.now + soon);
    }

    fn expect(&mut self, reading: &Reading) {
        let since = reading.stamp.filter(|&stamp| self.is_near(stamp, reading));
        let missing = self.settings.period - reading.avail;
        self.ready = since.unwrap_or(reading.now) + self.settings.rate.span_of(missing);
    }

    fn is_near(&self, stamp: LocalTime, reading: &Reading) -> bool {
        (reading.now - stamp).abs() < FAR && stamp <= reading.now
    }

    pub(super) fn begin(&mut self, reading: &Reading) -> Block {
        if self.timer.is_none() && self.is_ahead(reading) {
            self.take_over(reading.now);
        }
        let frame = self.moved;
        let period = self.settings.period;
        if let Some(timer) = &mut self.timer {
            let turn = timer.begin(reading.now);
            let met = self.line.meet(frame, period, turn.meets);
            let skipped = turn.skipped + met.skipped;
            let xruns = u32::from(turn.skipped > Frames::ZERO);
            let (meets, uncertainty) = (met.meets, CardClock::UNCERTAINTY);
            return Block { meets, uncertainty, skipped, xruns };
        }
        self.observe(reading);
        let met = self.line.meet(frame, period, reading.now);
        Block { meets: met.meets, uncertainty: met.uncertainty, skipped: met.skipped, xruns: 0 }
    }

    /// A kernel timestamp belongs to the position; a driver's delay is current. Without timestamps
    /// a position may be a period old.
    fn observe(&mut self, reading: &Reading) {
        let held = match self.direction {
            Direction::Capture => reading.avail.count(),
            Direction::Playback => self.buffer() - reading.avail.count(),
        };
        let frame = Frames::new(1);
        let stamp = reading.stamp.filter(|&stamp| self.is_near(stamp, reading));
        let (at, age) = match stamp {
            Some(stamp) if held == reading.delay.count() => (stamp, frame),
            Some(_) => (reading.now, frame),
            None => (reading.now, self.settings.period),
        };
        self.line.set_grain(self.settings.rate.span_of(age));
        self.line.observe(self.position(reading), at);
    }

    pub(super) fn finish(&mut self, reading: &Reading) {
        self.moved += self.settings.period.count();
        if let Some(timer) = &mut self.timer {
            timer.finish(reading.now);
        }
        let avail = reading.avail - self.settings.period;
        self.expect(&Reading { avail, ..*reading });
    }

    pub(super) fn end(&self) -> Option<LocalTime> {
        self.line.end()
    }
}
