//! The address of a group for a stream that was given none: claimed before it is sent (MAAP) and defended on an
//! ordinary thread of its own for as long as it lives. Where it is lost all the same, another is claimed.

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

/// How a claim stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimStanding {
    /// Others are asked whether they have the address.
    Asking,
    /// This address is the stream's.
    Held(EthernetAddress),
    /// It was, until another was found to have more right to it; others are asked about another one.
    Lost {
        /// Who has it now.
        to: EthernetAddress,
    },
    /// None could be claimed: what the system answered, or, if nothing, others had all that were asked for.
    Failed(Option<i32>),
}

/// The claim to an address. What is claimed is defended for as long as this lives, and then given up.
pub struct ClaimedAddress {
    without: Address,
    shared: Arc<ClaimShared>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread that claims and those that send know of each other.
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
    /// Asking for one takes two seconds; for so long others may object before nobody is asked any more.
    const PATIENCE: Span = Span::from_secs(20);
    /// What a thread that gives up may be late by.
    const LATE: Duration = Duration::from_secs(5);
    /// How often the thread looks whether the stream is over.
    const LOOK: Span = Span::from_millis(100);

    /// Begins to claim one for a stream that goes to `without`, if that names none. Does not wait.
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
        let told = Arc::clone(&shared);
        let run = move || match first(claim, &socket, &told) {
            Ok(claim) => defend(claim, &socket, &told),
            Err(failed) => told.set(failed),
        };
        let (thread, _) = spawn("taut-maap", Scheduler::Other, 0, run).map_err(system)?;
        Ok(Some(Self { without: without.clone(), shared, thread: Some(thread) }))
    }

    /// Where the stream goes, once an address is held: in about two seconds, longer where others object.
    pub fn wait(&self) -> Result<Address, ClaimError> {
        let patience = Duration::from_nanos(Self::PATIENCE.as_nanos().unsigned_abs()) + Self::LATE;
        let asking = |standing: &mut ClaimStanding| {
            matches!(standing, ClaimStanding::Asking | ClaimStanding::Lost { .. })
        };
        let waited =
            self.shared.changed.wait_timeout_while(self.shared.standing(), patience, asking);
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

    /// The stream's address with that of a group in it.
    pub(crate) fn goes_to(&self, group: EthernetAddress) -> Address {
        self.without.clone().claimed(group)
    }

    /// How it stands now.
    pub fn standing(&self) -> ClaimStanding {
        *self.shared.standing()
    }
}

/// Claims one. What it comes to where none can be had.
fn first(
    mut claim: AddressClaim,
    socket: &MaapSocket,
    told: &ClaimShared,
) -> Result<AddressClaim, ClaimStanding> {
    // What a socket answers bears a number.
    let system = |error: io::Error| ClaimStanding::Failed(error.raw_os_error());
    let until = now() + ClaimedAddress::PATIENCE;
    loop {
        speak(&mut claim, socket).map_err(system)?;
        if let Some(ClaimEvent::Claimed(address)) = claim.poll_event() {
            told.set(ClaimStanding::Held(address));
            return Ok(claim);
        }
        if now() > until || told.over.load(Ordering::Relaxed) {
            return Err(ClaimStanding::Failed(None));
        }
        listen(&mut claim, socket, until.min(now() + ClaimedAddress::LOOK)).map_err(system)?;
    }
}

/// Defends what is held until the stream is over, and claims another in the place of what was lost.
fn defend(mut claim: AddressClaim, socket: &MaapSocket, told: &ClaimShared) {
    while !told.over.load(Ordering::Relaxed) {
        let look = now() + ClaimedAddress::LOOK;
        // An interface that is down comes up again.
        if speak(&mut claim, socket).and_then(|()| listen(&mut claim, socket, look)).is_err() {
            sleep_until(look);
        }
        while let Some(event) = claim.poll_event() {
            told.set(match event {
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
        self.shared.over.store(true, Ordering::Relaxed);
        // It says nothing that anybody waits for.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl fmt::Debug for ClaimedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimedAddress({}, {:02x?})", self.without, self.standing())
    }
}
