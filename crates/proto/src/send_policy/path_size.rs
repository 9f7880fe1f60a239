//! Maximum datagram length of a path. A path may drop longer datagrams without an error (a black
//! hole, RFC 8899 §1.1).
//!
//! A stream begins with datagrams that any path carries. The sender probes longer ones first (RFC
//! 8899), with RTCP packets of that length, which the receiver answers
//! ([`Session::probe`](crate::rtcp_session::Session::probe)). So the search loses no sound.

use super::{SendContext, SendPolicy, SendPolicyConfig};
use crate::stream::{DEFAULT_PTIMES, StreamFormat, packet_frames};
use crate::time::{Frames, LocalTime, Span};

/// Bytes of UDP payload that any path carries (BASE_PLPMTU, RFC 8899 §5.1.2).
pub const BASE_BYTES: usize = 1200;
/// Time after which an unanswered probe is sent again (PROBE_TIMER, RFC 8899 §5.1.1), and the
/// maximum number of probes (MAX_PROBES, §5.1.2).
const PROBE_AGAIN: Span = Span::from_secs(1);
const MAX_PROBES: u32 = 3;
/// Time after which lengths that did not pass are probed again (PMTU_RAISE_TIMER, RFC 8899 §5.1.1).
const RAISE_AFTER: Span = Span::from_secs(600);
/// A receiver that reports no progress for this long, while this many packets were sent, receives
/// nothing. Most reports arrive every half second.
const STUCK: Span = Span::from_millis(300);
const STUCK_PACKETS: u64 = 8;
/// Length of SRTP's tag (RFC 7714 §13.1). SRTCP adds four more bytes (RFC 3711 §3.4).
pub(crate) const TAG: usize = 16;
const INDEX: usize = 4;

/// Probe that is not answered yet.
#[derive(Debug, Clone, Copy)]
struct Probe {
    bytes: usize,
    count: u32,
    sent: LocalTime,
}

/// Search for the longest datagrams that pass.
#[derive(Debug)]
pub(super) struct PathSize {
    /// Datagrams of `passes` bytes pass, and datagrams of `fails` bytes do not.
    passes: usize,
    fails: usize,
    raise_at: LocalTime,
    probe: Option<Probe>,
    /// Highest sequence number that the receiver reported, the time of that report, and the number
    /// of packets sent by then.
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
    /// Length of the longest datagram that passes, in bytes, without SRTP's tag.
    pub(super) const fn payload_bytes(&self) -> usize {
        self.passes - TAG
    }

    /// Handles a report that the receiver has packets up to number `highest`, of `sent` packets.
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

    /// Returns the length of a probe that is due, from the lengths in `all`, which are sorted in
    /// descending order.
    fn poll(&mut self, mut all: impl Iterator<Item = usize>, now: LocalTime) -> Option<usize> {
        if now >= self.raise_at {
            (self.fails, self.raise_at) = (usize::MAX, LocalTime::NEVER);
        }
        let bytes = all.find(|bytes| *bytes < self.fails).filter(|bytes| *bytes > self.passes)?;
        // Only a receiver that reports on the stream answers.
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
    /// Returns the packet lengths to try, in descending order, each with the length of its
    /// datagram: that of the format and the usual lengths below it.
    fn lengths(&self, format: StreamFormat) -> impl Iterator<Item = (Frames, usize)> {
        let head = self.form.pack().head_bytes(self.stamps, 0) + TAG;
        let usual = DEFAULT_PTIMES.into_iter().rev();
        let usual = usual.filter_map(move |ptime| packet_frames(format.rate, ptime).ok());
        let has = move |packet: &Frames| {
            let has = |coder: crate::codec::Codec| coder.check(format.shape(), *packet).is_ok();
            *packet < format.packet && format.coder.is_none_or(has)
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

    /// Returns the format with which the stream begins.
    pub(super) fn begins(&self) -> StreamFormat {
        let format = self.format;
        let packet = if self.probes_path { self.within(format, BASE_BYTES) } else { format.packet };
        StreamFormat { packet, ..format }
    }
}

impl SendPolicy {
    /// Returns the number of frames per packet of this format that pass.
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

    /// Probes longer datagrams, and sends the longest packets that pass.
    pub(super) fn probe_path(&mut self, context: &mut SendContext<'_>) {
        let format = self.config.format;
        let lengths = self.config.lengths(format).map(|(_, bytes)| bytes);
        let due = self.path_size.as_mut().and_then(|size| size.poll(lengths, context.now));
        if let (Some(bytes), Some(session)) = (due, &mut context.session) {
            session.probe(bytes as u32, bytes - TAG - INDEX);
        }
        // An announced format that is not sent yet uses the length that passes at that time.
        if self.coming.format.is_none() && self.passing(&format) != self.packet {
            self.tell_format(&format, context);
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

    /// Returns the probes in `seconds` on a path that carries `most` bytes. Its receiver reports
    /// and answers at once.
    fn probed(size: &mut PathSize, most: usize, seconds: core::ops::Range<i64>) -> Vec<usize> {
        let mut probed = Vec::new();
        for beat in seconds.start * 50..seconds.end * 50 {
            let now = at(beat * 20);
            size.reported(beat as u32, beat as u64, now);
            if let Some(bytes) = size.poll(LENGTHS.into_iter(), now) {
                probed.push(bytes);
                if bytes <= most {
                    size.passed(bytes);
                }
            }
        }
        probed
    }

    #[test]
    fn the_longest_length_that_passes_is_found_by_three_probes_of_each_longer_one() {
        for (most, probes, passes) in [
            (9_000, vec![5_840], 5_840),
            (1_600, vec![5_840, 5_840, 5_840, 1_520], 1_520),
            (1_300, vec![5_840, 5_840, 5_840, 1_520, 1_520, 1_520], BASE_BYTES),
        ] {
            let mut size = PathSize::default();
            assert_eq!(probed(&mut size, most, 0..60), probes);
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
    fn a_path_that_stops_carrying_what_passed_gets_short_datagrams_at_the_next_report() {
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
