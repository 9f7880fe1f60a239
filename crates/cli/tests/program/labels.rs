//! Labels of faults next to a recording: `--labels`.

use std::path::Path;

use crate::common::lab::Lab;
use crate::common::loopback;
use crate::common::program::{taut, words};
use crate::common::sound::{Shape, Sound};
use crate::common::{Folder, shared};
use crate::errors::is_refused;

const FADE: usize = 48;

fn labels(path: &Path) -> Vec<(usize, usize, String)> {
    let frame = |seconds: &str| (seconds.parse::<f64>().unwrap() * 48_000.0).round() as usize;
    let text = std::fs::read_to_string(path).unwrap();
    let label = |line: &str| {
        let [begin, end, text] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        (frame(begin), frame(end), text.to_owned())
    };
    text.lines().map(label).collect()
}

#[test]
fn labels_lie_on_every_frame_that_was_lost_and_on_no_other() {
    shared(|| {
        // The receiver knows the first gaps before their turn, and the second only afterwards.
        for (impair, minimum) in [("--loss 5% --burst 2 --seed 11", 50), ("--outage 1s+400ms", 1)] {
            every_lost_frame_is_labelled(impair, minimum);
        }
    });
}

fn every_lost_frame_is_labelled(impair: &str, minimum: usize) {
    let mut lab = Lab::start(&format!("{impair} --back ideal"));
    let song = Sound::noise(Shape::STEREO_24, 3000, 5).quieter();
    song.write(&lab.folder.file("song.wav"));
    let carried = lab.carry(
        "--input file:song.wav --latency 200ms --period 240 --periods 16",
        "--period 240 --periods 16 --labels",
    );
    let labels = labels(&lab.folder.file("heard.labels.txt"));
    let received = lab.received();
    let begins = received.begins().unwrap();
    let of = (0..5000).find(|index| song.frame(*index) == received.frame(begins));
    let away = begins - of.unwrap_or_else(|| panic!("{carried}"));
    let frames = away..(away + song.frames()).min(received.frames());
    let is_spoilt = |frame: usize| received.frame(frame) != song.frame(frame - away);
    let inside = |label: &&(usize, usize, String)| frames.contains(&label.0);
    assert!(labels.iter().filter(inside).count() >= minimum, "{labels:?}");
    for (begin, end, text) in labels.iter().filter(inside) {
        assert!(text.starts_with("lost"), "{text}");
        let whole = (*begin..(*end).min(frames.end)).find(|frame| !is_spoilt(*frame));
        assert_eq!(whole, None, "{begin} to {end} is said to be spoilt; {carried}");
    }
    for frame in frames.clone().filter(|frame| is_spoilt(*frame)) {
        let labelled = labels.iter().any(|(begin, end, _)| (*begin..end + FADE).contains(&frame));
        assert!(labelled, "{frame} is spoilt and {labels:?}");
    }
    let first = |frame: &usize| is_spoilt(*frame) && !is_spoilt(frame - 1);
    for frame in frames.clone().skip(1).filter(first) {
        assert!(labels.iter().any(|label| label.0 == frame), "{frame} in {labels:?}");
    }
    let labelled: usize = labels.iter().map(|(begin, end, _)| end - begin).sum();
    assert_eq!(labelled as u64, carried.received.count("missing_frames"), "{carried}");
}

#[test]
fn late_packets_are_labelled_as_late() {
    shared(|| {
        // A tenth of the packets is far too late.
        let mut lab = Lab::start("--reorder 5%+80ms --seed 3 --back ideal");
        let song = Sound::noise(Shape::STEREO_24, 2000, 5).quieter();
        song.write(&lab.folder.file("song.wav"));
        let carried = lab.carry(
            "--input file:song.wav --latency 60ms --period 48 --periods 2",
            "--period 48 --periods 2 --labels",
        );
        let labels = labels(&lab.folder.file("heard.labels.txt"));
        let late = labels.iter().filter(|label| label.2.starts_with("late")).count();
        assert!(late > 20 && late * 10 >= labels.len() * 8, "{labels:?} {carried}");
    });
}

#[test]
fn labels_without_a_recording_or_over_others_are_refused() {
    let folder = Folder::new();
    let refused = |output: &str, status| {
        let line = format!("recv --from {} --labels --output {output}", loopback());
        is_refused(&taut(words(&line)).in_folder(folder.path()), status);
    };
    std::fs::write(folder.file("heard.labels.txt"), "0.0\t1.0\tmine\n").unwrap();
    refused("file:heard.wav", 3);
}
