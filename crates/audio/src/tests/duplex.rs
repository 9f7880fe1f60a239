//! Duplex cards in virtual time.

use tautline_trial::snapshot;

use std::sync::{Arc, Mutex};

use tautline_proto::device::{Device, Direction, Directions, Ended, Flow, Stop};
use tautline_proto::time::{Frames, LocalTime, Span};

use super::{Scripted, each, settings};
use crate::{DeviceSpec, Extras, open_paced};

fn span(frames: i64) -> Span {
    settings(1, 2).rate.span_of(Frames::new(frames))
}

fn duplex(name: &str, period: i64, pace: Scripted) -> Box<dyn Device> {
    let spec: DeviceSpec = name.parse().unwrap();
    let opened =
        open_paced(&spec, Directions::Both, settings(period, 2), Extras::default(), Box::new(pace));
    opened.unwrap().device
}

type Sides = ([i64; 2], [i64; 2], [f32; 2]);

fn both_ways(mut device: Box<dyn Device>, blocks: usize) -> Vec<Sides> {
    let reported = Arc::new(Mutex::new(vec![]));
    let notify = Arc::clone(&reported);
    let process = each(move |cycle| {
        let mut reported = notify.lock().unwrap();
        let frame = |meets: LocalTime| settings(1, 2).rate.frames_nearest(meets - LocalTime::ZERO);
        let (received, played) = (&cycle.capture, &cycle.playback);
        assert_eq!(received.samples.len(), played.samples.len(), "both sides of one period");
        let ends = [received.samples[0], *received.samples.last().unwrap()];
        reported.push((
            [frame(received.meets).count(), frame(played.meets).count()],
            [received.skipped.count(), played.skipped.count()],
            ends,
        ));
        cycle.playback.samples.fill(reported.len() as f32);
        if reported.len() == blocks { Flow::Finished } else { Flow::Continue }
    });
    let (_, ended) = device.run(process, &Stop::default());
    assert!(matches!(ended, Ended::Finished), "{ended:?}");
    let mut reported = reported.lock().unwrap();
    std::mem::take(&mut reported)
}

#[test]
fn one_wake_up_of_a_card_that_goes_both_ways_has_both_sides() {
    let reported = both_ways(duplex("virtual:", 48, Scripted::default()), 4);
    let silent = [0.0, 0.0];
    for (block, reported) in (0..).zip(reported) {
        assert_eq!(reported, ([48 * block, 48 * (block + 2)], [0, 0], silent));
    }
}

#[test]
fn loopback_returns_frames_after_its_exact_delay() {
    for length in [0, 1, 47, 48, 240] {
        let name = format!("virtual:?loopback={length}");
        let mut device = duplex(&name, 48, Scripted::default());
        let clicks = Arc::new(Mutex::new((vec![], vec![])));
        let notify = Arc::clone(&clicks);
        let mut block = 0;
        let process = each(move |cycle| {
            let rate = settings(1, 2).rate;
            let met =
                |meets: LocalTime, frame: usize| meets + rate.span_of(Frames::from_len(frame));
            let (played, received) = &mut *notify.lock().unwrap();
            for (frame, samples) in cycle.capture.samples.chunks(2).enumerate() {
                if samples != [0.0, 0.0] {
                    received.push((met(cycle.capture.meets, frame), [samples[0], samples[1]]));
                }
            }
            if block % 7 == 3 {
                let frame = block % 48;
                let click = [block as f32, -(block as f32)];
                cycle.playback.samples[2 * frame..2 * frame + 2].copy_from_slice(&click);
                played.push((met(cycle.playback.meets, frame), click));
            }
            block += 1;
            if block == 100 { Flow::Finished } else { Flow::Continue }
        });
        device.run(process, &Stop::default());
        let (played, received) = &*clicks.lock().unwrap();
        assert!(received.len() >= 13, "{length}: {}", received.len());
        for ((left, there), (arrived, here)) in played.iter().zip(received) {
            assert_eq!(there, here);
            let away = settings(1, 2).rate.frames_nearest(*arrived - *left);
            assert_eq!(away, Frames::new(length), "{length}");
            assert!((*arrived - *left - span(length)).abs() <= Span::from_nanos(1), "{length}");
        }
    }
}

#[test]
fn duplex_card_skips_equally_on_both_sides() {
    // Frame 192's wake-up is 150 late: at 342, with 240 written.
    let pace = Scripted::late(&[(3, span(150))]);
    let reported = both_ways(duplex("virtual:?loopback=0", 48, pace), 8);
    let skips: Vec<_> = reported.iter().map(|reported| reported.1).collect();
    let mut expected = [[0, 0]; 8];
    expected[3] = [144, 144];
    assert_eq!(skips, expected);
    let received: Vec<_> = reported.iter().map(|reported| reported.2[0]).collect();
    assert!(reported.iter().all(|reported| reported.2[0] == reported.2[1]));
    assert_eq!(received, [0.0, 0.0, 1.0, 0.0, 0.0, 4.0, 5.0, 6.0]);
}

#[test]
fn one_way_device_is_refused_for_duplex_with_a_hint() {
    for name in ["file:song.wav", "file:-", "tone:440"] {
        let spec: DeviceSpec = name.parse().unwrap();
        let settled = crate::settle(&spec, Directions::Both, settings(48, 2)).unwrap_err();
        snapshot!(name, settled);
        let opened = crate::open(&spec, Directions::Both, settings(48, 2), Extras::default());
        assert_eq!(opened.err(), Some(settled));
    }
    for direction in [Direction::Capture, Direction::Playback] {
        let spec: DeviceSpec = "virtual:?loopback=48".parse().unwrap();
        let opened = crate::open(&spec, direction, settings(48, 2), Extras::default());
        let refused = opened.err().unwrap().to_string();
        snapshot!(refused);
    }
}

#[test]
fn a_device_is_the_same_by_the_same_name_and_options() {
    let spec = |name: &str| name.parse::<DeviceSpec>().unwrap();
    for name in [
        "virtual:",
        "virtual:?ppm=50&loopback=48&unplug=2s&replug=1s",
        "file:a.wav",
        "file:-",
        "tone:440",
        "null:",
        "alsa:hw:0?wakeup=timer",
        "jack:taut?connect=none",
        "pipewire:Kitchen?force=yes",
    ] {
        assert!(spec(name).is_same(&spec(name)), "{name}");
        assert!(spec(name).at_ports().is_same(&spec(name).at_ports()), "{name}");
    }
    for (one, other) in [
        ("virtual:", "virtual:?ppm=50"),
        ("virtual:?unplug=2s", "virtual:?unplug=3s"),
        ("file:a.wav", "file:b.wav"),
        ("tone:440", "tone:441"),
        ("null:", "virtual:"),
        ("alsa:hw:0", "alsa:hw:1"),
        ("alsa:hw:0", "alsa:hw:0?wakeup=timer"),
        ("jack:taut", "jack:taut?server=studio"),
        ("pipewire:Kitchen", "pipewire:Stage"),
    ] {
        assert!(!spec(one).is_same(&spec(other)), "{one} {other}");
    }
}

#[test]
fn cables_differ_by_name_delay_and_clock() {
    let reported = |name: &str| format!("{:#}", name.parse::<DeviceSpec>().unwrap());
    for name in [
        "virtual:?cable=studio",
        "virtual:?cable=studio&delay=3.37ms",
        "virtual:?cable=studio&delay=33ms&ppm=-50",
        "tone:440",
        "null:",
    ] {
        assert_eq!(reported(name), name);
    }
    assert_eq!(reported("virtual:?cable=b&periods=4"), "virtual:?cable=b");
    assert_eq!(reported("virtual:?tone=440"), "virtual:");
    assert_eq!("virtual:?cable=a".parse::<DeviceSpec>().unwrap().to_string(), "virtual:");
}
