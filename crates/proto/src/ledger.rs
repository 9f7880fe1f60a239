//! Packet traces: all times of a packet on the recording end's clock. Stages are differences of
//! successive times. The *measured* latency comes from the sound instead.

use crate::time::{LocalTime, MediaTime, Span};

tautline_dsp::named_enum! {
    /// Stage of a packet, in order (`docs/reference/stages.md`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Stage {
        /// First frame at the ADC → in the program.
        Capture = "capture",
        /// → packet complete.
        Pack = "pack",
        /// → passed to the kernel.
        Send = "send",
        /// → released by the kernel, if a launch time was requested.
        Launch = "launch",
        /// → first kernel arrival timestamp, including the time before a retransmission.
        Wire = "wire",
        /// → read by the program.
        Wakeup = "wakeup",
        /// → taken for playout.
        Buffer = "buffer",
        /// → written to the device.
        Render = "render",
        /// Delay of the resampler, if any.
        Resample = "resample",
        /// → first frame at the DAC.
        Device = "device",
    }
}

/// Stage from capture to arrival, if the sender reports no other time.
pub const SENDER_STAGE: &str = "sender";

/// The sender's times, on its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// Media time of the first frame.
    pub media: MediaTime,
    /// First frame at the ADC.
    pub capture: LocalTime,
    /// First frame in the program.
    pub taken: LocalTime,
    /// Packet complete.
    pub packed: LocalTime,
    /// Due departure.
    pub due: LocalTime,
    /// Passed to the kernel.
    pub handed: LocalTime,
    /// Requested launch time; `handed` without one.
    pub launched: LocalTime,
}

impl Departure {
    /// All times equal.
    pub const fn at_once(media: MediaTime, at: LocalTime) -> Self {
        Self { media, capture: at, taken: at, packed: at, due: at, handed: at, launched: at }
    }

    /// Requested holding time in the kernel.
    pub fn held(&self) -> Option<Span> {
        held(self.handed, self.launched)
    }
}

fn held(handed: LocalTime, launched: LocalTime) -> Option<Span> {
    Some(launched - handed).filter(|held| *held != Span::ZERO)
}

/// The sender's times, on the receiver's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// First frame at the ADC.
    pub capture: LocalTime,
    /// Other times, if reported.
    pub sender: Option<SenderInstants>,
}

/// Times within the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderInstants {
    /// First frame in the program.
    pub taken: LocalTime,
    /// Packet complete.
    pub packed: LocalTime,
    /// Passed to the kernel.
    pub handed: LocalTime,
    /// Requested launch time; `handed` without one.
    pub launched: LocalTime,
}

/// End of a received packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outcome {
    /// Taken for playout in time.
    #[default]
    Played,
    /// Too late to play. Its `device` stage is negative, by at least the lateness.
    Late,
    /// In time, but replaced by the silence of a device underrun. It has no times after `read`.
    Discarded,
}

/// Times of a packet on the receiver's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketTrace {
    /// Media time of the first frame.
    pub media: MediaTime,
    /// The sender's times, if mapped.
    pub origin: Option<Origin>,
    /// Base of the presentation time: capture, or its estimate. `None` before either is known.
    pub reference: Option<LocalTime>,
    /// Kernel arrival timestamp.
    pub arrival: LocalTime,
    /// Read by the program.
    pub read: LocalTime,
    /// Taken for playout.
    pub taken: LocalTime,
    /// Written to the device.
    pub written: LocalTime,
    /// Resampler look-ahead. 0 if frames are copied.
    pub resample: Span,
    /// First frame at the DAC, as reported by the device. Due time of a late packet.
    pub dac: LocalTime,
    /// Whether the packet was played.
    pub outcome: Outcome,
}

impl PacketTrace {
    /// Whether the packet was too late to play.
    pub fn is_late(&self) -> bool {
        self.outcome == Outcome::Late
    }

    /// Capture to DAC; `None` without a mapping.
    pub fn total(&self) -> Option<Span> {
        self.origin.map(|origin| self.dac - origin.capture)
    }

    /// `reference` to arrival. Transit plus device delay must not exceed the latency.
    pub fn transit(&self) -> Option<Span> {
        self.reference.map(|reference| self.arrival - reference)
    }

    pub(crate) fn departed_after(&self) -> Option<Span> {
        let origin = self.origin?;
        origin.sender.map(|sender| sender.launched - origin.capture)
    }

    /// Duration of `stage`, if known.
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
            Stage::Resample if self.resample == Span::ZERO => return None,
            Stage::Resample => self.resample,
            Stage::Device => self.dac - self.written - self.resample,
        })
    }

    /// Single stage, if only the capture time is known.
    pub fn sender_stage(&self) -> Option<Span> {
        match self.origin {
            Some(Origin { capture, sender: None }) => Some(self.arrival - capture),
            _ => None,
        }
    }
}
