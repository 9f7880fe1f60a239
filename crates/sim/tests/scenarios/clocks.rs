//! Host clocks, and placement based on them.

use fastrand::Rng;
use tautline_proto::crf_follower::CrfFollower;
use tautline_proto::jitter_buffer::Resync;
use tautline_proto::packet::StreamId;
use tautline_proto::placement::Basis;
use tautline_proto::time::{Frames, LocalTime, Span, WallTime};
use tautline_proto::units::{Ppm, Rate};
use tautline_proto::wire::avtp::Encapsulation;
use tautline_proto::wire::avtp::crf::CrfHead;
use tautline_sim::card::CardModel;
use tautline_sim::clock::{ClockError, ClockEvent, SimClock, TrueTime};
use tautline_sim::link::Path;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::{HostModel, ReceiverModel, Scenario};
use tautline_sim::world::{World, play};

// CRF on every network. Packet delays change nothing, because the times are on the talker's clock.

/// Nominal packet interval.
const PERIOD: Span = Span::from_millis(2);
/// True time of the media-clock change, and of the talker's silences.
const TURNS: TrueTime = TrueTime::from_nanos(60_000_000_000);
const SILENT: [TrueTime; 2] =
    [TrueTime::from_nanos(90_000_000_000), TrueTime::from_nanos(100_000_000_000)];

#[test]
fn a_media_clock_is_followed_at_every_place() {
    for (seed, preset) in (31..).zip(Preset::ALL) {
        let reported = |what: &str| format!("{}, seed {seed}: {what}", preset.name());
        let mut rng = Rng::with_seed(seed);
        let ppm = 200.0 * rng.f64() - 100.0;
        let quartz = ClockError::quartz(LocalTime::ZERO, ppm);
        let turn = ClockEvent::Rate(Ppm::from_f64(ppm / 2.0));
        let mut card = SimClock::new(quartz, vec![(TURNS, turn)], seed);
        let mut path = Path::new(preset.path(), seed);
        let mut follower = CrfFollower::new(Encapsulation::Ethernet, None, Rate::HZ_48000);
        let (mut arriving, mut at) = (Vec::new(), TrueTime::ZERO);
        for number in 0..75_000_i64 {
            let reading = LocalTime::ZERO + PERIOD.times(number);
            at = card.when(reading, at);
            if (SILENT[0]..SILENT[1]).contains(&at) {
                continue;
            }
            let head = CrfHead {
                stream: StreamId(7),
                number: number as u8,
                restarts: false,
                uncertain: false,
                nominal: Rate::HZ_48000,
                interval: 96,
            };
            // PTP reading error of at most 1 µs.
            let read = at.as_nanos() + rng.i64(-500..500);
            let packet = head.write(&[WallTime::from_unix_nanos(1_795_000_000_000_000_000 + read)]);
            path.carry(packet.len(), at, |arrives| {
                arriving.push((arrives, number, packet.clone()))
            });
        }
        arriving.sort_unstable_by_key(|(arrives, number, _)| (*arrives, *number));
        let mut checked = 0;
        for (arrives, number, packet) in arriving {
            let now = LocalTime::from_nanos(arrives.as_nanos());
            follower.handle(&packet, now);
            let since_turn = arrives.since(TURNS);
            let settling = (Span::ZERO..Span::from_secs(3)).contains(&since_turn);
            if number % 500 != 0 || number < 1500 || settling {
                continue;
            }
            let rate = follower
                .reported(now)
                .unwrap_or_else(|| panic!("{}", reported("nothing is known")));
            let truth = if since_turn > Span::ZERO { ppm / 2.0 } else { ppm };
            let off = (rate.rate.as_f64() - truth).abs();
            assert!(off < 0.5, "{}", reported(&format!("{off} ppm off at {arrives:?}")));
            checked += 1;
        }
        assert!(checked > 100, "{}", reported(&checked.to_string()));
        let standing = follower.standing(LocalTime::from_nanos(150_000_000_000));
        assert!(standing.counters.jumps <= 1, "{}", reported(&format!("{standing:?}")));
    }
}

// Position of copied sound between hosts with clocks at most a few ppb apart. It is corrected once
// the clocks are known well; then the sound is copied bit for bit again.

/// Starts at `start`, this many ppb fast.
fn clock((start, billionths): (i64, f64)) -> ClockError {
    let start = LocalTime::from_nanos(start);
    ClockError { start, rate: Ppm::from_f64(billionths / 1e3), ..ClockError::NONE }
}

/// A resampled stretch: start, and the errors before and after.
#[derive(Debug, Clone, Copy)]
struct Correction {
    begins: TrueTime,
    lasts: Span,
    before: Span,
    after: Span,
}

const STEP: Span = Span::from_millis(10);

fn corrections(world: &mut World, span: Span, receivers: usize) -> Vec<Vec<Correction>> {
    let mut found: Vec<Vec<Correction>> = vec![Vec::new(); receivers];
    let mut resampled = vec![(0, false); receivers];
    let mut before = vec![Span::ZERO; receivers];
    for _ in 0..span.as_nanos() / STEP.as_nanos() {
        world.run(STEP);
        let now = world.now();
        for (number, received) in world.received().enumerate() {
            let (frames, resamples) = &mut resampled[number];
            let more = received.counters.resampled_frames > *frames;
            *frames = received.counters.resampled_frames;
            let Some(error) = received.errors.last().copied() else { continue };
            // Servo pull: at most a third of a cent.
            let moved = (error - before[number]).abs();
            let maximum = if more { Span::from_micros(3) } else { Span::from_micros(1) };
            assert!(
                before[number] == Span::ZERO || moved <= maximum,
                "{now:?}: {moved}; {received}"
            );
            if more && !*resamples {
                let (begins, before) = (now, before[number]);
                found[number].push(Correction { begins, lasts: STEP, before, after: error });
            }
            if let Some(last) = found[number].last_mut().filter(|_| more || *resamples) {
                (last.lasts, last.after) = (now.since(last.begins), error);
            }
            (*resamples, before[number]) = (more, error);
        }
    }
    found
}

#[test]
fn a_place_found_before_the_clocks_were_known_is_corrected_once() {
    let clocks = [(0, 0.0), (7_000_000_000, 0.0), (123_456_789, 5.0), (1, -5.0)];
    let mut corrected = 0;
    for seed in [2, 5, 7] {
        let mut scenario = Scenario::on(Preset::SwitchUnderLoad, seed);
        scenario.latency = Span::from_millis(10);
        let one = scenario.receivers[0].clone();
        scenario.receivers = clocks
            .map(|reported| ReceiverModel {
                host: HostModel { clock: clock(reported), ..HostModel::IDEAL },
                ..one.clone()
            })
            .to_vec();
        let mut world = World::new(scenario);
        let found = corrections(&mut world, Span::from_secs(240), clocks.len());
        for (received, found) in world.finish().iter().zip(found) {
            assert!(found.len() <= 1, "to and fro: {found:?}; {received}");
            assert!(found.iter().all(|one| one.lasts < Span::from_millis(1500)), "{found:?}");
            assert!(found.iter().all(|one| one.after.abs() < one.before.abs().half()), "{found:?}");
            corrected += found.iter().filter(|one| one.before.abs().as_nanos() > 100_000).count();
            let last = received.errors.last().unwrap().abs();
            assert!(last < Span::from_micros(60), "{last}, {found:?}; {received}");
            assert!(received.first_wrong.is_none() && received.resyncs.is_empty(), "{received}");
        }
    }
    assert!(corrected >= 3, "{corrected}: too few were beside to prove anything");
}

/// A return path slower by 0.2 ms for two seconds places sound 0.1 ms early. Packets have 0.06 ms
/// to spare, too little to resample.
#[test]
fn tight_latency_has_late_packets_only_until_clocks_are_known() {
    let path = Preset::Wired.path();
    let settles = TrueTime::ZERO.after(Span::from_secs(2));
    let period = Frames::new(64);
    let card = CardModel { period, ..CardModel::IDEAL };
    let mut scenario = Scenario::on(Preset::Wired, 5);
    scenario.format.packet = period;
    // Full after one period, taken with the next, and played after that.
    scenario.latency = scenario.format.rate.span_of(Frames::new(3 * 64)) + Span::from_micros(60);
    scenario.sender.card = card;
    let host = HostModel { clock: clock((7_000_000_000, 3.0)), ..HostModel::with_card(card) };
    let mut slow = path.clone();
    slow.delay += Span::from_micros(200);
    slow.changes = vec![(settles, path)];
    let one = scenario.receivers[0].clone();
    scenario.receivers = vec![ReceiverModel { host, back: slow, ..one }];
    let mut world = World::new(scenario);
    world.run(Span::from_secs(4));
    let begun = world.received().next().unwrap().counters;
    assert!(begun.late > 1000, "none was early enough to prove anything: {begun:?}");
    world.run(Span::from_secs(56));
    let known = world.received().next().unwrap().counters;
    world.run(Span::from_secs(60));
    let received = &world.finish()[0];
    assert_eq!(received.counters.late - known.late, 0, "{received}");
    assert_eq!((received.counters.resampled_frames, received.resyncs.len()), (0, 1), "{received}");
    assert_eq!(received.resyncs[0].1, Resync::Moved, "{received}");
}

// Estimate of the sender's clock on every preset, with wandering clocks 100 ppm apart.

/// Maximum median error in the second minute, in µs. Symmetric queues cause little error.
const MEDIAN: [(Preset, i64); 6] = [
    (Preset::Wired, 10),
    (Preset::SwitchUnderLoad, 30),
    (Preset::Wifi5Ghz, 60),
    (Preset::WifiBad, 100),
    (Preset::Wan, 60),
    (Preset::Satellite, 3000),
];

#[test]
fn mapping_error_is_within_its_bound_at_every_place() {
    assert_eq!(MEDIAN.map(|(preset, _)| preset), Preset::ALL);
    for (preset, maximum) in MEDIAN {
        for (seed, wander) in [(31, 0.01), (32, 0.1)] {
            let mut scenario = Scenario::on(preset, seed);
            scenario.latency = Span::from_millis(600);
            let clock = |start, ppm| ClockError {
                start: LocalTime::from_nanos(start),
                rate: Ppm::from_f64(ppm),
                wander: Ppm::from_f64(wander),
            };
            scenario.sender.clock = clock(5_000_000_000_000, -50.0);
            scenario.receivers[0].host.clock = clock(77_000_000_000, 50.0);
            let mut world = World::new(scenario);
            let mut errors = Vec::new();
            for beat in 0..6000 {
                world.run(Span::from_millis(20));
                let reported = format!("{}, seed {seed}, {} ms", preset.name(), 20 * beat);
                let Some(look) = world.look(0).filter(|look| look.basis == Basis::Clock) else {
                    assert!(beat < 100, "{reported}: no clock is mapped");
                    continue;
                };
                assert!(look.error.abs() <= look.uncertainty, "{reported}: {look:?}");
                assert_eq!(look.steps, 0, "{reported}: {look:?}");
                if beat >= 3000 {
                    errors.push(look.error.abs());
                }
            }
            errors.sort_unstable();
            let median = errors[errors.len() / 2];
            let reported = format!("{}, seed {seed}: {median}", preset.name());
            assert!(median <= Span::from_micros(maximum), "{reported}");
        }
    }
}

// Receivers with different clocks, on a loaded switch. True errors limit how far apart they play.

/// A position may be 0.2 ms off until the clocks are known: here at most 90 s.
#[test]
fn receivers_with_own_clocks_play_in_sync() {
    for seed in 1..=16 {
        let mut scenario = Scenario::on(Preset::SwitchUnderLoad, seed);
        scenario.latency = Span::from_millis(10);
        let one = scenario.receivers[0].clone();
        let with_clock = |(start, ppm): (i64, f64)| {
            let mut receiver: ReceiverModel = one.clone();
            receiver.host.clock = ClockError::quartz(LocalTime::from_nanos(start), ppm);
            receiver
        };
        let clocks = [(0, 0.0), (7_000_000_000, 30.0), (123_456_789, -30.0), (1, 12.5)];
        scenario.receivers = clocks.map(with_clock).to_vec();
        for (number, received) in play(scenario, Span::from_secs(120)).iter().enumerate() {
            let reported = format!("receiver {number}, seed {seed}: {received}");
            assert!(received.error_at(0.999).unwrap() < Span::from_micros(500), "{reported}");
            assert!(received.error_at(0.5).unwrap() < Span::from_micros(100), "{reported}");
            let settled = &received.errors[received.errors.len() - 30_000..];
            let worst = settled.iter().map(|error| error.abs()).max().unwrap();
            assert!(worst < Span::from_micros(100), "{worst}: {reported}");
            assert!(received.first_wrong.is_none(), "{reported}");
        }
    }
}
