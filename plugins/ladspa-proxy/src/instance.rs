//! An instance of a plugin, created immediately. Without its worker, the replacement plays.

use core::time::Duration;

use tautline_host::ladspa::abi::Data;
use tautline_io::clock::now;
use tautline_proto::time::{LocalTime, Span};

use crate::block::HostPorts;
use crate::forked;
use crate::options::{self, OffloadOptions};
use crate::ports::Connections;
use crate::report::RunReported;
use crate::shelf::{self, ShelfOffer};
use crate::twin::Twin;
use crate::working::{Working, duration};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostRun {
    Replacing,
    Adding,
}

/// Maximum wait of the first activation, so that a reachable worker gets the first frame.
const FIRST_WAIT: Span = Span::from_millis(200);
const LAST_WAIT: Duration = Duration::from_millis(200);

pub(crate) struct Instance {
    offer: &'static ShelfOffer,
    options: OffloadOptions,
    rate: u32,
    connections: Connections,
    usual: Vec<f32>,
    gain: Data,
    side: RunSide,
    generation: u32,
    made: LocalTime,
}

enum RunSide {
    Works(Box<Working>),
    Broken,
}

impl Instance {
    pub(crate) fn new(offer: &'static ShelfOffer, rate: u32) -> Self {
        // If it fails, forks are not detected.
        let _ = forked::watch();
        shelf::say_options_for_nobody();
        let (options, complaints) = options::read(&offer.label);
        let side = Working::new(offer, &options, rate);
        let side = match side {
            Ok(working) => {
                complaints.into_iter().for_each(|why| working.standing.emit(why));
                RunSide::Works(Box::new(working))
            }
            Err(why) => {
                crate::emit::emit(&format!("{}: {why}", offer.label));
                RunSide::Broken
            }
        };
        Self {
            offer,
            rate,
            connections: Connections::new(&offer.ports),
            usual: offer.ports.usual.iter().map(|hint| hint.first_value(rate)).collect(),
            gain: 1.0,
            side,
            generation: forked::generation(),
            made: now(),
            options,
        }
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.generation == forked::generation()
    }

    pub(crate) fn set_broken(&mut self) {
        if let RunSide::Works(working) = &self.side {
            working.standing.end();
        }
        // No invariant holds after a panic.
        core::mem::forget(core::mem::replace(&mut self.side, RunSide::Broken));
    }

    pub(crate) fn connect(&mut self, port: usize, place: *mut Data) {
        self.connections.connect(port, place);
    }

    pub(crate) fn set_gain(&mut self, gain: Data) {
        self.gain = gain;
    }

    pub(crate) fn activate(&mut self) {
        if !self.is_ours() {
            return;
        }
        let RunSide::Works(working) = &mut self.side else { return };
        let timeout = FIRST_WAIT - (now() - self.made);
        if timeout > Span::ZERO {
            working.standing.await_tried(duration(timeout));
        }
        working.activate();
    }

    pub(crate) fn deactivate(&mut self) {
        if let RunSide::Works(working) = &mut self.side {
            working.is_active = false;
        }
    }

    pub(crate) fn run(&mut self, frames: usize, run: HostRun) {
        let gain = (run == HostRun::Adding).then_some(self.gain);
        let is_ours = self.is_ours();
        let working = match &mut self.side {
            RunSide::Works(working) if is_ours => working,
            _ => {
                // SAFETY: the host has connected its ports to memory of `frames` samples.
                let mut ports =
                    unsafe { HostPorts::new(&self.connections, frames, gain, &self.usual, None) };
                ports.pass_on();
                self.tell_latency(0);
                return;
            }
        };
        if !working.is_active {
            working.activate();
        }
        working.standing.begin_run();
        let began = now();
        working.wait_if_it_renders(frames, began);
        // SAFETY: as above.
        unsafe { working.run(&self.connections, &self.usual, frames, gain) };
        working.standing.end_run();
        working.ahead.took(now() - began);
        let latency = working.offloaded.latency();
        self.tell_latency(latency);
    }

    fn tell_latency(&self, frames: u32) {
        if !self.connections.latency.is_null() {
            // SAFETY: the host connected it to memory for a value.
            unsafe { self.connections.latency.write(frames as Data) };
        }
    }

    pub(crate) fn end(&mut self) {
        if !self.is_ours() {
            return;
        }
        let RunSide::Works(working) = &mut self.side else { return };
        working.standing.end();
        working.desks.iter().for_each(|desk| desk.ring());
        working.standing.await_closed(LAST_WAIT);
        working.offloaded.finish();
        let seen = {
            let mut watch = working.standing.watch();
            watch.handle();
            if let Some(rest) = working.twin.as_ref().and_then(Twin::rest) {
                watch.record.note_span(rest);
            }
            working.offloaded.standing()
        };
        let reported = RunReported {
            offer: self.offer,
            options: &self.options,
            rate: self.rate,
            standing: &working.standing,
            seen,
            rendered: working.rendered(),
            verdict: working.twin.as_ref().map(Twin::verdict),
        };
        if !reported.is_complete() {
            let hint = self.options.hint_after(working.rendered(), working.rendered_in_vain());
            working.standing.conclude(format!(
                "{}: {}{hint}",
                self.offer.label,
                reported.damage_sentence()
            ));
        }
        // Hosts also create instances that never run.
        if let Some(verdict) = reported.verdict.as_ref().filter(|_| reported.seen.counters.runs > 0)
        {
            let place = if self.connections.share_a_place() {
                "; the host uses one buffer for input and output, with which some plugins sound different"
            } else {
                ""
            };
            let (label, sentence) = (&self.offer.label, verdict.sentence());
            working.standing.conclude(format!("{label}: {sentence}{place}"));
        }
        if let Some(path) = &self.options.report
            && let Err(error) = reported.write(path)
        {
            let path = path.display();
            crate::emit::emit(&format!(
                "cannot write {path}: {error}; check that its folder exists"
            ));
        }
    }
}
