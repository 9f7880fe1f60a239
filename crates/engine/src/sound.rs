//! Measures latency from the sound itself.
//!
//! A card that can listen to itself tells which samples met its DAC and when, by its own clock. The
//! packets tell which samples they brought. Finding the one in the other says when each packet was
//! really heard, whatever the playout believes: its arithmetic is only where the search begins.
//! Sound that could come from two places, as a tone can, says nothing rather than something wrong.

mod between;
mod brought;
pub mod rings;
mod search;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use tautline_proto::device::Listener;
use tautline_proto::ledger::Passage;
use tautline_proto::time::{Frames, LocalTime, MediaTime, Span};
use tautline_proto::units::Rate;

use between::WINDOW;
use brought::Brought;
use rings::{Reader, Writer, rings};
use search::Search;

/// Tells the measurement what a packet brought. Real-time.
pub(crate) struct PacketTap(Writer<MediaTime>, usize);

impl PacketTap {
    /// `samples` are the packet's, interleaved, from `media` on.
    pub(crate) fn brought(&mut self, media: MediaTime, channels: usize, samples: &[f32]) {
        let channel = self.1.min(channels.saturating_sub(1));
        self.0.write(media, channels, channel, samples);
    }
}

/// Hears the first channel of what a card plays. Real-time.
pub struct Ear {
    writer: Writer<LocalTime>,
    channels: usize,
}

impl Listener for Ear {
    fn heard(&mut self, meets: LocalTime, samples: &[f32]) {
        self.writer.write(meets, self.channels, 0, samples);
    }
}

/// A packet waiting to be found in what was heard.
#[derive(Debug, Clone, Copy)]
struct Expected {
    media: MediaTime,
    capture: LocalTime,
    dac: LocalTime,
}

/// What was found of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// First frame of the packet.
    pub media: MediaTime,
    /// Its capture → the instant the card played that very sound.
    pub measured: Span,
    /// The latter less what the books promised.
    pub error: Span,
}

/// Finds packets in what a card played.
pub struct Measurement {
    rate: Rate,
    packets: Reader<MediaTime>,
    heard: Reader<LocalTime>,
    brought: Brought,
    /// What was heard and not yet searched, and the runs it came in: the index of their first frame
    /// and when that met the DAC.
    sound: Vec<f32>,
    times: VecDeque<(usize, LocalTime)>,
    search: Search,
    expected: VecDeque<Expected>,
    unmatched: u64,
}

/// How far from where the books put it a packet is searched.
const REACH: Span = Span::from_millis(60);
/// What the rings hold: the ordinary thread may be away that long.
const HELD: Span = Span::from_secs(2);
/// Packets brought are remembered for this long and the latency.
const REMEMBERED: Span = Span::from_secs(1);

/// The two ends of a measurement of one stream on one card, and the card's ear.
///
/// `channel` of the stream is what the card's first channel plays; no latency is longer than
/// `longest`.
pub(crate) fn measurement(
    rate: Rate,
    device_channels: usize,
    channel: usize,
    longest: Span,
) -> (Measurement, PacketTap, Ear) {
    let samples = rate.frames_within(HELD).as_len();
    // A mark for every eighth of a millisecond.
    let marks = (HELD.as_nanos() / 125_000) as usize;
    let (packet_writer, packets) = rings(samples, marks);
    let (ear_writer, heard) = rings(samples, marks);
    let measurement = Measurement {
        rate,
        packets,
        heard,
        brought: Brought::new(rate.frames_within(longest + REMEMBERED)),
        sound: Vec::new(),
        times: VecDeque::new(),
        search: Search::new(rate.frames_within(REACH)),
        expected: VecDeque::new(),
        unmatched: 0,
    };
    let ear = Ear { writer: ear_writer, channels: device_channels };
    (measurement, PacketTap(packet_writer, channel), ear)
}

impl Measurement {
    /// Packets that could not be found: in silence, beside a glitch, or because other sound was
    /// mixed with theirs.
    pub fn unmatched(&self) -> u64 {
        self.unmatched
    }

    /// Whether no card listens: the ear is gone.
    pub(crate) fn is_deaf(&self) -> bool {
        self.heard.is_abandoned()
    }

    /// Takes in what was heard and brought since the last call. To be called before the books'
    /// lines are fetched: what was heard by now has its line there.
    pub(crate) fn listen(&mut self) {
        let (sound, times, rate) = (&mut self.sound, &mut self.times, self.rate);
        self.heard.read(|meets, samples| {
            let last = times.back().map(|(index, at): &(usize, LocalTime)| {
                *at + rate.span_of(Frames::from_len(sound.len() - index))
            });
            // A run that does not follow the one before cannot be searched together with it.
            if last.is_some_and(|last| (last - meets).abs() > rate.span_of(Frames::new(1))) {
                let whole = sound.len().next_multiple_of(WINDOW);
                sound.resize(whole, 0.0);
            }
            times.push_back((sound.len(), meets));
            sound.extend_from_slice(samples);
        });
        let brought = &mut self.brought;
        self.packets.read(|media, samples| brought.write(media, samples));
    }

    /// Takes the books' word for a packet, to be checked.
    pub(crate) fn expect(&mut self, passage: &Passage) {
        let Some(origin) = passage.origin else { return };
        let (media, dac) = (passage.media, passage.dac);
        self.expected.push_back(Expected { media, capture: origin.capture, dac });
        // Where no card listens nothing is ever found.
        while self.expected.front().is_some_and(|oldest| dac - oldest.dac > HELD) {
            self.expected.pop_front();
            self.unmatched += 1;
        }
    }

    /// Searches what was heard, but for the newest: packets that are heard earlier than the books
    /// say may be without their line yet.
    pub(crate) fn search(&mut self, found: &mut impl FnMut(Found)) {
        self.search_but(self.rate.frames_within(REACH).as_len(), found);
    }

    /// Searches the rest.
    pub(crate) fn finish(&mut self, found: &mut impl FnMut(Found)) {
        self.search_but(0, found);
        self.unmatched += self.expected.drain(..).count() as u64;
    }

    fn search_but(&mut self, newest: usize, found: &mut impl FnMut(Found)) {
        let mut start = 0;
        while self.sound.len() >= start + WINDOW + newest {
            self.search_window(start, found);
            start += WINDOW;
        }
        self.forget(start);
    }

    /// Forgets the first frames of the sound. The run that they end in now begins later.
    fn forget(&mut self, frames: usize) {
        let first = self.time_of(frames);
        self.sound.drain(..frames);
        self.times.retain(|(index, _)| *index > frames);
        self.times.iter_mut().for_each(|(index, _)| *index -= frames);
        if let Some(first) = first {
            self.times.push_front((0, first));
        }
    }

    /// Searches one window, and tells of the packets that begin in it.
    fn search_window(&mut self, start: usize, found: &mut impl FnMut(Found)) {
        let (Some(first), Some(last)) = (self.time_of(start), self.time_of(start + WINDOW - 1))
        else {
            return;
        };
        // Packets that the books put before this window were not found in any.
        while self.expected.front().is_some_and(|e| e.dac < first - REACH) {
            self.expected.pop_front();
            self.unmatched += 1;
        }
        let Some(near) = self.expected.iter().find(|e| e.dac >= first).copied() else { return };
        let guess = near.media - self.rate.frames_nearest(near.dac - first);
        let window = &self.sound[start..start + WINDOW];
        let Some(origin) = self.search.place(window, &self.brought, guess) else { return };
        let mut expected = core::mem::take(&mut self.expected);
        expected.retain(|packet| {
            let index = origin.index_of(packet.media);
            let here = (0.0..WINDOW as f64).contains(&index) && packet.dac <= last + REACH;
            let Some(at) = self.time_between(start, index).filter(|_| here) else { return true };
            let (measured, error) = (at - packet.capture, at - packet.dac);
            found(Found { media: packet.media, measured, error });
            false
        });
        self.expected = expected;
    }

    /// When what lies `index` frames after the frame at `start` of the sound met the DAC.
    fn time_between(&self, start: usize, index: f64) -> Option<LocalTime> {
        let part = (index.fract() * self.rate.span_of(Frames::new(1)).as_nanos() as f64).round();
        Some(self.time_of(start + index as usize)? + Span::from_nanos(part as i64))
    }

    /// When the frame at `index` of the sound met the DAC.
    fn time_of(&self, index: usize) -> Option<LocalTime> {
        let after = self.times.partition_point(|(begin, _)| *begin <= index);
        let (begin, at) = self.times.get(after.checked_sub(1)?)?;
        Some(*at + self.rate.span_of(Frames::from_len(index - begin)))
    }
}
