//! Finds marks.
//!
//! In three steps, each only where the one before found something: the signs of the sound at the
//! centres of 63 chips against those of the sync, which is a few instructions a frame; the sync
//! itself against the sound, to a part of a frame; the number, and how well the whole mark fits.

use std::collections::VecDeque;

use super::{CENTRE, CHIP, NUMBERS, SPACING, SYNC, SYNC_CHIPS, WORD_BITS, chips_of, crc, wave};

/// A mark that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FoundMark {
    /// Its number, modulo [`NUMBERS`].
    pub number: u32,
    /// Where it is: the frame, counted from the first that was pushed, and
    pub frame: i64,
    /// how far after that frame, −0.5 to 0.5.
    pub fraction: f64,
    /// How far the position may be from the truth, in frames, either way.
    pub uncertainty: f64,
    /// How well the sound fits the whole mark: 1 if it is one, 0 if it has nothing to do with it.
    pub confidence: f64,
    /// Full scale is 1; negative where the polarity is the other.
    pub gain: f64,
}

/// Of the 63 signs of a sync, those that may be wrong. By chance that few are in 1 of 7·10⁷ frames.
pub(super) const MOST_WRONG: u32 = 10;
/// A sync that fits less is none. Noise 3 dB below the mark leaves 0.8.
const LEAST_FIT: f64 = 0.5;
/// What the whole mark must fit, of what its sync does: with the wrong number, which differs from the
/// right one in four of 28 bits at least, it fits 0.87 of that at most.
const WHOLE: f64 = 0.92;
/// How far from where the signs fit the sync may lie, in frames: they fit half a chip around it.
const REACH: usize = CHIP;
/// Steps of a frame in which the sync is tried.
const STEPS: usize = 8;
/// Steps away from a whole frame that are needed: half a frame and one more.
const FURTHEST: usize = STEPS / 2 + 1;
/// Frames of the sync that are compared, the first and the last left out: a sync that lies up to
/// [`FURTHEST`] steps beside them has all of these between its own chips.
const COMPARED: usize = (SYNC_CHIPS - 1) * CHIP - 1;
/// What the parabola through three steps and the arithmetic leave, in frames.
const ARITHMETIC: f64 = 0.002;
/// What a path of 16-bit samples hides at a gain of one, in frames: half of its step, over the
/// steepest that a mark rises in a frame.
const HIDDEN: f64 = 0.5 / 32_768.0 / core::f64::consts::FRAC_PI_4;
/// How many deviations are called the uncertainty: beyond six lies one of 5·10⁸ marks.
const DEVIATIONS: f64 = 6.0;

/// Frames that must have come after the first of a mark before it is looked at.
const NEEDED: usize = SPACING + REACH + 2;
/// Frames that are kept: what is looked at, the reach before it, and blocks of room to move.
const KEPT: usize = 4096;

/// Finds marks in blocks of any length.
pub struct Finder {
    sound: Box<[f32]>,
    /// Frames in `sound`, and the number of the first of them.
    len: usize,
    first: i64,
    /// By frame modulo [`CHIP`]: the last 64 signs, the newest in the highest bit.
    signs: [u64; CHIP],
    /// First frames of what may be marks, in order.
    candidates: VecDeque<Candidate>,
    sync: Sync,
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    start: i64,
    wrong: u32,
}

/// Candidates that may wait; in sound that is no mark there is hardly ever one.
const MOST_CANDIDATES: usize = 16;

impl Finder {
    /// Has heard nothing.
    pub fn new() -> Self {
        Self {
            sound: vec![0.0; KEPT].into(),
            // Silence before the first frame, where a mark that begins there is looked for, too.
            len: 2 * REACH,
            first: -2 * REACH as i64,
            signs: [0; CHIP],
            candidates: VecDeque::with_capacity(MOST_CANDIDATES),
            sync: Sync::new(),
        }
    }

    /// Takes the next frames of one channel and tells of each mark that is complete by now.
    pub fn push(&mut self, samples: &[f32], mut found: impl FnMut(FoundMark)) {
        for &sample in samples {
            self.take(sample);
            let Some(&Candidate { start, .. }) = self.candidates.front() else { continue };
            if self.first + self.len as i64 >= start + NEEDED as i64 {
                self.candidates.pop_front();
                if let Some(mark) = self.examine(start) {
                    // The same mark may have been begun at twice: its signs fit for some frames.
                    self.candidates.retain(|next| next.start > start + REACH as i64);
                    found(mark);
                }
            }
        }
    }

    fn take(&mut self, sample: f32) {
        if self.len == KEPT {
            let kept = 2 * NEEDED;
            self.sound.copy_within(KEPT - kept.., 0);
            self.first += (KEPT - kept) as i64;
            self.len = kept;
        }
        self.sound[self.len] = sample;
        let frame = self.first + self.len as i64;
        self.len += 1;
        let signs = &mut self.signs[frame as usize % CHIP];
        *signs = (*signs >> 1) | (u64::from(sample > 0.0) << 63);
        let differ = ((*signs >> 1) ^ SYNC).count_ones();
        let wrong = differ.min(SYNC_CHIPS as u32 - differ);
        if wrong <= MOST_WRONG {
            self.consider(Candidate { start: frame - ((SYNC_CHIPS - 1) * CHIP) as i64, wrong });
        }
    }

    /// Neighbours are one candidate, at the place that fits best.
    fn consider(&mut self, candidate: Candidate) {
        if let Some(last) = self.candidates.back_mut()
            && candidate.start - last.start < CHIP as i64
        {
            if candidate.wrong < last.wrong {
                *last = candidate;
            }
        } else if self.candidates.len() < MOST_CANDIDATES {
            self.candidates.push_back(candidate);
        }
    }

    /// The mark that begins near frame `start`, if there is one.
    fn examine(&self, start: i64) -> Option<FoundMark> {
        let near = usize::try_from(start - self.first).ok()?.checked_sub(REACH)?;
        let lag = self.sync.best_lag(&self.sound[near..])?;
        let begin = near + lag;
        let SyncFit { at, likeness, uncertainty } = self.sync.place(&self.sound[begin..])?;
        let sign = likeness.signum();
        let number = self.number(begin as f64 + at, sign)?;
        let (confidence, gain) = self.confidence(number, begin, at);
        let confidence = confidence.abs();
        // Noise may forge a CRC, in one of 256 numbers that it spoils.
        if confidence < WHOLE * likeness.abs() {
            return None;
        }
        Some(FoundMark {
            number,
            frame: self.first + (begin + CENTRE) as i64,
            fraction: at,
            uncertainty: uncertainty + HIDDEN / gain.abs(),
            confidence,
            gain,
        })
    }

    /// The number of the mark that begins at `begin`, if its CRC is right.
    fn number(&self, begin: f64, sign: f64) -> Option<u32> {
        let mut word = 0;
        for bit in 0..WORD_BITS as usize {
            let centre = |half| begin + ((SYNC_CHIPS + 2 * bit + half) * CHIP) as f64;
            let one = (self.between(centre(0)) - self.between(centre(1))) * sign > 0.0;
            word = (word << 1) | u32::from(one);
        }
        let (number, sum) = (word >> 8, word & 0xFF);
        (number < NUMBERS && u32::from(crc(number)) == sum).then_some(number)
    }

    /// The sound between two frames.
    fn between(&self, at: f64) -> f64 {
        let index = at.max(0.0) as usize;
        let part = at - index as f64;
        f64::from(self.sound[index]) * (1.0 - part) + f64::from(self.sound[index + 1]) * part
    }

    /// How alike the sound is to the whole mark, and how loud.
    fn confidence(&self, number: u32, begin: usize, at: f64) -> (f64, f64) {
        let chips = chips_of(number);
        let (mut product, mut heard, mut meant) = (0.0, 0.0, 0.0);
        for frame in 1..SPACING {
            let sample = f64::from(self.sound[begin + frame]);
            let wave = wave(chips, frame as f64 - at);
            product += sample * wave;
            heard += sample * sample;
            meant += wave * wave;
        }
        (product / (heard * meant).sqrt(), product / meant)
    }
}

impl Default for Finder {
    fn default() -> Self {
        Self::new()
    }
}

/// The sync at every step beside a whole frame.
struct Sync {
    /// By step from −[`FURTHEST`] on, [`COMPARED`] samples each.
    steps: Box<[f32]>,
    /// Of each step.
    energy: [f64; 2 * FURTHEST + 1],
    /// Energy of the slope at no step, per frame².
    slope: f64,
}

/// Where the sync lies.
struct SyncFit {
    /// Frames after the frame it was looked for at.
    at: f64,
    /// Product with the sound, over the root of both energies; its sign is the polarity.
    likeness: f64,
    uncertainty: f64,
}

impl Sync {
    fn new() -> Self {
        let chips = u128::from(SYNC);
        let mut steps = vec![0.0; (2 * FURTHEST + 1) * COMPARED].into_boxed_slice();
        let mut energy = [0.0; 2 * FURTHEST + 1];
        for (step, samples) in steps.chunks_mut(COMPARED).enumerate() {
            let at = (step as f64 - FURTHEST as f64) / STEPS as f64;
            for (index, sample) in samples.iter_mut().enumerate() {
                *sample = wave(chips, (index + 1) as f64 - at) as f32;
            }
            energy[step] = dot(samples, samples);
        }
        let (before, after) = (FURTHEST - 1, FURTHEST + 1);
        let of = |step: usize| &steps[step * COMPARED..][..COMPARED];
        let per_step = of(before).iter().zip(of(after));
        let slope = per_step
            .map(|(before, after)| (f64::from(after - before) * STEPS as f64 / 2.0).powi(2))
            .sum();
        Self { steps, energy, slope }
    }

    fn product(&self, step: usize, sound: &[f32]) -> f64 {
        dot(&self.steps[step * COMPARED..][..COMPARED], &sound[1..=COMPARED])
    }

    /// The whole frame, counted from the first of `sound`, at which the sync fits best; none where
    /// that is as far as was looked.
    fn best_lag(&self, sound: &[f32]) -> Option<usize> {
        let (mut best, mut most) = (0, 0.0);
        for lag in 0..=2 * REACH {
            let sound = &sound[lag..];
            let heard = dot(&sound[1..=COMPARED], &sound[1..=COMPARED]);
            let likeness = self.product(FURTHEST, sound).powi(2) / heard.max(f64::MIN_POSITIVE);
            if likeness > most {
                (best, most) = (lag, likeness);
            }
        }
        (0 < best && best < 2 * REACH).then_some(best)
    }

    /// Where the sync lies, less than a frame beside the first of `sound`.
    fn place(&self, sound: &[f32]) -> Option<SyncFit> {
        let heard = dot(&sound[1..=COMPARED], &sound[1..=COMPARED]);
        let likeness = |step: usize| self.product(step, sound) / (heard * self.energy[step]).sqrt();
        let mut step = FURTHEST;
        let sign = likeness(step).signum();
        let mut three = [step - 1, step, step + 1].map(|step| likeness(step) * sign);
        while three[0] > three[1] && step > 1 {
            step -= 1;
            three = [likeness(step - 1) * sign, three[0], three[1]];
        }
        while three[2] > three[1] && step < 2 * FURTHEST - 1 {
            step += 1;
            three = [three[1], three[2], likeness(step + 1) * sign];
        }
        let [before, here, after] = three;
        let bend = 2.0 * here - before - after;
        let beside = if bend > 0.0 { (after - before) / (2.0 * bend) } else { 0.0 };
        let at = (step as f64 - FURTHEST as f64 + beside.clamp(-1.0, 1.0)) / STEPS as f64;
        let peak = here + (after - before) * beside.clamp(-1.0, 1.0) / 4.0;
        // Not a number where the sound is silent.
        if peak.is_nan() || peak < LEAST_FIT {
            return None;
        }
        Some(SyncFit { at, likeness: peak * sign, uncertainty: self.uncertainty(peak) })
    }

    /// What is not the sync counts as noise of even density: it moves the place by as much as the
    /// slope of the sync leaves it to (the Cramér-Rao bound of a delay).
    fn uncertainty(&self, likeness: f64) -> f64 {
        let noise = (1.0 / likeness.powi(2) - 1.0).max(0.0);
        let variance = noise * self.energy[FURTHEST] / (COMPARED as f64 * self.slope);
        ARITHMETIC + DEVIATIONS * variance.sqrt()
    }
}

/// The sum of products.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}
