//! PipeWire for one test: a server, a session manager, and one sink without hardware, `Speakers`.
//! By default, cycles have 4096 frames for busy machines.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use super::program::{Call, Running, TIMEOUT, call, taut, words};
use super::wireplumber::SetUp;
use super::{Folder, Lack, skipped};

pub(crate) const QUANTUM: usize = 4096;

const SERVER: &str = "
context.properties = {
    core.daemon = true
    core.name = pipewire-0
    support.dbus = false
    default.clock.rate = 48000
    default.clock.allowed-rates = [ 48000 44100 ]
    default.clock.quantum = QUANTUM
    default.clock.min-quantum = QUANTUM
    default.clock.max-quantum = 8192
}
context.spa-libs = {
    audio.convert.* = audioconvert/libspa-audioconvert
    support.* = support/libspa-support
}
context.modules = [
    { name = libpipewire-module-rt args = { rt.prio = 88 } flags = [ ifexists nofail ] }
    { name = libpipewire-module-protocol-native }
    { name = libpipewire-module-metadata }
    { name = libpipewire-module-spa-node-factory }
    { name = libpipewire-module-client-node }
    { name = libpipewire-module-adapter }
    { name = libpipewire-module-link-factory }
    { name = libpipewire-module-session-manager }
    { name = libpipewire-module-access }
    MODULES
]
context.objects = [
    { factory = spa-node-factory args = {
        factory.name = support.node.driver node.name = Dummy-Driver node.group = pipewire.dummy
        priority.driver = 20000 } }
    { factory = adapter args = {
        factory.name = support.null-audio-sink node.name = Speakers media.class = Audio/Sink
        node.group = pipewire.dummy audio.position = [ FL FR ] object.linger = true } }
]
";

const PROGRAMS: [&str; 6] =
    ["pipewire", "wireplumber", "pw-cat", "pw-dump", "pw-link", "pw-metadata"];
/// The first version that forwards port latencies.
const PIPEWIRE: [u32; 2] = [3, 50];

pub(crate) struct Desktop {
    // Dropped before the folder.
    manager: Option<Running>,
    server: Option<Running>,
    set_up: SetUp,
    folder: Folder,
}

impl Desktop {
    pub(crate) fn start() -> Option<Self> {
        Self::with_cycles_of(QUANTUM)
    }

    /// `quantum` is in frames.
    pub(crate) fn with_cycles_of(quantum: usize) -> Option<Self> {
        Self::with(quantum, "")
    }

    /// `modules` is configuration text. Cycles have 1024 frames: the `rtp-sink` of 1.4.2 drops more
    /// than 1648.
    pub(crate) fn with_modules(modules: &str) -> Option<Self> {
        Self::with(1024, modules)
    }

    fn with(quantum: usize, modules: &str) -> Option<Self> {
        let absent = |program: &&&str| {
            let answer = Command::new(program).arg("--version").output();
            !answer.is_ok_and(|answer| answer.status.success())
        };
        if let Some(program) = PROGRAMS.iter().find(absent) {
            let why = format!("there is no {program}; install pipewire-bin and wireplumber");
            skipped(Lack::Package, &why);
            return None;
        }
        let set_up = match fit(|program| version(&call(program, ["--version"]).run().out)) {
            Ok(set_up) => set_up,
            Err(why) => {
                skipped(Lack::Package, &why);
                return None;
            }
        };
        let folder = Folder::new();
        let server = SERVER.replace("QUANTUM", &quantum.to_string()).replace("MODULES", modules);
        std::fs::write(folder.file("pipewire.conf"), server).unwrap();
        set_up.write(folder.path());
        let mut desktop = Self { manager: None, server: None, set_up, folder };
        desktop.begin();
        Some(desktop)
    }

    pub(crate) fn begin(&mut self) {
        let configuration = self.folder.file("pipewire.conf");
        let server = self.call("pipewire", "-c").and([configuration.as_os_str()]);
        self.server = Some(server.start());
        self.wait_for("a server", |_| true);
        self.manager = Some(self.call("wireplumber", self.set_up.arguments).start());
        self.wait_for("a session manager", |objects| {
            objects.iter().any(|object| object["props"]["metadata.name"] == "default")
        });
    }

    pub(crate) fn crash(&mut self) {
        self.manager = None;
        self.server = None;
    }

    pub(crate) fn signal(&self, signal: &str) {
        self.server.iter().for_each(|running| running.signal(signal));
    }

    pub(crate) fn lose_manager(&mut self) {
        self.manager = None;
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn call(&self, program: &str, line: &str) -> Call {
        self.at_home(call(program, words(line)))
    }

    /// `pw-cat` uses an ordinary thread. If permitted, it gets real-time priority.
    pub(crate) fn pw_cat(&self, line: &str) -> Call {
        let tried = Command::new("chrt").args(["-f", "50", "true"]).output();
        match tried.is_ok_and(|tried| tried.status.success()) {
            true => self.call("chrt", &format!("-f 50 pw-cat {line}")),
            false => self.call("pw-cat", line),
        }
    }

    pub(crate) fn taut(&self, line: &str) -> Call {
        self.at_home(taut(words(line)))
    }

    fn at_home(&self, call: Call) -> Call {
        let folder = self.folder.path();
        ["XDG_RUNTIME_DIR", "HOME", "XDG_STATE_HOME"]
            .into_iter()
            .fold(call.in_folder(folder), |call, key| call.with(key, folder))
            .with("WIREPLUMBER_CONFIG_DIR", self.set_up.looks_in(folder))
    }

    fn objects(&self) -> Option<Vec<Value>> {
        let dump = self.call("pw-dump", "").run();
        (dump.status == Some(0)).then(|| serde_json::from_str(&dump.out).ok())?
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, what: &str, is_so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let until = Instant::now() + TIMEOUT;
        loop {
            match self.objects() {
                Some(objects) if is_so(&objects) => return objects,
                objects => {
                    let names = objects.iter().flatten().map(|o| &o["info"]["props"]["node.name"]);
                    let names: Vec<_> = names.filter_map(Value::as_str).collect();
                    assert!(Instant::now() < until, "there is not {what}; nodes: {names:?}");
                }
            }
        }
    }

    #[track_caller]
    pub(crate) fn node(&self, name: &str, ports: usize) -> Value {
        let objects = self.wait_for(name, |objects| {
            node(objects, name).is_some_and(|node| ports_of(objects, node).count() >= ports)
        });
        node(&objects, name).unwrap()["info"]["props"].clone()
    }

    /// Waits until a node runs. Since PipeWire 1.4, visible ports of an idle node cannot be
    /// connected.
    #[track_caller]
    pub(crate) fn runs(&self, name: &str) {
        self.wait_for(&format!("a {name} that runs"), |objects| {
            node(objects, name).is_some_and(|node| node["info"]["state"] == "running")
        });
    }

    pub(crate) fn is_before(&self, newer: [u32; 3]) -> bool {
        version(&self.call("pipewire", "--version").run().out).is_some_and(|is| is < newer)
    }

    #[track_caller]
    pub(crate) fn link(&self, from: &str, to: &str) {
        self.call("pw-link", "").and([from, to]).run().well();
    }
}

fn version(messages: &str) -> Option<[u32; 3]> {
    let linked =
        messages.lines().find_map(|line| line.split_once("Linked with lib")?.1.split_once(' '));
    let mut numbers = linked?.1.trim().split('.').map_while(|number| number.parse().ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?])
}

fn fit(version: impl Fn(&str) -> Option<[u32; 3]>) -> Result<SetUp, String> {
    let shown = |version: Option<[u32; 3]>| match version {
        Some([a, b, c]) => format!("{a}.{b}.{c}"),
        None => "of a version that it does not say".to_owned(),
    };
    let pipewire = version("pipewire");
    if pipewire.is_none_or(|[major, rest @ ..]| major == 0 && rest < PIPEWIRE) {
        let [minor, patch] = PIPEWIRE;
        let shown = shown(pipewire);
        return Err(format!("PipeWire is {shown}; from 0.{minor}.{patch} on it serves"));
    }
    let manager = version("wireplumber");
    manager.and_then(|[major, minor, _]| SetUp::of(major, minor)).ok_or_else(|| {
        let shown = shown(manager);
        format!("WirePlumber is {shown}; tests/program/common/wireplumber.rs is for 0.4 and 0.5")
    })
}

#[test]
fn unsupported_desktop_versions_are_reported() {
    let messages =
        "wireplumber\nCompiled with libwireplumber 0.4.1\nLinked with libwireplumber 0.4.13\n";
    assert_eq!(version(messages), Some([0, 4, 13]));
    assert_eq!(version("pipewire\n"), None);
    let fit = |pipewire, wireplumber| {
        fit(|program| if program == "pipewire" { pipewire } else { wireplumber })
    };
    let scripts = fit(Some([0, 3, 65]), Some([0, 4, 13])).unwrap();
    assert_eq!(fit(Some([1, 0, 5]), Some([0, 4, 17])), Ok(scripts));
    let profile = fit(Some([1, 4, 2]), Some([0, 5, 8])).unwrap();
    assert_ne!(profile, scripts);
    let old = fit(Some([0, 3, 49]), Some([0, 4, 13])).unwrap_err();
    assert_eq!(old, "PipeWire is 0.3.49; from 0.3.50 on it serves");
    let new = fit(Some([1, 4, 2]), Some([0, 6, 0])).unwrap_err();
    assert!(new.starts_with("WirePlumber is 0.6.0; tests/"), "{new}");
    assert!(fit(None, Some([0, 4, 13])).unwrap_err().contains("does not say"));
}

pub(crate) fn node<'a>(objects: &'a [Value], name: &str) -> Option<&'a Value> {
    objects.iter().find(|object| {
        object["type"] == "PipeWire:Interface:Node" && object["info"]["props"]["node.name"] == name
    })
}

pub(crate) fn ports_of<'a>(
    objects: &'a [Value],
    node: &Value,
) -> impl Iterator<Item = &'a Value> + use<'a> {
    let id = node["id"].clone();
    objects.iter().filter(move |object| {
        object["type"] == "PipeWire:Interface:Port" && object["info"]["props"]["node.id"] == id
    })
}

pub(crate) fn is_linked(objects: &[Value], from: &str, to: &str) -> bool {
    let (Some(from), Some(to)) = (node(objects, from), node(objects, to)) else { return false };
    objects.iter().any(|object| {
        object["info"]["output-node-id"] == from["id"]
            && object["info"]["input-node-id"] == to["id"]
            && object["info"]["state"] == "active"
    })
}
