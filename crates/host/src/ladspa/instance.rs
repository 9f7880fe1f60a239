use core::ffi::{c_int, c_ulong};
use core::ptr::NonNull;
use std::path::PathBuf;
use std::sync::Arc;

use crate::ladspa::abi::{AUDIO, CONTROL, Descriptor, Handle, INPUT, OUTPUT};
use crate::ladspa::description::PluginDescription;
use crate::ladspa::library::PluginLibrary;

const MAX_LATENCY: f32 = 1_920_000.0;

/// A running plugin with separate buffers, because some fail in place. Audio and controls, inputs
/// and outputs are each numbered from 0, in port order.
#[derive(Debug)]
pub struct PluginInstance {
    handle: Handle,
    functions: Functions,
    inputs: Vec<Buffer>,
    outputs: Vec<Buffer>,
    controls: Vec<Buffer>,
    reported: Vec<Buffer>,
    latency: Option<usize>,
    max_frames: usize,
    is_active: bool,
    description: PluginDescription,
    _library: Arc<PluginLibrary>,
}

// SAFETY: the header permits use by one thread after another.
unsafe impl Send for PluginInstance {}

#[derive(Debug, Clone, Copy)]
struct Functions {
    activate: Option<unsafe extern "C" fn(Handle)>,
    run: unsafe extern "C" fn(Handle, c_ulong),
    deactivate: Option<unsafe extern "C" fn(Handle)>,
    cleanup: unsafe extern "C" fn(Handle),
}

impl Functions {
    fn of(descriptor: &Descriptor) -> Option<Self> {
        Some(Self {
            activate: descriptor.activate,
            run: descriptor.run?,
            deactivate: descriptor.deactivate,
            cleanup: descriptor.cleanup?,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InstanceError {
    #[error("{library} has no usable plugin `{label}`; `taut plugins` lists the usable ones")]
    Label { library: PathBuf, label: String },
    #[error(
        "plugin `{label}` of {library} does not start at {rate} Hz: instantiate returned null; try another rate or \
         plugin"
    )]
    Refused { library: PathBuf, label: String, rate: u32 },
}

impl PluginInstance {
    /// Creates a plugin for up to `max_frames` per run, with initial controls
    /// ([`RangeHint::first_value`](super::abi::RangeHint::first_value)).
    pub fn new(
        library: &Arc<PluginLibrary>,
        label: &str,
        rate: u32,
        max_frames: usize,
    ) -> Result<Self, InstanceError> {
        let unknown =
            || InstanceError::Label { library: library.path().to_owned(), label: label.to_owned() };
        let (descriptor, description) = library.find(label).ok_or_else(unknown)?;
        let functions = Functions::of(descriptor).ok_or_else(unknown)?;
        let (instantiate, connect) =
            descriptor.instantiate.zip(descriptor.connect_port).ok_or_else(unknown)?;
        // SAFETY: a descriptor of a loaded library, which the instance keeps loaded from here on.
        let handle = unsafe { instantiate(descriptor, c_ulong::from(rate)) };
        if handle.is_null() {
            return Err(InstanceError::Refused {
                library: library.path().to_owned(),
                label: label.to_owned(),
                rate,
            });
        }
        let description = description.clone();
        let buffers = |kind: c_int, length: usize| -> Vec<Buffer> {
            let of = |place: usize| {
                let mut buffer = Buffer::new(length);
                let first = description.ports[place].range.first_value(rate);
                let is_control = description.ports[place].kind & CONTROL != 0;
                buffer.samples_mut().fill(if is_control { first } else { 0.0 });
                // SAFETY: the instance is live, the port is one of its ports, and the memory
                // outlives it.
                unsafe { connect(handle, place as c_ulong, buffer.address()) };
                buffer
            };
            description.places(kind).map(of).collect()
        };
        let [inputs, outputs] = [INPUT, OUTPUT].map(|way| buffers(way | AUDIO, max_frames));
        let [controls, reported] = [INPUT, OUTPUT].map(|way| buffers(way | CONTROL, 1));
        let latency = description
            .places(OUTPUT | CONTROL)
            .position(|place| description.ports[place].is_latency());
        Ok(Self {
            handle,
            functions,
            inputs,
            outputs,
            controls,
            reported,
            latency,
            max_frames,
            is_active: false,
            _library: Arc::clone(library),
            description,
        })
    }

    pub const fn description(&self) -> &PluginDescription {
        &self.description
    }

    pub fn inputs(&self) -> usize {
        self.inputs.len()
    }

    pub fn outputs(&self) -> usize {
        self.outputs.len()
    }

    pub fn controls(&self) -> usize {
        self.controls.len()
    }

    pub fn reported_controls(&self) -> usize {
        self.reported.len()
    }

    pub const fn max_frames(&self) -> usize {
        self.max_frames
    }

    pub fn input_mut(&mut self, channel: usize) -> &mut [f32] {
        self.inputs[channel].samples_mut()
    }

    pub fn output(&self, channel: usize) -> &[f32] {
        self.outputs[channel].samples()
    }

    /// Sets any value: plugins must tolerate those out of range.
    pub fn set_control(&mut self, control: usize, value: f32) {
        self.controls[control].samples_mut()[0] = value;
    }

    pub fn control(&self, control: usize) -> f32 {
        self.controls[control].samples()[0]
    }

    pub fn reported(&self, control: usize) -> f32 {
        self.reported[control].samples()[0]
    }

    /// Latency in frames; 0 if missing or implausible.
    pub fn latency(&self) -> u32 {
        let reported = self.latency.map_or(0.0, |control| self.reported(control));
        if reported < MAX_LATENCY { reported.floor() as u32 } else { 0 }
    }

    pub fn activate(&mut self) {
        self.deactivate();
        if let Some(activate) = self.functions.activate {
            // SAFETY: a live instance that is not active.
            unsafe { activate(self.handle) };
        }
        self.is_active = true;
    }

    /// Runs up to [`Self::max_frames`] frames; activates first if needed.
    pub fn run(&mut self, frames: usize) {
        if !self.is_active {
            self.activate();
        }
        let frames = frames.min(self.max_frames);
        // SAFETY: a live, active instance; each port has memory for this many frames, or for a
        // value.
        unsafe { (self.functions.run)(self.handle, frames as c_ulong) };
    }

    pub fn deactivate(&mut self) {
        if !core::mem::take(&mut self.is_active) {
            return;
        }
        if let Some(deactivate) = self.functions.deactivate {
            // SAFETY: a live, active instance.
            unsafe { deactivate(self.handle) };
        }
    }
}

impl Drop for PluginInstance {
    fn drop(&mut self) {
        self.deactivate();
        // SAFETY: a live instance that is not active, with nothing of it used any more.
        unsafe { (self.functions.cleanup)(self.handle) };
    }
}

#[cfg(test)]
mod tests;

/// Samples at a fixed address, accessed by a running plugin; hold no slice meanwhile.
#[derive(Debug)]
pub(crate) struct Buffer {
    start: NonNull<f32>,
    length: usize,
}

// SAFETY: the buffer owns the memory.
unsafe impl Send for Buffer {}

impl Buffer {
    pub(crate) fn new(length: usize) -> Self {
        let whole = Box::leak(vec![0.0f32; length].into_boxed_slice());
        Self { start: NonNull::from(whole).cast(), length }
    }

    pub(crate) fn address(&self) -> *mut f32 {
        self.start.as_ptr()
    }

    pub(crate) fn samples(&self) -> &[f32] {
        // SAFETY: `start` points to `length` initialised samples, which live until `drop`. A plugin
        // writes them only during a run, which borrows its instance, the buffers' owner.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    pub(crate) fn samples_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let whole = core::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.length);
        // SAFETY: `new` leaked a box of this length. The instance with its address has ended.
        drop(unsafe { Box::from_raw(whole) });
    }
}
