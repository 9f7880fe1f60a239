//! The options of `taut call` and `taut serve`.

use core::fmt;
use core::str::FromStr;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use tautline_api::call::{CALL_PORT, CallAddress};
use tautline_audio::DeviceSpec;
use tautline_call::is_mixed;
use tautline_proto::call::terms::CallPath;
use tautline_proto::latency::LatencyRule;
use tautline_proto::redundancy::Redundancy;
use tautline_proto::time::Span;
use tautline_proto::units::{Channels, Rate};

use super::trust::ssh_destination;
use super::values::{CodingOrAuto, coding_or_auto};
use super::work::listen_at;
use super::{RunFlags, Timing, texts};
use crate::help;
use tautline_ui::readers::{bitrate, channels, device, latency, parse, ptime, rate};

/// `taut serve`
#[derive(Debug, Args)]
#[command(after_help = help::SERVE, after_long_help = help::SERVE_LONG, mut_args = texts::serve)]
pub(crate) struct ServeFlags {
    /// Address to listen on [default: 127.0.0.1]
    ///
    /// 0.0.0.0 listens on all interfaces. TCP for control connections, UDP from the same port number on for audio. On
    /// any address but 127.0.0.1 only trusted machines are accepted (taut pair).
    #[arg(long, value_name = "HOST[:PORT]", default_value = "127.0.0.1", hide_default_value = true, value_parser = listen)]
    pub(crate) listen: SocketAddr,
    /// Device that callers hear [default: programs:]
    ///
    /// programs: is the audio of programs on this machine; see "Programs" below. Or a device, such as pipewire:Speaker or
    /// jack:speaker: see "Devices" in taut send --help.
    #[arg(long, short, value_name = "DEVICE", default_value = "programs:", hide_default_value = true,
          value_parser = device())]
    pub(crate) input: DeviceSpec,
    /// Device that plays the callers [default: programs:]
    ///
    /// programs: lets programs on this machine record it. Or a device, such as pipewire:Microphone or jack:microphone.
    #[arg(long, short, value_name = "DEVICE", default_value = "programs:", hide_default_value = true,
          value_parser = device())]
    pub(crate) output: DeviceSpec,
    /// Maximum number of callers, 1 to 128
    ///
    /// Each uses a UDP port of its own, from that of --listen on. At most 32 calls have audio at a time.
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(1..=128), help_heading = "Network")]
    pub(crate) max_callers: u16,
    /// Maximum number of calls per machine
    ///
    /// Calls from this machine itself do not count. [default: half of --max-callers; at most half of the calls with
    /// audio]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=128),
          help_heading = "Network", hide_short_help = true)]
    pub(crate) max_calls_per_host: Option<u16>,
    /// Cancel echo: auto, on or off [default: off]
    ///
    /// Removes the audio of the loudspeaker from the microphone. auto: if both devices belong to a desktop.
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "off",
        help_heading = "Sound",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub(crate) echo_cancel: EchoFlag,
    /// Callers do not hear each other
    #[arg(long, help_heading = "Sound")]
    pub(crate) private: bool,
    #[command(flatten)]
    pub(crate) end: EndFlags,
}

/// `taut call`
#[derive(Debug, Args)]
#[command(after_help = help::CALL, after_long_help = help::CALL_LONG, mut_args = texts::call)]
pub(crate) struct CallFlags {
    /// Machine to call: HOST, NAME=HOST or ssh:HOST
    ///
    /// A machine that runs taut serve. NAME=HOST accepts only the machine trusted as NAME. ssh:HOST tunnels through ssh.
    /// Up to eight machines can be in the call: each hears this one, and all are heard here.
    #[arg(value_name = "HOST", required = true, num_args = 1..=8, value_parser = parse::<CallHost>)]
    pub(crate) hosts: Vec<CallHost>,
    /// With several machines: each hears the others, too
    #[arg(long, help_heading = "Sound", hide_short_help = true)]
    pub(crate) bridge: bool,
    /// Microphone or other device [default: automatic]
    ///
    /// See "Devices" in taut send --help, and "Default devices" below for the default.
    #[arg(long = "input", short = 'i', value_name = "DEVICE", value_parser = device())]
    pub(crate) named_input: Option<DeviceSpec>,
    /// Loudspeaker or other device [default: automatic]
    ///
    /// See "Devices" in taut recv --help, and "Default devices" below for the default.
    #[arg(long = "output", short = 'o', value_name = "DEVICE", value_parser = device())]
    pub(crate) named_output: Option<DeviceSpec>,
    /// The named device, or the one that the call chooses before it connects.
    #[arg(skip = DeviceSpec::null())]
    pub(crate) input: DeviceSpec,
    /// Likewise.
    #[arg(skip = DeviceSpec::null())]
    pub(crate) output: DeviceSpec,
    /// Cancel echo: auto, on or off [default: auto]
    ///
    /// Removes the audio of the loudspeaker from the microphone. auto: if both devices belong to a desktop (a
    /// PipeWire stream or ALSA's default PCM), not for JACK, hw: or plughw:.
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Sound",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub(crate) echo_cancel: EchoFlag,
    /// Opus bit rate, such as 96k
    ///
    /// With --format opus or opus-voice. The network may force a lower one. [default: 96k per channel;
    /// opus-voice: 32k per channel]
    #[arg(long, value_name = "BITS", value_parser = bitrate, help_heading = "Stream", hide_short_help = true)]
    pub(crate) bitrate: Option<u32>,
    /// auto, udp or tcp [default: auto]
    ///
    /// Transport of the audio. auto: UDP, or TCP if no UDP arrives.
    #[arg(
        long,
        value_name = "TRANSPORT",
        default_value = "auto",
        help_heading = "Network",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub(crate) transport: TransportFlag,
    /// Start muted
    ///
    /// Unmute with the key m on a terminal or the line unmute with --control. SPACE talks while it is held.
    #[arg(long, help_heading = "Sound")]
    pub(crate) mute: bool,
    /// Start without audio, on hold
    ///
    /// The lines resume and hold of --control start and stop the audio, for all machines or the one they name. A call on
    /// hold opens no device at either end.
    #[arg(long, requires = "control", help_heading = "Sound", hide_short_help = true)]
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

/// Options of both ends of a call.
#[derive(Debug, Args)]
pub(crate) struct EndFlags {
    /// Repeat the input file without a gap
    #[arg(long = "loop", help_heading = "Sound", hide_short_help = true)]
    pub(crate) looped: bool,
    /// Sample rate of both devices
    #[arg(long, value_name = "HZ", value_parser = rate, help_heading = "Stream")]
    pub(crate) rate: Option<Rate>,
    /// Channels, 1 or 2 with most devices
    #[arg(long, value_name = "N", value_parser = channels, help_heading = "Stream")]
    pub(crate) channels: Option<Channels>,
    /// l16, l24, f32, opus, opus-voice, … [default: l24]
    ///
    /// auto: adapts to the network. With taut serve, auto applies to callers without --format. Without --format, a call
    /// adapts after a heavy loss.
    #[arg(long, value_name = "CODEC", help_heading = "Stream", value_parser = coding_or_auto(), hide_possible_values = true)]
    pub(crate) format: Option<CodingOrAuto>,
    /// Packet time [default: 2500us]
    #[arg(long, value_name = "TIME", value_parser = ptime, help_heading = "Stream")]
    pub(crate) ptime: Option<Span>,
    /// Total latency, a time or auto [default: auto:250ms]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = latency, help_heading = "Timing")]
    pub(crate) latency: Option<LatencyRule>,
    #[command(flatten)]
    pub(crate) timing: Timing,
    /// Repair lost packets: off, auto, red:N, fec:N
    #[arg(long, value_name = "RULE", help_heading = "Network", value_parser = parse::<Redundancy>)]
    pub(crate) redundancy: Option<Redundancy>,
    /// Overwrite existing files
    #[arg(long, help_heading = "Run", hide_short_help = true)]
    pub(crate) overwrite: bool,
    /// Record both directions to a folder
    #[arg(long, value_name = "DIR", help_heading = "Run",
          value_parser = OsStringValueParser::new().try_map(recording))]
    pub(crate) record: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) running: RunFlags,
}

/// When echo is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EchoFlag {
    /// If both devices belong to a desktop
    Auto,
    /// Always
    On,
    /// Never
    Off,
}

/// Transport of a call's audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TransportFlag {
    /// UDP, or TCP if no UDP arrives
    Auto,
    /// UDP only
    Udp,
    /// TCP only
    Tcp,
}

impl TransportFlag {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }

    pub(crate) const fn paths(self) -> &'static [CallPath] {
        match self {
            Self::Auto => &[CallPath::Udp, CallPath::Tcp],
            Self::Udp => &[CallPath::Udp],
            Self::Tcp => &[CallPath::Tcp],
        }
    }
}

/// `--record call.mp3` must not make a folder of that name.
fn recording(name: OsString) -> Result<PathBuf, String> {
    let is_folder = name.as_bytes().ends_with(b"/");
    let path = PathBuf::from(name);
    match path.extension() {
        Some(is) if !is_folder && !is_mixed(&path) && !path.is_dir() => Err(format!(
            "recordings are WAV files, not {}\nhint: name a file .wav; or a folder, with / at the end",
            is.display()
        )),
        _ => Ok(path),
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
