//! A media packet: all that sender and receiver know of one, whatever wire form carries it.
//!
//! Headers, identifiers and the order of bytes are known to whoever writes and reads them ([`Pack`],
//! [`Unpack`]: [`crate::wire`] has them) and nowhere else. What a form reads is a view into the
//! datagram; nothing here allocates.

mod invalid;

use core::fmt::Debug;

use tautline_dsp::format::SampleFormat;

use crate::codec::{Codec, Coding};
use crate::stream::StreamFormat;
use crate::time::{Frames, Span, WallTime};
use crate::units::{Channels, Rate};
use crate::wrap::Wrapped;

pub use invalid::Invalid;

/// Which stream of its session a packet belongs to: of RTP, the synchronisation source
/// (RFC 3550 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(pub u64);

impl StreamId {
    /// The synchronisation source that it stands for in a session of RTP.
    pub const fn ssrc(self) -> u32 {
        self.0 as u32
    }
}

impl From<u32> for StreamId {
    fn from(ssrc: u32) -> Self {
        Self(ssrc.into())
    }
}

/// The instants inside the sender as lengths of time since the capture of the packet's first frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Instants {
    /// The block that holds the first frame reached the program.
    pub taken: Span,
    /// Packet complete.
    pub packed: Span,
    /// Handed to the kernel. Zero until the link fills it in ([`Packed::handed_at`]).
    pub handed: Span,
    /// From then to its launch time, if it has one. Zero until the link fills it in.
    pub held: Span,
}

/// What a packet says of itself, beside its audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketHead {
    /// The stream.
    pub stream: StreamId,
    /// Counts packets.
    pub number: Wrapped,
    /// Counts frames: where the stream began, plus the media time of the packet's first frame.
    pub media: Wrapped,
    /// Whether it says that it is the first after a pause (of RTP: the marker, RFC 3551 §4.1).
    pub begins: bool,
    /// What stands for the coding of the audio: of RTP, the payload type (RFC 3551 §6).
    pub coding: u8,
    /// When the first frame met the ADC, on the sender's wall clock, if it says so.
    pub capture: Option<WallTime>,
    /// The sender's further instants, if it tells them; only beside the first.
    pub instants: Option<Instants>,
}

/// What a packet carries of earlier ones: a view into the datagram, where it may lie in pieces.
#[derive(Debug, Clone, Copy)]
pub struct Carried<'a> {
    rest: &'a [u8],
    next: NextPiece,
}

/// The next piece, and the rest after it: which begins with a piece, or is empty.
pub type NextPiece = for<'b> fn(&'b [u8]) -> Option<(&'b [u8], &'b [u8])>;

impl<'a> Carried<'a> {
    /// In one piece.
    pub fn whole(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, next: |bytes| (!bytes.is_empty()).then_some((bytes, &[])) }
    }

    /// In pieces, as `next` finds them.
    pub(crate) fn in_pieces(rest: &'a [u8], next: NextPiece) -> Self {
        Self { rest, next }
    }

    /// Puts it together in `room`; `None` if it does not fit.
    pub fn gather<'b>(&self, room: &'b mut [u8]) -> Option<&'b [u8]> {
        let (mut rest, mut len) = (self.rest, 0);
        while let Some((piece, after)) = (self.next)(rest) {
            room.get_mut(len..len + piece.len())?.copy_from_slice(piece);
            (rest, len) = (after, len + piece.len());
        }
        Some(&room[..len])
    }
}

/// By where it lies.
impl PartialEq for Carried<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.rest == other.rest
    }
}

impl Eq for Carried<'_> {}

/// When the first frame of a packet is to be presented: the low 32 bits of a clock in nanoseconds, which
/// come round every 4.295 s (IEEE 1722-2016 §4.4.4, `avtp_timestamp`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresentationTime(pub u32);

impl PresentationTime {
    /// Of an instant on that clock.
    pub const fn of(clock: WallTime) -> Self {
        Self(clock.as_unix_nanos() as u32)
    }

    /// How much later than `other` it is, between half a round before and half a round after.
    pub const fn since(self, other: Self) -> Span {
        Span::from_nanos(self.0.wrapping_sub(other.0).cast_signed() as i64)
    }

    /// The instant on the whole clock, being the one nearest to `near`.
    pub fn nearest(self, near: WallTime) -> WallTime {
        near + self.since(Self::of(near))
    }
}

/// What a packet says of time where it counts no frames: its place among the others follows from that
/// and from its number ([`crate::frame_count`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Presented {
    /// When its first frame is to be presented; some forms say it of every eighth packet alone.
    pub time: Option<PresentationTime>,
    /// Whether the sender's clock is not to be relied upon just now (`tu`).
    pub uncertain: bool,
    /// Changes where the sender's media clock began anew (`mr`).
    pub restarts: bool,
    /// Its own count of packets (`sequence_num`): the same as [`PacketHead::number`], or the low bits of that where
    /// what carries the packet counts further.
    pub number: u8,
}

/// What a packet says of the stream's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatedShape {
    /// The nominal rate, if it is one that streams may have.
    pub rate: Option<Rate>,
    /// Samples per frame.
    pub channels: u16,
    /// How they are coded, if streams may be.
    pub sample: Option<SampleFormat>,
}

/// One packet that came, found whole: a view into the datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaPacket<'a> {
    /// What it says of itself.
    pub head: PacketHead,
    /// The audio.
    pub payload: &'a [u8],
    /// What it carries of earlier packets, if anything.
    pub carried: Option<Carried<'a>>,
    /// When it is to be presented, of forms that say that instead of counting frames; the receiver
    /// counts, and nothing of [`PacketHead::media`] and [`PacketHead::capture`] is known before.
    pub presented: Option<Presented>,
    /// The stream's shape, of forms that say it.
    pub shape: Option<StatedShape>,
}

impl MediaPacket<'_> {
    /// What stream it is of, where it says that itself.
    pub fn format(&self) -> Option<StreamFormat> {
        let StatedShape { rate, channels, sample } = self.shape?;
        let channels = Channels::new(channels.into()).ok()?;
        let format = StreamFormat {
            coder: None,
            rate: rate?,
            channels,
            sample: sample?,
            packet: Frames::new(1),
            payload_type: self.head.coding,
        };
        let packet = self.frames(&format, Frames::new(i64::from(u16::MAX))).ok()?;
        Some(StreamFormat { packet, ..format })
    }

    /// How many frames of `format` the packet carries, or why it is none of the stream. More than
    /// `longest` frames are refused.
    pub fn frames(&self, format: &StreamFormat, longest: Frames) -> Result<Frames, Invalid> {
        if self.head.coding != format.payload_type {
            return Err(Invalid::PayloadType(self.head.coding));
        }
        if let Some(shape) = self.shape {
            if shape.rate != Some(format.rate) {
                return Err(Invalid::Rate(shape.rate));
            }
            if usize::from(shape.channels) != format.channels.count() {
                return Err(Invalid::Channels(shape.channels));
            }
        }
        let (payload_bytes, frame_bytes) = (self.payload.len(), format.frame_bytes());
        if payload_bytes == 0 {
            return Err(Invalid::Empty);
        }
        if let Some(coder) = format.coder {
            return self.coded_frames(coder, format.channels, longest);
        }
        if !payload_bytes.is_multiple_of(frame_bytes) {
            return Err(Invalid::PartialFrame { payload_bytes, frame_bytes });
        }
        let frames = Frames::from_len(payload_bytes / frame_bytes);
        if frames > longest { Err(Invalid::Oversized { frames, longest }) } else { Ok(frames) }
    }

    /// How many frames it carries where they are compressed. A payload has no more bytes than the samples that it holds
    /// have where they lie decoded.
    #[inline(never)]
    fn coded_frames(
        &self,
        coder: Codec,
        channels: Channels,
        longest: Frames,
    ) -> Result<Frames, Invalid> {
        let frames = coder.frames(self.payload).ok_or(Invalid::Coded)?;
        if self.payload.len() > channels.samples_in(frames) * size_of::<f32>() {
            return Err(Invalid::Coded);
        }
        if frames > longest { Err(Invalid::Oversized { frames, longest }) } else { Ok(frames) }
    }
}

/// A header as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed {
    /// Bytes that it took.
    pub bytes: usize,
    /// Where in it [`handed_bytes`] go, which the link writes at the last moment.
    pub handed_at: Option<usize>,
}

/// What a link writes at the last moment: from capture to the hand-over to the kernel, as a big-endian `u32` of
/// nanoseconds, and from that to the launch, as a `u16` of `HELD_STEP`; each held between zero and its greatest.
pub fn handed_bytes(handed: Span, held: Span) -> [u8; 6] {
    let [a, b, c, d] = (handed.as_nanos().clamp(0, u32::MAX.into()) as u32).to_be_bytes();
    let [e, f] = held_steps(held).to_be_bytes();
    [a, b, c, d, e, f]
}

/// A launch is told to a quarter of a microsecond, up to 16.8 ms after the hand-over.
pub(crate) const HELD_STEP: Span = Span::from_nanos(256);

/// [`Instants::held`] in 16 bits.
pub fn held_steps(held: Span) -> u16 {
    (held.as_nanos() / HELD_STEP.as_nanos()).clamp(0, u16::MAX.into()) as u16
}

/// What so many steps are.
pub const fn held_of(steps: u16) -> Span {
    Span::from_nanos(steps as i64 * HELD_STEP.as_nanos())
}

/// What a form may say of the sound behind a header, beside the packet's [`PacketHead`].
#[derive(Debug, Clone, Copy)]
pub struct PackedSound<'a> {
    /// What the stream is.
    pub format: &'a StreamFormat,
    /// Bytes of audio.
    pub bytes: usize,
    /// When its first frame is to be presented, on the sender's wall clock.
    pub presentation: WallTime,
    /// How often the sender's media clock began anew.
    pub restarts: u32,
    /// Whether the sender's clock is not to be relied upon just now.
    pub uncertain: bool,
}

impl<'a> PackedSound<'a> {
    /// Of a form that says nothing of presentation.
    pub const fn of(format: &'a StreamFormat, bytes: usize) -> Self {
        let presentation = WallTime::from_unix_nanos(0);
        Self { format, bytes, presentation, restarts: 0, uncertain: false }
    }
}

/// How packets are written: what stands before the audio.
pub trait Pack: Debug + Sync {
    /// The word for it in reports.
    fn name(&self) -> &'static str;

    /// Bits of the count of packets: it wraps around beyond.
    fn number_bits(&self) -> u32;

    /// Bytes before the audio, with or without the sender's instants, and with so many bytes of
    /// earlier packets.
    fn head_bytes(&self, stamps: bool, carried: usize) -> usize;

    /// The most bytes of earlier packets with which no more than `most` stand before the audio.
    fn carried_within(&self, stamps: bool, most: usize) -> usize;

    /// Writes what stands before the audio to the start of `room`, which is at least as long as
    /// [`Self::head_bytes`] says.
    fn pack(
        &self,
        head: &PacketHead,
        sound: &PackedSound<'_>,
        carried: &[u8],
        room: &mut [u8],
    ) -> Packed;
}

impl PartialEq for dyn Pack {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for dyn Pack {}

/// Which codings ([`PacketHead::coding`]) are taken for those of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Codings {
    /// The one of the stream's format, as both ends have agreed.
    Exactly,
    /// Any that may stand for that, or that stands for one whoever uses it; the first packet's is kept.
    Any,
    /// Those that tautline senders use by default; each says its own, which may change in mid-stream.
    #[default]
    ByConvention,
}

/// How packets are read.
pub trait Unpack: Debug + Send + Sync {
    /// Reads a datagram. What it does not know it passes over.
    fn unpack<'a>(&self, datagram: &'a [u8]) -> Result<MediaPacket<'a>, Invalid>;

    /// Which codings are taken.
    fn codings(&self) -> Codings;

    /// Whether packets say when they are to be presented, instead of counting frames.
    fn presents(&self) -> bool {
        false
    }

    /// How a packet is coded that says `coding`, if that may be one of a stream that is to be `format`.
    fn coding(&self, coding: u8, format: &StreamFormat) -> Option<Coding>;

    /// The stream that a datagram would belong to if it were a packet, by as few of its bytes as say
    /// it.
    fn stream(&self, datagram: &[u8]) -> Option<StreamId> {
        self.unpack(datagram).ok().map(|packet| packet.head.stream)
    }
}
