//! Plugins run by a worker on this host match the local plugin bit for bit.

use core::time::Duration;
use std::path::PathBuf;
use tautline_trial::snapshot;

use tautline_io::clock::now;

use super::hosted::{Hosted, find, label, load};
use super::scene::{alone, did_well};
use super::worker::{
    PLUGINS, RATE, Worked, first_difference, here_and_there, proxies, recording, runs,
};
use crate::common::free_udp_ports;
use crate::common::host::shared;
use crate::common::messages;
use crate::common::sound::{FileCoding, Shape, Sound};
use crate::pcm::is_there;

/// Not deterministic even on one host, or worse.
const UNSTEADY: [(&[&str], &str); 5] = [
    (
        &[
            "cmt:analogue",
            "cmt:disintegrator",
            "cmt:lofi",
            "cmt:noise_source_white",
            "cmt:phasemod",
            "cmt:pink_full_frequency",
            "cmt:pink_interpolated_audio",
            "cmt:pink_sh",
            "flanger_1191:flanger",
            "gsm_1215:gsm",
            "hermes_filter_1200:hermesFilter",
            "multivoice_chorus_1201:multivoiceChorus",
            "noise:noise_white",
            "retro_flange_1208:retroFlange",
            "tap_doubler:tap_doubler",
            "tap_pinknoise:tap_pinknoise",
            "vynil_1905:vynil",
        ],
        "random numbers",
    ),
    (
        &[
            "imp_1199:imp",
            "mbeq_1197:mbeq",
            "pitch_scale_1193:pitchScale",
            "pitch_scale_1194:pitchScaleHQ",
        ],
        "transforms that are planned by the clock",
    ),
    (
        &[
            "chebstortion_1430:chebstortion",
            "cmt:bf2cube",
            "cmt:bf2quad",
            "cmt:logistic",
            "ringmod_1188:ringmod_1i1o1l",
        ],
        "memory that they never wrote",
    ),
    (&["revdelay_1605:revdelay"], "it divides by zero when its controls move"),
    (&["tap_reflector:tap_reflector"], "it does not come back from a run when its controls move"),
];

/// Varied block lengths, including 0. The first two are the longest and determine the delay.
fn varied(frames: usize) -> Vec<usize> {
    let (mut blocks, mut noise) = (vec![256, 256], fastrand::Rng::with_seed(7));
    let mut left = frames - 512;
    while left > 0 {
        let any = noise.usize(0..=256);
        let block = [0, 1, 64, 256, any][noise.usize(0..5)].min(left);
        blocks.push(block);
        left -= block;
    }
    blocks
}

fn all_are_the_same(sound: &[f32]) {
    let blocks = varied(sound.len());
    let (mut same, mut unsteady, mut wrong) = (0, 0, Vec::new());
    for proxy in proxies() {
        let id = label(proxy).trim_end_matches("@studio");
        if UNSTEADY.iter().any(|(unsteady, _)| unsteady.contains(&id)) {
            unsteady += 1;
            continue;
        }
        let [plugin, proxy] = here_and_there(proxy);
        let mut both = [Hosted::new(plugin, RATE), Hosted::new(proxy, RATE)];
        both.iter_mut().for_each(Hosted::activate);
        let played = runs(&mut both, &blocks, sound);
        match first_difference(&played, 256) {
            None if both[1].latency().is_some_and(|frames| frames >= 256.0) => same += 1,
            found => wrong.push((label(proxy), found, both[1].latency())),
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(same > 150, "{same}");
    let runs = blocks.len();
    emit(&format!(
        "{same} plugins the same bit for bit in {runs} runs, {unsteady} play nothing twice"
    ));
}

const REVERB: &str = "cmt:freeverb3@studio";
fn reverb() -> [Hosted; 2] {
    here_and_there(find(&proxies(), REVERB)).map(|descriptor| Hosted::new(descriptor, RATE))
}

#[test]
fn applyplugin_writes_the_same_file_through_a_worker() {
    if !is_there("applyplugin", "--help") {
        return;
    }
    let Some(worked) = Worked::start() else { return };
    let folder = &worked.scene.folder;
    let shape = Shape { coding: FileCoding::L16, channels: 1, ..Shape::STEREO_24 };
    // applyplugin scales sound above 1, over its whole file.
    let sound = Sound::noise(shape, 1000, 3).quieter().quieter();
    sound.write(&folder.file("in.wav"));
    let path = format!("{}:{PLUGINS}", folder.file("ladspa").display());
    // One input and one output: applyplugin shares buffers, and other plugins would read their own
    // output.
    for (file, plugin) in [
        ("cmt", "delay_5s"),
        ("cmt", "lpf"),
        ("tap_tubewarmth", "tap_tubewarmth"),
        ("tap_limiter", "tap_limiter"),
        ("valve_1209", "valve"),
        ("gate_1410", "gate"),
    ] {
        let plugins = load(&PathBuf::from(PLUGINS).join(format!("{file}.so")));
        let hints = Hosted::new(find(&plugins, plugin), RATE).controls();
        let values = hints.iter().map(|hint| hint.first_value(RATE).to_string());
        let values = values.collect::<Vec<_>>().join(" ");
        let apply = |out: &str, library: &str, label: &str| {
            let line = format!("-s1 in.wav {out} {library} {label} {values}");
            let call = worked.scene.host("applyplugin", &line).with("LADSPA_PATH", &path);
            let call = call.with("TAUT_OFFLOAD_WAIT_OFFLINE", "always");
            let ran = call.with("TAUT_OFFLOAD_REPORT", worked.report()).run().well();
            assert!(ran.messages.is_empty(), "{ran:#?}");
            Sound::read(&folder.file(out))
        };
        let here = apply("here.wav", &format!("{file}.so"), plugin);
        let there = apply("there.wav", "tautline.so", &format!("{file}:{plugin}@studio"));
        let report = worked.reports().pop().unwrap();
        assert_eq!(report["complete"], true, "{plugin}: {report:#}");
        let delay = report["delay_frames"].as_u64().unwrap() as usize * there.shape.channels;
        let (silence, late) = there.samples.split_at(delay);
        assert!(silence.iter().all(|sample| *sample == 0), "{plugin}");
        let differs = here.samples.iter().zip(late).position(|(here, there)| here != there);
        assert_eq!(differs, None, "{plugin}: {report:#}");
    }
}

fn emit(what: &str) {
    use std::io::Write;
    std::io::stderr().write_all(format!("{what}\n").as_bytes()).unwrap();
}

/// Halfway, waits until the test outside has acted on the worker.
fn halves_are_the_same() {
    let mut both = reverb();
    both.iter_mut().for_each(Hosted::activate);
    let sound = recording(2);
    let mut played = runs(&mut both, &[256; 100], &sound);
    emit("inside: half");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    for (all, more) in played.iter_mut().zip(runs(&mut both, &[256; 100], &sound)) {
        all.iter_mut().zip(more).for_each(|(all, more)| all.extend(more));
    }
    assert_eq!(first_difference(&played, 256), None);
}

mod exclusive {
    use super::*;

    #[test]
    fn plugins_are_bit_exact_on_a_worker() {
        alone(
            || all_are_the_same(&recording(1)),
            |call| {
                let Some(worked) = Worked::start() else { return };
                let call = worked.scene.finding(call).with("TAUT_OFFLOAD_WAIT_OFFLINE", "always");
                for line in did_well(call.run()) {
                    eprintln!("{line}");
                }
            },
        );
    }

    #[test]
    #[ignore = "soak: ten seconds of every plugin, some minutes"]
    fn plugins_are_bit_exact_on_a_worker_for_long() {
        alone(
            || all_are_the_same(&recording(10)),
            |call| {
                let Some(worked) = Worked::start() else { return };
                let call = call.with("TAUT_OFFLOAD_WAIT_OFFLINE", "always").and(["--ignored"]);
                let call = worked.scene.finding(call).lasting(Duration::from_secs(600));
                for line in did_well(call.run()) {
                    eprintln!("{line}");
                }
            },
        );
    }

    #[test]
    fn blocks_of_any_length_in_one_place_come_back_bit_for_bit() {
        let inside = || {
            let mut both = reverb();
            both[1].in_place = true;
            both.iter_mut().for_each(Hosted::activate);
            let mut blocks = vec![64, 1, 511, 138, 17, 512, 512, 3];
            blocks.extend((0..200).map(|run| 1 + (run * 7919) % 512));
            let played = runs(&mut both, &blocks, &recording(2));
            assert_eq!(first_difference(&played, 600), None);
            assert_eq!(both[1].latency(), Some(600.0));
            both.iter_mut().for_each(Hosted::deactivate);
            both.iter_mut().for_each(Hosted::activate);
            assert_eq!(first_difference(&runs(&mut both, &blocks, &recording(2)), 600), None);
        };
        alone(inside, |call| {
            let Some(worked) = Worked::start() else { return };
            let call = worked.scene.finding(call).with("TAUT_OFFLOAD_WAIT_OFFLINE", "always");
            did_well(call.with("TAUT_OFFLOAD_DELAY", "600").run());
        });
    }

    #[test]
    fn a_comparison_on_the_way_finds_every_bit_equal() {
        let inside = || {
            let mut both = reverb();
            both[1].in_place = true;
            both.iter_mut().for_each(Hosted::activate);
            runs(&mut both, &[256; 100], &recording(2));
        };
        alone(inside, |call| {
            let Some(mut worked) = Worked::start() else { return };
            let call = worked.comparing(worked.scene.finding(call));
            did_well(call.with("TAUT_OFFLOAD_WAIT_OFFLINE", "always").run());
            worked.worker = worked
                .worker
                .wait_for("ends, closed by 127.0.0.1: cmt:freeverb3 at 48000 Hz, 100 blocks");
            let [report] = &worked.reports()[..] else { panic!("{:?}", worked.reports()) };
            let compared = &report["compared"];
            assert_eq!(compared["samples"], 2 * (100 - 1) * 256, "{report:#}");
            assert_eq!(compared["bit_identical"], true, "{report:#}");
            // A remainder below ten seconds is a separate span.
            let spans = compared["spans"].as_array().unwrap();
            assert_eq!((spans.len(), &spans[0]["equal"]), (1, &compared["samples"]), "{report:#}");
            snapshot!(report["said"].to_string());
            assert_eq!(report["complete"], true, "{report:#}");
        });
    }

    #[test]
    fn the_sound_is_live_again_after_the_worker_is() {
        let inside = || {
            let mut both = reverb();
            both.iter_mut().for_each(Hosted::activate);
            let sound = recording(1);
            let inputs = [&sound[24_000..24_256], &sound[24_256..24_512]];
            let live = |hosted: &mut Hosted| {
                let controls = vec![0.3; hosted.controls().len()];
                let outputs = hosted.run(&inputs, &controls);
                outputs[0].iter().zip(inputs[0]).any(|(out, dry)| (out - dry).abs() > 1e-6)
            };
            let until = std::time::Instant::now() + crate::common::program::TIMEOUT;
            let await_it = |hosted: &mut Hosted, wanted: bool| {
                // Ten in a row: a single one may be in transit.
                let (mut row, mut since) = (0, now());
                while row < 10 {
                    assert!(std::time::Instant::now() < until, "it never was live: {wanted}");
                    if live(hosted) == wanted {
                        row += 1;
                    } else {
                        (row, since) = (0, now());
                    }
                    std::thread::park_timeout(std::time::Duration::from_millis(5));
                }
                since
            };
            let [_, proxy] = &mut both;
            await_it(proxy, true);
            emit("inside: live");
            await_it(proxy, false);
            emit("inside: dry");
            let since = await_it(proxy, true);
            emit(&format!("inside: live again since {} us", since.as_nanos() / 1000));
        };
        alone(inside, |call| {
            let Some(mut worked) = Worked::start() else { return };
            let call = worked.scene.finding(call).with("TAUT_OFFLOAD_WAIT_OFFLINE", "never");
            let call = call.with("TAUT_OFFLOAD_REPLACEMENT", "dry");
            let running = call.with("TAUT_OFFLOAD_REPORT", worked.report()).start();
            let running = running.wait_for("inside: live");
            worked.worker.signal("-KILL");
            let running = running.wait_for("inside: dry").wait_for(messages::WORKER_SILENT);
            worked.again();
            let answers = now().as_nanos() / 1000;
            let messages = did_well(running.wait_for("inside: live again").end());
            let since = messages.iter().find_map(|line| {
                line.strip_prefix("inside: live again since ")?
                    .strip_suffix(" us")?
                    .parse::<i64>()
                    .ok()
            });
            eprintln!("live again {} us after the worker is", since.unwrap() - answers);
            let report = worked.reports().pop().unwrap();
            assert_eq!(report["streams_opened"]["worker"], 2, "{report:#}");
            assert!(!report["damage"].as_array().unwrap().is_empty(), "{report:#}");
            let reported =
                report["said"].as_array().unwrap().iter().filter_map(|messages| messages.as_str());
            let times = |phrase: &str| {
                reported.clone().filter(|messages| messages.contains(phrase)).count()
            };
            assert_eq!(
                (times(messages::WORKER_SILENT), times(messages::WORKER_BACK)),
                (1, 1),
                "{report:#}"
            );
        });
    }

    #[test]
    fn with_a_spare_the_death_of_a_worker_changes_no_sample() {
        alone(halves_are_the_same, |call| {
            let Some(worked) = Worked::start() else { return };
            let address = format!("127.0.0.1:{}", free_udp_ports());
            let _spare = Worked::worker(&worked.scene, &address);
            let call = worked.scene.finding(call).with("TAUT_OFFLOAD_WAIT_OFFLINE", "always");
            let call = call.with("TAUT_OFFLOAD_SPARE", &address);
            let call = call.with("TAUT_OFFLOAD_REPORT", worked.report());
            let running = call.requested().start().wait_for("inside: half");
            worked.worker.signal("-KILL");
            did_well(running.enter("go on").end());
            let report = worked.reports().pop().unwrap();
            assert_eq!(report["complete"], true, "{report:#}");
            assert_eq!(report["streams_opened"]["spare"], 1, "{report:#}");
        });
    }

    #[test]
    fn offline_render_waits_for_a_stalled_worker() {
        // Rendering is detected from the pace.
        shared(|| {
            alone(halves_are_the_same, |call| {
                let Some(worked) = Worked::start() else { return };
                let call = worked.scene.finding(call).with("TAUT_OFFLOAD_WAIT_OFFLINE", "by-pace");
                let call = call.with("TAUT_OFFLOAD_REPORT", worked.report());
                let running = call.requested().start().wait_for("inside: half");
                worked.signal_children("-STOP");
                let running = running.enter("go on");
                // Longer than any wait except a render's.
                std::thread::sleep(std::time::Duration::from_millis(300));
                worked.signal_children("-CONT");
                did_well(running.end());
                let report = worked.reports().pop().unwrap();
                assert_eq!(
                    (&report["complete"], &report["rendered"]),
                    (&true.into(), &true.into())
                );
            })
        });
    }
}
