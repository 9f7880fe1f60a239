use std::time::Duration;

use tautline_proto::text::split_hint;
use thiserror::Error;

use super::address::WorkerAddress;
use crate::trust::{HostKey, TrustError};
use crate::v1::NODE_PORT;

/// Command that serves this port.
const fn server(address: &WorkerAddress) -> &'static str {
    if address.port == NODE_PORT { "taut node" } else { "taut work" }
}

/// Why a request failed, each with its fix.
#[derive(Debug, Error)]
pub enum AskError {
    /// No answer at this address.
    #[error("{worker}: {why}\nhint: run {} there, and check that no firewall drops TCP {}", server(worker), worker.port)]
    Unreachable {
        /// The worker.
        worker: WorkerAddress,
        /// Error message of the system.
        why: String,
    },
    /// The name has no address.
    #[error("{0}: unknown host {host}\nhint: write {host}=ADDRESS, such as {host}=10.0.0.3", host = .0.host)]
    NoSuchHost(WorkerAddress),
    /// The request timed out.
    #[error(
        "{worker} did not answer within {:?}\nhint: check that {} runs there and is not \
         stopped", rounded(*waited), server(worker)
    )]
    TimedOut {
        /// The worker.
        worker: WorkerAddress,
        /// Less than the timeout if no connection was made.
        waited: Duration,
    },
    /// The worker is on another host, and there is no trust store.
    #[error(
        "{0} is another host, which needs TLS, and this host has no key\nhint: create one with taut id"
    )]
    NoTrust(WorkerAddress),
    /// This host does not trust the worker.
    #[error(
        "{0} is not trusted here\nhint: run `taut pair` there, then `taut pair {host}` here", host = .0.host
    )]
    Untrusted(WorkerAddress),
    /// The worker is another host or untrusted.
    #[error(
        "{worker} is not the trusted host {name:?} (see taut trust --list)\n\
         hint: run `taut pair` there, then `taut pair {name}={host}` here", host = worker.host
    )]
    OtherHost {
        /// The worker.
        worker: WorkerAddress,
        /// The expected name.
        name: String,
    },
    /// The worker does not trust this host.
    #[error("{worker} does not trust this host\nhint: run there: taut trust {name} {key}")]
    NotTrustedThere {
        /// The worker.
        worker: WorkerAddress,
        /// Name of this host.
        name: String,
        /// Key of this host.
        key: HostKey,
    },
    /// The handshake failed for another reason.
    #[error(
        "{worker}: TLS handshake failed: {why}\nhint: check that taut work of this version runs there"
    )]
    Tls {
        /// The worker.
        worker: WorkerAddress,
        /// Error message of rustls.
        why: String,
    },
    /// The worker refused, with a reason.
    #[error("{worker}: {}", split_hint(error))]
    Refused {
        /// The worker.
        worker: WorkerAddress,
        /// HTTP status.
        status: u16,
        /// The worker's message, with its fix.
        error: String,
    },
    /// The response is invalid.
    #[error(
        "{worker}: invalid answer for version {version}: {what}\nhint: update taut on both hosts"
    )]
    InvalidAnswer {
        /// The worker.
        worker: WorkerAddress,
        /// What was wrong with the response.
        what: String,
        /// This host's protocol version.
        version: u32,
    },
    /// This host's key or trust list is unusable.
    #[error(transparent)]
    Trust(#[from] TrustError),
}

/// For a reproducible message.
fn rounded(waited: Duration) -> Duration {
    let step = if waited < Duration::from_secs(1) { 50 } else { 100 };
    let millis = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(millis / step * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waited_times_are_rounded_down_to_usual_limits() {
        let rounded = [257, 2_004, 12_099].map(|millis| rounded(Duration::from_millis(millis)));
        assert_eq!(rounded, [250, 2_000, 12_000].map(Duration::from_millis));
    }
}
