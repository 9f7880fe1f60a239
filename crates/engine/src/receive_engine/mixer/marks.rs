//! What spoils a stream's sound on the device, handed up as it happens. Real-time.

use rtrb::Producer;
use tautline_proto::jitter_buffer::{JitterBuffer, PullTimes, Pulled};
use tautline_proto::time::{Frames, LocalTime, MediaPoint};

/// Frames at the DAC, from an instant on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spoilt {
    /// When the first meets, or should have met, the DAC.
    pub(crate) meets: LocalTime,
    pub(crate) frames: Frames,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LabelMark {
    /// The device's first block meets its DAC then.
    Begin(LocalTime),
    /// Frames that had not come.
    Hole {
        spoilt: Spoilt,
        /// Whether the sound before went on in some of them.
        concealed: bool,
        /// What may have caused it happened since.
        since: LocalTime,
    },
    /// A packet came that should have been heard there.
    Late(Spoilt),
    /// The device starved, and played silence of its own.
    Xrun { spoilt: Spoilt, since: LocalTime },
}

pub(crate) struct LabelMarks {
    out: Producer<LabelMark>,
    begun: bool,
    /// Frames after the newest packet, which count if the stream goes on.
    tail: Option<LabelMark>,
    pub(crate) untold: u64,
}

impl LabelMarks {
    pub(crate) fn new(out: Producer<LabelMark>) -> Self {
        Self { out, begun: false, tail: None, untold: 0 }
    }

    pub(crate) fn tell(&mut self, mark: LabelMark) {
        self.untold += u64::from(self.out.push(mark).is_err());
    }

    #[inline]
    pub(crate) fn pulled(&mut self, receiver: &JitterBuffer, times: &PullTimes, pulled: &Pulled) {
        if !self.begun {
            self.begun = true;
            self.tell(LabelMark::Begin(times.meets));
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
        // Whatever held it up did so while it was on its way.
        let since = times.now - receiver.placement().link_offset();
        for hole in receiver.holes() {
            let meets =
                times.meets + rate.span_of_fine(MediaPoint::from(hole.frames.start) - start);
            let frames = hole.frames.end - hole.frames.start;
            let mark = LabelMark::Hole { spoilt: Spoilt { meets, frames }, concealed, since };
            match &mut self.tail {
                _ if !hole.is_tail => self.tell(mark),
                Some(LabelMark::Hole { spoilt, concealed: before, .. }) => {
                    spoilt.frames += frames;
                    *before |= concealed;
                }
                tail => *tail = Some(mark),
            }
        }
    }

    /// A datagram was taken, before which so many frames were missing.
    #[inline]
    pub(crate) fn took(&mut self, receiver: &JitterBuffer, missing: u64) {
        if self.tail.is_some() && !receiver.has_tail() {
            let tail = self.tail.take();
            let counts = receiver.counters().missing_frames > missing;
            tail.filter(|_| counts).into_iter().for_each(|mark| self.tell(mark));
        }
    }
}
