//! A node, such as `pipewire:Kitchen?force=yes`.

use std::fmt;
use std::str::FromStr;

use tautline_proto::device::DeviceError;

const OPTIONS: &str = "as=stream, target=NODE or force=yes";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipeWireSpec {
    pub(super) node: String,
    pub(super) shape: NodeKind,
    pub(super) force: bool,
    pub(crate) at_ports: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NodeKind {
    Device,
    Stream(Option<String>),
}

impl PipeWireSpec {
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.shape, NodeKind::Stream(_))
    }

    pub(crate) fn stream(node: &str) -> Self {
        let shape = NodeKind::Stream(None);
        Self { node: node.to_owned(), shape, force: false, at_ports: false }
    }
}

impl FromStr for PipeWireSpec {
    type Err = DeviceError;

    fn from_str(rest: &str) -> Result<Self, DeviceError> {
        let refuse = |answer: &str, hint: &str| DeviceError {
            tried: format!("pipewire:{rest}"),
            answer: answer.to_owned(),
            hint: hint.to_owned(),
        };
        let (node, query) = rest.split_once('?').unwrap_or((rest, ""));
        if node.is_empty() {
            return Err(refuse("the name is missing", "name one, such as pipewire:Kitchen"));
        }
        let (node, shape) = (node.to_owned(), NodeKind::Device);
        let mut spec = Self { node, shape, force: false, at_ports: false };
        let (mut target, mut device) = (None, false);
        for option in query.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=').unwrap_or((option, "")) {
                ("as", "stream") => spec.shape = NodeKind::Stream(None),
                ("as", "device") => device = true,
                ("as", _) => {
                    return Err(refuse("invalid value of as", "use as=device or as=stream"));
                }
                ("force", "yes") => spec.force = true,
                ("force", "no") => spec.force = false,
                ("force", _) => return Err(refuse("invalid value of force", "use force=yes")),
                ("target", "") => {
                    return Err(refuse("target has no value", "taut devices lists them"));
                }
                ("target", node) => target = Some(node.to_owned()),
                (key, _) => {
                    let answer = format!("unknown option '{key}'");
                    return Err(refuse(&answer, &format!("use {OPTIONS}")));
                }
            }
        }
        if device && (target.is_some() || spec.shape != NodeKind::Device) {
            return Err(refuse("only a stream has a target", "remove as=device"));
        }
        if target.is_some() {
            spec.shape = NodeKind::Stream(target);
        }
        Ok(spec)
    }
}

impl fmt::Display for PipeWireSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pipewire:{}", self.node)
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;

    fn read(text: &str) -> Result<PipeWireSpec, String> {
        text.parse().map_err(|error: DeviceError| error.to_string())
    }

    #[test]
    fn a_name_alone_is_a_device_of_that_name() {
        let spec = read("Living Room").unwrap();
        assert_eq!(
            (spec.node.as_str(), &spec.shape, spec.force),
            ("Living Room", &NodeKind::Device, false)
        );
        assert_eq!(spec.to_string(), "pipewire:Living Room");
        assert_eq!(read("Living Room?as=device"), Ok(spec));
    }

    #[test]
    fn a_target_makes_it_a_stream() {
        for text in ["taut?target=alsa_input.usb", "taut?as=stream&target=alsa_input.usb"] {
            let target = Some("alsa_input.usb".to_owned());
            assert_eq!(read(text).unwrap().shape, NodeKind::Stream(target), "{text}");
        }
        assert_eq!(read("taut?as=stream").unwrap().shape, NodeKind::Stream(None));
        assert!(read("taut?force=yes").unwrap().force);
    }

    #[test]
    fn invalid_pipewire_address_has_a_hint() {
        for text in [
            "",
            "?as=stream",
            "x?as=sink",
            "x?force=1",
            "x?target=",
            "x?quantum=64",
            "x?as=device&target=y",
            "x?target=y&as=device",
        ] {
            let said = read(text).expect_err(text);
            snapshot!(format!("{text:?}"), said);
        }
    }
}
