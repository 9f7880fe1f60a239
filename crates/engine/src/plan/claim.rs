//! Claims a group address (MAAP) for a stream without one, before the stream is sent. An ordinary
//! thread defends the address while the claim lives. If the address is lost, the thread claims
//! another.

use core::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tautline_io::clock::{now, sleep_until};
use tautline_io::ethernet::EthernetAddress;
use tautline_io::ethernet::maap::MaapSocket;
use tautline_io::link::OpenError;
use tautline_io::thread::{Scheduler, spawn};
use tautline_proto::maap::{AddressClaim, ClaimEvent};
use tautline_proto::time::{LocalTime, Span};

use crate::plan::address::Address;
use crate::plan::random;

/// Reason why no address was claimed; its message ends with the fix.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The socket cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Another system call failed.
    #[error(
        "claiming an address on {interface}: {error}\nhint: bring {interface} up, or give an address, as in avtp://{interface}/91:E0:F0:00:FE:01"
    )]
    System {
        /// Interface for the claim.
        interface: String,
        /// Error of the system call.
        error: io::Error,
    },
    /// Other hosts use every address that was tried.
    #[error(
        "claiming an address on {0}: all tried addresses are in use\nhint: give one, as in avtp://{0}/91:E0:F0:00:FE:01"
    )]
    AllTaken(String),
}

/// State of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimStanding {
    /// A probe checks whether another host has the address.
    Asking,
    /// The address is claimed.
    Held(EthernetAddress),
    /// The address was lost to a host that takes precedence; another address is being probed.
    Lost {
        /// Host that has the address now.
        to: EthernetAddress,
    },
    /// No address was claimed. Holds the `errno`, or `None` if other hosts have every address that
    /// was tried.
    Failed(Option<i32>),
}

/// A claimed address. It is defended until this value is dropped, then released.
pub struct ClaimedAddress {
    without: Address,
    shared: Arc<ClaimShared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct ClaimShared {
    standing: Mutex<ClaimStanding>,
    changed: Condvar,
    over: AtomicBool,
}

impl ClaimShared {
    fn standing(&self) -> MutexGuard<'_, ClaimStanding> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, standing: ClaimStanding) {
        *self.standing() = standing;
        self.changed.notify_all();
    }
}

impl ClaimedAddress {
    /// Timeout for the first claim. One probe takes two seconds; the rest is for conflicts.
    const TIMEOUT: Span = Span::from_secs(20);
    /// Extra time that `wait` grants the thread.
    const LATE: Duration = Duration::from_secs(5);
    const LOOK: Span = Span::from_millis(100);

    /// Starts a claim if `without` has no address. Does not block.
    pub fn begin(without: &Address) -> Result<Option<Self>, ClaimError> {
        let Some(interface) = without.unclaimed() else { return Ok(None) };
        let system = |error| ClaimError::System { interface: interface.into(), error };
        let socket = MaapSocket::open(interface)?;
        let [a, b, c, d, e, f, g, h, ..] = random().map_err(system)?;
        let seed = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
        let claim = AddressClaim::new(socket.own(), seed, now());
        let shared = Arc::new(ClaimShared {
            standing: Mutex::new(ClaimStanding::Asking),
            changed: Condvar::new(),
            over: AtomicBool::new(false),
        });
        let reported = Arc::clone(&shared);
        let run = move || match first(claim, &socket, &reported) {
            Ok(claim) => defend(claim, &socket, &reported),
            Err(failed) => reported.set(failed),
        };
        let (thread, _) = spawn("taut-maap", Scheduler::Other, 0, run).map_err(system)?;
        Ok(Some(Self { without: without.clone(), shared, thread: Some(thread) }))
    }

    /// Waits for the claim and returns the stream's address. This takes about two seconds, longer
    /// after conflicts.
    pub fn wait(&self) -> Result<Address, ClaimError> {
        let timeout = Duration::from_nanos(Self::TIMEOUT.as_nanos().unsigned_abs()) + Self::LATE;
        let asking = |standing: &mut ClaimStanding| {
            matches!(standing, ClaimStanding::Asking | ClaimStanding::Lost { .. })
        };
        let waited =
            self.shared.changed.wait_timeout_while(self.shared.standing(), timeout, asking);
        let standing = *waited.unwrap_or_else(PoisonError::into_inner).0;
        let interface = || self.without.unclaimed().unwrap_or_default().to_owned();
        match standing {
            ClaimStanding::Held(address) => Ok(self.goes_to(address)),
            ClaimStanding::Failed(Some(errno)) => Err(ClaimError::System {
                interface: interface(),
                error: io::Error::from_raw_os_error(errno),
            }),
            _ => Err(ClaimError::AllTaken(interface())),
        }
    }

    pub(crate) fn goes_to(&self, group: EthernetAddress) -> Address {
        self.without.clone().claimed(group)
    }

    /// Returns the current state.
    pub fn standing(&self) -> ClaimStanding {
        *self.shared.standing()
    }
}

fn first(
    mut claim: AddressClaim,
    socket: &MaapSocket,
    reported: &ClaimShared,
) -> Result<AddressClaim, ClaimStanding> {
    // Errors of the socket always have an `errno`.
    let system = |error: io::Error| ClaimStanding::Failed(error.raw_os_error());
    let until = now() + ClaimedAddress::TIMEOUT;
    loop {
        speak(&mut claim, socket).map_err(system)?;
        if let Some(ClaimEvent::Claimed(address)) = claim.poll_event() {
            reported.set(ClaimStanding::Held(address));
            return Ok(claim);
        }
        if now() > until || reported.over.load(Ordering::Relaxed) {
            return Err(ClaimStanding::Failed(None));
        }
        listen(&mut claim, socket, until.min(now() + ClaimedAddress::LOOK)).map_err(system)?;
    }
}

fn defend(mut claim: AddressClaim, socket: &MaapSocket, reported: &ClaimShared) {
    while !reported.over.load(Ordering::Relaxed) {
        let look = now() + ClaimedAddress::LOOK;
        // The interface may come up again.
        if speak(&mut claim, socket).and_then(|()| listen(&mut claim, socket, look)).is_err() {
            sleep_until(look);
        }
        while let Some(event) = claim.poll_event() {
            reported.set(match event {
                ClaimEvent::Claimed(address) => ClaimStanding::Held(address),
                ClaimEvent::Lost { to, .. } => ClaimStanding::Lost { to },
            });
        }
    }
}

fn speak(claim: &mut AddressClaim, socket: &MaapSocket) -> io::Result<()> {
    while let Some((to, message)) = claim.poll(now()) {
        socket.send(to, &message).inspect_err(|_| claim.unsaid(now()))?;
    }
    Ok(())
}

fn listen(claim: &mut AddressClaim, socket: &MaapSocket, until: LocalTime) -> io::Result<()> {
    let timeout = claim.deadline().min(until) - now();
    if let Some((from, message)) = socket.receive(timeout.max(Span::ZERO))? {
        claim.handle(&message, from, now());
    }
    Ok(())
}

impl Drop for ClaimedAddress {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        // The thread returns no result.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl fmt::Debug for ClaimedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimedAddress({}, {:02x?})", self.without, self.standing())
    }
}
