//! Claims a group address (MAAP) before a stream starts. An ordinary thread defends the address, or
//! claims another address if it is lost.

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

/// Failed claim, with the fix.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Cannot open the socket.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Failed system call.
    #[error(
        "claiming an address on {interface}: {error}\nhint: bring {interface} up, or give an address, as in avtp://{interface}/91:E0:F0:00:FE:01"
    )]
    System {
        /// Claim's interface.
        interface: String,
        /// Error of the system.
        error: io::Error,
    },
    /// All tried addresses are in use.
    #[error(
        "claiming an address on {0}: all tried addresses are in use\nhint: give one, as in avtp://{0}/91:E0:F0:00:FE:01"
    )]
    AllTaken(String),
}

/// Claim state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimStanding {
    /// Probing for conflicts.
    Asking,
    /// Claimed.
    Held(EthernetAddress),
    /// The address is lost to a host that takes precedence; another address is probed.
    Lost {
        /// New owner.
        to: EthernetAddress,
    },
    /// The claim failed with `errno`, or `None` if all tried addresses are in use.
    Failed(Option<i32>),
}

/// Claimed address, defended until dropped.
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
    /// Timeout: a probe takes two seconds; the rest is for conflicts.
    const TIMEOUT: Span = Span::from_secs(20);
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

    /// Blocks for about two seconds, or longer after conflicts; returns the address.
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

    /// Current state.
    pub fn standing(&self) -> ClaimStanding {
        *self.shared.standing()
    }
}

fn first(
    mut claim: AddressClaim,
    socket: &MaapSocket,
    reported: &ClaimShared,
) -> Result<AddressClaim, ClaimStanding> {
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
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl fmt::Debug for ClaimedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimedAddress({}, {:02x?})", self.without, self.standing())
    }
}
