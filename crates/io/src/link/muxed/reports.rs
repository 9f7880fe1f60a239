//! A control channel whose RTCP goes and comes by the line of the packets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rtrb::Consumer;
use tautline_proto::endpoint::Endpoint;

use crate::control::Control;
use crate::link::Arrival;
use crate::link::divided::SetAside;
use crate::link::event::EventDescriptor;
use crate::link::muxed::held::Held;
use crate::link::muxed::line::ReportLine;
use crate::socket::seal::sealed_copy;

/// Carries the reports of one session. Everything goes to the line's far end, wherever it is said to go.
pub struct MuxedControl {
    pub(super) line: Held<ReportLine>,
    pub(super) inbox: Consumer<SetAside>,
    pub(super) bell: Arc<EventDescriptor>,
    pub(super) at: Option<SocketAddr>,
    pub(super) seen: u64,
    /// Where a report is sealed.
    pub(super) sealing: Vec<u8>,
}

impl MuxedControl {
    /// Takes the line that was given, if one was.
    fn turn(&mut self) {
        while self.line.turn(|_, _| ()) {
            (self.at, self.seen) = (None, 0);
        }
    }
}

impl AsFd for MuxedControl {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Control for MuxedControl {
    fn send(&mut self, datagram: &[u8], _to: Endpoint) -> io::Result<()> {
        self.turn();
        let Some(ReportLine { way, seal, peer }) = self.line.now() else {
            return Err(io::Error::from_raw_os_error(libc::ENOTCONN));
        };
        if let Some(at) = peer.as_ref().and_then(|peer| peer.news(&mut self.seen)) {
            self.at = at;
        }
        let Some(seal) = seal else { return way.speak(datagram, self.at) };
        way.speak(sealed_copy(&mut **seal, datagram, &mut self.sealing)?, self.at)
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(Arrival<'_>)) {
        self.turn();
        self.bell.silence();
        while let Ok(report) = self.inbox.pop() {
            deliver(report.arrival());
        }
    }
}
