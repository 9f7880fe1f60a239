//! What is used of libspeexdsp (speex/speex_echo.h, speex/speexdsp_types.h of 1.2).

#![expect(unsafe_code, reason = "libspeexdsp is a library of C")]

use core::ffi::{c_int, c_void};

/// What the library keeps of one canceller.
#[repr(C)]
pub(crate) struct SpeexEchoState {
    _opaque: [u8; 0],
}

/// Takes a place for an `int`: samples a second.
pub(crate) const SPEEX_ECHO_SET_SAMPLING_RATE: c_int = 24;

#[link(name = "speexdsp")]
unsafe extern "C" {
    pub(crate) fn speex_echo_state_init_mc(
        frame_size: c_int,
        filter_length: c_int,
        nb_mic: c_int,
        nb_speakers: c_int,
    ) -> *mut SpeexEchoState;
    pub(crate) fn speex_echo_state_destroy(state: *mut SpeexEchoState);
    pub(crate) fn speex_echo_cancellation(
        state: *mut SpeexEchoState,
        rec: *const i16,
        play: *const i16,
        out: *mut i16,
    );
    pub(crate) fn speex_echo_state_reset(state: *mut SpeexEchoState);
    pub(crate) fn speex_echo_ctl(
        state: *mut SpeexEchoState,
        request: c_int,
        place: *mut c_void,
    ) -> c_int;
}
