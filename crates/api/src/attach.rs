//! Creates the link for the blocks of an opened stream.

use tautline_io::link::OpenError;
use tautline_io::link::direct::DirectLink;
use tautline_io::socket::seal::Seal;
use tautline_io::udp::UdpOptions;

use crate::client::WorkOpened;
use crate::seal::{Sealed, StreamKeys};

impl WorkOpened {
    /// `None` for cleartext. Each further seal needs a higher incarnation.
    pub fn seal(&self, incarnation: u32) -> Option<Box<dyn Seal>> {
        let keys = StreamKeys::of(self.secret.as_ref()?, self.stream.id);
        Some(Box::new(Sealed::master(&keys, incarnation)))
    }
}

/// Call once per stream. Overrides destination, sources and datagram length in `options`.
pub fn connect(opened: &WorkOpened, options: UdpOptions) -> Result<DirectLink, OpenError> {
    let UdpOptions { bind, .. } = UdpOptions::sender(vec![opened.far]);
    let options = UdpOptions {
        bind,
        destinations: vec![opened.far],
        sources: vec![opened.far.ip()],
        datagram_bytes: opened.stream.datagram_bytes as usize,
        ..options
    };
    DirectLink::open_sealed(&options, opened.seal(0))
}
