use super::{CaptureRing, CardClock, PlaybackRing, Ring, Turn};
use crate::device::Settings;
use crate::time::{Frames, LocalTime};

/// Both sides of a card: it wakes its program once a period, with a period to be taken and one to
/// be written.
///
/// At the start the playing side is full of silence, so the first block meets the DAC `periods`
/// periods after the start, and `periods − 1` after the wake-up for which it was written. Both
/// rings hold as many periods, so a program that comes late misses as many on either side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DuplexRing {
    capture: CaptureRing,
    playback: PlaybackRing,
}

impl DuplexRing {
    /// Rings at the start of `clock`: an empty one and a full one.
    pub fn new(clock: CardClock, settings: &Settings) -> Self {
        let mut playback = PlaybackRing::new(clock, settings);
        playback.program += Ring::new(settings).period;
        Self { capture: CaptureRing::new(clock, settings), playback }
    }

    /// When the next period is full on the one side, and free on the other.
    pub fn wakes(&self) -> LocalTime {
        self.capture.wakes()
    }

    /// Frames of silence that the card plays before the program's first block.
    pub fn lead(&self) -> Frames {
        Frames::new(self.playback.program())
    }

    /// The program woke at `now`: what it captured, and what it is to play.
    pub fn begin(&mut self, now: LocalTime) -> (Turn, Turn) {
        (self.capture.begin(now), self.playback.begin(now))
    }

    /// As [`PlaybackRing::finish`].
    pub fn finish(&mut self, now: LocalTime) -> Frames {
        self.playback.finish(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Channels, Ppm, Rate};

    const PERIODS: i64 = 3;

    fn clock() -> CardClock {
        CardClock::new(LocalTime::from_nanos(1_000), Rate::HZ_48000, Ppm::from_f64(50.0))
    }

    fn ring() -> DuplexRing {
        let (rate, channels, period) = (Rate::HZ_48000, Channels::STEREO, Frames::new(48));
        DuplexRing::new(clock(), &Settings { rate, channels, period, periods: PERIODS as u32 })
    }

    #[test]
    fn what_is_written_for_a_wake_up_meets_the_dac_a_buffer_after_what_it_took_met_the_adc() {
        let mut ring = ring();
        assert_eq!(ring.lead(), Frames::new(48 * PERIODS));
        for period in 0..10 {
            let now = ring.wakes();
            assert_eq!(now, clock().instant_of(48 * (period + 1)));
            let (taken, written) = ring.begin(now);
            assert_eq!((taken.frame, written.frame), (48 * period, 48 * (period + PERIODS)));
            assert_eq!([taken.skipped, written.skipped], [Frames::ZERO; 2]);
            assert_eq!(ring.finish(now), Frames::ZERO);
        }
    }

    #[test]
    fn a_program_that_is_late_misses_as_many_frames_on_either_side() {
        let mut ring = ring();
        for late in [0, 95, 96, 97, 144, 145, 1000, 3] {
            let due = ring.wakes();
            let now = clock().instant_of(clock().frame_at(due) + late);
            let (taken, written) = ring.begin(now);
            assert_eq!(taken.skipped, written.skipped, "{late} frames late");
            let missed = if late <= 96 { 0 } else { (late - 96 + 47) / 48 * 48 };
            assert_eq!(taken.skipped, Frames::new(missed), "{late} frames late");
            assert_eq!(written.frame - taken.frame, 48 * PERIODS, "{late} frames late");
            ring.finish(now);
        }
    }
}
