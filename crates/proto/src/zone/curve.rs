//! Gain over presentation time.

use tautline_dsp::gain::Gain;

use crate::time::{Frames, LocalTime, Span};
use crate::units::Rate;

/// Gain as a function of presentation time on this host's clock, piecewise linear in amplitude.
///
/// The gain is constant before the first point and after the last point. Plain data: a device
/// thread reads its own copy without lock or allocation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GainCurve {
    /// Points in order of time. Two points at the same time are a step.
    points: [(LocalTime, Gain); Self::POINTS],
    count: usize,
}

impl GainCurve {
    /// A ramp has two points. The oldest point is dropped if there are too many points.
    const POINTS: usize = 16;
    /// Gains closer than this are equal: −100 dB.
    const SAME: f32 = 1e-5;

    /// The same gain at all times.
    pub const fn constant(gain: Gain) -> Self {
        Self { points: [(LocalTime::ZERO, gain); Self::POINTS], count: 1 }
    }

    fn points(&self) -> &[(LocalTime, Gain)] {
        &self.points[..self.count]
    }

    fn push(&mut self, at: LocalTime, gain: Gain) {
        if self.count == Self::POINTS {
            self.points.rotate_left(1);
            self.count -= 1;
        }
        self.points[self.count] = (at, gain);
        // Unused points equal the last point, so that equal curves compare equal.
        self.points[self.count..].fill((at, gain));
        self.count += 1;
    }

    /// Gain at presentation time `at`. At a step, the later gain.
    pub fn gain_at(&self, at: LocalTime) -> Gain {
        let next = self.points().iter().position(|(time, _)| *time > at).unwrap_or(self.count);
        let Some(before) = next.checked_sub(1) else { return self.points[0].1 };
        let (begins, from) = self.points[before];
        let Some((ends, to)) = self.points().get(next).copied() else { return from };
        let share = (at - begins).as_nanos() as f64 / (ends - begins).as_nanos() as f64;
        from.towards(to, share as f32)
    }

    /// The gain from `at` on, if it no longer changes.
    pub fn settled_at(&self, at: LocalTime) -> Option<Gain> {
        let (last, gain) = self.points[self.count - 1];
        (at >= last).then_some(gain)
    }

    /// From `at` on, goes to `to` within `over`, and stays. Replaces later points.
    pub(super) fn ramp(&mut self, at: LocalTime, over: Span, to: Gain) {
        let from = self.gain_at(at);
        self.keep_until(at);
        self.push(at, from);
        self.push(at + over.max(Span::ZERO), to);
    }

    fn keep_until(&mut self, at: LocalTime) {
        let kept = self.points().iter().take_while(|(time, _)| *time < at).count();
        if kept == 0 {
            *self = Self { count: 0, ..Self::constant(self.points[0].1) };
        } else {
            let last = self.points[kept - 1];
            self.points[kept..].fill(last);
            self.count = kept;
        }
    }

    /// This curve until `at`, then `next`. If they differ at `at`, a ramp of `over` joins them.
    #[must_use]
    pub(super) fn joined(&self, next: &Self, at: LocalTime, over: Span) -> Self {
        let (here, there) = (self.gain_at(at), next.gain_at(at));
        if (here.factor() - there.factor()).abs() < Self::SAME {
            return *next;
        }
        let ends = at + over;
        let mut joined = *self;
        joined.ramp(at, over, next.gain_at(ends));
        next.points()
            .iter()
            .filter(|(time, _)| *time > ends)
            .for_each(|(time, gain)| joined.push(*time, *gain));
        joined
    }

    /// Applies to interleaved frames, the first of which is presented at `first`. A gain of 1 keeps
    /// every bit.
    pub fn apply(&self, first: LocalTime, rate: Rate, channels: usize, samples: &mut [f32]) {
        if let Some(gain) = self.settled_at(first) {
            return gain.apply(samples);
        }
        for (frame, number) in samples.chunks_mut(channels.max(1)).zip(0..) {
            self.gain_at(first + rate.span_of(Frames::new(number))).apply(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_millis(millis)
    }

    fn ms(millis: i64) -> Span {
        Span::from_millis(millis)
    }

    fn quiet() -> Gain {
        Gain::from_db(-20.0).unwrap()
    }

    #[test]
    fn ramp_is_linear_and_ends_exactly_on_its_gain() {
        let mut curve = GainCurve::constant(Gain::UNITY);
        curve.ramp(at(100), ms(20), quiet());
        assert_eq!(curve.gain_at(at(99)), Gain::UNITY);
        assert_eq!(curve.gain_at(at(100)), Gain::UNITY);
        assert!((curve.gain_at(at(110)).factor() - 0.55).abs() < 1e-6);
        assert_eq!(curve.gain_at(at(120)), quiet());
        assert_eq!((curve.settled_at(at(119)), curve.settled_at(at(120))), (None, Some(quiet())));
        curve.ramp(at(500), ms(1000), Gain::UNITY);
        assert_eq!(curve.gain_at(at(1500)), Gain::UNITY);
    }

    #[test]
    fn ramp_called_back_turns_without_a_step() {
        let mut curve = GainCurve::constant(Gain::UNITY);
        curve.ramp(at(100), ms(20), Gain::SILENCE);
        curve.ramp(at(110), ms(10), Gain::UNITY);
        assert!((curve.gain_at(at(110)).factor() - 0.5).abs() < 1e-6);
        assert!((curve.gain_at(at(115)).factor() - 0.75).abs() < 1e-6);
        assert_eq!(curve.gain_at(at(105)).factor(), 0.75);
    }

    #[test]
    fn ramp_of_no_length_is_a_step() {
        let mut curve = GainCurve::constant(Gain::SILENCE);
        curve.ramp(at(100), Span::ZERO, Gain::UNITY);
        assert_eq!(curve.gain_at(at(100) - Span::from_nanos(1)), Gain::SILENCE);
        assert_eq!(curve.gain_at(at(100)), Gain::UNITY);
    }

    #[test]
    fn joined_curve_keeps_the_past_and_meets_the_next() {
        let mut ideal = GainCurve::constant(Gain::UNITY);
        ideal.ramp(at(100), ms(20), quiet());
        ideal.ramp(at(500), ms(1000), Gain::UNITY);
        let played = GainCurve::constant(Gain::UNITY);
        let late = played.joined(&ideal, at(200), ms(10));
        assert_eq!(late.gain_at(at(200)), Gain::UNITY);
        assert!((late.gain_at(at(205)).factor() - 0.55).abs() < 1e-6);
        for millis in [210, 400, 500, 700, 1500, 9000] {
            assert_eq!(late.gain_at(at(millis)), ideal.gain_at(at(millis)), "{millis}");
        }
        assert_eq!(played.joined(&ideal, at(50), ms(10)), ideal, "in time");
    }

    #[test]
    fn many_ramps_keep_the_newest() {
        let mut curve = GainCurve::constant(Gain::UNITY);
        for number in 0..100 {
            let to = if number % 2 == 0 { quiet() } else { Gain::UNITY };
            curve.ramp(at(100 * number), ms(20), to);
        }
        assert_eq!(curve.gain_at(at(9_850)), quiet());
        assert_eq!(curve.gain_at(at(9_920)), Gain::UNITY);
    }

    #[test]
    fn applied_curve_follows_frames_and_keeps_bits_at_unity() {
        let rate = Rate::HZ_48000;
        let mut curve = GainCurve::constant(Gain::UNITY);
        curve.ramp(at(1), ms(1), Gain::SILENCE);
        let mut samples = [1.0; 2 * 144];
        curve.apply(at(0), rate, 2, &mut samples);
        assert_eq!((samples[2 * 48], samples[2 * 96]), (1.0, 0.0));
        assert!((samples[2 * 72] - 0.5).abs() < 1e-6 && samples[2 * 72] == samples[2 * 72 + 1]);
        let odd = [f32::from_bits(0x7fa0_0001), -0.0, 3.0];
        let mut samples = odd;
        GainCurve::constant(Gain::UNITY).apply(at(0), rate, 1, &mut samples);
        assert_eq!(samples.map(f32::to_bits), odd.map(f32::to_bits));
    }
}
