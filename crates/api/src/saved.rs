//! Catalogues stored by `taut plugins --save`, which `tautline.so` offers.

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

/// Maximum sound ports: 256 blocks minus one for the controls of each direction.
const MAX_SOUND_PORTS: usize = 254;
const MAX_PORTS: usize = 1024;
const WAYS: u32 = 1 | 2;
const KINDS: u32 = 4 | 8;
const AUDIO: u32 = 8;

/// A plugin or pipeline that hosts find in `tautline.so`.
#[derive(Debug, Clone)]
pub struct SavedPlugin {
    /// LADSPA label.
    pub label: String,
    /// LADSPA unique id.
    pub number: u32,
    /// Worker as in the label; for a pipeline all workers.
    pub host: String,
    /// Worker's address; for a pipeline the address of its first worker.
    pub address: String,
    /// Name of that worker.
    pub worker: String,
    /// Description from the worker.
    pub plugin: Plugin,
    /// Plugins of a pipeline.
    pub stages: Vec<PipelineStage>,
}

/// Plugins in the order shown, and an error message for each invalid pipeline.
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
        // Two ids can differ only in characters that a label cannot have.
        if !labels.insert(saved.label.clone()) {
            saved.label = format!("{}-{number:06x}", saved.label);
            labels.insert(saved.label.clone());
        }
    }
    found
}

fn is_usable(plugin: &Plugin) -> bool {
    let sound = plugin.ports.iter().filter(|port| port.descriptor & AUDIO != 0).count();
    let one_of = |port: &PluginPort, both: u32| (port.descriptor & both).count_ones() == 1;
    plugin.ports.len() <= MAX_PORTS
        && sound <= MAX_SOUND_PORTS
        && plugin.ports.iter().all(|port| one_of(port, WAYS) && one_of(port, KINDS))
}

const VERSION: u32 = 1;
/// Maximum size of the file. A thousand plugins take about 1 MB.
const MAX_BYTES: u64 = 64 << 20;

#[derive(Debug, Deserialize)]
struct Saved {
    version: u32,
    workers: Vec<SavedWorker>,
}

/// A worker with its catalogue.
#[derive(Debug, Deserialize)]
pub struct SavedWorker {
    /// Address, `HOST:PORT`.
    pub address: String,
    /// Display name.
    pub name: String,
    /// Plugins of the worker at the time of saving.
    pub catalogue: Catalogue,
}

/// `None` without a home.
pub fn place() -> Option<PathBuf> {
    cache_folder().map(|folder| folder.join("plugins.json"))
}

/// Parses the file; empty if it is missing.
pub fn read(path: &Path) -> Result<Vec<SavedWorker>, String> {
    let hint = "run taut plugins --worker HOST --save";
    let refuse = |why: String| format!("reading {}: {why}; {hint}", path.display());
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(refuse(error.to_string())),
    };
    let mut text = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(|error| refuse(error.to_string()))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(refuse(format!("it has more than {MAX_BYTES} bytes")));
    }
    let saved: Saved = serde_json::from_slice(&text).map_err(|error| refuse(error.to_string()))?;
    if saved.version != VERSION {
        return Err(refuse(format!("it is of version {} and not {VERSION}", saved.version)));
    }
    Ok(saved.workers)
}
