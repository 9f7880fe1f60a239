//! ALSA PCMs, timed with [`tautline_proto::card_line`], or with a timer for PCMs without a card.
//! The mixer stays untouched.

mod card;
mod configured;
mod list;
mod pace;
mod params;
mod pcm;
mod refuse;
pub(crate) mod spec;
#[cfg(test)]
mod tests;

use std::ffi::CString;

use ::alsa::Output;
use ::alsa::pcm::PCM;
use tautline_proto::device::{Device, DeviceError, Direction, Directions, Settings};

use self::card::CardSide;
pub(crate) use self::list::cards as list;
pub use self::spec::AlsaSpec;
use crate::toolbox::{ChannelsOffered, Notes};

pub(crate) fn settle(
    spec: &AlsaSpec,
    directions: Directions,
    wanted: Settings,
) -> Result<Settings, DeviceError> {
    for direction in directions.each() {
        let pcm = spec.open(direction)?;
        params::narrow(spec, &pcm, wanted)?;
    }
    Ok(wanted)
}

pub(crate) fn offered(
    spec: &AlsaSpec,
    direction: Direction,
    wanted: &[Settings],
) -> Result<Vec<Settings>, DeviceError> {
    let pcm = spec.open(direction)?;
    let can = |wanted: &&Settings| params::narrow(spec, &pcm, **wanted).is_ok();
    Ok(wanted.iter().filter(can).copied().collect())
}

pub(crate) fn channels(spec: &AlsaSpec, direction: Direction) -> Option<ChannelsOffered> {
    let pcm = spec.open(direction).ok()?;
    let (params, _) = params::all(&pcm).ok()?;
    let (minimum, maximum) = params::channels(&params);
    Some(ChannelsOffered { minimum, maximum, converter: spec.plugged() })
}

pub(crate) fn goes(spec: &AlsaSpec, direction: Direction) -> bool {
    spec.is_there(direction)
}

pub(crate) fn open(
    spec: &AlsaSpec,
    directions: Directions,
    settings: Settings,
    notes: &Notes,
) -> Result<Box<dyn Device>, DeviceError> {
    let ends = directions.each().map(|direction| end(spec, direction, settings));
    let ends = ends.collect::<Result<Vec<_>, _>>()?;
    let timed = notes.prepare(format!("{spec}: not a card: a timer of this machine sets the pace"));
    let losses = refuse::CardErrors::new(spec);
    Ok(Box::new(card::Card::new(ends, settings, spec.wakeup, losses, timed)))
}

fn end(spec: &AlsaSpec, direction: Direction, settings: Settings) -> Result<CardSide, DeviceError> {
    let pcm = spec.open(direction)?;
    let coding = {
        let (params, coding) = params::narrow(spec, &pcm, settings)?;
        params::apply(spec, &pcm, &params, settings)?;
        coding
    };
    let pcm = pcm::CardPcm::new(pcm, spec.is_card(), direction, settings, coding)
        .map_err(|error| params::unusable(spec, error))?;
    Ok(CardSide::new(direction, pcm))
}

const fn alsa_direction(direction: Direction) -> ::alsa::Direction {
    match direction {
        Direction::Capture => ::alsa::Direction::Capture,
        Direction::Playback => ::alsa::Direction::Playback,
    }
}

impl AlsaSpec {
    fn is_there(&self, direction: Direction) -> bool {
        let _said = Output::local_error_handler();
        let Ok(name) = CString::new(self.pcm.as_str()) else { return false };
        match PCM::open(&name, alsa_direction(direction), true) {
            Ok(_) => true,
            Err(error) => [libc::EBUSY, libc::EAGAIN, libc::EACCES, libc::EPERM]
                .contains(&error.errno().abs()),
        }
    }

    /// Never blocks.
    fn open(&self, direction: Direction) -> Result<PCM, DeviceError> {
        // Keeps the library's messages off standard error.
        let said = Output::local_error_handler().ok();
        let refused = |errno| {
            let said = said.map(|said| said.borrow().to_string()).unwrap_or_default();
            refuse::not_opened(self, direction, errno, &said)
        };
        let Ok(name) = CString::new(self.pcm.as_str()) else { return Err(refused(libc::EINVAL)) };
        PCM::open(&name, alsa_direction(direction), true)
            .map_err(|error| refused(error.errno().abs()))
    }
}
