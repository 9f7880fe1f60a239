//! What an error of HTTP means to who asks a worker: by what its connection came to.

use std::io::ErrorKind;
use std::time::Duration;

use ureq::Error as HttpError;

use super::address::WorkerAddress;
use super::error::AskError;
use super::wire::WorkerConnector;
use crate::trust::host_name;
use crate::trust::tls::{self, HandshakeFault};

/// What an error of HTTP means after this time, of the connection that this connector made.
pub(super) fn told(
    worker: &WorkerAddress,
    waited: Duration,
    error: HttpError,
    connector: &WorkerConnector,
) -> AskError {
    let worker = worker.clone();
    if let Some(known) = connector.failure() {
        return known;
    }
    match error {
        HttpError::Timeout(_) => AskError::TimedOut { worker, waited },
        HttpError::HostNotFound => AskError::NoSuchHost { worker },
        HttpError::Io(error) => of_io(worker, waited, &error, connector),
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
    waited: Duration,
    error: &std::io::Error,
    connector: &WorkerConnector,
) -> AskError {
    match (tls::of_tls(error), error.kind()) {
        (Some(error), _) => of_tls(worker, error, connector),
        // Nothing was dialled yet: the name has no address.
        (None, _) if !connector.was_asked() => AskError::NoSuchHost { worker },
        (None, ErrorKind::TimedOut | ErrorKind::WouldBlock) => {
            AskError::TimedOut { worker, waited }
        }
        (None, ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof) => {
            AskError::Unreachable { worker, why: "the connection was cut".to_owned() }
        }
        (None, _) => AskError::Unreachable { worker, why: error.to_string() },
    }
}

fn of_tls(worker: WorkerAddress, error: &rustls::Error, connector: &WorkerConnector) -> AskError {
    match (HandshakeFault::of(error), worker.name.clone(), connector.own_key()) {
        (HandshakeFault::Untrusted, Some(name), _) => AskError::OtherHost { worker, name },
        (HandshakeFault::Untrusted, None, _) => AskError::Untrusted { worker },
        (HandshakeFault::NotTrustedThere, _, Some(key)) => {
            AskError::NotTrustedThere { worker, name: host_name(), key }
        }
        _ => AskError::Tls { worker, why: error.to_string() },
    }
}
