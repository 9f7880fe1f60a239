//! The command line, defined once: help, man pages, completions and `tautline.toml` follow from it.

mod asked;
mod call;
mod files;
#[cfg(test)]
mod tests;
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
use tautline_engine::plan::select::Select;
use tautline_io::thread::Scheduler;
use tautline_io::udp::FragmentPolicy;
use tautline_proto::latency::LatencyRule;
use tautline_proto::target_delay::LossTarget;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};

use crate::failure::Failure;
use crate::help;
use crate::page;
use crate::report_file::{ReportFiles, ReportPath, report_path};
use crate::voice::{Voice, VoiceFlags};

pub(crate) use asked::RedundancyFlag;
pub(crate) use call::{CallFlags, CallHost, EchoFlag, EndFlags, ServeFlags, TransportFlag};
pub(crate) use files::{Compare, Join, OutFolder};
pub(crate) use tautline_ui::readers::{
    address, bitrate, channels, device, dscp, latency, parse, rate, span,
};
pub(crate) use tautline_ui::report_file::{PlainKind, ReportKind};
pub(crate) use trust::{Id, PairFlags, PairTarget, SrtpKey, TrustFlags};
pub(crate) use values::coding_in_line;
use values::{CodingOrAuto, PacingOrAuto, coding_or_auto, fragment, link, pacing};
pub(crate) use work::{Plugins, WorkFlags};

/// Carries sound between machines and proves when it arrives.
#[derive(Debug, Parser)]
#[command(
    name = "taut",
    version,
    after_help = help::TAUT
)]
pub(crate) struct Taut {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What `taut` does.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Carry the bundled recording to two receivers here, and show where the time goes
    Demo(Demo),
    /// Capture sound and send it: to one machine, to several, or to a multicast group
    Send(Box<Send>),
    /// Receive sound and play it: one stream, or several mixed
    Recv(Box<Recv>),
    /// Offer this machine's sound to a caller: what programs here play is heard there, and the caller here
    Serve(Box<ServeFlags>),
    /// Call a machine on which taut serve runs: sound both ways, sealed
    Call(Box<CallFlags>),
    /// List the devices that sound can come from and go to, and what can be asked of each
    Devices(Devices),
    /// Look for what would spoil sound on this machine, and say what mends it
    Doctor(Doctor),
    /// Show what is happening now: every stream that is sent or received on this machine, and every plugin
    /// that it runs for others
    Top(Top),
    /// Run LADSPA plugins for other machines, inside their hosts' own period
    Work(Box<WorkFlags>),
    /// List the LADSPA plugins of this machine, or of others where `taut work` runs
    Plugins(Plugins),
    /// Trust another machine and be trusted by it, in one step: both users compare a code
    Pair(PairFlags),
    /// Show what this machine is known by to others that are to trust it
    Id(Id),
    /// Make a key by which streams are sealed (SRTP)
    SrtpKey(SrtpKey),
    /// Trust another machine, by its key: for what listens beyond this one
    Trust(TrustFlags),
    /// Join the ledgers of a sender and a receiver, packet by packet
    Join(Join),
    /// Say whether what was heard is what was sent, frame by frame
    Compare(Compare),
    /// Experiments, such as a network that misbehaves on purpose
    #[cfg(feature = "lab")]
    #[command(subcommand)]
    Lab(tautline_lab::Lab),
    /// Experiments, such as a network that misbehaves on purpose: not in this build, see make release
    #[cfg(not(feature = "lab"))]
    #[command(disable_help_flag = true)]
    Lab(AbsentLab),
    /// Write man pages into a folder
    Man(OutFolder),
    /// Write shell completions into a folder
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
#[command(after_help = help::DEMO)]
pub(crate) struct Demo {
    /// Folder for what each receiver played and the reports
    #[arg(long, value_name = "DIR", default_value = "taut-demo")]
    pub(crate) out: PathBuf,
    /// Stop after so many seconds of the 20 second recording
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) seconds: Option<u32>,
    /// Capture to DAC: the link offset
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = span)]
    pub(crate) latency: Span,
    /// Frames per wake-up of each card
    #[arg(long, value_name = "FRAMES", default_value_t = 48,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) period: u32,
    /// Periods in each card's buffer
    #[arg(long, value_name = "N", default_value_t = 48,
          value_parser = clap::value_parser!(u32).range(2..=64))]
    pub(crate) periods: u32,
    /// Of the cards' threads: fifo:70, rr:70, deadline:RUNTIME/DEADLINE/PERIOD or other
    #[arg(long, value_name = "CLASS", default_value = "fifo:70", value_parser = parse::<Scheduler>)]
    pub(crate) scheduler: Scheduler,
    #[command(flatten)]
    pub(crate) voice: VoiceFlags,
}

/// `taut send`
#[derive(Debug, Args)]
#[command(after_help = help::SEND, after_long_help = help::SEND_LONG)]
pub(crate) struct Send {
    /// Where the sound comes from: alsa:hw:0, jack:NAME, pipewire:NAME, file:PATH, file:- for standard
    /// input, tone:HZ, virtual: or null:; see Devices
    #[arg(long, short, value_name = "DEVICE", value_parser = device())]
    pub(crate) input: DeviceSpec,
    /// Repeat the file of --input without a gap, until Ctrl-C or --duration
    #[arg(long = "loop")]
    pub(crate) looped: bool,
    /// Where it goes: rtp://HOST:PORT or a .sdp file, see Addresses; once for each destination
    #[arg(long, short, value_name = "ADDRESS", required = true, value_parser = address(Address::to_send_to))]
    pub(crate) to: Vec<Address>,
    #[command(flatten)]
    pub(crate) stream: StreamFlags,
    /// Sound in one packet, 125us to 20ms, in whole frames: less is less delay and more packets
    /// [default: 1ms; opus: 5ms; opus-voice: 10ms]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) ptime: Option<Span>,
    /// Bits per second of Opus, such as 96k [default: 96k for each channel; opus-voice: 32k]
    #[arg(long, value_name = "BITS", value_parser = bitrate, help_heading = "Stream")]
    pub(crate) bitrate: Option<u32>,
    #[command(flatten)]
    pub(crate) timing: Timing,
    #[command(flatten)]
    pub(crate) sound: SoundFlags,
    #[command(flatten)]
    pub(crate) running: RunFlags,
    /// What packets carry of earlier ones, so that lost ones can be repaired: off, red:N for N
    /// copies, code:N for N symbols of an erasure code, auto for what receivers' losses ask for;
    /// +paths:eth0,eth1 sends every packet by two networks
    #[arg(long, value_name = "HOW", default_value = "off", help_heading = "Network",
          value_parser = parse::<RedundancyFlag>)]
    pub(crate) redundancy: RedundancyFlag,
    /// Time after its own departure in which a packet may still be repaired: part of the latency, no
    /// more than that leaves, and 64 packets at most [default: what --latency leaves, else 10ms]
    #[arg(long, value_name = "TIME", help_heading = "Network", value_parser = span)]
    pub(crate) redundancy_budget: Option<Span>,
    /// The most symbols that --redundancy auto puts in each packet, whatever receivers report
    /// [default: 8; to a group, where anybody may report, 1]
    #[arg(long, value_name = "N", help_heading = "Network",
          value_parser = clap::value_parser!(u8).range(0..=24))]
    pub(crate) redundancy_limit: Option<u8>,
    /// The longest latency that --latency auto promises, whatever receivers ask for [default: 400ms;
    /// to a group, where anybody may ask, 50ms]
    #[arg(long, value_name = "TIME", help_heading = "Timing", value_parser = span)]
    pub(crate) latency_limit: Option<Span>,
    /// Plain RTP without the sender's instants: for receivers that refuse header extensions; packets of AVTP have none
    #[arg(long, help_heading = "Network")]
    pub(crate) no_stamps: bool,
    /// What to do with packets too long for the network to carry in one piece
    #[arg(long, value_name = "WHEN", default_value = "allow", help_heading = "Network", value_parser = fragment())]
    pub(crate) fragment: FragmentPolicy,
    /// Who sends: the device's thread, or a wire thread that spaces packets, those that fit one Ethernet
    /// frame together as one
    #[arg(long, value_name = "KIND", default_value = "auto", help_heading = "Network", value_parser = link())]
    pub(crate) link: LinkKind,
    /// What spaces packets: a queue that lets each go at its launch time, or a thread
    #[arg(long, value_name = "HOW", default_value = "auto", help_heading = "Network", value_parser = pacing())]
    pub(crate) pacing: PacingOrAuto,
    /// Have the kernel stamp one packet in so many as it leaves, for the report and the ledger [default: 20 a second]
    #[arg(long, value_name = "N", help_heading = "Network",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) stamp_every: Option<u32>,
    /// Instead of --latency: what packets take from leaving to being heard at most (max transit time); by AVTP, with
    /// what they take until they leave, 2.1s at most
    #[arg(long, value_name = "TIME", conflicts_with = "latency", help_heading = "Network",
          value_parser = span)]
    pub(crate) mtt: Option<Span>,
    /// What the sender's clock may be off by, which --mtt leaves out
    #[arg(long, value_name = "TIME", default_value = "125us", requires = "mtt",
          help_heading = "Network", value_parser = span)]
    pub(crate) time_uncertainty: Span,
    /// Seal packets and reports by SRTP, with the key in this file (taut srtp-key): only who has it hears them; the same
    /// for all --to
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    pub(crate) srtp_key_file: Option<PathBuf>,
    /// Priority mark for the network's switches (DSCP), 0 to 63 or a name such as EF, AF41 or CS5: AES67 gives AF41 to
    /// media; frames of Ethernet (avtp://) have ?prio= instead [default: AF41]
    #[arg(long, value_name = "DSCP", help_heading = "Network", value_parser = dscp)]
    pub(crate) dscp: Option<u8>,
    /// Run this command with sh -c for each receiver that stops reporting without a goodbye: TAUT_RECEIVER is its
    /// host, TAUT_STREAM the stream's address
    #[arg(long, value_name = "COMMAND", help_heading = "Run")]
    pub(crate) on_lost: Option<String>,
    /// Write the stream's description (SDP) here, for receivers that ask for one
    #[arg(long, value_name = "PATH")]
    pub(crate) sdp: Option<PathBuf>,
    /// Write the SRTP key into that description, too, for programs that read it there; it is then its owner's alone
    #[arg(long, requires = "sdp")]
    pub(crate) sdp_key: bool,
}

impl Send {
    /// From departure to presentation, where that is said and no latency.
    pub(crate) fn transit(&self) -> Option<Span> {
        self.mtt.map(|mtt| mtt + self.time_uncertainty)
    }
}

/// `taut recv`
#[derive(Debug, Clone, Args)]
#[command(after_help = help::RECV, after_long_help = help::RECV_LONG)]
pub(crate) struct Recv {
    /// Where to listen: rtp://HOST:PORT of this machine or of a group, or a .sdp file, see
    /// Addresses; once for each stream. RTCP is heard at the UDP port above
    #[arg(long, short, value_name = "ADDRESS", required = true, value_parser = address(Address::to_hear))]
    pub(crate) from: Vec<Address>,
    /// Where the sound goes: alsa:hw:0, jack:NAME, pipewire:NAME, file:PATH (a WAV), file:- for standard
    /// output, virtual: or null:; see Devices
    #[arg(long, short, value_name = "DEVICE", value_parser = device())]
    pub(crate) output: DeviceSpec,
    #[command(flatten)]
    pub(crate) stream: StreamFlags,
    /// Longest packets expected; the sender's are taken whatever their length
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = span)]
    pub(crate) ptime: Span,
    #[command(flatten)]
    pub(crate) timing: Timing,
    #[command(flatten)]
    pub(crate) sound: SoundFlags,
    #[command(flatten)]
    pub(crate) running: RunFlags,
    /// How many packets may come too late for the latency that is advised, or kept with --latency
    /// auto
    #[arg(long, value_name = "SHARE", default_value_t, value_parser = parse::<LossTarget>,
          help_heading = "Timing")]
    pub(crate) loss_target: LossTarget,
    /// Which of several streams is heard: mix for all, priority for the first given that is there,
    /// first-alive for the one that came first
    #[arg(long, value_name = "HOW", default_value = "mix", value_parser = parse::<Select>,
          help_heading = "Sound")]
    pub(crate) select: Select,
    /// Sound quality where the card's clock is not the sender's: low-delay adds 0.25 ms, balanced
    /// 0.33 ms, best 0.5 ms (at 48000 Hz); where both share one clock it is played bit for bit
    #[arg(long, value_name = "QUALITY", default_value = "balanced", value_parser = parse::<Quality>,
          help_heading = "Sound")]
    pub(crate) resampler: Quality,
    /// Record over a file that is there already
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// End when every sender has said goodbye and all is played; where one falls silent without a
    /// goodbye, 3 s later and with exit status 4. By Ethernet alone (avtp://) none is said
    #[arg(long)]
    pub(crate) until_bye: bool,
    /// Write beside a recording (--output file:heard.wav) what spoilt it, and where, for Audacity:
    /// heard.labels.txt, a line each for what was lost or late and for xruns
    #[arg(long)]
    pub(crate) labels: bool,
    /// Hear what is sealed by SRTP with the key in this file (taut srtp-key), and nothing else; the same for all --from
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    pub(crate) srtp_key_file: Option<PathBuf>,
    /// Who reads: the device's thread, or a wire thread
    #[arg(long, value_name = "KIND", default_value = "direct", help_heading = "Network", value_parser = link())]
    pub(crate) link: LinkKind,
    /// The clock that streams of AVTP are resampled by: a stream of CRF (IEEE 1722), avtp://eth0/MAC or
    /// avtp+udp://HOST; see Clocks [default: the streams' own packets tell]
    #[arg(long, value_name = "ADDRESS", value_parser = Address::to_follow, help_heading = "Timing")]
    pub(crate) clock: Option<Address>,
}

/// What the stream is.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Stream")]
pub(crate) struct StreamFlags {
    /// Sample rate: 8000, 11025, 16000, 22050, 24000, 32000, 44100, 48000, 88200, 96000,
    /// 176400 or 192000 [default: the file's or, at recv, the sender's, else 48000]
    #[arg(long, value_name = "HZ", value_parser = rate)]
    pub(crate) rate: Option<Rate>,
    /// Channels, 1 to 64 [default: the file's or, at recv, the sender's, else 2]
    #[arg(long, value_name = "N", value_parser = channels)]
    pub(crate) channels: Option<Channels>,
    /// Coding of samples on the network [default: auto: l24, or f32 for a float
    /// file; recv: as announced, or as the packets prove]
    #[arg(long, value_name = "CODING", value_parser = coding_or_auto(), default_value = "auto", hide_default_value = true)]
    pub(crate) format: CodingOrAuto,
    /// Number in each packet that stands for the coding (RTP payload type), as the other end has it
    /// [default: 96 for l16, 97 for l24, 98 for f32, 99 for l32, 100 for opus, 101 and 102 for lossless; recv with
    /// --format: any]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..128))]
    pub(crate) payload_type: Option<u8>,
}

/// When.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Timing")]
pub(crate) struct Timing {
    /// From capture to loudspeaker: the link offset, which every receiver keeps; auto follows what the
    /// packets' arrivals ask for, send: at the receiver that needs the most; recv and calls: auto:150ms
    /// goes no further than that, and drops what comes later (send: --latency-limit) [default: 5ms or what ptime and period need, 150ms for a file to a multicast group; recv: the
    /// sender's, or if it announces none what its packets need; calls: auto:250ms]
    #[arg(long, value_name = "TIME|auto", allow_hyphen_values = true, value_parser = latency)]
    pub(crate) latency: Option<LatencyRule>,
    /// Frames that the device takes at a time: 48 are 1ms at 48000 Hz; the JACK server has its own (jackd -p)
    /// [default: 48]
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) period: Option<u32>,
    /// Periods in the device's buffer: more outlast a busier machine, and cost delay when playing
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(2..=64))]
    pub(crate) periods: u32,
    /// Priority of the device's thread: fifo:70, rr:70, deadline:RUNTIME/DEADLINE/PERIOD, or other
    /// for none; taut says so if the system refuses it
    #[arg(long, value_name = "CLASS", default_value = "fifo:70", value_parser = parse::<Scheduler>)]
    pub(crate) scheduler: Scheduler,
}

impl Timing {
    /// The period that the device is asked for.
    pub(crate) fn period(&self) -> Frames {
        Frames::new(self.period.unwrap_or(48).into())
    }
}

/// What happens to the sound.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sound")]
pub(crate) struct SoundFlags {
    /// Gain of everything, such as -6dB or 50%
    #[arg(long, value_name = "GAIN", default_value = "0dB", allow_hyphen_values = true,
          value_parser = parse::<Gain>)]
    pub(crate) volume: Gain,
    /// For each output channel the input channel it takes, counted from 1, - for silence: 2,1 swaps
    /// left and right
    #[arg(long, value_name = "MAP", allow_hyphen_values = true, value_parser = parse::<ChannelMap>)]
    pub(crate) map: Option<ChannelMap>,
}

/// How the run goes and what it leaves.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Run")]
pub(crate) struct RunFlags {
    /// Stop after this long, such as 10s; else at Ctrl-C, or when the file that is sent ends
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) duration: Option<Span>,
    /// What to print at the end [default: text, and none if --quiet]
    #[arg(long, value_name = "KIND")]
    pub(crate) report: Option<ReportKind>,
    #[command(flatten)]
    pub(crate) voice: VoiceFlags,
    /// Write the report here too, in the format of the name's suffix: .json, .csv, .html, .txt or .svg; any number
    /// of times
    #[arg(long, value_name = "PATH", value_parser = report_path())]
    pub(crate) report_file: Vec<ReportPath>,
    /// Write every packet's instants here, a line each, as CSV: see taut join
    #[arg(long, value_name = "PATH")]
    pub(crate) ledger: Option<PathBuf>,
    /// How many packets are measured: all, 64 for one in 64, or off. What is counted, and what the
    /// latency and reports to the other end go by, is taken of all
    #[arg(long, value_name = "WHICH", default_value = "all", value_parser = parse::<Probes>)]
    pub(crate) probes: Probes,
    /// Take changes as lines on standard input while it runs, such as volume -6dB: see Changes
    #[arg(long)]
    pub(crate) control: bool,
    /// Do without the threads that watch for stalls of the machine (0.3 % of a core in all, 1.1 % after a stall)
    #[arg(long)]
    pub(crate) no_witness: bool,
}

impl RunFlags {
    /// A ledger has a line for each packet, at both ends the same ones: taut join could not join others.
    pub(crate) fn refuse_a_ledger_of_few(&self) -> Result<(), Failure> {
        if self.ledger.is_none() || self.probes == Probes::All {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "--ledger writes every packet, and --probes {} does not measure every packet; leave one \
             of them out",
            self.probes
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

    /// What to print at the end.
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
    /// What to print
    #[arg(long, value_name = "KIND", default_value = "text")]
    pub(crate) report: PlainKind,
}

/// `taut doctor`
#[derive(Debug, Args)]
#[command(after_help = help::DOCTOR)]
pub(crate) struct Doctor {
    /// The latency that is to be kept, by which everything is judged; auto is judged as 5ms
    #[arg(long, value_name = "TIME|auto", default_value = "5ms", value_parser = latency)]
    pub(crate) latency: LatencyRule,
    /// Sound in one packet
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = span)]
    pub(crate) ptime: Span,
    /// Sample rate: 8000, 11025, 16000, 22050, 24000, 32000, 44100, 48000, 88200, 96000,
    /// 176400 or 192000
    #[arg(long, value_name = "HZ", default_value = "48000", value_parser = rate)]
    pub(crate) rate: Rate,
    /// Channels, 1 to 64
    #[arg(long, value_name = "N", default_value = "2", value_parser = channels)]
    pub(crate) channels: Channels,
    /// What to print
    #[arg(long, value_name = "KIND", default_value = "text")]
    pub(crate) report: PlainKind,
}

/// `taut top`
#[derive(Debug, Args)]
#[command(after_help = help::TOP)]
pub(crate) struct Top {
    /// Look for a second, print what was seen, and end; as where standard output is no terminal
    #[arg(long)]
    pub(crate) once: bool,
    /// What to print with --once, which json goes without saying
    #[arg(long, value_name = "KIND", default_value = "text")]
    pub(crate) report: PlainKind,
}

impl Send {
    /// Sound in one packet.
    pub(crate) fn ptime(&self) -> Span {
        let usual = self.stream.format.map_or(Span::from_millis(1), |coding| coding.row().ptime);
        self.ptime.unwrap_or(usual)
    }
}
