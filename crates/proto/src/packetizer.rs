//! Packetizer: turns device blocks into datagrams with departure times. Does no I/O.
//!
//! [`Packetizer::push`] takes blocks on the device thread and passes complete packets to a closure.
//! Nothing allocates. A format change ([`Packetizer::set_format`]) keeps numbers and media time.

use core::ops::Range;

use tautline_dsp::dither::Dither;
use tautline_dsp::format::SampleFormat;
use tautline_dsp::vector;

use crate::clock::ClockMapping;
use crate::codec::{Codec, Encode};
use crate::ledger::Departure;
use crate::packet::{Instants, Pack, PackedSound, PacketHead, StreamId};
use crate::redundancy::{ETHERNET, Encoder, LONGEST, Layout};
use crate::stream::{Coding, MAX_DATAGRAM_BYTES, Outgoing, PTIME_RANGE, StreamFormat};
use crate::time::{Frames, LocalTime, MediaTime, Span, WallTime};
use crate::wrap::Wrapped;

/// Random identity of a stream (RFC 3550 §5.1, §8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Stream id: the SSRC in RTP.
    pub stream: StreamId,
    /// First sequence number.
    pub sequence: u16,
    /// First RTP timestamp.
    pub timestamp: u32,
}

/// Packetizer configuration.
#[derive(Debug, Clone, Copy)]
pub struct PacketizerConfig {
    /// Wire form.
    pub wire: &'static dyn Pack,
    /// Stream format.
    pub format: StreamFormat,
    /// Identity of the stream.
    pub identity: Identity,
    /// Frames per device block; determines departure times.
    pub period: Frames,
    /// Whether packets carry timestamps. `false` for strict peers.
    pub stamps: bool,
    /// Wall clock minus local clock, constant. Used for presentation until
    /// [`Packetizer::set_presentation_clock`].
    pub wall_offset: Span,
    /// Redundancy for earlier packets.
    pub redundancy: Layout,
    /// Promised latency, for wire forms with presentation times.
    pub presented_after: Span,
}

/// Times of a block.
#[derive(Debug, Clone, Copy)]
pub struct BlockTimes {
    /// First frame at the ADC.
    pub capture: LocalTime,
    /// Wake-up of the device thread.
    pub taken: LocalTime,
    /// Start of the packetizer's work.
    pub now: LocalTime,
}

/// State for RTCP reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketizerState {
    /// Packets sent.
    pub packets: u64,
    /// Bytes of audio sent.
    pub octets: u64,
    /// Last sequence number, wrapped.
    pub newest: u16,
    /// Media time and capture time of a frame.
    pub reference: Option<(MediaTime, LocalTime)>,
}

/// Packetizer of one stream.
#[derive(Debug)]
pub struct Packetizer {
    config: PacketizerConfig,
    coming: StreamFormat,
    paused: bool,
    /// The room for the longest header ends at the payload.
    buffer: Box<[u8]>,
    dither: Dither,
    header_bytes: usize,
    encoder: Encoder,
    compressing: Option<Box<Compressing>>,
    repair_data: Box<[u8]>,
    filled: Frames,
    first: (LocalTime, LocalTime),
    media: MediaTime,
    number: i64,
    marker: bool,
    restarts: u32,
    /// Presentation clock, and whether it is uncertain. `None`: wall clock.
    presentation: Option<(ClockMapping, bool)>,
    state: PacketizerState,
}

#[derive(Debug)]
struct Compressing {
    encoders: Vec<Box<dyn Encode>>,
    samples: Box<[f32]>,
}

impl Compressing {
    fn encoder(&mut self, coding: Coding) -> Option<&mut Box<dyn Encode>> {
        self.encoders.iter_mut().find(|encoder| encoder.coding().is_coded_as(coding))
    }
}

const HEADER_ROOM: usize = LONGEST;

impl Packetizer {
    /// Starts at media time 0, with room for the longest packet in the widest coding. Only this and
    /// [`Packetizer::compressing`] allocate.
    pub fn new(config: PacketizerConfig) -> Self {
        Self::compressing(config, Vec::new())
    }

    /// Like [`Packetizer::new`], with encoders. Sends nothing if none matches the format.
    pub fn compressing(config: PacketizerConfig, encoders: Vec<Box<dyn Encode>>) -> Self {
        vector::prepare();
        let header_bytes = config.wire.head_bytes(config.stamps, 0);
        let longest = StreamFormat {
            packet: config.format.rate.frames_within(PTIME_RANGE.1),
            sample: SampleFormat::F32,
            codec: None,
            ..config.format
        };
        let samples = config.format.channels.samples_in(longest.packet.max(config.format.packet));
        let compressing = (!encoders.is_empty())
            .then(|| Box::new(Compressing { encoders, samples: vec![0.0; samples].into() }));
        let room = (header_bytes + longest.payload_bytes()).min(MAX_DATAGRAM_BYTES);
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

    /// Maximum datagram length.
    pub fn datagram_bytes(&self) -> usize {
        (self.header_bytes + self.buffer.len() - HEADER_ROOM)
            .max(ETHERNET)
            .max(self.encoder.layout().max_bytes())
    }

    /// Redundancy layout.
    pub const fn redundancy(&self) -> Layout {
        self.encoder.layout()
    }

    /// Sets the layout from the next packet on.
    pub fn set_redundancy(&mut self, layout: Layout) {
        self.encoder.set(layout);
    }

    /// Format of the next suitable packet.
    pub const fn format(&self) -> &StreamFormat {
        &self.coming
    }

    /// Pauses or resumes sending. Unsent packets count as lost.
    pub const fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Changes packet length, coding and payload type (RFC 3550 §5.1) from the next block on. A
    /// partial packet leaves shorter, so none exceeds [`StreamFormat::packing_age`]. Returns
    /// `false` without a matching encoder, or if packets would be empty or exceed
    /// [`Packetizer::datagram_bytes`].
    pub fn set_format(&mut self, packet: Frames, coding: Coding, payload_type: u8) -> bool {
        let Coding { sample, codec } = coding;
        let coming = StreamFormat { packet, sample, codec, payload_type, ..self.coming };
        let fits = coming.packet > Frames::ZERO
            && HEADER_ROOM + coming.payload_bytes() <= self.buffer.len()
            && coming.codec.is_none_or(|codec| self.codes(codec, &coming));
        if fits {
            self.coming = coming;
        }
        fits
    }

    /// Sets the packet loss in per cent.
    pub fn expect_loss(&mut self, percent: u8) {
        let compressing = self.compressing.iter_mut().flat_map(|it| &mut it.encoders);
        compressing.for_each(|encoder| encoder.expect_loss(percent));
    }

    fn codes(&mut self, codec: Codec, format: &StreamFormat) -> bool {
        let compressing = self.compressing.as_mut();
        let samples = format.channels.samples_in(format.packet);
        codec.check(format.shape(), format.packet).is_ok()
            && compressing
                .is_some_and(|c| c.samples.len() >= samples && c.encoder(format.coding()).is_some())
    }

    /// Sets the presentation clock, and whether it is uncertain.
    pub fn set_presentation_clock(&mut self, clock: ClockMapping, uncertain: bool) {
        self.presentation = Some((clock, uncertain));
    }

    /// State for RTCP reports.
    pub const fn state(&self) -> PacketizerState {
        self.state
    }

    /// RTP timestamp of `media`.
    pub const fn rtp_timestamp(&self, media: MediaTime) -> u32 {
        let begins = Wrapped { value: self.config.identity.timestamp, bits: 32 };
        begins.plus(media.as_frames()).value
    }

    /// Frames missing to complete a partial packet; 0 without a partial packet.
    pub fn until_packet(&self) -> Frames {
        match self.filled {
            Frames::ZERO => Frames::ZERO,
            filled => self.config.format.packet - filled,
        }
    }

    /// Adds a block; passes complete packets to `emit`.
    pub fn push(&mut self, block: &[f32], times: BlockTimes, mut emit: impl FnMut(Outgoing<'_>)) {
        let StreamFormat { rate, channels, .. } = self.config.format;
        let frames = channels.frames_in(block.len());
        let coded = self.config.format.codec.is_some();
        if !coded && self.filled > Frames::ZERO && self.coming.packet != self.config.format.packet {
            self.depart(times.now, &mut emit);
        }
        let mut at = Frames::ZERO;
        while at < frames {
            let begins = at == Frames::ZERO || self.coming.packet == self.config.format.packet;
            // Compressed packets keep their length.
            if self.filled == Frames::ZERO && (begins || self.config.format.codec.is_some()) {
                self.take_up_format();
            }
            let StreamFormat { sample, packet, codec, .. } = self.config.format;
            if self.filled == Frames::ZERO {
                self.first = (times.capture + rate.span_of(at), times.taken);
            }
            let take = (packet - self.filled).min(frames - at);
            let samples = &block[channels.samples_in(at)..channels.samples_in(at + take)];
            if codec.is_none() {
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

    /// Skips lost frames: capture = start + media ÷ rate stays true. Fills a partial packet with
    /// silence.
    pub fn skip(&mut self, frames: Frames, now: LocalTime, mut emit: impl FnMut(Outgoing<'_>)) {
        if frames <= Frames::ZERO {
            return;
        }
        let padding = self.until_packet().min(frames);
        if self.config.format.codec.is_none() {
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
            // Successive skips are one gap. A second toggle would hide the restart.
            self.restarts = self.restarts.wrapping_add(u32::from(!self.marker));
            self.marker = true;
            self.encoder.reset();
        }
    }

    fn take_up_format(&mut self) {
        let before = core::mem::replace(&mut self.config.format, self.coming).coding();
        let coding = self.coming.coding();
        if before == coding {
            return;
        }
        if before.codec.is_some() || coding.codec.is_some() {
            // Packets of another codec may have other boundaries.
            self.encoder.reset();
        }
        if let Some(compressing) = &mut self.compressing
            && let Some(encoder) = compressing.encoder(coding)
        {
            // If only the bitrate changes, sound continues.
            if !before.is_coded_as(coding) {
                encoder.reset();
            }
            coding.bitrate().into_iter().for_each(|bitrate| encoder.set_bitrate(bitrate));
        }
    }

    #[inline(never)]
    fn compress(&mut self) -> Option<usize> {
        let Self { compressing, buffer, config, filled, .. } = self;
        let Compressing { encoders, samples } = &mut **compressing.as_mut()?;
        let coding = config.format.coding();
        let encoder = encoders.iter_mut().find(|encoder| encoder.coding().is_coded_as(coding))?;
        let samples = &samples[..config.format.channels.samples_in(*filled)];
        encoder.encode(samples, &mut buffer[HEADER_ROOM..])
    }

    fn depart(&mut self, now: LocalTime, emit: &mut impl FnMut(Outgoing<'_>)) {
        if self.paused {
            self.filled = Frames::ZERO;
            self.number += 1;
            return;
        }
        let again = self.encoder.layout().repeat();
        let payload_bytes = match self.config.format.codec {
            None => self.filled.as_len() * self.config.format.frame_bytes(),
            Some(_) => match self.compress() {
                Some(bytes) => bytes,
                None => {
                    // Encoding failed: leave a gap.
                    self.filled = Frames::ZERO;
                    self.number += 1;
                    return;
                }
            },
        };
        let (bytes, instants, handed_at) = self.finish(payload_bytes, now);
        emit(Outgoing { datagram: &mut self.buffer[bytes], instants, handed_at, again });
    }

    fn finish(
        &mut self,
        payload_bytes: usize,
        now: LocalTime,
    ) -> (Range<usize>, Departure, Option<usize>) {
        let StreamFormat { rate, payload_type, .. } = self.config.format;
        let (capture, taken) = self.first;
        // The decoder outputs frames late by its delay.
        let delay = self.config.format.codec.map_or(Frames::ZERO, Codec::delay);
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
        let maximum = self.encoder.layout().max_bytes().saturating_sub(payload_bytes);
        let maximum = wire.carried_within(stamps, maximum).min(self.repair_data.len());
        let room = &mut self.repair_data[..maximum];
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
        // A program's block exists before its time, by less than a period.
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
