//! What one call of several, on a thread of its own, has in common with whoever sees to all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use tautline_proto::call::terms::CallPath;

use super::shared::{CallDevices, DevicesUse};
use crate::cmd::call_end::EndPart;
use crate::failure::Failure;

/// How it stands with the sound of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum CallStanding {
    /// There is no call, or none yet.
    #[default]
    None,
    /// It goes by this.
    By(CallPath),
    Held,
}

impl CallStanding {
    const ALL: [Self; 4] =
        [Self::None, Self::By(CallPath::Udp), Self::By(CallPath::Tcp), Self::Held];
}

pub(super) struct CallShare<'a> {
    /// The how many-th it is, from 0.
    pub(super) index: u32,
    /// Those of all calls,
    devices: &'a CallDevices<'a>,
    /// of which it has a part while it has sound.
    used: Option<DevicesUse<'a>>,
    /// Whether the microphone is open, for all.
    open: Arc<AtomicBool>,
    /// Its place among all that there are.
    standing: Arc<AtomicU8>,
}

/// The other end of a [`CallShare`].
pub(super) struct CallSeen(Arc<AtomicU8>);

impl<'a> CallShare<'a> {
    /// Of a call, and by what it is seen.
    pub(super) fn new(
        index: u32,
        devices: &'a CallDevices<'a>,
        open: &Arc<AtomicBool>,
    ) -> (Self, CallSeen) {
        let standing = Arc::<AtomicU8>::default();
        let seen = CallSeen(Arc::clone(&standing));
        (Self { index, devices, used: None, open: Arc::clone(open), standing }, seen)
    }

    /// Whether the microphone is open.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Its part of the devices, which are open from now on.
    pub(super) fn take(&mut self) -> Result<EndPart, Failure> {
        let (part, used) = self.devices.take()?;
        self.used = Some(used);
        Ok(part)
    }

    /// Whether none of the others had a part when it took its own.
    pub(super) fn is_first(&self) -> bool {
        self.used.as_ref().is_some_and(|used| used.first)
    }

    /// Its engines run from now on.
    pub(super) fn begins(&self) {
        self.used.iter().for_each(DevicesUse::begins);
    }

    /// Its engines have ended: the devices may be closed.
    pub(super) fn gives_back(&mut self) {
        self.used = None;
    }

    /// So it stands with its sound.
    pub(super) fn stands(&self, standing: CallStanding) {
        let place = CallStanding::ALL.into_iter().position(|one| one == standing);
        let place = place.and_then(|place| u8::try_from(place).ok()).unwrap_or(0);
        self.standing.store(place, Ordering::Relaxed);
    }
}

impl CallSeen {
    /// How it stands with its sound.
    pub(super) fn stands(&self) -> CallStanding {
        let place = usize::from(self.0.load(Ordering::Relaxed));
        CallStanding::ALL.get(place).copied().unwrap_or_default()
    }
}
