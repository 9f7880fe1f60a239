//! Measures latency from the sound itself.
//!
//! A card that can listen to itself tells which samples met its DAC and when, by its own clock. The
//! packets tell which samples they brought. Finding the one in the other says when each packet was
//! really heard, whatever the playout believes: its arithmetic is only where the search begins.

use std::collections::VecDeque;

use rtrb::{Consumer, Producer, RingBuffer};
use tautline_proto::device::Listener;
use tautline_proto::ledger::Passage;
use tautline_proto::time::{Frames, LocalTime, MediaTime, Span};
use tautline_proto::units::Rate;

/// A run of frames whose first sample is in the sample ring beside it.
#[derive(Debug, Clone, Copy)]
struct Mark<At> {
    at: At,
    frames: usize,
}

/// Two rings: runs of samples, and where or when each begins.
struct Writer<At> {
    samples: Producer<f32>,
    marks: Producer<Mark<At>>,
}

struct Reader<At> {
    samples: Consumer<f32>,
    marks: Consumer<Mark<At>>,
}

fn rings<At>(samples: usize, marks: usize) -> (Writer<At>, Reader<At>) {
    let (sample_in, sample_out) = RingBuffer::new(samples);
    let (mark_in, mark_out) = RingBuffer::new(marks);
    let writer = Writer { samples: sample_in, marks: mark_in };
    (writer, Reader { samples: sample_out, marks: mark_out })
}

impl<At> Writer<At> {
    /// Writes a run, or nothing where there is no room. Wait-free.
    fn write(&mut self, at: At, channels: usize, channel: usize, samples: &[f32]) {
        let frames = samples.len() / channels.max(1);
        let picked = samples.iter().skip(channel).step_by(channels.max(1)).copied().take(frames);
        if self.marks.slots() == 0 {
            return;
        }
        let Ok(chunk) = self.samples.write_chunk_uninit(frames) else { return };
        if chunk.fill_from_iter(picked) == frames {
            // There was room a moment ago, and nobody else writes.
            let _ = self.marks.push(Mark { at, frames });
        }
    }
}

impl<At> Reader<At> {
    fn read(&mut self, mut take: impl FnMut(At, &[f32])) {
        while let Ok(mark) = self.marks.pop() {
            let Ok(chunk) = self.samples.read_chunk(mark.frames) else { return };
            let (head, tail) = chunk.as_slices();
            if tail.is_empty() {
                take(mark.at, head);
            } else {
                take(mark.at, &[head, tail].concat());
            }
            chunk.commit_all();
        }
    }
}

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
    /// What packets brought, by media time; NaN where nothing came.
    brought: Box<[f32]>,
    brought_until: Option<MediaTime>,
    /// What was heard and not yet searched: the run's frames and when the first met the DAC.
    sound: Vec<f32>,
    times: VecDeque<(usize, LocalTime)>,
    expected: VecDeque<Expected>,
    unmatched: u64,
}

/// Frames compared at a time: long enough that only the right place matches, short enough that a
/// change of place spoils little.
const WINDOW: usize = 1024;
/// How far from where the books put it a packet is searched.
const REACH: Span = Span::from_millis(60);
/// The part of a window's energy that may be left over: −60 dB, well above the rounding of a volume
/// and well below anything but the same sound.
const LEFT_OVER: f64 = 1e-6;
/// Below this mean square a window is silence and says nothing: −90 dBFS.
const SILENCE: f64 = 1e-9;

/// The two ends of a measurement of one stream on one card, and the card's ear.
pub(crate) fn measurement(
    rate: Rate,
    device_channels: usize,
    channel: usize,
) -> (Measurement, PacketTap, Ear) {
    // Two seconds of samples; a mark for every eighth of a millisecond of them.
    let (samples, marks) = (2 * rate.hertz() as usize, 16_000);
    let (packet_writer, packets) = rings(samples, marks);
    let (ear_writer, heard) = rings(samples, marks);
    let measurement = Measurement {
        rate,
        packets,
        heard,
        brought: vec![f32::NAN; (4 * rate.hertz() as usize).next_power_of_two()].into(),
        brought_until: None,
        sound: Vec::with_capacity(samples),
        times: VecDeque::new(),
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

    /// Takes the books' word for a packet, to be checked.
    pub(crate) fn expect(&mut self, passage: &Passage) {
        if let Some(origin) = passage.origin {
            let (media, dac) = (passage.media, passage.dac);
            self.expected.push_back(Expected { media, capture: origin.capture, dac });
        }
    }

    /// Searches what was heard since the last call.
    pub(crate) fn poll(&mut self, mut found: impl FnMut(Found)) {
        self.collect();
        let mut start = 0;
        while self.sound.len() >= start + WINDOW {
            self.search(start, &mut found);
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

    fn collect(&mut self) {
        let (brought, until) = (&mut self.brought, &mut self.brought_until);
        let mask = brought.len() - 1;
        self.packets.read(|media, samples| {
            let slot = |frame: MediaTime| frame.as_frames() as usize & mask;
            let end = media + Frames::from_len(samples.len());
            // What lies between the last packet and this one did not come.
            let mut hole = until.unwrap_or(media).max(media - Frames::from_len(mask));
            while hole < media {
                brought[slot(hole)] = f32::NAN;
                hole += Frames::new(1);
            }
            for (index, sample) in samples.iter().enumerate() {
                brought[slot(media + Frames::from_len(index))] = *sample;
            }
            *until = Some(until.map_or(end, |until| until.max(end)));
        });
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
    }

    /// Searches one window, and tells of the packets that begin in it.
    fn search(&mut self, start: usize, found: &mut impl FnMut(Found)) {
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
        let Some(media) = self.place_of(start, guess) else { return };
        let end = media + Frames::from_len(WINDOW);
        let mut kept = VecDeque::with_capacity(self.expected.len());
        for packet in core::mem::take(&mut self.expected) {
            if packet.media < media || packet.media >= end || packet.dac > last + REACH {
                kept.push_back(packet);
                continue;
            }
            let index = start + (packet.media - media).as_len();
            if let Some(at) = self.time_of(index) {
                let (measured, error) = (at - packet.capture, at - packet.dac);
                found(Found { media: packet.media, measured, error });
            }
        }
        self.expected = kept;
    }

    /// When the frame at `index` of the sound met the DAC.
    fn time_of(&self, index: usize) -> Option<LocalTime> {
        let after = self.times.partition_point(|(begin, _)| *begin <= index);
        let (begin, at) = self.times.get(after.checked_sub(1)?)?;
        Some(*at + self.rate.span_of(Frames::from_len(index - begin)))
    }

    /// The media time of the sound at `start`, searched outwards from `guess`.
    fn place_of(&self, start: usize, guess: MediaTime) -> Option<MediaTime> {
        let window = &self.sound[start..start + WINDOW];
        let energy: f64 = window.iter().map(|s| f64::from(*s).powi(2)).sum();
        if energy < SILENCE * WINDOW as f64 {
            return None;
        }
        let left_over = |media| self.left_over(window, energy, media);
        let reach = self.rate.frames_within(REACH).count();
        let outwards = (0..=reach).flat_map(|away| [away, -away]).map(Frames::new);
        let mut best =
            outwards.map(|away| guess + away).find(|media| left_over(*media) <= LEFT_OVER)?;
        // Deep sound matches its neighbours too, only less well.
        let one = Frames::new(1);
        while let Some(better) = [best - one, best + one]
            .into_iter()
            .find(|neighbour| left_over(*neighbour) < left_over(best))
        {
            best = better;
        }
        Some(best)
    }

    /// The part of the window's energy that is left when what packets brought from `media` on, at
    /// its best volume, is taken from it.
    fn left_over(&self, window: &[f32], energy: f64, media: MediaTime) -> f64 {
        let mask = self.brought.len() - 1;
        let from = media.as_frames() as usize;
        let (mut both, mut own) = (0.0_f64, 0.0_f64);
        for (index, heard) in window.iter().enumerate() {
            let brought = f64::from(self.brought[(from + index) & mask]);
            both += brought * f64::from(*heard);
            own += brought * brought;
        }
        // A hole makes both NaN; that and sound upside down is no match.
        if own > 0.0 && both > 0.0 { 1.0 - both * both / own / energy } else { f64::INFINITY }
    }
}
