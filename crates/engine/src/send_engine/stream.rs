//! A sent stream on the ordinary thread.

mod report;

use rtrb::{Consumer, Producer};
use tautline_io::clock::{now, tai};
use tautline_io::link::destinations::Outbound;
use tautline_io::link::{LinkCounters, TransmitStamp, is_of_an_interface};
use tautline_proto::clock::ClockMapping;
use tautline_proto::device::{CaptureFaults, ReplacedTime};
use tautline_proto::endpoint::Host;
use tautline_proto::faults::UnjudgedFaults;
use tautline_proto::ledger::{Departure, Stage};
use tautline_proto::packetizer::Identity;
use tautline_proto::policy::Context;
use tautline_proto::rtcp_session::Event;
use tautline_proto::send_policy::{ReceiverCounts, SendCommand, SendNote, SendPolicy};
use tautline_proto::time::{MediaTime, Span};
use tautline_report::distribution::Distribution;
use tautline_report::ledger::SentEntry;

use crate::control::{Destined, Fader};
use crate::conversation::Conversation;
use crate::link_news::LinkNews;
use crate::monitor::ledger_file::LedgerFile;
use crate::monitor::note::Note;
use crate::monitor::observed::Observed;
use crate::monitor::run::{KnownClock, PeerState, Progress, RunWatch};
use crate::monitor::xruns::XrunTimes;
use crate::plan::SentConfig;
use crate::plan::probes::Probes;
use crate::send_engine::announcement::SentAnnouncement;
use crate::send_engine::claim::FollowedClaim;
use crate::send_engine::transmitter::{TransmitterCommand, TxStatus};

/// Time within which a connected receiver reports. Our reports are at most half a second apart.
const ANSWER: Span = Span::from_secs(2);

const STAGES: [Stage; 4] = [Stage::Capture, Stage::Pack, Stage::Send, Stage::Launch];

fn spans(departure: &Departure) -> [Option<Span>; 4] {
    let Departure { capture, taken, packed, handed, .. } = *departure;
    [Some(taken - capture), Some(packed - taken), Some(handed - packed), departure.held()]
}

pub(crate) struct SentStream {
    pub(crate) config: SentConfig,
    pub(crate) policy: SendPolicy,
    pub(crate) identity: Identity,
    pub(crate) fader: Fader,
    pub(crate) destined: Option<Destined>,
    pub(crate) conversation: Conversation,
    pub(crate) commands: Producer<TransmitterCommand>,
    pub(crate) departures: Consumer<Departure>,
    pub(crate) news: LinkNews,
    pub(crate) dropped_by_queue: Vec<MediaTime>,
    pub(crate) departed: Option<MediaTime>,
    pub(crate) left: u64,
    pub(crate) stamps: Consumer<TransmitStamp>,
    pub(crate) status: Consumer<TxStatus>,
    pub(crate) last: TxStatus,
    /// Time with silence in place of the lost device's sound.
    pub(crate) replaced: ReplacedTime,
    pub(crate) xruns: XrunTimes,
    pub(crate) unjudged: UnjudgedFaults,
    pub(crate) stalled: u64,
    pub(crate) stages: [Distribution; 4],
    pub(crate) lateness: Distribution,
    pub(crate) transmit: Distribution,
    pub(crate) observed: Observed<Departure>,
    pub(crate) ledger: Option<LedgerFile<SentEntry>>,
    pub(crate) presented: Option<PresentationClock>,
    pub(crate) claim: Option<FollowedClaim>,
    pub(crate) announcement: Option<SentAnnouncement>,
    pub(crate) on_lost: Option<LostHook>,
}

/// Called on the ordinary thread with a lost receiver's host and the stream's address.
pub type LostHook = Box<dyn FnMut(&Host, &str) + Send>;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PresentationClock {
    clock: Option<(ClockMapping, bool)>,
    wall_offset: Span,
}

const WALL_STEP: Span = Span::from_micros(2);

impl SentStream {
    pub(crate) fn decide<T>(
        &mut self,
        decide: impl FnOnce(&mut SendPolicy, &mut Context<'_, SendCommand>) -> T,
    ) -> T {
        let Self { policy, conversation, commands, .. } = self;
        let mut context = Context {
            now: now(),
            session: Some(&mut conversation.session),
            command: &mut |command| commands.push(TransmitterCommand::Send(command)).is_ok(),
        };
        decide(policy, &mut context)
    }

    pub(crate) fn note(&mut self, watch: &mut RunWatch) {
        let (address, networks) = (&self.config.address, networks(&self.config.outbound));
        for note in &self.policy.notes() {
            watch.note(&Note::Sending { address, networks, note });
            if let (SendNote::ReceiverLost { host, .. }, Some(hook)) = (note, &mut self.on_lost) {
                hook(host, address);
            }
        }
    }

    pub(crate) fn note_refusals(&mut self, watch: &mut RunWatch) {
        let LinkCounters { sent, send_errors, last_error: errno, also, .. } = self.last.link;
        if let Some(note) =
            report::dropped(&self.config.address, &self.last.link, self.ledger.is_some())
        {
            watch.conclude(&note);
        }
        if let Some((one, other)) = networks(&self.config.outbound) {
            let by_one = (sent.saturating_sub(also.0), send_errors.saturating_sub(also.1));
            for (network, (sent, refused)) in [(one, by_one), (other, also)] {
                if refused > 0 {
                    let (network, of) = (Some(network), sent + refused);
                    watch.note(&Note::SystemRefused { network, refused, of, errno });
                }
            }
        }
        let uncounted = self.news.take_error(&self.config.address).filter(|_| send_errors == 0);
        uncounted.iter().for_each(|error| watch.note(error));
        let requested = self.conversation.control.is_some() && sent > 0;
        if requested && self.policy.believed().next().is_none() && send_errors <= sent {
            let (address, stamps) = (&self.config.address, self.policy.stamps());
            watch.note(&Note::NoAnswer { address, stamps });
        }
        if send_errors > sent || (send_errors > 0 && is_of_an_interface(errno)) {
            let (refused, of) = (send_errors, send_errors + sent);
            watch.note(&Note::SystemRefused { network: None, refused, of, errno });
        }
    }

    pub(crate) fn turn(&mut self, watch: &mut RunWatch) {
        watch.look();
        let policy = &mut self.policy;
        self.conversation.handle(None, |from, event: Event| policy.handle(from, &event, now()));
        let Self { news, dropped_by_queue, .. } = self;
        let waited = dropped_by_queue.len();
        news.handle(
            &self.config.address,
            |note| watch.note(note),
            |packet| dropped_by_queue.push(packet),
        );
        while let Ok(departure) = self.departures.pop() {
            self.enter(&departure);
        }
        while let Ok(stamp) = self.stamps.pop() {
            if self.config.probes != Probes::Off {
                self.transmit.record(stamp.left - stamp.handed);
            }
            if let Some(line) = line_of(&mut self.ledger, stamp.media) {
                line.left = Some(stamp.left);
            }
        }
        // Reported before its departure: gets its line later.
        let Self { dropped_by_queue, ledger, .. } = self;
        let mut reported = 0..;
        dropped_by_queue.retain(|packet| {
            let line = line_of(ledger, *packet).map(|line| line.dropped_by_queue = true);
            reported.next() >= Some(waited) && line.is_none()
        });
        while let Ok(status) = self.status.pop() {
            self.xruns.take(&status.faults);
            let stalled = |from, to| watch.stall_monitor.overlaps(from, to);
            self.stalled += u64::from(self.unjudged.take(&status.faults, stalled).xruns);
            self.last = status;
        }
        self.claim_zones();
        self.follow_claim(watch);
        if let Some(flaw) = self.ledger.as_ref().and_then(LedgerFile::flaw) {
            watch.note(&Note::Unwritten(&flaw));
        }
        let TxStatus { state, clock, xruns, .. } = self.last;
        self.policy.set_capture(CaptureFaults { xruns, replaced: self.replaced.get() });
        self.decide(|policy, context| {
            policy.follow(state, clock, context);
            policy.poll(context);
        });
        self.go_to_destinations();
        self.follow_tai();
        self.note(watch);
        self.conversation.speak();
    }

    fn follow_tai(&mut self) {
        let Some(presented) = &mut self.presented else { return };
        let tai = tai::tai();
        let clock = Some((tai.mapping, tai.uncertain));
        let command = SendCommand::Presentation(tai.mapping, tai.uncertain);
        if presented.clock != clock && self.commands.push(TransmitterCommand::Send(command)).is_ok()
        {
            presented.clock = clock;
        }
        let offset = tai.offset(now());
        if (offset - presented.wall_offset).abs() > WALL_STEP {
            presented.wall_offset = offset;
            self.conversation.session.set_wall_offset(offset);
        }
    }

    pub(crate) fn finish(&mut self, watch: &mut RunWatch) {
        watch.look();
        let stalled = |from, to| watch.stall_monitor.overlaps(from, to);
        self.stalled += u64::from(self.unjudged.finish(stalled).xruns);
    }

    fn enter(&mut self, departure: &Departure) {
        if self.departed.is_some_and(|newest| departure.media <= newest) {
            return;
        }
        self.departed = Some(departure.media);
        let before = self.left;
        self.left += 1;
        if !self.config.probes.take(before) {
            return;
        }
        let Departure { media, due, handed, .. } = *departure;
        // A deliberate wait is not lateness.
        let due = due + self.config.pacing.as_ref().map_or(Span::ZERO, |paced| paced.spacing.lead);
        spans(departure)
            .into_iter()
            .zip(&mut self.stages)
            .for_each(|(span, stage)| span.into_iter().for_each(|span| stage.record(span)));
        self.lateness.record(handed - due);
        self.observed.take(handed, handed, due - handed, departure);
        if let Some(ledger) = &mut self.ledger {
            let start = self.identity.timestamp;
            let media = tautline_proto::wrap::rtp_timestamp(media.as_frames());
            let rtp_timestamp = start.wrapping_add(media);
            ledger.push(SentEntry {
                rtp_timestamp,
                departure: *departure,
                left: None,
                dropped_by_queue: false,
            });
        }
    }

    fn effective(&self) -> Option<(Span, Span)> {
        let here = self.policy.believed().filter(|receiver| receiver.is_here());
        here.filter_map(|receiver| receiver.effective)
            .max_by_key(|effective| effective.effective)
            .map(|effective| (effective.effective, effective.uncertainty))
    }

    pub(crate) fn progress<'a>(&self, watch: &'a RunWatch) -> Progress<'a> {
        let elapsed = now() - watch.began;
        Progress {
            elapsed,
            packets: self.sent(),
            missed: self.last.link.send_errors + self.last.link.dropped,
            xruns: self.last.xruns,
            latency: self.effective(),
            known: self
                .policy
                .believed()
                .find_map(|known| known.clock.as_ref())
                .map(KnownClock::of),
            auto: self.policy.auto(),
            link_offset: self.policy.link_offset(),
            peer: self.peer(elapsed),
            notes: &watch.notes,
            refused: Some(&watch.refused),
            ..Progress::default()
        }
    }

    fn peer(&self, elapsed: Span) -> PeerState {
        match self.policy.receiver_counts() {
            counts if counts.lost > 0 => PeerState::Lost(counts),
            ReceiverCounts { here: 1.., .. } => PeerState::Here,
            _ if elapsed < ANSWER || self.conversation.control.is_none() => PeerState::Unknown,
            _ => PeerState::Nobody,
        }
    }
}

fn line_of(
    ledger: &mut Option<LedgerFile<SentEntry>>,
    packet: MediaTime,
) -> Option<&mut SentEntry> {
    ledger.as_mut()?.newest(|line| line.departure.media == packet)
}

fn networks(outbound: &Outbound) -> Option<(&str, &str)> {
    outbound.networks.as_ref().map(|(one, other)| (one.as_str(), other.as_str()))
}
