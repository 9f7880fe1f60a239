#![expect(unsafe_code, reason = "a C library is called")]

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tautline_io::clock::now;
use tautline_io::thread::realtime;
use tautline_proto::device::{Direction, Flow};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;

use super::cycle::{Adaptor, Woken};
use super::cycle_clock::{CycleFault, CycleTimes};
use super::library::{Library, RawClient, RawPort};
use super::ports::Port;
use super::signals::Signals;
use crate::toolbox::Sides;
use crate::toolbox::callback::HeldProcess;
use crate::toolbox::callback::Ports;

pub(super) struct Processing {
    pub(super) library: &'static Library,
    pub(super) client: NonNull<RawClient>,
    pub(super) rate: Rate,
    pub(super) ports: Sides<Box<[Port]>>,
    pub(super) adaptor: Adaptor,
    pub(super) signals: Arc<Signals>,
    pub(super) woke_ns: Arc<AtomicI64>,
}

impl Processing {
    fn cycle(&mut self, frames: u32) {
        let _realtime = realtime::scope();
        let signals = &*self.signals;
        let buffer_of = self.library.port_get_buffer;
        let mut buffers = JackBuffers { buffer_of, ports: &self.ports, frames };
        let mut held = signals.seat.hold();
        let process = held.as_mut().and_then(HeldProcess::process);
        let Some(process) = process else { return self.adaptor.silence(&mut buffers, 0) };
        if signals.freewheels.load(Ordering::Relaxed) || signals.finished.load(Ordering::Relaxed) {
            signals.interrupted.store(true, Ordering::Relaxed);
            return self.adaptor.silence(&mut buffers, 0);
        }
        let times = self.read_times();
        let before = |age: Span| times.at - age;
        let xruns = signals.xruns.swap(0, Ordering::Relaxed);
        let interrupted = signals.interrupted.swap(false, Ordering::Relaxed);
        let woken = Woken {
            now: times.at + times.reading,
            reported: CycleTimes {
                began: before(times.since_begin),
                woke: before(times.since_wake_up),
                count: times.count,
                frames: Frames::new(i64::from(frames)),
                trouble: match (interrupted, xruns) {
                    (true, _) => CycleFault::Break,
                    (false, 0) => CycleFault::None,
                    (false, _) => CycleFault::Xrun,
                },
            },
            uncertainty: times.reading + Span::from_micros(1),
            xruns,
            latency: Sides::each(|direction| signals.latency(direction)),
        };
        self.woke_ns.store(woken.reported.woke.as_nanos(), Ordering::Relaxed);
        let flow = self.adaptor.cycle(process, woken, &mut buffers);
        if flow == Flow::Finished {
            signals.finished.store(true, Ordering::Relaxed);
        }
    }

    /// Time since the cycle began: JACK2's clock may be `CLOCK_MONOTONIC_RAW` or an HPET.
    fn read_times(&self) -> Times {
        let half_frame = self.rate.span_of(Frames::new(1)).half();
        let mut tries = 0;
        loop {
            let read_from = now();
            let before = self.read_cycle();
            // SAFETY: this is the process callback of an open client.
            let (wake_up, clock) = unsafe {
                let wake_up = (self.library.frames_since_cycle_start)(self.client.as_ptr());
                (wake_up, (self.library.get_time)())
            };
            let (count, began) = self.read_cycle();
            let reading = (now() - read_from).half();
            tries += 1;
            // An interrupted reading may span two cycles.
            let whole = before.0 == count && reading < Span::from_micros(25);
            if whole || tries == MAX_READINGS {
                return Times {
                    at: read_from + reading,
                    reading,
                    count,
                    since_begin: Span::from_micros(clock.wrapping_sub(began) as i64),
                    since_wake_up: self.rate.span_of(Frames::new(i64::from(wake_up))) + half_frame,
                };
            }
        }
    }

    /// The server's clock is in microseconds.
    fn read_cycle(&self) -> (u32, u64) {
        let (mut count, mut current, mut next, mut period) = (0, 0, 0, 0.0);
        // SAFETY: this is the process callback of an open client, and the results are writable.
        unsafe {
            let client = self.client.as_ptr();
            let library = self.library;
            (library.get_cycle_times)(client, &mut count, &mut current, &mut next, &mut period);
        }
        // After an xrun, JACK2 reports its time until the next cycle.
        let period = period as u64;
        let wrong = next.saturating_sub(current).abs_diff(period) > period / 4;
        (count, if wrong { next.saturating_sub(period) } else { current })
    }
}

const MAX_READINGS: u32 = 4;

struct Times {
    at: LocalTime,
    reading: Span,
    count: u32,
    since_begin: Span,
    since_wake_up: Span,
}

struct JackBuffers<'a> {
    buffer_of: unsafe extern "C" fn(*mut RawPort, u32) -> *mut f32,
    ports: &'a Sides<Box<[Port]>>,
    frames: u32,
}

impl JackBuffers<'_> {
    fn at(&self, direction: Direction, channel: usize) -> Option<NonNull<f32>> {
        let port = self.ports.of(direction).get(channel)?;
        // SAFETY: the port belongs to an open client, in whose process callback we are.
        NonNull::new(unsafe { (self.buffer_of)(port.0.as_ptr(), self.frames) })
    }
}

impl Ports for JackBuffers<'_> {
    fn received(&self, channel: usize) -> Option<&[f32]> {
        let buffer = self.at(Direction::Capture, channel)?.as_ptr();
        // SAFETY: the buffer of an input port holds this many samples during the callback, and is
        // not written meanwhile.
        Some(unsafe { std::slice::from_raw_parts(buffer, self.frames as usize) })
    }

    fn played(&mut self, channel: usize) -> Option<&mut [f32]> {
        let buffer = self.at(Direction::Playback, channel)?.as_ptr();
        // SAFETY: an output port's buffer has this many samples during the callback, for this port
        // alone.
        Some(unsafe { std::slice::from_raw_parts_mut(buffer, self.frames as usize) })
    }
}

pub(super) extern "C" fn called(frames: u32, context: *mut c_void) -> c_int {
    let context = context.cast::<Processing>();
    // SAFETY: `run` gave the context to the library; it lives until the client is closed, and the
    // field is only read.
    let signals = unsafe { &*std::ptr::addr_of!((*context).signals) };
    let Some(_inside) = signals.enter() else { return 0 };
    // SAFETY: only this thread touches the rest of the context before it is closed.
    unsafe { (*context).cycle(frames) };
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_with_a_null_buffer_has_none() {
        extern "C" fn null(_: *mut RawPort, _: u32) -> *mut f32 {
            std::ptr::null_mut()
        }
        let ports = Sides::each(|_| [Port(NonNull::dangling())].into());
        let mut buffers = JackBuffers { buffer_of: null, ports: &ports, frames: 48 };
        assert_eq!(buffers.received(0), None);
        assert_eq!(buffers.played(0), None);
    }
}
