//! What arrives at a socket now, by the kernel's stamps.

use std::net::SocketAddr;

use tautline_io::clock::now;
use tautline_io::link::OpenError;
use tautline_io::udp::UdpOptions;
use tautline_io::udp::blocked::BlockedUdp;
use tautline_proto::device::Stop;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::Rate;

use super::flows::{FlowName, Flows};
use super::headers::{Rtp, rtp};
use super::{report, tell};
use crate::kept::lock_memory;
use crate::report::{LabReport, ReportRow};

/// How it is listened.
#[derive(Debug, Clone)]
pub struct ListenOptions {
    /// Where.
    pub udp: UdpOptions,
    /// From the first packet on, and no longer if none comes.
    pub duration: Span,
    /// Of the streams' media clocks.
    pub rate: Rate,
    /// Packets that are kept.
    pub most: usize,
}

/// A look at whether it is over, while nothing comes.
const PATIENCE: Span = Span::from_millis(50);

/// One datagram that was RTP.
#[derive(Clone, Copy)]
struct Noted {
    at: LocalTime,
    uncertainty: Span,
    from: Option<SocketAddr>,
    rtp: Rtp,
}

/// An open socket that is listened at.
pub struct IntervalListener {
    socket: BlockedUdp,
    options: ListenOptions,
}

impl IntervalListener {
    /// Opens it: from now on what arrives is kept by the kernel.
    pub fn open(options: ListenOptions) -> Result<Self, OpenError> {
        Ok(Self { socket: BlockedUdp::open(&options.udp, PATIENCE)?, options })
    }

    /// Listens on the calling thread until the time is over, counted from the first packet, or it is
    /// asked to stop.
    pub fn listen(self, stop: &Stop) -> LabReport {
        listen(self, stop)
    }
}

/// Nothing is decided before the end but what is RTP.
fn listen(listener: IntervalListener, stop: &Stop) -> LabReport {
    let IntervalListener { mut socket, options } = listener;
    let mut report = report();
    report.notes.extend(lock_memory());
    let mut noted: Vec<Noted> = Vec::with_capacity(options.most);
    let (mut unkept, mut first) = (0_u64, None);
    let begun = now();
    while !stop.is_requested() && now() < first.unwrap_or(begun) + options.duration {
        let received = socket.receive(&mut |arrival| {
            let Some(rtp) = rtp(arrival.datagram) else { return };
            first.get_or_insert(arrival.arrival);
            let (at, uncertainty) = (arrival.arrival, arrival.stamp_uncertainty);
            let from = arrival.source.socket_address();
            if noted.len() < noted.capacity() {
                noted.push(Noted { at, uncertainty, from, rtp });
            } else {
                unkept += 1;
            }
        });
        if let Err(error) = received {
            let told = format!("the socket could not be read any more: {error}; run it again");
            report.notes.push(told);
            break;
        }
    }
    let counters = socket.counters();
    let mut flows = Flows::default();
    for Noted { at, uncertainty, from, rtp } in noted {
        let Some(from) = from else { continue };
        flows.doubt(uncertainty);
        flows.see(FlowName { ssrc: rtp.ssrc, from, to: None }, at, &rtp);
    }
    tell(&mut report, flows, options.rate);
    for (count, what) in [
        (
            counters.kernel_drops,
            "packets found no room in the socket's buffer; this host is too busy",
        ),
        (counters.unstamped, "packets had no stamp of the kernel, and count when they were read"),
        (unkept, "packets found no room in the log; use a shorter --duration"),
    ] {
        if count > 0 {
            report.notes.push(format!("{count} {what}"));
        }
    }
    if report.rows.is_empty() {
        report.rows.push(ReportRow::void(
            socket.local().to_string(),
            "no RTP stream came; start the sender first, and see that a firewall lets it through \
             (taut doctor)",
        ));
    }
    report
}
