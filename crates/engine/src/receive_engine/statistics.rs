//! The statistics of one received stream, kept by the ordinary thread.

#[cfg(test)]
mod tests;

use tautline_proto::clock::{ClockMapping, ClockSource};
use tautline_proto::device::TimestampSource;
use tautline_proto::ledger::{PacketTrace, SENDER_STAGE, Stage};
use tautline_proto::placement::Basis;
use tautline_proto::time::Span;
use tautline_report::PresentedReport;
use tautline_report::distribution::{Distribution, Summary};

use crate::monitor::levels::LevelReader;
use crate::monitor::observed::Observed;
use crate::monitor::sound::{FoundPacket, Unfound};
use crate::monitor::xruns::XrunTimes;
use crate::plan::probes::Probes;
use crate::receive_engine::mixer::RxStatus;

/// The stages of a packet's way as distributions, and its worst packets.
pub(crate) struct Statistics {
    stages: [Distribution; Stage::ALL.len()],
    /// All before the arrival, where the sender's instants are unknown.
    sender: Distribution,
    /// Capture to DAC by the statistics.
    pub(crate) promised: Distribution,
    /// Whose word the latter end is.
    pub(crate) timestamp_source: TimestampSource,
    /// Packets that were played while their capture was not known.
    pub(crate) unmapped: u64,
    /// What packets were placed by that were played, measured or not: the best of it.
    placed: Option<Basis>,
    /// How many packets are measured, of those that were played.
    pub(crate) probes: Probes,
    seen: u64,
    /// Packets that were played and not measured.
    pub(crate) unprobed: u64,
    /// Packets that were looked for in the sound and not found.
    pub(crate) unfound: Unfound,
    /// Capture to DAC by the sound.
    measured: Distribution,
    /// The latter less the former.
    pub(crate) error: Distribution,
    played_lately: Lately,
    heard_lately: Lately,
    pub(crate) worst: Vec<PacketTrace>,
    /// For those who look while it runs.
    pub(crate) observed: Observed<PacketTrace>,
    /// Capture to the presentation that packets tell, if they do.
    pub(crate) presented_after: Option<Span>,
    /// Arrival to that presentation, and from there to the DAC.
    presented: [Distribution; 2],
    /// How sure the mapping was as each packet was played.
    uncertainty: Distribution,
    pub(crate) clock: Option<ClockMapping>,
    pub(crate) status: Option<RxStatus>,
    /// When its device starved.
    pub(crate) xruns: XrunTimes,
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

/// How long a packet waited for its turn; below zero is by how much a late one missed it.
fn waited(passage: &PacketTrace) -> Span {
    let stage = if passage.late { Stage::Device } else { Stage::Buffer };
    let late = Span::from_nanos(i64::from(passage.late));
    passage.stage(stage).unwrap_or(Span::ZERO) - late
}

/// Packets kept for the list of the worst.
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
            heard_lately: Lately::default(),
            worst: Vec::with_capacity(WORST + 1),
            observed: Observed::new(levels),
            presented_after: None,
            presented: Default::default(),
            uncertainty: Distribution::default(),
            clock: None,
            status: None,
            xruns: XrunTimes::default(),
        }
    }

    /// Whether this packet, which was played or came too late, is to be measured.
    pub(crate) fn probe(&mut self, passage: &PacketTrace) -> bool {
        if passage.late {
            return self.probes != Probes::Off;
        }
        // What it takes is told to the sender, whoever measures.
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

    /// Takes the device's word for when one packet will be heard.
    pub(crate) fn promise(&mut self, passage: &PacketTrace) {
        // Whoever looks now is not to wait until it was found in the sound.
        let (now, at) = match passage.late {
            true => (passage.read, passage.read),
            false => (passage.written, passage.dac),
        };
        self.observed.take(now, at, waited(passage), passage);
        if passage.late {
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

    /// Enters one packet, once it is known when it was heard: `heard` is then its end instead of
    /// what was promised, so that the stages add up to what is measured. A late one was not heard,
    /// and is no more than one of the worst.
    pub(crate) fn enter(&mut self, passage: &PacketTrace, heard: Option<&FoundPacket>) {
        let mut passage = *passage;
        if let (Some(found), Some(origin)) = (heard, passage.origin) {
            passage.dac = origin.capture + found.measured;
        }
        let passage = &passage;
        if passage.late {
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

    /// Keeps the packets that were late by the most, and those that waited least.
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
        self.heard_lately.take(found.measured);
        self.error.record(found.error);
    }

    /// The median latency of the newest packets, from the sound if it is heard.
    pub(crate) fn recent(&self) -> Option<Span> {
        // Of one packet in 64, the newest that were found are old.
        let recent = if self.probes == Probes::All && self.is_heard() {
            &self.heard_lately
        } else {
            &self.played_lately
        };
        recent.median()
    }

    /// The latency from the sound, and whether it is: where no card can listen, or where so few
    /// packets were found that they say nothing of the others (a tone repeats itself), from the
    /// statistics.
    pub(crate) fn latency(&self) -> (&Distribution, bool) {
        if self.is_heard() { (&self.measured, true) } else { (&self.promised, false) }
    }

    /// Whose word the latency is.
    pub(crate) fn by(&self) -> &'static str {
        if self.probes == Probes::Off {
            return "none";
        }
        if self.is_heard() { "sound" } else { self.timestamp_source.name() }
    }

    /// What packets were placed by; a sender's clock that was known stays so when the sender is gone.
    pub(crate) fn basis(&self) -> Option<Basis> {
        self.placed.or_else(|| self.status.and_then(|status| status.stream.basis))
    }

    /// Whether one packet in ten at least was found in the sound.
    fn is_heard(&self) -> bool {
        let found = self.measured.count();
        found > 0 && 10 * found >= self.promised.count()
    }

    /// How sure the sender's clock is; unknown if that is TAI and packets said that it is not to be relied upon.
    pub(crate) fn known_to(&self) -> Option<Span> {
        let clock = self.clock.as_ref()?;
        let uncertain = self.status.is_some_and(|status| status.stream.counters.uncertain > 0);
        (clock.source != ClockSource::Tai || !uncertain).then_some(clock.uncertainty)
    }

    /// How sure the clocks were while packets were played; nothing where that is not known of all of them.
    pub(crate) fn uncertainty(&self) -> Option<Summary> {
        self.known_to().map(|_| self.uncertainty.summary())
    }

    /// What packets that tell their presentation came to against that.
    pub(crate) fn presented(&self) -> Option<PresentedReport> {
        let [lead, off] = self.presented.each_ref().map(Distribution::summary);
        self.presented_after.map(|_| PresentedReport { lead, off })
    }

    /// The stages that are known, in the order of travel, with their names.
    pub(crate) fn stages(&self) -> impl Iterator<Item = (&'static str, &Distribution)> {
        let sender = [(SENDER_STAGE, &self.sender)].into_iter();
        let stages = Stage::ALL.into_iter().map(Stage::name).zip(&self.stages);
        sender.chain(stages).filter(|(_, distribution)| distribution.count() > 0)
    }
}
