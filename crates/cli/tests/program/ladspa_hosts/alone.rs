//! Plugins without their worker.

use serde_json::Value;
use tautline_io::thread::{Scheduler, spawn};

use super::hosted::{Hosted, find, load};
use super::scene::{Scene, alone, did_well, plugin, port};
use crate::common::program::Call;
use crate::common::{Lack, skipped};

fn absent(scene: &Scene) {
    let ports = [
        port("Gain", 5, 0x3 | 0xC0, (0.0, 2.0)),
        port("In L", 9, 0, (0.0, 0.0)),
        port("In R", 9, 0, (0.0, 0.0)),
        port("Out L", 10, 0, (0.0, 0.0)),
        port("Out R", 10, 0, (0.0, 0.0)),
        port("Level", 6, 0, (0.0, 0.0)),
    ];
    scene.saves("127.0.0.1:1", "studio", vec![plugin("a.so", "verb", &ports)]);
}

fn verb() -> Hosted {
    let folder = std::env::var_os("LADSPA_PATH").unwrap();
    let plugins = load(&std::path::Path::new(&folder).join("tautline.so"));
    Hosted::new(find(&plugins, "a.so:verb@studio"), 48_000)
}

/// Returns the heard and the expected output, without the delay.
fn runs(hosted: &mut Hosted, blocks: &[usize]) -> (Vec<Vec<f32>>, Vec<Vec<f32>>) {
    let (mut received, mut sent) = (vec![Vec::new(); 2], vec![Vec::new(); 2]);
    let mut noise = fastrand::Rng::with_seed(4);
    for frames in blocks {
        let inputs: Vec<Vec<f32>> =
            (0..2).map(|_| (0..*frames).map(|_| noise.f32() - 0.5).collect()).collect();
        let slices: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
        let outputs = hosted.run_for(*frames, &slices, &[1.0]);
        for channel in 0..2 {
            received[channel].extend_from_slice(&outputs[channel]);
            sent[channel].extend_from_slice(&inputs[channel]);
        }
    }
    (received, sent)
}

const FADE: usize = 48;

#[track_caller]
fn is_late_by(delay: usize, (received, sent): &(Vec<Vec<f32>>, Vec<Vec<f32>>)) {
    for (received, sent) in received.iter().zip(sent) {
        assert!(received[..delay].iter().all(|sample| *sample == 0.0), "it begins with silence");
        let pairs = received[delay..].iter().zip(sent).skip(FADE);
        let differs = pairs.clone().position(|(received, sent)| received != sent);
        assert_eq!(differs, None, "of {} frames", pairs.len());
    }
}

fn offline(call: Call) {
    let scene = Scene::new();
    absent(&scene);
    let call = scene.finding(call).with("TAUT_OFFLOAD_WAIT_OFFLINE", "never");
    did_well(call.with("TAUT_OFFLOAD_REPLACEMENT", "dry").run());
}

/// Four seconds of sound as fast as possible, as in a render.
fn hurries(scheduler: Scheduler) {
    let run = || {
        let mut verb = verb();
        verb.activate();
        runs(&mut verb, &[256; 750]);
    };
    let (thread, granted) = spawn("host", scheduler, 1 << 20, run).unwrap();
    thread.join().unwrap();
    if granted.requested != Scheduler::Other && !granted.is_granted() {
        skipped(Lack::Privilege, &granted.to_string());
    }
}

fn hurried(call: Call) -> Value {
    let scene = Scene::new();
    absent(&scene);
    let report = scene.folder.file("report.json");
    did_well(scene.finding(call).with("TAUT_OFFLOAD_REPORT", &report).run());
    let text = std::fs::read_to_string(report).unwrap();
    serde_json::from_str(text.lines().next().unwrap()).unwrap()
}

mod exclusive {
    use super::*;

    #[test]
    fn plugin_without_a_worker_passes_its_input_and_is_late() {
        let inside = || {
            let mut verb = verb();
            verb.activate();
            is_late_by(256, &runs(&mut verb, &[256; 40]));
            assert_eq!(verb.latency(), Some(256.0), "a block");
            verb.deactivate();
            verb.activate();
            is_late_by(256, &runs(&mut verb, &[256; 40]));
        };
        alone(inside, |call| {
            let scene = Scene::new();
            absent(&scene);
            let call = scene.finding(call).with("TAUT_OFFLOAD_WAIT_OFFLINE", "never");
            let messages = did_well(call.with("TAUT_OFFLOAD_REPLACEMENT", "dry").run());
            let why = messages.iter().filter(|line| line.contains("taut work")).count();
            assert_eq!(why, 1, "it is said once: {messages:#?}");
        });
    }

    #[test]
    fn real_time_host_waits_for_no_other_thread() {
        alone(
            || hurries(Scheduler::Fifo(10)),
            |call| {
                let report = hurried(call);
                assert_eq!((&report["rendered"], &report["waits"]), (&true.into(), &0.into()));
            },
        );
    }

    #[test]
    fn render_waits_for_a_missing_worker_while_it_is_ahead() {
        alone(
            || hurries(Scheduler::Other),
            |call| {
                let report = hurried(call);
                let waited = report["waited_us"].as_f64().unwrap();
                // It is 250 ms ahead when it is detected, of which 50 ms are left.
                assert!((0.19e6..1e6).contains(&waited), "{waited}");
                assert_eq!(report["rendered"], true);
            },
        );
    }

    #[test]
    fn ports_in_one_place_and_ports_in_none_are_no_harm() {
        let inside = || {
            let mut verb = verb();
            verb.in_place = true;
            verb.activate();
            is_late_by(128, &runs(&mut verb, &[128; 20]));
            drop(verb);
            let mut deaf = self::verb();
            deaf.unconnected = (0..7).collect();
            deaf.activate();
            runs(&mut deaf, &[128; 20]);
            let mut half = self::verb();
            half.unconnected = vec![0, 2, 3];
            let (received, sent) = runs(&mut half, &[128; 20]);
            assert_eq!(
                received[1][128..],
                vec![0.0; sent[0].len() - 128],
                "the right input is nowhere"
            );
        };
        alone(inside, offline);
    }

    #[test]
    fn instances_may_end_in_any_state_and_hundreds_may_exist() {
        let inside = || {
            drop(verb());
            let mut active = verb();
            active.activate();
            drop(active);
            let mut never_activated = verb();
            is_late_by(64, &runs(&mut never_activated, &[64; 10]));
            never_activated.deactivate();
            never_activated.deactivate();
            is_late_by(64, &runs(&mut never_activated, &[64; 10]));
            let mut all: Vec<Hosted> = (0..100).map(|_| verb()).collect();
            for hosted in &mut all {
                hosted.activate();
            }
            for hosted in &mut all {
                is_late_by(64, &runs(hosted, &[64; 10]));
            }
        };
        alone(inside, offline);
    }

    #[test]
    fn run_adding_applies_the_gain() {
        let inside = || {
            let mut verb = verb();
            verb.gain = Some(0.5);
            verb.activate();
            let (received, mut sent) = runs(&mut verb, &[256; 10]);
            assert_eq!(received[0][..256], [1.0; 256], "to what is there silence is added");
            sent.iter_mut().flatten().for_each(|sample| *sample = 1.0 + 0.5 * *sample);
            let late = received[0][256 + FADE..].iter().zip(&sent[0][FADE..]);
            assert_eq!(late.clone().position(|(received, sent)| received != sent), None);
        };
        alone(inside, offline);
    }

    #[test]
    fn in_a_fork_an_instance_plays_its_input_on() {
        let inside = || {
            let mut verb = verb();
            verb.activate();
            is_late_by(64, &runs(&mut verb, &[64; 20]));
            // SAFETY: the fork does what a host's does, and ends without what this process does at its end.
            let fork = unsafe { libc::fork() };
            if fork == 0 {
                let (received, sent) = runs(&mut verb, &[64; 20]);
                // Dropping it in the child does not end resources of its parent.
                drop(verb);
                // SAFETY: it ends this process.
                unsafe { libc::_exit((received != sent).into()) };
            }
            let mut status = 0;
            // SAFETY: a process that was made here, and a place for its status.
            let waited = unsafe { libc::waitpid(fork, &raw mut status, 0) };
            assert_eq!((waited, status), (fork, 0));
            let (received, sent) = runs(&mut verb, &[64; 20]);
            assert_eq!(received[0][64..], sent[0][..sent[0].len() - 64], "here it is as it was");
        };
        alone(inside, offline);
    }
}
