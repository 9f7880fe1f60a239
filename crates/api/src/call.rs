//! The control connection of a call ([`tautline_proto::call`]): TLS with pinned keys, by which each message is a
//! line of JSON; and the keys of its sound, which both ends make of that TLS session.
//!
//! The caller dials, by `connection`; the serving crate has the other end. Nothing here blocks but dialling.

mod connection;
mod dial;
mod keys;
mod probe;
mod words;

use core::fmt;
use core::str::FromStr;

use tautline_proto::call::message::{
    ADAPTS_VERSION, CALL_VERSION, OLDEST_CALL_VERSION, TAKES_VERSION,
};

use crate::client::{NoWorkerAddress, WorkerAddress};

pub use connection::{CallConnection, ConnectionEnd, LineBuffer, LineTooLong, MOST_LINE};
pub use dial::DialError;
pub use keys::{CallKeys, MediaTicket, SALT_BYTES, SrtpSecret, call_secret, fresh_call};
pub use probe::{PROBE_BYTES, PathProbes, ProbeWay};
pub use words::{CallNonsense, read, written};

/// The protocols that are named in the TLS handshake (RFC 7301), so that one port serves others, too, and the version
/// of messages that is spoken by each ([`tautline_proto::call::message::CALL_VERSION`]), the newest first: before a word
/// is said both ends know the newest that both speak.
pub const PROTOCOLS: [(&[u8], u32); 4] = [
    (b"tautline-call/6", CALL_VERSION),
    (b"tautline-call/4", ADAPTS_VERSION),
    (b"tautline-call/3", TAKES_VERSION),
    (b"tautline-call/1", OLDEST_CALL_VERSION),
];

/// The names of [`PROTOCOLS`].
pub fn protocols() -> Vec<Vec<u8>> {
    PROTOCOLS.iter().map(|(name, _)| name.to_vec()).collect()
}

/// The version that is spoken where this protocol was agreed on; none where that is no call.
pub fn version_of(protocol: Option<&[u8]>) -> Option<u32> {
    PROTOCOLS.iter().find(|(name, _)| Some(*name) == protocol).map(|(_, version)| *version)
}

/// Where a host is called if nobody says otherwise: TCP and, for the sound, UDP.
pub const CALL_PORT: u16 = 17240;

/// `[NAME=]HOST[:PORT]`, as that of a worker; the port is [`CALL_PORT`] where none is given. The second field is the
/// destination of `ssh` where it forwards that address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallAddress(pub WorkerAddress, pub Option<Box<str>>);

impl CallAddress {
    /// What users give to `taut pair`.
    pub fn to_pair(&self) -> String {
        match &self.1 {
            Some(destination) => format!("ssh:{destination}"),
            None => self.0.host.clone(),
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
                "{text:?} is nobody to call: write HOST, HOST:PORT or NAME=HOST:PORT, and an IPv6 address as [::1]:{CALL_PORT}"
            )
        })
    }
}

#[cfg(test)]
mod changes;
#[cfg(test)]
mod tests;
