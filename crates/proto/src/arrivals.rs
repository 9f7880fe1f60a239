//! Arrivals of one stream: needed link offset, share of late packets, and cause of each. Not for
//! the device thread.

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

/// Configuration.
#[derive(Debug, Clone, Copy)]
pub struct ArrivalsConfig {
    /// Maximum share of late packets.
    pub loss_target: LossTarget,
    /// Settings of the playing device.
    pub device: Settings,
    /// Maximum packet age at departure, until announced.
    pub packing_age: Span,
    /// Latency before the first measurement.
    pub start: Span,
    /// Maximum latency, by the buffer.
    pub longest: Span,
}

/// Totals of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamTotals {
    /// Time of these totals.
    pub at: LocalTime,
    /// Packets late in whole or in part.
    pub late: u64,
    /// Lost packets.
    pub lost: u64,
    /// Device underruns.
    pub xruns: u64,
    /// Datagrams dropped by socket buffers.
    pub socket_drops: u64,
    /// Packets in time but replaced by the device's silence.
    pub underrun_discarded: u64,
    /// Last step of the sender that made packets late.
    pub step: Option<LateRun>,
    /// Whether late packets may be a step.
    pub may_step: bool,
    /// Faults since the last status.
    pub faults: Faults,
}

impl From<&StreamStatus> for StreamTotals {
    fn from(status: &StreamStatus) -> Self {
        let Counters { late, lost, xruns, socket_drops, underrun_discarded, .. } = status.counters;
        let StreamStatus { at, step, may_step, faults, .. } = *status;
        Self { at, late, lost, xruns, socket_drops, underrun_discarded, step, may_step, faults }
    }
}

/// Statistics and target delay.
#[derive(Debug)]
pub struct Arrivals {
    config: ArrivalsConfig,
    depth: Depth,
    advice: Advice,
    causes: Causes,
    repair: Span,
    look_ahead: Span,
    /// Device delay beyond its buffer.
    beyond: Span,
    mapped: Option<bool>,
    /// Late packets not yet compared with the totals, which may count an underrun that explains
    /// them.
    fresh: Vec<PacketTrace>,
    /// Late packets that wait for the stall monitor.
    unjudged: Vec<PacketTrace>,
    /// Lost, discarded and underruns since the last status.
    missed: [u64; 3],
    faults: UnjudgedFaults,
    /// Underruns in host stalls.
    starved_stalled: u64,
    standing: StreamTotals,
    outage: Outage,
}

/// Last time without packets. At its end, a queue may deliver packets of that time, at any age.
#[derive(Debug, Clone, Copy, Default)]
struct Outage {
    ended: Option<LocalTime>,
    newest: Option<LocalTime>,
}

impl Outage {
    /// Minimum pause, as for a path that is silent ([`crate::call::path`]). A shorter pause is
    /// jitter.
    const MIN: Span = Span::from_secs(1);

    fn follow(&mut self, arrival: LocalTime) {
        let newest = self.newest.replace(self.newest.unwrap_or(arrival).max(arrival));
        if newest.is_some_and(|newest| arrival - newest >= Self::MIN) {
            self.ended = Some(arrival);
        }
    }

    /// Whether the packet was sent before the end of the outage. No latency is long enough for such
    /// packets.
    fn has_delayed(&self, passage: &PacketTrace) -> bool {
        let Some((ended, transit)) = self.ended.zip(passage.transit()) else { return false };
        passage.arrival >= ended && passage.arrival - transit < ended
    }
}

/// Maximum late packets per list: 1 s of 1 ms packets.
const MAX: usize = 1024;

impl Arrivals {
    /// Storage grows with late packets.
    pub fn new(config: ArrivalsConfig) -> Self {
        let (takes, minimum) = limits(&config, Span::ZERO);
        let ArrivalsConfig { loss_target, start, longest, .. } = config;
        Self {
            depth: Depth::new(DepthConfig { loss_target, takes, minimum, longest, start }),
            advice: Advice::new(takes, minimum),
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
            outage: Outage::default(),
            config,
        }
    }

    /// Sets the announced packet age.
    pub fn announce(&mut self, packing_age: Span) {
        self.config.packing_age = packing_age;
        self.lay_out();
    }

    pub(crate) fn set_beyond(&mut self, beyond: Span) {
        self.beyond = beyond;
        self.lay_out();
    }

    /// Sets the initial link offset. Returns the current link offset: `offset` until measured.
    pub(crate) fn start_at(&mut self, offset: Span) -> Span {
        self.depth.start_at(offset);
        self.depth.offset()
    }

    pub(crate) fn set_max(&mut self, maximum: Option<Span>) {
        self.depth.set_max(maximum);
    }

    fn lay_out(&mut self) {
        let (takes, minimum) = limits(&self.config, self.look_ahead + self.beyond);
        self.depth.set_device(takes, minimum);
        self.advice.set_device(takes, minimum);
        self.causes.set_schedule(schedule(&self.config, takes));
    }

    /// Discards measurements.
    pub fn forget(&mut self) {
        self.depth.forget();
        self.mapped = None;
    }

    /// Adds a packet, in time or late.
    pub fn enter(&mut self, passage: &PacketTrace) {
        let Some(transit) = passage.transit() else { return };
        let mapped = passage.origin.is_some();
        if self.mapped.replace(mapped).is_some_and(|before| before != mapped) {
            // Only one of the two values includes the path delay.
            self.depth.forget();
            self.advice.forget();
        }
        self.causes.observe(passage);
        self.outage.follow(passage.arrival);
        if passage.is_late() {
            if self.fresh.len() < MAX {
                self.fresh.push(*passage);
            }
            return;
        }
        if passage.resample > self.look_ahead {
            self.look_ahead = passage.resample;
            self.lay_out();
        }
        if !self.outage.has_delayed(passage) {
            self.depth.observe(transit);
            self.advice.observe(transit);
        }
    }

    /// Adds the totals, and judges the packets late before the previous call. `stalled` reports
    /// stalls of the whole host.
    pub fn stand(
        &mut self,
        standing: StreamTotals,
        stalled: impl Fn(LocalTime, LocalTime) -> bool,
    ) {
        // A known path may explain the lateness instead.
        if self.causes.knows_the_way() {
            self.judge(&stalled);
        }
        self.close(&standing.faults, stalled);
        let before = core::mem::replace(&mut self.standing, standing);
        let lost = standing.lost.saturating_sub(before.lost);
        self.causes.lose(0, before.lost.saturating_sub(standing.lost));
        let not_received = standing.underrun_discarded.saturating_sub(before.underrun_discarded);
        let starved = standing.xruns.saturating_sub(before.xruns);
        self.missed = [lost, not_received, starved];
        // Undecided: jitter or a step.
        if standing.may_step && standing.step == before.step {
            return;
        }
        let room = MAX.saturating_sub(self.unjudged.len());
        let known = self.unjudged.len();
        // Packets and totals use different channels. Judge packets read after `at` next time.
        let (fresh, unjudged) = (&mut self.fresh, &mut self.unjudged);
        let read_before = |passage: &mut PacketTrace| passage.read <= standing.at;
        unjudged.extend(fresh.extract_if(.., read_before).take(room));
        // Another latency would not have helped.
        let by_step = |passage: &PacketTrace| {
            let within = |run: LateRun| run.from <= passage.arrival && passage.arrival <= run.to;
            standing.step.is_some_and(within)
        };
        let outage = self.outage;
        let by_network = |passage: &&PacketTrace| {
            starved == 0 && !by_step(passage) && !outage.has_delayed(passage)
        };
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

    /// At most as many as were counted.
    fn close(&mut self, faults: &Faults, stalled: impl Fn(LocalTime, LocalTime) -> bool) {
        let [lost, not_received, starved] = core::mem::take(&mut self.missed);
        let of_host = self.faults.take(faults, stalled);
        self.causes.lose(lost.min(of_host.lost.into()), 0);
        self.causes.starve(not_received, not_received.min(of_host.underrun_discarded.into()));
        self.starved_stalled += starved.min(of_host.xruns.into());
    }

    /// Judges the rest.
    pub fn finish(&mut self, stalled: impl Fn(LocalTime, LocalTime) -> bool) {
        self.unjudged.append(&mut self.fresh);
        self.judge(&stalled);
        self.close(&Faults::NONE, stalled);
    }

    /// Sets the repair time, which `lost` packets in 10⁹ need
    /// ([`crate::jitter_buffer::JitterBuffer::repair_budget`]).
    pub(crate) fn set_repair(&mut self, budget: Span, lost: u32) {
        self.depth.set_repair(budget, lost);
        self.advice.set_repair(budget, lost);
        self.repair = budget;
    }

    /// Minimum latency for every repair, without network delay. `None` without redundancy.
    pub fn repair_takes(&self) -> Option<Span> {
        let (_, minimum) = limits(&self.config, self.look_ahead + self.beyond);
        (self.repair > Span::ZERO).then(|| minimum + self.repair)
    }

    /// Updates the needed link offset.
    pub fn poll(&mut self, now: LocalTime, quiet: bool) -> Span {
        self.depth.poll(now, quiet);
        self.depth.offset()
    }

    /// Needed link offset; `None` before the first measurement.
    pub fn needed(&self) -> Option<Span> {
        self.journal().first.map(|_| self.depth.offset())
    }

    /// Whether [`Self::needed`] includes repair time.
    pub fn needs_repair(&self) -> bool {
        self.depth.has_repair()
    }

    /// History of the needed link offset.
    pub fn journal(&self) -> &Journal {
        self.depth.journal()
    }

    /// All gaps by cause.
    pub fn gaps(&self) -> Gaps {
        let StreamTotals { late, lost, socket_drops, .. } = self.standing;
        self.causes.gaps(late, lost, socket_drops)
    }

    /// Glitches caused by host stalls, including underruns.
    pub fn host_stalled(&self) -> u64 {
        self.gaps().host_stalled + self.starved_stalled
    }

    /// Latency that would have caught 99 % of the packets late for `cause`.
    pub fn would_catch(&self, cause: Late) -> Option<Span> {
        self.causes.would_catch(cause)
    }

    /// Maximum share of late packets.
    pub fn loss_target(&self) -> LossTarget {
        self.config.loss_target
    }

    /// Minimum latency that meets `Arrivals::loss_target`.
    pub fn advised(&self) -> Option<Span> {
        self.advice.advised(self.config.loss_target)
    }

    /// Share of late packets by latency.
    pub fn curve(&self) -> Vec<CurvePoint> {
        self.advice.curve()
    }
}

/// Device delay, and the minimum latency that it allows.
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
