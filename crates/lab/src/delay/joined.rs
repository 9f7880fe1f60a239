//! Marks played at one host and recorded at another: two logs on one timeline.

use core::time::Duration;
use std::time::Instant;

use tautline_io::clock::{now, sleep_until};
use tautline_proto::device::{Settings, Stop};
use tautline_proto::time::{Frames, LocalTime, Span};

use super::clocks::JoinedClocks;
use super::judge::EARLY;
use super::log::{DeviceLog, LogEnd};
use super::report::QUESTION;
use super::{DelayOptions, MarkKind, MeasuredDelay};
use crate::hosts::{ChildState, HostError, HostPlace, HostTimeline, LabHost};
use crate::report::{HostDescription, LabReport, ReportRow};

#[derive(Debug, Clone)]
pub struct DelayBetween {
    pub devices: [String; 2],
    pub settings: Settings,
    pub options: DelayOptions,
    /// With two clocks, rows with a less certain median are invalid.
    pub max_uncertainty: Span,
}

/// Number of clock exchanges before and after the run, and their spacing.
const BURST: usize = 32;
const BURST_APART: Span = Span::from_millis(5);
const APART: Span = Span::from_millis(200);
const BEGINNING: Duration = Duration::from_secs(20);
const WRITING: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
const SPARE: Span = Span::from_secs(30);

pub fn measure_between(places: [HostPlace; 2], plan: &DelayBetween, stop: &Stop) -> LabReport {
    let name = places.each_ref().map(HostPlace::to_string);
    let ends = [0, 1].map(|end| format!("{} at {}", plan.devices[end], name[end]));
    let mut hosts = Vec::new();
    let found = DelayHosts::at(places, stop).and_then(|mut both| {
        hosts = both.hosts.iter().map(LabHost::description).collect();
        let logs = both.run(plan, stop)?;
        join(logs, &both.clocks, plan).map_err(|(end, why)| both.hosts[end].refused(&why))
    });
    match found {
        Ok(mut found) => {
            found.hosts = hosts;
            found.report([&ends[0], &ends[1]])
        }
        Err(error) => {
            let mut report = LabReport::of("delay", QUESTION);
            report.hosts = match hosts.is_empty() {
                true => vec![HostDescription::here("here")],
                false => hosts,
            };
            let row = ReportRow::invalid(format!("{} to {}", ends[0], ends[1]), error.to_string());
            report.rows.push(row);
            report
        }
    }
}

struct DelayHosts {
    hosts: [LabHost; 2],
    clocks: [HostTimeline; 2],
}

impl DelayHosts {
    fn at([player, hearer]: [HostPlace; 2], stop: &Stop) -> Result<Self, HostError> {
        let mut hearer = LabHost::at(hearer, stop)?;
        let mut player = LabHost::at(player, stop)?;
        let clocks = match player.shares_clock(&mut hearer)? {
            true => [HostTimeline::Same, HostTimeline::Same],
            false => [player.timeline()?, hearer.timeline()?],
        };
        Ok(Self { hosts: [player, hearer], clocks })
    }

    fn heed_stop(&mut self, heeds: bool) {
        self.hosts.iter_mut().for_each(|host| host.heed_stop(heeds));
    }

    fn exchange(&mut self) -> Result<(), HostError> {
        let mut both = self.hosts.iter_mut().zip(&mut self.clocks);
        both.try_for_each(|(host, clock)| host.exchange(clock))
    }

    fn exchange_often(&mut self) -> Result<(), HostError> {
        for _ in 0..BURST {
            self.exchange()?;
            if self.clocks.iter().any(|clock| matches!(clock, HostTimeline::Exchanged(_))) {
                sleep_until(now() + BURST_APART);
            }
        }
        Ok(())
    }

    fn run(&mut self, plan: &DelayBetween, stop: &Stop) -> Result<[DeviceLog; 2], HostError> {
        self.heed_stop(true);
        self.exchange_often()?;
        let run = fastrand::u32(..);
        let mut children = [0; 2];
        // Start the recorder first, so that no mark is missed.
        for end in [1, 0] {
            children[end] = self.hosts[end].start(&plan.words(end, run), &[])?;
            self.begun(end, children[end], stop)?;
        }
        self.heed_stop(false);
        let ends = plan.options.ends(now(), plan.settings.rate);
        while !stop.is_requested() && now() < ends && !self.is_over(children)? {
            sleep_until(ends.min(now() + APART));
            self.exchange()?;
        }
        // From now on, only a new stop aborts reading.
        self.heed_stop(!stop.is_requested());
        for end in [0, 1] {
            self.hosts[end].interrupt(children[end])?;
        }
        let written = self.exchange_often();
        let [played, received] =
            [0, 1].map(|end| log(&mut self.hosts[end], children[end], ROLES[end]));
        let both = [played?, received?];
        written.map(|()| both)
    }

    fn begun(&mut self, end: usize, child: u32, stop: &Stop) -> Result<(), HostError> {
        let deadline = Instant::now() + BEGINNING;
        while Instant::now() < deadline && !stop.is_requested() {
            self.exchange()?;
            let host = &mut self.hosts[end];
            match host.wait(child, LOOK)? {
                ChildState::Running if host.read(&format!("{child}.out"))?.contains('\n') => {
                    return Ok(());
                }
                ChildState::Running => {}
                ChildState::Ended(ended) if ended.status == Some(0) => return Ok(()),
                ChildState::Ended(ended) => return Err(host.failed(ROLES[end], ended)),
            }
        }
        let (host, role) = (&self.hosts[end], ROLES[end]);
        Err(match stop.is_requested() {
            true => host.refused("stopped before marks counted"),
            false => {
                host.refused(&format!("taut {role} did not start in {} s", BEGINNING.as_secs()))
            }
        })
    }

    fn is_over(&mut self, children: [u32; 2]) -> Result<bool, HostError> {
        for (host, child) in self.hosts.iter_mut().zip(children) {
            if matches!(host.wait(child, Duration::ZERO)?, ChildState::Ended(_)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

const ROLES: [&str; 2] = ["lab play", "lab hear"];

impl DelayBetween {
    fn words(&self, end: usize, run: u32) -> Vec<String> {
        let DelayOptions { settle, duration, scheduler, channel, mark, level_db, .. } =
            self.options;
        let Settings { rate, channels, period, periods } = self.settings;
        let lasts = duration.map(|duration| settle + duration + SPARE);
        let maximum = DelayOptions { duration: lasts, ..self.options }.max_marks(rate);
        let longest = lasts.map(|lasts| ("longest", (lasts + SPARE).to_string()));
        let mut words: Vec<String> = ROLES[end].split(' ').map(str::to_owned).collect();
        words.push(self.devices[end].clone());
        for (name, value) in [
            ("run", run.to_string()),
            ("maximum", maximum.to_string()),
            ("rate", rate.hertz().to_string()),
            ("channels", channels.count().to_string()),
            ("channel", (channel + 1).to_string()),
            ("period", period.count().to_string()),
            ("periods", periods.to_string()),
            ("scheduler", scheduler.to_string()),
            ("mark", mark.name().to_owned()),
            ("level", level_db.to_string()),
        ]
        .into_iter()
        .chain(longest)
        {
            words.push(format!("--{name}={value}"));
        }
        words
    }
}

fn log(host: &mut LabHost, child: u32, role: &str) -> Result<DeviceLog, HostError> {
    let ended = host.end_of(child, role, WRITING)?;
    match ended.status {
        Some(0) => DeviceLog::read(&ended.printed).map_err(|why| host.refused(&why)),
        _ => Err(host.failed(role, ended)),
    }
}

/// Does no I/O. An error names the end and the reason.
pub(super) fn join(
    [mut player, mut hearer]: [DeviceLog; 2],
    clocks: &[HostTimeline; 2],
    plan: &DelayBetween,
) -> Result<MeasuredDelay, (usize, String)> {
    let rate = player.settings.rate;
    if hearer.settings.rate != rate {
        return Err((1, "its device runs at a different rate than the player's".to_owned()));
    }
    let begun = clocks[0].here(player.begun).into_iter().chain(clocks[1].here(hearer.begun));
    let begun = begun.map(|(here, _)| here).max().ok_or_else(|| (0, UNKNOWN.to_owned()))?;
    let mut put = clocks.each_ref().map(|clock| OntoTimeline {
        clock,
        counts: begun + plan.options.settle,
        uncertainty: Span::ZERO,
        unknown: 0,
    });
    player
        .played
        .retain_mut(|mark| put[0].is_known(&mut mark.at, &mut mark.clock, &mut mark.uncertainty));
    hearer
        .received
        .retain_mut(|mark| put[1].is_known(&mut mark.at, &mut mark.clock, &mut mark.uncertainty));
    let unknown = put.each_ref().map(|put| put.unknown);
    for (end, kept) in [player.played.len(), hearer.received.len()].into_iter().enumerate() {
        if kept == 0 && unknown[end] > 0 {
            return Err((end, UNKNOWN.to_owned()));
        }
    }
    let known = JoinedClocks {
        is_one: clocks.iter().all(|clock| matches!(clock, HostTimeline::Same)),
        uncertainty: put[0].uncertainty + put[1].uncertainty,
        round_trip: clocks.iter().filter_map(HostTimeline::round_trip).max(),
        steps: clocks.each_ref().map(HostTimeline::steps),
        max_uncertainty: plan.max_uncertainty,
    };
    let spacing = rate.span_of(Frames::from_len(plan.options.mark.spacing(rate)));
    if plan.options.mark == MarkKind::Sweep && known.uncertainty.times(4) > spacing {
        let ends = known.uncertainty;
        return Err((
            1,
            format!(
                "the clocks are known to ± {ends}, but sweeps are only {spacing} apart and cannot \
                 be distinguished\nhint: use a wired network, or marks"
            ),
        ));
    }
    let early = EARLY + known.uncertainty;
    let mut judge = plan.options.judge(begun, rate).with_early(early);
    let is_full = [&player.end, &hearer.end].map(|end| end.overflowed > 0);
    // A full log ends early.
    let last = hearer.received.last().map(|mark| mark.at);
    let end = clocks[1].here(LocalTime::from_nanos(hearer.end.end_ns)).map(|(end, _)| end);
    let end = if is_full[1] { last } else { end.or(last) };
    let mut played = player.played.into_iter().peekable();
    for received in hearer.received {
        // Received sound was played before.
        while let Some(mark) = played.next_if(|mark| mark.at <= received.at + early) {
            judge.played(mark);
        }
        judge.received(received);
    }
    played.for_each(|mark| judge.played(mark));
    let outcome = judge.finish(end.unwrap_or(begun));
    // Marks missing in a full player's log look foreign.
    let foreign = if is_full[0] { 0 } else { outcome.foreign };
    let foreign = hearer.end.foreign.saturating_add(foreign);
    let settings = [player.settings, hearer.settings];
    let mut found = MeasuredDelay::new(settings, plan.options.configured, outcome);
    found.devices(player.end.faults(), hearer.end.faults(), hearer.end.unread);
    found.foreign(foreign);
    found.best_unclear_db = hearer.end.best_unclear_db;
    found.clocks = Some(known);
    found.notes.extend(plan.options.mark.note(rate));
    for (what, end, unknown) in
        [("played", player.end, unknown[0]), ("heard", hearer.end, unknown[1])]
    {
        found.notes.extend(notes(what, end, unknown));
    }
    Ok(found)
}

fn notes(what: &'static str, end: LogEnd, unknown: u64) -> impl Iterator<Item = String> {
    let said = end.notes.into_iter().map(move |note| format!("where marks are {what}: {note}"));
    let unknown =
        (unknown > 0).then(|| format!("{unknown} marks were {what} at unknown times: {UNKNOWN}"));
    let overflowed = (end.overflowed > 0).then(|| {
        format!(
            "{} marks were {what} but did not fit in the log and are ignored; set --duration",
            end.overflowed
        )
    });
    said.chain(unknown).chain(overflowed)
}

struct OntoTimeline<'a> {
    clock: &'a HostTimeline,
    counts: LocalTime,
    uncertainty: Span,
    unknown: u64,
}

impl OntoTimeline<'_> {
    /// Converts the time and adds the clock's uncertainty. Returns false if the time is unknown.
    fn is_known(&mut self, at: &mut LocalTime, clock: &mut Span, uncertainty: &mut Span) -> bool {
        let Some((here, unsure)) = self.clock.here(*at) else {
            self.unknown += 1;
            return false;
        };
        if here >= self.counts {
            self.uncertainty = self.uncertainty.max(unsure);
        }
        (*at, *clock, *uncertainty) = (here, unsure, *uncertainty + unsure);
        true
    }
}

const UNKNOWN: &str = "its agent sent no clock reading for 10 s\nhint: repeat the measurement";
