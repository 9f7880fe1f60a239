//! Packet traces: all times of a packet and the stages between them.
//!
//! All times are on the clock of the end that records the trace. A receiver maps the sender's times
//! with [`crate::clock`]. Stages are differences of successive times, so their sum is the total.
//! The *measured* latency does not come from here: it is measured in the sound itself.

use crate::time::{LocalTime, MediaTime, Span};

tautline_dsp::named_enum! {
    /// Stage of a packet, in order of travel. Defined in `docs/reference/stages.md`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Stage {
        /// First frame at the ADC → block in the program.
        Capture = "capture",
        /// → packet complete.
        Pack = "pack",
        /// → passed to the kernel.
        Send = "send",
        /// → released by the kernel. Absent if no launch time was requested.
        Launch = "launch",
        /// → kernel arrival timestamp of the first datagram. Includes the time before a
        /// retransmission.
        Wire = "wire",
        /// → read by the program.
        Wakeup = "wakeup",
        /// → taken for playout.
        Buffer = "buffer",
        /// → written to the device.
        Render = "render",
        /// Delay of the resampler, if frames are resampled.
        Resample = "resample",
        /// → first frame at the DAC.
        Device = "device",
    }
}

/// Name of the stage from capture to arrival, if the sender reports only the capture time.
pub const SENDER_STAGE: &str = "sender";

/// The sender's times of one packet, on the sender's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// Media time of the first frame of the packet.
    pub media: MediaTime,
    /// Time at which the first frame met the ADC.
    pub capture: LocalTime,
    /// Time at which the program had the block with the first frame.
    pub taken: LocalTime,
    /// Time at which the packet was complete.
    pub packed: LocalTime,
    /// Due time of the departure.
    pub due: LocalTime,
    /// Time at which the packet was passed to the kernel.
    pub handed: LocalTime,
    /// Requested launch time, at which the kernel releases the packet. Equal to `handed` without
    /// one.
    pub launched: LocalTime,
}

impl Departure {
    /// Creates a departure with all times equal.
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
    /// Time at which the first frame met the ADC.
    pub capture: LocalTime,
    /// The other times, if the sender reports them.
    pub sender: Option<SenderInstants>,
}

/// Times within the sender from its header extension, on the receiver's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderInstants {
    /// Time at which the program had the block with the first frame.
    pub taken: LocalTime,
    /// Time at which the packet was complete.
    pub packed: LocalTime,
    /// Time at which the packet was passed to the kernel.
    pub handed: LocalTime,
    /// Requested launch time. Equal to `handed` without one.
    pub launched: LocalTime,
}

/// Times of one packet on the receiver's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketTrace {
    /// Media time of the first frame of the packet.
    pub media: MediaTime,
    /// The sender's times, if the clocks are mapped.
    pub origin: Option<Origin>,
    /// Base of the presentation time: the capture time, or its estimate if the clock is not mapped.
    /// `None` before either is known.
    pub reference: Option<LocalTime>,
    /// Kernel arrival timestamp.
    pub arrival: LocalTime,
    /// Time at which the program read the packet.
    pub read: LocalTime,
    /// Time at which the packet was taken for playout.
    pub taken: LocalTime,
    /// Time at which the packet was written to the device.
    pub written: LocalTime,
    /// Delay of the resampler (look-ahead of its kernel). 0 if frames are copied.
    pub resample: Span,
    /// Time at which the first frame meets the DAC, according to the device. Its due time if the
    /// packet was late.
    pub dac: LocalTime,
    /// Whether the packet was too late to play. Its `device` stage is then negative, by at least
    /// the lateness.
    pub late: bool,
}

impl PacketTrace {
    /// Time from capture to DAC. `None` if the clock is not mapped.
    pub fn total(&self) -> Option<Span> {
        self.origin.map(|origin| self.dac - origin.capture)
    }

    /// Time from `reference` to arrival. The packet is in time if the latency is at least this plus
    /// the delay of the device.
    pub fn transit(&self) -> Option<Span> {
        self.reference.map(|reference| self.arrival - reference)
    }

    /// Time from the ADC to the release by the kernel, if known.
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
            // Copied frames have no such stage.
            Stage::Resample if self.resample == Span::ZERO => return None,
            Stage::Resample => self.resample,
            Stage::Device => self.dac - self.written - self.resample,
        })
    }

    /// Single stage before the arrival, if only the sender's capture time is known.
    pub fn sender_stage(&self) -> Option<Span> {
        match self.origin {
            Some(Origin { capture, sender: None }) => Some(self.arrival - capture),
            _ => None,
        }
    }
}
