//! Transfers the sound of each part from the playing to the capturing device's thread. One wait-free
//! ring carries samples, another the parts and DAC time of each block. The reader stores samples by
//! frame number; skipped frames are silence.

use rtrb::{Consumer, Producer};
use tautline_io::thread::memory;
use tautline_proto::clock::ClockId;
use tautline_proto::device::Settings;
use tautline_proto::time::{Frames, LocalTime, Span};

use crate::toolbox::Sides;
use crate::toolbox::part::PieceTimes;

/// Maximum host stall that the ring bridges. Later frames are silence.
const FROZEN: Span = Span::from_millis(100);
const MIN_PIECES: usize = 64;

#[derive(Debug, Clone, Copy)]
pub(super) struct BusPiece {
    first: i64,
    frames: usize,
    pub(super) meets: LocalTime,
    pub(super) uncertainty: Span,
    pub(super) clock: Option<ClockId>,
    parts: u64,
}

impl BusPiece {
    pub(super) const fn plays(&self, part: usize) -> bool {
        self.parts >> part & 1 == 1
    }
}

pub(crate) struct BusWriter {
    samples: Producer<f32>,
    pieces: Producer<BusPiece>,
    channels: usize,
    parts: usize,
    next: i64,
    piece: Option<BusPiece>,
}

pub(crate) fn bus(settings: &Sides<Settings>, parts: usize) -> (BusWriter, BusReader) {
    let Settings { rate, channels, period, .. } = settings.playback;
    let buffer = |settings: &Settings| settings.period.as_len() * (settings.periods as usize + 1);
    let frozen = rate.frames_nearest(FROZEN).as_len();
    let frames = buffer(&settings.playback) + buffer(&settings.capture) + frozen;
    let channels = channels.count();
    let (samples, read_samples) = memory::ring(frames * parts * channels);
    let maximum = MIN_PIECES.max(2 * frames / period.as_len().max(1));
    let (pieces, read_pieces) = memory::ring(maximum);
    let room = frames.next_power_of_two();
    let writer = BusWriter { samples, pieces, channels, parts, next: 0, piece: None };
    let reader = BusReader {
        samples: read_samples,
        pieces: read_pieces,
        channels,
        room,
        kept: (0..parts).map(|_| vec![0.0; room * channels].into()).collect(),
        sounded: vec![i64::MIN / 2; parts].into(),
        known: 0,
        newest: None,
    };
    (writer, reader)
}

impl BusWriter {
    /// Starts a piece; returns whether there is room. Real-time safe.
    pub(crate) fn begin(&mut self, samples: usize, times: PieceTimes) -> bool {
        let frames = samples / self.channels;
        self.next += times.skipped.count().max(0);
        let has_room = !self.pieces.is_full() && self.samples.slots() >= samples * self.parts;
        let PieceTimes { meets, uncertainty, clock, .. } = times;
        let piece = BusPiece { first: self.next, frames, meets, uncertainty, clock, parts: 0 };
        self.piece = has_room.then_some(piece);
        self.next += frames as i64;
        has_room
    }

    pub(crate) fn write(&mut self, part: usize, block: &[f32]) {
        if let Some(piece) = &mut self.piece
            && self.samples.push_entire_slice(block).is_ok()
        {
            piece.parts |= 1 << part;
        }
    }

    pub(crate) fn end(&mut self) {
        if let Some(piece) = self.piece.take() {
            let _ = self.pieces.push(piece);
        }
    }
}

pub(crate) struct BusReader {
    samples: Consumer<f32>,
    pieces: Consumer<BusPiece>,
    pub(super) channels: usize,
    room: usize,
    kept: Box<[Box<[f32]>]>,
    sounded: Box<[i64]>,
    known: i64,
    newest: Option<BusPiece>,
}

impl BusReader {
    pub(super) fn take(&mut self) {
        while let Ok(piece) = self.pieces.pop() {
            let skipped = usize::try_from(piece.first - self.known).unwrap_or(0);
            for part in 0..self.kept.len() {
                self.lay(part, self.known, skipped.min(self.room), None);
            }
            self.known = piece.first;
            for part in 0..self.kept.len() {
                let played = piece.plays(part);
                self.lay(part, piece.first, piece.frames, played.then_some(()));
            }
            self.known += piece.frames as i64;
            self.newest = Some(piece);
        }
    }

    fn lay(&mut self, part: usize, first: i64, frames: usize, played: Option<()>) {
        let Some(kept) = self.kept.get_mut(part) else { return };
        if played.is_none() && self.sounded[part] + (self.room as i64) < first {
            return;
        }
        let mut at = first;
        let mut left = frames;
        while left > 0 {
            let place = at.rem_euclid(self.room as i64) as usize;
            let count = left.min(self.room - place);
            let there = &mut kept[place * self.channels..(place + count) * self.channels];
            match played {
                Some(()) => {
                    if let Ok(chunk) = self.samples.read_chunk(there.len()) {
                        let (head, tail) = chunk.as_slices();
                        let (first, second) = there.split_at_mut(head.len());
                        first.copy_from_slice(head);
                        second.copy_from_slice(tail);
                        chunk.commit_all();
                    }
                }
                None => there.fill(0.0),
            }
            (at, left) = (at + count as i64, left - count);
        }
        if played.is_some() {
            self.sounded[part] = at;
        }
    }

    pub(super) fn newest(&self) -> Option<(BusPiece, i64)> {
        self.newest.map(|piece| (piece, piece.first))
    }

    pub(super) fn sounds_from(&self, part: usize, frame: i64) -> bool {
        self.sounded.get(part).is_some_and(|sounded| *sounded > frame)
    }

    pub(super) fn frames(&self, part: usize, first: i64, count: usize) -> [&[f32]; 2] {
        let Some(kept) = self.kept.get(part) else { return [&[], &[]] };
        let oldest = self.known - self.room as i64;
        let known = usize::try_from(self.known - first).unwrap_or(0);
        if first < oldest {
            return [&[], &[]];
        }
        let count = count.min(known);
        let place = first.rem_euclid(self.room as i64) as usize;
        let head = count.min(self.room - place);
        let at =
            |from: usize, count: usize| &kept[from * self.channels..(from + count) * self.channels];
        [at(place, head), at(0, count - head)]
    }

    pub(super) fn ahead_of(&self, frame: i64) -> Frames {
        Frames::new(self.known - frame)
    }
}
