//! RTCP (RFC 3550 §6, RFC 3611, RFC 5506): what two ends tell each other about a stream.
//!
//! [`RtcpReport`] is written into the caller's buffer; [`Compound`] is a datagram found whole, whose
//! values a visitor sees one by one. Neither allocates.

mod app;
mod read;
mod write;

pub use app::LossReport;
pub use app::{Announcement, Effective, hide_clocks};
pub use read::{Compound, InvalidReport, author_of, probe_of};
pub use write::{ReportError, RtcpReport, write_feedback, write_passed, write_probe};

use crate::clock::DisciplinedClock;
use crate::congestion::PathFeedback;

use super::ntp::{CompactNtp, CompactSpan, NtpTime};

/// Packet types (RFC 3550 §12.1, RFC 3611 §2).
mod packet_type {
    pub(super) const SENDER_REPORT: u8 = 200;
    pub(super) const RECEIVER_REPORT: u8 = 201;
    pub(super) const DESCRIPTION: u8 = 202;
    pub(super) const BYE: u8 = 203;
    pub(super) const APPLICATION: u8 = 204;
    pub(super) const EXTENDED: u8 = 207;
}

/// Type of a receiver reference time block (RFC 3611 §4.4).
const REFERENCE_TIME_BLOCK: u8 = 4;
/// Type of a block of delays since the last receiver reference time (RFC 3611 §4.5).
const DELAYS_BLOCK: u8 = 5;
/// Type of the canonical name item (RFC 3550 §6.5.1).
const CNAME_ITEM: u8 = 1;
/// The most report blocks of one packet: the count has five bits (RFC 3550 §6.4.1).
const MOST_BLOCKS: usize = 31;

/// What a sender says of its stream (RFC 3550 §6.4.1): one instant on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderInfo {
    /// The instant on the sender's clock.
    pub ntp: NtpTime,
    /// The same instant as an RTP timestamp of the stream.
    pub rtp_timestamp: u32,
    /// Packets sent so far, wrapping.
    pub packets: u32,
    /// Payload bytes sent so far, wrapping.
    pub octets: u32,
}

/// What a receiver says of one stream it gets (RFC 3550 §6.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportBlock {
    /// The stream.
    pub ssrc: u32,
    /// Packets lost since the last report, in 1/256 of those expected.
    pub fraction_lost: u8,
    /// Packets lost since the start; duplicates can make it negative. 24 bits on the wire, where it
    /// is held at the ends.
    pub cumulative_lost: i32,
    /// Highest sequence number received, with the count of its wraps in the upper half.
    pub highest_sequence: u32,
    /// Interarrival jitter, in frames.
    pub jitter: u32,
    /// [`SenderInfo::ntp`] of the last report from this stream, compact.
    pub last_report: CompactNtp,
    /// Since that report arrived.
    pub delay: CompactSpan,
}

/// The answer to a receiver's reference time (RFC 3611 §4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelaySince {
    /// The receiver that is answered.
    pub ssrc: u32,
    /// Its last reference time, compact.
    pub last_reference: CompactNtp,
    /// Since that reference time arrived.
    pub delay: CompactSpan,
}

/// One value out of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'a> {
    /// The reporter sends a stream.
    Sender(SenderInfo),
    /// The reporter receives a stream.
    Block(ReportBlock),
    /// The reporter's clock when it sent this (RFC 3611 §4.4).
    ReferenceTime(NtpTime),
    /// The reporter answers a reference time.
    Delay(DelaySince),
    /// The reporter's canonical name (RFC 3550 §6.5.1).
    Cname(&'a str),
    /// The reporter's stream and its promise of latency.
    Announcement(Announcement),
    /// The latency that the reporter reaches.
    Effective(Effective),
    /// How much of a stream did not reach the reporter.
    Losses(LossReport),
    /// What the reporter measured of the path.
    Feedback(PathFeedback),
    /// The stream's probe of this name reached the reporter.
    Passed(u32, u32),
    /// How the reporter's clock stands to UTC.
    Kept(DisciplinedClock),
    /// The reporter leaves.
    Bye,
}
