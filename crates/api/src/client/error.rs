//! What stands in the way of an answer.

use std::time::Duration;

use thiserror::Error;

use super::address::WorkerAddress;
use crate::trust::{HostKey, TrustError};

/// Why a worker was asked in vain. Each is a sentence that ends with the mend.
#[derive(Debug, Error)]
pub enum AskError {
    /// Nobody answers there.
    #[error("{worker}: {why}; run taut work there, or look for a firewall that drops TCP {}", worker.port)]
    Unreachable {
        /// Who was asked.
        worker: WorkerAddress,
        /// What the system said.
        why: String,
    },
    /// The name has no address.
    #[error("{0}: {host} is no host that is known here; write {host}=ADDRESS, such as {host}=10.0.0.3", host = .0.host)]
    NoSuchHost(WorkerAddress),
    /// It took too long.
    #[error(
        "{worker} did not answer within {:?}; see whether it runs (taut work) and is not \
         stopped, and ask again", rounded(*waited)
    )]
    TimedOut {
        /// The worker.
        worker: WorkerAddress,
        /// The time that passed: less than the limit of the call if no connection was made.
        waited: Duration,
    },
    /// It is not on this host, and there is no trust to ask it by.
    #[error("{0} is another host, and those are asked by TLS alone; make a key by taut id first")]
    NoTrust(WorkerAddress),
    /// This host does not trust the worker.
    #[error(
        "{0} is not trusted here\nhint: run `taut pair` there, then `taut pair {host}` here", host = .0.host
    )]
    Untrusted(WorkerAddress),
    /// It is to be one host, and is another or not trusted.
    #[error(
        "{worker} is not the host that is trusted by the name {name:?}, or none is (taut trust --list)\n\
         hint: run `taut pair` there, then `taut pair {name}={host}` here", host = worker.host
    )]
    OtherHost {
        /// Who was asked.
        worker: WorkerAddress,
        /// Who it was to be.
        name: String,
    },
    /// The worker does not trust this host.
    #[error("{worker} does not trust this host\nhint: run there: taut trust {name} {key}")]
    NotTrustedThere {
        /// Who was asked.
        worker: WorkerAddress,
        /// Of this host.
        name: String,
        /// Of this host.
        key: HostKey,
    },
    /// The handshake failed otherwise.
    #[error("{worker}: no TLS came about: {why}; see whether it is taut work, and of this version")]
    Tls {
        /// Who was asked.
        worker: WorkerAddress,
        /// What rustls said.
        why: String,
    },
    /// It said no, and why.
    #[error("{worker}: {error}")]
    Refused {
        /// Who was asked.
        worker: WorkerAddress,
        /// Of HTTP.
        status: u16,
        /// Its own words, which end with the mend.
        error: String,
    },
    /// What it said makes no sense.
    #[error(
        "{worker} answers as no worker of version {version} does ({what}); update taut on both hosts"
    )]
    Nonsense {
        /// Who was asked.
        worker: WorkerAddress,
        /// What was wrong.
        what: String,
        /// That this host speaks.
        version: u32,
    },
    /// This host's own key or list.
    #[error(transparent)]
    Trust(#[from] TrustError),
}

/// Down to the limit that passed, so that a message is the same each time.
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
