use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tautline_api::trust::{TrustError, TrustStore};
use thiserror::Error;

#[derive(Debug, Clone)]
pub struct Listening {
    /// Address of the server and of the streams' UDP ports. Port 0 selects any free port.
    pub address: SocketAddr,
    /// `None` serves only plain HTTP on loopback.
    pub trust: Option<Arc<TrustStore>>,
}

#[derive(Debug, Error)]
pub enum ListenError {
    #[error(
        "{address} is reachable from other hosts, and no host is trusted ({})\n\
         hint: run `taut pair` here and `taut pair HOST` on the other host, or listen on 127.0.0.1",
        list.display()
    )]
    NoTrustedPeers { address: SocketAddr, list: PathBuf },
    #[error("{0} is reachable from other hosts, and this host has no key\nhint: run taut id first")]
    NoIdentity(SocketAddr),
    #[error("cannot listen on TCP {address}: {error}\nhint: {}", hint(error))]
    Bind { address: SocketAddr, error: std::io::Error },
    #[error(
        "cannot start the server's thread: {0}\nhint: check this user's limits (ulimit -u, ulimit -n)"
    )]
    Thread(std::io::Error),
    #[error(transparent)]
    Trust(#[from] TrustError),
}

fn hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::AddrNotAvailable => {
            "set --listen to an address that `ip address` shows, or to 0.0.0.0 for all"
        }
        std::io::ErrorKind::PermissionDenied => {
            "ports below 1024 need root: set another with --listen HOST:PORT"
        }
        _ => "another taut work or taut serve may use it: set another port with --listen HOST:PORT",
    }
}

impl Listening {
    pub(crate) fn check(&self) -> Result<(), ListenError> {
        let address = self.address;
        let beyond = !address.ip().to_canonical().is_loopback();
        let Some(trust) = &self.trust else {
            return if beyond { Err(ListenError::NoIdentity(address)) } else { Ok(()) };
        };
        let hosts = trust.trusted().hosts()?;
        if beyond && hosts.is_empty() {
            let list = trust.trusted().path().to_owned();
            return Err(ListenError::NoTrustedPeers { address, list });
        }
        Ok(())
    }
}
