//! Adaptive jitter-buffer delay: the minimum link offset with a given share of late packets.
//!
//! Lost packets do not count: redundancy handles them. Nor do packets that this device delayed.
//!
//! A packet that just misses a block waits one period. So it is in time at any phase if the link
//! offset is at least transit (arrival minus capture) plus ring.
//!
//! The offset covers the need of the last ten seconds. Rarer events of the last hundred add at most
//! the spread of the last ten. Alternatives: docs/internals/decisions/0012-depth.md.

mod curve;
mod histogram;
mod target;

#[cfg(test)]
mod tests;

use crate::latency::enough_latency;
use crate::time::{LocalTime, Span};

pub use curve::{Advice, CurvePoint};
pub use histogram::Histogram;
pub use target::{LossTarget, TargetError};

/// Configuration of `Depth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepthConfig {
    /// Accepted share of late packets.
    pub loss_target: LossTarget,
    /// Maximum time from arrival to the DAC: ring and resampler look-ahead.
    pub takes: Span,
    /// Minimum link offset.
    pub minimum: Span,
    /// Maximum link offset.
    pub longest: Span,
    /// Initial link offset.
    pub start: Span,
}

/// History of the link offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Journal {
    /// Value before any measurement.
    pub before: Span,
    /// First value after a measurement.
    pub first: Option<Span>,
    /// Minimum since then.
    pub minimum: Span,
    /// Maximum since then.
    pub greatest: Span,
    /// Number of rises.
    pub increases: u64,
    /// Number of falls.
    pub decreases: u64,
    /// Largest step in either direction.
    pub largest_step: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DepthState {
    Learning,
    Resting,
    Rising,
    /// A lower offset would suffice since this time.
    Spare(LocalTime),
    Falling(LocalTime),
}

/// Link offset of one stream, for an ordinary thread: a query takes microseconds.
#[derive(Debug, Clone)]
pub struct Depth {
    config: DepthConfig,
    recent: SlidingHistogram,
    memory: SlidingHistogram,
    repair: Option<Repair>,
    maximum: Option<Span>,
    offset: Span,
    course: DepthState,
    polled: Option<LocalTime>,
    /// Time with arriving packets: without them, the memories do not age.
    passed: LocalTime,
    began: LocalTime,
    fresh: u64,
    /// Offset before a rise in the first measurement.
    begun: Option<Span>,
    journal: Journal,
}

impl Depth {
    /// Parts of the short memory, and the duration of each. Rarer spikes raise the offset each
    /// time.
    const RECENT: (usize, Span) = (5, Span::from_secs(2));
    /// Parts of the long memory, and the duration of each. At 1000 packets per second, 0.01 % are
    /// ten packets.
    const MEMORY: (usize, Span) = (10, Span::from_secs(10));
    const ENOUGH: u64 = 100;
    /// `FEW` packets suffice after this time.
    const TIMEOUT: Span = Span::from_millis(250);
    const FEW: u64 = 8;
    /// Packets in the tail that make the long memory reliable to a third.
    const KNOWN: u64 = 10;
    /// Minimum addition of the long memory: a few standard deviations of a quiet network.
    const MARGIN: Span = Span::from_micros(250);
    /// Playout error while the servo corrects it.
    const SLACK: Span = Span::from_micros(50);
    /// Time before a fall, so that the short memory is full.
    const KNOWN_FOR: Span = Self::RECENT.1.times(Self::RECENT.0 as i64);
    /// Minimum fall. The band is an eighth of the spread. An excess of four bands falls
    /// immediately.
    const BAND: Span = Span::from_micros(100);
    /// Wait before a fall by one band, as the need varies by chance.
    const PATIENT: Span = Span::from_secs(60);
    /// Maximum rise by resampling. Larger rises are steps.
    const CREEP: Span = Span::from_micros(200);
    /// Rate of resampling: the servo's maximum, a third of a cent.
    const PPM: i64 = 180;
    /// Maximum duration of a fall by resampling. Longer falls wait for a pause.
    const LONG_FALL: Span = Span::from_secs(15);
    /// Maximum wait for a pause. Then follows a cut with cross-fades.
    const NO_PAUSE: Span = Span::from_secs(10);

    /// Creates a state without measurements. Only this function allocates.
    pub fn new(config: DepthConfig) -> Self {
        Self {
            recent: SlidingHistogram::new(Self::RECENT.0, Self::RECENT.1),
            memory: SlidingHistogram::new(Self::MEMORY.0, Self::MEMORY.1),
            repair: None,
            maximum: None,
            offset: config.start,
            course: DepthState::Learning,
            polled: None,
            passed: LocalTime::ZERO,
            began: LocalTime::ZERO,
            fresh: 0,
            begun: None,
            journal: Journal::default(),
            config,
        }
    }

    /// Adds a packet's transit time, late or not.
    pub fn observe(&mut self, transit: Span) {
        self.fresh += 1;
        self.recent.record(transit);
        self.memory.record(transit);
    }

    /// Discards all measurements and keeps the link offset until the next.
    pub fn forget(&mut self) {
        self.recent.clear();
        self.memory.clear();
        self.course = DepthState::Learning;
        self.begun = None;
        self.began = self.passed;
    }

    pub(crate) fn start_at(&mut self, offset: Span) {
        if self.journal.first.is_none() {
            self.offset = offset.max(self.config.minimum).min(self.longest());
        }
    }

    pub(crate) fn set_device(&mut self, takes: Span, minimum: Span) {
        (self.config.takes, self.config.minimum) = (takes, minimum);
    }

    /// Sets the maximum link offset.
    ///
    /// If the path itself takes longer, the maximum is the need of the fastest packet in the last
    /// ten seconds, plus a fifth of `maximum`.
    pub(crate) fn set_max(&mut self, maximum: Option<Span>) {
        self.maximum = maximum;
        self.offset = self.offset.min(self.longest());
    }

    fn longest(&self) -> Span {
        let DepthConfig { takes, minimum, longest, .. } = self.config;
        let Some(maximum) = self.maximum else { return longest };
        let fastest = self.recent.all().minimum().map(|fastest| fastest + takes);
        let way = fastest.map_or(enough_latency(minimum), |fastest| fastest + maximum.divided(5));
        maximum.max(way).min(longest)
    }

    /// Sets the repair time `budget` of `lost` packets (10⁻⁹). It applies while losses exceed the
    /// target.
    pub(crate) fn set_repair(&mut self, budget: Span, lost: u32) {
        self.repair = Repair::new(budget, lost);
    }

    /// Current link offset.
    pub const fn offset(&self) -> Span {
        self.offset
    }

    /// History of the link offset.
    pub const fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Whether the link offset includes repair time: losses exceed the target.
    pub fn has_repair(&self) -> bool {
        self.repair.is_some_and(|repair| repair.is_needed(self.config.loss_target))
    }

    /// Link offset that the newest packets need.
    pub fn wanted(&self) -> Option<Span> {
        let (recent, memory) = (self.recent.all(), self.memory.all());
        let target = self.config.loss_target;
        let tail = recent.exceeded_by(self.allowed_recently())?;
        let margin = (tail - recent.minimum()?).max(Self::MARGIN);
        let known = memory.exceeded_by(target.allowed(memory.count()))?;
        let transit = known.min(tail + margin).max(tail);
        let repaired = self.repair.and_then(|repair| repair.transit(recent, target));
        let transit = repaired.map_or(transit, |repaired| transit.max(repaired));
        let wanted = transit + self.config.takes + Self::SLACK;
        Some(wanted.max(self.config.minimum).min(self.longest()))
    }

    /// If the long memory knows the tail, adds two standard deviations of a Poisson distribution:
    /// exceeded once in forty.
    fn allowed_recently(&self) -> u64 {
        let (target, count) = (self.config.loss_target, self.recent.all().count());
        if target.allowed(self.memory.all().count()) < Self::KNOWN {
            return target.allowed(count);
        }
        let expected = count as f64 * f64::from(target.parts()) / 1e9;
        (expected + 2.0 * expected.sqrt()) as u64
    }

    /// Returns the link offset if it changed. `quiet` allows an inaudible jump. Call about fifty
    /// times per second.
    pub fn poll(&mut self, now: LocalTime, quiet: bool) -> Option<Span> {
        let since = self.polled.replace(now).map_or(Span::ZERO, |before| now - before);
        if core::mem::take(&mut self.fresh) == 0 {
            return None;
        }
        let since = since.max(Span::ZERO).min(Span::from_secs(1));
        self.passed += since;
        self.recent.roll(self.passed);
        self.memory.roll(self.passed);
        let before = self.offset;
        let wanted = self.wanted()?;
        let longest = self.longest();
        if self.maximum.is_some_and(|maximum| longest <= maximum) {
            self.offset = self.offset.min(longest);
        }
        let step = since.times(Self::PPM).divided(1_000_000);
        match self.course {
            DepthState::Learning => self.learn(wanted),
            DepthState::Rising => self.rise(wanted, step),
            _ if wanted > self.offset => self.rise(wanted, step),
            _ => self.fall(wanted, step, quiet),
        }
        if self.course != DepthState::Learning {
            self.journal.greatest = self.journal.greatest.max(self.offset);
            self.journal.minimum = self.journal.minimum.min(self.offset);
        }
        (self.offset != before).then_some(self.offset)
    }

    fn learn(&mut self, wanted: Span) {
        let count = self.recent.all().count();
        let waited = self.passed - self.began >= Self::TIMEOUT;
        if count < Self::ENOUGH && !(waited && count >= Self::FEW) {
            // On a path longer than the offset, all packets are late until it rises.
            if count >= Self::FEW && wanted > self.offset {
                self.begun.get_or_insert(self.offset);
                self.offset = self.rest(wanted);
            }
            return;
        }
        let (before, wanted) = (self.begun.unwrap_or(self.offset), self.rest(wanted));
        // The first measurement is short, and cuts are audible.
        let near = before - wanted <= Self::LONG_FALL.times(Self::PPM).divided(1_000_000);
        let first = if near { before.max(wanted) } else { wanted };
        (self.offset, self.course) = (first, DepthState::Resting);
        if self.journal.first.is_none() {
            let (minimum, greatest) = (first, first);
            self.journal =
                Journal { before, first: Some(first), minimum, greatest, ..self.journal };
        }
    }

    fn rise(&mut self, wanted: Span, step: Span) {
        self.journal.increases += u64::from(self.course != DepthState::Rising);
        let rise = self.rest(wanted) - self.offset;
        if rise > Self::CREEP {
            self.journal.largest_step = self.journal.largest_step.max(rise);
            self.offset += rise;
        } else {
            self.offset += rise.max(Span::ZERO).min(step);
        }
        let creeps = rise > step && rise <= Self::CREEP;
        self.course = if creeps { DepthState::Rising } else { DepthState::Resting };
    }

    fn fall(&mut self, wanted: Span, step: Span, quiet: bool) {
        if self.passed - self.began < Self::KNOWN_FOR {
            self.course = DepthState::Resting;
            return;
        }
        let (excess, band) = (self.offset - wanted, self.band(wanted));
        let since = match self.course {
            DepthState::Falling(since) => since,
            course => {
                let spare = if let DepthState::Spare(since) = course { since } else { self.passed };
                let patient = self.passed - spare >= Self::PATIENT;
                if excess <= band || (excess <= band.times(4) && !patient) {
                    let resting = excess <= band;
                    self.course =
                        if resting { DepthState::Resting } else { DepthState::Spare(spare) };
                    return;
                }
                self.journal.decreases += 1;
                self.passed
            }
        };
        let excess = (self.offset - self.rest(wanted)).max(Span::ZERO);
        let waited = self.passed - since;
        let left = Self::LONG_FALL - waited;
        let long = excess > left.max(Span::ZERO).times(Self::PPM).divided(1_000_000);
        let at_once = quiet || (long && waited >= Self::NO_PAUSE);
        let fall = if at_once { excess } else { excess.min(step) };
        if at_once {
            self.journal.largest_step = self.journal.largest_step.max(fall);
        }
        self.offset = self.offset - fall;
        self.course = if fall < excess { DepthState::Falling(since) } else { DepthState::Resting };
    }

    /// Slightly above `wanted`, against repeated changes.
    fn rest(&self, wanted: Span) -> Span {
        let spare =
            if wanted > self.config.minimum { self.band(wanted).half() } else { Span::ZERO };
        (wanted + spare).min(self.longest())
    }

    fn band(&self, wanted: Span) -> Span {
        let minimum = self.recent.all().minimum().unwrap_or(Span::ZERO);
        (wanted - self.config.takes - minimum).divided(8).max(Self::BAND)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Repair {
    budget: Span,
    lost: u32,
}

impl Repair {
    fn new(budget: Span, lost: u32) -> Option<Self> {
        (budget > Span::ZERO).then_some(Self { budget, lost })
    }

    /// Whether the losses exceed the target.
    fn is_needed(self, target: LossTarget) -> bool {
        self.lost > target.parts()
    }

    /// Transit plus repair time, with the target share of losses unrepaired.
    fn transit(self, transits: &Histogram, target: LossTarget) -> Option<Span> {
        if !self.is_needed(target) {
            return None;
        }
        let target = target.parts();
        let allowed = u128::from(transits.count()) * u128::from(target) / u128::from(self.lost);
        Some(transits.exceeded_by(allowed as u64)? + self.budget)
    }
}

/// Histogram of the most recent time.
#[derive(Debug, Clone)]
struct SlidingHistogram {
    parts: Box<[Histogram]>,
    all: Histogram,
    newest: usize,
    opened: Option<LocalTime>,
    length: Span,
}

impl SlidingHistogram {
    /// Creates `parts` of `length`, plus the current one. Only this function allocates.
    fn new(parts: usize, length: Span) -> Self {
        Self {
            parts: (0..=parts).map(|_| Histogram::default()).collect(),
            all: Histogram::default(),
            newest: 0,
            opened: None,
            length,
        }
    }

    fn record(&mut self, span: Span) {
        self.parts[self.newest].record(span);
        self.all.record(span);
    }

    fn roll(&mut self, now: LocalTime) {
        let opened = *self.opened.get_or_insert(now);
        let passed = (now - opened).as_nanos() / self.length.as_nanos();
        for _ in 0..passed.clamp(0, self.parts.len() as i64) {
            self.newest = (self.newest + 1) % self.parts.len();
            self.all.take_back(&self.parts[self.newest]);
            self.parts[self.newest].clear();
        }
        self.opened = Some(opened + self.length.times(passed));
    }

    fn clear(&mut self) {
        self.parts.iter_mut().for_each(Histogram::clear);
        self.all.clear();
    }

    const fn all(&self) -> &Histogram {
        &self.all
    }
}

#[cfg(test)]
mod window_tests {
    use super::*;

    #[test]
    fn window_forgets_older_parts() {
        let at = |seconds| LocalTime::ZERO + Span::from_secs(seconds);
        let mut window = SlidingHistogram::new(3, Span::from_secs(1));
        for second in 0..20 {
            window.roll(at(second));
            window.record(Span::from_millis(second));
            assert_eq!(window.all().count(), 4.min(second as u64 + 1));
        }
        assert_eq!(window.all().beyond(Span::from_millis(16)), 4);
        window.roll(at(100));
        assert_eq!(window.all().count(), 0);
    }
}
