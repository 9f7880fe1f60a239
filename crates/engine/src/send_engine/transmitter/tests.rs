//! The link records packets; the test sets the clock.

use std::sync::{Arc, Mutex};

use rtrb::RingBuffer;
use tautline_dsp::format::SampleFormat;
use tautline_io::link::Datagram;
use tautline_io::thread::realtime::permit;
use tautline_proto::device::{Direction, Side};
use tautline_proto::packet::StreamId;
use tautline_proto::packetizer::{Identity, PacketizerConfig};
use tautline_proto::redundancy::Layout;
use tautline_proto::stream::{Outgoing, StreamFormat};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::rtp::{PACK, Packet};

use super::*;
use crate::monitor::levels::levels;

const PACKET: usize = 48;

#[derive(Default)]
struct Sent {
    queued: Vec<Vec<u8>>,
    flushed: Vec<Vec<u8>>,
    stamps: Vec<TransmitStamp>,
}

struct Kept(Arc<Mutex<Sent>>);

const NOTES: &str = "a test takes notes";

impl Link for Kept {
    fn queue(&mut self, packet: &Outgoing<'_>) -> bool {
        let _permit = permit(NOTES);
        self.0.lock().unwrap().queued.push(packet.datagram.to_vec());
        true
    }

    fn flush(&mut self) {
        let _permit = permit(NOTES);
        let sent = &mut *self.0.lock().unwrap();
        sent.flushed.append(&mut sent.queued);
    }

    fn receive(&mut self, _: &mut dyn FnMut(Datagram<'_>)) {}

    fn transmit_stamps(&mut self, deliver: &mut dyn FnMut(TransmitStamp)) {
        let _permit = permit(NOTES);
        self.0.lock().unwrap().stamps.drain(..).for_each(deliver);
    }

    fn counters(&self) -> LinkCounters {
        let _permit = permit(NOTES);
        LinkCounters { sent: self.0.lock().unwrap().flushed.len() as u64, ..Default::default() }
    }
}

struct World {
    transmitter: Transmitter,
    sent: Arc<Mutex<Sent>>,
    commands: Producer<TransmitterCommand>,
    status: Consumer<TxStatus>,
    stamps: Consumer<TransmitStamp>,
    captured: i64,
}

/// Captured frame `index`: two different channels, exact in every coding.
fn frame(index: i64) -> [f32; 2] {
    let value = (index % 8000 + 1) as f32 / 16_384.0;
    [value, -value / 2.0]
}

impl World {
    fn new(map: ChannelMap) -> Self {
        let sample = SampleFormat::F32;
        let sender = Packetizer::new(PacketizerConfig {
            wire: PACK,
            format: StreamFormat {
                codec: None,
                rate: Rate::HZ_48000,
                channels: Channels::new(map.outputs() as u32).unwrap(),
                sample,
                packet: Frames::from_len(PACKET),
                payload_type: StreamFormat::default_payload_type(sample),
            },
            identity: Identity { stream: StreamId(7), sequence: 0, timestamp: 0 },
            period: Frames::new(32),
            stamps: true,
            wall_offset: Span::ZERO,
            redundancy: Layout::NONE,
            presented_after: Span::ZERO,
        });
        let sent = Arc::<Mutex<Sent>>::default();
        let (commands, obeyed) = RingBuffer::new(4);
        let (reported, status) = RingBuffer::new(4);
        let (stamped, stamps) = RingBuffer::new(4);
        let transmitter = Transmitter {
            sender,
            link: Box::new(Kept(Arc::clone(&sent))),
            volume: Volume::new(Gain::UNITY),
            gain: Gain::UNITY,
            mapped: vec![0.0; 64 * map.outputs()].into(),
            map,
            channels: 2,
            commands: obeyed,
            status: reported,
            stamps: stamped,
            levels: levels(0).0,
            xruns: 0,
            faults: Faults::NONE,
            woke: now(),
            clock: None,
            first: None,
            reported: LocalTime::ZERO,
        };
        Self { transmitter, sent, commands, status, stamps, captured: 0 }
    }

    fn period(&mut self, skipped: i64, frames: i64) {
        self.period_after(0, skipped, frames);
    }

    fn period_after(&mut self, xruns: u32, skipped: i64, frames: i64) -> LocalTime {
        self.captured += skipped;
        let mut samples: Vec<f32> =
            (self.captured..self.captured + frames).flat_map(frame).collect();
        self.captured += frames;
        let now = now();
        let (meets, skipped) = (now - Span::from_millis(1), Frames::new(skipped));
        let side = Side { samples: &mut samples, meets, uncertainty: Span::ZERO, skipped };
        let mut cycle = Cycle::one_way(Direction::Capture, now, side, xruns);
        assert_eq!(self.transmitter.process(&mut cycle), Flow::Continue);
        now
    }

    fn packets(&self) -> Vec<(u32, Vec<f32>)> {
        let sent = self.sent.lock().unwrap();
        assert!(sent.queued.is_empty(), "a packet waits for the next period");
        let packets = sent.flushed.iter().map(|datagram| {
            let packet = Packet::parse(datagram).unwrap();
            let (words, _) = packet.payload.as_chunks();
            (packet.timestamp, words.iter().map(|word| f32::from_be_bytes(*word)).collect())
        });
        packets.collect()
    }
}

#[test]
fn the_end_of_a_stream_is_sent_and_silence_after_it() {
    let mut world = World::new(ChannelMap::identity(2));
    world.period(0, 32);
    assert!(world.packets().is_empty());
    world.transmitter.finish();
    let sound = (0..32).flat_map(frame).chain([0.0; 32]).collect();
    assert_eq!(world.packets(), [(0, sound)]);
    world.transmitter.finish();
    assert_eq!(world.packets().len(), 1);
}

#[test]
fn frames_lost_by_the_card_are_silent_within_their_packet() {
    let mut world = World::new(ChannelMap::identity(2));
    world.period(0, 32);
    world.period(8, 32);
    world.period(100, 48);
    let first = (0..32).chain(40..48).map(Some);
    let lost = first.clone().take(32).chain([None; 8]).chain(first.skip(32));
    let samples = |frames: Vec<Option<i64>>| -> Vec<f32> {
        frames.into_iter().flat_map(|at| at.map_or([0.0; 2], frame)).collect()
    };
    let second = (48..72).map(Some).chain([None; 24]).collect();
    let third = (172..220).map(Some).collect();
    let wanted = [(0, samples(lost.collect())), (48, samples(second)), (172, samples(third))];
    assert_eq!(world.packets(), wanted);
}

#[test]
fn channels_are_mapped_and_the_volume_is_applied() {
    let mut world = World::new("2,1,2".parse().unwrap());
    world.transmitter.gain = Gain::SILENCE;
    world.transmitter.volume = Volume::new(Gain::SILENCE);
    world.period(0, 48);
    world.transmitter.volume = Volume::new(Gain::UNITY);
    assert!(world.commands.push(TransmitterCommand::Gain(Gain::UNITY)).is_ok());
    world.period(0, 48);
    let mapped = (48..96).flat_map(|index| {
        let [one, two] = frame(index);
        [two, one, two]
    });
    assert_eq!(world.packets(), [(0, vec![0.0; 3 * PACKET]), (48, mapped.collect())]);
}

#[test]
fn commands_are_executed_and_reported_to_the_session() {
    let mut world = World::new(ChannelMap::identity(2));
    let command = SendCommand::Format(Frames::new(24), SampleFormat::L16.into(), 96);
    assert!(world.commands.push(TransmitterCommand::Send(command)).is_ok());
    let stamp = TransmitStamp {
        media: tautline_proto::time::MediaTime::ZERO,
        handed: LocalTime::ZERO,
        left: LocalTime::ZERO,
        uncertainty: Span::ZERO,
    };
    world.sent.lock().unwrap().stamps.push(stamp);
    world.period(0, 48);
    assert_eq!(world.stamps.pop(), Ok(stamp));
    let reported = world.status.pop().expect("ten milliseconds after the start of time");
    assert_eq!((reported.state.packets, reported.state.octets, reported.link.sent), (2, 48 * 4, 2));
    let kinds = world.sent.lock().unwrap().flushed.iter().map(|datagram| datagram[1] & 0x7F).max();
    assert_eq!(kinds, Some(96));
    world.period(0, 48);
    assert!(world.status.pop().is_err(), "no more often than it is read");
    let World { transmitter, mut status, .. } = world;
    drop(transmitter);
    assert_eq!(status.pop().expect("the last word").state.packets, 4);
}

#[test]
fn xrun_time_is_reported_once_even_after_a_full_ring() {
    let mut world = World::new(ChannelMap::identity(2));
    let notify = |world: &mut World, xruns| {
        world.transmitter.reported = LocalTime::ZERO;
        world.period_after(xruns, 0, 48)
    };
    let reported: Vec<_> = (0..4).map(|_| notify(&mut world, 0)).collect();
    assert!(world.transmitter.status.is_full());
    let noticed = notify(&mut world, 2);
    let all: Vec<_> = core::iter::from_fn(|| world.status.pop().ok()).collect();
    assert!(all.iter().all(|status| status.faults == Faults::NONE), "{all:?}");
    notify(&mut world, 0);
    notify(&mut world, 0);
    let faults = world.status.pop().unwrap().faults;
    let xruns: Vec<_> = faults.iter().map(|x| (x.from, x.to, x.harm.xruns)).collect();
    assert_eq!(xruns, [(reported[3], noticed, 2)]);
    assert_eq!(world.status.pop().unwrap().faults, Faults::NONE);
}
