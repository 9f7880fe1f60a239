//! Reads datagrams.
//!
//! The SDES reader of `rtcp-types` allocates, and its XR delay reader rejects two sub-blocks. Both
//! are read here instead.

use rtcp_types::prelude::*;
use rtcp_types::{App, Bye, ReceiverReport, SenderReport};

use super::app::{
    ANNOUNCEMENT, CAPTURE, EFFECTIVE, FEEDBACK, KEPT, LOSSES, LossReport, NAME, PASSED, PROBE,
    capture_from_bytes, kept_from_bytes,
};
use super::claim::{CLAIM, claim_from_bytes};
use super::{
    Announcement, CNAME_ITEM, CompactNtp, CompactSpan, DELAYS_BLOCK, DelaySince, Effective, Item,
    NtpTime, REFERENCE_TIME_BLOCK, ReportBlock, SenderInfo, packet_type,
};

use crate::congestion::PathFeedback;

const HEADER_BYTES: usize = 4;

/// Reason why a datagram is not RTCP (RFC 3550 A.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidReport {
    /// Empty datagram.
    #[error("the datagram is empty")]
    Empty,
    /// Not version 2.
    #[error("unknown RTCP version {0}; is another protocol sent to this UDP port?")]
    Version(u8),
    /// First type outside 192 to 223 (RFC 5761 §4).
    #[error("unknown RTCP packet type {0}; is audio sent to the RTCP UDP port?")]
    PacketType(u8),
    /// Packet beyond the datagram.
    #[error("a packet of {claimed} bytes exceeds the {left} bytes left in the datagram")]
    Beyond {
        /// Its length.
        claimed: usize,
        /// Bytes left in the datagram.
        left: usize,
    },
    /// Misplaced padding.
    #[error("misplaced padding of {0} bytes")]
    Padding(u8),
    /// Contents beyond the packet.
    #[error("the contents of a packet of type {0} exceed the packet")]
    Contents(u8),
}

/// SSRC of the first packet (RFC 3550 §6.4).
pub fn author_of(datagram: &[u8]) -> Option<u32> {
    Compound::parse(datagram).ok()?;
    let ssrc = datagram.get(HEADER_BYTES..2 * HEADER_BYTES)?;
    ssrc.try_into().ok().map(u32::from_be_bytes)
}

/// Source and name of a path probe ([`write_probe`](super::write_probe)). Its zeros are optional.
pub fn probe_of(datagram: &[u8]) -> Option<(u32, u32)> {
    let is_probe = datagram.first_chunk() == Some(&[2 << 6 | PROBE, packet_type::APPLICATION])
        && datagram.get(8..12) == Some(NAME.as_bytes());
    is_probe.then(|| Some((word(datagram, 4)?, word(datagram, 12)?))).flatten()
}

impl InvalidReport {
    /// Number of reasons.
    pub const COUNT: usize = 6;
    /// Names by [`InvalidReport::index`].
    pub const NAMES: [&'static str; Self::COUNT] =
        ["empty", "version", "packet-type", "beyond", "padding", "contents"];

    /// Index into arrays of [`InvalidReport::COUNT`].
    pub const fn index(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Version(_) => 1,
            Self::PacketType(_) => 2,
            Self::Beyond { .. } => 3,
            Self::Padding(_) => 4,
            Self::Contents(_) => 5,
        }
    }

    /// Name for reports and scripts.
    pub const fn name(&self) -> &'static str {
        Self::NAMES[self.index()]
    }
}

/// Validated RTCP packets. The first need not be a report (RFC 5506).
#[derive(Debug, Clone, Copy)]
pub struct Compound<'a> {
    datagram: &'a [u8],
}

impl<'a> Compound<'a> {
    /// Validates all lengths.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, InvalidReport> {
        walk(datagram, &mut |_, _| ())?;
        Ok(Self { datagram })
    }

    /// Passes each reporter's SSRC and value to `visitor`.
    pub fn visit(&self, mut visitor: impl FnMut(u32, Item<'a>)) {
        // Already validated.
        let _whole = walk(self.datagram, &mut visitor);
    }
}

type Visitor<'v, 'a> = &'v mut dyn FnMut(u32, Item<'a>);

fn walk<'a>(mut left: &'a [u8], visitor: Visitor<'_, 'a>) -> Result<(), InvalidReport> {
    if left.is_empty() {
        return Err(InvalidReport::Empty);
    }
    if let Some(&kind) = left.get(1).filter(|&kind| !(192..=223).contains(kind)) {
        return Err(InvalidReport::PacketType(kind));
    }
    while !left.is_empty() {
        let (packet, rest) = split_packet(left)?;
        let padding = padding_of(packet, rest.is_empty())?;
        read_packet(packet, &packet[HEADER_BYTES..packet.len() - padding], visitor)
            .ok_or(InvalidReport::Contents(packet[1]))?;
        left = rest;
    }
    Ok(())
}

fn split_packet(left: &[u8]) -> Result<(&[u8], &[u8]), InvalidReport> {
    let beyond = |claimed| InvalidReport::Beyond { claimed, left: left.len() };
    let (head, _) = left.split_first_chunk::<HEADER_BYTES>().ok_or(beyond(HEADER_BYTES))?;
    if head[0] >> 6 != 2 {
        return Err(InvalidReport::Version(head[0] >> 6));
    }
    let claimed = 4 * (usize::from(u16::from_be_bytes([head[2], head[3]])) + 1);
    left.split_at_checked(claimed).ok_or(beyond(claimed))
}

/// Only in the last packet (RFC 3550 §6.4.1).
fn padding_of(packet: &[u8], is_last: bool) -> Result<usize, InvalidReport> {
    if packet[0] & 0x20 == 0 {
        return Ok(0);
    }
    let padding = packet[packet.len() - 1];
    let fits = padding > 0
        && padding.is_multiple_of(4)
        && usize::from(padding) <= packet.len() - HEADER_BYTES;
    if is_last && fits { Ok(padding.into()) } else { Err(InvalidReport::Padding(padding)) }
}

/// `body` excludes header and padding.
fn read_packet<'a>(packet: &'a [u8], body: &'a [u8], visitor: Visitor<'_, 'a>) -> Option<()> {
    let count = usize::from(packet[0] & 0x1F);
    match packet[1] {
        packet_type::SENDER_REPORT => read_sender_report(packet, visitor),
        packet_type::RECEIVER_REPORT => {
            let report = ReceiverReport::parse(packet).ok()?;
            report.report_blocks().for_each(|block| {
                visitor(report.ssrc(), Item::Block(block_of(&block)));
            });
            Some(())
        }
        packet_type::DESCRIPTION => read_description(body, count, visitor),
        packet_type::BYE => {
            Bye::parse(packet).ok()?.ssrcs().for_each(|ssrc| visitor(ssrc, Item::Bye));
            Some(())
        }
        packet_type::APPLICATION => read_app(packet, body, visitor),
        packet_type::EXTENDED => read_extended(body, visitor),
        _ => Some(()),
    }
}

fn read_sender_report<'a>(packet: &'a [u8], visitor: Visitor<'_, 'a>) -> Option<()> {
    let report = SenderReport::parse(packet).ok()?;
    let info = SenderInfo {
        ntp: NtpTime::from_bits(report.ntp_timestamp()),
        rtp_timestamp: report.rtp_timestamp(),
        packets: report.packet_count(),
        octets: report.octet_count(),
    };
    visitor(report.ssrc(), Item::Sender(info));
    for block in report.report_blocks() {
        visitor(report.ssrc(), Item::Block(block_of(&block)));
    }
    Some(())
}

fn block_of(block: &rtcp_types::ReportBlock<'_>) -> ReportBlock {
    ReportBlock {
        ssrc: block.ssrc(),
        fraction_lost: block.fraction_lost(),
        // The shift extends the sign.
        cumulative_lost: (block.cumulative_lost() << 8) as i32 >> 8,
        highest_sequence: block.extended_sequence_number(),
        jitter: block.interarrival_jitter(),
        last_report: CompactNtp::from_bits(block.last_sender_report_timestamp()),
        delay: CompactSpan::from_bits(block.delay_since_last_sender_report_timestamp()),
    }
}

fn read_description<'a>(body: &'a [u8], count: usize, visitor: Visitor<'_, 'a>) -> Option<()> {
    let mut at = 0;
    for _ in 0..count {
        let ssrc = word(body, at)?;
        at += 4;
        while *body.get(at)? != 0 {
            let len = usize::from(*body.get(at + 1)?);
            let text = body.get(at + 2..at + 2 + len)?;
            if body[at] == CNAME_ITEM
                && let Ok(name) = core::str::from_utf8(text)
            {
                visitor(ssrc, Item::Cname(name));
            }
            at += 2 + len;
        }
        at = (at + 1).next_multiple_of(4);
    }
    Some(())
}

fn read_app<'a>(packet: &'a [u8], body: &'a [u8], visitor: Visitor<'_, 'a>) -> Option<()> {
    let app = App::parse(packet).ok()?;
    // `App::data` does not validate padding.
    let data = body.get(8..)?;
    if app.name() != NAME.as_bytes() {
        return Some(());
    }
    let item = match app.subtype() {
        ANNOUNCEMENT => Announcement::from_bytes(data).map(Item::Announcement),
        EFFECTIVE => Effective::from_bytes(data).map(Item::Effective),
        LOSSES => LossReport::from_bytes(data).map(Item::Losses),
        KEPT => kept_from_bytes(data).map(Item::Kept),
        CAPTURE => capture_from_bytes(data).map(Item::Capture),
        FEEDBACK => PathFeedback::from_bytes(data).map(Item::Feedback),
        PASSED => word(data, 0).zip(word(data, 4)).map(|(ssrc, bytes)| Item::Passed(ssrc, bytes)),
        CLAIM => claim_from_bytes(data)?.map(|(claim, targets)| Item::Claim(claim, targets)),
        _ => None,
    };
    item.into_iter().for_each(|item| visitor(app.ssrc(), item));
    Some(())
}

/// RFC 3611 §3.
fn read_extended<'a>(body: &'a [u8], visitor: Visitor<'_, 'a>) -> Option<()> {
    let ssrc = word(body, 0)?;
    let mut left = &body[4..];
    while !left.is_empty() {
        let (&[kind, _, high, low], rest) = left.split_first_chunk()?;
        let (block, rest) =
            rest.split_at_checked(4 * usize::from(u16::from_be_bytes([high, low])))?;
        match kind {
            REFERENCE_TIME_BLOCK => {
                let (bits, _) = block.split_first_chunk()?;
                let time = NtpTime::from_bits(u64::from_be_bytes(*bits));
                visitor(ssrc, Item::ReferenceTime(time));
            }
            DELAYS_BLOCK => read_delays(block, &mut |delay| visitor(ssrc, Item::Delay(delay))),
            _ => (),
        }
        left = rest;
    }
    Some(())
}

fn read_delays(block: &[u8], notify: &mut dyn FnMut(DelaySince)) {
    for sub in block.chunks_exact(12) {
        let field = |at| word(sub, at).unwrap_or_default();
        notify(DelaySince {
            ssrc: field(0),
            last_reference: CompactNtp::from_bits(field(4)),
            delay: CompactSpan::from_bits(field(8)),
        });
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}
