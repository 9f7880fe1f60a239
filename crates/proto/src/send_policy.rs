//! What is decided about a stream that is sent: what is promised of it, what receivers may ask for and
//! get, how its packets change while it runs, and what people are to know of it.
//!
//! For an ordinary thread: [`SendPolicy::hear`] what receivers said, [`SendPolicy::follow`] what the
//! device's thread saw, and [`SendPolicy::poll`] once a beat. It tells the device's thread by
//! [`SendCommand`]s.

mod adaptation;
mod asks;
mod change;
mod duplicates;
mod expected_loss;
mod known;
mod note;
mod path_size;
mod presence;
mod redundancy;
mod regulator;
#[cfg(test)]
mod tests;

use crate::clock::{ClockId, ClockMapping};
use crate::congestion::CodingLimits;
use crate::device::Settings;
use crate::endpoint::Host;
use crate::latency::{LatencyRule, kept_latency, least_latency};
use crate::packetizer::{Identity, Packetizer, PacketizerConfig, PacketizerState};
use crate::policy::{Context, NoteQueue};
use crate::redundancy::{Layout, Redundancy};
use crate::rtcp_session::{Event, Sending};
use crate::stream::{Coding, MOST_DATAGRAM_BYTES, StreamFormat};
use crate::time::{Frames, LocalTime, Span};
use crate::wire::WireForm;

use adaptation::Adaptation;
pub use asks::{Ask, Limits, TrustLevel};
pub use change::SendRefused;
use expected_loss::ExpectedLoss;
pub use known::KnownReceiver;
use known::Receivers;
pub use note::{NoRepair, SendNote};
pub use path_size::BASE_BYTES;
use path_size::PathSize;
pub use presence::{Presence, ReceiverCounts};
pub use regulator::Regulator;

/// Reports exchanged before the first packet: receivers that are there already then know our clock and
/// have opened their devices when it comes.
pub const PRELUDE: Span = Span::from_millis(100);

/// More latency by this much is told at once, less with the next report.
const NEWS: Span = Span::from_micros(200);

/// Strangers that are named; a flood of them is one matter.
const STRANGERS: usize = 4;

/// What the ordinary thread tells a sender.
#[derive(Debug, Clone, Copy)]
pub enum SendCommand {
    /// Another packet length, coding and payload type.
    Format(Frames, Coding, u8),
    /// Nothing is sent for now, or again.
    Pause(bool),
    /// Other things that packets carry.
    Redundancy(Layout),
    /// So many per cent of packets are lost: what coders are to make good.
    ExpectedLoss(u8),
    /// The clock that packets are presented by, and whether it is not to be relied upon.
    Presentation(ClockMapping, bool),
}

impl Packetizer {
    /// Does as it is told. Whoever tells it made sure that such packets fit.
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

/// What is settled before a stream is sent.
#[derive(Debug, Clone)]
pub struct SendPolicyConfig {
    /// How its packets look.
    pub form: WireForm,
    /// What the stream is.
    pub format: StreamFormat,
    /// Who it is.
    pub identity: Identity,
    /// The latency it promises to begin with.
    pub link_offset: Span,
    /// Who says what that is from then on.
    pub latency: LatencyRule,
    /// What is promised where nobody says otherwise.
    pub usual: Span,
    /// How the device runs.
    pub device: Settings,
    /// Whether packets carry the sender's instants.
    pub stamps: bool,
    /// Whether the packets of a period leave one after the other.
    pub spaced: bool,
    /// How long packets are held once they are due.
    pub held: Span,
    /// What packets carry of earlier ones.
    pub redundancy: Regulator,
    /// The time in which packets may be repaired, as far as the latency leaves it; `None` is all that
    /// it leaves.
    pub repair_budget: Option<Span>,
    /// How far receivers can move latency and redundancy.
    pub limits: Limits,
    /// Where packets go: hosts and groups.
    pub destinations: Vec<Host>,
    /// Whether everything goes by two networks.
    pub by_two_networks: bool,
    /// The longest datagram that may be sent, in bytes.
    pub most_bytes: usize,
    /// What packets may be compressed by.
    pub compressed: Vec<Coding>,
    /// Among what the stream follows what its path carries from the first packet on.
    pub adapts: Option<CodingLimits>,
    /// Whether datagrams longer than [`BASE_BYTES`] are sent only once a probe of that length was answered: until then packets
    /// are shorter than the format says.
    pub probes_path: bool,
}

impl SendPolicyConfig {
    /// A stream of RTP as usual, that promises this.
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
            repair_budget: None,
            limits: Limits::default(),
            destinations: Vec::new(),
            by_two_networks: false,
            most_bytes: MOST_DATAGRAM_BYTES,
            compressed: Vec::new(),
            adapts: None,
            probes_path: false,
        }
    }

    /// What its packets are made by, on a host whose wall clock is so far from its local one.
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

/// The decisions about one stream that is sent.
#[derive(Debug)]
pub struct SendPolicy {
    config: SendPolicyConfig,
    packing_age: Span,
    receivers: Receivers,
    state: PacketizerState,
    card: Option<ClockId>,
    coming: Coming,
    /// Whether it was said that losses ask for more than receivers may ask for.
    limited: bool,
    expected_loss: ExpectedLoss,
    adaptation: Option<Adaptation>,
    path_size: Option<PathSize>,
    /// In one packet as it is sent: fewer than the format has where longer ones may not pass.
    packet: Frames,
    /// Bits per second of the last rate control.
    left_off: Option<f64>,
    /// Whether the stream is still to go on after a pause.
    unpause: bool,
    notes: NoteQueue<SendNote>,
}

/// Changes that receivers are told of before they are made, and when that is.
#[derive(Debug, Default)]
struct Coming {
    format: Option<(LocalTime, StreamFormat)>,
    destinations: Option<LocalTime>,
    /// Until when reports follow each other fast, for receivers that are new.
    greets_until: Option<LocalTime>,
}

type SendContext<'a> = Context<'a, SendCommand>;

impl SendPolicy {
    /// Nothing was sent yet.
    pub fn new(config: SendPolicyConfig) -> Self {
        let mut policy = Self {
            packing_age: config.format.packing_age(config.device.period) + config.held,
            receivers: Receivers::new(),
            state: PacketizerState::default(),
            card: None,
            coming: Coming::default(),
            limited: false,
            expected_loss: ExpectedLoss::default(),
            adaptation: None,
            path_size: config.probes_path.then(PathSize::default),
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

    /// Takes what `host` said in the conversation.
    pub fn hear(&mut self, host: Host, event: &Event, now: LocalTime) {
        let worth = TrustLevel::of(host, self.config.destinations.iter().copied());
        if let Some(back) = self.receivers.hear(host, worth, event, now) {
            self.notes.note(back);
        }
        match event {
            Event::Reception(_, block) if worth > TrustLevel::Stranger => {
                self.path_reported(block.highest_sequence, now);
                if self.trusts_loss(now) {
                    self.expected_loss.told(block.fraction_lost);
                }
            }
            Event::Feedback(_, feedback) if worth > TrustLevel::Stranger => {
                self.take_feedback(*feedback, now);
            }
            Event::Passed(_, bytes) if worth > TrustLevel::Stranger => self.path_passes(*bytes),
            _ => {}
        }
    }

    /// Takes how far the stream is by the device's thread, and what sets the pace of its card.
    pub fn follow(
        &mut self,
        state: PacketizerState,
        card: Option<ClockId>,
        context: &mut SendContext<'_>,
    ) {
        self.state = state;
        self.follow_sent(state, context.now);
        if core::mem::replace(&mut self.card, card) != card {
            // Whoever goes by the same clock, or did, is to know at once.
            context.hasten();
        }
    }

    /// Decides what has become due. The reports then say how the stream stands.
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
            wants_feedback: self.is_adapted(),
            timestamp: self.config.identity.timestamp,
            state: self.state,
        }
    }

    /// Promises what the receiver asks for that needs the most: so all stay in step.
    fn promise_what_is_needed(&mut self, context: &mut SendContext<'_>) {
        if !self.is_as_needed() {
            return;
        }
        let now = context.now;
        let most = self.config.latency.most();
        let limit = most.unwrap_or_else(|| self.config.limits.latency(self.goes_to_group()));
        let Some(needed) = asks::latency(self.receivers.asks(), limit, now) else { return };
        let beyond = |known: &&KnownReceiver| known.ask.needs(now).is_some_and(|need| need > limit);
        if most.is_none()
            && let Some(known) = self.receivers.all().find(beyond)
        {
            self.notes.note(SendNote::AsksBeyond { host: known.host, limit });
        }
        let needed = needed.max(self.packing_age);
        if needed - self.config.link_offset > NEWS {
            // Packets are late there meanwhile.
            context.hasten();
        }
        self.config.link_offset = needed;
    }

    /// Says so if a receiver like this end could not keep the latency that is promised. What follows the receivers is
    /// what they need, as soon as they say so.
    fn note_latency(&mut self) {
        if self.is_as_needed() {
            return;
        }
        let (promised, packing_age) = (self.config.link_offset, self.packing_age);
        let kept = kept_latency(promised, self.likewise());
        if kept > promised {
            self.notes.note(SendNote::TooShort { packing_age, promised, kept });
        }
    }

    /// Says so if what goes by two networks comes by one.
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

    /// Says who reports on packets that do not go there, where what is said would count.
    fn note_strangers(&mut self) {
        if !self.is_as_needed() && self.config.redundancy.asked() != Redundancy::Auto {
            return;
        }
        let stranger = |known: &&KnownReceiver| !known.is_believed();
        for known in self.receivers.all().filter(stranger).take(STRANGERS) {
            self.notes.note(SendNote::Stranger(known.host));
        }
    }

    /// The least latency of a receiver whose device runs as ours does.
    fn likewise(&self) -> Span {
        least_latency(self.packing_age, &self.config.device)
    }

    fn goes_to_group(&self) -> bool {
        self.config.destinations.iter().any(Host::is_group)
    }

    /// Whether what is promised is what the receiver asks for that needs the most.
    pub fn is_as_needed(&self) -> bool {
        self.config.latency.is_auto()
    }

    /// The latency that is promised.
    pub const fn link_offset(&self) -> Span {
        self.config.link_offset
    }

    /// The latency that is promised, where it follows what receivers ask for.
    pub fn auto(&self) -> Option<Span> {
        self.is_as_needed().then_some(self.config.link_offset)
    }

    /// What the stream is now.
    pub const fn format(&self) -> StreamFormat {
        StreamFormat { packet: self.packet, ..self.config.format }
    }

    /// Bytes of its datagrams, but for what they carry of others.
    pub fn datagram_bytes(&self) -> usize {
        self.config.form.pack().head_bytes(self.stamps(), 0) + self.format().payload_bytes()
    }

    /// Whether packets carry the sender's instants.
    pub const fn stamps(&self) -> bool {
        self.config.stamps
    }

    /// Every receiver that was heard.
    pub fn receivers(&self) -> impl Iterator<Item = &KnownReceiver> {
        self.receivers.all()
    }

    /// Those whose word counts.
    pub fn believed(&self) -> impl Iterator<Item = &KnownReceiver> {
        self.receivers.believed()
    }

    /// How many receivers report, and how many do not any more, of those whose word counts.
    pub fn receiver_counts(&self) -> ReceiverCounts {
        let count = |presence| self.believed().filter(|known| known.presence() == presence).count();
        ReceiverCounts { here: count(Presence::Here), lost: count(Presence::Lost) }
    }

    /// How often a receiver stopped reporting without a goodbye.
    pub const fn receivers_lost(&self) -> u64 {
        self.receivers.lost()
    }

    /// What people are to know, since it was last asked for.
    pub fn notes(&mut self) -> Vec<SendNote> {
        self.notes.take()
    }
}
