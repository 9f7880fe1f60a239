//! Stores measured costs across starts: measuring takes up to 150 ms per stream. Per plugin file,
//! rate and processor type. Errors only cause another measurement.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tautline_api::v1::{Plugin, PluginCost};
use tempfile::NamedTempFile;

const VERSION: u32 = 1;
const MAX_BYTES: u64 = 4 << 20;
const MAX_KEPT: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct CostBook {
    path: Option<PathBuf>,
    known: BTreeMap<(String, String, u32), KnownCost>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct KnownCost {
    pub(crate) cost: PluginCost,
    /// Measured by an earlier start, perhaps on a busier machine.
    pub(crate) is_kept: bool,
}

#[derive(Serialize, Deserialize)]
struct StoredCosts {
    version: u32,
    processor: String,
    costs: Vec<StoredCost>,
}

#[derive(Serialize, Deserialize)]
struct StoredCost {
    plugin: String,
    hash: String,
    rate: u32,
    #[serde(flatten)]
    cost: PluginCost,
}

impl CostBook {
    pub(crate) fn open(path: Option<PathBuf>) -> Self {
        let known = path.as_deref().map(read).unwrap_or_default();
        Self { path, known }
    }

    pub(crate) fn of(&self, plugin: &Plugin, rate: u32) -> Option<KnownCost> {
        self.known.get(&(plugin.id.clone(), plugin.hash.clone(), rate)).copied()
    }

    pub(crate) fn of_any_rate(&self, plugin: &Plugin) -> Option<PluginCost> {
        let of = |rate| (plugin.id.clone(), plugin.hash.clone(), rate);
        self.known.range(of(0)..=of(u32::MAX)).map(|(_, known)| known.cost).next()
    }

    pub(crate) fn measured(&mut self, plugin: &Plugin, rate: u32, cost: PluginCost) {
        let key = (plugin.id.clone(), plugin.hash.clone(), rate);
        self.known.insert(key, KnownCost { cost, is_kept: false });
        if let Some(path) = &self.path {
            let _ = self.write(path);
        }
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder)?;
        let mut all = read(path);
        all.extend(self.known.iter().map(|(key, known)| (key.clone(), *known)));
        let kept = all.into_iter().take(MAX_KEPT).map(|((plugin, hash, rate), known)| StoredCost {
            plugin,
            hash,
            rate,
            cost: known.cost,
        });
        let book = StoredCosts { version: VERSION, processor: processor(), costs: kept.collect() };
        let mut file = NamedTempFile::new_in(folder)?;
        file.write_all(serde_json::to_string(&book)?.as_bytes())?;
        file.persist(path)?;
        Ok(())
    }
}

fn read(path: &Path) -> BTreeMap<(String, String, u32), KnownCost> {
    let mut text = Vec::new();
    let file = fs::File::open(path);
    let read = file.and_then(|file| file.take(MAX_BYTES).read_to_end(&mut text));
    let book: Option<StoredCosts> = read.ok().and_then(|_| serde_json::from_slice(&text).ok());
    let book = book.filter(|book| book.version == VERSION && book.processor == processor());
    let is_one = |cost: &PluginCost| [cost.fixed_ns, cost.per_frame_ns].iter().all(|ns| *ns >= 0.0);
    let costs = book.map(|book| book.costs).unwrap_or_default().into_iter();
    costs
        .filter(|kept| is_one(&kept.cost))
        .map(|StoredCost { plugin, hash, rate, cost }| {
            ((plugin, hash, rate), KnownCost { cost, is_kept: true })
        })
        .collect()
}

fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    named.map_or(std::env::consts::ARCH, |(_, name)| name.trim()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: PluginCost = PluginCost { fixed_ns: 500.0, per_frame_ns: 3.25 };

    fn plugin(hash: &str) -> Plugin {
        let text = format!(
            r#"{{"id":"cmt:lpf","file":"cmt.so","label":"lpf","unique_id":1,"name":"Low Pass","maker":"",
            "copyright":"","properties":0,"ports":[],"hash":"{hash}","cost":null}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn measured_cost_is_kept_per_plugin_and_rate() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/costs.json");
        let mut book = CostBook::open(Some(path.clone()));
        book.measured(&plugin("a"), 48_000, COST);
        let here = KnownCost { cost: COST, is_kept: false };
        assert_eq!(book.of(&plugin("a"), 48_000), Some(here));
        let again = CostBook::open(Some(path));
        assert_eq!(again.of(&plugin("a"), 48_000), Some(KnownCost { is_kept: true, ..here }));
        assert_eq!(again.of_any_rate(&plugin("a")), Some(COST));
        assert_eq!(again.of(&plugin("a"), 96_000), None);
        assert_eq!((again.of(&plugin("b"), 48_000), again.of_any_rate(&plugin("b"))), (None, None));
    }

    #[test]
    fn costs_measured_by_two_workers_are_both_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = || Some(folder.path().join("costs.json"));
        let (mut one, mut other) = (CostBook::open(path()), CostBook::open(path()));
        one.measured(&plugin("a"), 48_000, COST);
        other.measured(&plugin("b"), 48_000, COST);
        let both = CostBook::open(path());
        assert!(["a", "b"].iter().all(|hash| both.of(&plugin(hash), 48_000).is_some()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn bad_cost_file_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("costs.json");
        let mut book = CostBook::open(Some(path.clone()));
        book.measured(&plugin("a"), 48_000, COST);
        let text = fs::read_to_string(&path).unwrap();
        for wrong in [
            text.replace("\"version\":1", "\"version\":2"),
            text.replace("\"processor\":\"", "\"processor\":\"another, not "),
            text.replace("500.0", "-500.0"),
            text[..text.len() / 2].to_owned(),
            String::new(),
        ] {
            fs::write(&path, &wrong).unwrap();
            assert_eq!(
                CostBook::open(Some(path.clone())).of_any_rate(&plugin("a")),
                None,
                "{wrong}"
            );
        }
        let mut nowhere = CostBook::open(Some(path.join("costs.json")));
        nowhere.measured(&plugin("a"), 48_000, COST);
        assert!(nowhere.of(&plugin("a"), 48_000).is_some());
    }
}
