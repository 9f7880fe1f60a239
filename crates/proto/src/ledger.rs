//! The ledger of one packet: every instant of its way, and the stages between them.
//!
//! All instants are on one clock: the sender's when the sender keeps the ledger, the receiver's when
//! the receiver does (the sender's instants mapped through [`crate::clock`]). Stages are
//! differences of neighbouring instants, so they add up to the whole by construction; what makes
//! the figure honest is that the *measured* latency does not come from here but from the sound.

use crate::time::{LocalTime, MediaTime, Span};

tautline_dsp::named_enum! {
    /// One stage of a packet's way, in the order of travel; `docs/stages.md` defines each.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Stage {
        /// First frame at the ADC → block in the program.
        Capture = "capture",
        /// → packet complete.
        Pack = "pack",
        /// → handed to the kernel.
        Send = "send",
        /// → let go by the kernel, as it was asked to. There is no such stage where it was not asked.
        Launch = "launch",
        /// → kernel arrival stamp at the receiver of the datagram that came first: what was lost and sent
        /// again was under way since it left first.
        Wire = "wire",
        /// → read by the program.
        Wakeup = "wakeup",
        /// → taken for playout.
        Buffer = "buffer",
        /// → written to the device.
        Render = "render",
        /// What the resampler holds it back by, where frames are resampled.
        Resample = "resample",
        /// → first frame at the DAC.
        Device = "device",
    }
}

/// The stage of a packet whose sender reports its capture alone: from there to the arrival.
pub const SENDER_STAGE: &str = "sender";

/// What the sender knows of one packet, on the sender's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// First frame of the packet.
    pub media: MediaTime,
    /// First frame at the ADC.
    pub capture: LocalTime,
    /// The block that holds the first frame reached the program.
    pub taken: LocalTime,
    /// Packet complete.
    pub packed: LocalTime,
    /// When it was meant to leave.
    pub due: LocalTime,
    /// Handed to the kernel.
    pub handed: LocalTime,
    /// When the kernel was to let it go: its launch time, or `handed` where it has none.
    pub launched: LocalTime,
}

impl Departure {
    /// Of what is made, handed over and let go at one instant.
    pub const fn at_once(media: MediaTime, at: LocalTime) -> Self {
        Self { media, capture: at, taken: at, packed: at, due: at, handed: at, launched: at }
    }

    /// How long the kernel was to hold it, if it was to.
    pub fn held(&self) -> Option<Span> {
        held(self.handed, self.launched)
    }
}

fn held(handed: LocalTime, launched: LocalTime) -> Option<Span> {
    Some(launched - handed).filter(|held| *held != Span::ZERO)
}

/// The sender's instants as a receiver knows them, on the receiver's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// First frame at the ADC.
    pub capture: LocalTime,
    /// What else the sender said, if it did.
    pub sender: Option<SenderInstants>,
}

/// The instants inside the sender, as its header extension carries them, mapped to the receiver's
/// clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderInstants {
    /// The block that holds the first frame reached the program.
    pub taken: LocalTime,
    /// Packet complete.
    pub packed: LocalTime,
    /// Handed to the kernel.
    pub handed: LocalTime,
    /// When the kernel was to let it go: its launch time, or `handed` where it has none.
    pub launched: LocalTime,
}

/// What the receiver knows of one packet that was played, on the receiver's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketTrace {
    /// First frame of the packet.
    pub media: MediaTime,
    /// The sender's side, if the clocks are mapped.
    pub origin: Option<Origin>,
    /// What its presentation is reckoned from: its capture, or, where no clock is mapped, what stands
    /// in for that. `None` before either is known.
    pub reference: Option<LocalTime>,
    /// Kernel arrival stamp.
    pub arrival: LocalTime,
    /// Read by the program.
    pub read: LocalTime,
    /// Taken for playout.
    pub taken: LocalTime,
    /// Written to the device.
    pub written: LocalTime,
    /// How much later than the frames before the resampler reads ahead it is heard: the delay of its
    /// kernel. Nothing where frames are played as they came.
    pub resample: Span,
    /// First frame at the DAC, as the device's contract promised it; of a late packet, when it
    /// should have been there.
    pub dac: LocalTime,
    /// Whether it came after its turn and was not played. Its `device` stage is then below zero
    /// by what was missing, and more.
    pub late: bool,
}

impl PacketTrace {
    /// Capture at the sender to the DAC here, by the ledger; `None` where no clock is mapped.
    pub fn total(&self) -> Option<Span> {
        self.origin.map(|origin| self.dac - origin.capture)
    }

    /// What its presentation is reckoned from to its arrival: at a latency of this and what the
    /// device takes it is in time.
    pub fn transit(&self) -> Option<Span> {
        self.reference.map(|reference| self.arrival - reference)
    }

    /// First frame at the ADC → let go by the kernel, if the sender says so.
    pub(crate) fn departed_after(&self) -> Option<Span> {
        let origin = self.origin?;
        origin.sender.map(|sender| sender.launched - origin.capture)
    }

    /// The length of `stage`, if the instants on both its ends are known.
    pub fn stage(&self, stage: Stage) -> Option<Span> {
        let inside = self.origin.and_then(|origin| origin.sender.map(|s| (origin.capture, s)));
        Some(match stage {
            Stage::Capture => inside.map(|(capture, s)| s.taken - capture)?,
            Stage::Pack => inside.map(|(_, s)| s.packed - s.taken)?,
            Stage::Send => inside.map(|(_, s)| s.handed - s.packed)?,
            Stage::Launch => inside.and_then(|(_, s)| held(s.handed, s.launched))?,
            Stage::Wire => inside.map(|(_, s)| self.arrival - s.launched)?,
            Stage::Wakeup => self.read - self.arrival,
            Stage::Buffer => self.taken - self.read,
            Stage::Render => self.written - self.taken,
            // There is no such stage where frames are played as they came.
            Stage::Resample if self.resample == Span::ZERO => return None,
            Stage::Resample => self.resample,
            Stage::Device => self.dac - self.written - self.resample,
        })
    }

    /// The one stage that stands for all before the arrival when the sender's instants are unknown
    /// but its capture time is.
    pub fn sender_stage(&self) -> Option<Span> {
        match self.origin {
            Some(Origin { capture, sender: None }) => Some(self.arrival - capture),
            _ => None,
        }
    }
}
