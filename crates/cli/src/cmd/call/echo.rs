//! Whether the microphone of a call is to hear its loudspeaker.

use tautline_audio::echo::WithoutEcho;

use crate::cmd::call_end::EndDevices;
use crate::failure::Failure;
use crate::flags::{CallFlags, EchoFlag};

/// What takes it out, if it is to be and can be.
pub(super) fn without_echo(
    flags: &CallFlags,
    devices: &EndDevices,
) -> Result<Option<WithoutEcho>, Failure> {
    let both_are_real = flags.input.is_real() && flags.output.is_real();
    match flags.echo {
        EchoFlag::Keep => return Ok(None),
        EchoFlag::Auto if !both_are_real => return Ok(None),
        EchoFlag::Auto | EchoFlag::Cancel => {}
    }
    match WithoutEcho::new(devices.capture, devices.playback) {
        Ok(without) => Ok(Some(without)),
        Err(why) if flags.echo == EchoFlag::Cancel => Err(Failure::usage(why.to_string())),
        // Nobody asked for it.
        Err(why) => {
            flags.end.running.voice().tell(&why.to_string());
            Ok(None)
        }
    }
}
