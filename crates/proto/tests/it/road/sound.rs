//! Sender, receiver, source, placement and playout with ideal cards.

use tautline_dsp::format::SampleFormat;
use tautline_proto::jitter_buffer::Resync;
use tautline_proto::ledger::Stage;
use tautline_proto::stream::packet_frames;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Rate;

use super::form::PACK;
use super::world::{Scene, World, perfect, sample};

fn longest_whole_run(world: &World) -> usize {
    let sound = world.sound();
    let first = sound.iter().position(|s| *s == sample(0)).expect("the first frame was heard");
    sound[first..].iter().enumerate().take_while(|(i, s)| **s == sample(*i as i64)).count()
}

#[test]
fn playback_equals_capture_at_every_rate_format_and_ptime() {
    for hertz in Rate::SUPPORTED {
        for micros in [125, 333, 1000, 5000, 20_000] {
            for format in SampleFormat::ALL {
                let rate = Rate::new(hertz).unwrap();
                let packet = packet_frames(rate, Span::from_micros(micros)).unwrap();
                // Periods are longer at lower rates.
                let latency = Span::from_micros(2 * micros) + rate.span_of(Frames::new(192));
                let mut world =
                    World::new(Scene { rate, packet, latency, sample: format, ..Scene::default() });
                for _ in 0..200 + rate.frames_within(latency).as_len() / 24 {
                    world.period(perfect);
                }
                let whole = longest_whole_run(&world);
                assert!(whole > 9000, "{hertz} {micros} {format:?}: {whole}");
                assert_eq!(world.receiver.counters().missing_frames, 0);
            }
        }
    }
}

#[test]
fn a_frame_meets_the_dac_one_link_offset_after_its_capture() {
    for latency in [Span::from_millis(3), Span::from_millis(20), Span::from_millis(100)] {
        let mut world = World::new(Scene { latency, ..Scene::default() });
        let start = world.now;
        for _ in 0..300 {
            world.period(perfect);
        }
        for index in [0, 1000, 5000] {
            let captured = start + world.scene.rate.span_of(Frames::new(index));
            let error = world.received_at(index).expect("heard") - captured - latency;
            assert!(error.abs() <= Span::from_micros(21), "{latency}: off by {error}");
        }
    }
}

#[test]
fn the_stages_of_each_packet_add_up_to_its_latency() {
    let mut world = World::new(Scene::default());
    for _ in 0..100 {
        world.period(perfect);
    }
    assert!(world.received.passages.len() > 80);
    for passage in &world.received.passages {
        let known = Stage::ALL.map(|stage| (stage, passage.stage(stage)));
        let sum: Span = known
            .into_iter()
            .filter(|(stage, _)| ![Stage::Resample, Stage::Launch].contains(stage))
            .map(|(_, span)| span.expect("all instants known"))
            .sum();
        assert_eq!(Some(sum), passage.total());
        assert!((sum - Span::from_millis(5)).abs() <= Span::from_micros(21), "{sum}");
    }
}

#[test]
fn reordered_and_duplicate_packets_cost_nothing() {
    let mut world = World::new(Scene::default());
    for _ in 0..200 {
        world.period(|datagram| {
            let mut twice = vec![datagram.clone(), datagram];
            if twice[0].number % 3 == 1 {
                twice.iter_mut().for_each(|d| d.arrives += Span::from_millis(2));
            }
            twice
        });
    }
    let counters = world.receiver.counters();
    assert!(longest_whole_run(&world) > 9000);
    assert!(counters.duplicate > 190, "{counters:?}");
    assert!(counters.reordered > 60, "{counters:?}");
    assert_eq!((counters.lost, counters.late, counters.missing_frames), (0, 0, 0));
}

#[test]
fn a_hole_is_concealed_and_counted_lost() {
    let mut world = World::new(Scene::default());
    for _ in 0..100 {
        world.period(|d| if d.number == 50 { vec![] } else { vec![d] });
    }
    let counters = world.receiver.counters();
    assert_eq!((counters.lost, counters.late, counters.missing_frames), (1, 0, 48));
    assert_eq!(counters.concealed_frames, 48);
    let sound = world.sound();
    let first = sound.iter().position(|s| *s == sample(0)).unwrap();
    let wrong: f32 = (50 * 48..51 * 48)
        .map(|index| (sound[first + index] - sample(index as i64)).powi(2) / 48.0)
        .sum();
    assert!(wrong < 0.02, "the sound, whose power is a third, goes on: {wrong}");
    let whole = 52 * 48;
    assert_eq!(sound[first + whole], sample(whole as i64), "whole again after the fade");
}

#[test]
fn missing_frames_are_reported_and_count_if_stream_continues() {
    let mut world = World::new(Scene::default());
    for _ in 0..200 {
        let is_lost = |number| [50, 120, 121].contains(&number) || (150..170).contains(&number);
        world.period(|d| if is_lost(d.number) { vec![] } else { vec![d] });
    }
    let begin = world.receiver.source().unwrap().begin_media();
    let mut lost: Vec<i64> = [50, 120, 121].into_iter().chain(150..170).collect();
    let mut tails = 0;
    for hole in &world.received.holes {
        for frame in hole.frames.start.as_frames()..hole.frames.end.as_frames() {
            let packet = (frame - begin.as_frames()).div_euclid(48);
            if packet != lost[0] {
                lost.remove(0);
            }
            assert_eq!(packet, lost[0], "{hole:?}");
            tails += i64::from(hole.is_tail);
        }
    }
    assert_eq!(lost, [169]);
    // Frames whose turn came before any later packet.
    assert!((14 * 48..20 * 48).contains(&tails), "{tails}");
    assert_eq!(world.receiver.counters().missing_frames, 23 * 48);
    assert!(!world.receiver.has_tail());
    // Frames due now do not count yet.
    (0..50).for_each(|_| world.pause());
    assert!(world.receiver.has_tail() && world.received.holes.last().unwrap().is_tail);
    assert_eq!(world.receiver.counters().missing_frames, 23 * 48);
}

/// Lost packets, missing and skipped frames. A long latency reveals the gap in time.
fn after_a_skip(latency: Span, marked: bool, stamps: bool) -> (u64, u64, u64) {
    let mut world = World::new(Scene { latency, stamps, ..Scene::default() });
    for index in 0..200 {
        if index == 100 {
            world.skip(Frames::new(432));
        }
        world.period(|mut datagram| {
            if !marked {
                datagram = datagram.saying(|head| head.begins = false);
            }
            if [50, 150].contains(&datagram.number) { vec![] } else { vec![datagram] }
        });
    }
    let counters = world.receiver.counters();
    (counters.lost, counters.missing_frames, counters.skipped_frames)
}

#[test]
fn skipped_frames_are_distinguished_from_lost_ones() {
    for latency in [20, 5] {
        for marked in [false, true] {
            let counted = after_a_skip(Span::from_millis(latency), marked, true);
            assert_eq!(counted, (2, 432 + 96, 432), "{latency} ms, marked {marked}");
        }
    }
    // A marker of another program begins another run; a gap known too late may be a pause.
    let (lost, missing, skipped) = after_a_skip(Span::from_millis(5), true, false);
    assert_eq!((lost, missing - 96), (2, skipped));
    assert!(skipped < 432, "{skipped}");
}

#[test]
fn seconds_without_the_senders_device_are_skipped_frames() {
    for stamps in [true, false] {
        let mut world = World::new(Scene { stamps, ..Scene::default() });
        for _ in 0..100 {
            world.period(perfect);
        }
        // Shorter numbers wrap within seconds.
        let frames = if PACK.number_bits() < 16 { 4_800 } else { 3 * 48_000 };
        world.skip(Frames::new(frames));
        for _ in 0..100 {
            world.period(perfect);
        }
        let counters = world.receiver.counters();
        assert_eq!((counters.lost, counters.late), (0, 0), "{counters:?}");
        // Without stamps it may be a pause, of which only the end is known in time.
        let skipped = if stamps { frames..frames + 1 } else { 0..480 };
        assert!(
            skipped.contains(&(counters.skipped_frames as i64)),
            "stamps {stamps}: {counters:?}"
        );
    }
}

#[test]
fn a_packet_after_its_deadline_is_late_and_not_lost() {
    let mut world = World::new(Scene::default());
    for _ in 0..100 {
        world.period(|mut datagram| {
            if datagram.number == 50 {
                datagram.arrives += Span::from_millis(8);
            }
            vec![datagram]
        });
    }
    let counters = world.receiver.counters();
    assert_eq!((counters.lost, counters.late, counters.missing_frames), (0, 1, 48));
}

#[test]
fn another_sender_takes_over_with_one_resync() {
    let mut world = World::new(Scene::default());
    for _ in 0..100 {
        world.period(perfect);
    }
    for _ in 0..60 {
        world.pause();
    }
    world.restart_sender(42);
    for _ in 0..100 {
        world.period(perfect);
    }
    let counters = *world.receiver.counters();
    assert_eq!((counters.resyncs, counters.lost, counters.missing_frames), (1, 0, 0));
    let resync = world.received.pulled.iter().find_map(|pulled| pulled.resync);
    assert_eq!(resync, Some(Resync::NewSource));
    let error = world.received.passages.last().unwrap().total().unwrap() - Span::from_millis(5);
    assert!(error.abs() <= Span::from_micros(21), "{error}");
}

#[test]
fn a_second_sender_does_not_disturb_the_first() {
    let mut world = World::new(Scene::default());
    let mut intruder = World::new(Scene::default());
    intruder.restart_sender(99);
    for _ in 0..100 {
        let mut strange = vec![];
        intruder.period(|d| {
            strange.push(d.clone());
            vec![d]
        });
        world.period(|d| [vec![d], std::mem::take(&mut strange)].concat());
    }
    assert!(longest_whole_run(&world) > 4000);
    assert!(world.receiver.counters().other_source > 90);
}

#[test]
fn paused_sender_returns_in_time() {
    for mapped in [true, false] {
        let mut world = World::new(Scene { mapped, ..Scene::default() });
        for _ in 0..100 {
            world.period(perfect);
        }
        for _ in 0..300 {
            world.pause();
        }
        for _ in 0..200 {
            world.period(perfect);
        }
        let counters = world.receiver.counters();
        assert!((1..=2).contains(&counters.resyncs), "mapped {mapped}: {counters:?}");
        let sound = world.sound();
        let tail = &sound[sound.len() - 48 * 50..];
        assert!(tail.windows(2).all(|two| two[0] != 0.0 && two[1] != two[0]), "mapped {mapped}");
    }
}

#[test]
fn a_jump_in_media_time_resynchronises_once() {
    let mut world = World::new(Scene::default());
    for _ in 0..100 {
        world.period(perfect);
    }
    // Two seconds of media time in no time.
    world.sender.skip(Frames::new(96_000), world.now, |_| {});
    for _ in 0..100 {
        world.period(perfect);
    }
    let counters = world.receiver.counters();
    assert_eq!(counters.resyncs, 1, "{counters:?}");
    let sound = world.sound();
    assert!(sound[sound.len() - 48 * 50..].iter().all(|s| *s != 0.0));
}

#[test]
fn without_a_clock_the_fastest_arrivals_place_the_sound() {
    let mut world = World::new(Scene { mapped: false, stamps: false, ..Scene::default() });
    let start = world.now;
    let mut delay = 0;
    for _ in 0..300 {
        world.period(|mut datagram| {
            delay = (delay * 31 + 7) % 1000;
            datagram.arrives += Span::from_micros(delay);
            vec![datagram]
        });
    }
    // The capture time is unknown: only the path of 100 µs is added.
    let error = world.received_at(9000).expect("heard")
        - (start + world.scene.rate.span_of(Frames::new(9000)))
        - Span::from_micros(5100);
    assert!(error.abs() <= Span::from_micros(250), "{error}");
    assert_eq!(world.receiver.counters().resyncs, 0);
    assert!(world.received.passages.iter().all(|passage| passage.origin.is_none()));
}

#[test]
fn frames_that_the_capture_card_lost_leave_a_hole_and_no_drift() {
    let mut world = World::new(Scene { packet: Frames::new(100), ..Scene::default() });
    for _ in 0..100 {
        world.period(perfect);
    }
    world.sender.skip(Frames::new(480), world.now, |_| {});
    for _ in 0..10 {
        world.pause();
    }
    for _ in 0..200 {
        world.period(perfect);
    }
    assert_eq!(world.receiver.counters().resyncs, 0, "{:?}", world.receiver.counters());
    let total = world.received.passages.last().unwrap().total().unwrap();
    assert!((total - Span::from_millis(5)).abs() <= Span::from_micros(42), "{total}");
}

#[test]
fn a_change_of_latency_is_followed() {
    let mut world = World::new(Scene::default());
    for _ in 0..100 {
        world.period(perfect);
    }
    world.receiver.set_link_offset(Span::from_millis(8));
    for _ in 0..100 {
        world.period(perfect);
    }
    let total = world.received.passages.last().unwrap().total().unwrap();
    assert!((total - Span::from_millis(8)).abs() <= Span::from_micros(21), "{total}");
}
