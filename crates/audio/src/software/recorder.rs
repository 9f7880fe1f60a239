//! Writes sound into a WAV file or standard output, on its own thread.

mod scribe;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rtrb::{Producer, RingBuffer};
use tautline_dsp::format::SampleFormat;
use tautline_io::clock::now;
use tautline_proto::device::{DeviceError, Settings};

use self::scribe::{Lap, Scribe};
use super::file::tried;
use super::source::ring_samples;
use super::wav::WavFile;
use crate::toolbox::{Notes, STACK, spawn_error};

const INTERVAL: Duration = Duration::from_millis(20);
const PIECE: usize = 64 * 1024;
/// Final timeout for standard output's reader.
const LAST_WORD: Duration = Duration::from_secs(1);
const MAX_GAPS: usize = 256;

pub(crate) struct Recorder {
    ring: Producer<f32>,
    gaps: Producer<Gap>,
    written: u64,
    owed: u64,
    shared: Arc<RecorderShared>,
    thread: Option<JoinHandle<()>>,
    piped: Option<(Notes, String)>,
}

#[derive(Debug, Clone, Copy)]
struct Gap {
    after: u64,
    samples: u64,
}

#[derive(Default)]
struct RecorderShared {
    stop: AtomicBool,
    lost: AtomicU64,
    tail: AtomicU64,
    stored: AtomicU64,
    deserted: AtomicBool,
}

pub(crate) struct StoredSamples(Arc<RecorderShared>);

impl StoredSamples {
    pub(crate) fn count(&self) -> u64 {
        self.0.stored.load(Ordering::Relaxed)
    }
}

impl Recorder {
    pub(crate) fn create(
        path: &Path,
        settings: &Settings,
        format: SampleFormat,
        notes: &Notes,
    ) -> Result<Self, DeviceError> {
        let file = create(path, settings, format)?;
        Self::start(file, path, settings, notes)
    }

    pub(crate) fn on_standard_output(
        settings: &Settings,
        format: SampleFormat,
        notes: &Notes,
    ) -> Result<Self, DeviceError> {
        let path = Path::new("-");
        let output = io::stdout().as_fd().try_clone_to_owned().map_err(|error| DeviceError {
            tried: tried(path),
            answer: error.to_string(),
            hint: "pipe it into a program that plays or records it".to_owned(),
        })?;
        Self::start(WavFile::stream(File::from(output), settings, format), path, settings, notes)
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
        let piped = scribe.file.is_pipe();
        recorder.piped = piped.then(|| (notes.clone(), scribe.name.clone()));
        let thread = thread::Builder::new()
            .name("taut-record".to_owned())
            .stack_size(STACK)
            .spawn(move || scribe.run())
            .map_err(|error| spawn_error(&tried(path), &error))?;
        recorder.thread = Some(thread);
        Ok(recorder)
    }

    pub(crate) fn create_new(
        path: &Path,
        settings: &Settings,
        format: SampleFormat,
        notes: &Notes,
    ) -> Result<Self, DeviceError> {
        check_take(path)?;
        let file = File::options().write(true).create_new(true).mode(0o600).open(path);
        let begun = file.and_then(|file| WavFile::begin(file, settings, format));
        let file = begun.map_err(|error| unwritten(path, &error))?;
        Self::start(file, path, settings, notes)
    }

    /// Whether samples fit now; always after the end. Real-time safe.
    pub(crate) fn has_room(&self, samples: usize) -> bool {
        self.ring.slots() >= samples || self.ring.is_abandoned()
    }

    pub(crate) fn stored(&self) -> StoredSamples {
        StoredSamples(Arc::clone(&self.shared))
    }

    /// Starts completing the file, without waiting. No samples may follow.
    pub(crate) fn close(&self) {
        self.shared.tail.store(self.owed, Ordering::Relaxed);
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    pub(crate) fn is_deserted(&self) -> bool {
        self.shared.deserted.load(Ordering::Relaxed)
    }

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

    /// Records whole frames; silence without room. Real-time safe.
    pub(crate) fn write(&mut self, samples: &[f32]) {
        let gap = Gap { after: self.written, samples: self.owed };
        if self.owed > 0 && self.gaps.push(gap).is_ok() {
            self.owed = 0;
        }
        if self.owed == 0 && self.ring.push_entire_slice(samples).is_ok() {
            self.written += samples.len() as u64;
        } else {
            self.owed += samples.len() as u64;
            self.shared.lost.fetch_add(samples.len() as u64, Ordering::Relaxed);
        }
    }

    /// Records silence in constant time. Real-time safe.
    pub(crate) fn silence(&mut self, samples: u64) {
        self.owed += samples;
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take() {
            if !self.is_stored(&thread) {
                return self.piped.iter().for_each(|(notes, name)| {
                    notes.add(format!("file:{name}: its reader stopped: the end was not written"));
                });
            }
            let _ = thread.join();
        }
    }
}

fn pair(file: WavFile, room: usize, settings: &Settings) -> (Recorder, Scribe) {
    let (mut ring, mut samples) = RingBuffer::new(room);
    if let Ok(all) = ring.write_chunk(room) {
        all.commit_all();
    }
    if let Ok(all) = samples.read_chunk(room) {
        all.commit_all();
    }
    let (gaps, silences) = RingBuffer::new(MAX_GAPS);
    let shared = Arc::new(RecorderShared::default());
    let scribe = Scribe {
        samples,
        silences,
        taken: 0,
        file,
        channels: settings.channels.count() as u64,
        rate: settings.rate,
        since_header: 0,
        header_every: settings.rate.hertz() as usize * settings.channels.count() / 4,
        shared: Arc::clone(&shared),
        worst: Lap::default(),
        notes: Notes::default(),
        name: String::new(),
    };
    (Recorder { ring, gaps, written: 0, owed: 0, shared, thread: None, piped: None }, scribe)
}

const OTHER_FORMS: [&str; 6] = ["aac", "flac", "m4a", "mp3", "ogg", "opus"];

/// Rejects another format's extension.
pub fn check_take(path: &Path) -> Result<(), DeviceError> {
    let refuse = |answer: &str, hint: String| {
        Err(DeviceError { tried: tried(path), answer: answer.to_owned(), hint })
    };
    if path.is_dir() {
        let hint = format!("use a file in it, such as {}", path.join("out.wav").display());
        return refuse("this is a directory", hint);
    }
    let ending = path.extension();
    if OTHER_FORMS.iter().any(|form| ending.is_some_and(|is| is.eq_ignore_ascii_case(form))) {
        let hint = format!("name it {}", path.with_extension("wav").display());
        return refuse("output files are WAV only", hint);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.map(Path::metadata) {
        Some(Err(error)) => refuse(&error.to_string(), hint(path, &error)),
        _ => Ok(()),
    }
}

fn create(path: &Path, settings: &Settings, format: SampleFormat) -> Result<WavFile, DeviceError> {
    check_take(path)?;
    WavFile::create(path, settings, format).map_err(|error| unwritten(path, &error))
}

fn unwritten(path: &Path, error: &io::Error) -> DeviceError {
    DeviceError { tried: tried(path), answer: error.to_string(), hint: hint(path, error) }
}

fn hint(path: &Path, error: &io::Error) -> String {
    let folder = path.parent().unwrap_or(Path::new("."));
    match error.kind() {
        io::ErrorKind::NotFound => format!("create its folder: mkdir -p {}", folder.display()),
        io::ErrorKind::PermissionDenied => "choose a folder that you may write to".to_owned(),
        io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge => {
            "free space on the disk".to_owned()
        }
        _ => "choose another path".to_owned(),
    }
}
