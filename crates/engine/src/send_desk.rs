//! What the ordinary thread does for a stream that is sent: reports, and the books of departures.

use rtrb::{Consumer, Producer};
use tautline_dsp::gain::Gain;
use tautline_io::clock::now;
use tautline_io::link::{LinkCounters, TransmitStamp};
use tautline_io::udp::UdpOptions;
use tautline_proto::clock::ClockMapping;
use tautline_proto::device::Settings;
use tautline_proto::ledger::Departure;
use tautline_proto::redundancy::Regulator;
use tautline_proto::sender::Identity;
use tautline_proto::session::{Event, Sending};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, MediaTime, Span};
use tautline_proto::wire::rtcp::{Effective, ReportBlock};

use crate::control::Destined;
use crate::distribution::Distribution;
use crate::ledger_file::LedgerFile;

use crate::lacked::Lacked;
use crate::plan::{kept_latency, least_latency};
use crate::report::{Counters, Latency, RemoteReceiver, StageSummary, Stream};
use crate::run::{Progress, Watch};
use crate::session::{Talk, author};
use crate::summary::format_name;
use crate::twice::Twice;
use crate::tx::{Command, TxStatus};

/// Receivers remembered for the report.
pub(crate) const RECEIVERS: usize = 64;

/// What a receiver said it needs holds for this long: ten of its reports.
const FORGOTTEN: Span = Span::from_secs(5);

/// More latency by this much is told at once, less with the next report.
const NEWS: Span = Span::from_micros(200);

/// What a receiver of ours said of itself.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Heard {
    ssrc: u32,
    block: Option<ReportBlock>,
    effective: Option<Effective>,
    /// The latency it needs, and when it said so.
    asks: Option<(Span, LocalTime)>,
    clock: Option<ClockMapping>,
    /// Whether it said goodbye.
    left: bool,
    pub(crate) lacked: Lacked,
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
    /// The newest packet that left.
    pub(crate) departed: Option<MediaTime>,
    pub(crate) stamps: Consumer<TransmitStamp>,
    pub(crate) status: Consumer<TxStatus>,
    pub(crate) last: TxStatus,
    pub(crate) stages: [Distribution; 3],
    pub(crate) lateness: Distribution,
    pub(crate) transmit: Distribution,
    pub(crate) receivers: Vec<Heard>,
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
    pub(crate) device: Settings,
    /// What the link was opened for, with the present destinations.
    pub(crate) udp: UdpOptions,
    pub(crate) ringed: bool,
}

impl Promise {
    /// The least latency of a receiver whose device runs as ours does.
    pub(crate) fn likewise(&self) -> Span {
        least_latency(self.packing_age, &self.device)
    }

    /// The two networks that everything goes by, if it does.
    fn networks(&self) -> Option<(&str, &str)> {
        self.udp.interface.as_deref().zip(self.udp.also.as_deref()?.interface.as_deref())
    }
}

impl Desk {
    /// Says so if a receiver like this end could not keep the latency that is promised.
    pub(crate) fn note_latency(&self, watch: &mut Watch) {
        let Promise { link_offset, packing_age, .. } = self.plan;
        let likewise = self.plan.likewise();
        if link_offset < likewise {
            let kept = kept_latency(link_offset, likewise);
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
        for heard in self.receivers.iter().filter(|heard| heard.twice.comes_once()) {
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
        let LinkCounters { sent, send_errors, last_error, .. } = self.last.link;
        if self.receivers.is_empty() && send_errors <= sent && sent > 0 {
            watch.note(format!(
                "no receiver has answered from {}: either nobody listens there, or it is no taut and \
                 sends no RTCP back",
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
        let receivers = &mut self.receivers;
        self.talk.hear(None, |event| hear(receivers, event));
        while let Ok(departure) = self.departures.pop() {
            self.enter(&departure);
        }
        while let Ok(stamp) = self.stamps.pop() {
            self.transmit.record(stamp.left - stamp.handed);
        }
        while let Ok(status) = self.status.pop() {
            self.last = status;
        }
        self.note_networks(watch);
        self.take_up();
        self.regulate();
        self.promise_what_is_needed();
        self.talk.session.set_sending(Sending {
            format: self.plan.format,
            link_offset: self.plan.link_offset,
            packing_age: self.plan.packing_age,
            timestamp: self.plan.identity.timestamp,
            state: self.last.state,
        });
        self.talk.speak();
    }

    /// Promises what the receiver asks for that needs the most: so all stay in step.
    fn promise_what_is_needed(&mut self) {
        let now = now();
        let asked = self.receivers.iter().filter_map(|receiver| receiver.asks);
        let needed = asked.filter(|(_, said)| now - *said < FORGOTTEN).map(|(needed, _)| needed);
        let Some(needed) = needed.max().filter(|_| self.plan.as_needed) else { return };
        let needed = needed.max(self.plan.packing_age);
        if needed - self.plan.link_offset > NEWS {
            // Packets are late there meanwhile.
            self.talk.session.hasten();
        }
        self.plan.link_offset = needed;
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
        let here = self.receivers.iter().filter(|receiver| !receiver.left);
        let effective = here
            .filter_map(|receiver| receiver.effective)
            .max_by_key(|effective| effective.effective);
        Progress {
            elapsed: now() - watch.began,
            packets: self.last.state.packets,
            missed: self.last.link.send_errors + self.last.link.dropped,
            xruns: self.last.xruns,
            latency: effective.map(|effective| (effective.effective, effective.uncertainty)),
            clock: None,
            heard: false,
            auto: self.plan.as_needed.then_some(self.plan.link_offset),
            link_offset: self.plan.link_offset,
            notes: &watch.notes,
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
            format: format_name(format.sample),
            refused: None,
            ptime_ns: format.ptime().as_nanos(),
            latency: Latency {
                configured_ns: link_offset.as_nanos(),
                measured: Distribution::default().summary(),
                measured_from: "receivers",
                uncertainty_ns: None,
                uncertainty_max_ns: None,
                books_error: Distribution::default().summary(),
                basis: "clock",
                loss_target: None,
                advised_ns: None,
                curve: Vec::new(),
                auto: None,
            },
            stages: names
                .into_iter()
                .zip(&self.stages)
                .map(|(name, stage)| StageSummary { name, summary: stage.summary() })
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
            receivers: self.receivers.iter().map(|heard| remote(heard, format)).collect(),
            transmit: (self.transmit.count() > 0).then(|| self.transmit.summary()),
            lateness: Some(self.lateness.summary()),
        }
    }
}

fn hear(receivers: &mut Vec<Heard>, event: Event) {
    let ssrc = author(&event);
    let known = receivers.iter().position(|heard| heard.ssrc == ssrc);
    let index = match known {
        Some(index) => index,
        None if receivers.len() < RECEIVERS => {
            receivers.push(Heard { ssrc, ..Heard::default() });
            receivers.len() - 1
        }
        None => return,
    };
    let heard = &mut receivers[index];
    heard.left = matches!(event, Event::Left { .. });
    match event {
        Event::Mapped { mapping, .. } => heard.clock = Some(mapping),
        Event::Reception { block, .. } => {
            heard.block = Some(block);
            heard.twice.hear(&block);
        }
        Event::Effective { effective, .. } => {
            heard.effective = Some(effective).filter(|told| told.effective > Span::ZERO);
            heard.asks = effective.needed.map(|needed| (needed, now()));
        }
        Event::Losses { losses, .. } => heard.lacked.hear(losses),
        Event::Left { .. } => (heard.asks, heard.lacked) = (None, Lacked::default()),
        Event::Captured { .. } | Event::Announced { .. } => {}
    }
}

fn remote(heard: &Heard, format: &StreamFormat) -> RemoteReceiver {
    let jitter = heard.block.map_or(0, |block| i64::from(block.jitter));
    let standard = heard.block.map_or(0, |block| i64::from(block.cumulative_lost));
    RemoteReceiver {
        ssrc: heard.ssrc,
        // The standard report takes off what came twice, as it does over two networks.
        lost: heard.lacked.last.map_or(standard, |losses| losses.tally.missing as i64),
        jitter_ns: format.rate.span_of(Frames::new(jitter)).as_nanos(),
        effective_ns: heard.effective.map(|effective| effective.effective.as_nanos()),
        uncertainty_ns: heard.effective.map(|effective| effective.uncertainty.as_nanos()),
        repaired: heard.lacked.last.map(|losses| losses.repaired),
        unrepaired: heard.lacked.last.map(|losses| losses.lost),
        round_trip_ns: heard.clock.map(|clock| clock.round_trip.as_nanos()),
    }
}
