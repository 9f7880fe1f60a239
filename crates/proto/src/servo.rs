//! Rate servo: keeps playout in sync when the sender and the card have different clocks. It
//! determines how many frames of the stream each frame of the card takes.
//!
//! For each block it compares the due position with the playout position and returns the
//! resampler's step. The **drift** is how much faster the due position advances than the card; it
//! is learnt from the due position only. The **pull** removes the remaining playout error. Once the
//! drift is known, only the pull changes the pitch, by at most a third of a cent.
//!
//! The servo starts by copying, so playout is bit-exact if both cards share a clock. A position
//! that was found before the clocks were known well is corrected once, by whole frames. The servo
//! follows the due position when the error exceeds the clock uncertainty, or when it grows more
//! than it could with a shared clock. When no drift is left, the servo lands on a whole frame and
//! copies again. If both cards are *known* to share a clock, the servo copies frames and jumps
//! after a lasting error.

use tautline_dsp::resample::Step;

use crate::time::{FineFrames, Frames, MediaPoint, Span};
use crate::units::{Ppm, Rate};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServoMode {
    /// Copies frames; only observes the error.
    Copying,
    /// Follows the due position.
    Following,
    /// Moves by this many parts of a frame, then copies. Used for a position that was found before
    /// the clocks were known well.
    Correcting(i64),
    /// Moves to the nearest whole frame, then copies.
    Landing,
}

/// Input of the servo for each block.
#[derive(Debug, Clone, Copy)]
pub struct Observation {
    /// Due position at the block's first frame.
    pub due: MediaPoint,
    /// Playout position at the block's first frame.
    pub place: MediaPoint,
    /// Difference of the two that is not detectable.
    pub tolerance: Span,
    /// Maximum long-term deviation of the due position if both cards share a clock.
    pub strays: Span,
    /// Maximum change of the due position as the clocks become better known. `None` if the position
    /// does not depend on clocks.
    pub precision: Option<Span>,
    /// Whether the frames that the resampler needs after the block are present.
    pub looks_ahead: bool,
    /// Card frames in the block.
    pub frames: Frames,
    /// Frames of silence that the card inserted since the previous block.
    pub skipped: Frames,
    /// Whether both cards are known to share a clock.
    pub one_clock: bool,
}

/// Controls the resampler of one stream.
#[derive(Debug, Clone)]
pub struct Servo {
    rate: Rate,
    /// Duration of a card frame, in seconds.
    frame: f64,
    mode: ServoMode,
    drift: Drift,
    watch: StrayWatch,
    /// Whether the position needs a correction by a jump.
    misplaced: bool,
    /// Whether the cards shared a clock at the last observation.
    one_clock: bool,
    /// Drift averaged over [`Self::CALM`], and for how long the position was followed, in seconds.
    calm: (f64, f64),
}

impl Servo {
    /// Share of the error that is corrected per second.
    const STIFFNESS: f64 = 1.6;
    /// Maximum pitch change to correct an error: a third of a cent.
    const PULL: f64 = 200e-6;
    /// The drift counts as zero if its average stays below this...
    const STILL: f64 = 0.3e-6;
    /// ... over this time, in seconds.
    const CALM: f64 = 20.0;
    /// Error in frames that needs a jump if the cards share a clock. Rounding leaves 0.5.
    const BESIDE: f64 = 2.0;
    /// Error in frames below which the servo copies again if the cards share a clock. Must exceed
    /// the error that rounding leaves.
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

    /// Rate error of the card relative to the sender's card. `None` if the servo does not follow,
    /// or if the error is at [`Servo::reach`].
    pub fn drift(&self) -> Option<Ppm> {
        let follows = self.mode == ServoMode::Following && !self.one_clock;
        let known = follows && !self.drift.is_at_its_end();
        // A slow card takes more stream frames per card frame.
        known.then(|| Ppm::from_f64(-self.drift.rate * 1e6))
    }

    /// Maximum rate difference that the servo follows.
    pub fn reach() -> Ppm {
        Ppm::from_f64(Drift::MAX * 1e6)
    }

    /// Whether the rates have differed by more than [`Servo::reach`] for seconds. The position then
    /// lags and jumps repeatedly.
    pub fn is_out_of_reach(&self) -> bool {
        self.drift.at_its_end > Drift::FOR_CERTAIN
    }

    /// Whether frames are copied, not resampled.
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

    /// Shifts the expected due position by `span` after a change of the latency, which is not
    /// drift.
    pub fn retarget(&mut self, span: Span) {
        if let Some(expected) = &mut self.drift.expected {
            *expected = self.rate.point_after(*expected, span);
        }
    }

    /// Returns the step for the next block.
    pub fn step(&mut self, observed: &Observation) -> Step {
        self.step_until(observed, observed.frames)
    }

    /// Returns the step for the next block and for those before the next observation, which is due
    /// after `next` card frames in total. Call [`Servo::pass`] for each of those blocks. During a
    /// fixed movement the step is valid for one block only ([`Servo::holds`]).
    pub(crate) fn step_until(&mut self, observed: &Observation, next: Frames) -> Step {
        let Observation { due, place, tolerance, strays, frames, skipped, one_clock, .. } =
            *observed;
        self.drift.observe(due, skipped, self.frame);
        self.drift.pass(frames);
        let error = (due - place).as_f64() * self.frame;
        let tolerance = tolerance.as_nanos() as f64 / 1e9;
        let seconds = next.count() as f64 * self.frame;
        if core::mem::replace(&mut self.one_clock, one_clock) != one_clock {
            // The due position was determined by another method until now.
            self.watch = StrayWatch::NEW;
        }
        if one_clock {
            return self.step_by_one_clock(error, seconds, observed);
        }
        if self.mode == ServoMode::Copying {
            let precision =
                observed.precision.map_or(f64::MAX, |most| most.as_nanos() as f64 / 1e9);
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

    /// Counts a block that reuses the previous step.
    pub fn pass(&mut self, frames: Frames) {
        self.drift.pass(frames);
    }

    /// Starts a correction by whole frames if one is due. It resamples if the latency allows
    /// look-ahead. Otherwise it jumps, because every packet would be late until resampling ends.
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

    /// Whether the position needs a jump because it was found before the clocks were known well.
    pub const fn is_misplaced(&self) -> bool {
        self.misplaced
    }

    /// Moves by the remaining distance, at most at the rate of the pull.
    fn correcting(&mut self, left: i64, fraction: u32, frames: Frames) -> Step {
        let block = frames.count().max(1);
        let most = (Self::PULL * FineFrames::ONE as f64) as i64;
        let each = (left / block).clamp(-most, most);
        if each == 0 {
            self.mode = ServoMode::Landing;
            return self.landing(fraction, frames);
        }
        self.mode = ServoMode::Correcting(left - each * block);
        Step::from_bits((FineFrames::ONE + each) as u64)
    }

    /// Returns the step for cards that share a clock. They follow only changes of the latency.
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

    /// Whether the error has lasted for a while although the cards share a clock. This happens if a
    /// card was interrupted and skipped a different number of frames than it reported.
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

    /// Moves to the nearest whole frame, at most at the rate of the pull. Rounds up, so that the
    /// position ends just after that frame. The rest is less than 2⁻³² of a frame per frame of the
    /// block, and is dropped.
    fn landing(&mut self, fraction: u32, frames: Frames) -> Step {
        let (parts, frames) = (i64::from(fraction), frames.count().max(1));
        if parts < frames {
            self.mode = ServoMode::Copying;
            return Step::ONE;
        }
        let left = if fraction < 1 << 31 { -parts } else { FineFrames::ONE - parts };
        let each = -(-left).div_euclid(frames);
        let most = (Self::PULL * FineFrames::ONE as f64) as i64;
        Step::from_bits((FineFrames::ONE + each.clamp(-most, most)) as u64)
    }
}

/// Deviation of the playout position from the due position while copying. Path asymmetry causes a
/// constant error; the error grows only if the cards drift.
#[derive(Debug, Clone)]
struct StrayWatch {
    /// Duration of the measurement, in seconds.
    since: f64,
    /// Error without jitter, and its reference, both in seconds.
    error: f64,
    from: f64,
    /// Error without the wander of the cards' timestamps, in seconds.
    slow: f64,
    /// Precision of the due position when the playout position was found, in seconds.
    found: f64,
    /// Time for which the error has been stable, in seconds, and its range.
    stood: f64,
    between: (f64, f64),
    /// Part of that time without look-ahead, in seconds.
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
    /// Time until the clocks are known, in seconds.
    const BEGINS: f64 = 20.0;
    /// Time constant that removes jitter, in seconds.
    const SMOOTH: f64 = 1.0;
    /// Time constant that removes the wander of a sound server's timestamps, in seconds. They
    /// wander by tens of microseconds within seconds.
    const SLOW: f64 = 4.0;
    /// Minimum time for which the error must be stable, in seconds.
    const STANDS: f64 = 5.0;
    /// Minimum error to correct, in multiples of the clocks' precision.
    const KNOWN: f64 = 3.0;
    /// Minimum error to correct, in seconds.
    const MIN: f64 = 40e-6;

    /// At the start, stores the precision with which the position was found.
    fn begin(&mut self, precision: f64) {
        if self.since == 0.0 {
            self.found = precision;
        }
    }

    /// Returns how far the error moved from the reference; 0 before the reference is known.
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

    /// Returns the error of the position, if the due position is known to `precision`. The error
    /// must be stable, since a growing error is drift. It must exceed `rounding` and
    /// [`Self::KNOWN`] times the precision.
    ///
    /// The error is corrected once. The next correction needs a precision that is better by the
    /// same factor, so a wandering estimate is not followed. The clocks get [`Self::BEGINS`] to
    /// settle, unless they are already precise enough to show errors of the size of the rounding.
    fn stands(&mut self, precision: f64, rounding: f64, seconds: f64, lacks: f64) -> Option<f64> {
        let least = rounding.max(Self::MIN);
        let max_off = Self::KNOWN * precision;
        let known = max_off <= self.found && (max_off <= least || self.since >= Self::BEGINS);
        let least = least.max(max_off);
        let (low, high) = self.between;
        let (low, high) = (low.min(self.slow), high.max(self.slow));
        if !known || self.slow.abs() <= least || high - low > least / 2.0 {
            self.stand_anew();
            return None;
        }
        self.stood += seconds;
        self.missing += lacks;
        self.between = (low, high);
        (self.stood >= Self::STANDS).then_some((low + high) / 2.0)
    }

    /// Adjusts the error after a movement of the position, with the due position known to
    /// `precision`.
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

/// Drift of the due position relative to the card, from a second-order phase-locked loop on the due
/// positions.
#[derive(Debug, Clone)]
struct Drift {
    /// Expected due position of the next block.
    expected: Option<MediaPoint>,
    /// Stream frames per card frame, minus one.
    rate: f64,
    /// Card frames since the last observation.
    passed: Frames,
    /// Time for which the rate has been at its limit, in seconds.
    at_its_end: f64,
    /// Difference of the last due position from the expected one, in seconds.
    behind: f64,
    /// Rate error that jumps have caused and will still cause: the response of the loop to them.
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
    /// Natural frequency in radians per second, critically damped. After a drift change of 100 ppm
    /// the loop lags by at most 100 ppm ÷ (e · ω) = 46 µs, and settles within seconds. A mapping
    /// change of 10 µs changes the drift by 3 ppm.
    const OMEGA: f64 = 0.8;
    /// Maximum rate difference of two cards: 500 ppm plus the overshoot of the estimate.
    const MAX: f64 = 600e-6;
    /// Time at the limit that excludes an overshoot, in seconds.
    const FOR_CERTAIN: f64 = 3.0;
    /// Moves of the due position above this are new clock mappings, not drift. In seconds: twice
    /// the initial lag of a card that is off by 500 ppm.
    const JUMP: f64 = 500e-6;
    /// Moves below this within a block are timestamp jitter, not jumps. In seconds.
    const JITTER: f64 = 50e-6;
    /// Drift change that is followed with a pitch error below one cent...
    const SUDDEN: f64 = 300e-6;
    /// ... because the pitch error stays below this: one cent is 577.8 ppm, minus 8 ppm for noise.
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

    /// Limits a pull so that the pitch error stays below one cent. The pitch error is the sum of
    /// the pull, the drift change that is not learnt yet, and the effect of jumps. At least a
    /// quarter of `most` remains.
    fn leave_room(&self, pull: f64, most: f64) -> f64 {
        let (room, least) = (Self::MAX_OFF - Self::SUDDEN, most / 4.0);
        let above = (room - self.astray[0]).clamp(least, most);
        let below = (room + self.astray[0]).clamp(least, most);
        pull.clamp(-below, above)
    }

    fn is_at_its_end(&self) -> bool {
        self.rate.abs() >= Self::MAX
    }

    fn pass(&mut self, frames: Frames) {
        self.passed += frames;
    }
}
