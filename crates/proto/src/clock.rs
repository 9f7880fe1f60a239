//! Mapping one clock to another: a peer's wall clock to ours by timed exchanges, and a stream's
//! media time to the clock of its sender.
//!
//! A mapping is a value with an offset and an **uncertainty**. The uncertainty is a bound, not a
//! guess: half the round trip of the exchange it came from, because the asymmetry of a path cannot
//! be seen from its ends, plus what the peer's reply was rounded to, plus what two clocks may
//! drift apart while the exchange ages.

use core::fmt;
use core::ops::{Add, Sub};

use crate::time::{LocalTime, MediaTime, Span};
use crate::units::{Rate, scale};

/// An instant on some host's wall clock as RTCP carries it: nanoseconds since the Unix epoch.
///
/// Steady: every host derives it from its monotonic clock and an offset frozen at the start of a
/// stream, so it says nothing about the true time of day.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WallTime(i64);

impl WallTime {
    /// `nanos` nanoseconds after the Unix epoch.
    pub const fn from_unix_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds after the Unix epoch.
    pub const fn as_unix_nanos(self) -> i64 {
        self.0
    }

    /// The wall clock of a host at `local`, `offset` being the frozen difference wall − local.
    pub fn of_local(local: LocalTime, offset: Span) -> Self {
        Self((local + offset).as_nanos())
    }
}

impl Add<Span> for WallTime {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.as_nanos()))
    }
}

impl Sub for WallTime {
    type Output = Span;
    fn sub(self, earlier: Self) -> Span {
        Span::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wall {}ns", self.0)
    }
}

/// One question and answer between two hosts (RFC 3611 §4.4 and §4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// Our question left, by our clock.
    pub asked: LocalTime,
    /// It arrived at the peer, by the peer's clock.
    pub peer_received: WallTime,
    /// The peer's answer left, by the peer's clock.
    pub peer_answered: WallTime,
    /// It arrived here, by our clock.
    pub answered: LocalTime,
    /// What the four readings together may be wrong by through rounding and stamping, either way.
    /// In full, not halved: an error that moves the offset by half of itself may shorten the round
    /// trip, and so the bound, by the other half.
    pub reading_error: Span,
}

impl Exchange {
    /// Time on the way, there and back, without the peer's own delay. Never below zero.
    pub fn round_trip(&self) -> Span {
        let span = (self.answered - self.asked) - (self.peer_answered - self.peer_received);
        span.max(Span::ZERO)
    }

    /// The peer's wall clock less our local clock, if both ways took the same time.
    fn offset(&self) -> i64 {
        let there = i128::from(self.peer_received.0) - i128::from(self.asked.as_nanos());
        let back = i128::from(self.peer_answered.0) - i128::from(self.answered.as_nanos());
        ((there + back) / 2) as i64
    }

    fn bound(&self) -> Span {
        self.round_trip().half() + self.reading_error
    }
}

/// How to read a peer's wall clock as an instant here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockMapping {
    /// The peer's wall clock less our local clock, in nanoseconds.
    offset: i64,
    /// How far the mapping may have been from the truth when it was made, either way.
    pub uncertainty: Span,
    /// The round trip of the exchange it rests on.
    pub round_trip: Span,
    /// When it was made; `None` for one that does not age.
    made: Option<LocalTime>,
    /// By how many nanoseconds the clocks may drift apart in a second.
    drift: i64,
}

impl ClockMapping {
    /// A mapping this old says nothing any more: twenty reports of the peer's did not come.
    const LIFE: Span = Span::from_secs(10);

    /// A mapping known by other means than an exchange.
    pub const fn known(offset: Span, uncertainty: Span) -> Self {
        Self {
            offset: offset.as_nanos(),
            uncertainty,
            round_trip: Span::ZERO,
            made: None,
            drift: 0,
        }
    }

    /// When the peer's clock showed `wall`, by ours.
    pub fn local(&self, wall: WallTime) -> LocalTime {
        LocalTime::from_nanos(wall.0.saturating_sub(self.offset))
    }

    /// How far the mapping may be from the truth at `now`: the clocks drift apart from the moment
    /// it was made. `None` once it is too old to be used.
    pub fn uncertainty_at(&self, now: LocalTime) -> Option<Span> {
        let Some(made) = self.made else { return Some(self.uncertainty) };
        let age = (now - made).max(Span::ZERO);
        let drift = grown(age, self.drift);
        (age <= Self::LIFE).then_some(self.uncertainty + drift)
    }

    /// The peer's wall clock less our local clock.
    pub const fn offset(&self) -> Span {
        Span::from_nanos(self.offset)
    }
}

/// Turns exchanges into a mapping: each bounds the truth, which lies where all bounds overlap, and
/// the bound of an old one grows with its age.
///
/// Queueing only ever adds to a round trip, so the shortest of several bounds the most; the growth
/// lets newer, slightly longer ones take its place before drift does harm. How fast a bound grows is
/// what the exchanges themselves allow the two clocks to have drifted, and until they say anything
/// what two free quartz oscillators may.
#[derive(Debug, Clone)]
pub struct ClockEstimator {
    window: [Option<Exchange>; Self::WINDOW],
    next: usize,
    steps: u32,
}

impl ClockEstimator {
    /// Exchanges kept: at two a second, the last eight seconds.
    const WINDOW: usize = 16;
    /// Drift between two hosts' clocks of which nothing is known: 100 ppm, two quartz oscillators
    /// of ±50 ppm each.
    const DRIFT_UNKNOWN: i64 = 100_000;
    /// What a drift that was seen may change by while it is relied on: 2 ppm, as a quartz moves
    /// when a room warms by some degrees.
    const WANDER: i64 = 2_000;
    /// Exchanges closer together say nothing of the drift.
    const APART: Span = Span::from_millis(100);
    /// The mapping is never said to be surer than one reading is: DLRR is rounded to within 7.6 µs,
    /// a third of a frame at 48 kHz.
    const SUREST: Span = Span::from_micros(8);
    /// Drift beyond which two clocks are not slewed but stepped: 500 ppm, the most that a kernel
    /// slews (adjtimex(2)).
    const STEP_PER_SECOND: i64 = 500_000;

    /// Knows nothing yet.
    pub const fn new() -> Self {
        Self { window: [None; Self::WINDOW], next: 0, steps: 0 }
    }

    /// Takes one exchange and gives the mapping as it is now.
    pub fn observe(&mut self, exchange: Exchange) -> ClockMapping {
        if self.contradicts(&exchange) {
            self.window = [None; Self::WINDOW];
            self.steps += 1;
        }
        self.window[self.next] = Some(exchange);
        self.next = (self.next + 1) % Self::WINDOW;
        let now = exchange.answered;
        let drift = self.drift_per_second();
        let best = self
            .window
            .iter()
            .flatten()
            .min_by_key(|kept| aged(kept, now, drift))
            .unwrap_or(&exchange);
        let (offset, uncertainty) =
            self.common(now, drift).unwrap_or_else(|| (best.offset(), aged(best, now, drift)));
        ClockMapping {
            offset,
            uncertainty: uncertainty.max(Self::SUREST),
            round_trip: best.round_trip(),
            made: Some(now),
            drift,
        }
    }

    /// The offset that all exchanges allow, and how far the truth may be from it: each bounds the
    /// truth, so it lies where all bounds overlap, and what is learnt later moves the middle of
    /// that little. `None` where they do not.
    fn common(&self, now: LocalTime, drift: i64) -> Option<(i64, Span)> {
        let bounds = self.window.iter().flatten().map(|kept| {
            let bound = aged(kept, now, drift).as_nanos();
            (kept.offset().saturating_sub(bound), kept.offset().saturating_add(bound))
        });
        let (least, most) = bounds.reduce(|a, b| (a.0.max(b.0), a.1.min(b.1)))?;
        let half = most.saturating_sub(least) / 2;
        (half >= 0 && most >= least).then_some((least + half, Span::from_nanos(half + 1)))
    }

    /// The most that the two clocks drift apart in a second, in nanoseconds: two exchanges bound
    /// the drift between them by how far their offsets and bounds are apart.
    fn drift_per_second(&self) -> i64 {
        let kept = || self.window.iter().flatten();
        let pairs = kept().flat_map(|one| kept().map(move |other| (one, other)));
        let bounds = pairs.filter_map(|(one, other)| {
            let apart = other.asked - one.answered;
            let offset = Span::from_nanos(other.offset().saturating_sub(one.offset())).abs();
            let most = (offset + one.bound() + other.bound()).as_nanos();
            let per_second = i128::from(most) * 1_000_000_000 / i128::from(apart.as_nanos().max(1));
            (apart >= Self::APART).then_some(per_second as i64)
        });
        let seen = bounds.min().unwrap_or(Self::DRIFT_UNKNOWN);
        Self::DRIFT_UNKNOWN.min(seen.saturating_add(Self::WANDER))
    }

    /// How often an exchange contradicted all that was known: the peer's clock was stepped, or
    /// another host answers in its place.
    pub const fn steps(&self) -> u32 {
        self.steps
    }

    fn contradicts(&self, new: &Exchange) -> bool {
        self.window.iter().flatten().any(|kept| {
            let apart = Span::from_nanos(new.offset().saturating_sub(kept.offset())).abs();
            let bound = aged(new, new.answered, Self::STEP_PER_SECOND);
            apart > bound + aged(kept, new.answered, Self::STEP_PER_SECOND)
        })
    }
}

impl Default for ClockEstimator {
    fn default() -> Self {
        Self::new()
    }
}

/// The bound of `exchange` at `now`, grown by `per_second` nanoseconds for each second since it
/// began: the clocks drift apart while the question waits for its answer, too.
fn aged(exchange: &Exchange, now: LocalTime, per_second: i64) -> Span {
    let age = (now - exchange.asked).max(Span::ZERO);
    exchange.bound() + grown(age, per_second)
}

/// What `age` amounts to at `per_second` nanoseconds a second.
fn grown(age: Span, per_second: i64) -> Span {
    const SECOND: i64 = 1_000_000_000;
    // A division of 128 bits takes several times as long, and every block asks.
    let growth = match age.as_nanos().checked_mul(per_second) {
        Some(product) => product / SECOND,
        None => (i128::from(age.as_nanos()) * i128::from(per_second) / i128::from(SECOND)) as i64,
    };
    Span::from_nanos(growth)
}

/// What a reading did to a [`MediaClock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// It agreed, and refined the line.
    Agreed,
    /// It disagreed once; the line stands until another confirms it.
    Doubted,
    /// It disagreed again in the same way: the line starts anew here.
    Jumped,
}

/// The line between a stream's media time and its sender's wall clock: a reference pair that every
/// reading pulls a little closer.
#[derive(Debug, Clone, Copy)]
pub struct MediaClock {
    rate: Rate,
    reference: Option<(MediaTime, WallTime)>,
    doubt: Option<Span>,
}

impl MediaClock {
    /// A reading further off than this is not noise but a new line: one video frame, far above the
    /// jitter of a capture stamp and far below what a pause or a restart does.
    const JUMP: Span = Span::from_millis(20);
    /// Two doubtful readings that agree within this confirm each other.
    const CONFIRM: Span = Span::from_millis(5);
    /// Time constant of the pull, whatever the time between readings: a card 100 ppm off lags by
    /// 6.4 µs, and the jitter of stamps a millisecond apart is cut to a tenth.
    const SETTLING: Span = Span::from_millis(64);
    /// Readings further apart than this (reports instead of packets) pull by no more: a quarter of
    /// their error. The lag grows with their distance, 0.2 ms at half a second and 100 ppm, and
    /// their jitter is cut to two fifths.
    const SPARSE: Span = Span::from_millis(16);

    /// Knows nothing yet.
    pub const fn new(rate: Rate) -> Self {
        Self { rate, reference: None, doubt: None }
    }

    /// Takes one pair of a frame and the instant it was captured.
    pub fn observe(&mut self, media: MediaTime, wall: WallTime) -> Reading {
        let Some((frame, at)) = self.reference else {
            self.reference = Some((media, wall));
            return Reading::Agreed;
        };
        let since = self.rate.span_of(media - frame);
        let predicted = at + since;
        let error = wall - predicted;
        if error.abs() <= Self::JUMP {
            self.doubt = None;
            // One that comes after a later one tells nothing new.
            if since > Span::ZERO {
                let weight = since.min(Self::SPARSE).as_nanos().into();
                let pull = scale(error.as_nanos(), weight, Self::SETTLING.as_nanos().into());
                self.reference = Some((media, predicted + Span::from_nanos(pull)));
            }
            return Reading::Agreed;
        }
        match self.doubt {
            Some(before) if (error - before).abs() <= Self::CONFIRM => {
                self.doubt = None;
                self.reference = Some((media, wall));
                Reading::Jumped
            }
            _ => {
                self.doubt = Some(error);
                Reading::Doubted
            }
        }
    }

    /// When `media` was captured, by the sender's wall clock.
    pub fn wall(&self, media: MediaTime) -> Option<WallTime> {
        self.reference.map(|(frame, wall)| wall + self.rate.span_of(media - frame))
    }

    /// The reference pair, if there is one.
    pub const fn reference(&self) -> Option<(MediaTime, WallTime)> {
        self.reference
    }

    /// Forgets the line.
    pub fn reset(&mut self) {
        *self = Self::new(self.rate);
    }
}
