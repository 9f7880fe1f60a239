//! The device: a stream of PipeWire's with a name, and the thread that looks after it.
#![expect(unsafe_code, reason = "objects of a C library go from one thread to another")]

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipewire::properties::Properties;
use pipewire::spa::utils::Direction as Way;
use pipewire::stream::{Stream, StreamFlags, StreamListener, StreamState};
use tautline_io::clock::now;
use tautline_proto::device::{Device, DeviceError, Direction, Ended, Process, Settings, Stop};
use tautline_proto::time::Span;

use super::callee::{Callee, Shared, report};
use super::pods;
use super::server::{Found, Purpose, Server, Survey};
use super::spec::{PipeWireSpec, Shape};
use crate::toolbox::callback::Watch;
use crate::toolbox::notes::Notes;
use crate::toolbox::stream_latency::StreamLatency;

/// How long a node may take to be in the graph.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often the thread that runs the device looks what became of it. Nobody wakes it: that would
/// be a system call on the graph's thread.
const LOOK: Duration = Duration::from_millis(20);
/// A change of latency that others are told of: what a resampler holds goes up and down by less.
const WORTH_TELLING: Span = Span::from_millis(1);

/// A node of ours.
pub(super) struct Node {
    name: String,
    direction: Direction,
    settings: Settings,
    notes: Notes,
    latency: StreamLatency,
    /// What the graph was told of it.
    promised: Span,
    shared: Arc<Shared>,
    /// The pace of the graph that was told last.
    told: Option<(u32, u32)>,
    held: Held,
}

/// What belongs to the library, in the order in which it is to be dropped.
struct Held {
    _called: StreamListener<Callee>,
    _heard: StreamListener<()>,
    lost: Rc<RefCell<Option<String>>>,
    stream: Stream,
    server: Server,
}

// SAFETY: what is counted by `Rc` in here is counted nowhere else, so all of it goes along. The
// library asks only that one thread at a time iterates a loop and calls what belongs to it (its
// loop notes the thread at each `enter`), which `&mut` and ownership give.
unsafe impl Send for Held {}

impl Drop for Held {
    /// The graph calls no more once this returns, so the listeners can go.
    fn drop(&mut self) {
        // It fails where the server has gone, and nothing is connected then.
        let _ = self.stream.disconnect();
    }
}

impl Node {
    /// Puts the node into the graph; until it is run it is silent.
    pub(super) fn open(
        spec: &PipeWireSpec,
        direction: Direction,
        settings: Settings,
        (notes, latency): (&Notes, &StreamLatency),
    ) -> Result<Self, DeviceError> {
        let name = spec.to_string();
        let server = Server::connect(&name, Purpose::Sounding)?;
        let target = match &spec.shape {
            Shape::Stream(Some(target)) => Some(Survey::of(&server)?.find(target, direction)?),
            Shape::Stream(None) | Shape::Device => None,
        };
        let failed = |answer: &str| DeviceError {
            tried: name.clone(),
            answer: format!("PipeWire makes no such node: {answer}"),
            mend: "see whether others work: pw-cat --list-targets".to_owned(),
        };
        let properties = properties(spec, direction, &settings, target.as_ref());
        let stream = Stream::new(server.core(), &spec.node, properties)
            .map_err(|error| failed(&error.to_string()))?;
        let shared = Arc::new(Shared::new());
        let callee = Callee::new(Arc::clone(&shared), direction, settings, spec.at_ports);
        // Two listeners: this one is the graph's thread's alone.
        let called = stream
            .add_local_listener_with_user_data(callee)
            .process(|stream, callee| callee.call(stream, report(stream)))
            .register()
            .map_err(|error| failed(&error.to_string()))?;
        let lost = Rc::<RefCell<Option<String>>>::default();
        let lost_in = Rc::clone(&lost);
        let heard = stream
            .add_local_listener_with_user_data(())
            .state_changed(move |_, (), _, now| {
                let why = match now {
                    StreamState::Error(why) => why,
                    StreamState::Unconnected => "the node was removed".to_owned(),
                    _ => return,
                };
                lost_in.borrow_mut().get_or_insert(why);
            })
            .register()
            .map_err(|error| failed(&error.to_string()))?;
        let format = pods::format(&settings);
        let mut flags = StreamFlags::MAP_BUFFERS | StreamFlags::RT_PROCESS;
        if spec.shape != Shape::Device {
            flags |= StreamFlags::AUTOCONNECT;
        }
        stream
            .connect(way(direction), None, flags, &mut [format.pod()])
            .map_err(|error| failed(&error.to_string()))?;
        let held = Held { _called: called, _heard: heard, lost, stream, server };
        let until = Instant::now() + PATIENCE;
        while matches!(held.stream.state(), StreamState::Connecting) && held.gone().is_none() {
            if Instant::now() >= until {
                return Err(failed("the server does not answer"));
            }
            held.server.iterate(LOOK);
        }
        if let Some(why) = held.gone() {
            return Err(failed(&why));
        }
        // A node that is back and silent would take the timer's place for nothing.
        let mut watch = Watch::new(0, now());
        while shared.seat.calls() == 0 {
            held.server.iterate(LOOK);
            if let Some(why) = held.gone() {
                return Err(failed(&why));
            }
            if watch.is_silent(0, now(), Span::ZERO) {
                return Err(silent(&name));
            }
        }
        let (notes, latency) = (notes.clone(), latency.clone());
        let (promised, told) = (Span::ZERO, None);
        Ok(Self { name, direction, settings, notes, latency, promised, shared, told, held })
    }

    /// Tells the graph what sound takes from here to the far end, or from there to here: the link
    /// offset is from converter to converter, and includes the way between converter and node.
    fn promise(&mut self) {
        let latency = (self.latency.get() - self.shared.way()).max(Span::ZERO);
        if self.shared.pace().is_none() || (latency - self.promised).abs() < WORTH_TELLING {
            return;
        }
        self.promised = latency;
        let [ports, node] = pods::latency(way(self.direction), latency);
        // A graph that cannot be told goes on as before.
        let _ = self.held.stream.update_params(&mut [ports.pod(), node.pod()]);
    }

    /// How often the graph calls, as far as it is known.
    fn cycle(&self) -> Span {
        let (ticks, hertz) = self.shared.pace().unwrap_or((0, 1));
        Span::from_nanos(i64::from(ticks) * 1_000_000_000 / i64::from(hertz.max(1)))
    }

    /// Tells the pace of the graph when it is known, and when it changes.
    fn tell(&mut self) {
        let pace = self.shared.pace();
        if pace == self.told {
            return;
        }
        self.told = pace;
        let Some((quantum, hertz)) = pace else { return };
        let Settings { rate, period, .. } = self.settings;
        let graph = format!("{}: the graph calls every {quantum} frames at {hertz} Hz", self.name);
        let asked = period.count() * i64::from(hertz) / i64::from(rate.hertz());
        let converted = if hertz == rate.hertz() {
            String::new()
        } else {
            format!("; it converts to {rate}, so sound is not carried bit for bit")
        };
        self.notes.add(if i64::from(quantum) > asked {
            format!(
                "{graph}, not every {asked} as it was asked to, which adds to the latency: see \
                 pw-metadata -n settings, or add force=yes{converted}"
            )
        } else {
            format!("{graph}{converted}")
        });
    }
}

/// The graph does not call the node.
fn silent(name: &str) -> DeviceError {
    DeviceError {
        tried: name.to_owned(),
        answer:
            "PipeWire does not call the node: the server stalled, or there is no session manager"
                .to_owned(),
        mend: "start both again: systemctl --user restart pipewire wireplumber".to_owned(),
    }
}

impl Held {
    /// Why the node is no longer in a graph.
    fn gone(&self) -> Option<String> {
        self.server.error().or_else(|| self.lost.borrow().clone())
    }
}

impl Device for Node {
    fn settings(&self) -> Settings {
        self.settings
    }

    fn run(&mut self, process: Box<dyn Process>, stop: &Stop) -> (Box<dyn Process>, Ended) {
        self.shared.give(process);
        let mut watch = Watch::new(self.shared.seat.calls(), now());
        let ended = loop {
            self.held.server.iterate(LOOK);
            self.tell();
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
                    answer: format!("the server is gone, or took the node out: {answer}"),
                    mend: "start it again: systemctl --user restart pipewire wireplumber"
                        .to_owned(),
                });
            }
        };
        let process =
            self.shared.seat.take().expect("it was put in above, and only this takes it out");
        (process, ended)
    }
}

/// The way of the stream, as the graph sees it.
fn way(direction: Direction) -> Way {
    match direction {
        Direction::Capture => Way::Input,
        Direction::Playback => Way::Output,
    }
}

fn properties(
    spec: &PipeWireSpec,
    direction: Direction,
    settings: &Settings,
    target: Option<&Found>,
) -> Properties {
    let (period, rate) = (settings.period.count(), settings.rate.hertz());
    let mut properties = Properties::new();
    let mut set = |key: &str, value: &str| properties.insert(key, value);
    for key in ["node.name", "node.description", "node.nick", "media.name"] {
        set(key, &spec.node);
    }
    set("application.name", "taut");
    set("media.type", "Audio");
    set("node.latency", &format!("{period}/{rate}"));
    // A graph that may change its rate for us does.
    set("node.rate", &format!("1/{rate}"));
    if spec.force {
        set("node.force-quantum", &period.to_string());
    }
    // The stream goes on while nobody is connected: silence is sent, and time is kept.
    set("node.always-process", "true");
    set("node.want-driver", "true");
    set("node.pause-on-idle", "false");
    set("session.suspend-timeout-seconds", "0");
    match (&spec.shape, direction) {
        (Shape::Device, Direction::Capture) => {
            set("media.class", "Audio/Sink");
            set("node.virtual", "true");
        }
        (Shape::Device, Direction::Playback) => {
            set("media.class", "Audio/Source");
            set("node.virtual", "true");
        }
        (Shape::Stream(_), Direction::Capture) => set("media.category", "Capture"),
        (Shape::Stream(_), Direction::Playback) => set("media.category", "Playback"),
    }
    if let Some(target) = target {
        set("target.object", &target.name);
        if direction == Direction::Capture && target.class.starts_with("Audio/Sink") {
            set("stream.capture.sink", "true");
        }
    }
    properties
}
