//! A filter: an unconverted port per channel, connected by the user.
#![expect(unsafe_code, reason = "the bindings of a C library")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{NonNull, null_mut};

use pipewire::core::Core;
use pipewire::properties::Properties;
use pipewire::spa::sys::{SPA_DIRECTION_INPUT, SPA_DIRECTION_OUTPUT, spa_hook, spa_io_position};
use pipewire::stream::StreamRef;
use pipewire::sys::{
    PW_VERSION_FILTER_EVENTS, pw_filter, pw_filter_add_listener, pw_filter_add_port,
    pw_filter_connect, pw_filter_destroy, pw_filter_disconnect, pw_filter_events,
    pw_filter_flags_PW_FILTER_FLAG_RT_PROCESS, pw_filter_new,
    pw_filter_port_flags_PW_FILTER_PORT_FLAG_MAP_BUFFERS, pw_filter_state, pw_stream_get_time_n,
    pw_time,
};
use tautline_proto::device::Direction;
use tautline_proto::time::{Frames, LocalTime, Span};

use crate::pipewire::course::CycleReport;
use crate::pipewire::wired::{FilterPort, Wired};
use crate::toolbox::Sides;

const ERROR: pw_filter_state = -1;
const UNCONNECTED: pw_filter_state = 0;

struct FilterListener<T> {
    hook: spa_hook,
    events: pw_filter_events,
    data: T,
}

impl<T> FilterListener<T> {
    fn added(
        filter: NonNull<pw_filter>,
        data: T,
        listen: impl FnOnce(&mut pw_filter_events),
    ) -> NonNull<Self> {
        // SAFETY: both are plain C structures of numbers and nullable pointers.
        let (hook, mut events) =
            unsafe { (std::mem::zeroed::<spa_hook>(), std::mem::zeroed::<pw_filter_events>()) };
        events.version = PW_VERSION_FILTER_EVENTS;
        listen(&mut events);
        let listener = NonNull::from(Box::leak(Box::new(Self { hook, events, data })));
        let at = listener.as_ptr();
        // SAFETY: the filter is alive, and the targets of the pointers stay in place until it is
        // destroyed (`Filter::drop`).
        unsafe {
            let data = (&raw mut (*at).data).cast();
            pw_filter_add_listener(
                filter.as_ptr(),
                &raw mut (*at).hook,
                &raw const (*at).events,
                data,
            );
        }
        listener
    }
}

pub(super) struct Filter {
    raw: NonNull<pw_filter>,
    /// While connected, only the graph's thread touches the target.
    called: NonNull<FilterListener<Wired>>,
    received: NonNull<FilterListener<Option<String>>>,
}

impl Filter {
    pub(super) fn connect(
        core: &Core,
        name: &str,
        properties: Properties,
        wired: Wired,
    ) -> Result<Self, String> {
        let name = CString::new(name).map_err(|_| "its name contains a zero byte".to_owned())?;
        // SAFETY: the core is connected, the name is NUL-terminated, and ownership of the
        // properties is passed.
        let raw = unsafe { pw_filter_new(core.as_raw_ptr(), name.as_ptr(), properties.into_raw()) };
        let raw = NonNull::new(raw).ok_or_else(last_error)?;
        let channels = wired.settings.channels.count();
        let called = FilterListener::added(raw, wired, |events| events.process = Some(called));
        let received =
            FilterListener::added(raw, None, |events| events.state_changed = Some(state_changed));
        let filter = Self { raw, called, received };
        let ports = Sides {
            capture: filter.add_ports(Direction::Capture, channels)?,
            playback: filter.add_ports(Direction::Playback, channels)?,
        };
        // SAFETY: the filter is not connected, so no other thread touches this yet.
        unsafe { (*called.as_ptr()).data.set_ports(ports) };
        let flags = pw_filter_flags_PW_FILTER_FLAG_RT_PROCESS;
        // SAFETY: the filter is alive; there are no parameters.
        let answer: c_int = unsafe { pw_filter_connect(raw.as_ptr(), flags, null_mut(), 0) };
        if answer < 0 {
            return Err(std::io::Error::from_raw_os_error(-answer).to_string());
        }
        Ok(filter)
    }

    fn add_ports(
        &self,
        direction: Direction,
        channels: usize,
    ) -> Result<Box<[FilterPort]>, String> {
        let (spa_direction, name) = match direction {
            Direction::Capture => (SPA_DIRECTION_INPUT, "in"),
            Direction::Playback => (SPA_DIRECTION_OUTPUT, "out"),
        };
        let add = |channel: usize| {
            let mut properties = Properties::new();
            properties.insert("format.dsp", "32 bit float mono audio");
            properties.insert("port.name", format!("{name}_{channel}"));
            // SAFETY: the filter is alive and unconnected; ownership of the properties is passed;
            // the port's data has this size.
            let port = unsafe {
                pw_filter_add_port(
                    self.raw.as_ptr(),
                    spa_direction,
                    pw_filter_port_flags_PW_FILTER_PORT_FLAG_MAP_BUFFERS,
                    size_of::<usize>(),
                    properties.into_raw(),
                    null_mut(),
                    0,
                )
            };
            NonNull::new(port).map(FilterPort).ok_or_else(last_error)
        };
        (1..=channels).map(add).collect()
    }

    pub(super) fn lost(&self) -> Option<String> {
        // SAFETY: this is the thread that iterates the loop, and the listener lives as long as
        // this.
        unsafe { (*self.received.as_ptr()).data.clone() }
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        // SAFETY: the filter's last use. The graph makes no calls after disconnection; the library
        // keeps no pointer after destruction.
        unsafe {
            pw_filter_disconnect(self.raw.as_ptr());
            pw_filter_destroy(self.raw.as_ptr());
            drop(Box::from_raw(self.called.as_ptr()));
            drop(Box::from_raw(self.received.as_ptr()));
        }
    }
}

fn last_error() -> String {
    std::io::Error::last_os_error().to_string()
}

unsafe extern "C" fn called(data: *mut c_void, position: *mut spa_io_position) {
    // SAFETY: the listener's data, which only the graph's thread touches; a position lives for the
    // cycle.
    let (wired, position) = unsafe { (&mut *data.cast::<Wired>(), position.as_ref()) };
    wired.call(position.map(|position| &position.clock));
}

unsafe extern "C" fn state_changed(
    data: *mut c_void,
    _old: pw_filter_state,
    now: pw_filter_state,
    error: *const c_char,
) {
    if now != ERROR && now != UNCONNECTED {
        return;
    }
    let said = if error.is_null() {
        "the node was removed".to_owned()
    } else {
        // SAFETY: a NUL-terminated text that lives for this call.
        unsafe { std::ffi::CStr::from_ptr(error) }.to_string_lossy().into_owned()
    };
    // SAFETY: the data belongs to the listener; the loop is iterated and the state read on one
    // thread.
    let lost = unsafe { &mut *data.cast::<Option<String>>() };
    lost.get_or_insert(said);
}

/// Cycle begin and driver position; `None` if unknown. Wait-free on the graph's thread.
pub(super) fn report(stream: &StreamRef) -> Option<CycleReport> {
    // SAFETY: all of its fields are plain numbers.
    let mut time: pw_time = unsafe { std::mem::zeroed() };
    // SAFETY: the stream lives as long as the reference, and `time` has the stated size.
    let answer =
        unsafe { pw_stream_get_time_n(stream.as_raw_ptr(), &mut time, size_of::<pw_time>()) };
    let (num, denom) = (time.rate.num, time.rate.denom);
    if answer < 0 || num == 0 || denom == 0 || time.now == 0 {
        return None;
    }
    Some(CycleReport {
        began: LocalTime::ZERO + Span::from_nanos(time.now),
        ticks: time.ticks,
        hertz: denom / num,
        delay: time.delay,
        buffered: Frames::new(i64::try_from(time.buffered).unwrap_or(0)),
    })
}
