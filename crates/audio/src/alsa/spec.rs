//! A PCM as people name it: `alsa:hw:0?wakeup=timer`.

use std::fmt;
use std::str::FromStr;

use tautline_dsp::card::CardFormat;
use tautline_proto::device::DeviceError;

/// What stands after `alsa:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlsaSpec {
    pub(super) pcm: String,
    pub(super) wakeup: Wakeup,
    /// The only format that is taken; the best there is if `None`.
    pub(super) format: Option<CardFormat>,
}

/// What wakes the device's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Wakeup {
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
        let mut spec = Self::named(name);
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
    pub(crate) fn named(pcm: &str) -> Self {
        Self { pcm: pcm.to_owned(), wakeup: Wakeup::default(), format: None }
    }

    /// The same card or PCM behind the plugin that converts, where it has none yet. A name with
    /// arguments of its own would need quotes, and again others in a shell.
    pub(super) fn plugged(&self) -> Option<String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        match self.pcm.as_str() {
            card if self.is_card() => Some(format!("alsa:plug{card}")),
            // It converts already.
            "default" | "sysdefault" | "plug" | "pulse" | "pipewire" => None,
            name => name.bytes().all(plain).then(|| format!("alsa:plug:{name}")),
        }
    }

    /// Whether the name is that of a card, with nothing in between.
    pub(super) fn is_card(&self) -> bool {
        self.pcm.starts_with("hw:")
    }

    /// The card that the name says, by its number or short name.
    pub(super) fn card(&self) -> Option<&str> {
        self.argument(0, "CARD")
    }

    /// The card's device that the name says, and which of its equal parts; `None` is any. `None` of
    /// both where the name is not that of a card, or wrong.
    pub(super) fn device(&self) -> Option<(u32, Option<u32>)> {
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
}
