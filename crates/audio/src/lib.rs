//! Sound devices: cards by ALSA, clients of JACK and PipeWire, virtual cards and files.
//!
//! People name a device by a [`DeviceSpec`]; [`open`] gives a [`Device`] to be run on a thread of
//! the caller's, whose priority the caller has set. Each kind has a module with the same three
//! functions: `settle` says how the device would run, `open` opens it, `list` finds what is there.
//! [`virtual_card`] serves everything that has no hardware; `file:` differs in one thing: it waits
//! up to a second for a late program, so that what is read or written is whole, where a `virtual:`
//! card overruns and starves. Files are decoded and written on ordinary threads of their own, which
//! end with the device.
#![deny(unsafe_code)]

use std::io;
use std::sync::Arc;

use tautline_dsp::format::SampleFormat;
use tautline_proto::device::{Device, DeviceError, Direction, Listener, Settings};

pub mod alsa;
mod callback;
mod convert;
mod description;
pub mod file;
pub mod jack;
mod list;
pub mod notes;
pub mod pace;
pub mod pipewire;
mod recorder;
mod software;
mod source;
pub mod spec;
mod standard;
mod stream_latency;
pub mod supervise;
pub mod virtual_card;
mod wav;

#[cfg(test)]
mod tests;

pub use convert::Wanted;
pub use description::{ChannelsOffered, DeviceDescription, Offers, Way};
pub use file::{Coding, FileFormat, FileReader, holds_nothing};
pub use list::list;
pub use notes::Notes;
pub use recorder::check_take;
pub use spec::{CardOptions, DeviceSpec};
pub use standard::StandardInput;
pub use stream_latency::StreamLatency;
pub use supervise::{Opener, Supervised, Supervision};

use pace::Pace;
use virtual_card::Dock;

/// Stack of the ordinary threads, in bytes: they nest shallowly and keep their buffers on the
/// heap, and a receiver's memory is counted.
const STACK: usize = 256 * 1024;

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
    /// To be told what the stream takes; others in the device's graph hear it.
    pub latency: StreamLatency,
}

/// How the device that `spec` names would run if it were asked for `wanted`: a server of sound has
/// a rate and a period of its own, a virtual card may say its period in its name. An error if it
/// cannot be asked. [`open`] takes what this says.
pub fn settle(
    spec: &DeviceSpec,
    direction: Direction,
    wanted: Settings,
) -> Result<Settings, DeviceError> {
    match spec {
        DeviceSpec::Alsa(card) => alsa::settle(card, direction, wanted),
        DeviceSpec::Jack(client) => jack::settle(client, direction, wanted),
        DeviceSpec::PipeWire(node) => pipewire::settle(node, direction, wanted),
        DeviceSpec::Virtual(_) => Ok(software::parts(spec, direction, wanted).settings),
        DeviceSpec::Tone(_) if direction == Direction::Playback => {
            Err(software::not_played_to(&spec.to_string()))
        }
        DeviceSpec::File(_) | DeviceSpec::Standard(_) | DeviceSpec::Tone(_) | DeviceSpec::Null => {
            Ok(wanted)
        }
    }
}

/// What is in the file that `spec` names, or comes on standard input, if it is one of them: which is
/// waited for. What cannot be carried as is `wanted` is refused with the command that converts it.
pub fn probe(spec: &DeviceSpec, wanted: Wanted) -> Result<Option<FileFormat>, DeviceError> {
    match spec {
        DeviceSpec::File(path) => {
            FileReader::open_for(path, wanted).map(|reader| Some(reader.format()))
        }
        DeviceSpec::Standard(input) => input.look(wanted).map(Some),
        _ => Ok(None),
    }
}

/// The channels that the device which `spec` names has, and the device that converts for it, where
/// the one is known to be limited.
pub fn channels(spec: &DeviceSpec, direction: Direction) -> Option<ChannelsOffered> {
    match spec {
        DeviceSpec::Alsa(card) => alsa::channels(card, direction),
        _ => None,
    }
}

/// Opens the device that `spec` names, as [`settle`] says that it would run. A file of another rate
/// or with other channels is refused.
pub fn open(
    spec: &DeviceSpec,
    direction: Direction,
    wanted: Settings,
    extras: Extras,
) -> Result<Opened, DeviceError> {
    let (notes, latency) = (Notes::default(), StreamLatency::default());
    let device = match hardware(spec, direction, wanted, (&notes, &latency))? {
        Some(device) => device,
        None => Box::new(software::open_card(spec, (direction, wanted), extras, &notes)?),
    };
    Ok(Opened { device, notes, supervision: Supervision::default(), latency })
}

/// As [`open`] for what has no hardware, by another clock than the host's: for tests that are their
/// own clock.
pub fn open_paced(
    spec: &DeviceSpec,
    direction: Direction,
    wanted: Settings,
    extras: Extras,
    pace: Box<dyn Pace>,
) -> Result<Opened, DeviceError> {
    let notes = Notes::default();
    let card = software::open_card(spec, (direction, wanted), extras, &notes)?.paced(pace);
    let (supervision, latency) = Default::default();
    Ok(Opened { device: Box::new(card), notes, supervision, latency })
}

/// As [`open`], but a timer stands in for the device when it goes, until it is back.
pub fn open_supervised(
    spec: &DeviceSpec,
    direction: Direction,
    wanted: Settings,
    extras: Extras,
) -> Result<Opened, DeviceError> {
    let (notes, latency) = (Notes::default(), StreamLatency::default());
    let (device, again): (Box<dyn Device>, Opener) =
        match hardware(spec, direction, wanted, (&notes, &latency))? {
            Some(device) => (device, open_again(spec, direction, wanted, (&notes, &latency))),
            None => {
                let dock = Dock::default();
                let card = software::open_card(spec, (direction, wanted), extras, &notes)?;
                let card = card.docked(Arc::clone(&dock));
                let parts = software::parts(spec, direction, wanted);
                (Box::new(card), Box::new(move || software::reopen_card(&parts, &dock)))
            }
        };
    let (device, supervision) =
        Supervised::new(device, direction, again, supervise::RETRY, &notes)?;
    Ok(Opened { device: Box::new(device), notes, supervision, latency })
}

/// The device that `spec` names, if it is one of hardware or of another program.
fn hardware(
    spec: &DeviceSpec,
    direction: Direction,
    settings: Settings,
    (notes, latency): (&Notes, &StreamLatency),
) -> Result<Option<Box<dyn Device>>, DeviceError> {
    match spec {
        DeviceSpec::Alsa(card) => alsa::open(card, direction, settings, notes).map(Some),
        DeviceSpec::Jack(client) => {
            jack::open(client, direction, settings, (notes, latency)).map(Some)
        }
        DeviceSpec::PipeWire(node) => {
            pipewire::open(node, direction, settings, (notes, latency)).map(Some)
        }
        _ => Ok(None),
    }
}

fn open_again(
    spec: &DeviceSpec,
    direction: Direction,
    settings: Settings,
    (notes, latency): (&Notes, &StreamLatency),
) -> Opener {
    let (spec, notes, latency) = (spec.clone(), notes.clone(), latency.clone());
    Box::new(move || {
        let device = hardware(&spec, direction, settings, (&notes, &latency))?;
        device.ok_or_else(|| virtual_card::gone(&spec.to_string()))
    })
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
