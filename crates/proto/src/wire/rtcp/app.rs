//! tautline's own messages, in APP packets (RFC 3550 §6.7).

use super::packet_type;
use crate::clock::{ClockId, ClockSource, DisciplinedClock, HostReading};
use crate::codec::Coding;
use crate::device::CaptureFaults;
use crate::latency::LatencyMethod;
use crate::redundancy::sizing::Tally;
use crate::stream::StreamFormat;
use crate::time::{Frames, Span};
use crate::units::{Channels, Rate};

pub(super) const NAME: &str = "taut";
pub(super) const ANNOUNCEMENT: u8 = 0;
pub(super) const EFFECTIVE: u8 = 1;

/// Sender to receivers: the stream and its latency.
///
/// Big-endian: link offset in nanoseconds (64 bits), frames per second (32), channels (16), frames
/// per packet (16), coding (8: [`CodingRow::number`](crate::codec::CodingRow)), payload type (8),
/// zero (15), request for [`PathFeedback`](crate::congestion::PathFeedback) (1), packing age in
/// nanoseconds (64), the host's clock (64), the sender's wall clock minus that, veiled (64), and
/// the card's clock (64). Fields after the zero are optional; unknown clocks are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announcement {
    /// Latency from capture to DAC, not negative.
    pub link_offset: Span,
    /// Stream format; at most 65 535 frames per packet.
    pub format: StreamFormat,
    /// Maximum age of the first frame when sent ([`StreamFormat::packing_age`]).
    pub packing_age: Span,
    /// Host clock that the sender's wall clock follows.
    pub host: Option<HostReading>,
    /// Clock of the capturing card.
    pub card: Option<ClockId>,
    /// Whether the sender requests feedback.
    pub wants_feedback: bool,
}

impl Announcement {
    pub(super) const BYTES: usize = 52;
    const CLOCKS: usize = 28;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let format = self.format;
        let packet = format.packet.as_len().min(usize::from(u16::MAX)) as u16;
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&nanos(self.link_offset));
        bytes[8..12].copy_from_slice(&format.rate.hertz().to_be_bytes());
        bytes[12..14].copy_from_slice(&(format.channels.count() as u16).to_be_bytes());
        bytes[14..16].copy_from_slice(&packet.to_be_bytes());
        bytes[16] = format.coding().row().number;
        bytes[17] = format.payload_type & 0x7F;
        bytes[19] = self.wants_feedback.into();
        bytes[20..28].copy_from_slice(&nanos(self.packing_age));
        if let Some(host) = self.host {
            bytes[28..36].copy_from_slice(&host.id.to_bits().to_be_bytes());
            bytes[36..44].copy_from_slice(&host.veiled.to_be_bytes());
        }
        let card = self.card.map_or(0, ClockId::to_bits);
        bytes[44..].copy_from_slice(&card.to_be_bytes());
        bytes
    }

    /// `None` if too short. Ignores later fields.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (offset, rest) = bytes.split_first_chunk()?;
        let (rate, rest) = rest.split_first_chunk()?;
        let (&[channels_high, channels_low, packet_high, packet_low], rest) =
            rest.split_first_chunk()?;
        let (&[coding, payload_type, _, flags], rest) = rest.split_first_chunk()?;
        let Coding { sample, codec } = Coding::find(|row| row.number == coding)?;
        let packet = u16::from_be_bytes([packet_high, packet_low]);
        let format = StreamFormat {
            rate: Rate::new(u32::from_be_bytes(*rate)).ok()?,
            channels: Channels::new(u16::from_be_bytes([channels_high, channels_low]).into())
                .ok()?,
            sample,
            codec,
            packet: Frames::new(packet.into()),
            payload_type,
        };
        let sane = packet > 0 && payload_type < 128;
        let mut words = rest.as_chunks().0.iter().copied();
        let packing_age = words.next().map_or(format.ptime(), span);
        let mut word = || words.next().map_or(0, u64::from_be_bytes);
        let (host, veiled, card) = (ClockId::from_bits(word()), word(), ClockId::from_bits(word()));
        let host = host.map(|id| HostReading { id, veiled });
        let wants_feedback = flags & 1 > 0;
        let link_offset = span(*offset);
        sane.then_some(Self { link_offset, format, packing_age, host, card, wants_feedback })
    }
}

/// Erases clock names in announcements: two ends on one machine then behave as on two.
pub fn hide_clocks(datagram: &mut [u8]) {
    let mut left = datagram;
    while let Some(&[first, kind, high, low]) = left.first_chunk() {
        let length = 4 * (usize::from(u16::from_be_bytes([high, low])) + 1);
        let Some((packet, rest)) = left.split_at_mut_checked(length) else { return };
        let announces = (kind, first & 0x1F) == (packet_type::APPLICATION, ANNOUNCEMENT)
            && packet.get(8..12) == Some(NAME.as_bytes());
        if let Some(clocks) = packet.get_mut(12 + Announcement::CLOCKS..).filter(|_| announces) {
            clocks.fill(0);
        }
        left = rest;
    }
}

/// Receiver to sender: the achieved latency.
///
/// Big-endian: stream (32 bits), four durations in nanoseconds (64 each), method (32: 1 scheduled,
/// 2 as reported by the device, 3 found in the sound). The last two are optional, and 0 if unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effective {
    /// Stream.
    pub ssrc: u32,
    /// Configured link offset, not negative.
    pub configured: Span,
    /// Latency from capture to DAC; zero if all packets are late.
    pub effective: Span,
    /// Maximum latency error, not negative.
    pub uncertainty: Span,
    /// Sufficient link offset as measured, positive.
    pub needed: Option<Span>,
    /// How the latency is known.
    pub method: Option<LatencyMethod>,
}

impl Effective {
    pub(super) const BYTES: usize = 40;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.ssrc.to_be_bytes());
        bytes[4..12].copy_from_slice(&nanos(self.configured));
        bytes[12..20].copy_from_slice(&nanos(self.effective));
        bytes[20..28].copy_from_slice(&nanos(self.uncertainty));
        bytes[28..36].copy_from_slice(&nanos(self.needed.unwrap_or(Span::ZERO)));
        let method = match self.method {
            None => 0_u32,
            Some(LatencyMethod::Due) => 1,
            Some(LatencyMethod::Device) => 2,
            Some(LatencyMethod::Sound) => 3,
        };
        bytes[36..].copy_from_slice(&method.to_be_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (ssrc, rest) = bytes.split_first_chunk()?;
        let (configured, rest) = rest.split_first_chunk()?;
        let (effective, rest) = rest.split_first_chunk()?;
        let (uncertainty, rest) = rest.split_first_chunk()?;
        let needed = rest.first_chunk().map(|needed| span(*needed));
        let method = rest.get(8..).and_then(<[u8]>::first_chunk).copied().map(u32::from_be_bytes);
        Some(Self {
            ssrc: u32::from_be_bytes(*ssrc),
            configured: span(*configured),
            effective: span(*effective),
            uncertainty: span(*uncertainty),
            needed: needed.filter(|needed| *needed > Span::ZERO),
            method: match method {
                Some(1) => Some(LatencyMethod::Due),
                Some(2) => Some(LatencyMethod::Device),
                Some(3) => Some(LatencyMethod::Sound),
                _ => None,
            },
        })
    }
}

/// Negative spans become zero.
fn nanos(span: Span) -> [u8; 8] {
    span.as_nanos().max(0).to_be_bytes()
}

/// Capped at [`Span::MAX`].
fn span(bytes: [u8; 8]) -> Span {
    i64::try_from(u64::from_be_bytes(bytes)).map_or(Span::MAX, Span::from_nanos)
}

pub(super) const KEPT: u8 = 3;
pub(super) const KEPT_BYTES: usize = 20;

/// Big-endian: UTC minus the reporter's NTP clock in nanoseconds (64 bits, signed), its maximum
/// error (64), the source (8: 1 system, 2 PTP), zero (24).
pub(super) fn kept_to_bytes(kept: DisciplinedClock) -> [u8; KEPT_BYTES] {
    let mut bytes = [0; KEPT_BYTES];
    bytes[..8].copy_from_slice(&kept.offset.as_nanos().to_be_bytes());
    bytes[8..16].copy_from_slice(&kept.uncertainty.as_nanos().max(0).to_be_bytes());
    bytes[16] = if kept.source == ClockSource::Ptp { 2 } else { 1 };
    bytes
}

pub(super) fn kept_from_bytes(bytes: &[u8]) -> Option<DisciplinedClock> {
    let (offset, rest) = bytes.split_first_chunk()?;
    let (uncertainty, rest) = rest.split_first_chunk()?;
    let source = match rest.first()? {
        1 => ClockSource::System,
        2 => ClockSource::Ptp,
        _ => return None,
    };
    let uncertainty = i64::from_be_bytes(*uncertainty);
    (uncertainty >= 0).then_some(DisciplinedClock {
        offset: Span::from_nanos(i64::from_be_bytes(*offset)),
        uncertainty: Span::from_nanos(uncertainty),
        source,
    })
}

pub(super) const FEEDBACK: u8 = 4;

/// Subtype of a path probe: its name (32 bits), and zeros up to the probed length.
pub(super) const PROBE: u8 = 5;
/// Subtype of its answer: stream and name (32 bits each).
pub(super) const PASSED: u8 = 6;

pub(super) const LOSSES: u8 = 2;

/// Receiver to sender: losses since the first packet.
///
/// Big-endian: stream (32 bits), then packet counts (64 each): expected, missing, runs of missing,
/// repaired, lost, lost in outages, late. Older versions omit the last two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LossReport {
    /// Stream.
    pub ssrc: u32,
    /// Losses before repair.
    pub tally: Tally,
    /// Packets repaired in time.
    pub repaired: u64,
    /// Packets neither received nor repaired in time.
    pub lost: u64,
    /// Packets received too late.
    pub late: u64,
}

impl LossReport {
    /// Share of packets lost after `earlier`; `None` if none were due.
    pub(crate) fn share_since(&self, earlier: &Self) -> Option<f64> {
        let Tally { expected, beyond, .. } = self.tally.since(&earlier.tally);
        let due = expected.saturating_add(beyond);
        let lost = self.lost.saturating_sub(earlier.lost).min(due);
        (due > 0).then(|| lost as f64 / due as f64)
    }

    pub(super) const BYTES: usize = 60;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let Tally { expected, missing, runs, beyond } = self.tally;
        bytes[..4].copy_from_slice(&self.ssrc.to_be_bytes());
        let counts = [expected, missing, runs, self.repaired, self.lost, beyond, self.late];
        let places = bytes[4..].as_chunks_mut().0.iter_mut();
        places.zip(counts).for_each(|(place, count)| *place = count.to_be_bytes());
        bytes
    }

    /// `None` if too short. Ignores later fields.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (ssrc, rest) = bytes.split_first_chunk()?;
        let (counts, _) = rest.as_chunks();
        let &[expected, missing, runs, repaired, lost, ref later @ ..] = counts else {
            return None;
        };
        let count = u64::from_be_bytes;
        let later = |place: usize| later.get(place).map_or(0, |bytes| count(*bytes));
        Some(Self {
            ssrc: u32::from_be_bytes(*ssrc),
            tally: Tally {
                expected: count(expected),
                missing: count(missing),
                runs: count(runs),
                beyond: later(0),
            },
            repaired: count(repaired),
            lost: count(lost),
            late: later(1),
        })
    }
}

/// Subtype of the faults of a sender's device, from the first one on.
pub(super) const CAPTURE: u8 = 8;
pub(super) const CAPTURE_BYTES: usize = 16;

/// Big-endian, 64 bits each: xruns, and time replaced by silence in nanoseconds.
pub(super) fn capture_to_bytes(faults: CaptureFaults) -> [u8; CAPTURE_BYTES] {
    let mut bytes = [0; CAPTURE_BYTES];
    bytes[..8].copy_from_slice(&faults.xruns.to_be_bytes());
    bytes[8..].copy_from_slice(&nanos(faults.replaced));
    bytes
}

/// `None` if too short. Ignores later fields.
pub(super) fn capture_from_bytes(bytes: &[u8]) -> Option<CaptureFaults> {
    let (xruns, rest) = bytes.split_first_chunk()?;
    let replaced = span(*rest.first_chunk()?);
    Some(CaptureFaults { xruns: u64::from_be_bytes(*xruns), replaced })
}
