//! Output of the jitter buffer: due frames, and turns of packets.

use core::ops::Range;

use super::{Hole, JitterBuffer, Phase, PlayoutSound, PullTimes, Pulled, Resync};
use crate::ledger::{Outcome, PacketTrace};
use crate::placement::{Basis, Cards, Due};
use crate::renderer::Rendered;
use crate::source::Source;
use crate::time::{Frames, MediaPoint, MediaTime, Span};
use crate::units::Ppm;

impl JitterBuffer {
    const LOOK: Span = Span::from_millis(20);
    /// Maximum shift without an extra check.
    const LITTLE: Span = Span::from_micros(100);

    /// Samples in the playout.
    pub const fn sound(&self) -> PlayoutSound<'_> {
        PlayoutSound(&self.renderer)
    }

    /// Returns the decoded frames of the last block, once.
    pub fn take_decoded(&mut self) -> Option<Range<MediaTime>> {
        self.renderer.playout.coded_mut()?.take_fresh()
    }

    /// The next blocks are inaudible: [`Self::pull`] may return silence, which saves the
    /// convolution of a resampled stream, and keeps to the sender's clock by jumps.
    pub const fn set_silent(&mut self, silent: bool) {
        self.renderer.silent = silent;
    }

    /// Fills `out` with frames due at `times.meets`. Reports packets whose first frame was read or
    /// discarded to `passage`.
    pub fn pull(
        &mut self,
        out: &mut [f32],
        times: PullTimes,
        passage: impl FnMut(PacketTrace),
    ) -> Pulled {
        let frames = self.format.channels.frames_in(out.len());
        let resync = self.keep_to_what_is_due(&times, frames);
        let Some(rendered) = self.renderer.pull(out) else {
            let (taken, concealed) = (Frames::ZERO, Frames::ZERO);
            return Pulled { media: None, taken, missing: frames, concealed, resync };
        };
        self.take_turns(&rendered, times, passage);
        if let Some(coded) = self.renderer.playout.coded() {
            self.counters.undecodable = coded.undecodable();
        }
        self.begins = false;
        self.counters.resampled_frames +=
            if rendered.resampled { frames.as_len() as u64 } else { 0 };
        let taken = rendered.read.end - rendered.read.start;
        if rendered.missing > Frames::ZERO {
            self.count_missing(rendered.read, rendered.missing, rendered.concealed);
        }
        let Rendered { start, missing, concealed, .. } = rendered;
        Pulled { media: Some(start), taken, missing, concealed, resync }
    }

    /// Keeps the playout near the due position. In a steady state, checks every [`Self::LOOK`]: 500
    /// ppm moves 10 µs. Otherwise checks before each block, or after a shift above
    /// [`Self::LITTLE`].
    #[inline]
    fn keep_to_what_is_due(&mut self, times: &PullTimes, frames: Frames) -> Option<Resync> {
        self.placement.set_one_clock(times.clock.is_some_and(|clock| self.shares_clock(clock)));
        let (left, meets) = self.unlooked;
        let in_step = frames <= left && (times.meets - meets).abs() <= Self::LITTLE;
        if in_step && times.skipped == Frames::ZERO && self.goes_on() {
            self.unlooked = (left - frames, meets + self.renderer.length(frames));
            self.renderer.servo.pass(frames);
            return None;
        }
        self.look(times, frames)
    }

    /// Not inlined: saves 30 instructions per block.
    #[inline(never)]
    fn look(&mut self, times: &PullTimes, frames: Frames) -> Option<Resync> {
        let place = self.renderer.place()?;
        self.stepped |= self.placement.take_next_run(place.frame);
        let due = self.placement.due(times.meets)?;
        self.placement.settle();
        let resync = self.approach(&due, times.skipped);
        let (block, look) = (frames.count().max(1), self.format.rate.frames_within(Self::LOOK));
        let holds = self.renderer.holds() && self.renderer.is_near(&due);
        let blocks = if holds && due.cards == Cards::Apart { look.count() / block } else { 1 };
        let next = Frames::new(blocks.max(1).saturating_mul(block));
        self.renderer.steer(&due, times.skipped, frames, next);
        self.unlooked = (next - frames, times.meets + self.format.rate.span_of(frames));
        resync
    }

    fn goes_on(&self) -> bool {
        let playing = self.phase == Phase::Playing && !self.caught_up;
        playing && self.renderer.holds() && self.placement.moved() <= Self::LITTLE
    }

    fn approach(&mut self, due: &Due, skipped: Frames) -> Option<Resync> {
        let before = self.basis.replace(due.basis);
        let stood = core::mem::replace(&mut self.cards, due.cards);
        let caught_up = core::mem::take(&mut self.caught_up);
        if let Phase::Waiting(reason) = self.phase {
            self.renderer.begin(due.point);
            self.phase = Phase::Playing;
            self.begins = !core::mem::replace(&mut self.begun, true);
            return reason;
        }
        if caught_up {
            // The device stood still; nothing else moved.
            return self.jump(due, skipped == Frames::ZERO);
        }
        self.renderer.skip(skipped);
        if core::mem::take(&mut self.stepped) || self.renderer.has_moved() {
            return self.jump(due, true);
        }
        if due.cards != Cards::Apart {
            self.was_mapped = true;
            let seen = due.cards == Cards::OneClock;
            let alongside = seen && self.renderer.is_beside(due, stood == Cards::Apart);
            return if alongside { self.jump(due, true) } else { None };
        }
        if self.renderer.silent && due.basis == Basis::Clock {
            // A jump is inaudible, and the sound must be in place when it becomes audible.
            self.renderer.servo.follow();
            return if self.renderer.is_at(due) { None } else { self.jump(due, false) };
        }
        // Arrivals include the path delay, so even an uncertain mapping is better.
        let mapped = (before, due.basis) == (Some(Basis::Arrival), Basis::Clock);
        if self.renderer.is_far(due, !mapped) || self.renderer.servo.is_misplaced() {
            return self.jump(due, true);
        }
        // Return to the clock after an outage.
        if mapped && self.was_mapped {
            self.renderer.servo.follow();
        }
        self.was_mapped |= due.basis == Basis::Clock;
        None
    }

    fn jump(&mut self, due: &Due, counts: bool) -> Option<Resync> {
        // Nothing was played yet, so this is not a jump.
        let begun = self.source.as_ref().map(Source::begin_media);
        let counts = counts && self.renderer.place().map(|place| place.frame) > begun;
        self.renderer.jump_to(due.point);
        self.counters.resyncs += u64::from(counts);
        counts.then_some(Resync::Moved)
    }

    /// Drift of this card against the sender's, positive if faster, as resampled.
    pub fn drift(&self) -> Option<Ppm> {
        self.renderer.servo.drift()
    }

    /// Whether the drift exceeds [`crate::servo::Servo::reach`], so the sound jumps.
    pub fn is_out_of_reach(&self) -> bool {
        self.renderer.servo.is_out_of_reach()
    }

    fn take_turns(
        &mut self,
        rendered: &Rendered,
        times: PullTimes,
        mut passage: impl FnMut(PacketTrace),
    ) {
        let Some(source) = &self.source else { return };
        let (placement, renderer) = (&self.placement, &self.renderer);
        let start = rendered.start;
        let read = rendered.read.start;
        // Copied blocks consist of whole frames: saves 17 instructions.
        let copied = start == MediaPoint::from(read);
        // The resampler reads ahead, so frames play later.
        let resample =
            if copied { Span::ZERO } else { renderer.frame.times(MediaPoint::from(read) - start) };
        let (mut not_received, mut unrequested) = (0, 0);
        let taken = self.turns.take(&rendered.read, source, |kept| {
            if kept.media < read {
                let skipped = kept.media + times.skipped >= read;
                match self.begins {
                    false if skipped => {
                        not_received += 1;
                        let trace = kept.passage(placement, times.now, times.meets, Span::ZERO);
                        passage(PacketTrace { outcome: Outcome::Discarded, ..trace });
                    }
                    false => {}
                    true => unrequested += 1,
                }
                return;
            }
            let after = if copied {
                renderer.length(kept.media - read)
            } else {
                renderer.frame.times(MediaPoint::from(kept.media) - start)
            };
            let dac = times.meets + after;
            passage(kept.passage(placement, times.now, dac, resample));
        });
        self.counters.before_start += unrequested;
        self.counters.lost += taken.lost;
        self.counters.skipped_frames += taken.skipped;
        self.counters.underrun_discarded += not_received;
    }

    /// Later frames count when another packet arrives.
    fn count_missing(&mut self, frames: Range<MediaTime>, missing: Frames, concealed: Frames) {
        let Some(source) = &self.source else { return };
        let before = (source.begin_media().min(frames.end) - frames.start).as_len();
        let after = (frames.end - source.end().max(frames.start)).as_len();
        let inside = missing.as_len().saturating_sub(before + after);
        let concealed_inside = concealed.as_len().min(inside);
        self.counters.missing_frames += inside as u64;
        self.counters.concealed_frames += concealed_inside as u64;
        self.tail_missing += after as u64;
        self.tail_concealed += (concealed.as_len() - concealed_inside).min(after) as u64;
    }

    /// Missing frames of the last block with any, at most twice the runs of
    /// [`Holes`](crate::holes::Holes).
    pub fn holes(&self) -> impl Iterator<Item = Hole> + '_ {
        let source = self.source.as_ref();
        let ends = source.map(|source| (source.begin_media(), source.end()));
        let runs = ends.into_iter().flat_map(|ends| {
            self.renderer.playout.holes().iter().flat_map(move |run| {
                let (begin, end) = ends;
                let inside = run.start.max(begin)..run.end.min(end);
                let tail = run.start.max(end)..run.end;
                [(inside, false), (tail, true)]
            })
        });
        runs.filter(|(frames, _)| !frames.is_empty())
            .map(|(frames, is_tail)| Hole { frames, is_tail })
    }

    /// Whether [`Hole::is_tail`] frames were due.
    pub const fn has_tail(&self) -> bool {
        self.tail_missing > 0
    }

    /// Counts the missing tail, unless the packet begins a run of sound after a pause. `between` is
    /// the frames since the previous packet.
    pub(super) fn settle_tail(&mut self, between: Frames, can_pause: bool) {
        let tail = core::mem::take(&mut self.tail_missing);
        let concealed = core::mem::take(&mut self.tail_concealed);
        if !(can_pause && self.source.as_ref().is_some_and(Source::restarts_at)) {
            self.counters.missing_frames += tail;
            self.counters.skipped_frames += tail.min(between.max(Frames::ZERO).as_len() as u64);
            self.counters.concealed_frames += concealed;
        }
    }
}
