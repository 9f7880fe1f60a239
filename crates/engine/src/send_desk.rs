//! What the ordinary thread does for a stream that is sent: reports, and the books of departures.

use rtrb::{Consumer, Producer};
use tautline_dsp::gain::Gain;
use tautline_io::clock::now;
use tautline_io::link::destinations::Outbound;
use tautline_io::link::{LinkCounters, TransmitStamp};
use tautline_proto::asks::{self, Ask, Limits, Worth};
use tautline_proto::clock::ClockMapping;
use tautline_proto::device::Settings;
use tautline_proto::endpoint::{Endpoint, Host};
use tautline_proto::ledger::Departure;
use tautline_proto::redundancy::{Redundancy, Regulator};
use tautline_proto::sender::Identity;
use tautline_proto::session::{Event, Sending};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, MediaTime, Span};
use tautline_proto::wire::rtcp::{Effective, LossReport, ReportBlock};

use crate::control::Destined;
use crate::distribution::Distribution;
use crate::ledger_file::LedgerFile;
use crate::link_news::LinkNews;

use crate::plan::{kept_latency, least_latency};
use crate::report::{Counters, Latency, RemoteReceiver, StageSummary, Stream};
use crate::run::{KnownClock, Peer, Progress, Watch};
use crate::session::Talk;
use crate::twice::Twice;
use crate::tx::{Command, TxStatus};

/// Receivers remembered for the report.
pub(crate) const RECEIVERS: usize = 64;

/// A receiver has reported by then: reports of ours follow each other within half a second.
const ANSWER: Span = Span::from_secs(2);

/// A receiver that says nothing for so long is gone: twice the time between the reports of one that
/// keeps to RFC 3550 (§6.2: 5 s, and half as much again by chance).
const FALLEN_SILENT: Span = Span::from_secs(15);

/// More latency by this much is told at once, less with the next report.
const NEWS: Span = Span::from_micros(200);

/// What a receiver of ours said of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heard {
    pub(crate) ssrc: u32,
    /// Where it said it last.
    pub(crate) host: Host,
    pub(crate) ask: Ask,
    block: Option<ReportBlock>,
    effective: Option<Effective>,
    clock: Option<ClockMapping>,
    /// When it said something last.
    said: LocalTime,
    /// Whether it said goodbye.
    left: bool,
    lacked: Option<LossReport>,
    /// Whether it gets what goes by two networks by both.
    twice: Twice,
}

/// What the ordinary thread holds.
pub(crate) struct Desk {
    pub(crate) plan: Promise,
    pub(crate) talk: Talk,
    pub(crate) commands: Producer<Command>,
    /// What receivers were told of and is taken up later.
    pub(crate) coming: Coming,
    pub(crate) departures: Consumer<Departure>,
    pub(crate) news: LinkNews,
    /// The newest packet that left.
    pub(crate) departed: Option<MediaTime>,
    pub(crate) stamps: Consumer<TransmitStamp>,
    pub(crate) status: Consumer<TxStatus>,
    pub(crate) last: TxStatus,
    pub(crate) stages: [Distribution; 3],
    pub(crate) lateness: Distribution,
    pub(crate) transmit: Distribution,
    pub(crate) receivers: Vec<Heard>,
    /// Whether it was said that losses ask for more than receivers may ask for.
    pub(crate) limited: bool,
    pub(crate) ledger: Option<LedgerFile>,
}

/// Changes that receivers are told of before they are made, and when that is.
#[derive(Default)]
pub(crate) struct Coming {
    pub(crate) packet: Option<(LocalTime, Frames)>,
    pub(crate) destined: Option<(LocalTime, Destined)>,
    /// Until when reports follow each other fast, for receivers that are new.
    pub(crate) greets_until: Option<LocalTime>,
}

/// What of the plan outlives its set-up.
pub(crate) struct Promise {
    pub(crate) address: String,
    pub(crate) format: StreamFormat,
    pub(crate) link_offset: Span,
    /// Whether that is what the receiver asks for that needs the most.
    pub(crate) as_needed: bool,
    pub(crate) packing_age: Span,
    pub(crate) identity: Identity,
    pub(crate) gain: Gain,
    pub(crate) muted: bool,
    pub(crate) stamps: bool,
    pub(crate) redundancy: Regulator,
    /// See [`crate::plan::SendPlan::repair_budget`].
    pub(crate) repair_budget: Option<Span>,
    pub(crate) limits: Limits,
    pub(crate) device: Settings,
    /// What the link was opened for, with the present destinations.
    pub(crate) outbound: Outbound,
}

impl Promise {
    /// The least latency of a receiver whose device runs as ours does.
    pub(crate) fn likewise(&self) -> Span {
        least_latency(self.packing_age, &self.device)
    }

    /// Where packets go: hosts and groups.
    pub(crate) fn destinations(&self) -> impl Iterator<Item = Host> {
        self.outbound.destinations.iter().map(Endpoint::host)
    }

    /// Whether packets go to a group.
    pub(crate) fn to_group(&self) -> bool {
        self.destinations().any(|to| to.is_group())
    }

    /// The two networks that everything goes by, if it does.
    fn networks(&self) -> Option<(&str, &str)> {
        self.outbound.networks.as_ref().map(|(one, other)| (one.as_str(), other.as_str()))
    }
}

impl Desk {
    /// Says so if a receiver like this end could not keep the latency that is promised.
    pub(crate) fn note_latency(&self, watch: &mut Watch) {
        let Promise { link_offset, packing_age, .. } = self.plan;
        let likewise = self.plan.likewise();
        let kept = kept_latency(link_offset, likewise);
        if kept > link_offset {
            watch.note(format!(
                "packets are up to {packing_age} old when they leave, so a receiver with the periods \
                 of this end keeps {kept} and not the {link_offset} that are promised; use --latency \
                 {kept}, or shorter periods"
            ));
        }
    }

    /// Says so if what goes by two networks comes by one.
    fn note_networks(&self, watch: &mut Watch) {
        let Some((one, other)) = self.plan.networks() else { return };
        for heard in self.believed().filter(|heard| heard.twice.comes_once()) {
            watch.note(format!(
                "receiver {:08x} gets by one network only what goes by {one} and {other}: is there a \
                 way to it from both? Until then nothing is bridged that the one loses",
                heard.ssrc
            ));
        }
    }

    /// Says what the kernel refused to send by one of two networks.
    fn note_refused_network(&self, watch: &mut Watch) {
        let LinkCounters { sent, send_errors, last_error, also, .. } = self.last.link;
        let Some((one, other)) = self.plan.networks() else { return };
        let by_one = (sent.saturating_sub(also.0), send_errors.saturating_sub(also.1));
        for (network, (sent, refused)) in [(one, by_one), (other, also)] {
            if refused > 0 {
                let answer = std::io::Error::from_raw_os_error(last_error);
                watch.note(format!(
                    "the system refused {refused} of {} packets by {network}: {answer}; is there a way \
                     to the address from there?",
                    sent + refused
                ));
            }
        }
    }

    /// Says so if the kernel refused most of what was sent.
    pub(crate) fn note_refusals(&self, watch: &mut Watch) {
        self.note_refused_network(watch);
        let error = self.news.error(&self.plan.address, self.last.link.send_errors);
        error.into_iter().for_each(|error| watch.note(error));
        let LinkCounters { sent, send_errors, last_error, .. } = self.last.link;
        let asked = self.talk.control.is_some();
        if asked && self.believed().next().is_none() && send_errors <= sent && sent > 0 {
            let mend = match self.plan.stamps {
                true => "; PipeWire's rtp-source is silent then unless --no-stamps is given here",
                false => "",
            };
            watch.note(format!(
                "no receiver has answered from {}: either nobody listens there, or it is no taut and \
                 sends no RTCP back{mend}",
                self.plan.address
            ));
        }
        if send_errors > sent {
            let answer = std::io::Error::from_raw_os_error(last_error);
            watch.note(format!(
                "the system refused {send_errors} of {} packets: {answer}; is the address right, and \
                 a way to it?",
                send_errors + sent
            ));
        }
    }

    pub(crate) fn turn(&mut self, watch: &mut Watch) {
        watch.look();
        let (receivers, plan) = (&mut self.receivers, &self.plan);
        self.talk.hear(None, |from, event| {
            hear(receivers, (from, Worth::of(from, plan.destinations())), event);
        });
        while let Ok(departure) = self.departures.pop() {
            self.enter(&departure);
        }
        while let Ok(stamp) = self.stamps.pop() {
            self.transmit.record(stamp.left - stamp.handed);
        }
        self.news.hear(&self.plan.address, |note| watch.note(note));
        let clock = self.last.clock;
        while let Ok(status) = self.status.pop() {
            self.last = status;
        }
        if self.last.clock != clock {
            // Whoever goes by the same clock, or did, is to know at once.
            self.talk.session.hasten();
        }
        // The sound goes on without it.
        if let Some(flaw) = self.ledger.as_ref().and_then(LedgerFile::flaw) {
            watch.note(flaw);
        }
        self.note_networks(watch);
        self.take_up();
        self.regulate(watch);
        self.promise_what_is_needed(watch);
        self.note_strangers(watch);
        self.talk.session.set_sending(Sending {
            format: self.plan.format,
            link_offset: self.plan.link_offset,
            packing_age: self.plan.packing_age,
            card: self.last.clock,
            timestamp: self.plan.identity.timestamp,
            state: self.last.state,
        });
        self.talk.speak();
    }

    /// Receivers whose word counts.
    pub(crate) fn believed(&self) -> impl Iterator<Item = &Heard> {
        self.receivers.iter().filter(|heard| heard.ask.worth() > Worth::Stranger)
    }

    /// Promises what the receiver asks for that needs the most: so all stay in step.
    fn promise_what_is_needed(&mut self, watch: &mut Watch) {
        if !self.plan.as_needed {
            return;
        }
        let (now, limit) = (now(), self.plan.limits.latency(self.plan.to_group()));
        let asks = self.receivers.iter().map(|receiver| &receiver.ask);
        let Some(needed) = asks::latency(asks, limit, now) else { return };
        let beyond = |heard: &&Heard| heard.ask.needs(now).is_some_and(|needs| needs > limit);
        if let Some(heard) = self.receivers.iter().find(beyond) {
            watch.note(format!(
                "the receiver at {} asks for more latency than the {limit} that receivers may ask for; \
                 give a longer --latency-limit if it is to have it",
                heard.host
            ));
        }
        let needed = needed.max(self.plan.packing_age);
        if needed - self.plan.link_offset > NEWS {
            // Packets are late there meanwhile.
            self.talk.session.hasten();
        }
        self.plan.link_offset = needed;
    }

    /// Says who reports on packets that do not go there, where what is said would count.
    fn note_strangers(&self, watch: &mut Watch) {
        let auto = self.plan.as_needed || self.plan.redundancy.asked() == Redundancy::Auto;
        let stranger = |heard: &&Heard| heard.ask.worth() == Worth::Stranger;
        for heard in self.receivers.iter().filter(stranger).take(if auto { STRANGERS } else { 0 }) {
            watch.note(format!(
                "{} reports on this stream and nothing is sent there, so what it asks for does not \
                 count; if it is a receiver with several addresses, send to this one",
                heard.host
            ));
        }
    }

    fn enter(&mut self, departure: &Departure) {
        // One that is sent again was entered when it left first.
        if self.departed.is_some_and(|newest| departure.media <= newest) {
            return;
        }
        self.departed = Some(departure.media);
        let Departure { media, capture, taken, packed, due, handed } = *departure;
        let spans = [taken - capture, packed - taken, handed - packed];
        spans.into_iter().zip(&mut self.stages).for_each(|(span, stage)| stage.record(span));
        self.lateness.record(handed - due);
        if let Some(ledger) = &mut self.ledger {
            let start = self.plan.identity.timestamp;
            let media = tautline_proto::wrap::rtp_timestamp(media.as_frames());
            ledger.sent(start.wrapping_add(media), departure);
        }
    }

    pub(crate) fn progress<'a>(&self, watch: &'a Watch) -> Progress<'a> {
        // Of the one that hears it last.
        let here = self.believed().filter(|receiver| !receiver.left);
        let effective = here
            .filter_map(|receiver| receiver.effective)
            .max_by_key(|effective| effective.effective);
        Progress {
            elapsed: now() - watch.began,
            packets: self.last.state.packets,
            missed: self.last.link.send_errors + self.last.link.dropped,
            xruns: self.last.xruns,
            latency: effective.map(|effective| (effective.effective, effective.uncertainty)),
            late: 0,
            resyncs: 0,
            clock: None,
            known: self.believed().find_map(|heard| heard.clock.as_ref()).map(KnownClock::of),
            heard: false,
            auto: self.plan.as_needed.then_some(self.plan.link_offset),
            link_offset: self.plan.link_offset,
            peer: self.peer(now() - watch.began, now()),
            notes: &watch.notes,
            refused: Some(&watch.refused),
        }
    }

    /// How it stands with the receivers, so long after the beginning.
    fn peer(&self, elapsed: Span, now: LocalTime) -> Peer {
        let answers = |heard: &&Heard| !heard.left && now - heard.said < FALLEN_SILENT;
        match self.believed().any(|heard| answers(&heard)) {
            true => Peer::Here,
            // Nor can anybody without a control channel.
            false if elapsed < ANSWER || self.talk.control.is_none() => Peer::Unknown,
            false => Peer::Nobody,
        }
    }

    pub(crate) fn report(&self) -> Stream {
        let Promise { address, format, link_offset, .. } = &self.plan;
        let names = ["capture", "pack", "send"];
        let counted = &self.last;
        Stream {
            address: address.clone(),
            rate: format.rate.hertz(),
            channels: format.channels.count(),
            format: format.sample.name(),
            refused: None,
            ended: None,
            ptime_ns: format.ptime().as_nanos(),
            latency: Latency {
                configured_ns: link_offset.as_nanos(),
                basis: "clock",
                ..Latency::unmeasured("receivers")
            },
            stages: names
                .into_iter()
                .zip(&self.stages)
                .map(|(name, stage)| StageSummary {
                    name,
                    summary: stage.summary(),
                    uncertainty_ns: None,
                })
                .collect(),
            counters: Counters {
                packets_sent: counted.state.packets,
                invalid: self.talk.invalid,
                xruns: counted.xruns,
                send_errors: counted.link.send_errors + counted.link.dropped,
                ..Counters::default()
            },
            gaps: None,
            redundancy: self.told_redundancy(),
            repair: None,
            paths: Vec::new(),
            invalid: Vec::new(),
            drift_ppm: None,
            clock: None,
            worst: Vec::new(),
            receivers: self
                .receivers
                .iter()
                .map(|heard| remote(heard, format, self.plan.as_needed))
                .collect(),
            transmit: (self.transmit.count() > 0).then(|| self.transmit.summary()),
            lateness: Some(self.lateness.summary()),
        }
    }
}

/// Strangers that are named; a flood of them is one matter.
const STRANGERS: usize = 4;

/// Takes what a receiver of this worth said. Under one name the hosts that packets go to are one
/// receiver, and every other is another.
fn hear(receivers: &mut Vec<Heard>, (host, worth): (Host, Worth), event: Event) {
    let ssrc = event.ssrc();
    let known = receivers.iter().position(|heard| {
        let both = worth.min(heard.ask.worth()) == Worth::Destination;
        heard.ssrc == ssrc && (heard.host == host || both)
    });
    let Some(index) = known.or_else(|| make_room(receivers, ssrc, (host, worth))) else {
        return;
    };
    let heard = &mut receivers[index];
    heard.host = host;
    heard.ask.set_worth(worth);
    heard.said = now();
    heard.left = matches!(event, Event::Left { .. });
    match event {
        Event::Mapped { mapping, .. } => heard.clock = Some(mapping),
        Event::Reception { block, .. } => {
            heard.block = Some(block);
            heard.twice.hear(&block);
        }
        Event::Effective { effective, .. } => {
            heard.effective = Some(effective).filter(|told| told.effective > Span::ZERO);
            heard.ask.need(effective.needed, now());
        }
        Event::Losses { losses, .. } => {
            heard.ask.lack(losses.tally, now());
            heard.lacked = Some(losses);
        }
        // What it lost is not taken back.
        Event::Left { .. } => heard.ask.leave(),
        Event::Captured { .. } | Event::Announced { .. } => {}
    }
}

/// A place for another receiver: where all are taken, that of one whose word is worth less.
fn make_room(receivers: &mut Vec<Heard>, ssrc: u32, (host, worth): (Host, Worth)) -> Option<usize> {
    let new = Heard {
        ssrc,
        host,
        ask: Ask::default(),
        block: None,
        effective: None,
        clock: None,
        said: LocalTime::ZERO,
        left: false,
        lacked: None,
        twice: Twice::default(),
    };
    if receivers.len() < RECEIVERS {
        receivers.push(new);
        return Some(receivers.len() - 1);
    }
    let index = receivers.iter().position(|heard| heard.ask.worth() < worth)?;
    receivers[index] = new;
    Some(index)
}

fn remote(heard: &Heard, format: &StreamFormat, as_needed: bool) -> RemoteReceiver {
    let jitter = heard.block.map_or(0, |block| i64::from(block.jitter));
    let standard = heard.block.map_or(0, |block| i64::from(block.cumulative_lost));
    RemoteReceiver {
        ssrc: heard.ssrc,
        address: heard.host.to_string(),
        believed: heard.ask.worth() > Worth::Stranger,
        asked_ns: heard.ask.longest().filter(|_| as_needed).map(Span::as_nanos),
        // The standard report takes off what came twice, as it does over two networks.
        lost: heard.lacked.map_or(standard, |LossReport { tally, .. }| {
            i64::try_from(tally.missing.saturating_add(tally.beyond)).unwrap_or(i64::MAX)
        }),
        jitter_ns: format.rate.span_of(Frames::new(jitter)).as_nanos(),
        effective_ns: heard.effective.map(|effective| effective.effective.as_nanos()),
        uncertainty_ns: heard.effective.map(|effective| effective.uncertainty.as_nanos()),
        repaired: heard.lacked.map(|losses| losses.repaired),
        unrepaired: heard.lacked.map(|losses| losses.lost),
        round_trip_ns: heard
            .clock
            .as_ref()
            .and_then(ClockMapping::known_round_trip)
            .map(Span::as_nanos),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautline_dsp::format::SampleFormat;
    use tautline_proto::redundancy::sizing::Tally;
    use tautline_proto::units::{Channels, Rate};

    #[test]
    fn what_a_receiver_missed_in_an_outage_is_lost_for_its_sender_too() {
        let format = StreamFormat {
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            sample: SampleFormat::L24,
            packet: Frames::new(48),
            payload_type: 97,
        };
        let tally = Tally { expected: 20_000, missing: 5, runs: 4, beyond: 10_012 };
        let losses = LossReport { ssrc: 1, tally, repaired: 5, lost: 10_012 };
        let mut receivers = Vec::new();
        // It is not taken back when the receiver leaves.
        for event in [Event::Losses { ssrc: 2, losses }, Event::Left { ssrc: 2 }] {
            hear(&mut receivers, (Host::UNKNOWN, Worth::Destination), event);
            let told = remote(&receivers[0], &format, false);
            let lost = (told.lost, told.repaired, told.unrepaired);
            assert_eq!(lost, (10_017, Some(5), Some(10_012)), "{event:?}");
        }
    }
}
