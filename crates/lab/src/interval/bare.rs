//! A bare loop instead of `taut send`: the best a pacing mode can do here.

use core::fmt::Write;

use tautline_engine::plan::LinkKind;
use tautline_engine::plan::address::StreamPlace;
use tautline_engine::plan::lay::{batch, identity};
use tautline_engine::plan::pacing::{Paced, pace};
use tautline_engine::plan::sockets::{self, LinkOptions, ethernet_sender};
use tautline_io::bare::BareSocket;
use tautline_io::clock::{WallClock, now, sleep_until};
use tautline_io::thread::memory::prefault;
use tautline_io::thread::spawn;
use tautline_io::udp::UdpOptions;
use tautline_proto::device::Stop;
use tautline_proto::packet::{PackedSound, PacketHead, StreamId};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span, WallTime};
use tautline_proto::wire::WireForm;
use tautline_proto::wire::avtp::{self, format_of};
use tautline_proto::wire::rtp::{
    HEADER_BYTES, Header, NtpTime, STAMPED_HEADER_BYTES, SenderStamps,
};
use tautline_proto::wrap::Wrapped;

use super::LoopFlags;
use crate::kept::{lock_memory, refusal};

const AHEAD: Span = Span::from_millis(20);
/// Profile and length (RFC 8285 §4.2); zeros after them are padding.
const EXTENSION_HEAD: usize = 4;

#[derive(Debug, Clone)]
pub(super) struct BareDepartures {
    /// Time from due time to launch or hand-over.
    pub lead: Span,
    launches: bool,
    packet: u32,
    handed: Vec<(LocalTime, LocalTime)>,
}

impl BareDepartures {
    pub(super) fn ledger(&self) -> String {
        let mut text = "rtp_timestamp,capture,taken,packed,due,handed,launched\n".to_owned();
        for (number, (due, handed)) in self.handed.iter().enumerate() {
            let timestamp = (number as u32).wrapping_mul(self.packet);
            let launched = if self.launches { (*due + self.lead).max(*handed) } else { *handed };
            let [due, handed, launched] = [*due, *handed, launched].map(LocalTime::as_nanos);
            let _ = writeln!(text, "{timestamp},{due},{due},{due},{due},{handed},{launched}");
        }
        text
    }
}

#[derive(Debug, Clone, Copy)]
enum BarePackets {
    Rtp,
    /// The packet is presented `presented` after it is due, on the sender's monotonic clock.
    Aaf {
        stream: StreamId,
        presented: Span,
    },
}

pub(super) fn send(
    flags: &LoopFlags,
    format: StreamFormat,
    stop: &Stop,
) -> Result<BareDepartures, String> {
    let LoopFlags { to, scheduler, duration, latency, .. } = flags;
    let period = Frames::new(flags.period.into());
    let resolved = to.resolve().map_err(|error| error.to_string())?;
    let (mut link, packets) = match &resolved.place {
        StreamPlace::Udp { media, .. } if resolved.form == WireForm::Rtp => {
            let mut udp = UdpOptions::sender(vec![*media]);
            sockets::set(&mut udp, core::slice::from_ref(to), core::slice::from_ref(&resolved))
                .map_err(|error| error.to_string())?;
            (LinkOptions::Udp(Box::new(udp)), BarePackets::Rtp)
        }
        StreamPlace::Tcp(_) => {
            return Err(format!(
                "unsupported address {to}: the loop uses no connections\nhint: use avtp:// or rtp://"
            ));
        }
        StreamPlace::Udp { .. } => {
            return Err(format!(
                "unsupported address {to}: the loop does not send AVTP over UDP\nhint: use avtp:// or \
                 rtp://"
            ));
        }
        StreamPlace::Ethernet(place) => {
            let own = identity(core::slice::from_ref(&resolved));
            let stream = own.map_err(|error| error.to_string())?.stream;
            let presented = *latency + WallClock::tai().offset();
            let at_once = batch(period, format.packet);
            let link = ethernet_sender(place, &format, at_once);
            (LinkOptions::Ethernet(link), BarePackets::Aaf { stream, presented })
        }
    };
    let requested = (LinkKind::Threaded, Some(flags.pacing));
    let paced = pace(&mut link, requested, (&format, period), (Span::MAX, *scheduler))
        .map_err(|error| error.to_string())?;
    let socket = match &link {
        LinkOptions::Udp(options) => BareSocket::open(options),
        LinkOptions::Tcp(link) => {
            return Err(format!(
                "unsupported address {}: the loop uses no connections\nhint: use rtp://",
                link.place
            ));
        }
        LinkOptions::Ethernet(options) => BareSocket::open_ethernet(options),
    };
    let socket = socket.map_err(|error| error.to_string())?;
    let (lead, packet) = (paced.lead(), format.packet.count() as u32);
    let launches = paced.launch.is_some();
    lock_memory();
    let requested = stop.clone();
    let duration = *duration;
    let run = move || run((&format, duration), &paced, (socket, packets), &requested);
    let (thread, granted) = spawn("taut-loop", *scheduler, 0, run)
        .map_err(|error| format!("cannot start its thread: {error}"))?;
    let handed = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    match granted.is_granted() {
        true => Ok(BareDepartures { lead, launches, packet, handed }),
        false => Err(format!("its thread ran as {}", refusal(granted))),
    }
}

fn run(
    (format, duration): (&StreamFormat, Span),
    paced: &Paced,
    (mut socket, packets): (BareSocket, BarePackets),
    stop: &Stop,
) -> Vec<(LocalTime, LocalTime)> {
    let (ptime, hold, lead) = (format.ptime(), paced.spacing.lead, paced.lead());
    let count = duration.as_nanos() / ptime.as_nanos().max(1);
    let mut handed = vec![(LocalTime::ZERO, LocalTime::ZERO); count.max(0) as usize];
    prefault(&mut handed);
    let mut datagram = packets.datagram(format);
    let begin = now() + AHEAD;
    let due = |number: usize| begin + ptime.times(number as i64);
    let together = paced.spacing.together.min(handed.len()).max(1);
    let mut sent = handed.len();
    for (turn, chunk) in handed.chunks_mut(together).enumerate() {
        let first = turn * together;
        if stop.is_requested() {
            sent = first;
            break;
        }
        sleep_until(due(first) + hold);
        for (number, packet) in (first..).zip(chunk) {
            packets.number(&mut datagram, format, (number, due(number)));
            *packet = (due(number), now());
            socket.send(&datagram, due(number) + lead);
        }
    }
    handed.truncate(sent);
    handed
}

impl BarePackets {
    /// A packet as long as `taut send`'s packets, with silence, and zeros for the capture time.
    fn datagram(self, format: &StreamFormat) -> Vec<u8> {
        let Self::Rtp = self else {
            return vec![0; avtp::HEADER_BYTES + format.payload_bytes()];
        };
        let mut datagram = vec![0; STAMPED_HEADER_BYTES + format.payload_bytes()];
        let stamps = SenderStamps { capture: NtpTime::from_bits(0), instants: None };
        let header = Header {
            sequence: 0,
            timestamp: 0,
            ssrc: fastrand::u32(..),
            marker: false,
            payload_type: format.payload_type,
            stamps: Some(stamps),
        };
        let bytes = header.write(&mut datagram);
        datagram[HEADER_BYTES + EXTENSION_HEAD..bytes].fill(0);
        datagram
    }

    fn number(self, datagram: &mut [u8], format: &StreamFormat, (number, due): (usize, LocalTime)) {
        let media = (number as u32).wrapping_mul(format.packet.count() as u32);
        match self {
            Self::Rtp => {
                datagram[2..4].copy_from_slice(&(number as u16).to_be_bytes());
                datagram[4..8].copy_from_slice(&media.to_be_bytes());
            }
            Self::Aaf { stream, presented } => {
                let head = PacketHead {
                    stream,
                    number: Wrapped::of(number as i64, avtp::ETHERNET_PACK.number_bits()),
                    media: Wrapped { value: media, bits: 32 },
                    begins: false,
                    coding: format_of(format.sample),
                    capture: None,
                    instants: None,
                };
                let at = (due + presented).as_nanos();
                let sound = PackedSound {
                    presentation: WallTime::from_unix_nanos(at),
                    ..PackedSound::of(format, format.payload_bytes())
                };
                avtp::ETHERNET_PACK.pack(&head, &sound, &[], datagram);
            }
        }
    }
}
