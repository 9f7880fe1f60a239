//! Format of a sender without an announcement. Timestamps count frames (RFC 3550 §5.1), which
//! proves the bytes per frame. The pace of arrivals proves the rate.

mod plausible;

use tautline_dsp::format::SampleFormat;

use plausible::Plausible;
pub(crate) use plausible::{FLOATS, LOUDER, NOISE};

use crate::packet::{MediaPacket, StreamId};
use crate::stream::{PTIME_RANGE, StreamFormat};
use crate::time::{Frames, LocalTime, Span};
use crate::units::{Channels, Rate};
use crate::wrap::Unwrapper;

/// Proven properties of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// Bytes per frame.
    pub frame_bytes: usize,
    /// Frames of the newest packet.
    pub packet: Frames,
    /// Payload type.
    pub payload_type: u8,
    /// Frames per second. `None` if arrivals are uneven or match no usual rate.
    pub rate: Option<Rate>,
    plausible: Plausible,
}

impl Proof {
    /// Most likely format with `channels`, or mono. `None` if none matches. Without a proven rate,
    /// `rate` or 48 kHz.
    pub fn format(&self, rate: Option<Rate>, channels: Option<Channels>) -> Option<StreamFormat> {
        let mut fitting = Self::fitting(self.frame_bytes);
        let usual = |sample| StreamFormat::default_payload_type(sample) == self.payload_type;
        // Stable: keeps the order of likelihood.
        fitting.sort_by_key(|(sample, _)| (!self.plausible.allows(*sample), !usual(*sample)));
        let wanted = |wanted| fitting.iter().find(move |(_, fits)| *fits == wanted);
        let (sample, channels) = *match channels {
            None => fitting.first(),
            Some(channels) => wanted(channels).or_else(|| wanted(Channels::MONO)),
        }?;
        Some(StreamFormat {
            rate: self.rate.or(rate).unwrap_or(Rate::HZ_48000),
            channels,
            sample,
            codec: None,
            packet: self.packet,
            payload_type: self.payload_type,
        })
    }

    /// Formats with this frame size, most likely first: stereo before mono, 24 before 16 bits and
    /// floats, then 32 bits.
    pub fn fitting(frame_bytes: usize) -> Vec<(SampleFormat, Channels)> {
        let mut fitting: Vec<_> = Plausible::FORMATS
            .into_iter()
            .filter(|sample| frame_bytes.is_multiple_of(sample.bytes()))
            .filter_map(|sample| {
                let count = u32::try_from(frame_bytes / sample.bytes()).ok()?;
                Some((sample, Channels::new(count).ok()?))
            })
            .collect();
        // Stable: keeps the order of sample formats.
        fitting.sort_by_key(|(sample, channels)| match (sample, channels.count()) {
            (SampleFormat::L32, _) => 3,
            (_, 2) => 0,
            (_, 1) => 1,
            _ => 2,
        });
        fitting
    }
}

/// Evidence about the first sender.
#[derive(Debug, Clone, Default)]
pub struct Evidence(Option<Seen>);

#[derive(Debug, Clone)]
struct Seen {
    stream: StreamId,
    numbers: Unwrapper,
    timeline: Unwrapper,
    pace: Pace,
    packet: (usize, u8),
    frame_bytes: usize,
    frames: Frames,
    agreeing: u32,
    sound: Vec<u8>,
}

impl Evidence {
    /// Bytes kept to distinguish sample formats.
    const SOUND: usize = 1 << 15;
    /// Packets that must agree. No known sender changes its format within eight.
    const AGREEING: u32 = 8;
    /// Unsupported rate of some senders; not to be mistaken for 11,025 Hz.
    const UNSUPPORTED: u32 = 12_000;
    const MAX_FRAMES: i64 = 192_000 * PTIME_RANGE.1.as_nanos() / 1_000_000_000;
    /// Maximum rate error of a card.
    const TOLERANCE: f64 = 2e-3;

    /// Adds a packet. Ignores all senders but the first.
    pub fn observe(&mut self, packet: &MediaPacket<'_>, arrival: LocalTime) {
        let head = &packet.head;
        let Some(seen) = &mut self.0 else {
            self.0 = Some(Seen {
                stream: head.stream,
                numbers: Unwrapper::starting_at(head.number),
                timeline: Unwrapper::starting_at(head.media),
                pace: Pace::from(i64::from(head.media.value), arrival),
                packet: (packet.payload.len(), head.coding),
                frame_bytes: 0,
                frames: Frames::ZERO,
                agreeing: 0,
                sound: packet.payload.to_vec(),
            });
            return;
        };
        if head.stream == seen.stream {
            seen.observe(packet, arrival);
        }
    }

    /// Proof so far.
    pub fn proof(&self) -> Option<Proof> {
        let seen = self.0.as_ref().filter(|seen| seen.agreeing >= Self::AGREEING)?;
        Some(Proof {
            frame_bytes: seen.frame_bytes,
            packet: seen.frames,
            payload_type: seen.packet.1,
            rate: seen.pace.rate(),
            plausible: Plausible::of(&seen.sound, seen.frame_bytes),
        })
    }
}

impl Seen {
    fn observe(&mut self, packet: &MediaPacket<'_>, arrival: LocalTime) {
        let head = &packet.head;
        let (number, media) =
            (self.numbers.peek(head.number.value), self.timeline.peek(head.media.value));
        let next = self.numbers.highest() + 1;
        if number < next {
            return;
        }
        let step = media - self.timeline.highest();
        let maximum = (number - next + 1).saturating_mul(Evidence::MAX_FRAMES);
        if !(1..=maximum).contains(&step) {
            (self.pace, self.agreeing) = (Pace::from(media, arrival), 0);
            self.sound.clear();
        } else if number == next {
            let (bytes, frames) = (self.packet.0, step as usize);
            let whole = bytes > 0 && bytes.is_multiple_of(frames);
            let frame_bytes = if whole { bytes / frames } else { 0 };
            let agrees = whole && frame_bytes == self.frame_bytes;
            self.agreeing = if agrees { self.agreeing + 1 } else { u32::from(whole) };
            (self.frame_bytes, self.frames) = (frame_bytes, Frames::new(step));
            if !agrees {
                self.sound.clear();
            }
        }
        if self.sound.len() + packet.payload.len() <= Evidence::SOUND {
            self.sound.extend(packet.payload);
        }
        self.pace.observe(media, arrival);
        self.packet = (packet.payload.len(), head.coding);
        self.numbers = self.numbers.going_on_from(number);
        self.timeline = self.timeline.going_on_from(media);
    }
}

/// Rate at which timestamps advance.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    first: (LocalTime, i64),
    newest: (LocalTime, i64),
    gap: Span,
}

impl Pace {
    /// Starts at `media`.
    pub const fn from(media: i64, arrival: LocalTime) -> Self {
        Self { first: (arrival, media), newest: (arrival, media), gap: Span::ZERO }
    }

    /// Adds a packet if it is newer.
    pub fn observe(&mut self, media: i64, arrival: LocalTime) {
        if media > self.newest.1 {
            self.gap = self.gap.max(arrival - self.newest.0);
            self.newest = (arrival, media);
        }
    }

    /// Whether arrivals distinguish the usual rates, which differ by at least 8.8 %.
    pub(crate) fn is_precise(&self) -> bool {
        self.gap.times(20) <= self.took()
    }

    /// From the first packet to the newest.
    pub fn took(&self) -> Span {
        self.newest.0 - self.first.0
    }

    /// The only usual rate that matches, with a tolerance of the longest gap.
    pub fn rate(&self) -> Option<Rate> {
        // Hostile values may have any size.
        let (took, gap) = (self.took().as_nanos() as f64, self.gap.as_nanos() as f64);
        let frames = (self.newest.1 as f64 - self.first.1 as f64) * 1e9;
        if took <= gap {
            return None;
        }
        let slowest = frames / (took + gap) * (1.0 - Evidence::TOLERANCE);
        let fastest = frames / (took - gap) * (1.0 + Evidence::TOLERANCE);
        let mut fits = Rate::SUPPORTED
            .into_iter()
            .chain([Evidence::UNSUPPORTED])
            .filter(|rate| (slowest..=fastest).contains(&f64::from(*rate)));
        match (fits.next(), fits.next()) {
            (Some(hertz), None) => Rate::new(hertz).ok(),
            _ => None,
        }
    }
}

/// Packets contradict their format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contradiction {
    /// Actual bytes per frame.
    FrameBytes(usize),
    /// Samples impossible in this format.
    Samples,
    /// Actual rate.
    Rate(Rate),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::PacketHead;
    use crate::wrap::Wrapped;

    fn evidence(frames: u32, bytes: usize, rate: u64, handful: u32, packets: u32) -> Evidence {
        let mut evidence = Evidence::default();
        let payload = vec![0; bytes];
        for number in 0..packets {
            let head = PacketHead {
                stream: StreamId::from(7),
                number: Wrapped { value: (65_530 + number) & 0xffff, bits: 16 },
                media: Wrapped { value: (u32::MAX - 100).wrapping_add(number * frames), bits: 32 },
                begins: number == 0,
                coding: 98,
                capture: None,
                instants: None,
            };
            let packet = MediaPacket {
                head,
                payload: &payload,
                carried: None,
                presented: None,
                shape: None,
            };
            let whole = u64::from((number / handful + 1) * handful * frames);
            evidence.observe(&packet, LocalTime::from_nanos((whole * 1_000_000_000 / rate) as i64));
        }
        evidence
    }

    #[test]
    fn bytes_per_frame_are_proven_by_timestamps() {
        for (frames, bytes, frame_bytes) in
            [(48, 288, 6), (48, 144, 3), (441, 1764, 4), (12, 12 * 192, 192)]
        {
            let proof = evidence(frames, bytes, 48_000, 1, 9).proof().unwrap();
            assert_eq!((proof.frame_bytes, proof.packet.count()), (frame_bytes, frames.into()));
            assert_eq!(proof.payload_type, 98);
            assert_eq!(evidence(frames, bytes, 48_000, 1, 8).proof(), None);
        }
        assert_eq!(evidence(48, 100, 48_000, 1, 100).proof(), None, "compressed");
    }

    #[test]
    fn the_rate_is_proven_by_arrivals() {
        for hertz in Rate::SUPPORTED.into_iter().chain([Evidence::UNSUPPORTED]) {
            let frames = hertz / 1000;
            let proof = evidence(frames, frames as usize * 4, hertz.into(), 1, 60).proof().unwrap();
            assert_eq!(proof.rate, Rate::new(hertz).ok(), "{hertz}");
        }
        // A PipeWire sender that wakes every 1024 frames.
        for packets in 9..150 {
            let proof = evidence(320, 320 * 4, 44_100, 3, packets).proof().unwrap();
            assert!(proof.rate.is_none_or(|rate| rate.hertz() == 44_100), "{packets}: {proof:?}");
            assert!(packets < 75 || proof.rate.is_some(), "{packets}");
        }
        // Not a usual rate.
        assert_eq!(evidence(46, 46 * 4, 46_000, 1, 100).proof().unwrap().rate, None);
    }

    #[test]
    fn stereo_of_24_bits_is_likeliest() {
        let fitting = |bytes| -> Vec<_> {
            let all = Proof::fitting(bytes).into_iter();
            all.map(|(sample, channels)| (sample, channels.count())).collect()
        };
        assert_eq!(fitting(6), [(SampleFormat::L24, 2), (SampleFormat::L16, 3)]);
        assert_eq!(fitting(3), [(SampleFormat::L24, 1)]);
        let (l16, f32, l32) = (SampleFormat::L16, SampleFormat::F32, SampleFormat::L32);
        assert_eq!(fitting(4), [(l16, 2), (f32, 1), (l32, 1)]);
        assert_eq!(fitting(8), [(f32, 2), (l16, 4), (l32, 2)]);
        assert_eq!(fitting(12)[0], (SampleFormat::L24, 4));
        assert_eq!(fitting(1), []);
    }
}
