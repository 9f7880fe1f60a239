//! Maximum datagram length of a path, which may drop longer datagrams silently (RFC 8899 §1.1).
//!
//! Answered RTCP probes of that length ([`Session::probe`](crate::rtcp_session::Session::probe))
//! show that longer datagrams pass.

use super::{SendContext, SendPolicy, SendPolicyConfig};
use crate::stream::{DEFAULT_PTIMES, StreamFormat, packet_frames};
use crate::time::{Frames, LocalTime, Span};

/// UDP payload that any path carries (BASE_PLPMTU, RFC 8899 §5.1.2).
pub const BASE_BYTES: usize = 1200;
/// PROBE_TIMER (RFC 8899 §5.1.1) and MAX_PROBES (§5.1.2).
const PROBE_AGAIN: Span = Span::from_secs(1);
const MAX_PROBES: u32 = 3;
/// PMTU_RAISE_TIMER (RFC 8899 §5.1.1).
const RAISE_AFTER: Span = Span::from_secs(600);
/// Time and packets without progress after which the receiver gets nothing.
const STUCK: Span = Span::from_millis(300);
const STUCK_PACKETS: u64 = 8;
/// Bytes of SRTP's tag (RFC 7714 §13.1). SRTCP adds four bytes (RFC 3711 §3.4).
pub(crate) const TAG: usize = 16;
const INDEX: usize = 4;

#[derive(Debug, Clone, Copy)]
struct Probe {
    bytes: usize,
    count: u32,
    sent: LocalTime,
}

/// Search for the longest datagrams that pass.
#[derive(Debug)]
pub(super) struct PathSize {
    /// Longest that passes and shortest that fails, in bytes.
    passes: usize,
    fails: usize,
    raise_at: LocalTime,
    probe: Option<Probe>,
    /// Highest reported sequence number, report time, packets sent.
    progress: Option<(u32, LocalTime, u64)>,
}

impl Default for PathSize {
    fn default() -> Self {
        Self {
            passes: BASE_BYTES,
            fails: usize::MAX,
            raise_at: LocalTime::NEVER,
            probe: None,
            progress: None,
        }
    }
}

impl PathSize {
    /// Longest datagram that passes, in bytes, without SRTP's tag.
    pub(super) const fn payload_bytes(&self) -> usize {
        self.passes - TAG
    }

    /// Handles a report of packets up to `highest`, of `sent`.
    fn reported(&mut self, highest: u32, sent: u64, now: LocalTime) {
        match self.progress {
            Some((before, since, by_then)) if before == highest => {
                let stuck = now - since >= STUCK && sent.saturating_sub(by_then) >= STUCK_PACKETS;
                if stuck && self.passes > BASE_BYTES {
                    *self = Self::default();
                }
            }
            _ => self.progress = Some((highest, now, sent)),
        }
    }

    /// Length of a due probe, from `all` in descending order.
    fn poll(&mut self, mut all: impl Iterator<Item = usize>, now: LocalTime) -> Option<usize> {
        if now >= self.raise_at {
            (self.fails, self.raise_at) = (usize::MAX, LocalTime::NEVER);
        }
        let bytes = all.find(|bytes| *bytes < self.fails).filter(|bytes| *bytes > self.passes)?;
        // Only a receiver that reports answers.
        self.progress?;
        let probe = self.probe.filter(|probe| probe.bytes == bytes);
        let count = match probe {
            Some(probe) if now < probe.sent + PROBE_AGAIN => return None,
            Some(Probe { count: MAX_PROBES.., .. }) => {
                (self.fails, self.raise_at, self.probe) = (bytes, now + RAISE_AFTER, None);
                return None;
            }
            probe => probe.map_or(1, |probe| probe.count + 1),
        };
        self.probe = Some(Probe { bytes, count, sent: now });
        Some(bytes)
    }

    fn passed(&mut self, bytes: usize) {
        if self.probe.take_if(|probe| probe.bytes == bytes).is_some() {
            self.passes = bytes;
        }
    }
}

impl SendPolicyConfig {
    /// Packet lengths in descending order, with datagram lengths.
    fn lengths(&self, format: StreamFormat) -> impl Iterator<Item = (Frames, usize)> {
        let head = self.form.pack().head_bytes(self.stamps, 0) + TAG;
        let usual = DEFAULT_PTIMES.into_iter().rev();
        let usual = usual.filter_map(move |ptime| packet_frames(format.rate, ptime).ok());
        let has = move |packet: &Frames| {
            let has = |codec: crate::codec::Codec| codec.check(format.shape(), *packet).is_ok();
            *packet < format.packet && format.codec.is_none_or(has)
        };
        let all = core::iter::once(format.packet).chain(usual.filter(has));
        all.map(move |packet| (packet, head + StreamFormat { packet, ..format }.payload_bytes()))
    }

    fn within(&self, format: StreamFormat, bytes: usize) -> Frames {
        let mut shortest = format.packet;
        let mut all = self.lengths(format).inspect(|(packet, _)| shortest = *packet);
        let fits = all.find(|(_, length)| *length <= bytes).map(|(packet, _)| packet);
        drop(all);
        fits.unwrap_or(shortest)
    }

    pub(super) fn begins(&self) -> StreamFormat {
        let format = self.format;
        let packet = if self.probes_path { self.within(format, BASE_BYTES) } else { format.packet };
        StreamFormat { packet, ..format }
    }
}

impl SendPolicy {
    pub(super) fn passing(&self, format: &StreamFormat) -> Frames {
        let passes = self.path_size.as_ref().map(|size| size.passes);
        passes.map_or(format.packet, |passes| self.config.within(*format, passes))
    }

    pub(super) fn path_reported(&mut self, highest: u32, now: LocalTime) {
        let sent = self.state.packets;
        self.path_size.iter_mut().for_each(|size| size.reported(highest, sent, now));
    }

    pub(super) fn path_passes(&mut self, bytes: u32) {
        self.path_size.iter_mut().for_each(|size| size.passed(bytes as usize));
    }

    pub(super) fn probe_path(&mut self, context: &mut SendContext<'_>) {
        let format = self.config.format;
        let lengths = self.config.lengths(format).map(|(_, bytes)| bytes);
        let due = self.path_size.as_mut().and_then(|size| size.poll(lengths, context.now));
        if let (Some(bytes), Some(session)) = (due, &mut context.session) {
            session.probe(bytes as u32, bytes - TAG - INDEX);
        }
        // An announced format uses the length that passes then.
        if self.coming.format.is_none() && self.passing(&format) != self.packet {
            self.announce_format(&format, context);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> LocalTime {
        LocalTime::from_nanos(millis * 1_000_000)
    }

    const LENGTHS: [usize; 4] = [5_840, 1_520, 800, 400];

    /// Probes on a path that carries `maximum` bytes.
    fn probed(size: &mut PathSize, maximum: usize, seconds: core::ops::Range<i64>) -> Vec<usize> {
        let mut probed = Vec::new();
        for beat in seconds.start * 50..seconds.end * 50 {
            let now = at(beat * 20);
            size.reported(beat as u32, beat as u64, now);
            if let Some(bytes) = size.poll(LENGTHS.into_iter(), now) {
                probed.push(bytes);
                if bytes <= maximum {
                    size.passed(bytes);
                }
            }
        }
        probed
    }

    #[test]
    fn longest_passing_length_needs_three_probes_per_longer_length() {
        for (maximum, probes, passes) in [
            (9_000, vec![5_840], 5_840),
            (1_600, vec![5_840, 5_840, 5_840, 1_520], 1_520),
            (1_300, vec![5_840, 5_840, 5_840, 1_520, 1_520, 1_520], BASE_BYTES),
        ] {
            let mut size = PathSize::default();
            assert_eq!(probed(&mut size, maximum, 0..60), probes);
            assert_eq!(size.passes, passes);
        }
    }

    #[test]
    fn lengths_that_did_not_pass_are_probed_again_after_ten_minutes() {
        let mut size = PathSize::default();
        probed(&mut size, 1_300, 0..60);
        assert_eq!(probed(&mut size, 9_000, 60..600), []);
        assert_eq!(probed(&mut size, 9_000, 600..610), [5_840]);
    }

    #[test]
    fn shrunken_path_gets_short_datagrams_after_the_next_report() {
        let mut size = PathSize::default();
        probed(&mut size, 9_000, 0..1);
        let mut passes = |millis, highest, sent| {
            size.reported(highest, sent, at(millis));
            size.passes
        };
        assert_eq!(passes(1_000, 200, 200), 5_840);
        assert_eq!(passes(1_100, 200, 220), 5_840, "reports in quick succession");
        assert_eq!(passes(1_450, 200, 205), 5_840, "few packets were sent");
        assert_eq!(passes(1_460, 200, 290), BASE_BYTES);
    }

    #[test]
    fn nothing_is_probed_before_the_receiver_reports() {
        let mut size = PathSize::default();
        assert_eq!(size.poll(LENGTHS.into_iter(), at(0)), None);
        size.reported(1, 1, at(20));
        assert_eq!(size.poll(LENGTHS.into_iter(), at(20)), Some(5_840));
    }
}
