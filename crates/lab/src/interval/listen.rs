//! Packets arriving at a socket, with kernel timestamps.

use tautline_io::clock::{now, sleep_until};
use tautline_io::ethernet::EthernetOptions;
use tautline_io::link::direct::DirectLink;
use tautline_io::link::{Datagram, Link, LinkCounters, OpenError};
use tautline_io::udp::UdpOptions;
use tautline_io::udp::blocked::BlockedUdp;
use tautline_proto::device::Stop;
use tautline_proto::time::Span;
use tautline_proto::wire::avtp::Encapsulation;

use super::flows::{Flows, StreamPacket, avtp, packet_of_datagram};
use super::{IntervalFlags, notify, report};
use crate::kept::lock_memory;
use crate::report::{LabReport, ReportRow};

/// Timeout of a read. It does not affect the kernel's timestamps.
const TIMEOUT: Span = Span::from_millis(50);
/// Interval of reads. The socket holds a quarter of a second.
const FETCH: Span = Span::from_millis(10);

pub(super) enum Socket {
    Udp(Box<BlockedUdp>),
    Ethernet { link: Box<DirectLink>, interface: String },
}

impl Socket {
    pub(super) fn udp(options: &UdpOptions) -> Result<Self, OpenError> {
        Ok(Self::Udp(Box::new(BlockedUdp::open(options, TIMEOUT)?)))
    }

    pub(super) fn ethernet(options: &EthernetOptions) -> Result<Self, OpenError> {
        let link = Box::new(DirectLink::open_ethernet(options)?);
        Ok(Self::Ethernet { link, interface: options.interface.clone() })
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>)) -> std::io::Result<()> {
        match self {
            Self::Udp(socket) => socket.receive(deliver).map(drop),
            Self::Ethernet { link, .. } => {
                sleep_until(now() + FETCH);
                link.receive(deliver);
                Ok(())
            }
        }
    }

    fn counters(&self) -> LinkCounters {
        match self {
            Self::Udp(socket) => socket.counters(),
            Self::Ethernet { link, .. } => link.counters(),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Udp(socket) => socket.local().to_string(),
            Self::Ethernet { interface, .. } => interface.clone(),
        }
    }
}

fn packet_of(datagram: &Datagram<'_>) -> Option<StreamPacket> {
    match datagram.arrival.from.socket_address() {
        Some(from) => packet_of_datagram(datagram.bytes, from, None),
        None => avtp(Encapsulation::Ethernet, datagram.bytes, None),
    }
}

/// Receives until `duration` after the first packet, or a stop.
pub(super) fn listen(mut socket: Socket, flags: &IntervalFlags, stop: &Stop) -> LabReport {
    let maximum = flags.packets as usize;
    let mut report = report();
    report.notes.extend(lock_memory());
    let mut flows = Flows::with_room(maximum);
    let (mut overflowed, mut first) = (0_u64, None);
    let begun = now();
    while !stop.is_requested() && now() < first.unwrap_or(begun) + flags.duration {
        let received = socket.receive(&mut |datagram| {
            let Some(packet) = packet_of(&datagram) else { return };
            first.get_or_insert(datagram.arrival.at);
            if flows.len() < maximum {
                flows.doubt(datagram.arrival.uncertainty);
                flows.see(datagram.arrival.at, &packet);
            } else {
                overflowed += 1;
            }
        });
        if let Err(error) = received {
            let reported = format!("cannot read the socket: {error}; repeat the measurement");
            report.notes.push(reported);
            break;
        }
    }
    let counters = socket.counters();
    notify(&mut report, flows.streams(flags.rate));
    for (count, what) in [
        (
            counters.kernel_drops,
            "packets did not fit in the socket's buffer; this host is too busy",
        ),
        (counters.unstamped, "packets had no kernel timestamp; their read time is used"),
        (overflowed, "packets did not fit in the log; use a shorter --duration"),
    ] {
        if count > 0 {
            report.notes.push(format!("{count} {what}"));
        }
    }
    if report.rows.is_empty() {
        report.rows.push(ReportRow::invalid(
            socket.name(),
            "no RTP or AVTP stream arrived\nhint: start the sender first, and check the address and the \
             firewall (taut doctor)",
        ));
    }
    report
}
