//! The sender machine: blocks of a device in, datagrams with departure times out. Without I/O.
//!
//! Drive it from the device's thread: [`Sender::push`] each captured block in turn, or
//! [`Sender::skip`] for frames that the device lost. Every finished packet goes to the closure at
//! once, in the machine's own buffer; nothing is allocated. How frames are packed may change in
//! mid-stream ([`Sender::set_packet`], [`Sender::set_sample`]): sequence and media time go on.

use tautline_dsp::format::{self, SampleFormat};

use crate::clock::WallTime;
use crate::ledger::Departure;
use crate::stream::{MOST_DATAGRAM_BYTES, Outgoing, PTIME_RANGE, StreamFormat};
use crate::time::{Frames, LocalTime, MediaTime, Span};
use crate::wire::rtp::{self, Header, Instants, NtpTime, SenderStamps};
use crate::wrap;

/// The random identity of a stream (RFC 3550 §5.1, §8.1), drawn by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Synchronisation source.
    pub ssrc: u32,
    /// Sequence number of the first packet.
    pub sequence: u16,
    /// RTP timestamp of the first frame.
    pub timestamp: u32,
}

/// How a sender works.
#[derive(Debug, Clone, Copy)]
pub struct SenderConfig {
    /// What the stream is.
    pub format: StreamFormat,
    /// Who it is.
    pub identity: Identity,
    /// Frames that the device delivers at a time: sets the departure schedule.
    pub period: Frames,
    /// Whether packets carry the sender's instants; off for strict peers.
    pub stamps: bool,
    /// Wall clock less local clock of this host, frozen.
    pub wall_offset: Span,
}

/// When a block was captured and taken.
#[derive(Debug, Clone, Copy)]
pub struct BlockTimes {
    /// First frame at the ADC.
    pub capture: LocalTime,
    /// The device's thread woke with the block.
    pub taken: LocalTime,
    /// The thread got to this machine.
    pub now: LocalTime,
}

/// What the reports of a session need to know of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SenderState {
    /// Packets sent.
    pub packets: u64,
    /// Bytes of audio sent.
    pub octets: u64,
    /// A frame and its capture, if any was sent.
    pub reference: Option<(MediaTime, LocalTime)>,
}

/// Packs one stream.
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    /// The format from the next packet on that may have it.
    coming: StreamFormat,
    /// The packet being filled: header room, then payload.
    buffer: Box<[u8]>,
    header_bytes: usize,
    filled: Frames,
    /// Capture and taking of the first frame in the buffer.
    first: (LocalTime, LocalTime),
    /// Media time of the next frame to be pushed.
    media: MediaTime,
    sequence: i64,
    marker: bool,
    state: SenderState,
}

impl Sender {
    /// A sender whose first frame has media time zero, with room for packets of the longest time in
    /// the widest coding. Allocates; nothing later does.
    pub fn new(config: SenderConfig) -> Self {
        let header_bytes =
            if config.stamps { rtp::STAMPED_HEADER_BYTES } else { rtp::HEADER_BYTES };
        let longest = StreamFormat {
            packet: config.format.rate.frames_within(PTIME_RANGE.1),
            sample: SampleFormat::F32,
            ..config.format
        };
        let room = (header_bytes + longest.payload_bytes()).min(MOST_DATAGRAM_BYTES);
        let room = room.max(header_bytes + config.format.payload_bytes());
        Self {
            coming: config.format,
            buffer: vec![0; room].into(),
            header_bytes,
            filled: Frames::ZERO,
            first: (LocalTime::ZERO, LocalTime::ZERO),
            media: MediaTime::ZERO,
            sequence: i64::from(config.identity.sequence),
            marker: true,
            state: SenderState::default(),
            config,
        }
    }

    /// Bytes of the longest datagram that it can be told to make.
    pub fn datagram_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// What the stream is, or will be from the next packet on that may have it.
    pub const fn format(&self) -> &StreamFormat {
        &self.coming
    }

    /// Changes the packet length, from the next block on: what was being filled then leaves as a
    /// shorter packet, so that packets keep to the grid of the blocks and none is older than
    /// [`StreamFormat::packing_age`] says. False, and nothing changes, if such packets would be
    /// empty or longer than [`Sender::datagram_bytes`].
    pub fn set_packet(&mut self, packet: Frames) -> bool {
        self.change(StreamFormat { packet, ..self.coming })
    }

    /// Changes the coding of samples from the next packet on, with the payload type that stands for
    /// it: RTP lets a source change that in mid-stream (RFC 3550 §5.1). False, and nothing changes,
    /// if such packets would be longer than [`Sender::datagram_bytes`].
    pub fn set_sample(&mut self, sample: SampleFormat, payload_type: u8) -> bool {
        self.change(StreamFormat { sample, payload_type, ..self.coming })
    }

    fn change(&mut self, coming: StreamFormat) -> bool {
        let fits = coming.packet > Frames::ZERO
            && self.header_bytes + coming.payload_bytes() <= self.buffer.len();
        if fits {
            self.coming = coming;
        }
        fits
    }

    /// What the session's reports need.
    pub const fn state(&self) -> SenderState {
        self.state
    }

    /// The RTP timestamp of `media`.
    pub const fn rtp_timestamp(&self, media: MediaTime) -> u32 {
        self.config.identity.timestamp.wrapping_add(wrap::rtp_timestamp(media.as_frames()))
    }

    /// Frames that would complete the packet being filled; none if none is.
    pub fn until_packet(&self) -> Frames {
        match self.filled {
            Frames::ZERO => Frames::ZERO,
            filled => self.config.format.packet - filled,
        }
    }

    /// Takes a captured block of whole frames; gives each packet that it completes to `emit`.
    pub fn push(&mut self, block: &[f32], times: BlockTimes, mut emit: impl FnMut(Outgoing<'_>)) {
        let StreamFormat { rate, channels, .. } = self.config.format;
        let frames = channels.frames_in(block.len());
        if self.filled > Frames::ZERO && self.coming.packet != self.config.format.packet {
            emit(self.finish(times.now));
        }
        let mut at = Frames::ZERO;
        while at < frames {
            let begins = at == Frames::ZERO || self.coming.packet == self.config.format.packet;
            if self.filled == Frames::ZERO && begins {
                self.config.format = self.coming;
            }
            let StreamFormat { sample, packet, .. } = self.config.format;
            if self.filled == Frames::ZERO {
                self.first = (times.capture + rate.span_of(at), times.taken);
            }
            let take = (packet - self.filled).min(frames - at);
            let samples = &block[channels.samples_in(at)..channels.samples_in(at + take)];
            let bytes = sample.bytes();
            let from = self.header_bytes + channels.samples_in(self.filled) * bytes;
            format::encode(sample, samples, &mut self.buffer[from..from + samples.len() * bytes]);
            self.filled += take;
            self.media += take;
            at += take;
            if self.filled == packet {
                emit(self.finish(times.now));
            }
        }
    }

    /// The device lost `frames`: media time moves on, so that capture = start + media ÷ rate still
    /// holds. A packet that was being filled is completed with silence.
    pub fn skip(&mut self, frames: Frames, now: LocalTime, mut emit: impl FnMut(Outgoing<'_>)) {
        if frames <= Frames::ZERO {
            return;
        }
        let padding = self.until_packet().min(frames);
        let frame_bytes = self.config.format.frame_bytes();
        let from = self.header_bytes + self.filled.as_len() * frame_bytes;
        self.buffer[from..from + padding.as_len() * frame_bytes].fill(0);
        self.filled += padding;
        self.media += padding;
        if self.filled == self.config.format.packet {
            emit(self.finish(now));
        }
        if padding < frames {
            self.media += frames - padding;
            self.marker = true;
        }
    }

    fn finish(&mut self, now: LocalTime) -> Outgoing<'_> {
        let StreamFormat { rate, payload_type, .. } = self.config.format;
        let (capture, taken) = self.first;
        let media = self.media - self.filled;
        let payload_bytes = self.filled.as_len() * self.config.format.frame_bytes();
        let due = capture + self.config.format.packing_age(self.config.period);
        let header = Header {
            sequence: wrap::rtp_sequence(self.sequence),
            timestamp: self.rtp_timestamp(media),
            ssrc: self.config.identity.ssrc,
            marker: self.marker,
            payload_type,
            stamps: self.config.stamps.then(|| SenderStamps {
                capture: NtpTime::from_unix_nanos(
                    WallTime::of_local(capture, self.config.wall_offset).as_unix_nanos(),
                ),
                instants: Some(Instants {
                    taken: taken - capture,
                    packed: now - capture,
                    handed: Span::ZERO,
                }),
            }),
        };
        header.write(&mut self.buffer);
        debug_assert!(capture <= taken + rate.span_of(self.filled), "captured after it was taken");
        self.sequence += 1;
        self.filled = Frames::ZERO;
        self.marker = false;
        self.state.packets += 1;
        self.state.octets += payload_bytes as u64;
        self.state.reference = Some((media, capture));
        Outgoing {
            datagram: &mut self.buffer[..self.header_bytes + payload_bytes],
            instants: Departure { media, capture, taken, packed: now, due, handed: now },
            handed_at: header.handed_at(),
        }
    }
}
