//! The sender machine: blocks of a device in, datagrams with departure times out. Without I/O.
//!
//! Drive it from the device's thread: [`Packetizer::push`] each captured block in turn, or
//! [`Packetizer::skip`] for frames that the device lost. Every complete packet goes to the closure at
//! once, in the machine's own buffer; nothing is allocated. How frames are packed may change in
//! mid-stream ([`Packetizer::set_format`]): sequence and media time go on.

use core::ops::Range;

use tautline_dsp::dither::Dither;
use tautline_dsp::format::SampleFormat;
use tautline_dsp::vector;

use crate::clock::ClockMapping;
use crate::codec::{Codec, Encode};
use crate::ledger::Departure;
use crate::packet::{Instants, Pack, PackedSound, PacketHead, StreamId};
use crate::redundancy::{ETHERNET, Encoder, LONGEST, Layout};
use crate::stream::{Coding, MOST_DATAGRAM_BYTES, Outgoing, PTIME_RANGE, StreamFormat};
use crate::time::{Frames, LocalTime, MediaTime, Span, WallTime};
use crate::wrap::Wrapped;

/// The random identity of a stream (RFC 3550 §5.1, §8.1), drawn by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The stream: of RTP, its synchronisation source.
    pub stream: StreamId,
    /// Sequence number of the first packet.
    pub sequence: u16,
    /// RTP timestamp of the first frame.
    pub timestamp: u32,
}

/// How a sender works.
#[derive(Debug, Clone, Copy)]
pub struct PacketizerConfig {
    /// How its packets look.
    pub wire: &'static dyn Pack,
    /// What the stream is.
    pub format: StreamFormat,
    /// Who it is.
    pub identity: Identity,
    /// Frames that the device delivers at a time: sets the departure schedule.
    pub period: Frames,
    /// Whether packets carry the sender's instants; off for strict peers.
    pub stamps: bool,
    /// Wall clock less local clock of this host, frozen; packets of forms that say when they are to be presented do by
    /// this as long as nobody knows better ([`Packetizer::set_presentation_clock`]).
    pub wall_offset: Span,
    /// What packets carry of earlier ones.
    pub redundancy: Layout,
    /// From a frame's capture to its presentation, of forms that say when that is: what is promised.
    pub presented_after: Span,
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
pub struct PacketizerState {
    /// Packets sent.
    pub packets: u64,
    /// Bytes of audio sent.
    pub octets: u64,
    /// The number of the last packet sent, as it wraps around in RTP.
    pub newest: u16,
    /// A frame and its capture, if any was sent.
    pub reference: Option<(MediaTime, LocalTime)>,
}

/// Packs one stream.
#[derive(Debug)]
pub struct Packetizer {
    config: PacketizerConfig,
    /// The format from the next packet on that may have it.
    coming: StreamFormat,
    /// Whether packets are made and not sent.
    paused: bool,
    /// The packet being filled: room for the longest header, which ends where the payload begins.
    buffer: Box<[u8]>,
    dither: Dither,
    /// Bytes of a header that carries nothing of other packets.
    header_bytes: usize,
    encoder: Encoder,
    /// What compresses packets, where anything may.
    compressing: Option<Box<Compressing>>,
    repair_data: Box<[u8]>,
    filled: Frames,
    /// Capture and taking of the first frame in the buffer.
    first: (LocalTime, LocalTime),
    /// Media time of the next frame to be pushed.
    media: MediaTime,
    number: i64,
    marker: bool,
    /// How often frames were skipped between two packets.
    restarts: u32,
    /// The clock that packets are presented by, and whether it is not to be relied upon; before anybody said, by the
    /// wall clock.
    presentation: Option<(ClockMapping, bool)>,
    state: PacketizerState,
}

/// What compresses packets, and those that it may be changed for.
#[derive(Debug)]
struct Compressing {
    encoders: Vec<Box<dyn Encode>>,
    /// The packet being filled.
    samples: Box<[f32]>,
}

impl Compressing {
    fn encoder(&mut self, coding: Coding) -> Option<&mut Box<dyn Encode>> {
        self.encoders.iter_mut().find(|encoder| encoder.coding().is_coded_as(coding))
    }
}

/// Room for the longest header: no packet becomes longer than this by what it carries of others.
const HEADER_ROOM: usize = LONGEST;

impl Packetizer {
    /// A sender whose first frame has media time zero, with room for packets of the longest time in
    /// the widest coding. Allocates; nothing later does.
    pub fn new(config: PacketizerConfig) -> Self {
        Self::compressing(config, Vec::new())
    }

    /// The same of a stream that is compressed by one of these, or may be. One that none of them codes brings no
    /// packets.
    pub fn compressing(config: PacketizerConfig, encoders: Vec<Box<dyn Encode>>) -> Self {
        vector::prepare();
        let header_bytes = config.wire.head_bytes(config.stamps, 0);
        let longest = StreamFormat {
            packet: config.format.rate.frames_within(PTIME_RANGE.1),
            sample: SampleFormat::F32,
            coder: None,
            ..config.format
        };
        let samples = config.format.channels.samples_in(longest.packet.max(config.format.packet));
        let compressing = (!encoders.is_empty())
            .then(|| Box::new(Compressing { encoders, samples: vec![0.0; samples].into() }));
        let room = (header_bytes + longest.payload_bytes()).min(MOST_DATAGRAM_BYTES);
        let room = room.max(header_bytes + config.format.payload_bytes()) - header_bytes;
        Self {
            encoder: Encoder::new(config.redundancy),
            compressing,
            repair_data: vec![0; HEADER_ROOM].into(),
            coming: config.format,
            paused: false,
            buffer: vec![0; HEADER_ROOM + room].into(),
            dither: Dither::default(),
            header_bytes,
            filled: Frames::ZERO,
            first: (LocalTime::ZERO, LocalTime::ZERO),
            media: MediaTime::ZERO,
            number: i64::from(config.identity.sequence),
            marker: true,
            restarts: 0,
            presentation: None,
            state: PacketizerState::default(),
            config,
        }
    }

    /// Bytes of the longest datagram that it can be told to make.
    pub fn datagram_bytes(&self) -> usize {
        (self.header_bytes + self.buffer.len() - HEADER_ROOM)
            .max(ETHERNET)
            .max(self.encoder.layout().most_bytes())
    }

    /// What packets carry of earlier ones.
    pub const fn redundancy(&self) -> Layout {
        self.encoder.layout()
    }

    /// Changes what packets carry of earlier ones, from the next packet on.
    pub fn set_redundancy(&mut self, layout: Layout) {
        self.encoder.set(layout);
    }

    /// What the stream is, or will be from the next packet on that may have it.
    pub const fn format(&self) -> &StreamFormat {
        &self.coming
    }

    /// Sends nothing from the next packet on, or goes on. Packets that are not sent have their numbers: they are lost.
    pub const fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Changes packet length and coding, with the payload type that stands for it: RTP lets a source change that in
    /// mid-stream (RFC 3550 §5.1). Another length holds from the next block on: what was being filled then leaves as a
    /// shorter packet, so that packets keep to the grid of the blocks and none is older than
    /// [`StreamFormat::packing_age`] says. False, and nothing changes, if there is no coder for it or such packets would be
    /// empty or longer than [`Packetizer::datagram_bytes`].
    pub fn set_format(&mut self, packet: Frames, coding: Coding, payload_type: u8) -> bool {
        let Coding { sample, coder } = coding;
        let coming = StreamFormat { packet, sample, coder, payload_type, ..self.coming };
        let fits = coming.packet > Frames::ZERO
            && HEADER_ROOM + coming.payload_bytes() <= self.buffer.len()
            && coming.coder.is_none_or(|coder| self.codes(coder, &coming));
        if fits {
            self.coming = coming;
        }
        fits
    }

    /// So many per cent of packets are lost, as receivers say.
    pub fn expect_loss(&mut self, percent: u8) {
        let compressing = self.compressing.iter_mut().flat_map(|it| &mut it.encoders);
        compressing.for_each(|encoder| encoder.expect_loss(percent));
    }

    fn codes(&mut self, coder: Codec, format: &StreamFormat) -> bool {
        let compressing = self.compressing.as_mut();
        let samples = format.channels.samples_in(format.packet);
        coder.check(format.shape(), format.packet).is_ok()
            && compressing
                .is_some_and(|c| c.samples.len() >= samples && c.encoder(format.coding()).is_some())
    }

    /// Presents packets by this clock from the next one on; `uncertain` where it is not to be relied upon.
    pub fn set_presentation_clock(&mut self, clock: ClockMapping, uncertain: bool) {
        self.presentation = Some((clock, uncertain));
    }

    /// What the session's reports need.
    pub const fn state(&self) -> PacketizerState {
        self.state
    }

    /// The RTP timestamp of `media`.
    pub const fn rtp_timestamp(&self, media: MediaTime) -> u32 {
        let begins = Wrapped { value: self.config.identity.timestamp, bits: 32 };
        begins.plus(media.as_frames()).value
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
        let coded = self.config.format.coder.is_some();
        if !coded && self.filled > Frames::ZERO && self.coming.packet != self.config.format.packet {
            self.depart(times.now, &mut emit);
        }
        let mut at = Frames::ZERO;
        while at < frames {
            let begins = at == Frames::ZERO || self.coming.packet == self.config.format.packet;
            // A packet that is compressed has its length, and ends where it ends.
            if self.filled == Frames::ZERO && (begins || self.config.format.coder.is_some()) {
                self.take_up_format();
            }
            let StreamFormat { sample, packet, coder, .. } = self.config.format;
            if self.filled == Frames::ZERO {
                self.first = (times.capture + rate.span_of(at), times.taken);
            }
            let take = (packet - self.filled).min(frames - at);
            let samples = &block[channels.samples_in(at)..channels.samples_in(at + take)];
            if coder.is_none() {
                let bytes = sample.bytes();
                let from = HEADER_ROOM + channels.samples_in(self.filled) * bytes;
                let room = &mut self.buffer[from..from + samples.len() * bytes];
                self.dither.encode(sample, samples, room);
            } else if let Some(compressing) = &mut self.compressing {
                let from = channels.samples_in(self.filled);
                compressing.samples[from..from + samples.len()].copy_from_slice(samples);
            }
            self.filled += take;
            self.media += take;
            at += take;
            if self.filled == packet {
                self.depart(times.now, &mut emit);
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
        if self.config.format.coder.is_none() {
            let frame_bytes = self.config.format.frame_bytes();
            let from = HEADER_ROOM + self.filled.as_len() * frame_bytes;
            self.buffer[from..from + padding.as_len() * frame_bytes].fill(0);
        } else if let Some(compressing) = &mut self.compressing {
            let channels = self.config.format.channels;
            let from = channels.samples_in(self.filled);
            compressing.samples[from..from + channels.samples_in(padding)].fill(0.0);
        }
        self.filled += padding;
        self.media += padding;
        if self.filled == self.config.format.packet {
            self.depart(now, &mut emit);
        }
        if padding < frames {
            self.media += frames - padding;
            // What is skipped bit by bit is one gap: of two restarts a listener would see none.
            self.restarts = self.restarts.wrapping_add(u32::from(!self.marker));
            self.marker = true;
            self.encoder.reset();
        }
    }

    /// The next packet is the first that may have the format that is to come.
    fn take_up_format(&mut self) {
        let before = core::mem::replace(&mut self.config.format, self.coming).coding();
        let coding = self.coming.coding();
        if before == coding {
            return;
        }
        if before.coder.is_some() || coding.coder.is_some() {
            // Packets of another coder may be as long, and begin elsewhere.
            self.encoder.reset();
        }
        if let Some(compressing) = &mut self.compressing
            && let Some(encoder) = compressing.encoder(coding)
        {
            // In other bits alone its sound goes on as it was.
            if !before.is_coded_as(coding) {
                encoder.reset();
            }
            coding.bitrate().into_iter().for_each(|bitrate| encoder.set_bitrate(bitrate));
        }
    }

    /// Compresses the packet that was filled; how many bytes it takes.
    #[inline(never)]
    fn compress(&mut self) -> Option<usize> {
        let Self { compressing, buffer, config, filled, .. } = self;
        let Compressing { encoders, samples } = &mut **compressing.as_mut()?;
        let coding = config.format.coding();
        let encoder = encoders.iter_mut().find(|encoder| encoder.coding().is_coded_as(coding))?;
        let samples = &samples[..config.format.channels.samples_in(*filled)];
        encoder.encode(samples, &mut buffer[HEADER_ROOM..])
    }

    /// Lets the packet go that is being filled.
    fn depart(&mut self, now: LocalTime, emit: &mut impl FnMut(Outgoing<'_>)) {
        if self.paused {
            self.filled = Frames::ZERO;
            self.number += 1;
            return;
        }
        let again = self.encoder.layout().repeat();
        let payload_bytes = match self.config.format.coder {
            None => self.filled.as_len() * self.config.format.frame_bytes(),
            Some(_) => match self.compress() {
                Some(bytes) => bytes,
                None => {
                    // What cannot be coded is a gap like any other.
                    self.filled = Frames::ZERO;
                    self.number += 1;
                    return;
                }
            },
        };
        let (bytes, instants, handed_at) = self.finish(payload_bytes, now);
        emit(Outgoing { datagram: &mut self.buffer[bytes], instants, handed_at, again });
    }

    /// Completes the packet: where it lies in the buffer, its instants, and where the hand-over is to
    /// be written.
    fn finish(
        &mut self,
        payload_bytes: usize,
        now: LocalTime,
    ) -> (Range<usize>, Departure, Option<usize>) {
        let StreamFormat { rate, payload_type, .. } = self.config.format;
        let (capture, taken) = self.first;
        // What comes out of a decoder first went in before: the packet is told, and placed, by that.
        let delay = self.config.format.coder.map_or(Frames::ZERO, Codec::delay);
        let capture = capture + -rate.span_of(delay);
        let media = self.media - self.filled - delay;
        let due = capture + self.config.format.packing_age(self.config.period);
        let PacketizerConfig { wire, stamps, identity, wall_offset, presented_after, .. } =
            self.config;
        let head = PacketHead {
            stream: identity.stream,
            number: Wrapped::of(self.number, wire.number_bits()),
            media: Wrapped { value: self.rtp_timestamp(media), bits: 32 },
            begins: self.marker,
            coding: payload_type,
            capture: stamps.then(|| WallTime::of_local(capture, wall_offset)),
            instants: stamps.then(|| Instants {
                taken: taken - capture,
                packed: now - capture,
                handed: Span::ZERO,
                held: Span::ZERO,
            }),
        };
        let payload = &self.buffer[HEADER_ROOM..HEADER_ROOM + payload_bytes];
        let most = self.encoder.layout().most_bytes().saturating_sub(payload_bytes);
        let most = wire.carried_within(stamps, most).min(self.repair_data.len());
        let room = &mut self.repair_data[..most];
        let repair_data = self.encoder.write(self.number, payload_type, payload, room);
        let start = HEADER_ROOM - wire.head_bytes(stamps, repair_data);
        let (wall, uncertain) = match &self.presentation {
            Some((clock, uncertain)) => (clock.wall(capture), *uncertain),
            None => (WallTime::of_local(capture, wall_offset), false),
        };
        let sound = PackedSound {
            format: &self.config.format,
            bytes: payload_bytes,
            presentation: wall + presented_after,
            restarts: self.restarts,
            uncertain,
        };
        let carried = &self.repair_data[..repair_data];
        let packed = wire.pack(&head, &sound, carried, &mut self.buffer[start..]);
        // What a program made in one block is there before its time: by less than a period.
        let ahead = rate.span_of(self.filled.max(self.config.period));
        debug_assert!(capture <= taken + ahead, "captured after it was taken");
        self.state.newest = self.number as u16;
        self.number += 1;
        self.filled = Frames::ZERO;
        self.marker = false;
        self.state.packets += 1;
        self.state.octets += payload_bytes as u64;
        self.state.reference = Some((media, capture));
        let instants =
            Departure { media, capture, taken, packed: now, due, handed: now, launched: now };
        (start..HEADER_ROOM + payload_bytes, instants, packed.handed_at)
    }
}
