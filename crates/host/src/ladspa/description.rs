//! A library's description of its plugins; untrusted.

use core::ffi::{CStr, c_char, c_int};

use serde::{Deserialize, Serialize};
use tautline_api::v1::MAX_TEXT;
use tautline_proto::text::{is_printable, printable};

use super::abi::{
    AUDIO, BOUNDED_ABOVE, BOUNDED_BELOW, CONTROL, Descriptor, INPUT, LATENCY, OUTPUT, RangeHint,
    UNIQUE_IDS,
};

pub const MAX_PORTS: usize = 1024;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PortDescription {
    pub name: String,
    pub kind: c_int,
    pub range: RangeHint,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PluginDescription {
    pub label: String,
    pub unique_id: u32,
    pub name: String,
    pub maker: String,
    pub copyright: String,
    pub properties: c_int,
    pub ports: Vec<PortDescription>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDescription {
    #[error(
        "invalid label {0:?}: it must not have whitespace or control characters; use another plugin"
    )]
    Label(String),
    #[error("invalid unique id {0}: must be below {UNIQUE_IDS}; use another plugin")]
    UniqueId(u64),
    #[error("it has {0} ports, more than the maximum of {MAX_PORTS}; use another plugin")]
    Ports(u64),
    #[error("it has {0} ports, but describes none; use another plugin")]
    NoPorts(u64),
    #[error(
        "port {0} has kind {1:#x}: must be an input or an output, audio or control; use another plugin"
    )]
    Kind(usize, c_int),
    #[error("it has no function `{0}`; use another plugin")]
    Function(&'static str),
}

impl PortDescription {
    pub const fn is_audio(&self) -> bool {
        self.kind & AUDIO != 0
    }

    pub const fn is_input(&self) -> bool {
        self.kind & INPUT != 0
    }

    pub fn is_latency(&self) -> bool {
        self.kind == CONTROL | OUTPUT && self.name == LATENCY
    }
}

impl PluginDescription {
    /// # Safety
    ///
    /// `descriptor` is from a loaded library, its pointers as in the header.
    pub(crate) unsafe fn read(descriptor: &Descriptor) -> Result<Self, InvalidDescription> {
        // SAFETY: `start` is null or a string, per the header.
        let text = |start| unsafe { text_at(start) };
        // Requests use the label: unchanged or rejected.
        let label = text(descriptor.label);
        if label.is_empty() || label.contains(|c: char| c.is_whitespace() || !is_printable(c)) {
            return Err(InvalidDescription::Label(label));
        }
        let unique_id = u32::try_from(descriptor.unique_id).ok().filter(|id| *id < UNIQUE_IDS);
        let lacks = [
            (descriptor.instantiate.is_none(), "instantiate"),
            (descriptor.connect_port.is_none(), "connect_port"),
            (descriptor.run.is_none(), "run"),
            (descriptor.cleanup.is_none(), "cleanup"),
        ];
        if let Some((_, name)) = lacks.into_iter().find(|(missing, _)| *missing) {
            return Err(InvalidDescription::Function(name));
        }
        Ok(Self {
            unique_id: unique_id.ok_or(InvalidDescription::UniqueId(descriptor.unique_id))?,
            name: shown(&text(descriptor.name)),
            maker: shown(&text(descriptor.maker)),
            copyright: shown(&text(descriptor.copyright)),
            properties: descriptor.properties,
            // SAFETY: the caller guarantees the lists.
            ports: unsafe { ports(descriptor) }?,
            label,
        })
    }

    pub fn places(&self, kind: c_int) -> impl Iterator<Item = usize> {
        let kinds = self.ports.iter().map(|port| port.kind).enumerate();
        kinds.filter(move |(_, of)| *of == kind).map(|(place, _)| place)
    }
}

/// # Safety
///
/// Lists are null or have one entry per port.
unsafe fn ports(descriptor: &Descriptor) -> Result<Vec<PortDescription>, InvalidDescription> {
    let reported = descriptor.port_count;
    let count = usize::try_from(reported).ok().filter(|count| *count <= MAX_PORTS);
    let count = count.ok_or(InvalidDescription::Ports(reported))?;
    let lists = (descriptor.port_descriptors, descriptor.port_names, descriptor.port_range_hints);
    if count > 0 && (lists.0.is_null() || lists.1.is_null() || lists.2.is_null()) {
        return Err(InvalidDescription::NoPorts(reported));
    }
    let port = |place: usize| {
        // SAFETY: within lists of `count` entries, which exist.
        let (kind, name, range) =
            unsafe { (*lists.0.add(place), *lists.1.add(place), *lists.2.add(place)) };
        let one_of = |bits: c_int| (kind & bits).count_ones() == 1;
        if !one_of(INPUT | OUTPUT) || !one_of(CONTROL | AUDIO) {
            return Err(InvalidDescription::Kind(place, kind));
        }
        // SAFETY: `name` is null or a string, per the header.
        let name = shown(&unsafe { text_at(name) });
        let kind = kind & (INPUT | OUTPUT | CONTROL | AUDIO);
        Ok(PortDescription { name, kind, range: with_real_bounds(range) })
    };
    (0..count).map(port).collect()
}

fn with_real_bounds(RangeHint { hints, lower, upper }: RangeHint) -> RangeHint {
    let (below, above) = (lower.is_finite(), upper.is_finite());
    let lost = if below { 0 } else { BOUNDED_BELOW } | if above { 0 } else { BOUNDED_ABOVE };
    let real = |is_real, bound| if is_real { bound } else { 0.0 };
    RangeHint { hints: hints & !lost, lower: real(below, lower), upper: real(above, upper) }
}

pub(crate) fn shown(text: &str) -> String {
    printable(text, MAX_TEXT)
}

/// # Safety
///
/// Null or NUL-terminated.
unsafe fn text_at(start: *const c_char) -> String {
    if start.is_null() {
        return String::new();
    }
    // SAFETY: a string, as the caller guarantees.
    unsafe { CStr::from_ptr(start) }.to_string_lossy().into_owned()
}
