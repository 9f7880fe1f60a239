//! Frames of one card that meet frames of another via a cable.

use super::{CardClock, NANOS_PER_SECOND, WHOLE};
use crate::stream::gcd;
use crate::time::{LocalTime, Span};
use crate::units::Rate;

/// Bits of a fraction. The rounding errors of two fractions stay below the kept bits.
const FINE_BITS: u32 = 48;
const FRACTION_BITS: u32 = 32;

/// Position in frames and 2^-32 frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Whole frames.
    pub frame: i64,
    /// In 2^-32 frames.
    pub fraction: u32,
}

impl CardClock {
    /// First instant at or after `now` in whole frames and nanoseconds. Cards of one rate that
    /// start then exchange samples bit-exactly. The interval is 3 frames at 48 kHz and 10 ms at
    /// 44.1 kHz.
    pub fn shared_start(now: LocalTime, rate: Rate) -> LocalTime {
        let apart = NANOS_PER_SECOND as i64 / gcd(NANOS_PER_SECOND as i64, rate.hertz().into());
        now.next_of(Span::from_nanos(apart))
    }

    /// Position of this card's `frame` among the frames of `player`, `delay` earlier. Rounded down;
    /// exact for whole frames.
    pub fn place_among(&self, player: &Self, frame: i64, delay: Span) -> Place {
        let nanos = |time: LocalTime| i128::from(time.as_nanos());
        let apart = nanos(self.start) - nanos(player.start) - i128::from(delay.as_nanos());
        let ends = (i128::from(i64::MIN), i128::from(i64::MAX));
        let (begun, passed) = (
            parts(apart.clamp(ends.0, ends.1) * player.speed, NANOS_PER_SECOND * WHOLE),
            parts(i128::from(self.bounded(frame)) * player.speed, self.speed),
        );
        let place = (begun + passed) >> (FINE_BITS - FRACTION_BITS);
        let whole = (place >> FRACTION_BITS).clamp(ends.0, ends.1);
        Place { frame: whole as i64, fraction: place as u32 }
    }

    /// Frames of `player` per frame of this card, in 2^-32.
    pub fn step_among(&self, player: &Self) -> u64 {
        (((player.speed << FRACTION_BITS) + self.speed / 2) / self.speed) as u64
    }
}

/// Quotient in units of 2^-48, rounded down; divisor below 2^78.
fn parts(whole: i128, of: i128) -> i128 {
    (whole.div_euclid(of) << FINE_BITS) + (whole.rem_euclid(of) << FINE_BITS) / of
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::units::Ppm;

    fn card(start: i64, rate: Rate, ppm: f64) -> CardClock {
        CardClock::new(LocalTime::from_nanos(start), rate, Ppm::from_f64(ppm))
    }

    fn rates() -> impl Strategy<Value = Rate> {
        proptest::sample::select(Rate::SUPPORTED.to_vec()).prop_map(|rate| Rate::new(rate).unwrap())
    }

    #[test]
    fn a_shared_start_is_soon() {
        for rate in Rate::SUPPORTED {
            let rate = Rate::new(rate).unwrap();
            let now = LocalTime::from_nanos(1);
            assert!(CardClock::shared_start(now, rate) - now < Span::from_millis(40), "{rate}");
        }
        let now = LocalTime::from_nanos(62_500);
        assert_eq!(CardClock::shared_start(now, Rate::HZ_48000), now);
    }

    proptest! {
        #[test]
        fn cards_with_shared_starts_are_whole_frames_apart(
            one in 0..1_i64 << 60,
            other in 0..1_i64 << 60,
            rate in rates(),
            frame in 0..1_i64 << 40,
        ) {
            let begun = |now| CardClock::shared_start(LocalTime::from_nanos(now), rate);
            let handles = CardClock::new(begun(one), rate, Ppm::ZERO);
            let plays = CardClock::new(begun(other), rate, Ppm::ZERO);
            let place = handles.place_among(&plays, frame, Span::ZERO);
            prop_assert_eq!(place.fraction, 0);
            prop_assert_eq!(handles.step_among(&plays), 1 << 32);
            prop_assert_eq!(plays.instant_of(place.frame), handles.instant_of(frame));
        }

        #[test]
        fn place_is_the_players_position_one_cable_delay_earlier(
            starts in (0..1_i64 << 50, 0..1_i64 << 50),
            errors in (-1000.0..1000.0, -1000.0..1000.0),
            rate in rates(),
            frame in 0..1_i64 << 36,
            delay in 0..500_000_000_i64,
        ) {
            let (handles, plays) = (card(starts.0, rate, errors.0), card(starts.1, rate, errors.1));
            let place = handles.place_among(&plays, frame, Span::from_nanos(delay));
            let met = handles.instant_of(frame) - Span::from_nanos(delay);
            // Instants are rounded up.
            prop_assert!(plays.instant_of(place.frame) <= met + Span::from_nanos(1));
            prop_assert!(met < plays.instant_of(place.frame + 1) + Span::from_nanos(1));
            let within = (met - plays.instant_of(place.frame)).as_nanos() as f64;
            let frames = within * plays.speed as f64 / 1e21;
            let fraction = f64::from(place.fraction) / 4_294_967_296.0;
            let unsure = 2.5e-9 * f64::from(rate.hertz());
            prop_assert!((frames - fraction).abs() < unsure, "{frames} {fraction}");
        }

        #[test]
        fn arbitrary_card_values_give_a_position(
            starts: (i64, i64),
            errors in (-1e5..1e5, -1e5..1e5),
            frame: i64,
            delay: i64,
            rate in rates(),
        ) {
            let (handles, plays) = (card(starts.0, rate, errors.0), card(starts.1, rate, errors.1));
            handles.place_among(&plays, frame, Span::from_nanos(delay));
            prop_assert!(handles.step_among(&plays) > 0);
        }
    }
}
