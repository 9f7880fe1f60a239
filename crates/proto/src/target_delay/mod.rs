//! How long to wait: the link offset that lets no more than a chosen share of packets come too late.
//!
//! Loss is not lateness: what never comes has no say here (redundancy is for that), and neither has
//! what came late because this device stood still, since no latency would have helped it.
//!
//! Each packet brings its transit: its arrival less its capture, or less what stands in for that
//! where no clock is mapped. A packet that arrives just after its device has taken a block waits for
//! the next, one period, which is heard the rest of the device's ring later; so a packet is in time
//! at a link offset of transit and ring whatever the phase between the two. How many of the newest
//! packets would have been late at which offset follows, and from that the offset.
//!
//! Memory is of two lengths. What the last ten to twelve seconds ask for is given at once. What the
//! last hundred seconds ask for on top, where rarer events show, is given up to the spread of the
//! last ten: enough for a tail that goes on, not for spikes that have gone. See docs/decisions/0012-depth.md
//! for the other ways that were tried.

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

/// What a depth is chosen by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepthConfig {
    /// The share of packets that may be late.
    pub loss_target: LossTarget,
    /// From the arrival of a packet to its first frame at the DAC at most: the device's ring, and
    /// what the resampler looks ahead.
    pub takes: Span,
    /// The least link offset that can work.
    pub least: Span,
    /// The longest there is room for.
    pub longest: Span,
    /// What is kept until something is measured.
    pub start: Span,
}

/// What became of the link offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Journal {
    /// What was kept until something was measured.
    pub before: Span,
    /// What it was as soon as something was measured.
    pub first: Option<Span>,
    /// Since then.
    pub least: Span,
    /// Since then.
    pub greatest: Span,
    /// How often it rose.
    pub rises: u64,
    /// How often it fell, from one resting point to the next.
    pub falls: u64,
    /// The largest step that was made at once, either way.
    pub largest_step: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DepthState {
    Learning,
    Resting,
    Rising,
    /// Less would do, since this instant.
    Spare(LocalTime),
    Falling(LocalTime),
}

/// Chooses the link offset of one stream. For an ordinary thread: a question takes microseconds.
#[derive(Debug, Clone)]
pub struct Depth {
    config: DepthConfig,
    recent: SlidingHistogram,
    memory: SlidingHistogram,
    /// How long a lost packet may take to be repaired, and how many are lost, in parts of 10⁹.
    repair: Option<Repair>,
    most: Option<Span>,
    offset: Span,
    course: DepthState,
    polled: Option<LocalTime>,
    /// Time in which packets came: what is known does not age while none do.
    passed: LocalTime,
    /// When the first of what is known came, by that time.
    began: LocalTime,
    /// Packets since the last question.
    fresh: u64,
    journal: Journal,
}

impl Depth {
    /// Parts and their length of the shorter memory: 10 to 12 s. Spikes that ended that long ago are
    /// over; what comes back more rarely is ridden out each time it comes.
    const RECENT: (usize, Span) = (5, Span::from_secs(2));
    /// The same of the longer: 100 to 110 s, in which 0.01 % of 1000 packets a second are ten.
    const MEMORY: (usize, Span) = (10, Span::from_secs(10));
    /// Measured once so many packets came, or
    const ENOUGH: u64 = 100;
    /// fewer in this time, at least
    const PATIENCE: Span = Span::from_millis(250);
    const FEW: u64 = 8;
    /// The longer memory knows a tail of so many packets: to a third.
    const KNOWN: u64 = 10;
    /// The longer memory adds this at least if it wants it: a few of a quiet network's deviations.
    const MARGIN: Span = Span::from_micros(250);
    /// What the playout may be off by while its servo pulls it to where it should be.
    const SLACK: Span = Span::from_micros(50);
    /// It does not fall before the shorter memory is full.
    const KNOWN_FOR: Span = Self::RECENT.1.times(Self::RECENT.0 as i64);
    /// By how much less must do before it falls, at least: no wandering by microseconds. The band is
    /// an eighth of the spread; four bands less are taken at once,
    const BAND: Span = Span::from_micros(100);
    /// and one band after this time: the newest packets ask for more and less by chance.
    const PATIENT: Span = Span::from_secs(60);
    /// A rise up to this is made by resampling, too: it is done in a second or so.
    const CREEP: Span = Span::from_micros(200);
    /// How fast it moves by resampling: what the servo pulls by, a third of a cent.
    const PPM: i64 = 180;
    /// A fall that resampling would not end within this time from its beginning is made in a pause,
    const LONG_FALL: Span = Span::from_secs(15);
    /// or, if there was none in this time, by one cut with cross-fades.
    const NO_PAUSE: Span = Span::from_secs(10);

    /// Has measured nothing yet. Allocates; nothing later does.
    pub fn new(config: DepthConfig) -> Self {
        Self {
            recent: SlidingHistogram::new(Self::RECENT.0, Self::RECENT.1),
            memory: SlidingHistogram::new(Self::MEMORY.0, Self::MEMORY.1),
            repair: None,
            most: None,
            offset: config.start,
            course: DepthState::Learning,
            polled: None,
            passed: LocalTime::ZERO,
            began: LocalTime::ZERO,
            fresh: 0,
            journal: Journal::default(),
            config,
        }
    }

    /// Takes the transit of one packet, be it in time or late.
    pub fn observe(&mut self, transit: Span) {
        self.fresh += 1;
        self.recent.record(transit);
        self.memory.record(transit);
    }

    /// Forgets what was measured: another sender, or transits are reckoned from something else from
    /// now on. The link offset stays until something is measured anew.
    pub fn forget(&mut self) {
        self.recent.clear();
        self.memory.clear();
        self.course = DepthState::Learning;
        self.began = self.passed;
    }

    /// What is kept until something is measured, where that became known later. Once something was
    /// measured that stands.
    pub(crate) fn start_at(&mut self, offset: Span) {
        if self.journal.first.is_none() {
            self.offset = offset.max(self.config.least).min(self.longest());
        }
    }

    pub(crate) fn set_device(&mut self, takes: Span, least: Span) {
        (self.config.takes, self.config.least) = (takes, least);
    }

    /// No more than this is kept from now on, whatever packets ask for: what comes later is late. Nothing is as much as
    /// there is room for. Where the way itself takes longer nothing would be in time, and no less would be heard sooner:
    /// there it is a fifth of this more than the fastest of the last ten seconds need, until a packet shows that the way
    /// takes less.
    pub(crate) fn set_most(&mut self, most: Option<Span>) {
        self.most = most;
        self.offset = self.offset.min(self.longest());
    }

    fn longest(&self) -> Span {
        let DepthConfig { takes, least, longest, .. } = self.config;
        let Some(most) = self.most else { return longest };
        let fastest = self.recent.all().least().map(|fastest| fastest + takes);
        let way = fastest.map_or(enough_latency(least), |fastest| fastest + most.divided(5));
        most.max(way).min(longest)
    }

    /// Of all packets `lost` (in parts of 10⁹) do not come by themselves, and each is repaired within
    /// `budget` of its own departure if at all: as long as more are lost than may be, a repaired one
    /// is waited for like any other, so that repair gets its budget.
    pub(crate) fn set_repair(&mut self, budget: Span, lost: u32) {
        self.repair = Repair::new(budget, lost);
    }

    /// The link offset that is being kept.
    pub const fn offset(&self) -> Span {
        self.offset
    }

    /// What became of it.
    pub const fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The link offset that the newest packets ask for; `None` before there are any.
    pub fn wanted(&self) -> Option<Span> {
        let (recent, memory) = (self.recent.all(), self.memory.all());
        let target = self.config.loss_target;
        let tail = recent.exceeded_by(self.allowed_recently())?;
        let margin = (tail - recent.least()?).max(Self::MARGIN);
        let known = memory.exceeded_by(target.allowed(memory.count()))?;
        let transit = known.min(tail + margin).max(tail);
        let repaired = self.repair.and_then(|repair| repair.transit(recent, target));
        let transit = repaired.map_or(transit, |repaired| transit.max(repaired));
        let wanted = transit + self.config.takes + Self::SLACK;
        Some(wanted.max(self.config.least).min(self.longest()))
    }

    /// How many of the newest packets may be late. Once the longer memory knows the tail, as many more
    /// as chance brings in one of forty such stretches (two standard deviations of a Poisson
    /// distribution): they do not say that the network changed.
    fn allowed_recently(&self) -> u64 {
        let (target, count) = (self.config.loss_target, self.recent.all().count());
        if target.allowed(self.memory.all().count()) < Self::KNOWN {
            return target.allowed(count);
        }
        let expected = count as f64 * f64::from(target.parts()) / 1e9;
        (expected + 2.0 * expected.sqrt()) as u64
    }

    /// Moves on, and tells the link offset if it is another than before. `quiet` says that the sound
    /// is in a pause, where a jump is not heard. Ask some fifty times a second.
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
        // A way that took longer may do so no more.
        let longest = self.longest();
        if self.most.is_some_and(|most| longest <= most) {
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
            self.journal.least = self.journal.least.min(self.offset);
        }
        (self.offset != before).then_some(self.offset)
    }

    fn learn(&mut self, wanted: Span) {
        let count = self.recent.all().count();
        let waited = self.passed - self.began >= Self::PATIENCE;
        if count < Self::ENOUGH && !(waited && count >= Self::FEW) {
            return;
        }
        let (before, wanted) = (self.offset, self.rest(wanted));
        // A tenth of a second has not seen much, and a cut is heard: what resampling can come down by
        // is left to it.
        let near = before - wanted <= Self::LONG_FALL.times(Self::PPM).divided(1_000_000);
        let first = if near { before.max(wanted) } else { wanted };
        (self.offset, self.course) = (first, DepthState::Resting);
        if self.journal.first.is_none() {
            let (least, greatest) = (first, first);
            self.journal = Journal { before, first: Some(first), least, greatest, ..self.journal };
        }
    }

    fn rise(&mut self, wanted: Span, step: Span) {
        self.journal.rises += u64::from(self.course != DepthState::Rising);
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
                self.journal.falls += 1;
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

    /// Where it comes to rest: a little above what is wanted, lest it move again and again.
    fn rest(&self, wanted: Span) -> Span {
        let spare = if wanted > self.config.least { self.band(wanted).half() } else { Span::ZERO };
        (wanted + spare).min(self.longest())
    }

    /// How much too long the link offset must be before it falls.
    fn band(&self, wanted: Span) -> Span {
        let least = self.recent.all().least().unwrap_or(Span::ZERO);
        (wanted - self.config.takes - least).divided(8).max(Self::BAND)
    }
}

/// How packets that do not come by themselves are brought back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Repair {
    /// Within so much time of their own departure.
    budget: Span,
    /// How many they are, in parts of 10⁹.
    lost: u32,
}

impl Repair {
    /// `None` where nothing is brought back.
    fn new(budget: Span, lost: u32) -> Option<Self> {
        (budget > Span::ZERO).then_some(Self { budget, lost })
    }

    /// The transit, repair included, that all but the allowed share of packets do not exceed if so
    /// many are lost: those late among the lost are late at most. `None` where that share allows all
    /// losses.
    fn transit(self, transits: &Histogram, target: LossTarget) -> Option<Span> {
        let target = target.parts();
        if self.lost <= target {
            return None;
        }
        let allowed = u128::from(transits.count()) * u128::from(target) / u128::from(self.lost);
        Some(transits.exceeded_by(allowed as u64)? + self.budget)
    }
}

/// A histogram that forgets: of as many parts as it remembers at a time, the oldest goes when a new
/// one begins.
#[derive(Debug, Clone)]
struct SlidingHistogram {
    parts: Box<[Histogram]>,
    all: Histogram,
    newest: usize,
    opened: Option<LocalTime>,
    length: Span,
}

impl SlidingHistogram {
    /// Remembers `parts` of `length`, and the one that is being filled. Allocates; nothing later
    /// does.
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

    /// Forgets what is too old at `now`.
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
    fn a_window_remembers_its_parts_and_forgets_what_is_older() {
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
