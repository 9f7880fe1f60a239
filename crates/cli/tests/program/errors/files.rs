//! Files that cannot be read, or would be overwritten.

use super::{is_refused, recv, send};
use tautline_trial::snapshot;

use crate::common::program::{call, taut, words};
use crate::common::sound::{FileCoding, Shape, Sound};
use crate::common::{Folder, free_udp_ports, loopback};

#[test]
fn unusable_files_have_a_hint() {
    let folder = Folder::new();
    let input = |name: &str| send(&folder, &format!("--input file:{name}"));
    is_refused(&input("missing.wav"), 3);
    let output = |name: &str| {
        recv(&folder, &format!("--from rtp://127.0.0.1:{} --output file:{name}", free_udp_ports()))
    };
    is_refused(&output("missing/out.wav"), 3);
    is_refused(&output("out.flac"), 3);
}

#[test]
fn a_take_is_not_lost_by_a_command_repeated() {
    let folder = Folder::new();
    let take = Sound::noise(Shape::STEREO_24, 100, 1);
    take.write(&folder.file("heard.wav"));
    let recv = |output: &str| {
        recv(&folder, &format!("--from {} --output {output} --duration 50ms", loopback()))
    };
    for output in ["file:heard.wav", "virtual:?record=heard.wav"] {
        is_refused(&recv(output), 3);
    }
    Sound::read(&folder.file("heard.wav")).is_exactly(&take);
    let ended = recv("file:heard.wav --rate 48000 --channels 2 --overwrite").run();
    assert_eq!(ended.status, Some(1), "nothing came: {ended:#?}");
    assert!(!folder.file("heard.wav").exists());
}

#[test]
fn empty_recording_of_a_killed_run_is_overwritten() {
    let folder = Folder::new();
    Sound { shape: Shape::STEREO_24, samples: Vec::new() }.write(&folder.file("heard.wav"));
    let again = format!("--from {} --output file:heard.wav --duration 50ms", loopback());
    assert_eq!(recv(&folder, &again).run().status, Some(1), "it was not refused, and nothing came");
}

#[test]
fn a_file_of_another_rate_is_answered_with_how_to_convert_it() {
    let folder = Folder::new();
    Sound::noise(Shape::STEREO_24, 100, 1).write(&folder.file("48.wav"));
    let call = send(&folder, "--input file:48.wav --rate 44100");
    is_refused(&call, 3);
    let call = send(&folder, "--input file:48.wav --channels 8");
    is_refused(&call, 3);
}

#[test]
fn cut_wav_is_sent_and_fails_the_run_from_file_and_pipe() {
    let folder = Folder::new();
    Sound::noise(Shape::STEREO_24, 100, 8).write(&folder.file("cut.wav"));
    let bytes = std::fs::read(folder.file("cut.wav")).unwrap();
    std::fs::write(folder.file("cut.wav"), &bytes[..bytes.len() / 2 / 6 * 6 + 3]).unwrap();
    let to = format!("--to {} --report none", loopback());
    let of_file = taut(words(&format!("send --input file:cut.wav {to}")));
    let line = format!("cat cut.wav | {} send --input file:- {to}", env!("CARGO_BIN_EXE_taut"));
    for call in [of_file, call("sh", ["-c", &line])] {
        let ended = call.in_folder(folder.path()).run();
        assert_eq!(ended.status, Some(1), "{ended:#?}");
        snapshot!(ended.last());
    }
}

#[test]
fn file_without_samples_is_refused() {
    let folder = Folder::new();
    Sound { shape: Shape::STEREO_24, samples: Vec::new() }.write(&folder.file("empty.wav"));
    is_refused(&send(&folder, "--input file:empty.wav"), 3);
}

#[test]
fn rounding_note_names_the_samples_that_are_rounded() {
    let folder = Folder::new();
    let (wide, float) = (Shape::STEREO_24, Shape { coding: FileCoding::F32, ..Shape::STEREO_24 });
    for (shape, format, is_rounded) in [
        (wide, "l16", true),
        (wide, "lossless16", true),
        (float, "l16", true),
        (float, "l24", true),
        (wide, "l24", false),
        (float, "auto", false),
        (wide, "auto", false),
    ] {
        Sound::noise(shape, 10, 8).write(&folder.file("a.wav"));
        let options = format!("--input file:a.wav --format {format} --report none");
        let ended = send(&folder, &options).run().well();
        let note = ended.messages.iter().find(|line| line.contains("rounded"));
        assert_eq!(note.is_some(), is_rounded, "{format}: {ended:#?}");
        if let Some(note) = note {
            snapshot!(format!("{:?} as {format}", shape.coding), note);
        }
    }
}
