//! Playback is exact before, at and after a step of the talker's clock.

use super::*;

/// Talker's clock minus ours. Times wrap at packet 4000.
const AROUND: Span = Span::from_nanos((400_000_000 << 32) - 1_520_000_000);
const ROUND: i64 = 4000;

#[derive(Debug, Clone, Copy)]
struct Step {
    encapsulation: Encapsulation,
    millis: i64,
    first: i64,
    lost: Option<i64>,
}

#[test]
fn clock_step_moves_the_sound_once_to_exact_positions() {
    // Packets throughout a block, and around the wrap.
    let firsts = [3600, 3604, 3607, ROUND - 1, ROUND, ROUND + 1];
    for encapsulation in [Encapsulation::Ethernet, Encapsulation::Udp] {
        for millis in [-10, 10] {
            for first in firsts {
                let alongside = [-2, -1, 0, 1, 2].map(|away| Some(first + away));
                for lost in [None].into_iter().chain(alongside) {
                    check(Step { encapsulation, millis, first, lost });
                }
            }
        }
    }
}

fn check(step: Step) {
    let Step { encapsulation, millis, first, lost } = step;
    let by = Span::from_millis(millis);
    let format = format(SampleFormat::L16);
    let mut road = Road::by_wall(encapsulation, format, LATENCY, AROUND);
    let mut reported = Vec::new();
    road.play(first / 8 + 100, |packet, bytes| {
        let by = if packet < first { Span::ZERO } else { by };
        reported.push(set_on(encapsulation, bytes, by));
        Some(packet) != lost
    });
    assert_eq!((reported[3999], reported[4000]), (u32::MAX - 124_999, 0), "they come round there");
    let counters = *road.receiver.counters();
    let costs = i64::from(lost.is_some());
    assert_eq!((road.missing, road.concealed), (6 * costs, 6 * costs), "{step:?}");
    let counted = (counters.lost as i64, counters.resyncs, counters.late, counters.on_probation);
    assert_eq!(counted, (costs, 1, 0, 0), "{step:?}: {counters:?}");
    // Accepted with the second packet, applied from the next block on.
    let notifies = (first..).filter(|packet| Some(*packet) != lost).nth(1).expect("they go on");
    let moves = (notifies / 8 * PERIOD.count()) as usize;
    let moved = RATE.frames_nearest(by).count();
    let mut altered = Vec::new();
    for (index, (at, frame)) in road.received.iter().enumerate() {
        let before = RATE.frames_nearest(*at - START - LATENCY).count();
        let due = if index < moves { before } else { before - moved };
        if before < 0 || *frame == Some(due.rem_euclid(30_000)) {
            continue;
        }
        let fades = (moves..moves + 48).contains(&index);
        let gone = lost.is_some_and(|lost| (6 * lost..6 * lost + 54).contains(&due));
        assert!(fades || gone, "{step:?}: {frame:?} in place of {due} at {at:?}");
        altered.push(due);
    }
    assert!(altered.len() > 6 * costs as usize, "{step:?}: the sound does move");
}

#[test]
fn outlying_times_need_one_confirmation() {
    const ALL: u64 = 8000;
    const HALF: u64 = 4000;
    let counted = [
        (HALF, -3000, (1, 0, HALF)),
        (HALF, -1000, (1, HALF, 0)),
        (HALF, -30, (1, HALF, 0)),
        (HALF, 100, (1, 0, 0)),
        (HALF, 1000, (1, 0, HALF)),
        (HALF, 3000, (1, HALF, 0)),
        (0, -1000, (0, ALL, 0)),
        (0, -30, (0, ALL, 0)),
        (0, 1000, (0, 0, ALL)),
    ];
    for encapsulation in [Encapsulation::Ethernet, Encapsulation::Udp] {
        for (first, millis, (doubted, late, early)) in counted {
            let mut road = Road::over(encapsulation, SampleFormat::L16);
            road.play(1000, |packet, bytes| {
                if packet >= first as i64 {
                    set_on(encapsulation, bytes, Span::from_millis(millis));
                }
                true
            });
            let (counters, reported) =
                (*road.receiver.counters(), format!("{millis} from {first}"));
            assert_eq!(
                (counters.on_probation, counters.lost),
                (doubted, 0),
                "{reported}: {counters:?}"
            );
            // Packets of the same period are placed before the next check.
            let near = |counted: u64, is: u64| counted == is || (is - 8..is).contains(&counted);
            let (lates, earlies) = (near(counters.late, late), near(counters.too_early, early));
            assert!(lates && earlies, "{encapsulation:?} {reported}: {counters:?}");
        }
    }
}

#[test]
fn clock_step_over_half_a_number_range_looks_like_a_pause() {
    // Half of 256 class A packets, 16 ms; with 32-bit numbers the tolerance, 20 ms.
    let doubted = [
        (Encapsulation::Ethernet, 15, 0),
        (Encapsulation::Ethernet, 17, 1),
        (Encapsulation::Udp, 19, 0),
        (Encapsulation::Udp, 21, 1),
    ];
    for (encapsulation, millis, doubted) in doubted {
        let mut road = Road::of(encapsulation, format(SampleFormat::L16), LATENCY.times(2));
        road.play(1000, |packet, bytes| {
            if packet >= 4000 {
                set_on(encapsulation, bytes, Span::from_millis(millis));
            }
            true
        });
        let counters = road.receiver.counters();
        let counted = (counters.on_probation, counters.resyncs, counters.lost);
        assert_eq!(counted, (doubted, 1, 0), "{encapsulation:?}, {millis} ms: {counters:?}");
    }
}

/// Adds `by` to the presentation time; returns the original.
fn set_on(encapsulation: Encapsulation, bytes: &mut [u8], by: Span) -> u32 {
    let time = &mut bytes[time_at(encapsulation)..][..4];
    let reported = u32::from_be_bytes([0, 1, 2, 3].map(|byte| time[byte]));
    time.copy_from_slice(&reported.wrapping_add(by.as_nanos() as u32).to_be_bytes());
    reported
}
