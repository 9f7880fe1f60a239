//! Packets that arrive again, from an attacker or a network loop.

use tautline_proto::time::Span;

use super::world::{Datagram, Scene, World, perfect};

fn recorded(world: &mut World, packets: usize) -> Vec<Datagram> {
    let mut record = Vec::new();
    for _ in 0..packets {
        world.period(|datagram| {
            record.push(datagram.clone());
            vec![datagram]
        });
    }
    record
}

fn again(old: &Datagram, now: &Datagram) -> Datagram {
    Datagram { arrives: now.arrives + Span::from_micros(20), ..old.clone() }
}

#[test]
fn replay_into_a_running_stream_changes_nothing() {
    // Within and beyond the range of late packets, and after a wrap.
    for back in [500, 3_500, 20_000, 60_000, 64_500, 66_000, 69_000] {
        let mut world = World::new(Scene::default());
        let mut record = recorded(&mut world, back);
        let mut next = 0;
        for _ in 0..2000 {
            world.period(|datagram| {
                record.push(datagram.clone());
                next += 1;
                vec![again(&record[next - 1], &datagram), datagram]
            });
        }
        let counters = world.receiver.counters();
        assert_eq!(
            (counters.lost, counters.late, counters.resyncs),
            (0, 0, 0),
            "{back}: {counters:?}"
        );
        assert_eq!((counters.duplicate, counters.on_probation), (2000, 0), "{back}: {counters:?}");
        assert_eq!(counters.missing_frames, 0, "{back}: {counters:?}");
        assert!(world.received_whole_at_the_end(), "{back}: {counters:?}");
    }
}

#[test]
fn replay_during_an_outage_adds_no_loss() {
    let mut world = World::new(Scene::default());
    let record = recorded(&mut world, 9_000);
    let mut replayed = record.iter();
    for _ in 0..1000 {
        world.period(|datagram| {
            replayed.next().map(|old| again(old, &datagram)).into_iter().collect()
        });
    }
    for _ in 0..1000 {
        world.period(perfect);
    }
    let counters = world.receiver.counters();
    assert_eq!(counters.lost, 1000, "{counters:?}");
    assert!(world.received_whole_at_the_end(), "{counters:?}");
}

#[test]
fn an_outage_is_in_all_that_a_receiver_reports_of_its_losses() {
    // Repairable, unrepairable, and beyond the range of numbers.
    for swallowed in [20, 1000, 10_012] {
        let mut world = World::new(Scene::default());
        for _ in 0..swallowed + 1000 {
            world.period(|datagram| {
                let goes = (300..300 + swallowed).contains(&datagram.number);
                if goes { vec![] } else { vec![datagram] }
            });
        }
        let swallowed = swallowed as u64;
        let losses = world.receiver.losses().unwrap();
        assert_eq!(losses.lost, swallowed);
        assert_eq!(losses.tally.missing + losses.tally.beyond, swallowed, "{losses:?}");
        // Unrepairable runs do not determine redundancy.
        assert_eq!(losses.tally.missing, if swallowed > 64 { 0 } else { swallowed }, "{losses:?}");
        let source = world.receiver.source().unwrap();
        assert_eq!(source.expected() - source.received(), swallowed);
    }
}
