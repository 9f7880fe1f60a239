//! Loads a library as hosts do, and runs one of its plugins in its own buffers.

use core::ffi::{CStr, c_int, c_ulong};
use std::ffi::CString;
use std::path::Path;

use tautline_host::ladspa::abi::{
    AUDIO, CONTROL, Descriptor, Handle, INPUT, LATENCY, OUTPUT, RangeHint,
};

pub(crate) fn load(path: &Path) -> Vec<&'static Descriptor> {
    let name = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: a library of plugins, which does what such libraries do when they are loaded.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!library.is_null(), "{} cannot be loaded", path.display());
    // SAFETY: the library is loaded, and the name ends with a zero.
    let entry = unsafe { libc::dlsym(library, c"ladspa_descriptor".as_ptr()) };
    assert!(!entry.is_null(), "{} is no library of plugins", path.display());
    // SAFETY: a function of this name has this type, by the header.
    let entry: unsafe extern "C" fn(c_ulong) -> *const Descriptor =
        unsafe { core::mem::transmute(entry) };
    // SAFETY: any index may be asked for; what is answered is null or stays as long as the library.
    (0..).map_while(|index| unsafe { entry(index).as_ref() }).collect()
}

pub(crate) fn label(descriptor: &Descriptor) -> &str {
    // SAFETY: the pointer is a label, per the header.
    unsafe { CStr::from_ptr(descriptor.label) }.to_str().unwrap()
}

pub(crate) fn find(plugins: &[&'static Descriptor], wanted: &str) -> &'static Descriptor {
    let found = plugins.iter().find(|descriptor| label(descriptor) == wanted);
    found.unwrap_or_else(|| panic!("no {wanted}"))
}

pub(crate) struct Hosted {
    descriptor: &'static Descriptor,
    handle: Handle,
    kinds: Vec<c_int>,
    hints: Vec<RangeHint>,
    latency: Option<usize>,
    begins: bool,
    buffers: Vec<Vec<f32>>,
    connected: Vec<*mut f32>,
    pub(crate) unconnected: Vec<usize>,
    /// Uses `run_adding` on outputs of 1, with this gain.
    pub(crate) gain: Option<f32>,
    /// Outputs share the buffers of inputs, as far as possible.
    pub(crate) in_place: bool,
}

impl Hosted {
    pub(crate) fn new(descriptor: &'static Descriptor, rate: u32) -> Self {
        let count = descriptor.port_count as usize;
        // SAFETY: the lists have `count` entries, per the header.
        let (kinds, hints, names) = unsafe {
            (
                core::slice::from_raw_parts(descriptor.port_descriptors, count).to_vec(),
                core::slice::from_raw_parts(descriptor.port_range_hints, count).to_vec(),
                core::slice::from_raw_parts(descriptor.port_names, count),
            )
        };
        // SAFETY: the pointers are names, per the header.
        let is_latency = |port: &usize| unsafe {
            kinds[*port] == OUTPUT | CONTROL
                && CStr::from_ptr(names[*port]).to_bytes() == LATENCY.as_bytes()
        };
        let latency = (0..count).find(is_latency);
        // SAFETY: a descriptor of a library that is loaded.
        let handle = unsafe { descriptor.instantiate.unwrap()(descriptor, rate.into()) };
        assert!(!handle.is_null(), "{} does not begin", label(descriptor));
        Self {
            descriptor,
            handle,
            kinds,
            hints,
            latency,
            begins: false,
            buffers: vec![Vec::new(); count],
            connected: vec![core::ptr::null_mut(); count],
            unconnected: Vec::new(),
            gain: None,
            in_place: false,
        }
    }

    pub(crate) fn ports(&self, kind: c_int) -> Vec<usize> {
        (0..self.kinds.len()).filter(|port| self.kinds[*port] == kind).collect()
    }

    pub(crate) fn controls(&self) -> Vec<RangeHint> {
        self.ports(INPUT | CONTROL).into_iter().map(|port| self.hints[port]).collect()
    }

    /// Deferred to the first run, with ports connected and controls set: some plugins read them
    /// then.
    pub(crate) fn activate(&mut self) {
        self.begins = true;
    }

    pub(crate) fn deactivate(&mut self) {
        if let Some(deactivate) = self.descriptor.deactivate {
            // SAFETY: a live instance.
            unsafe { deactivate(self.handle) };
        }
    }

    pub(crate) fn run(&mut self, inputs: &[&[f32]], controls: &[f32]) -> Vec<Vec<f32>> {
        let frames = inputs.first().map_or(0, |input| input.len());
        self.run_for(frames, inputs, controls)
    }

    pub(crate) fn run_for(
        &mut self,
        frames: usize,
        inputs: &[&[f32]],
        controls: &[f32],
    ) -> Vec<Vec<f32>> {
        let (audio_in, audio_out) = (self.ports(INPUT | AUDIO), self.ports(OUTPUT | AUDIO));
        for port in 0..self.kinds.len() {
            let length = if self.kinds[port] & AUDIO != 0 { frames } else { 1 };
            self.buffers[port].resize(length, 0.0);
        }
        let mut places: Vec<usize> = (0..self.kinds.len()).collect();
        if self.in_place {
            for (output, input) in audio_out.iter().zip(&audio_in) {
                places[*output] = *input;
            }
        }
        self.connect(&places);
        for (port, input) in audio_in.iter().zip(inputs) {
            self.buffers[*port].copy_from_slice(input);
        }
        for (port, value) in self.ports(INPUT | CONTROL).into_iter().zip(controls) {
            self.buffers[port][0] = *value;
        }
        if let Some(activate) =
            self.descriptor.activate.filter(|_| core::mem::take(&mut self.begins))
        {
            // SAFETY: a live instance whose ports are connected.
            unsafe { activate(self.handle) };
        }
        let mut run = self.descriptor.run.unwrap();
        if let Some(gain) = self.gain {
            audio_out.iter().for_each(|port| self.buffers[*port].fill(1.0));
            run = self.descriptor.run_adding.unwrap();
            // SAFETY: a live instance.
            unsafe { self.descriptor.set_run_adding_gain.unwrap()(self.handle, gain) };
        }
        // SAFETY: a live instance, each port with memory for so many frames.
        unsafe { run(self.handle, frames as c_ulong) };
        audio_out.into_iter().map(|port| self.buffers[places[port]].clone()).collect()
    }

    /// Connects unconnected ports. Controls have their defaults: some plugins read them too early.
    fn connect(&mut self, places: &[usize]) {
        let connect = self.descriptor.connect_port.unwrap();
        for (port, place) in places.iter().enumerate() {
            let address = self.buffers[*place].as_mut_ptr();
            if self.unconnected.contains(&port) || self.connected[port] == address {
                continue;
            }
            if self.kinds[port] == INPUT | CONTROL {
                self.buffers[port][0] = self.hints[port].first_value(48_000);
            }
            self.connected[port] = address;
            // SAFETY: the instance is live, the port is one of its ports, and the memory stays in
            // place while the instance runs.
            unsafe { connect(self.handle, port as c_ulong, address) };
        }
    }

    pub(crate) fn reported(&self) -> Vec<f32> {
        let reported = self.ports(OUTPUT | CONTROL).into_iter();
        reported
            .filter(|port| self.latency != Some(*port))
            .map(|port| self.buffers[port][0])
            .collect()
    }

    pub(crate) fn latency(&self) -> Option<f32> {
        self.latency.map(|port| self.buffers[port][0])
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        // SAFETY: a live instance, of which nothing is used afterwards.
        unsafe { self.descriptor.cleanup.unwrap()(self.handle) };
    }
}
