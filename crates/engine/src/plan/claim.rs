//! The address of a group for a stream that was given none: claimed before it is sent (MAAP), and defended on an
//! ordinary thread of its own for as long as it lives.

use core::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;

use tautline_io::clock::{now, sleep_until};
use tautline_io::ethernet::maap::MaapSocket;
use tautline_io::link::OpenError;
use tautline_io::thread::{Scheduler, spawn};
use tautline_proto::endpoint::Endpoint;
use tautline_proto::maap::{AddressClaim, ClaimEvent};
use tautline_proto::time::{LocalTime, Span};

use crate::watching::machine;

/// Why no address could be claimed: one sentence that ends with the mend.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The socket could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The system refused something else.
    #[error(
        "claiming an address on {interface}: {error}; is it up? Else give an address, as in avtp://{interface}/91:E0:F0:00:FE:01"
    )]
    System {
        /// By which it was to be sent.
        interface: String,
        /// What the system answered.
        error: io::Error,
    },
    /// Whatever was asked for, somebody had it.
    #[error(
        "claiming an address on {0}: others had all that were asked for; give one, as in avtp://{0}/91:E0:F0:00:FE:01"
    )]
    AllTaken(String),
}

/// An address that was claimed. It is given up when this is dropped.
pub struct ClaimedAddress {
    address: [u8; 6],
    lost: Receiver<Endpoint>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ClaimedAddress {
    /// Asking for one takes two seconds; for so long others may object before nobody is asked any more.
    const PATIENCE: Span = Span::from_secs(20);
    /// How often the thread looks whether the stream is over.
    const LOOK: Span = Span::from_millis(100);

    /// Claims one by this interface. Takes somewhat more than two seconds.
    pub fn claim(interface: &str) -> Result<Self, ClaimError> {
        let system = |error| ClaimError::System { interface: interface.into(), error };
        let socket = MaapSocket::open(interface)?;
        let [a, b, c, d, e, f, g, h, ..] = machine::random().map_err(system)?;
        let seed = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
        let mut claim = AddressClaim::new(socket.own(), seed, now());
        let until = now() + Self::PATIENCE;
        let address = loop {
            speak(&mut claim, &socket).map_err(system)?;
            if let Some(ClaimEvent::Claimed(address)) = claim.poll_event() {
                break address;
            }
            if now() > until {
                return Err(ClaimError::AllTaken(interface.into()));
            }
            listen(&mut claim, &socket, until).map_err(system)?;
        };
        let over = Arc::new(AtomicBool::new(false));
        let (tell, lost) = mpsc::channel();
        let asked_to_end = Arc::clone(&over);
        let defend = move || {
            while !asked_to_end.load(Ordering::Relaxed) {
                let look = now() + Self::LOOK;
                // An interface that is down comes up again.
                let turn =
                    speak(&mut claim, &socket).and_then(|()| listen(&mut claim, &socket, look));
                if turn.is_err() {
                    sleep_until(look);
                }
                // The stream stays where it is, so that there is nothing to defend any more.
                if let Some(ClaimEvent::Lost { to, .. }) = claim.poll_event() {
                    let _ = tell.send(Endpoint::Ethernet { address: to, network: 0 });
                    return;
                }
            }
        };
        let (thread, _) = spawn("taut-maap", Scheduler::Other, 0, defend).map_err(system)?;
        Ok(Self { address, lost, over, thread: Some(thread) })
    }

    /// The address.
    pub const fn address(&self) -> [u8; 6] {
        self.address
    }

    /// Who has it too, and more right to it, if that was found out since this was last asked.
    pub(crate) fn taken_by(&self) -> Option<Endpoint> {
        self.lost.try_recv().ok()
    }
}

/// Says what is to be said now.
fn speak(claim: &mut AddressClaim, socket: &MaapSocket) -> io::Result<()> {
    while let Some((to, message)) = claim.poll(now()) {
        socket.send(to, &message)?;
    }
    Ok(())
}

/// Hears what comes before something is to be said, or until then.
fn listen(claim: &mut AddressClaim, socket: &MaapSocket, until: LocalTime) -> io::Result<()> {
    let patience = claim.deadline().min(until) - now();
    if let Some((from, message)) = socket.receive(patience.max(Span::ZERO))? {
        claim.handle(&message, from, now());
    }
    Ok(())
}

impl Drop for ClaimedAddress {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // It says nothing that anybody waits for.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl fmt::Debug for ClaimedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimedAddress({:02x?})", self.address)
    }
}
