//! From exchanges to a mapping.

use super::line::{Belief, Line};
use super::{ClockMapping, ClockSource, Exchange};
use crate::time::{LocalTime, Span, WallTime};

/// Turns exchanges into a mapping.
///
/// Queueing only ever adds to a round trip, so an exchange counts the less the longer its round trip
/// is beyond the shortest (minimum-delay selection, made gradual); a Kalman filter makes offset and
/// rate of them. Every exchange also bounds the truth, whatever queued where: the estimate stays
/// where all bounds overlap, and the far end of the overlap is its uncertainty.
///
/// What does not fit is set aside until others like it tell what it is: a clock that was stepped, a
/// path that became longer or shorter, or a lie.
#[derive(Debug, Clone)]
pub struct ClockEstimator {
    window: [Option<KeptExchange>; Self::WINDOW],
    next: usize,
    seen: u32,
    /// The shortest round trip of the present stretch and of the one before.
    least: [f64; 2],
    line: Option<Line>,
    /// What the leg there takes longer than the leg back, as far as changes of the path told.
    lopsided: f64,
    before: Option<Before>,
    /// Set aside, oldest first.
    odd: [Option<KeptExchange>; Self::ODD],
    mapping: Option<ClockMapping>,
    steps: u32,
    path_changes: u32,
    refused: u32,
}

impl ClockEstimator {
    /// Exchanges kept: at two a second, the last sixteen seconds.
    const WINDOW: usize = 32;
    /// Exchanges of a stretch from which the shortest is remembered: half a minute.
    const LONG: u32 = 64;
    /// Exchanges like each other that tell of a change: twelve of a path, whose least delays they are
    /// to tell, five of a clock; and for how long there was no other, which no queue lasts.
    const ODD: usize = 12;
    const ODD_FOR: Span = Span::from_secs(2);
    const ODD_STEPPED: usize = 5;
    /// The first of these, which may have been under way as it changed: there by the old path and
    /// back by the new.
    const ODD_BETWEEN: usize = 2;
    /// Exchanges that contradict all that was known and agree with each other: a step.
    const ODD_CONTRARY: usize = 3;
    /// Before so many, nothing is called odd.
    const FAMILIAR: usize = 20;
    /// Two quartz oscillators of ±50 ppm each; a warming room moves them by 0.03 ppm in the root of a
    /// second.
    const BELIEF: Belief = Belief { rate: 60e-6, wander: 0.03e-6 };
    /// Drift between two hosts' clocks of which nothing is known: 100 ppm.
    const DRIFT_UNKNOWN: f64 = 100e-6;
    /// What a rate that was found may be wrong by beside its deviation, while it is relied on.
    const WANDER: f64 = 1e-6;
    /// Deviations that a rate may be wrong by.
    const DEVIATIONS: f64 = 10.0;
    /// Deviations of the filter that the mapping may still move by.
    const PRECISE: f64 = 3.0;
    /// The mapping is never said to be surer than one reading is: DLRR is rounded to within 7.6 µs,
    /// a third of a frame at 48 kHz.
    const SUREST: Span = Span::from_micros(8);
    /// Drift beyond which two clocks are not slewed but stepped: 500 ppm, the most that a kernel
    /// slews (adjtimex(2)).
    const STEP_RATE: f64 = 500e-6;
    /// What is less than this beside the usual is not odd.
    const LEAST_ODD: f64 = 60_000.0;
    /// A mapping moves to what it should be by no more than this, as a rate: a third of a cent. It
    /// takes a second.
    const SLEW: f64 = 200e-6;

    /// Knows nothing yet.
    pub const fn new() -> Self {
        Self {
            window: [None; Self::WINDOW],
            next: 0,
            seen: 0,
            least: [f64::MAX; 2],
            line: None,
            lopsided: 0.0,
            before: None,
            odd: [None; Self::ODD],
            mapping: None,
            steps: 0,
            path_changes: 0,
            refused: 0,
        }
    }

    /// How often an exchange contradicted all that was known, and others confirmed it: the peer's
    /// clock was stepped, or another host answers in its place.
    pub const fn steps(&self) -> u32 {
        self.steps
    }

    /// How often a leg became longer or shorter, for good.
    pub const fn path_changes(&self) -> u32 {
        self.path_changes
    }

    /// Exchanges that cannot have been, or that fitted nothing and that no others confirmed.
    pub const fn refused(&self) -> u32 {
        self.refused
    }

    /// Takes one exchange and gives the mapping as it is now; `None` where the exchange is not
    /// believed, or not yet.
    pub fn observe(&mut self, exchange: Exchange) -> Option<ClockMapping> {
        if !exchange.is_possible() {
            self.refused = self.refused.saturating_add(1);
            return None;
        }
        let kept = KeptExchange::from(&exchange);
        let Some(mut line) = self.line else {
            self.start(kept);
            return self.map(&kept);
        };
        // What came late tells nothing new.
        if kept.answered < line.at() {
            return None;
        }
        line.advance(kept.answered);
        self.line = Some(line);
        let kept = kept.by(&line);
        let reverted = self.reverts(&kept);
        if !reverted && (self.contradicts(&kept) || self.is_odd(kept.legs, &line)) {
            return self.set_aside(kept).and_then(|()| self.map(&kept));
        }
        self.refuse_odd();
        self.take(kept, line);
        self.map(&kept)
    }

    fn refuse_odd(&mut self) {
        let odd = core::mem::replace(&mut self.odd, [None; Self::ODD]);
        self.refused = self.refused.saturating_add(odd.iter().flatten().count() as u32);
    }

    fn start(&mut self, kept: KeptExchange) {
        let line = Self::begin(&kept);
        self.keep(kept.by(&line));
        self.line = Some(line);
    }

    /// A line through the middle of what the exchange allows.
    fn begin(kept: &KeptExchange) -> Line {
        let here = kept.asked + (kept.answered - kept.asked) / 2;
        let there = kept.received + (kept.left - kept.received) / 2;
        let round_trip = (kept.answered - kept.asked) - (kept.left - kept.received);
        let deviation = round_trip.max(0) as f64 / 2.0 + kept.reading_error;
        let mut line = Line::through(here, there, deviation, Self::BELIEF);
        line.advance(kept.answered);
        line
    }

    fn keep(&mut self, kept: KeptExchange) {
        self.window[self.next] = Some(kept);
        self.next = (self.next + 1) % Self::WINDOW;
        self.seen = self.seen.saturating_add(1);
        let [now, before] = self.least;
        let round_trip = kept.legs.round_trip();
        self.least = if self.seen.is_multiple_of(Self::LONG) {
            [round_trip, now]
        } else {
            [now.min(round_trip), before]
        };
    }

    fn kept(&self) -> impl Iterator<Item = &KeptExchange> {
        self.window.iter().flatten()
    }

    /// The shortest round trip of the last minute.
    fn least(&self) -> f64 {
        self.least[0].min(self.least[1])
    }

    fn take(&mut self, kept: KeptExchange, mut line: Line) {
        // A question that is answered twice was on the way once.
        let again = self.kept().any(|k| k.asked == kept.asked);
        let error = (kept.legs.there - kept.legs.back - self.lopsided) / 2.0;
        let least = self.least().min(kept.legs.round_trip());
        let count = f64::from(self.seen + 1);
        // The shortest of a few round trips is not the shortest there is.
        let mean = self.kept().map(|k| k.legs.round_trip() - least).sum::<f64>()
            / self.kept().count().max(1) as f64;
        let unseen = 1.25 * mean / count.sqrt() + least.max(0.0) / (count * count.sqrt());
        let excess = kept.legs.round_trip() - least + unseen;
        let reading = kept.reading_error / 3.0;
        // An excess lies anywhere between all of it there and all of it back.
        let noise = reading * reading + excess * excess / 12.0;
        line.correct(error, if again { 9.0 * noise } else { noise }, 1.0 / 6.0, 3e9);
        // What the legs took is better known with it than before: of the newest, and while the line is
        // hardly known, of all. A first exchange that waited for a route may have put it far off.
        if self.seen < Self::FAMILIAR as u32 {
            self.window.iter_mut().flatten().for_each(|early| *early = early.by(&line));
        }
        self.keep(kept.by(&line));
        self.line = Some(line);
    }

    fn drift(line: &Line) -> f64 {
        (Self::DEVIATIONS * line.rate_deviation() + Self::WANDER).min(Self::most_drift(line))
    }

    /// What it may be wrong by though somebody chose every delay.
    fn most_drift(line: &Line) -> f64 {
        Self::DRIFT_UNKNOWN + line.rate().abs()
    }

    /// Where the truth can lie beside the line, by all exchanges that are kept and a rate that is
    /// wrong by no more than `drift`: no lower than the first and no higher than the second. The
    /// bounds of an old one have grown.
    fn overlap(&self, line: &Line, drift: f64) -> (f64, f64) {
        let bounds = self.kept().map(|kept| Self::bound(kept, line, drift));
        bounds.fold((f64::MIN, f64::MAX), |a, b| (a.0.max(b.0), a.1.min(b.1)))
    }

    fn bound(kept: &KeptExchange, line: &Line, drift: f64) -> (f64, f64) {
        let legs = kept.legs(line);
        let grown = |at: i64| drift * (line.at() - at).max(0) as f64 + kept.reading_error;
        (-legs.back - grown(kept.answered), legs.there + grown(kept.asked))
    }

    /// Whether no drift of two clocks could lead to this exchange.
    fn contradicts(&self, new: &KeptExchange) -> bool {
        self.kept().any(|old| Self::excludes(old, new))
    }

    fn excludes(old: &KeptExchange, new: &KeptExchange) -> bool {
        let apart = |a: i64, b: i64| b.saturating_sub(a).saturating_abs() as f64 * Self::STEP_RATE;
        let most = |k: &KeptExchange| k.received - k.asked;
        let least = |k: &KeptExchange| k.left - k.answered;
        let error = old.reading_error + new.reading_error;
        let higher =
            least(new).saturating_sub(most(old)) as f64 - error - apart(old.asked, new.answered);
        let lower =
            least(old).saturating_sub(most(new)) as f64 - error - apart(old.answered, new.asked);
        higher > 0.0 || lower > 0.0
    }

    /// The least that either way took, by the exchanges kept, and what is odd beside it.
    fn usual(&self, line: &Line) -> (Legs, f64) {
        let mut trips = [0.0; Self::WINDOW];
        let mut count = 0;
        let mut least = Legs::ENDLESS;
        for kept in self.kept() {
            least = least.least(kept.legs);
            trips[count] = kept.legs.round_trip();
            count += 1;
        }
        let trips = &mut trips[..count];
        trips.sort_unstable_by(f64::total_cmp);
        let spread = trips.get(count / 2).zip(trips.first()).map_or(0.0, |(mid, min)| mid - min);
        (least, Self::LEAST_ODD.max(5.0 * spread) + 4.0 * line.deviation())
    }

    fn is_odd(&self, legs: Legs, line: &Line) -> bool {
        if self.kept().count() < Self::FAMILIAR {
            return false;
        }
        let (least, odd) = self.usual(line);
        (legs.there - least.there).abs() > odd || (legs.back - least.back).abs() > odd
    }

    /// Puts an exchange beside those that are odd; once there are enough of a kind, follows them.
    fn set_aside(&mut self, kept: KeptExchange) -> Option<()> {
        let line = self.line?;
        let count = self.odd.iter().flatten().count();
        if count == Self::ODD {
            self.refused = self.refused.saturating_add(1);
            self.odd.rotate_left(1);
        }
        self.odd[count.min(Self::ODD - 1)] = Some(kept);
        let count = self.odd.iter().flatten().count();
        if self.contradicts(&kept) {
            let alike = self.odd.iter().flatten().rev().take(Self::ODD_CONTRARY);
            let agree =
                alike.clone().all(|one| !Self::excludes(one, &kept) && self.contradicts(one));
            if alike.count() < Self::ODD_CONTRARY || !agree {
                return None;
            }
            self.restart();
            return Some(());
        }
        let (usual, odd) = self.usual(&line);
        let settled = self.odd.iter().flatten().skip(Self::ODD_BETWEEN);
        let least = settled.fold(Legs::ENDLESS, |a, b| a.least(b.legs));
        let (there, back) = (least.there - usual.there, least.back - usual.back);
        // One way is as much faster as the other is slower, and no queue makes any way faster.
        let opposite = there * back < 0.0 && there.abs().min(back.abs()) > odd / 2.0;
        let stepped = opposite && (there + back).abs() <= odd;
        let begun = self.odd[0].map_or(kept.answered, |first| first.answered);
        let lasts = Span::from_nanos(kept.answered.saturating_sub(begun));
        if count < if stepped { Self::ODD_STEPPED } else { Self::ODD } || lasts < Self::ODD_FOR {
            return None;
        }
        if stepped {
            self.steps += 1;
            self.line = Some(stepped_by(line, (there - back) / 2.0));
            self.mapping = None;
            self.before = None;
        } else {
            // The clock stays where it was known to be. What few exchanges tell of the two legs is
            // rough, and where it may as well be alike on both it is taken to be.
            let lopsided = if (there - back).abs() > odd { there - back } else { 0.0 };
            self.lopsided += lopsided;
            let much = |leg: f64| if leg > odd { leg } else { 0.0 };
            let longer = Legs { there: much(there), back: much(back) };
            self.before = Some(Before { usual, longer, lopsided });
            self.path_changes += 1;
        }
        let settled = core::mem::take(&mut self.odd);
        self.anew(settled.into_iter().flatten().skip(Self::ODD_BETWEEN));
        Some(())
    }

    /// A leg is as short again as before it became longer: it was, after all, a queue, or the path is
    /// the old one again.
    fn reverts(&mut self, kept: &KeptExchange) -> bool {
        let Some(Before { usual, longer, lopsided }) = self.before else { return false };
        let short = |leg: f64, usual: f64, longer: f64| longer > 0.0 && leg < usual + longer / 2.0;
        let reverts = short(kept.legs.there, usual.there, longer.there)
            || short(kept.legs.back, usual.back, longer.back);
        if reverts {
            self.lopsided -= lopsided;
            self.path_changes += 1;
            (self.before, self.odd) = (None, [None; Self::ODD]);
            self.anew(core::iter::empty());
        }
        reverts
    }

    /// Forgets what the legs took but for these.
    fn anew(&mut self, settled: impl Iterator<Item = KeptExchange>) {
        let Some(line) = self.line else { return };
        self.window = [None; Self::WINDOW];
        self.least = [f64::MAX; 2];
        self.next = 0;
        settled.for_each(|kept| self.keep(kept.by(&line)));
    }

    /// All that was known is of another clock.
    fn restart(&mut self) {
        let odd = self.odd;
        let rate = self.line.map_or(0.0, |line| line.rate());
        let count = odd.iter().flatten().count();
        let (steps, path_changes) = (self.steps + 1, self.path_changes);
        let refused = self.refused.saturating_add((count - Self::ODD_CONTRARY) as u32);
        *self = Self { steps, path_changes, refused, ..Self::new() };
        for kept in odd.iter().flatten().skip(count - Self::ODD_CONTRARY) {
            let Some(mut line) = self.line else {
                self.start(*kept);
                // A clock that was set runs on as it ran.
                self.line = self.line.map(|line| line.running(rate));
                continue;
            };
            line.advance(kept.answered);
            self.take(kept.by(&line), line);
        }
    }

    fn map(&mut self, kept: &KeptExchange) -> Option<ClockMapping> {
        let line = self.line?;
        let best = self.least().max(0.0);
        // Where bounds do not overlap, as drift was greater than assumed, the newest holds.
        let allowed = |drift| match self.overlap(&line, drift) {
            (below, above) if below <= above => (below, above),
            _ => Self::bound(kept, &line, drift),
        };
        let (below, above) = allowed(Self::drift(&line));
        // The line stays free of the bounds, which lean on its rate; what is told does not.
        let moved = below.max(0.0) + above.min(0.0);
        let furthest = |(below, above): (f64, f64)| (above - moved).max(moved - below);
        // Who chooses every delay can lead the rate, and with it the bounds of all but the newest
        // exchange: he is to lead nobody to more than twice what is told.
        let led = furthest(allowed(Self::most_drift(&line))) / 2.0;
        let unsure = furthest((below, above)).max(led);
        let wall = WallTime::from_unix_nanos(line.second().saturating_add(moved as i64));
        let uncertainty = Self::SUREST.max(Span::from_nanos(unsure as i64 + 1));
        let (local, source) = (LocalTime::from_nanos(line.at()), ClockSource::Exchange);
        let drift = Self::drift(&line);
        let mut mapping =
            ClockMapping::through(local, wall, line.rate(), uncertainty, source, drift);
        let precision = Self::PRECISE * line.deviation() + moved.abs();
        mapping.precision = Span::from_nanos(precision as i64 + 1);
        mapping.round_trip = Span::from_nanos(best as i64);
        let mapping = match &self.mapping {
            // The first exchanges come faster than anything is played: they are followed faster.
            Some(before) if self.seen <= 16 => {
                mapping.following(before, Span::from_millis(10), 0.01)
            }
            Some(before) => mapping.following(before, Span::from_secs(1), Self::SLEW),
            None => mapping,
        };
        self.mapping = Some(mapping);
        Some(mapping)
    }
}

/// The line of a clock that was set by so much, and may run otherwise since.
fn stepped_by(mut line: Line, nanos: f64) -> Line {
    line.move_by(nanos);
    line.loosen(f64::MAX);
    line
}

impl Default for ClockEstimator {
    fn default() -> Self {
        Self::new()
    }
}

/// An exchange in nanoseconds: asked here, received and left there, answered here.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeptExchange {
    pub(super) asked: i64,
    pub(super) received: i64,
    pub(super) left: i64,
    pub(super) answered: i64,
    pub(super) reading_error: f64,
    /// What the legs took by the line as it was then.
    pub(super) legs: Legs,
}

/// How an exchange lies about the line: what the legs there and back took by it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Legs {
    pub(super) there: f64,
    pub(super) back: f64,
}

impl Legs {
    pub(super) const ENDLESS: Self = Self { there: f64::MAX, back: f64::MAX };

    pub(super) fn round_trip(self) -> f64 {
        self.there + self.back
    }

    /// The shorter of each leg.
    pub(super) fn least(self, other: Self) -> Self {
        Self { there: self.there.min(other.there), back: self.back.min(other.back) }
    }
}

/// How the legs were before the path became another, and what that made of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    pub(super) usual: Legs,
    pub(super) longer: Legs,
    pub(super) lopsided: f64,
}

impl From<&Exchange> for KeptExchange {
    fn from(exchange: &Exchange) -> Self {
        Self {
            asked: exchange.asked.as_nanos(),
            received: exchange.peer_received.as_unix_nanos(),
            left: exchange.peer_answered.as_unix_nanos(),
            answered: exchange.answered.as_nanos(),
            reading_error: exchange.reading_error.as_nanos() as f64,
            legs: Legs::default(),
        }
    }
}

impl KeptExchange {
    pub(super) fn legs(&self, line: &Line) -> Legs {
        Legs {
            there: line.error(self.asked, self.received),
            back: -line.error(self.answered, self.left),
        }
    }

    pub(super) fn by(self, line: &Line) -> Self {
        Self { legs: self.legs(line), ..self }
    }
}
