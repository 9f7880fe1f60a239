//! Distinguishes a frozen host from a late program: a high-priority thread per watched core records
//! late wake-ups. If all cores stall at the same time, the host caused it, unless this program was
//! stopped (SIGSTOP, Ctrl-Z).

use core::fmt;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::JoinHandle;

use rtrb::{Consumer, Producer, RingBuffer};
use signal_hook::consts::SIGCONT;
use signal_hook::{SigId, low_level};
use tautline_proto::time::{LocalTime, Span};

use crate::clock::{now, sleep_until};
use crate::thread::affinity::{pin_to, usable_cores};
use crate::thread::limits::ResourceLimits;
use crate::thread::{Granted, Scheduler, sentence, spawn};

/// Minimum lateness of a stall.
pub const LATE: Span = Span::from_millis(1);
/// Wake-up interval; two cores cost 0.3 % of a core.
const COARSE: Span = Span::from_millis(10);
/// Interval after a stall. In a 3 ms freeze, a wake-up in its first 2 ms is late by [`LATE`].
const CLOSE: Span = Span::from_millis(2);
const CLOSE_FOR: Span = Span::from_secs(30);
/// Interval to measure stalls themselves.
const DENSE: Span = Span::from_millis(1);
const ENOUGH: usize = 2;
/// Stalls per core between [`StallMonitor::poll`] calls.
const RING: usize = 1024;
const REMEMBERED: usize = 1024;

/// A core did not run a due thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// Due time of the wake-up.
    pub from: LocalTime,
    /// Time at which the thread woke.
    pub to: LocalTime,
}

impl Stall {
    fn common(&self, other: &Self) -> Option<Self> {
        let (from, to) = (self.from.max(other.from), self.to.min(other.to));
        (from < to).then_some(Self { from, to })
    }

    /// Duration.
    pub fn length(&self) -> Span {
        self.to - self.from
    }
}

/// Stalls of each core, and of all. No I/O; any order.
#[derive(Debug, Clone)]
pub struct StallLog {
    cores: Vec<VecDeque<Stall>>,
    counts: Vec<u64>,
    common: VecDeque<Stall>,
    common_count: u64,
}

impl StallLog {
    /// An empty log for this many cores.
    pub fn new(cores: usize) -> Self {
        Self {
            cores: (0..cores).map(|_| VecDeque::with_capacity(REMEMBERED)).collect(),
            counts: vec![0; cores],
            common: VecDeque::with_capacity(REMEMBERED),
            common_count: 0,
        }
    }

    /// Records a stall of `core`, an index. Counts include forgotten stalls.
    pub fn record(&mut self, core: usize, stall: Stall) {
        let mut pieces = vec![stall];
        for (other, stalls) in self.cores.iter().enumerate() {
            if other != core {
                pieces = meet(&pieces, stalls);
            }
        }
        self.common_count += pieces.len() as u64;
        for piece in pieces {
            remember(&mut self.common, piece);
        }
        self.counts[core] += 1;
        remember(&mut self.cores[core], stall);
    }

    /// Stalls of all cores, in order of detection.
    pub fn seen_by_all(&self) -> impl Iterator<Item = Stall> + '_ {
        self.common.iter().copied()
    }

    /// Stalls of one core of at least [`LATE`], mostly not common to all.
    pub fn seen_by_one(&self) -> impl Iterator<Item = Stall> + '_ {
        let alone = move |stall: &Stall| {
            let common = self.common.iter().filter_map(|all| all.common(stall));
            let common = common.fold(Span::ZERO, |sum, part| sum + part.length());
            stall.length() - common >= LATE.max(common)
        };
        self.cores.iter().flatten().copied().filter(alone)
    }

    /// Whether all cores stalled at the same time between `from` and `to`.
    pub fn overlaps(&self, from: LocalTime, to: LocalTime) -> bool {
        self.common.iter().rev().any(|stall| stall.from <= to && from <= stall.to)
    }

    /// Stalls per core.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Stalls common to all cores.
    pub const fn total(&self) -> u64 {
        self.common_count
    }
}

fn meet(pieces: &[Stall], stalls: &VecDeque<Stall>) -> Vec<Stall> {
    let common = |piece: &Stall| {
        let piece = *piece;
        stalls.iter().filter_map(move |stall| piece.common(stall))
    };
    pieces.iter().flat_map(common).collect()
}

fn remember(stalls: &mut VecDeque<Stall>, stall: Stall) {
    if stalls.len() == REMEMBERED {
        stalls.pop_front();
    }
    stalls.push_back(stall);
}

/// Watches cores until dropped. A wake-up takes 10 to 14 µs on a virtual machine
/// (docs/internals/decisions/0026-the-stall-witness.md).
pub struct StallMonitor {
    log: StallLog,
    watches: Vec<StallWatch>,
    stop: Arc<AtomicBool>,
    went_on: WentOn,
    stopped: Option<(Stall, bool)>,
}

struct StallWatch {
    stalls: Consumer<Stall>,
    granted: Granted,
    thread: Option<JoinHandle<()>>,
}

impl StallMonitor {
    /// Detects all freezes of 11 ms and one in five of 3 ms; for 30 s after a freeze all of 3 ms.
    /// Samples two cores.
    ///
    /// Runs at `fifo:99`, or as high as permitted. Without privilege, a busy program looks like a
    /// stalled host ([`StallMonitor::trust`]).
    pub fn start() -> Self {
        Self::watching(&enough(usable_cores()), Pace { calm: COARSE, alarmed: CLOSE })
    }

    /// Detects all freezes of 2 ms on every core, at twice the cost per core.
    pub fn start_dense() -> Self {
        Self::watching(&usable_cores(), Pace { calm: DENSE, alarmed: DENSE })
    }

    fn watching(cores: &[usize], pace: Pace) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let alarm = Arc::new(Alarm::silent());
        let highest = highest();
        let watch = |core: &usize| watch(*core, pace, highest, (&stop, &alarm)).ok();
        let watches: Vec<_> = cores.iter().filter_map(watch).collect();
        let (log, went_on) = (StallLog::new(watches.len()), WentOn::listen());
        Self { log, watches, stop, went_on, stopped: None }
    }

    /// Disabled: no threads, no stalls.
    pub fn idle() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (log, watches) = (StallLog::new(0), Vec::new());
        Self { log, watches, stop, went_on: WentOn::deaf(), stopped: None }
    }

    /// Reads the threads' records. Call on the main thread, the first to run after a stop.
    pub fn poll(&mut self) {
        for (core, watch) in self.watches.iter_mut().enumerate() {
            while let Ok(stall) = watch.stalls.pop() {
                if self.went_on.ended(&stall) {
                    let before = self.stopped.filter(|(stop, _)| stop.common(&stall).is_some());
                    self.stopped = before.or(Some((stall, false)));
                } else {
                    self.log.record(core, stall);
                }
            }
        }
    }

    /// When this program was stopped since the last call.
    pub fn take_stopped(&mut self) -> Option<Stall> {
        let (stall, reported) = self.stopped.as_mut()?;
        (!core::mem::replace(reported, true)).then_some(*stall)
    }

    /// The latest 1024 stalls of all cores, as of the last poll.
    pub fn stalls_seen_by_all(&self) -> impl Iterator<Item = Stall> + '_ {
        self.log.seen_by_all()
    }

    /// Whether all cores stalled at the same time between `from` and `to`, as of the last poll.
    pub fn overlaps(&self, from: LocalTime, to: LocalTime) -> bool {
        self.log.overlaps(from, to)
    }

    /// Returns all recorded stalls.
    pub const fn log(&self) -> &StallLog {
        &self.log
    }

    /// How certainly stalls are the host's; `Display` is for the report.
    pub fn trust(&self) -> Trust {
        Trust { refused: self.watches.iter().map(|w| w.granted).find(|g| !g.is_granted()) }
    }
}

impl Drop for StallMonitor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for thread in self.watches.iter_mut().filter_map(|watch| watch.thread.take()) {
            let _ = thread.join();
        }
    }
}

/// Reliability of the monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trust {
    /// The refusal, if without priority.
    pub refused: Option<Granted>,
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.refused {
            None => {
                f.write_str("stalls are caused by the host: the stall monitor has top priority")
            }
            Some(granted) => write!(
                f,
                "stalls may be caused by other programs: the stall monitor has no real-time priority ({}); {}",
                sentence(granted.errno),
                granted.hint()
            ),
        }
    }
}

fn highest() -> Scheduler {
    const TOP: Scheduler = Scheduler::Fifo(99);
    let Some(limit @ 1..99) = ResourceLimits::read().priority.now else { return TOP };
    // CAP_SYS_NICE has no limit.
    match spawn("taut-stall", TOP, 0, || ()) {
        Ok((thread, granted)) => {
            let _ = thread.join();
            if granted.is_granted() { TOP } else { Scheduler::Fifo(limit as u8) }
        }
        Err(_) => TOP,
    }
}

fn watch(
    core: usize,
    pace: Pace,
    scheduler: Scheduler,
    (stop, alarm): (&Arc<AtomicBool>, &Arc<Alarm>),
) -> std::io::Result<StallWatch> {
    let (mut noted, stalls) = RingBuffer::new(RING);
    let (stop, alarm) = (Arc::clone(stop), Arc::clone(alarm));
    let (thread, granted) = spawn(&format!("taut-stall-{core}"), scheduler, 0, move || {
        let _ = pin_to(core);
        look(&stop, pace, &alarm, &mut noted);
    })?;
    Ok(StallWatch { stalls, granted, thread: Some(thread) })
}

fn look(stop: &AtomicBool, pace: Pace, alarm: &Alarm, noted: &mut Producer<Stall>) {
    let mut heartbeat = Heartbeat { due: now() + pace.calm, pace };
    while !stop.load(Ordering::Acquire) {
        sleep_until(heartbeat.due);
        if let Some(stall) = heartbeat.beat(now(), alarm) {
            let _ = noted.push(stall);
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Pace {
    calm: Span,
    alarmed: Span,
}

#[derive(Debug)]
struct Alarm(AtomicI64);

impl Alarm {
    const fn silent() -> Self {
        Self(AtomicI64::new(i64::MIN))
    }

    fn raise(&self, at: LocalTime) {
        self.0.fetch_max((at + CLOSE_FOR).as_nanos(), Ordering::Relaxed);
    }

    fn is_raised(&self, at: LocalTime) -> bool {
        at.as_nanos() < self.0.load(Ordering::Relaxed)
    }
}

struct Heartbeat {
    due: LocalTime,
    pace: Pace,
}

impl Heartbeat {
    fn beat(&mut self, woke: LocalTime, alarm: &Alarm) -> Option<Stall> {
        let stall = Stall { from: self.due, to: woke };
        let stalled = stall.length() >= LATE;
        if stalled {
            alarm.raise(woke);
        }
        let from = if stalled { woke } else { self.due };
        let every = if alarm.is_raised(woke) { self.pace.alarmed } else { self.pace.calm };
        self.due = from + every;
        stalled.then_some(stall)
    }
}

fn enough(cores: Vec<usize>) -> Vec<usize> {
    match cores[..] {
        [first, .., last] if cores.len() > ENOUGH => vec![first, last],
        _ => cores,
    }
}

const NEVER: i64 = i64::MIN;

/// Time of the last SIGCONT.
pub struct WentOn {
    at: Arc<AtomicI64>,
    handler: Option<SigId>,
}

impl WentOn {
    /// Maximum lead of the cores' threads over the signal handler, which runs without priority. 50
    /// ms were exceeded on a busy machine.
    const AFTER: Span = Span::from_secs(1);

    /// Registers the signal handler, if permitted.
    pub fn listen() -> Self {
        let at = Arc::new(AtomicI64::new(NEVER));
        let received = Arc::clone(&at);
        let handle = move || received.store(now().as_nanos(), Ordering::Release);
        // SAFETY: reading the clock (signal-safety(7)) and storing a number are safe in a handler.
        let handler = unsafe { low_level::register(SIGCONT, handle) }.ok();
        Self { at, handler }
    }

    fn deaf() -> Self {
        Self { at: Arc::new(AtomicI64::new(NEVER)), handler: None }
    }

    /// Whether the program itself was stopped in this stall.
    pub fn ended(&self, stall: &Stall) -> bool {
        match self.at.load(Ordering::Acquire) {
            NEVER => false,
            nanos => {
                let at = LocalTime::from_nanos(nanos);
                stall.from < at && at <= stall.to + Self::AFTER
            }
        }
    }
}

impl Drop for WentOn {
    fn drop(&mut self) {
        if let Some(handler) = self.handler.take() {
            low_level::unregister(handler);
        }
    }
}

#[cfg(test)]
mod tests {

    use tautline_trial::snapshot;

    use super::*;

    const fn at(millis: i64) -> LocalTime {
        LocalTime::from_nanos(millis * 1_000_000)
    }
    const fn stall(from: i64, to: i64) -> Stall {
        Stall { from: at(from), to: at(to) }
    }
    fn common(log: &StallLog) -> Vec<Stall> {
        log.seen_by_all().collect()
    }

    #[test]
    fn a_stall_of_one_core_is_not_the_hosts() {
        let mut log = StallLog::new(2);
        log.record(0, stall(10, 20));
        assert!(common(&log).is_empty() && !log.overlaps(at(10), at(20)));
        log.record(1, stall(20, 30));
        assert!(common(&log).is_empty(), "they only touch");
        assert_eq!((log.counts(), log.total()), (&[1, 1][..], 0));
    }

    #[test]
    fn stall_of_one_core_is_reported() {
        let mut log = StallLog::new(2);
        log.record(0, stall(10, 20));
        log.record(1, stall(30, 40));
        log.record(0, stall(30, 40));
        log.record(1, stall(50, 53));
        log.record(0, stall(49, 60));
        assert_eq!(log.seen_by_one().collect::<Vec<_>>(), [stall(10, 20), stall(49, 60)]);
    }

    #[test]
    fn stall_of_all_cores_is_their_overlap() {
        let stalls = [(0, stall(10, 20)), (1, stall(12, 25)), (2, stall(5, 18))];
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let mut log = StallLog::new(3);
            for (core, stall) in order.map(|index: usize| stalls[index]) {
                log.record(core, stall);
            }
            assert_eq!(common(&log), [stall(12, 18)]);
            assert_eq!(log.total(), 1);
        }
    }

    #[test]
    fn one_long_stall_meets_two_short_ones() {
        let mut log = StallLog::new(2);
        log.record(1, stall(10, 12));
        log.record(1, stall(14, 16));
        log.record(0, stall(11, 15));
        assert_eq!(common(&log), [stall(11, 12), stall(14, 15)]);
    }

    #[test]
    fn a_time_overlaps_a_stall_that_it_touches() {
        let mut log = StallLog::new(1);
        log.record(0, stall(10, 20));
        assert!(log.overlaps(at(5), at(10)) && log.overlaps(at(12), at(13)));
        assert!(log.overlaps(at(20), at(99)) && log.overlaps(at(0), at(99)));
        assert!(!log.overlaps(at(0), at(9)) && !log.overlaps(at(21), at(99)));
        assert_eq!(common(&log)[0].length(), Span::from_millis(10));
    }

    #[test]
    fn memory_is_bounded_and_the_counts_go_on() {
        let mut log = StallLog::new(1);
        for index in 0..3000 {
            log.record(0, stall(index * 10, index * 10 + 5));
        }
        assert_eq!(common(&log).len(), REMEMBERED);
        assert_eq!((log.total(), log.counts()[0]), (3000, 3000));
        assert!(!log.overlaps(at(0), at(5)) && log.overlaps(at(29_990), at(29_991)));
    }

    #[test]
    fn stall_monitor_watches_every_core_until_dropped() {
        let cores = usable_cores().len();
        for (mut monitor, watched) in
            [(StallMonitor::start(), cores.min(2)), (StallMonitor::start_dense(), cores)]
        {
            monitor.poll();
            assert_eq!(monitor.log().counts().len(), watched);
            assert!(!monitor.trust().to_string().is_empty());
        }
    }

    #[test]
    fn two_cores_stand_for_all() {
        assert_eq!(enough((0..16).collect()), [0, 15]);
        assert_eq!(enough(vec![3, 4]), [3, 4]);
        assert_eq!(enough(vec![3]), [3]);
    }

    fn seen(freezes: &[Stall], phases: [Span; 2]) -> (StallLog, u32) {
        let (mut log, mut wakes) = (StallLog::new(2), 0);
        let pace = Pace { calm: COARSE, alarmed: CLOSE };
        let alarm = Alarm::silent();
        let mut cores = phases.map(|phase| Heartbeat { due: at(0) + phase, pace });
        while let Some(core) = (0..2).min_by_key(|core| cores[*core].due)
            && cores[core].due < at(1000)
        {
            let due = cores[core].due;
            let frozen = freezes.iter().find(|freeze| freeze.from <= due && due < freeze.to);
            if let Some(stall) = cores[core].beat(frozen.map_or(due, |freeze| freeze.to), &alarm) {
                log.record(core, stall);
            }
            wakes += 1;
        }
        (log, wakes)
    }

    fn freeze(from: LocalTime, millis: i64) -> Stall {
        Stall { from, to: from + Span::from_millis(millis) }
    }

    fn beginnings() -> impl Iterator<Item = (LocalTime, [Span; 2])> {
        let phases = |step| [Span::ZERO, Span::from_micros(7 * step)];
        (0..200).map(move |step| (at(500) + Span::from_micros(50 * step), phases(step)))
    }

    #[test]
    fn every_stall_of_11_ms_is_seen_by_few_wake_ups() {
        for (from, phases) in beginnings() {
            for millis in [11, 36] {
                let (log, _) = seen(&[freeze(from, millis)], phases);
                assert_eq!(log.total(), 1, "{millis} ms at {from:?}");
            }
            let (log, wakes) = seen(&[], phases);
            assert_eq!((log.total(), wakes), (0, 200), "two cores in a second");
        }
    }

    #[test]
    fn after_a_stall_every_stall_of_3_ms_is_seen() {
        for (from, phases) in beginnings() {
            for millis in [3, 4, 8, 36] {
                let (log, wakes) = seen(&[freeze(at(100), 20), freeze(from, millis)], phases);
                assert_eq!(log.total(), 2, "{millis} ms at {from:?}");
                assert!(
                    log.overlaps(from + Span::from_millis(2), from + Span::from_millis(millis))
                );
                assert!(wakes <= 1000, "{wakes} in a second");
            }
        }
    }

    #[test]
    fn before_a_stall_some_short_stalls_are_seen() {
        let found: u64 =
            beginnings().map(|(from, _)| seen(&[freeze(from, 3)], [Span::ZERO; 2]).0.total()).sum();
        assert!((38..=42).contains(&found), "{found} of 200");
    }

    #[test]
    fn close_looks_end_30_s_after_the_last_stall() {
        let alarm = Alarm::silent();
        let mut core = Heartbeat { due: at(0), pace: Pace { calm: COARSE, alarmed: CLOSE } };
        let mut next = |late: i64| {
            let due = core.due;
            core.beat(due + Span::from_millis(late), &alarm);
            core.due - due
        };
        assert_eq!(next(0), COARSE);
        assert_eq!(next(5), CLOSE + Span::from_millis(5));
        for _ in 0..CLOSE_FOR.as_nanos() / CLOSE.as_nanos() - 1 {
            assert_eq!(next(0), CLOSE);
        }
        assert_eq!(next(0), COARSE);
    }

    #[test]
    fn unprivileged_stall_monitor_reports_its_limits() {
        let refused = Granted { requested: Scheduler::Fifo(99), errno: libc::EPERM };
        let text = Trust { refused: Some(refused) }.to_string();
        snapshot!(text);
    }

    fn reported(millis: i64) -> WentOn {
        let went_on = WentOn::deaf();
        went_on.at.store(at(millis).as_nanos(), Ordering::Release);
        went_on
    }

    #[test]
    fn a_stall_that_ends_with_going_on_is_the_programs_own() {
        let stall = Stall { from: at(1000), to: at(6000) };
        assert!(reported(5990).ended(&stall) && reported(6990).ended(&stall));
        assert!(!reported(999).ended(&stall), "the host stood still after it");
        assert!(!reported(7001).ended(&stall), "the host stood still before it");
        assert!(!WentOn::deaf().ended(&stall));
    }

    #[test]
    fn going_on_is_received() {
        let went_on = WentOn::listen();
        let before = now();
        low_level::raise(SIGCONT).unwrap();
        assert!(went_on.ended(&Stall { from: before, to: now() }));
    }
}
