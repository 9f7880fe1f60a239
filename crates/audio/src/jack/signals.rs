use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tautline_proto::device::Direction;
use tautline_proto::time::{Frames, Span};

use super::latency::{LatencyBounds, PortLatency};
use crate::toolbox::Sides;
use crate::toolbox::callback::Seat;

#[derive(Default)]
struct PortTiming {
    latency: AtomicU64,
    card: AtomicU32,
}

impl PortTiming {
    fn latency(&self) -> PortLatency {
        let both = self.latency.load(Ordering::Relaxed);
        let frames = |half: u64| Frames::new((half & u64::from(u32::MAX)) as i64);
        PortLatency { counted: frames(both >> 32), spread: frames(both) }
    }

    fn set(&self, latency: PortLatency) -> bool {
        let half = |frames: Frames| u64::from(frames.count() as u32);
        let both = half(latency.counted) << 32 | half(latency.spread);
        self.latency.swap(both, Ordering::Relaxed) != both
    }
}

/// The server's report, for measurements. Outlives the client.
#[derive(Debug, Clone, Default)]
pub struct ServerWord {
    pub xruns: Arc<AtomicU32>,
    /// Driver's wake-up, nanoseconds of a [`LocalTime`](tautline_proto::time::LocalTime), ± half a
    /// frame.
    pub woke_ns: Arc<AtomicI64>,
}

#[derive(Default)]
pub(crate) struct Signals {
    leave: AtomicBool,
    inside: AtomicU32,
    pub(crate) seat: Seat,
    pub(crate) refused: AtomicBool,
    pub(crate) finished: AtomicBool,
    pub(crate) shut_down: AtomicBool,
    pub(crate) freewheels: AtomicBool,
    pub(super) interrupted: AtomicBool,
    pub(crate) buffer: AtomicU32,
    pub(crate) rate: AtomicU32,
    pub(super) xruns: AtomicU32,
    timing: Sides<PortTiming>,
    /// Latency between converters in nanoseconds; 0 if unknown.
    stream: AtomicI64,
    pub(crate) stale: AtomicBool,
}

impl Signals {
    pub(super) fn latency(&self, direction: Direction) -> PortLatency {
        self.timing.of(direction).latency()
    }

    pub(super) fn begin(&self, direction: Direction, latency: PortLatency, card: Frames) {
        self.set_latency(direction, latency);
        self.timing.of(direction).card.store(card.count() as u32, Ordering::Relaxed);
    }

    pub(super) fn follow(
        &self,
        direction: Direction,
        connected: Option<LatencyBounds>,
        card: Frames,
    ) {
        let timing = self.timing.of(direction);
        let was = Frames::new(i64::from(timing.card.swap(card.count() as u32, Ordering::Relaxed)));
        self.set_latency(direction, timing.latency().follow(connected, was, card));
    }

    fn set_latency(&self, direction: Direction, latency: PortLatency) {
        if self.timing.of(direction).set(latency) {
            self.stale.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn enter(&self) -> Option<Inside<'_>> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        let inside = Inside(self);
        if self.leave.load(Ordering::SeqCst) { None } else { Some(inside) }
    }

    /// Returns once server threads stay out of our code; a stalled server may prevent that.
    pub(super) fn send_away(&self) {
        self.leave.store(true, Ordering::SeqCst);
        while self.inside.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn stream(&self) -> Span {
        Span::from_nanos(self.stream.load(Ordering::Relaxed))
    }

    pub(crate) fn set_stream(&self, latency: Span) {
        self.stream.store(latency.as_nanos(), Ordering::Relaxed);
    }
}

pub(super) struct Inside<'a>(&'a Signals);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}
