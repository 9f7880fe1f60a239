//! A host's folder with `tautline.so` and a catalogue.

use std::any::type_name;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::common::Folder;
use crate::common::program::{Call, Ended, call, words};

pub(crate) struct Scene {
    pub(crate) folder: Folder,
}

fn shared_object() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let built = tests.with_file_name("libtautline_ladspa.so");
    assert!(built.exists(), "{} was not built", built.display());
    built
}

impl Scene {
    pub(crate) fn new() -> Self {
        let folder = Folder::new();
        for below in ["ladspa", "cache/tautline", "home"] {
            std::fs::create_dir_all(folder.file(below)).unwrap();
        }
        std::os::unix::fs::symlink(shared_object(), folder.file("ladspa/tautline.so")).unwrap();
        Self { folder }
    }

    pub(crate) fn catalogue(&self) -> PathBuf {
        self.folder.file("cache/tautline/plugins.json")
    }

    pub(crate) fn saves(&self, address: &str, name: &str, plugins: Vec<Value>) {
        let catalogue = json!({ "version": 1, "worker": name, "plugins": plugins });
        let worker = json!({ "address": address, "name": name, "catalogue": catalogue });
        let saved = json!({ "version": 1, "workers": [worker] });
        std::fs::write(self.catalogue(), saved.to_string()).unwrap();
    }

    pub(crate) fn host(&self, program: &str, line: &str) -> Call {
        self.finding(call(program, words(line)))
    }

    pub(crate) fn finding(&self, call: Call) -> Call {
        call.in_folder(self.folder.path())
            .with("LADSPA_PATH", self.folder.file("ladspa"))
            .with("XDG_CACHE_HOME", self.folder.file("cache"))
            .with("TAUT_HOME", self.folder.file("home"))
    }
}

const INSIDE: &str = "TAUT_TEST_INSIDE";

/// Runs `inside` in a separate process, because a library initializes only once. `outside` prepares
/// it, and gets the call that runs the same test.
pub(crate) fn alone<Inside: FnOnce(), Outside: FnOnce(Call)>(inside: Inside, outside: Outside) {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let program = std::env::current_exe().unwrap();
    // `program::MODULE::TEST::{{closure}}`: one of both is a closure of the test.
    let mut paths = [type_name::<Inside>(), type_name::<Outside>()].into_iter();
    let path = paths.find_map(|path| path.split_once("::{{closure}}")).expect("a closure").0;
    let (_, test) = path.split_once("::").unwrap();
    let line = format!("{test} --exact --nocapture --test-threads 1");
    outside(call(program.to_str().unwrap(), words(&line)).with(INSIDE, "1"));
}

pub(crate) fn did_well(ended: Ended) -> Vec<String> {
    let ended = ended.well();
    let of_ours = |line: &&str| {
        !line.is_empty()
            && !["running ", "test ", "test result"].iter().any(|of| line.starts_with(of))
    };
    assert_eq!(ended.out.lines().find(of_ours), None, "standard output is the host's");
    ended.messages
}

pub(crate) fn port(name: &str, descriptor: u32, hints: u32, bounds: (f32, f32)) -> Value {
    let (lower, upper) = bounds;
    json!({ "name": name, "descriptor": descriptor, "hints": hints, "lower": lower, "upper": upper })
}

pub(crate) fn plugin(file: &str, label: &str, ports: &[Value]) -> Value {
    let mut name = label.to_owned();
    name[..1].make_ascii_uppercase();
    json!({
        "id": format!("{file}:{label}"), "file": file, "label": label, "unique_id": 1,
        "name": name, "maker": "Somebody", "copyright": "None", "properties": 4, "ports": ports,
        "hash": "", "cost": null,
    })
}
