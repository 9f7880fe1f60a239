use super::*;
use tautline_sim::link::Loss;
use tautline_sim::preset::Preset;

const START: LocalTime = LocalTime::from_nanos(77_000_000_000);

fn at(micros: i64) -> LocalTime {
    START + Span::from_micros(micros)
}

fn alike(model: PathModel, seed: u64) -> Impairer {
    Impairer::new(model.clone(), model, seed, START)
}

fn released(impairer: &mut Impairer, now: LocalTime) -> Vec<(u8, Leg, UdpPort, i64)> {
    let mut found = Vec::new();
    impairer.release(now, |released| {
        let due = (released.due - START).as_nanos() / 1000;
        found.push((released.datagram[0], released.leg, released.port, due));
    });
    found
}

#[test]
fn datagram_leaves_after_its_delay_on_its_arrival_port() {
    let mut impairer = alike(PathModel::ideal(Span::from_millis(3)), 1);
    assert!(impairer.next_due().is_never());
    impairer.take(Leg::There, UdpPort::Media, &[1; 200], at(0));
    impairer.take(Leg::Back, UdpPort::Control, &[2; 80], at(500));
    assert_eq!(impairer.next_due(), at(3000));
    assert_eq!(released(&mut impairer, at(2999)), []);
    assert_eq!(released(&mut impairer, at(3100)), [(1, Leg::There, UdpPort::Media, 3000)]);
    assert_eq!(released(&mut impairer, at(9000)), [(2, Leg::Back, UdpPort::Control, 3500)]);
    assert!(impairer.next_due().is_never());
}

#[test]
fn relay_forwards_late_read_packets_on_schedule() {
    let mut impairer = alike(PathModel::ideal(Span::from_millis(1)), 1);
    // The socket read second may have the earlier datagram.
    impairer.take(Leg::There, UdpPort::Media, &[1], at(1000));
    impairer.take(Leg::There, UdpPort::Control, &[2], at(900));
    let due: Vec<i64> = released(&mut impairer, at(5000)).iter().map(|one| one.3).collect();
    assert_eq!(due, [2000, 2000]);
}

#[test]
fn losses_are_counted_with_their_bursts() {
    let model = PathModel { loss: Loss::bursts(0.2, 3.0), ..PathModel::ideal(Span::ZERO) };
    let mut impairer = Impairer::new(model, PathModel::ideal(Span::ZERO), 7, START);
    for index in 0..100_000 {
        impairer.take(Leg::There, UdpPort::Media, &[0; 200], at(index * 1000));
        impairer.take(Leg::Back, UdpPort::Control, &[0; 80], at(index * 1000));
        released(&mut impairer, at(index * 1000));
    }
    let there = impairer.counters(Leg::There, UdpPort::Media);
    let back = impairer.counters(Leg::Back, UdpPort::Control);
    assert!((0.19..0.21).contains(&there.loss().0), "{there:?}");
    assert!((2.9..3.1).contains(&there.mean_burst()), "{there:?}");
    assert_eq!(there.received, there.lost + there.released, "{there:?}");
    assert_eq!((back.lost, back.released), (0, 100_000), "{back:?}");
}

#[test]
fn the_same_seed_does_the_same() {
    let run = |seed| {
        let mut impairer = alike(Preset::WifiBad.path(), seed);
        for index in 0..5000 {
            impairer.take(Leg::There, UdpPort::Media, &[index as u8; 200], at(index * 1000));
        }
        released(&mut impairer, at(60_000_000))
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn relay_queue_is_bounded() {
    let mut impairer = alike(PathModel::ideal(Span::from_secs(3600)), 1);
    for index in 0..2000 {
        impairer.take(Leg::There, UdpPort::Media, &[0; 65_000], at(index));
    }
    let counters = impairer.counters(Leg::There, UdpPort::Media);
    assert_eq!(counters.overflowed as usize, 2000 - MAX_WAITING / 65_000);
    assert_eq!(counters.lost, 0);
}
