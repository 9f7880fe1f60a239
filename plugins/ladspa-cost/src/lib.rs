//! A LADSPA library whose plugins take a given time, to measure the capacity of a host or a worker.
//!
//! With `Virtual` above 0 a plugin sleeps instead, so few cores can simulate many.

#![expect(unsafe_code, reason = "the ABI of a C library is offered")]

pub mod kinds;
mod waste;

use core::ffi::{CStr, c_char, c_int, c_ulong};
use core::ptr::null_mut;
use std::sync::OnceLock;

use tautline_host::ladspa::abi::{AUDIO, CONTROL, Descriptor, INPUT, OUTPUT, RangeHint};

use crate::kinds::WasteKind;
use crate::waste::{activate, cleanup, connect_port, instantiate, run};

/// Entry point of the header: the plugin with this index, or null.
#[unsafe(no_mangle)]
pub extern "C" fn ladspa_descriptor(index: c_ulong) -> *const Descriptor {
    let plugin = usize::try_from(index).ok().and_then(|index| all().get(index));
    plugin.map_or(core::ptr::null(), |plugin| plugin)
}

/// Never freed, since hosts keep pointers to them.
pub(crate) fn all() -> &'static [Descriptor] {
    static ALL: OnceLock<Vec<Descriptor>> = OnceLock::new();
    ALL.get_or_init(|| WasteKind::ALL.into_iter().map(descriptor).collect())
}

fn descriptor(kind: WasteKind) -> Descriptor {
    let sound = RangeHint { hints: 0, lower: 0.0, upper: 0.0 };
    let mut ports = vec![(AUDIO | INPUT, c"In", sound), (AUDIO | OUTPUT, c"Out", sound)];
    let controls = kind.controls().into_iter();
    ports.extend(controls.map(|port| (CONTROL | INPUT, port.name, port.range)));
    let kinds: Vec<c_int> = ports.iter().map(|(kind, _, _)| *kind).collect();
    let names: Vec<*const c_char> = ports.iter().map(|(_, name, _)| name.as_ptr()).collect();
    let hints: Vec<RangeHint> = ports.iter().map(|(_, _, hint)| *hint).collect();
    let text = CStr::as_ptr;
    Descriptor {
        unique_id: c_ulong::from(kind.unique_id()),
        label: text(kind.label()),
        properties: kind.properties(),
        name: text(kind.name()),
        maker: text(c"tautline"),
        copyright: text(c"MIT or Apache 2.0"),
        port_count: ports.len() as c_ulong,
        port_descriptors: kinds.leak().as_ptr(),
        port_names: names.leak().as_ptr(),
        port_range_hints: hints.leak().as_ptr(),
        implementation_data: null_mut(),
        instantiate: Some(instantiate),
        connect_port: Some(connect_port),
        activate: Some(activate),
        run: Some(run),
        run_adding: None,
        set_run_adding_gain: None,
        deactivate: None,
        cleanup: Some(cleanup),
    }
}
