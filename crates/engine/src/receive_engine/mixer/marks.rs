//! Marks of a stream's glitches, sent from the device's thread. Real-time safe.

use rtrb::Producer;
use tautline_proto::jitter_buffer::{JitterBuffer, PullTimes, Pulled};
use tautline_proto::time::{Frames, LocalTime, MediaPoint};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AffectedFrames {
    /// Scheduled time of the first frame at the DAC.
    pub(crate) meets: LocalTime,
    pub(crate) frames: Frames,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LabelMark {
    /// The device's first block, at the DAC.
    Begin(LocalTime),
    Hole {
        damaged: AffectedFrames,
        concealed: bool,
        /// Earliest time of the cause.
        since: LocalTime,
    },
    /// A late packet that belongs to these frames.
    Late(AffectedFrames),
    /// An underrun, during which the device played silence.
    Xrun { damaged: AffectedFrames, since: LocalTime },
}

pub(crate) struct LabelMarks {
    out: Producer<LabelMark>,
    begun: bool,
    /// Hole after the newest packet. It counts only if the stream continues.
    tail: Option<LabelMark>,
    pub(crate) unreported: u64,
}

impl LabelMarks {
    pub(crate) fn new(out: Producer<LabelMark>) -> Self {
        Self { out, begun: false, tail: None, unreported: 0 }
    }

    pub(crate) fn notify(&mut self, mark: LabelMark) {
        self.unreported += u64::from(self.out.push(mark).is_err());
    }

    #[inline]
    pub(crate) fn pulled(&mut self, receiver: &JitterBuffer, times: &PullTimes, pulled: &Pulled) {
        if !self.begun {
            self.begun = true;
            self.notify(LabelMark::Begin(times.meets));
        }
        if let Some(start) = pulled.media.filter(|_| pulled.missing > Frames::ZERO) {
            self.note_holes(receiver, times, start, pulled.concealed > Frames::ZERO);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_holes(
        &mut self,
        receiver: &JitterBuffer,
        times: &PullTimes,
        start: MediaPoint,
        concealed: bool,
    ) {
        let rate = receiver.format().rate;
        let since = times.now - receiver.placement().link_offset();
        for hole in receiver.holes() {
            let meets =
                times.meets + rate.span_of_fine(MediaPoint::from(hole.frames.start) - start);
            let frames = hole.frames.end - hole.frames.start;
            let mark =
                LabelMark::Hole { damaged: AffectedFrames { meets, frames }, concealed, since };
            match &mut self.tail {
                _ if !hole.is_tail => self.notify(mark),
                Some(LabelMark::Hole { damaged, concealed: before, .. }) => {
                    damaged.frames += frames;
                    *before |= concealed;
                }
                tail => *tail = Some(mark),
            }
        }
    }

    #[inline]
    pub(crate) fn took(&mut self, receiver: &JitterBuffer, missing: u64) {
        if self.tail.is_some() && !receiver.has_tail() {
            let tail = self.tail.take();
            let counts = receiver.counters().missing_frames > missing;
            tail.filter(|_| counts).into_iter().for_each(|mark| self.notify(mark));
        }
    }
}
