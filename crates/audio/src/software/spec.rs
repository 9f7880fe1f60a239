use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use tautline_dsp::signal::Frequency;
use tautline_io::programs::ProgramsName;
use tautline_proto::device::{DeviceError, Direction};
use tautline_proto::text::{SpanError, parse_span};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Ppm;

use super::cable::CableName;
use super::file::SoundFile;
use super::file::StandardInput;
use super::virtual_card::Disappearance;

pub(crate) const OPTIONS: &str =
    "ppm, period, periods, tone, source, record, loopback, cable, delay, unplug or replug";

#[derive(Debug, Clone)]
pub enum SoftwareSpec {
    Virtual(CardOptions),
    File(SoundFile),
    Standard(StandardInput),
    Tone(Frequency),
    Null,
    Programs(ProgramsName),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct CardOptions {
    /// `ppm=50`: clock error.
    pub error: Ppm,
    /// `period=48`: frames per wake-up.
    pub period: Option<Frames>,
    /// `periods=2`: periods in its ring.
    pub periods: Option<u32>,
    /// `tone=440`: captures this tone.
    pub tone: Option<Frequency>,
    /// `source=song.wav`: captures this file instead.
    pub source: Option<PathBuf>,
    pub record: Option<PathBuf>,
    /// `loopback=48`: captures its own playback this many frames later.
    pub loopback: Option<Frames>,
    /// `cable=NAME`: connects to this cable.
    pub cable: Option<CableName>,
    /// `delay=3.37ms`: delay on the cable.
    pub delay: Option<Span>,
    /// `unplug=2s&replug=1s`, for tests: fails once, at 2 s, for 1 s; clones are one card.
    pub fault: Option<Arc<Disappearance>>,
}

impl fmt::Display for SoftwareSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Virtual(CardOptions { error, cable: Some(cable), delay, .. })
                if f.alternate() =>
            {
                write!(f, "virtual:?cable={cable}")?;
                if let Some(delay) = delay {
                    write!(f, "&delay={delay}")?;
                }
                if *error != Ppm::ZERO {
                    write!(f, "&ppm={}", error.as_f64())?;
                }
                Ok(())
            }
            Self::Virtual(_) => f.write_str("virtual:"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Standard(_) => f.write_str("file:-"),
            Self::Tone(frequency) => {
                write!(f, "tone:{}", f64::from(frequency.as_millihertz()) / 1000.0)
            }
            Self::Null => f.write_str("null:"),
            Self::Programs(name) => write!(f, "programs:{name}"),
        }
    }
}

impl SoftwareSpec {
    pub(crate) fn fitted(self) -> Self {
        match self {
            Self::File(file) => Self::File(file.fitted()),
            Self::Standard(input) => Self::Standard(input.fitted()),
            other => other,
        }
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Virtual(one), Self::Virtual(other)) => one == other,
            (Self::File(one), Self::File(other)) => one == other,
            (Self::Tone(one), Self::Tone(other)) => one == other,
            (Self::Programs(one), Self::Programs(other)) => one == other,
            (Self::Standard(_), Self::Standard(_)) | (Self::Null, Self::Null) => true,
            _ => false,
        }
    }

    pub(crate) const fn is_like_another(&self, direction: Direction) -> bool {
        match self {
            Self::Virtual(options) => {
                let reads = matches!(direction, Direction::Capture) && options.source.is_some();
                options.cable.is_some() || reads
            }
            Self::File(_) | Self::Standard(_) => matches!(direction, Direction::Capture),
            Self::Tone(_) | Self::Null | Self::Programs(_) => false,
        }
    }

    pub(crate) fn named(given: &OsStr) -> Option<Result<Self, DeviceError>> {
        let shown = &*given.to_string_lossy();
        let refuse = |answer: &str, hint: &str| Err(error(shown, answer, hint));
        let (kind, rest) = split_at(given.as_bytes(), b':');
        let (rest, text) = (OsStr::from_bytes(rest?), shown.split_once(':')?.1);
        Some(match kind {
            b"virtual" => card_options(shown, rest).map(Self::Virtual),
            b"file" if rest.is_empty() => {
                refuse("the path is missing", "name a file, such as file:song.wav")
            }
            b"file" if STANDARD.iter().any(|name| *name == rest) => {
                Ok(Self::Standard(StandardInput::default()))
            }
            b"file" => Ok(Self::File(PathBuf::from(rest).into())),
            b"tone" => {
                parsed(shown, text, "use a frequency in hertz, such as tone:440").map(Self::Tone)
            }
            b"null" if rest.is_empty() => Ok(Self::Null),
            b"null" => refuse("null: has no options", "use null:"),
            b"programs" if rest.is_empty() => Ok(Self::Programs(ProgramsName::default())),
            b"programs" => {
                let hint = "use up to 32 letters, digits, - and _, such as programs:studio";
                parsed(shown, text, hint).map(Self::Programs)
            }
            _ => return None,
        })
    }
}

const STANDARD: [&str; 3] = ["-", "/dev/stdin", "/dev/stdout"];

fn split_at(bytes: &[u8], mark: u8) -> (&[u8], Option<&[u8]>) {
    let mut parts = bytes.splitn(2, |byte| *byte == mark);
    (parts.next().unwrap_or_default(), parts.next())
}

fn error(given: &str, answer: &str, hint: &str) -> DeviceError {
    DeviceError { tried: given.to_owned(), answer: answer.to_owned(), hint: hint.to_owned() }
}

fn parsed<T: FromStr>(given: &str, text: &str, hint: &str) -> Result<T, DeviceError> {
    text.parse().map_err(|_| error(given, &format!("invalid value '{text}'"), hint))
}

fn card_options(given: &str, rest: &OsStr) -> Result<CardOptions, DeviceError> {
    let mut options = CardOptions::default();
    let mut fault = (None, None);
    let query = match rest.as_bytes().strip_prefix(b"?") {
        Some(query) => query,
        None if rest.is_empty() => return Ok(options),
        None => {
            return Err(error(given, "virtual: takes no name", "use virtual: or virtual:?ppm=50"));
        }
    };
    for option in query.split(|byte| *byte == b'&').filter(|option| !option.is_empty()) {
        let (key, file) = split_at(option, b'=');
        let file = OsStr::from_bytes(file.unwrap_or_default());
        let (key, value) = (&*String::from_utf8_lossy(key), &*file.to_string_lossy());
        let whole = "use a whole number from 1, such as period=48&periods=2";
        let positive = || {
            let number: u32 = parsed(given, value, whole)?;
            let minimum = if key == "periods" { 2 } else { 1 };
            (minimum..=MAX).contains(&number).then_some(number).ok_or_else(|| {
                let hint = format!("use {minimum} to {MAX}");
                error(given, &format!("invalid {key} {number}"), &hint)
            })
        };
        match key {
            "ppm" => options.error = ppm(given, value)?,
            "period" => options.period = Some(Frames::new(i64::from(positive()?))),
            "periods" => options.periods = Some(positive()?),
            "tone" => options.tone = Some(parsed(given, value, "use hertz, such as tone=440")?),
            "source" => options.source = Some(path(given, key, file)?),
            "record" => options.record = Some(path(given, key, file)?),
            "loopback" => {
                let hint = "use a number of frames, such as loopback=48";
                let frames: u32 = parsed(given, value, hint)?;
                let frames = Some(frames).filter(|frames| *frames <= MAX);
                let frames = frames.ok_or_else(|| error(given, "loopback is too long", hint))?;
                options.loopback = Some(Frames::new(i64::from(frames)));
            }
            "cable" => {
                let hint = "use up to 32 letters, digits, - and _, such as cable=studio";
                options.cable = Some(parsed(given, value, hint)?);
            }
            "delay" => {
                let refused = |why: SpanError| {
                    let why = why.to_string();
                    let why = why.lines().next().unwrap_or_default();
                    error(given, why, "write a time, such as delay=3.37ms")
                };
                let delay = parse_span(value).map_err(refused)?;
                let before = || error(given, "delay is negative", "use delay=0ms or more");
                options.delay =
                    Some(Some(delay).filter(|delay| *delay >= Span::ZERO).ok_or_else(before)?);
            }
            "unplug" => fault.0 = Some(span(given, value)?),
            "replug" => fault.1 = Some(span(given, value)?),
            _ => {
                let answer = format!("unknown option '{key}'");
                return Err(error(given, &answer, &format!("use {OPTIONS}")));
            }
        }
    }
    let received = options.source.is_some() || options.tone.is_some();
    if options.loopback.is_some() && received {
        let hint = "remove one of them";
        return Err(error(given, "loopback excludes tone and source", hint));
    }
    if options.cable.is_some() && (received || options.loopback.is_some()) {
        let hint = "remove one of them";
        return Err(error(given, "cable excludes tone, source and loopback", hint));
    }
    if options.delay.is_some() && options.cable.is_none() {
        return Err(error(given, "delay needs a cable", "add cable=NAME"));
    }
    options.fault = match fault {
        (Some(after), away) => Some(Arc::new(Disappearance::new(after, away.unwrap_or(Span::MAX)))),
        (None, Some(_)) => return Err(error(given, "replug without unplug", "add unplug=2s")),
        (None, None) => None,
    };
    Ok(options)
}

const MAX: u32 = 65_536;

fn path(given: &str, key: &str, value: &OsStr) -> Result<PathBuf, DeviceError> {
    if value.is_empty() {
        let hint = format!("use a path, such as {key}=song.wav");
        return Err(error(given, &format!("{key} has no value"), &hint));
    }
    Ok(value.into())
}

fn ppm(given: &str, value: &str) -> Result<Ppm, DeviceError> {
    let hint = "use -100000 to 100000, such as ppm=50";
    let ppm: f64 = parsed(given, value, hint)?;
    if ppm.abs() <= 100_000.0 {
        Ok(Ppm::from_f64(ppm))
    } else {
        Err(error(given, &format!("invalid ppm {ppm}"), hint))
    }
}

fn span(given: &str, value: &str) -> Result<Span, DeviceError> {
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    let make: Option<fn(i64) -> Span> = match unit {
        "s" => Some(Span::from_secs),
        "ms" => Some(Span::from_millis),
        "us" => Some(Span::from_micros),
        _ => None,
    };
    make.zip(number.parse().ok()).map(|(make, number)| make(number)).ok_or_else(|| {
        error(given, &format!("invalid duration '{value}'"), "use a duration such as 2s or 500ms")
    })
}
