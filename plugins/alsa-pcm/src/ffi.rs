//! Declarations missing in `alsa-sys`: `alsa/pcm_ioplug.h`, protocol 1.0.2, and `alsa/error.h`.

use core::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_ushort, c_void};

use alsa_sys::{snd_pcm_channel_area_t, snd_pcm_hw_params_t, snd_pcm_sw_params_t, snd_pcm_t};

pub(crate) const VERSION: c_uint = (1 << 16) | 2;
pub(crate) const FLAG_LISTED: c_uint = 1;
/// `SND_PCM_IOPLUG_FLAG_BOUNDARY_WA`: the pointer wraps at the boundary, not at the buffer's size.
pub(crate) const FLAG_BOUNDARY: c_uint = 1 << 2;

pub(crate) const HW_ACCESS: c_int = 0;
pub(crate) const HW_FORMAT: c_int = 1;
pub(crate) const HW_CHANNELS: c_int = 2;
pub(crate) const HW_RATE: c_int = 3;
pub(crate) const HW_PERIOD_BYTES: c_int = 4;
pub(crate) const HW_BUFFER_BYTES: c_int = 5;
pub(crate) const HW_PERIODS: c_int = 6;

#[repr(C)]
pub(crate) struct Ioplug {
    pub(crate) version: c_uint,
    pub(crate) name: *const c_char,
    pub(crate) flags: c_uint,
    pub(crate) poll_fd: c_int,
    pub(crate) poll_events: c_uint,
    pub(crate) mmap_rw: c_uint,
    pub(crate) callback: *const Callbacks,
    pub(crate) private_data: *mut c_void,
    pub(crate) pcm: *mut snd_pcm_t,
    pub(crate) stream: c_int,
    pub(crate) state: c_int,
    pub(crate) appl_ptr: c_ulong,
    pub(crate) hw_ptr: c_ulong,
    pub(crate) nonblock: c_int,
    pub(crate) access: c_int,
    pub(crate) format: c_int,
    pub(crate) channels: c_uint,
    pub(crate) rate: c_uint,
    pub(crate) period_size: c_ulong,
    pub(crate) buffer_size: c_ulong,
}

pub(crate) type PcmCallback = unsafe extern "C" fn(*mut Ioplug) -> c_int;

#[repr(C)]
pub(crate) struct Callbacks {
    pub(crate) start: Option<PcmCallback>,
    pub(crate) stop: Option<PcmCallback>,
    pub(crate) pointer: Option<unsafe extern "C" fn(*mut Ioplug) -> c_long>,
    pub(crate) transfer: Option<
        unsafe extern "C" fn(
            *mut Ioplug,
            *const snd_pcm_channel_area_t,
            c_ulong,
            c_ulong,
        ) -> c_long,
    >,
    pub(crate) close: Option<PcmCallback>,
    pub(crate) hw_params:
        Option<unsafe extern "C" fn(*mut Ioplug, *mut snd_pcm_hw_params_t) -> c_int>,
    pub(crate) hw_free: Option<PcmCallback>,
    pub(crate) sw_params:
        Option<unsafe extern "C" fn(*mut Ioplug, *mut snd_pcm_sw_params_t) -> c_int>,
    pub(crate) prepare: Option<PcmCallback>,
    pub(crate) drain: Option<PcmCallback>,
    pub(crate) pause: Option<unsafe extern "C" fn(*mut Ioplug, c_int) -> c_int>,
    pub(crate) resume: Option<PcmCallback>,
    pub(crate) poll_descriptors_count: Option<PcmCallback>,
    pub(crate) poll_descriptors:
        Option<unsafe extern "C" fn(*mut Ioplug, *mut libc::pollfd, c_uint) -> c_int>,
    pub(crate) poll_revents: Option<
        unsafe extern "C" fn(*mut Ioplug, *mut libc::pollfd, c_uint, *mut c_ushort) -> c_int,
    >,
    pub(crate) dump: Option<unsafe extern "C" fn(*mut Ioplug, *mut c_void)>,
    pub(crate) delay: Option<unsafe extern "C" fn(*mut Ioplug, *mut c_long) -> c_int>,
    pub(crate) query_chmaps: Option<unsafe extern "C" fn(*mut Ioplug) -> *mut *mut c_void>,
    pub(crate) get_chmap: Option<unsafe extern "C" fn(*mut Ioplug) -> *mut c_void>,
    pub(crate) set_chmap: Option<unsafe extern "C" fn(*mut Ioplug, *const c_void) -> c_int>,
}

pub(crate) type ErrorHandler =
    unsafe extern "C" fn(*const c_char, c_int, *const c_char, c_int, *const c_char, ...);

unsafe extern "C" {
    pub(crate) fn snd_pcm_ioplug_create(
        io: *mut Ioplug,
        name: *const c_char,
        stream: c_int,
        mode: c_int,
    ) -> c_int;
    pub(crate) fn snd_pcm_ioplug_delete(io: *mut Ioplug) -> c_int;
    pub(crate) fn snd_pcm_ioplug_set_param_minmax(
        io: *mut Ioplug,
        kind: c_int,
        minimum: c_uint,
        maximum: c_uint,
    ) -> c_int;
    pub(crate) fn snd_pcm_ioplug_set_param_list(
        io: *mut Ioplug,
        kind: c_int,
        count: c_uint,
        list: *const c_uint,
    ) -> c_int;
    static mut snd_lib_error: Option<ErrorHandler>;
}

/// Current message handler: the library's or the application's (`snd_lib_error_set_handler`).
pub(crate) fn emit() -> Option<ErrorHandler> {
    // SAFETY: the library sets this word before it loads a plugin. The application may write it at
    // any time, so it is read without a reference.
    unsafe { (&raw const snd_lib_error).read_volatile() }
}

// Layout on 64-bit hosts, verified by `tests/pcm/object.rs`.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<Ioplug>() == 120 && size_of::<Callbacks>() == 160);
    assert!(offset_of!(Ioplug, callback) == 32 && offset_of!(Ioplug, stream) == 56);
    assert!(offset_of!(Ioplug, appl_ptr) == 64 && offset_of!(Ioplug, buffer_size) == 112);
    assert!(offset_of!(Callbacks, delay) == 128);
};
