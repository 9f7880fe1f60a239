//! Functions called by hosts. No panic gets out: the instance then passes its input through.

use core::ffi::{c_ulong, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tautline_host::ladspa::abi::{Data, Descriptor, Handle};

use crate::instance::{HostRun, Instance};
use crate::shelf::{HostCalls, offers};

const CALLS: HostCalls = HostCalls {
    instantiate,
    connect_port,
    activate,
    run,
    run_adding,
    set_run_adding_gain,
    deactivate,
    cleanup,
};

#[unsafe(no_mangle)]
pub extern "C" fn ladspa_descriptor(index: c_ulong) -> *const Descriptor {
    let offer = catch_unwind(|| offers(&CALLS).get(usize::try_from(index).ok()?));
    offer.ok().flatten().map_or(core::ptr::null(), |offer| &raw const offer.descriptor)
}

unsafe extern "C" fn instantiate(descriptor: *const Descriptor, rate: c_ulong) -> Handle {
    // SAFETY: the host passes our descriptor or its own copy.
    let Some(descriptor) = (unsafe { descriptor.as_ref() }) else { return core::ptr::null_mut() };
    let number = descriptor.unique_id;
    let made = catch_unwind(|| {
        let offer = offers(&CALLS).iter().find(|offer| offer.descriptor.unique_id == number)?;
        let rate = u32::try_from(rate).ok().filter(|rate| *rate > 0)?;
        Some(Box::new(Instance::new(offer, rate)))
    });
    let made = made.ok().flatten();
    made.map_or(core::ptr::null_mut(), |instance| Box::into_raw(instance).cast::<c_void>())
}

/// A panic marks the instance as broken.
///
/// # Safety
/// `handle` is null or a live result of [`instantiate`], without concurrent calls, as ladspa.h
/// promises.
unsafe fn with(handle: Handle, act: impl FnOnce(&mut Instance)) {
    // SAFETY: the caller guarantees this.
    let Some(instance) = (unsafe { handle.cast::<Instance>().as_mut() }) else { return };
    let acted = catch_unwind(AssertUnwindSafe(|| act(&mut *instance)));
    if acted.is_err() {
        instance.set_broken();
    }
}

unsafe extern "C" fn connect_port(handle: Handle, port: c_ulong, place: *mut Data) {
    let Ok(port) = usize::try_from(port) else { return };
    // SAFETY: the host calls this with a live handle.
    unsafe { with(handle, |instance| instance.connect(port, place)) }
}

unsafe extern "C" fn activate(handle: Handle) {
    // SAFETY: the host calls this with a live handle.
    unsafe { with(handle, Instance::activate) }
}

unsafe extern "C" fn run(handle: Handle, frames: c_ulong) {
    // SAFETY: the host has connected ports to memory of `frames` samples.
    unsafe { with(handle, |instance| instance.run(frames as usize, HostRun::Replacing)) }
}

unsafe extern "C" fn run_adding(handle: Handle, frames: c_ulong) {
    // SAFETY: the host has connected ports to memory of `frames` samples.
    unsafe { with(handle, |instance| instance.run(frames as usize, HostRun::Adding)) }
}

unsafe extern "C" fn set_run_adding_gain(handle: Handle, gain: Data) {
    // SAFETY: the host calls this with a live handle.
    unsafe { with(handle, |instance| instance.set_gain(gain)) }
}

unsafe extern "C" fn deactivate(handle: Handle) {
    // SAFETY: the host calls this with a live handle.
    unsafe { with(handle, Instance::deactivate) }
}

unsafe extern "C" fn cleanup(handle: Handle) {
    if handle.is_null() {
        return;
    }
    // SAFETY: the host calls this with a live handle.
    unsafe { with(handle, Instance::end) };
    // SAFETY: `instantiate` made the handle from a box, which the host no longer uses.
    let instance = unsafe { Box::from_raw(handle.cast::<Instance>()) };
    if instance.is_ours() {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(instance)));
    } else {
        // In a fork: its threads are missing.
        core::mem::forget(instance);
    }
}
