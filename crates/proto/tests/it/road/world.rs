//! One-way simulation with ideal cards and a network controlled by the test.

use tautline_dsp::format::SampleFormat;
use tautline_proto::clock::{Choice, ClockId, ClockMapping};
use tautline_proto::codec::{Codec, MakeDecoder};
use tautline_proto::endpoint::{Arrival, Author, Endpoint};
use tautline_proto::jitter_buffer::{Hole, JitterBuffer, JitterBufferConfig, PullTimes, Pulled};
use tautline_proto::ledger::PacketTrace;
use tautline_proto::packet::{PackedSound, PacketHead, StreamId};
use tautline_proto::packetizer::{BlockTimes, Identity, Packetizer, PacketizerConfig};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Ppm, Rate};

use super::form::{PACK, unpack};
use super::toy;

/// Sender's wall clock minus the common clock.
pub(crate) const WALL: Span = Span::from_secs(1_000_000_000);

pub(crate) const SSRC: u32 = 0x7461_7574;

#[derive(Clone, Copy)]
pub(crate) struct Scene {
    pub(crate) rate: Rate,
    pub(crate) channels: Channels,
    pub(crate) sample: SampleFormat,
    /// A test codec under this name.
    pub(crate) codec: Option<Codec>,
    pub(crate) packet: Frames,
    pub(crate) period: Frames,
    pub(crate) latency: Span,
    pub(crate) mapped: bool,
    pub(crate) stamps: bool,
    /// Rate error.
    pub(crate) card: Ppm,
    /// Whether both ends know that they share a host and a card clock.
    pub(crate) one_clock: bool,
    /// Wander of both cards' timestamps within two seconds.
    pub(crate) wander: Span,
}

impl Default for Scene {
    fn default() -> Self {
        Self {
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            sample: SampleFormat::L24,
            codec: None,
            packet: Frames::new(48),
            period: Frames::new(48),
            latency: Span::from_millis(5),
            mapped: true,
            stamps: true,
            card: Ppm::ZERO,
            one_clock: false,
            wander: Span::ZERO,
        }
    }
}

impl Scene {
    fn clock(&self) -> Option<ClockId> {
        self.one_clock.then(|| ClockId::of(&[b"both cards"]))
    }

    fn reported(&self, at: LocalTime) -> LocalTime {
        let turn = core::f64::consts::PI * at.as_nanos() as f64 / 1e9;
        at + Span::from_nanos((self.wander.as_nanos() as f64 * turn.sin()) as i64)
    }
}

#[derive(Clone)]
pub(crate) struct Datagram {
    pub(crate) number: usize,
    pub(crate) from: Endpoint,
    pub(crate) bytes: Vec<u8>,
    pub(crate) arrives: LocalTime,
}

/// First sample of each frame, with its DAC time.
#[derive(Default)]
pub(crate) struct Received {
    pub(crate) samples: Vec<(LocalTime, f32)>,
    pub(crate) passages: Vec<PacketTrace>,
    pub(crate) pulled: Vec<Pulled>,
    pub(crate) holes: Vec<Hole>,
}

pub(crate) struct World {
    pub(crate) scene: Scene,
    pub(crate) sender: Packetizer,
    pub(crate) receiver: JitterBuffer,
    pub(crate) received: Received,
    pub(crate) on_the_way: Vec<Datagram>,
    pub(crate) now: LocalTime,
    pub(crate) place: Endpoint,
    starves: Frames,
    wakes: LocalTime,
    sent: usize,
    captured: i64,
}

/// Never zero, exact in 16 bits, and unlike its neighbours.
pub(crate) fn sample(index: i64) -> f32 {
    let value = (index.wrapping_mul(7919).rem_euclid(32_003) + 300) as f32;
    value / 32_768.0
}

impl Datagram {
    pub(crate) fn head(&self) -> PacketHead {
        unpack().unpack(&self.bytes).expect("the sender writes packets").head
    }

    pub(crate) fn payload(&self) -> Vec<u8> {
        unpack().unpack(&self.bytes).expect("the sender writes packets").payload.to_vec()
    }

    pub(crate) fn with(self, head: PacketHead, payload: &[u8]) -> Self {
        let mut bytes = vec![0; PACK.head_bytes(head.capture.is_some(), 0)];
        let format = super::redundancy::format(SampleFormat::L16);
        PACK.pack(&head, &PackedSound::of(&format, payload.len()), &[], &mut bytes);
        bytes.extend(payload);
        Self { bytes, ..self }
    }

    pub(crate) fn saying(self, change: impl FnOnce(&mut PacketHead)) -> Self {
        let (mut head, payload) = (self.head(), self.payload());
        change(&mut head);
        self.with(head, &payload)
    }
}

impl World {
    pub(crate) fn new(scene: Scene) -> Self {
        let format = StreamFormat {
            codec: scene.codec,
            rate: scene.rate,
            channels: scene.channels,
            sample: scene.sample,
            packet: scene.packet,
            payload_type: StreamFormat::usual_payload_type(scene.sample, scene.codec),
        };
        let config = JitterBufferConfig::new(unpack(), format, scene.latency);
        let decoders = scene.codec.map(|_| toy::decoder as MakeDecoder);
        let mut receiver = JitterBuffer::new(JitterBufferConfig { decoders, ..config });
        if scene.mapped {
            receiver.set_clock(Author::of(SSRC), ClockMapping::known(WALL, Span::from_micros(10)));
        }
        let now = LocalTime::from_nanos(1_000_000_000);
        let period = scene.rate.span_of(scene.period);
        let mut world = Self {
            scene,
            sender: new_sender(format, scene, SSRC),
            receiver,
            received: Received::default(),
            on_the_way: Vec::new(),
            now,
            place: Endpoint::UNKNOWN,
            starves: Frames::ZERO,
            // Half a period after the sender's card.
            wakes: now + period + period.half(),
            sent: 0,
            captured: 0,
        };
        if scene.one_clock {
            world.share_clock();
        }
        world
    }

    pub(crate) fn share_clock(&mut self) {
        self.scene.one_clock = true;
        let host = Choice::default().same_host(WALL, self.now).expect("the first mapping");
        self.receiver.set_clock(Author::of(SSRC), host);
        self.receiver.set_card(Author::of(SSRC), self.scene.clock());
    }

    /// New identity; media time starts at zero.
    pub(crate) fn restart_sender(&mut self, ssrc: u32) {
        self.sender = new_sender(*self.receiver.format(), self.scene, ssrc);
        if self.scene.mapped {
            self.receiver
                .set_clock(Author::of(ssrc), ClockMapping::known(WALL, Span::from_micros(10)));
        }
    }

    /// Runs one period. The receiver's block meets the DAC one period later.
    pub(crate) fn period(&mut self, mut network: impl FnMut(Datagram) -> Vec<Datagram>) {
        let span = self.scene.rate.span_of(self.scene.period);
        let frames = self.scene.period.count();
        let block: Vec<f32> = (self.captured..self.captured + frames)
            .flat_map(|index| self.frame(sample(index)))
            .collect();
        self.captured += frames;
        let capture = self.scene.reported(self.now);
        self.now += span;
        let times = BlockTimes { capture, taken: self.now, now: self.now };
        let place = self.place;
        let (sent, now, on_the_way) = (&mut self.sent, self.now, &mut self.on_the_way);
        self.sender.push(&block, times, |packet| {
            let datagram = Datagram {
                number: *sent,
                from: place,
                bytes: packet.datagram.to_vec(),
                arrives: now + Span::from_micros(100),
            };
            *sent += 1;
            on_the_way.extend(network(datagram));
        });
        self.play(span.half());
    }

    pub(crate) fn pause(&mut self) {
        let span = self.scene.rate.span_of(self.scene.period);
        self.now += span;
        self.play(span.half());
    }

    pub(crate) fn skip(&mut self, frames: Frames) {
        let place = self.place;
        let (sent, now, on_the_way) = (&mut self.sent, self.now, &mut self.on_the_way);
        self.sender.skip(frames, now, |packet| {
            on_the_way.push(Datagram {
                number: *sent,
                from: place,
                bytes: packet.datagram.to_vec(),
                arrives: now + Span::from_micros(100),
            });
            *sent += 1;
        });
        self.captured += frames.count();
        let span = self.scene.rate.span_of(frames);
        self.now += span;
        self.play(self.scene.rate.span_of(self.scene.period).half());
    }

    /// Stalls the receiver's card, which reports the frames if `reported`.
    pub(crate) fn stall(&mut self, span: Span, reported: bool) {
        if reported {
            self.starves = self.scene.rate.frames_within(span);
        }
        self.wakes += span;
    }

    /// Every second channel is inverted.
    fn frame(&self, sample: f32) -> impl Iterator<Item = f32> + use<> {
        (0..self.scene.channels.count()).map(move |c| if c % 2 == 0 { sample } else { -sample })
    }

    fn play(&mut self, ahead: Span) {
        while self.wakes <= self.now + ahead {
            self.wake();
        }
    }

    fn wake(&mut self) {
        let (rate, card) = (self.scene.rate, self.scene.card);
        let skipped = core::mem::take(&mut self.starves);
        let wakes = self.wakes;
        self.on_the_way.sort_by_key(|datagram| datagram.arrives);
        let due = self.on_the_way.partition_point(|datagram| datagram.arrives <= wakes);
        for datagram in self.on_the_way.drain(..due) {
            let Datagram { bytes, from, arrives: at, .. } = datagram;
            self.receiver.handle_with(&bytes, &Arrival::exact(from, at, wakes), &mut |_| {});
        }
        let channels = self.scene.channels;
        let mut out = vec![0.0; channels.samples_in(self.scene.period)];
        let span = card.unstretch(rate.span_of(self.scene.period));
        let meets = wakes + span;
        let passages = &mut self.received.passages;
        let (reported, clock) = (self.scene.reported(meets), self.scene.clock());
        let times = PullTimes { now: wakes, meets: reported, skipped, clock };
        let pulled = self.receiver.pull(&mut out, times, |passage| passages.push(passage));
        self.received.pulled.push(pulled);
        if pulled.missing > Frames::ZERO {
            self.received.holes.extend(self.receiver.holes());
        }
        for (index, frame) in out.chunks(channels.count()).enumerate() {
            let at = meets + rate.span_of(Frames::from_len(index));
            assert!(self.frame(frame[0]).eq(frame.iter().copied()), "channels stay in place");
            self.received.samples.push((at, frame[0]));
        }
        self.wakes += span;
    }

    pub(crate) fn sound(&self) -> Vec<f32> {
        self.received.samples.iter().map(|(_, sample)| *sample).collect()
    }

    pub(crate) fn received_whole_at_the_end(&self) -> bool {
        let sound = self.sound();
        let tail = &sound[sound.len() - 20_000..];
        let index = (0..self.captured).find(|i| (0..3).all(|n| tail[n] == sample(i + n as i64)));
        index.is_some_and(|first| {
            tail.iter().zip(first..).all(|(received, i)| *received == sample(i))
        })
    }

    pub(crate) fn latency_of_the_last(&self) -> Span {
        let last = self.received.passages.last().expect("a packet was played");
        last.total().expect("clocks are mapped")
    }

    pub(crate) fn received_at(&self, index: i64) -> Option<LocalTime> {
        let wanted = [sample(index), sample(index + 1), sample(index + 2)];
        self.received
            .samples
            .windows(3)
            .find(|three| three.iter().map(|(_, s)| *s).eq(wanted))
            .map(|three| three[0].0)
    }
}

fn new_sender(format: StreamFormat, scene: Scene, ssrc: u32) -> Packetizer {
    // Both counters wrap soon.
    let identity =
        Identity { stream: StreamId::from(ssrc), sequence: 65_530, timestamp: u32::MAX - 500 };
    let config = PacketizerConfig {
        wire: PACK,
        format,
        identity,
        period: scene.period,
        stamps: scene.stamps,
        wall_offset: WALL,
        redundancy: tautline_proto::redundancy::Layout::NONE,
        presented_after: Span::ZERO,
    };
    let encoder = scene.codec.map(|codec| toy::encoder(codec, scene.channels));
    Packetizer::compressing(config, encoder.into_iter().collect())
}

pub(crate) fn perfect(datagram: Datagram) -> Vec<Datagram> {
    vec![datagram]
}

/// Reproducible.
pub(crate) struct Chance(pub(crate) u32);

impl Chance {
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) % limit
    }
}
