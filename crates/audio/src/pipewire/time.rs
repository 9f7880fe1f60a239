//! The one question to a stream that the library has no safe words for.
#![expect(unsafe_code, reason = "the bindings of a C library")]

use pipewire::stream::StreamRef;
use pipewire::sys::{pw_stream_get_time_n, pw_time};

/// When the cycle that is going on began, and where the driver was then; `None` where the server
/// does not say. Wait-free on the graph's thread, which writes it.
pub(super) fn of(stream: &StreamRef) -> Option<pw_time> {
    // SAFETY: all of its fields are plain numbers.
    let mut time: pw_time = unsafe { std::mem::zeroed() };
    // SAFETY: the stream lives as long as the reference, and `time` has the size that is said.
    let answer =
        unsafe { pw_stream_get_time_n(stream.as_raw_ptr(), &mut time, size_of::<pw_time>()) };
    (answer >= 0).then_some(time)
}
