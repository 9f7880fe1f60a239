//! Rate servo: keeps playout in sync if the sender and the card have different clocks.
//!
//! For each block, it compares the due position with the playout position and returns the
//! resampler's step. The **drift** is the due position's rate relative to the card, minus one. The
//! **pull** removes the remaining error and bends the pitch by at most a third of a cent.
//!
//! The servo copies frames, bit-exact, until the error exceeds the clock uncertainty or grows. When
//! no drift is left, it copies again. If both cards are *known* to share a clock, it always copies,
//! and jumps after a lasting error.

use tautline_dsp::resample::Step;

use crate::time::{FineFrames, Frames, MediaPoint, Span};
use crate::units::{Ppm, Rate};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServoMode {
    Copying,
    /// Follows the due position.
    Following,
    /// Moves by parts of a frame, then copies.
    Correcting(i64),
    /// Moves to the nearest whole frame, then copies.
    Landing,
}

/// Input of the servo.
#[derive(Debug, Clone, Copy)]
pub struct Observation {
    /// Due position of the first frame.
    pub due: MediaPoint,
    /// Playout position of the first frame.
    pub place: MediaPoint,
    /// Undetectable difference of the two.
    pub tolerance: Span,
    /// Maximum long-term deviation of the due position if both cards share a clock.
    pub strays: Span,
    /// Maximum change of `due` as the clocks become better known. `None` if `due` does not depend
    /// on clocks.
    pub precision: Option<Span>,
    /// Whether the resampler's look-ahead is available.
    pub looks_ahead: bool,
    /// Card frames in the block.
    pub frames: Frames,
    /// Frames of silence inserted before the block.
    pub skipped: Frames,
    /// Whether both cards share a clock.
    pub one_clock: bool,
}

/// Controls the resampler of one stream.
#[derive(Debug, Clone)]
pub struct Servo {
    rate: Rate,
    /// In seconds.
    frame: f64,
    mode: ServoMode,
    drift: Drift,
    watch: StrayWatch,
    misplaced: bool,
    one_clock: bool,
    /// Mean drift over [`Self::CALM`], and seconds of following.
    calm: (f64, f64),
}

impl Servo {
    /// Share of the error corrected per second.
    const STIFFNESS: f64 = 1.6;
    /// Maximum pitch of a correction: a third of a cent.
    const PULL: f64 = 200e-6;
    /// Maximum average drift that counts as zero.
    const STILL: f64 = 0.3e-6;
    /// Time of averaging the drift, in seconds.
    const CALM: f64 = 20.0;
    /// Error in frames that causes a jump with a shared clock. Rounding leaves 0.5.
    const BESIDE: f64 = 2.0;
    /// Error in frames below which the servo copies with a shared clock. Exceeds the rounding
    /// error.
    const NEAR: f64 = 0.75;

    /// Creates a servo that copies.
    pub fn new(rate: Rate) -> Self {
        Self {
            rate,
            frame: rate.frame_length().as_seconds(),
            mode: ServoMode::Copying,
            drift: Drift::UNKNOWN,
            watch: StrayWatch::NEW,
            misplaced: false,
            one_clock: false,
            calm: (0.0, 0.0),
        }
    }

    /// Rate error of the card relative to the sender's. `None` if not following, or at
    /// [`Servo::reach`].
    pub fn drift(&self) -> Option<Ppm> {
        let follows = self.mode == ServoMode::Following && !self.one_clock;
        let known = follows && !self.drift.is_at_its_end();
        known.then(|| Ppm::from_f64(-self.drift.rate * 1e6))
    }

    /// Maximum rate difference.
    pub fn reach() -> Ppm {
        Ppm::from_f64(Drift::MAX * 1e6)
    }

    /// Whether the rates have exceeded [`Servo::reach`] for seconds. The position then jumps
    /// repeatedly.
    pub fn is_out_of_reach(&self) -> bool {
        self.drift.at_its_end > Drift::FOR_CERTAIN
    }

    /// Whether frames are copied.
    pub const fn copies(&self) -> bool {
        matches!(self.mode, ServoMode::Copying)
    }

    /// Prepares for another stream: copies from the next whole frame on.
    pub fn land(&mut self) {
        let mode = if self.copies() { ServoMode::Copying } else { ServoMode::Landing };
        *self = Self { mode, ..Self::new(self.rate) };
    }

    /// Follows the due position, even within the tolerance.
    pub fn follow(&mut self) {
        if self.mode != ServoMode::Following {
            (self.mode, self.calm) = (ServoMode::Following, (self.drift.rate, 0.0));
            self.watch = StrayWatch::NEW;
        }
    }

    /// Restarts the measurement after a jump of the position.
    pub fn moved(&mut self) {
        (self.watch, self.misplaced) = (StrayWatch::NEW, false);
        if let ServoMode::Correcting(_) = self.mode {
            self.mode = ServoMode::Landing;
        }
    }

    /// Shifts the expected due position after a latency change, which is not drift.
    pub fn retarget(&mut self, span: Span) {
        if let Some(expected) = &mut self.drift.expected {
            *expected = self.rate.point_after(*expected, span);
        }
    }

    /// Step for the next block.
    pub fn step(&mut self, observed: &Observation) -> Step {
        self.step_until(observed, observed.frames)
    }

    /// Returns the step until the next observation after `next` frames. Call [`Servo::pass`] for
    /// each later block. If the servo does not [hold](Servo::holds), the step is valid for one
    /// block only.
    pub(crate) fn step_until(&mut self, observed: &Observation, next: Frames) -> Step {
        let Observation { due, place, tolerance, strays, frames, skipped, one_clock, .. } =
            *observed;
        self.drift.observe(due, skipped, self.frame);
        self.drift.pass(frames);
        let error = (due - place).as_f64() * self.frame;
        let tolerance = tolerance.as_nanos() as f64 / 1e9;
        let seconds = next.count() as f64 * self.frame;
        if core::mem::replace(&mut self.one_clock, one_clock) != one_clock {
            self.watch = StrayWatch::NEW;
        }
        if one_clock {
            return self.step_by_one_clock(error, seconds, observed);
        }
        if self.mode == ServoMode::Copying {
            let precision =
                observed.precision.map_or(f64::MAX, |maximum| maximum.as_nanos() as f64 / 1e9);
            self.watch.begin(precision);
            let strayed = self.watch.strayed(error, seconds) * 1e9 > strays.as_nanos() as f64;
            if error.abs() > tolerance || strayed {
                self.follow();
            } else {
                self.correct(precision, seconds, observed.looks_ahead);
            }
        }
        match self.mode {
            ServoMode::Copying => Step::ONE,
            ServoMode::Correcting(left) => self.correcting(left, place.fraction, frames),
            ServoMode::Landing => self.landing(place.fraction, frames),
            ServoMode::Following => {
                if self.is_calm(seconds) && error.abs() * 2.0 <= tolerance {
                    self.mode = ServoMode::Landing;
                }
                let pull = self.drift.leave_room(Self::STIFFNESS * error, Self::PULL);
                Step::from_ppm((self.drift.rate + pull) * 1e6)
            }
        }
    }

    /// Whether the step is valid for several blocks. A fixed movement ends with a block.
    pub fn holds(&self) -> bool {
        matches!(self.mode, ServoMode::Copying | ServoMode::Following)
    }

    /// Counts a block without a new step.
    pub fn pass(&mut self, frames: Frames) {
        self.drift.pass(frames);
    }

    /// Starts a correction by whole frames. Without look-ahead it jumps: resampling would make
    /// every packet late.
    fn correct(&mut self, precision: f64, seconds: f64, looks_ahead: bool) {
        let lacks = if looks_ahead { 0.0 } else { seconds };
        let rounding = 2.0 * self.frame;
        let Some(error) = self.watch.stands(precision, rounding, seconds, lacks) else { return };
        if self.watch.missing * 4.0 > self.watch.stood {
            self.misplaced = true;
            return;
        }
        let frames = (error / self.frame).round();
        self.watch.shift(-frames * self.frame, precision);
        self.mode = ServoMode::Correcting(frames as i64 * FineFrames::ONE);
    }

    /// Whether the position needs a jump: it was found before the clocks were known well.
    pub const fn is_misplaced(&self) -> bool {
        self.misplaced
    }

    fn correcting(&mut self, left: i64, fraction: u32, frames: Frames) -> Step {
        let block = frames.count().max(1);
        let maximum = (Self::PULL * FineFrames::ONE as f64) as i64;
        let each = (left / block).clamp(-maximum, maximum);
        if each == 0 {
            self.mode = ServoMode::Landing;
            return self.landing(fraction, frames);
        }
        self.mode = ServoMode::Correcting(left - each * block);
        Step::from_bits((FineFrames::ONE + each) as u64)
    }

    /// Shared clock: follows only latency changes.
    fn step_by_one_clock(&mut self, error: f64, seconds: f64, observed: &Observation) -> Step {
        match self.mode {
            ServoMode::Copying => {
                self.watch.strayed(error, seconds);
                Step::ONE
            }
            ServoMode::Following if error.abs() > Self::NEAR * self.frame => {
                Step::from_ppm((Self::STIFFNESS * error).clamp(-Self::PULL, Self::PULL) * 1e6)
            }
            ServoMode::Following | ServoMode::Correcting(_) | ServoMode::Landing => {
                self.mode = ServoMode::Landing;
                self.landing(observed.place.fraction, observed.frames)
            }
        }
    }

    /// Whether shared-clock cards are misaligned for a while, after a wrongly reported skip.
    pub fn is_beside(&self) -> bool {
        let watched = self.one_clock && self.copies() && self.watch.since >= StrayWatch::SMOOTH;
        watched && self.watch.error.abs() > Self::BESIDE * self.frame
    }

    fn is_calm(&mut self, seconds: f64) -> bool {
        let (mean, since) = &mut self.calm;
        *mean += (self.drift.rate - *mean) * (seconds / Self::CALM).min(1.0);
        *since += seconds;
        *since > 2.0 * Self::CALM && mean.abs() < Self::STILL
    }

    /// Moves to the nearest whole frame, rounded up. Drops the rest, less than 2⁻³² of a frame per
    /// frame.
    fn landing(&mut self, fraction: u32, frames: Frames) -> Step {
        let (parts, frames) = (i64::from(fraction), frames.count().max(1));
        if parts < frames {
            self.mode = ServoMode::Copying;
            return Step::ONE;
        }
        let left = if fraction < 1 << 31 { -parts } else { FineFrames::ONE - parts };
        let each = -(-left).div_euclid(frames);
        let maximum = (Self::PULL * FineFrames::ONE as f64) as i64;
        Step::from_bits((FineFrames::ONE + each.clamp(-maximum, maximum)) as u64)
    }
}

/// Error while copying. Path asymmetry makes it constant; only drift makes it grow.
#[derive(Debug, Clone)]
struct StrayWatch {
    /// In seconds, like all others here.
    since: f64,
    error: f64,
    from: f64,
    slow: f64,
    /// Precision at which the playout position was found.
    found: f64,
    stood: f64,
    between: (f64, f64),
    missing: f64,
}

impl StrayWatch {
    const NEW: Self = Self {
        since: 0.0,
        error: 0.0,
        from: 0.0,
        slow: 0.0,
        found: 0.0,
        stood: 0.0,
        between: (0.0, 0.0),
        missing: 0.0,
    };
    /// Seconds until the clocks are known.
    const BEGINS: f64 = 20.0;
    /// Averaging time that removes jitter, in seconds.
    const SMOOTH: f64 = 1.0;
    /// Averaging time in seconds that removes the wander of a sound server's timestamps: tens of
    /// microseconds within seconds.
    const SLOW: f64 = 4.0;
    const STANDS: f64 = 5.0;
    /// Minimum corrected error in multiples of the precision.
    const KNOWN: f64 = 3.0;
    /// Minimum corrected error in seconds.
    const MIN: f64 = 40e-6;

    fn begin(&mut self, precision: f64) {
        if self.since == 0.0 {
            self.found = precision;
        }
    }

    /// Distance of the error from its reference, once known.
    fn strayed(&mut self, error: f64, seconds: f64) -> f64 {
        let weight = |over: f64| if self.since == 0.0 { 1.0 } else { (seconds / over).min(1.0) };
        self.error += (error - self.error) * weight(Self::SMOOTH);
        self.slow += (error - self.slow) * weight(Self::SLOW);
        self.since += seconds;
        if self.since < Self::BEGINS {
            self.from = self.error;
        }
        (self.error - self.from).abs()
    }

    /// Error to correct. It must be stable, since a growing error is drift. It must exceed
    /// `rounding` and [`Self::KNOWN`] times the precision. The next correction needs a precision
    /// better by that factor.
    fn stands(&mut self, precision: f64, rounding: f64, seconds: f64, lacks: f64) -> Option<f64> {
        let minimum = rounding.max(Self::MIN);
        let max_off = Self::KNOWN * precision;
        let known = max_off <= self.found && (max_off <= minimum || self.since >= Self::BEGINS);
        let minimum = minimum.max(max_off);
        let (low, high) = self.between;
        let (low, high) = (low.min(self.slow), high.max(self.slow));
        if !known || self.slow.abs() <= minimum || high - low > minimum / 2.0 {
            self.stand_anew();
            return None;
        }
        self.stood += seconds;
        self.missing += lacks;
        self.between = (low, high);
        (self.stood >= Self::STANDS).then_some((low + high) / 2.0)
    }

    fn shift(&mut self, by: f64, precision: f64) {
        self.error += by;
        self.from += by;
        self.slow += by;
        self.found = precision;
        self.stand_anew();
    }

    fn stand_anew(&mut self) {
        (self.stood, self.missing, self.between) = (0.0, 0.0, (self.slow, self.slow));
    }
}

/// Second-order phase-locked loop on the due positions.
#[derive(Debug, Clone)]
struct Drift {
    expected: Option<MediaPoint>,
    /// Stream frames per card frame, minus one.
    rate: f64,
    passed: Frames,
    at_its_end: f64,
    behind: f64,
    astray: [f64; 2],
}

impl Drift {
    const UNKNOWN: Self = Self {
        expected: None,
        rate: 0.0,
        passed: Frames::ZERO,
        at_its_end: 0.0,
        behind: 0.0,
        astray: [0.0; 2],
    };
    /// Natural frequency in rad/s, critically damped. A drift change of 100 ppm causes a lag of at
    /// most 100 ppm ÷ (e · ω) = 46 µs. A mapping change of 10 µs changes the drift by 3 ppm.
    const OMEGA: f64 = 0.8;
    /// Maximum rate: 500 ppm plus the overshoot of the estimate.
    const MAX: f64 = 600e-6;
    /// Seconds at the limit that exclude an overshoot.
    const FOR_CERTAIN: f64 = 3.0;
    /// Maximum move in seconds that counts as drift: twice the initial lag at 500 ppm. Larger moves
    /// are new clock mappings.
    const JUMP: f64 = 500e-6;
    /// Maximum move in seconds within a block that counts as timestamp jitter.
    const JITTER: f64 = 50e-6;
    /// Drift change that is followed with a pitch error below one cent.
    const SUDDEN: f64 = 300e-6;
    /// Maximum pitch error: one cent is 577.8 ppm, minus 8 ppm for noise.
    const MAX_OFF: f64 = 570e-6;

    fn observe(&mut self, due: MediaPoint, skipped: Frames, frame: f64) {
        let elapsed = self.passed + skipped;
        self.passed = Frames::ZERO;
        let Some(expected) = self.expected else {
            self.expected = Some(due);
            return;
        };
        let advance = (elapsed.count() as f64 * self.rate * FineFrames::ONE as f64) as i64;
        let expected = expected + FineFrames::from(elapsed) + FineFrames::from_parts(advance);
        let behind = (due - expected).as_f64() * frame;
        let seconds = elapsed.count() as f64 * frame;
        let gain = (Self::OMEGA * seconds).min(0.5);
        let [now, next] = &mut self.astray;
        *now += (*next - *now) * gain;
        *next -= *next * gain;
        if behind.abs() > Self::JUMP {
            (self.expected, self.behind) = (Some(due), 0.0);
            return;
        }
        let jumped = behind - self.behind;
        if jumped.abs() > Self::JITTER {
            self.astray[1] += Self::OMEGA * jumped;
        }
        self.behind = behind * (1.0 - 2.0 * gain);
        let pulled = behind / frame * FineFrames::ONE as f64 * 2.0 * gain;
        self.expected = Some(expected + FineFrames::from_parts(pulled as i64));
        self.rate += Self::OMEGA * gain * behind;
        self.rate = self.rate.clamp(-Self::MAX, Self::MAX);
        self.at_its_end = if self.is_at_its_end() { self.at_its_end + seconds } else { 0.0 };
    }

    /// Limits a pull so that the pitch error stays below one cent, but leaves a quarter of
    /// `maximum`.
    fn leave_room(&self, pull: f64, maximum: f64) -> f64 {
        let (room, minimum) = (Self::MAX_OFF - Self::SUDDEN, maximum / 4.0);
        let above = (room - self.astray[0]).clamp(minimum, maximum);
        let below = (room + self.astray[0]).clamp(minimum, maximum);
        pull.clamp(-below, above)
    }

    fn is_at_its_end(&self) -> bool {
        self.rate.abs() >= Self::MAX
    }

    fn pass(&mut self, frames: Frames) {
        self.passed += frames;
    }
}
