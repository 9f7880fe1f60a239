//! Events of a server for its owner to report.

use core::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use tautline_api::v1::WorkStreamState;

use crate::guests::SHOWING;

/// Contains no secrets; `plugin` and `why` may contain client text.
#[derive(Debug, Clone, PartialEq)]
pub enum ServingNews {
    Opened {
        by: ApiAsker,
        stream: Box<WorkStreamState>,
    },
    Refused {
        by: ApiAsker,
        plugin: String,
        why: String,
    },
    Closing {
        by: ApiAsker,
        id: u32,
    },
    /// A request to close a foreign stream.
    CloseDenied {
        by: ApiAsker,
        id: u32,
    },
    TurnedAway {
        address: IpAddr,
        why: TurnedAway,
    },
}

/// Name in [`ApiAsker`] for this machine's own key.
pub const THIS_MACHINE: &str = "this machine";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiAsker {
    /// Trusted name, or [`THIS_MACHINE`]; `None` without a key.
    pub name: Option<String>,
    pub address: IpAddr,
}

impl fmt::Display for ApiAsker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address.to_canonical();
        match &self.name {
            Some(name) => write!(f, "{name} ({address})"),
            None => write!(f, "{address}"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnedAway {
    NotTrusted,
    TrustedNoMore,
    /// Rejected this machine's certificate with a TLS alert.
    TrustsNot,
    HungUp,
    NoHandshake,
    Slow,
    Plain,
    /// A local program requested another host.
    OtherHost,
    TooMany,
}

impl fmt::Display for TurnedAway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotTrusted => {
                "its key is not trusted here; to trust it, run `taut pair` here and `taut pair HOST` there"
            }
            Self::TrustedNoMore => "it is no longer trusted here",
            Self::TrustsNot => {
                "it does not trust this machine; run `taut pair` here and `taut pair HOST` there"
            }
            Self::HungUp => "it closed the connection during the handshake",
            Self::Slow => {
                return write!(f, "its handshake took longer than {SHOWING:?}");
            }
            Self::NoHandshake => "TLS 1.3 handshake failed; if it is taut, update both",
            Self::Plain => "its request was without TLS, which only local programs may use",
            Self::OtherHost => "a local program, such as a browser, requested another host",
            Self::TooMany => "too many unauthenticated connections",
        })
    }
}

/// Must not block a server thread.
pub(crate) type ServingEvents = Arc<dyn Fn(&ServingNews) + Send + Sync>;
