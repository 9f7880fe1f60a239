//! What a device played, by the instants at which it met the DAC: one thread writes, another reads, neither waits.
//!
//! As in a cable's ring, what was read is good if nothing was written over it meanwhile. Other than there, the clock
//! of a real device is known only by what it says with each block: the reader goes on frame by frame, and steers a
//! little faster or slower until it is where those instants say.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, fence};
use std::sync::Arc;

use tautline_dsp::resample::{Quality, Resampler, Step};
use tautline_proto::device::Settings;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};

/// What is kept: longer than a device's buffer and the age of what a microphone hands over.
const KEPT: Span = Span::from_secs(1);
/// What interpolates between frames: what is made with it is learned from, not heard.
const QUALITY: Quality = Quality::LowDelay;
/// Further off, the reader goes to where it should be at once: a device stood still, or was exchanged.
const JUMP: Span = Span::from_millis(20);
/// So many frames off nothing is steered: instants are no better.
const QUIET: f64 = 2.0;
/// What is steered by for each frame that it is off: half of it is made good in 2.8 s at 48 kHz.
const PPM_A_FRAME: f64 = 5.0;
/// The most that is steered by: crystals are 100 ppm apart at the worst.
const MOST_PPM: f64 = 500.0;
/// What the error is a mean of, in seconds: half of the time that steering takes, for a loop that does not ring.
const SMOOTH: f64 = 2.0;

struct LoudspeakerSound {
    rate: Rate,
    channels: usize,
    /// Frame `f` lies at `f` modulo their number.
    samples: Box<[AtomicU32]>,
    /// How far is written, and how far it was written.
    writing: AtomicI64,
    written: AtomicI64,
    /// Odd while the two below change: a frame, and when it met the DAC.
    epoch: AtomicU64,
    frame: AtomicI64,
    meets: AtomicI64,
}

impl LoudspeakerSound {
    fn held(&self) -> i64 {
        (self.samples.len() / self.channels) as i64
    }

    fn frame(&self, frame: i64) -> &[AtomicU32] {
        let at = frame.rem_euclid(self.held()) as usize * self.channels;
        &self.samples[at..at + self.channels]
    }
}

/// The end of the device's thread that plays.
pub(super) struct PlayedIn {
    shared: Arc<LoudspeakerSound>,
    next: i64,
}

/// The end of the one that captures.
pub(super) struct PlayedOut {
    shared: Arc<LoudspeakerSound>,
    /// The frame that comes next, and 2^-32 parts of one; none before anything was played.
    place: Option<(i64, u32)>,
    /// How far the place is behind where it should be, in frames.
    behind: f64,
    resampler: Resampler,
    frames: Box<[f32]>,
    longest: usize,
}

/// Both ends, for a device that plays so, and blocks of at most `longest` frames that are read.
pub(super) fn played(settings: &Settings, longest: Frames) -> (PlayedIn, PlayedOut) {
    let (rate, channels) = (settings.rate, settings.channels.count());
    let buffer = settings.period.count() * i64::from(settings.periods);
    let held = (rate.frames_within(KEPT).count() + 2 * buffer).max(1) as usize;
    let shared = Arc::new(LoudspeakerSound {
        rate,
        channels,
        samples: (0..held * channels).map(|_| AtomicU32::new(0)).collect(),
        writing: AtomicI64::new(0),
        written: AtomicI64::new(0),
        epoch: AtomicU64::new(0),
        frame: AtomicI64::new(0),
        meets: AtomicI64::new(0),
    });
    let longest = longest.as_len();
    let resampler = Resampler::new(QUALITY, channels, longest);
    let most = resampler.wants(longest, Step::GREATEST).max(resampler.half());
    let frames = vec![0.0; most * channels].into();
    let out = PlayedOut {
        shared: Arc::clone(&shared),
        place: None,
        behind: 0.0,
        resampler,
        frames,
        longest,
    };
    (PlayedIn { shared, next: 0 }, out)
}

impl PlayedIn {
    /// A block whose first frame meets the DAC at `meets`, after so many frames of the device's own silence. Real-time.
    pub(super) fn write(&mut self, meets: LocalTime, skipped: Frames, samples: &[f32]) {
        const SILENCE: [f32; Channels::MAX as usize] = [0.0; Channels::MAX as usize];
        let shared = &*self.shared;
        let silent = skipped.count().clamp(0, shared.held());
        let silence = core::iter::repeat_n(&SILENCE[..shared.channels], silent as usize);
        // What was skipped counts, also where it is longer than what is kept.
        self.next += skipped.count().max(0) - silent;
        let first = self.next + silent;
        let frames = samples.chunks_exact(shared.channels);
        let end = first + frames.len() as i64;
        shared.writing.store(end, Relaxed);
        fence(Release);
        for (from, frame) in silence.chain(frames).zip(self.next..) {
            for (to, sample) in shared.frame(frame).iter().zip(from) {
                to.store(sample.to_bits(), Relaxed);
            }
        }
        let epoch = shared.epoch.load(Relaxed);
        shared.epoch.store(epoch.wrapping_add(1), Relaxed);
        fence(Release);
        shared.frame.store(first, Relaxed);
        shared.meets.store(meets.as_nanos(), Relaxed);
        shared.epoch.store(epoch.wrapping_add(2), Release);
        shared.written.store(end, Release);
        self.next = end;
    }
}

impl PlayedOut {
    /// The frame that meets the DAC at `at`, by what was said last; `None` before anything was, or where it is being said.
    fn wanted(&self, at: LocalTime) -> Option<i64> {
        let shared = &*self.shared;
        let epoch = shared.epoch.load(Acquire);
        let (frame, meets) = (shared.frame.load(Relaxed), shared.meets.load(Relaxed));
        fence(Acquire);
        let whole = epoch != 0 && epoch.is_multiple_of(2) && shared.epoch.load(Relaxed) == epoch;
        let after = || shared.rate.frames_nearest(at - LocalTime::from_nanos(meets)).count();
        whole.then(|| frame + after())
    }

    /// What met the DAC from `at` on, for at most the longest block; silence where nothing did. `at` is to go on from
    /// block to block as a device's instants do. Real-time.
    pub(super) fn read(&mut self, at: LocalTime, out: &mut [f32]) {
        let count = out.len() / self.shared.channels;
        let wanted = self.wanted(at);
        let place = match (self.place, wanted) {
            (None, None) => return out.fill(0.0),
            (None, Some(wanted)) => self.begin(wanted),
            (Some(place), None) => place,
            (Some(place), Some(wanted)) => {
                let behind = wanted - place.0;
                if behind.abs() > self.shared.rate.frames_within(JUMP).count() {
                    self.begin(wanted)
                } else {
                    let share = count as f64 / (SMOOTH * f64::from(self.shared.rate.hertz()));
                    self.behind += (behind as f64 - self.behind) * share.min(1.0);
                    place
                }
            }
        };
        if count > self.longest {
            self.place = None;
            return out.fill(0.0);
        }
        let step = match self.behind.abs() > QUIET {
            true => Step::from_ppm((self.behind * PPM_A_FRAME).clamp(-MOST_PPM, MOST_PPM)),
            false => Step::ONE,
        };
        let (frame, fraction) = place;
        let from = if fraction == 0 && step == Step::ONE {
            self.copy(frame, out);
            frame
        } else {
            self.interpolate(frame, fraction, step, out)
        };
        if !self.was_kept(from) {
            out.fill(0.0);
        }
        let moved = u128::from(fraction) + count as u128 * u128::from(step.bits());
        self.place = Some((frame + (moved >> 32) as i64, moved as u32));
    }

    fn begin(&mut self, wanted: i64) -> (i64, u32) {
        self.behind = 0.0;
        (wanted, 0)
    }

    fn copy(&self, first: i64, out: &mut [f32]) {
        read(&self.shared, first, out);
    }

    /// Also says which frame is the first that was read.
    fn interpolate(&mut self, frame: i64, fraction: u32, step: Step, out: &mut [f32]) -> i64 {
        let channels = self.shared.channels;
        self.resampler.reset();
        let half = self.resampler.half();
        let from = frame - half as i64;
        let before = &mut self.frames[..half * channels];
        read(&self.shared, from, before);
        self.resampler.pass(before);
        self.resampler.set_fraction(fraction);
        let wanted = self.resampler.wants(out.len() / channels, step);
        let frames = &mut self.frames[..wanted * channels];
        read(&self.shared, frame, frames);
        self.resampler.push(frames);
        self.resampler.pull(out, step);
        from
    }

    fn was_kept(&self, first: i64) -> bool {
        fence(Acquire);
        first >= self.shared.writing.load(Relaxed) - self.shared.held()
    }
}

/// The frames from `first` on, silence where none was played.
fn read(shared: &LoudspeakerSound, first: i64, out: &mut [f32]) {
    let written = shared.written.load(Acquire);
    for (to, frame) in out.chunks_exact_mut(shared.channels).zip(first..) {
        match (0..written).contains(&frame) {
            true => to.iter_mut().zip(shared.frame(frame)).for_each(|(sample, place)| {
                *sample = f32::from_bits(place.load(Relaxed));
            }),
            false => to.fill(0.0),
        }
    }
}
