//! A received stream's statistics, on the ordinary thread.

#[cfg(test)]
mod tests;

use tautline_proto::clock::{ClockMapping, ClockSource};
use tautline_proto::device::{CaptureFaults, TimestampSource};
use tautline_proto::latency::LatencyMethod;
use tautline_proto::ledger::{PacketTrace, SENDER_STAGE, Stage};
use tautline_proto::placement::Basis;
use tautline_proto::time::Span;
use tautline_report::PresentedReport;
use tautline_report::distribution::{Distribution, Summary};

use crate::monitor::levels::LevelReader;
use crate::monitor::misses::MissTimes;
use crate::monitor::observed::Observed;
use crate::monitor::sound::{FoundPacket, Unfound};
use crate::monitor::xruns::XrunTimes;
use crate::plan::probes::Probes;
use crate::receive_engine::mixer::RxStatus;

pub(crate) struct Statistics {
    stages: [Distribution; Stage::ALL.len()],
    sender: Distribution,
    /// Latency from capture to DAC, as reported by the device.
    pub(crate) promised: Distribution,
    pub(crate) timestamp_source: TimestampSource,
    pub(crate) unmapped: u64,
    placed: Option<Basis>,
    pub(crate) probes: Probes,
    seen: u64,
    pub(crate) unprobed: u64,
    pub(crate) unfound: Unfound,
    /// Latency from capture to DAC, found in the sound.
    measured: Distribution,
    pub(crate) error: Distribution,
    played_lately: Lately,
    received_lately: Lately,
    pub(crate) worst: Vec<PacketTrace>,
    pub(crate) observed: Observed<PacketTrace>,
    pub(crate) presented_after: Option<Span>,
    /// Times from arrival to presentation, and from there to the DAC.
    presented: [Distribution; 2],
    uncertainty: Distribution,
    pub(crate) clock: Option<ClockMapping>,
    pub(crate) tai_is_uncertain: bool,
    pub(crate) status: Option<RxStatus>,
    pub(crate) xruns: XrunTimes,
    pub(crate) misses: MissTimes,
    /// Whether a user changed the latency.
    pub(crate) is_changed: bool,
}

#[derive(Default)]
struct Lately {
    spans: [Span; 31],
    count: usize,
}

impl Lately {
    fn take(&mut self, span: Span) {
        self.spans[self.count % self.spans.len()] = span;
        self.count += 1;
    }

    fn median(&self) -> Option<Span> {
        let mut spans = self.spans;
        let known = &mut spans[..self.count.min(self.spans.len())];
        known.sort_unstable();
        known.get(known.len().checked_sub(1)? / 2).copied()
    }
}

/// A packet's time in the buffer, negative if late. A played packet may have a negative `device`
/// stage, but then the device thread was late, not the packet.
fn waited(passage: &PacketTrace) -> Span {
    let stage = if passage.is_late() { Stage::Device } else { Stage::Buffer };
    let late = Span::from_nanos(i64::from(passage.is_late()));
    passage.stage(stage).unwrap_or(Span::ZERO) - late
}

const WORST: usize = 10;

impl Statistics {
    pub(crate) fn new(probes: Probes, levels: LevelReader) -> Self {
        Self {
            stages: Default::default(),
            sender: Distribution::default(),
            promised: Distribution::default(),
            timestamp_source: TimestampSource::default(),
            unmapped: 0,
            placed: None,
            probes,
            seen: 0,
            unprobed: 0,
            unfound: Unfound::default(),
            measured: Distribution::default(),
            error: Distribution::default(),
            played_lately: Lately::default(),
            received_lately: Lately::default(),
            worst: Vec::with_capacity(WORST + 1),
            observed: Observed::new(levels),
            presented_after: None,
            presented: Default::default(),
            uncertainty: Distribution::default(),
            clock: None,
            tai_is_uncertain: false,
            status: None,
            xruns: XrunTimes::default(),
            misses: MissTimes::default(),
            is_changed: false,
        }
    }

    pub(crate) fn count_missed(&mut self, device: CaptureFaults) {
        if let Some(status) = &self.status {
            self.misses.take(&status.stream, device);
        }
    }

    pub(crate) fn probe(&mut self, passage: &PacketTrace) -> bool {
        if passage.is_late() {
            return self.probes != Probes::Off;
        }
        // The sender gets the latency, whichever packets are measured.
        if let Some(total) = passage.total() {
            self.played_lately.take(total);
            self.placed = Some(Basis::Clock);
        } else if self.presented_after.is_some() && passage.reference.is_some() {
            self.placed = self.status.and_then(|status| status.stream.basis).or(self.placed);
        } else {
            self.placed.get_or_insert(Basis::Arrival);
        }
        let measured = self.probes.take(self.seen);
        self.seen += 1;
        self.unprobed += u64::from(!measured);
        measured
    }

    pub(crate) fn promise(&mut self, passage: &PacketTrace) {
        let (now, at) = match passage.is_late() {
            true => (passage.read, passage.read),
            false => (passage.written, passage.dac),
        };
        self.observed.take(now, at, waited(passage), passage);
        if passage.is_late() {
            return;
        }
        if let Some((after, reference)) = self.presented_after.zip(passage.reference) {
            let presentation = reference + after;
            self.presented[0].record(presentation - passage.arrival);
            self.presented[1].record(passage.dac - presentation);
        }
        let Some(total) = passage.total() else {
            self.unmapped += 1;
            return;
        };
        self.promised.record(total);
        if let Some(known) = self.known_to() {
            self.uncertainty.record(known);
        }
    }

    /// Enters a measured packet. If it was found in the sound, its last stage ends there, so that
    /// the stages add up. Late packets only enter the list of the worst.
    pub(crate) fn enter(&mut self, passage: &PacketTrace, received: Option<&FoundPacket>) {
        let mut passage = *passage;
        if let (Some(found), Some(origin)) = (received, passage.origin) {
            passage.dac = origin.capture + found.measured;
        }
        let passage = &passage;
        if passage.is_late() {
            return self.rank(passage);
        }
        for (stage, distribution) in Stage::ALL.into_iter().zip(&mut self.stages) {
            if let Some(span) = passage.stage(stage) {
                distribution.record(span);
            }
        }
        if let Some(span) = passage.sender_stage() {
            self.sender.record(span);
        }
        self.rank(passage);
    }

    fn rank(&mut self, passage: &PacketTrace) {
        if self.worst.len() == WORST && waited(passage) >= waited(&self.worst[WORST - 1]) {
            return;
        }
        let at = self.worst.partition_point(|kept| waited(kept) <= waited(passage));
        self.worst.insert(at, *passage);
        self.worst.truncate(WORST);
    }

    pub(crate) fn found(&mut self, found: FoundPacket) {
        self.measured.record(found.measured);
        self.received_lately.take(found.measured);
        self.error.record(found.error);
    }

    pub(crate) fn recent(&self) -> Option<(Span, LatencyMethod)> {
        let (recent, method) = if self.probes == Probes::All && self.is_received() {
            (&self.received_lately, LatencyMethod::Sound)
        } else {
            (&self.played_lately, self.timestamp_source.into())
        };
        Some((recent.median()?, method))
    }

    /// Recent latency, if a user changed the latency, so that it differs from the latency of the
    /// whole run.
    pub(crate) fn changed_latency(&self) -> Option<Span> {
        self.recent().filter(|_| self.is_changed).map(|(recent, _)| recent)
    }

    /// Latency; `true` if it was measured in the sound. Otherwise the device reported it, as too
    /// few packets were found in the sound.
    pub(crate) fn latency(&self) -> (&Distribution, bool) {
        if self.is_received() { (&self.measured, true) } else { (&self.promised, false) }
    }

    pub(crate) fn by(&self) -> &'static str {
        if self.probes == Probes::Off {
            return "none";
        }
        if self.is_received() { "sound" } else { self.timestamp_source.name() }
    }

    /// Best basis by which packets were placed. A sender's clock counts even after it left.
    pub(crate) fn basis(&self) -> Option<Basis> {
        self.placed.or_else(|| self.status.and_then(|status| status.stream.basis))
    }

    /// Whether at least one packet in ten was found in the sound.
    fn is_received(&self) -> bool {
        let found = self.measured.count();
        found > 0 && 10 * found >= self.promised.count()
    }

    /// The sender clock's uncertainty; `None` for TAI that packets mark as uncertain, or that this
    /// machine does not know.
    pub(crate) fn known_to(&self) -> Option<Span> {
        let clock = self.clock.as_ref()?;
        let marked = self.status.is_some_and(|status| status.stream.counters.uncertain_clock > 0);
        let uncertain = marked || self.tai_is_uncertain;
        (clock.source != ClockSource::Tai || !uncertain).then_some(clock.uncertainty)
    }

    pub(crate) fn uncertainty(&self) -> Option<Summary> {
        self.known_to().map(|_| self.uncertainty.summary())
    }

    pub(crate) fn presented(&self) -> Option<PresentedReport> {
        let [lead, error] = self.presented.each_ref().map(Distribution::summary);
        self.presented_after.map(|_| PresentedReport { lead, error })
    }

    pub(crate) fn stages(&self) -> impl Iterator<Item = (&'static str, &Distribution)> {
        let sender = [(SENDER_STAGE, &self.sender)].into_iter();
        let stages = Stage::ALL.into_iter().map(Stage::name).zip(&self.stages);
        sender.chain(stages).filter(|(_, distribution)| distribution.count() > 0)
    }
}
