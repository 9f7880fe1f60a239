//! What a worker offers.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

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
