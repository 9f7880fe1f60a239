//! What a card plays, heard once for all streams of it.

use std::collections::VecDeque;

use tautline_proto::device::Listener;
use tautline_proto::stream::PTIME_RANGE;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;

use super::REACH;
use super::between::WINDOW;
use super::rings::{Reader, Writer, rings};
use super::voices::{Chorus, Mouth, voices};
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
    /// The first frame.
    due: LocalTime,
    taken: LocalTime,
}

/// What was heard and not yet searched, and whose sound that is.
pub(crate) struct Hearing {
    rate: Rate,
    heard: Reader<Meets>,
    pub(crate) voices: Chorus,
    sound: Vec<f32>,
    /// The runs it came in: the index of their first frame and when that met the DAC.
    times: VecDeque<(usize, Meets)>,
}

/// The hearing of a card, its ear, and what the mixer tells whose sound it is by.
pub(crate) fn hearing(rate: Rate, channels: usize) -> (Hearing, CardEar, Mouth) {
    let (writer, heard) =
        rings(rate.frames_within(HELD).as_len(), packets_within(HELD, PTIME_RANGE.0));
    let (mouth, voices) = voices();
    let (sound, times) = (Vec::new(), VecDeque::new());
    (Hearing { rate, heard, voices, sound, times }, CardEar { writer, channels }, mouth)
}

impl Hearing {
    /// Whether no card listens: the ear is gone.
    pub(crate) fn is_deaf(&self) -> bool {
        self.heard.is_abandoned()
    }

    /// Takes in what was heard since the last call. To be called before the ledger's lines are
    /// fetched: what was heard by now has its line there.
    pub(crate) fn listen(&mut self) {
        let Self { rate, heard, voices, sound, times } = self;
        voices.listen();
        heard.read(|meets, samples| {
            let last = times.back().map(|(index, at): &(usize, Meets)| {
                at.due + rate.span_of(Frames::from_len(sound.len() - index))
            });
            // A run that does not follow the one before cannot be searched together with it.
            if last.is_some_and(|last| (last - meets.due).abs() > rate.span_of(Frames::new(1))) {
                let whole = sound.len().next_multiple_of(WINDOW);
                sound.resize(whole, 0.0);
            }
            times.push_back((sound.len(), meets));
            sound.extend_from_slice(samples);
            voices.forget(meets.due - HELD);
        });
    }

    /// Where the windows begin that every packet in them has its line for.
    pub(super) fn settled(&self) -> impl Iterator<Item = usize> {
        self.windows(self.rate.frames_within(REACH).as_len())
    }

    /// Where all whole windows begin.
    pub(super) fn all(&self) -> impl Iterator<Item = usize> {
        self.windows(0)
    }

    fn windows(&self, newest: usize) -> impl Iterator<Item = usize> + use<> {
        let whole = self.sound.len().saturating_sub(newest) / WINDOW;
        (0..whole).map(|window| window * WINDOW)
    }

    pub(super) fn window(&self, start: usize) -> &[f32] {
        &self.sound[start..start + WINDOW]
    }

    /// Forgets what every stream has searched by now. The run that it ends in now begins later.
    pub(crate) fn forget(&mut self) {
        let frames = self.settled().count() * WINDOW;
        let first = self.meets(frames);
        self.sound.drain(..frames);
        self.times.retain(|(index, _)| *index > frames);
        self.times.iter_mut().for_each(|(index, _)| *index -= frames);
        if let Some(first) = first {
            self.times.push_front((0, first));
        }
    }

    /// When what lies `index` frames after the frame at `start` of the sound met the DAC.
    pub(super) fn time_between(&self, start: usize, index: f64) -> Option<LocalTime> {
        let part = (index.fract() * self.rate.span_of(Frames::new(1)).as_nanos() as f64).round();
        let Meets { due, taken } = self.meets(start + index as usize)?;
        Some((due + Span::from_nanos(part as i64)).max(taken))
    }

    /// When the frame at `index` of the sound was due to meet the DAC.
    pub(super) fn time_of(&self, index: usize) -> Option<LocalTime> {
        self.meets(index).map(|meets| meets.due)
    }

    /// The same, and when it was taken.
    fn meets(&self, index: usize) -> Option<Meets> {
        let after = self.times.partition_point(|(begin, _)| *begin <= index);
        let (begin, at) = self.times.get(after.checked_sub(1)?)?;
        Some(Meets { due: at.due + self.rate.span_of(Frames::from_len(index - begin)), ..*at })
    }
}
