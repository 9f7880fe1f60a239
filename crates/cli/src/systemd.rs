//! Messages to the service manager, as in sd_notify(3).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The service manager, if it started this program and waits for messages.
pub(crate) struct ServiceManager(Option<UnixDatagram>);

/// Variable with the socket's path; `@` begins an abstract one. Children must not have it.
pub(crate) const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

impl ServiceManager {
    pub(crate) fn connect() -> io::Result<Self> {
        let path = std::env::var_os(NOTIFY_SOCKET);
        path.map(|path| connected(&path)).transpose().map(Self)
    }

    pub(crate) const fn none() -> Self {
        Self(None)
    }

    /// Sends assignments such as `READY=1`, one per line. A manager that does not read is ignored.
    pub(crate) fn send(&self, state: &str) {
        self.0.iter().for_each(|socket| drop(socket.send(state.as_bytes())));
    }
}

fn connected(path: &OsStr) -> io::Result<UnixDatagram> {
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(path)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrives(at: &UnixDatagram, path: &OsStr) {
        ServiceManager(Some(connected(path).unwrap())).send("READY=1\nSTATUS=x");
        let mut bytes = [0; 100];
        let length = at.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..length], b"READY=1\nSTATUS=x");
    }

    #[test]
    fn message_reaches_path_and_abstract_sockets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        arrives(&UnixDatagram::bind(&path).unwrap(), path.as_os_str());
        let name = format!("taut-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        arrives(&UnixDatagram::bind_addr(&address).unwrap(), OsStr::new(&format!("@{name}")));
        assert!(connected(folder.path().join("none").as_os_str()).is_err());
    }
}
