//! Codecs compress whole packets. A packet may depend on earlier packets. Encoders ([`Encode`]) and
//! decoders ([`Decode`]) are passed in, so this crate links no codec library.

use core::fmt::Debug;

use tautline_dsp::format::SampleFormat;

use crate::time::{Frames, Span};
use crate::units::{Channels, Rate};

/// Codec of whole packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Opus (RFC 6716, in RTP by RFC 7587).
    Opus(Opus),
    /// Lossless: prediction and Rice coding of integers.
    Lossless,
}

/// Opus parameters, for the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opus {
    /// Intended sound.
    pub tuning: OpusTuning,
    /// Constant payload bit/s: redundancy sums packets of equal length.
    pub bitrate: u32,
}

/// Kind of sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OpusTuning {
    /// Any sound, with minimum look-ahead: CELT only (RFC 6716 §2.1.7).
    #[default]
    Music,
    /// Speech: SILK, with in-band FEC (RFC 6716 §2.1.7).
    Voice,
}

impl Opus {
    /// Minimum and maximum bit/s (RFC 6716 §2).
    pub const BITRATES: (u32, u32) = (6_000, 510_000);
    /// RTP clock rate of Opus (RFC 7587 §4.1).
    pub const RATE: Rate = Rate::HZ_48000;
    /// Packet times that both Opus (RFC 6716 §2.1.4) and streams support.
    pub const PTIMES: [Span; 4] = [
        Span::from_micros(2_500),
        Span::from_millis(5),
        Span::from_millis(10),
        Span::from_millis(20),
    ];
    /// RFC 6716 §3.2.1.
    const MAX_BYTES: u64 = 1275;
    /// Minimum with sound in libopus (`opus_encode_native`).
    const MIN_BYTES: u64 = 3;
    /// Maximum frames of a packet: 120 ms (RFC 6716 §3.2.5, R5).
    pub const MAX_FRAMES: Frames = Frames::new(5760);

    /// Default bitrates: music 96 kbit/s per channel, hard to distinguish from the original in 5 ms
    /// packets; speech 32 kbit/s.
    pub const fn usual(tuning: OpusTuning, channels: Channels) -> Self {
        let bitrate = match tuning {
            OpusTuning::Music => 96_000 * channels.count() as u32,
            OpusTuning::Voice => 32_000 * channels.count() as u32,
        };
        Self { tuning, bitrate }
    }
}

/// Sample format and optional codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coding {
    /// Sample format; a codec uses its integers.
    pub sample: SampleFormat,
    /// Codec, if any.
    pub codec: Option<Codec>,
}

impl From<SampleFormat> for Coding {
    fn from(sample: SampleFormat) -> Self {
        Self::of(sample)
    }
}

/// Names and defaults of a coding.
#[derive(Debug, Clone, Copy)]
pub struct CodingRow {
    /// Name in reports and for `--format`.
    pub name: &'static str,
    /// One-line help.
    pub help: &'static str,
    /// Conventional dynamic payload type (RFC 3551 §6). Codings with the same decoder share the
    /// type.
    pub payload_type: u8,
    /// Encoding name in SDP (RFC 8866 §6.6); `x-` names are unregistered.
    pub encoding: &'static str,
    /// Number in an [`Announcement`](crate::wire::rtcp::Announcement).
    pub number: u8,
    /// Default packet time.
    pub ptime: Span,
    /// Rank in a call's offer, best first.
    pub rank: u8,
    /// Minimum packet time in an adaptive call, so that headers do not exceed sound. `None`: never
    /// used.
    pub adapts_from: Option<Span>,
    /// Whether an adaptive call may start with this coding.
    pub begins: bool,
}

macro_rules! codings {
    ($($coding:expr, $pattern:pat => $($field:ident: $value:expr),+;)+) => {
        impl Coding {
            /// All codings; receivers use the first that matches a payload type.
            pub const ALL: [Self; [$(stringify!($coding)),+].len()] = [$($coding),+];

            /// Row of this coding.
            pub const fn row(self) -> CodingRow {
                match (self.codec, self.sample) {
                    $($pattern => CodingRow { $($field: $value),+ },)+
                }
            }
        }
    };
}

codings! {
    Coding::of(SampleFormat::L16), (None, SampleFormat::L16) =>
        name: SampleFormat::L16.name(), help: "16-bit integers",
        payload_type: 96, encoding: "L16", number: 1, ptime: Span::from_millis(1), rank: 1,
        adapts_from: None, begins: false;
    Coding::of(SampleFormat::L24), (None, SampleFormat::L24) =>
        name: SampleFormat::L24.name(), help: "24-bit integers",
        payload_type: 97, encoding: "L24", number: 2, ptime: Span::from_millis(1), rank: 0,
        adapts_from: Some(Span::ZERO), begins: false;
    Coding::of(SampleFormat::L32), (None, SampleFormat::L32) =>
        name: SampleFormat::L32.name(), help: "32-bit integers, of which 24 bits are used",
        payload_type: 99, encoding: "L32", number: 4, ptime: Span::from_millis(1), rank: 3,
        adapts_from: None, begins: false;
    Coding::of(SampleFormat::F32), (None, SampleFormat::F32) =>
        name: SampleFormat::F32.name(), help: "32-bit floats",
        payload_type: 98, encoding: "x-F32", number: 3, ptime: Span::from_millis(1), rank: 2,
        adapts_from: None, begins: false;
    Coding::OPUS, (Some(Codec::Opus(Opus { tuning: OpusTuning::Music, .. })), _) =>
        name: "opus", help: "Opus for any sound: 5ms packets, a tenth of the bits",
        payload_type: 100, encoding: "opus", number: 5, ptime: Span::from_millis(5), rank: 6,
        adapts_from: Some(Span::from_millis(5)), begins: true;
    Coding::OPUS_VOICE, (Some(Codec::Opus(Opus { tuning: OpusTuning::Voice, .. })), _) =>
        name: "opus-voice", help: "Opus for speech: 10ms packets, each with a copy in the next",
        payload_type: 100, encoding: "opus", number: 5, ptime: Span::from_millis(10), rank: 7,
        adapts_from: Some(Span::from_millis(20)), begins: false;
    Coding::LOSSLESS_16, (Some(Codec::Lossless), SampleFormat::L16) =>
        name: "lossless16", help: "16-bit lossless, about half the bits",
        payload_type: 101, encoding: "x-tautline-rice16", number: 6, ptime: Span::from_millis(1), rank: 5,
        adapts_from: Some(Span::ZERO), begins: true;
    Coding::LOSSLESS_24, (Some(Codec::Lossless), _) =>
        name: "lossless24", help: "24-bit lossless, about two thirds of the bits",
        payload_type: 102, encoding: "x-tautline-rice24", number: 7, ptime: Span::from_millis(1), rank: 4,
        adapts_from: Some(Span::ZERO), begins: true;
}

impl Coding {
    /// Opus for any sound. The sender chooses the bitrate.
    pub const OPUS: Self = Self { sample: SampleFormat::L24, codec: Some(Codec::OPUS) };
    /// Opus for speech.
    pub const OPUS_VOICE: Self = Self {
        sample: SampleFormat::L24,
        codec: Some(Codec::Opus(Opus::usual(OpusTuning::Voice, Channels::STEREO))),
    };
    /// 16-bit lossless.
    pub const LOSSLESS_16: Self = Self { sample: SampleFormat::L16, codec: Some(Codec::Lossless) };
    /// 24-bit lossless.
    pub const LOSSLESS_24: Self = Self { sample: SampleFormat::L24, codec: Some(Codec::Lossless) };

    /// Coding of single samples.
    pub const fn of(sample: SampleFormat) -> Self {
        Self { sample, codec: None }
    }

    /// First coding whose row matches.
    pub fn find(is: impl Fn(&CodingRow) -> bool) -> Option<Self> {
        Self::ALL.into_iter().find(|coding| is(&coding.row()))
    }

    /// Coding with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::find(|row| row.name == name)
    }

    /// All codings with a codec.
    pub fn compressed() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|coding| coding.codec.is_some())
    }

    /// Returns the coding with this bitrate, if its bitrate is variable.
    #[must_use]
    pub fn at_bitrate(mut self, bitrate: u32) -> Self {
        self.codec = self.codec.map(|codec| codec.rules().at_bitrate(bitrate).unwrap_or(codec));
        self
    }

    /// Default bitrate for `channels`.
    #[must_use]
    pub fn usual_for(self, channels: Channels) -> Self {
        let usual = self.codec.and_then(|codec| codec.rules().usual_bitrate(channels));
        usual.map_or(self, |bitrate| self.at_bitrate(bitrate))
    }

    /// Bit/s, if variable.
    pub fn bitrate(self) -> Option<u32> {
        self.codec?.rules().bitrate()
    }

    /// Whether both use the same codec.
    pub fn is_coded_as(self, other: Self) -> bool {
        self.at_bitrate(0) == other.at_bitrate(0)
    }

    /// Name in reports.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether the coding carries integers of the format `needs` exactly.
    pub fn is_exact_for(self, needs: SampleFormat) -> bool {
        self.bitrate().is_none() && self.sample.bytes() >= needs.bytes()
    }
}

/// Unsupported codec parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotCoded {
    /// Unsupported sample rate.
    #[error("Opus requires 48000 Hz, but the stream has {0}\nhint: use --rate 48000")]
    Rate(Rate),
    /// Too many channels.
    #[error(
        "Opus requires 1 or 2 channels, but the stream has {0}\nhint: use --map, or --format lossless24"
    )]
    Channels(Channels),
    /// Unsupported packet time.
    #[error("Opus requires packets of 2.5, 5, 10 or 20 ms\nhint: use --ptime 5ms")]
    Packet(Frames),
    /// Packet time unsupported for speech.
    #[error(
        "Opus requires speech packets of 10 or 20 ms\nhint: use --ptime 10ms, or --format opus"
    )]
    VoicePacket(Frames),
    /// Bitrate out of range.
    #[error("invalid Opus bit rate, {0} bit/s: must be 6 to 510 kbit/s\nhint: use --bitrate 96k")]
    Bitrate(u32),
    /// Too few bits per packet: libopus would send silence.
    #[error(
        "{0} bit/s are too few for Opus in packets of {packet} (less than 3 bytes each)\nhint: use a higher --bitrate or a longer --ptime",
        packet = Opus::RATE.span_of(*.1)
    )]
    FewBits(u32, Frames),
    /// The header would be longer than the sound.
    #[error("packets of {0} frames are too short to compress\nhint: use a longer --ptime")]
    TooShort(Frames),
}

pub(crate) trait CodecRules {
    fn check_shape(&self, _rate: Rate, _channels: Channels) -> Result<(), NotCoded> {
        Ok(())
    }

    fn check_packet(&self, packet: Frames) -> Result<(), NotCoded>;

    fn ptimes(&self) -> Option<&'static [Span]> {
        None
    }

    fn delay(&self) -> Frames {
        Frames::ZERO
    }

    /// Maximum bytes of a packet that has `raw` bytes uncompressed.
    fn payload_bytes(&self, channels: Channels, packet: Frames, raw: usize) -> usize;

    fn usual_bitrate(&self, _channels: Channels) -> Option<u32> {
        None
    }

    /// In an adaptive call.
    fn adapted_bitrates(&self, _channels: Channels) -> Option<(u32, u32)> {
        None
    }

    fn bitrate(&self) -> Option<u32> {
        None
    }

    fn at_bitrate(&self, _bitrate: u32) -> Option<Codec> {
        None
    }

    fn bitrate_of(&self, _payload_bytes: usize, _frames: Frames) -> Option<u32> {
        None
    }

    /// Mean share of [`Self::payload_bytes`].
    fn mean_share(&self) -> f64 {
        1.0
    }

    fn has_copies(&self) -> bool {
        false
    }

    /// For `rtpmap` (RFC 8866 §6.6).
    fn rtpmap(&self, rate: Rate, channels: Channels) -> (Rate, usize) {
        (rate, channels.count())
    }

    /// For `fmtp` (RFC 8866 §6.15).
    fn fmtp(&self, _channels: Channels) -> Option<String> {
        None
    }

    fn mono_parameter(&self) -> Option<&'static str> {
        None
    }

    fn frames(&self, payload: &[u8]) -> Option<i64>;
}

impl CodecRules for Opus {
    fn check_shape(&self, rate: Rate, channels: Channels) -> Result<(), NotCoded> {
        match (rate, channels.count()) {
            (Self::RATE, ..=2) => Ok(()),
            (Self::RATE, _) => Err(NotCoded::Channels(channels)),
            _ => Err(NotCoded::Rate(rate)),
        }
    }

    fn check_packet(&self, packet: Frames) -> Result<(), NotCoded> {
        if !(Self::BITRATES.0..=Self::BITRATES.1).contains(&self.bitrate) {
            return Err(NotCoded::Bitrate(self.bitrate));
        }
        match (packet.count(), self.tuning) {
            (480 | 960, _) | (120 | 240, OpusTuning::Music) => {}
            (120 | 240, OpusTuning::Voice) => return Err(NotCoded::VoicePacket(packet)),
            _ => return Err(NotCoded::Packet(packet)),
        }
        let bits = u64::from(self.bitrate) * packet.count().unsigned_abs();
        let minimum = 8 * Self::MIN_BYTES * u64::from(Self::RATE.hertz());
        if bits < minimum { Err(NotCoded::FewBits(self.bitrate, packet)) } else { Ok(()) }
    }

    fn ptimes(&self) -> Option<&'static [Span]> {
        Some(&Self::PTIMES)
    }

    /// `OPUS_GET_LOOKAHEAD` (libopus, `opus_encoder.c`).
    fn delay(&self) -> Frames {
        match self.tuning {
            OpusTuning::Music => Frames::new(120),
            OpusTuning::Voice => Frames::new(312),
        }
    }

    fn payload_bytes(&self, _: Channels, packet: Frames, _: usize) -> usize {
        let bits = u64::from(self.bitrate) * packet.count().max(0).unsigned_abs();
        (bits / 8 / u64::from(Self::RATE.hertz())).clamp(Self::MIN_BYTES, Self::MAX_BYTES) as usize
    }

    fn usual_bitrate(&self, channels: Channels) -> Option<u32> {
        Some(Self::usual(self.tuning, channels).bitrate)
    }

    /// Below, SILK is better than short CELT packets. Above, more bits are inaudible. SILK carries
    /// speech at 12 kbit/s (RFC 6716 §2.1.1).
    fn adapted_bitrates(&self, channels: Channels) -> Option<(u32, u32)> {
        let channels = channels.count() as u32;
        Some(match self.tuning {
            OpusTuning::Music => (16_000 * channels, 128_000 * channels),
            OpusTuning::Voice => (12_000, 40_000 * channels),
        })
    }

    fn bitrate(&self) -> Option<u32> {
        Some(self.bitrate)
    }

    fn at_bitrate(&self, bitrate: u32) -> Option<Codec> {
        Some(Codec::Opus(Self { bitrate, ..*self }))
    }

    fn bitrate_of(&self, payload_bytes: usize, frames: Frames) -> Option<u32> {
        let bits = 8 * payload_bytes as u64 * u64::from(Self::RATE.hertz());
        u32::try_from(bits.checked_div(u64::try_from(frames.count()).ok()?)?).ok()
    }

    fn has_copies(&self) -> bool {
        self.tuning == OpusTuning::Voice
    }

    /// RFC 7587 §4.1, §7.
    fn rtpmap(&self, _: Rate, _: Channels) -> (Rate, usize) {
        (Self::RATE, 2)
    }

    /// RFC 7587 §6.1.
    fn fmtp(&self, channels: Channels) -> Option<String> {
        let stereo = u8::from(channels.count() > 1);
        let fec = u8::from(self.tuning == OpusTuning::Voice);
        Some(format!("stereo={stereo};sprop-stereo={stereo};useinbandfec={fec};cbr=1"))
    }

    fn mono_parameter(&self) -> Option<&'static str> {
        Some("sprop-stereo=0")
    }

    fn frames(&self, payload: &[u8]) -> Option<i64> {
        opus_frames(payload)
    }
}

struct Lossless;

impl CodecRules for Lossless {
    fn check_packet(&self, packet: Frames) -> Result<(), NotCoded> {
        let fits = packet >= Codec::MIN_FRAMES;
        if fits { Ok(()) } else { Err(NotCoded::TooShort(packet)) }
    }

    fn payload_bytes(&self, channels: Channels, _: Frames, raw: usize) -> usize {
        raw + Codec::LOSSLESS_HEAD + channels.count()
    }

    /// docs/guide/codecs.md: 24 bits in 2.5 ms packets.
    fn mean_share(&self) -> f64 {
        0.66
    }

    fn frames(&self, payload: &[u8]) -> Option<i64> {
        Some(u16::from_be_bytes(*payload.first_chunk()?).into())
    }
}

impl Codec {
    /// Opus for a receiver.
    pub const OPUS: Self = Self::Opus(Opus::usual(OpusTuning::Music, Channels::STEREO));
    /// Minimum frames of a compressed packet.
    pub const MIN_FRAMES: Frames = Frames::new(4);
    /// Bytes of the frame count of a lossless payload.
    pub const LOSSLESS_HEAD: usize = 2;

    pub(crate) fn rules(&self) -> &dyn CodecRules {
        match self {
            Self::Opus(opus) => opus,
            Self::Lossless => &Lossless,
        }
    }

    /// Whether the same decoder reads both codings.
    pub fn is_read_as(self, other: Self) -> bool {
        core::mem::discriminant(&self) == core::mem::discriminant(&other)
    }

    /// Checks rate and channels only.
    pub fn check_shape(self, rate: Rate, channels: Channels) -> Result<(), NotCoded> {
        self.rules().check_shape(rate, channels)
    }

    /// Checks rate, channels and packet time.
    pub fn check(self, (rate, channels): (Rate, Channels), packet: Frames) -> Result<(), NotCoded> {
        self.check_shape(rate, channels)?;
        self.rules().check_packet(packet)
    }

    /// Supported packet times; `None`: any.
    pub fn ptimes(self) -> Option<&'static [Span]> {
        self.rules().ptimes()
    }

    /// Codec delay in frames, beyond the packet. Senders number packets by decoder output.
    pub fn delay(self) -> Frames {
        self.rules().delay()
    }

    /// Payload bytes of a packet with `raw` bytes of samples: exact at a constant bitrate,
    /// otherwise the maximum.
    pub fn payload_bytes(self, (channels, packet): (Channels, Frames), raw: usize) -> usize {
        self.rules().payload_bytes(channels, packet, raw)
    }

    /// Whether packets of equal duration have equal size.
    pub fn is_constant(self) -> bool {
        self.rules().bitrate().is_some()
    }

    /// Bit/s for a payload of this length, if variable.
    pub fn bitrate_of(self, payload_bytes: usize, frames: Frames) -> Option<u32> {
        self.rules().bitrate_of(payload_bytes, frames)
    }

    /// Frame count of a payload; `None` if it is invalid.
    pub fn frames(self, payload: &[u8]) -> Option<Frames> {
        let frames = self.rules().frames(payload)?;
        (frames >= Self::MIN_FRAMES.count()).then_some(Frames::new(frames))
    }
}

/// RFC 6716 §3.1, §3.2.5; at 48 kHz.
fn opus_frames(payload: &[u8]) -> Option<i64> {
    let toc = *payload.first()?;
    let each = match toc >> 3 {
        silk @ 0..12 => [480, 960, 1920, 2880][usize::from(silk & 3)],
        hybrid @ 12..16 => [480, 960][usize::from(hybrid & 1)],
        celt => 120 << (celt & 3),
    };
    let count = match toc & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => i64::from(payload.get(1)? & 0x3F),
    };
    let frames = each * count;
    (frames <= Opus::MAX_FRAMES.count()).then_some(frames)
}

/// Packet encoder. Allocates only at creation.
pub trait Encode: Debug + Send {
    /// Output coding.
    fn coding(&self) -> Coding;

    /// Encodes one packet of interleaved samples to `room`. Returns its length, or `None` on
    /// failure.
    fn encode(&mut self, samples: &[f32], room: &mut [u8]) -> Option<usize>;

    /// Sets the bitrate of the following packets, if constant. Neither allocates nor blocks.
    fn set_bitrate(&mut self, _bitrate: u32) {}

    /// Sets the expected packet loss, which determines the number of copies. Neither allocates nor
    /// blocks.
    fn expect_loss(&mut self, _percent: u8) {}

    /// Resets the state after a gap.
    fn reset(&mut self);
}

/// Invalid payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid compressed payload")]
pub struct Undecodable;

/// Packet decoder. Allocates only at creation, and accepts any data.
pub trait Decode: Debug + Send {
    /// Codec read.
    fn codec(&self) -> Codec;

    /// Decodes the payload's [`Codec::frames`] to `out`.
    fn decode(&mut self, payload: &[u8], out: &mut [f32]) -> Result<(), Undecodable>;

    /// Fills `out` from the copy in `next`, `ahead` frames later. Returns `false` without a copy.
    fn recover(&mut self, _next: &[u8], _ahead: Frames, _out: &mut [f32]) -> bool {
        false
    }

    /// Conceals missing frames. Returns `false` if the caller must do that.
    fn conceal(&mut self, _out: &mut [f32]) -> bool {
        false
    }

    /// Resets the state after a gap.
    fn reset(&mut self);
}

/// Creates a decoder; `None` if unsupported.
pub type MakeDecoder = fn(Codec, (Rate, Channels)) -> Option<Box<dyn Decode>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_coding_is_found_by_its_name() {
        for coding in Coding::ALL {
            let row = coding.row();
            assert_eq!(Coding::named(row.name), Some(coding));
            let by_number = Coding::find(|other| other.number == row.number).unwrap();
            let by_type = Coding::find(|other| other.payload_type == row.payload_type).unwrap();
            let by_encoding = Coding::find(|other| other.encoding == row.encoding).unwrap();
            assert_eq!([by_number; 2], [by_type, by_encoding], "{}", row.name);
            assert_eq!(by_number.sample, coding.sample);
            let both = by_number.codec.zip(coding.codec);
            assert!(both.is_none_or(|(one, other)| one.is_read_as(other)), "{}", row.name);
            assert_eq!(by_number.codec.is_some(), coding.codec.is_some());
            let is_alone = |other: &Coding| *other == coding || other.row().rank != row.rank;
            assert!(Coding::ALL.iter().all(is_alone), "{}: a call ranks two alike", row.name);
        }
    }
}
