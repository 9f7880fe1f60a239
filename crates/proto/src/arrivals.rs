//! Evaluates the packet arrivals of one stream, for an ordinary thread: the link offset they need,
//! the number of packets late at any other offset, and the cause of each late packet.

#[cfg(test)]
mod tests;

use crate::cause::{Causes, Gaps, Late, Schedule};
use crate::counters::Counters;
use crate::device::Settings;
use crate::faults::{Faults, UnjudgedFaults};
use crate::jitter_buffer::{LateRun, StreamStatus};
use crate::ledger::PacketTrace;
use crate::target_delay::{Advice, CurvePoint, Depth, DepthConfig, Journal, LossTarget};
use crate::time::{Frames, LocalTime, Span};

/// Configuration of `Arrivals`.
#[derive(Debug, Clone, Copy)]
pub struct ArrivalsConfig {
    /// Maximum share of late packets.
    pub loss_target: LossTarget,
    /// Settings of the playing device.
    pub device: Settings,
    /// Maximum age of packets at departure, used until the sender announces it.
    pub packing_age: Span,
    /// Latency before the first measurement.
    pub start: Span,
    /// Maximum latency that the buffer has room for.
    pub longest: Span,
}

/// Totals of a stream since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamTotals {
    /// Time of these totals.
    pub at: LocalTime,
    /// Packets that were late, in whole or in part.
    pub late: u64,
    /// Lost packets.
    pub lost: u64,
    /// Device underruns.
    pub xruns: u64,
    /// Datagrams dropped by full buffers of this host.
    pub socket_drops: u64,
    /// Packets that arrived in time but were not played: the device played its own silence.
    pub underrun_discarded: u64,
    /// Last step of the sender that made packets late.
    pub step: Option<LateRun>,
    /// Whether recent late packets may prove to be another step.
    pub may_step: bool,
    /// Faults since the last status, each with its own times.
    pub faults: Faults,
}

impl From<&StreamStatus> for StreamTotals {
    fn from(status: &StreamStatus) -> Self {
        let Counters { late, lost, xruns, socket_drops, underrun_discarded, .. } = status.counters;
        let StreamStatus { at, step, may_step, faults, .. } = *status;
        Self { at, late, lost, xruns, socket_drops, underrun_discarded, step, may_step, faults }
    }
}

/// Statistics and target delay of one stream's arrivals.
#[derive(Debug)]
pub struct Arrivals {
    config: ArrivalsConfig,
    depth: Depth,
    advice: Advice,
    causes: Causes,
    /// Time after the departure of a packet within which it can be repaired.
    repair: Span,
    look_ahead: Span,
    /// Device delay in addition to its own buffer.
    beyond: Span,
    /// Whether transit times use the sender's mapped clock.
    mapped: Option<bool>,
    /// Late packets that may still coincide with an underrun.
    fresh: Vec<PacketTrace>,
    /// Late packets that wait for the stall monitor.
    unjudged: Vec<PacketTrace>,
    /// Lost packets, discarded packets, and device underruns since the last status.
    missed: [u64; 3],
    faults: UnjudgedFaults,
    /// Device underruns during stalls of the whole host.
    starved_stalled: u64,
    standing: StreamTotals,
}

/// Maximum number of late packets that wait for a status: 1 s of 1 ms packets.
const MAX: usize = 1024;

impl Arrivals {
    /// Creates an empty state. The storage for late packets grows as they arrive.
    pub fn new(config: ArrivalsConfig) -> Self {
        let (takes, least) = limits(&config, Span::ZERO);
        let ArrivalsConfig { loss_target, start, longest, .. } = config;
        Self {
            depth: Depth::new(DepthConfig { loss_target, takes, least, longest, start }),
            advice: Advice::new(takes, least),
            causes: Causes::new(schedule(&config, takes)),
            repair: Span::ZERO,
            look_ahead: Span::ZERO,
            beyond: Span::ZERO,
            mapped: None,
            fresh: Vec::new(),
            unjudged: Vec::new(),
            missed: [0; 3],
            faults: UnjudgedFaults::default(),
            starved_stalled: 0,
            standing: StreamTotals::default(),
            config,
        }
    }

    /// Sets the announced age of packets at departure.
    pub fn announce(&mut self, packing_age: Span) {
        self.config.packing_age = packing_age;
        self.lay_out();
    }

    pub(crate) fn set_beyond(&mut self, beyond: Span) {
        self.beyond = beyond;
        self.lay_out();
    }

    /// Sets the initial link offset. Returns the current one, which is `offset` until the first
    /// measurement.
    pub(crate) fn start_at(&mut self, offset: Span) -> Span {
        self.depth.start_at(offset);
        self.depth.offset()
    }

    pub(crate) fn set_max(&mut self, most: Option<Span>) {
        self.depth.set_max(most);
    }

    fn lay_out(&mut self) {
        let (takes, least) = limits(&self.config, self.look_ahead + self.beyond);
        self.depth.set_device(takes, least);
        self.advice.set_device(takes, least);
        self.causes.set_schedule(schedule(&self.config, takes));
    }

    /// Discards the measurements of the previous sender.
    pub fn forget(&mut self) {
        self.depth.forget();
        self.mapped = None;
    }

    /// Adds one packet, in time or late.
    pub fn enter(&mut self, passage: &PacketTrace) {
        let Some(transit) = passage.transit() else { return };
        let mapped = passage.origin.is_some();
        if self.mapped.replace(mapped).is_some_and(|before| before != mapped) {
            // Transit times include the path delay in only one of the two cases, so they cannot be
            // mixed.
            self.depth.forget();
            self.advice.forget();
        }
        self.causes.observe(passage);
        if passage.late {
            if self.fresh.len() < MAX {
                self.fresh.push(*passage);
            }
            return;
        }
        if passage.resample > self.look_ahead {
            self.look_ahead = passage.resample;
            self.lay_out();
        }
        self.depth.observe(transit);
        self.advice.observe(transit);
    }

    /// Adds the totals of the stream. Judges the packets that were late before the previous call,
    /// because the stall monitor has run since then. `stalled` returns whether the whole host
    /// stalled between two times.
    pub fn stand(
        &mut self,
        standing: StreamTotals,
        stalled: impl Fn(LocalTime, LocalTime) -> bool,
    ) {
        // A stall is the cause only if the path does not explain the lateness. Wait until the path
        // is known.
        if self.causes.knows_the_way() {
            self.judge(&stalled);
        }
        self.close(&standing.faults, stalled);
        let before = core::mem::replace(&mut self.standing, standing);
        let lost = standing.lost.saturating_sub(before.lost);
        self.causes.lose(0, before.lost.saturating_sub(standing.lost));
        let unheard = standing.underrun_discarded.saturating_sub(before.underrun_discarded);
        let starved = standing.xruns.saturating_sub(before.xruns);
        self.missed = [lost, unheard, starved];
        // It is not decided yet whether this is jitter or a step.
        if standing.may_step && standing.step == before.step {
            return;
        }
        let room = MAX.saturating_sub(self.unjudged.len());
        let known = self.unjudged.len();
        // Packets and totals arrive via different channels. Packets read after `at` are judged next
        // time.
        let (fresh, unjudged) = (&mut self.fresh, &mut self.unjudged);
        let read_before = |passage: &mut PacketTrace| passage.read <= standing.at;
        unjudged.extend(fresh.extract_if(.., read_before).take(room));
        // Another latency would not have helped after an underrun or a step of the sender.
        let by_step = |passage: &PacketTrace| {
            let within = |run: LateRun| run.from <= passage.arrival && passage.arrival <= run.to;
            standing.step.is_some_and(within)
        };
        let by_network = |passage: &&PacketTrace| starved == 0 && !by_step(passage);
        let judged = self.unjudged[known..].iter().filter(by_network);
        for transit in judged.filter_map(PacketTrace::transit) {
            self.depth.observe(transit);
            self.advice.observe(transit);
        }
    }

    fn judge(&mut self, stalled: impl Fn(LocalTime, LocalTime) -> bool) {
        for passage in self.unjudged.drain(..) {
            self.causes.judge(&passage, &stalled);
        }
    }

    /// Judges the missed packets, at most as many as were counted. Some lost packets may have
    /// arrived since then.
    fn close(&mut self, faults: &Faults, stalled: impl Fn(LocalTime, LocalTime) -> bool) {
        let [lost, unheard, starved] = core::mem::take(&mut self.missed);
        let of_host = self.faults.take(faults, stalled);
        self.causes.lose(lost.min(of_host.lost.into()), 0);
        self.causes.starve(unheard, unheard.min(of_host.underrun_discarded.into()));
        self.starved_stalled += starved.min(of_host.xruns.into());
    }

    /// Judges all remaining packets.
    pub fn finish(&mut self, stalled: impl Fn(LocalTime, LocalTime) -> bool) {
        self.unjudged.append(&mut self.fresh);
        self.judge(&stalled);
        self.close(&Faults::NONE, stalled);
    }

    /// Sets the repair time `budget`: packets can be repaired within it after their departure.
    /// `lost` is the number of packets in 10⁹ that need it
    /// ([`crate::jitter_buffer::JitterBuffer::repair_budget`]).
    pub(crate) fn set_repair(&mut self, budget: Span, lost: u32) {
        self.depth.set_repair(budget, lost);
        self.advice.set_repair(budget, lost);
        self.repair = budget;
    }

    /// Minimum latency that leaves time for every repair on a network without delay. `None` without
    /// redundancy.
    pub fn repair_takes(&self) -> Option<Span> {
        let (_, least) = limits(&self.config, self.look_ahead + self.beyond);
        (self.repair > Span::ZERO).then(|| least + self.repair)
    }

    /// Updates and returns the link offset that the arrivals need.
    pub fn poll(&mut self, now: LocalTime, quiet: bool) -> Span {
        self.depth.poll(now, quiet);
        self.depth.offset()
    }

    /// Link offset that the arrivals need. `None` before the first measurement.
    pub fn needed(&self) -> Option<Span> {
        self.journal().first.map(|_| self.depth.offset())
    }

    /// History of that link offset.
    pub fn journal(&self) -> &Journal {
        self.depth.journal()
    }

    /// Returns all gaps by cause.
    pub fn gaps(&self) -> Gaps {
        let StreamTotals { late, lost, socket_drops, .. } = self.standing;
        self.causes.gaps(late, lost, socket_drops)
    }

    /// Number of glitches caused by stalls of this host: packets, and underruns during stalls.
    pub fn host_stalled(&self) -> u64 {
        self.gaps().host_stalled + self.starved_stalled
    }

    /// Latency at which 99 % of the packets late for `cause` would have been in time.
    pub fn would_catch(&self, cause: Late) -> Option<Span> {
        self.causes.would_catch(cause)
    }

    /// Maximum share of late packets.
    pub fn loss_target(&self) -> LossTarget {
        self.config.loss_target
    }

    /// Minimum latency at which the share of late packets meets `Arrivals::loss_target`.
    pub fn advised(&self) -> Option<Span> {
        self.advice.advised(self.config.loss_target)
    }

    /// Returns the share of late packets for each latency.
    pub fn curve(&self) -> Vec<CurvePoint> {
        self.advice.curve()
    }
}

/// Returns the delay of the device, and the minimum latency that it allows.
fn limits(config: &ArrivalsConfig, look_ahead: Span) -> (Span, Span) {
    let Settings { rate, period, periods, .. } = config.device;
    let ring = rate.span_of(Frames::new(period.count() * i64::from(periods)));
    let takes = ring + look_ahead;
    (takes, config.packing_age + takes)
}

fn schedule(config: &ArrivalsConfig, takes: Span) -> Schedule {
    let Settings { rate, period, .. } = config.device;
    Schedule { packing_age: config.packing_age, takes, period: rate.span_of(period) }
}
