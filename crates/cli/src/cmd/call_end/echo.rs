//! Whether the microphone of an end is to hear its loudspeaker.

use tautline_audio::DeviceSpec;
use tautline_audio::echo::WithoutEcho;

use super::EndDevices;
use crate::failure::Failure;
use crate::flags::EchoFlag;
use crate::voice::Voice;

/// What takes it out, if it is to be and can be.
pub(in crate::cmd) fn without_echo(
    rule: EchoFlag,
    (input, output): (&DeviceSpec, &DeviceSpec),
    devices: &EndDevices,
    voice: Voice,
) -> Result<Option<WithoutEcho>, Failure> {
    let both_are_real = input.is_real() && output.is_real();
    match rule {
        EchoFlag::Keep => return Ok(None),
        EchoFlag::Auto if !both_are_real => return Ok(None),
        EchoFlag::Auto | EchoFlag::Cancel => {}
    }
    match WithoutEcho::new(devices.capture, devices.playback) {
        Ok(without) => {
            voice.tell("what the loudspeaker plays is taken out of what the microphone hears");
            Ok(Some(without))
        }
        Err(why) if rule == EchoFlag::Cancel => Err(Failure::usage(why.to_string())),
        // Nobody asked for it.
        Err(why) => {
            voice.tell(&why.to_string());
            Ok(None)
        }
    }
}
