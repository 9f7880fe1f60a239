//! Report row of a stream: figures from packet logs, uncertainty from the receiver's report.

use tautline_proto::time::{LocalTime, Span};
use tautline_report::ledger::{LedgerPacket, ReceivedPacket, STAGES, SentPacket, length, lengths};
use tautline_report::{Counters, NotFound, StageSummary, StreamReport};

use super::{CarriedShape, LabStream, StreamOutcome};
use crate::report::{Points, ReportRow};
use crate::statistics::{Missed, Series};

impl StreamOutcome {
    /// Measures capture to DAC. Invalid if nothing was found in the sound.
    pub fn row(&self, name: impl Into<String>) -> ReportRow {
        let mut row = self.row_of_misses(name);
        if row.measured.as_ref().is_none_or(|measured| measured.count == 0) {
            row.invalid = Some(self.unmeasured());
        }
        row
    }

    /// The row is valid even without a measurement, as with several mixed streams.
    pub(crate) fn row_of_misses(&self, name: impl Into<String>) -> ReportRow {
        let counted = self.counted();
        let stream = self.stream();
        let values = counted.iter().filter_map(|(due, packet)| Some((*due, packet.measured?)));
        let mut series = Series::with_room(counted.len());
        values.for_each(|(due, value)| series.push(due, Span::from_nanos(value)));
        let mut row = ReportRow::named(name).with(&series);
        row.conditions = self.conditions();
        row.uncertainty = self.uncertainty();
        row.configured = stream.and_then(|one| one.latency.configured_ns).map(Span::from_nanos);
        row.missed = self.missed(&counted);
        let never_sent = self.never_sent(&counted);
        if row.missed.is_some_and(|missed| missed.missed > 0) {
            self.missed_by(&counted).notify(&mut row);
        }
        // Packet logs lack the times of stalls.
        if let Some(frozen) = stream.map(frozen).filter(|count| *count > 0) {
            row.add("host_stalled", "missed in host stalls, whole run", frozen);
        }
        let received = counted.iter().filter(|(_, packet)| packet.is_received()).count();
        let not_found = received.saturating_sub(series.values().len());
        if not_found > 0 {
            row.add("unmeasured", "received, not measured", not_found);
            if let Some(why) = stream.and_then(whys) {
                row.add("unmeasured_reasons", "not measured, by reason, whole run", why);
            }
        }
        row.stages = stages(&counted, stream);
        row.stream = self.by_second(&counted);
        row.points = points(&counted);
        for worst in &mut row.worst {
            let at = series.begin().map(|begin| begin + Span::from_nanos(worst.at_ns));
            let found = counted.iter().find(|(due, _)| Some(*due) == at);
            if let Some((_, packet)) = found {
                worst.made_of(lengths(&packet.instants()));
            }
        }
        row.meanwhile = self.meanwhile(&counted);
        row.events = self.xruns(&counted);
        row.events.extend(never_sent.events());
        self.write_unread(&mut row);
        // Missing log lines would count as misses.
        row.invalid = self.unwritten();
        row.invalid = row.invalid.or_else(|| self.refused.clone());
        let wire = row.stages.iter().find(|stage| stage.name == "wire");
        let wire = wire.and_then(|wire| wire.summary.p50_ns);
        row.invalid = row.invalid.take().or_else(|| self.untimely(wire));
        self.write_clocks(&mut row, &counted);
        if !self.received.host.scheduler.is_empty() {
            row.add("scheduler", "receiver ran as", &*self.received.host.scheduler);
        }
        row
    }

    fn conditions(&self) -> Option<String> {
        let StreamReport { format, rate, channels, clock, .. } = self.stream()?;
        let CarriedShape { period, periods, ptime, .. } = self.shape;
        let [input, output] = self.devices.each_ref().map(|device| match device.as_deref() {
            None => "virtual card",
            Some(device) => device,
        });
        let clocks = match clock.as_ref().map(|clock| &*clock.source) {
            Some("host") => "one clock".to_owned(),
            Some(source) => format!("two clocks, compared via {source}"),
            None => "unknown clock of the sender".to_owned(),
        };
        Some(format!(
            "{input} to {output}, {periods} periods of {period} frames; {format}, {rate} Hz, {channels} channels, \
             {ptime} per packet; {clocks}"
        ))
    }

    /// Lateness of both device threads. The receiver's is relative to its best wake-up, as its due
    /// time is unknown.
    pub fn wake_ups(&self) -> [Series; 2] {
        let mut counted = self.counted();
        // Late packets missed their line's time. Only a block's first packet has its wake-up.
        counted.retain(|(_, packet)| !packet.late);
        let last = STAGES.len() - 1;
        let blocks = [1, last].map(|at| {
            let mut first = counted.clone();
            first.dedup_by_key(|(_, packet)| packet.instants()[at]);
            first
        });
        let stage = |at: usize, counted: &[(LocalTime, ReceivedPacket)]| {
            let length = move |(due, packet): &(LocalTime, ReceivedPacket)| {
                Some((*due, length(&packet.instants(), at)?))
            };
            counted.iter().filter_map(length).collect::<Vec<_>>()
        };
        let (filled, left) = (stage(0, &blocks[0]), stage(last, &blocks[1]));
        let minimum = filled.iter().map(|(_, length)| *length).min().unwrap_or(0);
        let maximum = left.iter().map(|(_, length)| *length).max().unwrap_or(0);
        let later = |(due, length): (LocalTime, i64)| Some((due, length.checked_sub(minimum)?));
        let sender = filled.into_iter().filter_map(later).collect();
        let less = |(due, length): (LocalTime, i64)| Some((due, maximum.checked_sub(length)?));
        let receiver = left.into_iter().filter_map(less).collect();
        [sender, receiver].map(|late: Vec<(LocalTime, i64)>| {
            let mut series = Series::with_room(late.len());
            late.into_iter().for_each(|(due, late)| series.push(due, Span::from_nanos(late)));
            series
        })
    }

    pub(crate) fn unmeasured(&self) -> String {
        let stream = self.stream();
        if let Some(refused) = stream.and_then(|one| one.refused.clone()) {
            return refused;
        }
        if stream.is_some_and(|one| one.counters.received == 0) {
            return "no packet arrived\nhint: check the firewall and --at".into();
        }
        match stream.and_then(whys) {
            Some(whys) => format!("no packet was found in the sound: {whys}"),
            None => {
                "no packet was found in the sound\nhint: measure this output with taut lab delay"
                    .into()
            }
        }
    }

    /// Whether misses prevented any measurement. Such a row is valid.
    pub(crate) fn is_unmeasured_by_misses(&self, row: &ReportRow) -> bool {
        let unmeasured = row.measured.as_ref().is_none_or(|measured| measured.count == 0);
        let missed = row.missed.is_some_and(|missed| missed.missed > 0);
        unmeasured && missed && self.unwritten().is_none() && self.refused.is_none()
    }

    fn unwritten(&self) -> Option<String> {
        [&self.sent, &self.received]
            .into_iter()
            .find_map(|report| report.incomplete_files.first())
            .cloned()
    }

    pub(super) fn refusal(&self, requested: &[Option<String>; 2]) -> Option<String> {
        let mut both = [&self.sent, &self.received].into_iter().zip(requested);
        both.find_map(|(report, requested)| {
            requested.as_ref()?;
            report.host.refused.priority.clone()
        })
    }

    /// Per end; `None` if the plan disables the monitor.
    pub(super) fn stalls(&self, plan: &LabStream) -> [Option<u64>; 2] {
        let ends = [(&self.sent, &plan.send), (&self.received, &plan.recv)];
        ends.map(|(report, words)| {
            let watched = !words.iter().any(|word| word == "--no-stall-monitor");
            (!report.role.is_empty()).then_some(report.host.stalls).filter(|_| watched)
        })
    }

    pub fn counted_at_receiver(&self, count: fn(&Counters) -> u64) -> u64 {
        self.received.streams.iter().map(|stream| count(&stream.counters)).sum()
    }

    pub fn streams_received(&self) -> usize {
        self.received.streams.iter().filter(|stream| stream.counters.received > 0).count()
    }

    pub fn frozen(&self) -> u64 {
        self.received.streams.iter().map(frozen).sum()
    }

    /// Packets from settling to the sender's end. For AVTP with an unreliable clock, the sender's
    /// log has the capture times.
    pub(crate) fn counted(&self) -> Vec<(LocalTime, ReceivedPacket)> {
        let received = || self.arrivals.iter().filter(|packet| packet.stream == 0);
        let known = received().filter(|packet| packet.sender[0].is_some()).count();
        let by_sender = known * 2 < received().count();
        let sent = by_sender.then(|| self.sent_at(|packet| packet.capture));
        let captured = |packet: &ReceivedPacket| match &sent {
            Some(sent) => sent.get(&packet.timestamp).copied(),
            None => packet.sender[0],
        };
        let at = |nanos: i64| LocalTime::ZERO + Span::from_nanos(nanos);
        let mut packets: Vec<_> =
            received().filter_map(|packet| Some((at(captured(packet)?), *packet))).collect();
        packets.sort_by_key(|(due, _)| *due);
        let Some(begin) = packets.first().map(|(due, _)| *due + self.settle) else {
            return packets;
        };
        packets.retain(|(due, _)| *due >= begin);
        packets
    }

    pub(crate) fn missed(&self, counted: &[(LocalTime, ReceivedPacket)]) -> Option<Missed> {
        let first = counted.first()?.1.timestamp;
        // The receiver ran longer than the sender.
        let left = |packet: &SentPacket| packet.timestamp == first;
        let due = self.departures.iter().position(left).map_or(0, |at| self.departures.len() - at);
        let received = counted.iter().filter(|(_, packet)| packet.is_received()).count().min(due);
        let never_sent = self.never_sent(counted).count();
        Some(Missed::of((due - received) as u64 + never_sent, due as u64 + never_sent))
    }
}

fn frozen(stream: &StreamReport) -> u64 {
    stream.gaps.map_or(0, |gaps| gaps.host_stalled)
}

fn stages(
    counted: &[(LocalTime, ReceivedPacket)],
    stream: Option<&StreamReport>,
) -> Vec<StageSummary> {
    let uncertainty =
        |name: &str| stream?.stages.iter().find(|stage| stage.name == name)?.uncertainty_ns;
    let each = STAGES.iter().enumerate().filter_map(|(at, name)| {
        let mut series = Series::with_room(counted.len());
        for (due, packet) in counted {
            // Another machine's file may contain anything.
            if let Some(length) = length(&packet.instants(), at) {
                series.push(*due, Span::from_nanos(length));
            }
        }
        let summary = series.summary();
        (summary.count > 0).then(|| StageSummary {
            name: (*name).into(),
            summary,
            uncertainty_ns: uncertainty(name),
        })
    });
    each.collect()
}

fn points(counted: &[(LocalTime, ReceivedPacket)]) -> Vec<Points> {
    let Some((begin, _)) = counted.first() else { return Vec::new() };
    let packets = counted.iter().map(|(due, one)| ((*due - *begin).as_nanos(), one.instants()));
    Points::of_stages(packets)
}

fn whys(stream: &StreamReport) -> Option<String> {
    let NotFound {
        no_match,
        silent,
        ambiguous,
        not_reported: unreported,
        not_sampled,
        no_clock,
        trace_overflow,
        ..
    } = stream.latency.not_measured;
    let counted = [
        (no_match, "not found (gap or glitch)"),
        (silent, "in silence"),
        (ambiguous, "in repeating sound"),
        (unreported, "not reported by the device"),
        (not_sampled, "not sampled"),
        (no_clock, "without capture time"),
        (trace_overflow, "not logged"),
    ];
    let counted = counted.iter().filter(|(count, _)| *count > 0);
    let all: Vec<_> = counted.map(|(count, words)| format!("{count} {words}")).collect();
    (!all.is_empty()).then(|| all.join(", "))
}
