//! Default devices of a call.

use tautline_audio::{DeviceSpec, UsualDevice, UsualDevices};
use tautline_proto::device::{Direction, Directions};

use crate::failure::Failure;
use crate::flags::CallFlags;

pub(in crate::cmd) fn choose_devices(flags: &mut CallFlags) -> Result<(), Failure> {
    let named = [flags.named_input.take(), flags.named_output.take()];
    let missing = match &named {
        [None, None] => Some(Directions::Both),
        [None, Some(_)] => Some(Directions::One(Direction::Capture)),
        [Some(_), None] => Some(Directions::One(Direction::Playback)),
        [Some(_), Some(_)] => None,
    };
    let found = missing.map(UsualDevices::look).unwrap_or_default();
    let usual = [Direction::Capture, Direction::Playback].map(|way| found.of(way));
    let (chosen, reported) = choose(named, usual)?;
    reported.iter().for_each(|reported| flags.end.running.voice().notify(reported));
    [flags.input, flags.output] = chosen;
    Ok(())
}

/// Returns the text to report. Without a microphone, silence is sent. Without a loudspeaker there
/// is no call.
fn choose(
    [named_input, named_output]: [Option<DeviceSpec>; 2],
    [usual_input, usual_output]: [Option<UsualDevice>; 2],
) -> Result<([DeviceSpec; 2], Option<String>), Failure> {
    let mut reported = Vec::new();
    let mut others = Vec::new();
    let input = named_input.unwrap_or_else(|| {
        others.push("--input");
        match usual_input {
            Some(device) => {
                reported.push(format!("the microphone is {}", device.name()));
                device.spec()
            }
            None => {
                reported.push("no microphone, so silence is sent".to_owned());
                DeviceSpec::null()
            }
        }
    });
    let output = match (named_output, usual_output) {
        (Some(named), _) => named,
        (None, Some(device)) => {
            others.push("--output");
            reported.push(format!("the loudspeaker is {}", device.name()));
            device.spec()
        }
        (None, None) => return Err(Failure::open(format!("{NO_LOUDSPEAKER}\nhint: {NAME_ONE}"))),
    };
    let reported = (!reported.is_empty()).then(|| {
        let names = if others.len() > 1 { "name others" } else { "names another" };
        format!(
            "{}; {} {names} (taut devices lists them)",
            reported.join(", "),
            others.join(" and ")
        )
    });
    Ok(([input, output], reported))
}

const NO_LOUDSPEAKER: &str = if cfg!(feature = "pipewire") {
    "no loudspeaker: neither PipeWire, JACK nor alsa:default has one"
} else {
    "no loudspeaker: no JACK server, no alsa:default, and this taut was built without PipeWire"
};
const NAME_ONE: &str = "choose a device with --output DEVICE; taut devices lists them";

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;

    const ALL: [Option<UsualDevice>; 4] =
        [None, Some(UsualDevice::PipeWire), Some(UsualDevice::Jack), Some(UsualDevice::Alsa)];

    fn spec(name: &str) -> DeviceSpec {
        name.parse().unwrap()
    }

    #[test]
    fn named_device_is_taken_silently_whatever_is_found() {
        for (input, output) in ALL.into_iter().flat_map(|it| ALL.map(|other| (it, other))) {
            let named = [Some(spec("tone:440")), Some(spec("file:x.wav"))];
            let (chosen, reported) = choose(named, [input, output]).unwrap();
            assert!(chosen[0].is_same(&spec("tone:440")), "{chosen:?}");
            assert!(chosen[1].is_same(&spec("file:x.wav")), "{chosen:?}");
            assert_eq!(reported, None);
        }
    }

    #[test]
    fn unnamed_devices_are_chosen_and_reported() {
        for (input, output) in ALL.into_iter().flat_map(|it| ALL.map(|other| (it, other))) {
            let chosen = choose([None, None], [input, output]);
            let Some(plays) = output else {
                let said = chosen.unwrap_err();
                assert_eq!(said.status, 3);
                assert!(said.to_string().ends_with(NAME_ONE), "{said}");
                continue;
            };
            let (chosen, reported) = chosen.unwrap();
            let reported = reported.unwrap();
            assert!(chosen[1].is_same(&plays.spec()), "{chosen:?}");
            snapshot!(reported);
            assert_eq!(chosen[0].is_real(), input.is_some(), "{chosen:?}");
            match input {
                Some(handles) => {
                    assert!(chosen[0].is_same(&handles.spec()), "{chosen:?}");
                    snapshot!(reported);
                }
                None => {
                    assert!(chosen[0].is_same(&DeviceSpec::null()), "{chosen:?}");
                    snapshot!(reported);
                }
            }
        }
    }

    #[test]
    fn one_that_is_missing_is_chosen_beside_one_that_is_named() {
        let named = [None, Some(spec("null:"))];
        let reported = choose(named, [None, None]).unwrap().1.unwrap();
        assert!(reported.contains("silence is sent; --input names another"), "{reported}");
        let named = [Some(spec("tone:440")), None];
        let (chosen, reported) = choose(named, [None, Some(UsualDevice::Jack)]).unwrap();
        assert!(chosen[0].is_same(&spec("tone:440")), "{chosen:?}");
        let right =
            "the loudspeaker is jack:taut; --output names another (taut devices lists them)";
        assert_eq!(reported.unwrap(), right);
    }
}
