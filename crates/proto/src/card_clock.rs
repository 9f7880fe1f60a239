//! Arithmetic of a simulated sound card. Frame 0 meets the converter at its start. All results come
//! from that count in 128-bit integers, so no error accumulates.

mod joined;

use crate::device::{Direction, Settings, Side};
use crate::time::{Frames, LocalTime, Span};
use crate::units::{Ppm, Rate};

pub use joined::Place;

const NANOS_PER_SECOND: i128 = 1_000_000_000;
const WHOLE: i128 = 1_000_000_000_000;
/// Maximum frame number: 16 000 years at 192 kHz. It keeps products within 128 bits.
const MAX_FRAMES: i64 = 100_000_000_000_000_000;

/// Maps frames of a card to converter times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CardClock {
    start: LocalTime,
    rate: Rate,
    error: Ppm,
    /// Frames per second × 10¹².
    speed: i128,
}

impl CardClock {
    /// Rounding error of the instants.
    pub const UNCERTAINTY: Span = Span::from_nanos(1);

    /// Creates a card that starts at `start` and runs fast by `error`.
    pub fn new(start: LocalTime, rate: Rate, error: Ppm) -> Self {
        let parts = i128::from(error.as_millionths());
        Self { start, rate, error, speed: i128::from(rate.hertz()) * (WHOLE + parts).max(1) }
    }

    /// First whole millisecond at or after `now`: kernels with 1000, 250 or 100 Hz tick then (linux
    /// commit e9523a0d8189). Ticks thus delay no packet between two periods.
    pub fn start_at_tick(now: LocalTime) -> LocalTime {
        now.next_of(Span::from_millis(1))
    }

    /// Start time of frame 0.
    pub fn start(&self) -> LocalTime {
        self.start
    }

    /// Rate error of the card.
    pub fn error(&self) -> Ppm {
        self.error
    }

    /// Nominal rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// First nanosecond at which `frame` meets the converter.
    pub fn instant_of(&self, frame: i64) -> LocalTime {
        let product = i128::from(self.bounded(frame)) * NANOS_PER_SECOND * WHOLE;
        let nanos = -(-product).div_euclid(self.speed);
        let ends = (i128::from(i64::MIN), i128::from(i64::MAX));
        self.start + Span::from_nanos(nanos.clamp(ends.0, ends.1) as i64)
    }

    fn bounded(&self, frame: i64) -> i64 {
        frame.clamp(-MAX_FRAMES, MAX_FRAMES)
    }

    pub(crate) fn frame_at(&self, now: LocalTime) -> i64 {
        let product = i128::from((now - self.start).as_nanos()) * self.speed;
        product.div_euclid(NANOS_PER_SECOND * WHOLE) as i64
    }
}

/// In frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ring {
    period: i64,
    periods: i64,
}

impl Ring {
    fn new(settings: &Settings) -> Self {
        Self { period: settings.period.count().max(1), periods: i64::from(settings.periods).max(2) }
    }

    fn whole_periods(self, frames: i64) -> i64 {
        (frames + self.period - 1).div_euclid(self.period) * self.period
    }
}

/// The block of one wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// First frame of the block.
    pub frame: i64,
    /// Time at which the first frame meets the converter.
    pub meets: LocalTime,
    /// Frames missed before this block: played as silence, or lost.
    pub skipped: Frames,
}

impl Turn {
    /// Converts it for a process.
    pub fn side<'a>(&self, samples: &'a mut [f32]) -> Side<'a> {
        let (meets, skipped) = (self.meets, self.skipped);
        Side { samples, meets, uncertainty: CardClock::UNCERTAINTY, skipped }
    }
}

/// Playback ring. All but one period are silent at first, so the first block meets the DAC `periods
/// − 1` periods after the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaybackRing {
    clock: CardClock,
    ring: Ring,
    program: i64,
    timeout: i64,
}

impl PlaybackRing {
    /// Ring at the start of `clock`.
    pub fn new(clock: CardClock, settings: &Settings) -> Self {
        let ring = Ring::new(settings);
        Self { clock, ring, program: (ring.periods - 1) * ring.period, timeout: 0 }
    }

    /// Accepts late blocks for their due times, up to `timeout`, unlike hardware.
    pub fn patient(self, timeout: Frames) -> Self {
        Self { timeout: timeout.count().max(0), ..self }
    }

    /// Silence before the first block.
    pub fn lead(&self) -> Frames {
        Frames::new((self.ring.periods - 1) * self.ring.period)
    }

    /// Next frame to write.
    pub fn program(&self) -> i64 {
        self.program
    }

    /// Time of the next free period.
    pub fn wakes(&self) -> LocalTime {
        self.clock.instant_of(self.program - self.lead().count())
    }

    /// Starts the block of a wake-up at `now`. After an underrun, continues at the next whole
    /// period.
    pub fn begin(&mut self, now: LocalTime) -> Turn {
        let late = self.clock.frame_at(now) - self.program;
        let starved = if late > self.timeout { self.ring.whole_periods(late) } else { 0 };
        self.program += starved;
        Turn {
            frame: self.program,
            meets: self.clock.instant_of(self.program),
            skipped: Frames::new(starved),
        }
    }

    /// Ends the block at `now`. Returns its number of late frames, played as silence.
    pub fn finish(&mut self, now: LocalTime) -> Frames {
        let late = self.clock.frame_at(now) - self.program;
        self.program += self.ring.period;
        let maximum = if self.timeout > 0 { 0 } else { self.ring.period };
        Frames::new(late.clamp(0, maximum))
    }
}

/// Capture ring. Loses the oldest frames of a late program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureRing {
    clock: CardClock,
    ring: Ring,
    program: i64,
    capacity: i64,
}

impl CaptureRing {
    /// Empty ring at the start of `clock`.
    pub fn new(clock: CardClock, settings: &Settings) -> Self {
        let ring = Ring::new(settings);
        Self { clock, ring, program: 0, capacity: ring.period * ring.periods }
    }

    /// Keeps at least `timeout` frames for a late program, without latency.
    pub fn patient(self, timeout: Frames) -> Self {
        Self { capacity: self.capacity.max(self.ring.whole_periods(timeout.count())), ..self }
    }

    /// Time of the next full period.
    pub fn wakes(&self) -> LocalTime {
        self.clock.instant_of(self.program + self.ring.period)
    }

    /// Starts the block of a wake-up at `now`. Drops the oldest periods if full.
    pub fn begin(&mut self, now: LocalTime) -> Turn {
        let held = self.clock.frame_at(now) - self.program;
        let lost = self.ring.whole_periods((held - self.capacity).max(0));
        self.program += lost;
        let turn = Turn {
            frame: self.program,
            meets: self.clock.instant_of(self.program),
            skipped: Frames::new(lost),
        };
        self.program += self.ring.period;
        turn
    }
}

/// Ring of a card without hardware. A program may be late by [`CardRing::TIMEOUT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CardRing {
    /// Capture.
    Capture(CaptureRing),
    /// Playback.
    Playback(PlaybackRing),
}

impl CardRing {
    /// Maximum lateness of a program. It exceeds a freeze of the host.
    pub const TIMEOUT: Span = Span::from_secs(1);

    /// Ring at the start of `clock`.
    pub fn new(direction: Direction, clock: CardClock, settings: &Settings) -> Self {
        let timeout = settings.rate.frames_within(Self::TIMEOUT);
        match direction {
            Direction::Capture => Self::Capture(CaptureRing::new(clock, settings).patient(timeout)),
            Direction::Playback => {
                Self::Playback(PlaybackRing::new(clock, settings).patient(timeout))
            }
        }
    }

    /// Time of the next full or free period.
    pub fn wakes(&self) -> LocalTime {
        match self {
            Self::Capture(ring) => ring.wakes(),
            Self::Playback(ring) => ring.wakes(),
        }
    }

    /// Starts the block of a wake-up at `now`.
    pub fn begin(&mut self, now: LocalTime) -> Turn {
        match self {
            Self::Capture(ring) => ring.begin(now),
            Self::Playback(ring) => ring.begin(now),
        }
    }

    /// Ends the block.
    pub fn finish(&mut self, now: LocalTime) {
        if let Self::Playback(ring) = self {
            // Zero: a patient ring accepts late blocks.
            ring.finish(now);
        }
    }
}

/// Both sides of a card; each wake-up has one period to take and one to write. A block meets the
/// DAC `periods − 1` periods after its wake-up. Both sides miss the same number of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DuplexRing {
    capture: CaptureRing,
    playback: PlaybackRing,
}

impl DuplexRing {
    /// Rings at the start of `clock`.
    pub fn new(clock: CardClock, settings: &Settings) -> Self {
        let mut playback = PlaybackRing::new(clock, settings);
        playback.program += Ring::new(settings).period;
        Self { capture: CaptureRing::new(clock, settings), playback }
    }

    /// Time of the next period.
    pub fn wakes(&self) -> LocalTime {
        self.capture.wakes()
    }

    /// Silence before the first block.
    pub fn lead(&self) -> Frames {
        Frames::new(self.playback.program())
    }

    /// Starts both blocks.
    pub fn begin(&mut self, now: LocalTime) -> (Turn, Turn) {
        (self.capture.begin(now), self.playback.begin(now))
    }

    /// See [`PlaybackRing::finish`].
    pub fn finish(&mut self, now: LocalTime) -> Frames {
        self.playback.finish(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Channels;

    fn clock(ppm: f64) -> CardClock {
        CardClock::new(LocalTime::from_nanos(1_000), Rate::HZ_48000, Ppm::from_f64(ppm))
    }

    fn settings(period: i64, periods: u32) -> Settings {
        let period = Frames::new(period);
        Settings { rate: Rate::HZ_48000, channels: Channels::STEREO, period, periods }
    }

    fn at(frame: i64) -> LocalTime {
        clock(0.0).instant_of(frame)
    }

    #[test]
    fn position_and_instant_agree_on_every_frame_for_years() {
        for rate in Rate::SUPPORTED {
            for ppm in [-1000.0, -0.5, 0.0, 50.0, 1000.0] {
                let rate = Rate::new(rate).unwrap();
                let card = CardClock::new(LocalTime::from_nanos(77), rate, Ppm::from_f64(ppm));
                for year in [0, 1, 30] {
                    let first = year * 31_557_600 * i64::from(rate.hertz());
                    for frame in first - 100..first + 100 {
                        let instant = card.instant_of(frame);
                        assert_eq!(card.frame_at(instant), frame);
                        assert_eq!(card.frame_at(instant - Span::from_nanos(1)), frame - 1);
                    }
                }
            }
        }
    }

    #[test]
    fn card_drifts_by_its_set_error() {
        let hour = LocalTime::from_nanos(1_000) + Span::from_secs(3600);
        assert_eq!(clock(0.0).frame_at(hour), 172_800_000);
        assert_eq!(clock(50.0).frame_at(hour), 172_800_000 + 8640);
        assert_eq!(clock(-50.0).frame_at(hour), 172_800_000 - 8640);
    }

    #[test]
    fn a_block_meets_the_dac_all_periods_but_one_after_its_wake_up() {
        let settings = settings(48, 3);
        let mut ring = PlaybackRing::new(clock(0.0), &settings);
        for k in 0..10 {
            assert_eq!(ring.wakes(), at(48 * k));
            let turn = ring.begin(ring.wakes());
            assert_eq!(turn.meets, ring.wakes() + settings.playback_lead());
            assert_eq!((turn.frame, turn.skipped), (48 * (k + 2), Frames::ZERO));
            assert_eq!(ring.finish(at(48 * k + 40)), Frames::ZERO);
        }
    }

    #[test]
    fn late_program_underruns_and_resumes_at_the_next_free_period() {
        let mut ring = PlaybackRing::new(clock(0.0), &settings(48, 2));
        ring.begin(at(0));
        ring.finish(at(1));
        // One frame late: one frame of silence.
        assert_eq!(ring.begin(at(96)).skipped, Frames::ZERO);
        let turn = ring.begin(at(97));
        assert_eq!((turn.frame, turn.skipped), (144, Frames::new(48)));
        assert_eq!(ring.finish(at(144)), Frames::ZERO);
        assert_eq!(ring.wakes(), at(144));
        assert_eq!(ring.begin(at(144)).frame, 192);
    }

    #[test]
    fn a_block_that_is_written_too_slowly_loses_its_head() {
        let mut ring = PlaybackRing::new(clock(0.0), &settings(48, 2));
        ring.begin(at(0));
        assert_eq!(ring.finish(at(58)), Frames::new(10));
        ring.begin(at(58));
        assert_eq!(ring.finish(at(500)), Frames::new(48));
    }

    #[test]
    fn patient_ring_accepts_late_blocks_for_their_due_times() {
        let mut ring = PlaybackRing::new(clock(0.0), &settings(48, 2)).patient(Frames::new(4800));
        ring.begin(at(0));
        assert_eq!(ring.finish(at(100)), Frames::ZERO, "a block that was begun is taken whole");
        for frame in (96..).step_by(48).take(100) {
            let turn = ring.begin(at(96 + 4800));
            assert_eq!((turn.frame, turn.meets, turn.skipped), (frame, at(frame), Frames::ZERO));
            assert_eq!(ring.finish(at(96 + 4800)), Frames::ZERO);
        }
        assert_eq!(ring.wakes(), at(96 + 4800 - 48));
    }

    #[test]
    fn a_patient_ring_starves_beyond_its_patience() {
        let mut ring = PlaybackRing::new(clock(0.0), &settings(48, 2)).patient(Frames::new(4800));
        let turn = ring.begin(at(48 + 4801));
        assert_eq!((turn.frame, turn.skipped), (48 + 4848, Frames::new(4848)));
    }

    #[test]
    fn patient_capture_keeps_unread_frames() {
        let mut ring = CaptureRing::new(clock(0.0), &settings(48, 2)).patient(Frames::new(4800));
        assert_eq!(ring.wakes(), at(48));
        assert_eq!(ring.begin(at(4800)).skipped, Frames::ZERO);
        assert_eq!(ring.begin(at(4849)).skipped, Frames::new(48));
    }

    #[test]
    fn full_period_is_captured_and_kept_for_one_ring_length() {
        let mut ring = CaptureRing::new(clock(0.0), &settings(48, 2));
        assert_eq!(ring.wakes(), at(48));
        let turn = ring.begin(at(96));
        assert_eq!((turn.frame, turn.meets, turn.skipped), (0, at(0), Frames::ZERO));
        assert_eq!(ring.begin(at(144)).skipped, Frames::ZERO);
    }

    #[test]
    fn late_capture_loses_the_oldest_whole_periods() {
        let mut ring = CaptureRing::new(clock(0.0), &settings(48, 2));
        let turn = ring.begin(at(97));
        assert_eq!((turn.frame, turn.meets, turn.skipped), (48, at(48), Frames::new(48)));
        assert_eq!(ring.wakes(), at(144));
    }
}

#[cfg(test)]
mod duplex_tests {
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
    fn duplex_block_meets_the_dac_one_buffer_after_the_adc() {
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
