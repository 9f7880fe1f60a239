//! Optional RTP header contents and header lengths.

use tautline_dsp::format::SampleFormat;
use tautline_proto::redundancy::Layout;
use tautline_proto::wire::rtp::{ExtensionIds, Packet};

use super::coded;
use super::redundancy::{format, send, sender};
use super::world::{Scene, World, perfect};

#[test]
fn contributing_sources_and_padding_are_no_sound() {
    let mut world = World::new(Scene::default());
    for _ in 0..600 {
        world.period(|mut datagram| {
            datagram.bytes[0] |= 0x20 | 2; // padding, two sources
            let sources = [0xAA; 8];
            datagram.bytes.splice(12..12, sources);
            datagram.bytes.extend([0xBB, 0xBB, 0xBB, 4]);
            vec![datagram]
        });
    }
    let counters = world.receiver.counters();
    assert_eq!((counters.invalid, counters.missing_frames, counters.lost), (0, 0, 0));
    assert!(world.received_whole_at_the_end());
}

#[test]
fn without_redundancy_packets_are_as_they_ever_were() {
    let format = format(SampleFormat::L24);
    let mut sender = sender(format, Layout::NONE);
    for number in 0..10 {
        let sent = send(&mut sender, number);
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].len(), 12 + 28 + format.payload_bytes());
    }
}

#[test]
fn one_that_knows_nothing_of_it_plays_the_packets_that_come() {
    let format = format(SampleFormat::L24);
    let mut sender = sender(format, Layout::code(3, 10));
    for number in 0..50 {
        let sent = send(&mut sender, number);
        let plain = Packet::parse_with(&sent[0], ExtensionIds::NONE).unwrap();
        assert_eq!((plain.payload.len(), plain.sender, plain.carried), (144, None, None));
        let whole = Packet::parse(&sent[0]).unwrap();
        assert!(whole.sender.is_some_and(|stamps| stamps.instants.is_some()));
        assert_eq!(whole.carried.is_some(), number > 0);
        assert_eq!(whole.payload, plain.payload);
    }
}

/// Not with 8-bit numbers: 200 packets back equal 56 ahead.
#[test]
fn compressed_stream_plays_on_after_media_time_goes_back() {
    for back in [48_000, 48_000 * 3_600] {
        let mut world = World::new(Scene { mapped: false, stamps: false, ..coded::scene() });
        (0..500).for_each(|_| world.period(perfect));
        for _ in 0..900 {
            world.period(|datagram| {
                vec![datagram.saying(|head| head.media = head.media.plus(-back))]
            });
        }
        let counters = world.receiver.counters();
        assert!(counters.late < 50, "{back}: {counters:?}");
        assert!(world.received_whole_at_the_end(), "{back}: {counters:?}");
    }
}
