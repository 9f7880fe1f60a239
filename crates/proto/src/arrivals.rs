//! What the arrivals of one stream say of its latency: the link offset that they ask for, what would
//! have been late at another, and the cause of each late packet. For an ordinary thread.

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

/// What is set up before a stream is heard.
#[derive(Debug, Clone, Copy)]
pub struct ArrivalsConfig {
    /// The share of packets that may be late.
    pub loss_target: LossTarget,
    /// How the device runs that plays it.
    pub device: Settings,
    /// How old packets are when they leave, until their sender says so.
    pub packing_age: Span,
    /// The latency until something is measured.
    pub start: Span,
    /// The longest there is room for.
    pub longest: Span,
}

/// How a stream stands: totals since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamTotals {
    /// As of then.
    pub at: LocalTime,
    /// Packets that came too late, wholly or in part.
    pub late: u64,
    /// Packets that never came.
    pub lost: u64,
    /// Times that the device starved.
    pub starved: u64,
    /// Datagrams that found a buffer of this host full.
    pub dropped: u64,
    /// Packets that were here in time and fell into silence of the device's own.
    pub unheard: u64,
    /// The last step of the sender that made packets late.
    pub step: Option<LateRun>,
    /// Whether late packets may prove to be late by another.
    pub may_step: bool,
    /// What went wrong since the last time, each fault by its own instants.
    pub faults: Faults,
}

impl From<&StreamStatus> for StreamTotals {
    fn from(status: &StreamStatus) -> Self {
        let Counters { late, lost, xruns: starved, socket_drops: dropped, unheard, .. } =
            status.counters;
        let StreamStatus { at, step, may_step, faults, .. } = *status;
        Self { at, late, lost, starved, dropped, unheard, step, may_step, faults }
    }
}

/// The arrivals of one stream.
#[derive(Debug)]
pub struct Arrivals {
    config: ArrivalsConfig,
    depth: Depth,
    advice: Advice,
    causes: Causes,
    /// Time after its own departure in which a packet may be brought back.
    repair: Span,
    look_ahead: Span,
    /// What the device takes beyond its own buffer.
    beyond: Span,
    /// Whether transits are reckoned from the mapped clock of the sender.
    mapped: Option<bool>,
    /// Late packets of which it is not known yet whether the device starved meanwhile.
    fresh: Vec<PacketTrace>,
    /// Late packets that wait for the witness's word.
    unjudged: Vec<PacketTrace>,
    /// Packets lost and unheard, and times that the device starved, since the last time.
    missed: [u64; 3],
    faults: UnjudgedFaults,
    /// Times that the device starved while the whole host stood still.
    starved_stalled: u64,
    standing: StreamTotals,
}

/// Late packets that may wait for a status: a second of 1 ms packets.
const MOST: usize = 1024;

impl Arrivals {
    /// Nothing has arrived yet. Late packets take room as they come.
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

    /// How old packets are when they leave, by their sender's word.
    pub fn announce(&mut self, packing_age: Span) {
        self.config.packing_age = packing_age;
        self.lay_out();
    }

    pub(crate) fn set_beyond(&mut self, beyond: Span) {
        self.beyond = beyond;
        self.lay_out();
    }

    /// The link offset, which is `offset` as long as nothing is measured.
    pub(crate) fn start_at(&mut self, offset: Span) -> Span {
        self.depth.start_at(offset);
        self.depth.offset()
    }

    pub(crate) fn set_most(&mut self, most: Option<Span>) {
        self.depth.set_most(most);
    }

    fn lay_out(&mut self) {
        let (takes, least) = limits(&self.config, self.look_ahead + self.beyond);
        self.depth.set_device(takes, least);
        self.advice.set_device(takes, least);
        self.causes.set_schedule(schedule(&self.config, takes));
    }

    /// Another sender is heard: what was measured of the one before holds no more.
    pub fn forget(&mut self) {
        self.depth.forget();
        self.mapped = None;
    }

    /// Takes one packet, in time or late.
    pub fn enter(&mut self, passage: &PacketTrace) {
        let Some(transit) = passage.transit() else { return };
        let mapped = passage.origin.is_some();
        if self.mapped.replace(mapped).is_some_and(|before| before != mapped) {
            // The path's own delay is in the ones and not in the others.
            self.depth.forget();
            self.advice.forget();
        }
        self.causes.observe(passage);
        if passage.late {
            if self.fresh.len() < MOST {
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

    /// Takes how the stream stands. What was late before the last time is judged: a witness has run
    /// since, and `stalled` tells whether the whole host stood still between two instants.
    pub fn stand(
        &mut self,
        standing: StreamTotals,
        stalled: impl Fn(LocalTime, LocalTime) -> bool,
    ) {
        // A stall is blamed for what the way itself does not explain, once that is known.
        if self.causes.knows_the_way() {
            self.judge(&stalled);
        }
        self.close(&standing.faults, stalled);
        let before = core::mem::replace(&mut self.standing, standing);
        let lost = standing.lost.saturating_sub(before.lost);
        self.causes.lose(0, before.lost.saturating_sub(standing.lost));
        let unheard = standing.unheard.saturating_sub(before.unheard);
        let starved = standing.starved.saturating_sub(before.starved);
        self.missed = [lost, unheard, starved];
        // Whether these are jitter or a step is not decided yet.
        if standing.may_step && standing.step == before.step {
            return;
        }
        let room = MOST.saturating_sub(self.unjudged.len());
        let known = self.unjudged.len();
        // What was read after that is judged next time: packets and standing come by ways of their own.
        let (fresh, unjudged) = (&mut self.fresh, &mut self.unjudged);
        let read_before = |passage: &mut PacketTrace| passage.read <= standing.at;
        unjudged.extend(fresh.extract_if(.., read_before).take(room));
        // Neither if the device starved nor if the sender stepped would another latency have helped.
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

    /// Judges what was missed, and no more of it than is counted: what was lost may have come since.
    fn close(&mut self, faults: &Faults, stalled: impl Fn(LocalTime, LocalTime) -> bool) {
        let [lost, unheard, starved] = core::mem::take(&mut self.missed);
        let of_host = self.faults.take(faults, stalled);
        self.causes.lose(lost.min(of_host.lost.into()), 0);
        self.causes.starve(unheard, unheard.min(of_host.unheard.into()));
        self.starved_stalled += starved.min(of_host.starved.into());
    }

    /// The last word: what is not judged yet is.
    pub fn finish(&mut self, stalled: impl Fn(LocalTime, LocalTime) -> bool) {
        self.unjudged.append(&mut self.fresh);
        self.judge(&stalled);
        self.close(&Faults::NONE, stalled);
    }

    /// What packets carry of others may bring a lost one back within `budget` of its own departure;
    /// so many in 10⁹ do not come by themselves ([`crate::jitter_buffer::JitterBuffer::repair_budget`]).
    pub(crate) fn set_repair(&mut self, budget: Span, lost: u32) {
        self.depth.set_repair(budget, lost);
        self.advice.set_repair(budget, lost);
        self.repair = budget;
    }

    /// The least latency at which all that packets carry can still repair, on a network that takes
    /// no time; `None` where they carry nothing.
    pub fn repair_takes(&self) -> Option<Span> {
        let (_, least) = limits(&self.config, self.look_ahead + self.beyond);
        (self.repair > Span::ZERO).then(|| least + self.repair)
    }

    /// Moves the link offset on that arrivals ask for; that is what it says then.
    pub fn poll(&mut self, now: LocalTime, quiet: bool) -> Span {
        self.depth.poll(now, quiet);
        self.depth.offset()
    }

    /// The link offset that arrivals ask for, once they were measured.
    pub fn needed(&self) -> Option<Span> {
        self.journal().first.map(|_| self.depth.offset())
    }

    /// What became of that link offset.
    pub fn journal(&self) -> &Journal {
        self.depth.journal()
    }

    /// Every gap under its cause.
    pub fn gaps(&self) -> Gaps {
        let StreamTotals { late, lost, dropped, .. } = self.standing;
        self.causes.gaps(late, lost, dropped)
    }

    /// What the host answers for of all that spoils sound: the packets that count as its, and the times that
    /// the device starved while it stood still.
    pub fn host_stalled(&self) -> u64 {
        self.gaps().host_stalled + self.starved_stalled
    }

    /// The latency that would have caught 99 of 100 of those that were late for this cause.
    pub fn would_catch(&self, cause: Late) -> Option<Span> {
        self.causes.would_catch(cause)
    }

    /// The share of packets that may be late.
    pub fn loss_target(&self) -> LossTarget {
        self.config.loss_target
    }

    /// The least latency at which no more than that would have been late.
    pub fn advised(&self) -> Option<Span> {
        self.advice.advised(self.config.loss_target)
    }

    /// What would have been late, latency by latency.
    pub fn curve(&self) -> Vec<CurvePoint> {
        self.advice.curve()
    }
}

/// What the device takes, and the least latency that it allows.
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
