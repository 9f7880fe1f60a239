//! Events of a server for its owner to report; the server itself prints nothing.

use core::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use tautline_api::v1::WorkStreamState;

use crate::guests::SHOWING;

/// Outcome of a request. It contains no secrets; `plugin` and `why` may contain text from the
/// client.
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
    /// A request to close a foreign stream. The client got the answer for an unknown number.
    CloseDenied {
        by: ApiAsker,
        id: u32,
    },
    TurnedAway {
        address: IpAddr,
        why: TurnedAway,
    },
}

/// Name in [`ApiAsker`] for requests with this machine's own key.
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
    /// A local program requested another host, as a page in a browser may.
    OtherHost,
    TooMany,
}

impl fmt::Display for TurnedAway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotTrusted => {
                "it has no key that is trusted here; if it may ask, run `taut pair` here, and there `taut pair HOST`"
            }
            Self::TrustedNoMore => "it is trusted here no more",
            Self::TrustsNot => {
                "it does not trust this machine; run `taut pair` here, and there `taut pair HOST`"
            }
            Self::HungUp => "it hung up before the handshake was done",
            Self::Slow => {
                return write!(f, "its handshake was not done within {SHOWING:?}");
            }
            Self::NoHandshake => "it speaks no TLS 1.3 as taut does; if it is taut, update both",
            Self::Plain => "it asked without TLS, which is for programs of this machine alone",
            Self::OtherHost => "a program here, such as a browser, asked for another host than this",
            Self::TooMany => "too many connections are there that have not shown whose they are",
        })
    }
}

/// Receives news on the server's threads, so it must not block.
pub(crate) type TellServing = Arc<dyn Fn(&ServingNews) + Send + Sync>;
