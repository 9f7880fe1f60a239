//! A node with scripts in place of its processes.

mod pushed;

use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

use tautline_api::v1::{NodeService, PushRefused, SitePush, ZoneChange, ZonePlayback, ZoneRefused};
use tempfile::TempDir;

use super::*;
use crate::{Contact, ContactAction, Site};

const BUILDING: &str = r#"epoch = 1
announcements = "239.255.77.1:5004"
[node.east]
host = "127.0.0.1"
[node.east.card.main]
device = "null:"
[node.west]
host = "10.0.0.2"
[source.music]
files = ["a.wav"]
node = "east"
address = "239.255.78.1:5004"
[source.other]
stream = "rtp://239.1.2.3:5004"
[zone.hall]
number = 1
node = "east"
card = "main"
channels = [1]
volume = "-6dB"
max-volume = "-3dB"
"#;

/// Reports that `hall` plays, and repeats each line in a note.
const CARD: &str = r#"echo '{"state":{"zone":"hall","state":"playing","volume":"-6dB"}}'
while read line; do printf '{"note":"%s"}\n' "$(printf %s "$line" | tr '"' "'")"; done"#;

struct Run {
    node: Arc<BuildingNode>,
    notes: Receiver<String>,
    kept: Vec<JoinHandle<()>>,
    folder: TempDir,
}

impl Run {
    fn of(card: &str) -> Self {
        Self::with(card, |_| "cat".to_owned(), tempfile::tempdir().unwrap())
    }

    fn within(card: &str, folder: TempDir) -> Self {
        Self::with(card, |_| "cat".to_owned(), folder)
    }

    /// `source` makes a script for the folder.
    fn with(card: &str, source: impl Fn(&str) -> String, folder: TempDir) -> Self {
        let site = Arc::new(Site::check(BUILDING.as_bytes()).unwrap());
        let (sender, notes) = channel();
        let card = card.to_owned();
        let source = source(&folder.path().display().to_string());
        let command = move |role: &Role| {
            let mut command = Command::new("sh");
            command.arg("-c");
            match role {
                Role::Card(_) => command.arg(&card),
                Role::Source(_) => command.arg(&source),
            };
            command
        };
        let node = BuildingNode::new(NodeConfig {
            place: site.place(Some("east")).unwrap(),
            site,
            path: folder.path().join("site/building.toml"),
            command: Box::new(command),
            saved: folder.path().join("zones.json"),
            announce: Box::new(|announcement| {
                let mut command = Command::new("sh");
                command.args(["-c", "echo \"$0\" >&2; exit 1", &announcement.message]);
                command
            }),
            contact: Box::new(|contact| {
                let mut command = Command::new("sh");
                // Its error has each line of its input.
                let script = "echo error: $0 closed >&2; cat >&2; exit 1";
                command.args(["-c", script, &contact.name]);
                command
            }),
            faults: folder.path().join("faults.json"),
            log: folder.path().join("announcements.jsonl"),
            notify: Arc::new(move |note: &str| drop(sender.send(note.to_owned()))),
        });
        let kept = node.roles().into_iter().map(|role| node.keep(role).unwrap()).collect();
        Self { node, notes, kept, folder }
    }

    #[track_caller]
    fn until(&self, state: ZonePlayback) -> ZoneState {
        self.awaited(state, || ())
    }

    /// Like [`Self::until`], and calls [`BuildingNode::watch`].
    #[track_caller]
    fn watched_until(&self, state: ZonePlayback) -> ZoneState {
        self.awaited(state, || {
            self.node.watch();
        })
    }

    #[track_caller]
    fn awaited(&self, state: ZonePlayback, watch: impl Fn()) -> ZoneState {
        let end = std::time::Instant::now() + Duration::from_secs(20);
        loop {
            watch();
            let zone = self.node.state().zones.remove(0);
            if zone.state == state {
                return zone;
            }
            assert!(std::time::Instant::now() < end, "{zone:?}");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    #[track_caller]
    fn note(&self) -> String {
        self.notes.recv_timeout(Duration::from_secs(20)).unwrap()
    }

    fn process(&self, role: &Role) -> Option<rustix::process::Pid> {
        self.node.standing().children.get(role).map(RunningChild::id)
    }

    fn end(self) -> TempDir {
        self.node.end(self.kept);
        self.folder
    }
}

fn change(zone: &str) -> ZoneChange {
    ZoneChange { zone: zone.to_owned(), ..ZoneChange::default() }
}

#[test]
fn node_has_a_process_per_card_and_own_source() {
    let run = Run::of("exec cat");
    let roles = [Role::Card("main".into()), Role::Source("music".into())];
    assert_eq!(run.node.roles(), roles);
    run.end();
}

#[test]
fn program_of_another_node_is_not_started() {
    let run = Run::of("exec cat");
    let before = run.node.roles();
    let [far, near] = [("west", 2), ("east", 3)].map(|(node, group)| {
        let address = format!("239.255.78.{group}:5004");
        format!("[source.{node}]\nlocal = \"radio\"\nnode = \"{node}\"\naddress = \"{address}\"\n")
    });
    run.node.push(push(newer(&far), &[])).unwrap();
    assert_eq!((run.node.update(), run.node.roles()), (vec![], before));
    let text = newer(&(far + &near)).replace("epoch = 2", "epoch = 3");
    run.node.push(push(text, &[])).unwrap();
    assert_eq!(run.node.update(), [Role::Source("east".into())]);
    run.end();
}

#[test]
fn change_reaches_the_process_and_the_file() {
    let run = Run::of(CARD);
    run.until(ZonePlayback::Playing);
    let quieter = ZoneChange { volume: Some("-9dB".into()), ..change("hall") };
    assert_eq!(run.node.change(quieter).unwrap().volume, "-9dB");
    assert_eq!(run.note(), "[]", "no saved changes");
    assert_eq!(run.note(), "{'zone':'hall','volume':'-9dB'}");
    let saved = SavedZones::read(&run.end().path().join("zones.json")).0;
    assert_eq!(saved.of("hall").volume.as_deref(), Some("-9dB"));
}

#[test]
fn saved_settings_are_those_of_the_next_node() {
    let run = Run::of(CARD);
    let tuned = ZoneChange {
        delay: Some("34.32m".into()),
        equalizer: Some("low-pass 8000".into()),
        limiter: Some("-3dB".into()),
        ..change("hall")
    };
    let shown = |state: ZoneState| [state.delay, state.equalizer, state.limiter];
    let values = ["100ms", "low-pass 8000 0.71", "-3dB"];
    assert_eq!(shown(run.node.change(tuned).unwrap()), values);
    let invalid = ZoneChange { delay: Some("2s".into()), muted: Some(true), ..change("hall") };
    assert!(matches!(run.node.change(invalid), Err(ZoneRefused::Value(_))));
    let folder = run.end();
    // This card reports no state.
    let again = Run::within("exec cat", folder);
    let state = again.node.state().zones.remove(0);
    assert!(!state.muted, "an invalid change changes nothing");
    assert_eq!(shown(state), values);
    again.end();
}

#[test]
fn default_is_the_value_of_the_building_file() {
    let run = Run::of("exec cat");
    let all = |values: [&str; 5]| {
        let [volume, page_volume, delay, equalizer, limiter] = values.map(|it| Some(it.to_owned()));
        ZoneChange { volume, page_volume, delay, equalizer, limiter, ..change("hall") }
    };
    let shown = |state: ZoneState| {
        [state.volume, state.page_volume, state.delay, state.equalizer, state.limiter]
    };
    let file = shown(run.node.change(change("hall")).unwrap());
    let tuned = ["-9dB", "-9dB", "12ms", "high-pass 80 0.71", "-3dB"];
    assert_eq!(shown(run.node.change(all(tuned)).unwrap()), tuned);
    assert_eq!(shown(run.node.change(all(["default"; 5])).unwrap()), file);
    // A newer file then applies.
    assert_eq!(run.node.standing().saved.of("hall"), change("hall"));
    let source = |name: &str| ZoneChange { source: Some(name.into()), ..change("hall") };
    let none = run.node.change(source("default"));
    assert!(matches!(none, Err(ZoneRefused::NoSource { .. })), "the file has none");
    run.end();
}

#[test]
fn process_that_fails_shows_its_error_and_starts_again() {
    let failing = "read first; echo 'error: no card'>&2; echo 'hint: x'>&2; exit 3";
    let run = Run::of(failing);
    assert_eq!(run.until(ZonePlayback::Failed).fault.as_deref(), Some("no card; x"));
    assert_eq!(run.note(), "error: no card");
    assert_eq!(run.note(), "hint: x");
    // The second start.
    assert_eq!(run.note(), "error: no card");
    run.end();
}

#[test]
fn invalid_changes_are_refused() {
    let run = Run::of(CARD);
    let volume = |text: &str| ZoneChange { volume: Some(text.into()), ..change("hall") };
    assert!(matches!(run.node.change(change("gym")), Err(ZoneRefused::NoZone { .. })));
    assert!(matches!(run.node.change(volume("loud")), Err(ZoneRefused::Value(_))));
    assert!(matches!(run.node.change(volume("0dB")), Err(ZoneRefused::Limits { .. })));
    let page = ZoneChange { page_volume: Some("0dB".into()), ..change("hall") };
    let refused = run.node.change(page).unwrap_err();
    assert!(matches!(refused, ZoneRefused::Limits { setting: "page-volume", .. }), "{refused}");
    let hint = refused.to_string().split_once("hint: ").unwrap().1.to_owned();
    assert!(hint.contains("page-volume"), "{hint}");
    let source = ZoneChange { source: Some("radio".into()), ..change("hall") };
    let refused = run.node.change(source);
    assert!(matches!(refused, Err(ZoneRefused::NoSource { name, .. }) if name == "radio"));
    let source = ZoneChange { source: Some("other".into()), ..change("hall") };
    assert_eq!(run.node.change(source).unwrap().source.as_deref(), Some("other"));
    run.end();
}

/// Makes the card process of `run` look silent for longer than permitted.
fn seems_to_hang(run: &Run) {
    let mut standing = run.node.standing();
    let child = standing.children.get_mut(&Role::Card("main".into())).unwrap();
    child.reported = now() - (HANGS + HANGS);
}

#[test]
fn silent_card_process_is_killed_with_its_children() {
    // The child of the shell keeps standard output and standard error open.
    let run = Run::of("read first; sleep 1000 & echo '{\"note\":\"has a child\"}'; wait");
    assert_eq!(run.note(), "has a child");
    seems_to_hang(&run);
    run.node.watch();
    assert_eq!(run.note(), "card main hangs: killed");
    let fault = run.until(ZonePlayback::Failed).fault.unwrap();
    assert!(fault.contains("signal: 9"), "{fault}");
    run.end();
}

#[test]
fn children_of_a_dead_process_are_killed() {
    let run = Run::of("read first; sleep 1000 & echo '{\"note\":\"has a child\"}'; exit 7");
    assert_eq!(run.note(), "has a child");
    run.watched_until(ZonePlayback::Failed);
    // The fault of its zone may be logged first.
    while run.note() != "has a child" {}
    run.end();
}

#[test]
fn process_that_reads_nothing_blocks_no_change() {
    let run = Run::of("echo '{\"note\":\"runs\"}'; exec sleep 1000");
    assert_eq!(run.note(), "runs");
    // The zeros fill the pipe.
    let volume = format!("-{:0>9000}dB", 9);
    let quieter = || ZoneChange { volume: Some(volume.clone()), ..change("hall") };
    for _ in 0..20 {
        assert_eq!(run.node.change(quieter()).unwrap().volume, "-9dB");
    }
    seems_to_hang(&run);
    run.node.watch();
    run.until(ZonePlayback::Failed);
    run.end();
}

fn push(text: String, files: &[(&str, &[u8])]) -> SitePush {
    let hashed = |(path, bytes): &(&str, &[u8])| ((*path).to_owned(), crate::files::sha256(bytes));
    SitePush { text, files: files.iter().map(hashed).collect() }
}

/// The next epoch, with this text at the end.
fn newer(more: &str) -> String {
    BUILDING.replace("epoch = 1", "epoch = 2") + more
}

fn file_of(run: &Run, name: &str) -> Option<Vec<u8>> {
    std::fs::read(run.folder.path().join("site").join(name)).ok()
}

#[test]
fn push_of_an_older_another_or_invalid_file_is_refused() {
    let run = Run::of(CARD);
    let refused = |text: String| run.node.push(push(text, &[])).unwrap_err();
    run.node.push(push(newer(""), &[])).unwrap();
    assert_eq!(refused(BUILDING.to_owned()), PushRefused::LowerEpoch { has: 2, given: 1 });
    assert_eq!(refused(newer("[priorities]\na = 1")), PushRefused::OtherFile { epoch: 2 });
    let faults =
        || run.node.state().faults.iter().map(|it| (it.kind, it.lasts)).collect::<Vec<_>>();
    assert_eq!(faults(), [(FaultKind::Epoch, false)]);
    let epoch_3 =
        |from: &str, to: &str| newer("").replace("epoch = 2", "epoch = 3").replace(from, to);
    assert!(matches!(refused(epoch_3("number = 1", "")), PushRefused::Invalid(_)));
    assert!(matches!(refused(epoch_3("west", "east.x")), PushRefused::Invalid(_)));
    assert_eq!(file_of(&run, "building.toml"), Some(newer("").into_bytes()));
    assert_eq!(run.node.push(push(newer(""), &[])).unwrap().epoch, 2, "it has this file");
    run.end();
}

#[test]
fn push_restarts_only_processes_whose_part_changed() {
    let run = Run::of(CARD);
    run.until(ZonePlayback::Playing);
    assert_eq!(run.note(), "[]");
    let roles = [Role::Card("main".into()), Role::Source("music".into())];
    while run.process(&roles[1]).is_none() {
        std::thread::yield_now();
    }
    let before = roles.each_ref().map(|role| run.process(role));
    let quieter = ZoneChange { volume: Some("-4dB".into()), ..change("hall") };
    run.node.change(quieter).unwrap();
    assert_eq!(run.note(), "{'zone':'hall','volume':'-4dB'}");
    let text = newer("").replace("max-volume = \"-3dB\"", "max-volume = \"-5dB\"");
    run.node.push(push(text, &[])).unwrap();
    assert_eq!(run.note(), "new building file: epoch 2");
    assert_eq!(run.node.update(), []);
    // The change is louder than the new limit.
    assert_eq!(run.note(), "[{'zone':'hall'}]");
    let after = roles.each_ref().map(|role| run.process(role));
    assert_ne!(before[0], after[0]);
    assert_eq!(before[1], after[1]);
    assert_ne!(run.node.state().zones[0].state, ZonePlayback::Failed);
    assert_eq!(run.node.state().epoch, 2);
    run.end();
}

#[test]
fn pushed_files_add_and_remove_processes() {
    let run = Run::of(CARD);
    let more =
        "[source.bells]\nfiles = [\"b.wav\"]\nnode = \"east\"\naddress = \"239.255.78.2:5004\"";
    run.node.push(push(newer(more), &[])).unwrap();
    let new = run.node.update();
    assert_eq!(new, [Role::Source("bells".into())]);
    let thread = run.node.keep(new[0].clone()).unwrap();
    run.node.push(push(newer("").replace("epoch = 2", "epoch = 3"), &[])).unwrap();
    assert_eq!(run.node.update(), []);
    thread.join().unwrap();
    assert_eq!(run.process(&new[0]), None);
    run.end();
}

#[test]
fn push_waits_for_its_recordings() {
    let run = Run::of(CARD);
    let (path, bytes) = ("bells/noon.wav", b"RIFF".as_slice());
    let text =
        newer(&format!("[message.noon]\nfile = \"{path}\"\n[message.one]\nfile = \"one.wav\"\n"));
    let given = push(text, &[(path, bytes), ("one.wav", bytes)]);
    let hash = given.files[path].clone();
    let unrequested = PushRefused::Unrequested(hash.clone());
    assert_eq!(run.node.stage(&hash, bytes), Err(unrequested));
    let first = run.node.push(given.clone()).unwrap();
    assert_eq!((first.epoch, first.missing), (1, vec![hash.clone()]));
    assert_eq!(run.node.stage(&hash, b"RIFX"), Err(PushRefused::Hash(hash.clone())));
    assert_eq!(file_of(&run, "building.toml"), None);
    run.node.stage(&hash, bytes).unwrap();
    let second = run.node.push(given.clone()).unwrap();
    assert_eq!((second.epoch, second.missing.len()), (2, 0));
    for path in [path, "one.wav"] {
        assert_eq!(file_of(&run, path).as_deref(), Some(bytes));
    }
    run.end();
}

#[test]
fn push_writes_only_recordings_that_the_file_names() {
    let run = Run::of(CARD);
    for path in ["../a.wav", "/a.wav", "taut.toml", ".a.wav", ".a/a.wav", "other.wav"] {
        let named = if path == "other.wav" { "a.wav" } else { path };
        let text = newer(&format!("[message.noon]\nfile = \"{named}\"\n"));
        let refused = run.node.push(push(text, &[(path, b"RIFF")])).unwrap_err();
        assert_eq!(refused, PushRefused::Path(path.to_owned()));
    }
    run.end();
}

#[test]
fn announcement_of_a_dead_process_is_logged_as_cut() {
    let run = Run::of(
        r#"read first; echo '{"state":{"zone":"hall","state":"playing","announcements":
            [{"id":"aa","result":"played"},{"id":"bb","result":"playing"}]}}' | tr -d '\n'; echo; exit 1"#,
    );
    run.until(ZonePlayback::Failed);
    let faults = run.node.state().faults;
    let [fault] = &faults[..] else { panic!("{faults:?}") };
    assert_eq!((fault.kind, fault.name.as_str(), fault.lasts), (FaultKind::Card, "hall", true));
    let log = std::fs::read_to_string(run.end().path().join("announcements.jsonl")).unwrap();
    let results = log.lines().take(2).map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((&line["node"], &line["zone"]), (&"east".into(), &"hall".into()));
        format!("{} {}", line["id"], line["result"])
    });
    assert_eq!(results.collect::<Vec<_>>(), [r#""aa" "played""#, r#""bb" "cut""#]);
}

#[test]
fn fault_of_a_source_lasts_until_it_sends_all_files() {
    let run = Run::with(
        "exec cat",
        |folder| {
            format!(
                "cd {folder}; [ -e ran ] || {{ touch ran; echo 'error: no radio' >&2; exit 1; }}
             echo '{{\"note\":\"again\"}}'; until [ -e go ]; do sleep 0.01; done
             echo '{{\"sending\":{{\"fault\":\"skipped b.wav\"}}}}'
             until [ -e copied ]; do sleep 0.01; done
             echo '{{\"sending\":{{\"fault\":null}}}}'; exec cat"
            )
        },
        tempfile::tempdir().unwrap(),
    );
    assert_eq!(run.note(), "error: no radio");
    assert_eq!(run.note(), "again");
    let fault = || run.node.state().sources.remove(0).fault;
    assert_eq!(fault().as_deref(), Some("no radio"));
    for (file, expected) in [("go", Some("skipped b.wav")), ("copied", None)] {
        std::fs::write(run.folder.path().join(file), "").unwrap();
        let end = std::time::Instant::now() + Duration::from_secs(20);
        while fault().as_deref() != expected {
            assert!(std::time::Instant::now() < end);
            std::thread::park_timeout(Duration::from_millis(5));
        }
        let lasting = run.node.state().faults.into_iter().find(|it| it.lasts);
        assert_eq!(lasting.map(|it| it.reason).as_deref(), expected);
    }
    run.end();
}

#[test]
fn outage_is_a_fault_once_until_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("zones.alive.json"), r#"{"at_s":1700000000,"ended":true}"#)
        .unwrap();
    // The clock of this host may not be synchronized: then the end finds it.
    let folder = Run::within("exec cat", folder).end();
    let again = Run::within("exec cat", folder);
    let faults = || {
        let faults = again.node.state().faults.into_iter();
        faults.map(|it| (it.kind, it.first_s, it.lasts, it.times)).collect::<Vec<_>>()
    };
    again.node.watch();
    assert_eq!(faults(), [(FaultKind::Outage, 1_700_000_000, false, 1)]);
    again.node.acknowledge(FaultsAck::default());
    assert_eq!(faults(), []);
    again.end();
}

/// A contact at a named pipe, with the edges that a GPIO chip would report.
struct Switch {
    contact: Contact,
    edges: std::fs::File,
    /// Time of the next edge: in the past, so that no test waits for a stable level.
    time: u64,
}

impl Switch {
    fn new(folder: &TempDir, action: ContactAction) -> Self {
        let chip = folder.path().join("chip");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &chip, mode).unwrap();
        let edges = std::fs::File::options().read(true).write(true).open(&chip).unwrap();
        let contact = Contact {
            name: "bell".to_owned(),
            chip,
            line: 3,
            active_low: false,
            action,
            to: vec!["hall".to_owned()],
            station: None,
        };
        Self { contact, edges, time: 0 }
    }

    fn set(&mut self, is_closed: bool) {
        use std::io::Write as _;
        // `struct gpio_v2_line_event`: time, 1 for a rising edge or 2 for a falling one, line.
        let kind: u32 = if is_closed { 1 } else { 2 };
        let mut event = self.time.to_ne_bytes().to_vec();
        event.extend([kind, 3].map(u32::to_ne_bytes).as_flattened());
        event.resize(48, 0);
        self.edges.write_all(&event).unwrap();
        self.time += 1_000_000_000;
    }
}

fn contact_faults(node: &BuildingNode) -> Vec<(String, bool)> {
    let faults = node.state().faults.into_iter();
    let own = faults.filter(|fault| fault.kind == FaultKind::Contact);
    own.map(|fault| (fault.name, fault.lasts)).collect()
}

#[test]
fn message_starts_at_each_closure_of_its_contact() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("fire.wav"), []).unwrap();
    let message = folder.path().join("fire.wav").display().to_string();
    let mut switch = Switch::new(&folder, ContactAction::Play(message));
    let run = Run::within("exec cat", folder);
    let watch = run.node.watch_contacts(Ok(vec![switch.contact.clone()])).unwrap();
    for _ in 0..2 {
        switch.set(true);
        assert_eq!(run.note(), "contact bell: exit status: 1: bell closed");
        switch.set(false);
    }
    assert_eq!(contact_faults(&run.node), []);
    drop(watch);
    run.end();
}

#[test]
fn page_lasts_while_its_contact_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let mut switch = Switch::new(&folder, ContactAction::Page);
    let run = Run::within("exec cat", folder);
    let watch = run.node.watch_contacts(Ok(vec![switch.contact.clone()])).unwrap();
    switch.set(true);
    // Its process ends with its input.
    let early = run.notes.recv_timeout(Duration::from_millis(200));
    assert!(early.is_err(), "{early:?}");
    switch.set(false);
    assert_eq!(run.note(), "contact bell: exit status: 1: bell closed");
    switch.set(true);
    let early = run.notes.recv_timeout(Duration::from_millis(200));
    assert!(early.is_err(), "{early:?}");
    // The end of the node ends it.
    drop(watch);
    assert_eq!(run.note(), "contact bell: exit status: 1: bell closed");
    run.end();
}

#[test]
fn contact_without_its_line_is_a_fault_with_a_fix() {
    let folder = tempfile::tempdir().unwrap();
    let mut absent = Switch::new(&folder, ContactAction::Page).contact;
    absent.chip = folder.path().join("absent");
    let mut elsewhere = absent.clone();
    (elsewhere.name, elsewhere.to) = ("attic".to_owned(), vec!["attic".to_owned()]);
    let run = Run::within("exec cat", folder);
    let watch = run.node.watch_contacts(Ok(vec![absent, elsewhere])).unwrap();
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while contact_faults(&run.node).len() < 2 {
        assert!(std::time::Instant::now() < end);
        std::thread::park_timeout(Duration::from_millis(5));
    }
    run.node.watch();
    let note = run.note();
    assert!(note.starts_with("fault: contact bell: line 3 of ") && note.contains("; "), "{note}");
    assert_eq!(run.note(), "fault: contact attic: the building file has no zone or group attic");
    let lasting = ["bell", "attic"].map(|name| (name.to_owned(), true));
    assert_eq!(contact_faults(&run.node), lasting);
    drop(watch);
    run.end();
}
