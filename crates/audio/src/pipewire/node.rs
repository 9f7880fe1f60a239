//! The device: a node and its supervising thread.

use std::sync::Arc;
use std::time::Duration;

use tautline_io::clock::now;
use tautline_proto::device::{Device, DeviceError, Directions, Ended, Process, Settings, Stop};
use tautline_proto::time::Span;

use super::callee::GraphShared;
use super::held::{HeldNode, not_made};
use super::spec::PipeWireSpec;
use crate::toolbox::callback::CallWatch;
use crate::toolbox::{Notes, StreamLatency};

/// Polling interval, because waking this thread would be a system call on the graph's thread.
const LOOK: Duration = Duration::from_millis(20);
const WORTH_TELLING: Span = Span::from_millis(1);

pub(super) struct Node {
    name: String,
    directions: Directions,
    settings: Settings,
    notes: Notes,
    latency: StreamLatency,
    promised: Span,
    shared: Arc<GraphShared>,
    reported: Option<(u32, u32)>,
    held: HeldNode,
}

impl Node {
    pub(super) fn open(
        spec: &PipeWireSpec,
        directions: Directions,
        settings: Settings,
        notes: &Notes,
        latency: &StreamLatency,
    ) -> Result<Self, DeviceError> {
        let name = spec.to_string();
        let shared = Arc::new(GraphShared::new());
        let held = HeldNode::connect(spec, directions, settings, &shared)?;
        let mut watch = CallWatch::new(0, now());
        while shared.seat.calls() == 0 {
            held.iterate(LOOK);
            if let Some(why) = held.gone() {
                return Err(not_made(&name, &why));
            }
            if watch.is_silent(0, now(), Span::ZERO) {
                return Err(silent(&name));
            }
        }
        let (notes, latency) = (notes.clone(), latency.clone());
        let (promised, reported) = (Span::ZERO, None);
        Ok(Self { name, directions, settings, notes, latency, promised, shared, reported, held })
    }

    fn promise(&mut self) {
        let latency = (self.latency.get() - self.shared.graph_delay()).max(Span::ZERO);
        if self.shared.pace().is_none() || (latency - self.promised).abs() < WORTH_TELLING {
            return;
        }
        self.promised = latency;
        if let Directions::One(direction) = self.directions {
            self.held.notify(direction, latency);
        }
    }

    fn cycle(&self) -> Span {
        let (ticks, hertz) = self.shared.pace().unwrap_or((0, 1));
        Span::from_nanos(i64::from(ticks) * 1_000_000_000 / i64::from(hertz.max(1)))
    }

    fn notify(&mut self) {
        let pace = self.shared.pace();
        if pace == self.reported {
            return;
        }
        self.reported = pace;
        let Some((quantum, hertz)) = pace else { return };
        let Settings { rate, period, .. } = self.settings;
        let graph = format!("{}: the graph calls every {quantum} frames at {hertz} Hz", self.name);
        let requested = period.count() * i64::from(hertz) / i64::from(rate.hertz());
        let converted = if hertz == rate.hertz() {
            String::new()
        } else {
            format!("; it converts to {rate}, so sound is not bit-exact")
        };
        self.notes.add(if i64::from(quantum) > requested {
            format!(
                "{graph} instead of every {requested} frames, which increases the latency: see pw-metadata -n settings, or add \
                 force=yes{converted}"
            )
        } else {
            format!("{graph}{converted}")
        });
    }
}

fn silent(name: &str) -> DeviceError {
    DeviceError {
        tried: name.to_owned(),
        answer: "PipeWire does not call the node: the server stalled, or no session manager runs"
            .to_owned(),
        hint: "restart both: systemctl --user restart pipewire wireplumber".to_owned(),
    }
}

impl Device for Node {
    fn settings(&self) -> Settings {
        self.settings
    }

    fn run(&mut self, process: Box<dyn Process>, stop: &Stop) -> (Box<dyn Process>, Ended) {
        self.shared.give(process);
        let mut watch = CallWatch::new(self.shared.seat.calls(), now());
        let ended = loop {
            self.held.iterate(LOOK);
            self.notify();
            self.promise();
            if stop.is_requested() {
                break Ended::Stopped;
            }
            if self.shared.is_over() {
                break Ended::Finished;
            }
            if watch.is_silent(self.shared.seat.calls(), now(), self.cycle()) {
                break Ended::Gone(silent(&self.name));
            }
            if let Some(answer) = self.held.gone() {
                break Ended::Gone(DeviceError {
                    tried: self.name.clone(),
                    answer: format!("the server ended, or removed the node: {answer}"),
                    hint: "restart it: systemctl --user restart pipewire wireplumber".to_owned(),
                });
            }
        };
        let process =
            self.shared.seat.take().expect("it was put in above, and only this takes it out");
        (process, ended)
    }
}
