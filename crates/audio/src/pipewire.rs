//! A node of PipeWire, by its own name: a sink that other programs play to, a source that they
//! record from, or a stream that is connected to a sound card.
//!
//! The graph calls the process, on a thread of PipeWire's, once per cycle: `node` is the device,
//! `course` decides where a block lies in time. What needs the library is behind the feature
//! `pipewire`; without it every name is understood and answered with what is missing.

use std::fmt;
use std::str::FromStr;

use tautline_proto::device::{Device, DeviceError, Direction, Settings};

use crate::{DeviceDescription, Notes, StreamLatency};

#[cfg(feature = "pipewire")]
mod callee;
#[cfg(any(feature = "pipewire", test))]
mod course;
mod graph;
#[cfg(feature = "pipewire")]
mod library;
#[cfg(feature = "pipewire")]
mod node;
#[cfg(feature = "pipewire")]
mod offer;
#[cfg(feature = "pipewire")]
mod pods;
#[cfg(feature = "pipewire")]
mod priority;
#[cfg(feature = "pipewire")]
mod server;
#[cfg(feature = "pipewire")]
mod time;

pub use graph::Graph;

/// The options, for people.
const OPTIONS: &str = "as=stream, target=NODE and force=yes";

/// What stands after `pipewire:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipeWireSpec {
    /// Its name in the graph, which is what a desktop shows.
    node: String,
    shape: Shape,
    /// `force=yes`: the graph is not only asked for the period but made to run at it.
    force: bool,
    /// Instants are those at the ports ([`DeviceSpec::at_ports`](crate::DeviceSpec::at_ports)).
    pub(crate) at_ports: bool,
}

/// What the node is to other programs.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Shape {
    /// A device that they choose: a sink that is heard by `taut send`, a source that `taut recv`
    /// plays to.
    Device,
    /// A stream as they have them: connected to this node, or to the default device.
    Stream(Option<String>),
}

impl FromStr for PipeWireSpec {
    type Err = DeviceError;

    fn from_str(rest: &str) -> Result<Self, DeviceError> {
        let refuse = |answer: &str, mend: &str| DeviceError {
            tried: format!("pipewire:{rest}"),
            answer: answer.to_owned(),
            mend: mend.to_owned(),
        };
        let (node, query) = rest.split_once('?').unwrap_or((rest, ""));
        if node.is_empty() {
            return Err(refuse("the name is missing", "name one, such as pipewire:Kitchen"));
        }
        let (node, shape) = (node.to_owned(), Shape::Device);
        let mut spec = Self { node, shape, force: false, at_ports: false };
        let (mut target, mut device) = (None, false);
        for option in query.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=').unwrap_or((option, "")) {
                ("as", "stream") => spec.shape = Shape::Stream(None),
                ("as", "device") => device = true,
                ("as", _) => {
                    return Err(refuse("a node is as=device or as=stream", "use one of them"));
                }
                ("force", "yes") => spec.force = true,
                ("force", "no") => spec.force = false,
                ("force", _) => return Err(refuse("force is yes or no", "use force=yes")),
                ("target", "") => {
                    return Err(refuse("target names no node", "taut devices lists them"));
                }
                ("target", node) => target = Some(node.to_owned()),
                (key, _) => {
                    let answer = format!("pipewire: has no option ‘{key}’");
                    return Err(refuse(&answer, &format!("it has {OPTIONS}")));
                }
            }
        }
        if device && (target.is_some() || spec.shape != Shape::Device) {
            return Err(refuse("only a stream has a target", "leave as=device out"));
        }
        if target.is_some() {
            spec.shape = Shape::Stream(target);
        }
        Ok(spec)
    }
}

impl fmt::Display for PipeWireSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pipewire:{}", self.node)
    }
}

/// How the device would run: at the rate and with the channels that are wanted, because the graph
/// converts, and in cycles as long as the graph grants.
#[cfg(feature = "pipewire")]
pub(crate) fn settle(
    spec: &PipeWireSpec,
    direction: Direction,
    wanted: Settings,
) -> Result<Settings, DeviceError> {
    offer::settle(spec, direction, wanted)
}

/// Opens it.
#[cfg(feature = "pipewire")]
pub(crate) fn open(
    spec: &PipeWireSpec,
    direction: Direction,
    settings: Settings,
    (notes, latency): (&Notes, &StreamLatency),
) -> Result<Box<dyn Device>, DeviceError> {
    Ok(Box::new(node::Node::open(spec, direction, settings, (notes, latency))?))
}

/// Those that are here.
#[cfg(feature = "pipewire")]
pub(crate) fn list() -> Vec<DeviceDescription> {
    offer::list()
}

/// How the graph runs; `None` without a server that answers. Starts none.
#[cfg(feature = "pipewire")]
pub fn graph() -> Option<Graph> {
    offer::graph()
}

/// How the device would run, if this build had any.
#[cfg(not(feature = "pipewire"))]
pub(crate) fn settle(
    spec: &PipeWireSpec,
    _direction: Direction,
    _wanted: Settings,
) -> Result<Settings, DeviceError> {
    Err(left_out(spec))
}

/// Opens it, if this build had any.
#[cfg(not(feature = "pipewire"))]
pub(crate) fn open(
    spec: &PipeWireSpec,
    _direction: Direction,
    _settings: Settings,
    _told: (&Notes, &StreamLatency),
) -> Result<Box<dyn Device>, DeviceError> {
    Err(left_out(spec))
}

/// Those that are here: none.
#[cfg(not(feature = "pipewire"))]
pub(crate) fn list() -> Vec<DeviceDescription> {
    Vec::new()
}

/// How the graph runs: this build cannot ask.
#[cfg(not(feature = "pipewire"))]
pub fn graph() -> Option<Graph> {
    None
}

#[cfg(not(feature = "pipewire"))]
fn left_out(spec: &PipeWireSpec) -> DeviceError {
    DeviceError {
        tried: spec.to_string(),
        answer: "this taut was built without PipeWire".to_owned(),
        mend:
            "apt-get install libpipewire-0.3-dev libclang-dev, then build it again (make release)"
                .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<PipeWireSpec, String> {
        text.parse().map_err(|error: DeviceError| error.to_string())
    }

    #[test]
    fn a_name_alone_is_a_device_of_that_name() {
        let spec = read("Living Room").unwrap();
        assert_eq!(
            (spec.node.as_str(), &spec.shape, spec.force),
            ("Living Room", &Shape::Device, false)
        );
        assert_eq!(spec.to_string(), "pipewire:Living Room");
        assert_eq!(read("Living Room?as=device"), Ok(spec));
    }

    #[test]
    fn a_target_makes_it_a_stream() {
        for text in ["taut?target=alsa_input.usb", "taut?as=stream&target=alsa_input.usb"] {
            let target = Some("alsa_input.usb".to_owned());
            assert_eq!(read(text).unwrap().shape, Shape::Stream(target), "{text}");
        }
        assert_eq!(read("taut?as=stream").unwrap().shape, Shape::Stream(None));
        assert!(read("taut?force=yes").unwrap().force);
    }

    #[test]
    fn what_is_wrong_is_answered_with_the_mend() {
        for (text, says) in [
            ("", "pipewire:: the name is missing; name one, such as pipewire:Kitchen"),
            ("?as=stream", "the name is missing"),
            ("x?as=sink", "as=device or as=stream"),
            ("x?force=1", "use force=yes"),
            ("x?target=", "taut devices lists them"),
            ("x?quantum=64", "no option ‘quantum’; it has as=stream, target=NODE and force=yes"),
            ("x?as=device&target=y", "only a stream has a target"),
            ("x?target=y&as=device", "only a stream has a target"),
        ] {
            let said = read(text).expect_err(text);
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
