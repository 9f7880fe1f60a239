//! `taut work` from the view of masters: lists, requests, blocks, ends.

mod kept;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tautline_trial::snapshot;

use serde_json::Value;
use tautline_api::client::{WorkOpened, WorkerAddress, WorkerClient};
use tautline_api::v1::StreamRequest;

use crate::common::program::{Call, Running, taut, words};
use crate::common::{Folder, until};

pub(crate) struct TestWorker {
    pub(crate) running: Running,
    pub(crate) address: SocketAddr,
    folder: Folder,
}

/// Plugins with a fixed processing time, built by cargo for these tests.
pub(crate) fn cost_library() -> PathBuf {
    let built = std::env::current_exe().unwrap().with_file_name("libtautline_ladspa_cost.so");
    assert!(built.exists(), "{} was not built", built.display());
    built
}

fn folder_of(libraries: &[&Path]) -> Folder {
    let folder = Folder::new();
    for library in libraries {
        let name = library.file_name().unwrap();
        std::os::unix::fs::symlink(library, folder.file(name.to_str().unwrap())).unwrap();
    }
    folder
}

impl TestWorker {
    pub(crate) fn start(libraries: &[&Path], options: &str) -> Self {
        Self::at_home(Path::new("/nonexistent"), libraries, options)
    }

    pub(crate) fn at_home(home: &Path, libraries: &[&Path], options: &str) -> Self {
        Self::called(libraries, options, |call| call.with("TAUT_HOME", home))
    }

    pub(crate) fn within(libraries: &[&Path], add: impl FnOnce(Call) -> Call) -> Self {
        Self::called(libraries, "", |call| add(call.with("TAUT_HOME", "/nonexistent")))
    }

    fn called(libraries: &[&Path], options: &str, add: impl FnOnce(Call) -> Call) -> Self {
        let folder = folder_of(libraries);
        let line = format!("work --listen 127.0.0.1:0 --scheduler other {options}");
        let worker = taut(words(&line)).listened_to().with("LADSPA_PATH", folder.path());
        let worker = add(worker);
        let running = worker.in_folder(folder.path()).start().wait_for("worker at ");
        let messages = running.messages().last().unwrap();
        let address = messages.split_whitespace().nth(2).unwrap().parse().unwrap();
        Self { running, address, folder }
    }

    pub(crate) fn client(&self) -> WorkerClient {
        let address: WorkerAddress = self.address.to_string().parse().unwrap();
        WorkerClient::new(&address, None)
    }

    pub(crate) fn open(&self, plugin: &str, rate: u32, max_frames: u32) -> WorkOpened {
        self.client().open(&StreamRequest::of(plugin, rate, max_frames)).unwrap()
    }
}

#[test]
fn the_plugins_of_a_worker_are_listed_and_kept_for_hosts() {
    let cost = cost_library();
    let worker = TestWorker::start(&[&cost], "");
    let (address, cache) = (worker.address, Folder::new());
    let line = format!("plugins --worker {address} --save --report json");
    let ended = taut(words(&line)).with("XDG_CACHE_HOME", cache.path()).run().well();
    let listed = ended.json();
    let plugins = listed["workers"][0]["catalogue"]["plugins"].as_array().unwrap();
    let ids: Vec<_> = plugins.iter().map(|plugin| plugin["id"].as_str().unwrap()).collect();
    let labels = ["waste_time", "waste_random", "waste_burst", "waste_cache"];
    assert_eq!(ids, labels.map(|label| format!("libtautline_ladspa_cost:{label}")));
    assert_eq!(listed["workers"][0]["address"], address.to_string());
    let kept = std::fs::read_to_string(cache.file("tautline/plugins.json")).unwrap();
    let kept: Value = serde_json::from_str(&kept).unwrap();
    assert_eq!((&kept["version"], &kept["workers"]), (&Value::from(1), &listed["workers"]));
    let here = taut(["plugins"]).with("LADSPA_PATH", worker.folder.path()).run().well();
    assert!(here.out.contains("\n  libtautline_ladspa_cost:waste_time\n"), "{}", here.out);
}

#[test]
fn the_workers_that_the_file_names_are_listed_and_kept() {
    let cost = cost_library();
    let workers = [TestWorker::start(&[&cost], ""), TestWorker::start(&[&cost], "")];
    let (cache, folder) = (Folder::new(), Folder::new());
    let [one, other] = workers.each_ref().map(|worker| worker.address);
    let named = format!("workers = [\"{one}\", \"rack={other}\"]\n");
    std::fs::write(folder.file("tautline.toml"), named).unwrap();
    let names = |line: &str| {
        let requested = taut(words(line)).with("XDG_CACHE_HOME", cache.path());
        let requested = requested.with("LADSPA_PATH", folder.path()).in_folder(folder.path());
        let listed = requested.run().well().json();
        let workers = listed["workers"].as_array().unwrap().clone();
        workers.iter().map(|it| (it["name"].clone(), it["address"].clone())).collect::<Vec<_>>()
    };
    let far = [
        ("127.0.0.1".into(), one.to_string().into()),
        ("rack".into(), format!("rack={other}").into()),
    ];
    let listed = names("plugins --report json");
    assert_eq!((&listed[0].1, &listed[1..]), (&Value::Null, &far[..]));
    assert_eq!(names("plugins --save --report json"), far);
    let kept = std::fs::read_to_string(cache.file("tautline/plugins.json")).unwrap();
    let kept: Value = serde_json::from_str(&kept).unwrap();
    let addresses: Vec<_> =
        kept["workers"].as_array().unwrap().iter().map(|it| &it["address"]).collect();
    assert_eq!(addresses, [&far[0].1, &far[1].1]);
    assert_eq!(names(&format!("plugins --worker {one} --report json")), far[..1]);
    std::fs::write(folder.file("tautline.toml"), "workers = \"studio\"\n").unwrap();
    let refused = taut(words("plugins --save")).in_folder(folder.path()).run();
    assert_eq!(refused.status, Some(2), "{refused:#?}");
    snapshot!(refused.messages[0]);
}

#[test]
fn pipeline_is_offered_as_one_plugin() {
    let cost = cost_library();
    let chain = "[[chain]]\nname = \"both\"\nplugins = [\"libtautline_ladspa_cost:waste_time\", \
                 \"libtautline_ladspa_cost:waste_burst\"]\n";
    let chains = Folder::new();
    std::fs::write(chains.file("chains.toml"), chain).unwrap();
    let option = format!("--chains {}", chains.file("chains.toml").display());
    let worker = TestWorker::start(&[&cost], &option);
    let opened = worker.open("both", 48_000, 64);
    let stream = &opened.stream;
    assert_eq!((stream.inputs, stream.outputs, stream.controls_in), (1, 1, 7));
    std::fs::write(chains.file("chains.toml"), chain.replace("waste_burst", "none")).unwrap();
    let ended = taut(words(&format!("plugins {option}"))).with("LADSPA_PATH", worker.folder.path());
    let ended = ended.run();
    assert_eq!(ended.status, Some(2), "{ended:#?}");
    snapshot!(ended.messages[0]);
}

pub(crate) fn children(parent: &str) -> Vec<u32> {
    let listed = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |process: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        after.split_whitespace().nth(1) == Some(parent)
    };
    numbers.filter(is_child).collect()
}

#[test]
fn a_worker_that_ends_or_dies_leaves_no_process_behind() {
    let cost = cost_library();
    for (signal, status) in [("-TERM", Some(0)), ("-INT", Some(0)), ("-KILL", None)] {
        let worker = TestWorker::start(&[&cost], "");
        worker.open("libtautline_ladspa_cost:waste_time", 48_000, 64);
        worker.open("libtautline_ladspa_cost.so:waste_time", 48_000, 64);
        let children = children(&worker.running.id());
        assert_eq!(children.len(), 2);
        worker.running.signal(signal);
        assert_eq!(worker.running.end().status, status, "{signal}");
        let is_there = |child: &u32| Path::new(&format!("/proc/{child}")).exists();
        until(&format!("{signal}: {children:?}"), || !children.iter().any(is_there));
    }
}

#[test]
fn worker_is_local_until_a_host_is_trusted() {
    let home = Folder::new();
    let ended = taut(words("work --listen 0.0.0.0:0")).with("TAUT_HOME", home.path());
    let ended = ended.with("LADSPA_PATH", home.path()).run();
    assert_eq!(ended.status, Some(3), "{ended:#?}");
    snapshot!(ended.last());
}

#[test]
fn missing_worker_or_bad_file_is_reported_with_a_hint() {
    for (line, status) in [
        ("plugins --worker 127.0.0.1:1", 3),
        ("plugins --save", 2),
        ("work --chains /nonexistent/chains.toml", 3),
        ("work --listen nowhere.invalid", 2),
        ("work --max-streams 0", 2),
    ] {
        let ended = taut(words(line)).run();
        assert_eq!(ended.status, Some(status), "{line}: {ended:#?}");
        snapshot!(line, ended.last());
    }
}
