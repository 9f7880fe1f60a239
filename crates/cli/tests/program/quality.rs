//! `taut lab quality`.

use serde_json::Value;

use crate::common::program::{taut, words};
use crate::common::sound::{Shape, Sound};
use crate::common::{Folder, shared};

const PATIENT: &str = "--latency 400ms --period 240 --periods 32 --report json";

#[track_caller]
fn judged(line: &str, folder: &Folder) -> Value {
    let line = format!("lab quality {line} {PATIENT}");
    taut(words(&line)).in_folder(folder.path()).run().json()
}

#[test]
fn noise_of_24_and_16_bits_is_bit_exact_with_its_noise_level() {
    shared(|| {
        let report = judged("--only l24 --only l16", &Folder::new());
        // Rounding is 98 dB below a full-scale sine at 16 bits, and 146 dB at 24; this sine is 12
        // dB lower.
        for (row, name, noise) in [(0, "l24", -140.0..-130.0), (1, "l16", -92.0..-80.0)] {
            let row = &report["rows"][row];
            assert_eq!([&row["name"], &row["verdict"]], [name, "identical"], "{report:#}");
            assert_eq!(row["identical_frames"], row["sent_frames"], "{report:#}");
            assert_eq!(row["thd_n_db"], row["thd_n_sent_db"], "{report:#}");
            assert!(noise.contains(&row["thd_n_db"].as_f64().unwrap()), "{report:#}");
            assert_eq!(row["dropouts"], 0, "{report:#}");
        }
    });
}

#[test]
fn card_of_another_rate_reports_its_resampling_in_ppm() {
    shared(|| {
        let report = judged("--only resampled", &Folder::new());
        let row = &report["rows"][0];
        let ppm = row["resampled_ppm"].as_f64().unwrap_or_else(|| panic!("{report:#}"));
        // The card's frames are shorter, so as many contain less sound.
        assert!((ppm + 100.0).abs() < 10.0, "{report:#}");
    });
}

#[test]
fn file_is_sent_with_given_options_and_a_bad_one_is_invalid() {
    shared(|| {
        let folder = Folder::new();
        Sound::noise(Shape::STEREO_24, 1000, 5).write(&folder.file("sent.wav"));
        let call = |send: &str| {
            let words = words(&format!("lab quality --input sent.wav {PATIENT}"));
            taut(words).and(["--send", send]).in_folder(folder.path()).run()
        };
        let ended = call("--format l24").well();
        let report = ended.json();
        assert_eq!(report["rows"][0]["verdict"], "identical", "{report:#}");
        // Except for silent ends: noise may begin or end with a zero.
        let [sent, identical] = ["sent_frames", "identical_frames"]
            .map(|key| report["rows"][0][key].as_u64().unwrap_or_default());
        assert!(sent > 47_900 && identical == sent, "{report:#}");
        let ended = call("--format l99");
        assert_eq!(ended.status, Some(1), "{ended:#?}");
        let report = ended.json();
        assert!(report["rows"][0]["invalid"].as_str().unwrap().contains("l99"), "{report:#}");
    });
}

#[test]
fn noise_is_reported_next_to_sound_that_it_does_not_change() {
    shared(|| {
        let folder = Folder::new();
        Sound::noise(Shape::STEREO_24, 1000, 6).write(&folder.file("sent.wav"));
        let line = format!("lab quality --input sent.wav --noise noisy --tcp-rate 8Mbit {PATIENT}");
        let call = taut(words(&line)).and(["--send", "--format l24"]).in_folder(folder.path());
        let report = call.run().well().json();
        let rows = report["rows"].as_array().unwrap();
        let names: Vec<_> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
        assert_eq!(names, ["as asked", "as asked, all at once"], "{report:#}");
        let carried = [
            "multicast_mbit_per_s",
            "multicast_per_s",
            "chatter_mbit_per_s",
            "chatter_per_s",
            "chatter_handled_share",
            "tcp_mbit_per_s",
        ];
        for key in carried {
            assert_eq!(rows[0][key], Value::Null, "{report:#}");
            assert!(rows[1][key].as_f64() > Some(0.0), "{key}: {report:#}");
        }
        // 972 bytes of RTP per multicast packet, plus 28 of UDP and IP.
        let [bits, packets] = [carried[0], carried[1]].map(|key| rows[1][key].as_f64().unwrap());
        assert!((bits * 1e6 / packets / 8000.0 - 1.0).abs() < 1e-9, "{report:#}");
        for row in rows {
            assert_eq!(row["verdict"], "identical", "{report:#}");
        }
        assert_eq!(
            [&rows[0]["noise_effect"], &rows[1]["noise_effect"]],
            [&Value::Null, &"none".into()]
        );
    });
}
