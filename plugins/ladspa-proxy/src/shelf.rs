//! Descriptors of the catalogue file's plugins, created at the first request and never freed.

use core::ffi::{c_char, c_int, c_ulong};
use std::ffi::CString;
use std::sync::{Once, OnceLock};

use tautline_api::saved::{self, PipelineStage, SavedPlugin};
use tautline_api::v1::{Plugin, PluginPort};
use tautline_host::ladspa::abi::{
    AUDIO, CONTROL, Data, Descriptor, Handle, INPUT, LATENCY, OUTPUT, REALTIME, RangeHint,
};

use crate::emit::emit;
use crate::options;
use crate::ports::{ADDED_BITS, ADDED_HINT, PortPlan};

pub(crate) struct ShelfOffer {
    pub(crate) descriptor: Descriptor,
    pub(crate) label: String,
    pub(crate) plugin: Plugin,
    pub(crate) address: String,
    pub(crate) worker: String,
    pub(crate) ports: PortPlan,
    pub(crate) stages: Vec<PipelineStage>,
}

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

pub(crate) fn offers(calls: &HostCalls) -> &'static [ShelfOffer] {
    OFFERS.get_or_init(|| {
        let Some(path) = saved::place() else { return Vec::new() };
        let workers = saved::read(&path).unwrap_or_else(|why| {
            emit(&why);
            Vec::new()
        });
        let (all, complaints) = saved::offered(workers);
        complaints.iter().for_each(|why| emit(why));
        all.into_iter().map(|saved| offer(saved, calls)).collect()
    })
}

pub(crate) fn address_of(worker: &str) -> Option<&'static str> {
    let offers = OFFERS.get()?;
    offers.iter().find(|offer| offer.worker == worker).map(|offer| offer.address.as_str())
}

pub(crate) fn say_options_for_nobody() {
    static SAID: Once = Once::new();
    let Some(offers) = OFFERS.get() else { return };
    let is_known = |label: &str| offers.iter().any(|offer| offer.label == label);
    SAID.call_once(|| options::for_nobody(is_known).iter().for_each(|why| emit(why)));
}

fn bits(port: &PluginPort) -> c_int {
    (port.descriptor & (INPUT | OUTPUT | AUDIO | CONTROL) as u32) as c_int
}

fn hint(port: &PluginPort) -> RangeHint {
    RangeHint { hints: port.hints as c_int, lower: port.lower, upper: port.upper }
}

fn offer(saved: SavedPlugin, calls: &HostCalls) -> ShelfOffer {
    let SavedPlugin { label, number, host, address, worker, plugin, stages } = saved;
    let own = plugin.ports.iter().map(|port| (bits(port), hint(port), port.name.as_str()));
    let ports = PortPlan::of(own.clone());
    let added = ports.own_latency.is_none().then_some((ADDED_BITS, ADDED_HINT, LATENCY));
    let all: Vec<_> = own.chain(added).collect();
    let descriptor = Descriptor {
        unique_id: number.into(),
        label: text(&label),
        // Shared buffers always work; a network is never hard real time.
        properties: plugin.properties as c_int & REALTIME,
        name: text(&format!("{} @ {host}", plugin.name)),
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
    ShelfOffer { descriptor, label, plugin, address, worker, ports, stages }
}

fn kept<T>(items: impl Iterator<Item = T>) -> *const T {
    let items: Vec<T> = items.collect();
    Box::leak(items.into_boxed_slice()).as_ptr()
}

fn text(text: &str) -> *const c_char {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    CString::into_raw(text)
}
