//! What an error of HTTP means to who asks a worker: by what its connection came to.

use std::io::ErrorKind;
use std::time::Duration;

use rustls::AlertDescription;
use ureq::Error as HttpError;

use super::address::WorkerAddress;
use super::error::AskError;
use super::wire::WorkerConnector;
use crate::trust::host_name;

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
