//! Time from the kernel's arrival timestamp to the program: for a thread in `recvmmsg`, and for the
//! direct link, polled once per period.
//!
//! A paced thread sends over loopback: without a network card, the sender's call takes the
//! timestamp. A remote host may send instead; its clock does not matter.

mod case;
mod far;
mod figures;
mod receivers;
mod sender;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tautline_dsp::format::SampleFormat;
use tautline_io::clock::now;
use tautline_io::thread::Scheduler;
use tautline_io::thread::affinity::usable_cores;
use tautline_proto::device::Stop;
use tautline_proto::time::Span;
use tautline_proto::units::{Channels, Rate};
use tautline_ui::failure::Failure;
use tautline_ui::readers::{channels, rate, span};

use crate::answer::{Answer, Reporting, check_room, print_json};
use crate::hosts::HostPlace;
use crate::kept::{lock_memory, spawn_on};
use crate::report::{HostDescription, LabReport, ReportRow};
use crate::runner::here_and_at;
use crate::schedule::OpenSchedule;
use crate::signals::stop_with_agent;
use case::{CaseSender, KernelCase};
pub use far::measure_from;
use receivers::{KernelReceiver, Log};
use sender::KernelSender;
pub use sender::{PacketRun, SentPackets};

const SHORT_HELP: &str = r#"Examples:
  taut lab kernel
  taut lab kernel --with ssh:studio --ptime 1ms

All options and details: taut lab kernel --help"#;

const HELP: &str = r#"Packets of 1, 5 and 20ms, to a blocked thread and via the direct link, on one
core and on two; 12 rows of 10s:
  taut lab kernel
  # 50000 packets of one length, 250s a row:
  taut lab kernel --ptime 5ms --packets 50000 --cpus 0,1
  # Packets from another machine, via the network card:
  taut lab kernel --with ssh:studio --ptime 1ms

From the kernel's arrival timestamp to the program, over loopback, or via the
interface that packets of another host arrive at; that host's clock does not
matter. A blocked thread waits in the call that reads. A device's thread polls
the direct link once a period; the time that packets wait for this is reported
separately from the thread's wake-up lateness. Payloads of 1ms are 192 bytes of
L16 stereo."#;

/// `taut lab kernel`
#[derive(Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = HELP)]
pub struct KernelFlags {
    /// Packet time; repeatable [default: 1ms, 5ms and 20ms]
    #[arg(long, value_name = "TIME", value_parser = span)]
    ptime: Vec<Span>,
    /// Packets per row [default: as many as fit in --duration, up to 50000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    packets: Option<u32>,
    /// Maximum time per row [default: 10s, or unlimited with --packets]
    ///
    /// Each --ptime has four rows, or two with --with.
    #[arg(long, value_name = "TIME", value_parser = span)]
    duration: Option<Span>,
    /// Sample format
    #[arg(long, value_name = "CODING", default_value = "l16", value_parser = sample_format(), help_heading = "Packets")]
    format: SampleFormat,
    /// Sample rate
    #[arg(long, value_name = "HZ", default_value = "48000", value_parser = rate,
          help_heading = "Packets", hide_short_help = true)]
    rate: Rate,
    /// Channels
    #[arg(long, value_name = "N", default_value = "2", value_parser = channels,
          help_heading = "Packets", hide_short_help = true)]
    channels: Channels,
    /// Polling interval of the direct link
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = span,
          help_heading = "Threads")]
    period: Span,
    /// Cores of receiver and sender, such as 0,1 [default: the first two]
    #[arg(long, value_name = "CORES", value_delimiter = ',', help_heading = "Threads")]
    cpus: Vec<usize>,
    /// Priority of the receiver; the sender's is one lower
    #[arg(long, value_name = "CLASS", default_value = "fifo:70", help_heading = "Threads")]
    scheduler: Scheduler,
    /// Sending host: local, netns:NAME or ssh:HOST [default: this program]
    ///
    /// The host must have the same version of `taut`.
    #[arg(long, value_name = "PLACE", help_heading = "Hosts")]
    with: Option<HostPlace>,
    /// Address of this machine to send to [default: detected]
    #[arg(
        long,
        value_name = "IP",
        requires = "with",
        help_heading = "Hosts",
        hide_short_help = true
    )]
    at: Option<IpAddr>,
    #[command(flatten)]
    reporting: Reporting,
}

/// `taut lab packets`
#[derive(Debug, Args)]
pub struct PacketsFlags {
    /// Address of the receiver
    #[arg(long, value_name = "IP:PORT")]
    to: SocketAddr,
    /// Packet interval
    #[arg(long, value_name = "TIME", value_parser = span)]
    ptime: Span,
    /// Bytes of sound per packet
    #[arg(long, value_name = "BYTES")]
    payload: usize,
    /// Number of packets
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    count: u32,
    /// Number that identifies the run
    #[arg(long, value_name = "N")]
    run: u32,
    /// Priority of the sending thread
    #[arg(long, value_name = "CLASS")]
    scheduler: Scheduler,
}

/// Sjöberg and Hammarström, Lund 2020, section 2.2.4.
const PTIMES: [Span; 3] = [Span::from_millis(1), Span::from_millis(5), Span::from_millis(20)];
const PACKETS: u32 = 50_000;
const SHORT: Span = Span::from_secs(10);

pub(crate) fn sample_format() -> impl TypedValueParser<Value = SampleFormat> {
    let says = |format| match format {
        SampleFormat::L16 => "16-bit integers",
        SampleFormat::L24 => "24-bit integers",
        SampleFormat::L32 => "32-bit integers with the 24 bits of a float",
        SampleFormat::F32 => "32-bit floats",
    };
    let known =
        SampleFormat::ALL.map(|format| PossibleValue::new(format.name()).help(says(format)));
    PossibleValuesParser::new(known).try_map(|name| {
        let mut all = SampleFormat::ALL.into_iter();
        all.find(|format| format.name() == name).ok_or("not a sample format")
    })
}

pub(crate) fn run(flags: &KernelFlags) -> Result<(), Failure> {
    let ptimes = if flags.ptime.is_empty() { PTIMES.to_vec() } else { flags.ptime.clone() };
    let frame = flags.format.bytes() * flags.channels.count();
    let shape = |ptime: Span| {
        let frames = flags.rate.frames_within(ptime).count();
        if frames == 0 {
            return Err(Failure::usage(format!(
                "--ptime {ptime} is shorter than a frame at {}\nhint: use for example 1ms",
                flags.rate
            )));
        }
        Ok(PacketShape { ptime, payload: (frames as usize).saturating_mul(frame) })
    };
    let longest = ptimes.iter().copied().max().unwrap_or(Span::ZERO);
    let options = KernelOptions {
        packets: ptimes.into_iter().map(shape).collect::<Result<_, _>>()?,
        maximum: flags.packets.unwrap_or(PACKETS) as usize,
        duration: flags.duration.unwrap_or(match flags.packets {
            Some(packets) => {
                Span::from_nanos(longest.as_nanos().saturating_mul(i64::from(packets)))
            }
            None => SHORT,
        }),
        period: flags.period,
        cores: if flags.cpus.is_empty() { usable_cores() } else { flags.cpus.clone() },
        scheduler: flags.scheduler,
    };
    options.packets.iter().try_for_each(|packets| check_room(options.count(*packets)))?;
    let answer = Answer::open(&flags.reporting)?;
    let Some(with) = &flags.with else {
        let report = measure(&options, &answer.stop, &mut |case| answer.notify(case));
        return answer.give(report);
    };
    match here_and_at(with, &answer.stop) {
        Ok((mut here, mut far)) => {
            let mut notify = |case: &str| answer.notify(case);
            let (at, stop) = (flags.at, &answer.stop);
            let report = measure_from(&options, &mut far, &mut here, at, stop, &mut notify);
            answer.give(report)
        }
        Err((place, error)) => answer.unusable("kernel", place, error),
    }
}

pub(crate) fn send(flags: &PacketsFlags) -> Result<(), Failure> {
    let stop = stop_with_agent()?;
    let packets = PacketShape { ptime: flags.ptime, payload: flags.payload };
    let run = PacketRun { packets, count: flags.count as usize, run: flags.run };
    let sent = run.send(flags.to, flags.scheduler, &stop).map_err(Failure::open)?;
    print_json(&sent)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelOptions {
    pub packets: Vec<PacketShape>,
    pub maximum: usize,
    pub duration: Span,
    pub period: Span,
    pub cores: Vec<usize>,
    /// The sender has a lower priority, so it does not delay the receiver.
    pub scheduler: Scheduler,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketShape {
    pub ptime: Span,
    pub payload: usize,
}

/// As in RTP (RFC 3550 §5.1).
const HEADER: usize = 12;
/// UDP over IPv4 (RFC 768, RFC 791).
const LARGEST: usize = 65_507;

impl KernelOptions {
    pub fn count(&self, packets: PacketShape) -> usize {
        let within = self.duration.as_nanos() / packets.ptime.as_nanos().max(1);
        self.maximum.min(within.max(0) as usize)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Blocked,
    Direct,
}

pub fn measure(options: &KernelOptions, stop: &Stop, notify: &mut dyn FnMut(&str)) -> LabReport {
    let mut report = LabReport::asking("kernel");
    report.hosts.push(HostDescription::here("here"));
    report.notes.extend(lock_memory());
    let senders = [CaseSender::OneCore, CaseSender::TwoCores];
    for &packets in &options.packets {
        for way in [Way::Blocked, Way::Direct] {
            for sender in &senders {
                if stop.is_requested() {
                    return report;
                }
                let case = KernelCase::of(options, packets, way, sender.clone());
                notify(&format!("{}: {} packets", case.name(), case.count));
                report.rows.push(
                    run_case(options, &case, stop)
                        .unwrap_or_else(|why| ReportRow::invalid(case.name(), why)),
                );
            }
        }
    }
    report.notes.extend(figures::growth(&report.rows, &senders));
    report.notes.push(
        "over loopback: excludes the network card, its interrupt and its interrupt moderation"
            .to_owned(),
    );
    report
}

const AHEAD: Span = Span::from_millis(20);

fn run_case(options: &KernelOptions, case: &KernelCase, stop: &Stop) -> Result<ReportRow, String> {
    let ptime = case.packets.ptime;
    check(options, case)?;
    let here = *options.cores.first().ok_or(NO_CORE)?;
    let there = match case.sender {
        CaseSender::OneCore => here,
        _ => *options
            .cores
            .get(1)
            .ok_or("only one core is available, but two are needed, such as --cpus 0,1")?,
    };
    let over = stop.part();
    let begins = now() + AHEAD;
    let schedule = OpenSchedule::new(begins, ptime, begins + ptime.times(case.count as i64));
    let at = Ipv4Addr::LOCALHOST.into();
    let receiver = KernelReceiver::open(case, begins, over.clone(), at)?;
    let sender = KernelSender::open(&case.sent(), schedule, receiver.local())?;
    let handles = receiver.start(here, options.scheduler)?;
    let requested = stop.clone();
    let sends = spawn_on(there, "taut-sends", options.scheduler.one_below(), move || {
        sender.run(&requested)
    });
    let sent = sends.map(joined);
    // Packets in flight arrive within the timeout.
    over.request();
    let received = joined(handles);
    let (sent, Some(Log { received, error })) =
        (sent?.ok_or("the sender was not started")?, received)
    else {
        return Err("the receiver was not started".to_owned());
    };
    answered(error)?;
    figures::row(case, &sent, &received)
}

const NO_CORE: &str = "this program may use no core";

fn check(options: &KernelOptions, case: &KernelCase) -> Result<(), String> {
    let PacketShape { ptime, payload } = case.packets;
    if case.count == 0 {
        return Err(format!(
            "no packet of {ptime} fits in {}\nhint: use a longer --duration",
            options.duration
        ));
    }
    if payload + HEADER > LARGEST {
        return Err(format!(
            "{payload} bytes of sound do not fit a datagram\nhint: use a shorter --ptime"
        ));
    }
    Ok(())
}

fn answered(errno: i32) -> Result<(), String> {
    match errno {
        0 => Ok(()),
        errno => Err(format!(
            "receive error {}\nhint: see the kernel log (dmesg)",
            std::io::Error::from_raw_os_error(errno)
        )),
    }
}

fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
