//! Opens what a name means: the one place that knows every kind of device.

use std::sync::Arc;

use tautline_proto::device::{Device, DeviceError, Direction, Directions, Settings};

use crate::software::convert::Wanted;
use crate::software::file::FileFormat;
use crate::software::pace::Pace;
use crate::software::virtual_card::{Dock, VirtualCard};
use crate::software::{self, Extras};
use crate::spec::DeviceSpec;
use crate::toolbox::description::{ChannelsOffered, DeviceDescription};
use crate::toolbox::notes::Notes;
use crate::toolbox::stream_latency::StreamLatency;
use crate::toolbox::supervise::{Fallback, Opener, Supervised, Supervision};
use crate::{alsa, jack, pipewire};

/// The devices that can be opened here.
pub fn list() -> Vec<DeviceDescription> {
    let mut found = software::list();
    found.extend(alsa::list());
    found.extend(jack::list());
    found.extend(pipewire::list());
    found
}

/// A device that was opened.
pub struct Opened {
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
/// cannot be asked. [`open`] takes what this says. For both directions the settings are those of
/// either side.
pub fn settle(
    spec: &DeviceSpec,
    directions: impl Into<Directions>,
    wanted: Settings,
) -> Result<Settings, DeviceError> {
    let directions = directions.into();
    match spec {
        DeviceSpec::Alsa(card) => alsa::settle(card, directions, wanted),
        DeviceSpec::Jack(client) => jack::settle(client, directions, wanted),
        DeviceSpec::PipeWire(node) => pipewire::settle(node, directions, wanted),
        DeviceSpec::Software(card) => software::settle(card, directions, wanted),
    }
}

/// How the device that `spec` names would run if it were asked for one or another of `wanted`, the better first: as
/// [`settle`] says for each, without those that it refuses. It is asked once. A server of sound has its own rate alone,
/// which is asked for by the first, and the channels of all that are wanted at that one's rate; what goes by another's
/// frames (a file, a cable) is asked for the first alone. An error if it cannot be asked.
pub fn offered(
    spec: &DeviceSpec,
    direction: Direction,
    wanted: &[Settings],
) -> Result<Vec<Settings>, DeviceError> {
    let Some(first) = wanted.first() else { return Ok(Vec::new()) };
    match spec {
        DeviceSpec::Alsa(card) => alsa::offered(card, direction, wanted),
        DeviceSpec::Jack(_) | DeviceSpec::PipeWire(_) => {
            let its = settle(spec, direction, *first)?;
            let alike = wanted.iter().filter(|one| one.rate == first.rate);
            Ok(alike.map(|one| Settings { channels: one.channels, ..its }).collect())
        }
        DeviceSpec::Software(card) => {
            let all =
                if card.is_like_another(direction) { std::slice::from_ref(first) } else { wanted };
            all.iter().map(|one| software::settle(card, direction.into(), *one)).collect()
        }
    }
}

/// What is in the file that `spec` names, or comes on standard input, if it is one of them: which is
/// waited for. What cannot be carried as is `wanted` is refused with the command that converts it.
pub fn probe(spec: &DeviceSpec, wanted: Wanted) -> Result<Option<FileFormat>, DeviceError> {
    match spec {
        DeviceSpec::Software(card) => software::probe(card, wanted),
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
/// or with other channels is refused. For [`Directions::Both`] it is one device, which calls its
/// process once a period with both sides of the cycle; what cannot go both ways is refused.
pub fn open(
    spec: &DeviceSpec,
    directions: impl Into<Directions>,
    wanted: Settings,
    extras: Extras,
) -> Result<Opened, DeviceError> {
    let (notes, latency) = (Notes::default(), StreamLatency::default());
    let request = OpenRequest { spec, directions: directions.into(), settings: wanted };
    let device = open_alone(request, extras, &notes, &latency)?;
    Ok(Opened { device, notes, supervision: Supervision::default(), latency })
}

/// As [`open`] for what has no hardware, by another clock than the host's: for tests that are their
/// own clock.
pub fn open_paced(
    spec: &DeviceSpec,
    directions: impl Into<Directions>,
    wanted: Settings,
    extras: Extras,
    pace: Box<dyn Pace>,
) -> Result<Opened, DeviceError> {
    let DeviceSpec::Software(card) = spec else {
        return Err(DeviceError {
            tried: spec.to_string(),
            answer: "it goes by a clock of its own".to_owned(),
            mend: "use virtual:, file:PATH, tone:HZ or null:".to_owned(),
        });
    };
    let notes = Notes::default();
    let card = software::open_card(card, directions.into(), wanted, extras, &notes)?.paced(pace);
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
    let (device, again): (Box<dyn Device>, Opener) = if let DeviceSpec::Software(spec) = spec {
        let dock = Dock::default();
        let card = software::open_card(spec, direction.into(), wanted, extras, &notes)?;
        let card = card.docked(Arc::clone(&dock));
        let parts = software::parts(spec, direction.into(), wanted);
        (Box::new(card), Box::new(move || software::reopen_card(&parts, &dock)))
    } else {
        let request = OpenRequest { spec, directions: direction.into(), settings: wanted };
        let device = open_alone(request, extras, &notes, &latency)?;
        (device, open_again(spec, direction, wanted, &notes, &latency))
    };
    let timer = Box::new(VirtualCard::timer(direction, device.settings()));
    let remedy = Fallback::new(timer, again);
    let (device, supervision) = Supervised::new(device, direction, remedy, &notes)?;
    Ok(Opened { device: Box::new(device), notes, supervision, latency })
}

/// Which device is to be opened, and how.
struct OpenRequest<'a> {
    spec: &'a DeviceSpec,
    directions: Directions,
    settings: Settings,
}

/// The device that is named. What is no file takes nothing of `extras`.
fn open_alone(
    request: OpenRequest<'_>,
    extras: Extras,
    notes: &Notes,
    latency: &StreamLatency,
) -> Result<Box<dyn Device>, DeviceError> {
    let OpenRequest { spec, directions, settings } = request;
    match spec {
        DeviceSpec::Alsa(card) => alsa::open(card, directions, settings, notes),
        DeviceSpec::Jack(client) => jack::open(client, directions, settings, notes, latency),
        DeviceSpec::PipeWire(node) => pipewire::open(node, directions, settings, notes, latency),
        DeviceSpec::Software(card) => {
            Ok(Box::new(software::open_card(card, directions, settings, extras, notes)?))
        }
    }
}

/// Opens again what has no ends that are to outlive it.
fn open_again(
    spec: &DeviceSpec,
    direction: Direction,
    settings: Settings,
    notes: &Notes,
    latency: &StreamLatency,
) -> Opener {
    let (spec, notes, latency) = (spec.clone(), notes.clone(), latency.clone());
    Box::new(move || {
        let request = OpenRequest { spec: &spec, directions: direction.into(), settings };
        open_alone(request, Extras::default(), &notes, &latency)
    })
}
