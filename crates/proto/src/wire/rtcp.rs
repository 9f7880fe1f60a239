//! RTCP (RFC 3550 §6, RFC 3611, RFC 5506).
//!
//! [`RtcpReport`] is written into the caller's buffer; [`Compound`] is a validated datagram, whose
//! values a visitor receives. Neither allocates.

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

mod packet_type {
    pub(super) const SENDER_REPORT: u8 = 200;
    pub(super) const RECEIVER_REPORT: u8 = 201;
    pub(super) const DESCRIPTION: u8 = 202;
    pub(super) const BYE: u8 = 203;
    pub(super) const APPLICATION: u8 = 204;
    pub(super) const EXTENDED: u8 = 207;
}

/// Block type: receiver reference time (RFC 3611 §4.4).
const REFERENCE_TIME_BLOCK: u8 = 4;
/// Block type: delay since the last receiver reference time (RFC 3611 §4.5).
const DELAYS_BLOCK: u8 = 5;
/// Item type: canonical name (RFC 3550 §6.5.1).
const CNAME_ITEM: u8 = 1;
/// Maximum report blocks per packet: the count has five bits (RFC 3550 §6.4.1).
const MAX_BLOCKS: usize = 31;

/// Sender information (RFC 3550 §6.4.1): one instant on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderInfo {
    /// Instant on the sender's clock.
    pub ntp: NtpTime,
    /// Same instant as an RTP timestamp.
    pub rtp_timestamp: u32,
    /// Packets sent so far, wrapping.
    pub packets: u32,
    /// Payload bytes sent so far, wrapping.
    pub octets: u32,
}

/// Report block of a received stream (RFC 3550 §6.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportBlock {
    /// SSRC of the stream.
    pub ssrc: u32,
    /// Packets lost since the last report, in 1/256 of those expected.
    pub fraction_lost: u8,
    /// Packets lost since the start, negative with duplicates. Clamped to 24 bits on the wire.
    pub cumulative_lost: i32,
    /// Highest sequence number received, with the number of wraps in the upper half.
    pub highest_sequence: u32,
    /// Interarrival jitter, in frames.
    pub jitter: u32,
    /// Compact [`SenderInfo::ntp`] of the stream's last report.
    pub last_report: CompactNtp,
    /// Time since that report arrived.
    pub delay: CompactSpan,
}

/// Response to a receiver's reference time (RFC 3611 §4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelaySince {
    /// SSRC of the receiver addressed.
    pub ssrc: u32,
    /// Its last reference time, compact.
    pub last_reference: CompactNtp,
    /// Time since that reference time arrived.
    pub delay: CompactSpan,
}

/// A value in a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'a> {
    /// Sender information.
    Sender(SenderInfo),
    /// Report block of a received stream.
    Block(ReportBlock),
    /// Reporter's clock when this was sent (RFC 3611 §4.4).
    ReferenceTime(NtpTime),
    /// Response to a reference time.
    Delay(DelaySince),
    /// Reporter's canonical name (RFC 3550 §6.5.1).
    Cname(&'a str),
    /// Reporter's stream and announced latency.
    Announcement(Announcement),
    /// Latency that the reporter achieves.
    Effective(Effective),
    /// Losses of a stream at the reporter.
    Losses(LossReport),
    /// Reporter's measurements of the path.
    Feedback(PathFeedback),
    /// Answer to a probe: the stream and the name of the probe.
    Passed(u32, u32),
    /// Relation of the reporter's clock to UTC.
    Kept(DisciplinedClock),
    /// The reporter leaves.
    Bye,
}
