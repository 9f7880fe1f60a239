//! A bare loop in the place of `taut send`: a thread that sleeps until packets are to be handed over and hands them to
//! the kernel, with launch times where the rung has them. It is what a rung cannot be better than here.

use core::fmt::Write;
use std::net::SocketAddr;

use tautline_engine::plan::LinkKind;
use tautline_engine::plan::pacing::{Paced, PacingRung, pace};
use tautline_engine::plan::sockets::LinkOptions;
use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::memory::prefault;
use tautline_io::thread::{Scheduler, spawn};
use tautline_io::udp::UdpOptions;
use tautline_io::udp::bare::BareUdp;
use tautline_proto::device::Stop;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::wire::rtp::{
    HEADER_BYTES, Header, NtpTime, STAMPED_HEADER_BYTES, SenderStamps,
};

use crate::kept::lock_memory;

/// Its thread is there when the first packet is due.
const AHEAD: Span = Span::from_millis(20);
/// The form and the length of header extensions (RFC 8285 §4.2), which are padding where they are zeros.
const EXTENSION_HEAD: usize = 4;

/// What is sent, and how.
#[derive(Debug, Clone, Copy)]
pub struct BareLoop {
    /// What spaces its packets.
    pub rung: PacingRung,
    /// Of its packets, which hold silence.
    pub format: StreamFormat,
    /// Frames whose packets may be handed over at once.
    pub period: Frames,
    /// For how long.
    pub duration: Span,
    /// Of its thread.
    pub scheduler: Scheduler,
}

/// What it sent.
#[derive(Debug, Clone)]
pub struct BareDepartures {
    /// How long after it is due a packet is launched, or handed over where it is not launched.
    pub lead: Span,
    /// Frames in a packet.
    packet: u32,
    /// Of each packet when it was due, and when it was handed over.
    handed: Vec<(LocalTime, LocalTime)>,
}

impl BareDepartures {
    /// As `taut send --ledger` has it, as far as it is known.
    pub fn ledger(&self) -> String {
        let mut text = "rtp_timestamp,capture,taken,packed,due,handed\n".to_owned();
        for (number, (due, handed)) in self.handed.iter().enumerate() {
            let timestamp = (number as u32).wrapping_mul(self.packet);
            let [due, handed] = [due, handed].map(|at| at.as_nanos());
            let _ = writeln!(text, "{timestamp},{due},{due},{due},{due},{handed}");
        }
        text
    }
}

impl BareLoop {
    /// Sends it there, on a thread of its own, to its end or until it is asked to stop.
    pub fn send(self, to: SocketAddr, stop: &Stop) -> Result<BareDepartures, String> {
        let mut link = LinkOptions::Udp(Box::new(UdpOptions::sender(vec![to])));
        let asked = (LinkKind::Ringed, Some(self.rung));
        let shape = (&self.format, self.period);
        let paced = pace(&mut link, asked, shape, (Span::MAX, self.scheduler))
            .map_err(|error| error.to_string())?;
        let LinkOptions::Udp(options) = link else { return Err(format!("{to} is none of UDP")) };
        let socket = BareUdp::open(&options, to).map_err(|error| error.to_string())?;
        let (lead, packet) = (paced.lead(), self.format.packet.count() as u32);
        lock_memory();
        let asked = stop.clone();
        let (thread, granted) =
            spawn("taut-loop", self.scheduler, 0, move || self.run(&paced, socket, &asked))
                .map_err(|error| format!("its thread could not be started: {error}"))?;
        let handed = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match granted.is_granted() {
            true => Ok(BareDepartures { lead, packet, handed }),
            false => Err(format!("its thread ran as {granted}")),
        }
    }

    /// Each packet's due time and its hand-over.
    fn run(&self, paced: &Paced, mut socket: BareUdp, stop: &Stop) -> Vec<(LocalTime, LocalTime)> {
        let (ptime, hold, lead) = (self.format.ptime(), paced.spacing.lead, paced.lead());
        let count = self.duration.as_nanos() / ptime.as_nanos().max(1);
        let mut handed = vec![(LocalTime::ZERO, LocalTime::ZERO); count.max(0) as usize];
        prefault(&mut handed);
        let mut datagram = self.datagram();
        let begin = now() + AHEAD;
        let due = |number: usize| begin + ptime.times(number as i64);
        let together = paced.spacing.together.min(handed.len()).max(1);
        for (turn, packets) in handed.chunks_mut(together).enumerate() {
            if stop.is_requested() {
                break;
            }
            let first = turn * together;
            sleep_until(due(first) + hold);
            for (number, packet) in (first..).zip(packets) {
                let timestamp = (number as u32).wrapping_mul(self.format.packet.count() as u32);
                datagram[2..4].copy_from_slice(&(number as u16).to_be_bytes());
                datagram[4..8].copy_from_slice(&timestamp.to_be_bytes());
                *packet = (due(number), now());
                socket.send(&datagram, due(number) + lead);
            }
        }
        handed
    }

    /// As long as those of `taut send`, which say when their sound was captured. Nothing stands there, as a receiver
    /// would go by it.
    fn datagram(&self) -> Vec<u8> {
        let mut datagram = vec![0; STAMPED_HEADER_BYTES + self.format.payload_bytes()];
        let stamps = SenderStamps { capture: NtpTime::from_bits(0), instants: None };
        let header = Header {
            sequence: 0,
            timestamp: 0,
            ssrc: fastrand::u32(..),
            marker: false,
            payload_type: self.format.payload_type,
            stamps: Some(stamps),
        };
        let bytes = header.write(&mut datagram);
        datagram[HEADER_BYTES + EXTENSION_HEAD..bytes].fill(0);
        datagram
    }
}
