#![expect(unsafe_code, reason = "a C library is called")]

use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tautline_proto::device::{Direction, Directions};
use tautline_proto::units::Rate;

use super::library::{LatencyRange, Library, RawClient};
use super::ports::{Port, card_latency, latency_bounds, mode};
use super::signals::{ServerWord, Signals};
use crate::toolbox::Sides;

pub(super) struct Notified {
    pub(super) library: &'static Library,
    pub(super) client: NonNull<RawClient>,
    pub(super) directions: Directions,
    pub(super) rate: Rate,
    pub(super) ports: Sides<Box<[Port]>>,
    pub(super) signals: Arc<Signals>,
    pub(super) word: ServerWord,
}

impl Notified {
    fn answer_latency(&self, requested: c_int) {
        for direction in self.directions.each() {
            if requested == mode(direction) {
                self.follow(direction);
            } else {
                self.notify(direction, requested);
            }
        }
    }

    fn follow(&self, direction: Direction) {
        let connected = self.ports.of(direction).iter().filter(|port| {
            // SAFETY: the port belongs to an open client.
            unsafe { (self.library.port_connected)(port.0.as_ptr()) > 0 }
        });
        let bounds = latency_bounds(self.library, connected.copied(), direction);
        let card = card_latency(self.library, self.client, direction);
        self.signals.follow(direction, bounds, card);
    }

    fn notify(&self, direction: Direction, requested: c_int) {
        let stream = self.rate.frames_nearest(self.signals.stream());
        let rest = (stream - self.signals.latency(direction).counted).count();
        let rest = rest.clamp(0, i64::from(u32::MAX)) as u32;
        let mut range = LatencyRange { min: rest, max: rest };
        for port in self.ports.of(direction) {
            // SAFETY: the port belongs to an open client, and the range is readable.
            unsafe {
                (self.library.port_set_latency_range)(port.0.as_ptr(), requested, &mut range);
            }
        }
    }
}

macro_rules! notified {
    ($context:ident, $inside:ident) => {{
        // SAFETY: `run` gave the context to the library; it lives until the client is closed.
        let notified = unsafe { &*$context.cast_const().cast::<Notified>() };
        let Some($inside) = notified.signals.enter() else { return Default::default() };
        (notified, $inside)
    }};
}

pub(super) extern "C" fn buffer_changed(frames: u32, context: *mut c_void) -> c_int {
    let (notified, _inside) = notified!(context, inside);
    notified.signals.buffer.store(frames, Ordering::Relaxed);
    notified.signals.interrupted.store(true, Ordering::Relaxed);
    0
}

pub(super) extern "C" fn rate_changed(hertz: u32, context: *mut c_void) -> c_int {
    let (notified, _inside) = notified!(context, inside);
    notified.signals.rate.store(hertz, Ordering::Relaxed);
    0
}

pub(super) extern "C" fn starved(context: *mut c_void) -> c_int {
    let (notified, _inside) = notified!(context, inside);
    notified.signals.xruns.fetch_add(1, Ordering::Relaxed);
    notified.word.xruns.fetch_add(1, Ordering::Relaxed);
    0
}

pub(super) extern "C" fn freewheeled(begins: c_int, context: *mut c_void) {
    let (notified, _inside) = notified!(context, inside);
    notified.signals.freewheels.store(begins != 0, Ordering::Relaxed);
}

pub(super) extern "C" fn latency_asked(mode: c_int, context: *mut c_void) {
    let (notified, _inside) = notified!(context, inside);
    notified.answer_latency(mode);
}

pub(super) extern "C" fn shut_down(_: c_int, _: *const c_char, context: *mut c_void) {
    let (notified, _inside) = notified!(context, inside);
    notified.signals.shut_down.store(true, Ordering::Relaxed);
}
