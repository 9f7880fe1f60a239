//! The control connection of a call ([`tautline_proto::call`]): TLS with pinned keys, one line of
//! JSON per message. Exports the media keys. Only dialling blocks.

mod connection;
mod dial;
mod keys;
mod message_json;
mod probe;

use core::fmt;
use core::str::FromStr;

use tautline_proto::call::message::{
    ADAPTS_VERSION, CALL_VERSION, OLDEST_CALL_VERSION, REDUNDANCY_VERSION, TAKES_VERSION,
};

use crate::client::{NoWorkerAddress, WorkerAddress};

pub use connection::{CallConnection, ConnectionEnd, LineBuffer, LineTooLong, MAX_LINE};
pub use dial::DialError;
pub use keys::{CallKeys, MediaTicket, SALT_BYTES, SrtpSecret, call_secret, fresh_call};
pub use message_json::{InvalidCallMessage, read, written};
pub use probe::{PROBE_BYTES, PathProbes, ProbeWay};

/// ALPN protocol names (RFC 7301), each with its message version
/// ([`tautline_proto::call::message::CALL_VERSION`]), newest first.
pub const PROTOCOLS: [(&[u8], u32); 5] = [
    (b"tautline-call/7", CALL_VERSION),
    (b"tautline-call/6", REDUNDANCY_VERSION),
    (b"tautline-call/4", ADAPTS_VERSION),
    (b"tautline-call/3", TAKES_VERSION),
    (b"tautline-call/1", OLDEST_CALL_VERSION),
];

/// The names in [`PROTOCOLS`].
pub fn protocols() -> Vec<Vec<u8>> {
    PROTOCOLS.iter().map(|(name, _)| name.to_vec()).collect()
}

/// `None` if it is not a call.
pub fn version_of(protocol: Option<&[u8]>) -> Option<u32> {
    PROTOCOLS.iter().find(|(name, _)| Some(*name) == protocol).map(|(_, version)| *version)
}

/// Default port of calls: TCP, and UDP for media.
pub const CALL_PORT: u16 = 17240;

/// `[NAME=]HOST[:PORT]`, and the `ssh` destination of a forwarded address. The default port is
/// [`CALL_PORT`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallAddress(pub WorkerAddress, pub Option<Box<str>>);

impl CallAddress {
    /// Commands that pair with this machine, under `name` if given.
    pub fn pairing(&self, name: Option<&str>) -> String {
        let named = name.map_or(String::new(), |name| format!("{name}="));
        match &self.1 {
            Some(destination) => format!("run `taut pair {named}ssh:{destination}`"),
            None => {
                format!("run `taut pair` there, then `taut pair {named}{}` here", self.0.host)
            }
        }
    }

    /// What to check if it does not answer.
    pub fn check(&self) -> String {
        match &self.1 {
            Some(destination) => format!("check that `ssh {destination}` connects"),
            None => format!(
                "check the address, and that no firewall drops TCP {}; if ssh connects to it, use ssh:{}",
                self.0.port, self.0.host
            ),
        }
    }
}

impl fmt::Display for CallAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.1, &self.0.name) {
            (None, _) => self.0.fmt(f),
            (Some(destination), Some(name)) => write!(f, "{name}=ssh:{destination}"),
            (Some(destination), None) => write!(f, "ssh:{destination}"),
        }
    }
}

impl FromStr for CallAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        WorkerAddress::parse(text, CALL_PORT).map(|at| Self(at, None)).map_err(|NoWorkerAddress(text)| {
            format!(
                "invalid host {text:?}\nhint: write HOST, HOST:PORT or NAME=HOST:PORT, and an IPv6 address as [::1]:{CALL_PORT}"
            )
        })
    }
}

#[cfg(test)]
mod changes;
#[cfg(test)]
mod tests;
