//! What one call of several, on a thread of its own, has in common with whoever sees to all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use tautline_proto::call::terms::CallPath;

use crate::cmd::call_end::EndPart;

/// How it stands with one call.
#[derive(Debug, Default)]
struct CallStanding {
    /// Whether its engines run.
    begun: AtomicBool,
    /// By what its sound goes: 0 if there is none, 1 by UDP, 2 by TCP.
    path: AtomicU8,
}

/// See the module.
pub(super) struct CallShare {
    /// The how many-th it is, from 0.
    pub(super) index: u32,
    /// Its part of the devices, until it begins.
    pub(super) part: Option<EndPart>,
    /// Whether the microphone is open, for all.
    open: Arc<AtomicBool>,
    standing: Arc<CallStanding>,
}

/// The other end of a [`CallShare`].
pub(super) struct CallSeen(Arc<CallStanding>);

impl CallShare {
    /// Of a call, and by what it is seen.
    pub(super) fn new(index: u32, part: EndPart, open: &Arc<AtomicBool>) -> (Self, CallSeen) {
        let standing = Arc::<CallStanding>::default();
        let seen = CallSeen(Arc::clone(&standing));
        (Self { index, part: Some(part), open: Arc::clone(open), standing }, seen)
    }

    /// Whether the microphone is open.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Its engines run from now on.
    pub(super) fn begins(&self) {
        self.standing.begun.store(true, Ordering::Relaxed);
    }

    /// Its sound goes by this now, if it does.
    pub(super) fn goes_by(&self, path: Option<CallPath>) {
        let path = match path {
            None => 0,
            Some(CallPath::Udp) => 1,
            Some(CallPath::Tcp) => 2,
        };
        self.standing.path.store(path, Ordering::Relaxed);
    }
}

impl CallSeen {
    /// Whether its engines run, or did.
    pub(super) fn has_begun(&self) -> bool {
        self.0.begun.load(Ordering::Relaxed)
    }

    /// By what its sound goes.
    pub(super) fn path(&self) -> Option<CallPath> {
        match self.0.path.load(Ordering::Relaxed) {
            1 => Some(CallPath::Udp),
            2 => Some(CallPath::Tcp),
            _ => None,
        }
    }
}
