use core::ops::Deref;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, IsTerminal, Read, Seek};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use symphonia::core::io::{MediaSource, ReadOnlySource};
use tautline_dsp::format::SampleFormat;
use tautline_proto::device::DeviceError;
use tautline_proto::units::{Channels, Rate};

use crate::software::convert::{Conversion, Wanted, unpack};
use crate::software::fitter::{FileSound, Fitter};
use crate::software::flac::FlacReader;
use crate::software::wav_reader::{WavCoding, WavHeader, WavReader, is_wav};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileCoding {
    Integer(u32),
    Float,
}

impl FileCoding {
    pub const fn exact_format(self) -> SampleFormat {
        match self {
            Self::Integer(0..=16) => SampleFormat::L16,
            Self::Integer(_) => SampleFormat::L24,
            Self::Float => SampleFormat::F32,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFormat {
    pub rate: Rate,
    pub channels: Channels,
    pub coding: FileCoding,
    pub frames: Option<u64>,
}

#[derive(Clone, Copy)]
pub(crate) struct FileRequest<'a> {
    pub(crate) path: Option<&'a Path>,
    pub(crate) wanted: Wanted,
    /// Whether a [`Fitter`] converts the sound.
    pub(crate) fitted: bool,
}

impl FileRequest<'_> {
    fn refuse(&self, answer: String, hint: String) -> DeviceError {
        DeviceError { tried: tried(self.path.unwrap_or(Path::new("-"))), answer, hint }
    }
}

pub struct FileReader {
    format: FileFormat,
    hertz: u32,
    body: Body,
    given: u64,
    piped: bool,
}

enum Body {
    Wav(Box<WavReader>),
    Flac(Box<FlacReader>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flaws {
    /// Available and promised frames, if some are missing.
    pub cut: Option<(u64, u64)>,
    pub damaged: u64,
}

impl FileReader {
    pub fn open(path: &Path) -> Result<Self, DeviceError> {
        Self::open_for(path, Wanted::default())
    }

    pub fn open_for(path: &Path, wanted: Wanted) -> Result<Self, DeviceError> {
        Self::open_as(path, FileRequest { path: Some(path), wanted, fitted: false })
    }

    fn open_as(path: &Path, request: FileRequest<'_>) -> Result<Self, DeviceError> {
        let (mut file, is_pipe) = open_readable(path)?;
        let unreadable = |error: io::Error| unreadable(path, &error);
        let mut begins = Vec::with_capacity(12);
        file.by_ref().take(12).read_to_end(&mut begins).map_err(unreadable)?;
        if is_pipe {
            return Self::read_pipe(file, begins, request);
        }
        file.rewind().map_err(unreadable)?;
        Self::read_from(Box::new(file), &begins, request)
    }

    pub(crate) fn read_pipe(
        pipe: impl Read + Send + Sync + 'static,
        begins: Vec<u8>,
        request: FileRequest<'_>,
    ) -> Result<Self, DeviceError> {
        let source = ReadOnlySource::new(Cursor::new(begins.clone()).chain(pipe));
        let reader = Self::read_from(Box::new(source), &begins, request)?;
        Ok(Self { piped: true, ..reader })
    }

    fn read_from(
        source: Box<dyn MediaSource>,
        begins: &[u8],
        request: FileRequest<'_>,
    ) -> Result<Self, DeviceError> {
        match is_wav(begins) {
            true => Self::read_wav(source, request),
            false => Self::read_flac(source, request),
        }
    }

    fn read_wav(
        source: Box<dyn MediaSource>,
        request: FileRequest<'_>,
    ) -> Result<Self, DeviceError> {
        let refuse = |answer: &str, hint: String| request.refuse(answer.to_owned(), hint);
        let again = || "copy it again".to_owned();
        let length = source.byte_len();
        let mut input = BufReader::new(source);
        let header = WavHeader::read(&mut input, length)
            .map_err(|error| refuse(&error.to_string(), again()))?
            .ok_or_else(|| {
                refuse("the file is truncated or damaged: it holds no samples", again())
            })?;
        let (promised, held) = (header.promised_frames(), header.held_frames());
        let coding = match &header.coding {
            Ok(coding) => *coding,
            Err(answer) => return Err(refuse(answer, unpack(request.path, &request.wanted))),
        };
        let found = FoundSound {
            hertz: header.rate,
            channels: header.channels.into(),
            coding: match coding {
                WavCoding::Integer { bits, .. } => Found::Integer(bits),
                WavCoding::Float => Found::Float,
                WavCoding::Double => Found::Double,
                WavCoding::ALaw | WavCoding::MuLaw => Found::Integer(16),
            },
            frames: promised,
        };
        match (promised, held) {
            (Some(0), _) | (None, Some(0)) => {
                return Err(refuse("the file holds no samples", "name another file".to_owned()));
            }
            (Some(promised), Some(0)) => {
                let answer = format!(
                    "the file is truncated: its header has {promised} frames, and it holds 0"
                );
                return Err(refuse(&answer, again()));
            }
            _ => {}
        }
        let format = carried(&found, request)?;
        let body = Body::Wav(Box::new(WavReader::new(input, &header, coding)));
        Ok(Self { format, hertz: found.hertz, body, given: 0, piped: false })
    }

    fn read_flac(
        source: Box<dyn MediaSource>,
        request: FileRequest<'_>,
    ) -> Result<Self, DeviceError> {
        let flac = FlacReader::open(source)
            .map_err(|answer| request.refuse(answer, unpack(request.path, &request.wanted)))?;
        let found = FoundSound {
            hertz: flac.hertz(),
            channels: flac.channels(),
            coding: Found::Integer(flac.bits()),
            frames: flac.promised_frames(),
        };
        let format = carried(&found, request)?;
        let body = Body::Flac(Box::new(flac));
        Ok(Self { format, hertz: found.hertz, body, given: 0, piped: false })
    }

    pub const fn format(&self) -> FileFormat {
        self.format
    }

    /// Sound of the file itself, which a [`Fitter`] converts.
    pub(super) const fn sound(&self) -> FileSound {
        FileSound { hertz: self.hertz, channels: self.format.channels.count() }
    }

    pub(crate) const fn is_piped(&self) -> bool {
        self.piped
    }

    pub const fn is_of_unknown_length(&self) -> bool {
        matches!(self.body, Body::Wav(_)) && self.format.frames.is_none()
    }

    pub fn read(&mut self, out: &mut Vec<f32>) -> bool {
        let read = match &mut self.body {
            Body::Wav(wav) => wav.read(out),
            Body::Flac(flac) => flac.read(out),
        };
        self.given += (out.len() / self.format.channels.count()) as u64;
        read
    }

    pub fn flaws(&self) -> Flaws {
        let promised = self.format.frames.filter(|&frames| self.given < frames);
        let damaged = match &self.body {
            Body::Wav(_) => 0,
            Body::Flac(flac) => flac.damaged(),
        };
        Flaws { cut: promised.map(|frames| (self.given, frames)), damaged }
    }
}

pub fn holds_nothing(path: &Path) -> bool {
    let read = File::open(path).and_then(|file| {
        let length = file.metadata()?.len();
        WavHeader::read(&mut BufReader::new(file), Some(length))
    });
    read.is_ok_and(|header| {
        header.is_some_and(|header| {
            header.promised_frames() == Some(0) && header.held_frames() == Some(0)
        })
    })
}

struct FoundSound {
    hertz: u32,
    channels: usize,
    coding: Found,
    frames: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Integer(u32),
    Float,
    Double,
}

fn carried(found: &FoundSound, request: FileRequest<'_>) -> Result<FileFormat, DeviceError> {
    let (mut answers, mut hint) = (Vec::new(), Conversion::default());
    let (hertz, wanted) = (found.hertz, request.wanted);
    let rate = match request.fitted && Fitter::RATES.contains(&hertz) {
        true => Some(wanted.rate.unwrap_or(Rate::HZ_48000)),
        false => Rate::new(hertz).ok(),
    };
    if rate.is_none() || wanted.rate.is_some_and(|wanted| rate != Some(wanted)) {
        let stream = wanted.rate.map_or(String::new(), |rate| format!(" and the stream {rate}"));
        answers.push(format!("it is {hertz} Hz{stream}"));
        hint.rate = Some(wanted.rate.unwrap_or(Rate::HZ_48000));
    }
    let count = found.channels;
    let channels = Channels::new(u32::try_from(count).unwrap_or(u32::MAX)).ok();
    let needed = match request.fitted {
        true => Some(Fitter::CHANNELS).filter(|stereo| count > stereo.count()),
        false => wanted.channels,
    };
    if channels.is_none() || needed.is_some_and(|needed| channels != Some(needed)) {
        let plural = if count == 1 { "" } else { "s" };
        let stream = needed.map_or(String::new(), |channels| format!(" and the stream {channels}"));
        answers.push(format!("it has {count} channel{plural}{stream}"));
        hint.channels = Some(needed.unwrap_or(Channels::STEREO));
    }
    let coding = match found.coding {
        Found::Float => Some(FileCoding::Float),
        Found::Double => {
            answers.push("its samples are 64-bit floats".to_owned());
            (hint.float, hint.narrower) = (true, true);
            None
        }
        Found::Integer(bits) => Some(FileCoding::Integer(bits.min(24))),
    };
    hint.float |= coding == Some(FileCoding::Float);
    match (rate, channels, coding) {
        (Some(rate), Some(channels), Some(coding)) if answers.is_empty() => {
            Ok(FileFormat { rate, channels, coding, frames: found.frames })
        }
        _ => Err(request.refuse(answers.join(", "), hint.command(request.path))),
    }
}

pub(crate) fn tried(path: &Path) -> String {
    format!("file:{}", path.display())
}

fn unreadable(path: &Path, error: &io::Error) -> DeviceError {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "check the path".to_owned(),
        io::ErrorKind::PermissionDenied => format!("run chmod +r {}", path.display()),
        _ => "try another file".to_owned(),
    };
    DeviceError { tried: tried(path), answer: error.to_string(), hint }
}

pub(super) fn is_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

fn open_readable(path: &Path) -> Result<(File, bool), DeviceError> {
    let metadata = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    let answer = match metadata.file_type() {
        kind if kind.is_dir() => "this is a directory",
        kind if !kind.is_file() && !kind.is_fifo() => "this is not a regular file",
        _ if metadata.is_file() && metadata.len() == 0 => "the file is empty",
        kind => {
            let opened = File::open(path).map_err(|error| unreadable(path, &error))?;
            return Ok((opened, kind.is_fifo()));
        }
    };
    let hint = "name a WAV or FLAC file".to_owned();
    Err(DeviceError { tried: tried(path), answer: answer.to_owned(), hint })
}

/// A file, and those that follow it without a gap. Unreadable files are skipped.
#[derive(Clone, Default)]
pub struct SoundFile {
    path: PathBuf,
    pipe: PipeReader,
    next: Vec<Self>,
    fitted: bool,
    prelude: Arc<[f32]>,
}

impl SoundFile {
    /// Files one after the other. Without a path, opening it fails.
    pub fn sequence(paths: &[PathBuf]) -> Self {
        let mut files = paths.iter().cloned().map(Self::from);
        let first = files.next().unwrap_or_default();
        Self { next: files.collect(), ..first }
    }

    /// The same files, converted to stereo at the rate of the stream.
    #[must_use]
    pub(crate) fn fitted(mut self) -> Self {
        self.fitted = true;
        self.next = self.next.into_iter().map(Self::fitted).collect();
        self
    }

    pub(super) const fn is_fitted(&self) -> bool {
        self.fitted
    }

    /// Plays one channel of samples before the file, on all its channels.
    #[must_use]
    pub fn after(self, prelude: Vec<f32>) -> Self {
        Self { prelude: prelude.into(), ..self }
    }

    /// Samples before the file, for its channels.
    pub(super) fn prelude(&self, channels: usize) -> Vec<f32> {
        self.prelude.iter().flat_map(|sample| core::iter::repeat_n(*sample, channels)).collect()
    }

    fn open(&self, wanted: Wanted) -> Result<FileReader, DeviceError> {
        let request = FileRequest { path: Some(&self.path), wanted, fitted: self.fitted };
        FileReader::open_as(&self.path, request)
    }

    /// Format of the first readable file. Files with another rate or other channels are unreadable.
    pub(crate) fn look(&self, wanted: Wanted) -> Result<FileFormat, DeviceError> {
        let open = || self.open(wanted);
        let looked = match is_pipe(&self.path) {
            true => self.pipe.look(open),
            false => open().map(|reader| reader.format()),
        };
        let looked = looked.map(|format| played(format, self.fitted));
        looked.or_else(|mut error| {
            if !self.next.is_empty() {
                error.answer += ", and the other files are unreadable, too";
            }
            self.next.iter().find_map(|file| file.look(wanted).ok()).ok_or(error)
        })
    }

    pub(super) fn files(&self) -> Vec<Self> {
        let first = Self { next: Vec::new(), ..self.clone() };
        [first].into_iter().chain(self.next.iter().cloned()).collect()
    }

    pub(crate) fn take(&self, wanted: Wanted) -> Result<FileReader, DeviceError> {
        self.pipe.take(|| self.open(wanted))
    }
}

impl From<PathBuf> for SoundFile {
    fn from(path: PathBuf) -> Self {
        Self { path, ..Self::default() }
    }
}

impl From<&Path> for SoundFile {
    fn from(path: &Path) -> Self {
        path.to_owned().into()
    }
}

impl Deref for SoundFile {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl PartialEq for SoundFile {
    fn eq(&self, other: &Self) -> bool {
        (&self.path, &self.next) == (&other.path, &other.next)
    }
}

impl fmt::Debug for SoundFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

/// Keeps a pipe's reader until the device takes it. Clones share it.
#[derive(Clone, Default)]
pub(super) struct PipeReader(Arc<Mutex<Option<FileReader>>>);

impl PipeReader {
    pub(super) fn look(
        &self,
        open: impl FnOnce() -> Result<FileReader, DeviceError>,
    ) -> Result<FileFormat, DeviceError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = kept.take().map_or_else(open, Ok)?;
        Ok(kept.insert(reader).format())
    }

    pub(super) fn take(
        &self,
        open: impl FnOnce() -> Result<FileReader, DeviceError>,
    ) -> Result<FileReader, DeviceError> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept.map_or_else(open, Ok)
    }
}

/// Format of a file as it is played.
fn played(format: FileFormat, fitted: bool) -> FileFormat {
    match fitted {
        true => FileFormat { channels: Fitter::CHANNELS, frames: None, ..format },
        false => format,
    }
}

#[derive(Clone, Default)]
pub struct StandardInput {
    pipe: PipeReader,
    fitted: bool,
}

impl StandardInput {
    /// As [`SoundFile::fitted`].
    #[must_use]
    pub(crate) fn fitted(self) -> Self {
        Self { fitted: true, ..self }
    }

    /// For messages.
    pub(crate) fn named(&self) -> SoundFile {
        let name = SoundFile::from(Path::new("-"));
        if self.fitted { name.fitted() } else { name }
    }

    pub(crate) fn look(&self, wanted: Wanted) -> Result<FileFormat, DeviceError> {
        let format = self.pipe.look(|| open(wanted, self.fitted))?;
        Ok(played(format, self.fitted))
    }

    pub(crate) fn take(&self, wanted: Wanted) -> Result<FileReader, DeviceError> {
        self.pipe.take(|| open(wanted, self.fitted))
    }
}

impl fmt::Debug for StandardInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StandardInput")
    }
}

fn refuse(answer: &str) -> DeviceError {
    DeviceError {
        tried: "file:-".to_owned(),
        answer: answer.to_owned(),
        hint: "pipe a WAV or FLAC into it, as in: cat song.wav | taut send --input file:- --to …"
            .to_owned(),
    }
}

fn open(wanted: Wanted, fitted: bool) -> Result<FileReader, DeviceError> {
    let mut input = io::stdin();
    if input.is_terminal() {
        return Err(refuse("standard input is a terminal"));
    }
    let mut begins = Vec::new();
    input.by_ref().take(12).read_to_end(&mut begins).map_err(|error| refuse(&error.to_string()))?;
    if begins.is_empty() {
        return Err(refuse("standard input is empty"));
    }
    FileReader::read_pipe(input, begins, FileRequest { path: None, wanted, fitted })
}
