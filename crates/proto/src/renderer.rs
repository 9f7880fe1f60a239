//! Renders frames for the DAC: [`Playout`] returns them, [`Servo`] sets the step, and [`Resampler`]
//! applies it with half a kernel of look-ahead. Copied frames bypass the resampler.

use core::ops::Range;

use tautline_dsp::resample::{Quality, Resampler, Step};

use crate::placement::{Cards, Due};
use crate::playout::Playout;
use crate::servo::{Observation, Servo};
use crate::time::{FineFrames, Frames, MediaPoint, MediaTime, Span};
use crate::units::{Channels, FrameLength, Rate};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) start: MediaPoint,
    pub(crate) read: Range<MediaTime>,
    pub(crate) missing: Frames,
    pub(crate) concealed: Frames,
    pub(crate) resampled: bool,
}

#[derive(Debug)]
pub(crate) struct Renderer {
    rate: Rate,
    pub(crate) frame: FrameLength,
    channels: Channels,
    pub(crate) playout: Playout,
    resampler: Resampler,
    minimum: usize,
    /// Whether the resampler's history is deferred, which saves 52 instructions per block.
    unreported: bool,
    pub(crate) servo: Servo,
    step: Step,
    moved: bool,
    /// Inaudible frames need no convolution.
    pub(crate) silent: bool,
    room: Box<[f32]>,
}

impl Renderer {
    /// Maximum deviation that is resampled, which takes seconds. Larger deviations cause a jump.
    const FOLLOWED: Span = Span::from_millis(1);
    /// Maximum latency increase without a jump. Resampling takes a second for 0.2 ms.
    const AT_ONCE: Span = Span::from_micros(200);
    /// Maximum deviation of a near position: a quarter of `FOLLOWED`.
    const NEAR: Span = Span::from_micros(250);
    const PIECE: usize = 512;

    /// Only this function allocates.
    pub(crate) fn new(rate: Rate, channels: Channels, frames: Frames, quality: Quality) -> Self {
        let resampler = Resampler::new(quality, channels.count(), Self::PIECE);
        let maximum = resampler.wants(Self::PIECE, Step::from_ppm(10_000.0));
        let playout = Playout::new(rate, channels, frames);
        let kept = Frames::from_len(resampler.half());
        let lies = kept <= playout.history();
        Self {
            rate,
            frame: rate.frame_length(),
            channels,
            playout,
            resampler,
            minimum: if lies { channels.samples_in(kept) } else { usize::MAX },
            unreported: false,
            servo: Servo::new(rate),
            step: Step::ONE,
            moved: false,
            silent: false,
            room: vec![0.0; maximum * channels.count()].into(),
        }
    }

    pub(crate) fn place(&self) -> Option<MediaPoint> {
        let frame = self.playout.cursor()? - Frames::from_len(self.resampler.ahead());
        Some(MediaPoint { frame, fraction: self.resampler.fraction() })
    }

    pub(crate) fn begin(&mut self, due: MediaPoint) {
        self.update_resampler();
        self.servo.land();
        self.playout.move_to(self.cursor_for(due));
    }

    pub(crate) fn skip(&mut self, skipped: Frames) {
        if let Some(cursor) = self.playout.cursor().filter(|_| skipped != Frames::ZERO) {
            self.update_resampler();
            self.playout.move_to(cursor + skipped);
        }
    }

    pub(crate) fn catch_up(&mut self, due: MediaPoint) {
        self.update_resampler();
        self.servo.moved();
        self.playout.move_to(self.cursor_for(due));
    }

    pub(crate) fn jump_to(&mut self, due: MediaPoint) {
        self.update_resampler();
        self.servo.moved();
        let next = self.cursor_for(due);
        if self.playout.cursor() != Some(next) {
            self.playout.jump_to(next);
        }
    }

    /// Nearest cursor to `due` at the resampler's phase; off by at most half a frame.
    fn cursor_for(&self, due: MediaPoint) -> MediaTime {
        let away = MediaPoint { frame: due.frame, fraction: self.resampler.fraction() } - due;
        let half = FineFrames::ONE / 2;
        let over = i64::from(away.parts() < -half) - i64::from(away.parts() > half);
        due.frame + Frames::new(over) + Frames::from_len(self.resampler.ahead())
    }

    /// From the playout position to `due`; zero without a position.
    fn away(&self, due: &Due) -> FineFrames {
        self.place().map_or(FineFrames::ZERO, |place| due.point - place)
    }

    /// Whether `due` is too far to follow. `slack` tolerates the clock uncertainty.
    pub(crate) fn is_far(&self, due: &Due, slack: bool) -> bool {
        let slack = if slack { due.tolerance(self.frame) } else { Span::ZERO };
        self.frame.times(self.away(due)).abs() > Self::FOLLOWED + slack
    }

    /// Whether shared-clock cards are misaligned: beyond rounding if `new`, else for a while.
    pub(crate) fn is_beside(&self, due: &Due, new: bool) -> bool {
        (new && self.away(due).parts().abs() > FineFrames::ONE) || self.servo.is_beside()
    }

    /// Chooses the step for a block after `skipped` frames of silence. It is valid for `next`
    /// frames if it [holds](Self::holds).
    pub(crate) fn steer(&mut self, due: &Due, skipped: Frames, frames: Frames, next: Frames) {
        let Some(place) = self.place() else { return };
        if due.cards == Cards::Unseen {
            // The due position is a guess by now.
            self.step = Step::ONE;
            return;
        }
        let observed = Observation {
            due: due.point,
            place,
            tolerance: due.tolerance(self.frame),
            strays: due.strays(self.frame),
            precision: due.precision,
            looks_ahead: self.playout.has(frames + Frames::from_len(self.resampler.half())),
            frames,
            skipped,
            one_clock: due.cards != Cards::Apart,
        };
        self.step = self.servo.step_until(&observed, next);
        if self.servo.copies() && place.fraction > 0 {
            self.resampler.set_fraction(0);
        }
    }

    pub(crate) fn holds(&self) -> bool {
        self.servo.holds() && !self.moved
    }

    pub(crate) fn length(&self, frames: Frames) -> Span {
        self.frame.frames(u32::try_from(frames.count()).unwrap_or(u32::MAX))
    }

    pub(crate) fn is_near(&self, due: &Due) -> bool {
        self.frame.times(self.away(due)).abs() <= Self::NEAR
    }

    /// Whether an inaudible stream is at its place: within the noise of a known clock.
    pub(crate) fn is_at(&self, due: &Due) -> bool {
        self.away(due).parts().abs() <= 2 * FineFrames::ONE
    }

    /// Larger changes cause a jump, so that packets in time find their place.
    pub(crate) fn retarget(&mut self, span: Span) {
        self.servo.retarget(span);
        if -span <= Self::AT_ONCE && span <= Self::FOLLOWED {
            self.servo.follow();
        } else if let Some(place) = self.place() {
            self.jump_to(self.rate.point_after(place, span));
            self.moved = true;
        }
    }

    /// Whether playout jumped on purpose since the last call; its fade can hide a correction.
    pub(crate) fn has_moved(&mut self) -> bool {
        core::mem::take(&mut self.moved)
    }

    #[inline]
    pub(crate) fn pull(&mut self, out: &mut [f32]) -> Option<Rendered> {
        match self.pull_whole(out) {
            Some(rendered) => Some(rendered),
            None => self.pull_any(out),
        }
    }

    /// Fast path: complete, contiguous, copied.
    #[inline]
    fn pull_whole(&mut self, out: &mut [f32]) -> Option<Rendered> {
        let copied = self.step == Step::ONE && self.resampler.fraction() == 0;
        if !copied || self.resampler.ahead() != 0 {
            return None;
        }
        let later = out.len() >= self.minimum;
        if !later {
            self.update_resampler();
        }
        let read = self.playout.pull_whole(out)?;
        if later {
            self.unreported = true;
        } else {
            self.resampler.pass(out);
        }
        let start = MediaPoint::from(read.start);
        let (missing, concealed) = (Frames::ZERO, Frames::ZERO);
        Some(Rendered { start, read, missing, concealed, resampled: false })
    }

    fn update_resampler(&mut self) {
        if core::mem::take(&mut self.unreported)
            && let Some(cursor) = self.playout.cursor()
        {
            let kept = Frames::from_len(self.resampler.half());
            // Contiguous, like the block passed on, which is not shorter.
            let [kept, rest] = self.playout.samples(cursor - kept, kept);
            debug_assert!(rest.is_empty());
            self.resampler.pass(kept);
        }
    }

    #[inline(never)]
    fn pull_any(&mut self, out: &mut [f32]) -> Option<Rendered> {
        self.update_resampler();
        self.playout.clear_holes();
        let begin = self.place().zip(self.playout.cursor());
        let resampled = self.step != Step::ONE || self.resampler.fraction() != 0;
        let (mut missing, concealed) = (Frames::ZERO, self.playout.concealed());
        for piece in out.chunks_mut(Self::PIECE * self.channels.count()) {
            missing += self.pull_piece(piece);
        }
        let (start, first) = begin?;
        let read = first..self.playout.cursor()?;
        let concealed = Frames::new((self.playout.concealed() - concealed) as i64);
        Some(Rendered { start, read, missing, concealed, resampled })
    }

    fn pull_piece(&mut self, out: &mut [f32]) -> Frames {
        let frames = self.channels.frames_in(out.len()).as_len();
        let wanted = self.resampler.wants(frames, self.step);
        if wanted == frames && self.step == Step::ONE && self.resampler.fraction() == 0 {
            let missing = self.playout.pull(out);
            self.resampler.pass(out);
            return missing;
        }
        let room = &mut self.room[..wanted * self.channels.count()];
        let missing = self.playout.pull(room);
        self.resampler.push(room);
        if self.silent {
            self.resampler.skip(frames, self.step);
            out.fill(0.0);
        } else {
            self.resampler.pull(out, self.step);
        }
        missing
    }

    pub(crate) fn clear(&mut self) {
        self.update_resampler();
        self.step = Step::ONE;
        self.playout.clear();
    }
}

#[cfg(test)]
mod tests {
    use tautline_dsp::format::SampleFormat;

    use super::*;

    #[derive(Debug, Clone, Copy)]
    enum Then {
        Nothing,
        Jump(i64),
        Skip(i64),
        CatchUp(i64),
        Another(i64),
        Again(i64),
    }

    const BLOCK: usize = 48;
    /// The history is deferred for the longer ones only.
    const LENGTHS: [usize; 4] = [BLOCK, BLOCK, 5, 40];

    /// Copies `blocks` blocks, then resamples after `then`. `later` defers the history.
    fn received(later: bool, start: i64, blocks: usize, then: Then) -> Vec<f32> {
        let (rate, channels) = (Rate::HZ_48000, Channels::STEREO);
        let mut renderer = Renderer::new(rate, channels, Frames::new(4800), Quality::default());
        assert!(
            (2 * 5 + 1..=2 * 40).contains(&renderer.minimum),
            "the history is deferred for some lengths only"
        );
        if !later {
            renderer.minimum = usize::MAX;
        }
        renderer.begin(MediaTime::from_frames(start).into());
        let (mut received, mut bytes, mut placed) = (Vec::new(), [0; 2 * BLOCK * 4], start);
        for block in 0..blocks + 8 {
            while renderer.place().is_some_and(|at| at.frame.as_frames() + 240 > placed) {
                let sound: [f32; 2 * BLOCK] =
                    core::array::from_fn(|at| ((2 * placed + at as i64) as f32 * 0.07).sin());
                tautline_dsp::format::encode(SampleFormat::F32, &sound, &mut bytes);
                let first = MediaTime::from_frames(placed);
                renderer.playout.place(first, SampleFormat::F32, &bytes);
                placed += BLOCK as i64;
            }
            let mut out = [0.0; 2 * BLOCK];
            let out = &mut out[..2 * LENGTHS[block % LENGTHS.len()]];
            renderer.pull(out);
            received.extend_from_slice(out);
            if block + 1 == blocks {
                let place = renderer.place().unwrap();
                let ahead =
                    |frames| MediaPoint { frame: place.frame + Frames::new(frames), ..place };
                match then {
                    Then::Nothing => {}
                    Then::Jump(frames) => renderer.jump_to(ahead(frames)),
                    Then::Skip(frames) => renderer.skip(Frames::new(frames)),
                    Then::CatchUp(frames) => renderer.catch_up(ahead(frames)),
                    Then::Again(frames) => renderer.begin(ahead(frames)),
                    Then::Another(frames) => {
                        renderer.clear();
                        renderer.begin(ahead(frames));
                    }
                }
                renderer.step = Step::from_ppm(200.0);
            }
        }
        received
    }

    #[test]
    fn resampling_continues_the_copied_sound_after_any_event() {
        let then = [
            Then::Nothing,
            Then::Jump(-3),
            Then::Jump(-200),
            Then::Jump(3),
            Then::Skip(48),
            Then::CatchUp(100),
            Then::Another(0),
            Then::Another(100),
            Then::Again(100),
        ];
        // The 8192-frame ring ends with a deferred block.
        for start in [0, 8192 - 2 * BLOCK as i64] {
            for blocks in [1, 2, 3, 4, 30] {
                for then in then {
                    let received = [true, false].map(|later| received(later, start, blocks, then));
                    assert!(
                        received[0] == received[1],
                        "{then:?} after {blocks} blocks from {start}"
                    );
                }
            }
        }
    }
}
