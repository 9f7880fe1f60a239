//! `taut top`, whose observers disturb no run.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::Value;

use crate::calls::CalledMachine;
use crate::common::messages;
use crate::common::program::{Call, Running, TIMEOUT, taut, words};
use crate::common::{Folder, Onlooker, PATIENT, loopback, shared};
use crate::offload::{TestWorker, cost_library};

struct Stage {
    folder: Folder,
    onlooker: Onlooker,
    address: String,
}

impl Stage {
    fn new() -> Self {
        Self { folder: Folder::new(), onlooker: Onlooker::new(), address: loopback() }
    }

    fn call(&self, line: &str) -> Call {
        taut(words(line)).with("XDG_RUNTIME_DIR", self.folder.path())
    }

    fn recv(&self) -> Running {
        self.recv_call().start().listening()
    }

    fn recv_call(&self) -> Call {
        let line = format!("recv --from {} --output virtual: --report json", self.address);
        self.call(&line).and(PATIENT)
    }

    fn send(&self) -> Running {
        let (to, also) = (&self.address, self.onlooker.address());
        let line = format!("send --input virtual:?tone=440 --to {to} --to {also} --report none");
        self.call(&line).and(PATIENT).start()
    }

    fn top(&self) -> Value {
        self.call("top --once --report json").run().well().json()
    }

    fn sockets(&self) -> Vec<PathBuf> {
        let folder = std::fs::read_dir(self.folder.file("tautline")).into_iter().flatten();
        folder.map(|entry| entry.unwrap().path()).collect()
    }

    /// A new socket has a temporary name for a moment.
    fn sockets_when(&self, count: usize) -> Vec<PathBuf> {
        let until = Instant::now() + TIMEOUT;
        while Instant::now() < until {
            let (sockets, newborn) =
                self.sockets().into_iter().partition::<Vec<_>, _>(|path| is_named(path));
            if sockets.len() == count && newborn.is_empty() {
                return sockets;
            }
            std::thread::yield_now();
        }
        panic!("{count} sockets were awaited: {:?}", self.sockets());
    }
}

fn is_named(socket: &Path) -> bool {
    socket.extension().is_some_and(|extension| extension == "sock")
}

#[track_caller]
fn stream<'a>(reported: &'a Value, role: &str) -> &'a Value {
    let programs = reported["programs"].as_array().unwrap();
    let program = programs.iter().find(|program| program["role"] == role);
    &program.unwrap_or_else(|| panic!("no {role} in {reported:#}"))["streams"][0]
}

#[test]
fn top_shows_running_sender_and_receiver_until_they_end() {
    shared(|| {
        let stage = Stage::new();
        let recv = stage.recv();
        let awaited = stage.top();
        assert_eq!(stream(&awaited, "recv")["state"], "waiting", "{awaited:#}");
        let send = stage.send();
        stage.onlooker.handle(1_500);
        let reported = stage.top();
        let (sent, received) = (stream(&reported, "send"), stream(&reported, "recv"));
        assert_eq!(received["address"], stage.address, "{reported:#}");
        assert_eq!(
            (&received["state"], &sent["state"]),
            (&"connected".into(), &"connected".into()),
            "{reported:#}"
        );
        let names = |stages: &Value| {
            let stages = stages.as_array().unwrap();
            stages
                .iter()
                .map(|stage| stage["name"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let all = ["capture", "pack", "send", "wire", "wakeup", "buffer", "render", "device"];
        assert_eq!(names(&received["stages"]), all, "{reported:#}");
        assert_eq!(names(&received["worst"]["stages"]), all, "{reported:#}");
        assert_eq!(names(&sent["stages"]), all[..3], "{reported:#}");
        for stream in [sent, received] {
            let meters = stream["meters"].as_array().unwrap();
            assert_eq!(meters.len(), 2, "{reported:#}");
            for meter in meters {
                let db = |name: &str| meter[name].as_f64().unwrap();
                let off = (db("peak_db") + 18.0).abs().max((db("rms_db") + 21.0).abs());
                assert!(off < 0.5, "{reported:#}");
            }
            assert_eq!(stream["latency"]["configured_ns"], 400_000_000, "{reported:#}");
            assert!(stream["second"]["packets"].as_u64().unwrap() > 100, "{reported:#}");
        }
        let page = stage.call("top --once").run().well().out;
        assert!(page.starts_with("  PROGRAM") && page.contains(&stage.address), "{page}");
        for reported in ["recv ", "send ", "worst of the last minute", "peak / RMS in dBFS"] {
            assert!(page.contains(reported), "{reported:?} in {page}");
        }
        send.signal("-INT");
        send.end().well();
        let state = loop {
            let reported = stage.top();
            let state = stream(&reported, "recv")["state"].clone();
            if state != "connected" {
                break state;
            }
        };
        assert_eq!(state, "waiting", "the sender said goodbye");
        recv.signal("-INT");
        recv.end().well();
        assert!(stage.sockets().is_empty(), "{:?}", stage.sockets());
        assert_eq!(stage.top()["programs"], Value::Array(Vec::new()));
        let page = stage.call("top").run().well().out;
        assert!(page.lines().count() == 1, "{page}");
    });
}

#[test]
fn run_without_an_observer_socket_continues() {
    shared(|| {
        let stage = Stage::new();
        let folder = stage.folder.file("tautline");
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
        let line = format!("send --input virtual: --to {} --duration 200ms", stage.address);
        let note = |messages: &[String]| {
            messages.iter().any(|line| line.contains(messages::WATCHED_BY_NONE))
        };
        let usual = stage.call(&line).run().well();
        assert!(!note(&usual.messages), "{usual:#?}");
        let verbose = stage.call(&line).and(["--verbose"]).run().well();
        assert!(note(&verbose.messages), "{verbose:#?}");
        assert!(stage.sockets().is_empty());
    });
}

#[test]
fn a_demo_can_be_looked_at_as_three_runs() {
    shared(|| {
        let stage = Stage::new();
        let demo = stage.call("demo --duration 5s --quiet --out").and([stage.folder.file("out")]);
        let demo = demo.start();
        stage.sockets_when(3);
        let reported = stage.top();
        let programs = reported["programs"].as_array().unwrap();
        let mut roles: Vec<_> = programs.iter().filter_map(|one| one["role"].as_str()).collect();
        roles.sort_unstable();
        assert_eq!(roles, ["recv", "recv", "send"], "{reported:#}");
        demo.end();
        assert!(stage.sockets().is_empty());
    });
}

#[test]
fn a_socket_is_for_its_own_user_and_root_alone() {
    shared(|| {
        let stage = Stage::new();
        let send = stage.send();
        stage.onlooker.see(10);
        let [socket] = &stage.sockets_when(1)[..] else { unreachable!() };
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(socket.parent().unwrap()), 0o700);
        // Root, or the user of this test.
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut messages = [0; 12];
        stream.read_exact(&mut messages).unwrap();
        assert_eq!(&messages, b"{\"schema\":2,");
        drop(send);
    });
}

#[test]
fn ctrl_c_ends_an_experiment_and_reports_so_far() {
    shared(|| {
        let folder = Folder::new();
        let call = |line: &str| {
            taut(words(line)).in_folder(folder.path()).with("XDG_RUNTIME_DIR", folder.path())
        };
        let line = "lab stages --settle 1s --duration 60s --period 240 --latency 400ms --report json \
                    --report-file kept.json";
        let run = call(line).start().wait_for(messages::COUNTED_NOW);
        let until = Instant::now() + TIMEOUT;
        loop {
            assert!(Instant::now() < until, "its packets are not seen");
            let seen = call("top --once --report json").run().well().out;
            let seen: Value = serde_json::from_str(&seen).unwrap();
            let runs = seen["programs"].as_array().unwrap();
            let mut receivers = runs.iter().filter(|run| run["role"] == "recv");
            let received = |run: &Value| run["streams"][0]["counters"]["packets_received"].as_u64();
            if receivers.any(|run| received(run).is_some_and(|received| received > 3000)) {
                break;
            }
        }
        run.signal("-INT");
        let report = run.end().well().json();
        let (row, notes) = (&report["rows"][0], report["notes"].to_string());
        let count = row["measured"]["count"].as_u64().unwrap_or_default();
        assert!((500..30_000).contains(&count), "{report:#}");
        assert!(notes.contains("400ms in packets of 1ms"), "{notes}");
        let kept = std::fs::read_to_string(folder.file("kept.json")).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&kept).unwrap(), report);
        // Saved reports can be compared stage by stage, but are too short for a verdict.
        let compared = call("lab compare kept.json kept.json --report json").run();
        assert_eq!(compared.status, Some(5), "{compared:#?}");
        let compared = compared.json();
        let figures = compared["rows"][0]["figures"].as_array().unwrap();
        assert!(figures.iter().any(|one| one["part"] == "wire"), "{compared:#}");
    });
}

#[test]
fn top_shows_the_transport_of_a_call() {
    let _turn = crate::common::host::alongside();
    let stage = Stage::new();
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "");
    for transport in ["udp", "tcp"] {
        let options = format!("--input tone:440 --output null: --transport {transport}");
        let call = called.call(home.path(), &options);
        let call = call.with("XDG_RUNTIME_DIR", stage.folder.path()).controlled().start();
        let call = call.wait_for(messages::IN_A_CALL);
        let reported = stage.top();
        let programs = reported["programs"].as_array().unwrap();
        let by = programs.iter().map(|program| &program["streams"][0]["transport"]);
        assert!(programs.len() == 2 && by.clone().all(|by| by == transport), "{reported:#}");
        call.enter("quit").end().well();
    }
    called.ends();
}

#[test]
fn top_shows_the_plugins_of_a_worker() {
    let stage = Stage::new();
    let cost = cost_library();
    let worker =
        TestWorker::within(&[&cost], |call| call.with("XDG_RUNTIME_DIR", stage.folder.path()));
    let plugin = "libtautline_ladspa_cost:waste_time";
    let opened = worker.open(plugin, 48_000, 64);
    let reported = stage.top();
    let [program] = &reported["programs"].as_array().unwrap()[..] else { panic!("{reported:#}") };
    assert_eq!(program["role"], "work", "{reported:#}");
    let [worked] = &program["offloads"].as_array().unwrap()[..] else { panic!("{reported:#}") };
    assert_eq!(worked["id"], opened.stream.id, "{reported:#}");
    for (key, value) in [("plugin", plugin), ("client", "127.0.0.1"), ("phase", "idle")] {
        assert_eq!(worked[key], value, "{reported:#}");
    }
    assert!(worked["share"].as_f64().unwrap() > 0.0, "{reported:#}");
    assert!(worker.client().close(opened.stream.id).unwrap());
    let reported = stage.top();
    assert_eq!(reported["programs"][0].get("offloads"), None, "{reported:#}");
}
