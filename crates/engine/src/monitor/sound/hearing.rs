//! What a card plays, heard once for all streams of it.

use std::collections::VecDeque;

use tautline_proto::device::Listener;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;

use super::REACH;
use super::between::WINDOW;
use super::rings::{Reader, Writer, rings};
use super::voices::{Chorus, OutputTap, voices};
use crate::plan::packets_within;

/// What the rings hold: the ordinary thread may be away that long.
pub(super) const HELD: Span = Span::from_secs(2);

/// Hears the first channel of what a card plays. Real-time.
pub struct CardEar {
    writer: Writer<Meets>,
    channels: usize,
}

impl Listener for CardEar {
    fn heard(&mut self, meets: LocalTime, taken: LocalTime, samples: &[f32]) {
        self.writer.write(Meets { due: meets, taken }, self.channels, 0, samples);
    }
}

/// When a run of frames met the DAC: each when it was due, but none before it was taken.
#[derive(Debug, Clone, Copy)]
struct Meets {
    due: LocalTime,
    taken: LocalTime,
}

/// What was heard and may still be searched. Frames are counted from the first that was ever heard.
pub(crate) struct Hearing {
    rate: Rate,
    heard: Reader<Meets>,
    pub(crate) voices: Chorus,
    sound: Vec<f32>,
    /// The first frame of it.
    pub(super) begin: usize,
    /// The runs it came in: their first frame and when that met the DAC.
    times: VecDeque<(usize, Meets)>,
}

/// The hearing of a card, its ear, and what the mixer tells whose sound it is by.
pub(crate) fn hearing(
    rate: Rate,
    channels: usize,
    period: Frames,
) -> (Hearing, CardEar, OutputTap) {
    // Twice the runs of such a card: its cycles may be shorter now and then.
    let runs = packets_within(HELD, rate.span_of(period).divided(2));
    let (writer, heard) = rings(rate.frames_within(HELD).as_len(), runs);
    let (mouth, voices) = voices();
    let (sound, times) = (Vec::new(), VecDeque::new());
    (Hearing { rate, heard, voices, sound, begin: 0, times }, CardEar { writer, channels }, mouth)
}

impl Hearing {
    /// Whether no card listens: the ear is gone.
    pub(crate) fn is_deaf(&self) -> bool {
        self.heard.is_abandoned()
    }

    /// Takes in what was heard. Called before lines are fetched: what was heard by now has its line.
    pub(crate) fn listen(&mut self) {
        let Self { heard, voices, sound, begin, times, .. } = self;
        voices.listen();
        heard.read(|meets, samples| {
            times.push_back((*begin + sound.len(), meets));
            sound.extend_from_slice(samples);
            voices.forget(meets.due - HELD);
        });
    }

    pub(super) const fn end(&self) -> usize {
        self.begin + self.sound.len()
    }

    /// Every packet that lies before this frame has its line.
    pub(super) fn settled(&self) -> usize {
        self.end().saturating_sub(self.rate.frames_within(REACH).as_len()).max(self.begin)
    }

    pub(super) fn window(&self, start: usize) -> &[f32] {
        &self.sound[start - self.begin..][..WINDOW]
    }

    /// Forgets what every stream has searched by now, but for a window before the next of each.
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

    /// When what lies `index` frames after the frame `start` met the DAC.
    pub(super) fn time_between(&self, start: usize, index: f64) -> Option<LocalTime> {
        let part = (index.fract() * self.rate.span_of(Frames::new(1)).as_nanos() as f64).round();
        let Meets { due, taken } = self.meets(start + index as usize)?;
        Some((due + Span::from_nanos(part as i64)).max(taken))
    }

    pub(super) fn time_of(&self, frame: usize) -> Option<LocalTime> {
        self.meets(frame).map(|meets| meets.due)
    }

    /// The same, and when it was taken.
    fn meets(&self, frame: usize) -> Option<Meets> {
        let after = self.times.partition_point(|(first, _)| *first <= frame);
        let (first, at) = self.times.get(after.checked_sub(1)?)?;
        Some(Meets { due: at.due + self.rate.span_of(Frames::from_len(frame - first)), ..*at })
    }
}
