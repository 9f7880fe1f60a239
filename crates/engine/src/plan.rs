//! Plans: a run's settings, fixed before the start.

pub mod address;
pub mod alongside;
pub mod claim;
pub mod lay;
pub mod pacing;
pub mod probes;
pub mod sockets;
pub mod too_long;
pub mod zone;

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
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::wire::avtp::Encapsulation;
use tautline_proto::zone::ProgramRule;

use crate::error::RunError;
use crate::plan::claim::ClaimedAddress;
use crate::plan::pacing::Paced;
use crate::plan::probes::Probes;
use crate::plan::zone::{AnnouncementPlan, ZonePlan};

tautline_dsp::named_enum! {
    /// Thread that makes the system calls.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum LinkKind {
        /// A wire thread if a period's packets must be spaced ([`is_spaced`]), otherwise the
        /// device's thread.
        #[default]
        Auto = "auto",
        /// The device's thread.
        Direct = "no",
        /// A wire thread, which spaces packets.
        Threaded = "yes",
    }
}

impl LinkKind {
    /// Whether a wire thread spaces these packets without launch times.
    pub fn spaces(self, format: &StreamFormat, period: Frames) -> bool {
        match self {
            Self::Auto => is_spaced(format, period),
            Self::Direct => false,
            Self::Threaded => true,
        }
    }
}

/// Sent stream's settings on the ordinary thread.
pub struct SentConfig {
    /// Destination as given, for the report.
    pub address: String,
    /// Options of the link, with current destinations.
    pub outbound: Outbound,
    /// Measured packets.
    pub probes: Probes,
    /// SRTP profile, for the report.
    pub sealed: Option<&'static str>,
    /// Pacing, for the report.
    pub pacing: Option<Paced>,
}

/// Sender's plan.
pub struct SendPlan {
    /// Settings that stay while sending.
    pub stream: SentConfig,
    /// RTCP address per destination.
    pub reports_to: Vec<Endpoint>,
    /// Packet link.
    pub link: Box<dyn Link>,
    /// Report channel. Without it, receivers neither report nor know the sender's clock.
    pub control: Option<Box<dyn Control>>,
    /// Send policy. The engine sets the values that depend on link, pacing and encoders.
    pub policy: SendPolicyConfig,
    /// Encoders of the current and possible formats.
    pub encoders: Vec<Box<dyn Encode>>,
    /// Gain before packetizing.
    pub gain: Gain,
    /// Device channels to stream channels.
    pub map: ChannelMap,
    /// Ledger of measured packets.
    pub ledger: Option<PathBuf>,
    /// Claim of the destination, if any. If the claim is lost, the stream moves to the next
    /// destination.
    pub claim: Option<Arc<ClaimedAddress>>,
    /// Announcement, if the stream is one: its claims go to the receivers of reports.
    pub announcement: Option<AnnouncementPlan>,
}

/// Received stream's plan.
pub struct StreamPlan {
    /// Source as given, for the report.
    pub address: String,
    /// Stream format and jitter buffer settings.
    pub receiver: JitterBufferConfig,
    /// Receive policy, which decides the latency.
    pub policy: ReceivePolicyConfig,
    /// Packet link.
    pub link: Box<dyn Link>,
    /// Report channel.
    pub control: Option<Box<dyn Control>>,
    /// Gain in the mix.
    pub gain: Gain,
    /// Maximum simultaneous senders, each a stream; `None` for one sender.
    pub senders: Option<NonZeroUsize>,
    /// Whether the link also receives the followed clock.
    pub carries_clock: bool,
    /// Whether this is an announcement port: plays only streams that claim this zone.
    pub announces: bool,
    /// Presentation time at which this stream replaces another stream, with an equal-power
    /// cross-fade. `None`: as soon as this stream has sound.
    pub joins: Option<LocalTime>,
    /// SRTP profile, for the report.
    pub sealed: Option<&'static str>,
}

impl StreamPlan {
    /// Uses the latency of `receiver` and unity gain.
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
            announces: false,
            joins: None,
            sealed: None,
        }
    }

    /// Creates a jitter buffer for every latency of the policy, without a repairer.
    pub(crate) fn receiver(&self) -> JitterBuffer {
        receiver_with_room(self.receiver.clone(), self.policy.latency)
    }
}

/// Returns the number of `ptime` packets within `held`, at least three beats of the shortest
/// packets, which can arrive together.
pub(crate) fn packets_within(held: Span, ptime: Span) -> usize {
    const MIN: Span = Span::from_millis(60);
    let within = |span: Span, ptime: Span| span.as_nanos() / ptime.as_nanos().max(1);
    within(held, ptime).max(within(MIN, PTIME_RANGE.0)).unsigned_abs() as usize
}

/// Plan of a followed clock, received as a CRF stream.
pub struct ClockPlan {
    /// As given, for the report.
    pub address: String,
    /// Packet link.
    pub link: Box<dyn Link>,
    /// Packet encapsulation.
    pub encapsulation: Encapsulation,
    /// The stream to follow; `None` for the first received stream.
    pub stream: Option<StreamId>,
}

/// Receiver's plan.
pub struct RecvPlan {
    /// Streams by priority, equal in rate and channels.
    pub streams: Vec<StreamPlan>,
    /// Playback clock, if not the streams' own.
    pub clock: Option<ClockPlan>,
    /// Selection of the played streams.
    pub select: ProgramRule,
    /// Zone of a building, if any. Without a zone, announcement ports are silent.
    pub zone: Option<ZonePlan>,
    /// Gain of the mix.
    pub gain: Gain,
    /// Stream channels to device channels.
    pub map: ChannelMap,
    /// Device settings.
    pub device: Settings,
    /// Ends the run when all frames are played and all senders have left or been silent for three
    /// seconds.
    pub exit_on_bye: bool,
    /// Measured packets.
    pub probes: Probes,
    /// Ledger of measured packets.
    pub ledger: Option<PathBuf>,
    /// Label file: cause and position of each glitch in a `file:` recording.
    pub labels: Option<PathBuf>,
}

/// Random number for identities that must not collide (RFC 3550 §8.1).
pub(crate) fn random() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Creates a random identity.
pub fn random_identity() -> Result<Identity, RunError> {
    let random = random().map_err(|error| RunError::System("reading /dev/urandom", error))?;
    let word = |at: usize| {
        u32::from_ne_bytes([random[at], random[at + 1], random[at + 2], random[at + 3]])
    };
    Ok(Identity { stream: StreamId::from(word(0)), sequence: word(4) as u16, timestamp: word(8) })
}
