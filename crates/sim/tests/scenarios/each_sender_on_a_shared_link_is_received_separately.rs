//! Several senders at one link arrive, move, leave, return, and find no place. Each one is played
//! completely by its own receiver; every packet is counted.

use tautline_proto::endpoint::Endpoint;
use tautline_proto::time::{LocalTime, Span};
use tautline_sim::card::CardModel;
use tautline_sim::clock::{ClockError, TrueTime};
use tautline_sim::fault::place;
use tautline_sim::link::{Jitter, Loss, PathModel};
use tautline_sim::preset::Preset;
use tautline_sim::scenario::{HostModel, Scenario};
use tautline_sim::world::shared::{
    PacketArrival, SenderModel, SenderSeen, SharedReceived, Stint, play_shared,
};

const LATENCY_MILLIS: i64 = 40;
const LATENCY: Span = Span::from_millis(LATENCY_MILLIS);
/// A sender keeps its place this long after its goodbye.
const REST: Span = Span::from_millis(100);
const SPAN: Span = Span::from_secs(12);
const SEEDS: core::ops::RangeInclusive<u64> = 1..=6;
/// Frames per packet, and per fade.
const PACKET: u64 = 48;
const FADE: u64 = 56;
/// Maximum restarts of one sender's sound.
const BEGINS: u64 = 2;

fn at(millis: i64) -> TrueTime {
    TrueTime::from_nanos(millis * 1_000_000)
}

fn stint(from: Endpoint, sends: (i64, i64), goodbye: bool) -> Stint {
    Stint { sends: (at(sends.0), at(sends.1)), from, goodbye }
}

const LEAVES: usize = 0;
const MOVES: usize = 3;
const STRAY: usize = 4;
const ONE_TOO_MANY: usize = 6;

/// Senders by SSRC. Two on different hosts share one.
fn stints() -> [(u32, Vec<Stint>); 7] {
    let end = 20_000;
    [
        // Leaves its receiver to another sender, and returns.
        (0x11, vec![stint(place(1, 1), (50, 4_000), true), stint(place(1, 1), (8_000, end), true)]),
        (0x22, vec![stint(place(1, 2), (100, end), false)]),
        (0x22, vec![stint(place(1, 3), (150, end), false)]),
        (
            0x33,
            vec![stint(place(1, 4), (200, 6_000), false), stint(place(1, 5), (6_200, end), false)],
        ),
        (0x44, vec![stint(place(1, 6), (2_000, 2_001), false)]),
        (0x55, vec![stint(place(1, 7), (3_000, end), false)]),
        // Gets a place when the first sender leaves, which then has none until this one leaves.
        (0x66, vec![stint(place(1, 8), (3_500, 9_000), true)]),
    ]
}

const PLACES: usize = 5;

fn received(seed: u64) -> SharedReceived {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut host = || HostModel {
        clock: ClockError::quartz(
            LocalTime::from_nanos(rng.i64(1..1_000_000_000_000)),
            rng.f64() * 100.0 - 50.0,
        ),
        ..HostModel::with_card(CardModel::off_by(rng.f64() * 200.0 - 100.0))
    };
    let mut scenario = Scenario::on(Preset::Wired, seed);
    (scenario.stamps, scenario.latency) = (false, LATENCY);
    scenario.receivers[0].host = host();
    let senders = stints().into_iter().zip(1_i64..).map(|((ssrc, stints), number)| {
        let whole = PathModel {
            jitter: Jitter::Exponential(Span::from_micros(200 * number)),
            reorders: (0.005, Span::from_millis(3)),
            ..PathModel::ideal(Span::from_millis(number))
        };
        // Receivers cannot count losses of first packets, or of last packets from senders that
        // continue.
        let lossy = PathModel { loss: Loss::bursts(0.003, 2.0), ..whole.clone() };
        let changes = vec![(at(3_700), lossy), (at(11_500), whole.clone())];
        let path = PathModel { changes, ..whole };
        SenderModel { ssrc, host: host(), path, stints }
    });
    play_shared(scenario, senders.collect(), PLACES, SPAN)
}

/// Packets of a waiting sender read before the place was free. The departed sender's last packet
/// arrived at `last`.
fn read_before_the_place_is_free(waits: &[PacketArrival], last: LocalTime) -> u64 {
    let free = last + LATENCY + REST;
    // Places are freed once per period, after packets were read.
    let too_early = |packet: &&PacketArrival| packet.read - Span::from_millis(1) <= free;
    waits.iter().filter(too_early).count() as u64
}

/// Packets before and after a pause of 1 s.
fn around_pause(arrived: &[PacketArrival]) -> (&[PacketArrival], &[PacketArrival]) {
    let second = Span::from_secs(1);
    let pause = arrived.windows(2).position(|two| two[1].at - two[0].at > second);
    arrived.split_at(pause.map_or(arrived.len(), |last| last + 1))
}

fn assert_whole(reported: &SenderSeen, goes_on: bool) {
    let (received, counters) = (&reported.received, &reported.received.counters);
    assert_eq!(reported.astray, 0, "{received}");
    let not_its_own = (counters.other_source, counters.on_probation, counters.invalid);
    assert_eq!(not_its_own, (0, 0, 0), "{received}");
    assert_eq!((counters.duplicate, counters.late), (0, 0), "{received}");
    assert_eq!(counters.received + reported.unplaced, reported.arrived.len() as u64, "{received}");
    assert!(received.first_wrong.is_none(), "{received}");
    // Fade-ins after a loss, and frames not due yet.
    let not_due = if goes_on { LATENCY_MILLIS.unsigned_abs() + 1 } else { 0 };
    let minimum = (counters.received - not_due) * PACKET;
    let minimum = minimum.saturating_sub((reported.lost + BEGINS) * FADE);
    let right = reported.right;
    assert!(
        (minimum..=counters.received * PACKET).contains(&right),
        "{right}, {minimum}: {received}"
    );
}

#[test]
fn each_sender_on_a_shared_link_is_received_separately() {
    for seed in SEEDS {
        let reported = received(seed);
        for (number, (sender, (_, stints))) in reported.senders.iter().zip(stints()).enumerate() {
            assert_whole(
                sender,
                stints.iter().any(|stint| stint.sends.1 > TrueTime::ZERO.after(SPAN)),
            );
            let SenderSeen { received, lost, .. } = sender;
            // Bursts of losses are shorter.
            let pauses = received.silences.iter().map(|(from, to)| to.since(*from));
            let pauses: Vec<Span> = pauses.filter(|long| *long > REST).collect();
            match number {
                LEAVES => assert_eq!(pauses.len(), 1, "{received}"),
                MOVES => {
                    assert_eq!(pauses.len(), 1, "{received}");
                    let requested = Span::from_millis(195)..=Span::from_millis(210);
                    assert!(requested.contains(&pauses[0]), "{received}");
                }
                _ => assert!(pauses.is_empty(), "{received}"),
            }
            // Receivers do not count losses without a place, or at the very end.
            let counted = received.counters.lost;
            match number {
                LEAVES | ONE_TOO_MANY => assert!(counted <= *lost, "{lost} lost: {received}"),
                _ => assert_eq!(counted, *lost, "{received}"),
            }
        }
        let all = |count: fn(&SenderSeen) -> u64| reported.senders.iter().map(count).sum::<u64>();
        assert!(all(|sender| sender.lost) > 0, "seed {seed}");
        assert!(all(|sender| sender.received.counters.reordered) > 0, "seed {seed}");
        assert_eq!(reported.senders[STRAY].right, PACKET, "seed {seed}");
    }
}

#[test]
fn senders_without_a_place_are_counted_until_one_is_free() {
    for seed in SEEDS {
        let reported = received(seed);
        let (before, after) = around_pause(&reported.senders[LEAVES].arrived);
        let waits = &reported.senders[ONE_TOO_MANY].arrived;
        let newest = |arrived: &[PacketArrival]| {
            arrived.iter().map(|packet| packet.at).max().expect("packets came")
        };
        let unplaced: Vec<u64> = reported.senders.iter().map(|sender| sender.unplaced).collect();
        let mut expected = vec![0; unplaced.len()];
        expected[ONE_TOO_MANY] = read_before_the_place_is_free(waits, newest(before));
        expected[LEAVES] = read_before_the_place_is_free(after, newest(waits));
        assert_eq!(unplaced, expected, "seed {seed}");
        // Over 0.5 s of one sender, over 1 s of the other.
        assert!(expected[ONE_TOO_MANY] > 500 && expected[LEAVES] > 1_000, "seed {seed}");
        assert_eq!(reported.unplaced, expected.iter().sum::<u64>(), "seed {seed}");
        assert_eq!(reported.places, (PLACES, PLACES), "seed {seed}");
    }
}

#[test]
fn the_same_seed_brings_the_same_senders() {
    let reported = |seed| format!("{:?}", received(seed));
    assert_eq!(reported(1), reported(1));
    assert_ne!(reported(1), reported(2));
}
