//! Estimates a mapping from exchanges.

use super::line::{Belief, Line};
use super::{ClockMapping, ClockSource, Exchange};
use crate::time::{LocalTime, Span, WallTime};

/// Estimates a peer's clock.
///
/// The longer a round trip, the less it counts: queues only lengthen it. A Kalman filter estimates
/// offset and rate. Every exchange also bounds the truth: the estimate stays where all bounds
/// overlap. The far end of the overlap is its uncertainty.
///
/// Outliers wait until others show their cause: a clock step, a path change, or a false reading.
#[derive(Debug, Clone)]
pub struct ClockEstimator {
    window: [Option<StoredExchange>; Self::WINDOW],
    next: usize,
    seen: u32,
    /// Shortest round trip of this and the previous stretch.
    minimum: [f64; 2],
    line: Option<Line>,
    /// Outbound minus return leg.
    lopsided: f64,
    before: Option<Before>,
    odd: [Option<StoredExchange>; Self::ODD],
    mapping: Option<ClockMapping>,
    steps: u32,
    path_changes: u32,
    refused: u32,
}

impl ClockEstimator {
    /// Exchanges kept: 16 s at two per second.
    const WINDOW: usize = 32;
    /// Exchanges of a stretch: half a minute.
    const LONG: u32 = 64;
    /// Outliers that show a change: twelve for a path (enough for its minimum delays), five for a
    /// clock. `ODD_FOR` is longer than any queue.
    const ODD: usize = 12;
    const ODD_FOR: Span = Span::from_secs(2);
    const ODD_STEPPED: usize = 5;
    /// Outliers skipped at first, as they may have used the old path on one leg.
    const ODD_BETWEEN: usize = 2;
    /// Consecutive exchanges that contradict all earlier exchanges and so prove a step.
    const ODD_CONTRARY: usize = 3;
    /// Minimum exchanges before any outlier.
    const FAMILIAR: usize = 20;
    /// Assumed rate error of two oscillators of ±50 ppm, and their wander: 0.03 ppm per √s.
    const BELIEF: Belief = Belief { rate: 60e-6, wander: 0.03e-6 };
    /// Unknown drift between two hosts.
    const DRIFT_UNKNOWN: f64 = 100e-6;
    /// Rate error beyond its deviation.
    const WANDER: f64 = 1e-6;
    const DEVIATIONS: f64 = 10.0;
    /// Deviations that the mapping may still move by.
    const PRECISE: f64 = 3.0;
    /// Minimum uncertainty, as DLRR rounds each reading to 7.6 µs.
    const SUREST: Span = Span::from_micros(8);
    /// Faster clocks are stepped: the kernel's maximum (adjtimex(2)).
    const STEP_RATE: f64 = 500e-6;
    const MIN_ODD: f64 = 60_000.0;
    /// Maximum slew rate, a third of a cent. A change takes 1 s.
    const SLEW: f64 = 200e-6;

    /// Creates an estimator without exchanges.
    pub const fn new() -> Self {
        Self {
            window: [None; Self::WINDOW],
            next: 0,
            seen: 0,
            minimum: [f64::MAX; 2],
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

    /// Confirmed steps of the peer's clock, or another host.
    pub const fn steps(&self) -> u32 {
        self.steps
    }

    /// Lasting changes of a leg's delay.
    pub const fn path_changes(&self) -> u32 {
        self.path_changes
    }

    /// Impossible exchanges and unconfirmed outliers.
    pub const fn refused(&self) -> u32 {
        self.refused
    }

    /// Adds an exchange and returns the mapping; `None` if rejected or unconfirmed.
    pub fn observe(&mut self, exchange: Exchange) -> Option<ClockMapping> {
        if !exchange.is_possible() {
            self.refused = self.refused.saturating_add(1);
            return None;
        }
        let kept = StoredExchange::from(&exchange);
        let Some(mut line) = self.line else {
            self.start(kept);
            return self.map(&kept);
        };
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

    fn start(&mut self, kept: StoredExchange) {
        let line = Self::begin(&kept);
        self.keep(kept.by(&line));
        self.line = Some(line);
    }

    /// Line through the middle of the exchange's range.
    fn begin(kept: &StoredExchange) -> Line {
        let here = kept.requested + (kept.answered - kept.requested) / 2;
        let there = kept.received + (kept.left - kept.received) / 2;
        let round_trip = (kept.answered - kept.requested) - (kept.left - kept.received);
        let deviation = round_trip.max(0) as f64 / 2.0 + kept.reading_error;
        let mut line = Line::through(here, there, deviation, Self::BELIEF);
        line.advance(kept.answered);
        line
    }

    fn keep(&mut self, kept: StoredExchange) {
        self.window[self.next] = Some(kept);
        self.next = (self.next + 1) % Self::WINDOW;
        self.seen = self.seen.saturating_add(1);
        let [now, before] = self.minimum;
        let round_trip = kept.legs.round_trip();
        self.minimum = if self.seen.is_multiple_of(Self::LONG) {
            [round_trip, now]
        } else {
            [now.min(round_trip), before]
        };
    }

    fn kept(&self) -> impl Iterator<Item = &StoredExchange> {
        self.window.iter().flatten()
    }

    /// Shortest round trip of the last minute.
    fn minimum(&self) -> f64 {
        self.minimum[0].min(self.minimum[1])
    }

    fn take(&mut self, kept: StoredExchange, mut line: Line) {
        // A repeated answer measures the outbound leg only once.
        let again = self.kept().any(|k| k.requested == kept.requested);
        let error = (kept.legs.there - kept.legs.back - self.lopsided) / 2.0;
        let minimum = self.minimum().min(kept.legs.round_trip());
        let count = f64::from(self.seen + 1);
        // A few round trips do not show the minimum.
        let mean = self.kept().map(|k| k.legs.round_trip() - minimum).sum::<f64>()
            / self.kept().count().max(1) as f64;
        let unseen = 1.25 * mean / count.sqrt() + minimum.max(0.0) / (count * count.sqrt());
        let excess = kept.legs.round_trip() - minimum + unseen;
        let reading = kept.reading_error / 3.0;
        // The excess may lie on either leg.
        let noise = reading * reading + excess * excess / 12.0;
        line.correct(error, if again { 9.0 * noise } else { noise }, 1.0 / 6.0, 3e9);
        // Early on, recalculate all legs: a first exchange that waited for a route may have
        // displaced the line.
        if self.seen < Self::FAMILIAR as u32 {
            self.window.iter_mut().flatten().for_each(|early| *early = early.by(&line));
        }
        self.keep(kept.by(&line));
        self.line = Some(line);
    }

    fn drift(line: &Line) -> f64 {
        (Self::DEVIATIONS * line.rate_deviation() + Self::WANDER).min(Self::max_drift(line))
    }

    /// Maximum rate error, even if an attacker chooses every delay.
    fn max_drift(line: &Line) -> f64 {
        Self::DRIFT_UNKNOWN + line.rate().abs()
    }

    /// Range of the true offset relative to the line. Bounds widen with age.
    fn overlap(&self, line: &Line, drift: f64) -> (f64, f64) {
        let bounds = self.kept().map(|kept| Self::bound(kept, line, drift));
        bounds.fold((f64::MIN, f64::MAX), |a, b| (a.0.max(b.0), a.1.min(b.1)))
    }

    fn bound(kept: &StoredExchange, line: &Line, drift: f64) -> (f64, f64) {
        let legs = kept.legs(line);
        let grown = |at: i64| drift * (line.at() - at).max(0) as f64 + kept.reading_error;
        (-legs.back - grown(kept.answered), legs.there + grown(kept.requested))
    }

    fn contradicts(&self, new: &StoredExchange) -> bool {
        self.kept().any(|old| Self::excludes(old, new))
    }

    fn excludes(old: &StoredExchange, new: &StoredExchange) -> bool {
        let apart = |a: i64, b: i64| b.saturating_sub(a).saturating_abs() as f64 * Self::STEP_RATE;
        let maximum = |k: &StoredExchange| k.received - k.requested;
        let minimum = |k: &StoredExchange| k.left - k.answered;
        let error = old.reading_error + new.reading_error;
        let higher = minimum(new).saturating_sub(maximum(old)) as f64
            - error
            - apart(old.requested, new.answered);
        let lower = minimum(old).saturating_sub(maximum(new)) as f64
            - error
            - apart(old.answered, new.requested);
        higher > 0.0 || lower > 0.0
    }

    /// Shortest delay of each leg, and an outlier's deviation.
    fn usual(&self, line: &Line) -> (Legs, f64) {
        let mut trips = [0.0; Self::WINDOW];
        let mut count = 0;
        let mut minimum = Legs::ENDLESS;
        for kept in self.kept() {
            minimum = minimum.minimum(kept.legs);
            trips[count] = kept.legs.round_trip();
            count += 1;
        }
        let trips = &mut trips[..count];
        trips.sort_unstable_by(f64::total_cmp);
        let spread = trips.get(count / 2).zip(trips.first()).map_or(0.0, |(mid, min)| mid - min);
        (minimum, Self::MIN_ODD.max(5.0 * spread) + 4.0 * line.deviation())
    }

    fn is_odd(&self, legs: Legs, line: &Line) -> bool {
        if self.kept().count() < Self::FAMILIAR {
            return false;
        }
        let (minimum, odd) = self.usual(line);
        (legs.there - minimum.there).abs() > odd || (legs.back - minimum.back).abs() > odd
    }

    /// Stores an outlier; follows the outliers once enough agree.
    fn set_aside(&mut self, kept: StoredExchange) -> Option<()> {
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
        let minimum = settled.fold(Legs::ENDLESS, |a, b| a.minimum(b.legs));
        let (there, back) = (minimum.there - usual.there, minimum.back - usual.back);
        // One leg gained what the other leg lost: a clock step does that, but no queue.
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
            // The clock stays. A few exchanges measure the legs roughly.
            let lopsided = if (there - back).abs() > odd { there - back } else { 0.0 };
            self.lopsided += lopsided;
            let much = |leg: f64| if leg > odd { leg } else { 0.0 };
            let longer = Legs { there: much(there), back: much(back) };
            self.before = Some(Before { usual, longer, lopsided });
            self.path_changes += 1;
        }
        let settled = core::mem::take(&mut self.odd);
        self.reset_window(settled.into_iter().flatten().skip(Self::ODD_BETWEEN));
        Some(())
    }

    fn reverts(&mut self, kept: &StoredExchange) -> bool {
        let Some(Before { usual, longer, lopsided }) = self.before else { return false };
        let short = |leg: f64, usual: f64, longer: f64| longer > 0.0 && leg < usual + longer / 2.0;
        let reverts = short(kept.legs.there, usual.there, longer.there)
            || short(kept.legs.back, usual.back, longer.back);
        if reverts {
            self.lopsided -= lopsided;
            self.path_changes += 1;
            (self.before, self.odd) = (None, [None; Self::ODD]);
            self.reset_window(core::iter::empty());
        }
        reverts
    }

    fn reset_window(&mut self, settled: impl Iterator<Item = StoredExchange>) {
        let Some(line) = self.line else { return };
        self.window = [None; Self::WINDOW];
        self.minimum = [f64::MAX; 2];
        self.next = 0;
        settled.for_each(|kept| self.keep(kept.by(&line)));
    }

    /// All earlier exchanges belong to another clock.
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
                // A stepped clock keeps its rate.
                self.line = self.line.map(|line| line.running(rate));
                continue;
            };
            line.advance(kept.answered);
            self.take(kept.by(&line), line);
        }
    }

    fn map(&mut self, kept: &StoredExchange) -> Option<ClockMapping> {
        let line = self.line?;
        let best = self.minimum().max(0.0);
        // More drift than assumed: use the newest bound.
        let allowed = |drift| match self.overlap(&line, drift) {
            (below, above) if below <= above => (below, above),
            _ => Self::bound(kept, &line, drift),
        };
        let (below, above) = allowed(Self::drift(&line));
        // Limit only the returned mapping: the bounds depend on the line's rate.
        let moved = below.max(0.0) + above.min(0.0);
        let furthest = |(below, above): (f64, f64)| (above - moved).max(moved - below);
        // An attacker controls the rate and all bounds but the newest: limit the error to twice the
        // reported uncertainty.
        let led = furthest(allowed(Self::max_drift(&line))) / 2.0;
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
            // Nothing plays yet, so follow faster.
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

/// A stepped clock may have another rate.
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

#[derive(Debug, Clone, Copy)]
pub(super) struct StoredExchange {
    pub(super) requested: i64,
    pub(super) received: i64,
    pub(super) left: i64,
    pub(super) answered: i64,
    pub(super) reading_error: f64,
    pub(super) legs: Legs,
}

/// Delays of both legs by the line.
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

    pub(super) fn minimum(self, other: Self) -> Self {
        Self { there: self.there.min(other.there), back: self.back.min(other.back) }
    }
}

/// Leg delays before the path change, and the changes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    pub(super) usual: Legs,
    pub(super) longer: Legs,
    pub(super) lopsided: f64,
}

impl From<&Exchange> for StoredExchange {
    fn from(exchange: &Exchange) -> Self {
        Self {
            requested: exchange.requested.as_nanos(),
            received: exchange.peer_received.as_unix_nanos(),
            left: exchange.peer_answered.as_unix_nanos(),
            answered: exchange.answered.as_nanos(),
            reading_error: exchange.reading_error.as_nanos() as f64,
            legs: Legs::default(),
        }
    }
}

impl StoredExchange {
    pub(super) fn legs(&self, line: &Line) -> Legs {
        Legs {
            there: line.error(self.requested, self.received),
            back: -line.error(self.answered, self.left),
        }
    }

    pub(super) fn by(self, line: &Line) -> Self {
        Self { legs: self.legs(line), ..self }
    }
}
