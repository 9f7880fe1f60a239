//! A worker's plugins and the user's combinations.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use tautline_api::v1::{MAX_PLUGINS, Plugin, PluginPort};

use crate::chain::{ChainFile, ChainFileError, Outline, Recipe};
use crate::ladspa::description::{PluginDescription, PortDescription, shown};
use crate::scan::{Scan, ScannedLibrary, Skipped, hash_of, hex};

#[derive(Debug, Clone, PartialEq, Default)]
pub struct PluginOffers {
    offers: Vec<OfferedPlugin>,
    skipped: Vec<Skipped>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct OfferedPlugin {
    pub plugin: Plugin,
    pub recipe: Recipe,
    pub ports: PortCounts,
    libraries: Vec<(PathBuf, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCounts {
    pub inputs: usize,
    pub outputs: usize,
    pub controls: usize,
    pub reported: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    Missing,
    Changed,
}

impl PluginOffers {
    pub fn new(scan: &Scan, chains: Option<&ChainFile>) -> Result<Self, ChainFileError> {
        let mut made = Self { offers: Vec::new(), skipped: scan.skipped.clone() };
        for library in &scan.libraries {
            let mut known = BTreeSet::new();
            for plugin in &library.plugins {
                if known.insert(&plugin.label) {
                    made.offer(of_library(library, plugin), &library.path);
                } else {
                    let label = &plugin.label;
                    let why = format!(
                        "it has two plugins with the label `{label}`; only the first is usable"
                    );
                    made.skipped.push(Skipped { path: library.path.clone(), why });
                }
            }
        }
        if let Some(file) = chains {
            let plugin = |name: &str| {
                let (library, description) = find(scan, name)?;
                Some(Outline::of(&library.path, description))
            };
            let outlines = file.outlines(&plugin)?;
            for outline in &outlines {
                made.offer(of_chain(scan, file, outline), &file.path);
            }
        }
        Ok(made)
    }

    /// Skips plugins for which masters would reject the whole catalogue.
    fn offer(&mut self, offered: OfferedPlugin, path: &Path) {
        let id = &offered.plugin.id;
        let why = match offered.plugin.check() {
            Err(what) => format!("masters would reject it: {what}; use another plugin"),
            Ok(()) if self.offers.iter().any(|before| before.plugin.id == *id) => {
                format!("another file also has a plugin `{id}`; rename one of the files")
            }
            Ok(()) if self.offers.len() >= MAX_PLUGINS => {
                format!("a worker offers at most {MAX_PLUGINS} plugins; reduce LADSPA_PATH")
            }
            Ok(()) => return self.offers.push(offered),
        };
        self.skipped.push(Skipped { path: path.to_owned(), why });
    }

    pub fn all(&self) -> &[OfferedPlugin] {
        &self.offers
    }

    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Finds `FILE:LABEL`, with or without `.so`, or a chain.
    pub fn find(&self, id: &str) -> Option<&OfferedPlugin> {
        let plain = without_ending(id);
        self.offers
            .iter()
            .find(|offer| offer.plugin.id == id || Some(&offer.plugin.id) == plain.as_ref())
    }
}

impl OfferedPlugin {
    pub fn check(&self) -> Result<(), Gone> {
        for (path, hash) in &self.libraries {
            match hash_of(path) {
                Ok(now) if now == *hash => {}
                Ok(_) => return Err(Gone::Changed),
                Err(_) => return Err(Gone::Missing),
            }
        }
        Ok(())
    }
}

fn without_ending(id: &str) -> Option<String> {
    let (file, label) = id.split_once(':')?;
    Some(format!("{}:{label}", file.strip_suffix(".so")?))
}

fn find<'a>(scan: &'a Scan, name: &str) -> Option<(&'a ScannedLibrary, &'a PluginDescription)> {
    let (file, label) = name.split_once(':')?;
    let file = file.strip_suffix(".so").unwrap_or(file);
    let library = scan.libraries.iter().find(|library| library.file == file)?;
    Some((library, library.plugins.iter().find(|plugin| plugin.label == label)?))
}

fn of_library(library: &ScannedLibrary, plugin: &PluginDescription) -> OfferedPlugin {
    let outline = Outline::of(&library.path, plugin);
    let file = library.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    OfferedPlugin {
        plugin: Plugin {
            id: format!("{}:{}", library.file, plugin.label),
            file,
            label: plugin.label.clone(),
            unique_id: plugin.unique_id,
            name: plugin.name.clone(),
            maker: plugin.maker.clone(),
            copyright: plugin.copyright.clone(),
            properties: plugin.properties as u32,
            ports: plugin.ports.iter().map(reported).collect(),
            hash: library.hash.clone(),
            cost: None,
        },
        ports: PortCounts::of(&outline),
        recipe: outline.recipe,
        libraries: vec![(library.path.clone(), library.hash.clone())],
    }
}

fn of_chain(scan: &Scan, file: &ChainFile, outline: &Outline) -> OfferedPlugin {
    let ports = [&outline.inputs, &outline.controls, &outline.outputs, &outline.reported];
    let libraries: BTreeSet<_> = outline.recipe.libraries().into_iter().collect();
    let hashed = |path: &&PathBuf| {
        let library = scan.libraries.iter().find(|library| library.path == **path);
        ((*path).clone(), library.map_or_else(String::new, |library| library.hash.clone()))
    };
    let libraries: Vec<_> = libraries.iter().map(hashed).collect();
    OfferedPlugin {
        plugin: Plugin {
            id: outline.label.clone(),
            file: file.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            label: outline.label.clone(),
            unique_id: 0,
            name: outline.label.clone(),
            maker: String::new(),
            copyright: String::new(),
            properties: outline.properties as u32,
            ports: ports.into_iter().flatten().map(reported).collect(),
            hash: hash_of_chain(outline, &libraries),
            cost: None,
        },
        recipe: outline.recipe.clone(),
        ports: PortCounts::of(outline),
        libraries,
    }
}

fn hash_of_chain(outline: &Outline, libraries: &[(PathBuf, String)]) -> String {
    let mut context = Context::new(&SHA256);
    let mut add = |text: &str| context.update(text.as_bytes());
    shape(&outline.recipe, libraries, &mut add);
    hex(context.finish().as_ref())
}

fn shape(recipe: &Recipe, libraries: &[(PathBuf, String)], add: &mut dyn FnMut(&str)) {
    let mut all = |word: &str, members: &[Recipe]| {
        add(word);
        members.iter().for_each(|member| shape(member, libraries, add));
        add(")");
    };
    match recipe {
        Recipe::Plugin { path, label } => {
            let hash = libraries.iter().find(|(of, _)| of == path).map_or("", |(_, hash)| hash);
            [hash, ":", label, " "].into_iter().for_each(add);
        }
        Recipe::Chain(members) => all("chain(", members),
        Recipe::Parallel(members) => all("parallel(", members),
        Recipe::Copies { of, times } => all(&format!("{times}("), std::slice::from_ref(of)),
    }
}

impl PortCounts {
    fn of(outline: &Outline) -> Self {
        Self {
            inputs: outline.inputs.len(),
            outputs: outline.outputs.len(),
            controls: outline.controls.len(),
            reported: outline.reported.len(),
        }
    }
}

fn reported(port: &PortDescription) -> PluginPort {
    PluginPort {
        name: shown(&port.name),
        descriptor: port.kind as u32,
        hints: port.range.hints as u32,
        lower: port.range.lower,
        upper: port.range.upper,
    }
}
