//! `taut work` as masters meet it: listed, asked, heard, ended.

mod kept;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tautline_trial::snapshot;

use serde_json::Value;
use tautline_api::attach::connect;
use tautline_api::client::{WorkOpened, WorkerAddress, WorkerClient};
use tautline_api::v1::{DescribedOrder, StreamRequest, VERSION};
use tautline_engine::offload::host_block::HostBlock;
use tautline_engine::offload::offloaded::{Far, Offloaded, OffloadedConfig, Which};
use tautline_engine::offload::sound_set::SoundSet;
use tautline_host::ladspa::instance::PluginInstance;
use tautline_host::ladspa::library::PluginLibrary;
use tautline_io::clock::now;
use tautline_io::udp::UdpOptions;
use tautline_proto::time::Span;
use tautline_proto::units::Rate;

use crate::common::program::{PATIENCE, Running, taut, words};
use crate::common::{Folder, Lack, shared, skipped};

/// Long enough for a host that stands still for a while.
const WAIT: Span = Span::from_secs(5);

/// A worker that runs, with a few libraries alone.
pub(crate) struct TestWorker {
    pub(crate) running: Running,
    pub(crate) address: SocketAddr,
    folder: Folder,
}

/// The library of plugins that take time, which cargo built for these tests.
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

    /// With a key and a list of its own.
    pub(crate) fn at_home(home: &Path, libraries: &[&Path], options: &str) -> Self {
        let folder = folder_of(libraries);
        let line = format!("work --listen 127.0.0.1:0 --scheduler other {options}");
        let worker = taut(words(&line)).listened_to().with("LADSPA_PATH", folder.path());
        let worker = worker.with("TAUT_HOME", home);
        let running = worker.in_folder(folder.path()).start().wait_for("worker at ");
        let said = running.said().last().unwrap();
        let address = said.split_whitespace().nth(2).unwrap().parse().unwrap();
        Self { running, address, folder }
    }

    pub(crate) fn client(&self) -> WorkerClient {
        let address: WorkerAddress = self.address.to_string().parse().unwrap();
        WorkerClient::new(&address, None)
    }

    pub(crate) fn open(&self, plugin: &str, rate: u32, most_frames: u32) -> WorkOpened {
        let request = StreamRequest {
            version: VERSION,
            plugin: plugin.to_owned(),
            hash: None,
            rate,
            most_frames,
            byte_order: DescribedOrder::NATIVE,
            datagram_bytes: 1400,
            period_ns: None,
            history: 256,
            copies: 0,
            memory_frames: None,
            cleartext: false,
            pipeline: None,
        };
        self.client().open(&request).unwrap()
    }
}

/// What a plugin is run with, and what it made of it.
pub(crate) struct Buffers {
    pub(crate) inputs: Vec<Vec<f32>>,
    pub(crate) controls: Vec<f32>,
    pub(crate) outputs: Vec<Vec<f32>>,
}

impl HostBlock for Buffers {
    fn frames(&self) -> usize {
        self.inputs[0].len()
    }

    fn input(&mut self, channel: usize, from: usize, samples: &mut [f32]) {
        samples.copy_from_slice(&self.inputs[channel][from..][..samples.len()]);
    }

    fn control(&mut self, index: usize) -> f32 {
        self.controls[index]
    }

    fn output(&mut self, channel: usize, from: usize, samples: &[f32]) {
        self.outputs[channel][from..][..samples.len()].copy_from_slice(samples);
    }

    fn control_out(&mut self, _index: usize, _value: f32) {}
}

pub(crate) fn offloaded(opened: &WorkOpened, rate: Rate) -> Offloaded {
    let stream = &opened.stream;
    let set = SoundSet {
        inputs: stream.inputs as usize,
        outputs: stream.outputs as usize,
        controls_in: stream.controls_in as usize,
        controls_out: stream.controls_out as usize,
        most_frames: stream.most_frames,
        ..SoundSet::default()
    };
    let config = OffloadedConfig { wait: WAIT, ..OffloadedConfig::new(set, rate, 0) };
    let (mut offloaded, _) = Offloaded::new(config).unwrap();
    let link = Box::new(connect(opened, UdpOptions::default()).unwrap());
    assert!(offloaded.attach(Which::Worker, Far::new(link, stream.id)).is_none());
    offloaded
}

#[test]
fn a_plugin_of_a_worker_plays_bit_for_bit_what_it_plays_here() {
    let library = Path::new("/usr/lib/ladspa/tap_reverb.so");
    if !library.exists() {
        return skipped(Lack::Package, "tap_reverb.so: No such file");
    }
    shared(|| {
        let worker = TestWorker::start(&[library], "");
        let opened = worker.open("tap_reverb:tap_reverb", 44_100, 256);
        let mut far = offloaded(&opened, Rate::HZ_44100);
        let loaded = Arc::new(PluginLibrary::load(library).unwrap());
        let mut here = PluginInstance::new(&loaded, "tap_reverb", 44_100, 256).unwrap();
        let mut controls: Vec<f32> = (0..here.controls()).map(|n| here.control(n)).collect();
        here.activate();
        for run in 0..200 {
            let frames = [256, 64, 1, 138][run % 4];
            // Decay, which the plugin reads in each run, from 0 to 10 s.
            controls[0] = (run * 50) as f32;
            let sample = |n: usize| ((run * 977 + n * 31) % 199) as f32 / 199.0 - 0.5;
            let inputs = vec![(0..frames).map(sample).collect::<Vec<f32>>(); here.inputs()];
            inputs.iter().enumerate().for_each(|(channel, samples)| {
                here.input_mut(channel)[..frames].copy_from_slice(samples);
            });
            controls.iter().enumerate().for_each(|(n, value)| here.set_control(n, *value));
            here.run(frames);
            let outputs = vec![vec![0.0; frames]; here.outputs()];
            let mut block = Buffers { inputs, controls: controls.clone(), outputs };
            let outcome = far.run(&mut block, now());
            assert_eq!(outcome.stood_in, 0, "run {run}");
            for (channel, heard) in block.outputs.iter().enumerate() {
                let bits =
                    |samples: &[f32]| samples.iter().map(|s| s.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(heard), bits(&here.output(channel)[..frames]), "run {run}");
            }
        }
        let client = worker.client();
        assert!(client.close(opened.stream.id).unwrap());
        assert_eq!(client.capacity().unwrap().streams, 0);
    });
}

#[test]
fn the_plugins_of_a_worker_are_listed_and_kept_for_hosts() {
    let cost = cost_library();
    let worker = TestWorker::start(&[&cost], "");
    let (address, cache) = (worker.address, Folder::new());
    let line = format!("plugins --worker {address} --save --report json");
    let ended = taut(words(&line)).with("XDG_CACHE_HOME", cache.path()).run().well();
    let listed: Value = serde_json::from_str(&ended.out).unwrap();
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
        let asked = taut(words(line)).with("XDG_CACHE_HOME", cache.path());
        let asked = asked.with("LADSPA_PATH", folder.path()).in_folder(folder.path());
        let listed: Value = serde_json::from_str(&asked.run().well().out).unwrap();
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
    // Who is named on the command line is asked alone.
    assert_eq!(names(&format!("plugins --worker {one} --report json")), far[..1]);
    std::fs::write(folder.file("tautline.toml"), "workers = \"studio\"\n").unwrap();
    let refused = taut(words("plugins --save")).in_folder(folder.path()).run();
    assert_eq!(refused.status, Some(2), "{refused:#?}");
    snapshot!(refused.said[0]);
}

#[test]
fn what_is_run_as_one_is_offered_as_one() {
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
    let mut far = offloaded(&opened, Rate::HZ_48000);
    let inputs = vec![(0..64).map(|n| n as f32).collect::<Vec<f32>>()];
    let outputs = vec![vec![0.0; 64]];
    let mut block = Buffers { inputs: inputs.clone(), controls: vec![0.0; 7], outputs };
    far.run(&mut block, now());
    assert_eq!(block.outputs, inputs);
    std::fs::write(chains.file("chains.toml"), chain.replace("waste_burst", "none")).unwrap();
    let ended = taut(words(&format!("plugins {option}"))).with("LADSPA_PATH", worker.folder.path());
    let ended = ended.run();
    assert_eq!(ended.status, Some(2), "{ended:#?}");
    snapshot!(ended.said[0]);
}

/// The processes that this one started.
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
        let until = Instant::now() + PATIENCE;
        let is_there = |child: &u32| Path::new(&format!("/proc/{child}")).exists();
        while children.iter().any(is_there) {
            assert!(Instant::now() < until, "{signal}: {children:?}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

#[test]
fn a_worker_is_for_this_machine_alone_until_somebody_is_trusted() {
    let home = Folder::new();
    let ended = taut(words("work --listen 0.0.0.0:0")).with("TAUT_HOME", home.path());
    let ended = ended.with("LADSPA_PATH", home.path()).run();
    assert_eq!(ended.status, Some(3), "{ended:#?}");
    snapshot!(ended.last());
}

#[test]
fn a_worker_that_is_not_there_or_a_file_that_is_none_says_what_to_do() {
    for (line, status) in [
        ("plugins --worker 127.0.0.1:1", 3),
        ("plugins --save", 2),
        ("work --chains /nonexistent/chains.toml", 3),
        ("work --listen nowhere.invalid", 2),
        ("work --most-streams 0", 2),
    ] {
        let ended = taut(words(line)).run();
        assert_eq!(ended.status, Some(status), "{line}: {ended:#?}");
        snapshot!(line, ended.last());
    }
}
