use tautline_proto::clock::Exchange;
use tautline_proto::time::{LocalTime, Span, WallTime};

use super::Estimate;

fn offset(exchange: &Exchange) -> i64 {
    let there = exchange.peer_received.as_unix_nanos() - exchange.requested.as_nanos();
    let back = exchange.peer_answered.as_unix_nanos() - exchange.answered.as_nanos();
    there.midpoint(back)
}

/// Middle of the overlap of the last 16 exchanges' bounds, widened by up to 100 ppm of their age.
/// No rate.
#[derive(Default)]
pub(crate) struct Overlap {
    kept: Vec<Exchange>,
    offset: Option<i64>,
}

impl Estimate for Overlap {
    fn observe(&mut self, exchange: Exchange) {
        self.kept.push(exchange);
        if self.kept.len() > 16 {
            self.kept.remove(0);
        }
        // Maximum drift consistent with the exchanges.
        let bound = |e: &Exchange| (e.round_trip().half() + e.reading_error).as_nanos();
        let pairs = self.kept.iter().flat_map(|a| self.kept.iter().map(move |b| (a, b)));
        let drift = pairs
            .filter(|(a, b)| b.requested - a.answered >= Span::from_millis(100))
            .map(|(a, b)| {
                let maximum = (offset(b) - offset(a)).abs() + bound(a) + bound(b);
                maximum as f64 / (b.requested - a.answered).as_nanos() as f64
            })
            .fold(100e-6_f64, |minimum, drift| minimum.min(drift + 2e-6));
        let now = exchange.answered;
        let bounds = self.kept.iter().map(|e| {
            let grown = bound(e) + ((now - e.requested).as_nanos() as f64 * drift) as i64;
            (offset(e) - grown, offset(e) + grown)
        });
        let (minimum, maximum) =
            bounds.fold((i64::MIN, i64::MAX), |a, b| (a.0.max(b.0), a.1.min(b.1)));
        self.offset = Some(minimum.midpoint(maximum));
    }

    fn wall(&self, local: LocalTime) -> Option<WallTime> {
        Some(WallTime::from_unix_nanos(local.as_nanos() + self.offset?))
    }
}

/// The shortest round trip of the last eight, once (as in RFC 5905 §10).
#[derive(Default)]
struct Shortest {
    kept: Vec<Exchange>,
    reported: LocalTime,
}

impl Shortest {
    fn take(&mut self, exchange: Exchange) -> Option<Exchange> {
        self.kept.push(exchange);
        if self.kept.len() > 8 {
            self.kept.remove(0);
        }
        // Older exchanges age by 15 ppm, as in RFC 5905.
        let aged = |e: &Exchange| {
            e.round_trip().as_nanos() + (exchange.answered - e.answered).as_nanos() * 30 / 1_000_000
        };
        let best = *self.kept.iter().min_by_key(|e| aged(e))?;
        (best.answered > self.reported).then(|| {
            self.reported = best.answered;
            best
        })
    }
}

#[derive(Clone, Copy)]
struct Line {
    at: LocalTime,
    offset: i64,
    part: f64,
    rate: f64,
}

impl Line {
    fn offset_at(&self, local: LocalTime) -> f64 {
        self.part + self.rate * (local - self.at).as_nanos() as f64
    }

    fn wall(&self, local: LocalTime) -> WallTime {
        let ahead = self.offset + self.offset_at(local) as i64;
        WallTime::from_unix_nanos(local.as_nanos() + ahead)
    }

    fn error(&self, exchange: &Exchange) -> f64 {
        let middle = exchange.requested + (exchange.answered - exchange.requested).half();
        (offset(exchange) - self.offset) as f64 - self.offset_at(middle)
    }

    fn advance(&mut self, to: LocalTime) {
        self.part = self.offset_at(to);
        self.at = to;
    }
}

/// Kalman filter of offset and rate, with equal noise for every shortest exchange.
#[derive(Default)]
pub(crate) struct KalmanOnMinima {
    shortest: Shortest,
    line: Option<Line>,
    variance: [f64; 3],
}

impl Estimate for KalmanOnMinima {
    fn observe(&mut self, exchange: Exchange) {
        let Some(best) = self.shortest.take(exchange) else { return };
        let noise = best.round_trip().as_nanos() as f64 / 20.0;
        let Some(line) = &mut self.line else {
            self.line =
                Some(Line { at: best.answered, offset: offset(&best), part: 0.0, rate: 0.0 });
            self.variance = [25.0 * noise * noise, 0.0, 60e-6 * 60e-6];
            return;
        };
        let time = (best.answered - line.at).as_nanos() as f64;
        line.advance(best.answered);
        let wander = 0.03e-6 * 0.03e-6 * time / 1e9;
        let [a, b, c] = self.variance;
        let [a, b, c] =
            [a + 2.0 * time * b + time * time * (c + wander / 3.0), b + time * c, c + wander];
        let (gain, rate_gain) = (a / (a + noise * noise), b / (a + noise * noise));
        let error = line.error(&best);
        line.part += gain * error;
        line.rate += rate_gain * error;
        self.variance = [a * (1.0 - gain), b * (1.0 - gain), c - rate_gain * b];
    }

    fn wall(&self, local: LocalTime) -> Option<WallTime> {
        self.line.map(|line| line.wall(local))
    }
}

/// Second-order loop that settles at a time constant of 8 s.
#[derive(Default)]
pub(crate) struct LoopOnMinima {
    shortest: Shortest,
    line: Option<Line>,
    begun: LocalTime,
}

impl Estimate for LoopOnMinima {
    fn observe(&mut self, exchange: Exchange) {
        let Some(best) = self.shortest.take(exchange) else { return };
        let Some(line) = &mut self.line else {
            self.line =
                Some(Line { at: best.answered, offset: offset(&best), part: 0.0, rate: 0.0 });
            self.begun = best.answered;
            return;
        };
        let time = (best.answered - line.at).as_nanos() as f64 / 1e9;
        line.advance(best.answered);
        let age = (best.answered - self.begun).as_nanos() as f64 / 1e9;
        let settles = age.clamp(0.1, 8.0);
        // Critically damped: the gains are 2ζω and ω², with ω = 1 / time constant.
        let omega = (time / settles).min(1.0);
        let error = line.error(&best);
        line.part += (2.0 * omega).min(1.0) * error;
        line.rate += omega * omega * error / (time.max(0.01) * 1e9);
    }

    fn wall(&self, local: LocalTime) -> Option<WallTime> {
        self.line.map(|line| line.wall(local))
    }
}
