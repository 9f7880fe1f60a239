use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

use tautline_proto::endpoint::Endpoint;
use tautline_proto::packetizer::Identity;
use tautline_proto::time::{Frames, MediaTime, Span};
use tautline_proto::wrap;

use crate::clock::TrueTime;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderFault {
    /// RTP timestamps jump by this much; sequence numbers continue.
    TimeJumps(Frames),
    /// Sequence numbers jump to this number; timestamps continue.
    SequenceRestarts(u16),
    /// The program restarts without a goodbye.
    Restarts(Identity),
    Lies(Lie, TrueTime),
    Moves(Endpoint),
}

pub fn place(network: u32, number: u8) -> Endpoint {
    let address = Ipv4Addr::new(10, 0, network as u8, number);
    Endpoint::new(SocketAddr::from((address, 5004)), network)
}

/// The stream's source addresses on its first and second network.
pub fn home() -> [Endpoint; 2] {
    [place(1, 1), place(2, 1)]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// The NTP timestamp of the sender report (RFC 3550 §6.4.1) is this much later.
    Report(Span),
    /// The sender's clock is this much ahead, there and in the reference time (RFC 3611 §4.4).
    Clock(Span),
    /// The delay since the last request is this much too long (RFC 3611 §4.5).
    Wait(Span),
}

impl Lie {
    pub(crate) fn notify(self, compound: &mut [u8]) {
        let mut rest = compound;
        while rest.len() >= 8 {
            let length = 4 * (usize::from(u16::from_be_bytes([rest[2], rest[3]])) + 1);
            let (packet, after) = rest.split_at_mut(length.min(rest.len()));
            match (packet[1], self) {
                (SENDER_REPORT, Self::Report(by) | Self::Clock(by)) => {
                    later(&mut packet[8..16], by)
                }
                (EXTENDED, _) => self.write_blocks(&mut packet[8..]),
                _ => {}
            }
            rest = after;
        }
    }

    fn write_blocks(self, blocks: &mut [u8]) {
        let mut rest = blocks;
        while rest.len() >= 4 {
            let length = 4 * (usize::from(u16::from_be_bytes([rest[2], rest[3]])) + 1);
            let (block, after) = rest.split_at_mut(length.min(rest.len()));
            match (block[0], self) {
                (REFERENCE_TIME, Self::Clock(by)) => later(&mut block[4..12], by),
                (DELAYS, Self::Wait(by)) => {
                    block[4..].chunks_exact_mut(12).for_each(|answer| later(&mut answer[8..], by));
                }
                _ => {}
            }
            rest = after;
        }
    }
}

/// Packet types and block types (RFC 3550 §12.1, RFC 3611 §2 and §4).
const SENDER_REPORT: u8 = 200;
const EXTENDED: u8 = 207;
const REFERENCE_TIME: u8 = 4;
const DELAYS: u8 = 5;

fn later(field: &mut [u8], by: Span) {
    let fraction = 4 * field.len() as u32;
    let units = (i128::from(by.as_nanos()) << fraction) / 1_000_000_000;
    let reported = field.iter().fold(0, |all, byte| all << 8 | i128::from(*byte)) + units;
    let bytes = reported.to_be_bytes();
    field.copy_from_slice(&bytes[bytes.len() - field.len()..]);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intruder {
    /// With the stream's SSRC, it poses as the stream's sender.
    pub identity: Identity,
    /// With [`home`] the two senders cannot be distinguished.
    pub from: Endpoint,
    pub sends: (TrueTime, TrueTime),
}

pub(crate) const STRANGE: f32 = 0.4;

#[derive(Debug, Clone, Default)]
pub(crate) struct Timeline {
    /// RTP timestamp and number of each run's first frame, newest run first.
    runs: VecDeque<(u32, i64)>,
}

/// Maximum runs that may still be played.
const RUNS: usize = 4;

impl Timeline {
    pub(crate) fn begin(&mut self, timestamp: u32, first: i64) {
        self.runs.push_front((timestamp, first));
        self.runs.truncate(RUNS);
    }

    pub(crate) fn timestamp(&self, index: i64) -> u32 {
        let (begins, first) = self.runs.front().copied().unwrap_or_default();
        begins.wrapping_add(wrap::rtp_timestamp(index - first))
    }

    /// Captured frame at `media`, from the newest run that includes it. `end` is the first frame
    /// not captured yet.
    pub(crate) fn frame(&self, media: MediaTime, mut end: i64) -> i64 {
        let timestamp = wrap::rtp_timestamp(media.as_frames());
        let mut nearest = 0;
        for &(begins, first) in &self.runs {
            let one = first + i64::from(timestamp.wrapping_sub(begins));
            nearest = end - (end - one).rem_euclid(1 << 32);
            if (first - SLACK..end).contains(&nearest) {
                return nearest;
            }
            end = first;
        }
        nearest
    }
}

/// Maximum frames by which a block may begin before its run.
const SLACK: i64 = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_of_the_run_that_reaches_it() {
        let mut timeline = Timeline::default();
        timeline.begin(u32::MAX - 99, 0);
        timeline.begin(1 << 30, 48_000);
        let frame = |timestamp: i64| timeline.frame(MediaTime::from_frames(timestamp), 60_000);
        assert_eq!(frame((1 << 30) + 7), 48_007);
        assert_eq!(frame(i64::from(u32::MAX) - 99 + 47_000), 47_000);
        timeline.begin(1 << 29, 50_000);
        let frame = |timestamp: i64| timeline.frame(MediaTime::from_frames(timestamp), 60_000);
        assert_eq!((frame((1 << 30) + 7), frame((1 << 29) + 7)), (48_007, 50_007));
    }
}
