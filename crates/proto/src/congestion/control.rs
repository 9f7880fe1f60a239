//! Rate control at the sender.

use std::collections::VecDeque;

use super::PathFeedback;
use super::meter::interval;
use super::steps::{CodingSteps, HEADS, StepTerms};
use crate::time::{LocalTime, Span};

/// Queueing delay that counts as congestion. Less is inaudible in a conversation.
const CONGESTED: Span = Span::from_millis(25);
/// Maximum delay of an empty queue.
const EMPTY: Span = Span::from_millis(15);
/// Expected delay above which sending pauses, because packets would be late.
const PAUSES: Span = Span::from_millis(80);
/// Maximum time to drain a queue at a lower rate. A queue that lasts longer belongs to other
/// streams.
const DRAINS: Span = Span::from_secs(4);
/// Used share of the path's capacity.
const USED: f64 = 0.92;
/// The same when returning to the rate before a failed step.
const USED_BEFORE: f64 = 0.97;
/// The same while the queue drains.
const DRAINED_BY: f64 = 0.6;
/// Initial bits per second: any path for calls carries these.
const BEGINS: f64 = 56_000.0;

/// Factors of rate increases: without a known limit, and beyond a known limit.
const RAISED: f64 = 1.25;
const PROBED: f64 = 1.1;
/// Time between increases while the queue is empty.
const TIMEOUT: Span = Span::from_millis(500);
/// Time to the next increase after a failure, which costs a 50 ms queue. Each failure multiplies it
/// by four.
const FAILED_TIMEOUT: Span = Span::from_secs(10);
const MAX_TIMEOUT: Span = Span::from_secs(60);
/// Time with an empty queue that makes an increase beyond the limit a success.
const SUCCESS: Span = Span::from_secs(2);
/// Consecutive successes that drop the limit.
const SURE: u32 = 3;
/// Congestion within this time is a failed increase.
const TRIAL: Span = Span::from_secs(10);

/// Minimum factor of increases that are first tried for a short time, because their queue drains
/// soon.
const WIDE: f64 = 1.3;
const TRIED: Span = Span::from_millis(20);

const JUDGED: Span = Span::from_secs(1);
const ENOUGH: u32 = 10;
/// Excess loss share that lowers the rate: in two seconds in a row, and in a single second.
const LOSSY: f64 = 0.02;
const VERY_LOSSY: f64 = 0.1;
/// Standard deviations of a loss share that chance exceeds once an hour.
const CHANCE: f64 = 3.5;
/// Seconds to judge a lower rate.
const SECONDS: usize = 3;
/// Maximum loss of the path at any rate.
const MAX_OWN: f64 = 0.2;
/// Correction of that estimate per second.
const OWN_FOLLOWS: f64 = 0.05;

const LONGEST: Span = Span::from_secs(10);
/// Time without feedback in a pause, after which the queue counts as empty: three feedback
/// intervals.
const STOPPED: Span = Span::from_millis(300);
/// Feedback intervals without feedback that count as an outage. At 20 % random loss the probability
/// is 0.2 %.
const SILENT: i64 = 4;
/// After this time without feedback, only a few packets leave per period, to cause a report. Then
/// the minimum rate follows.
const BLIND: Span = Span::from_secs(1);
const BLIND_PERIOD: Span = Span::from_millis(240);
const BLIND_OPEN: Span = Span::from_millis(40);
/// Sent records: one per 20 ms for five seconds.
const BEATS: usize = 256;

/// Totals of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Packets sent.
    pub packets: u64,
    /// Sequence number of the last packet.
    pub newest: u16,
    /// Bytes of their payloads.
    pub octets: u64,
    /// Time of these totals.
    pub at: LocalTime,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// The queue is short.
    Open,
    /// The queue drains at a lower rate.
    Draining,
    /// Tries a higher rate briefly.
    Trying { above: f64, below: f64 },
    /// Waits for the effect of the trial.
    Tried { above: f64, failed: bool },
    /// No feedback arrives: the path back may be congested.
    Blind { before: f64 },
}

#[derive(Debug, Clone, Copy)]
struct Interval {
    queue: Span,
    due: u32,
    lost: u32,
    has_pause: bool,
    covers_change: bool,
}

/// Loss before and after the rate was lowered.
#[derive(Debug, Clone, Copy)]
struct Trial {
    before: f64,
    since: [f64; SECONDS],
    seconds: usize,
}

/// Controls the rate of one stream. Rates are bits per second of IP packets.
#[derive(Debug)]
pub struct RateControl {
    steps: CodingSteps,
    terms: StepTerms,
    rate: f64,
    /// Bits per packet besides the audio.
    heads: f64,
    phase: Phase,
    paused: bool,
    resumed: LocalTime,
    /// Last rate change, and the last packet before the change.
    changed: (LocalTime, Option<u16>),
    climbed: bool,
    before: f64,
    /// Rate once the queue is empty.
    then: f64,
    /// Rate at the last congestion.
    fell_from: f64,
    was_blind: bool,
    sent: VecDeque<Sent>,
    received: Option<(PathFeedback, LocalTime)>,
    /// Duration and bits of the last two intervals.
    intervals: [(Span, f64); 2],
    dropped: f64,
    /// Capacity at the last congestion.
    limit: f64,
    congested_at: Option<LocalTime>,
    /// Queueing delay of other streams.
    standing: Span,
    clean_since: Option<LocalTime>,
    timeout: Span,
    successes: u32,
    /// Second being judged: start, packets due and lost.
    second: (LocalTime, u32, u32),
    was_lossy: bool,
    trial: Option<Trial>,
    /// Loss at any rate.
    own_loss: f64,
}

impl RateControl {
    /// Starts with the rate of an earlier control, or with a low rate.
    pub fn new(steps: CodingSteps, from: Option<f64>, now: LocalTime) -> Self {
        let (terms, rate) = steps.within(from.unwrap_or(BEGINS));
        Self {
            steps,
            terms,
            rate,
            heads: HEADS,
            phase: Phase::Open,
            paused: false,
            resumed: now,
            changed: (now, None),
            climbed: false,
            before: 0.0,
            then: rate,
            fell_from: rate,
            was_blind: false,
            sent: VecDeque::with_capacity(BEATS),
            received: None,
            intervals: [(Span::ZERO, 0.0); 2],
            dropped: 0.0,
            limit: f64::INFINITY,
            congested_at: None,
            standing: Span::ZERO,
            clean_since: None,
            timeout: TIMEOUT,
            successes: 0,
            second: (now, 0, 0),
            was_lossy: false,
            trial: None,
            own_loss: 0.0,
        }
    }

    /// Terms for sending.
    pub const fn terms(&self) -> StepTerms {
        self.terms
    }

    /// IP bits per second of these terms.
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// IP bits per second once the queue has drained.
    pub const fn aims_at(&self) -> f64 {
        match self.phase {
            Phase::Draining => self.then,
            Phase::Blind { before } => before,
            _ => self.rate,
        }
    }

    /// Replaces the steps when their redundancy changes.
    pub fn carry(&mut self, steps: CodingSteps, now: LocalTime) {
        let rate = self.rate;
        self.steps = steps;
        self.set(rate, now);
    }

    /// Sets the bytes per packet besides audio and headers.
    pub fn carries(&mut self, bytes: usize) {
        self.heads = HEADS + 8.0 * bytes as f64;
    }

    fn bits(&self, sent: &Sent) -> f64 {
        8.0 * sent.octets as f64 + self.heads * sent.packets as f64
    }

    /// Whether a trial runs or has just ended.
    pub const fn is_trying(&self) -> bool {
        matches!(self.phase, Phase::Trying { .. } | Phase::Tried { .. })
    }

    /// Whether to send nothing for now.
    pub const fn is_paused(&self) -> bool {
        self.paused
    }

    /// Removes the current terms: the sender cannot use them.
    pub fn refuse(&mut self, now: LocalTime) {
        self.steps.remove(self.terms);
        self.set(self.rate, now);
    }

    /// Records totals. Call every 20 ms.
    pub fn observe_sent(&mut self, sent: Sent) {
        if sent.packets == 0 {
            return;
        }
        if self.sent.len() == BEATS {
            self.sent.pop_front();
        }
        self.sent.push_back(sent);
    }

    /// Handles the receiver's feedback.
    pub fn observe(&mut self, feedback: PathFeedback, now: LocalTime) {
        let Some(interval) = self.measure(feedback, now) else { return };
        let was_open = self.phase == Phase::Open;
        self.follow_queue(&interval, now);
        if was_open && self.phase == Phase::Open && interval.covers_change {
            self.second.1 = self.second.1.saturating_add(interval.due);
            self.second.2 = self.second.2.saturating_add(interval.lost);
            self.judge_second(now);
            self.climb(interval.queue, now);
        }
    }

    fn measure(&mut self, feedback: PathFeedback, now: LocalTime) -> Option<Interval> {
        let Some((before, _)) = self.received else {
            self.received = Some((feedback, now));
            return None;
        };
        let took = i64::from(feedback.at_us.wrapping_sub(before.at_us) as i32);
        let took = Span::from_micros(took);
        if took <= Span::ZERO && took > -LONGEST {
            // Reordered or duplicate.
            return None;
        }
        self.received = Some((feedback, now));
        let numbers = feedback.highest.wrapping_sub(before.highest);
        if took < Span::ZERO || took > LONGEST || numbers > u32::from(u16::MAX) {
            // The receiver restarted.
            return None;
        }
        let packets = feedback.packets.wrapping_sub(before.packets);
        let octets = feedback.octets.wrapping_sub(before.octets);
        let highest = feedback.highest as u16;
        // Unsent packets use up numbers too.
        let unsent = self.unsent(before.highest as u16, highest).min(numbers);
        let due = numbers - unsent;
        let lost = due.saturating_sub(packets);
        self.dropped = f64::from(lost) / f64::from(due.max(1));
        let bits = 8.0 * f64::from(octets) + self.heads * f64::from(packets);
        self.intervals = [(took, bits), self.intervals[0]];
        self.standing = self.standing.min(feedback.queue);
        Some(Interval {
            queue: feedback.queue - self.standing,
            due,
            lost,
            has_pause: unsent > 0,
            covers_change: self.changed.1.is_none_or(|before| is_after(highest, before)),
        })
    }

    fn follow_queue(&mut self, interval: &Interval, now: LocalTime) {
        let Interval { queue, covers_change, .. } = *interval;
        match self.phase {
            Phase::Open if queue > CONGESTED && covers_change => {
                self.fall(self.carried(), false, now);
            }
            Phase::Blind { .. } if queue > CONGESTED => self.fall(self.carried(), false, now),
            Phase::Blind { before } if covers_change => {
                (self.phase, self.paused) = (Phase::Open, false);
                self.set(before, now);
            }
            Phase::Open | Phase::Trying { .. } | Phase::Blind { .. } => {}
            Phase::Tried { .. } if queue > CONGESTED && covers_change => {
                self.fall(self.carried(), true, now);
            }
            Phase::Tried { above, failed } => {
                let failed = failed || queue > EMPTY || self.dropped > self.own_loss + VERY_LOSSY;
                self.phase = Phase::Tried { above, failed };
                if covers_change && queue <= EMPTY {
                    self.phase = Phase::Open;
                    if failed {
                        self.limit = self.limit.min(above);
                        self.raise_timeout();
                    } else {
                        self.set(above, now);
                        self.climbed = true;
                    }
                }
            }
            Phase::Draining if queue <= EMPTY && covers_change && !self.paused => {
                self.phase = Phase::Open;
                self.set(self.then, now);
            }
            Phase::Draining
                if !self.paused && self.congested_at.is_some_and(|at| now - at > DRAINS) =>
            {
                self.standing += queue;
                self.phase = Phase::Open;
                self.set(self.then, now);
            }
            Phase::Draining if queue > CONGESTED && !interval.has_pause => {
                // A full queue delivers packets at the path's capacity.
                let (took, bits) = self.intervals[0];
                self.set_limit((1e9 * bits / took.as_nanos() as f64).min(self.fell_from));
                self.set_within_drain(now);
            }
            Phase::Draining => {}
        }
    }

    /// Handles timeouts.
    pub fn poll(&mut self, now: LocalTime) {
        if self.phase == Phase::Draining {
            let minimum = if self.paused { EMPTY } else { PAUSES };
            let is_empty = self.paused && self.received.is_none_or(|(_, at)| now - at > STOPPED);
            let before = self.paused;
            self.paused = self.wait(now) > minimum && !is_empty;
            if before && !self.paused {
                self.resumed = now;
            }
        }
        if let Phase::Trying { above, below } = self.phase
            && now - self.changed.0 >= TRIED
        {
            self.set(below, now);
            self.phase = Phase::Tried { above, failed: false };
        }
        let Some((_, received)) = self.received else { return };
        let silence = now - received.max(self.resumed);
        match self.phase {
            Phase::Blind { .. } => {
                let blind = now - self.changed.0;
                let within = blind.as_nanos() % BLIND_PERIOD.as_nanos();
                let opens = within >= (BLIND_PERIOD - BLIND_OPEN).as_nanos();
                self.paused = blind < BLIND && !opens;
            }
            _ if self.paused || silence <= interval(self.terms.ptime).times(SILENT) => {}
            phase => {
                let before = match phase {
                    Phase::Draining => self.then,
                    Phase::Trying { below, .. } => below,
                    _ => self.rate,
                };
                self.phase = Phase::Blind { before };
                self.paused = true;
                self.set(0.0, now);
                self.changed.0 = now;
            }
        }
    }

    /// Counts unsent packets between two numbers.
    fn unsent(&self, from: u16, to: u16) -> u32 {
        let skipped = |number: u16| {
            let reached = |sent: &&Sent| !is_after(number, sent.newest);
            let sent = self.sent.iter().find(reached).or(self.sent.back())?;
            Some(sent.newest.wrapping_sub(sent.packets as u16))
        };
        let between = skipped(to).zip(skipped(from)).map(|(to, from)| to.wrapping_sub(from));
        // Negative if the first packet is older than the records.
        between.filter(|count| *count < 1 << 15).map_or(0, u32::from)
    }

    fn carried(&self) -> f64 {
        let [(first, one), (second, other)] = self.intervals;
        let seconds = (first + second).as_nanos() as f64 / 1e9;
        if seconds > 0.0 { (one + other) / seconds } else { self.rate }
    }

    /// Packets in flight leave the queue at the path's capacity.
    fn wait(&self, now: LocalTime) -> Span {
        let Some((feedback, _)) = self.received else { return Span::ZERO };
        let total = self.sent.back().map_or(0.0, |sent| self.bits(sent));
        let arrived = |sent: &&Sent| !is_after(sent.newest, feedback.highest as u16);
        let Some(newest) = self.sent.iter().rfind(arrived) else { return Span::ZERO };
        let in_flight = (total - self.bits(newest)).max(0.0) * (1.0 - self.dropped);
        let takes = Span::from_nanos((1e9 * in_flight / self.limit.max(1.0)) as i64);
        (newest.at + feedback.queue - self.standing + takes - now).max(Span::ZERO)
    }

    fn set(&mut self, rate: f64, now: LocalTime) {
        let (terms, rate) = self.steps.within(rate);
        if terms != self.terms {
            self.changed = (now, self.sent.back().map(|sent| sent.newest));
        }
        (self.terms, self.rate) = (terms, rate);
        (self.climbed, self.clean_since) = (false, None);
        self.second = (now, 0, 0);
    }

    fn set_limit(&mut self, limit: f64) {
        self.limit = limit;
        let used = if self.was_blind { DRAINED_BY } else { USED };
        self.then = (limit * used).max(self.before.min(limit * USED_BEFORE));
    }

    fn set_within_drain(&mut self, now: LocalTime) {
        let (_, rate) = self.steps.within(self.limit * DRAINED_BY);
        if rate < self.rate {
            self.set(rate, now);
        }
    }

    fn fall(&mut self, carried: f64, tried: bool, now: LocalTime) {
        match tried || self.climbed && now - self.changed.0 < TRIAL {
            true => self.raise_timeout(),
            false => (self.timeout, self.before) = (FAILED_TIMEOUT, 0.0),
        }
        self.was_blind = false;
        if let Phase::Blind { before } = self.phase {
            // The arriving packets were sent without competing feedback. Feedback needs room from
            // now on.
            (self.rate, self.was_blind) = (self.rate.max(before), true);
        }
        self.successes = 0;
        self.fell_from = self.rate;
        self.congested_at = Some(now);
        self.set_limit(carried.min(self.rate));
        self.was_lossy = false;
        self.phase = Phase::Draining;
        // Without feedback the queue is at its longest.
        self.set(if self.was_blind { 0.0 } else { self.limit * DRAINED_BY }, now);
        self.changed.0 = now;
    }

    fn raise_timeout(&mut self) {
        self.timeout = self.timeout.times(4).max(FAILED_TIMEOUT).min(MAX_TIMEOUT);
    }

    fn climb(&mut self, queue: Span, now: LocalTime) {
        if queue > EMPTY || self.was_lossy || self.trial.is_some() {
            self.clean_since = None;
            return;
        }
        let clean = now - *self.clean_since.get_or_insert(now);
        let known = self.limit * USED;
        let is_sure = self.successes >= SURE;
        if self.climbed && self.rate > known && clean >= if is_sure { TIMEOUT } else { SUCCESS } {
            self.successes += 1;
            self.limit = if is_sure { f64::INFINITY } else { self.rate / USED };
        }
        let known = self.limit * USED;
        let (grown, timeout) = match self.limit.is_finite() {
            true if self.rate * 1.05 < known => ((self.rate * RAISED).min(known), TIMEOUT),
            true if self.successes > 0 => (self.rate * PROBED, SUCCESS),
            true => (self.rate * PROBED, self.timeout),
            false => (self.rate * RAISED, TIMEOUT),
        };
        if clean < timeout {
            return;
        }
        let (_, mut rate) = self.steps.within(grown);
        if rate <= self.rate {
            match self.steps.above(self.rate) {
                Some(above) if above > self.rate && (above <= known || clean >= self.timeout) => {
                    rate = above;
                }
                _ => return,
            }
        }
        let before = self.rate;
        self.set(rate, now);
        (self.climbed, self.before) = (true, before);
        if self.rate > before * WIDE {
            self.phase = Phase::Trying { above: self.rate, below: before };
        }
    }

    fn judge_second(&mut self, now: LocalTime) {
        let (began, due, lost) = self.second;
        if now - began < JUDGED || due < ENOUGH {
            return;
        }
        self.second = (now, 0, 0);
        let share = f64::from(lost) / f64::from(due);
        self.judge_trial(share);
        if self.trial.is_some() {
            return;
        }
        let usual = self.own_loss;
        let chance = CHANCE * (usual * (1.0 - usual) / f64::from(due)).sqrt();
        let excess = share - usual - chance;
        let was_lossy = core::mem::replace(&mut self.was_lossy, excess > LOSSY);
        if excess > VERY_LOSSY || was_lossy && self.was_lossy {
            let (rate, own) = (self.rate, share);
            self.fall(rate * (1.0 - share), false, now);
            // There is no queue to drain.
            self.phase = Phase::Open;
            self.set(self.limit * USED, now);
            self.trial = Some(Trial { before: own, since: [0.0; SECONDS], seconds: 0 });
        } else if !self.was_lossy && self.trial.is_none() {
            self.own_loss += (share - self.own_loss) * OWN_FOLLOWS;
        }
    }

    /// Sets the path's own loss if a lower rate loses as much.
    fn judge_trial(&mut self, share: f64) {
        let Some(trial) = &mut self.trial else { return };
        trial.since[trial.seconds] = share;
        trial.seconds += 1;
        if trial.seconds < SECONDS {
            return;
        }
        let mean = trial.since.iter().sum::<f64>() / SECONDS as f64;
        if mean >= trial.before / 2.0 && mean > LOSSY / 4.0 {
            self.own_loss = mean.min(MAX_OWN);
            (self.timeout, self.limit) = (TIMEOUT, f64::INFINITY);
        }
        self.trial = None;
    }
}

/// Whether `number` is after `other` (RFC 3550 A.1).
const fn is_after(number: u16, other: u16) -> bool {
    let ahead = number.wrapping_sub(other);
    ahead > 0 && ahead < 1 << 15
}
