//! What a worker offers.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tautline_proto::text::{is_printable, printable};

use super::VERSION;

/// Plugins of one worker at most.
pub const MOST_PLUGINS: usize = 8192;
/// Ports of one plugin: a block of each goes with an iteration, or a value.
const MOST_PORTS: usize = 1024;
/// Characters of a text at most.
pub const MOST_TEXT: usize = 1024;

/// `GET /v1/catalogue`: every plugin that a worker offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Catalogue {
    /// [`VERSION`](super::VERSION).
    pub version: u32,
    /// The worker's host, as it calls itself.
    pub worker: String,
    /// In the order in which they were found.
    pub plugins: Vec<Plugin>,
}

impl Catalogue {
    /// Whether it can be true: what comes from another host may say anything. What is wrong with it
    /// otherwise; of the plugins that cannot be true, which are left out, what is wrong with each.
    pub fn check(&mut self) -> Result<Vec<String>, String> {
        if self.version != VERSION {
            return Err(format!("a catalogue of version {}", self.version));
        }
        if self.plugins.len() > MOST_PLUGINS {
            return Err(format!("{} plugins, and {MOST_PLUGINS} are the most", self.plugins.len()));
        }
        text("the worker's name", &self.worker)?;
        let (mut known, mut wrong) = (BTreeSet::new(), Vec::new());
        self.plugins.retain(|plugin| {
            let odd = match plugin.check() {
                Ok(()) if known.insert(plugin.id.clone()) => return true,
                Ok(()) => format!("two plugins are {:?}", plugin.id),
                Err(odd) => odd,
            };
            wrong.push(printable(&odd, MOST_TEXT));
            false
        });
        Ok(wrong)
    }
}

/// Reads text that a peer wrote for people.
pub(super) fn shown<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    String::deserialize(from).map(|text| printable(&text, MOST_TEXT))
}

pub(super) fn shown_if_any<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    Ok(text.map(|text| printable(&text, MOST_TEXT)))
}

/// Nothing that a terminal or a host would stumble over.
fn text(what: &str, text: &str) -> Result<(), String> {
    let long = text.chars().count() > MOST_TEXT;
    if long || !text.chars().all(is_printable) {
        let begins: String = text.chars().take(40).collect();
        let why = if long { "is too long" } else { "has characters that cannot be shown" };
        return Err(format!("{what} {why}: {begins:?}…"));
    }
    Ok(())
}

/// A plugin, or a chain of plugins that is offered as one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plugin {
    /// What it is asked for by, the same as long as the library keeps its name: `FILE:LABEL`, or the name
    /// of the chain.
    pub id: String,
    /// The library's file name, without its folders; that of the description of a chain.
    pub file: String,
    /// LADSPA's label: one word.
    pub label: String,
    /// LADSPA's unique id.
    pub unique_id: u32,
    /// For people.
    pub name: String,
    /// Who made it.
    pub maker: String,
    /// Under which terms.
    pub copyright: String,
    /// The bits of `LADSPA_Properties`.
    pub properties: u32,
    /// In LADSPA's order.
    pub ports: Vec<PluginPort>,
    /// Of the library's bytes, in hexadecimal: whoever asks for a plugin by it gets no other.
    pub hash: String,
    /// What a run takes, if it was measured.
    #[serde(default)]
    pub cost: Option<PluginCost>,
}

impl Plugin {
    /// The same of one of them. An older taut refuses a whole catalogue for one that fails, so a worker offers none.
    pub fn check(&self) -> Result<(), String> {
        let Self { id, label, ports, .. } = self;
        text("a plugin's id", id)?;
        if id.is_empty() || label.is_empty() || label.contains(char::is_whitespace) {
            return Err(format!("{id:?} has the label {label:?}, which is no word"));
        }
        if ports.len() > MOST_PORTS {
            return Err(format!("{id:?} has {} ports, and {MOST_PORTS} are the most", ports.len()));
        }
        let texts = [&self.file, label, &self.name, &self.maker, &self.copyright, &self.hash];
        let texts = texts.into_iter().chain(ports.iter().map(|port| &port.name));
        for other in texts {
            text(id, other)?;
        }
        match ports.iter().find(|port| !port.has_one_kind()) {
            Some(port) => Err(format!("port {:?} of {id:?} is of no kind", port.name)),
            None => Ok(()),
        }
    }
}

/// A port of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PluginPort {
    /// For people.
    pub name: String,
    /// The bits of `LADSPA_PortDescriptor`.
    pub descriptor: u32,
    /// The bits of `LADSPA_PortRangeHintDescriptor`.
    pub hints: u32,
    /// The lower bound, where the hints say that there is one.
    #[serde(serialize_with = "finite", deserialize_with = "or_zero")]
    pub lower: f32,
    /// The upper bound, where the hints say that there is one.
    #[serde(serialize_with = "finite", deserialize_with = "or_zero")]
    pub upper: f32,
}

impl PluginPort {
    /// Input or output, of control values or of sound (`LADSPA_PORT_INPUT` 1, `OUTPUT` 2, `CONTROL` 4,
    /// `AUDIO` 8).
    const fn has_one_kind(&self) -> bool {
        matches!(self.descriptor & 0xF, 5 | 6 | 9 | 10)
    }
}

/// What a run takes: A + B·N nanoseconds for N frames, as the LADSPA header asks of plugins that are fit
/// for real time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PluginCost {
    /// A, in nanoseconds.
    pub fixed_ns: f64,
    /// B, in nanoseconds for each frame.
    pub per_frame_ns: f64,
}

/// JSON has no infinities and nothing that is no number: a bound that is one bounds nothing.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it by reference")]
fn finite<S: Serializer>(bound: &f32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f32(if bound.is_finite() { *bound } else { 0.0 })
}

/// Of other people's workers, too.
fn or_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f32, D::Error> {
    let bound = Option::<f32>::deserialize(deserializer)?;
    Ok(bound.filter(|bound| bound.is_finite()).unwrap_or(0.0))
}
