//! Writes compound packets in place: `rtcp-types` allocates.

use super::app::{
    ANNOUNCEMENT, CAPTURE, CAPTURE_BYTES, EFFECTIVE, FEEDBACK, KEPT, KEPT_BYTES, LOSSES,
    LossReport, NAME, PASSED, PROBE, capture_to_bytes, kept_to_bytes,
};
use super::{
    Announcement, CNAME_ITEM, DELAYS_BLOCK, DelaySince, Effective, MAX_BLOCKS, NtpTime,
    REFERENCE_TIME_BLOCK, ReportBlock, SenderInfo, packet_type,
};
use crate::clock::DisciplinedClock;
use crate::congestion::PathFeedback;
use crate::device::CaptureFaults;

/// Well within the 16-bit length.
const MAX_DELAYS: usize = 1024;

/// SR or RR, SDES and further packets (RFC 3550 §6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtcpReport<'a> {
    /// Reporter.
    pub ssrc: u32,
    /// Sender information: makes it an SR.
    pub sender: Option<SenderInfo>,
    /// Received streams, at most 31.
    pub blocks: &'a [ReportBlock],
    /// Canonical name (RFC 7022), at most 255 bytes.
    pub cname: &'a str,
    /// Reporter's clock, to request a response.
    pub reference_time: Option<NtpTime>,
    /// Responses, at most 1024.
    pub delays: &'a [DelaySince],
    /// The stream's announcement.
    pub announcement: Option<Announcement>,
    /// Achieved latency.
    pub effective: Option<Effective>,
    /// Losses.
    pub losses: Option<LossReport>,
    /// Faults of the sender's device.
    pub capture: Option<CaptureFaults>,
    /// The reporter's clock against UTC, if disciplined.
    pub kept: Option<DisciplinedClock>,
    /// Whether the reporter leaves.
    pub bye: bool,
}

/// Error of writing. The buffer is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// Buffer too small.
    #[error("a report of {needed} bytes exceeds the buffer of {room}; report in two datagrams")]
    Room {
        /// Report bytes.
        needed: usize,
        /// Buffer bytes.
        room: usize,
    },
    /// Too many report blocks.
    #[error("{0} streams do not fit one report; report on 31 at a time")]
    Blocks(usize),
    /// Too many responses.
    #[error("{0} answers do not fit one report; answer 1024 at a time")]
    Delays(usize),
    /// Canonical name too long.
    #[error("a canonical name of {0} bytes does not fit; use 255 or fewer")]
    Cname(usize),
}

impl RtcpReport<'_> {
    /// Creates an empty receiver report.
    pub const fn new(ssrc: u32) -> Self {
        Self {
            ssrc,
            sender: None,
            blocks: &[],
            cname: "",
            reference_time: None,
            delays: &[],
            announcement: None,
            effective: None,
            losses: None,
            capture: None,
            kept: None,
            bye: false,
        }
    }

    /// Writes into `buffer`. Returns the length.
    pub fn write(&self, buffer: &mut [u8]) -> Result<usize, ReportError> {
        self.check(buffer.len())?;
        let mut out = Out { buffer, at: 0 };
        self.write_report(&mut out);
        self.write_description(&mut out);
        self.write_extended(&mut out);
        if let Some(announcement) = self.announcement {
            self.write_app(&mut out, ANNOUNCEMENT, &announcement.to_bytes());
        }
        if let Some(effective) = self.effective {
            self.write_app(&mut out, EFFECTIVE, &effective.to_bytes());
        }
        if let Some(losses) = self.losses {
            self.write_app(&mut out, LOSSES, &losses.to_bytes());
        }
        if let Some(faults) = self.capture {
            self.write_app(&mut out, CAPTURE, &capture_to_bytes(faults));
        }
        if let Some(kept) = self.kept {
            self.write_app(&mut out, KEPT, &kept_to_bytes(kept));
        }
        if self.bye {
            out.packet(1, packet_type::BYE, 8);
            out.u32(self.ssrc);
        }
        Ok(out.at)
    }

    fn check(&self, room: usize) -> Result<(), ReportError> {
        if self.blocks.len() > MAX_BLOCKS {
            return Err(ReportError::Blocks(self.blocks.len()));
        }
        if self.delays.len() > MAX_DELAYS {
            return Err(ReportError::Delays(self.delays.len()));
        }
        if self.cname.len() > usize::from(u8::MAX) {
            return Err(ReportError::Cname(self.cname.len()));
        }
        let app = |present, bytes| if present { 12 + bytes } else { 0 };
        let needed = self.report_bytes()
            + self.description_bytes()
            + self.extended_bytes()
            + app(self.announcement.is_some(), Announcement::BYTES)
            + app(self.effective.is_some(), Effective::BYTES)
            + app(self.losses.is_some(), LossReport::BYTES)
            + app(self.capture.is_some(), CAPTURE_BYTES)
            + app(self.kept.is_some(), KEPT_BYTES)
            + if self.bye { 8 } else { 0 };
        if needed > room { Err(ReportError::Room { needed, room }) } else { Ok(()) }
    }

    const fn report_bytes(&self) -> usize {
        8 + if self.sender.is_some() { 20 } else { 0 } + 24 * self.blocks.len()
    }

    /// RFC 3550 §6.5.
    const fn description_bytes(&self) -> usize {
        8 + (2 + self.cname.len() + 1).next_multiple_of(4)
    }

    const fn extended_bytes(&self) -> usize {
        let reference = if self.reference_time.is_some() { 12 } else { 0 };
        let delays = if self.delays.is_empty() { 0 } else { 4 + 12 * self.delays.len() };
        if reference + delays == 0 { 0 } else { 8 + reference + delays }
    }

    fn write_report(&self, out: &mut Out<'_>) {
        let kind = match self.sender {
            Some(_) => packet_type::SENDER_REPORT,
            None => packet_type::RECEIVER_REPORT,
        };
        out.packet(self.blocks.len() as u8, kind, self.report_bytes());
        out.u32(self.ssrc);
        if let Some(info) = self.sender {
            out.u64(info.ntp.to_bits());
            out.u32(info.rtp_timestamp);
            out.u32(info.packets);
            out.u32(info.octets);
        }
        for block in self.blocks {
            let lost = block.cumulative_lost.clamp(-(1 << 23), (1 << 23) - 1) as u32 & 0xFF_FFFF;
            out.u32(block.ssrc);
            out.u32(u32::from(block.fraction_lost) << 24 | lost);
            out.u32(block.highest_sequence);
            out.u32(block.jitter);
            out.u32(block.last_report.to_bits());
            out.u32(block.delay.to_bits());
        }
    }

    fn write_description(&self, out: &mut Out<'_>) {
        let end = out.at + self.description_bytes();
        out.packet(1, packet_type::DESCRIPTION, self.description_bytes());
        out.u32(self.ssrc);
        out.bytes(&[CNAME_ITEM, self.cname.len() as u8]);
        out.bytes(self.cname.as_bytes());
        out.zeros_until(end);
    }

    fn write_extended(&self, out: &mut Out<'_>) {
        if self.extended_bytes() == 0 {
            return;
        }
        out.packet(0, packet_type::EXTENDED, self.extended_bytes());
        out.u32(self.ssrc);
        if let Some(time) = self.reference_time {
            out.bytes(&[REFERENCE_TIME_BLOCK, 0, 0, 2]);
            out.u64(time.to_bits());
        }
        if !self.delays.is_empty() {
            out.bytes(&[DELAYS_BLOCK, 0]);
            out.bytes(&(3 * self.delays.len() as u16).to_be_bytes());
        }
        for delay in self.delays {
            out.u32(delay.ssrc);
            out.u32(delay.last_reference.to_bits());
            out.u32(delay.delay.to_bits());
        }
    }

    fn write_app(&self, out: &mut Out<'_>, subtype: u8, data: &[u8]) {
        out.app(self.ssrc, subtype, data);
    }
}

/// Writes path feedback alone (RFC 5506), since a congested path has little room. Returns the
/// length, or `None` without room.
pub fn write_feedback(ssrc: u32, feedback: PathFeedback, buffer: &mut [u8]) -> Option<usize> {
    if buffer.len() < 12 + PathFeedback::BYTES {
        return None;
    }
    let mut out = Out { buffer, at: 0 };
    out.app(ssrc, FEEDBACK, &feedback.to_bytes());
    Some(out.at)
}

/// Writes a path probe of `bytes`, in whole words. Returns the length, or `None` without room.
pub fn write_probe(ssrc: u32, (name, bytes): (u32, usize), buffer: &mut [u8]) -> Option<usize> {
    let length = bytes.clamp(16, buffer.len().max(16)) & !3;
    let datagram = buffer.get_mut(..length)?;
    let mut out = Out { buffer: datagram, at: 0 };
    out.packet(PROBE, packet_type::APPLICATION, length);
    out.u32(ssrc);
    out.bytes(NAME.as_bytes());
    out.u32(name);
    out.zeros_until(length);
    Some(length)
}

/// Writes the answer to a probe. Returns the length, or `None` without room.
pub fn write_passed(ssrc: u32, (stream, name): (u32, u32), buffer: &mut [u8]) -> Option<usize> {
    let mut data = [0; 8];
    data[..4].copy_from_slice(&stream.to_be_bytes());
    data[4..].copy_from_slice(&name.to_be_bytes());
    if buffer.len() < 12 + data.len() {
        return None;
    }
    let mut out = Out { buffer, at: 0 };
    out.app(ssrc, PASSED, &data);
    Some(out.at)
}

/// [`RtcpReport::check`] ensures room.
pub(super) struct Out<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

impl<'a> Out<'a> {
    pub(super) const fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, at: 0 }
    }

    /// Writes one APP packet and returns its length.
    pub(super) fn whole_app(mut self, ssrc: u32, subtype: u8, data: &[u8]) -> usize {
        self.app(ssrc, subtype, data);
        self.at
    }
}

impl Out<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.buffer[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    fn zeros_until(&mut self, end: usize) {
        self.buffer[self.at..end].fill(0);
        self.at = end;
    }

    fn app(&mut self, ssrc: u32, subtype: u8, data: &[u8]) {
        self.packet(subtype, packet_type::APPLICATION, 12 + data.len());
        self.u32(ssrc);
        self.bytes(NAME.as_bytes());
        self.bytes(data);
    }

    /// RFC 3550 §6.4.1.
    fn packet(&mut self, count: u8, kind: u8, len: usize) {
        self.bytes(&[2 << 6 | count, kind]);
        self.bytes(&((len / 4 - 1) as u16).to_be_bytes());
    }
}
