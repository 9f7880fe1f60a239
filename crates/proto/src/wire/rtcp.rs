//! RTCP (RFC 3550 §6, RFC 3611, RFC 5506). Does not allocate.
//!
//! [`RtcpReport`] is written; [`Compound`] is a validated datagram.

mod app;
mod claim;
mod read;
mod write;

pub use app::LossReport;
pub use app::{Announcement, Effective, hide_clocks};
pub use claim::{MAX_CLAIM_BYTES, write_claim};
pub use read::{Compound, InvalidReport, author_of, probe_of};
pub use write::{ReportError, RtcpReport, write_feedback, write_passed, write_probe};

use crate::clock::DisciplinedClock;
use crate::congestion::PathFeedback;
use crate::device::CaptureFaults;
use crate::zone::{Claim, Targets};

use super::ntp::{CompactNtp, CompactSpan, NtpTime};

mod packet_type {
    pub(super) const SENDER_REPORT: u8 = 200;
    pub(super) const RECEIVER_REPORT: u8 = 201;
    pub(super) const DESCRIPTION: u8 = 202;
    pub(super) const BYE: u8 = 203;
    pub(super) const APPLICATION: u8 = 204;
    pub(super) const EXTENDED: u8 = 207;
}

/// RFC 3611 §4.4.
const REFERENCE_TIME_BLOCK: u8 = 4;
/// RFC 3611 §4.5.
const DELAYS_BLOCK: u8 = 5;
/// RFC 3550 §6.5.1.
const CNAME_ITEM: u8 = 1;
/// Five bits (RFC 3550 §6.4.1).
const MAX_BLOCKS: usize = 31;

/// Sender information (RFC 3550 §6.4.1): one instant on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderInfo {
    /// Instant on the sender's clock.
    pub ntp: NtpTime,
    /// Time of the report, as an RTP timestamp.
    pub rtp_timestamp: u32,
    /// Packets sent, wrapping.
    pub packets: u32,
    /// Payload bytes sent, wrapping.
    pub octets: u32,
}

/// Received stream (RFC 3550 §6.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportBlock {
    /// Stream.
    pub ssrc: u32,
    /// Loss since the last report, in 1/256.
    pub fraction_lost: u8,
    /// Packets lost since the start, 24 bits on the wire; negative with duplicates.
    pub cumulative_lost: i32,
    /// Highest sequence number, with wraps in the upper half.
    pub highest_sequence: u32,
    /// Interarrival jitter, in frames.
    pub jitter: u32,
    /// [`SenderInfo::ntp`] of the last report.
    pub last_report: CompactNtp,
    /// Time since that report arrived.
    pub delay: CompactSpan,
}

/// Response to a receiver's reference time (RFC 3611 §4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelaySince {
    /// Receiver addressed.
    pub ssrc: u32,
    /// Reference time of the receiver's last report (LRR).
    pub last_reference: CompactNtp,
    /// Time since that reference time arrived.
    pub delay: CompactSpan,
}

/// Value in a datagram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Item<'a> {
    /// Sender information.
    Sender(SenderInfo),
    /// Report block.
    Block(ReportBlock),
    /// Reporter's clock when sending (RFC 3611 §4.4).
    ReferenceTime(NtpTime),
    /// Response to a reference time.
    Delay(DelaySince),
    /// Canonical name (RFC 3550 §6.5.1).
    Cname(&'a str),
    /// Announced stream.
    Announcement(Announcement),
    /// Achieved latency.
    Effective(Effective),
    /// Losses.
    Losses(LossReport),
    /// Faults of the sender's device.
    Capture(CaptureFaults),
    /// Path measurements.
    Feedback(PathFeedback),
    /// Stream and name of an answered probe.
    Passed(u32, u32),
    /// Claim of an announcement; its stream is the reporter's.
    Claim(Claim, Targets<'a>),
    /// The reporter's clock against UTC.
    Kept(DisciplinedClock),
    /// The reporter leaves.
    Bye,
}
