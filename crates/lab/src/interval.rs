//! Packet intervals: from a sender's packet log, at a socket, or in a capture. Compares packets
//! with their media clock's grid, and counts missing packets.

mod alongside;
mod bare;
mod figures;
mod flows;
mod listen;
mod pacing_modes;
mod stamps;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use tautline_dsp::format::SampleFormat;
use tautline_engine::plan::address::{Address, StreamPlace};
use tautline_engine::plan::pacing::PacingMode;
use tautline_engine::plan::sockets::ethernet_receiver;
use tautline_io::thread::Scheduler;
use tautline_io::udp::UdpOptions;
use tautline_proto::stream::{StreamFormat, packet_frames};
use tautline_proto::time::Span;
use tautline_proto::units::{Channels, Rate};
use tautline_ui::failure::Failure;
use tautline_ui::readers::{channels, rate, span};
use tautline_ui::screen;

use crate::answer::{Answer, Reporting};
use crate::kernel::sample_format;
use crate::report::{HostDescription, LabReport, ReportRow};
use crate::runner::{FarEnd, run_streams};
use crate::signals::stop_with_agent;
use crate::streams::{LabStream, LabWire};
use flows::{MIN, ReadCapture, SortedFlows, read_capture};
use listen::{Socket, listen};
use pacing_modes::climb;

const SHORT_HELP: &str = r#"Examples:
  taut lab interval --packet-log sent.csv
  taut lab interval --listen 0.0.0.0:5004 --duration 60s

All options, details and more examples: taut lab interval --help"#;

const HELP: &str = r#"Examples:
  # How evenly `taut send --packet-log sent.csv` handed its packets over:
  taut lab interval --packet-log sent.csv
  # Arrivals for a minute, by the kernel's timestamps, without a receiver:
  taut lab interval --listen 0.0.0.0:5004 --duration 60s
  # Every RTP and AVTP stream in a capture, such as that of
  # tcpdump -i eth0 -w wire.pcap 'udp or ether proto 0x22f0':
  taut lab interval --pcap wire.pcap --report json
  # AVTP of any talker, such as `aplay` through ALSA's plugin `aaf`:
  taut lab interval --listen avtp://eth0/91:E0:F0:00:FE:01 --duration 300s
  # A class A stream to another host, with each pacing mode that is available
  # here, five minutes each:
  taut lab interval --pacing-modes --with ssh:studio --duration 300s

Each stream has two rows: the interval between packets, and the lateness of each
packet relative to the earliest, on the stream's media clock. The rate of that
clock comes from the timestamps and is reported in ppm; AVTP's media clock is
its presentation times. Missing packets are counted by sequence numbers. A
packet log has none; it has the lateness against its own schedule instead.

After each mode that spaces packets, a bare loop sends the same packets: a
thread that sleeps and hands them to the kernel. Its row has the ratio of our
standard deviation and p99.9 - p0.1 to those of the loop. For the mode that
sleeps, another row has the lateness of the hand-over."#;

/// `taut lab interval`
#[derive(Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = HELP,
          group = ArgGroup::new("source").required(true).args(["packet_log", "listen", "pcap", "pacing_modes"]))]
pub struct IntervalFlags {
    /// Packet log of a sender, from `taut send --packet-log`
    #[arg(long, value_name = "FILE.csv")]
    packet_log: Option<PathBuf>,
    /// Address to listen at: HOST:PORT, avtp+udp://… or avtp://IF/ADDRESS
    #[arg(long, value_name = "ADDRESS", value_parser = Address::to_listen_at)]
    listen: Option<Address>,
    /// Capture with RTP or AVTP (pcap or pcapng)
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Send a stream in each pacing mode, and from a bare loop
    #[arg(long)]
    pacing_modes: bool,
    /// Only this pacing mode; repeatable
    #[arg(long, value_name = "HOW", requires = "pacing_modes", help_heading = "Pacing modes")]
    pacing: Vec<PacingMode>,
    /// Audio time in one packet
    #[arg(long, value_name = "TIME", default_value = "125us", value_parser = span,
          help_heading = "Pacing modes")]
    ptime: Span,
    /// Device period in frames
    #[arg(long, value_name = "FRAMES", default_value_t = 48, help_heading = "Pacing modes",
          value_parser = clap::value_parser!(u32).range(1..=4096), hide_short_help = true)]
    period: u32,
    /// Latency of the stream
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = span,
          help_heading = "Pacing modes", hide_short_help = true)]
    latency: Span,
    /// Send AVTP via these interfaces, here and at the receiver
    ///
    /// By default, the second has the name of the first.
    #[arg(long, value_name = "IF[,IF]", requires = "pacing_modes", value_parser = interfaces,
          conflicts_with = "at", help_heading = "Pacing modes")]
    avtp: Option<[String; 2]>,
    #[command(flatten)]
    far: FarEnd,
    /// Sample rate of RTP streams
    #[arg(long, value_name = "HZ", default_value = "48000", value_parser = rate)]
    rate: Rate,
    /// Time to listen, or to send in each pacing mode
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    duration: Span,
    /// Maximum number of packets
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u32).range(10..=10_000_000), hide_short_help = true)]
    packets: u32,
    #[command(flatten)]
    reporting: Reporting,
}

/// `taut lab loop`
#[derive(Debug, Args)]
pub struct LoopFlags {
    /// Address of the receiver: rtp://HOST:PORT, or avtp://IF/ADDRESS
    #[arg(long, value_name = "ADDRESS", value_parser = Address::to_relay_to)]
    to: Address,
    /// Pacing mode
    #[arg(long, value_name = "HOW")]
    pacing: PacingMode,
    /// Sample format
    #[arg(long, value_name = "CODING", value_parser = sample_format())]
    format: SampleFormat,
    /// Channels
    #[arg(long, value_name = "N", value_parser = channels)]
    channels: Channels,
    /// Sample rate
    #[arg(long, value_name = "HZ", value_parser = rate)]
    rate: Rate,
    /// Audio time in one packet
    #[arg(long, value_name = "TIME", value_parser = span)]
    ptime: Span,
    /// Maximum number of frames per hand-over
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u32).range(1..=4096))]
    period: u32,
    /// Presentation delay of packets after they are due (AVTP)
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = span)]
    latency: Span,
    /// Priority of the sending thread
    #[arg(long, value_name = "CLASS")]
    scheduler: Scheduler,
    /// Duration
    #[arg(long, value_name = "TIME", value_parser = span)]
    duration: Span,
    /// Output file with the due time and hand-over time of each packet
    #[arg(long, value_name = "FILE.csv")]
    packet_log: PathBuf,
}

fn interfaces(text: &str) -> Result<[String; 2], String> {
    let mut names = text.split(',').map(str::to_owned);
    let first = names.next().filter(|name| !name.is_empty());
    let second = names.next().or(first.clone()).filter(|name| !name.is_empty());
    match (first, second, names.next()) {
        (Some(first), Some(second), None) => Ok([first, second]),
        _ => Err(format!("invalid interfaces '{text}': must be one or two, such as veth0,veth1")),
    }
}

/// Packet rate for the socket's buffer: packets of 125 µs.
const PACKETS_PER_SECOND: u32 = 8000;

pub(crate) fn run(flags: &IntervalFlags) -> Result<(), Failure> {
    if flags.pacing_modes {
        return by_rungs(flags);
    }
    let answer = match flags.listen {
        Some(_) => Answer::open(&flags.reporting)?,
        None => Answer::of_file(&flags.reporting)?,
    };
    let report = match (&flags.packet_log, &flags.pcap, &flags.listen) {
        (Some(path), _, _) => {
            let bytes = std::fs::read(path).map_err(|error| unread(path, &error))?;
            // A file that is not text is reported as lacking packet log columns.
            of_ledger(&path.display().to_string(), &String::from_utf8_lossy(&bytes), flags.rate)
        }
        (_, Some(path), _) => {
            let file = File::open(path).map_err(|error| unread(path, &error))?;
            of_capture(file, flags.rate)
        }
        (_, _, Some(address)) => received(flags, address, &answer)?,
        _ => {
            return Err(Failure::usage(
                "give one of --packet-log, --pcap, --listen and --pacing-modes",
            ));
        }
    };
    answer.give(report)
}

fn by_rungs(flags: &IntervalFlags) -> Result<(), Failure> {
    let plan = LabStream {
        rate: flags.rate.hertz(),
        ptime: flags.ptime,
        period: flags.period,
        latency: flags.latency,
        duration: flags.duration,
        wire: flags.avtp.clone().map_or(LabWire::Rtp, LabWire::Avtp),
        at: flags.far.at,
        ..LabStream::default()
    };
    let mut modes =
        if flags.pacing.is_empty() { PacingMode::ALL.to_vec() } else { flags.pacing.clone() };
    modes.sort_unstable_by_key(|mode| core::cmp::Reverse(*mode));
    run_streams(
        Answer::open(&flags.reporting)?,
        ("interval", &flags.far),
        |_| None,
        |ends, cases, answer| {
            climb(ends, cases, &plan, &modes, answer);
            cases.unanswered = nothing_of(&modes, &cases.report);
        },
    )
}

fn nothing_of(modes: &[PacingMode], report: &LabReport) -> Option<String> {
    let whys = modes.iter().map(|mode| {
        let row = report.rows.iter().find(|row| row.name == mode.name());
        row.map_or(Some("stopped before it was sent"), |row| row.invalid.as_deref())
    });
    let whys = whys.collect::<Option<Vec<_>>>()?;
    whys.first().map(|why| (*why).to_owned())
}

pub(crate) fn unread(path: &Path, error: &std::io::Error) -> Failure {
    Failure::open(format!("cannot read {}: {error}\nhint: check the path", path.display()))
}

fn received(
    flags: &IntervalFlags,
    address: &Address,
    answer: &Answer,
) -> Result<LabReport, Failure> {
    let resolved = address.resolve()?;
    let socket = match resolved.place {
        StreamPlace::Udp { media, .. } => Socket::udp(&UdpOptions {
            interface: address.interface.clone(),
            sources: address.sources.clone(),
            packets_per_second: PACKETS_PER_SECOND,
            ..UdpOptions::receiver(media)
        })?,
        StreamPlace::Ethernet(place) => Socket::ethernet(&ethernet_receiver(&place))?,
        StreamPlace::Tcp(_) => {
            let why = format!("{address} is TCP, which does not preserve packets");
            return Err(Failure::usage(format!("{why}\nhint: capture it and use --pcap FILE")));
        }
    };
    answer.notify(&format!("listening at {address} for {}", flags.duration));
    Ok(listen(socket, flags, &answer.stop))
}

pub(crate) fn send(flags: &LoopFlags) -> Result<(), Failure> {
    let stop = stop_with_agent()?;
    let sample = flags.format;
    let format = StreamFormat {
        codec: None,
        rate: flags.rate,
        channels: flags.channels,
        sample,
        packet: packet_frames(flags.rate, flags.ptime)
            .map_err(|e| Failure::usage(e.to_string()))?,
        payload_type: StreamFormat::default_payload_type(sample),
    };
    let sent = bare::send(flags, format, &stop).map_err(Failure::open)?;
    std::fs::write(&flags.packet_log, sent.ledger())
        .map_err(|error| Failure::running(format!("{}: {error}", flags.packet_log.display())))?;
    let pacing = serde_json::json!({ "lead_ns": sent.lead.as_nanos() });
    let report = serde_json::json!({ "streams": [{ "pacing": pacing }] });
    screen::print(&format!("{report}\n"));
    Ok(())
}

const MAX_FLOWS: usize = 32;

fn report() -> LabReport {
    let mut report = LabReport::asking("interval");
    report.hosts.push(HostDescription::here("here"));
    report
}

pub fn of_ledger(name: &str, text: &str, rate: Rate) -> LabReport {
    let mut report = report();
    match figures::read_ledger(name, text) {
        Ok(ledger) => report.rows = figures::of_ledger(&ledger, rate),
        Err(why) => report.rows.push(ReportRow::invalid("packet log", why)),
    }
    report
}

/// RTP timestamps count frames at `rate`.
pub fn of_capture(file: impl Read + Send, rate: Rate) -> LabReport {
    let mut report = report();
    let ReadCapture { flows, ended, notes } = read_capture(file);
    report.notes = notes;
    let few = notify(&mut report, flows.streams(rate));
    match (report.rows.is_empty(), ended) {
        (false, ended) => report.notes.splice(0..0, ended).for_each(drop),
        (true, Some(why)) => report.rows.push(ReportRow::invalid("capture", why)),
        (true, None) => report.rows.push(ReportRow::invalid("capture", nothing(few))),
    }
    report
}

fn nothing(few: usize) -> String {
    match few {
        0 => "it has no RTP and no AVTP\nhint: capture the interface that carries the stream, such as \
              tcpdump -i eth0 -w FILE 'udp or ether proto 0x22f0'"
            .to_owned(),
        few => format!(
            "too few packets: {few} look like RTP or AVTP, and a stream needs {MIN}\nhint: capture for \
             longer"
        ),
    }
}

/// Returns the RTP-like datagrams of senders that sent too few.
fn notify(report: &mut LabReport, sorted: SortedFlows) -> usize {
    let SortedFlows { streams: flows, strange, few } = sorted;
    if strange > 0 {
        report.notes.push(format!(
            "{strange} datagrams belong to no stream: their sequence numbers do not increase"
        ));
    }
    if few > 0 && !flows.is_empty() {
        report.notes.push(format!(
            "{few} packets that look like RTP or AVTP are left out: fewer than {MIN} per stream"
        ));
    }
    if let Some(more) = flows.len().checked_sub(MAX_FLOWS).filter(|more| *more > 0) {
        report.notes.push(format!("{more} more streams, of fewer packets each, are left out"));
    }
    for flow in flows.iter().take(MAX_FLOWS) {
        report.rows.extend(figures::of_flow(flow));
        report.notes.extend(figures::doubt(flow));
    }
    few
}
