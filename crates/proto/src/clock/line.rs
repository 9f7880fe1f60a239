//! Line between two clocks: a Kalman filter of offset and rate.
//!
//! It models a quartz (Barnes 1971, random walk of frequency), in nanoseconds. The offset's whole
//! part is an integer, so Unix times cost no precision.

use crate::time::{minus, plus};

/// Fraction bits of a rate: 2⁻⁴⁴ is 0.06 ns in 1000 s.
const RATE_BITS: u32 = 44;

/// For the device thread: one multiplication and a shift.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Slope(i64);

impl Slope {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn new(rate: f64) -> Self {
        Self((rate.clamp(-0.02, 0.02) * (1_i64 << RATE_BITS) as f64) as i64)
    }

    pub(crate) fn over(self, nanos: i64) -> i64 {
        ((i128::from(nanos) * i128::from(self.0)) >> RATE_BITS) as i64
    }

    pub(crate) fn as_f64(self) -> f64 {
        self.0 as f64 / (1_i64 << RATE_BITS) as f64
    }

    pub(crate) fn inverse(self) -> Self {
        let rate = self.as_f64();
        // Power series, accurate to 2⁻³² of a clock's maximum error: no division per packet.
        Self::new(-rate * (1.0 - rate * (1.0 - rate * (1.0 - rate))))
    }
}

/// Rate deviation before the second reading.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Belief {
    pub(crate) rate: f64,
    /// Rate wander per √s.
    pub(crate) wander: f64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    belief: Belief,
    /// First clock at these states.
    at: i64,
    /// Second clock minus the first: whole and fraction.
    offset: i64,
    part: f64,
    rate: f64,
    /// Offset variance, covariance, rate variance.
    variance: [f64; 3],
    /// Mean signed error in deviations.
    bias: f64,
}

impl Line {
    const LEANS: f64 = 1.25;

    /// Line through one pair of readings.
    pub(crate) fn through(first: i64, second: i64, deviation: f64, belief: Belief) -> Self {
        let variance = [deviation * deviation, 0.0, belief.rate * belief.rate];
        let offset = second.saturating_sub(first);
        Self { belief, at: first, offset, part: 0.0, rate: 0.0, variance, bias: 0.0 }
    }

    pub(crate) const fn running(self, rate: f64) -> Self {
        Self { rate, ..self }
    }

    pub(crate) const fn at(&self) -> i64 {
        self.at
    }

    pub(crate) const fn rate(&self) -> f64 {
        self.rate
    }

    pub(crate) fn deviation(&self) -> f64 {
        self.variance[0].sqrt()
    }

    pub(crate) fn rate_deviation(&self) -> f64 {
        self.variance[2].sqrt()
    }

    /// Second clock at the states, in nanoseconds.
    pub(crate) fn second(&self) -> i64 {
        self.at.saturating_add(self.offset)
    }

    /// Distance of `second` above the line at `first`.
    pub(crate) fn error(&self, first: i64, second: i64) -> f64 {
        let since = minus(first, self.at) as f64;
        let whole = minus(minus(second, first), self.offset);
        whole as f64 - self.part - self.rate * since
    }

    pub(crate) fn advance(&mut self, first: i64) {
        let passed = minus(first, self.at);
        if passed <= 0 {
            return;
        }
        let time = passed as f64;
        self.at = first;
        self.move_by(self.rate * time);
        let wandered = self.belief.wander * self.belief.wander * time / 1e9;
        let [offset, both, rate] = self.variance;
        self.variance = [
            offset + time * (2.0 * both + time * (rate + wandered / 3.0)),
            both + time * (rate + wandered / 2.0),
            rate + wandered,
        ];
    }

    /// Adds a reading `error` above the line. Returns how far the line moved within the last
    /// second. Readings of the last `judged` nanoseconds detect a changed rate; `weight` is this
    /// reading's share.
    pub(crate) fn correct(&mut self, error: f64, noise: f64, weight: f64, judged: f64) -> f64 {
        self.correct_by_mean(error, 1.0, noise, weight, judged)
    }

    /// The same with the mean of `count` readings.
    pub(crate) fn correct_by_mean(
        &mut self,
        error: f64,
        count: f64,
        noise: f64,
        weight: f64,
        judged: f64,
    ) -> f64 {
        let deviation = (self.variance[0] + noise).sqrt();
        self.bias += (error / deviation - self.bias) * weight;
        if self.bias.abs() > Self::LEANS {
            let off = self.bias.abs() * deviation;
            self.variance[0] = self.variance[0].max(off * off);
            self.loosen(2.0 * off / judged);
        }
        let [offset, both, rate] = self.variance;
        let total = offset + noise / count;
        let (gain, rate_gain) = (offset / total, both / total);
        self.move_by(gain * error);
        self.rate += rate_gain * error;
        self.variance =
            [offset * (1.0 - gain), both * (1.0 - gain), (rate - rate_gain * both).max(0.0)];
        ((gain + rate_gain * 1e9) * error).abs()
    }

    /// Sets the announced rate and its deviation. Returns how far the line moved within the last
    /// second.
    pub(crate) fn know_rate(&mut self, reported: f64, deviation: f64) -> f64 {
        let [offset, both, rate] = self.variance;
        let (error, total) = (reported - self.rate, rate + deviation * deviation);
        let (gain, rate_gain) = (both / total, rate / total);
        self.move_by(gain * error);
        self.rate += rate_gain * error;
        self.variance =
            [(offset - gain * both).max(0.0), both * (1.0 - rate_gain), rate * (1.0 - rate_gain)];
        (self.belief.rate, self.bias) = (deviation, 0.0);
        ((gain + rate_gain * 1e9) * error).abs()
    }

    pub(crate) fn loosen(&mut self, deviation: f64) {
        let deviation = deviation.min(self.belief.rate);
        self.variance[2] = self.variance[2].max(deviation * deviation);
        self.bias = 0.0;
    }

    pub(crate) fn move_by(&mut self, nanos: f64) {
        let part = self.part + nanos;
        let whole = part as i64;
        self.offset = plus(self.offset, whole);
        self.part = part - whole as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_and_its_inverse_come_back_to_the_nanosecond() {
        for ppm in [-500.0, -0.1, 0.0, 33.0, 500.0] {
            let slope = Slope::new(ppm * 1e-6);
            let day = 86_400_000_000_000;
            let there = day + slope.over(day);
            assert!((there + slope.inverse().over(there) - day).abs() <= 10, "{ppm}");
        }
    }

    #[test]
    fn a_line_of_exact_readings_is_found_and_extrapolated() {
        let belief = Belief { rate: 100e-6, wander: 0.01e-6 };
        let truth = |first: i64| first + 1_700_000_000_000_000_000 + first / 20_000;
        let mut line = Line::through(0, truth(0), 1000.0, belief);
        for second in 1..20 {
            let at = second * 500_000_000;
            line.advance(at);
            let error = line.error(at, truth(at));
            line.correct(error, 1e6, 0.0, 1.0);
        }
        assert!((line.rate() - 50e-6).abs() < 0.5e-6, "{}", line.rate());
        assert!(line.error(12_000_000_000, truth(12_000_000_000)).abs() < 1000.0);
        assert!(line.rate_deviation() < 1e-6 && line.deviation() < 1000.0);
    }
}
