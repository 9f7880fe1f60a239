//! Zones and announcements.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tautline_dsp::gain::Gain;
use tautline_proto::time::{Span, WallTime};
use tautline_proto::zone::{AnnouncementId, Claim, Duck, Priority, Targets, ZoneSettings};

use crate::error::RunError;
use crate::plan::random;

/// A receiver that is a zone of a building: announcements lower and replace its programs.
///
/// Its announcement ports are the streams with [`StreamPlan::announces`]; the others are programs,
/// which come first.
///
/// [`StreamPlan::announces`]: crate::plan::StreamPlan::announces
#[derive(Debug, Clone, Default)]
pub struct ZonePlan {
    /// Numbers that address this zone: its own and its groups' numbers.
    pub numbers: Vec<u16>,
    /// Ranks of the stations that mute this zone, their own room, during their announcements.
    pub muted_by: Vec<u16>,
    /// Volumes, which any thread changes.
    pub volumes: VolumeControl,
}

/// Volumes of a zone: they replace the gains of its streams.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ZoneVolumes {
    /// Volume of programs.
    pub program: Gain,
    /// Volume of announcements.
    pub announcement: Gain,
    /// Volume of announcements while an emergency plays.
    pub emergency: Gain,
}

/// Changes the volumes of a zone from any thread, without a click; clones share them.
#[derive(Debug, Clone)]
pub struct VolumeControl(Arc<[AtomicU32; 3]>);

impl Default for VolumeControl {
    /// Full.
    fn default() -> Self {
        Self(Arc::new([(); 3].map(|()| AtomicU32::new(Gain::UNITY.to_bits()))))
    }
}

impl VolumeControl {
    /// Sets all volumes. Volumes ramp, so it does not matter if the device thread sees some of them
    /// earlier.
    pub fn set(&self, volumes: ZoneVolumes) {
        let ZoneVolumes { program, announcement, emergency } = volumes;
        for (slot, gain) in self.0.iter().zip([program, announcement, emergency]) {
            slot.store(gain.to_bits(), Ordering::Relaxed);
        }
    }

    /// Current volumes. Real-time safe.
    pub fn volumes(&self) -> ZoneVolumes {
        let gains = self.0.each_ref().map(|slot| Gain::from_bits(slot.load(Ordering::Relaxed)));
        let [program, announcement, emergency] = gains;
        ZoneVolumes { program, announcement, emergency }
    }
}

impl ZonePlan {
    /// Time for the ordinary thread to decide.
    const DECIDED: Span = Span::from_millis(1);

    pub(crate) fn settings(self, lead: Span) -> ZoneSettings {
        let Self { numbers, muted_by, .. } = self;
        ZoneSettings { numbers, muted_by, lead: lead + Self::DECIDED }
    }
}

/// Invalid number of targets of an announcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid number of targets {0}: must be 1 to {max}\nhint: address a group", max = Targets::MAX)]
pub struct InvalidTargets(pub usize);

/// A sent stream that is an announcement. Its claims decide which zones play it.
///
/// The stream must keep its announced latency, which zones must use, too.
#[derive(Debug, Clone, PartialEq)]
pub struct AnnouncementPlan {
    /// Number, unique among all stations.
    pub id: AnnouncementId,
    /// Numbers of the addressed zones and groups, 1 to [`Targets::MAX`].
    pub targets: Vec<u16>,
    /// Priority; at least 32.
    pub priority: Priority,
    /// The station's rank; the lower wins among equals.
    pub rank: u16,
    /// How the announcement lowers the program.
    pub duck: Duck,
    /// Maximum duration.
    pub longest: Span,
}

impl AnnouncementPlan {
    /// Usual maximum duration: a forgotten microphone blocks zones no longer.
    pub const LONGEST: Span = Span::from_secs(600);

    /// Random number, first rank, and the usual duck of the priority's class, for 10 minutes.
    pub fn new(targets: Vec<u16>, priority: Priority) -> Result<Self, RunError> {
        let random = random().map_err(|error| RunError::System("reading /dev/urandom", error))?;
        let id = random.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let duck = Duck::of(priority.class());
        let (id, longest) = (AnnouncementId(id), Self::LONGEST);
        Ok(Self { id, targets, priority, rank: 0, duck, longest })
    }

    /// Claim of an announcement that starts at `starts`.
    pub(crate) const fn claim(&self, starts: WallTime) -> Claim {
        let Self { id, priority, rank, duck, longest, .. } = *self;
        Claim { id, priority, rank, starts, ends: None, sent: starts, longest, duck }
    }

    /// Targets as on the wire.
    pub(crate) fn targets(&self) -> Result<Box<[[u8; 2]]>, InvalidTargets> {
        let numbers: Box<[_]> = self.targets.iter().map(|number| number.to_be_bytes()).collect();
        Targets::new(&numbers).ok_or(InvalidTargets(numbers.len()))?;
        Ok(numbers)
    }
}
