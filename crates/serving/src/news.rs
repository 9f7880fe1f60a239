//! What a server has to do with others, for whoever wants to say it: the server itself prints nothing.

use core::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use tautline_api::v1::WorkStreamState;

use crate::guests::SHOWING;

/// What came of being asked. Nothing in it is secret; words of whoever asked may stand in `plugin` and `why`.
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
    /// A request to end another party's stream. The answer was that of an unknown number.
    CloseDenied {
        by: ApiAsker,
        id: u32,
    },
    TurnedAway {
        address: IpAddr,
        why: TurnedAway,
    },
}

/// The name in [`ApiAsker`] of requests with this machine's own key.
pub const THIS_MACHINE: &str = "this machine";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiAsker {
    /// The name by which it is trusted, or [`THIS_MACHINE`]; `None` without a key.
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
    /// It was trusted when it came, and is no more.
    TrustedNoMore,
    /// It rejected this machine's certificate by a TLS alert.
    TrustsNot,
    HungUp,
    NoHandshake,
    /// Its handshake took too long.
    Slow,
    /// It asked without TLS, from another host.
    Plain,
    /// A program of this host asked for another host, as pages in a browser may.
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

/// Takes news. It is called where requests are answered, so it must not wait.
pub(crate) type TellServing = Arc<dyn Fn(&ServingNews) + Send + Sync>;
