//! What a virtual card hears.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};
use tautline_dsp::signal::Sine;
use tautline_proto::device::{DeviceError, Settings};
use tautline_proto::time::Frames;

use super::cable::HearingEnd;
use super::convert::Wanted;
use super::file::{FileReader, SoundFile, tried};
use super::loopback::Loopback;
use super::programs::ProgramsEnd;
use super::ring::{enough_to_begin, ring_samples};
use crate::toolbox::notes::Notes;
use crate::toolbox::thread::{STACK, spawn_error};

/// How long the decoder leaves a full ring alone.
const PATIENCE: Duration = Duration::from_millis(20);

/// Where the samples come from.
pub(crate) enum SampleSource {
    Silence,
    Tone(Sine),
    /// A file, decoded on a thread of its own.
    File(FileSource),
    /// The card's own output.
    Loopback(Loopback),
    /// What another card plays.
    Cable(Box<HearingEnd>),
    /// What programs play that are attached.
    Programs(Box<ProgramsEnd>),
}

/// What came for one period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filled {
    Whole,
    /// The disk was too slow: what is missing is silence, and comes later.
    Starved,
    /// The last of it; the rest of the period is silence.
    Last,
    /// Nothing, and nothing will.
    Over,
}

impl SampleSource {
    /// Fills one period. Real-time.
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

    /// Leaves out `frames` that nobody took. Real-time.
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

/// The reading end of a decoder thread, which ends when this is dropped.
pub(crate) struct FileSource {
    /// `None` only while dropping.
    samples: Option<Consumer<f32>>,
    ended: Arc<AtomicBool>,
    /// `None` if nothing waits for its end.
    thread: Option<JoinHandle<()>>,
}

impl FileSource {
    /// Opens a file, which must be as `settings` want it, and starts to decode, again and again if it is `looped`. Returns
    /// when enough is decoded to begin.
    pub(crate) fn open(
        file: &SoundFile,
        settings: &Settings,
        looped: bool,
        notes: &Notes,
    ) -> Result<Self, DeviceError> {
        let reader = file.take(settings.into())?;
        let again = looped.then(|| (file.to_path_buf(), Wanted::from(settings)));
        Self::decode((file, again), reader, settings, notes)
    }

    /// Starts to decode `reader`, which was opened at `path`, and then the file `again` and again, if it is given.
    pub(crate) fn decode(
        (path, again): (&Path, Option<(PathBuf, Wanted)>),
        reader: FileReader,
        settings: &Settings,
        notes: &Notes,
    ) -> Result<Self, DeviceError> {
        let (producer, samples) = RingBuffer::new(ring_samples(settings));
        let ended = Arc::new(AtomicBool::new(false));
        if reader.is_of_unknown_length() {
            notes.add(format!(
                "file:{}: the length in the header is unknown: all that follows is played",
                path.display()
            ));
        }
        let piped = reader.is_piped();
        let decoder = Decoder {
            reader,
            again,
            producer,
            ended: Arc::clone(&ended),
            notes: notes.clone(),
            name: path.display().to_string(),
        };
        let thread = thread::Builder::new()
            .name("taut-decode".to_owned())
            .stack_size(STACK)
            .spawn(move || decoder.run())
            .map_err(|error| spawn_error(&tried(path), &error))?;
        // A thread that reads a pipe may block for ever, so it is not joined.
        let source = Self { samples: Some(samples), ended, thread: (!piped).then_some(thread) };
        while !source.has_begun(enough_to_begin(settings)) {
            thread::park_timeout(Duration::from_millis(1));
        }
        Ok(source)
    }

    /// Whether so much has been decoded, or all there is.
    fn has_begun(&self, enough: usize) -> bool {
        let full = self.samples.as_ref().is_some_and(|samples| samples.slots() >= enough);
        full || self.ended.load(Ordering::Acquire)
    }

    pub(crate) fn fill(&mut self, out: &mut [f32]) -> Filled {
        // Asked before the ring is read: what was pushed before the end is then all there.
        let ended = self.ended.load(Ordering::Acquire);
        let Some(samples) = &mut self.samples else { return Filled::Over };
        let (filled, missing) = samples.pop_partial_slice(out);
        missing.fill(0.0);
        match (filled.is_empty(), missing.is_empty(), ended) {
            (_, true, _) => Filled::Whole,
            (true, false, true) => Filled::Over,
            (false, false, true) => Filled::Last,
            (_, false, false) => Filled::Starved,
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
        // Without its consumer the ring is abandoned, which ends the decoder.
        self.samples = None;
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A decoder that panicked has said so on its own.
            let _ = thread.join();
        }
    }
}

struct Decoder {
    reader: FileReader,
    /// The file that is opened again at its end, if it is looped.
    again: Option<(PathBuf, Wanted)>,
    producer: Producer<f32>,
    ended: Arc<AtomicBool>,
    notes: Notes,
    name: String,
}

impl Decoder {
    fn run(mut self) {
        let (mut decoded, mut told) = (Vec::new(), false);
        loop {
            let mut is_empty = true;
            while self.reader.read(&mut decoded) {
                is_empty = false;
                if !self.push(&decoded) {
                    return;
                }
            }
            if !told {
                self.tell(is_empty);
                told = true;
            }
            let Some((path, wanted)) = self.again.as_ref().filter(|_| !is_empty) else { return };
            match FileReader::open_for(path, *wanted) {
                Ok(reader) => self.reader = reader,
                Err(error) => return self.notes.fail(error.to_string()),
            }
        }
    }

    /// Pushes whole frames as there is room; `false` if nobody listens any more.
    fn push(&mut self, mut samples: &[f32]) -> bool {
        let channels = self.reader.format().channels.count();
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
                thread::park_timeout(PATIENCE);
            }
        }
        true
    }

    /// Reports the flaws that are known at the end; each fails the run.
    fn tell(&self, is_empty: bool) {
        let flaws = self.reader.flaws();
        let name = &self.name;
        if flaws.damaged > 0 {
            self.notes.fail(format!(
                "file:{name}: damaged places: {}, played as silence of the same length; copy it again",
                flaws.damaged
            ));
        }
        if let Some((given, promised)) = flaws.cut {
            self.notes.fail(format!(
                "file:{name}: the file is cut off or its end is damaged: {given} of {promised} \
                 frames were played; copy it again"
            ));
        } else if is_empty {
            self.notes.fail(format!("file:{name}: it holds no samples; name another file"));
        }
    }
}

impl Drop for Decoder {
    /// However it ends, nobody waits for it: a foreign decoder may panic over a hostile file.
    fn drop(&mut self) {
        if thread::panicking() {
            let name = &self.name;
            self.notes.add(format!("file:{name}: it cannot be decoded any further; try another"));
        }
        self.ended.store(true, Ordering::Release);
    }
}
