//! What the ordinary thread holds of a stream that is sent: its policy, its conversation, and what is
//! counted of departures.

mod observed;

use rtrb::{Consumer, Producer};
use tautline_dsp::gain::Gain;
use tautline_io::clock::{now, tai};
use tautline_io::link::destinations::Outbound;
use tautline_io::link::{LinkCounters, TransmitStamp};
use tautline_proto::clock::ClockMapping;
use tautline_proto::faults::UnjudgedFaults;
use tautline_proto::ledger::{Departure, Stage};
use tautline_proto::policy::Context;
use tautline_proto::redundancy::Redundancy;
use tautline_proto::sender::Identity;
use tautline_proto::sending::{KnownReceiver, SendCommand, SendPolicy};
use tautline_proto::session::Event;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, MediaTime, Span};
use tautline_proto::wire::rtcp::LossReport;

use crate::control::Destined;
use crate::conversation::Conversation;
use crate::fader::Fader;
use crate::link_news::LinkNews;
use crate::plan::claim::ClaimedAddress;
use crate::plan::pacing::Paced;
use crate::sending::transmitter::{TransmitterCommand, TxStatus};
use crate::watching::distribution::Distribution;
use crate::watching::ledger_file::{LedgerFile, SentEntry};
use crate::watching::note::Note;
use crate::watching::observed::Observed;
use crate::watching::probes::Probes;
use crate::watching::report::{
    self, Counters, GapReport, LatencyReport, PacingReport, RemoteReceiver, StageSummary,
    StreamReport,
};
use crate::watching::run::{KnownClock, PeerState, Progress, RunWatch};
use crate::watching::xruns::XrunTimes;

/// A receiver has reported by then: reports of ours follow each other within half a second.
const ANSWER: Span = Span::from_secs(2);

/// The stages that a sender knows.
const STAGES: [Stage; 4] = [Stage::Capture, Stage::Pack, Stage::Send, Stage::Launch];

/// How long they took, as far as there were any.
fn spans(departure: &Departure) -> [Option<Span>; 4] {
    let Departure { capture, taken, packed, handed, .. } = *departure;
    [Some(taken - capture), Some(packed - taken), Some(handed - packed), departure.held()]
}

/// What the ordinary thread holds.
pub(crate) struct SentStream {
    pub(crate) address: String,
    pub(crate) policy: SendPolicy,
    pub(crate) identity: Identity,
    pub(crate) fader: Fader,
    /// What the link was opened for, with the present destinations.
    pub(crate) outbound: Outbound,
    /// Where packets are to go soon.
    pub(crate) destined: Option<Destined>,
    pub(crate) conversation: Conversation,
    pub(crate) commands: Producer<TransmitterCommand>,
    pub(crate) departures: Consumer<Departure>,
    pub(crate) news: LinkNews,
    /// Packets that were not launched, whose lines of the ledger have not come yet.
    pub(crate) unlaunched: Vec<MediaTime>,
    /// The newest packet that left.
    pub(crate) departed: Option<MediaTime>,
    /// How many packets are measured, of those that left.
    pub(crate) probes: Probes,
    pub(crate) left: u64,
    pub(crate) stamps: Consumer<TransmitStamp>,
    pub(crate) status: Consumer<TxStatus>,
    pub(crate) last: TxStatus,
    pub(crate) xruns: XrunTimes,
    pub(crate) unjudged: UnjudgedFaults,
    /// Xruns that the host answers for, of those that are judged.
    pub(crate) stalled: u64,
    pub(crate) stages: [Distribution; 4],
    pub(crate) lateness: Distribution,
    pub(crate) transmit: Distribution,
    /// For those who look while it runs.
    pub(crate) observed: Observed<Departure>,
    pub(crate) ledger: Option<LedgerFile<SentEntry>>,
    /// What spaces its packets.
    pub(crate) pacing: Option<Paced>,
    /// By what its packets are presented, where they say when.
    pub(crate) presented: Option<PresentationClock>,
    /// The address that it goes to, if that was claimed.
    pub(crate) claim: Option<ClaimedAddress>,
}

/// What was told last of the clock that packets are presented by.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PresentationClock {
    /// To the device's thread.
    clock: Option<(ClockMapping, bool)>,
    /// To the peers: the wall clock less the local one.
    wall_offset: Span,
}

/// What peers are told of the wall clock is moved in steps of this, about what two readings of it differ by.
const WALL_STEP: Span = Span::from_micros(2);

impl SentStream {
    /// The two networks that everything goes by, if it does.
    fn networks(&self) -> Option<(&str, &str)> {
        networks(&self.outbound)
    }

    /// Lets the policy decide, with all that it has at hand.
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

    /// Tells what the policy has to tell.
    pub(crate) fn note(&mut self, watch: &mut RunWatch) {
        let (address, networks) = (&self.address, networks(&self.outbound));
        for note in &self.policy.notes() {
            watch.note(&Note::Sending { address, networks, note });
        }
    }

    /// Says what the kernel refused to send, and that nobody answered.
    pub(crate) fn note_refusals(&mut self, watch: &mut RunWatch) {
        let LinkCounters { sent, send_errors, last_error: errno, also, unlaunched, .. } =
            self.last.link;
        if unlaunched > 0 {
            let (address, of) = (&self.address, sent);
            watch.conclude(&Note::Unlaunched { address, dropped: unlaunched, of });
        }
        if let Some((one, other)) = self.networks() {
            let by_one = (sent.saturating_sub(also.0), send_errors.saturating_sub(also.1));
            for (network, (sent, refused)) in [(one, by_one), (other, also)] {
                if refused > 0 {
                    let (network, of) = (Some(network), sent + refused);
                    watch.note(&Note::SystemRefused { network, refused, of, errno });
                }
            }
        }
        let uncounted = self.news.take_error(&self.address).filter(|_| send_errors == 0);
        uncounted.iter().for_each(|error| watch.note(error));
        let asked = self.conversation.control.is_some() && sent > 0;
        if asked && self.policy.believed().next().is_none() && send_errors <= sent {
            let (address, stamps) = (&self.address, self.policy.stamps());
            watch.note(&Note::NobodyAnswers { address, stamps });
        }
        if send_errors > sent {
            let (refused, of) = (send_errors, send_errors + sent);
            watch.note(&Note::SystemRefused { network: None, refused, of, errno });
        }
    }

    pub(crate) fn turn(&mut self, watch: &mut RunWatch) {
        watch.look();
        let policy = &mut self.policy;
        self.conversation.hear(None, |from, event: Event| policy.hear(from, &event, now()));
        let Self { news, unlaunched, .. } = self;
        let waited = unlaunched.len();
        news.hear(&self.address, |note| watch.note(note), |packet| unlaunched.push(packet));
        while let Ok(departure) = self.departures.pop() {
            self.enter(&departure);
        }
        while let Ok(stamp) = self.stamps.pop() {
            if self.probes != Probes::Off {
                self.transmit.record(stamp.left - stamp.handed);
            }
            if let Some(line) = line_of(&mut self.ledger, stamp.media) {
                line.left = Some(stamp.left);
            }
        }
        // One that was told of before its departure waits for its line until the next turn.
        let Self { unlaunched, ledger, .. } = self;
        let mut told = 0..;
        unlaunched.retain(|packet| {
            let line = line_of(ledger, *packet).map(|line| line.unlaunched = true);
            told.next() >= Some(waited) && line.is_none()
        });
        while let Ok(status) = self.status.pop() {
            self.xruns.take(&status.faults);
            let stalled = |from, to| watch.witness.overlaps(from, to);
            self.stalled += u64::from(self.unjudged.take(&status.faults, stalled).starved);
            self.last = status;
        }
        if let Some(by) = self.claim.as_ref().and_then(ClaimedAddress::taken_by) {
            watch.note(&Note::AddressTaken { address: &self.address, by });
        }
        // The sound goes on without it.
        if let Some(flaw) = self.ledger.as_ref().and_then(LedgerFile::flaw) {
            watch.note(&Note::Unwritten(&flaw));
        }
        let TxStatus { state, clock, .. } = self.last;
        self.decide(|policy, context| {
            policy.follow(state, clock, context);
            policy.poll(context);
        });
        self.go_to_destinations();
        self.follow_tai();
        self.note(watch);
        self.conversation.speak();
    }

    /// Presents packets by TAI as it is followed, and tells the peers the same clock: to them it is what presentation
    /// times are read by.
    fn follow_tai(&mut self) {
        let Some(presented) = &mut self.presented else { return };
        let tai = tai::tai();
        let clock = Some((tai.mapping, tai.uncertain));
        let command = SendCommand::Presentation(tai.mapping, tai.uncertain);
        // Where the ring is full, at the next turn.
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

    /// The last word: what is not judged yet is.
    pub(crate) fn finish(&mut self, watch: &mut RunWatch) {
        watch.look();
        let stalled = |from, to| watch.witness.overlaps(from, to);
        self.stalled += u64::from(self.unjudged.finish(stalled).starved);
    }

    fn enter(&mut self, departure: &Departure) {
        // One that is sent again was entered when it left first.
        if self.departed.is_some_and(|newest| departure.media <= newest) {
            return;
        }
        self.departed = Some(departure.media);
        let before = self.left;
        self.left += 1;
        if !self.probes.take(before) {
            return;
        }
        let Departure { media, due, handed, .. } = *departure;
        // A wire thread that waits on purpose is not late by that.
        let due = due + self.pacing.as_ref().map_or(Span::ZERO, |paced| paced.spacing.lead);
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
                unlaunched: false,
            });
        }
    }

    /// The latency that the receiver says that hears it last, and how sure it is.
    fn effective(&self) -> Option<(Span, Span)> {
        let here = self.policy.believed().filter(|receiver| !receiver.has_left());
        here.filter_map(|receiver| receiver.effective)
            .max_by_key(|effective| effective.effective)
            .map(|effective| (effective.effective, effective.uncertainty))
    }

    pub(crate) fn progress<'a>(&self, watch: &'a RunWatch) -> Progress<'a> {
        let elapsed = now() - watch.began;
        Progress {
            elapsed,
            packets: self.last.state.packets,
            missed: self.last.link.send_errors + self.last.link.dropped,
            xruns: self.last.xruns,
            latency: self.effective(),
            late: 0,
            resyncs: 0,
            clock: None,
            known: self
                .policy
                .believed()
                .find_map(|known| known.clock.as_ref())
                .map(KnownClock::of),
            heard: false,
            auto: self.policy.auto(),
            link_offset: self.policy.link_offset(),
            peer: self.peer(elapsed, now()),
            notes: &watch.notes,
            refused: Some(&watch.refused),
        }
    }

    /// How it stands with the receivers, so long after the beginning.
    fn peer(&self, elapsed: Span, now: LocalTime) -> PeerState {
        match self.policy.believed().any(|known| known.is_here(now)) {
            true => PeerState::Here,
            // Nor can anybody without a control channel.
            false if elapsed < ANSWER || self.conversation.control.is_none() => PeerState::Unknown,
            false => PeerState::Nobody,
        }
    }

    pub(crate) fn report(&self) -> StreamReport {
        let (format, as_needed) = (self.policy.format(), self.policy.is_as_needed());
        StreamReport {
            address: self.address.clone(),
            sender: None,
            rate: format.rate.hertz(),
            channels: format.channels.count(),
            format: format.sample.name(),
            refused: None,
            ended: None,
            ptime_ns: format.ptime().as_nanos(),
            latency: LatencyReport {
                configured_ns: Some(self.policy.link_offset().as_nanos()),
                basis: "clock",
                ..LatencyReport::unmeasured("receivers")
            },
            probes: self.probes.name(),
            stages: STAGES
                .into_iter()
                .zip(&self.stages)
                .filter(|_| self.probes != Probes::Off)
                // There is no such stage where nothing is launched.
                .filter(|(stage, spans)| *stage != Stage::Launch || spans.count() > 0)
                .map(|(stage, spans)| StageSummary {
                    name: stage.name(),
                    summary: spans.summary(),
                    uncertainty_ns: None,
                })
                .collect(),
            counters: self.counters(),
            xruns: self.xruns.report(),
            // A packet that missed its launch was handed over too late by this program.
            gaps: self.pacing.as_ref().filter(|paced| paced.launch.is_some()).map(|_| GapReport {
                late_sender: self.last.link.unlaunched,
                ..GapReport::default()
            }),
            redundancy: self.redundancy(),
            repair: None,
            paths: Vec::new(),
            invalid: Vec::new(),
            drift_ppm: None,
            clock: None,
            worst: Vec::new(),
            receivers: self
                .policy
                .receivers()
                .map(|known| remote(known, &format, as_needed))
                .collect(),
            transmit: (self.transmit.count() > 0).then(|| self.transmit.summary()),
            lateness: (self.probes != Probes::Off).then(|| self.lateness.summary()),
            pacing: self.pacing.as_ref().map(|paced| PacingReport {
                rung: paced.rung.name(),
                lead_ns: (paced.lead() > Span::ZERO).then(|| paced.lead().as_nanos()),
                why: paced.why.clone(),
                unlaunched: self.last.link.unlaunched,
            }),
        }
    }

    fn counters(&self) -> Counters {
        let counted = &self.last;
        Counters {
            sent: counted.state.packets,
            invalid: self.conversation.invalid,
            xruns: counted.xruns,
            send_errors: counted.link.send_errors + counted.link.dropped,
            host_stalled: self.stalled,
            ..Counters::default()
        }
    }

    /// What packets carry of earlier ones, if that is asked for.
    fn redundancy(&self) -> Option<report::RedundancyReport> {
        let (asked, layout) = (self.policy.redundancy(), self.policy.layout());
        let bounds = self.policy.reckoned_with();
        (asked != Redundancy::Off).then(|| report::RedundancyReport {
            asked: asked.to_string(),
            budget_ns: bounds.budget.as_nanos(),
            symbols: layout.reaches().len(),
            window: layout.window(),
            repeated: layout.repeat().is_some(),
            bytes: bounds.cost(&self.policy.format(), &layout),
        })
    }

    /// Another gain.
    pub(crate) fn set_gain(&mut self, gain: Gain, muted: bool) -> Result<Fader, ()> {
        let fader = Fader { gain, muted };
        self.commands.push(TransmitterCommand::Gain(fader.wanted())).map_err(drop)?;
        self.fader = fader;
        Ok(fader)
    }
}

/// The line of a packet that left a moment ago, if a ledger is kept.
fn line_of(
    ledger: &mut Option<LedgerFile<SentEntry>>,
    packet: MediaTime,
) -> Option<&mut SentEntry> {
    ledger.as_mut()?.newest(|line| line.departure.media == packet)
}

/// The two networks that everything goes by, if it does.
fn networks(outbound: &Outbound) -> Option<(&str, &str)> {
    outbound.networks.as_ref().map(|(one, other)| (one.as_str(), other.as_str()))
}

fn remote(known: &KnownReceiver, format: &StreamFormat, as_needed: bool) -> RemoteReceiver {
    let jitter = known.block.map_or(0, |block| i64::from(block.jitter));
    let standard = known.block.map_or(0, |block| i64::from(block.cumulative_lost));
    RemoteReceiver {
        ssrc: known.ssrc,
        address: known.host.to_string(),
        believed: known.is_believed(),
        asked_ns: known.ask.longest().filter(|_| as_needed).map(Span::as_nanos),
        // The standard report takes off what came twice, as it does over two networks.
        lost: known.losses.map_or(standard, |LossReport { tally, .. }| {
            i64::try_from(tally.missing.saturating_add(tally.beyond)).unwrap_or(i64::MAX)
        }),
        jitter_ns: format.rate.span_of(Frames::new(jitter)).as_nanos(),
        effective_ns: known.effective.map(|effective| effective.effective.as_nanos()),
        uncertainty_ns: known.effective.map(|effective| effective.uncertainty.as_nanos()),
        repaired: known.losses.map(|losses| losses.repaired),
        unrepaired: known.losses.map(|losses| losses.lost),
        round_trip_ns: known
            .clock
            .as_ref()
            .and_then(ClockMapping::known_round_trip)
            .map(Span::as_nanos),
    }
}

#[cfg(test)]
mod tests {
    use tautline_dsp::format::SampleFormat;
    use tautline_proto::device::Settings;
    use tautline_proto::endpoint::Host;
    use tautline_proto::latency::LatencyRule;
    use tautline_proto::redundancy::Regulator;
    use tautline_proto::redundancy::sizing::Tally;
    use tautline_proto::sending::SendPolicyConfig;
    use tautline_proto::units::{Channels, Rate};
    use tautline_proto::wire::rtp::PACK;

    use super::*;

    #[test]
    fn what_a_receiver_missed_in_an_outage_is_lost_for_its_sender_too() {
        let format = StreamFormat {
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            sample: SampleFormat::L24,
            packet: Frames::new(48),
            payload_type: 97,
        };
        let (rate, channels, period) = (format.rate, format.channels, format.packet);
        let mut policy = SendPolicy::new(SendPolicyConfig {
            wire: PACK,
            format,
            timestamp: 0,
            link_offset: Span::from_millis(5),
            latency: LatencyRule::Usual,
            usual: Span::from_millis(5),
            device: Settings { rate, channels, period, periods: 2 },
            stamps: true,
            spaced: false,
            held: Span::ZERO,
            redundancy: Regulator::OFF,
            repair_budget: None,
            limits: Default::default(),
            destinations: vec![Host::UNKNOWN],
            by_two_networks: false,
            most_bytes: 1472,
        });
        let tally = Tally { expected: 20_000, missing: 5, runs: 4, beyond: 10_012 };
        let losses = LossReport { ssrc: 1, tally, repaired: 5, lost: 10_012 };
        // It is not taken back when the receiver leaves.
        for event in [Event::Losses { ssrc: 2, losses }, Event::Left { ssrc: 2 }] {
            policy.hear(Host::UNKNOWN, &event, LocalTime::ZERO);
            let told = remote(policy.receivers().next().unwrap(), &format, false);
            let lost = (told.lost, told.repaired, told.unrepaired);
            assert_eq!(lost, (10_017, Some(5), Some(10_012)), "{event:?}");
        }
    }
}
