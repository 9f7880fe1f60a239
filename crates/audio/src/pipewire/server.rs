//! A connection to a PipeWire server; waits at most [`TIMEOUT`].

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use pipewire::context::Context;
use pipewire::core::{Core, Listener, PW_ID_CORE};
use pipewire::main_loop::MainLoop;
use pipewire::metadata::Metadata;
use pipewire::properties::Properties;
use pipewire::registry::GlobalObject;
use pipewire::types::ObjectType;
use tautline_proto::device::{DeviceError, Direction};

use super::graph::Graph;
use super::library;

const TIMEOUT: Duration = Duration::from_millis(400);
const REAL_TIME: &str = "client-rt.conf";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Asking,
    Sounding,
}

#[derive(Debug, Default)]
struct ServerEvents {
    done: Cell<Option<i32>>,
    error: RefCell<Option<String>>,
}

pub(super) struct Server {
    _listener: Listener,
    core: Core,
    received: Rc<ServerEvents>,
    main: MainLoop,
    name: String,
}

impl Server {
    pub(super) fn connect(name: &str, purpose: Purpose) -> Result<Self, DeviceError> {
        library::load(name)?;
        let failed = |what: &str| absent(name, &format!("{what}: {}", io::Error::last_os_error()));
        let main = MainLoop::new(None).map_err(|_| failed("no loop"))?;
        let context = match purpose {
            Purpose::Asking => Context::new(&main),
            Purpose::Sounding => {
                let mut properties = Properties::new();
                properties.insert(*pipewire::keys::CONFIG_NAME, REAL_TIME);
                Context::with_properties(&main, properties).or_else(|_| Context::new(&main))
            }
        };
        let context = context.map_err(|_| failed("no context"))?;
        let core = context.connect(None).map_err(|_| failed("no server responds"))?;
        let received = Rc::<ServerEvents>::default();
        let (done, error) = (Rc::clone(&received), Rc::clone(&received));
        let listener = core
            .add_listener_local()
            .done(move |id, sequence| {
                if id == PW_ID_CORE {
                    done.done.set(Some(sequence.seq()));
                }
            })
            .error(move |_, _, code, message| {
                let system = io::Error::from_raw_os_error(-code);
                error.error.borrow_mut().get_or_insert(format!("{message} ({system})"));
            })
            .register();
        let server = Self { _listener: listener, core, received, main, name: name.to_owned() };
        server.roundtrip(Instant::now() + TIMEOUT)?;
        Ok(server)
    }

    pub(super) fn core(&self) -> &Core {
        &self.core
    }

    pub(super) fn iterate(&self, at_most: Duration) {
        self.main.loop_().iterate(at_most);
    }

    pub(super) fn error(&self) -> Option<String> {
        self.received.error.borrow().clone()
    }

    fn roundtrip(&self, until: Instant) -> Result<(), DeviceError> {
        let failed = |answer: &str| absent(&self.name, answer);
        let requested = self.core.sync(0).map_err(|error| failed(&error.to_string()))?;
        while self.received.done.get() != Some(requested.seq()) {
            if let Some(error) = self.error() {
                return Err(failed(&error));
            }
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Err(failed("the server does not respond"));
            }
            self.iterate(rest.max(Duration::from_millis(1)));
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundNode {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) class: String,
}

pub(super) struct Survey {
    name: String,
    pub(super) graph: Option<Graph>,
    pub(super) nodes: Vec<FoundNode>,
}

impl Survey {
    pub(super) fn of(server: &Server) -> Result<Self, DeviceError> {
        let until = Instant::now() + TIMEOUT;
        let failed = |error: pipewire::Error| absent(&server.name, &error.to_string());
        let registry = server.core.get_registry().map_err(failed)?;
        let nodes = Rc::<RefCell<Vec<FoundNode>>>::default();
        let settings = Rc::<RefCell<Option<GlobalObject<Properties>>>>::default();
        let (nodes_in, settings_in) = (Rc::clone(&nodes), Rc::clone(&settings));
        let _listener = registry
            .add_listener_local()
            .global(move |object| {
                let property = |key: &str| object.props.and_then(|props| props.get(key));
                match object.type_ {
                    ObjectType::Node => nodes_in.borrow_mut().extend(found(property)),
                    ObjectType::Metadata if property("metadata.name") == Some("settings") => {
                        *settings_in.borrow_mut() = Some(object.to_owned());
                    }
                    _ => {}
                }
            })
            .register();
        server.roundtrip(until)?;
        let mut clock = BTreeMap::new();
        if let Some(settings) = settings.take() {
            let metadata: Metadata = registry.bind(&settings).map_err(failed)?;
            clock = properties_of(server, &metadata, until)?;
        }
        let graph = Graph::described(|name| clock.get(name).map(String::as_str));
        Ok(Self { name: server.name.clone(), graph, nodes: nodes.take() })
    }

    pub(super) fn find(
        &self,
        target: &str,
        direction: Direction,
    ) -> Result<FoundNode, DeviceError> {
        let fits = |node: &&FoundNode| {
            let sink = node.class.starts_with("Audio/Sink");
            let fitting = direction == Direction::Capture && node.class.starts_with("Audio/Source");
            (sink || fitting) && (node.name == target || node.description == target)
        };
        self.nodes.iter().find(fits).cloned().ok_or_else(|| DeviceError {
            tried: self.name.clone(),
            answer: format!("no target named '{target}'"),
            hint: "taut devices lists them".to_owned(),
        })
    }
}

fn found<'a>(property: impl Fn(&str) -> Option<&'a str>) -> Option<FoundNode> {
    let class = property("media.class")?.to_owned();
    let name = property("node.name")?.to_owned();
    let description = property("node.description").unwrap_or(&name).to_owned();
    Some(FoundNode { name, description, class })
}

fn properties_of(
    server: &Server,
    metadata: &Metadata,
    until: Instant,
) -> Result<BTreeMap<String, String>, DeviceError> {
    let said = Rc::<RefCell<BTreeMap<String, String>>>::default();
    let said_in = Rc::clone(&said);
    let _listener = metadata
        .add_listener_local()
        .property(move |_, key, _, value| {
            if let Some((key, value)) = key.and_then(|key| key.strip_prefix("clock.")).zip(value) {
                said_in.borrow_mut().insert(key.to_owned(), value.to_owned());
            }
            0
        })
        .register();
    server.roundtrip(until)?;
    Ok(said.take())
}

fn absent(name: &str, answer: &str) -> DeviceError {
    DeviceError {
        tried: name.to_owned(),
        answer: format!("PipeWire: {answer}"),
        hint: "start it (systemctl --user start pipewire wireplumber) and run taut as the same user, with \
               XDG_RUNTIME_DIR set"
            .to_owned(),
    }
}
