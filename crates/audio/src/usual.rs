//! Default device, from running servers and ALSA.

use tautline_proto::device::{Direction, Directions};

use crate::alsa::{self, AlsaSpec};
use crate::jack::{self, JackSpec};
use crate::pipewire::{self, PipeWireSpec};
use crate::spec::DeviceSpec;
use crate::toolbox::Sides;

const NAME: &str = "taut";
const PCM: &str = "default";

tautline_dsp::named_enum! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum UsualDevice {
        PipeWire = "pipewire:taut?as=stream",
        Jack = "jack:taut",
        Alsa = "alsa:default",
    }
}

impl UsualDevice {
    pub fn spec(self) -> DeviceSpec {
        match self {
            Self::PipeWire => DeviceSpec::PipeWire(PipeWireSpec::stream(NAME)),
            Self::Jack => DeviceSpec::Jack(JackSpec::named(NAME)),
            Self::Alsa => DeviceSpec::Alsa(AlsaSpec::named(PCM)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsualDevices {
    pipewire: Option<Sides<bool>>,
    jack: Option<Sides<bool>>,
    alsa: Sides<bool>,
}

impl UsualDevices {
    /// Finds devices without starting servers or opening their cards. Takes milliseconds, or up to
    /// 1.5 s without an answer.
    pub fn look(directions: impl Into<Directions>) -> Self {
        let directions = directions.into();
        let mut found = Self { pipewire: pipewire::devices(), ..Self::default() };
        if directions.each().any(|direction| found.of(direction).is_none()) {
            found.jack = jack::card_ports()
                .map(|[inputs, outputs]| Sides { capture: inputs > 0, playback: outputs > 0 });
        }
        if found.pipewire.is_none() && found.jack.is_none() {
            let pcm = AlsaSpec::named(PCM);
            directions
                .each()
                .for_each(|direction| *found.alsa.of_mut(direction) = alsa::goes(&pcm, direction));
        }
        found
    }

    /// Default device, preferably shared. With a PipeWire server, JACK counts only if it has ports
    /// for this direction. Without one, JACK counts even without ports: a patch bay may add them.
    pub fn of(&self, direction: Direction) -> Option<UsualDevice> {
        match self {
            Self { pipewire: Some(has), .. } if *has.of(direction) => Some(UsualDevice::PipeWire),
            Self { pipewire, jack: Some(ports), .. }
                if pipewire.is_none() || *ports.of(direction) =>
            {
                Some(UsualDevice::Jack)
            }
            Self { pipewire: None, alsa, .. } if *alsa.of(direction) => Some(UsualDevice::Alsa),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EITHER: [bool; 2] = [false, true];

    fn sides() -> impl Iterator<Item = Sides<bool>> {
        EITHER
            .into_iter()
            .flat_map(|capture| EITHER.into_iter().map(move |playback| Sides { capture, playback }))
    }

    #[test]
    fn default_device_is_the_first_with_the_direction() {
        let servers = || sides().map(Some).chain([None]);
        let mut combinations = 0;
        for pipewire in servers() {
            for (jack, alsa) in servers().flat_map(|jack| sides().map(move |alsa| (jack, alsa))) {
                let found = UsualDevices { pipewire, jack, alsa };
                for direction in [Direction::Capture, Direction::Playback] {
                    let serves = pipewire.map(|has| *has.of(direction));
                    let ports = jack.map(|ports| *ports.of(direction));
                    let right = match (serves, ports, *alsa.of(direction)) {
                        (Some(true), _, _) => Some(UsualDevice::PipeWire),
                        (Some(false), Some(true), _) | (None, Some(_), _) => {
                            Some(UsualDevice::Jack)
                        }
                        (None, None, true) => Some(UsualDevice::Alsa),
                        (Some(false), Some(false) | None, _) | (None, None, false) => None,
                    };
                    assert_eq!(found.of(direction), right, "{direction:?} of {found:?}");
                    combinations += 1;
                }
            }
        }
        assert_eq!(combinations, 5 * 5 * 4 * 2);
    }

    #[test]
    fn error_of_a_default_device_names_it() {
        for device in [UsualDevice::PipeWire, UsualDevice::Jack, UsualDevice::Alsa] {
            let named: DeviceSpec = device.name().parse().unwrap();
            assert!(named.is_same(&device.spec()), "{device:?}");
        }
    }
}
