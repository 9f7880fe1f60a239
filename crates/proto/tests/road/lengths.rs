//! Under test: the whole road, with packets of changing length, as other people's senders cut them.

use tautline_proto::time::Span;
use tautline_proto::wire::ntp::NtpTime;
use tautline_proto::wire::rtp::{Header, Packet, SenderStamps};

use crate::world::{Chance, Datagram, Scene, World};

/// Cuts the sound of fixed packets into others of `sizes` frames, numbered on their own.
struct Recut {
    sequence: u16,
    pending: Vec<u8>,
    first: Option<Header>,
}

impl Recut {
    fn new() -> Self {
        Self { sequence: 65_500, pending: vec![], first: None }
    }

    /// Takes one packet; gives those of the next sizes that are complete.
    fn cut(&mut self, datagram: &Datagram, mut size: impl FnMut() -> usize) -> Vec<Datagram> {
        let packet = Packet::parse(&datagram.bytes).expect("the sender writes packets");
        self.first.get_or_insert_with(|| header_of(&packet));
        self.pending.extend_from_slice(packet.payload);
        let mut cut = vec![];
        // Stereo L24: six bytes a frame.
        loop {
            let frames = size();
            if self.pending.len() < frames * 6 {
                return cut;
            }
            let header = self.first.as_mut().expect("set above");
            header.sequence = self.sequence;
            let mut bytes = vec![0; header.bytes()];
            header.write(&mut bytes);
            bytes.extend(self.pending.drain(..frames * 6));
            *header = later(*header, frames);
            self.sequence = self.sequence.wrapping_add(1);
            cut.push(Datagram { bytes, ..datagram.clone() });
        }
    }
}

fn header_of(packet: &Packet<'_>) -> Header {
    Header {
        sequence: packet.sequence,
        timestamp: packet.timestamp,
        ssrc: packet.ssrc,
        marker: packet.marker,
        payload_type: packet.payload_type,
        stamps: packet.sender,
    }
}

/// The header of a packet that begins `frames` later, at 48 kHz.
fn later(header: Header, frames: usize) -> Header {
    let nanos = frames as i64 * 1_000_000_000 / 48_000;
    let stamps = header.stamps.map(|stamps| SenderStamps {
        capture: NtpTime::from_unix_nanos(stamps.capture.to_unix_nanos() + nanos),
        ..stamps
    });
    let timestamp = header.timestamp.wrapping_add(frames as u32);
    Header { timestamp, stamps, marker: false, ..header }
}

#[test]
fn packets_of_changing_length_are_heard_whole() {
    for stamps in [true, false] {
        let scene =
            Scene { stamps, mapped: stamps, latency: Span::from_millis(15), ..Scene::default() };
        let mut world = World::new(scene);
        let mut recut = Recut::new();
        // As ffmpeg cuts 1024 frames to fit an MTU.
        let mut sizes = [240, 240, 240, 240, 64].into_iter().cycle();
        let mut next = sizes.next().unwrap();
        for _ in 0..2000 {
            world.period(|datagram| {
                let cut = recut.cut(&datagram, || next);
                if !cut.is_empty() {
                    next = sizes.next().unwrap();
                }
                cut
            });
        }
        let counters = world.receiver.counters();
        assert_eq!((counters.lost, counters.late, counters.missing_frames), (0, 0, 0));
        assert_eq!(counters.resyncs, 0, "stamps {stamps}");
        assert!(world.heard_whole_at_the_end(), "stamps {stamps}");
        assert!(world.heard.passages.len() > 440, "{}", world.heard.passages.len());
    }
}

#[test]
fn losses_among_packets_of_changing_length_are_counted_exactly() {
    for seed in 0..20 {
        let mut chance = Chance(seed);
        let mut world = World::new(Scene { latency: Span::from_millis(40), ..Scene::default() });
        let mut recut = Recut::new();
        let (mut next, mut sent, mut dropped) = (48, 0, 0);
        for _ in 0..2000 {
            world.period(|datagram| {
                let mut kept = vec![];
                for packet in recut.cut(&datagram, || next) {
                    next = 10 + chance.below(700) as usize;
                    sent += 1;
                    let lost = sent > 20 && sent < 200 && chance.below(6) == 0;
                    dropped += u64::from(lost);
                    if !lost {
                        kept.push(packet);
                    }
                }
                kept
            });
        }
        for _ in 0..60 {
            world.pause();
        }
        let counters = *world.receiver.counters();
        assert_eq!((counters.lost, counters.late), (dropped, 0), "seed {seed}: {counters:?}");
        assert_eq!(counters.lost + counters.received, sent, "seed {seed}");
        assert_eq!(world.heard.passages.len() as u64, counters.received, "seed {seed}");
        assert_eq!(counters.resyncs, 0, "seed {seed}");
    }
}

#[test]
fn the_packet_time_may_change_in_the_middle() {
    for (before, after) in [(48, 960), (960, 48), (6, 480)] {
        let mut world = World::new(Scene { latency: Span::from_millis(30), ..Scene::default() });
        let mut recut = Recut::new();
        for period in 0..2000 {
            let size = if period < 1000 { before } else { after };
            world.period(|datagram| recut.cut(&datagram, || size));
        }
        let counters = world.receiver.counters();
        assert_eq!((counters.lost, counters.late, counters.missing_frames), (0, 0, 0));
        assert_eq!(counters.resyncs, 0, "{before} to {after}");
        assert!(world.heard_whole_at_the_end(), "{before} to {after}");
    }
}
