//! Media packet, independent of the wire form ([`Pack`], [`Unpack`]). An unpacked packet is a view
//! into the datagram; nothing allocates.

mod invalid;

use core::fmt::Debug;

use tautline_dsp::format::SampleFormat;

use crate::codec::{Codec, Coding};
use crate::stream::StreamFormat;
use crate::time::{Frames, Span, WallTime};
use crate::units::{Channels, Rate};
use crate::wrap::Wrapped;

pub use invalid::Invalid;

/// Stream within a session: the SSRC in RTP (RFC 3550 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(pub u64);

impl StreamId {
    /// SSRC of the stream.
    pub const fn ssrc(self) -> u32 {
        self.0 as u32
    }
}

impl From<u32> for StreamId {
    fn from(ssrc: u32) -> Self {
        Self(ssrc.into())
    }
}

/// The sender's times since the capture of the first frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Instants {
    /// First frame in the program.
    pub taken: Span,
    /// Packet complete.
    pub packed: Span,
    /// Passed to the kernel; 0 until the link sets it ([`Packed::handed_at`]).
    pub handed: Span,
    /// Time from `handed` to the launch time; 0 until the link sets it.
    pub held: Span,
}

/// Header fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketHead {
    /// Stream.
    pub stream: StreamId,
    /// Packet number.
    pub number: Wrapped,
    /// Frame number: initial offset plus media time of the first frame.
    pub media: Wrapped,
    /// First packet after a pause (RTP marker, RFC 3551 §4.1).
    pub begins: bool,
    /// RTP payload type (RFC 3551 §6).
    pub coding: u8,
    /// Capture of the first frame on the sender's wall clock.
    pub capture: Option<WallTime>,
    /// Further times; requires `capture`.
    pub instants: Option<Instants>,
}

/// Redundancy for earlier packets, possibly in pieces.
#[derive(Debug, Clone, Copy)]
pub struct Carried<'a> {
    rest: &'a [u8],
    next: NextPiece,
}

/// Returns the next piece and the rest.
pub type NextPiece = for<'b> fn(&'b [u8]) -> Option<(&'b [u8], &'b [u8])>;

impl<'a> Carried<'a> {
    /// Redundancy in one piece.
    pub fn whole(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, next: |bytes| (!bytes.is_empty()).then_some((bytes, &[])) }
    }

    pub(crate) fn in_pieces(rest: &'a [u8], next: NextPiece) -> Self {
        Self { rest, next }
    }

    /// Copies the pieces to `room`; `None` if they do not fit.
    pub fn gather<'b>(&self, room: &'b mut [u8]) -> Option<&'b [u8]> {
        let (mut rest, mut len) = (self.rest, 0);
        while let Some((piece, after)) = (self.next)(rest) {
            room.get_mut(len..len + piece.len())?.copy_from_slice(piece);
            (rest, len) = (after, len + piece.len());
        }
        Some(&room[..len])
    }
}

/// Compares position, not content.
impl PartialEq for Carried<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.rest == other.rest
    }
}

impl Eq for Carried<'_> {}

/// Presentation time: low 32 bits in nanoseconds, which wrap every 4.295 s (IEEE 1722-2016 §4.4.4,
/// `avtp_timestamp`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresentationTime(pub u32);

impl PresentationTime {
    /// Truncates an instant.
    pub const fn of(clock: WallTime) -> Self {
        Self(clock.as_unix_nanos() as u32)
    }

    /// Signed distance, within half a wrap.
    pub const fn since(self, other: Self) -> Span {
        Span::from_nanos(self.0.wrapping_sub(other.0).cast_signed() as i64)
    }

    /// Full time nearest to `near`.
    pub fn nearest(self, near: WallTime) -> WallTime {
        near + self.since(Self::of(near))
    }
}

/// Timing of a packet without a frame count ([`crate::frame_count`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Presented {
    /// Time of the first frame; only in every eighth packet of some forms.
    pub time: Option<PresentationTime>,
    /// Sender's clock uncertain (`tu`).
    pub uncertain: bool,
    /// Toggles when the media clock restarts (`mr`).
    pub restarts: bool,
    /// Number of the form itself (`sequence_num`): [`PacketHead::number`], or its low bits.
    pub number: u8,
}

/// Stream parameters in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatedShape {
    /// Nominal rate, if supported.
    pub rate: Option<Rate>,
    /// Samples per frame.
    pub channels: u16,
    /// Sample format.
    pub sample: SampleFormat,
}

/// Valid packet: a view into the datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaPacket<'a> {
    /// Header fields.
    pub head: PacketHead,
    /// Audio bytes.
    pub payload: &'a [u8],
    /// Redundancy for earlier packets.
    pub carried: Option<Carried<'a>>,
    /// Presentation timing without a frame count. [`PacketHead::media`] and [`PacketHead::capture`]
    /// are unknown before counting.
    pub presented: Option<Presented>,
    /// Stream parameters, if carried.
    pub shape: Option<StatedShape>,
}

impl MediaPacket<'_> {
    /// Stream format, if carried.
    pub fn format(&self) -> Option<StreamFormat> {
        let StatedShape { rate, channels, sample } = self.shape?;
        let channels = Channels::new(channels.into()).ok()?;
        let format = StreamFormat {
            codec: None,
            rate: rate?,
            channels,
            sample,
            packet: Frames::new(1),
            payload_type: self.head.coding,
        };
        let packet = self.frames(&format, Frames::new(i64::from(u16::MAX))).ok()?;
        Some(StreamFormat { packet, ..format })
    }

    /// Number of frames, at most `longest`, or why it is invalid.
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
        if let Some(codec) = format.codec {
            return self.coded_frames(codec, format.channels, longest);
        }
        if !payload_bytes.is_multiple_of(frame_bytes) {
            return Err(Invalid::PartialFrame { payload_bytes, frame_bytes });
        }
        let frames = Frames::from_len(payload_bytes / frame_bytes);
        if frames > longest { Err(Invalid::Oversized { frames, longest }) } else { Ok(frames) }
    }

    /// Must be shorter than the decoded samples.
    #[inline(never)]
    fn coded_frames(
        &self,
        codec: Codec,
        channels: Channels,
        longest: Frames,
    ) -> Result<Frames, Invalid> {
        let frames = codec.frames(self.payload).ok_or(Invalid::Coded)?;
        if self.payload.len() > channels.samples_in(frames) * size_of::<f32>() {
            return Err(Invalid::Coded);
        }
        if frames > longest { Err(Invalid::Oversized { frames, longest }) } else { Ok(frames) }
    }
}

/// Written header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed {
    /// Length in bytes.
    pub bytes: usize,
    /// Position of [`handed_bytes`] for the link.
    pub handed_at: Option<usize>,
}

/// Bytes that a link writes last: capture to send (`u32` in nanoseconds), send to launch (`u16` in
/// `HELD_STEP`). Big-endian, saturating.
pub fn handed_bytes(handed: Span, held: Span) -> [u8; 6] {
    let [a, b, c, d] = (handed.as_nanos().clamp(0, u32::MAX.into()) as u32).to_be_bytes();
    let [e, f] = held_steps(held).to_be_bytes();
    [a, b, c, d, e, f]
}

/// Unit of the time in 16 bits, which reaches 16.8 ms.
pub(crate) const HELD_STEP: Span = Span::from_nanos(256);

/// [`Instants::held`] in steps.
pub fn held_steps(held: Span) -> u16 {
    (held.as_nanos() / HELD_STEP.as_nanos()).clamp(0, u16::MAX.into()) as u16
}

/// Span of these steps.
pub const fn held_of(steps: u16) -> Span {
    Span::from_nanos(steps as i64 * HELD_STEP.as_nanos())
}

/// Audio properties that a form may write besides [`PacketHead`].
#[derive(Debug, Clone, Copy)]
pub struct PackedSound<'a> {
    /// Stream format.
    pub format: &'a StreamFormat,
    /// Bytes of audio.
    pub bytes: usize,
    /// Presentation of the first frame on the sender's wall clock.
    pub presentation: WallTime,
    /// Restarts of the media clock.
    pub restarts: u32,
    /// Whether the sender's clock is uncertain.
    pub uncertain: bool,
}

impl<'a> PackedSound<'a> {
    /// Without presentation times.
    pub const fn of(format: &'a StreamFormat, bytes: usize) -> Self {
        let presentation = WallTime::from_unix_nanos(0);
        Self { format, bytes, presentation, restarts: 0, uncertain: false }
    }
}

/// Writes packet headers.
pub trait Pack: Debug + Sync {
    /// Name in reports.
    fn name(&self) -> &'static str;

    /// Bits of the packet number.
    fn number_bits(&self) -> u32;

    /// Header bytes, with redundancy of `carried` bytes.
    fn head_bytes(&self, stamps: bool, carried: usize) -> usize;

    /// Maximum redundancy in a header of at most `maximum` bytes.
    fn carried_within(&self, stamps: bool, maximum: usize) -> usize;

    /// Writes the header to `room`, at least [`Self::head_bytes`] long.
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

/// Accepted codings ([`PacketHead::coding`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Codings {
    /// Only the coding of the stream format.
    Exactly,
    /// Any payload type that may mean the format's coding, and all well-known payload types. The
    /// first packet fixes the payload type.
    Any,
    /// Defaults of tautline senders; may change mid-stream.
    #[default]
    ByConvention,
}

/// Reads packets.
pub trait Unpack: Debug + Send + Sync {
    /// Parses a datagram; skips unknown fields.
    fn unpack<'a>(&self, datagram: &'a [u8]) -> Result<MediaPacket<'a>, Invalid>;

    /// Accepted codings.
    fn codings(&self) -> Codings;

    /// Whether packets have presentation times, not frame counts.
    fn presents(&self) -> bool {
        false
    }

    /// Coding with this number in a stream of `format`.
    fn coding(&self, coding: u8, format: &StreamFormat) -> Option<Coding>;

    /// Stream of a datagram. Reads few bytes and does not validate.
    fn stream(&self, datagram: &[u8]) -> Option<StreamId> {
        self.unpack(datagram).ok().map(|packet| packet.head.stream)
    }
}
