//! Under test: the place of what is copied, between hosts with clocks of their own that run at one
//! rate or a few billionths apart. It is found while the clocks are not known well; it is corrected
//! once they are, and sound is copied again, bit for bit.

use tautline_proto::jitter_buffer::Resync;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Ppm;
use tautline_sim::card::CardModel;
use tautline_sim::clock::{ClockError, TrueTime};
use tautline_sim::preset::Preset;
use tautline_sim::scenario::{HostModel, ReceiverModel, Scenario};
use tautline_sim::world::World;

/// A clock that shows `start` at the beginning and runs so many billionths fast.
fn clock((start, billionths): (i64, f64)) -> ClockError {
    let start = LocalTime::from_nanos(start);
    ClockError { start, rate: Ppm::from_f64(billionths / 1e3), ..ClockError::NONE }
}

/// A stretch in which a receiver resampled: when it began, and how far beside it played before and
/// afterwards.
#[derive(Debug, Clone, Copy)]
struct Correction {
    begins: TrueTime,
    lasts: Span,
    before: Span,
    after: Span,
}

const STEP: Span = Span::from_millis(10);

/// Plays so much time; the corrections of each receiver.
fn corrections(world: &mut World, span: Span, receivers: usize) -> Vec<Vec<Correction>> {
    let mut found: Vec<Vec<Correction>> = vec![Vec::new(); receivers];
    let mut resampled = vec![(0, false); receivers];
    let mut before = vec![Span::ZERO; receivers];
    for _ in 0..span.as_nanos() / STEP.as_nanos() {
        world.run(STEP);
        let now = world.now();
        for (number, heard) in world.heard().enumerate() {
            let (frames, resamples) = &mut resampled[number];
            let more = heard.counters.resampled_frames > *frames;
            *frames = heard.counters.resampled_frames;
            let Some(error) = heard.errors.last().copied() else { continue };
            // No faster than the pull of a servo: a third of a cent.
            let moved = (error - before[number]).abs();
            let most = if more { Span::from_micros(3) } else { Span::from_micros(1) };
            assert!(before[number] == Span::ZERO || moved <= most, "{now:?}: {moved}; {heard}");
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
            .map(|told| ReceiverModel {
                host: HostModel { clock: clock(told), ..HostModel::IDEAL },
                ..one.clone()
            })
            .to_vec();
        let mut world = World::new(scenario);
        let found = corrections(&mut world, Span::from_secs(240), clocks.len());
        for (heard, found) in world.finish().iter().zip(found) {
            assert!(found.len() <= 1, "to and fro: {found:?}; {heard}");
            assert!(found.iter().all(|one| one.lasts < Span::from_millis(1500)), "{found:?}");
            assert!(found.iter().all(|one| one.after.abs() < one.before.abs().half()), "{found:?}");
            corrected += found.iter().filter(|one| one.before.abs().as_nanos() > 100_000).count();
            let last = heard.errors.last().unwrap().abs();
            assert!(last < Span::from_micros(60), "{last}, {found:?}; {heard}");
            assert!(heard.first_wrong.is_none() && heard.resyncs.is_empty(), "{heard}");
        }
    }
    assert!(corrected >= 3, "{corrected}: too few were beside to prove anything");
}

/// The way back is 0.2 ms slower for two seconds, so that the place is found 0.1 ms too early. By the
/// promise packets are in time by 0.06 ms, which leaves no room to resample.
#[test]
fn near_the_least_latency_packets_are_late_no_longer_than_until_the_clocks_are_known() {
    let path = Preset::Wired.path();
    let settles = TrueTime::ZERO.after(Span::from_secs(2));
    let period = Frames::new(64);
    let card = CardModel { period, ..CardModel::IDEAL };
    let mut scenario = Scenario::on(Preset::Wired, 5);
    scenario.format.packet = period;
    // A packet is full after one period, is taken with the next and fills the one after that.
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
    let begun = world.heard().next().unwrap().counters;
    assert!(begun.late > 1000, "none was early enough to prove anything: {begun:?}");
    world.run(Span::from_secs(56));
    let known = world.heard().next().unwrap().counters;
    world.run(Span::from_secs(60));
    let heard = &world.finish()[0];
    assert_eq!(heard.counters.late - known.late, 0, "{heard}");
    assert_eq!((heard.counters.resampled_frames, heard.resyncs.len()), (0, 1), "{heard}");
    assert_eq!(heard.resyncs[0].1, Resync::Moved, "{heard}");
}
