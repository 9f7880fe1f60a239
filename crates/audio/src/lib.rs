//! Sound devices: virtual cards and files.
//!
//! People name a device by a [`DeviceSpec`]; [`open`] gives a [`Device`] to be run on a thread of
//! the caller's, whose priority the caller has set. Every device is the virtual card of
//! [`virtual_card`]; `file:` differs in one thing: it waits up to a second for a late program, so
//! that what is read or written is whole, where a `virtual:` card overruns and starves. Files are decoded and written on ordinary
//! threads of their own, which end with the device.
#![forbid(unsafe_code)]

use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use tautline_dsp::format::SampleFormat;
use tautline_dsp::signal::{Frequency, Sine};
use tautline_proto::device::{Device, DeviceError, Direction, Listener, Settings};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Ppm, Rate};

pub mod card_clock;
mod convert;
pub mod file;
pub mod notes;
pub mod pace;
mod recorder;
mod source;
pub mod spec;
pub mod supervise;
pub mod virtual_card;
mod wav;

#[cfg(test)]
mod tests;

pub use file::{Coding, FileFormat, FileReader, probe};
pub use notes::Notes;
pub use recorder::check_take;
pub use spec::{CardOptions, DeviceSpec};
pub use supervise::{Supervised, Supervision};

use pace::{HostPace, Pace};
use recorder::Recorder;
use source::{FileSource, Source};
use virtual_card::{Dock, Ends, Parts, VirtualCard, gone};

/// Stack of the ordinary threads, in bytes: they nest shallowly and keep their buffers on the
/// heap, and a receiver's memory is counted.
const STACK: usize = 256 * 1024;

/// A file is no real card: it waits so long for a program that is late, and loses nothing.
const PATIENCE: Span = Span::from_secs(1);

/// What a device can be given besides its settings.
pub struct Extras {
    /// Hears what a card plays.
    pub listener: Option<Box<dyn Listener>>,
    /// How samples are coded in a file that is written.
    pub record_format: SampleFormat,
}

/// A device that was opened.
pub struct Opened {
    /// To be run.
    pub device: Box<dyn Device>,
    /// What it has to tell, then and now.
    pub notes: Notes,
    /// How it fares; never away if it is not supervised.
    pub supervision: Supervision,
}

/// Opens the device that `spec` names. The period and periods in `wanted` stand unless `spec` says
/// otherwise; rate and channels always do, and a file that has others is refused.
pub fn open(
    spec: &DeviceSpec,
    direction: Direction,
    wanted: Settings,
    extras: Extras,
) -> Result<Opened, DeviceError> {
    open_paced(spec, direction, wanted, extras, Box::new(HostPace))
}

/// As [`open`], by another clock than the host's: for tests that are their own clock.
pub fn open_paced(
    spec: &DeviceSpec,
    direction: Direction,
    wanted: Settings,
    extras: Extras,
    pace: Box<dyn Pace>,
) -> Result<Opened, DeviceError> {
    let notes = Notes::default();
    let card = open_card(spec, (direction, wanted), extras, &notes)?.paced(pace);
    Ok(Opened { device: Box::new(card), notes, supervision: Supervision::default() })
}

/// As [`open`], but a timer stands in for the device when it goes, until it is back.
pub fn open_supervised(
    spec: &DeviceSpec,
    direction: Direction,
    wanted: Settings,
    extras: Extras,
) -> Result<Opened, DeviceError> {
    let notes = Notes::default();
    let dock = Dock::default();
    let card = open_card(spec, (direction, wanted), extras, &notes)?.docked(Arc::clone(&dock));
    let parts = parts(spec, direction, wanted);
    let again = move || reopen_card(&parts, &dock);
    let (device, supervision) =
        Supervised::new(Box::new(card), direction, Box::new(again), supervise::RETRY, &notes)?;
    Ok(Opened { device: Box::new(device), notes, supervision })
}

fn reopen_card(parts: &Parts, dock: &Dock) -> Result<Box<dyn Device>, DeviceError> {
    check_there(parts)?;
    let ends = dock.lock().unwrap_or_else(PoisonError::into_inner).take();
    let ends = ends.unwrap_or_else(Ends::silent);
    let card = VirtualCard::new(parts.clone(), ends, Box::new(HostPace));
    Ok(Box::new(card.docked(Arc::clone(dock))))
}

fn open_card(
    spec: &DeviceSpec,
    (direction, wanted): (Direction, Settings),
    extras: Extras,
    notes: &Notes,
) -> Result<VirtualCard, DeviceError> {
    let parts = parts(spec, direction, wanted);
    check_there(&parts)?;
    let ends = ends(spec, &parts, extras, notes)?;
    Ok(VirtualCard::new(parts, ends, Box::new(HostPace)))
}

fn check_there(parts: &Parts) -> Result<(), DeviceError> {
    let away = parts.fault.as_ref().is_some_and(|fault| fault.is_away(HostPace.now()));
    if away { Err(gone(&parts.name)) } else { Ok(()) }
}

fn parts(spec: &DeviceSpec, direction: Direction, wanted: Settings) -> Parts {
    let mut parts = Parts {
        name: spec.to_string(),
        direction,
        settings: wanted,
        error: Ppm::ZERO,
        fault: None,
        patience: Frames::ZERO,
    };
    match spec {
        DeviceSpec::Virtual(options) => {
            parts.error = options.error;
            parts.fault = options.fault.clone();
            parts.settings.period = options.period.unwrap_or(wanted.period);
            parts.settings.periods = options.periods.unwrap_or(wanted.periods);
        }
        DeviceSpec::File(_) => parts.patience = wanted.rate.frames_within(PATIENCE),
        _ => {}
    }
    parts.settings.period = parts.settings.period.max(Frames::new(1));
    parts.settings.periods = parts.settings.periods.max(2);
    parts
}

fn ends(
    spec: &DeviceSpec,
    parts: &Parts,
    extras: Extras,
    notes: &Notes,
) -> Result<Ends, DeviceError> {
    let settings = &parts.settings;
    let read = |path: &Path| FileSource::open(path, settings, notes).map(Source::File);
    let write = |path: &Path| Recorder::create(path, settings, extras.record_format, notes);
    let tone = |frequency| tone(&parts.name, frequency, settings.rate);
    let mut ends = Ends { listener: extras.listener, ..Ends::silent() };
    match (spec, parts.direction) {
        (DeviceSpec::Virtual(options), Direction::Capture) => {
            ends.source = match (&options.source, options.tone) {
                (Some(path), _) => read(path)?,
                (None, Some(frequency)) => tone(frequency)?,
                (None, None) => Source::Silence,
            };
        }
        (DeviceSpec::Virtual(options), Direction::Playback) => {
            ends.recorder = options.record.as_deref().map(write).transpose()?;
        }
        (DeviceSpec::File(path), Direction::Capture) => ends.source = read(path)?,
        (DeviceSpec::File(path), Direction::Playback) => ends.recorder = Some(write(path)?),
        (DeviceSpec::Tone(frequency), Direction::Capture) => ends.source = tone(*frequency)?,
        (DeviceSpec::Tone(_), Direction::Playback) => {
            return Err(DeviceError {
                tried: parts.name.clone(),
                answer: "a tone can be heard but not played to".to_owned(),
                mend: "use virtual:, file:PATH or null: as output".to_owned(),
            });
        }
        (DeviceSpec::Null, _) => {}
    }
    Ok(ends)
}

/// A tone that `rate` can carry: from half of it on it would be heard as another, or not at all.
fn tone(name: &str, frequency: Frequency, rate: Rate) -> Result<Source, DeviceError> {
    let half = rate.hertz() / 2;
    if u64::from(frequency.as_millihertz()) < u64::from(half) * 1000 {
        return Ok(Source::Tone(Sine::new(frequency, rate.hertz())));
    }
    Err(DeviceError {
        tried: name.to_owned(),
        answer: format!("a stream of {rate} carries no tone of {frequency}"),
        mend: format!("use one below {half} Hz, or a higher rate with --rate"),
    })
}

/// One kind of device, for `taut devices`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceDescription {
    /// How it is named.
    pub name: &'static str,
    /// Which ways it goes.
    pub directions: &'static [Direction],
    /// What it is, in a few words.
    pub says: &'static str,
}

/// The devices that can be opened here.
pub fn list() -> Vec<DeviceDescription> {
    const BOTH: &[Direction] = &[Direction::Capture, Direction::Playback];
    let device = |name, directions, says| DeviceDescription { name, directions, says };
    vec![
        device(
            "virtual:",
            BOTH,
            "a card without hardware, strict as a real one: virtual:?ppm=50&record=out.wav",
        ),
        device(
            "file:PATH",
            BOTH,
            "a WAV or FLAC file, written as WAV; waits a second for a late program",
        ),
        device("tone:HZ", &BOTH[..1], "a sine at -18 dBFS"),
        device("null:", BOTH, "silence in, nothing out"),
    ]
}

/// Samples that are decoded ahead and that may wait for the disk: half a second of them, which is
/// 192 KiB of stereo at 48 kHz and 24 MiB of the most that is carried.
fn ring_samples(settings: &Settings) -> usize {
    let channels = settings.channels.count();
    let half_second = settings.rate.hertz() as usize / 2 * channels;
    half_second.max(settings.channels.samples_in(settings.period) * 4)
}

fn spawn_error(tried: &str, error: &io::Error) -> DeviceError {
    DeviceError {
        tried: tried.to_owned(),
        answer: format!("no thread could be started: {error}"),
        mend: "end other programs or raise the limit: ulimit -u".to_owned(),
    }
}
