//! What stands in the way of an answer.

use std::io::ErrorKind;
use std::time::Duration;

use rustls::AlertDescription;
use thiserror::Error;
use ureq::Error as HttpError;

use super::address::WorkerAddress;
use super::wire::WorkerConnector;
use crate::trust::{HostKey, TrustError, host_name};

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
    #[error("{worker}: {host} is no host that is known here; write its IP address", host = worker.host)]
    NoSuchHost {
        /// Who was asked.
        worker: WorkerAddress,
    },
    /// It took too long.
    #[error(
        "{worker} did not answer within {limit:?}; see whether it runs (taut work) and is not \
         stopped, and ask again"
    )]
    TimedOut {
        /// Who was asked.
        worker: WorkerAddress,
        /// So long was waited.
        limit: Duration,
    },
    /// It is not on this host, and there is no trust to ask it by.
    #[error(
        "{worker} is another host, and those are asked by TLS alone; make a key by taut id first"
    )]
    NoTrust {
        /// Who was asked.
        worker: WorkerAddress,
    },
    /// This host does not trust the worker.
    #[error(
        "{worker} is not trusted here; run taut id on that host, and here taut trust with the name and the \
         key that it prints"
    )]
    Untrusted {
        /// Who was asked.
        worker: WorkerAddress,
    },
    /// It is to be one host, and is another or not trusted.
    #[error(
        "{worker} is not the host that is trusted by the name {name:?}; see taut trust --list, or run taut \
         id on that host again"
    )]
    OtherHost {
        /// Who was asked.
        worker: WorkerAddress,
        /// Who it was to be.
        name: String,
    },
    /// The worker does not trust this host.
    #[error("{worker} does not trust this host; run there: taut trust {name} {key}")]
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

/// What is to be said of an error of HTTP, of the connection that this connector made.
pub(super) fn told(
    worker: &WorkerAddress,
    limit: Duration,
    error: HttpError,
    connector: &WorkerConnector,
) -> AskError {
    let worker = worker.clone();
    if let Some(known) = connector.failure() {
        return known;
    }
    match error {
        HttpError::Timeout(_) => AskError::TimedOut { worker, limit },
        HttpError::HostNotFound => AskError::NoSuchHost { worker },
        HttpError::Io(error) => of_io(worker, limit, &error, connector),
        HttpError::BodyExceedsLimit(most) => {
            let what = format!("an answer of more than {most} bytes");
            AskError::Nonsense { worker, what, version: crate::v1::VERSION }
        }
        other => {
            AskError::Nonsense { worker, what: other.to_string(), version: crate::v1::VERSION }
        }
    }
}

fn of_io(
    worker: WorkerAddress,
    limit: Duration,
    error: &std::io::Error,
    connector: &WorkerConnector,
) -> AskError {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match (tls, error.kind()) {
        (Some(tls), _) => of_tls(worker, tls, connector),
        // Nothing was dialled yet: the name has no address.
        (None, _) if !connector.was_asked() => AskError::NoSuchHost { worker },
        (None, ErrorKind::TimedOut | ErrorKind::WouldBlock) => AskError::TimedOut { worker, limit },
        (None, ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof) => {
            AskError::Unreachable { worker, why: "the connection was cut".to_owned() }
        }
        (None, _) => AskError::Unreachable { worker, why: error.to_string() },
    }
}

fn of_tls(worker: WorkerAddress, error: &rustls::Error, connector: &WorkerConnector) -> AskError {
    use AlertDescription::{AccessDenied, BadCertificate, CertificateRequired, CertificateUnknown};
    match error {
        rustls::Error::InvalidCertificate(_) => match worker.name.clone() {
            Some(name) => AskError::OtherHost { worker, name },
            None => AskError::Untrusted { worker },
        },
        rustls::Error::AlertReceived(
            AccessDenied | BadCertificate | CertificateRequired | CertificateUnknown,
        ) => match connector.own_key() {
            Some(key) => AskError::NotTrustedThere { worker, name: host_name(), key },
            None => AskError::Tls { worker, why: error.to_string() },
        },
        _ => AskError::Tls { worker, why: error.to_string() },
    }
}
