use std::fmt;
use std::str::FromStr;

use tautline_dsp::card::CardFormat;
use tautline_proto::device::DeviceError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlsaSpec {
    pub(super) pcm: String,
    pub(super) wakeup: Wakeup,
    pub(super) format: Option<CardFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Wakeup {
    #[default]
    Card,
    Timer,
}

const OPTIONS: &str = "wakeup=timer, wakeup=card or format=S16_LE";

fn instead_of(option: &str) -> String {
    match option.split_once('=') {
        Some((key @ ("period" | "periods" | "rate" | "channels"), value)) => {
            format!("use --{key} {value}")
        }
        _ => format!("use {OPTIONS}"),
    }
}

impl FromStr for AlsaSpec {
    type Err = DeviceError;

    fn from_str(rest: &str) -> Result<Self, DeviceError> {
        let refuse = |answer: String, hint: String| DeviceError {
            tried: format!("alsa:{rest}"),
            answer,
            hint,
        };
        let (name, options) = rest.split_once('?').unwrap_or((rest, ""));
        if name.is_empty() || name.contains('\0') {
            let hint = "name one, such as alsa:hw:0".to_owned();
            return Err(refuse("the name is missing".to_owned(), hint));
        }
        let mut spec = Self::named(name);
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("wakeup", "card")) => spec.wakeup = Wakeup::Card,
                Some(("wakeup", "timer")) => spec.wakeup = Wakeup::Timer,
                Some(("format", format)) => {
                    let names = CardFormat::BEST_FIRST.map(CardFormat::name).join(", ");
                    spec.format = Some(format.parse().map_err(|_| {
                        refuse(format!("unknown format '{format}'"), format!("use {names}"))
                    })?);
                }
                _ => {
                    let answer = format!("unknown option '{option}'");
                    return Err(refuse(answer, instead_of(option)));
                }
            }
        }
        Ok(spec)
    }
}

impl fmt::Display for AlsaSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "alsa:{}", self.pcm)
    }
}

impl AlsaSpec {
    pub(crate) fn named(pcm: &str) -> Self {
        Self { pcm: pcm.to_owned(), wakeup: Wakeup::default(), format: None }
    }

    pub(super) fn plugged(&self) -> Option<String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        match self.pcm.as_str() {
            card if self.is_card() => Some(format!("alsa:plug{card}")),
            "default" | "sysdefault" | "plug" | "pulse" | "pipewire" => None,
            name => name.bytes().all(plain).then(|| format!("alsa:plug:{name}")),
        }
    }

    pub(crate) fn is_hardware(&self) -> bool {
        self.pcm.contains("hw:")
    }

    pub(super) fn is_card(&self) -> bool {
        self.pcm.starts_with("hw:")
    }

    pub(super) fn card(&self) -> Option<&str> {
        self.argument(0, "CARD")
    }

    pub(super) fn device(&self) -> Option<(u32, Option<u32>)> {
        self.card()?;
        let device = self.argument(1, "DEV").map_or(Some(0), |device| device.parse().ok())?;
        Some((device, self.argument(2, "SUBDEV").and_then(|part| part.parse().ok())))
    }

    fn argument(&self, place: usize, key: &str) -> Option<&str> {
        let arguments = self.pcm.split_once("hw:")?.1.trim_end_matches(['\'', '"']);
        arguments.split(',').enumerate().find_map(|(at, argument)| match argument.split_once('=') {
            Some((named, value)) => (named == key).then_some(value),
            None => (at == place).then_some(argument),
        })
    }
}
