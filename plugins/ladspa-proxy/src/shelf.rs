//! The plugins that hosts find here: a descriptor for each plugin of each worker, as the catalogue
//! file has them, made at the first question and there until the process ends.

use core::ffi::{c_char, c_int, c_ulong};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::sync::{Once, OnceLock};

use tautline_api::v1::{Plugin, PluginPort};
use tautline_host::ladspa::abi::{
    AUDIO, CONTROL, Data, Descriptor, Handle, INPUT, LATENCY, OUTPUT, REALTIME, RangeHint,
};

use crate::catalogue::{self, SavedWorker};
use crate::names::{PluginOrigin, numbered};
use crate::options;
use crate::pipelines::{self, Pipeline, ShelfStage};
use crate::ports::{ADDED_BITS, ADDED_HINT, PortPlan};
use crate::say::say;

/// A plugin that hosts can have.
pub(crate) struct ShelfOffer {
    pub(crate) descriptor: Descriptor,
    pub(crate) label: String,
    pub(crate) plugin: Plugin,
    /// Where its worker is, and what people call that.
    pub(crate) address: String,
    pub(crate) worker: String,
    pub(crate) ports: PortPlan,
    /// The plugins that it is made of, if it is a pipeline: each feeds the next.
    pub(crate) stages: Vec<ShelfStage>,
}

/// A stream has 256 blocks at most: one for each port of sound, one for the controls each way.
const MOST_SOUND_PORTS: usize = 254;
/// More than any plugin has; a catalogue that tells more is nonsense.
const MOST_PORTS: usize = 1024;

/// What a host calls a plugin by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostCalls {
    pub(crate) instantiate: unsafe extern "C" fn(*const Descriptor, c_ulong) -> Handle,
    pub(crate) connect_port: unsafe extern "C" fn(Handle, c_ulong, *mut Data),
    pub(crate) activate: unsafe extern "C" fn(Handle),
    pub(crate) run: unsafe extern "C" fn(Handle, c_ulong),
    pub(crate) run_adding: unsafe extern "C" fn(Handle, c_ulong),
    pub(crate) set_run_adding_gain: unsafe extern "C" fn(Handle, Data),
    pub(crate) deactivate: unsafe extern "C" fn(Handle),
    pub(crate) cleanup: unsafe extern "C" fn(Handle),
}

static OFFERS: OnceLock<Vec<ShelfOffer>> = OnceLock::new();

/// All of them, in the file's order, to be called by these.
pub(crate) fn offers(calls: &HostCalls) -> &'static [ShelfOffer] {
    OFFERS.get_or_init(|| {
        let Some(path) = catalogue::place() else { return Vec::new() };
        let workers = catalogue::read(&path).unwrap_or_else(|why| {
            say(&why);
            Vec::new()
        });
        let (pipelines, complaints) = pipelines::read(&workers);
        complaints.iter().for_each(|why| say(why));
        of(workers, pipelines, calls)
    })
}

/// Where the workers that the file knows are, by what people call them.
pub(crate) fn address_of(worker: &str) -> Option<&'static str> {
    let offers = OFFERS.get()?;
    offers.iter().find(|offer| offer.worker == worker).map(|offer| offer.address.as_str())
}

/// Says once of which plugins somebody wrote down how they are to run, and there are none.
pub(crate) fn say_options_for_nobody() {
    static SAID: Once = Once::new();
    let Some(offers) = OFFERS.get() else { return };
    let is_known = |label: &str| offers.iter().any(|offer| offer.label == label);
    SAID.call_once(|| options::for_nobody(is_known).iter().for_each(|why| say(why)));
}

/// What is made of these workers' catalogues, and of these pipelines.
fn of(workers: Vec<SavedWorker>, pipelines: Vec<Pipeline>, calls: &HostCalls) -> Vec<ShelfOffer> {
    let names: Vec<String> = workers.iter().map(|worker| worker.name.clone()).collect();
    let alike = |name: &str| names.iter().filter(|other| *other == name).count() > 1;
    let mut known = BTreeSet::new();
    let mut found = Vec::new();
    for worker in workers {
        let host = if alike(&worker.name) { &worker.address } else { &worker.name }.clone();
        for plugin in worker.catalogue.plugins {
            let origin = PluginOrigin { host: host.clone(), id: plugin.id.clone() };
            if is_usable(&plugin) && known.insert(origin.clone()) {
                found.push((
                    origin,
                    worker.address.clone(),
                    worker.name.clone(),
                    plugin,
                    Vec::new(),
                ));
            }
        }
    }
    for Pipeline { plugin, stages } in pipelines {
        let names: Vec<&str> = stages.iter().map(|stage| stage.worker.as_str()).collect();
        let origin = PluginOrigin { host: names.join("+"), id: plugin.id.clone() };
        if let Some(first) = stages.first()
            && is_usable(&plugin)
            && known.insert(origin.clone())
        {
            found.push((origin, first.address.clone(), first.worker.clone(), plugin, stages));
        }
    }
    let origins: Vec<PluginOrigin> = found.iter().map(|(origin, ..)| origin.clone()).collect();
    let mut labels = BTreeSet::new();
    let numbers = numbered(&origins);
    let all = found.into_iter().zip(numbers);
    all.map(|((origin, address, worker, plugin, stages), number)| {
        let mut label = origin.label();
        // Two ids that differ in what a label cannot have.
        if !labels.insert(label.clone()) {
            label = format!("{label}-{number:06x}");
            labels.insert(label.clone());
        }
        let named = NamedPlugin { label, number, host: origin.host };
        ShelfOffer { stages, ..offer(named, plugin, (address, worker), calls) }
    })
    .collect()
}

/// Whether a host and a stream can have it.
fn is_usable(plugin: &Plugin) -> bool {
    let sound = plugin.ports.iter().filter(|port| bits(port) & AUDIO != 0).count();
    let one_of = |port: &PluginPort, both: c_int| (bits(port) & both).count_ones() == 1;
    plugin.ports.len() <= MOST_PORTS
        && sound <= MOST_SOUND_PORTS
        && plugin
            .ports
            .iter()
            .all(|port| one_of(port, INPUT | OUTPUT) && one_of(port, AUDIO | CONTROL))
}

fn bits(port: &PluginPort) -> c_int {
    (port.descriptor & (INPUT | OUTPUT | AUDIO | CONTROL) as u32) as c_int
}

fn hint(port: &PluginPort) -> RangeHint {
    RangeHint { hints: port.hints as c_int, lower: port.lower, upper: port.upper }
}

struct NamedPlugin {
    label: String,
    number: u32,
    host: String,
}

fn offer(
    named: NamedPlugin,
    plugin: Plugin,
    (address, worker): (String, String),
    calls: &HostCalls,
) -> ShelfOffer {
    let own = plugin.ports.iter().map(|port| (bits(port), hint(port), port.name.as_str()));
    let ports = PortPlan::of(own.clone());
    let added = ports.own_latency.is_none().then_some((ADDED_BITS, ADDED_HINT, LATENCY));
    let all: Vec<_> = own.chain(added).collect();
    let descriptor = Descriptor {
        unique_id: named.number.into(),
        label: text(&named.label),
        // Buffers may be shared here, whatever the plugin says; a network is never hard real time.
        properties: plugin.properties as c_int & REALTIME,
        name: text(&format!("{} @ {}", plugin.name, named.host)),
        maker: text(&plugin.maker),
        copyright: text(if plugin.copyright.is_empty() { "None" } else { &plugin.copyright }),
        port_count: all.len() as c_ulong,
        port_descriptors: kept(all.iter().map(|(bits, ..)| *bits)),
        port_names: kept(all.iter().map(|(.., name)| text(name))),
        port_range_hints: kept(all.iter().map(|(_, hint, _)| *hint)),
        implementation_data: core::ptr::null_mut(),
        instantiate: Some(calls.instantiate),
        connect_port: Some(calls.connect_port),
        activate: Some(calls.activate),
        run: Some(calls.run),
        run_adding: Some(calls.run_adding),
        set_run_adding_gain: Some(calls.set_run_adding_gain),
        deactivate: Some(calls.deactivate),
        cleanup: Some(calls.cleanup),
    };
    let (label, stages) = (named.label, Vec::new());
    ShelfOffer { descriptor, label, plugin, address, worker, ports, stages }
}

/// A list that stays.
fn kept<T>(items: impl Iterator<Item = T>) -> *const T {
    let items: Vec<T> = items.collect();
    Box::leak(items.into_boxed_slice()).as_ptr()
}

/// A text that stays.
fn text(text: &str) -> *const c_char {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    CString::into_raw(text)
}
