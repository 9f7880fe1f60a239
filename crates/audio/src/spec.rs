//! Devices such as `virtual:?ppm=50`, `file:song.wav`, `tone:440`, `null:`.

use std::ffi::OsStr;
use std::fmt;
use std::str::FromStr;

use tautline_proto::device::DeviceError;

use crate::alsa::spec::AlsaSpec;
use crate::jack::spec::JackSpec;
use crate::pipewire::spec::PipeWireSpec;
use crate::software::spec::SoftwareSpec;

const KINDS: &str =
    "alsa:PCM, jack:CLIENT, pipewire:NODE, file:PATH, virtual:, programs:, tone:HZ or null:";

#[derive(Debug, Clone)]
pub enum DeviceSpec {
    Alsa(AlsaSpec),
    Jack(JackSpec),
    PipeWire(PipeWireSpec),
    Software(SoftwareSpec),
}

impl DeviceSpec {
    pub const fn null() -> Self {
        Self::Software(SoftwareSpec::Null)
    }

    /// Times at the ports, for measurements. Otherwise JACK and PipeWire times include the graph's
    /// rest of the path.
    pub fn at_ports(mut self) -> Self {
        match &mut self {
            Self::Jack(client) => client.at_ports = true,
            Self::PipeWire(node) => node.at_ports = true,
            _ => {}
        }
        self
    }

    /// Whether the device may be audible: a card or a server's node.
    pub const fn is_real(&self) -> bool {
        !matches!(self, Self::Software(_))
    }

    /// Whether its name is a desktop's microphone or loudspeaker. JACK clients, user-connected
    /// nodes and cards (`hw:`, `plughw:`) are often line-level, without echo.
    pub fn is_of_desktop(&self) -> bool {
        match self {
            Self::Alsa(pcm) => !pcm.is_hardware(),
            Self::PipeWire(node) => node.is_stream(),
            Self::Jack(_) | Self::Software(_) => false,
        }
    }

    /// The same device; files and standard input are converted to stereo at the rate of the stream.
    /// They may have any rate, and one or two channels.
    #[must_use]
    pub fn fitted(self) -> Self {
        match self {
            Self::Software(card) => Self::Software(card.fitted()),
            device => device,
        }
    }

    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Alsa(one), Self::Alsa(other)) => one == other,
            (Self::Jack(one), Self::Jack(other)) => one == other,
            (Self::PipeWire(one), Self::PipeWire(other)) => one == other,
            (Self::Software(one), Self::Software(other)) => one.is_same(other),
            _ => false,
        }
    }
}

impl TryFrom<&OsStr> for DeviceSpec {
    type Error = DeviceError;

    fn try_from(given: &OsStr) -> Result<Self, DeviceError> {
        if let Some(text) = given.to_str() {
            return text.parse();
        }
        let card = SoftwareSpec::named(given).unwrap_or_else(|| {
            Err(DeviceError {
                tried: given.to_string_lossy().into_owned(),
                answer: "the name is not UTF-8".to_owned(),
                hint: format!("use {KINDS}"),
            })
        });
        card.map(Self::Software)
    }
}

impl fmt::Display for DeviceSpec {
    /// Name without options; `#` includes those that distinguish cables.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alsa(card) => card.fmt(f),
            Self::Jack(client) => client.fmt(f),
            Self::PipeWire(node) => node.fmt(f),
            Self::Software(card) => card.fmt(f),
        }
    }
}

impl FromStr for DeviceSpec {
    type Err = DeviceError;

    fn from_str(given: &str) -> Result<Self, DeviceError> {
        let refuse = |answer: &str, hint: String| {
            Err(DeviceError { tried: given.to_owned(), answer: answer.to_owned(), hint })
        };
        let named = given.split_once(':').filter(|(kind, _)| !kind.contains(['/', '.']));
        let Some((kind, rest)) = named else {
            return refuse("the kind of device is missing", meant(given));
        };
        match kind {
            "alsa" => rest.parse().map(Self::Alsa),
            "jack" => rest.parse().map(Self::Jack),
            "pipewire" => rest.parse().map(Self::PipeWire),
            _ => match SoftwareSpec::named(given.as_ref()) {
                Some(card) => card.map(Self::Software),
                None => {
                    let answer = format!("unknown kind of device '{kind}'");
                    refuse(&answer, format!("use {KINDS}"))
                }
            },
        }
    }
}

fn meant(given: &str) -> String {
    match given {
        "virtual" | "null" | "programs" => format!("use {given}:"),
        "tone" => "use tone:440".to_owned(),
        "file" => "use file:song.wav".to_owned(),
        "-" => "use file:-".to_owned(),
        path if path.contains(['/', '.']) => format!("use file:{path}"),
        _ => format!("use {KINDS}"),
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use std::path::Path;

    use tautline_proto::time::Frames;
    use tautline_proto::units::Ppm;

    use super::*;
    use crate::software::spec::OPTIONS;

    fn refused(text: &str) -> String {
        text.parse::<DeviceSpec>().expect_err(text).to_string()
    }

    #[test]
    fn the_options_of_a_virtual_card_are_read() {
        let text =
            "virtual:?ppm=-50.5&period=12&periods=3&tone=440&record=a b.wav&unplug=2s&replug=1s";
        let Ok(DeviceSpec::Software(SoftwareSpec::Virtual(options))) = text.parse() else {
            panic!("{text}")
        };
        assert_eq!(options.error, Ppm::from_f64(-50.5));
        assert_eq!((options.period, options.periods), (Some(Frames::new(12)), Some(3)));
        assert_eq!(options.tone, "440".parse().ok());
        assert_eq!(options.record, Some("a b.wav".into()));
        assert!(options.fault.is_some());
        assert!(matches!("virtual:".parse(), Ok(DeviceSpec::Software(SoftwareSpec::Virtual(_)))));
    }

    #[test]
    fn a_path_may_hold_anything() {
        let Ok(DeviceSpec::Software(SoftwareSpec::File(path))) = "file:/a:b?c=d.wav".parse() else {
            panic!()
        };
        assert_eq!(&*path, Path::new("/a:b?c=d.wav"));
        assert!(matches!("file:-".parse(), Ok(DeviceSpec::Software(SoftwareSpec::Standard(_)))));
        let Ok(DeviceSpec::Software(SoftwareSpec::File(path))) = "file:./-".parse() else {
            panic!()
        };
        assert_eq!(&*path, Path::new("./-"));
    }

    #[test]
    fn a_device_without_its_kind_is_answered_with_it() {
        for (given, meant) in [
            ("song.flac", "\nhint: use file:song.flac"),
            ("takes/song", "\nhint: use file:takes/song"),
            ("./a:b.wav", "\nhint: use file:./a:b.wav"),
            ("tone", "\nhint: use tone:440"),
            ("virtual", "\nhint: use virtual:"),
            ("-", "\nhint: use file:-"),
            ("null", "\nhint: use null:"),
            ("/music/a:b.wav", "\nhint: use file:/music/a:b.wav"),
        ] {
            assert!(refused(given).ends_with(meant), "{}", refused(given));
        }
    }

    #[test]
    fn unknown_device_error_lists_valid_ones() {
        for text in ["", "hw:0", "song.wav", "null:x", "programs:a b", "file:", "tone:", "tone:x"] {
            let answer = refused(text);
            assert!(answer.contains("use ") || answer.contains("name a "), "{answer}");
        }
        assert!(refused("virtual:?pmp=5").contains(OPTIONS));
        let both = refused("virtual:?loopback=48&tone=440");
        snapshot!(both);
        for option in [
            "loopback=x",
            "loopback=-1",
            "loopback=99999",
            "ppm=x",
            "ppm=inf",
            "period=0",
            "periods=1",
            "unplug=2",
            "replug=1s",
            "record=",
        ] {
            assert!(refused(&format!("virtual:?{option}")).starts_with("virtual:?"));
        }
    }
}
