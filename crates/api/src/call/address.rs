//! Whom to call.

use core::fmt;
use core::str::FromStr;

use super::CALL_PORT;
use crate::client::{NoWorkerAddress, WorkerAddress};

/// `[NAME=]HOST[:PORT]`, as that of a worker; the port is [`CALL_PORT`] where none is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallAddress(pub WorkerAddress);

impl fmt::Display for CallAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for CallAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        WorkerAddress::parse(text, CALL_PORT).map(Self).map_err(|NoWorkerAddress(text)| {
            format!(
                "{text:?} is nobody to call: write HOST, HOST:PORT or NAME=HOST:PORT, and an IPv6 address as [::1]:{CALL_PORT}"
            )
        })
    }
}
