//! Calls on hold: cheap connections, with sound on request.

use std::fs::{DirEntry, read_to_string};
use std::path::Path;

use crate::calls::CalledMachine;
use crate::calls_of_several::{SOUNDS, level};
use crate::calls_trusted::Friends;
use crate::common::host::alongside;
use crate::common::program::{Running, taut, words};
use tautline_trial::snapshot;

use crate::common::messages;
use crate::common::sound::Sound;
use crate::common::{Folder, PATIENT, grows, until};

/// Whether the file has a header, which is written after the file's creation.
fn has_header(file: &DirEntry) -> bool {
    file.metadata().is_ok_and(|found| found.len() > 0)
}

fn received(folder: &Folder) -> Vec<Sound> {
    let kept = folder.file("kept").read_dir().into_iter().flatten();
    let mut paths: Vec<_> = kept.map(Result::unwrap).filter(has_header).map(|f| f.path()).collect();
    paths.sort();
    let name = |path: &std::path::PathBuf| path.to_string_lossy().contains("-received");
    paths.iter().filter(|path| name(path)).map(|path| Sound::read(path)).collect()
}

fn all_hear(folder: &Folder, recordings: usize) {
    let all = || received(folder).iter().filter(|sound| sound.frames() >= 24_000).count();
    until(&format!("there are never {recordings} recordings"), || all() >= recordings);
}

fn directions(folder: &Folder) -> usize {
    let report = read_to_string(folder.file("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    report["directions"].as_array().map_or(0, Vec::len)
}

fn held(called: &CalledMachine, home: &Folder, options: &str) -> Running {
    let options = format!("--hold --input tone:1000 --output null: {options}");
    called.call(home.path(), &options).controlled().start().wait_for("without sound")
}

#[test]
fn call_on_hold_starts_and_stops_sound_on_request() {
    let _turn = alongside();
    let home = Folder::new();
    let mut called = CalledMachine::at_home(home.path(), "--report-file report.json");
    let call = held(&called, &home, "--record kept");
    called.running = called.running.wait_for(messages::CALLS_SILENTLY);
    assert!(received(&called.folder).is_empty(), "no device runs");
    let call = call.request("resume", "ok resume").wait_for(messages::CALL_SOUNDS);
    all_hear(&called.folder, 1);
    let call = call.request("hold", "ok hold").wait_for(messages::CALL_SILENT);
    called.running = called.running.wait_for(messages::CALL_SILENT);
    let call = call.request("resume", "ok resume").wait_for(messages::CALL_SOUNDS);
    all_hear(&called.folder, 2);
    call.enter("quit").end().well();
    let (_, folder) = called.ends();
    let begins = |sound: &Sound| sound.begins().is_some();
    assert!(received(&folder).iter().all(begins), "the tone of the server, each time");
    assert_eq!(directions(&folder), 4, "two of each time");
    assert!(Sound::read(&folder.file("caller.wav")).begins().is_some(), "and it hears");
}

#[test]
fn sound_that_was_over_before_it_began_leaves_the_next_as_it_is() {
    let _turn = alongside();
    // The caller learns of the first sound before or after it asks for the second.
    for (lines, next) in [("resume\nhold", "resume"), ("resume\nhold\nresume", "status")] {
        let home = Folder::new();
        let mut called = CalledMachine::at_home(home.path(), "");
        let call = held(&called, &home, "--transport udp");
        let call = call.enter(lines).wait_for("ok resume").wait_for("ok hold");
        called.running = called.running.wait_for(messages::CALL_SILENT);
        let call = call.enter(next);
        called.running = called.running.wait_for(messages::CALL_SOUNDS);
        let caller = called.folder.file("caller.wav");
        until("the second sound is never heard", || Sound::read(&caller).begins().is_some());
        let call = call.enter("hold");
        called.running = called.running.wait_for(messages::CALL_SILENT);
        called.ends();
        call.end().well();
    }
}

#[test]
fn lines_without_sound_leave_those_that_have_some_as_they_are() {
    let _turn = alongside();
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "--max-callers 40 --report-file report.json");
    let lines: Vec<_> = (0..12).map(|_| held(&called, &home, "")).collect();
    let call = called.call(home.path(), "--input tone:2500 --output file:heard.wav");
    let sounds = call.controlled().start().wait_for(messages::IN_A_CALL);
    called.hears_a_second_more();
    let lines: Vec<_> = lines.into_iter().map(|line| line.request("mute", "ok ")).collect();
    called.hears_a_second_more();
    sounds.enter("quit").end().well();
    lines.into_iter().for_each(|line| drop(line.enter("quit").end().well()));
    let (ended, folder) = called.ends();
    let over = ended.messages.iter().filter(|line| line.contains(messages::CALL_OVER)).count();
    assert_eq!(over, 13, "{ended:#?}");
    assert_eq!(directions(&folder), 2, "of one call alone");
    assert!(Sound::read(&folder.file("heard.wav")).begins().is_some());
}

fn comes_to_threads(call: &Running, names: &[String]) {
    until(&format!("its threads are never {names:?}"), || threads(call) == names);
}

/// Without dialling threads, which end soon.
fn threads(call: &Running) -> Vec<String> {
    let all = Path::new("/proc").join(call.id()).join("task").read_dir().unwrap();
    // An ended thread has no name.
    let name =
        |thread: std::io::Result<DirEntry>| read_to_string(thread.ok()?.path().join("comm")).ok();
    let mut names: Vec<_> = all.filter_map(name).filter(|name| name != "taut-dial\n").collect();
    names.sort();
    names
}

#[test]
fn several_calls_are_held_and_resumed_together_or_by_name() {
    let _turn = alongside();
    let (home, folder) = (Folder::new(), Folder::new());
    let [mut one, mut other] =
        [440, 1200].map(|tone| CalledMachine::with_tone(home.path(), tone, ""));
    let line = format!(
        "call {} {} --report none --hold --input tone:2500 --output null: --record kept",
        one.address, other.address
    );
    let call = taut(words(&line)).and(PATIENT).with("TAUT_HOME", home.path());
    let call = call.in_folder(folder.path()).controlled().start();
    let hosts = [one.address.clone(), other.address.clone()];
    let call = call.wait_for_each(&hosts.each_ref().map(|host| format!("{host} without sound")));
    assert!(received(&folder).is_empty(), "no device runs");
    let quiet = threads(&call);

    let call = call.request("resume", "ok resume");
    let sounds = |host: &String| format!("{host}: {}", messages::CALL_SOUNDS);
    let call = call.wait_for_each(&hosts.each_ref().map(sounds));
    all_hear(&folder, 2);
    let frames = || [0, 1].map(|recording: usize| received(&folder)[recording].frames());

    let call = call.request(&format!("hold {}", one.address), "ok hold");
    one.running = one.running.wait_for(messages::CALL_SILENT);
    let call = call.wait_for(&messages::is_silent(&one.address));
    let before = frames();
    let grown = || [0, 1].map(|recording: usize| frames()[recording] - before[recording]);
    until("the other is silent", || grown().into_iter().any(|grown| grown >= 48_000));
    assert!(grown().contains(&0), "{:?}", grown());

    // With all calls on hold, no device is open.
    let call = call.refuses("hold nobody");
    let call = call.request("hold", "ok hold");
    other.running = other.running.wait_for(messages::CALL_SILENT);
    comes_to_threads(&call, &quiet);

    let call = call.request(&format!("resume {}", one.address), "ok resume");
    all_hear(&folder, 3);
    let call = call.request("resume", "ok resume");
    all_hear(&folder, 4);

    // Muting during hold applies to the first packet after it.
    let call = call.request("hold", "ok hold").request("mute", "ok ");
    comes_to_threads(&call, &quiet);
    let call = call.request("resume", "ok resume");
    all_hear(&folder, 6);
    call.enter("quit").end().well();
    assert!(received(&folder).iter().all(|sound| sound.begins().is_some()), "each heard a tone");
    for called in [one, other] {
        let (_, folder) = called.ends();
        let silences = Sound::read(&folder.file("caller.wav")).silences(4_800);
        assert_eq!(silences.len(), 1, "it was heard twice: {silences:?}");
    }
}

#[test]
fn one_output_file_serves_overlapping_calls() {
    let _turn = alongside();
    let (home, folder) = (Folder::new(), Folder::new());
    let [one, other] = [440, 1200].map(|tone| CalledMachine::with_tone(home.path(), tone, ""));
    let line = format!(
        "call {} {} --report none --hold --input null: --output file:heard.wav",
        one.address, other.address
    );
    let call = taut(words(&line)).and(PATIENT).with("TAUT_HOME", home.path());
    let call = call.in_folder(folder.path()).controlled().start();
    let silent = [&one, &other].map(|called| format!("{} without sound", called.address));
    let call = call.wait_for_each(&silent);
    let path = folder.file("heard.wav");
    assert!(!path.exists(), "no device is open before any has sound");
    let gone = one.address.clone();
    let call = call.request(&format!("resume {gone}"), "ok resume").wait_for(messages::CALL_SOUNDS);
    grows(&path, 3000);
    one.ends();
    let call = call.wait_for(messages::SERVER_ENDED);
    grows(&path, 1000);
    let call = call.request("resume", "ok resume").wait_for(messages::CALL_SOUNDS);
    grows(&path, 3000);
    let call = call.request("resume", "ok resume");
    let reported =
        call.messages().find(|line| line.contains(&format!("{gone}: {}", messages::RUN_OVER)));
    assert_eq!(reported, None);
    call.enter("quit").end();
    other.ends();
    let sound = Sound::read(&path);
    let mut seconds = sound.samples.chunks_exact(96_000);
    for tone in [440.0, 1200.0] {
        let received = seconds.any(|second| SOUNDS.contains(&level(second, tone)));
        assert!(received, "{tone} Hz, the one after the other");
    }
}

#[test]
fn a_machine_that_calls_again_and_again_leaves_places_to_others() {
    let _turn = alongside();
    let Friends { studio: home, bob: far } = Friends::new();
    for options in ["--max-callers 2", "--max-callers 3 --max-calls-per-host 1"] {
        let called = CalledMachine::at_home(home.path(), options);
        let call =
            |home: &Folder| called.call(home.path(), "--input null: --output null:").controlled();
        let first = call(&far).start().wait_for(messages::IN_A_CALL);
        let refused = call(&far).run();
        assert_eq!(refused.status, Some(3), "{refused:#?}");
        snapshot!(options, refused.last());
        let other = call(&home).start().wait_for(messages::IN_A_CALL);
        for call in [first, other] {
            call.enter("quit").end().well();
        }
        call(&far).start().wait_for(messages::IN_A_CALL).enter("quit").end().well();
        called.ends();
    }
}

#[test]
#[ignore = "soak: a minute and more, and a hundred programs"]
fn hundred_callers_with_twenty_sounding_stay_within_memory() {
    let _turn = alongside();
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "--max-callers 100 --report-file report.json");
    let lines: Vec<_> = (0..80).map(|_| held(&called, &home, "")).collect();
    let sounding = called.call(home.path(), "--input tone:2500 --output null:").controlled();
    let start = |_| sounding.start().wait_for(messages::IN_A_CALL);
    let calls: Vec<_> = lines.into_iter().chain((0..20).map(start)).collect();
    (0..10).for_each(|_| called.hears_a_second_more());
    let before = called.running.memory();
    (0..60).for_each(|_| called.hears_a_second_more());
    let after = called.running.memory();
    calls.into_iter().for_each(|call| drop(call.enter("quit").end().well()));
    let (ended, folder) = called.ends();
    let over = ended.messages.iter().filter(|line| line.contains(messages::CALL_OVER)).count();
    assert_eq!(over, 100, "each once: none was cut off or taken up again: {ended:#?}");
    assert_eq!(directions(&folder), 40, "two of each that sounds");
    assert!(after <= before + before / 50, "from {before} to {after} bytes");
}

mod exclusive {
    use super::*;

    #[test]
    fn call_that_cannot_resume_yet_is_reported_and_others_resume() {
        let _turn = alongside();
        let home = Folder::new();
        let [one, other] = [440, 1200].map(|tone| CalledMachine::with_tone(home.path(), tone, ""));
        let line = format!(
            "call {} {} --report none --input null: --output null:",
            one.address, other.address
        );
        let call = taut(words(&line)).and(PATIENT).with("TAUT_HOME", home.path());
        let in_calls =
            [&one, &other].map(|called| format!("{}{}", messages::IN_A_CALL, called.address));
        let call = call.controlled().start().wait_for_each(&in_calls);
        // It does not answer, so the end of its sound is unknown.
        one.running.signal("-STOP");
        let call = call.request(&format!("hold {}", one.address), "ok hold");
        let busy = format!("{}: the device accepts no changes now", one.address);
        let call = call.enter("resume").wait_for(&busy).wait_for("ok resume");
        one.running.signal("-CONT");
        call.enter("quit").end();
        for called in [one, other] {
            called.ends();
        }
    }
}
