//! A LADSPA library whose plugins copy their input and take a given time over it: what a host, or a
//! worker, can carry is measured with them.
//!
//! Each has an input and an output of sound, the time in microseconds that a run takes, and a switch:
//! with `Virtual` above 0 it sleeps until that time is over instead of working, so that a machine
//! with few cores can stand for many. `kinds` says what they are, `table` tells it as LADSPA wants it,
//! `waste` is one of them at work.

#![expect(unsafe_code, reason = "the ABI of a C library is offered")]

pub mod kinds;
mod table;
mod waste;

use core::ffi::c_ulong;

use tautline_host::ladspa::abi::Descriptor;

/// The library's entry, `ladspa_descriptor` of the header: its plugins, from 0 on, and null after the
/// last.
#[unsafe(no_mangle)]
pub extern "C" fn ladspa_descriptor(index: c_ulong) -> *const Descriptor {
    let plugin = usize::try_from(index).ok().and_then(|index| table::all().get(index));
    plugin.map_or(core::ptr::null(), |plugin| plugin)
}
