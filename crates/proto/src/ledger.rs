//! Packet traces: all times of a packet and the stages between them.
//!
//! All times are on the clock of the end that keeps the ledger; a receiver maps the sender's times
//! with [`crate::clock`]. Stages are differences of neighbouring times, so they sum up to the
//! total. The
//! *measured* latency does not come from here but from the sound itself.

use crate::time::{LocalTime, MediaTime, Span};

tautline_dsp::named_enum! {
    /// Stage of a packet, in order of travel; defined in `docs/reference/stages.md`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Stage {
        /// First frame at the ADC → block in the program.
        Capture = "capture",
        /// → packet complete.
        Pack = "pack",
        /// → passed to the kernel.
        Send = "send",
        /// → released by the kernel. Absent without a requested launch time.
        Launch = "launch",
        /// → kernel arrival timestamp of the first datagram; time before a retransmission counts
        /// too.
        Wire = "wire",
        /// → read by the program.
        Wakeup = "wakeup",
        /// → taken for playout.
        Buffer = "buffer",
        /// → written to the device.
        Render = "render",
        /// Resampler delay, if frames are resampled.
        Resample = "resample",
        /// → first frame at the DAC.
        Device = "device",
    }
}

/// Name of the stage from capture to arrival, if the sender reports only the capture.
pub const SENDER_STAGE: &str = "sender";

/// The sender's times of one packet, on the sender's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// First frame of the packet.
    pub media: MediaTime,
    /// First frame at the ADC.
    pub capture: LocalTime,
    /// Block with the first frame in the program.
    pub taken: LocalTime,
    /// Packet complete.
    pub packed: LocalTime,
    /// Due departure.
    pub due: LocalTime,
    /// Passed to the kernel.
    pub handed: LocalTime,
    /// Requested release by the kernel: the launch time, or `handed` without one.
    pub launched: LocalTime,
}

impl Departure {
    /// Departure with all times equal.
    pub const fn at_once(media: MediaTime, at: LocalTime) -> Self {
        Self { media, capture: at, taken: at, packed: at, due: at, handed: at, launched: at }
    }

    /// Requested holding time in the kernel, if any.
    pub fn held(&self) -> Option<Span> {
        held(self.handed, self.launched)
    }
}

fn held(handed: LocalTime, launched: LocalTime) -> Option<Span> {
    Some(launched - handed).filter(|held| *held != Span::ZERO)
}

/// The sender's times on the receiver's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// First frame at the ADC.
    pub capture: LocalTime,
    /// Other times, if the sender reports them.
    pub sender: Option<SenderInstants>,
}

/// Times within the sender from its header extension, on the receiver's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderInstants {
    /// Block with the first frame in the program.
    pub taken: LocalTime,
    /// Packet complete.
    pub packed: LocalTime,
    /// Passed to the kernel.
    pub handed: LocalTime,
    /// Requested release by the kernel: the launch time, or `handed` without one.
    pub launched: LocalTime,
}

/// Times of one packet on the receiver's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketTrace {
    /// First frame of the packet.
    pub media: MediaTime,
    /// The sender's times, if the clocks are mapped.
    pub origin: Option<Origin>,
    /// Base of the presentation time: the capture, or its estimate without a mapped clock. `None`
    /// before either is known.
    pub reference: Option<LocalTime>,
    /// Kernel arrival timestamp.
    pub arrival: LocalTime,
    /// Read by the program.
    pub read: LocalTime,
    /// Taken for playout.
    pub taken: LocalTime,
    /// Written to the device.
    pub written: LocalTime,
    /// Resampler delay (its kernel's look-ahead); 0 for copied frames.
    pub resample: Span,
    /// First frame at the DAC as the device promised; of a late packet, its due time.
    pub dac: LocalTime,
    /// Whether it was too late to play. Its `device` stage is then negative by at least the
    /// lateness.
    pub late: bool,
}

impl PacketTrace {
    /// Time from capture to DAC by these times; `None` without a mapped clock.
    pub fn total(&self) -> Option<Span> {
        self.origin.map(|origin| self.dac - origin.capture)
    }

    /// Time from `reference` to arrival. The packet is in time at a latency of this plus the
    /// device's delay.
    pub fn transit(&self) -> Option<Span> {
        self.reference.map(|reference| self.arrival - reference)
    }

    /// Time from the first frame at the ADC to the release by the kernel, if known.
    pub(crate) fn departed_after(&self) -> Option<Span> {
        let origin = self.origin?;
        origin.sender.map(|sender| sender.launched - origin.capture)
    }

    /// Duration of `stage`, if both its times are known.
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
            // Absent for copied frames.
            Stage::Resample if self.resample == Span::ZERO => return None,
            Stage::Resample => self.resample,
            Stage::Device => self.dac - self.written - self.resample,
        })
    }

    /// Single stage before the arrival if only the sender's capture time is known.
    pub fn sender_stage(&self) -> Option<Span> {
        match self.origin {
            Some(Origin { capture, sender: None }) => Some(self.arrival - capture),
            _ => None,
        }
    }
}
