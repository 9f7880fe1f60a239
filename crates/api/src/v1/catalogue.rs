//! Plugins that a worker offers.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tautline_proto::text::{is_printable, printable};

use super::VERSION;

/// Maximum number of plugins per worker.
pub const MAX_PLUGINS: usize = 8192;
/// Maximum ports per plugin. Each adds a block or a value to an iteration.
const MAX_PORTS: usize = 1024;
/// Maximum number of characters in a text.
pub const MAX_TEXT: usize = 1024;

/// `GET /v1/catalogue`: all plugins that a worker offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Catalogue {
    /// [`VERSION`](super::VERSION).
    pub version: u32,
    /// Name of the worker's host.
    pub worker: String,
    /// Plugins in the order of discovery.
    pub plugins: Vec<Plugin>,
}

impl Catalogue {
    /// Removes invalid plugins. Returns the faults of the plugins, or an error if the catalogue
    /// itself is invalid.
    pub fn check(&mut self) -> Result<Vec<String>, String> {
        if self.version != VERSION {
            return Err(format!("its plugin list has version {}, not {VERSION}", self.version));
        }
        if self.plugins.len() > MAX_PLUGINS {
            return Err(format!(
                "it lists {} plugins; the maximum is {MAX_PLUGINS}",
                self.plugins.len()
            ));
        }
        text("the worker's name", &self.worker)?;
        let (mut known, mut wrong) = (BTreeSet::new(), Vec::new());
        self.plugins.retain(|plugin| {
            let odd = match plugin.check() {
                Ok(()) if known.insert(plugin.id.clone()) => return true,
                Ok(()) => format!("two plugins have the id {:?}", plugin.id),
                Err(odd) => odd,
            };
            wrong.push(printable(&odd, MAX_TEXT));
            false
        });
        Ok(wrong)
    }
}

pub(super) fn shown<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    String::deserialize(from).map(|text| printable(&text, MAX_TEXT))
}

pub(super) fn shown_if_any<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    Ok(text.map(|text| printable(&text, MAX_TEXT)))
}

/// Unfit for terminals.
fn text(what: &str, text: &str) -> Result<(), String> {
    let long = text.chars().count() > MAX_TEXT;
    if long || !text.chars().all(is_printable) {
        let begins: String = text.chars().take(40).collect();
        let why = if long { "is too long" } else { "has unprintable characters" };
        return Err(format!("{what} {why}: {begins:?}…"));
    }
    Ok(())
}

/// A plugin, or a chain of plugins offered as one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plugin {
    /// `FILE:LABEL`, or the name of a chain.
    pub id: String,
    /// File name without directories; for a chain the name of its description file.
    pub file: String,
    /// LADSPA label: one word.
    pub label: String,
    /// LADSPA unique id.
    pub unique_id: u32,
    /// Display name.
    pub name: String,
    /// Author.
    pub maker: String,
    /// Licence.
    pub copyright: String,
    /// Bits of `LADSPA_Properties`.
    pub properties: u32,
    /// Ports in LADSPA's order.
    pub ports: Vec<PluginPort>,
    /// Hexadecimal hash: a request with it matches only that library.
    pub hash: String,
    /// Cost of a run, if measured.
    #[serde(default)]
    pub cost: Option<PluginCost>,
}

impl Plugin {
    /// Older versions reject a catalogue with any invalid plugin.
    pub fn check(&self) -> Result<(), String> {
        let Self { id, label, ports, .. } = self;
        text("a plugin's id", id)?;
        if id.is_empty() || label.is_empty() || label.contains(char::is_whitespace) {
            return Err(format!("{id:?} has the label {label:?}, which is not one word"));
        }
        if ports.len() > MAX_PORTS {
            return Err(format!("{id:?} has {} ports: the maximum is {MAX_PORTS}", ports.len()));
        }
        let texts = [&self.file, label, &self.name, &self.maker, &self.copyright, &self.hash];
        let texts = texts.into_iter().chain(ports.iter().map(|port| &port.name));
        for other in texts {
            text(id, other)?;
        }
        match ports.iter().find(|port| !port.has_one_kind()) {
            Some(port) => Err(format!("port {:?} of {id:?} has an invalid kind", port.name)),
            None => Ok(()),
        }
    }
}

/// A port of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PluginPort {
    /// Display name.
    pub name: String,
    /// Bits of `LADSPA_PortDescriptor`.
    pub descriptor: u32,
    /// Bits of `LADSPA_PortRangeHintDescriptor`.
    pub hints: u32,
    /// Lower bound, if the hints indicate one.
    #[serde(serialize_with = "finite", deserialize_with = "or_zero")]
    pub lower: f32,
    /// Upper bound, if the hints indicate one.
    #[serde(serialize_with = "finite", deserialize_with = "or_zero")]
    pub upper: f32,
}

impl PluginPort {
    const fn has_one_kind(&self) -> bool {
        matches!(self.descriptor & 0xF, 5 | 6 | 9 | 10)
    }
}

/// A + B·N nanoseconds for N frames.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PluginCost {
    /// A, in nanoseconds.
    pub fixed_ns: f64,
    /// B, in nanoseconds per frame.
    pub per_frame_ns: f64,
}

/// JSON has no infinities: no bound.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it by reference")]
fn finite<S: Serializer>(bound: &f32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f32(if bound.is_finite() { *bound } else { 0.0 })
}

/// For workers of other implementations.
fn or_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f32, D::Error> {
    let bound = Option::<f32>::deserialize(deserializer)?;
    Ok(bound.filter(|bound| bound.is_finite()).unwrap_or(0.0))
}
