//! A device's node: a one-way converted stream, or a filter.
#![expect(unsafe_code, reason = "objects of a C library go from one thread to another")]

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipewire::properties::Properties;
use pipewire::spa::utils::Direction as SpaDirection;
use pipewire::stream::{Stream, StreamFlags, StreamListener, StreamState};
use tautline_proto::device::{DeviceError, Direction, Directions, Settings};
use tautline_proto::time::Span;

use crate::pipewire::callee::{Callee, GraphShared};
use crate::pipewire::filter::{Filter, report};
use crate::pipewire::pods;
use crate::pipewire::server::{FoundNode, Purpose, Server, Survey};
use crate::pipewire::spec::{NodeKind, PipeWireSpec};
use crate::pipewire::wired::Wired;

const TIMEOUT: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(20);

pub(super) struct HeldNode {
    node: Made,
    server: Server,
}

enum Made {
    Stream {
        _called: StreamListener<Callee>,
        _received: StreamListener<()>,
        lost: Rc<RefCell<Option<String>>>,
        stream: Stream,
    },
    Filter(Filter),
}

// SAFETY: every `Rc` count is inside, so it moves as a whole. The library needs one thread at a
// time (noted at each `enter`), as `&mut` and ownership ensure.
unsafe impl Send for HeldNode {}

impl Drop for HeldNode {
    fn drop(&mut self) {
        if let Made::Stream { stream, .. } = &self.node {
            let _ = stream.disconnect();
        }
    }
}

impl HeldNode {
    pub(super) fn connect(
        spec: &PipeWireSpec,
        directions: Directions,
        settings: Settings,
        shared: &Arc<GraphShared>,
    ) -> Result<Self, DeviceError> {
        let name = spec.to_string();
        let server = Server::connect(&name, Purpose::Sounding)?;
        let failed = |answer: &str| not_made(&name, answer);
        let target = match (&spec.shape, directions) {
            (NodeKind::Stream(Some(target)), Directions::One(direction)) => {
                Some(Survey::of(&server)?.find(target, direction)?)
            }
            _ => None,
        };
        let properties = properties(spec, directions, &settings, target.as_ref());
        let node = match directions {
            Directions::One(direction) => {
                let callee = Callee::new(Arc::clone(shared), direction, settings, spec.at_ports);
                stream(&server, spec, properties, callee)
                    .map_err(|error| failed(&error.to_string()))?
            }
            Directions::Both => {
                let wired = Wired::new(Arc::clone(shared), settings, spec.at_ports);
                Filter::connect(server.core(), &spec.node, properties, wired)
                    .map(Made::Filter)
                    .map_err(|error| failed(&error))?
            }
        };
        let held = Self { node, server };
        let until = Instant::now() + TIMEOUT;
        while held.is_connecting() && held.gone().is_none() {
            if Instant::now() >= until {
                return Err(failed("the server does not respond"));
            }
            held.iterate(LOOK);
        }
        held.gone().map_or(Ok(()), |why| Err(failed(&why)))?;
        Ok(held)
    }

    pub(super) fn iterate(&self, at_most: Duration) {
        self.server.iterate(at_most);
    }

    fn is_connecting(&self) -> bool {
        match &self.node {
            Made::Stream { stream, .. } => matches!(stream.state(), StreamState::Connecting),
            Made::Filter(_) => false,
        }
    }

    pub(super) fn gone(&self) -> Option<String> {
        self.server.error().or_else(|| match &self.node {
            Made::Stream { lost, .. } => lost.borrow().clone(),
            Made::Filter(filter) => filter.lost(),
        })
    }

    pub(super) fn notify(&self, direction: Direction, latency: Span) {
        if let Made::Stream { stream, .. } = &self.node {
            let [ports, node] = pods::latency(spa_direction(direction), latency);
            let _ = stream.update_params(&mut [ports.pod(), node.pod()]);
        }
    }
}

pub(super) fn not_made(name: &str, answer: &str) -> DeviceError {
    DeviceError {
        tried: name.to_owned(),
        answer: format!("PipeWire cannot create the node: {answer}"),
        hint: "check other nodes: pw-cat --list-targets".to_owned(),
    }
}

fn stream(
    server: &Server,
    spec: &PipeWireSpec,
    properties: Properties,
    callee: Callee,
) -> Result<Made, pipewire::Error> {
    let stream = Stream::new(server.core(), &spec.node, properties)?;
    let (direction, format) = (callee.direction, pods::format(&callee.settings));
    let called = stream
        .add_local_listener_with_user_data(callee)
        .process(|stream, callee| callee.call(stream, report(stream)))
        .register()?;
    let lost = Rc::<RefCell<Option<String>>>::default();
    let lost_in = Rc::clone(&lost);
    let received = stream
        .add_local_listener_with_user_data(())
        .state_changed(move |_, (), _, now| {
            let why = match now {
                StreamState::Error(why) => why,
                StreamState::Unconnected => "the node was removed".to_owned(),
                _ => return,
            };
            lost_in.borrow_mut().get_or_insert(why);
        })
        .register()?;
    let mut flags = StreamFlags::MAP_BUFFERS | StreamFlags::RT_PROCESS;
    if spec.shape != NodeKind::Device {
        flags |= StreamFlags::AUTOCONNECT;
    }
    stream.connect(spa_direction(direction), None, flags, &mut [format.pod()])?;
    Ok(Made::Stream { _called: called, _received: received, lost, stream })
}

pub(super) fn spa_direction(direction: Direction) -> SpaDirection {
    match direction {
        Direction::Capture => SpaDirection::Input,
        Direction::Playback => SpaDirection::Output,
    }
}

/// Session priority of a source: the default only without a microphone. WirePlumber 0.5 gives
/// monitors at most 1509, microphones mostly over 1700 (monitors/alsa.lua).
const SOURCE_PRIORITY: &str = "1600";

fn properties(
    spec: &PipeWireSpec,
    directions: Directions,
    settings: &Settings,
    target: Option<&FoundNode>,
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
    set("node.rate", &format!("1/{rate}"));
    if spec.force {
        set("node.force-quantum", &period.to_string());
    }
    // Without connections the stream sends silence and keeps time.
    set("node.always-process", "true");
    set("node.want-driver", "true");
    set("node.pause-on-idle", "false");
    set("session.suspend-timeout-seconds", "0");
    match (&spec.shape, directions) {
        (NodeKind::Device, Directions::One(Direction::Capture)) => {
            set("media.class", "Audio/Sink");
            set("node.virtual", "true");
        }
        (NodeKind::Device, Directions::One(Direction::Playback)) => {
            set("media.class", "Audio/Source");
            set("node.virtual", "true");
            set("priority.session", SOURCE_PRIORITY);
        }
        (NodeKind::Stream(_), Directions::One(Direction::Capture)) => {
            set("media.category", "Capture")
        }
        (NodeKind::Stream(_), Directions::One(Direction::Playback)) => {
            set("media.category", "Playback")
        }
        (_, Directions::Both) => {
            set("media.category", "Filter");
            set("media.role", "DSP");
        }
    }
    if let Some(target) = target {
        set("target.object", &target.name);
        if directions == Direction::Capture.into() && target.class.starts_with("Audio/Sink") {
            set("stream.capture.sink", "true");
        }
    }
    properties
}
