//! Sound cards, and any other PCM, by ALSA.
//!
//! `params` sets a PCM up as asked or says what it offers instead, `card` is the loop of its
//! thread over the calls of `pcm`, and `pace` says when its frames meet the converter: by
//! [`tautline_proto::card_line`], or by a timer where a PCM has no card behind it.
//! The mixer is nobody's business here: volumes stay as they are.

use std::ffi::CString;
use std::fmt;
use std::str::FromStr;

use ::alsa::Output;
use ::alsa::pcm::PCM;
use tautline_dsp::card::CardFormat;
use tautline_proto::device::{Device, DeviceError, Direction, Settings};

use crate::{ChannelsOffered, DeviceDescription, Notes};

mod card;
mod configured;
mod list;
mod pace;
mod params;
mod pcm;
mod refuse;
#[cfg(test)]
mod tests;

/// What stands after `alsa:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlsaSpec {
    pcm: String,
    wakeup: Wakeup,
    /// The only format that is taken; the best there is if `None`.
    format: Option<CardFormat>,
}

/// What wakes the device's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Wakeup {
    /// The card's interrupt.
    #[default]
    Card,
    /// A timer, for the instant at which a period should be ready.
    Timer,
}

/// The options after `?`, for people.
const OPTIONS: &str = "wakeup=timer, wakeup=card and format=S16_LE";

/// What to write in the place of an option that there is not.
fn instead_of(option: &str) -> String {
    match option.split_once('=') {
        Some((key @ ("period" | "periods" | "rate" | "channels"), value)) => {
            format!("say --{key} {value} beside it")
        }
        _ => format!("it has {OPTIONS}"),
    }
}

impl FromStr for AlsaSpec {
    type Err = DeviceError;

    fn from_str(rest: &str) -> Result<Self, DeviceError> {
        let refuse = |answer: String, mend: String| DeviceError {
            tried: format!("alsa:{rest}"),
            answer,
            mend,
        };
        let (name, options) = rest.split_once('?').unwrap_or((rest, ""));
        if name.is_empty() || name.contains('\0') {
            let mend = "name one, such as alsa:hw:0".to_owned();
            return Err(refuse("the name is missing".to_owned(), mend));
        }
        let mut spec = Self { pcm: name.to_owned(), wakeup: Wakeup::default(), format: None };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("wakeup", "card")) => spec.wakeup = Wakeup::Card,
                Some(("wakeup", "timer")) => spec.wakeup = Wakeup::Timer,
                Some(("format", format)) => {
                    let names = CardFormat::BEST_FIRST.map(CardFormat::name).join(", ");
                    spec.format = Some(format.parse().map_err(|_| {
                        refuse(format!("no format is called ‘{format}’"), format!("use {names}"))
                    })?);
                }
                _ => {
                    let answer = format!("alsa: has no option ‘{option}’");
                    return Err(refuse(answer, instead_of(option)));
                }
            }
        }
        Ok(spec)
    }
}

impl fmt::Display for AlsaSpec {
    /// The name without its options.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "alsa:{}", self.pcm)
    }
}

impl AlsaSpec {
    /// The same card or PCM behind the plugin that converts, where it has none yet. A name with
    /// arguments of its own would need quotes, and again others in a shell.
    fn plugged(&self) -> Option<String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        match self.pcm.as_str() {
            card if self.is_card() => Some(format!("alsa:plug{card}")),
            // It converts already.
            "default" | "sysdefault" | "plug" | "pulse" | "pipewire" => None,
            name => name.bytes().all(plain).then(|| format!("alsa:plug:{name}")),
        }
    }

    /// Whether the name is that of a card, with nothing in between.
    fn is_card(&self) -> bool {
        self.pcm.starts_with("hw:")
    }

    /// The card that the name says, by its number or short name.
    fn card(&self) -> Option<&str> {
        self.argument(0, "CARD")
    }

    /// The card's device that the name says, and which of its equal parts; `None` is any. `None` of
    /// both where the name is not that of a card, or wrong.
    fn device(&self) -> Option<(u32, Option<u32>)> {
        self.card()?;
        let device = self.argument(1, "DEV").map_or(Some(0), |device| device.parse().ok())?;
        // A negative number is any.
        Some((device, self.argument(2, "SUBDEV").and_then(|part| part.parse().ok())))
    }

    /// What a card's name says behind `hw:`, at its place or as KEY=VALUE.
    fn argument(&self, place: usize, key: &str) -> Option<&str> {
        let arguments = self.pcm.split_once("hw:")?.1.trim_end_matches(['\'', '"']);
        arguments.split(',').enumerate().find_map(|(at, argument)| match argument.split_once('=') {
            Some((named, value)) => (named == key).then_some(value),
            None => (at == place).then_some(argument),
        })
    }

    /// Opens the PCM. Never waits: neither for whoever has it, nor later for the card.
    fn open(&self, direction: Direction) -> Result<PCM, DeviceError> {
        // What ALSA's library would print on standard error. Without it that is printed.
        let said = Output::local_error_handler().ok();
        let way = match direction {
            Direction::Capture => ::alsa::Direction::Capture,
            Direction::Playback => ::alsa::Direction::Playback,
        };
        let refused = |errno| {
            let said = said.map(|said| said.borrow().to_string()).unwrap_or_default();
            refuse::not_opened(self, direction, (errno, &said))
        };
        let Ok(name) = CString::new(self.pcm.as_str()) else { return Err(refused(libc::EINVAL)) };
        PCM::open(&name, way, true).map_err(|error| refused(error.errno().abs()))
    }
}

/// How the device would run: as wanted, or not at all.
pub(crate) fn settle(
    spec: &AlsaSpec,
    direction: Direction,
    wanted: Settings,
) -> Result<Settings, DeviceError> {
    let pcm = spec.open(direction)?;
    params::narrow(spec, &pcm, wanted)?;
    Ok(wanted)
}

/// The channels it has; `None` if it cannot be asked.
pub(crate) fn channels(spec: &AlsaSpec, direction: Direction) -> Option<ChannelsOffered> {
    let pcm = spec.open(direction).ok()?;
    let (params, _) = params::all(&pcm).ok()?;
    let (least, most) = params::channels(&params);
    Some(ChannelsOffered { least, most, converter: spec.plugged() })
}

/// Opens it.
pub(crate) fn open(
    spec: &AlsaSpec,
    direction: Direction,
    settings: Settings,
    notes: &Notes,
) -> Result<Box<dyn Device>, DeviceError> {
    let pcm = spec.open(direction)?;
    let coding = {
        let (params, coding) = params::narrow(spec, &pcm, settings)?;
        params::apply(spec, &pcm, &params, settings)?;
        coding
    };
    let pcm = pcm::Pcm::new((pcm, spec.is_card()), (direction, settings), coding)
        .map_err(|error| params::unusable(spec, error))?;
    let timed = notes.prepare(format!(
        "{spec}: there is no card behind it that sets the pace: a timer of this machine does"
    ));
    let says = (refuse::Losses::new(spec), timed);
    Ok(Box::new(card::Card::new(pcm, (direction, settings), spec.wakeup, says)))
}

/// Those that are here.
pub(crate) fn list() -> Vec<DeviceDescription> {
    list::cards()
}
