//! Writes reports.

use super::{Sending, Session};
use crate::clock::DisciplinedClock;
use crate::device::CaptureFaults;
use crate::time::{LocalTime, Span, WallTime};
use crate::wire::ntp::{CompactNtp, CompactSpan, NtpTime};
use crate::wire::rtcp::{Announcement, DelaySince, ReportBlock, RtcpReport, SenderInfo};

const NO_ANSWER: DelaySince =
    DelaySince { ssrc: 0, last_reference: CompactNtp::NONE, delay: CompactSpan::from_bits(0) };

impl Session {
    /// Writes a report, with a goodbye if `bye`. Returns its length.
    pub(super) fn write(&mut self, now: LocalTime, bye: bool, buffer: &mut [u8]) -> Option<usize> {
        let ntp = self.ntp(now);
        let mut answers = [NO_ANSWER; Self::ANSWERS];
        let count = self.answers(now, &mut answers);
        let block = self.report_block(now);
        let report = RtcpReport {
            ssrc: self.config.ssrc,
            sender: self.sender_info(now, ntp),
            blocks: block.as_slice(),
            cname: &self.config.cname,
            reference_time: Some(ntp),
            delays: &answers[..count],
            announcement: self.sending.map(|sending| Announcement {
                link_offset: sending.link_offset,
                format: sending.format,
                packing_age: sending.packing_age,
                host: self.config.host.map(|host| host.reported(self.config.wall_offset)),
                card: sending.card,
                wants_feedback: sending.wants_feedback,
            }),
            effective: self.receiving.and_then(|receiving| receiving.effective),
            losses: self.receiving.and_then(|receiving| receiving.losses),
            capture: self
                .sending
                .map(|sending| sending.capture)
                .filter(|faults| *faults != CaptureFaults::default()),
            // Relative to the session's clock on the wire.
            kept: self.kept.map(|kept| DisciplinedClock {
                offset: kept.offset - self.config.wall_offset,
                ..kept
            }),
            bye,
        };
        let written = report.write(buffer).ok()?;
        self.requested.rotate_right(1);
        self.requested[0] = (ntp.compact(), now);
        Some(written)
    }

    fn ntp(&self, at: LocalTime) -> NtpTime {
        NtpTime::from_unix_nanos(WallTime::of_local(at, self.config.wall_offset).as_unix_nanos())
    }

    fn sender_info(&self, now: LocalTime, ntp: NtpTime) -> Option<SenderInfo> {
        let Sending { format, timestamp, state, .. } = self.sending?;
        let (media, capture) = state.reference?;
        let media = media + format.rate.frames_nearest(now - capture);
        Some(SenderInfo {
            ntp,
            rtp_timestamp: timestamp.wrapping_add(crate::wrap::rtp_timestamp(media.as_frames())),
            packets: state.packets as u32,
            octets: state.octets as u32,
        })
    }

    fn answers(&self, now: LocalTime, answers: &mut [DelaySince; Self::ANSWERS]) -> usize {
        let fresh = self.peers.iter().filter(|peer| now - peer.received < Self::FORGOTTEN);
        // Peers take turns.
        let skip = if self.peers.len() > Self::ANSWERS {
            self.reports as usize * Self::ANSWERS % self.peers.len()
        } else {
            0
        };
        let requested = fresh.skip(skip).filter_map(|peer| {
            let (last_reference, arrived) = peer.question?;
            let delay = CompactSpan::from_span(now - arrived);
            Some(DelaySince { ssrc: peer.author.ssrc, last_reference, delay })
        });
        answers.iter_mut().zip(requested).map(|(slot, answer)| *slot = answer).count()
    }

    fn report_block(&mut self, now: LocalTime) -> Option<ReportBlock> {
        let receiving = self.receiving?;
        let peer = self.peer(receiving.ssrc)?;
        let (last_report, delay) =
            peer.report.map_or((CompactNtp::NONE, Span::ZERO), |report| (report.0, now - report.1));
        let (expected, received) = (
            receiving.expected.saturating_sub(self.reported.0),
            receiving.received.saturating_sub(self.reported.1),
        );
        self.reported = (receiving.expected, receiving.received);
        // In 1/256 (RFC 3550 A.3).
        let fraction = (expected.saturating_sub(received) << 8).checked_div(expected).unwrap_or(0);
        let cumulative = receiving.expected as i64 - receiving.received as i64;
        Some(ReportBlock {
            ssrc: receiving.ssrc,
            fraction_lost: fraction.min(255) as u8,
            cumulative_lost: cumulative.clamp(-0x80_0000, 0x7F_FFFF) as i32,
            highest_sequence: receiving.highest_sequence,
            jitter: receiving.jitter,
            last_report,
            delay: CompactSpan::from_span(delay),
        })
    }
}
