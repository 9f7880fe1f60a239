//! A host's folder with `tautline.so` in it, and a catalogue.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::common::Folder;
use crate::common::program::{Call, call, words};

/// What a host finds, and nothing else of this machine's.
pub(crate) struct Scene {
    pub(crate) folder: Folder,
}

/// The shared object that cargo built for these tests.
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

    /// A catalogue file, as `taut plugins --save` writes it.
    pub(crate) fn saves(&self, address: &str, name: &str, plugins: Vec<Value>) {
        let catalogue = json!({ "version": 1, "worker": name, "plugins": plugins });
        let worker = json!({ "address": address, "name": name, "catalogue": catalogue });
        let saved = json!({ "version": 1, "workers": [worker] });
        std::fs::write(self.catalogue(), saved.to_string()).unwrap();
    }

    /// A program that finds the library there.
    pub(crate) fn host(&self, program: &str, line: &str) -> Call {
        self.finding(call(program, words(line)))
    }

    /// Any program, likewise.
    pub(crate) fn finding(&self, call: Call) -> Call {
        call.in_folder(self.folder.path())
            .with("LADSPA_PATH", self.folder.file("ladspa"))
            .with("XDG_CACHE_HOME", self.folder.file("cache"))
            .with("TAUT_HOME", self.folder.file("home"))
    }
}

/// A port, in the words of a catalogue.
pub(crate) fn port(name: &str, descriptor: u32, hints: u32, bounds: (f32, f32)) -> Value {
    let (lower, upper) = bounds;
    json!({ "name": name, "descriptor": descriptor, "hints": hints, "lower": lower, "upper": upper })
}

/// A plugin, likewise.
pub(crate) fn plugin(file: &str, label: &str, ports: &[Value]) -> Value {
    let mut name = label.to_owned();
    name[..1].make_ascii_uppercase();
    json!({
        "id": format!("{file}:{label}"), "file": file, "label": label, "unique_id": 1,
        "name": name, "maker": "Somebody", "copyright": "None", "properties": 4, "ports": ports,
        "hash": "", "cost": null,
    })
}
