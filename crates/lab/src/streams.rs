//! Runs a stream between two hosts as users do, with report and packet log of each end.

mod alike;
mod by_second;
mod clocks;
mod losses;
mod machines;
mod messages;
mod row;
#[cfg(test)]
pub(crate) mod tests;
mod unsent;

use core::time::Duration;
use std::net::IpAddr;
use std::time::Instant;

use tautline_dsp::format::SampleFormat;
use tautline_proto::device::Settings;
use tautline_proto::latency::{LatencySum, min_latency};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_report::ledger::{self, ReceivedPacket, SentPacket};
use tautline_report::{Counters, Report, StreamReport};

use crate::hosts::{
    ChildEnded, ChildLimits, ChildState, ChildUsage, HostError, HostPlace, LONGEST_NOISE, LabHost,
    UsedBetween,
};
use crate::report::HostDescription;
pub use clocks::MAX_UNSURE;
use machines::MachineSamplers;
pub(crate) use machines::XRUNS;
pub use machines::{SampledMachines, SampledQuantity};
pub use messages::LabWire;
use messages::StreamPath;

#[derive(Debug, Clone)]
pub struct LabStream {
    pub rate: u32,
    pub period: u32,
    pub periods: u32,
    pub ptime: Span,
    pub latency: Span,
    /// Schedulers of sender and receiver; default as `taut`.
    pub schedulers: [Option<String>; 2],
    /// Number of copies: receivers in one program, destinations of the same sender. Copies are only
    /// counted.
    pub copies: u16,
    /// Costs time, but is the source of all figures except CPU time.
    pub ledgers: bool,
    /// Packets count after this time, at least 1 s: streams start and servos lock.
    pub settle: Span,
    pub duration: Span,
    /// Default: noise on a virtual card.
    pub input: Option<String>,
    pub output: Option<String>,
    pub wire: LabWire,
    pub at: Option<IpAddr>,
    pub cpus: [Vec<usize>; 2],
    /// A row with a greater one-way uncertainty is invalid; `None` accepts any.
    pub max_uncertainty: Option<Span>,
    pub limits: Option<ChildLimits>,
    /// Replaces `taut send`; destination, duration and packet log are added.
    pub instead: Option<Vec<String>>,
    pub send: Vec<String>,
    pub recv: Vec<String>,
}

impl Default for LabStream {
    fn default() -> Self {
        Self {
            rate: 48_000,
            period: 48,
            periods: 2,
            ptime: Span::from_millis(1),
            latency: Span::from_millis(5),
            schedulers: [None, None],
            copies: 1,
            ledgers: true,
            settle: SETTLE,
            duration: Span::from_secs(10),
            input: None,
            output: None,
            wire: LabWire::default(),
            at: None,
            cpus: [Vec::new(), Vec::new()],
            max_uncertainty: None,
            limits: None,
            instead: None,
            send: Vec::new(),
            recv: Vec::new(),
        }
    }
}

#[derive(Debug, Clone)]
pub struct StreamOutcome {
    pub sent: Report,
    pub received: Report,
    pub departures: Vec<SentPacket>,
    pub arrivals: Vec<ReceivedPacket>,
    /// CPU usage of sender and receiver while packets count; `None` if unreadable.
    pub used: [Option<UsedBetween>; 2],
    pub machines: SampledMachines,
    pub refused: Option<String>,
    pub shape: CarriedShape,
    /// Devices of sender and receiver; absent for virtual cards.
    pub devices: [Option<String>; 2],
    pub settle: Span,
    pub max_uncertainty: Option<Span>,
}

impl StreamOutcome {
    fn stream(&self) -> Option<&StreamReport> {
        self.received.streams.first()
    }
}

fn first_counters(report: &Report) -> Counters {
    report.streams.first().map_or_else(Counters::default, |stream| stream.counters)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CarriedShape {
    pub rate: u32,
    pub period: u32,
    pub periods: u32,
    pub ptime: Span,
}

/// Sender and receiver, each with its own agent.
pub struct StreamEnds {
    pub sender: LabHost,
    pub receiver: LabHost,
    stalls: [Option<u64>; 2],
    one_clock: Option<bool>,
    ending: StreamEnding,
}

pub const SETTLE: Span = Span::from_secs(2);
/// Timeout of the receiver after the sender's end without BYE.
const TAIL: Span = Span::from_secs(2);
const READY: Span = Span::from_millis(700);
/// Time before packets start and stop counting at which usage is read.
const SPARE: Span = Span::from_millis(500);
pub(crate) const TRIES: u32 = 3;
/// Time for programs to start and to write reports.
const WRITING: Duration = Duration::from_secs(20);

impl StreamEnds {
    /// Names include the role: two ends on one machine have separate stall monitors.
    pub fn new(sender: LabHost, receiver: LabHost) -> Self {
        let [sender, receiver] =
            [("sender", sender), ("receiver", receiver)].map(|(part, host)| {
                let at = match host.place() {
                    HostPlace::Local => "here".to_owned(),
                    place => place.to_string(),
                };
                host.called(format!("{part} ({at})"))
            });
        let ending = StreamEnding::default();
        Self { sender, receiver, stalls: [None; 2], one_clock: None, ending }
    }

    pub fn notify_ending(&mut self, notify: impl FnOnce(Duration) + 'static) {
        self.ending = StreamEnding::reported_to(notify);
    }

    pub fn descriptions(&self) -> Vec<HostDescription> {
        let both = [self.sender.description(), self.receiver.description()];
        let with = |(host, stalls)| HostDescription { stalls, ..host };
        both.into_iter().zip(self.stalls).map(with).collect()
    }

    /// Whether both ends share a machine and clock. Cached.
    pub(crate) fn share_clock(&mut self) -> Result<bool, HostError> {
        if let Some(known) = self.one_clock {
            return Ok(known);
        }
        let found = self.sender.shares_clock(&mut self.receiver)?;
        self.one_clock = Some(found);
        Ok(found)
    }

    pub(crate) fn replace_agents(&mut self) -> Result<(), HostError> {
        self.one_clock = None;
        self.sender.replace_silent()?;
        self.receiver.replace_silent()
    }

    /// Receiver address (unless `at` gives it) and the first of `pairs` free port pairs.
    pub fn reached(&mut self, at: Option<IpAddr>, pairs: u16) -> Result<(IpAddr, u16), HostError> {
        match at {
            Some(address) => Ok((address, self.receiver.ports(pairs)?)),
            None => self.receiver.reached_from(&mut self.sender, pairs),
        }
    }

    pub fn run(&mut self, plan: &LabStream) -> Result<StreamOutcome, HostError> {
        self.run_watched(plan, None)
    }

    /// Reports when packets begin to count. A stop ends the stream early, with a partial outcome.
    pub(crate) fn run_watched(
        &mut self,
        plan: &LabStream,
        mut watch: StreamWatch<'_>,
    ) -> Result<StreamOutcome, HostError> {
        let mut tried = 0;
        loop {
            tried += 1;
            match self.run_once(plan, &mut watch) {
                Err(error) if tried < TRIES && error.is_held_port() => {}
                arrived => return arrived,
            }
        }
    }

    fn run_once(
        &mut self,
        plan: &LabStream,
        watch: &mut StreamWatch<'_>,
    ) -> Result<StreamOutcome, HostError> {
        let path = match &plan.wire {
            LabWire::Rtp => {
                let (address, port) = self.reached(plan.at, plan.copies)?;
                StreamPath::by_udp(address, port, plan.copies)
            }
            LabWire::Avtp(interfaces) => StreamPath::by_ethernet(interfaces),
        };
        let lasts = plan.settle + plan.duration;
        if plan.input.is_none() && plan.instead.is_none() {
            self.sender.noise("noise.wav", plan.noise(), plan.rate)?;
        }
        let recv = plan.recv_words(lasts, &path);
        let samplers = plan.ledgers.then(|| MachineSamplers::start(self, lasts));
        let listening = self.receiver.start_within(&recv, &plan.cpus[1], plan.limits);
        let carried = |listening| self.carried(plan, listening, &path, watch);
        let arrived = listening.and_then(carried);
        let machines = samplers.map(|samplers| samplers.end(self)).unwrap_or_default();
        arrived.map(|outcome| StreamOutcome { machines, ..outcome })
    }

    fn carried(
        &mut self,
        plan: &LabStream,
        listening: u32,
        path: &StreamPath,
        watch: &mut StreamWatch<'_>,
    ) -> Result<StreamOutcome, HostError> {
        let mut sending = None;
        let both = self.carry(plan, listening, &mut sending, path, watch);
        if both.is_err() {
            // Programs left running would disturb the next stream. An unresponsive agent ends its
            // own.
            for (host, child) in
                [(&mut self.receiver, Some(listening)), (&mut self.sender, sending)]
            {
                let Some(child) = child else { continue };
                let _ = host.interrupt(child).and_then(|()| host.wait(child, WRITING));
            }
        }
        let ((sent, received), used) = both?;
        let mut outcome = StreamOutcome {
            sent: report(&self.sender, &sent)?,
            received: report(&self.receiver, &received)?,
            departures: Vec::new(),
            arrivals: Vec::new(),
            used,
            machines: SampledMachines::default(),
            refused: None,
            shape: plan.shape(),
            devices: [plan.input.clone(), plan.output.clone()],
            settle: plan.settle,
            max_uncertainty: plan.max_uncertainty,
        };
        outcome.refused = outcome.refusal(&plan.schedulers);
        for (all, seen) in self.stalls.iter_mut().zip(outcome.stalls(plan)) {
            *all = seen.map_or(*all, |seen| Some(all.unwrap_or(0).saturating_add(seen)));
        }
        if plan.ledgers {
            outcome.departures = ledger::packets(&self.sender.read("sent.csv")?);
            outcome.arrivals = ledger::packets(&self.receiver.read("heard.csv")?);
            if matches!(plan.wire, LabWire::Avtp(_)) {
                let one_clock = self.share_clock()?;
                outcome.count_alike(one_clock);
            }
        }
        Ok(outcome)
    }

    fn carry(
        &mut self,
        plan: &LabStream,
        listening: u32,
        started: &mut Option<u32>,
        path: &StreamPath,
        watch: &mut StreamWatch<'_>,
    ) -> Result<(BothEnded, [Option<UsedBetween>; 2]), HostError> {
        let lasts = plan.settle + plan.duration;
        // A receiver that failed has ended by now.
        if let ChildState::Ended(ended) = self.receiver.wait(listening, duration(READY))? {
            return Err(self.receiver.failed("recv", ended));
        }
        let send = plan.send_words(lasts, path);
        let sending = self.sender.start(&send, &plan.cpus[0])?;
        *started = Some(sending);
        let children = [sending, listening];
        let may_end = watch.is_some();
        let ends = Instant::now() + duration(lasts + TAIL);
        let mut runs = self.runs(sending, plan.settle - SPARE, may_end, ends)?;
        let begin = self.usages(children)?;
        runs = runs && self.runs(sending, SPARE, may_end, ends)?;
        if let (true, Some(notify)) = (runs, watch) {
            notify(COUNTING);
        }
        if runs {
            self.runs(sending, plan.duration - SPARE, may_end, ends)?;
        }
        let end = self.usages(children)?;
        let used = [0, 1].map(|side| begin[side].as_ref()?.until(end[side].as_ref()?));
        let maximum = duration(lasts + READY + TAIL) + WRITING;
        let sent = ended(&mut self.sender, sending, "send", maximum)?;
        Ok(((sent, ended(&mut self.receiver, listening, "recv", maximum)?), used))
    }

    /// Waits for a sender. A stop ends it only if allowed.
    fn runs(
        &mut self,
        sending: u32,
        lasts: Span,
        may_end: bool,
        ends: Instant,
    ) -> Result<bool, HostError> {
        let Self { sender, ending, .. } = self;
        sender.runs(sending, duration(lasts), || {
            if !may_end {
                ending.notify(ends);
            }
            may_end
        })
    }

    fn usages(
        &mut self,
        [sending, listening]: [u32; 2],
    ) -> Result<[Option<ChildUsage>; 2], HostError> {
        let known = |usage| match usage {
            Ok(usage) => Ok(Some(usage)),
            Err(HostError::Refused { .. }) => Ok(None),
            Err(gone) => Err(gone),
        };
        Ok([known(self.sender.usage(sending))?, known(self.receiver.usage(listening))?])
    }
}

pub(crate) type StreamWatch<'a> = Option<&'a mut dyn FnMut(&str)>;

const COUNTING: &str = "its packets count now";

type BothEnded = (ChildEnded, ChildEnded);

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos().max(0) as u64)
}

impl LabStream {
    pub const fn shape(&self) -> CarriedShape {
        let Self { rate, period, periods, ptime, .. } = *self;
        CarriedShape { rate, period, periods, ptime }
    }

    fn noise(&self) -> u32 {
        let lasts = self.settle + self.duration + READY + TAIL;
        u32::try_from(lasts.as_nanos() / 1_000_000_000 + 1).unwrap_or(u32::MAX)
    }

    pub fn outlasts_noise(&self) -> bool {
        self.input.is_none() && self.noise() > LONGEST_NOISE
    }
}

fn ended(
    host: &mut LabHost,
    child: u32,
    role: &str,
    maximum: Duration,
) -> Result<ChildEnded, HostError> {
    match host.end_of(child, role, maximum)? {
        ended if ended.printed.starts_with('{') => Ok(ended),
        ended => Err(host.failed(role, ended)),
    }
}

fn report(host: &LabHost, ended: &ChildEnded) -> Result<Report, HostError> {
    serde_json::from_str(&ended.printed)
        .map_err(|error| host.refused(&format!("its report cannot be read: {error}")))
}

impl LabStream {
    /// Min latency both ends accept.
    pub(crate) fn min_accepted(&self, rate: Rate) -> Span {
        let (format, device) = self.laid(rate);
        min_latency(format.ptime(), &device).max(format.packing_age(device.period))
    }

    pub(crate) fn needs(&self, rate: Rate) -> LatencySum {
        let (format, device) = self.laid(rate);
        LatencySum::of(format.packing_age(device.period), &device)
    }

    pub(crate) fn laid(&self, rate: Rate) -> (StreamFormat, Settings) {
        let (channels, sample) = (Channels::STEREO, SampleFormat::L24);
        let packet = rate.frames_nearest(self.ptime);
        let payload_type = StreamFormat::default_payload_type(sample);
        let format = StreamFormat { codec: None, rate, channels, sample, packet, payload_type };
        let period = Frames::new(i64::from(self.period));
        (format, Settings { rate, channels, period, periods: self.periods })
    }
}

type TellEnding = Box<dyn FnOnce(Duration)>;

#[derive(Default)]
pub(super) struct StreamEnding {
    notify: Option<TellEnding>,
}

impl StreamEnding {
    pub(super) fn reported_to(notify: impl FnOnce(Duration) + 'static) -> Self {
        Self { notify: Some(Box::new(notify)) }
    }

    pub(super) fn notify(&mut self, ends: Instant) {
        if let Some(notify) = self.notify.take() {
            notify(ends.saturating_duration_since(Instant::now()));
        }
    }
}
