//! The rate servo: how many frames of the stream each frame of the card is to take, so that two
//! clocks that run apart stay together.
//!
//! It is told, block by block, what is due and what would be played, and answers with the step of
//! the resampler. Two things are kept apart: the **drift**, how much faster what is due advances
//! than the card, learnt from what is due alone; and the **pull**, what brings a remaining error of
//! what is played to nothing. Once the drift is known, only the pull is heard: a third of a cent.
//!
//! It begins by copying: where both ends share one clock nothing is resampled, and what is played is
//! what was sent, bit for bit. A place that was found while the clocks were not known well is corrected
//! once they are, by whole frames, and copied from there on. It follows once the error has left what the clocks cannot tell apart,
//! or has strayed further than one clock can seem to, with the drift that it has learnt meanwhile;
//! and it lands on whole frames again where no drift is left. Where it is *known* that both cards go
//! by one clock, no error makes it follow: frames are copied, and what stays beside is jumped to.

use tautline_dsp::resample::Step;

use crate::time::{FineFrames, Frames, MediaPoint, Span};
use crate::units::{Ppm, Rate};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServoMode {
    /// Frames are copied; the error is only watched.
    Copying,
    /// The place follows what is due.
    Following,
    /// The place goes this far, in parts of a frame, to be copied from there on: it was found while
    /// the clocks were not known well, and now they are.
    Correcting(i64),
    /// The place goes to the nearest whole frame, to be copied from there on.
    Landing,
}

/// What the servo is told before each block.
#[derive(Debug, Clone, Copy)]
pub struct Observation {
    /// What is due with the first frame of the block.
    pub due: MediaPoint,
    /// What would be played with it.
    pub place: MediaPoint,
    /// How far the two may be apart without anybody being able to tell.
    pub tolerance: Span,
    /// How far what is due may stray in the long run, if the two clocks are one.
    pub strays: Span,
    /// How far what is due may still move as the clocks become known better; `None` where it does not
    /// rest on them.
    pub precision: Option<Span>,
    /// Whether the frames are there that resampling takes beyond those of the block.
    pub looks_ahead: bool,
    /// Frames of the card in the block.
    pub frames: Frames,
    /// Frames that the card played of its own since the block before.
    pub skipped: Frames,
    /// Whether both cards are known to go by one clock.
    pub one_clock: bool,
}

/// Steers the resampler of one stream.
#[derive(Debug, Clone)]
pub struct Servo {
    rate: Rate,
    /// A frame of the card, in seconds.
    frame: f64,
    mode: ServoMode,
    drift: Drift,
    watch: StrayWatch,
    /// Whether the place is to be corrected, and not by resampling.
    misplaced: bool,
    /// Whether the last observation was of cards of one clock.
    one_clock: bool,
    /// The drift, smoothed over [`Self::CALM`], and for how long it has been followed, in seconds.
    calm: (f64, f64),
}

impl Servo {
    /// How much of an error is made up for in a second.
    const STIFFNESS: f64 = 1.6;
    /// The most that an error adds to the pitch: a third of a cent.
    const PULL: f64 = 200e-6;
    /// No drift is left if it has been below this...
    const STILL: f64 = 0.3e-6;
    /// ... on average over this long, in seconds.
    const CALM: f64 = 20.0;
    /// What is played beside what is due by more than so many frames, of cards of one clock, is there by
    /// mistake: rounding leaves half of one.
    const BESIDE: f64 = 2.0;
    /// Cards of one clock copy again from here on, in frames: no less than what rounding leaves.
    const NEAR: f64 = 0.75;

    /// Copies until there is reason to follow.
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

    /// How much faster the card runs than the sender's; `None` while that is not followed, or no
    /// further than [`Servo::reach`].
    pub fn drift(&self) -> Option<Ppm> {
        let follows = self.mode == ServoMode::Following && !self.one_clock;
        let known = follows && !self.drift.is_at_its_end();
        // A card that is slow has more of the stream due for each frame of its own.
        known.then(|| Ppm::from_f64(-self.drift.rate * 1e6))
    }

    /// How far two cards may run apart and are followed.
    pub fn reach() -> Ppm {
        Ppm::from_f64(Drift::MOST * 1e6)
    }

    /// Whether the two cards have run further apart than [`Servo::reach`] for some seconds: the place
    /// falls behind and jumps, again and again.
    pub fn is_out_of_reach(&self) -> bool {
        self.drift.at_its_end > Drift::FOR_CERTAIN
    }

    /// Whether frames are to be copied as soon as the place is a whole frame.
    pub const fn copies(&self) -> bool {
        matches!(self.mode, ServoMode::Copying)
    }

    /// Goes back to copying: another stream begins.
    pub fn land(&mut self) {
        let mode = if self.copies() { ServoMode::Copying } else { ServoMode::Landing };
        *self = Self { mode, ..Self::new(self.rate) };
    }

    /// What is due is to be reached, whether or not the clocks can tell it from what is played.
    pub fn follow(&mut self) {
        if self.mode != ServoMode::Following {
            (self.mode, self.calm) = (ServoMode::Following, (self.drift.rate, 0.0));
            self.watch = StrayWatch::NEW;
        }
    }

    /// The place was moved at once: how far it strays is counted from there.
    pub fn moved(&mut self) {
        (self.watch, self.misplaced) = (StrayWatch::NEW, false);
        if let ServoMode::Correcting(_) = self.mode {
            self.mode = ServoMode::Landing;
        }
    }

    /// What is due was moved by `span` on purpose, as another latency was chosen: that is no drift.
    pub fn retarget(&mut self, span: Span) {
        if let Some(expected) = &mut self.drift.expected {
            *expected = self.rate.point_after(*expected, span);
        }
    }

    /// The step for the coming block.
    pub fn step(&mut self, observed: &Observation) -> Step {
        self.step_until(observed, observed.frames)
    }

    /// The step for the coming block and for those that follow it until the next observation, which is
    /// meant to come after so many frames of the card in all. Each of those blocks is to be told of by
    /// [`Servo::pass`], and there are none while the place goes a set way ([`Servo::holds`]).
    pub(crate) fn step_until(&mut self, observed: &Observation, next: Frames) -> Step {
        let Observation { due, place, tolerance, strays, frames, skipped, one_clock, .. } =
            *observed;
        self.drift.observe(due, skipped, self.frame);
        self.drift.pass(frames);
        let error = (due - place).as_f64() * self.frame;
        let tolerance = tolerance.as_nanos() as f64 / 1e9;
        let seconds = next.count() as f64 * self.frame;
        if core::mem::replace(&mut self.one_clock, one_clock) != one_clock {
            // What was due until now was found in another way.
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

    /// Whether the step stays right for some blocks: not while the place goes a set way, which ends
    /// with one of them.
    pub fn holds(&self) -> bool {
        matches!(self.mode, ServoMode::Copying | ServoMode::Following)
    }

    /// A block of so many frames goes by the step of the one before.
    pub fn pass(&mut self, frames: Frames) {
        self.drift.pass(frames);
    }

    /// Has the place corrected, by whole frames, if that is due: by resampling where the latency leaves
    /// room to look ahead, else at once, as every packet would be late meanwhile.
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

    /// Whether the place is to be corrected at once: it was found while the clocks were not known well.
    pub const fn is_misplaced(&self) -> bool {
        self.misplaced
    }

    /// As far as is left, no faster than an error is pulled.
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

    /// Of cards of one clock. What is followed is another latency that was asked for.
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

    /// Whether cards of one clock have been apart for a while from where they should be: one of them was
    /// interrupted, and what it left out was not what it said.
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

    /// To the nearest whole frame, no faster than an error is pulled. Rounds up, so that what is
    /// left at the end lies after that frame: less than 2⁻³² of a frame for each of the block, which
    /// is dropped.
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

/// How far what is played strays from what is due while it is copied. A path whose legs cannot be
/// told apart leaves an error that stays; only cards that drift apart let it grow.
#[derive(Debug, Clone)]
struct StrayWatch {
    /// For how long, in seconds.
    since: f64,
    /// The error without its jitter, in seconds, and what it is counted from.
    error: f64,
    from: f64,
    /// The same without what cards' instants wander by.
    slow: f64,
    /// How far what was due could be off as the place was found, in seconds.
    found: f64,
    /// For how long the error has stood beside nothing, in seconds, and between what.
    stood: f64,
    between: (f64, f64),
    /// For how much of it there was nothing to look ahead at.
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
    /// The clocks are still being found for so long, in seconds.
    const BEGINS: f64 = 20.0;
    /// Jitter is smoothed over so long, in seconds.
    const SMOOTH: f64 = 1.0;
    /// What a sound server says of its instants wanders by tens of microseconds within seconds.
    const SLOW: f64 = 4.0;
    /// An error that has stood for so long, in seconds, is one of the place.
    const STANDS: f64 = 5.0;
    /// An error of the place is one of so many times what the clocks may be off by.
    const KNOWN: f64 = 3.0;
    /// No error below this is corrected, in seconds.
    const LEAST: f64 = 40e-6;

    /// The place was found by what is known to `precision`, unless it was before.
    fn begin(&mut self, precision: f64) {
        if self.since == 0.0 {
            self.found = precision;
        }
    }

    /// How far `error` is from where it was; nothing until that is known.
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

    /// What is wrong with the place, now that what is due is known to `precision`: an error that has
    /// stood (one that grows is a drift) and is beyond `rounding` and [`Self::KNOWN`] times what is due
    /// may be off by.
    ///
    /// It is corrected once. What that leaves is less than would be corrected again, unless the clocks
    /// become known better still by as much, which a place that is right to begin with has to wait for,
    /// too: so no wandering estimate is followed to and fro. Nor is it hurried: until errors of the
    /// rounding could be seen, the clocks are given the time in which they are found.
    fn stands(&mut self, precision: f64, rounding: f64, seconds: f64, lacks: f64) -> Option<f64> {
        let least = rounding.max(Self::LEAST);
        let most_off = Self::KNOWN * precision;
        let known = most_off <= self.found && (most_off <= least || self.since >= Self::BEGINS);
        let least = least.max(most_off);
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

    /// The place was moved by what is known to `precision`, so that the error is another.
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

/// How much faster what is due advances than the card: a phase-locked loop of second order on the
/// points that are due.
#[derive(Debug, Clone)]
struct Drift {
    /// What should be due with the next block.
    expected: Option<MediaPoint>,
    /// Frames of the stream for each of the card, less one.
    rate: f64,
    /// Frames of the card since the last point that was due.
    passed: Frames,
    /// For how long the rate has been the most there is, in seconds.
    at_its_end: f64,
    /// How far what was due last was beside what was expected and is by now, in seconds.
    behind: f64,
    /// What jumps have led the rate astray by, and what they are yet to: the loop's own answer to them.
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
    /// Natural frequency of the loop in radians per second, critically damped: a drift that changes
    /// by 100 ppm is behind by 100 ppm ÷ (e · ω) = 46 µs at most and is caught up with in seconds; a
    /// mapping that moves by 10 µs moves the drift by 3 ppm.
    const OMEGA: f64 = 0.8;
    /// The most that two cards run apart: 500 ppm, and what an estimate of that overshoots by.
    const MOST: f64 = 600e-6;
    /// At its end for so long, in seconds, it is no overshoot.
    const FOR_CERTAIN: f64 = 3.0;
    /// What is due moved at once by more than this: the clocks were mapped anew, which says nothing
    /// of the drift. In seconds: twice what a card of 500 ppm is behind by in the beginning.
    const JUMP: f64 = 500e-6;
    /// What moved by less than this within a block did not jump: cards' instants jitter.
    const JITTER: f64 = 50e-6;
    /// What a drift may change by at once, to be followed without the pitch being off by a cent...
    const SUDDEN: f64 = 300e-6;
    /// ... of which it stays this far away: 577.8 ppm, and 8 for the noise.
    const MOST_OFF: f64 = 570e-6;

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
        self.rate = self.rate.clamp(-Self::MOST, Self::MOST);
        self.at_its_end = if self.is_at_its_end() { self.at_its_end + seconds } else { 0.0 };
    }

    /// What is left of a pull, so that the pitch is never off by a cent: that is the pull, what the
    /// drift has changed by and is not learnt yet, and what jumps have led it astray by, which would not
    /// be there had nothing jumped. A quarter of `most` is always left.
    fn leave_room(&self, pull: f64, most: f64) -> f64 {
        let (room, least) = (Self::MOST_OFF - Self::SUDDEN, most / 4.0);
        let above = (room - self.astray[0]).clamp(least, most);
        let below = (room + self.astray[0]).clamp(least, most);
        pull.clamp(-below, above)
    }

    fn is_at_its_end(&self) -> bool {
        self.rate.abs() >= Self::MOST
    }

    fn pass(&mut self, frames: Frames) {
        self.passed += frames;
    }
}
