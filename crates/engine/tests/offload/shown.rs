//! The examples work.

use std::process::{Command, Output};

#[track_caller]
fn example(name: &str) -> Output {
    let here = std::env::current_exe().unwrap();
    let built = here.parent().unwrap().with_file_name("examples").join(name);
    assert!(built.exists(), "{name} is not built; run cargo build -p tautline-engine --examples");
    let ran = Command::new(built).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    ran
}

#[test]
fn example_video_frames_equals_the_local_filter() {
    let said = String::from_utf8(example("video_frames").stdout).unwrap();
    assert!(said.contains("300 pictures"), "{said}");
}

#[test]
fn sound_goes_through_a_plugin_elsewhere_two_blocks_late() {
    let said = String::from_utf8(example("offloaded_sound").stdout).unwrap();
    assert!(said.contains("latency: 256 frames"), "{said}");
}
