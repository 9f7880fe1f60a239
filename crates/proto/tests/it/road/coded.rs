//! Compressed packets are decoded in order at their turn.

use tautline_dsp::format::SampleFormat;
use tautline_proto::codec::{Codec, Opus, OpusTuning};
use tautline_proto::jitter_buffer::Received;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span};

use crate::reformat::Reformat;

use super::toy::{self, CONCEALED, Requested};
use super::world::{Chance, Scene, World, perfect};

/// 5 ms packets, 1 ms periods, 15 ms latency.
pub(crate) fn scene() -> Scene {
    let opus = Opus { tuning: OpusTuning::Music, bitrate: 510_000 };
    Scene {
        codec: Some(Codec::Opus(opus)),
        packet: Frames::new(240),
        latency: Span::from_millis(15),
        ..Scene::default()
    }
}

fn world() -> World {
    toy::requested();
    World::new(scene())
}

fn run(world: &mut World, periods: usize) {
    (0..periods).for_each(|_| world.period(perfect));
}

fn decoded(requested: &[Requested]) -> (Vec<u16>, Vec<Requested>) {
    let number = |requested: &Requested| match requested {
        Requested::Decode(number) => Some(*number),
        _ => None,
    };
    let others = requested.iter().filter(|requested| number(requested).is_none());
    (requested.iter().filter_map(number).collect(), others.copied().collect())
}

#[test]
fn codec_with_lookahead_keeps_the_latency() {
    let mut world = world();
    let began = world.now;
    run(&mut world, 900);
    for index in [3_000, 9_999] {
        let captured = began + world.scene.rate.span_of(Frames::new(index));
        let received = world.received_at(index).expect("it was heard");
        let off = received - captured - world.scene.latency;
        assert!(off.abs() <= Span::from_micros(21), "{off}");
    }
    assert_eq!(world.latency_of_the_last(), world.scene.latency);
    assert_eq!(world.receiver.counters().missing_frames, 0);
    assert!(world.received_whole_at_the_end());
}

#[test]
fn packets_in_any_order_are_decoded_in_theirs() {
    let (mut world, mut chance) = (world(), Chance(5));
    world.receiver.set_link_offset(Span::from_millis(25));
    for _ in 0..900 {
        world.period(|mut datagram| {
            datagram.arrives += Span::from_micros(i64::from(chance.below(7_000)));
            let again = datagram.clone();
            vec![datagram, again]
        });
    }
    let (numbers, others) = decoded(&toy::requested());
    assert!(numbers.len() > 70 && numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]));
    assert_eq!(others, [Requested::Reset], "as it begins");
    let counters = world.receiver.counters();
    assert!(counters.reordered > 5 && counters.duplicate > 70, "{counters:?}");
    assert_eq!((counters.missing_frames, counters.late), (0, 0));
    assert!(world.received_whole_at_the_end());
}

#[test]
fn one_loss_uses_the_copy_two_use_concealment() {
    let mut world = world();
    for _ in 0..900 {
        world.period(|datagram| match datagram.number {
            20 | 40 | 41 => Vec::new(),
            _ => vec![datagram],
        });
    }
    let (numbers, others) = decoded(&toy::requested());
    assert!(!numbers.contains(&20) && numbers.contains(&21));
    assert_eq!(
        others,
        [Requested::Reset, Requested::Recover(21), Requested::Conceal(240), Requested::Recover(42)]
    );
    let counters = world.receiver.counters();
    assert_eq!((counters.lost, counters.missing_frames, counters.concealed_frames), (3, 240, 240));
    let sound = world.sound();
    let concealed = sound.iter().filter(|received| **received == CONCEALED).count();
    assert_eq!(concealed, 240);
    assert_eq!(
        world
            .received
            .holes
            .iter()
            .map(|hole| (hole.frames.end - hole.frames.start).count())
            .sum::<i64>(),
        240
    );
    assert!(world.received_whole_at_the_end());
}

#[test]
fn packet_during_its_turn_plays_the_rest() {
    let mut world = world();
    for _ in 0..900 {
        world.period(|mut datagram| {
            // The next packet is late too; the one after it can restore it.
            if (30..32).contains(&datagram.number) {
                datagram.arrives += Span::from_millis(9);
            }
            vec![datagram]
        });
    }
    let (numbers, others) = decoded(&toy::requested());
    assert!(numbers.contains(&30) && !numbers.contains(&31), "{numbers:?}");
    assert_eq!(others[1..], [Requested::Conceal(240), Requested::Recover(32)]);
    let counters = world.receiver.counters();
    assert_eq!((counters.late, counters.lost), (2, 0));
    assert!((1..240).contains(&counters.missing_frames), "{counters:?}");
    assert!(world.received_whole_at_the_end());
}

#[test]
fn packet_rebuilt_by_its_successor_is_not_decoded() {
    let mut world = world();
    for _ in 0..900 {
        world.period(|mut datagram| {
            if datagram.number == 30 {
                datagram.arrives += Span::from_millis(9);
            }
            vec![datagram]
        });
    }
    let (numbers, others) = decoded(&toy::requested());
    assert!(!numbers.contains(&30), "{numbers:?}");
    assert_eq!(others[1..], [Requested::Recover(31)]);
    assert_eq!(world.receiver.counters().late, 1);
    assert!(world.received_whole_at_the_end());
}

#[test]
fn card_losses_do_not_shift_the_packet_grid() {
    let mut world = world();
    run(&mut world, 203);
    world.skip(Frames::new(100));
    run(&mut world, 200);
    world.skip(Frames::new(1_000));
    run(&mut world, 900);
    assert_eq!(world.receiver.counters().late, 0);
    assert!(world.received_whole_at_the_end());
}

#[test]
fn restarted_sender_is_decoded_from_its_first_packet() {
    let mut world = world();
    run(&mut world, 200);
    world.restart_sender(99);
    (0..60).for_each(|_| world.pause());
    toy::requested();
    run(&mut world, 900);
    let (numbers, others) = decoded(&toy::requested());
    assert_eq!(numbers[0], 0, "its first");
    assert_eq!(others.iter().filter(|requested| **requested == Requested::Reset).count(), 1);
    assert!(world.received_whole_at_the_end());
}

#[test]
fn an_outage_is_concealed_for_as_long_as_a_decoder_can() {
    let mut world = world();
    for _ in 0..900 {
        world.period(
            |datagram| {
                if (40..80).contains(&datagram.number) { Vec::new() } else { vec![datagram] }
            },
        );
    }
    let (_, others) = decoded(&toy::requested());
    let concealed =
        others.iter().filter(|requested| matches!(requested, Requested::Conceal(_))).count();
    assert_eq!(concealed, 12, "60 ms of 200");
    assert!(world.received_whole_at_the_end());
}

#[test]
fn a_payload_that_is_none_is_counted_and_concealed() {
    let mut world = world();
    for _ in 0..900 {
        world.period(|mut datagram| {
            if datagram.number == 25 {
                datagram.bytes.truncate(datagram.bytes.len() - 2);
            }
            vec![datagram]
        });
    }
    assert_eq!(world.receiver.counters().undecodable, 1);
    assert_eq!(world.receiver.counters().concealed_frames, 240);
    assert!(world.received_whole_at_the_end());
}

#[test]
fn compressed_packets_need_a_decoder() {
    let mut sender = world();
    let mut plain = World::new(Scene::default());
    let mut kept = Vec::new();
    (0..10).for_each(|_| {
        sender.period(|datagram| {
            kept.push(datagram);
            Vec::new()
        })
    });
    for datagram in kept {
        let received = plain.receiver.handle(&datagram.bytes, LocalTime::ZERO, LocalTime::ZERO);
        assert!(matches!(received, Received::Invalid(_)), "{received:?}");
    }
    assert_eq!(plain.receiver.other_type().map(|other| other.payload_type), Some(100));
}

#[test]
fn codec_changes_lose_at_most_the_look_ahead() {
    let mut world = world();
    let codec = world.scene.codec;
    for turn in 0..6 {
        run(&mut world, 100);
        let codec = codec.filter(|_| turn % 2 == 1);
        let payload_type = StreamFormat::usual_payload_type(SampleFormat::L24, codec);
        assert!(world.sender.set_coding(SampleFormat::L24, codec, payload_type));
    }
    run(&mut world, 900);
    let counters = world.receiver.counters();
    assert_eq!((counters.lost, counters.late, counters.on_probation), (0, 0, 0), "{counters:?}");
    // Three changes to a codec without look-ahead.
    assert!(counters.missing_frames <= 3 * 120, "{counters:?}");
    assert!(world.received_whole_at_the_end());
}
