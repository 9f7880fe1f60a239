//! Of the commands for calls: sound both ways with one other machine.

use core::fmt;
use core::str::FromStr;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tautline_api::call::{CALL_PORT, CallAddress};
use tautline_audio::DeviceSpec;
use tautline_proto::call::terms::CallPath;
use tautline_proto::redundancy::Redundancy;
use tautline_proto::stream::Coding;
use tautline_proto::time::Span;
use tautline_proto::units::{Channels, Rate};

use super::trust::ssh_destination;
use super::values::coding;
use super::work::listen_at;
use super::{RunFlags, Timing};
use crate::help;
use tautline_ui::readers::{bitrate, channels, device, parse, ptime, rate};

/// `taut serve`
#[derive(Debug, Args)]
#[command(after_help = help::SERVE)]
pub(crate) struct ServeFlags {
    /// Where to listen: an address of this machine, such as 0.0.0.0 for all; TCP for who calls, UDP of the
    /// same number for the sound. Beyond 127.0.0.1, the default, only machines that are trusted here are
    /// answered (taut trust)
    #[arg(long, value_name = "HOST[:PORT]", default_value = "127.0.0.1", value_parser = listen)]
    pub(crate) listen: SocketAddr,
    /// The sound that callers hear: what programs here play (see Programs), or a card, or another device, such as
    /// pipewire:Speaker or jack:speaker; see Devices of taut send
    #[arg(long, short, value_name = "DEVICE", default_value = "programs:",
          value_parser = device())]
    pub(crate) input: DeviceSpec,
    /// Where a caller's sound goes: to what programs here record, or to a card, or another device, such as
    /// pipewire:Microphone or jack:microphone
    #[arg(long, short, value_name = "DEVICE", default_value = "programs:",
          value_parser = device())]
    pub(crate) output: DeviceSpec,
    /// Callers at a time, 1 to 128: the next is refused in a sentence. Each is heard at a UDP port of its own, from
    /// that of --listen on. 32 of them have sound at a time
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(1..=128), help_heading = "Network")]
    pub(crate) callers: u16,
    /// Calls of one machine at a time, with sound or without, of those that --callers allows: the next is refused in
    /// a sentence, and the rest is for others. This machine itself is not counted [default: half of --callers,
    /// rounded up, and half of the sound]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=128),
          help_heading = "Network")]
    pub(crate) callers_each: Option<u16>,
    /// What --output plays in what --input captures, where these are a loudspeaker and a microphone: keep, or cancel to
    /// take it out
    #[arg(long, value_name = "RULE", default_value = "keep", help_heading = "Sound")]
    pub(crate) echo: EchoFlag,
    /// Callers do not hear one another, only this machine; else they are in one conversation
    #[arg(long, help_heading = "Sound")]
    pub(crate) private: bool,
    #[command(flatten)]
    pub(crate) end: EndFlags,
}

/// `taut call`
#[derive(Debug, Args)]
#[command(after_help = help::CALL)]
pub(crate) struct CallFlags {
    /// Whom to call: a machine on which taut serve runs, by its address, or by the name that it is trusted
    /// by and its address, such as studio=10.0.0.3. ssh:HOST goes through ssh, where no other port is open. Several,
    /// eight at most, are called at once: each hears this end, and all are heard here
    #[arg(value_name = "HOST", required = true, num_args = 1..=8, value_parser = parse::<CallHost>)]
    pub(crate) hosts: Vec<CallHost>,
    /// Of several hosts: each hears the others, too
    #[arg(long, help_heading = "Sound")]
    pub(crate) bridge: bool,
    /// The sound that is heard there: see Devices of taut send [default: a microphone, see Usual devices]
    #[arg(long = "input", short = 'i', value_name = "DEVICE", value_parser = device())]
    pub(crate) named_input: Option<DeviceSpec>,
    /// Where the sound from there goes [default: a loudspeaker, see Usual devices]
    #[arg(long = "output", short = 'o', value_name = "DEVICE", value_parser = device())]
    pub(crate) named_output: Option<DeviceSpec>,
    /// The one that is named, or was chosen: by the first that a call does.
    #[arg(skip = DeviceSpec::null())]
    pub(crate) input: DeviceSpec,
    /// Likewise.
    #[arg(skip = DeviceSpec::null())]
    pub(crate) output: DeviceSpec,
    /// Echo of the loudspeaker in the microphone: auto cancels it if both devices are a desktop's: streams of PipeWire,
    /// or ALSA's default, not JACK, hw: or plughw:
    #[arg(long, value_name = "RULE", default_value = "auto", help_heading = "Sound")]
    pub(crate) echo: EchoFlag,
    /// Choose the coding of either direction by what the network carries, measured all the while: from l24 down to
    /// opus-voice
    #[arg(long, value_name = "RULE", conflicts_with = "format", help_heading = "Stream")]
    pub(crate) codec: Option<CodecFlag>,
    /// Bits per second of Opus, with --format opus or opus-voice, and no more where the network carries more; fewer where
    /// it does not [default: 96k for each channel of opus, 32k of opus-voice]
    #[arg(long, value_name = "RATE", conflicts_with = "codec", value_parser = bitrate,
          help_heading = "Stream")]
    pub(crate) bitrate: Option<u32>,
    /// By what the sound goes: UDP, TCP, or auto for TCP where no datagram passes
    #[arg(long, value_name = "WAY", default_value = "auto", help_heading = "Network")]
    pub(crate) transport: TransportFlag,
    /// Send silence until it is unmuted: by the key m on a terminal, SPACE to talk while it is held, or unmute
    /// said by --control
    #[arg(long, help_heading = "Sound")]
    pub(crate) mute: bool,
    /// Call without sound, until resume is said by --control; hold ends the sound again, of several hosts of all or
    /// of the one named after it. A call without takes no device, here or there
    #[arg(long, requires = "control", help_heading = "Sound")]
    pub(crate) hold: bool,
    #[command(flatten)]
    pub(crate) end: EndFlags,
}

/// A machine to call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallHost {
    At(CallAddress),
    /// `[NAME=]ssh:[USER@]HOST[:PORT]`; the port is that of `taut serve`, not of `sshd`.
    BySsh {
        name: Option<String>,
        destination: String,
        port: u16,
    },
}

impl fmt::Display for CallHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(address) => address.fmt(f),
            Self::BySsh { name: Some(name), destination, .. } => {
                write!(f, "{name}=ssh:{destination}")
            }
            Self::BySsh { name: None, destination, .. } => write!(f, "ssh:{destination}"),
        }
    }
}

impl FromStr for CallHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match ssh_destination(text)? {
            Some((name, destination)) => {
                let is_ipv6 = destination.matches(':').count() > 1;
                let ported = destination.rsplit_once(':').filter(|_| !is_ipv6);
                let ported =
                    ported.and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)));
                let (destination, port) = ported.unwrap_or((destination, CALL_PORT));
                Ok(Self::BySsh { name, destination, port })
            }
            None => text.parse().map(Self::At),
        }
    }
}

/// What both ends of a call can be told.
#[derive(Debug, Args)]
pub(crate) struct EndFlags {
    /// Repeat the file of --input without a gap
    #[arg(long = "loop", help_heading = "Sound")]
    pub(crate) looped: bool,
    /// Sample rate of both devices [default: 48000; taut call: the other end's, of those that the devices here have]
    #[arg(long, value_name = "HZ", value_parser = rate, help_heading = "Stream")]
    pub(crate) rate: Option<Rate>,
    /// Channels that are sent and heard [default: 2; taut call: the other end's, likewise]
    #[arg(long, value_name = "N", value_parser = channels, help_heading = "Stream")]
    pub(crate) channels: Option<Channels>,
    /// Coding of the sound on the network; the caller's is taken where both can [default: l24]
    #[arg(long, value_name = "CODING", help_heading = "Stream", value_parser = coding())]
    pub(crate) format: Option<Coding>,
    /// Sound in one packet; the longer of what both ends ask for [default: 2500us, or at the end that is called a period
    /// of --input if that is shorter]
    #[arg(long, value_name = "TIME", value_parser = ptime, help_heading = "Stream")]
    pub(crate) ptime: Option<Span>,
    #[command(flatten)]
    pub(crate) timing: Timing,
    /// What packets carry of earlier ones by UDP, both ways, so that lost ones can be repaired: off, red:N, code:N or
    /// auto, see Redundancy of taut send; the caller's counts [default: off]
    #[arg(long, value_name = "HOW", help_heading = "Network", value_parser = parse::<Redundancy>)]
    pub(crate) redundancy: Option<Redundancy>,
    /// Record over files that are there already
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Keep what is sent and what is heard in this folder: of each call two WAV files of 24 bits, named by
    /// when it began. taut call also takes FILE.wav, into which both directions are mixed when it ends
    #[arg(long, value_name = "DIR|FILE.wav")]
    pub(crate) record: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) running: RunFlags,
}

/// What becomes of the loudspeaker's sound in the microphone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EchoFlag {
    /// Cancel it if both devices are a desktop's
    Auto,
    /// Cancel it
    Cancel,
    /// Keep it
    Keep,
}

/// Who chooses a call's coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CodecFlag {
    /// What the network carries
    Auto,
}

/// By what the sound goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TransportFlag {
    /// UDP, and TCP where no datagram passes
    Auto,
    /// UDP alone
    Udp,
    /// TCP alone
    Tcp,
}

impl TransportFlag {
    /// Its word.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }

    /// The paths that it allows, the better first.
    pub(crate) const fn paths(self) -> &'static [CallPath] {
        match self {
            Self::Auto => &[CallPath::Udp, CallPath::Tcp],
            Self::Udp => &[CallPath::Udp],
            Self::Tcp => &[CallPath::Tcp],
        }
    }
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    listen_at(text, CALL_PORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_called_at_an_address_or_through_ssh() {
        let read = |text: &str| text.parse::<CallHost>();
        let by_ssh = |name: Option<&str>, destination: &str, port| CallHost::BySsh {
            name: name.map(str::to_owned),
            destination: destination.to_owned(),
            port,
        };
        assert_eq!(read("ssh:office"), Ok(by_ssh(None, "office", CALL_PORT)));
        assert_eq!(read("desk=ssh:me@office:9000"), Ok(by_ssh(Some("desk"), "me@office", 9000)));
        assert_eq!(read("office:9000"), Ok(CallHost::At("office:9000".parse().unwrap())));
        assert_eq!(read("ssh:[2001:db8::2]"), Ok(by_ssh(None, "2001:db8::2", CALL_PORT)));
        assert!(read("ssh://office:22").is_err());
        assert!(read("ssh:").is_err() && read("ssh:-W").is_err());
    }
}
