//! How long a packet takes from the kernel's arrival to the program: to a thread that waits for it in
//! `recvmmsg`, and by the direct link to a device's thread, which looks once a period and for which
//! it therefore waits.
//!
//! A paced thread sends over loopback, so that no network card and none of its interrupts are in it;
//! the kernel's stamp is taken in the sender's own call. Sender and receiver run on one core and on two.
//! Or a program at another host sends, and what comes has come by an interface: both stamps are taken
//! here, so that nothing need be known of that host's clock.

mod case;
mod far;
mod figures;
mod receivers;
mod sender;
#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;
use std::thread::JoinHandle;

use tautline_io::clock::now;
use tautline_io::thread::Scheduler;
use tautline_proto::device::Stop;
use tautline_proto::time::Span;

use crate::kept::{lock_memory, spawn_on};
use crate::report::{HostDescription, LabReport, ReportRow};
use crate::schedule::OpenSchedule;

use case::{CaseSender, KernelCase};
pub use far::measure_from;
use receivers::{KernelReceiver, Log};
use sender::KernelSender;
pub use sender::{PacketRun, SentPackets};

pub const QUESTION: &str = "how long does a packet take from the kernel to the program?";

/// How it is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelOptions {
    /// Of the packets of each case.
    pub packets: Vec<PacketShape>,
    /// The most of each case.
    pub most: usize,
    /// The longest that each case takes.
    pub duration: Span,
    /// Of the device that the direct link is read for.
    pub period: Span,
    /// The core of the receiver, and that of the sender where it is another.
    pub cores: Vec<usize>,
    /// Of the receiver. The sender runs below, as what stands for the network is to keep nobody waiting.
    pub scheduler: Scheduler,
}

/// Packets of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketShape {
    /// From one to the next.
    pub ptime: Span,
    /// Bytes of sound in each.
    pub payload: usize,
}

/// Before the payload, as RTP has it (RFC 3550 §5.1).
const HEADER: usize = 12;
/// The largest UDP payload over IPv4 (RFC 768, RFC 791).
const LARGEST: usize = 65_507;

impl KernelOptions {
    /// Packets of one case.
    pub fn count(&self, packets: PacketShape) -> usize {
        let within = self.duration.as_nanos() / packets.ptime.as_nanos().max(1);
        self.most.min(within.max(0) as usize)
    }
}

/// How a packet is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By a thread that waits for it.
    Blocked,
    /// By the direct link, once a period of a device.
    Direct,
}

/// What is asked, without an answer yet.
pub fn empty() -> LabReport {
    LabReport::of("kernel", QUESTION)
}

/// Measures every case in turn, each a row.
pub fn measure(options: &KernelOptions, stop: &Stop, tell: &mut dyn FnMut(&str)) -> LabReport {
    let mut report = empty();
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
                tell(&format!("{}: {} packets", case.name(), case.count));
                report.rows.push(
                    run(options, &case, stop)
                        .unwrap_or_else(|why| ReportRow::void(case.name(), why)),
                );
            }
        }
    }
    report.notes.extend(figures::growth(&report.rows, &senders));
    report.notes.push(
        "over loopback: what a network card, its interrupt and its moderation take is not in it"
            .to_owned(),
    );
    report
}

/// Threads are all there when the schedule begins.
const AHEAD: Span = Span::from_millis(20);

fn run(options: &KernelOptions, case: &KernelCase, stop: &Stop) -> Result<ReportRow, String> {
    let ptime = case.packets.ptime;
    check(options, case)?;
    let here = *options.cores.first().ok_or(NO_CORE)?;
    let there = match case.sender {
        CaseSender::OneCore => here,
        _ => *options
            .cores
            .get(1)
            .ok_or("there is one core; give two, such as --cpus 0,1, on a machine that has them")?,
    };
    let over = stop.part();
    let begins = now() + AHEAD;
    let schedule = OpenSchedule::new(begins, ptime, begins + ptime.times(case.count as i64));
    let at = Ipv4Addr::LOCALHOST.into();
    let receiver = KernelReceiver::open(case, begins, over.clone(), at)?;
    let sender = KernelSender::open(&case.sent(), schedule, receiver.local())?;
    let hears = receiver.start(here, options.scheduler)?;
    let asked = stop.clone();
    let sends =
        spawn_on(there, "taut-sends", options.scheduler.one_below(), move || sender.run(&asked));
    let sent = sends.map(joined);
    // What is under way comes within the receiver's patience.
    over.request();
    let heard = joined(hears);
    let (sent, Some(Log { heard, error })) = (sent?.ok_or("the sender was not started")?, heard)
    else {
        return Err("the receiver was not started".to_owned());
    };
    answered(error)?;
    figures::row(case, &sent, &heard)
}

/// No core is this program's.
const NO_CORE: &str = "no core is left to this program";

/// Whether the case can be run at all.
fn check(options: &KernelOptions, case: &KernelCase) -> Result<(), String> {
    let PacketShape { ptime, payload } = case.packets;
    if case.count == 0 {
        return Err(format!("no packet of {ptime} fits in {}; use --duration", options.duration));
    }
    if payload + HEADER > LARGEST {
        return Err(format!(
            "{payload} bytes of sound do not fit a datagram; use a shorter --ptime"
        ));
    }
    Ok(())
}

/// What the system answered the receiver, if it was an error.
fn answered(errno: i32) -> Result<(), String> {
    match errno {
        0 => Ok(()),
        errno => Err(format!(
            "the receiver was answered {}; look at the kernel's log (dmesg)",
            std::io::Error::from_raw_os_error(errno)
        )),
    }
}

fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
