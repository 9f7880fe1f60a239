#![expect(unsafe_code, reason = "a C library is called")]

use std::ffi::{CStr, CString, c_int, c_ulong};
use std::ptr::NonNull;

use tautline_proto::device::Direction;
use tautline_proto::time::Frames;

use super::latency::LatencyBounds;
use super::library::{
    AUDIO, CAPTURE_LATENCY, LatencyRange, Library, PLAYBACK_LATENCY, PORT_IS_INPUT, PORT_IS_OUTPUT,
    PORT_IS_PHYSICAL, RawClient, RawPort,
};

/// Valid as long as its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Port(pub(super) NonNull<RawPort>);

// SAFETY: the library accepts a port on any thread; it points to the server's shared memory.
unsafe impl Send for Port {}
// SAFETY: a shared port is only passed to the library, which accepts it on several threads at the
// same time.
unsafe impl Sync for Port {}

pub(super) fn port_flag(direction: Direction) -> c_ulong {
    match direction {
        Direction::Capture => PORT_IS_INPUT,
        Direction::Playback => PORT_IS_OUTPUT,
    }
}

pub(super) fn mode(direction: Direction) -> c_int {
    match direction {
        Direction::Capture => CAPTURE_LATENCY,
        Direction::Playback => PLAYBACK_LATENCY,
    }
}

fn other(direction: Direction) -> Direction {
    match direction {
        Direction::Capture => Direction::Playback,
        Direction::Playback => Direction::Capture,
    }
}

fn range(library: &Library, port: Port, mode: c_int) -> LatencyRange {
    let mut range = LatencyRange::default();
    // SAFETY: the port belongs to an open client or its server, and the range is writable.
    unsafe { (library.port_get_latency_range)(port.0.as_ptr(), mode, &mut range) };
    range
}

pub(super) fn counterparts(
    library: &Library,
    client: NonNull<RawClient>,
    direction: Direction,
    physical: bool,
) -> Vec<String> {
    let flags = port_flag(other(direction)) | if physical { PORT_IS_PHYSICAL } else { 0 };
    let mut found = Vec::new();
    // SAFETY: the client is open, texts are NUL-terminated; we own the null-terminated list until
    // it is freed.
    unsafe {
        let list = (library.get_ports)(client.as_ptr(), std::ptr::null(), AUDIO.as_ptr(), flags);
        let mut at = list;
        while !at.is_null() && !(*at).is_null() {
            found.push(CStr::from_ptr(*at).to_string_lossy().into_owned());
            at = at.add(1);
        }
        if !list.is_null() {
            (library.free)(list.cast());
        }
    }
    found
}

pub(super) fn named(library: &Library, client: NonNull<RawClient>, names: &[String]) -> Vec<Port> {
    let port = |name: &String| {
        let name = CString::new(name.as_str()).ok()?;
        // SAFETY: the client is open and the text is NUL-terminated.
        let port = unsafe { (library.port_by_name)(client.as_ptr(), name.as_ptr()) };
        NonNull::new(port).map(Port)
    };
    names.iter().filter_map(port).collect()
}

pub(super) fn latency_bounds(
    library: &Library,
    ports: impl IntoIterator<Item = Port>,
    direction: Direction,
) -> Option<LatencyBounds> {
    let frames = |count: u32| Frames::new(i64::from(count));
    let each = ports.into_iter().map(|port| {
        let range = range(library, port, mode(direction));
        LatencyBounds { minimum: frames(range.min), maximum: frames(range.max) }
    });
    each.reduce(|a, b| LatencyBounds {
        minimum: a.minimum.min(b.minimum),
        maximum: a.maximum.max(b.maximum),
    })
}

pub(super) fn card_latency(
    library: &Library,
    client: NonNull<RawClient>,
    direction: Direction,
) -> Frames {
    let ports = named(library, client, &counterparts(library, client, direction, true));
    latency_bounds(library, ports, direction).map_or(Frames::ZERO, |bounds| bounds.maximum)
}
