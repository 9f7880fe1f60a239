//! What is to be sent or received, and how: everything that is settled before a run.

pub mod address;
pub mod beside;
pub mod claim;
pub mod lay;
pub mod pacing;
pub mod probes;
pub mod select;
pub mod sockets;
pub mod too_long;

use std::fs::File;
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use tautline_dsp::gain::Gain;
use tautline_dsp::map::ChannelMap;
use tautline_io::control::Control;
use tautline_io::link::Link;
use tautline_io::link::destinations::Outbound;
use tautline_proto::codec::Encode;
use tautline_proto::device::Settings;
use tautline_proto::endpoint::Endpoint;
use tautline_proto::jitter_buffer::{JitterBuffer, JitterBufferConfig};
use tautline_proto::latency::LatencyRule;
use tautline_proto::pacing::is_spaced;
use tautline_proto::packet::StreamId;
use tautline_proto::packetizer::Identity;
use tautline_proto::receive_policy::{ReceivePolicyConfig, receiver_with_room};
use tautline_proto::send_policy::SendPolicyConfig;
use tautline_proto::stream::{PTIME_RANGE, StreamFormat};
use tautline_proto::time::{Frames, Span};
use tautline_proto::wire::avtp::Encapsulation;

use crate::error::RunError;
use crate::plan::claim::ClaimedAddress;
use crate::plan::pacing::Paced;
use crate::plan::probes::Probes;
use crate::plan::select::Select;

tautline_dsp::named_enum! {
    /// Whether a separate thread makes the system calls.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum LinkKind {
        /// Threaded where packets of one period are to be spaced ([`is_spaced`]), else direct.
        #[default]
        Auto = "auto",
        /// The device's thread.
        Direct = "no",
        /// A wire thread, which spaces the packets of a period.
        Threaded = "yes",
    }
}

impl LinkKind {
    /// Whether a wire thread spaces such packets at this period, where no queue launches them.
    pub fn spaces(self, format: &StreamFormat, period: Frames) -> bool {
        match self {
            Self::Auto => is_spaced(format, period),
            Self::Direct => false,
            Self::Threaded => true,
        }
    }
}

/// What the ordinary thread keeps of a stream that it sends.
pub struct SentConfig {
    /// Where packets go, as it was given, for the report.
    pub address: String,
    /// What the link was opened for, with the present destinations.
    pub outbound: Outbound,
    /// How many packets are measured.
    pub probes: Probes,
    /// By what profile of SRTP its link seals packets, if it does: for the report.
    pub sealed: Option<&'static str>,
    /// What spaces its packets, if that was asked: for the report.
    pub pacing: Option<Paced>,
}

/// What to send and how.
pub struct SendPlan {
    /// What is kept as it is while the stream is sent.
    pub stream: SentConfig,
    /// Where reports go: the control address of each destination.
    pub reports_to: Vec<Endpoint>,
    /// By what its packets leave.
    pub link: Box<dyn Link>,
    /// By what reports are exchanged; without it nobody reports, nor learns its sender's clock.
    pub control: Option<Box<dyn Control>>,
    /// What it is and promises. What follows from the plan's link, pacing and encoders is set as the engine is made of it.
    pub policy: SendPolicyConfig,
    /// What packets may be compressed by: what codes the format, if anything does, and what it may be changed for.
    pub encoders: Vec<Box<dyn Encode>>,
    /// Gain before packing.
    pub gain: Gain,
    /// Device channels to stream channels.
    pub map: ChannelMap,
    /// Writes the ledger of every packet that is measured here.
    pub ledger: Option<PathBuf>,
    /// The claim to the address that it goes to, if that was claimed: where it is lost, the stream goes where the next one says.
    pub claim: Option<Arc<ClaimedAddress>>,
}

/// One stream to receive.
pub struct StreamPlan {
    /// As it was given, for the report.
    pub address: String,
    /// What it is and how it is to be placed.
    pub receiver: JitterBufferConfig,
    /// How its latency is found.
    pub policy: ReceivePolicyConfig,
    /// Where its packets arrive.
    pub link: Box<dyn Link>,
    /// By what reports are exchanged, if they are.
    pub control: Option<Box<dyn Control>>,
    /// Its gain in the mix.
    pub gain: Gain,
    /// How many senders are heard at its link at once, each as a stream like this one; `None` is one alone.
    pub senders: Option<NonZeroUsize>,
    /// Whether the clock that is followed comes by its link, too.
    pub carries_clock: bool,
    /// By what profile of SRTP its link opens packets, if it does: for the report.
    pub sealed: Option<&'static str>,
}

impl StreamPlan {
    /// At a latency that was chosen and a gain of one.
    pub fn new(
        address: String,
        receiver: JitterBufferConfig,
        link: Box<dyn Link>,
        control: Option<Box<dyn Control>>,
    ) -> Self {
        Self {
            address,
            policy: ReceivePolicyConfig::new(LatencyRule::Chosen(receiver.link_offset)),
            receiver,
            link,
            control,
            gain: Gain::UNITY,
            senders: None,
            carries_clock: false,
            sealed: None,
        }
    }

    /// A receiver with room for what its latency may become, to which repairers are lent.
    pub(crate) fn receiver(&self) -> JitterBuffer {
        receiver_with_room(self.receiver.clone(), self.policy.latency)
    }
}

/// Packets of so long that come within `held`; at least the shortest of three beats, which may come too.
pub(crate) fn packets_within(held: Span, ptime: Span) -> usize {
    const LEAST: Span = Span::from_millis(60);
    let within = |span: Span, ptime: Span| span.as_nanos() / ptime.as_nanos().max(1);
    within(held, ptime).max(within(LEAST, PTIME_RANGE.0)).unsigned_abs() as usize
}

/// A clock to follow: a stream of CRF.
pub struct ClockPlan {
    /// As it was given, for the report.
    pub address: String,
    /// Where its packets arrive.
    pub link: Box<dyn Link>,
    /// What stands before them there.
    pub encapsulation: Encapsulation,
    /// The only stream to follow; else the first that comes.
    pub stream: Option<StreamId>,
}

/// What to receive and how.
pub struct RecvPlan {
    /// The streams, the most important first; all of one rate and as many channels.
    pub streams: Vec<StreamPlan>,
    /// The clock that they are played by, where another than their own packets tells it.
    pub clock: Option<ClockPlan>,
    /// Which of them are heard.
    pub select: Select,
    /// Gain of all.
    pub gain: Gain,
    /// Stream channels to device channels.
    pub map: ChannelMap,
    /// How the device runs.
    pub device: Settings,
    /// Ends once every sender said goodbye or was silent for three seconds, and all is played.
    pub exit_on_bye: bool,
    /// How many packets are measured.
    pub probes: Probes,
    /// Writes the ledger of every packet that is measured here.
    pub ledger: Option<PathBuf>,
    /// Writes here what spoilt the sound, and where in what a `file:` device records.
    pub labels: Option<PathBuf>,
}

/// Random bytes of the kernel's, for identities that must not collide (RFC 3550 §8.1).
pub(crate) fn random() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A random identity for a stream.
pub fn random_identity() -> Result<Identity, RunError> {
    let random = random().map_err(|error| RunError::System("reading /dev/urandom", error))?;
    let word = |at: usize| {
        u32::from_ne_bytes([random[at], random[at + 1], random[at + 2], random[at + 3]])
    };
    Ok(Identity { stream: StreamId::from(word(0)), sequence: word(4) as u16, timestamp: word(8) })
}
