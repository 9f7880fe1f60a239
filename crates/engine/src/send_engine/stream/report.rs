//! Snapshots and final report of a sent stream.

use tautline_io::clock::now;
use tautline_io::link::LinkCounters;
use tautline_proto::clock::ClockMapping;
use tautline_proto::counters::ReceiverCounters;
use tautline_proto::ledger::{Departure, Stage};
use tautline_proto::redundancy::Redundancy;
use tautline_proto::send_policy::KnownReceiver;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::wire::avtp::id_of;
use tautline_proto::wire::rtcp::LossReport;
use tautline_proto::wrap;
use tautline_report::snapshot::{
    ClockSnapshot, LatencySnapshot, Snapshot, StreamSnapshot, StreamState, counters,
};
use tautline_report::{
    Counters, GapReport, LatencyReport, PacingReport, RedundancyReport, RemoteReceiver,
    StageSummary, StreamReport, WorstPacket,
};

use super::{STAGES, SentStream, spans};
use crate::monitor::note::Note;
use crate::monitor::observers::Observers;
use crate::monitor::run::PeerState;
use crate::plan::pacing::Paced;
use crate::plan::probes::Probes;
use crate::send_engine::transmitter::TransmitterCommand;

impl SentStream {
    pub(crate) fn report(&self) -> StreamReport {
        let (format, as_needed) = (self.policy.format(), self.policy.is_as_needed());
        let ended = now();
        StreamReport {
            address: self.config.address.clone(),
            encryption: self.config.sealed.map(Into::into),
            stream_id: self.presented.map(|_| id_of(self.identity.stream)),
            rate: format.rate.hertz(),
            channels: format.channels.count(),
            format: format.coding_name().into(),
            played: true,
            ptime_ns: format.ptime().as_nanos(),
            latency: LatencyReport {
                configured_ns: Some(self.policy.link_offset().as_nanos()),
                basis: "clock".into(),
                ..LatencyReport::unmeasured()
            },
            sampling: self.config.probes.name().into(),
            stages: STAGES
                .into_iter()
                .zip(&self.stages)
                .filter(|_| self.config.probes != Probes::Off)
                .filter(|(stage, spans)| *stage != Stage::Launch || spans.count() > 0)
                .map(|(stage, spans)| StageSummary {
                    name: stage.name().into(),
                    summary: spans.summary(),
                    uncertainty_ns: None,
                })
                .collect(),
            counters: self.counters(),
            xruns: self.xruns.0.clone(),
            // If a packet missed its launch, this program handed it over too late.
            gaps: self.config.pacing.as_ref().filter(|paced| paced.launch.is_some()).map(|_| {
                GapReport { late_sender: self.last.link.dropped_by_queue, ..GapReport::default() }
            }),
            redundancy: self.redundancy(),
            receivers: self
                .policy
                .receivers()
                .map(|known| remote(known, (&format, as_needed), ended))
                .collect(),
            transmit: (self.transmit.count() > 0).then(|| self.transmit.summary()),
            lateness: (self.config.probes != Probes::Off).then(|| self.lateness.summary()),
            pacing: self.config.pacing.as_ref().map(|paced| pacing(paced, &self.last.link)),
            ..StreamReport::default()
        }
    }

    pub(crate) fn publish(&mut self, observers: &Observers, began: LocalTime) {
        let (now, here, counters) = (now(), observers.are_here(), self.counters());
        let commands = &mut self.commands;
        let request = || commands.push(TransmitterCommand::Levels(here)).is_ok();
        self.observed.look(now, here, request);
        self.observed.follow(now, || counters);
        let elapsed = now - began;
        observers.notify(|| Snapshot {
            elapsed_ns: elapsed.as_nanos(),
            streams: vec![self.snapshot(elapsed, now)],
            ..Snapshot::default()
        });
    }

    fn snapshot(&mut self, elapsed: Span, now: LocalTime) -> StreamSnapshot {
        let format = self.policy.format();
        let effective = self.effective();
        let nanos = |span: Span| span.as_nanos();
        let clock = self.policy.believed().find_map(|known| known.clock.as_ref());
        let mut snapshot = StreamSnapshot {
            address: self.config.address.clone(),
            state: match self.peer(elapsed) {
                PeerState::Here => StreamState::Connected,
                PeerState::Lost(_) => StreamState::Lost,
                PeerState::Nobody => StreamState::NoReceiver,
                _ => StreamState::Unknown,
            },
            rate: format.rate.hertz(),
            channels: format.channels.count(),
            format: format.coding_name().to_owned(),
            bitrate: format.coding().bitrate(),
            muted: self.fader.muted,
            ptime_ns: nanos(format.ptime()),
            latency: LatencySnapshot {
                configured_ns: Some(nanos(self.policy.link_offset())),
                measured_ns: effective.map(|(latency, _)| nanos(latency)),
                uncertainty_ns: effective.map(|(_, uncertainty)| nanos(uncertainty)),
                p99_ns: None,
                method: "receivers".to_owned(),
            },
            clock: clock.map(ClockSnapshot::of),
            ..StreamSnapshot::default()
        };
        let start = self.identity.timestamp;
        let way = |departure: &Departure| WorstPacket {
            rtp_timestamp: start.wrapping_add(wrap::rtp_timestamp(departure.media.as_frames())),
            total_ns: None,
            stages: STAGES
                .into_iter()
                .zip(spans(departure))
                .filter_map(|(stage, span)| Some((stage.name().into(), nanos(span?))))
                .collect(),
        };
        self.observed.notify(now, way, &mut snapshot);
        snapshot.second.loss_share = self.policy.believed().find_map(|known| known.loss_share);
        if let Some(losses) = self.policy.believed().find_map(|known| known.losses) {
            let expected = losses.tally.expected.saturating_add(losses.tally.beyond);
            let LossReport { lost, late, repaired, .. } = losses;
            let counted = ReceiverCounters { expected, lost, late, repaired };
            snapshot.counters.extend(counters(counted.each()));
        }
        snapshot
    }

    pub(super) fn sent(&self) -> u64 {
        self.last.state.packets.saturating_sub(self.last.link.let_go)
    }

    pub(super) fn counters(&self) -> Counters {
        let counted = &self.last;
        Counters {
            sent: self.sent(),
            invalid: self.conversation.invalid,
            xruns: counted.xruns,
            send_errors: counted.link.send_errors + counted.link.dropped,
            send_timeouts: counted.link.overdue,
            receivers_lost: self.policy.receivers_lost(),
            host_stalled: self.stalled,
            ..Counters::default()
        }
    }

    fn redundancy(&self) -> Option<RedundancyReport> {
        let (requested, layout) = (self.policy.redundancy(), self.policy.layout());
        let bounds = self.policy.reckoned_with();
        (requested != Redundancy::Off).then(|| RedundancyReport {
            requested: requested.to_string(),
            budget_ns: bounds.budget.as_nanos(),
            symbols: layout.reaches().len(),
            window: layout.window(),
            repeated: layout.repeat().is_some(),
            bytes: bounds.cost(&self.policy.format(), &layout),
        })
    }
}

pub(super) fn dropped<'a>(address: &'a str, link: &LinkCounters, ledger: bool) -> Option<Note<'a>> {
    let LinkCounters { sent: of, dropped_by_queue: dropped, unnamed, .. } = *link;
    let unnamed = if ledger { unnamed } else { 0 };
    (dropped > 0).then_some(Note::DroppedByQueue { address, dropped, of, unnamed })
}

fn pacing(paced: &Paced, link: &LinkCounters) -> PacingReport {
    PacingReport {
        mode: paced.mode.name().into(),
        lead_ns: (paced.lead() > Span::ZERO).then(|| paced.lead().as_nanos()),
        reason: paced.why.clone(),
        dropped_by_queue: link.dropped_by_queue,
        unidentified: link.unnamed,
    }
}

fn remote(
    known: &KnownReceiver,
    (format, as_needed): (&StreamFormat, bool),
    ended: LocalTime,
) -> RemoteReceiver {
    let jitter = known.block.map_or(0, |block| i64::from(block.jitter));
    let standard = known.block.map_or(0, |block| i64::from(block.cumulative_lost));
    RemoteReceiver {
        ssrc: known.ssrc,
        address: known.host.to_string(),
        trusted: known.is_believed(),
        state: known.presence().name().into(),
        silent_ns: known.silence(ended).as_nanos(),
        times_lost: known.times_lost(),
        requested_ns: known.request.longest().filter(|_| as_needed).map(Span::as_nanos),
        // The standard report subtracts duplicates, which two networks always produce.
        lost: known.losses.map_or(standard, |LossReport { tally, .. }| {
            i64::try_from(tally.missing.saturating_add(tally.beyond)).unwrap_or(i64::MAX)
        }),
        jitter_ns: format.rate.span_of(Frames::new(jitter)).as_nanos(),
        effective_ns: known.effective.map(|effective| effective.effective.as_nanos()),
        uncertainty_ns: known.effective.map(|effective| effective.uncertainty.as_nanos()),
        method: known.effective.and_then(|effective| effective.method).map(|it| it.name().into()),
        repaired: known.losses.map(|losses| losses.repaired),
        unrepaired: known.losses.map(|losses| losses.lost),
        late: known.losses.map(|losses| losses.late),
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
    use tautline_proto::packetizer::Identity;
    use tautline_proto::redundancy::sizing::Tally;
    use tautline_proto::rtcp_session::Event;
    use tautline_proto::send_policy::{SendPolicy, SendPolicyConfig};
    use tautline_proto::units::{Channels, Rate};

    use super::*;
    use crate::plan::pacing::PacingMode;

    #[test]
    fn unidentified_queue_drops_are_noted_with_a_packet_log() {
        let link =
            LinkCounters { sent: 90, dropped_by_queue: 9, unnamed: 2, ..LinkCounters::default() };
        let paced = Paced {
            mode: PacingMode::Etf,
            launch: None,
            spacing: Default::default(),
            by_wire_thread: false,
            why: String::new(),
        };
        let reported = pacing(&paced, &link);
        assert_eq!((reported.dropped_by_queue, reported.unidentified), (9, 2));
        let unnamed = |ledger| match dropped("avtp://eth0", &link, ledger) {
            Some(Note::DroppedByQueue { dropped: 9, of: 90, unnamed, .. }) => Some(unnamed),
            _ => None,
        };
        assert_eq!([true, false].map(unnamed), [Some(2), Some(0)]);
        assert!(dropped("avtp://eth0", &LinkCounters::default(), true).is_none());
    }

    #[test]
    fn outage_losses_of_a_receiver_are_reported_at_the_sender() {
        let format = StreamFormat {
            codec: None,
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            sample: SampleFormat::L24,
            packet: Frames::new(48),
            payload_type: 97,
        };
        let (rate, channels, period) = (format.rate, format.channels, format.packet);
        let identity = Identity { stream: 1.into(), sequence: 0, timestamp: 0 };
        let device = Settings { rate, channels, period, periods: 2 };
        let mut policy = SendPolicy::new(SendPolicyConfig {
            destinations: vec![Host::UNKNOWN],
            max_bytes: 1472,
            ..SendPolicyConfig::new(format, identity, Span::from_millis(5), device)
        });
        let tally = Tally { expected: 20_000, missing: 5, runs: 4, beyond: 10_012 };
        let losses = LossReport { ssrc: 1, tally, repaired: 5, lost: 10_012, late: 7 };
        for event in [Event::Losses(2, losses), Event::Left(2)] {
            policy.handle(Host::UNKNOWN, &event, LocalTime::ZERO);
            let reported =
                remote(policy.receivers().next().unwrap(), (&format, false), LocalTime::ZERO);
            let lost = (reported.lost, reported.repaired, reported.unrepaired);
            assert_eq!(lost, (10_017, Some(5), Some(10_012)), "{event:?}");
            assert_eq!(reported.late, Some(7));
        }
    }
}
