//! One plugin that runs in this process, with buffers of its own.

use core::ffi::{c_int, c_ulong};
use std::path::PathBuf;
use std::sync::Arc;

use super::abi::{AUDIO, CONTROL, Descriptor, Handle, INPUT, OUTPUT};
use super::buffer::Buffer;
use super::description::PluginDescription;
use super::library::PluginLibrary;

/// Frames: ten seconds at 192 kHz. What says that it lags by more says nonsense.
const MOST_LATENCY: f32 = 1_920_000.0;

/// A plugin at work. Its ports are connected for good to buffers that it has here, one for each, so
/// that a plugin which fails where an input is also an output runs as any other.
///
/// Sound and controls are counted apart, inputs and outputs too, each from 0 in the order of the
/// plugin's ports.
#[derive(Debug)]
pub struct PluginInstance {
    handle: Handle,
    functions: Functions,
    inputs: Vec<Buffer>,
    outputs: Vec<Buffer>,
    controls: Vec<Buffer>,
    told: Vec<Buffer>,
    /// Which of `told` is the plugin's latency.
    latency: Option<usize>,
    most_frames: usize,
    is_active: bool,
    description: PluginDescription,
    _library: Arc<PluginLibrary>,
}

// SAFETY: by the header an instance may be used by one thread after another.
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

/// Why a plugin does not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InstanceError {
    /// The library has none of this label, or none that can be used.
    #[error(
        "{library} has no plugin `{label}` that can be used; `taut plugins` lists what there is"
    )]
    Label {
        library: PathBuf,
        /// What was asked for.
        label: String,
    },
    #[error(
        "plugin `{label}` of {library} would not begin at {rate} Hz: it answered nothing; try another \
         rate, or another plugin"
    )]
    Refused {
        library: PathBuf,
        /// What was asked for.
        label: String,
        rate: u32,
    },
}

impl PluginInstance {
    /// A plugin at `rate` frames per second, which will be asked for `most_frames` at once at most.
    /// Controls have their first values ([`RangeHint::first_value`](super::abi::RangeHint::first_value)).
    pub fn new(
        library: &Arc<PluginLibrary>,
        label: &str,
        rate: u32,
        most_frames: usize,
    ) -> Result<Self, InstanceError> {
        let unknown =
            || InstanceError::Label { library: library.path().to_owned(), label: label.to_owned() };
        let (descriptor, description) = library.find(label).ok_or_else(unknown)?;
        let functions = Functions::of(descriptor).ok_or_else(unknown)?;
        let (instantiate, connect) =
            descriptor.instantiate.zip(descriptor.connect_port).ok_or_else(unknown)?;
        // SAFETY: a descriptor of a library that is loaded, which the instance holds from here on.
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
                // SAFETY: a live instance, one of its ports, and memory that outlasts it.
                unsafe { connect(handle, place as c_ulong, buffer.address()) };
                buffer
            };
            description.places(kind).map(of).collect()
        };
        let [inputs, outputs] = [INPUT, OUTPUT].map(|way| buffers(way | AUDIO, most_frames));
        let [controls, told] = [INPUT, OUTPUT].map(|way| buffers(way | CONTROL, 1));
        let latency = description
            .places(OUTPUT | CONTROL)
            .position(|place| description.ports[place].is_latency());
        Ok(Self {
            handle,
            functions,
            inputs,
            outputs,
            controls,
            told,
            latency,
            most_frames,
            is_active: false,
            _library: Arc::clone(library),
            description,
        })
    }

    /// What its library says of it.
    pub const fn description(&self) -> &PluginDescription {
        &self.description
    }

    pub fn inputs(&self) -> usize {
        self.inputs.len()
    }

    pub fn outputs(&self) -> usize {
        self.outputs.len()
    }

    /// Controls that the host sets.
    pub fn controls(&self) -> usize {
        self.controls.len()
    }

    /// Controls that the plugin tells.
    pub fn told_controls(&self) -> usize {
        self.told.len()
    }

    /// The most frames that [`Self::run`] takes.
    pub const fn most_frames(&self) -> usize {
        self.most_frames
    }

    /// Where an input is written, before [`Self::run`].
    pub fn input_mut(&mut self, channel: usize) -> &mut [f32] {
        self.inputs[channel].samples_mut()
    }

    /// What an output holds, after [`Self::run`].
    pub fn output(&self, channel: usize) -> &[f32] {
        self.outputs[channel].samples()
    }

    /// The value that a control has from now on. Any: a plugin is to survive those out of its range.
    pub fn set_control(&mut self, control: usize, value: f32) {
        self.controls[control].samples_mut()[0] = value;
    }

    /// The value that a control has.
    pub fn control(&self, control: usize) -> f32 {
        self.controls[control].samples()[0]
    }

    /// What the plugin told at the end of its last run.
    pub fn told(&self, control: usize) -> f32 {
        self.told[control].samples()[0]
    }

    /// How many frames later than its input its output is, by its own word; 0 if it has none or says
    /// nonsense.
    pub fn latency(&self) -> u32 {
        let told = self.latency.map_or(0.0, |control| self.told(control));
        // From a float to an integer as far as one goes; what is no number is 0.
        if told < MOST_LATENCY { told.floor() as u32 } else { 0 }
    }

    /// Begins, or begins anew: all that was heard is forgotten.
    pub fn activate(&mut self) {
        self.deactivate();
        if let Some(activate) = self.functions.activate {
            // SAFETY: a live instance that is not active.
            unsafe { activate(self.handle) };
        }
        self.is_active = true;
    }

    /// Works on the next `frames`, as many as [`Self::most_frames`] at most: more is cut off. Begins
    /// first, if nobody did.
    pub fn run(&mut self, frames: usize) {
        if !self.is_active {
            self.activate();
        }
        let frames = frames.min(self.most_frames);
        // SAFETY: a live, active instance; each port has memory for so many frames, or for a value.
        unsafe { (self.functions.run)(self.handle, frames as c_ulong) };
    }

    /// Ends; what is heard next is another beginning.
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
        // SAFETY: a live instance that is not active, of which nothing is used any more.
        unsafe { (self.functions.cleanup)(self.handle) };
    }
}

#[cfg(test)]
mod tests;
