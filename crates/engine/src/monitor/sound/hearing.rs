//! Records a card's output once for all streams.

use std::collections::VecDeque;

use tautline_proto::device::Listener;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;

use super::REACH;
use super::between::WINDOW;
use super::rings::{Reader, Writer, rings};
use super::voices::{Chorus, OutputTap, voices};
use crate::plan::packets_within;

/// Ring capacity, for the longest pause of the ordinary thread.
pub(super) const HELD: Span = Span::from_secs(2);

/// Records the first channel. Real-time safe.
pub struct CardEar {
    writer: Writer<Meets>,
    channels: usize,
}

impl Listener for CardEar {
    fn received(&mut self, meets: LocalTime, taken: LocalTime, samples: &[f32]) {
        self.writer.write(Meets { due: meets, taken }, self.channels, 0, samples);
    }
}

/// DAC time of frames: their due time, but never before the card took them.
#[derive(Debug, Clone, Copy)]
struct Meets {
    due: LocalTime,
    taken: LocalTime,
}

/// Recorded sound that can be searched. Frames count from the first recorded frame.
pub(crate) struct Hearing {
    rate: Rate,
    received: Reader<Meets>,
    pub(crate) voices: Chorus,
    sound: Vec<f32>,
    pub(super) begin: usize,
    times: VecDeque<(usize, Meets)>,
}

pub(crate) fn hearing(
    rate: Rate,
    channels: usize,
    period: Frames,
) -> (Hearing, CardEar, OutputTap) {
    let runs = packets_within(HELD, rate.span_of(period).divided(2));
    let (writer, received) = rings(rate.frames_within(HELD).as_len(), runs);
    let (mouth, voices) = voices();
    let (sound, times) = (Vec::new(), VecDeque::new());
    (
        Hearing { rate, received, voices, sound, begin: 0, times },
        CardEar { writer, channels },
        mouth,
    )
}

impl Hearing {
    pub(crate) fn is_deaf(&self) -> bool {
        self.received.is_abandoned()
    }

    /// Reads the new sound. Call it before packet traces are read, so that each played packet has
    /// its trace.
    pub(crate) fn listen(&mut self) {
        let Self { received, voices, sound, begin, times, .. } = self;
        voices.listen();
        received.read(|meets, samples| {
            times.push_back((*begin + sound.len(), meets));
            sound.extend_from_slice(samples);
            voices.forget(meets.due - HELD);
        });
    }

    pub(super) const fn end(&self) -> usize {
        self.begin + self.sound.len()
    }

    pub(super) fn settled(&self) -> usize {
        self.end().saturating_sub(self.rate.frames_within(REACH).as_len()).max(self.begin)
    }

    pub(super) fn window(&self, start: usize) -> &[f32] {
        &self.sound[start - self.begin..][..WINDOW]
    }

    pub(crate) fn forget(&mut self) {
        let begin = self.settled().saturating_sub(2 * WINDOW).max(self.begin);
        let first = self.meets(begin);
        self.sound.drain(..begin - self.begin);
        self.begin = begin;
        self.times.retain(|(frame, _)| *frame > begin);
        if let Some(first) = first {
            self.times.push_front((begin, first));
        }
    }

    pub(super) fn time_between(&self, start: usize, index: f64) -> Option<LocalTime> {
        let part = (index.fract() * self.rate.span_of(Frames::new(1)).as_nanos() as f64).round();
        let Meets { due, taken } = self.meets(start + index as usize)?;
        Some((due + Span::from_nanos(part as i64)).max(taken))
    }

    pub(super) fn time_of(&self, frame: usize) -> Option<LocalTime> {
        self.meets(frame).map(|meets| meets.due)
    }

    fn meets(&self, frame: usize) -> Option<Meets> {
        let after = self.times.partition_point(|(first, _)| *first <= frame);
        let (first, at) = self.times.get(after.checked_sub(1)?)?;
        Some(Meets { due: at.due + self.rate.span_of(Frames::from_len(frame - first)), ..*at })
    }
}
