//! A filter's callback, once per cycle.
#![expect(unsafe_code, reason = "buffers of a C library")]

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use pipewire::spa::sys::spa_io_clock;
use pipewire::sys::pw_filter_get_dsp_buffer;
use tautline_io::clock::now;
use tautline_io::thread::realtime;
use tautline_proto::device::{Cycle, Direction, Flow, Process, Settings};
use tautline_proto::time::{Frames, LocalTime, Span};

use super::callee::{GraphShared, LONGEST, side};
use super::course::{CycleReport, GraphTiming};
use crate::toolbox::Sides;
use crate::toolbox::callback::HeldProcess;
use crate::toolbox::callback::{Ports, interleave, lay_out, part};

#[derive(Debug, Clone, Copy)]
pub(super) struct FilterPort(pub(super) NonNull<c_void>);

struct FilterBuffers {
    at: Sides<Box<[*mut f32]>>,
    frames: usize,
}

impl FilterBuffers {
    fn get(&mut self, ports: &Sides<Box<[FilterPort]>>, frames: u32) {
        self.frames = frames as usize;
        for direction in [Direction::Capture, Direction::Playback] {
            for (at, port) in self.at.of_mut(direction).iter_mut().zip(ports.of(direction).iter()) {
                // SAFETY: the port belongs to a connected filter, in whose process callback we are.
                *at = unsafe { pw_filter_get_dsp_buffer(port.0.as_ptr(), frames) }.cast();
            }
        }
    }
}

impl Ports for FilterBuffers {
    fn received(&self, channel: usize) -> Option<&[f32]> {
        let buffer = NonNull::new(*self.at.capture.get(channel)?)?;
        // SAFETY: the buffer of an input port holds this many samples for this cycle, and is not
        // written meanwhile.
        Some(unsafe { std::slice::from_raw_parts(buffer.as_ptr(), self.frames) })
    }

    fn played(&mut self, channel: usize) -> Option<&mut [f32]> {
        let buffer = NonNull::new(*self.at.playback.get(channel)?)?;
        // SAFETY: an output port's buffer has this many samples for this cycle, for this port
        // alone.
        Some(unsafe { std::slice::from_raw_parts_mut(buffer.as_ptr(), self.frames) })
    }
}

pub(super) struct Wired {
    shared: Arc<GraphShared>,
    pub(super) settings: Settings,
    ports: Sides<Box<[FilterPort]>>,
    buffers: FilterBuffers,
    courses: Sides<GraphTiming>,
    blocks: Sides<Box<[f32]>>,
    begun: bool,
}

impl Wired {
    pub(super) fn new(shared: Arc<GraphShared>, settings: Settings, at_ports: bool) -> Self {
        let course = |direction| {
            let course = GraphTiming::new(direction, settings.rate);
            if at_ports { course.at_ports() } else { course }
        };
        let channels = settings.channels.count();
        Self {
            shared,
            settings,
            ports: Sides::default(),
            buffers: FilterBuffers {
                at: Sides::each(|_| vec![std::ptr::null_mut(); channels].into()),
                frames: 0,
            },
            courses: Sides::each(course),
            blocks: Sides::each(|_| vec![0.0; LONGEST * channels].into()),
            begun: false,
        }
    }

    pub(super) fn set_ports(&mut self, ports: Sides<Box<[FilterPort]>>) {
        self.ports = ports;
    }

    // scripts/check-realtime finds it by its name.
    #[inline(never)]
    pub(super) fn call(&mut self, clock: Option<&spa_io_clock>) {
        let now = now();
        let shared = Arc::clone(&self.shared);
        let mut held = shared.seat.hold();
        let process = held.as_mut().and_then(HeldProcess::process);
        if process.is_some() && !std::mem::replace(&mut self.begun, true) {
            shared.give_priority();
        }
        let _realtime = realtime::scope();
        let Some(clock) = clock else { return };
        self.buffers.get(&self.ports, u32::try_from(clock.duration).unwrap_or(0));
        let called = process.filter(|_| !shared.is_over()).zip(report(clock));
        let called = called.filter(|(_, report)| report.hertz == self.settings.rate.hertz());
        let Some((process, report)) = called else {
            self.courses.capture.restart();
            self.courses.playback.restart();
            self.silence(0);
            return;
        };
        if self.cycle(process, report, now) == Flow::Finished {
            shared.end();
        }
        shared.notify(&self.courses.playback, report);
    }

    fn cycle(&mut self, process: &mut dyn Process, report: CycleReport, now: LocalTime) -> Flow {
        let (settings, channels) = (self.settings, self.settings.channels.count());
        let frames = self.buffers.frames;
        let whole = Frames::from_len(frames);
        let places = Sides {
            capture: self.courses.capture.place(report, whole),
            playback: self.courses.playback.place(report, whole),
        };
        for (index, from) in (0..frames).step_by(LONGEST).enumerate() {
            let samples = LONGEST.min(frames - from) * channels;
            let received = part(&mut self.blocks.capture, samples);
            interleave(&self.buffers, channels, from, received);
            let played = part(&mut self.blocks.playback, samples);
            played.fill(0.0);
            let capture = side(received, settings, places.capture, index);
            let playback = side(played, settings, places.playback, index);
            let xruns = u32::from(capture.skipped.max(playback.skipped) > Frames::ZERO);
            let flow = process.process(&mut Cycle { now, capture, playback, xruns, clock: None });
            lay_out(part(&mut self.blocks.playback, samples), channels, from, &mut self.buffers);
            if flow == Flow::Finished {
                self.silence(from + samples / channels);
                return flow;
            }
        }
        Flow::Continue
    }

    fn silence(&mut self, from: usize) {
        for channel in 0..self.settings.channels.count() {
            if let Some(out) = self.buffers.played(channel) {
                out[from..].fill(0.0);
            }
        }
    }
}

fn report(clock: &spa_io_clock) -> Option<CycleReport> {
    let (num, denom) = (clock.rate.num, clock.rate.denom);
    if num == 0 || denom == 0 || clock.nsec == 0 {
        return None;
    }
    let nanos = i64::try_from(clock.nsec).ok()?;
    Some(CycleReport {
        began: LocalTime::ZERO + Span::from_nanos(nanos),
        ticks: clock.position,
        hertz: denom / num,
        delay: 0,
        buffered: Frames::ZERO,
    })
}
