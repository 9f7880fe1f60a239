//! From a stream that was opened to a link that its blocks go by.

use tautline_io::link::OpenError;
use tautline_io::link::direct::DirectLink;
use tautline_io::socket::seal::Seal;
use tautline_io::udp::UdpOptions;

use crate::client::WorkOpened;
use crate::seal::{Sealed, StreamKeys};

impl WorkOpened {
    /// What seals the master's datagrams; `None` if they are cleartext. A second one for the same stream
    /// needs a higher incarnation than the first.
    pub fn seal(&self, incarnation: u32) -> Option<Box<dyn Seal>> {
        let keys = StreamKeys::of(self.secret.as_ref()?, self.stream.id);
        Some(Box::new(Sealed::master(&keys, incarnation)))
    }
}

/// Opens the master's link to a stream, once. The worker alone is heard. Of `options` the destination, the
/// sources and the length of datagrams are set here.
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
