//! Varying packet lengths.

use tautline_proto::packet::PacketHead;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Rate;
use tautline_proto::wrap::Wrapped;

use super::world::{Chance, Datagram, Scene, World};

struct Recut {
    pending: Vec<u8>,
    next: Option<PacketHead>,
}

impl Recut {
    fn new() -> Self {
        Self { pending: vec![], next: None }
    }

    fn cut(&mut self, datagram: &Datagram, mut size: impl FnMut() -> usize) -> Vec<Datagram> {
        let first = datagram.head();
        let number = Wrapped::of(65_500, first.number.bits);
        let next = self.next.get_or_insert(PacketHead { number, ..first });
        self.pending.extend(datagram.payload());
        let mut cut = vec![];
        // Stereo L24.
        loop {
            let frames = size();
            if self.pending.len() < frames * 6 {
                return cut;
            }
            let payload: Vec<_> = self.pending.drain(..frames * 6).collect();
            cut.push(datagram.clone().with(*next, &payload));
            *next = later(*next, frames);
        }
    }
}

fn later(head: PacketHead, frames: usize) -> PacketHead {
    let span = Rate::HZ_48000.span_of(Frames::from_len(frames));
    PacketHead {
        number: head.number.plus(1),
        media: head.media.plus(frames as i64),
        capture: head.capture.map(|capture| capture + span),
        begins: false,
        ..head
    }
}

#[test]
fn packets_of_changing_length_are_played_completely() {
    for stamps in [true, false] {
        let scene =
            Scene { stamps, mapped: stamps, latency: Span::from_millis(15), ..Scene::default() };
        let mut world = World::new(scene);
        let mut recut = Recut::new();
        // As ffmpeg divides 1024 frames.
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
        assert!(world.received_whole_at_the_end(), "stamps {stamps}");
        assert!(world.received.passages.len() > 440, "{}", world.received.passages.len());
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
        assert_eq!(world.received.passages.len() as u64, counters.received, "seed {seed}");
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
        assert!(world.received_whole_at_the_end(), "{before} to {after}");
    }
}
