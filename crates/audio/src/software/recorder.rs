//! Writes what a virtual card played into a WAV file, or as a WAV on standard output, on a thread of
//! its own.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};
use tautline_dsp::format::SampleFormat;
use tautline_io::clock::now;
use tautline_proto::device::{DeviceError, Settings};
use tautline_proto::time::Span;

use super::file::tried;
use super::ring::ring_samples;
use super::wav::{Spent, WavFile};
use crate::toolbox::notes::Notes;
use crate::toolbox::thread::{STACK, spawn_error};

/// How often the ring is emptied.
const INTERVAL: Duration = Duration::from_millis(20);
/// Samples after which their place in the ring is free again.
const PIECE: usize = 64 * 1024;
/// A reader of standard output that takes nothing for so long at the end is not waited for.
const LAST_WORD: Duration = Duration::from_secs(1);
/// Silences that may wait between the sounds in the ring.
const MOST_GAPS: usize = 256;

/// The writing end of a WAV file. Dropping it completes the file.
pub(crate) struct Recorder {
    ring: Producer<f32>,
    gaps: Producer<Gap>,
    /// Samples that went into the ring so far.
    written: u64,
    /// Samples of silence after them.
    owed: u64,
    shared: Arc<RecorderShared>,
    thread: Option<JoinHandle<()>>,
    /// Where to tell that nobody took the end, of what goes into a pipe.
    piped: Option<Notes>,
}

/// Silence between the samples in the ring: it takes no room there, however long it is.
#[derive(Debug, Clone, Copy)]
struct Gap {
    /// Samples that went into the ring before it.
    after: u64,
    /// Its length, in samples.
    samples: u64,
}

#[derive(Default)]
struct RecorderShared {
    stop: AtomicBool,
    /// Samples that became silence because the ring was full.
    lost: AtomicU64,
    /// Samples of silence at the very end, known at the stop.
    tail: AtomicU64,
    /// Samples that were written.
    stored: AtomicU64,
    /// Who read them has gone.
    deserted: AtomicBool,
}

/// How much a recorder has written.
pub(crate) struct StoredSamples(Arc<RecorderShared>);

impl StoredSamples {
    /// Samples that are in the file by now, with the silence that stands for others.
    pub(crate) fn count(&self) -> u64 {
        self.0.stored.load(Ordering::Relaxed)
    }
}

impl Recorder {
    /// Creates the file at `path`, in place of one that is there.
    pub(crate) fn create(
        path: &Path,
        settings: &Settings,
        format: SampleFormat,
        notes: &Notes,
    ) -> Result<Self, DeviceError> {
        let file = create(path, settings, format)?;
        Self::start(file, path, settings, notes)
    }

    /// Writes on standard output, in place of a file: whole frames as they come, until who reads them
    /// has gone.
    pub(crate) fn on_standard_output(
        settings: &Settings,
        format: SampleFormat,
        notes: &Notes,
    ) -> Result<Self, DeviceError> {
        let path = Path::new("-");
        let output = io::stdout().as_fd().try_clone_to_owned().map_err(|error| DeviceError {
            tried: tried(path),
            answer: error.to_string(),
            mend: "pipe it into a program that plays or records it".to_owned(),
        })?;
        let wav = WavFile::stream(File::from(output), settings, format);
        let mut recorder = Self::start(wav, path, settings, notes)?;
        recorder.piped = Some(notes.clone());
        Ok(recorder)
    }

    fn start(
        file: WavFile,
        path: &Path,
        settings: &Settings,
        notes: &Notes,
    ) -> Result<Self, DeviceError> {
        let (mut recorder, mut scribe) = pair(file, ring_samples(settings), settings);
        scribe.notes = notes.clone();
        scribe.name = path.display().to_string();
        let thread = thread::Builder::new()
            .name("taut-record".to_owned())
            .stack_size(STACK)
            .spawn(move || scribe.run())
            .map_err(|error| spawn_error(&tried(path), &error))?;
        recorder.thread = Some(thread);
        Ok(recorder)
    }

    /// Creates the file at `path`, where nothing is yet.
    pub(crate) fn create_new(
        path: &Path,
        settings: &Settings,
        format: SampleFormat,
        notes: &Notes,
    ) -> Result<Self, DeviceError> {
        check_take(path)?;
        let file = written(path, File::create_new(path), settings, format)?;
        Self::start(file, path, settings, notes)
    }

    /// Whether so many samples can be taken now. Real-time.
    pub(crate) fn has_room(&self, samples: usize) -> bool {
        self.ring.slots() >= samples
    }

    /// By which others see how much is in the file.
    pub(crate) fn stored(&self) -> StoredSamples {
        StoredSamples(Arc::clone(&self.shared))
    }

    /// Has the file completed, and waits for nothing. Nothing more is to be recorded.
    pub(crate) fn close(&self) {
        self.shared.tail.store(self.owed, Ordering::Relaxed);
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Whether the file is complete, after [`Recorder::close`].
    pub(crate) fn is_closed(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Whether nobody reads what is recorded any more. Real-time.
    pub(crate) fn is_deserted(&self) -> bool {
        self.shared.deserted.load(Ordering::Relaxed)
    }

    /// Returns when all is written: whether it is. A file takes what it is given; who reads a pipe
    /// may have stopped reading.
    fn is_stored(&self, thread: &JoinHandle<()>) -> bool {
        if self.piped.is_none() {
            return true;
        }
        let stored = || self.shared.stored.load(Ordering::Relaxed);
        let (mut before, mut since) = (stored(), now());
        while !thread.is_finished() {
            thread::park_timeout(INTERVAL);
            if stored() != before {
                (before, since) = (stored(), now());
            } else if (now() - since).as_nanos() > LAST_WORD.as_nanos() as i64 {
                return false;
            }
        }
        true
    }

    /// Records whole frames. Real-time. If they cannot be taken they become silence, so that what
    /// follows stays in its place.
    pub(crate) fn write(&mut self, samples: &[f32]) {
        let gap = Gap { after: self.written, samples: self.owed };
        if self.owed > 0 && self.gaps.push(gap).is_ok() {
            self.owed = 0;
        }
        // Nothing may overtake the silence.
        if self.owed == 0 && self.ring.push_entire_slice(samples).is_ok() {
            self.written += samples.len() as u64;
        } else {
            self.owed += samples.len() as u64;
            self.shared.lost.fetch_add(samples.len() as u64, Ordering::Relaxed);
        }
    }

    /// Records silence of this many samples. Real-time, however many they are.
    pub(crate) fn silence(&mut self, samples: u64) {
        self.owed += samples;
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take() {
            if !self.is_stored(&thread) {
                let told = "nobody reads it: the last of it was not written".to_owned();
                return self.piped.iter().for_each(|notes| notes.add(format!("file:-: {told}")));
            }
            // A thread that panicked has said so on its own; the file is whole up to its last
            // header.
            let _ = thread.join();
        }
    }
}

/// The two ends of a ring for so many samples, the one without its thread yet. What the device's
/// thread will touch is touched here.
fn pair(file: WavFile, room: usize, settings: &Settings) -> (Recorder, Scribe) {
    let (mut ring, mut samples) = RingBuffer::new(room);
    if let Ok(all) = ring.write_chunk(room) {
        all.commit_all();
    }
    if let Ok(all) = samples.read_chunk(room) {
        all.commit_all();
    }
    let (gaps, silences) = RingBuffer::new(MOST_GAPS);
    let shared = Arc::new(RecorderShared::default());
    let scribe = Scribe {
        samples,
        silences,
        taken: 0,
        file,
        channels: settings.channels.count() as u64,
        since_header: 0,
        header_every: settings.rate.hertz() as usize * settings.channels.count() / 4,
        shared: Arc::clone(&shared),
        worst: Lap::default(),
        notes: Notes::default(),
        name: String::new(),
    };
    (Recorder { ring, gaps, written: 0, owed: 0, shared, thread: None, piped: None }, scribe)
}

/// Endings of files that hold sound in another form than WAV.
const OTHER_FORMS: [&str; 6] = ["aac", "flac", "m4a", "mp3", "ogg", "opus"];

/// Refuses a name that what is played cannot be written to as WAV, for those who open it later.
pub fn check_take(path: &Path) -> Result<(), DeviceError> {
    let refuse = |answer: &str, mend: String| {
        Err(DeviceError { tried: tried(path), answer: answer.to_owned(), mend })
    };
    if path.is_dir() {
        let mend = format!("name a file in it, such as {}", path.join("out.wav").display());
        return refuse("this is a directory", mend);
    }
    let ending = path.extension();
    if OTHER_FORMS.iter().any(|form| ending.is_some_and(|is| is.eq_ignore_ascii_case(form))) {
        let mend = format!("name it {}", path.with_extension("wav").display());
        return refuse("what is played is written as WAV", mend);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.map(Path::metadata) {
        Some(Err(error)) => refuse(&error.to_string(), mend(path, &error)),
        _ => Ok(()),
    }
}

fn create(path: &Path, settings: &Settings, format: SampleFormat) -> Result<WavFile, DeviceError> {
    check_take(path)?;
    written(path, File::create(path), settings, format)
}

/// The file at `path`, if it could be created.
fn written(
    path: &Path,
    created: io::Result<File>,
    settings: &Settings,
    format: SampleFormat,
) -> Result<WavFile, DeviceError> {
    let refuse = |answer: String, mend: String| DeviceError { tried: tried(path), answer, mend };
    let file = created.map_err(|error| refuse(error.to_string(), mend(path, &error)))?;
    WavFile::create(file, settings, format)
        .map_err(|error| refuse(error.to_string(), "make room on the disk".to_owned()))
}

fn mend(path: &Path, error: &io::Error) -> String {
    let folder = path.parent().unwrap_or(Path::new("."));
    match error.kind() {
        io::ErrorKind::NotFound => format!("make its folder: mkdir -p {}", folder.display()),
        io::ErrorKind::PermissionDenied => "choose a folder that you may write to".to_owned(),
        _ => "choose another path".to_owned(),
    }
}

/// Where the time between two visits to the ring went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Lap {
    /// Longer than it meant to, the thread did not run.
    overslept: Span,
    spent: Spent,
}

impl Lap {
    fn total(self) -> Span {
        self.overslept + self.spent.coding + self.spent.storing
    }

    /// Why the ring ran full, and the mend.
    fn blame(self, piped: bool) -> String {
        let Self { overslept, spent: Spent { coding, storing } } = self;
        if storing >= coding.max(overslept) && piped {
            format!("who reads it took {storing}; let it do less, or put a buffer between")
        } else if storing >= coding.max(overslept) {
            format!("the disk took {storing}; record to a faster one, such as /dev/shm")
        } else if coding >= overslept {
            format!("coding them took {coding}; record fewer channels or at a lower rate")
        } else {
            format!("the machine did not run the writer for {overslept}; end other programs")
        }
    }
}

/// The thread's side.
struct Scribe {
    samples: Consumer<f32>,
    silences: Consumer<Gap>,
    /// Samples that were taken out of the ring.
    taken: u64,
    file: WavFile,
    channels: u64,
    since_header: usize,
    header_every: usize,
    shared: Arc<RecorderShared>,
    /// The longest lap of those in which samples were lost.
    worst: Lap,
    notes: Notes,
    name: String,
}

impl Scribe {
    fn run(mut self) {
        let recorded = self.record();
        let whole = recorded.is_ok();
        match recorded {
            Ok(()) => {}
            Err(Unwritten::Deserted) => self.shared.deserted.store(true, Ordering::Relaxed),
            Err(Unwritten::Because(answer)) => {
                self.notes.fail(format!("file:{}: {answer}", self.name));
            }
        }
        let lost = self.shared.lost.load(Ordering::Relaxed) / self.channels;
        if lost > 0 && whole {
            let blame = self.worst.blame(self.file.is_pipe());
            self.note(&format!("{lost} frames were recorded as silence because {blame}"));
        }
        let Self { file, notes, name, .. } = self;
        if let (Err(error), true) = (file.finish(), whole) {
            notes.fail(format!("file:{name}: {error}; what was recorded may be incomplete"));
        }
    }

    /// Until it is to stop, or why it cannot go on.
    fn record(&mut self) -> Result<(), Unwritten> {
        let (mut overslept, mut lost) = (Span::ZERO, 0);
        self.file.flush()?;
        loop {
            // Asked before the ring is emptied: what was written before the stop is then all there.
            let stop = self.shared.stop.load(Ordering::Acquire);
            self.empty()?;
            let lap = Lap { overslept, spent: self.file.spent() };
            let lost_by_now = self.shared.lost.load(Ordering::Relaxed);
            if lost_by_now > lost && lap.total() >= self.worst.total() {
                self.worst = lap;
            }
            lost = lost_by_now;
            if stop {
                let tail = self.shared.tail.load(Ordering::Relaxed);
                return self.silence(tail);
            }
            let asleep = now();
            thread::park_timeout(INTERVAL);
            overslept = now() - asleep - Span::from_nanos(INTERVAL.as_nanos() as i64);
        }
    }

    fn note(&self, sentence: &str) {
        self.notes.add(format!("file:{}: {sentence}", self.name));
    }

    /// Writes what is in the ring, and every quarter of a second a header that makes it readable
    /// if the program is killed.
    fn empty(&mut self) -> Result<(), Unwritten> {
        // Asked before the silences: those between these samples are then all there.
        let count = self.samples.slots();
        let end = self.taken + count as u64;
        while let Some(gap) = self.silences.peek().ok().copied().filter(|gap| gap.after <= end) {
            self.take((gap.after - self.taken) as usize)?;
            self.silence(gap.samples)?;
            // It is there: nobody else takes it.
            let _ = self.silences.pop();
        }
        self.take((end - self.taken) as usize)?;
        self.since_header += count;
        if self.since_header >= self.header_every {
            self.since_header = 0;
            self.file.flush()?;
        }
        Ok(())
    }

    /// Writes the next samples of the ring, piece by piece.
    fn take(&mut self, mut count: usize) -> Result<(), Unwritten> {
        while count > 0 {
            let piece = count.min(PIECE);
            self.check_room(piece as u64)?;
            let Ok(chunk) = self.samples.read_chunk(piece) else { return Ok(()) };
            let (first, second) = chunk.as_slices();
            self.file.write(first).and_then(|()| self.file.write(second))?;
            chunk.commit_all();
            self.taken += piece as u64;
            self.shared.stored.fetch_add(piece as u64, Ordering::Relaxed);
            count -= piece;
        }
        Ok(())
    }

    fn silence(&mut self, samples: u64) -> Result<(), Unwritten> {
        if samples == 0 {
            return Ok(());
        }
        self.check_room(samples)?;
        self.file.silence(samples)?;
        self.shared.stored.fetch_add(samples, Ordering::Relaxed);
        Ok(())
    }

    fn check_room(&self, samples: u64) -> Result<(), Unwritten> {
        if self.file.has_room(samples) {
            return Ok(());
        }
        let answer = "a WAV file holds no more than 4 GiB, so the rest is not recorded; record in \
                      parts, or fewer channels";
        Err(Unwritten::Because(answer.to_owned()))
    }
}

/// What ends a recording before the run does.
#[derive(Debug, PartialEq, Eq)]
enum Unwritten {
    /// Who read it has seen enough, as `head` has.
    Deserted,
    /// In a sentence.
    Because(String),
}

impl From<io::Error> for Unwritten {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Deserted,
            _ => Self::Because(format!(
                "{error}, so nothing more is recorded; make room, or record elsewhere"
            )),
        }
    }
}
