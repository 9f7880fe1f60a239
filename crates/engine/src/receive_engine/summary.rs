//! Converts statistics into a report.

#[cfg(test)]
pub(crate) mod tests;

use tautline_proto::arrivals::Arrivals;
use tautline_proto::cause::Late;
use tautline_proto::device::CaptureFaults;
use tautline_proto::endpoint::Endpoint;
use tautline_proto::jitter_buffer::JitterBufferConfig;
use tautline_proto::ledger::{PacketTrace, SENDER_STAGE, Stage};
use tautline_proto::packet::Invalid;
use tautline_proto::placement::Basis;
use tautline_proto::receive_policy::{ReceiveNote, WrongType};
use tautline_proto::stream::StreamFormat;
use tautline_proto::target_delay::{self, Journal};
use tautline_proto::time::Span;
use tautline_proto::units::Ppm;
use tautline_proto::wrap;

use crate::monitor::note::Note;
use crate::monitor::run::RunWatch;
use crate::monitor::sound::Unfound;
use crate::receive_engine::mixer::RxStatus;
use crate::receive_engine::statistics::Statistics;
use tautline_proto::latency::{LatencyRule, repair_latency};
use tautline_report::distribution::Distribution;
use tautline_report::{
    Auto, Clock, Counters, GapReport, InvalidCount, LatencyReport, LatenessPoint, NotFound,
    RepairReport, SenderDeviceReport, StageSummary, StreamReport, StreamSender, WorstPacket,
};

pub(crate) struct ReportSource<'a> {
    pub(crate) address: &'a str,
    pub(crate) sealed: Option<&'static str>,
    pub(crate) config: &'a JitterBufferConfig,
    pub(crate) link_offset: Span,
    /// Whether the sender announced the latency, so that measurements can be compared with it.
    pub(crate) reported: bool,
    pub(crate) configured: bool,
    pub(crate) rule: LatencyRule,
    pub(crate) statistics: &'a Statistics,
    pub(crate) arrivals: &'a Arrivals,
    pub(crate) invalid_reports: u64,
    pub(crate) foreign_reports: u64,
    pub(crate) refused_exchanges: u32,
    pub(crate) clock_steps: u32,
    pub(crate) refusal: Option<String>,
    pub(crate) sounded: bool,
    pub(crate) wrong_type: Option<String>,
    pub(crate) announced: Option<StreamFormat>,
    pub(crate) sender_device: CaptureFaults,
}

impl ReportSource<'_> {
    pub(crate) fn report(&self) -> StreamReport {
        match &self.refusal {
            Some(refusal) if self.sounded => {
                StreamReport { refused: Some(refusal.clone()), played: true, ..self.played() }
            }
            Some(refusal) => self.refused(refusal),
            None => self.played(),
        }
    }

    fn refused(&self, refusal: &str) -> StreamReport {
        let played = self.played();
        let counted = self.statistics.status.as_ref();
        let format = self.announced.unwrap_or(self.config.format);
        StreamReport {
            rate: format.rate.hertz(),
            channels: format.channels.count(),
            format: format.coding_name().into(),
            ptime_ns: format.ptime().as_nanos(),
            refused: Some(refusal.to_owned()),
            played: false,
            latency: LatencyReport {
                configured_ns: Some(self.link_offset.as_nanos()),
                ..LatencyReport::unmeasured()
            },
            stages: Vec::new(),
            counters: counted.map_or_else(Counters::default, |status| self.unplayed(status)),
            misses: Vec::new(),
            gaps: None,
            repair: None,
            drift_ppm: None,
            clock: played.clock.map(|clock| Clock {
                card_ppm: None,
                card_uncertainty_ppm: None,
                ..clock
            }),
            worst: Vec::new(),
            ..played
        }
    }

    fn played(&self) -> StreamReport {
        let status = self.statistics.status.as_ref();
        let format = status.map_or(self.config.format, |status| status.stream.format);
        StreamReport {
            address: self.address.to_owned(),
            sender: status.and_then(sender),
            sender_device: self.sender_device(),
            encryption: self.sealed.map(Into::into),
            rate: format.rate.hertz(),
            channels: format.channels.count(),
            format: format.coding_name().into(),
            refused: self.wrong_type.clone(),
            played: self.wrong_type.is_none(),
            ptime_ns: format.ptime().as_nanos(),
            latency: self.latency(format),
            sampling: self.statistics.probes.name().into(),
            stages: self.stages(),
            counters: self.counters(),
            xruns: self.statistics.xruns.0.clone(),
            misses: self.statistics.misses.kept.clone(),
            gaps: Some(self.gaps()),
            repair: self.repair(),
            paths: status.map_or_else(Vec::new, |s| s.paths.report(s.stream.expected)),
            invalid: self.invalid(),
            drift_ppm: status.and_then(|s| s.stream.drift).map(Ppm::as_f64),
            clock: self.statistics.clock.map(|clock| {
                let card = status.and_then(|status| status.stream.card);
                let unsure = clock.rate_uncertainty().as_f64();
                Clock {
                    offset_ns: clock.offset().as_nanos(),
                    uncertainty_ns: self.statistics.known_to().map(Span::as_nanos),
                    round_trip_ns: clock.known_round_trip().map(Span::as_nanos),
                    rate_ppm: clock.rate().map(Ppm::as_f64),
                    rate_uncertainty_ppm: clock.rate().map(|_| unsure),
                    card_ppm: card.map(|card| card.rate.as_f64()),
                    card_uncertainty_ppm: card.map(|card| unsure + card.uncertainty().as_f64()),
                    source: clock.source.name().into(),
                }
            }),
            worst: self.statistics.worst.iter().map(worst).collect(),
            ..StreamReport::default()
        }
    }

    fn stages(&self) -> Vec<StageSummary> {
        let unsure = self.statistics.uncertainty().and_then(|unsure| unsure.p50_ns);
        let stage = |(name, distribution): (&'static str, &Distribution)| StageSummary {
            name: name.into(),
            summary: distribution.summary(),
            uncertainty_ns: unsure.filter(|_| BETWEEN_CLOCKS.contains(&name)),
        };
        self.statistics.stages().map(stage).collect()
    }

    fn not_found(&self) -> NotFound {
        let Some(RxStatus { stream, .. }) = self.statistics.status else {
            return NotFound::default();
        };
        let counted = stream.counters;
        let (played, unfound) = (self.statistics.promised.count(), self.statistics.unfound);
        let found = self.statistics.latency().0.count();
        let Unfound([silent, ambiguous, no_match, hidden]) = unfound;
        let unreported = played.saturating_sub(found + unfound.total());
        let not_sampled = self.statistics.unprobed;
        let reported = played
            + not_sampled
            + self.statistics.unmapped
            + counted.late
            + counted.underrun_discarded
            + counted.before_start
            + counted.trace_overflow
            + counted.repaired_arrived;
        NotFound {
            lost: counted.lost,
            late: counted.late,
            underrun_discarded: counted.underrun_discarded,
            before_start: counted.before_start,
            repaired: counted.repaired,
            not_played: counted.received.saturating_sub(counted.duplicate + reported),
            no_clock: self.statistics.unmapped,
            trace_overflow: counted.trace_overflow,
            not_sampled,
            silent,
            ambiguous,
            no_match,
            not_reported: hidden + unreported,
        }
    }

    fn latency(&self, format: StreamFormat) -> LatencyReport {
        let (latency, _) = self.statistics.latency();
        let basis = self.statistics.basis();
        let unsure = self.statistics.uncertainty();
        // The sound search finds whole frames.
        let rounding = format.rate.span_of(tautline_proto::time::Frames::new(1)).half();
        let rounded = |nanos: i64| nanos + rounding.as_nanos();
        LatencyReport {
            configured_ns: self.configured.then(|| self.link_offset.as_nanos()),
            presented: self.statistics.presented(),
            measured: latency.summary(),
            method: (latency.count() > 0).then(|| self.statistics.by().into()),
            not_measured: self.not_found(),
            uncertainty_ns: unsure.and_then(|unsure| unsure.p50_ns).map(rounded),
            changed_ns: self.statistics.changed_latency().map(Span::as_nanos),
            uncertainty_max_ns: unsure.and_then(|unsure| unsure.max_ns).map(rounded),
            trace_error: self.statistics.error.summary(),
            basis: match basis {
                Some(Basis::Clock) => "clock",
                Some(Basis::Arrival) => "arrival",
                None => "none",
            }
            .into(),
            loss_target: Some(f64::from(self.arrivals.loss_target().parts()) / 1e9),
            recommended_ns: self.arrivals.advised().filter(|_| self.reported).map(Span::as_nanos),
            curve: match self.reported {
                true => self.arrivals.curve().iter().map(curve_point).collect(),
                false => Vec::new(),
            },
            auto: self.rule.is_auto().then(|| self.auto()),
        }
    }

    fn auto(&self) -> Auto {
        let Journal { before, first, minimum, greatest, increases, decreases, largest_step } =
            *self.arrivals.journal();
        Auto {
            before_ns: first.map(|_| before.as_nanos()),
            first_ns: first.map(Span::as_nanos),
            last_ns: self.link_offset.as_nanos(),
            min_ns: minimum.as_nanos(),
            max_ns: greatest.as_nanos(),
            changes: increases + decreases,
            increases,
            decreases,
            largest_step_ns: largest_step.as_nanos(),
            limit_ns: self.rule.maximum().map(Span::as_nanos),
        }
    }

    pub(crate) fn gaps(&self) -> GapReport {
        let gaps = self.arrivals.gaps();
        let would_catch = |cause| {
            let caught = self.reported.then(|| self.arrivals.would_catch(cause));
            caught.flatten().map(Span::as_nanos)
        };
        GapReport {
            late_sender: gaps.late_sender,
            late_network: gaps.late_network,
            late_unattributed: gaps.late_unattributed,
            late_too_short: gaps.late_too_short,
            late_receiver: gaps.late_receiver,
            host_stalled: gaps.host_stalled,
            lost: gaps.lost,
            discarded: gaps.discarded,
            not_sent: self.statistics.misses.not_sent(),
            lost_in_outages: self.lost_in_outages().min(gaps.lost),
            sender_needs_ns: would_catch(Late::Sender),
            network_needs_ns: would_catch(Late::Network),
            unattributed_needs_ns: would_catch(Late::Unattributed),
            too_short_needs_ns: would_catch(Late::TooShort),
        }
    }

    fn sender_device(&self) -> Option<SenderDeviceReport> {
        let CaptureFaults { xruns, replaced } = self.sender_device;
        let report = SenderDeviceReport { xruns, replaced_ns: replaced.as_nanos() };
        (report != SenderDeviceReport::default()).then_some(report)
    }

    fn lost_in_outages(&self) -> u64 {
        let receiving = self.statistics.status.and_then(|status| status.stream.receiving);
        receiving.and_then(|receiving| receiving.losses).map_or(0, |losses| losses.tally.beyond)
    }

    fn repair(&self) -> Option<RepairReport> {
        let status = &self.statistics.status?.stream;
        let (window, _) = status.repair;
        let takes = self.arrivals.repair_takes()?;
        let needs = repair_latency(takes - window, window);
        // Without a late repair, this latency is enough.
        let needs = if status.late_repairs == 0 { needs.min(self.link_offset) } else { needs };
        Some(RepairReport { window_ns: window.as_nanos(), needs_ns: needs.as_nanos() })
    }

    pub(crate) fn counters(&self) -> Counters {
        let Some(RxStatus { stream, link, .. }) = &self.statistics.status else {
            return Counters::default();
        };
        let counted = &stream.counters;
        Counters {
            invalid: counted.invalid + link.truncated + self.invalid_reports,
            other_source: counted.other_source + link.foreign,
            other_source_reports: self.foreign_reports,
            rejected_exchanges: self.refused_exchanges.into(),
            clock_steps: self.clock_steps.into(),
            host_stalled: self.arrivals.host_stalled(),
            ..*counted
        }
    }

    fn unplayed(&self, status: &RxStatus) -> Counters {
        Counters {
            lost: missing(status),
            late: 0,
            repaired: 0,
            repaired_arrived: 0,
            repaired_whole: 0,
            too_early: 0,
            underrun_discarded: 0,
            before_start: 0,
            trace_overflow: 0,
            missing_frames: 0,
            concealed_frames: 0,
            skipped_frames: 0,
            resampled_frames: 0,
            resyncs: 0,
            host_stalled: 0,
            ..self.counters()
        }
    }

    fn invalid(&self) -> Vec<InvalidCount> {
        let Some(status) = &self.statistics.status else { return Vec::new() };
        let packets = Invalid::NAMES.into_iter().zip(status.stream.invalid);
        packets
            .chain([("too-long", status.link.truncated), ("report", self.invalid_reports)])
            .filter(|(_, count)| *count > 0)
            .map(|(reason, count)| InvalidCount { reason: reason.into(), count })
            .collect()
    }

    pub(crate) fn note(&self, watch: &mut RunWatch) {
        let Some(RxStatus { stream: status, .. }) = &self.statistics.status else { return };
        let (counted, address) = (&status.counters, self.address);
        if counted.auth_failed > 0 {
            watch.conclude(&Note::AuthFailed { address, datagrams: counted.auth_failed });
        }
        if counted.received == 0 || self.refusal.is_some() {
            return;
        }
        let other = status.stranger.filter(|stranger| !stranger.poses);
        if let Some(other) = other.filter(|_| counted.other_source > counted.received / 10) {
            let (packets, host) = (counted.other_source, other.from.host());
            watch.conclude(&Note::AnotherSender { address, packets, host });
        }
        let journal = self.arrivals.journal();
        if let (LatencyRule::Auto { .. }, Some(first)) = (self.rule, journal.first) {
            watch.conclude(&Note::Followed { address, journal, first, last: self.link_offset });
        }
        if self.statistics.basis() == Some(Basis::Arrival) {
            watch.conclude(&Note::PlacedByArrival { address });
        }
        let unfound = self.statistics.unfound.total();
        if unfound > counted.received / 10 && self.statistics.latency().1 {
            watch.conclude(&Note::NotFound { packets: unfound, of: counted.received });
        }
        if let Some(arrived) =
            status.other_type.filter(|arrived| arrived.packets > counted.received)
        {
            let JitterBufferConfig { wire, format, .. } = self.config;
            let (codings, format) = (wire.codings(), *format);
            let note = &ReceiveNote::WrongType(WrongType { arrived, codings, format });
            watch.conclude(&Note::Receiving { address, note });
        }
    }
}

const BETWEEN_CLOCKS: [&str; 2] = [SENDER_STAGE, Stage::Wire.name()];

fn missing(status: &RxStatus) -> u64 {
    let losses = status.stream.receiving.and_then(|receiving| receiving.losses);
    losses.map_or(0, |losses| losses.tally.missing + losses.tally.beyond)
}

fn curve_point(point: &target_delay::CurvePoint) -> LatenessPoint {
    let late_share = point.late as f64 / point.of.max(1) as f64;
    LatenessPoint { latency_ns: point.latency.as_nanos(), late_share }
}

pub(crate) fn worst(passage: &PacketTrace) -> WorstPacket {
    let stages = Stage::ALL
        .into_iter()
        .filter_map(|stage| passage.stage(stage).map(|span| (stage.name(), span)));
    let sender = passage.sender_stage().map(|span| (SENDER_STAGE, span));
    WorstPacket {
        rtp_timestamp: wrap::rtp_timestamp(passage.media.as_frames()),
        total_ns: passage.total().map(Span::as_nanos),
        stages: sender
            .into_iter()
            .chain(stages)
            .map(|(name, span)| (name.into(), span.as_nanos()))
            .collect(),
    }
}

pub(crate) fn sender(status: &RxStatus) -> Option<StreamSender> {
    let from =
        status.stream.endpoints.first().filter(|from| *from != Endpoint::UNKNOWN)?.to_string();
    Some(StreamSender { from, ssrc: status.stream.receiving?.ssrc })
}
