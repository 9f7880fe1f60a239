//! Plans: all settings of a run, fixed before it starts.

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
    /// Thread that makes the system calls.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum LinkKind {
        /// A wire thread if the packets of one period must be spaced ([`is_spaced`]), otherwise the
        /// device's thread.
        #[default]
        Auto = "auto",
        /// The device's thread.
        Direct = "no",
        /// A wire thread, which spaces the packets of a period.
        Threaded = "yes",
    }
}

impl LinkKind {
    /// Returns whether a wire thread spaces such packets at this period if no queue has launch
    /// times.
    pub fn spaces(self, format: &StreamFormat, period: Frames) -> bool {
        match self {
            Self::Auto => is_spaced(format, period),
            Self::Direct => false,
            Self::Threaded => true,
        }
    }
}

/// Settings of a sent stream on the ordinary thread.
pub struct SentConfig {
    /// Destination address as given, for the report.
    pub address: String,
    /// Options of the opened link, with the current destinations.
    pub outbound: Outbound,
    /// Which packets are measured.
    pub probes: Probes,
    /// SRTP profile of the link if it encrypts, for the report.
    pub sealed: Option<&'static str>,
    /// Chosen pacing, if any, for the report.
    pub pacing: Option<Paced>,
}

/// Plan of a sender.
pub struct SendPlan {
    /// Settings that stay while the stream is sent.
    pub stream: SentConfig,
    /// Control address of each destination, for reports.
    pub reports_to: Vec<Endpoint>,
    /// Link that sends the packets.
    pub link: Box<dyn Link>,
    /// Channel for reports. Without it, receivers neither report nor know the sender's clock.
    pub control: Option<Box<dyn Control>>,
    /// Settings of the send policy. The engine sets those that follow from the link, pacing and
    /// encoders.
    pub policy: SendPolicyConfig,
    /// Encoders for compressed formats: that of the stream, and those that it can change to.
    pub encoders: Vec<Box<dyn Encode>>,
    /// Gain before packetizing.
    pub gain: Gain,
    /// Map from device channels to stream channels.
    pub map: ChannelMap,
    /// Path of the ledger of measured packets.
    pub ledger: Option<PathBuf>,
    /// Claim of the destination address, if it was claimed. If the claim is lost, the stream moves
    /// to the next claimed address.
    pub claim: Option<Arc<ClaimedAddress>>,
}

/// Plan of one received stream.
pub struct StreamPlan {
    /// Source address as given, for the report.
    pub address: String,
    /// Format of the stream and settings of the jitter buffer.
    pub receiver: JitterBufferConfig,
    /// Settings of the receive policy, which decides the latency.
    pub policy: ReceivePolicyConfig,
    /// Link that receives the packets.
    pub link: Box<dyn Link>,
    /// Channel for reports, if there is one.
    pub control: Option<Box<dyn Control>>,
    /// Gain in the mix.
    pub gain: Gain,
    /// Maximum simultaneous senders at the link, each a stream of its own; `None` for a single
    /// sender.
    pub senders: Option<NonZeroUsize>,
    /// Whether the link also receives the clock that is followed.
    pub carries_clock: bool,
    /// SRTP profile of the link if it decrypts, for the report.
    pub sealed: Option<&'static str>,
}

impl StreamPlan {
    /// Creates a plan with the latency of `receiver` and a gain of one.
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

    /// Creates a jitter buffer with room for every latency that the policy may choose. It has no
    /// repairer yet.
    pub(crate) fn receiver(&self) -> JitterBuffer {
        receiver_with_room(self.receiver.clone(), self.policy.latency)
    }
}

/// Returns the number of packets of `ptime` within `held`, but at least as many as the shortest
/// packets of three beats, which can arrive together.
pub(crate) fn packets_within(held: Span, ptime: Span) -> usize {
    const MIN: Span = Span::from_millis(60);
    let within = |span: Span, ptime: Span| span.as_nanos() / ptime.as_nanos().max(1);
    within(held, ptime).max(within(MIN, PTIME_RANGE.0)).unsigned_abs() as usize
}

/// Plan of a clock to follow, received as a CRF stream.
pub struct ClockPlan {
    /// Address as given, for the report.
    pub address: String,
    /// Link that receives its packets.
    pub link: Box<dyn Link>,
    /// Encapsulation of its packets.
    pub encapsulation: Encapsulation,
    /// The only stream to follow; `None` for the first that is received.
    pub stream: Option<StreamId>,
}

/// Plan of a receiver.
pub struct RecvPlan {
    /// Streams in order of priority, all with the same rate and channel count.
    pub streams: Vec<StreamPlan>,
    /// Clock for playback, if it is not the streams' own.
    pub clock: Option<ClockPlan>,
    /// Rule that selects the played streams.
    pub select: Select,
    /// Gain of the mix.
    pub gain: Gain,
    /// Map from stream channels to device channels.
    pub map: ChannelMap,
    /// Device settings.
    pub device: Settings,
    /// Ends the run when all senders have sent a goodbye or been silent for three seconds, and all
    /// frames are played.
    pub exit_on_bye: bool,
    /// Which packets are measured.
    pub probes: Probes,
    /// Path of the ledger of measured packets.
    pub ledger: Option<PathBuf>,
    /// Path of the label file: cause and position of each glitch in the recording of a `file:`
    /// device.
    pub labels: Option<PathBuf>,
}

/// Returns random bytes from the kernel, for identities that must not collide (RFC 3550 §8.1).
pub(crate) fn random() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Creates a random stream identity.
pub fn random_identity() -> Result<Identity, RunError> {
    let random = random().map_err(|error| RunError::System("reading /dev/urandom", error))?;
    let word = |at: usize| {
        u32::from_ne_bytes([random[at], random[at + 1], random[at + 2], random[at + 3]])
    };
    Ok(Identity { stream: StreamId::from(word(0)), sequence: word(4) as u16, timestamp: word(8) })
}
