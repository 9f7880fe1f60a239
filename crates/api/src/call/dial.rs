use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use rustls::AlertDescription::NoApplicationProtocol;
use thiserror::Error;

use super::CallAddress;
use crate::trust::tls::{self, HandshakeFault};
use crate::trust::{HostKey, TrustError, TrustStore, host_name};

/// Why dialling failed, each with its fix.
#[derive(Debug, Error)]
pub enum DialError {
    /// The name has no address.
    #[error("{whom}: unknown host\nhint: check the name, or write its address{}", paired(.names))]
    NoSuchHost {
        /// The address dialled.
        whom: CallAddress,
        /// Names of paired machines.
        names: Vec<String>,
    },
    /// No answer at this address.
    #[error(
        "{whom}: {why}\nhint: run taut serve --listen 0.0.0.0 there, and {}", whom.check()
    )]
    Unreachable {
        /// The address dialled.
        whom: CallAddress,
        /// Error message of the system.
        why: String,
    },
    /// Dialling timed out.
    #[error("{whom} did not answer within {limit:?}\nhint: {}", whom.check())]
    TimedOut {
        /// The address dialled.
        whom: CallAddress,
        /// The timeout.
        limit: Duration,
    },
    /// The peer closed the connection.
    #[error(
        "{0} closed the connection during the handshake{why}", why = match .0.1 {
            None => "; it may have too many half-open connections",
            Some(_) => "\nhint: run taut serve there; ssh works, but no program answers",
        }
    )]
    Cut(CallAddress),
    /// This host does not trust the peer.
    #[error(
        "{0} is not trusted here\nhint: {pairing}", pairing = .0.pairing(None)
    )]
    Untrusted(CallAddress),
    /// The peer is another host or untrusted.
    #[error(
        "{whom} does not have the key of {name:?} (see taut trust --list)\n\
         hint: another machine may answer there; if {name} is new or has a new key, {pairing}",
        pairing = whom.pairing(Some(name))
    )]
    OtherHost {
        /// The address dialled.
        whom: CallAddress,
        /// The expected name.
        name: String,
    },
    /// The peer does not trust this host.
    #[error("{whom} does not trust this host\nhint: run there: taut trust {name} {key}")]
    NotTrustedThere {
        /// The address dialled.
        whom: CallAddress,
        /// Name of this host.
        name: Box<str>,
        /// Key of this host.
        key: HostKey,
    },
    /// The handshake failed for another reason.
    #[error(
        "{whom}: TLS handshake failed: {why}\nhint: check that taut serve of this version runs there"
    )]
    Tls {
        /// The address dialled.
        whom: CallAddress,
        /// Error message of rustls.
        why: String,
    },
    /// The peer does not accept calls.
    #[error("{0} does not accept calls\nhint: run taut serve there, or write its port")]
    NoCalls(CallAddress),
    /// This host's key or trust list is unusable.
    #[error(transparent)]
    Trust(#[from] TrustError),
}

fn paired(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("; paired: {}", names.join(", ")) }
}

impl DialError {
    pub(super) fn no_such_host(whom: &CallAddress, trust: &TrustStore) -> Self {
        let hosts = trust.trusted().hosts().ok();
        let names = hosts.iter().flat_map(|hosts| hosts.iter().map(|(name, _)| name.to_owned()));
        Self::NoSuchHost { whom: whom.clone(), names: names.collect() }
    }

    pub(super) fn of_io(
        whom: &CallAddress,
        limit: Duration,
        error: &std::io::Error,
        trust: &Arc<TrustStore>,
    ) -> Self {
        let whom = whom.clone();
        match (tls::of_tls(error), error.kind()) {
            (Some(error), _) => Self::of_tls(whom, error, trust),
            (None, ErrorKind::TimedOut | ErrorKind::WouldBlock) => Self::TimedOut { whom, limit },
            (
                None,
                ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe,
            ) => Self::Cut(whom),
            (None, _) => Self::Unreachable { whom, why: error.to_string() },
        }
    }

    pub(super) fn of_tls(
        whom: CallAddress,
        error: &rustls::Error,
        trust: &Arc<TrustStore>,
    ) -> Self {
        match (HandshakeFault::of(error), whom.0.name.clone()) {
            _ if matches!(error, rustls::Error::AlertReceived(NoApplicationProtocol)) => {
                Self::NoCalls(whom)
            }
            (HandshakeFault::Untrusted, Some(name)) => Self::OtherHost { whom, name },
            (HandshakeFault::Untrusted, None) => Self::Untrusted(whom),
            (HandshakeFault::NotTrustedThere, _) => {
                let key = trust.identity().key();
                Self::NotTrustedThere { whom, name: host_name().into(), key }
            }
            (HandshakeFault::Other, _) => Self::Tls { whom, why: error.to_string() },
        }
    }
}
