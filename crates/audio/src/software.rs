//! Devices without hardware, each a [`virtual_card`] with its source or sink.

pub(crate) mod cable;
pub(crate) mod convert;
pub(crate) mod file;
pub(crate) mod filled;
mod fitter;
mod flac;
mod matcher;
pub mod pace;
mod playlist;
mod programs;
pub(crate) mod recorded;
pub(crate) mod recorder;
pub(crate) mod source;
pub(crate) mod spec;
pub(crate) mod virtual_card;
pub(crate) mod wav;
mod wav_reader;

use std::path::Path;
use std::sync::PoisonError;

use tautline_dsp::format::SampleFormat;
use tautline_dsp::signal::{Frequency, Sine};
use tautline_proto::card_clock::CardRing;
use tautline_proto::device::{Device, DeviceError, Direction, Directions, Listener, Settings};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Ppm, Rate};

use self::cable::{CableName, HearingEnd, PlayingEnd};
use self::convert::Wanted;
use self::file::{FileFormat, SoundFile};
use self::pace::{HostPace, Pace};
use self::programs::ProgramsEnd;
use self::recorder::Recorder;
use self::source::{FileSource, Loopback, SampleSource};
use self::spec::{CardOptions, SoftwareSpec};
use self::virtual_card::{Dock, Ends, Parts, VirtualCard, gone};
use crate::toolbox::{DeviceDescription, DeviceSide, Notes, Offers};

pub struct Extras {
    pub listener: Option<Box<dyn Listener>>,
    pub record_format: SampleFormat,
    pub looped: bool,
    /// Capture time of the first frame of a card without hardware; `None` for the start of the run.
    pub begins: Option<LocalTime>,
}

impl Default for Extras {
    fn default() -> Self {
        Self { listener: None, record_format: SampleFormat::L24, looped: false, begins: None }
    }
}

pub(crate) fn settle(
    spec: &SoftwareSpec,
    directions: Directions,
    wanted: Settings,
) -> Result<Settings, DeviceError> {
    match spec {
        SoftwareSpec::Virtual(_) => Ok(parts(spec, directions, wanted).settings),
        SoftwareSpec::Tone(_) if directions.has(Direction::Playback) => {
            Err(not_played_to(&spec.to_string()))
        }
        SoftwareSpec::File(_) | SoftwareSpec::Standard(_) if directions == Directions::Both => {
            Err(one_way(&spec.to_string()))
        }
        _ => Ok(wanted),
    }
}

pub(crate) fn probe(
    spec: &SoftwareSpec,
    wanted: Wanted,
) -> Result<Option<FileFormat>, DeviceError> {
    match spec {
        SoftwareSpec::File(file) => file.look(wanted).map(Some),
        SoftwareSpec::Standard(input) => input.look(wanted).map(Some),
        SoftwareSpec::Virtual(CardOptions { source: Some(path), .. }) => {
            SoundFile::from(&**path).look(wanted).map(Some)
        }
        _ => Ok(None),
    }
}

pub(crate) fn list() -> Vec<DeviceDescription> {
    const BOTH: &[Direction] = &[Direction::Capture, Direction::Playback];
    let device = |name: &str, directions: &[Direction], says: &str| DeviceDescription {
        name: name.to_owned(),
        sides: directions
            .iter()
            .map(|&direction| DeviceSide { direction, offers: Offers::Anything })
            .collect(),
        says: says.to_owned(),
    };
    vec![
        device(
            "virtual:",
            BOTH,
            "a simulated card with real-time deadlines: virtual:?ppm=50&record=out.wav",
        ),
        device(
            "file:PATH",
            BOTH,
            "reads WAV or FLAC, writes WAV; waits up to a second for a late program; file:- is standard input or \
             output",
        ),
        device("tone:HZ", &BOTH[..1], "a sine at -18 dBFS"),
        device("null:", BOTH, "captures silence, discards playback"),
        device(
            "programs:NAME",
            BOTH,
            "a sound card for local programs: aplay -D tautserve, arecord -D tautserve",
        ),
    ]
}

pub(crate) fn reopen_card(parts: &Parts, dock: &Dock) -> Result<Box<dyn Device>, DeviceError> {
    check_there(parts)?;
    let ends = dock.lock().unwrap_or_else(PoisonError::into_inner).take();
    let ends = ends.unwrap_or_else(Ends::silent);
    let card = VirtualCard::new(parts.clone(), ends, Box::new(HostPace));
    Ok(Box::new(card.docked(dock.clone())))
}

pub(crate) fn open_card(
    spec: &SoftwareSpec,
    directions: Directions,
    wanted: Settings,
    extras: Extras,
    notes: &Notes,
) -> Result<VirtualCard, DeviceError> {
    let parts = parts(spec, directions, wanted);
    check_there(&parts)?;
    let begins = extras.begins;
    let ends = ends(spec, &parts, extras, notes)?;
    Ok(VirtualCard::new(parts, ends, Box::new(HostPace)).beginning(begins))
}

fn check_there(parts: &Parts) -> Result<(), DeviceError> {
    let away = parts.fault.as_ref().is_some_and(|fault| fault.is_away(HostPace.now()));
    if away { Err(gone(&parts.name)) } else { Ok(()) }
}

pub(crate) fn parts(spec: &SoftwareSpec, directions: Directions, wanted: Settings) -> Parts {
    let mut parts = Parts {
        name: spec.to_string(),
        directions,
        settings: wanted,
        error: Ppm::ZERO,
        fault: None,
        timeout: Frames::ZERO,
    };
    match spec {
        SoftwareSpec::Virtual(options) => {
            parts.error = options.error;
            parts.fault = options.fault.clone();
            parts.settings.period = options.period.unwrap_or(wanted.period);
            parts.settings.periods = options.periods.unwrap_or(wanted.periods);
        }
        SoftwareSpec::File(_) | SoftwareSpec::Standard(_) | SoftwareSpec::Programs(_) => {
            parts.timeout = wanted.rate.frames_within(CardRing::TIMEOUT);
        }
        _ => {}
    }
    parts.settings.period = parts.settings.period.max(Frames::new(1));
    parts.settings.periods = parts.settings.periods.max(2);
    parts
}

fn ends(
    spec: &SoftwareSpec,
    parts: &Parts,
    extras: Extras,
    notes: &Notes,
) -> Result<Ends, DeviceError> {
    let settings = &parts.settings;
    let read = |file: &SoundFile| {
        FileSource::open(file, settings, extras.looped, notes).map(SampleSource::File)
    };
    let write = |path: &Path| Recorder::create(path, settings, extras.record_format, notes);
    let tone = |frequency| tone(&parts.name, frequency, settings.rate);
    let captures = parts.directions.has(Direction::Capture);
    let plays = parts.directions.has(Direction::Playback);
    let mut ends = Ends { listener: extras.listener, ..Ends::silent() };
    match spec {
        SoftwareSpec::Virtual(options) => {
            if options.loopback.is_some() && !(captures && plays) {
                return Err(half_a_loopback(&parts.name));
            }
            if let (Some(name), false, true) = (&options.cable, captures, options.delay.is_some()) {
                return Err(delay_of_a_player(&parts.name, name));
            }
            if captures {
                let delay = options.delay.unwrap_or(Span::ZERO);
                ends.source = match options {
                    CardOptions { cable: Some(name), .. } => {
                        SampleSource::Cable(Box::new(HearingEnd::new(name, delay, settings)?))
                    }
                    CardOptions { loopback: Some(length), .. } => {
                        SampleSource::Loopback(Loopback::new(*length, settings))
                    }
                    CardOptions { source: Some(path), .. } => read(&SoundFile::from(&**path))?,
                    CardOptions { tone: Some(frequency), .. } => tone(*frequency)?,
                    _ => SampleSource::Silence,
                };
            }
            if plays {
                let cable = options.cable.as_ref().map(|name| PlayingEnd::new(name, settings));
                ends.cable = cable.transpose()?;
                ends.recorder = options.record.as_deref().map(write).transpose()?;
            }
        }
        SoftwareSpec::File(_) | SoftwareSpec::Standard(_) if captures && plays => {
            return Err(one_way(&parts.name));
        }
        SoftwareSpec::File(file) if captures => {
            ends.source = read(file)?;
        }
        SoftwareSpec::File(path) => ends.recorder = Some(write(path)?),
        SoftwareSpec::Standard(input) if captures => {
            let (name, reader) = (input.named(), input.take(settings.into())?);
            let source = FileSource::play(reader, &name, settings, notes)?;
            ends.source = SampleSource::File(source);
        }
        SoftwareSpec::Standard(_) => {
            let format = extras.record_format;
            ends.recorder = Some(Recorder::on_standard_output(settings, format, notes)?);
        }
        SoftwareSpec::Tone(_) if plays => return Err(not_played_to(&parts.name)),
        SoftwareSpec::Tone(frequency) => ends.source = tone(*frequency)?,
        SoftwareSpec::Null => {}
        SoftwareSpec::Programs(name) => {
            let end = |direction| ProgramsEnd::new(name, direction, settings);
            if captures {
                ends.source = SampleSource::Programs(Box::new(end(Direction::Capture)?));
            }
            if plays {
                ends.programs = Some(end(Direction::Playback)?);
            }
        }
    }
    Ok(ends)
}

fn one_way(name: &str) -> DeviceError {
    DeviceError {
        tried: name.to_owned(),
        answer: "a file cannot be both input and output".to_owned(),
        hint: "use virtual:?source=PATH&record=PATH, which does both".to_owned(),
    }
}

fn half_a_loopback(name: &str) -> DeviceError {
    DeviceError {
        tried: name.to_owned(),
        answer: "loopback needs both input and output".to_owned(),
        hint: "use it as --output and --input of taut lab delay, or remove loopback".to_owned(),
    }
}

fn delay_of_a_player(name: &str, cable: &CableName) -> DeviceError {
    DeviceError {
        tried: name.to_owned(),
        answer: "delay applies only to the cable's --input".to_owned(),
        hint: format!("use virtual:?cable={cable} here, and delay with --input"),
    }
}

fn not_played_to(name: &str) -> DeviceError {
    DeviceError {
        tried: name.to_owned(),
        answer: "a tone cannot be an output".to_owned(),
        hint: "use a card, virtual:, file:PATH or null:".to_owned(),
    }
}

/// A tone below half of `rate`; higher tones would alias.
fn tone(name: &str, frequency: Frequency, rate: Rate) -> Result<SampleSource, DeviceError> {
    let half = rate.hertz() / 2;
    if u64::from(frequency.as_millihertz()) < u64::from(half) * 1000 {
        return Ok(SampleSource::Tone(Sine::new(frequency, rate.hertz())));
    }
    Err(DeviceError {
        tried: name.to_owned(),
        answer: format!("a stream at {rate} cannot carry a tone of {frequency}"),
        hint: format!("use one below {half} Hz, or a higher rate with --rate"),
    })
}
