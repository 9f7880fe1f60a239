//! `libpipewire`, loaded when a node is named (decision 16).
//!
//! Its functions are defined here as jumps to addresses that [`load`] finds, because the bindings
//! expect them linked. They are hidden from the library.
#![expect(unsafe_code, reason = "a C library is loaded; the names here are its own")]

use std::arch::global_asm;
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use tautline_proto::device::DeviceError;

/// Name of the library. 0.3 is the interface version.
const NAME: &CStr = c"libpipewire-0.3.so.0";

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("write the jump of this architecture below, or leave the feature pipewire out");

macro_rules! jump {
    ($name:ident) => {
        #[cfg(target_arch = "x86_64")]
        global_asm!(
            concat!(".globl ", stringify!($name)),
            concat!(".hidden ", stringify!($name)),
            concat!(".type ", stringify!($name), ", @function"),
            concat!(stringify!($name), ":"),
            "jmp qword ptr [rip + {places} + {at}]",
            places = sym PLACES,
            at = const Function::$name as usize * size_of::<usize>(),
        );
        #[cfg(target_arch = "aarch64")]
        global_asm!(
            concat!(".globl ", stringify!($name)),
            concat!(".hidden ", stringify!($name)),
            concat!(".type ", stringify!($name), ", %function"),
            concat!(stringify!($name), ":"),
            "adrp x16, {places} + {at}",
            "ldr x16, [x16, :lo12:{places} + {at}]",
            "br x16",
            places = sym PLACES,
            at = const Function::$name as usize * size_of::<usize>(),
        );
    };
}

macro_rules! functions {
    ($($name:ident)*) => {
        #[expect(non_camel_case_types, reason = "the names are the library's")]
        #[derive(Clone, Copy)]
        enum Function { $($name,)* }

        const FUNCTIONS: &[(Function, &str)] =
            &[$((Function::$name, concat!(stringify!($name), "\0")),)*];

        static PLACES: [AtomicPtr<c_void>; FUNCTIONS.len()] =
            [const { AtomicPtr::new(null_mut()) }; FUNCTIONS.len()];

        $(jump!($name);)*

        fn want() {
            std::hint::black_box([$(pipewire::sys::$name as *const c_void,)*]);
        }
    };
}

functions! {
    pw_init pw_log_set_level pw_main_loop_new pw_main_loop_get_loop pw_main_loop_destroy
    pw_context_new pw_context_connect pw_context_destroy
    pw_properties_new pw_properties_new_dict pw_properties_set pw_properties_free
    pw_proxy_get_type pw_proxy_destroy
    pw_stream_new pw_stream_add_listener pw_stream_connect pw_stream_update_params
    pw_stream_get_state pw_stream_get_time_n pw_stream_dequeue_buffer pw_stream_queue_buffer
    pw_stream_disconnect pw_stream_destroy
    pw_filter_new pw_filter_add_listener pw_filter_add_port pw_filter_connect
    pw_filter_get_dsp_buffer pw_filter_disconnect pw_filter_destroy
}

/// Loads the library once, before any use. `name` is the device's.
pub(super) fn load(name: &str) -> Result<(), DeviceError> {
    static LOADED: OnceLock<Result<(), String>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| {
        want();
        find(NAME).inspect(|()| silence())
    });
    loaded.clone().map_err(|answer| DeviceError {
        tried: name.to_owned(),
        answer: format!("cannot load PipeWire's library: {answer}"),
        hint: "install it, 0.3.50 or later: apt-get install libpipewire-0.3-0".to_owned(),
    })
}

/// Keeps logs off standard error, unless `PIPEWIRE_DEBUG` is set.
fn silence() {
    if std::env::var_os("PIPEWIRE_DEBUG").is_some() {
        return;
    }
    let level = || {
        // SAFETY: the value is of `enum spa_log_level`; the library accepts it before its
        // initialisation, too.
        unsafe { pipewire::sys::pw_log_set_level(pipewire::spa::sys::SPA_LOG_LEVEL_NONE) };
    };
    level();
    pipewire::init();
    level();
}

fn find(library: &CStr) -> Result<(), String> {
    // SAFETY: the name is NUL-terminated; the library's own initialisation is outside our control.
    let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(reason());
    }
    for (function, name) in FUNCTIONS {
        // SAFETY: the handle is open and stays so; the name is NUL-terminated.
        let place = unsafe { libc::dlsym(handle, name.as_ptr().cast()) };
        if place.is_null() {
            return Err(reason());
        }
        PLACES[*function as usize].store(place, Ordering::Release);
    }
    Ok(())
}

fn reason() -> String {
    // SAFETY: dlerror returns null or a text that lives until this thread's next call.
    let said = unsafe {
        let said = libc::dlerror();
        if said.is_null() { c"unknown reason" } else { CStr::from_ptr(said) }
    };
    said.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_or_wrong_library_reports_the_loader_error() {
        let absent = find(c"libpipewire-missing.so.0").expect_err("no such library");
        assert!(absent.contains("libpipewire-missing.so.0: cannot open"), "{absent}");
        let other = find(c"libc.so.6").expect_err("another library");
        assert!(other.contains("undefined symbol: pw_init"), "{other}");
    }
}
