//! The ordinary threads of devices.

use std::io;

use tautline_proto::device::DeviceError;

/// Stack of the ordinary threads, in bytes: they nest shallowly and keep their buffers on the
/// heap, and a receiver's memory is counted.
pub(crate) const STACK: usize = 256 * 1024;

/// There is no thread to be had for the device of this name.
pub(crate) fn spawn_error(tried: &str, error: &io::Error) -> DeviceError {
    DeviceError {
        tried: tried.to_owned(),
        answer: format!("no thread could be started: {error}"),
        mend: "end other programs or raise the limit: ulimit -u".to_owned(),
    }
}
