//! Policy of a sent stream: latency, receivers' requests, changes, and notes.
//!
//! Run it on an ordinary thread. Pass reports to [`SendPolicy::handle`] and device state to
//! [`SendPolicy::follow`]. Call [`SendPolicy::poll`] periodically.

mod adaptation;
mod change;
mod duplicates;
mod expected_loss;
mod known;
mod note;
mod path_size;
mod presence;
mod redundancy;
mod regulator;
mod requests;
#[cfg(test)]
mod tests;

use crate::clock::{ClockId, ClockMapping};
use crate::congestion::CodingLimits;
use crate::device::{CaptureFaults, Settings};
use crate::endpoint::Host;
use crate::latency::{LatencyRule, LatencySum};
use crate::packetizer::{Identity, Packetizer, PacketizerConfig, PacketizerState};
use crate::policy::{Context, NoteQueue};
use crate::redundancy::{LastingLoss, Layout, Redundancy};
use crate::rtcp_session::{Event, Sending};
use crate::stream::{Coding, MAX_DATAGRAM_BYTES, StreamFormat};
use crate::time::{Frames, LocalTime, Span};
use crate::wire::WireForm;

use adaptation::Adaptation;
pub use change::SendRefused;
use expected_loss::ExpectedLoss;
pub use known::KnownReceiver;
use known::Receivers;
pub use note::{NoRepair, SendNote};
pub use path_size::BASE_BYTES;
use path_size::PathSize;
pub(crate) use path_size::TAG;
pub use presence::{Presence, ReceiverCounts};
pub use redundancy::DEFAULT_BUDGET;
pub use regulator::Regulator;
pub use requests::{Limits, Request, TrustLevel};

/// Time of RTCP before the first packet. Receivers learn our clock and open their devices.
pub const PRELUDE: Span = Span::from_millis(100);

/// Minimum increase to report immediately. Smaller increases wait for the next report.
const NEWS: Span = Span::from_micros(200);

const STRANGERS: usize = 4;

/// Command to the packetizer.
#[derive(Debug, Clone, Copy)]
pub enum SendCommand {
    /// New packet length, coding and payload type.
    Format(Frames, Coding, u8),
    /// Pause or resume sending.
    Pause(bool),
    /// New redundancy layout.
    Redundancy(Layout),
    /// Expected packet loss in per cent, for codecs.
    ExpectedLoss(u8),
    /// Clock for presentation times, and whether it is uncertain.
    Presentation(ClockMapping, bool),
}

impl Packetizer {
    /// Applies a command; the caller ensures that packets fit.
    pub fn apply(&mut self, command: SendCommand) {
        match command {
            SendCommand::Format(packet, coding, payload_type) => {
                self.set_format(packet, coding, payload_type);
            }
            SendCommand::Pause(paused) => self.pause(paused),
            SendCommand::Redundancy(layout) => self.set_redundancy(layout),
            SendCommand::ExpectedLoss(percent) => self.expect_loss(percent),
            SendCommand::Presentation(clock, uncertain) => {
                self.set_presentation_clock(clock, uncertain);
            }
        }
    }
}

/// Configuration of a sent stream.
#[derive(Debug, Clone)]
pub struct SendPolicyConfig {
    /// Wire form.
    pub form: WireForm,
    /// Stream format.
    pub format: StreamFormat,
    /// Identity of the stream.
    pub identity: Identity,
    /// Initially promised latency.
    pub link_offset: Span,
    /// Rule for the latency after the start.
    pub latency: LatencyRule,
    /// Default latency.
    pub usual: Span,
    /// Device settings.
    pub device: Settings,
    /// Whether packets carry the sender's timestamps.
    pub stamps: bool,
    /// Whether packets of a period are spaced.
    pub spaced: bool,
    /// From a packet's due time to its departure.
    pub held: Span,
    /// Redundancy.
    pub redundancy: Regulator,
    /// Send redundancy only after an audible loss ([`LastingLoss::AUDIBLE`]).
    pub repairs_after_loss: bool,
    /// Maximum repair time; `None` for two thirds of what the latency leaves.
    pub repair_budget: Option<Span>,
    /// Limits of receivers' requests.
    pub limits: Limits,
    /// Destinations: hosts and groups.
    pub destinations: Vec<Host>,
    /// Whether packets are sent on two networks.
    pub by_two_networks: bool,
    /// Maximum datagram length in bytes.
    pub max_bytes: usize,
    /// Available compressed codings.
    pub compressed: Vec<Coding>,
    /// Limits of adaptation.
    pub adapts: Option<CodingLimits>,
    /// Whether datagrams above [`BASE_BYTES`] need an answered probe first.
    pub probes_path: bool,
}

impl SendPolicyConfig {
    /// Creates a default RTP configuration.
    pub fn new(
        format: StreamFormat,
        identity: Identity,
        link_offset: Span,
        device: Settings,
    ) -> Self {
        Self {
            form: WireForm::Rtp,
            format,
            identity,
            link_offset,
            latency: LatencyRule::Usual,
            usual: link_offset,
            device,
            stamps: true,
            spaced: false,
            held: Span::ZERO,
            redundancy: Regulator::OFF,
            repairs_after_loss: false,
            repair_budget: None,
            limits: Limits::default(),
            destinations: Vec::new(),
            by_two_networks: false,
            max_bytes: MAX_DATAGRAM_BYTES,
            compressed: Vec::new(),
            adapts: None,
            probes_path: false,
        }
    }

    /// Packetizer configuration. `wall_offset` is wall clock minus local clock.
    pub fn sender(&self, wall_offset: Span) -> PacketizerConfig {
        PacketizerConfig {
            wire: self.form.pack(),
            format: self.begins(),
            identity: self.identity,
            period: self.device.period,
            stamps: self.stamps,
            wall_offset,
            redundancy: self.redundancy.layout(),
            presented_after: self.link_offset,
        }
    }
}

/// Policy of one sent stream.
#[derive(Debug)]
pub struct SendPolicy {
    config: SendPolicyConfig,
    packing_age: Span,
    receivers: Receivers,
    state: PacketizerState,
    card: Option<ClockId>,
    capture: CaptureFaults,
    coming: Coming,
    limited: bool,
    expected_loss: ExpectedLoss,
    adaptation: Option<Adaptation>,
    is_led: bool,
    /// Limits from the next heavy loss on.
    after_loss: Option<CodingLimits>,
    heavy_loss: LastingLoss,
    audible_loss: LastingLoss,
    unrepaired_loss: LastingLoss,
    path_size: Option<PathSize>,
    /// One-way time to the farthest receiver.
    path: Span,
    /// Frames per packet, fewer than in the format if longer packets may not pass.
    packet: Frames,
    /// Rate of the previous rate control, in bits per second.
    left_off: Option<f64>,
    unpause: bool,
    notes: NoteQueue<SendNote>,
}

#[derive(Debug, Default)]
struct Coming {
    format: Option<(LocalTime, StreamFormat)>,
    destinations: Option<LocalTime>,
    greets_until: Option<LocalTime>,
}

type SendContext<'a> = Context<'a, SendCommand>;

impl SendPolicy {
    /// Creates the policy before the first packet.
    pub fn new(config: SendPolicyConfig) -> Self {
        let mut policy = Self {
            packing_age: config.format.packing_age(config.device.period) + config.held,
            receivers: Receivers::new(),
            state: PacketizerState::default(),
            card: None,
            capture: CaptureFaults::default(),
            coming: Coming::default(),
            limited: false,
            expected_loss: ExpectedLoss::default(),
            adaptation: None,
            is_led: false,
            after_loss: None,
            heavy_loss: LastingLoss::HEAVY,
            audible_loss: LastingLoss::AUDIBLE,
            unrepaired_loss: LastingLoss::UNREPAIRED,
            path_size: config.probes_path.then(PathSize::default),
            path: Span::ZERO,
            packet: config.begins().packet,
            left_off: None,
            unpause: false,
            notes: NoteQueue::default(),
            config,
        };
        policy.note_latency();
        policy.note_repair();
        policy
    }

    /// Handles an RTCP event.
    pub fn handle(&mut self, host: Host, event: &Event, now: LocalTime) {
        let worth = TrustLevel::of(host, self.config.destinations.iter().copied());
        if let Some(back) = self.receivers.handle(host, worth, event, now) {
            self.notes.note(back);
        }
        match event {
            Event::Reception(_, block) if worth > TrustLevel::Stranger => {
                self.path_reported(block.highest_sequence, now);
                if self.trusts_loss(now) {
                    self.expected_loss.reported(block.fraction_lost);
                }
            }
            Event::Losses(_, report) if worth > TrustLevel::Stranger => {
                self.take_losses(report, now);
            }
            Event::Feedback(_, feedback) if worth > TrustLevel::Stranger => {
                self.take_feedback(*feedback, now);
            }
            Event::Passed(_, bytes) if worth > TrustLevel::Stranger => self.path_passes(*bytes),
            _ => {}
        }
    }

    /// Updates device state and card clock.
    pub fn follow(
        &mut self,
        state: PacketizerState,
        card: Option<ClockId>,
        context: &mut SendContext<'_>,
    ) {
        self.state = state;
        self.follow_sent(state, context.now);
        if core::mem::replace(&mut self.card, card) != card {
            // Receivers with the same clock need the name immediately.
            context.hasten();
        }
    }

    /// Updates the faults of the device, for receivers.
    pub const fn set_capture(&mut self, faults: CaptureFaults) {
        self.capture = faults;
    }

    /// Makes due decisions, and updates the RTCP session.
    pub fn poll(&mut self, context: &mut SendContext<'_>) {
        self.note_networks();
        self.note_lost(context.now);
        self.take_up(context);
        if let Some(limits) = self.config.adapts.take() {
            self.adapt_within(Some(limits), context);
        }
        self.adapt(context);
        self.probe_path(context);
        self.regulate(context);
        if let Some(percent) = self.expected_loss.changed()
            && (context.command)(SendCommand::ExpectedLoss(percent))
        {
            self.expected_loss.taken(percent);
        }
        self.promise_what_is_needed(context);
        self.note_strangers();
        if let Some(session) = &mut context.session {
            session.set_sending(self.sending());
        }
    }

    fn sending(&self) -> Sending {
        Sending {
            format: self.format(),
            link_offset: self.config.link_offset,
            packing_age: self.packing_age,
            card: self.card,
            capture: self.capture,
            wants_feedback: self.is_adapted(),
            timestamp: self.config.identity.timestamp,
            state: self.state,
        }
    }

    /// The maximum keeps all receivers in sync.
    fn promise_what_is_needed(&mut self, context: &mut SendContext<'_>) {
        if !self.is_as_needed() {
            return;
        }
        let now = context.now;
        let maximum = self.config.latency.maximum();
        let limit = maximum.unwrap_or_else(|| self.config.limits.latency(self.goes_to_group()));
        let Some(needed) = requests::latency(self.receivers.requests(), limit, now) else { return };
        let beyond =
            |known: &&KnownReceiver| known.request.needs(now).is_some_and(|need| need > limit);
        if maximum.is_none()
            && let Some(known) = self.receivers.all().find(beyond)
        {
            self.notes.note(SendNote::AsksBeyond { host: known.host, limit });
        }
        let needed = needed.max(self.packing_age);
        if needed - self.config.link_offset > NEWS {
            // Packets are late until the next report.
            context.hasten();
        }
        self.config.link_offset = needed;
    }

    /// An automatic latency follows the receivers, so it needs no note.
    fn note_latency(&mut self) {
        if self.is_as_needed() {
            return;
        }
        let (promised, needs) = (self.config.link_offset, self.likewise());
        if needs.is_beyond(promised) {
            self.notes.note(SendNote::TooShort { promised, needs });
        }
    }

    fn note_networks(&mut self) {
        if !self.config.by_two_networks {
            return;
        }
        for known in self.receivers.believed().filter(|known| known.duplicates.comes_once()) {
            self.notes.note(SendNote::ComesOnce(known.ssrc));
        }
    }

    fn note_lost(&mut self, now: LocalTime) {
        let Self { receivers, notes, .. } = self;
        receivers.find_lost(now, |known| {
            notes.note(SendNote::ReceiverLost {
                ssrc: known.ssrc,
                host: known.host,
                silence: known.silence(now),
                times_lost: known.times_lost(),
            });
        });
    }

    /// Strangers matter only if their requests would have an effect.
    fn note_strangers(&mut self) {
        if !self.is_as_needed() && self.config.redundancy.requested() != Redundancy::Auto {
            return;
        }
        let stranger = |known: &&KnownReceiver| !known.is_believed();
        for known in self.receivers.all().filter(stranger).take(STRANGERS) {
            self.notes.note(SendNote::Stranger(known.host));
        }
    }

    /// Minimum latency for a device like ours.
    fn likewise(&self) -> LatencySum {
        LatencySum::of(self.packing_age, &self.config.device)
    }

    fn goes_to_group(&self) -> bool {
        self.config.destinations.iter().any(Host::is_group)
    }

    /// Whether the latency follows the receivers.
    pub fn is_as_needed(&self) -> bool {
        self.config.latency.is_auto()
    }

    /// Promised latency.
    pub const fn link_offset(&self) -> Span {
        self.config.link_offset
    }

    /// Latency that follows the receivers.
    pub fn auto(&self) -> Option<Span> {
        self.is_as_needed().then_some(self.config.link_offset)
    }

    /// Current format.
    pub const fn format(&self) -> StreamFormat {
        StreamFormat { packet: self.packet, ..self.config.format }
    }

    /// Bytes of a datagram without redundancy.
    pub fn datagram_bytes(&self) -> usize {
        self.config.form.pack().head_bytes(self.stamps(), 0) + self.format().payload_bytes()
    }

    /// Whether packets carry the sender's timestamps.
    pub const fn stamps(&self) -> bool {
        self.config.stamps
    }

    /// All receivers that reported.
    pub fn receivers(&self) -> impl Iterator<Item = &KnownReceiver> {
        self.receivers.all().filter(|known| known.receives())
    }

    /// Trusted receivers.
    pub fn believed(&self) -> impl Iterator<Item = &KnownReceiver> {
        self.receivers.believed()
    }

    /// Present and lost trusted receivers.
    pub fn receiver_counts(&self) -> ReceiverCounts {
        let count = |presence| self.believed().filter(|known| known.presence() == presence).count();
        ReceiverCounts { here: count(Presence::Here), lost: count(Presence::Lost) }
    }

    /// Times a receiver was lost.
    pub const fn receivers_lost(&self) -> u64 {
        self.receivers.lost()
    }

    /// Returns new notes.
    pub fn notes(&mut self) -> Vec<SendNote> {
        self.notes.take()
    }
}
