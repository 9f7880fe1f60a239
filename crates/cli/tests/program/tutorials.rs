//! The commands of `docs/tutorials`, each run as its page has it, in two network namespaces.
//!
//! Each block of commands names its machine. Only devices, addresses and durations are replaced.

use std::fs::{read_to_string, remove_file, write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::common::messages;
use crate::common::network::{Cable, Namespace};
use crate::common::program::{Call, Ended, Running, call, words};
use crate::common::sound::{Shape, Sound};
use crate::common::{Folder, grows, shared, until};
use crate::secure_shell::ThereBySsh;

struct Page {
    name: &'static str,
    /// Commands not run yet, with their machines.
    commands: Vec<(String, String)>,
    /// Quoted output, up to its first figure.
    quoted: Vec<String>,
    configurations: Vec<String>,
    replaced: Vec<(String, String)>,
    cable: Cable,
    homes: [Folder; 2],
    folder: Folder,
    output: Vec<String>,
}

impl Page {
    fn open(name: &'static str, replaced: &[(&str, &str)]) -> Option<Self> {
        let owned = |(from, to): &(&str, &str)| ((*from).to_owned(), (*to).to_owned());
        let mut page = Self {
            name,
            commands: Vec::new(),
            quoted: Vec::new(),
            configurations: Vec::new(),
            replaced: replaced.iter().map(owned).collect(),
            cable: Cable::lay()?,
            homes: [Folder::new(), Folder::new()],
            folder: Folder::new(),
            output: Vec::new(),
        };
        let song = Sound::noise(Shape::STEREO_24, 1500, 3);
        ["song.flac", "page.wav"].iter().for_each(|file| song.write(&page.folder.file(file)));
        let path = format!("{}/../../docs/tutorials/{name}.md", env!("CARGO_MANIFEST_DIR"));
        let text = read_to_string(path).unwrap();
        let parts: Vec<&str> = text.split("```").collect();
        for [above, block] in parts.as_chunks().0 {
            let (kind, body) = block.split_once('\n').expect("a block");
            match kind {
                "sh" => page.read_commands(above, body),
                "text" => page.quoted.extend(body.lines().map(up_to_figure)),
                "toml" => page.configurations.push(body.to_owned()),
                "conf" => {}
                other => panic!("{name}.md: a block of {other:?}: {body}"),
            }
        }
        Some(page)
    }

    /// The line above a block is `On MACHINE:`.
    fn read_commands(&mut self, above: &str, body: &str) {
        let line = above.lines().rfind(|line| !line.is_empty()).unwrap_or_default();
        let machine = line.strip_prefix("On ").and_then(|line| line.strip_suffix(':'));
        let machine = machine.unwrap_or_else(|| panic!("{}.md: no machine: {body}", self.name));
        for line in body.replace("\\\n", " ").lines().map(words) {
            if line.iter().any(|word| word == "taut") {
                self.commands.push((machine.to_owned(), line.join(" ")));
            }
        }
    }

    fn place(&self, machine: &str) -> (&Namespace, &Path) {
        match machine {
            "home" | "shop" | "desk" | "both" | "every machine" | "ssh" => {
                (&self.cable.left, self.homes[0].path())
            }
            "studio" | "office" | "kitchen" => (&self.cable.right, self.homes[1].path()),
            other => panic!("{}.md: unknown machine {other:?}", self.name),
        }
    }

    fn replaced(&self, text: &str, machine: &str) -> String {
        let (desk, studio) = (self.cable.left.address, self.cable.right.address);
        let text =
            self.replaced.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
        let text =
            text.replace("MACHINE", machine).replace("10.0.0.1", desk).replace("10.0.0.2", studio);
        text.replace("iface=eth0", &format!("iface={}", self.place(machine).0.interface))
    }

    fn shell(&self, machine: &str, line: &str) -> Call {
        if machine == "this machine" {
            let line = line.strip_prefix("sudo ").unwrap_or(line);
            let line = match line.strip_prefix("taut ") {
                Some(options) => format!("exec {} {options}", env!("CARGO_BIN_EXE_taut")),
                None => line.to_owned(),
            };
            return call("sh", ["-c", &line]).in_folder(self.folder.path());
        }
        let (place, home) = self.place(machine);
        let line = self.replaced(line, machine);
        let line = line.strip_prefix("sudo ").unwrap_or(&line);
        let options = line.strip_prefix("taut ").expect("a command of taut");
        let line = format!("exec {} {options}", env!("CARGO_BIN_EXE_taut"));
        let call = call("sh", ["-c", &line]).in_folder(self.folder.path());
        call.within(place).with("TAUT_HOME", home).with("XDG_RUNTIME_DIR", home)
    }

    #[track_caller]
    fn command(&mut self, begins: &str) -> Call {
        let index = self.commands.iter().position(|(_, line)| line.starts_with(begins));
        let index = index.unwrap_or_else(|| panic!("{}.md lacks {begins:?}", self.name));
        let (machine, line) = self.commands.remove(index);
        self.shell(&machine, &line)
    }

    #[track_caller]
    fn run(&mut self, begins: &str) -> Ended {
        let ended = self.command(begins).run();
        self.note(ended)
    }

    /// A busy host can delay packets, which ends an announcement. Each other fault fails again.
    #[track_caller]
    fn announce(&mut self, begins: &str) {
        let (line, mut ended) = (self.command(begins), None);
        until(&format!("{begins} never succeeds"), || {
            ended = Some(line.run());
            ended.as_ref().is_some_and(|ended| ended.status == Some(0))
        });
        self.output.extend(
            ended.into_iter().flat_map(|it| it.out.lines().map(str::to_owned).collect::<Vec<_>>()),
        );
    }

    fn note(&mut self, ended: Ended) -> Ended {
        let lines = ended.out.lines().chain(ended.messages.iter().map(String::as_str));
        self.output.extend(lines.map(|line| line.trim().to_owned()));
        ended
    }

    #[track_caller]
    fn stop(&mut self, running: Running) -> Ended {
        running.signal("-INT");
        self.note(running.end())
    }

    #[track_caller]
    fn pair(&mut self, there: &str) {
        let waits = self.command("taut pair").requested().start().wait_for("waiting at");
        let calls =
            self.command(&format!("taut pair {there}=")).requested().start().wait_for("type y");
        let waits = waits.wait_for("type y").enter("y");
        for end in [calls.enter("y"), waits] {
            let ended = end.end().well();
            self.note(ended);
        }
    }

    /// `taut doctor` fails if a check does.
    #[track_caller]
    fn checks_the_machine(&mut self) {
        assert!(self.run("taut devices").well().out.contains("virtual:"));
        let doctor = self.run("taut doctor");
        assert!(doctor.status.is_some_and(|status| status <= 1), "{doctor:#?}");
        assert!(doctor.out.lines().any(|line| line.starts_with("ok ")), "{doctor:#?}");
    }

    #[track_caller]
    fn configured(&mut self, machine: &str, command: &str) -> Call {
        let section = format!("[{command}]");
        let index = self.configurations.iter().position(|text| text.starts_with(&section));
        let text = self.configurations.swap_remove(index.expect("a configuration"));
        let home = self.place(machine).1;
        write(home.join("tautline.toml"), self.replaced(&text, machine)).unwrap();
        self.shell(machine, &format!("taut {command} --report none"))
    }

    #[track_caller]
    fn serves_as_configured(&mut self, machine: &str) {
        let serve = self.configured(machine, "serve").listened_to().start();
        self.stop(serve.wait_for(messages::AWAITS_CALLS)).well();
    }

    #[track_caller]
    fn recorded(&self, file: &str) {
        let file = self.folder.file(file);
        let sound = Sound::read(&file);
        remove_file(&file).unwrap();
        assert!(sound.begins().is_some(), "{}.md: {file:?} is silent", self.name);
    }

    #[track_caller]
    fn check(self) {
        let Self { name, commands, configurations, mut quoted, output, .. } = self;
        assert!(commands.is_empty(), "{name}.md: this test does not know {commands:#?}");
        assert!(configurations.is_empty(), "{name}.md: unused: {configurations:#?}");
        let is_printed = |quote: &String| output.iter().any(|line| line.starts_with(quote));
        quoted.retain(|quote| !is_printed(quote));
        assert!(quoted.is_empty(), "{name}.md: {quoted:#?} is not in {output:#?}");
    }
}

/// The part that is the same on each machine, and not shortened.
fn up_to_figure(line: &str) -> String {
    let end = line.find(|letter: char| letter.is_ascii_digit() || letter == '…');
    let end = end.unwrap_or(line.len());
    line[..end].trim().to_owned()
}

#[test]
fn commands_of_the_musician_tutorial_work() {
    shared(|| {
        let devices = [
            // A buffer of 64 ms bridges stalls of the host: sound that was not sent needs a `fix:`.
            ("taut call", "taut call --duration 2s --overwrite --periods 64"),
            ("taut serve", "taut serve --periods 64"),
            ("--input jack:duet", "--input tone:440"),
            ("--output jack:duet", "--output file:MACHINE.wav"),
            ("--ptime 1ms --latency 8ms", "--ptime 1ms --latency 400ms --report-file call.json"),
            ("\"jack:duet\"", "\"null:\""),
        ];
        let Some(mut page) = Page::open("musician", &devices) else { return };
        page.checks_the_machine();
        page.pair("studio");
        let serve =
            page.command("taut serve").listened_to().start().wait_for(messages::AWAITS_CALLS);
        let call = page.run("taut call").well();
        assert!(call.messages.iter().any(|line| line.contains(messages::IN_A_CALL)), "{call:#?}");
        page.recorded("home.wav");
        page.run("taut call").well();
        assert_eq!(page.folder.file("duets").read_dir().unwrap().count(), 2);
        page.stop(serve).well();
        page.recorded("studio.wav");
        let report = read_to_string(page.folder.file("call.json")).unwrap();
        let report: Value = serde_json::from_str(&report).unwrap();
        let latency = &report["directions"][0]["streams"][0]["latency"];
        assert_eq!(latency["configured_ns"], 400_000_000, "{report:#}");
        page.serves_as_configured("studio");
        page.check();
    });
}

#[test]
fn commands_of_the_remote_worker_tutorial_work() {
    shared(|| {
        let devices = [
            ("taut serve", "taut serve --input tone:440 --output file:MACHINE.wav"),
            ("taut call", "taut call --duration 2s --input tone:300 --output file:MACHINE.wav"),
            ("ssh:me@10.0.0.2", "ssh:there"),
        ];
        let Some(mut page) = Page::open("remote-worker", &devices) else { return };
        page.checks_the_machine();
        page.pair("office");
        let serve =
            page.command("taut serve").listened_to().start().wait_for(messages::AWAITS_CALLS);
        page.run("taut call office").well();
        page.recorded("home.wav");
        page.run("taut call office --record").well();
        page.recorded("home.wav");
        page.recorded("interview.wav");
        page.stop(serve).well();
        page.recorded("office.wav");
        if let Some(there) = ThereBySsh::new() {
            there.uses_home(page.homes[1].path());
            // ssh logs in to the caller's namespace, so the server runs there.
            let serve = page.shell("ssh", "taut serve");
            let serve = serve.with("TAUT_HOME", page.homes[1].path()).listened_to().start();
            let serve = serve.wait_for(messages::AWAITS_CALLS);
            for begins in ["taut pair office=ssh:", "taut call office=ssh:"] {
                let call = there.seen_by(page.command(begins));
                page.note(call.run().well());
            }
            page.recorded("home.wav");
            page.stop(serve).well();
            page.recorded("ssh.wav");
        } else {
            page.commands.retain(|(_, line)| !line.contains("=ssh:"));
        }
        page.serves_as_configured("office");
        page.check();
    });
}

#[test]
fn commands_of_the_installer_tutorial_work() {
    shared(|| {
        let devices = [
            ("--output alsa:hw:0", "--output file:kitchen.wav --overwrite"),
            ("alsa:hw:0", "file:boot.wav"),
            ("/srv/music/song.flac", "song.flac"),
            ("logger", "echo >lost.txt"),
        ];
        let Some(mut page) = Page::open("installer", &devices) else { return };
        page.checks_the_machine();
        let room = page.command("taut recv").start().listening();
        let send = page.command("taut send").start();
        grows(&page.folder.file("kitchen.wav"), 1000);
        page.run("taut top --once").well();
        page.stop(send).well();
        page.stop(room).well();
        page.recorded("kitchen.wav");
        let room = page.command("taut recv").start().listening();
        page.run("taut send --input file:page.wav").well();
        page.stop(room).well();
        page.recorded("kitchen.wav");
        let line = "taut recv --from rtp://239.69.1.1:5004?iface=eth0 --output null:";
        let room = page.shell("kitchen", line).start().listening();
        let send = page.command("taut send").start();
        let lost = page.folder.file("lost.txt");
        thread::sleep(Duration::from_secs(2));
        room.signal("-KILL");
        until("the lost room is not reported", || lost.metadata().is_ok_and(|file| file.len() > 0));
        assert!(read_to_string(&lost).unwrap().starts_with(page.cable.right.address));
        page.stop(send).well();
        let room = page.configured("kitchen", "recv").start();
        let send = page.configured("shop", "send").start();
        grows(&page.folder.file("boot.wav"), 1000);
        [send, room].into_iter().for_each(|end| drop(page.stop(end).well()));
        page.recorded("boot.wav");
        page.check();
    });
}

#[test]
fn commands_of_the_engineer_tutorial_work() {
    shared(|| {
        let devices = [
            ("ssh -o BatchMode=yes studio ", ""),
            ("--latency 30ms --packet-log", "--latency 400ms --packet-log"),
            ("--duration 12s", "--duration 2s --settle 1s"),
            ("lab stages ", "lab stages --duration 2s --settle 1s "),
            (
                "--output alsa:hw:0 --input alsa:hw:0",
                "--output virtual:?cable=x --input virtual:?cable=x",
            ),
        ];
        let Some(mut page) = Page::open("engineer", &devices) else { return };
        let studio = format!("netns:{}", page.cable.right.name);
        page.replaced.push(("ssh:studio".to_owned(), studio));
        assert!(page.run("ssh ").well().out.starts_with("taut "));
        for file in ["before.json", "after.json"] {
            page.run("taut lab stages").well();
            let report = read_to_string(page.folder.file(file)).unwrap();
            assert!(report.contains("\"stages\""), "{file}: {report}");
        }
        assert!(page.folder.file("before.html").exists());
        let compared = page.run("taut lab compare");
        assert_eq!(compared.status, Some(5), "{compared:#?}");
        let recv = page.command("taut recv").start().listening();
        page.run("taut send").well();
        let ended = recv.end().well();
        page.note(ended);
        page.run("taut join").well();
        let csv = read_to_string(page.folder.file("packets.csv")).unwrap();
        assert!(csv.starts_with("rtp_timestamp,time_s,outcome,"), "{csv}");
        assert!(csv.lines().count() > 1000, "{csv}");
        page.run("taut compare song.flac heard.wav").well();
        page.run("taut lab delay").well();
        page.check();
    });
}

fn zones_of_the_demo(page: &mut Page) {
    let demo = page.command("sudo taut demo building").listened_to().start();
    let demo = demo.wait_for("running until Ctrl-C");
    let zones = "taut-building/office taut zones";
    let zones_with_all = page.run(zones).well();
    assert_eq!(zones_with_all.out.matches(" playing ").count(), 6, "{zones_with_all:#?}");
    for change in ["gym taut zone hall", "gym taut zone corridor", "office taut zone all"] {
        page.run(&format!("taut-building/{change}")).well();
    }
    assert_eq!(page.run("taut-building/office taut zone library").status, Some(1));
    page.run("taut-building/office taut preset").well();
    page.run("taut-building/office taut zone all").well();
    for source in ["sport", "music"] {
        page.run(&format!("taut-building/office taut zone gym source {source}")).well();
    }
    if call("sh", ["-c", "command -v espeak-ng"]).run().status != Some(0) {
        let speaks = page.folder.file("taut-building/machines/office/tautline.toml");
        write(speaks, "[say]\ncommand = \"cat taut-building/machines/office/chime.wav\"\n")
            .unwrap();
    }
    for line in ["play all chime", "page hall,gym", "say all"] {
        page.announce(&format!("taut-building/office taut {line}"));
    }
    let speaks = page.command("taut-building/office taut page all").start();
    let speaks = speaks.wait_for("on air in 6 of 6 zones");
    page.run("taut-building/gym taut stop gym").well();
    page.run("taut-building/gym taut stop all").well();
    page.note(speaks.end());
    page.run("taut-building/office taut schedule next").well();
    let machine = page.folder.file("taut-building/machines/office");
    let building = read_to_string(machine.join("building.toml")).unwrap();
    let changed = building.replace("epoch = 1\n", "epoch = 2\n");
    write(
        machine.join("new.toml"),
        changed.replace("max-volume = \"-6dB\"", "max-volume = \"0dB\""),
    )
    .unwrap();
    for line in ["check", "push"] {
        page.run(&format!("taut-building/office taut site {line}")).well();
    }
    let unplugged = page.command(zones);
    until("not all zones play", || unplugged.run().out.matches(" playing ").count() == 6);
    let switch = page.folder.file("taut-building/switch");
    let plug =
        |state: &str| call(switch.to_str().unwrap(), words(&format!("ip link set gym {state}")));
    plug("down").run().well();
    let ended = unplugged.run();
    assert_eq!(ended.status, Some(1), "{ended:#?}");
    assert_eq!(ended.out.matches(" unreachable").count(), 1, "{ended:#?}");
    plug("up").run().well();
    let whole = || unplugged.run().status == Some(0);
    until("the gym does not return", || unplugged.run().out.matches(" playing ").count() == 6);
    page.run("taut-building/office taut ack").well();
    until("the zones have faults", whole);
    page.stop(demo).well();
    page.recorded("taut-building/machines/cellar/cellar.wav");
}

#[test]
fn commands_of_the_zones_tutorial_work() {
    let devices = [
        ("\"alsa:hw:0\"", "\"virtual:?record=shop.wav\""),
        ("\"alsa:default\"", "\"virtual:?record=kitchen.wav\""),
        ("\"alsa:hw:1\"", "\"tone:440\""),
        ("/srv/music/song.flac", "song.flac"),
        ("\"20ms\"", "\"300ms\""),
        ("[node.shop.card.main]", "[node.shop.card.main]\nperiods = 48"),
        ("[node.kitchen.card.main]", "[node.kitchen.card.main]\nperiods = 48"),
    ];
    let Some(mut page) = Page::open("zones", &devices) else { return };
    zones_of_the_demo(&mut page);
    page.pair("shop");
    page.run("taut srtp-key").well();
    let building = page.configurations.remove(0);
    let building = page.replaced(&building, "shop");
    write(page.folder.file("building.toml"), building).unwrap();
    page.run("taut site check").well();
    let node = |call: Call| call.listened_to().start().wait_for("node ");
    let nodes = [node(page.command("taut node")), node(page.command("taut node"))];
    page.output.extend(nodes.iter().flat_map(|node| node.messages().cloned()));
    let line = page.command("taut zones");
    let plays = |ended: &Ended| ended.out.matches(" playing ").count() == 3;
    until("not all zones play", || plays(&line.run()));
    let zones = line.run().well();
    page.note(zones);
    page.announce("taut play");
    let speaks = page.command("taut page").start().wait_for("on air in 2 of 2 zones");
    page.stop(speaks).well();
    nodes.into_iter().for_each(|node| drop(page.stop(node).well()));
    ["shop.wav", "kitchen.wav"].iter().for_each(|file| page.recorded(file));
    page.check();
}
