//! The books of one received stream, kept by the ordinary thread from what the device's thread
//! tells it.

use tautline_io::stall::StallWitness;
use tautline_proto::clock::ClockMapping;
use tautline_proto::ledger::{Passage, Stage};
use tautline_proto::time::Span;

use crate::distribution::Distribution;
use crate::rx::RxStatus;
use crate::sound::Found;

/// The stages of a packet's way as distributions, and its worst packets.
pub(crate) struct Books {
    stages: [Distribution; Stage::ALL.len()],
    /// All before the arrival, where the sender's instants are unknown.
    sender: Distribution,
    /// Capture to DAC by the books.
    promised: Distribution,
    /// Capture to DAC by the sound.
    measured: Distribution,
    /// The latter less the former.
    error: Distribution,
    worst: Vec<Passage>,
    pub(crate) packets: u64,
    pub(crate) clock: Option<ClockMapping>,
    pub(crate) status: Option<RxStatus>,
    pub(crate) host_stalled: u64,
}

/// Packets kept for the list of the worst.
const WORST: usize = 10;

impl Books {
    pub(crate) fn new() -> Self {
        Self {
            stages: Default::default(),
            sender: Distribution::default(),
            promised: Distribution::default(),
            measured: Distribution::default(),
            error: Distribution::default(),
            worst: Vec::with_capacity(WORST + 1),
            packets: 0,
            clock: None,
            status: None,
            host_stalled: 0,
        }
    }

    /// Enters one packet that was played.
    pub(crate) fn enter(&mut self, passage: &Passage) {
        self.packets += 1;
        for (stage, distribution) in Stage::ALL.into_iter().zip(&mut self.stages) {
            if let Some(span) = passage.stage(stage) {
                distribution.record(span);
            }
        }
        if let Some(span) = passage.sender_stage() {
            self.sender.record(span);
        }
        if let Some(total) = passage.total() {
            self.promised.record(total);
        }
        self.rank(passage);
    }

    /// Keeps the packets that came closest to being late: those that waited least.
    fn rank(&mut self, passage: &Passage) {
        let waited = |p: &Passage| p.stage(Stage::Buffer).unwrap_or(Span::ZERO);
        if self.worst.len() == WORST && waited(passage) >= waited(&self.worst[WORST - 1]) {
            return;
        }
        let at = self.worst.partition_point(|kept| waited(kept) <= waited(passage));
        self.worst.insert(at, *passage);
        self.worst.truncate(WORST);
    }

    /// Enters one packet that was found in the sound.
    pub(crate) fn found(&mut self, found: Found) {
        self.measured.record(found.measured);
        self.error.record(found.error);
    }

    /// Takes how the stream stands, and lays what went wrong since the last time at the host's door
    /// if all its cores stalled then.
    pub(crate) fn stand(&mut self, status: RxStatus, witness: &StallWitness) {
        let faults = |s: &RxStatus| s.counters.late + s.counters.lost + s.xruns;
        let before = self.status.replace(status);
        let (since, counted) = before.map_or((status.at, 0), |b| (b.at, faults(&b)));
        let new = faults(&status).saturating_sub(counted);
        if new > 0 && witness.overlaps(since - REACH, status.at) {
            self.host_stalled += new;
        }
    }

    /// The latency from the sound, and whether it is: where no card can listen, from the books.
    pub(crate) fn latency(&self) -> (&Distribution, bool) {
        if self.measured.count() > 0 { (&self.measured, true) } else { (&self.promised, false) }
    }

    pub(crate) fn error(&self) -> &Distribution {
        &self.error
    }

    /// The stages that are known, in the order of travel, with their names.
    pub(crate) fn stages(&self) -> impl Iterator<Item = (&'static str, &Distribution)> {
        let sender = [("sender", &self.sender)].into_iter();
        let stages = Stage::ALL.into_iter().map(Stage::name).zip(&self.stages);
        sender.chain(stages).filter(|(_, distribution)| distribution.count() > 0)
    }

    pub(crate) fn worst(&self) -> &[Passage] {
        &self.worst
    }
}

/// A stall does its harm for as long after it as packets wait in queues.
const REACH: Span = Span::from_millis(50);

