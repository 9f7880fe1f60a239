//! `taut lab align`.

use serde_json::Value;
use tautline_trial::snapshot;

use crate::common::program::{taut, words};
use crate::common::sound::{Shape, Sound};
use crate::common::{Folder, shared};

fn two_taps() -> Sound {
    let noise = Sound::noise(Shape::STEREO_24, 2000, 3);
    let mono = |frame: usize| noise.samples[2 * frame] / 2;
    let both = |frame: usize| [mono(frame), frame.checked_sub(480).map_or(0, |at| -mono(at))];
    Sound { samples: (0..noise.frames()).flat_map(both).collect(), ..noise }
}

fn delays(text: &str) -> &str {
    text.lines().find(|line| line.starts_with("channel 1 to ")).unwrap_or_default()
}

#[test]
fn distance_of_two_channels_is_printed_and_written() {
    let folder = Folder::new();
    two_taps().write(&folder.file("taps.wav"));
    let line = "lab align taps.wav --report-file report.json --report-file report.html";
    let ended = taut(words(line)).in_folder(folder.path()).run().well();
    assert!(delays(&ended.out).contains("10.000000ms ± "), "{ended:#?}");
    assert!(ended.out.contains("inverted"), "{ended:#?}");
    let read = |name: &str| std::fs::read_to_string(folder.file(name)).unwrap();
    assert!(read("report.html").contains("inverted"));
    let line = "lab align taps.wav --report json";
    let printed = taut(words(line)).in_folder(folder.path()).run().well().out;
    let report: Value = serde_json::from_str(&printed).unwrap();
    let written: Value = serde_json::from_str(&read("report.json")).unwrap();
    assert_eq!(written["rows"], report["rows"]);
    assert_eq!(report["experiment"], "align", "{report}");
    let row = &report["rows"][0];
    assert_eq!(row["delay_p50_ns"], 10_000_000, "{report}");
    // The last window of the second channel lies beyond the recording.
    assert_eq!([&row["windows"], &row["windows_found"]], [4, 3], "{report}");
    assert_eq!(report["rows"][1]["name"], "recording too short", "{report}");
    assert!(row["uncertainty_frames"].as_f64().unwrap() < 0.001, "{report}");
    for (meanwhile, key) in ["delay_frames", "uncertainty_frames", "confidence_db", "gain"]
        .iter()
        .enumerate()
        .map(|(at, key)| (&row["meanwhile"][at], key))
    {
        assert_eq!(meanwhile["key"], *key, "{report}");
        assert_eq!(meanwhile["values"].as_array().unwrap().len(), 3, "{report}");
    }
}

#[test]
fn missing_frames_and_failed_windows_get_their_own_rows() {
    let folder = Folder::new();
    let mut taps = two_taps();
    // From 1.25 s on, the second channel lacks 5 frames; the first lacks its first half second.
    let second: Vec<_> = taps.samples.iter().copied().skip(1).step_by(2).collect();
    for (frame, both) in taps.samples.chunks_exact_mut(2).enumerate() {
        if frame < 24_000 {
            both[0] = 0;
        }
        if frame >= 60_000 {
            both[1] = second.get(frame + 5).copied().unwrap_or(0);
        }
    }
    taps.write(&folder.file("taps.wav"));
    let line = "lab align taps.wav --window 200ms --report json";
    let report = taut(words(line)).in_folder(folder.path()).run().well().out;
    let report: Value = serde_json::from_str(&report).unwrap();
    let row =
        |name: &str| report["rows"].as_array().unwrap().iter().find(|row| row["name"] == name);
    let silent = row("first silent").unwrap_or_else(|| panic!("{report:#}"));
    snapshot!(silent["invalid"].as_str().unwrap());
    assert_eq!(silent["invalid_windows"], 2, "{report:#}");
    let step = row("step 1").unwrap_or_else(|| panic!("{report:#}"));
    assert!((step["by_frames"].as_f64().unwrap() + 5.0).abs() < 0.01, "{report:#}");
    assert_eq!(step["reason"], "frames dropped", "{report:#}");
    assert!((step["at_frame"].as_i64().unwrap() - 59_520).abs() <= 5, "{report:#}");
}

#[test]
fn two_channels_of_a_card_are_recorded_and_aligned() {
    shared(|| {
        let folder = Folder::new();
        two_taps().write(&folder.file("taps.wav"));
        let card = ["lab", "align", "--device", "virtual:?source=taps.wav"];
        let call = |line: &str| taut(card).and(words(line)).in_folder(folder.path());
        for (channels, delay) in [("1,2", 10_000_000), ("2,1", -10_000_000)] {
            let ended =
                call(&format!("--channels {channels} --duration 1s --report json")).run().well();
            let report = ended.json();
            let row = &report["rows"][0];
            // Frames dropped by a busy machine are silent in both channels, which may cost a
            // hundredth of a frame.
            let off = row["delay_p50_ns"].as_i64().unwrap() - delay;
            assert!(off.abs() < 200, "{report:#}");
            assert_eq!(row["windows"], 2, "{report:#}");
        }
    });
}

#[test]
fn interrupted_card_recording_is_still_evaluated() {
    shared(|| {
        let folder = Folder::new();
        two_taps().write(&folder.file("taps.wav"));
        let line = "lab align --device virtual:?source=taps.wav --window 100ms --duration 300s \
                --period 480 --report json --report-file report.json";
        let run = taut(words(line)).in_folder(folder.path()).start().wait_for("taut: 1s of ");
        run.signal("-INT");
        let report = run.end().well().json();
        let windows = report["rows"][0]["windows"].as_u64().unwrap();
        assert!((1..3000).contains(&windows), "{report:#}");
    });
}

#[test]
fn taps_of_two_files_are_held_against_each_other() {
    let folder = Folder::new();
    let taps = two_taps();
    for (name, channel) in [("before.wav", 0), ("after.wav", 1)] {
        let samples = taps.samples.iter().copied().skip(channel).step_by(2).collect();
        let shape = Shape { channels: 1, ..taps.shape };
        Sound { shape, samples }.write(&folder.file(name));
    }
    let line = "lab align before.wav --second after.wav";
    let ended = taut(words(line)).in_folder(folder.path()).run().well();
    assert!(delays(&ended.out).contains("10.000000ms ± "), "{ended:#?}");
}

#[test]
fn taps_without_a_delay_have_a_reason() {
    let folder = Folder::new();
    let mut taps = two_taps();
    taps.write(&folder.file("taps.wav"));
    taps.samples.iter_mut().skip(1).step_by(2).for_each(|sample| *sample = 0);
    taps.write(&folder.file("dead.wav"));
    for (line, status) in [
        ("taps.wav --channels 1,3", 2),
        ("taps.wav --device virtual:", 2),
        ("", 2),
        ("taps.wav --channels 1", 2),
        ("dead.wav", 1),
        ("taps.wav --max-delay 5ms", 1),
        ("taps.wav --max-delay 10s", 2),
    ] {
        let ended = taut(words(&format!("lab align {line}"))).in_folder(folder.path()).run();
        assert_eq!(ended.status, Some(status), "{line}: {ended:#?}");
        snapshot!(line, ended.messages.join("\n"));
    }
}

#[test]
fn sine_without_onset_is_void_with_its_period() {
    let folder = Folder::new();
    let sample = |at: i64| {
        let turn = std::f64::consts::TAU * at.rem_euclid(160) as f64 / 160.0;
        (4e6 * turn.sin()).round() as i32
    };
    let samples = (0..96_000).flat_map(|at| [sample(at), sample(at - 12)]).collect();
    Sound { shape: Shape::STEREO_24, samples }.write(&folder.file("taps.wav"));
    let line = "lab align taps.wav --report json";
    let ended = taut(words(line)).in_folder(folder.path()).run();
    assert_eq!(ended.status, Some(1), "{ended:#?}");
    let report = ended.json();
    let row = &report["rows"][0];
    for (key, nanos) in [("ambiguous_modulo_ns", 3_333_333), ("nearest_to_0_ns", 250_000)] {
        assert!((row[key].as_i64().unwrap() - nanos).abs() < 100, "{key}: {report:#}");
    }
    snapshot!(ended.messages.join("\n"));
}

#[test]
fn changed_window_is_noted() {
    let folder = Folder::new();
    two_taps().write(&folder.file("taps.wav"));
    let run = |line: &str| taut(words(line)).in_folder(folder.path()).run();
    for window in ["20s", "1ms", "2s"] {
        let reported = run(&format!("lab align taps.wav --window {window} --max-delay 20ms")).out;
        let notes: Vec<_> = reported.lines().filter(|line| line.starts_with("note: ")).collect();
        snapshot!(window, notes.join("\n"));
    }
}
