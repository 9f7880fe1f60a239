use std::sync::Arc;

use tautline_proto::device::{Device, DeviceError, Direction, Directions, Settings};

use crate::software::convert::Wanted;
use crate::software::file::FileFormat;
use crate::software::pace::Pace;
use crate::software::virtual_card::{Dock, VirtualCard};
use crate::software::{self, Extras};
use crate::spec::DeviceSpec;
use crate::toolbox::supervise::{Fallback, Opener, Supervised, Supervision};
use crate::toolbox::{ChannelsOffered, DeviceDescription, Notes, StreamLatency};
use crate::{alsa, jack, pipewire};

pub fn list() -> Vec<DeviceDescription> {
    let mut found = software::list();
    found.extend(alsa::list());
    found.extend(jack::list());
    found.extend(pipewire::list());
    found
}

pub struct Opened {
    pub device: Box<dyn Device>,
    pub notes: Notes,
    pub supervision: Supervision,
    pub latency: StreamLatency,
}

/// Settings for a request; for both directions those of either side. Servers set rate and period; a
/// virtual card may set its period. An error if the device cannot be queried.
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

/// Settings of an open device now. A JACK server may have another period since; blocks keep theirs.
pub fn settings_now(spec: &DeviceSpec, direction: Direction, opened: Settings) -> Settings {
    match spec {
        DeviceSpec::Jack(client) => {
            let now = jack::settle(client, direction.into(), opened).ok();
            now.map_or(opened, |now| opened_as(opened, direction, &now))
        }
        _ => opened,
    }
}

/// `opened` with the buffer of `now`, in whole blocks.
fn opened_as(opened: Settings, direction: Direction, now: &Settings) -> Settings {
    if now.rate != opened.rate {
        return opened;
    }
    match direction {
        Direction::Capture => Settings { period: opened.period.max(now.period), ..opened },
        Direction::Playback => {
            let buffer = now.period.count().max(1).unsigned_abs() * u64::from(now.periods);
            let periods = buffer.div_ceil(opened.period.count().max(1).unsigned_abs());
            Settings { periods: u32::try_from(periods).unwrap_or(u32::MAX), ..opened }
        }
    }
}

/// Settings for each supported one of `wanted`, in order. Queries once: a server for the first rate
/// and its channel counts; a file or cable for the first only.
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

/// Format of a file or of standard input, for which it waits. Errors have the converting command.
pub fn probe(spec: &DeviceSpec, wanted: Wanted) -> Result<Option<FileFormat>, DeviceError> {
    match spec {
        DeviceSpec::Software(card) => software::probe(card, wanted),
        _ => Ok(None),
    }
}

pub fn channels(spec: &DeviceSpec, direction: Direction) -> Option<ChannelsOffered> {
    match spec {
        DeviceSpec::Alsa(card) => alsa::channels(card, direction),
        _ => None,
    }
}

/// Opens the device as [`settle`] returns. [`Directions::Both`] is one device with one call per
/// period. Rejects other rates or channel counts of files, and unsupported directions.
pub fn open(
    spec: &DeviceSpec,
    directions: impl Into<Directions>,
    wanted: Settings,
    extras: Extras,
) -> Result<Opened, DeviceError> {
    let (notes, latency) = (Notes::default(), StreamLatency::default());
    let device = open_alone(spec, directions.into(), wanted, extras, (&notes, &latency))?;
    Ok(Opened { device, notes, supervision: Supervision::default(), latency })
}

/// [`open`] for devices without hardware, with the clock `pace`.
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
            answer: "it has its own clock".to_owned(),
            hint: "use virtual:, file:PATH, tone:HZ or null:".to_owned(),
        });
    };
    let notes = Notes::default();
    let card = software::open_card(card, directions.into(), wanted, extras, &notes)?.paced(pace);
    let (supervision, latency) = Default::default();
    Ok(Opened { device: Box::new(card), notes, supervision, latency })
}

/// [`open`], but a timer replaces a failed device until it is back.
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
        let device = open_alone(spec, direction.into(), wanted, extras, (&notes, &latency))?;
        (device, open_again(spec, direction, wanted, &notes, &latency))
    };
    let timer = Box::new(VirtualCard::timer(direction, device.settings()));
    let remedy = Fallback::new(timer, again);
    let (device, supervision) = Supervised::new(device, direction, remedy, &notes)?;
    Ok(Opened { device: Box::new(device), notes, supervision, latency })
}

fn open_alone(
    spec: &DeviceSpec,
    directions: Directions,
    settings: Settings,
    extras: Extras,
    (notes, latency): (&Notes, &StreamLatency),
) -> Result<Box<dyn Device>, DeviceError> {
    match spec {
        DeviceSpec::Alsa(card) => alsa::open(card, directions, settings, notes),
        DeviceSpec::Jack(client) => jack::open(client, directions, settings, notes, latency),
        DeviceSpec::PipeWire(node) => pipewire::open(node, directions, settings, notes, latency),
        DeviceSpec::Software(card) => {
            Ok(Box::new(software::open_card(card, directions, settings, extras, notes)?))
        }
    }
}

fn open_again(
    spec: &DeviceSpec,
    direction: Direction,
    settings: Settings,
    notes: &Notes,
    latency: &StreamLatency,
) -> Opener {
    let (spec, notes, latency) = (spec.clone(), notes.clone(), latency.clone());
    Box::new(move || {
        open_alone(&spec, direction.into(), settings, Extras::default(), (&notes, &latency))
    })
}

#[cfg(test)]
mod tests {
    use tautline_proto::time::Frames;
    use tautline_proto::units::{Channels, Rate};

    use super::*;

    #[test]
    fn open_device_has_the_new_buffer_of_its_server() {
        let of = |period, periods| {
            let (rate, channels) = (Rate::HZ_48000, Channels::STEREO);
            Settings { rate, channels, period: Frames::new(period), periods }
        };
        for (opened, now, played, captured) in [
            (of(64, 3), of(64, 3), of(64, 3), of(64, 3)),
            (of(64, 3), of(256, 3), of(64, 12), of(256, 3)),
            (of(256, 3), of(64, 3), of(256, 1), of(256, 3)),
            (of(100, 2), of(64, 3), of(100, 2), of(100, 2)),
        ] {
            assert_eq!(opened_as(opened, Direction::Playback, &now), played);
            assert_eq!(opened_as(opened, Direction::Capture, &now), captured);
        }
        let other = Settings { rate: Rate::HZ_44100, ..of(1024, 3) };
        assert_eq!(opened_as(of(64, 3), Direction::Playback, &other), of(64, 3));
    }
}
