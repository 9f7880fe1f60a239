//! The command line, defined once: help, man pages, completions and `tautline.toml` follow from it.

mod call;
mod files;
mod requested;
mod site;
#[cfg(test)]
mod tests;
mod texts;
mod trust;
mod values;
mod work;

#[cfg(not(feature = "lab"))]
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tautline_audio::DeviceSpec;
use tautline_dsp::gain::Gain;
use tautline_dsp::map::ChannelMap;
use tautline_dsp::resample::Quality;
use tautline_engine::plan::LinkKind;
use tautline_engine::plan::address::Address;
use tautline_engine::plan::probes::Probes;
use tautline_io::thread::Scheduler;
use tautline_io::udp::FragmentPolicy;
use tautline_proto::latency::LatencyRule;
use tautline_proto::target_delay::LossTarget;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::zone::ProgramRule;

use crate::failure::Failure;
use crate::help;
use crate::page;
use crate::report_file::{ReportFiles, ReportPath, report_path};
use crate::voice::{Voice, VoiceFlags};

pub(crate) use call::{CallFlags, CallHost, EchoFlag, EndFlags, ServeFlags, TransportFlag};
pub(crate) use files::{Compare, Join, OutFolder};
pub(crate) use requested::RedundancyFlag;
pub(crate) use site::{
    AckFlags, AnnounceFlags, BuildingFile, NextFlags, NodeFlags, PageFlags, PlayFlags, PresetFlags,
    SayFlags, ScheduleCommand, Site, SiteCheck, SitePush, StopFlags, ZoneFlags, ZoneVerb,
    ZonesFlags,
};
pub(crate) use tautline_ui::readers::{
    address, bitrate, channels, device, dscp, latency, parse, rate, span,
};
pub(crate) use tautline_ui::report_file::{PlainKind, ReportKind};
pub(crate) use trust::{Id, PairFlags, PairTarget, SrtpKey, TrustFlags};
pub(crate) use values::coding_in_line;
use values::{CodingOrAuto, PacingOrAuto, coding_or_auto, fragment, link, pacing};
pub(crate) use work::{Plugins, WorkFlags};

/// Send audio between machines with low, measured latency
#[derive(Debug, Parser)]
#[command(
    name = "taut",
    version,
    after_help = help::TAUT,
    after_long_help = help::TAUT_LONG
)]
pub(crate) struct Taut {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What `taut` does.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send a recording to two receivers on this machine and measure it
    Demo(Demo),
    /// Capture audio and send it to one or more receivers
    Send(Box<Send>),
    /// Receive streams and play them
    Recv(Box<Recv>),
    /// Accept calls: audio of this machine's programs or devices, both ways
    Serve(Box<ServeFlags>),
    /// Call a machine that runs taut serve: encrypted audio both ways
    Call(Box<CallFlags>),
    /// List audio devices
    Devices(Devices),
    /// Check this machine for causes of dropouts, with fixes
    Doctor(Doctor),
    /// Show the running streams and plugins of this machine
    Top(Top),
    /// Run LADSPA plugins for other machines
    Work(Box<WorkFlags>),
    /// List LADSPA plugins, here or on machines that run taut work
    Plugins(Plugins),
    /// Check the file that describes a building, or copy it to its nodes
    #[command(subcommand)]
    Site(Site),
    /// Play the zones and sources that a building file gives this machine
    Node(NodeFlags),
    /// List the zones of a building
    Zones(ZonesFlags),
    /// Show or change volume, mute or source of zones
    Zone(ZoneFlags),
    /// Apply a preset of the building file
    Preset(PresetFlags),
    /// List what the schedule of a building plays
    #[command(subcommand)]
    Schedule(ScheduleCommand),
    /// Clear faults of zones that ended
    Ack(AckFlags),
    /// Speak in zones of a building
    Page(PageFlags),
    /// Play a recording in zones of a building
    Play(PlayFlags),
    /// Speak a text in zones of a building, with a speech synthesiser
    Say(SayFlags),
    /// End an announcement in zones of a building
    Stop(StopFlags),
    /// Exchange keys with another machine; users compare a code
    Pair(PairFlags),
    /// Print this machine's name and key
    Id(Id),
    /// Create an SRTP key file
    SrtpKey(SrtpKey),
    /// List, add or remove trusted machines
    Trust(TrustFlags),
    /// Join the packet logs of sender and receiver
    Join(Join),
    /// Compare a recording with the file that was sent
    Compare(Compare),
    /// Experiments: measure latency, jitter, quality; impair a network
    #[cfg(feature = "lab")]
    #[command(subcommand)]
    Lab(tautline_lab::Lab),
    /// Experiments; not in this build, see make release
    #[cfg(not(feature = "lab"))]
    #[command(disable_help_flag = true)]
    Lab(AbsentLab),
    /// Write man pages to a folder
    #[command(hide = true)]
    Man(OutFolder),
    /// Write shell completions to a folder
    #[command(hide = true)]
    Completions(OutFolder),
}

/// `taut lab` in a build without the lab: any words, which are ignored.
#[cfg(not(feature = "lab"))]
#[derive(Debug, Args)]
pub(crate) struct AbsentLab {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _words: Vec<OsString>,
}

/// `taut demo`
#[derive(Debug, Args)]
#[command(after_help = help::DEMO, args_conflicts_with_subcommands = true, override_usage = "taut demo [OPTIONS]")]
pub(crate) struct Demo {
    #[command(subcommand)]
    pub(crate) other: Option<OtherDemo>,
    /// Output folder
    #[arg(long, value_name = "DIR", default_value = "taut-demo")]
    pub(crate) out: PathBuf,
    /// Stop after this time, such as 5s [default: 20s]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) duration: Option<Span>,
    /// Delay from capture to playback
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = span)]
    pub(crate) latency: Span,
    /// Frames per device period
    #[arg(long, value_name = "FRAMES", default_value_t = 48,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) period: u32,
    /// Periods in each device buffer
    #[arg(long, value_name = "N", default_value_t = 48,
          value_parser = clap::value_parser!(u32).range(2..=64))]
    pub(crate) periods: u32,
    /// Scheduler of the device threads
    ///
    /// fifo:70, rr:70, deadline:RUNTIME/DEADLINE/PERIOD, or other for none.
    #[arg(long, value_name = "CLASS", default_value = "fifo:70", value_parser = parse::<Scheduler>)]
    pub(crate) scheduler: Scheduler,
    #[command(flatten)]
    pub(crate) voice: VoiceFlags,
}

/// Other demos.
#[derive(Debug, Subcommand)]
pub(crate) enum OtherDemo {
    /// Run a building of three machines and six zones on this machine
    Building(DemoBuilding),
}

/// `taut demo building`
#[derive(Debug, Args)]
#[command(after_help = help::DEMO_BUILDING)]
pub(crate) struct DemoBuilding {
    /// Output folder
    #[arg(long, value_name = "DIR", default_value = "taut-building")]
    pub(crate) out: PathBuf,
    /// Stop after this time
    #[arg(long, value_name = "TIME", default_value = "3600s", value_parser = span)]
    pub(crate) duration: Span,
}

/// `taut send`
#[derive(Debug, Args)]
#[command(after_help = help::SEND, after_long_help = help::SEND_LONG, mut_args = texts::send)]
pub(crate) struct Send {
    /// alsa:NAME, jack:NAME, pipewire:NAME, file:PATH, tone:HZ
    ///
    /// Device or file to capture from; see Devices below.
    #[arg(long, short, value_name = "DEVICE", value_parser = device())]
    pub(crate) input: DeviceSpec,
    /// Repeat the input file without a gap
    #[arg(long = "loop")]
    pub(crate) looped: bool,
    /// rtp://HOST:PORT or an .sdp file (repeatable)
    ///
    /// Destination: also rtp+tcp:// and avtp://, once per destination; see Addresses below.
    #[arg(long, short, value_name = "ADDRESS", required = true, value_parser = address(Address::to_send_to))]
    pub(crate) to: Vec<Address>,
    #[command(flatten)]
    pub(crate) stream: StreamFlags,
    /// Packet time, 125us to 20ms [default: 1ms]
    ///
    /// Whole frames. Shorter packets mean less delay and more packets. The default of opus is 5ms, of opus-voice
    /// 10ms.
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) ptime: Option<Span>,
    /// Opus bit rate, such as 96k
    ///
    /// 6k to 510k bits per second. [default: 96k per channel; opus-voice: 32k per channel]
    #[arg(long, value_name = "BITS", value_parser = bitrate, help_heading = "Stream", hide_short_help = true)]
    pub(crate) bitrate: Option<u32>,
    /// Total latency, a time or auto [default: 5ms]
    ///
    /// The sender announces this delay and every receiver keeps it. auto: as long as the slowest receiver
    /// requests, at most 400ms (50ms for a multicast group); auto:80ms sets another maximum. The default is
    /// longer if --ptime or --period need it, and 150ms for a file to a multicast group.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = latency, help_heading = "Timing")]
    pub(crate) latency: Option<LatencyRule>,
    #[command(flatten)]
    pub(crate) timing: Timing,
    #[command(flatten)]
    pub(crate) sound: SoundFlags,
    #[command(flatten)]
    pub(crate) running: RunFlags,
    /// Repair lost packets: off, auto, red:N, fec:N
    ///
    /// Packets then carry data of earlier ones, from which receivers repair losses. red:N: N copies (RFC 2198).
    /// fec:N: N symbols of an erasure code. auto: as much as the reported losses need. +paths:eth0,eth1 also
    /// sends each packet over two networks. [default: off]
    #[arg(long, value_name = "RULE", default_value = "off", help_heading = "Network", hide_default_value = true,
          value_parser = parse::<RedundancyFlag>)]
    pub(crate) redundancy: RedundancyFlag,
    /// Longest time after which a packet can be repaired
    ///
    /// Counted from the departure of the packet; part of the latency, at most 64 packets. [default: two thirds
    /// of what --latency leaves; 10ms with --latency auto]
    #[arg(long, value_name = "TIME", help_heading = "Network", value_parser = span, hide_short_help = true)]
    pub(crate) redundancy_budget: Option<Span>,
    /// Maximum symbols per packet with --redundancy auto
    ///
    /// Receivers cannot raise it. [default: 8; multicast: 1]
    #[arg(long, value_name = "N", help_heading = "Network", hide_short_help = true,
          value_parser = clap::value_parser!(u8).range(0..=24))]
    pub(crate) redundancy_limit: Option<u8>,
    /// Send plain RTP without header extensions
    ///
    /// For receivers that reject them. The extensions carry capture and departure times.
    #[arg(long, help_heading = "Network", hide_short_help = true)]
    pub(crate) no_header_extensions: bool,
    /// Whether packets longer than the MTU may be fragmented
    #[arg(long, value_name = "WHEN", default_value = "allow", help_heading = "Network", value_parser = fragment(),
          hide_short_help = true)]
    pub(crate) fragment: FragmentPolicy,
    /// Send from a separate thread
    ///
    /// It spaces the packets of a period. auto: if a period holds several packets.
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Network", value_parser = link(),
          hide_short_help = true)]
    pub(crate) io_thread: LinkKind,
    /// How packets are spaced
    ///
    /// By a queue discipline with launch times (etf-offload, etf, fq), by a thread (sleep), or not at all
    /// (batch).
    #[arg(long, value_name = "MODE", default_value = "auto", help_heading = "Network", value_parser = pacing(),
          hide_short_help = true)]
    pub(crate) pacing: PacingOrAuto,
    /// Request a kernel transmit timestamp of one packet in N
    ///
    /// For the report and the packet log. [default: 20 per second]
    #[arg(long, value_name = "N", help_heading = "Network", hide_short_help = true,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) tx_timestamp_every: Option<u32>,
    /// Maximum time from departure to playback, instead of --latency
    ///
    /// The maximum transit time of IEEE 1722. With AVTP it and the time to departure are at most 2.1s together.
    #[arg(long, value_name = "TIME", conflicts_with = "latency", help_heading = "Network",
          value_parser = span, hide_short_help = true)]
    pub(crate) max_transit_time: Option<Span>,
    /// Uncertainty of the sender's clock, added to --max-transit-time
    #[arg(long, value_name = "TIME", default_value = "125us", requires = "max_transit_time",
          help_heading = "Network", value_parser = span, hide_short_help = true)]
    pub(crate) time_uncertainty: Span,
    /// Encrypt with SRTP; the key is in FILE
    ///
    /// Applies to the packets and reports of every --to. Create a key with taut srtp-key.
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    pub(crate) srtp_key_file: Option<PathBuf>,
    /// Priority mark (DSCP) of IP packets
    ///
    /// 0 to 63, or a name such as EF, AF41 or CS5. AES67 specifies AF41 for media. avtp:// has ?prio= instead.
    /// [default: AF41]
    #[arg(long, value_name = "DSCP", help_heading = "Network", value_parser = dscp, hide_short_help = true)]
    pub(crate) dscp: Option<u8>,
    /// Run a command when a receiver stops reporting
    ///
    /// COMMAND is run with sh -c for each receiver that stops without a goodbye. TAUT_RECEIVER is its host,
    /// TAUT_STREAM the address of the stream.
    #[arg(long, value_name = "COMMAND", help_heading = "Run", hide_short_help = true)]
    pub(crate) on_lost: Option<String>,
    /// Write the stream's SDP description to FILE
    #[arg(long, value_name = "FILE", help_heading = "Run", hide_short_help = true)]
    pub(crate) sdp: Option<PathBuf>,
    /// Include the SRTP key in the SDP file
    ///
    /// For programs that read the key there. Only the owner can then read the file.
    #[arg(long, requires = "sdp", help_heading = "Run", hide_short_help = true)]
    pub(crate) sdp_key: bool,
}

impl Send {
    pub(crate) fn transit(&self) -> Option<Span> {
        self.max_transit_time.map(|time| time + self.time_uncertainty)
    }
}

/// `taut recv`
#[derive(Debug, Clone, Args)]
#[command(after_help = help::RECV, after_long_help = help::RECV_LONG, mut_args = texts::recv)]
pub(crate) struct Recv {
    /// rtp://HOST:PORT or an .sdp file (repeatable)
    ///
    /// HOST is an address of this machine or a multicast group. Also rtp+tcp:// and avtp://, once per stream; see
    /// Addresses below. RTCP uses the next UDP port.
    #[arg(long, short, value_name = "ADDRESS", required = true, value_parser = address(Address::to_hear))]
    pub(crate) from: Vec<Address>,
    /// alsa:NAME, jack:NAME, pipewire:NAME, file:PATH
    ///
    /// Device or WAV file to play to; see Devices below.
    #[arg(long, short, value_name = "DEVICE", value_parser = device())]
    pub(crate) output: DeviceSpec,
    #[command(flatten)]
    pub(crate) stream: StreamFlags,
    /// Longest packets expected
    ///
    /// Packets of any length are accepted.
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = span, hide_short_help = true)]
    pub(crate) ptime: Span,
    /// Total latency, a time or auto [default: sender's]
    ///
    /// auto: the shortest without late packets; auto:150ms sets a maximum and discards later packets.
    /// Without an announcement the default follows the arrivals, too.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = latency, help_heading = "Timing")]
    pub(crate) latency: Option<LatencyRule>,
    #[command(flatten)]
    pub(crate) timing: Timing,
    #[command(flatten)]
    pub(crate) sound: SoundFlags,
    #[command(flatten)]
    pub(crate) running: RunFlags,
    /// Share of packets that may be late with --latency auto
    ///
    /// Also for the latency that the report recommends.
    #[arg(long, value_name = "SHARE", default_value_t, value_parser = parse::<LossTarget>,
          help_heading = "Timing", hide_short_help = true)]
    pub(crate) loss_target: LossTarget,
    /// Several streams: mix, priority or first-alive
    ///
    /// mix: all of them. priority: the first --from that is received. first-alive: the one that arrived first.
    /// [default: mix]
    #[arg(long, value_name = "RULE", default_value = "mix", value_parser = parse::<ProgramRule>,
          help_heading = "Sound", hide_default_value = true)]
    pub(crate) select: ProgramRule,
    /// Resampler quality: low-delay, balanced or best
    ///
    /// Used if the clocks of sender and device differ; otherwise samples are not changed. Delay at 48 kHz: 0.25,
    /// 0.33 or 0.5 ms.
    #[arg(long, value_name = "QUALITY", default_value = "balanced", value_parser = parse::<Quality>,
          help_heading = "Sound", hide_short_help = true)]
    pub(crate) resampler: Quality,
    /// Overwrite an existing output file
    #[arg(long, help_heading = "Run")]
    pub(crate) overwrite: bool,
    /// Exit when all senders have said goodbye
    ///
    /// Everything is played first. A sender that stops without a goodbye (RTCP BYE) ends the run 3 s later with
    /// exit status 4. AVTP has no goodbye.
    #[arg(long, help_heading = "Run")]
    pub(crate) exit_on_bye: bool,
    /// Write an Audacity label file next to the recording
    ///
    /// heard.labels.txt for --output file:heard.wav: one line per lost or late packet and per xrun.
    #[arg(long, help_heading = "Run", hide_short_help = true)]
    pub(crate) labels: bool,
    /// Decrypt SRTP; the key is in FILE
    ///
    /// Only packets encrypted with this key are accepted, for all --from; see taut srtp-key.
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    pub(crate) srtp_key_file: Option<PathBuf>,
    /// Receive in a separate thread
    #[arg(long, value_name = "WHEN", default_value = "no", help_heading = "Network", value_parser = link(),
          hide_short_help = true)]
    pub(crate) io_thread: LinkKind,
    /// Media clock of AVTP streams
    ///
    /// A CRF stream (IEEE 1722), avtp://eth0/MAC or avtp+udp://HOST; see Clocks below. [default: recovered from
    /// the packets of each stream]
    #[arg(long, value_name = "ADDRESS", value_parser = Address::to_follow, help_heading = "Timing",
          hide_short_help = true)]
    pub(crate) clock: Option<Address>,
}

/// The format of the stream.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Stream")]
pub(crate) struct StreamFlags {
    /// Sample rate
    #[arg(long, value_name = "HZ", value_parser = rate)]
    pub(crate) rate: Option<Rate>,
    /// Channels, 1 to 64
    #[arg(long, value_name = "N", value_parser = channels)]
    pub(crate) channels: Option<Channels>,
    /// l16, l24, l32, f32, opus, … [default: auto]
    #[arg(long, value_name = "CODEC", value_parser = coding_or_auto(), default_value = "auto", hide_default_value = true,
          hide_possible_values = true)]
    pub(crate) format: CodingOrAuto,
    /// RTP payload type
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..128), hide_short_help = true)]
    pub(crate) payload_type: Option<u8>,
}

/// Device timing.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Timing")]
pub(crate) struct Timing {
    /// Frames per device period [default: 48]
    ///
    /// 48 frames are 1ms at 48000 Hz. A JACK server sets its own (jackd -p).
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) period: Option<u32>,
    /// Periods in the device buffer
    ///
    /// 2 to 64. More periods survive a busier machine and add playback delay.
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(2..=64))]
    pub(crate) periods: u32,
    /// Scheduler of the device thread
    ///
    /// fifo:70, rr:70, deadline:RUNTIME/DEADLINE/PERIOD, or other for none. A warning is printed if the system
    /// denies it.
    #[arg(long, value_name = "CLASS", default_value = "fifo:70", value_parser = parse::<Scheduler>,
          hide_short_help = true)]
    pub(crate) scheduler: Scheduler,
}

impl Timing {
    pub(crate) fn period(&self) -> Frames {
        Frames::new(self.period.unwrap_or(48).into())
    }
}

/// Processing of the audio.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sound")]
pub(crate) struct SoundFlags {
    /// Gain, such as -6dB or 50%
    #[arg(long, value_name = "GAIN", default_value = "0dB", allow_hyphen_values = true,
          value_parser = parse::<Gain>)]
    pub(crate) volume: Gain,
    /// Input channel of each output channel, such as 2,1
    ///
    /// Counted from 1; - is silence. 2,1 swaps left and right.
    #[arg(long, value_name = "MAP", allow_hyphen_values = true, value_parser = parse::<ChannelMap>,
          hide_short_help = true)]
    pub(crate) map: Option<ChannelMap>,
}

/// Duration, control and reports of a run.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Run")]
pub(crate) struct RunFlags {
    /// Stop after this time, such as 10s
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) duration: Option<Span>,
    /// Print the final report as text, json, html or none
    ///
    /// [default: text; with --quiet: none]
    #[arg(long, value_name = "FORMAT", hide_short_help = true)]
    pub(crate) report: Option<ReportKind>,
    #[command(flatten)]
    pub(crate) voice: VoiceFlags,
    /// Write the report to FILE: .json, .csv, .html, .txt
    ///
    /// In the format of its extension, also .svg (repeatable).
    #[arg(long, value_name = "FILE", value_parser = report_path())]
    pub(crate) report_file: Vec<ReportPath>,
    /// Write the times of each packet to a CSV file
    ///
    /// One line per packet; see taut join.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) packet_log: Option<PathBuf>,
    /// Packets to time: all, 64 (one in 64) or off
    ///
    /// Counters, --latency auto and reports to the other end always use all packets.
    #[arg(long, value_name = "WHICH", default_value = "all", value_parser = parse::<Probes>, hide_short_help = true)]
    pub(crate) sample_packets: Probes,
    /// Read changes, such as volume -6dB, from stdin
    ///
    /// One change per line, while running; see Changes below.
    #[arg(long)]
    pub(crate) control: bool,
    /// Disable the threads that detect stalls of the machine
    ///
    /// They take 0.3 % of a core, 1.1 % after a stall.
    #[arg(long, hide_short_help = true)]
    pub(crate) no_stall_monitor: bool,
}

impl RunFlags {
    /// A packet log needs every packet: `taut join` matches the packets in the logs of both ends.
    pub(crate) fn refuse_partial_packet_log(&self) -> Result<(), Failure> {
        if self.packet_log.is_none() || self.sample_packets == Probes::All {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "--packet-log needs all packets, and --sample-packets {} times only some\n\
             hint: leave one of them out",
            self.sample_packets
        )))
    }

    pub(crate) fn voice(&self) -> Voice {
        self.voice.voice()
    }

    /// Checks that the report can be written where and as it is requested.
    pub(crate) fn report_files(&self) -> Result<ReportFiles, Failure> {
        let files = ReportFiles::create(&self.report_file)?;
        match self.report() == ReportKind::Html || files.any_drawn() {
            true if !page::AVAILABLE => Err(Failure::without_lab("HTML and SVG reports")),
            _ => Ok(files),
        }
    }

    pub(crate) fn report(&self) -> ReportKind {
        self.report.unwrap_or(match self.voice() {
            Voice::Quiet => ReportKind::None,
            Voice::Usual | Voice::Verbose => ReportKind::Text,
        })
    }
}

/// `taut devices`
#[derive(Debug, Args)]
#[command(after_help = help::DEVICES)]
pub(crate) struct Devices {
    /// Output format: text, json or none
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    pub(crate) report: PlainKind,
}

/// `taut doctor`
#[derive(Debug, Args)]
#[command(after_help = help::DOCTOR)]
pub(crate) struct Doctor {
    /// Latency to check for [default: the building's, or 5ms]
    #[arg(long, value_name = "TIME", value_parser = latency)]
    pub(crate) latency: Option<LatencyRule>,
    /// Packet time
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = span)]
    pub(crate) ptime: Span,
    /// Sample rate
    #[arg(long, value_name = "HZ", default_value = "48000", value_parser = rate)]
    pub(crate) rate: Rate,
    /// Channels, 1 to 64
    #[arg(long, value_name = "N", default_value = "2", value_parser = channels)]
    pub(crate) channels: Channels,
    #[command(flatten)]
    pub(crate) site: BuildingFile,
    /// Time to observe the network
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    pub(crate) observe: Span,
    /// Output format: text, json or none
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    pub(crate) report: PlainKind,
}

/// `taut top`
#[derive(Debug, Args)]
#[command(after_help = help::TOP, after_long_help = help::TOP_LONG)]
pub(crate) struct Top {
    /// Print the state of one second and exit
    #[arg(long)]
    pub(crate) once: bool,
    /// text, json (implies --once) or none
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    pub(crate) report: PlainKind,
}

impl Send {
    pub(crate) fn ptime(&self) -> Span {
        let usual = self.stream.format.map_or(Span::from_millis(1), |coding| coding.row().ptime);
        self.ptime.unwrap_or(usual)
    }
}
