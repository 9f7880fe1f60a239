//! The catalogues that `taut plugins --save` keeps, and the plugins that `tautline.so` makes of them.

mod names;
mod pipelines;

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::folders::{cache_folder, library_config};
use crate::v1::{Catalogue, Plugin, PluginPort};
use names::{PluginOrigin, numbered};
use pipelines::{Pipeline, pipelines};

pub use pipelines::PipelineStage;

/// A stream has 256 blocks at most: one for each port of sound, one for the controls each way.
const MOST_SOUND_PORTS: usize = 254;
/// More than any plugin has; a catalogue that tells more is nonsense.
const MOST_PORTS: usize = 1024;
const WAYS: u32 = 1 | 2;
const KINDS: u32 = 4 | 8;
const AUDIO: u32 = 8;

/// A plugin, or a pipeline of several, that hosts find in `tautline.so`.
#[derive(Debug, Clone)]
pub struct SavedPlugin {
    /// LADSPA's label.
    pub label: String,
    /// LADSPA's unique id.
    pub number: u32,
    /// The worker as the label has it: its name, or its address if two have that name; of a pipeline all workers.
    pub host: String,
    /// Where the worker is, or the first of a pipeline.
    pub address: String,
    /// The name of that worker.
    pub worker: String,
    /// As the worker has it.
    pub plugin: Plugin,
    /// The plugins of a pipeline.
    pub stages: Vec<PipelineStage>,
}

/// The plugins of these workers and the pipelines of the `tautline.toml` that `tautline.so` reads, in the order in which
/// hosts get them; and a sentence for each pipeline that cannot be made.
pub fn offered(workers: Vec<SavedWorker>) -> (Vec<SavedPlugin>, Vec<String>) {
    let (pipelines, complaints) = match library_config() {
        Some((path, text)) => pipelines(&path, &text, &workers),
        None => (Vec::new(), Vec::new()),
    };
    (joined(workers, pipelines), complaints)
}

fn joined(workers: Vec<SavedWorker>, pipelines: Vec<Pipeline>) -> Vec<SavedPlugin> {
    let names: Vec<String> = workers.iter().map(|worker| worker.name.clone()).collect();
    let alike = |name: &str| names.iter().filter(|other| *other == name).count() > 1;
    let mut known = BTreeSet::new();
    let mut found = Vec::new();
    let mut add = |host: String, (address, worker): (&str, &str), plugin: Plugin, stages| {
        let origin = PluginOrigin { host: host.clone(), id: plugin.id.clone() };
        if is_usable(&plugin) && known.insert(origin.clone()) {
            let (label, address, worker) = (origin.label(), address.to_owned(), worker.to_owned());
            let saved = SavedPlugin { label, number: 0, host, address, worker, plugin, stages };
            found.push((origin, saved));
        }
    };
    for SavedWorker { address, name, catalogue } in workers {
        let host = if alike(&name) { &address } else { &name };
        for plugin in catalogue.plugins {
            add(host.clone(), (&address, &name), plugin, Vec::new());
        }
    }
    for Pipeline { plugin, stages } in pipelines {
        let names: Vec<&str> = stages.iter().map(|stage| stage.worker.as_str()).collect();
        let host = names.join("+");
        if let Some(first) = stages.first().cloned() {
            add(host, (&first.address, &first.worker), plugin, stages);
        }
    }
    let (origins, mut found): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    let mut labels = BTreeSet::new();
    for (saved, number) in found.iter_mut().zip(numbered(&origins)) {
        saved.number = number;
        // Two ids that differ in what a label cannot have.
        if !labels.insert(saved.label.clone()) {
            saved.label = format!("{}-{number:06x}", saved.label);
            labels.insert(saved.label.clone());
        }
    }
    found
}

/// Whether a host and a stream can have it.
fn is_usable(plugin: &Plugin) -> bool {
    let sound = plugin.ports.iter().filter(|port| port.descriptor & AUDIO != 0).count();
    let one_of = |port: &PluginPort, both: u32| (port.descriptor & both).count_ones() == 1;
    plugin.ports.len() <= MOST_PORTS
        && sound <= MOST_SOUND_PORTS
        && plugin.ports.iter().all(|port| one_of(port, WAYS) && one_of(port, KINDS))
}

/// The version of the file that is read here.
const VERSION: u32 = 1;
/// A thousand plugins take about 1 MB.
const MOST_BYTES: u64 = 64 << 20;

/// The file, as `taut plugins --save` writes it.
#[derive(Debug, Deserialize)]
struct Saved {
    version: u32,
    workers: Vec<SavedWorker>,
}

/// One worker and what it had.
#[derive(Debug, Deserialize)]
pub struct SavedWorker {
    /// Where it is, `HOST:PORT`.
    pub address: String,
    /// What people call it.
    pub name: String,
    /// Its plugins when they were saved.
    pub catalogue: Catalogue,
}

/// Where the file is, if this process has a home.
pub fn place() -> Option<PathBuf> {
    cache_folder().map(|folder| folder.join("plugins.json"))
}

/// What the file says; nothing where there is none. The sentence is for people.
pub fn read(path: &Path) -> Result<Vec<SavedWorker>, String> {
    let mend = "run taut plugins --worker HOST --save";
    let refuse = |why: String| format!("reading {}: {why}; {mend}", path.display());
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(refuse(error.to_string())),
    };
    let mut text = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut text).map_err(|error| refuse(error.to_string()))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(refuse(format!("it has more than {MOST_BYTES} bytes")));
    }
    let saved: Saved = serde_json::from_slice(&text).map_err(|error| refuse(error.to_string()))?;
    if saved.version != VERSION {
        return Err(refuse(format!("it is of version {} and not {VERSION}", saved.version)));
    }
    Ok(saved.workers)
}
