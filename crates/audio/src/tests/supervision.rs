//! Devices that fail and return.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tautline_proto::device::{
    Cycle, Device, DeviceError, Direction, Ended, Flow, Process, Settings, Side, Stop,
};
use tautline_proto::time::{LocalTime, Span};

use super::{Ear, Scripted, each, settings};
use crate::software::virtual_card::{Disappearance, Dock, Ends, Parts, VirtualCard, gone};
use crate::toolbox::Notes;
use crate::toolbox::supervise::{Fallback, Opener, Supervised};
use tautline_proto::units::Ppm;

fn kept_long() -> Settings {
    settings(48, 85)
}

struct Brief {
    calls: u32,
    meets: LocalTime,
}

impl Device for Brief {
    fn settings(&self) -> Settings {
        kept_long()
    }

    fn run(&mut self, mut process: Box<dyn Process>, _: &Stop) -> (Box<dyn Process>, Ended) {
        for call in 0..self.calls {
            let mut samples = [1.0; 96];
            let meets = self.meets
                + kept_long().rate.span_of(tautline_proto::time::Frames::new(48 * i64::from(call)));
            let capture = Side { samples: &mut samples, meets, ..Side::absent() };
            let playback = Side::absent();
            let mut cycle = Cycle { now: meets, capture, playback, xruns: 0, clock: None };
            if process.process(&mut cycle) == Flow::Finished {
                return (process, Ended::Finished);
            }
        }
        (process, Ended::Gone(gone("brief")))
    }
}

fn supervised(device: Brief, open: Opener, notes: &Notes) -> (Supervised, crate::Supervision) {
    let timer = Box::new(VirtualCard::timer(Direction::Capture, device.settings()));
    let remedy = Fallback { timer, open, retry: Duration::from_millis(1) };
    Supervised::new(Box::new(device), Direction::Capture, remedy, notes).unwrap()
}

fn opener(devices: Receiver<Brief>, tries: Arc<AtomicU32>) -> Opener {
    Box::new(move || {
        tries.fetch_add(1, Ordering::Relaxed);
        match devices.try_recv() {
            Ok(device) => Ok(Box::new(device) as Box<dyn Device>),
            Err(_) => Err(gone("brief")),
        }
    })
}

#[test]
fn a_timer_goes_on_until_the_device_is_back() {
    let notes = Notes::default();
    let (send, devices) = channel();
    let tries = Arc::new(AtomicU32::new(0));
    let first = Brief { calls: 3, meets: tautline_io::clock::now() };
    let (mut device, supervision) = supervised(first, opener(devices, Arc::clone(&tries)), &notes);
    let (watch, replaced) = (supervision.clone(), device.replaced());
    let seen = Arc::new(Mutex::new(vec![]));
    let see = Arc::clone(&seen);
    let mut given = false;
    let process = each(move |cycle| {
        let real = cycle.capture.samples[0] == 1.0;
        see.lock().unwrap().push((real, cycle.xruns));
        assert_eq!(watch.is_away(), !real);
        if !real && !given && tries.load(Ordering::Relaxed) >= 2 {
            given = true;
            send.send(Brief { calls: 2, meets: cycle.now + Span::from_secs(1) }).unwrap();
        }
        if real && given { Flow::Finished } else { Flow::Continue }
    });
    let (_, ended) = device.run(process, &Stop::default());
    assert!(matches!(ended, Ended::Finished));
    assert_eq!((supervision.losses(), supervision.is_away()), (1, false));
    let seen = seen.lock().unwrap();
    assert_eq!(seen[..3], [(true, 0); 3]);
    assert_eq!((seen[3].0, seen[3].1 >= 1), (false, true), "a change of clocks is an xrun");
    assert_eq!(seen[seen.len() - 1], (true, 1));
    let silent = seen.iter().filter(|(real, _)| !real).count();
    assert_eq!(replaced.get(), Span::from_millis(silent as i64), "blocks of 1 ms");
    drop(device);
    let notes = notes.take();
    assert_eq!(notes.len(), 3, "gone, not yet there (once), back: {notes:?}");
}

#[test]
fn gap_between_two_clocks_is_reported_in_frames() {
    let (send, devices) = channel();
    let start = tautline_io::clock::now() - Span::from_secs(100);
    let (mut device, _) = supervised(
        Brief { calls: 2, meets: start },
        opener(devices, Arc::default()),
        &Notes::default(),
    );
    drop(send);
    let expected = AtomicI64::new(start.as_nanos());
    let mut calls = 0;
    let process = each(move |cycle| {
        let rate = settings(48, 2).rate;
        let due = LocalTime::from_nanos(expected.load(Ordering::Relaxed));
        let late = cycle.capture.meets - (due + rate.span_of(cycle.capture.skipped));
        assert!(late.abs() <= Span::from_micros(21), "nearest frame: {late}");
        let end = cycle.capture.meets + Span::from_millis(1);
        expected.store(end.as_nanos(), Ordering::Relaxed);
        calls += 1;
        assert_eq!(cycle.capture.skipped.count() > 4_000_000, calls == 3);
        if calls == 5 { Flow::Finished } else { Flow::Continue }
    });
    let (_, ended) = device.run(process, &Stop::default());
    assert!(matches!(ended, Ended::Finished));
}

#[test]
fn a_stop_ends_the_timer_too() {
    let (_send, devices) = channel();
    let first = Brief { calls: 0, meets: LocalTime::ZERO };
    let (mut device, _) = supervised(first, opener(devices, Arc::default()), &Notes::default());
    let stop = Stop::default();
    let request = stop.clone();
    let process = each(move |cycle| {
        assert_eq!(cycle.capture.skipped.count(), 0, "nothing was there before");
        request.request();
        Flow::Continue
    });
    let (_, ended) = device.run(process, &stop);
    assert!(matches!(ended, Ended::Stopped));
}

#[test]
fn device_that_returns_with_another_format_is_rejected() {
    struct Other;
    impl Device for Other {
        fn settings(&self) -> Settings {
            settings(96, 2)
        }
        fn run(&mut self, _: Box<dyn Process>, _: &Stop) -> (Box<dyn Process>, Ended) {
            unreachable!("it was not taken")
        }
    }
    let notes = Notes::default();
    let tries = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&tries);
    let open: Opener = Box::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
        Ok::<Box<dyn Device>, DeviceError>(Box::new(Other))
    });
    let first = Brief { calls: 0, meets: LocalTime::ZERO };
    let (mut device, supervision) = supervised(first, open, &notes);
    let process =
        each(
            move |_| {
                if tries.load(Ordering::Relaxed) >= 3 { Flow::Finished } else { Flow::Continue }
            },
        );
    device.run(process, &Stop::default());
    assert!(supervision.is_away());
    drop(device);
    assert!(notes.take().iter().any(|note| note.contains("periods of 2 × 96")));
}

#[test]
fn listener_of_a_card_follows_its_return() {
    let ear = Ear::default();
    let dock = Dock::default();
    let fault = Arc::new(Disappearance::new(Span::ZERO, Span::ZERO));
    let parts = Parts {
        name: "virtual:".to_owned(),
        directions: Direction::Playback.into(),
        settings: settings(48, 2),
        error: Ppm::ZERO,
        fault: Some(fault),
        timeout: tautline_proto::time::Frames::ZERO,
    };
    let card = |ends| {
        VirtualCard::new(parts.clone(), ends, Box::new(Scripted::default()))
            .docked(Arc::clone(&dock))
    };
    let mut first = card(Ends { listener: Some(Box::new(ear.clone())), ..Ends::silent() });
    let not_received = each(|_| unreachable!("it starts immediately"));
    assert!(matches!(first.run(not_received, &Stop::default()).1, Ended::Gone(_)));
    drop(first);
    let ends = dock.lock().unwrap().take().unwrap();
    card(ends).run(
        each(|cycle| {
            cycle.playback.samples.fill(0.25);
            Flow::Finished
        }),
        &Stop::default(),
    );
    assert_eq!(ear.samples().last(), Some(&0.25));
}
