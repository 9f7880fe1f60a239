//! Codings of whole packets: what compresses a packet's frames together, and may remember those before.
//!
//! A [`Codec`] names one and knows what its payloads hold; what codes ([`Encode`]) and what gives back
//! ([`Decode`]) is made elsewhere and handed down, so that nothing here links a library. A coding of
//! single samples needs none of this: [`SampleFormat`]. A [`Coding`] is either.

use core::fmt::Debug;

use tautline_dsp::format::SampleFormat;

use crate::time::{Frames, Span};
use crate::units::{Channels, Rate};

/// What compresses the frames of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Opus (RFC 6716, in RTP by RFC 7587).
    Opus(Opus),
    /// Without loss: prediction and Rice's code, of whole numbers as the stream's `sample` has them.
    Lossless,
}

/// How a sender codes by Opus; receivers need not know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opus {
    /// What it is tuned for.
    pub tuning: OpusTuning,
    /// Bits per second of payload. It is constant, so that all packets are as long as each other and can be
    /// summed for redundancy.
    pub bitrate: u32,
}

/// What Opus is tuned for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OpusTuning {
    /// Any sound, with the least look-ahead: the CELT layer alone (RFC 6716 §2.1.7).
    #[default]
    Music,
    /// Speech: the SILK layer with a coarser copy of each packet in the next (in-band FEC, RFC 6716 §2.1.7).
    Voice,
}

impl Opus {
    /// Rates of bits that Opus takes here: RFC 6716 §2 has 6 to 510 kbit/s.
    pub const BITRATES: (u32, u32) = (6_000, 510_000);
    /// The one rate of frames: RTP counts Opus by a clock of 48 kHz (RFC 7587 §4.1).
    pub const RATE: Rate = Rate::HZ_48000;
    /// Sound in one packet: what Opus takes of what streams may have (RFC 6716 §2.1.4).
    pub const PTIMES: [Span; 4] = [
        Span::from_micros(2_500),
        Span::from_millis(5),
        Span::from_millis(10),
        Span::from_millis(20),
    ];
    /// The longest frame of Opus in bytes (RFC 6716 §3.2.1).
    const MOST_BYTES: u64 = 1275;
    /// The shortest packet in bytes that libopus puts sound in (`opus_encode_native`).
    const LEAST_BYTES: u64 = 3;
    /// The longest packet: 120 ms (RFC 6716 §3.2.5, R5).
    pub const MOST_FRAMES: Frames = Frames::new(5760);

    /// The usual: 96 kbit/s for each channel of music, where 5 ms packets are hard to tell from the original,
    /// and 32 kbit/s for speech.
    pub const fn usual(tuning: OpusTuning, channels: Channels) -> Self {
        let bitrate = match tuning {
            OpusTuning::Music => 96_000 * channels.count() as u32,
            OpusTuning::Voice => 32_000 * channels.count() as u32,
        };
        Self { tuning, bitrate }
    }
}

/// How sound is coded: single samples, and what compresses those of a packet, if anything does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coding {
    /// Coding of one sample, of which a coder takes the whole number.
    pub sample: SampleFormat,
    /// What compresses them.
    pub coder: Option<Codec>,
}

impl From<SampleFormat> for Coding {
    fn from(sample: SampleFormat) -> Self {
        Self::of(sample)
    }
}

/// What stands for a coding, and what is usual for it.
#[derive(Debug, Clone, Copy)]
pub struct CodingRow {
    /// The word for it in reports and for `--format`.
    pub name: &'static str,
    /// What it is, in a line of help.
    pub help: &'static str,
    /// RTP payload type by convention: dynamic (RFC 3551 §6), so a `.sdp` may say otherwise. Codings that one decoder reads
    /// share it.
    pub payload_type: u8,
    /// Encoding name in session descriptions (RFC 8866 §6.6). Those that begin with `x-` are private: none is registered.
    pub encoding: &'static str,
    /// Number in an [`Announcement`](crate::wire::rtcp::Announcement).
    pub number: u8,
    /// Sound in one packet, by default.
    pub ptime: Span,
    /// Place among the codings that a call offers, the better first.
    pub rank: u8,
    /// The shortest packets in which a call that chooses its coding tries it: with few bits, headers are not to be more than
    /// sound. `None` if it never tries it.
    pub adapts_from: Option<Span>,
    /// Whether such a call may begin with it: all networks carry it, and it is good for any sound.
    pub begins: bool,
}

/// Makes [`Coding::ALL`] and [`Coding::row`] of one table.
macro_rules! codings {
    ($($coding:expr, $pattern:pat => $($field:ident: $value:expr),+;)+) => {
        impl Coding {
            /// Each that there is. Of those that share a payload type the first is what a receiver knows.
            pub const ALL: [Self; [$(stringify!($coding)),+].len()] = [$($coding),+];

            /// Its row of the table.
            pub const fn row(self) -> CodingRow {
                match (self.coder, self.sample) {
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
        name: SampleFormat::L32.name(), help: "32-bit integers, to the 24 bits that count in a float",
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
        name: "opus-voice", help: "Opus for speech: 10ms packets, repaired by the next",
        payload_type: 100, encoding: "opus", number: 5, ptime: Span::from_millis(10), rank: 7,
        adapts_from: Some(Span::from_millis(20)), begins: false;
    Coding::LOSSLESS_16, (Some(Codec::Lossless), SampleFormat::L16) =>
        name: "lossless16", help: "16 bits without loss, in about half of them",
        payload_type: 101, encoding: "x-tautline-rice16", number: 6, ptime: Span::from_millis(1), rank: 5,
        adapts_from: Some(Span::ZERO), begins: true;
    Coding::LOSSLESS_24, (Some(Codec::Lossless), _) =>
        name: "lossless24", help: "24 bits without loss, in about two thirds of them",
        payload_type: 102, encoding: "x-tautline-rice24", number: 7, ptime: Span::from_millis(1), rank: 4,
        adapts_from: Some(Span::ZERO), begins: true;
}

impl Coding {
    /// Opus for any sound, as far as both ends agree on it: in how many bits is the sender's choice.
    pub const OPUS: Self = Self { sample: SampleFormat::L24, coder: Some(Codec::OPUS) };
    /// Opus for speech.
    pub const OPUS_VOICE: Self = Self {
        sample: SampleFormat::L24,
        coder: Some(Codec::Opus(Opus::usual(OpusTuning::Voice, Channels::STEREO))),
    };
    /// 16 bits without loss.
    pub const LOSSLESS_16: Self = Self { sample: SampleFormat::L16, coder: Some(Codec::Lossless) };
    /// 24 bits without loss.
    pub const LOSSLESS_24: Self = Self { sample: SampleFormat::L24, coder: Some(Codec::Lossless) };

    /// Of single samples.
    pub const fn of(sample: SampleFormat) -> Self {
        Self { sample, coder: None }
    }

    /// The first for whose row that is so.
    pub fn find(is: impl Fn(&CodingRow) -> bool) -> Option<Self> {
        Self::ALL.into_iter().find(|coding| is(&coding.row()))
    }

    /// The coding of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::find(|row| row.name == name)
    }

    /// All that a coder is part of.
    pub fn compressed() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|coding| coding.coder.is_some())
    }

    /// The same in so many bits per second; those that are always as many stay as they are.
    #[must_use]
    pub fn at_bitrate(mut self, bitrate: u32) -> Self {
        self.coder = self.coder.map(|coder| coder.rules().at_bitrate(bitrate).unwrap_or(coder));
        self
    }

    /// The same in the usual bits for so many channels.
    #[must_use]
    pub fn usual_for(self, channels: Channels) -> Self {
        let usual = self.coder.and_then(|coder| coder.rules().usual_bitrate(channels));
        usual.map_or(self, |bitrate| self.at_bitrate(bitrate))
    }

    /// Its bits per second, where they are chosen and not what its sound takes.
    pub fn bitrate(self) -> Option<u32> {
        self.coder?.rules().bitrate()
    }

    /// Whether both are made by one coder, in whatever bits.
    pub fn is_coded_as(self, other: Self) -> bool {
        self.at_bitrate(0) == other.at_bitrate(0)
    }

    /// The word for it: in reports, and for `--format`.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether it carries whole numbers of `needs` as they are.
    pub fn is_exact_for(self, needs: SampleFormat) -> bool {
        self.bitrate().is_none() && self.sample.bytes() >= needs.bytes()
    }
}

/// What a coder does not take: one sentence that ends with the mend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotCoded {
    /// Another rate than its own.
    #[error(
        "Opus over RTP has a clock of 48000 Hz alone, and this stream is of {0}; use --rate 48000"
    )]
    Rate(Rate),
    /// More channels than it has.
    #[error(
        "Opus codes one channel or two, and this stream has {0}; use --map, or --format lossless24"
    )]
    Channels(Channels),
    /// A packet time that it does not have.
    #[error("Opus has packets of 2.5, 5, 10 and 20 ms; use --ptime 5ms")]
    Packet(Frames),
    /// A packet time that speech is not coded in.
    #[error("Opus codes speech in packets of 10 and 20 ms; use --ptime 10ms, or --format opus")]
    VoicePacket(Frames),
    /// Fewer or more bits than it has.
    #[error("Opus takes 6 to 510 kbit/s, and not {0} bit/s; use --bitrate 96k")]
    Bitrate(u32),
    /// Fewer bits for each packet than sound takes: libopus would send packets of silence.
    #[error(
        "{0} bit/s are too few for Opus in packets of {packet}: less than 3 bytes each; use a greater --bitrate or a longer --ptime",
        packet = Opus::RATE.span_of(*.1)
    )]
    FewBits(u32, Frames),
    /// A frame or two, for which its head would be longer than the sound.
    #[error("packets of {0} frames are too short to be compressed; use a longer --ptime")]
    TooShort(Frames),
}

/// What a coder takes and makes.
pub(crate) trait CodecRules {
    /// Whether a stream of this rate and these channels can be of it, whatever its packets are: all that a receiver
    /// need know beforehand.
    fn check_shape(&self, _rate: Rate, _channels: Channels) -> Result<(), NotCoded> {
        Ok(())
    }

    /// Whether it codes packets of so many frames.
    fn check_packet(&self, packet: Frames) -> Result<(), NotCoded>;

    /// The lengths of packets that it has; `None` where it has any.
    fn ptimes(&self) -> Option<&'static [Span]> {
        None
    }

    /// Frames from what goes in to what comes out beyond the packet itself.
    fn delay(&self) -> Frames {
        Frames::ZERO
    }

    /// Bytes of a packet of so many frames that are `raw` bytes of samples, at most.
    fn payload_bytes(&self, channels: Channels, packet: Frames, raw: usize) -> usize;

    /// The usual bits per second, where they are chosen and not what its sound takes.
    fn usual_bitrate(&self, _channels: Channels) -> Option<u32> {
        None
    }

    /// The least and greatest bits per second that a call chooses by the network, if they can be chosen.
    fn adapted_bitrates(&self, _channels: Channels) -> Option<(u32, u32)> {
        None
    }

    /// Its bits per second, if they can be chosen.
    fn bitrate(&self) -> Option<u32> {
        None
    }

    /// The same coder with so many bits per second, if they can be chosen.
    fn at_bitrate(&self, _bitrate: u32) -> Option<Codec> {
        None
    }

    /// The bits per second of a payload of this size, if they can be chosen.
    fn bitrate_of(&self, _payload_bytes: usize, _frames: Frames) -> Option<u32> {
        None
    }

    /// The share of [`Self::payload_bytes`] that a packet takes on average.
    fn mean_share(&self) -> f64 {
        1.0
    }

    /// Whether packets carry a copy of the sound of the packet before.
    fn has_copies(&self) -> bool {
        false
    }

    /// The clock rate and the channels that its `rtpmap` has (RFC 8866 §6.6).
    fn rtpmap(&self, rate: Rate, channels: Channels) -> (Rate, usize) {
        (rate, channels.count())
    }

    /// The parameters of its `fmtp` (RFC 8866 §6.15), if it has any.
    fn fmtp(&self, _channels: Channels) -> Option<String> {
        None
    }

    /// The parameter by which a sender declares mono, if the `rtpmap` does not.
    fn mono_parameter(&self) -> Option<&'static str> {
        None
    }

    /// How many frames a payload holds, as it says itself.
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
        let least = 8 * Self::LEAST_BYTES * u64::from(Self::RATE.hertz());
        if bits < least { Err(NotCoded::FewBits(self.bitrate, packet)) } else { Ok(()) }
    }

    fn ptimes(&self) -> Option<&'static [Span]> {
        Some(&Self::PTIMES)
    }

    /// What `OPUS_GET_LOOKAHEAD` tells, 2.5 ms without look-ahead and 6.5 ms with (libopus, `opus_encoder.c`).
    fn delay(&self) -> Frames {
        match self.tuning {
            OpusTuning::Music => Frames::new(120),
            OpusTuning::Voice => Frames::new(312),
        }
    }

    /// All packets are as long as each other.
    fn payload_bytes(&self, _: Channels, packet: Frames, _: usize) -> usize {
        let bits = u64::from(self.bitrate) * packet.count().max(0).unsigned_abs();
        (bits / 8 / u64::from(Self::RATE.hertz())).clamp(Self::LEAST_BYTES, Self::MOST_BYTES)
            as usize
    }

    fn usual_bitrate(&self, channels: Channels) -> Option<u32> {
        Some(Self::usual(self.tuning, channels).bitrate)
    }

    /// With fewer bits, short packets of CELT are worse than the layer for speech, and more are not heard. SILK still has all
    /// of speech at 12 kbit/s (RFC 6716 §2.1.1: 8 to 12 kbit/s is narrowband speech).
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

    /// Whatever is in it, its clock is of 48 kHz and its channels are two (RFC 7587 §4.1, §7).
    fn rtpmap(&self, _: Rate, _: Channels) -> (Rate, usize) {
        (Self::RATE, 2)
    }

    /// What RFC 7587 §6.1 has a sender say.
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

/// The rules of [`Codec::Lossless`].
struct Lossless;

impl CodecRules for Lossless {
    fn check_packet(&self, packet: Frames) -> Result<(), NotCoded> {
        let fits = packet >= Codec::LEAST_FRAMES;
        if fits { Ok(()) } else { Err(NotCoded::TooShort(packet)) }
    }

    fn payload_bytes(&self, channels: Channels, _: Frames, raw: usize) -> usize {
        raw + Codec::LOSSLESS_HEAD + channels.count()
    }

    /// Two thirds (docs/codecs.md, of 24 bits in packets of 2.5 ms).
    fn mean_share(&self) -> f64 {
        0.66
    }

    fn frames(&self, payload: &[u8]) -> Option<i64> {
        Some(u16::from_be_bytes(*payload.first_chunk()?).into())
    }
}

impl Codec {
    /// Opus as far as a receiver needs to know it.
    pub const OPUS: Self = Self::Opus(Opus::usual(OpusTuning::Music, Channels::STEREO));
    /// Compressed packets hold no fewer frames.
    pub const LEAST_FRAMES: Frames = Frames::new(4);
    /// What stands before the sound of a payload without loss: its number of frames, in 16 bits.
    pub const LOSSLESS_HEAD: usize = 2;

    pub(crate) fn rules(&self) -> &dyn CodecRules {
        match self {
            Self::Opus(opus) => opus,
            Self::Lossless => &Lossless,
        }
    }

    /// Whether both are read by the same decoder.
    pub fn is_read_as(self, other: Self) -> bool {
        core::mem::discriminant(&self) == core::mem::discriminant(&other)
    }

    /// Whether a stream of this rate and these channels can be of it, whatever its packets are: all that a receiver
    /// need know beforehand.
    pub fn check_shape(self, rate: Rate, channels: Channels) -> Result<(), NotCoded> {
        self.rules().check_shape(rate, channels)
    }

    /// Whether it codes a stream of this rate and these channels in packets of so many frames.
    pub fn check(self, (rate, channels): (Rate, Channels), packet: Frames) -> Result<(), NotCoded> {
        self.check_shape(rate, channels)?;
        self.rules().check_packet(packet)
    }

    /// The lengths of packets that it has; `None` where it has any.
    pub fn ptimes(self) -> Option<&'static [Span]> {
        self.rules().ptimes()
    }

    /// Frames from what goes in to what comes out beyond the packet itself. A sender numbers its packets by what comes
    /// out, so that a receiver of any kind places it right.
    pub fn delay(self) -> Frames {
        self.rules().delay()
    }

    /// Bytes of a packet of so many frames that are `raw` bytes of samples: where it is constant all are so long, else none
    /// is longer.
    pub fn payload_bytes(self, (channels, packet): (Channels, Frames), raw: usize) -> usize {
        self.rules().payload_bytes(channels, packet, raw)
    }

    /// Whether all packets of a length in frames have one length in bytes.
    pub fn is_constant(self) -> bool {
        self.rules().bitrate().is_some()
    }

    /// The bits per second of which a payload so long is, where that is chosen and not what its sound takes.
    pub fn bitrate_of(self, payload_bytes: usize, frames: Frames) -> Option<u32> {
        self.rules().bitrate_of(payload_bytes, frames)
    }

    /// How many frames a payload holds, as it says itself; `None` if that is not so or it is no payload.
    pub fn frames(self, payload: &[u8]) -> Option<Frames> {
        let frames = self.rules().frames(payload)?;
        (frames >= Self::LEAST_FRAMES.count()).then_some(Frames::new(frames))
    }
}

/// What the first byte says, and the second where that counts the frames (RFC 6716 §3.1, §3.2.5): at 48 kHz.
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
    (frames <= Opus::MOST_FRAMES.count()).then_some(frames)
}

/// Codes packets. Made before the stream begins; allocates nothing later.
pub trait Encode: Debug + Send {
    /// What comes of it.
    fn coding(&self) -> Coding;

    /// Codes interleaved samples, a packet's worth as [`Codec::check`] has it, to the start of `room`; how many bytes
    /// that took, or `None` if it cannot be.
    fn encode(&mut self, samples: &[f32], room: &mut [u8]) -> Option<usize>;

    /// Codes what follows in so many bits per second, without a break; nothing where it takes what its sound takes. Neither
    /// allocates nor waits.
    fn set_bitrate(&mut self, _bitrate: u32) {}

    /// So many per cent of packets are lost: what carries copies of earlier sound makes as many as pay. Neither allocates
    /// nor waits.
    fn expect_loss(&mut self, _percent: u8) {}

    /// What follows does not follow what was.
    fn reset(&mut self);
}

/// A payload that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the payload does not hold what it says")]
pub struct Undecodable;

/// Gives packets back, in order. Made before the stream begins; allocates nothing later, and is sent whatever a network
/// brings.
pub trait Decode: Debug + Send {
    /// What it reads.
    fn coder(&self) -> Codec;

    /// Fills `out` with the frames that the payload holds: as many as [`Codec::frames`] says.
    fn decode(&mut self, payload: &[u8], out: &mut [f32]) -> Result<(), Undecodable>;

    /// Fills `out` with lost frames from the copy of them in `next`, which begins `ahead` frames after the end of `out`;
    /// returns false if `next` carries no copy of them.
    fn recover(&mut self, _next: &[u8], _ahead: Frames, _out: &mut [f32]) -> bool {
        false
    }

    /// Fills `out` with what stands for frames that did not come; false if it has nothing, and others are to.
    fn conceal(&mut self, _out: &mut [f32]) -> bool {
        false
    }

    /// What follows does not follow what was.
    fn reset(&mut self);
}

/// Makes what reads a stream of such a coder, rate and channels; `None` where it has none.
pub type MakeDecoder = fn(Codec, (Rate, Channels)) -> Option<Box<dyn Decode>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_coding_is_found_by_what_stands_for_it() {
        for coding in Coding::ALL {
            let row = coding.row();
            assert_eq!(Coding::named(row.name), Some(coding));
            let by_number = Coding::find(|other| other.number == row.number).unwrap();
            let by_type = Coding::find(|other| other.payload_type == row.payload_type).unwrap();
            let by_encoding = Coding::find(|other| other.encoding == row.encoding).unwrap();
            assert_eq!([by_number; 2], [by_type, by_encoding], "{}", row.name);
            assert_eq!(by_number.sample, coding.sample);
            let both = by_number.coder.zip(coding.coder);
            assert!(both.is_none_or(|(one, other)| one.is_read_as(other)), "{}", row.name);
            assert_eq!(by_number.coder.is_some(), coding.coder.is_some());
            let is_alone = |other: &Coding| *other == coding || other.row().rank != row.rank;
            assert!(Coding::ALL.iter().all(is_alone), "{}: a call ranks two alike", row.name);
        }
    }
}
