//! Sound cards, and any other PCM, by ALSA.
//!
//! `params` sets a PCM up as asked or says what it offers instead, `card` is the loop of its
//! thread over the calls of `pcm`, and `pace` says when its frames meet the converter: by
//! [`tautline_proto::card_line`], or by a timer where a PCM has no card behind it.
//! The mixer is nobody's business here: volumes stay as they are.

use tautline_proto::device::{Device, DeviceError, Direction, Directions, Settings};

use self::end::CardSide;
pub use self::spec::AlsaSpec;
use crate::toolbox::description::{ChannelsOffered, DeviceDescription};
use crate::toolbox::notes::Notes;

mod card;
mod configured;
mod end;
mod list;
mod open;
mod pace;
mod params;
mod pcm;
mod refuse;
pub(crate) mod spec;
#[cfg(test)]
mod tests;

/// How the device would run: as wanted, or not at all.
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

/// How it would run as one or another of these: those that it can, as they are wanted.
pub(crate) fn offered(
    spec: &AlsaSpec,
    direction: Direction,
    wanted: &[Settings],
) -> Result<Vec<Settings>, DeviceError> {
    let pcm = spec.open(direction)?;
    let can = |wanted: &&Settings| params::narrow(spec, &pcm, **wanted).is_ok();
    Ok(wanted.iter().filter(can).copied().collect())
}

/// The channels it has; `None` if it cannot be asked.
pub(crate) fn channels(spec: &AlsaSpec, direction: Direction) -> Option<ChannelsOffered> {
    let pcm = spec.open(direction).ok()?;
    let (params, _) = params::all(&pcm).ok()?;
    let (least, most) = params::channels(&params);
    Some(ChannelsOffered { least, most, converter: spec.plugged() })
}

/// Whether there is such a PCM in this direction, be it another program's or not this user's: it is opened for a moment.
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
    let timed = notes.prepare(format!(
        "{spec}: there is no card behind it that sets the pace: a timer of this machine does"
    ));
    let losses = refuse::CardErrors::new(spec);
    Ok(Box::new(card::Card::new(ends, settings, spec.wakeup, losses, timed)))
}

/// Opens one direction of it.
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

/// Those that are here.
pub(crate) fn list() -> Vec<DeviceDescription> {
    list::cards()
}
