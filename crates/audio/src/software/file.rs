//! WAV and FLAC files as they are read: what is in them, and whether it can be carried unchanged.

use std::fs::File;
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::Path;

use symphonia::core::codecs::audio::well_known as codec;
use symphonia::core::codecs::audio::{AudioCodecParameters, AudioDecoder};
use symphonia::core::errors::Error as SymphoniaError;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatReader, TrackType};
use symphonia::core::io::{MediaSource, MediaSourceStream};
use tautline_dsp::format::SampleFormat;
use tautline_proto::device::DeviceError;
use tautline_proto::units::{Channels, Rate};

use super::convert::{Conversion, Wanted, keep_the_rest, unpack};
use super::wav::{self, WavLength};

/// How the samples of a file are coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileCoding {
    /// Integers of this many bits, at most 24.
    Integer(u32),
    /// 32-bit floats.
    Float,
}

impl FileCoding {
    /// The wire format that carries these samples bit for bit.
    pub const fn exact_format(self) -> SampleFormat {
        match self {
            Self::Integer(0..=16) => SampleFormat::L16,
            Self::Integer(_) => SampleFormat::L24,
            Self::Float => SampleFormat::F32,
        }
    }
}

/// What is in a file that can be carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFormat {
    /// Nominal frames per second.
    pub rate: Rate,
    /// Samples per frame.
    pub channels: Channels,
    /// How the samples are coded.
    pub coding: FileCoding,
    /// How many frames it claims to hold, if it does.
    pub frames: Option<u64>,
}

/// Where sound is read from, and what the stream is to be.
#[derive(Clone, Copy)]
pub(crate) struct FileRequest<'a> {
    /// `None` is standard input.
    pub(crate) path: Option<&'a Path>,
    pub(crate) wanted: Wanted,
}

impl FileRequest<'_> {
    fn refuse(&self, answer: String, mend: String) -> DeviceError {
        DeviceError { tried: tried(self.path.unwrap_or(Path::new("-"))), answer, mend }
    }
}

/// Reads a file packet by packet. Blocks on the disk: for decoder threads.
pub struct FileReader {
    format: FileFormat,
    container: Box<dyn FormatReader>,
    decoder: Box<dyn AudioDecoder>,
    track: u32,
    /// Frames given out.
    given: u64,
    /// Packets that could not be decoded.
    broken: u64,
}

/// What remained to be said at the end of a file. A WAV file that is cut is refused before it
/// plays; of a FLAC file it is known at its end only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flaws {
    /// Frames that were there, and that were promised, if fewer were there.
    pub cut: Option<(u64, u64)>,
    /// Packets that could not be decoded and were played as silence.
    pub broken: u64,
}

impl FileReader {
    /// Opens the file at `path`, or says with which command to convert it.
    pub fn open(path: &Path) -> Result<Self, DeviceError> {
        Self::open_for(path, Wanted::default())
    }

    /// The same for a stream of which something is said already.
    pub fn open_for(path: &Path, wanted: Wanted) -> Result<Self, DeviceError> {
        let file = open_regular(path)?;
        refuse_cut(&file, path)?;
        Self::read_from(Box::new(file), FileRequest { path: Some(path), wanted })
    }

    /// Reads what comes from `source`.
    pub(crate) fn read_from(
        source: Box<dyn MediaSource>,
        asked: FileRequest<'_>,
    ) -> Result<Self, DeviceError> {
        // The container reader (symphonia 0.6.1) panics over some damaged WAV headers where
        // integer overflow is checked. Nothing that it had is used again.
        let look = AssertUnwindSafe(|| Self::look_into(source, asked));
        std::panic::catch_unwind(look).unwrap_or_else(|_| {
            Err(asked.refuse("the header is damaged".to_owned(), "copy it again".to_owned()))
        })
    }

    fn look_into(
        source: Box<dyn MediaSource>,
        asked: FileRequest<'_>,
    ) -> Result<Self, DeviceError> {
        let refuse = |answer: String| asked.refuse(answer, unpack(asked.path, &asked.wanted));
        let stream = MediaSourceStream::new(source, Default::default());
        let mut hint = Hint::new();
        let extension = asked.path.and_then(Path::extension);
        if let Some(extension) = extension.and_then(|extension| extension.to_str()) {
            hint.with_extension(extension);
        }
        let container = symphonia::default::get_probe()
            .probe(&hint, stream, Default::default(), Default::default())
            .map_err(|error| refuse(format!("no WAV or FLAC ({error})")))?;
        let opened = container.default_track(TrackType::Audio).and_then(|track| {
            let parameters = track.codec_params.as_ref()?.audio()?;
            Some((track.id, track.num_frames, parameters.clone()))
        });
        let Some((track, frames, parameters)) = opened else {
            return Err(refuse("there is no sound in it".to_owned()));
        };
        let format = carried(&parameters, frames, asked.wanted)
            .map_err(|(answer, mend)| asked.refuse(answer, mend.command(asked.path)))?;
        let decoder = symphonia::default::get_codecs()
            .make_audio_decoder(&parameters, &Default::default())
            .map_err(|error| refuse(error.to_string()))?;
        Ok(Self { format, container, decoder, track, given: 0, broken: 0 })
    }

    /// What is in it.
    pub const fn format(&self) -> FileFormat {
        self.format
    }

    /// The next samples, interleaved, in place of what `out` held; `false` at the end.
    pub fn read(&mut self, out: &mut Vec<f32>) -> bool {
        out.clear();
        let channels = self.format.channels.count();
        while out.is_empty() {
            // An error here is the end of what can be read; how much is missing is said then.
            let Ok(Some(packet)) = self.container.next_packet() else { return false };
            if packet.track_id != self.track {
                continue;
            }
            match self.decoder.decode(&packet) {
                // A file that changes its channels midway ends there for us.
                Ok(buffer) if buffer.spec().channels().count() != channels => return false,
                Ok(buffer) => {
                    out.resize(buffer.samples_interleaved(), 0.0);
                    buffer.copy_to_slice_interleaved(&mut out[..]);
                }
                // Silence of the same length keeps what follows in its place.
                Err(SymphoniaError::DecodeError(_)) => {
                    self.broken += 1;
                    let frames = packet.dur.get().min(u64::from(u16::MAX)) as usize;
                    out.resize(frames * channels, 0.0);
                }
                Err(_) => return false,
            }
        }
        self.given += (out.len() / channels) as u64;
        true
    }

    /// What was wrong, once [`FileReader::read`] has reached the end.
    pub fn flaws(&self) -> Flaws {
        let promised = self.format.frames.filter(|&frames| self.given < frames);
        Flaws { cut: promised.map(|frames| (self.given, frames)), broken: self.broken }
    }
}

/// Whether the file at `path` is a WAV that was begun and into which nothing was played.
pub fn holds_nothing(path: &Path) -> bool {
    File::open(path).and_then(|file| wav::is_bare(&file)).unwrap_or(false)
}

/// Whether sound of these parameters can be carried bit for bit in a stream such as is wanted: else
/// all that stands against it, and what changes it.
fn carried(
    parameters: &AudioCodecParameters,
    frames: Option<u64>,
    wanted: Wanted,
) -> Result<FileFormat, (String, Conversion)> {
    let (mut answers, mut mend) = (Vec::new(), Conversion::default());
    let hertz = parameters.sample_rate.unwrap_or(0);
    let rate = Rate::new(hertz).ok();
    if rate.is_none() || wanted.rate.is_some_and(|wanted| rate != Some(wanted)) {
        let stream = wanted.rate.map_or(String::new(), |rate| format!(" and the stream {rate}"));
        answers.push(format!("it is {hertz} Hz{stream}"));
        mend.rate = Some(wanted.rate.unwrap_or(Rate::HZ_48000));
    }
    let count = parameters.channels.as_ref().map_or(0, |channels| channels.count());
    let channels = Channels::new(u32::try_from(count).unwrap_or(u32::MAX)).ok();
    if channels.is_none() || wanted.channels.is_some_and(|wanted| channels != Some(wanted)) {
        let plural = if count == 1 { "" } else { "s" };
        let stream =
            wanted.channels.map_or(String::new(), |channels| format!(" and the stream {channels}"));
        answers.push(format!("it has {count} channel{plural}{stream}"));
        mend.channels = Some(wanted.channels.unwrap_or(Channels::STEREO));
    }
    // Only telephone codings leave it open; they decode to 16 bits.
    let bits = parameters.bits_per_sample.unwrap_or(16);
    let coding = match parameters.codec {
        codec::CODEC_ID_PCM_F32LE | codec::CODEC_ID_PCM_F32BE => Some(FileCoding::Float),
        codec::CODEC_ID_PCM_F64LE | codec::CODEC_ID_PCM_F64BE => {
            answers.push("its samples are 64-bit floats".to_owned());
            (mend.float, mend.narrower) = (true, true);
            None
        }
        _ if bits > 24 => {
            let answer = format!("its samples are {bits}-bit integers and 24 bits are carried");
            answers.push(answer);
            mend.narrower = true;
            None
        }
        _ => Some(FileCoding::Integer(bits)),
    };
    mend.float |= coding == Some(FileCoding::Float);
    match (rate, channels, coding) {
        (Some(rate), Some(channels), Some(coding)) if answers.is_empty() => {
            Ok(FileFormat { rate, channels, coding, frames })
        }
        _ => Err((answers.join(", "), mend)),
    }
}

/// What the errors of the file at `path` begin with.
pub(crate) fn tried(path: &Path) -> String {
    format!("file:{}", path.display())
}

fn unreadable(path: &Path, error: &io::Error) -> DeviceError {
    let mend = match error.kind() {
        io::ErrorKind::NotFound => "check the path".to_owned(),
        io::ErrorKind::PermissionDenied => format!("allow it: chmod +r {}", path.display()),
        _ => "try another file".to_owned(),
    };
    DeviceError { tried: tried(path), answer: error.to_string(), mend }
}

/// A WAV file says in its header how much it holds, so a cut one is known before it plays.
fn refuse_cut(file: &File, path: &Path) -> Result<(), DeviceError> {
    let held = wav::held(file).map_err(|error| unreadable(path, &error))?;
    let Some(WavLength { promised, held }) = held.filter(|held| held.held < held.promised) else {
        return Ok(());
    };
    let answer = format!("the file is cut: it promises {promised} frames and holds {held}");
    let again = "copy it again".to_owned();
    let mend = if held == 0 { again } else { keep_the_rest(path) };
    Err(DeviceError { tried: tried(path), answer, mend })
}

fn open_regular(path: &Path) -> Result<File, DeviceError> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let metadata = file.metadata().map_err(|error| unreadable(path, &error))?;
    let answer = match metadata {
        _ if metadata.is_dir() => "this is a directory",
        _ if !metadata.is_file() => "this is not a regular file",
        _ if metadata.len() == 0 => "the file is empty",
        _ => return Ok(file),
    };
    let mend = "name a WAV or FLAC file".to_owned();
    Err(DeviceError { tried: tried(path), answer: answer.to_owned(), mend })
}
