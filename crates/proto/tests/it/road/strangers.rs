//! An attacker uses the sender's stream id.

use core::net::{IpAddr, SocketAddr};

use tautline_proto::clock::ClockMapping;
use tautline_proto::endpoint::{Author, Endpoint};
use tautline_proto::jitter_buffer::Stranger;
use tautline_proto::time::Span;

use super::world::{Datagram, SSRC, Scene, WALL, World, perfect};

fn place(network: u32, number: u8) -> Endpoint {
    let address = IpAddr::from([10, 0, network as u8, number]);
    Endpoint::new(SocketAddr::new(address, 5004), network)
}

fn world() -> World {
    let mut world = World::new(Scene { mapped: false, ..Scene::default() });
    world.place = place(1, 1);
    world
}

fn stranger() -> Endpoint {
    place(1, 9)
}

fn forged(datagram: &Datagram) -> Datagram {
    let mut forged = datagram.clone();
    let sound = forged.bytes.len() - 48 * 6;
    for frame in forged.bytes[sound..].chunks_mut(6) {
        frame.copy_from_slice(&[0x11, 0x11, 0x11, 0xEE, 0xEE, 0xEF]);
    }
    forged.from = stranger();
    forged
}

fn ahead(datagram: Datagram, packets: u16) -> Datagram {
    datagram.saying(|head| {
        head.number = head.number.plus(packets.into());
        head.media = head.media.plus(48 * i64::from(packets));
    })
}

#[test]
fn sound_of_a_stranger_under_the_senders_name_is_not_mixed_in() {
    let mut world = world();
    for _ in 0..100 {
        world.period(perfect);
    }
    for _ in 0..500 {
        world.period(|datagram| vec![forged(&datagram), datagram]);
    }
    let counters = world.receiver.counters();
    assert_eq!(
        (counters.other_source, counters.duplicate, counters.lost),
        (500, 0, 0),
        "{counters:?}"
    );
    assert_eq!((counters.missing_frames, counters.resyncs), (0, 0), "{counters:?}");
    assert!(world.received_whole_at_the_end());
    let reported = Stranger { from: stranger(), poses: true };
    assert_eq!(world.receiver.stranger(), Some(reported));
}

#[test]
fn a_forged_timeline_of_a_stranger_stops_nothing() {
    let mut world = world();
    for _ in 0..100 {
        world.period(perfect);
    }
    for period in 0..600_u16 {
        world.period(|datagram| {
            let lie = ahead(forged(&datagram), 20_000 + 7 * period);
            vec![ahead(lie.clone(), 1), lie, datagram]
        });
    }
    let counters = world.receiver.counters();
    assert_eq!((counters.resyncs, counters.on_probation, counters.lost), (0, 0, 0), "{counters:?}");
    assert_eq!(counters.other_source, 1200, "{counters:?}");
    assert!(world.received_whole_at_the_end());
}

#[test]
fn sender_regains_its_ssrc_from_an_attacker_after_a_pause() {
    let mut world = world();
    for period in 0..1500 {
        world.period(|datagram| match period {
            300..400 => vec![forged(&datagram)],
            400.. => vec![forged(&datagram), datagram],
            _ => vec![datagram],
        });
    }
    let counters = world.receiver.counters();
    // It plays for half of the pause.
    assert!((1145..=1155).contains(&counters.other_source), "{counters:?}");
    assert_eq!(counters.resyncs, 0, "{counters:?}");
    assert!(world.received_whole_at_the_end());
}

#[test]
fn a_stranger_that_was_first_gives_way_when_it_is_silent() {
    let mut world = world();
    for period in 0..1000 {
        world.period(|datagram| match period {
            0..100 => vec![forged(&datagram)],
            100..300 => vec![forged(&datagram), datagram],
            _ => vec![datagram],
        });
    }
    let counters = world.receiver.counters();
    assert!((248..=252).contains(&counters.other_source), "{counters:?}");
    assert!(world.received_whole_at_the_end());
    assert_eq!(world.receiver.stranger(), None, "the formerly foreign sender plays");
}

#[test]
fn a_sender_that_moved_is_followed_within_fifty_milliseconds() {
    let mut world = world();
    for _ in 0..100 {
        world.period(perfect);
    }
    world.place = place(1, 2);
    for _ in 0..600 {
        world.period(perfect);
    }
    let counters = world.receiver.counters();
    assert!((49..=52).contains(&counters.other_source), "{counters:?}");
    assert_eq!((counters.lost, counters.resyncs), (counters.other_source, 0), "{counters:?}");
    assert!(world.received_whole_at_the_end());
    assert_eq!(world.receiver.stranger(), None, "there was no stranger");
}

#[test]
fn goodbye_counts_only_from_the_senders_host() {
    let mut world = world();
    for _ in 0..100 {
        world.period(perfect);
    }
    let say_goodbye = |world: &mut World, from: Endpoint| {
        world.receiver.say_goodbye(Author { ssrc: SSRC, host: from.host() });
        world.receiver.source().is_some_and(|source| source.said_goodbye())
    };
    assert!(!say_goodbye(&mut world, stranger()));
    world.period(|datagram| vec![forged(&datagram), datagram]);
    assert_eq!(world.receiver.counters().other_source, 1);
    assert!(say_goodbye(&mut world, place(1, 1)));
    world.period(|datagram| vec![forged(&datagram)]);
    assert_eq!(world.receiver.counters().other_source, 1, "any other source may follow");
}

#[test]
fn clock_counts_only_from_the_senders_host() {
    let mut world = world();
    let mapping =
        |millis| ClockMapping::known(WALL + Span::from_millis(millis), Span::from_micros(10));
    let author = |from: Endpoint| Author { ssrc: SSRC, host: from.host() };
    world.receiver.set_clock(author(place(1, 1)), mapping(0));
    for _ in 0..2 {
        world.period(perfect);
    }
    for _ in 0..700 {
        world.receiver.set_clock(author(stranger()), mapping(700));
        world.period(perfect);
    }
    assert!(world.received_whole_at_the_end());
    let error = world.latency_of_the_last() - Span::from_millis(5);
    assert!(error.abs() <= Span::from_micros(31), "{error}");
    assert_eq!(world.receiver.counters().resyncs, 0);
}

#[test]
fn two_network_stream_is_complete_despite_an_attacker() {
    let mut world = world();
    for period in 0..1000 {
        world.period(|datagram| {
            let other = Datagram { from: place(2, 1), ..datagram.clone() };
            let strange = Datagram { from: place(2, 9), ..forged(&datagram) };
            let ways = match period % 20 {
                // Both networks are slower than the attacker.
                3 => vec![other],
                7 => vec![datagram.clone()],
                _ => vec![datagram.clone(), other],
            };
            if period < 100 { ways } else { [vec![forged(&datagram), strange], ways].concat() }
        });
    }
    let counters = world.receiver.counters();
    assert_eq!((counters.lost, counters.missing_frames), (0, 0), "{counters:?}");
    assert_eq!((counters.other_source, counters.duplicate), (1800, 900), "{counters:?}");
    assert!(world.received_whole_at_the_end());
}

#[test]
fn another_network_brings_no_other_timeline() {
    let mut world = world();
    for period in 0..1000_u16 {
        world.period(|datagram| {
            let lie = Datagram { from: place(2, 9), ..ahead(forged(&datagram), 9000 + period) };
            if period == 0 { vec![datagram] } else { vec![lie, datagram] }
        });
    }
    let counters = world.receiver.counters();
    assert_eq!(
        (counters.other_source, counters.resyncs, counters.lost),
        (999, 0, 0),
        "{counters:?}"
    );
}
