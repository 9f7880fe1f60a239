//! `libjack`, loaded when needed. Types as in `jack/types.h` (JACK 0.126; JACK2 and PipeWire
//! agree). Decision 15: why no crate.

#![expect(unsafe_code, reason = "a C library is called; the names here are its own")]

use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::sync::OnceLock;

use tautline_proto::device::DeviceError;

#[repr(C)]
pub(crate) struct RawClient {
    _opaque: [u8; 0],
}

#[repr(C)]
pub(crate) struct RawPort {
    _opaque: [u8; 0],
}

#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LatencyRange {
    pub(crate) min: u32,
    pub(crate) max: u32,
}

pub(crate) const NO_START_SERVER: c_int = 0x01;
pub(crate) const SERVER_NAME: c_int = 0x04;
pub(crate) const SERVER_FAILED: c_int = 0x10;
pub(crate) const VERSION_ERROR: c_int = 0x400;
pub(crate) const PORT_IS_INPUT: c_ulong = 0x1;
pub(crate) const PORT_IS_OUTPUT: c_ulong = 0x2;
pub(crate) const PORT_IS_PHYSICAL: c_ulong = 0x4;
pub(crate) const CAPTURE_LATENCY: c_int = 0;
pub(crate) const PLAYBACK_LATENCY: c_int = 1;
pub(crate) const AUDIO: &CStr = c"32 bit float mono audio";

type ProcessCallback = extern "C" fn(frames: u32, context: *mut c_void) -> c_int;
type FramesCallback = extern "C" fn(frames: u32, context: *mut c_void) -> c_int;
type ClientCallback = extern "C" fn(context: *mut c_void) -> c_int;
type Switch = extern "C" fn(value: c_int, context: *mut c_void);
type Shutdown = extern "C" fn(code: c_int, reason: *const c_char, context: *mut c_void);
type MessageCallback = extern "C" fn(line: *const c_char);
type ClientPtr = *mut RawClient;
type PortPtr = *mut RawPort;

macro_rules! functions {
    ($($name:ident($symbol:literal): $kind:ty,)*) => {
        /// As in `jack/jack.h` without `jack_`.
        pub(crate) struct Library {
            $(pub(crate) $name: $kind,)*
        }

        impl Library {
            /// The error is the first missing function.
            ///
            /// # Safety
            ///
            /// `handle` is from `dlopen`; its functions have these types.
            unsafe fn within(handle: *mut c_void) -> Result<Self, &'static CStr> {
                Ok(Self {
                    $($name: {
                        // SAFETY: the handle is valid and the name is NUL-terminated.
                        let symbol = unsafe { libc::dlsym(handle, $symbol.as_ptr()) };
                        if symbol.is_null() {
                            return Err($symbol);
                        }
                        // SAFETY: the function has the type that the header declares; see `within`.
                        unsafe { std::mem::transmute::<*mut c_void, $kind>(symbol) }
                    },)*
                })
            }
        }
    };
}

functions! {
    client_open(c"jack_client_open"):
        unsafe extern "C" fn(*const c_char, c_int, *mut c_int, ...) -> ClientPtr,
    client_close(c"jack_client_close"): unsafe extern "C" fn(ClientPtr) -> c_int,
    client_name_size(c"jack_client_name_size"): unsafe extern "C" fn() -> c_int,
    get_client_name(c"jack_get_client_name"): unsafe extern "C" fn(ClientPtr) -> *mut c_char,
    get_version_string(c"jack_get_version_string"): unsafe extern "C" fn() -> *const c_char,
    get_sample_rate(c"jack_get_sample_rate"): unsafe extern "C" fn(ClientPtr) -> u32,
    get_buffer_size(c"jack_get_buffer_size"): unsafe extern "C" fn(ClientPtr) -> u32,
    client_real_time_priority(c"jack_client_real_time_priority"):
        unsafe extern "C" fn(ClientPtr) -> c_int,
    activate(c"jack_activate"): unsafe extern "C" fn(ClientPtr) -> c_int,
    connect(c"jack_connect"):
        unsafe extern "C" fn(ClientPtr, *const c_char, *const c_char) -> c_int,
    free(c"jack_free"): unsafe extern "C" fn(*mut c_void),
    get_ports(c"jack_get_ports"):
        unsafe extern "C" fn(ClientPtr, *const c_char, *const c_char, c_ulong) -> *mut *const c_char,
    port_by_name(c"jack_port_by_name"): unsafe extern "C" fn(ClientPtr, *const c_char) -> PortPtr,
    port_register(c"jack_port_register"):
        unsafe extern "C" fn(ClientPtr, *const c_char, *const c_char, c_ulong, c_ulong) -> PortPtr,
    port_name(c"jack_port_name"): unsafe extern "C" fn(PortPtr) -> *const c_char,
    port_connected(c"jack_port_connected"): unsafe extern "C" fn(PortPtr) -> c_int,
    port_get_buffer(c"jack_port_get_buffer"): unsafe extern "C" fn(PortPtr, u32) -> *mut f32,
    port_get_latency_range(c"jack_port_get_latency_range"):
        unsafe extern "C" fn(PortPtr, c_int, *mut LatencyRange),
    port_set_latency_range(c"jack_port_set_latency_range"):
        unsafe extern "C" fn(PortPtr, c_int, *mut LatencyRange),
    recompute_total_latencies(c"jack_recompute_total_latencies"):
        unsafe extern "C" fn(ClientPtr) -> c_int,
    frames_since_cycle_start(c"jack_frames_since_cycle_start"):
        unsafe extern "C" fn(ClientPtr) -> u32,
    get_time(c"jack_get_time"): unsafe extern "C" fn() -> u64,
    get_cycle_times(c"jack_get_cycle_times"):
        unsafe extern "C" fn(ClientPtr, *mut u32, *mut u64, *mut u64, *mut f32) -> c_int,
    set_process_callback(c"jack_set_process_callback"):
        unsafe extern "C" fn(ClientPtr, ProcessCallback, *mut c_void) -> c_int,
    set_buffer_size_callback(c"jack_set_buffer_size_callback"):
        unsafe extern "C" fn(ClientPtr, FramesCallback, *mut c_void) -> c_int,
    set_sample_rate_callback(c"jack_set_sample_rate_callback"):
        unsafe extern "C" fn(ClientPtr, FramesCallback, *mut c_void) -> c_int,
    set_xrun_callback(c"jack_set_xrun_callback"):
        unsafe extern "C" fn(ClientPtr, ClientCallback, *mut c_void) -> c_int,
    set_freewheel_callback(c"jack_set_freewheel_callback"):
        unsafe extern "C" fn(ClientPtr, Switch, *mut c_void) -> c_int,
    set_latency_callback(c"jack_set_latency_callback"):
        unsafe extern "C" fn(ClientPtr, Switch, *mut c_void) -> c_int,
    on_info_shutdown(c"jack_on_info_shutdown"):
        unsafe extern "C" fn(ClientPtr, Shutdown, *mut c_void),
    set_error_function(c"jack_set_error_function"): unsafe extern "C" fn(MessageCallback),
    set_info_function(c"jack_set_info_function"): unsafe extern "C" fn(MessageCallback),
}

extern "C" fn keep_silent(_: *const c_char) {}

impl Library {
    pub(crate) fn get() -> Result<&'static Self, DeviceError> {
        static LOADED: OnceLock<Result<Library, DeviceError>> = OnceLock::new();
        LOADED.get_or_init(|| Self::load(c"libjack.so.0")).as_ref().map_err(Clone::clone)
    }

    fn load(name: &CStr) -> Result<Self, DeviceError> {
        let refuse = |answer: String| DeviceError {
            tried: format!("loading {}, the library of JACK", name.to_string_lossy()),
            answer,
            hint: "install it: apt-get install libjack-jackd2-0".to_owned(),
        };
        // SAFETY: the name is NUL-terminated; the library's own initialisation is outside our
        // control.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            // SAFETY: `dlerror` returns null or a text that lives until this thread's next `dl…`
            // call.
            let said = unsafe {
                let said = libc::dlerror();
                if said.is_null() { c"" } else { CStr::from_ptr(said) }
            };
            return Err(refuse(said.to_string_lossy().into_owned()));
        }
        // SAFETY: such a library has the functions of `jack/jack.h` with these types, and is never
        // closed.
        let found = unsafe { Self::within(handle) };
        let library = found.map_err(|symbol| {
            refuse(format!("it is too old: it lacks {}", symbol.to_string_lossy()))
        })?;
        // SAFETY: the callback lives as long as the program.
        unsafe {
            (library.set_error_function)(keep_silent);
            (library.set_info_function)(keep_silent);
        }
        Ok(library)
    }

    pub(crate) fn is_jacks(&self) -> bool {
        // SAFETY: it takes no arguments and returns null or a text that lives as long as the
        // library.
        let version = unsafe {
            let version = (self.get_version_string)();
            if version.is_null() { c"" } else { CStr::from_ptr(version) }
        };
        !version.to_string_lossy().contains("PipeWire")
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;

    #[test]
    fn missing_library_is_an_error_with_the_package() {
        let error = Library::load(c"libjack-missing.so.0").err().expect("no such library");
        let sentence = error.to_string();
        assert!(sentence.contains("libjack-missing.so.0: cannot open"), "{sentence}");
        snapshot!(sentence);
    }

    #[test]
    fn a_library_of_another_kind_is_refused() {
        let error = Library::load(c"libc.so.6").err().expect("another library");
        assert!(error.answer.contains("it lacks jack_client_open"), "{error}");
    }
}
