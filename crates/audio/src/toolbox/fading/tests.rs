use core::f64::consts::{PI, TAU};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use tautline_io::thread::realtime;
use tautline_proto::clock::ClockId;
use tautline_proto::device::{Direction, Ended, Flow, Process};
use tautline_proto::time::Frames;
use tautline_proto::units::{Channels, Rate};

use super::*;
use crate::shared;

const PERIOD: usize = 48;
const RATE: Rate = Rate::HZ_48000;

struct Still;

impl Device for Still {
    fn settings(&self) -> Settings {
        let period = Frames::from_len(PERIOD);
        Settings { rate: RATE, channels: Channels::MONO, period, periods: 4 }
    }

    fn run(&mut self, process: Box<dyn Process>, _: &Stop) -> (Box<dyn Process>, Ended) {
        (process, Ended::Finished)
    }
}

struct Tone {
    at: usize,
    received: Sender<Vec<f32>>,
}

fn tone(at: usize) -> f32 {
    (at as f64 * TAU * 1_000.0 / 48_000.0).cos() as f32
}

impl Process for Tone {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let _permit = realtime::permit("a test keeps what it hears");
        for sample in &mut *cycle.playback.samples {
            *sample = tone(self.at);
            self.at += 1;
        }
        if !cycle.capture.samples.is_empty() {
            let _ = self.received.send(cycle.capture.samples.to_vec());
        }
        Flow::Continue
    }
}

fn turn(process: &mut dyn Process, direction: Direction, turns: i64, samples: &mut [f32]) -> Flow {
    let now = LocalTime::ZERO + RATE.span_of(Frames::from_len(PERIOD * turns as usize));
    let meets = match direction {
        Direction::Capture => now,
        Direction::Playback => now + Span::from_millis(3),
    };
    let side = Side { samples, meets, uncertainty: Span::from_micros(1), skipped: Frames::ZERO };
    process.process(&mut Cycle::one_way(direction, now, side, 0).by(Some(ClockId::of(&[b"one"]))))
}

fn treble(samples: &[f32]) -> f64 {
    let window = |at: usize| 0.5 - 0.5 * (TAU * at as f64 / 512.0).cos();
    let full: f64 = (0..512).map(|at| window(at).powi(2) / 2.0).sum();
    let in_window = |frames: &[f32]| -> f64 {
        let bin = |bin: usize| {
            let part = |phase: f64| -> f64 {
                let turns = |at: usize| (at * bin) as f64 / 512.0 * TAU + phase;
                (0..).zip(frames).map(|(at, s)| f64::from(*s) * window(at) * turns(at).cos()).sum()
            };
            part(0.0).powi(2) + part(PI / 2.0).powi(2)
        };
        (128..256).map(bin).sum::<f64>() * 2.0 / 512.0 / full
    };
    let loudest = samples.windows(512).step_by(128).map(in_window).fold(0.0, f64::max);
    10.0 * loudest.log10()
}

fn hung_up(hang_up: impl FnOnce(&Stop, &Stop)) -> Vec<f32> {
    let (mut processes, parts) = shared(&Still, &Still, 2, true);
    let (fades, stop) = <(Stop, Stop)>::default();
    let run = |device: Box<dyn Device>, received: Sender<Vec<f32>>, stop: &Stop| {
        let mut device = fading(device, fades.clone());
        let stop = stop.clone();
        std::thread::spawn(move || drop(device.run(Box::new(Tone { at: 0, received }), &stop)))
    };
    let (received, handles): (_, Receiver<Vec<f32>>) = channel();
    let [leaves, stays] = [parts.take().unwrap(), parts.take().unwrap()];
    let (goes_on, leaver) = (Stop::default(), run(leaves.playback, channel().0, &stop));
    let mut stays = stays.capture;
    let (requested, tone) = (goes_on.clone(), Tone { at: 0, received });
    let stayer = std::thread::spawn(move || drop(stays.run(Box::new(tone), &requested)));
    let (mut all, mut turns, mut since) = (Vec::new(), 0, None);
    let mut hang_up = Some(hang_up);
    let until = Instant::now() + Duration::from_secs(60);
    while since.is_none_or(|since| turns < since + 50) {
        assert!(Instant::now() < until, "the party that leaves is not heard, or does not end");
        let mut block = [0.0; PERIOD];
        turn(processes.playback.as_mut(), Direction::Playback, turns, &mut block);
        block.fill(0.0);
        turn(processes.capture.as_mut(), Direction::Capture, turns, &mut block);
        all.extend(handles.try_iter().flatten());
        if all.iter().filter(|sample| **sample != 0.0).count() > 50 * PERIOD
            && let Some(hang_up) = hang_up.take()
        {
            hang_up(&fades, &stop);
        }
        if leaver.is_finished() {
            since.get_or_insert(turns);
        }
        turns += 1;
        std::thread::yield_now();
    }
    goes_on.request();
    stayer.join().unwrap();
    leaver.join().unwrap();
    all
}

#[test]
fn party_that_hangs_up_is_faded_out_for_the_other() {
    let end = |received: &[f32]| {
        let begins = received.iter().position(|sample| *sample != 0.0).unwrap();
        treble(&received[begins + 10 * PERIOD..])
    };
    let cut = end(&hung_up(|_, stop| stop.request()));
    let faded = hung_up(|fades, _| fades.request());
    println!("{cut:.1} dB cut, {:.1} dB faded", end(&faded));
    assert!(cut > -40.0, "{cut} dB without a fade");
    assert!(end(&faded) < -60.0, "{} dB", end(&faded));
    assert_eq!(faded[faded.len() - 20 * PERIOD..], [0.0; 20 * PERIOD]);
}

#[test]
fn fade_is_played_before_the_device_ends() {
    let ends = Stop::default();
    let tone = Box::new(Tone { at: 0, received: channel().0 });
    let (mut process, _) = fading(Box::new(Still), ends.clone()).run(tone, &Stop::default());
    let mut block = [0.0; PERIOD];
    let mut played = |turns| {
        let flow = turn(process.as_mut(), Direction::Playback, turns, &mut block);
        (flow, block.iter().fold(0.0_f32, |peak, sample| peak.max(sample.abs())))
    };
    assert!((0..20).all(|turns| played(turns).0 == Flow::Continue));
    ends.request();
    let flows: Vec<_> = (20..28).map(&mut played).collect();
    assert!(flows.iter().all(|(flow, _)| *flow == Flow::Continue), "{flows:?}");
    assert!(flows[5..].iter().all(|(_, peak)| *peak == 0.0), "{flows:?}");
    assert_eq!(played(28).0, Flow::Finished);
}
