use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};
use tautline_dsp::signal::Sine;
use tautline_proto::device::{DeviceError, Settings};
use tautline_proto::time::Frames;

use crate::software::cable::HearingEnd;
use crate::software::file::{FileReader, SoundFile, tried};
use crate::software::filled::Filled;
use crate::software::fitter::Fitter;
use crate::software::matcher::RateMatcher;
use crate::software::playlist::Playlist;
use crate::software::programs::ProgramsEnd;
use crate::toolbox::{Notes, STACK, spawn_error};

const TIMEOUT: Duration = Duration::from_millis(20);

pub(crate) enum SampleSource {
    Silence,
    Tone(Sine),
    File(FileSource),
    Loopback(Loopback),
    Cable(Box<HearingEnd>),
    Programs(Box<ProgramsEnd>),
}

impl SampleSource {
    pub(crate) fn fill(&mut self, channels: usize, samples: &mut [f32]) -> Filled {
        match self {
            Self::Silence => {
                samples.fill(0.0);
                Filled::Whole
            }
            Self::Tone(sine) => {
                sine.fill(channels, samples);
                Filled::Whole
            }
            Self::File(file) => file.fill(samples),
            Self::Loopback(cable) => {
                cable.fill(samples);
                Filled::Whole
            }
            Self::Cable(end) => end.fill(samples),
            Self::Programs(end) => {
                end.fill(samples);
                Filled::Whole
            }
        }
    }

    pub(crate) fn skip(&mut self, channels: usize, frames: Frames) {
        match self {
            Self::Silence => {}
            Self::Tone(sine) => sine.skip(frames.as_len() as u64),
            Self::File(file) => file.skip(frames.as_len() * channels),
            Self::Loopback(cable) => cable.skip(frames),
            Self::Cable(end) => end.skip(frames),
            Self::Programs(end) => end.skip(frames),
        }
    }
}

pub(crate) struct FileSource {
    samples: Option<Consumer<f32>>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Samples that must wait before a pipe plays on after a gap; 0 for files.
    enough: usize,
    is_gap: bool,
}

impl FileSource {
    pub(crate) fn open(
        file: &SoundFile,
        settings: &Settings,
        looped: bool,
        notes: &Notes,
    ) -> Result<Self, DeviceError> {
        let (files, reader) = Playlist::open(file, looped, settings.into(), notes)?;
        Self::decode(files, reader, file.is_fitted(), settings, notes)
    }

    /// Plays `reader` to its end.
    pub(crate) fn play(
        reader: FileReader,
        file: &SoundFile,
        settings: &Settings,
        notes: &Notes,
    ) -> Result<Self, DeviceError> {
        let files = Playlist::new(file, false, settings.into(), notes);
        Self::decode(files, reader, file.is_fitted(), settings, notes)
    }

    fn decode(
        files: Playlist,
        reader: FileReader,
        fitted: bool,
        settings: &Settings,
        notes: &Notes,
    ) -> Result<Self, DeviceError> {
        let name = files.name();
        let (producer, samples) = RingBuffer::new(ring_samples(settings));
        let ended = Arc::new(AtomicBool::new(false));
        if reader.is_of_unknown_length() {
            notes.add(format!(
                "file:{name}: the header has no length: playing to the end of the file"
            ));
        }
        let piped = reader.is_piped() || files.has_pipes();
        let tried = tried(Path::new(&name));
        let decoder = Decoder {
            reader,
            fitter: fitted.then(|| Fitter::new(settings.rate)),
            matcher: (fitted && piped).then(|| RateMatcher::new(settings)),
            channels: settings.channels.count(),
            room: ring_samples(settings),
            files,
            producer,
            ended: Arc::clone(&ended),
            notes: notes.clone(),
        };
        let thread = thread::Builder::new()
            .name("taut-decode".to_owned())
            .stack_size(STACK)
            .spawn(move || decoder.run())
            .map_err(|error| spawn_error(&tried, &error))?;
        // Reading a pipe may block forever: not joined.
        let thread = (!piped).then_some(thread);
        let enough = if fitted && piped { ring_samples(settings) / 2 } else { 0 };
        let source = Self { samples: Some(samples), ended, thread, enough, is_gap: false };
        while !source.has_begun(enough_to_begin(settings)) {
            thread::park_timeout(Duration::from_millis(1));
        }
        Ok(source)
    }

    fn has_begun(&self, enough: usize) -> bool {
        let full = self.samples.as_ref().is_some_and(|samples| samples.slots() >= enough);
        full || self.ended.load(Ordering::Acquire)
    }

    pub(crate) fn fill(&mut self, out: &mut [f32]) -> Filled {
        let ended = self.ended.load(Ordering::Acquire);
        let Some(samples) = &mut self.samples else { return Filled::Over };
        // Without a pause, each packet of a late program would be followed by another gap.
        self.is_gap &= !ended && samples.slots() < self.enough;
        if self.is_gap {
            out.fill(0.0);
            return Filled::Whole;
        }
        let (filled, missing) = samples.pop_partial_slice(out);
        missing.fill(0.0);
        match (filled.is_empty(), missing.is_empty(), ended) {
            (_, true, _) => Filled::Whole,
            (true, false, true) => Filled::Over,
            (false, false, true) => Filled::Last,
            (_, false, false) => {
                self.is_gap = self.enough > 0;
                Filled::Starved
            }
        }
    }

    fn skip(&mut self, count: usize) {
        if let Some(samples) = &mut self.samples
            && let Ok(chunk) = samples.read_chunk(count.min(samples.slots()))
        {
            chunk.commit_all();
        }
    }
}

impl Drop for FileSource {
    fn drop(&mut self) {
        self.samples = None;
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

struct Decoder {
    reader: FileReader,
    fitter: Option<Fitter>,
    matcher: Option<RateMatcher>,
    channels: usize,
    /// Samples that the ring can hold.
    room: usize,
    files: Playlist,
    producer: Producer<f32>,
    ended: Arc<AtomicBool>,
    notes: Notes,
}

impl Decoder {
    fn run(mut self) {
        let (mut decoded, mut fitted) = (Vec::new(), Vec::new());
        if !self.push(&self.files.prelude(self.channels)) {
            return;
        }
        loop {
            let mut is_empty = true;
            while self.reader.read(&mut decoded) {
                is_empty = false;
                if let Some(fitter) = &mut self.fitter {
                    fitted.clear();
                    fitter.convert(self.reader.sound(), &decoded, &mut fitted);
                    core::mem::swap(&mut decoded, &mut fitted);
                }
                if !self.play(&decoded) {
                    return;
                }
            }
            self.notes.set_file(&self.files.name(), self.faults(is_empty));
            let Some(reader) = self.files.next(is_empty) else { return self.finish(decoded) };
            self.reader = reader;
        }
    }

    /// Plays the sound that converters still hold. `rest` is a buffer.
    fn finish(&mut self, mut rest: Vec<f32>) {
        rest.clear();
        if let Some(fitter) = &mut self.fitter {
            fitter.finish(&mut rest);
        }
        if !self.play(&rest) {
            return;
        }
        if let Some(matcher) = &mut self.matcher {
            rest.clear();
            matcher.finish(&mut rest);
            self.push(&rest);
        }
    }

    fn play(&mut self, samples: &[f32]) -> bool {
        let Some(matcher) = &mut self.matcher else { return self.push(samples) };
        let mut matched = Vec::with_capacity(samples.len() + self.channels);
        matcher.convert(self.room - self.producer.slots(), samples, &mut matched);
        self.push(&matched)
    }

    fn push(&mut self, mut samples: &[f32]) -> bool {
        let channels = self.channels;
        while !samples.is_empty() {
            let room = self.producer.slots().min(samples.len()) / channels * channels;
            let (now, later) = samples.split_at(room);
            let (_, refused) = self.producer.push_partial_slice(now);
            debug_assert!(refused.is_empty(), "there was room for it");
            samples = later;
            if self.producer.is_abandoned() {
                return false;
            }
            if !samples.is_empty() {
                thread::park_timeout(TIMEOUT);
            }
        }
        true
    }

    /// Faults of the file that ended.
    fn faults(&self, is_empty: bool) -> Vec<String> {
        let (flaws, mut faults) = (self.reader.flaws(), Vec::new());
        let name = self.files.name();
        if flaws.damaged > 0 {
            faults.push(format!(
                "file:{name}: damaged places: {}, replaced by silence; copy it again",
                flaws.damaged
            ));
        }
        if let Some((given, promised)) = flaws.cut {
            faults.push(format!(
                "file:{name}: the file is truncated or its end is damaged: {given} of {promised} frames were played; \
                 copy it again"
            ));
        } else if is_empty {
            faults.push(format!("file:{name}: it holds no samples; name another file"));
        }
        faults
    }
}

impl Drop for Decoder {
    /// Ends the source, even after a panic in a foreign decoder.
    fn drop(&mut self) {
        if thread::panicking() {
            let name = self.files.name();
            self.notes.add(format!("file:{name}: decoding failed; try another file"));
        }
        self.ended.store(true, Ordering::Release);
    }
}

/// Two seconds (768 kB of stereo at 48 kHz), because decoder and writer have no priority; down to
/// 0.5 s for many channels (maximum 25 MB).
pub(super) fn ring_samples(settings: &Settings) -> usize {
    let channels = settings.channels.count();
    let second = settings.rate.hertz() as usize * channels;
    let maximum = MAX.max(second / 2);
    (2 * second).min(maximum).max(settings.channels.samples_in(settings.period) * 4)
}

pub(super) fn enough_to_begin(settings: &Settings) -> usize {
    let half_second = settings.rate.hertz() as usize * settings.channels.count() / 2;
    half_second.min(ring_samples(settings)) * 3 / 4
}

const MAX: usize = 1 << 20;

pub(crate) struct Loopback {
    channels: usize,
    length: i64,
    frames: Box<[f32]>,
    next: i64,
}

impl Loopback {
    pub(crate) fn new(length: Frames, settings: &Settings) -> Self {
        let buffer = settings.period.count() * (i64::from(settings.periods) + 2);
        let room = Frames::new(buffer + length.count());
        let frames = vec![0.0; settings.channels.samples_in(room)].into();
        Self { channels: settings.channels.count(), length: length.count(), frames, next: 0 }
    }

    pub(crate) fn play(&mut self, frame: i64, samples: &[f32]) {
        for (played, frame) in samples.chunks_exact(self.channels).zip(frame..) {
            self.at(frame).copy_from_slice(played);
        }
    }

    pub(crate) fn fill(&mut self, samples: &mut [f32]) {
        for received in samples.chunks_exact_mut(self.channels) {
            let frame = self.at(self.next - self.length);
            received.copy_from_slice(frame);
            frame.fill(0.0);
            self.next += 1;
        }
    }

    pub(crate) fn skip(&mut self, frames: Frames) {
        let held = (self.frames.len() / self.channels) as i64;
        let last = self.next + frames.count() - self.length;
        for frame in (last - frames.count().min(held))..last {
            self.at(frame).fill(0.0);
        }
        self.next += frames.count();
    }

    fn at(&mut self, frame: i64) -> &mut [f32] {
        let held = (self.frames.len() / self.channels) as i64;
        let at = frame.rem_euclid(held) as usize * self.channels;
        &mut self.frames[at..at + self.channels]
    }
}

#[cfg(test)]
mod tests {
    use tautline_proto::time::Frames;
    use tautline_proto::units::{Channels, Rate};

    use super::*;

    #[test]
    fn two_seconds_wait_and_half_a_second_of_many_channels() {
        let samples = |rate, channels, period| {
            let (rate, channels) = (Rate::new(rate).unwrap(), Channels::new(channels).unwrap());
            ring_samples(&Settings { rate, channels, period: Frames::new(period), periods: 2 })
        };
        assert_eq!(samples(48_000, 2, 48), 192_000);
        assert_eq!(samples(96_000, 8, 48), 1 << 20);
        assert_eq!(samples(192_000, 64, 48), 192_000 / 2 * 64);
        assert_eq!(samples(48_000, 1, 48_000), 192_000, "four periods at least");
    }

    #[test]
    fn piped_source_starts_with_under_half_a_second() {
        let settings = Settings {
            rate: Rate::new(48_000).unwrap(),
            channels: Channels::new(2).unwrap(),
            period: Frames::new(48),
            periods: 2,
        };
        assert_eq!(enough_to_begin(&settings), 36_000);
        assert!(enough_to_begin(&settings) < ring_samples(&settings));
    }
}
