//! One call, run as by users, with a player at its mouth and a tap at both ends.

use core::time::Duration;
use std::net::IpAddr;
use std::time::Instant;

use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_report::{CallReport, StreamReport};

use super::branches::{Branch, BranchDelays, BranchRecording};
use super::grid::CallCase;
use super::tap::BranchTap;
use super::{CallHosts, MouthToEarFlags};
use crate::hosts::{
    ChildEnded, ChildLimits, ChildState, HostError, HostTimeline, LabHost, UsedBetween,
};

pub(super) struct MeasuredCall {
    pub(super) delays: Result<BranchDelays, String>,
    /// ±; zero with a shared clock.
    pub(super) clock_uncertainty: Span,
    pub(super) received: Option<StreamReport>,
    pub(super) used: Option<UsedBetween>,
    pub(super) cap: Option<u32>,
    pub(super) bulk: Option<f64>,
    pub(super) notes: Vec<String>,
}

const BEGINNING: Duration = Duration::from_secs(20);
const ENDING: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);
/// Time for starting and ending the other tap.
const SPARE: Span = Span::from_secs(30);
const BEYOND: Span = Span::from_millis(200);
/// Maximum search range if the latency follows the packets.
const LONGEST_AUTO: Span = Span::from_secs(1);
const BURST: usize = 32;
const APART: Duration = Duration::from_millis(200);
const REPORT: &str = "heard.json";

struct Cables {
    mouth: String,
    ear: String,
}

impl CallHosts {
    /// Runs a call. Afterwards its programs have ended, unless their host is unresponsive.
    pub(super) fn measure(
        &mut self,
        case: &CallCase,
        number: usize,
        options: &MouthToEarFlags,
    ) -> Result<MeasuredCall, HostError> {
        self.calls += 1;
        let own = format!("{:x}-{}", std::process::id(), self.calls);
        let cables = Cables { mouth: format!("m2e-{own}-mouth"), ear: format!("m2e-{own}-ear") };
        let mut started = [Vec::new(), Vec::new()];
        let measured = self.attempt(case, options, &cables, &mut started);
        self.end_all(&started);
        let (mut call, recording) = measured?;
        if let (Some(folder), Some(recording)) = (&options.keep, recording) {
            let path = folder.join(format!("{number:03}.wav"));
            let what = match recording.write(&path) {
                Ok(()) => format!("both branches were saved in {}", path.display()),
                Err(error) => format!("cannot write {}: {error}", path.display()),
            };
            call.notes.push(what);
        }
        Ok(call)
    }

    pub(super) fn end_all(&mut self, started: &[Vec<StartedTaut>; 2]) {
        for (host, programs) in [&mut self.near, &mut self.far].into_iter().zip(started) {
            for program in programs {
                end(host, *program).ok();
            }
        }
    }

    fn attempt(
        &mut self,
        case: &CallCase,
        options: &MouthToEarFlags,
        cables: &Cables,
        started: &mut [Vec<StartedTaut>; 2],
    ) -> Result<(MeasuredCall, Option<BranchRecording>), HostError> {
        let [near_ones, far_ones] = started;
        // Start the player first: until then, tap and call receive silence.
        let words = alongside("mouth", &cables.mouth, case, None);
        near_ones.push(start(&mut self.near, &words, "lab mouth")?);
        let serve = self.start_serve(case, options, &cables.ear)?;
        far_ones.push(serve);
        let said = says(&mut self.far, serve, "out", "listening for calls at ")?;
        let at = said.split_whitespace().last().unwrap_or_default();
        let (call, cap) = self.start_call(at, case, options, &cables.mouth)?;
        near_ones.push(call);
        says(&mut self.near, call, "err", "in a call with ")?;
        let latency = case.latency.unwrap_or(LONGEST_AUTO);
        let lasts = options.settle + options.duration + latency.times(2) + SPARE;
        let bulk = options.bulk.then(|| self.start_bulk(options, lasts, [near_ones, far_ones]));
        let bulk = bulk.transpose()?;
        self.exchange_often()?;
        self.rest(options.settle + latency)?;
        let longest = options.duration + latency + SPARE;
        let words = alongside("tap", &cables.ear, case, Some((longest, options.ear_delay())));
        let ear = start(&mut self.far, &words, "lab tap")?;
        far_ones.push(ear);
        let words = alongside("tap", &cables.mouth, case, Some((longest, Span::ZERO)));
        let direct = start(&mut self.near, &words, "lab tap")?;
        near_ones.push(direct);
        let before = self.near.usage(call.child);
        self.rest(options.duration + latency)?;
        let after = self.near.usage(call.child);
        let taps = [(&mut self.near, direct), (&mut self.far, ear)];
        let [direct, travelled] =
            taps.map(|(host, tap)| host.said_by::<BranchTap>(tap.child, tap.role, ENDING));
        let (direct, travelled) = (direct?, travelled?);
        let bulk = bulk.map(|flow| self.end_bulk(flow)).transpose()?;
        self.exchange_often()?;
        for (host, program) in [(&mut self.near, call), (&mut self.far, serve)] {
            let ended = end(host, program)?;
            if ended.status != Some(0) {
                return Err(host.failed(program.role, ended));
            }
        }
        let report: CallReport = serde_json::from_str(&self.far.read(REPORT)?).unwrap_or_default();
        let received = report.directions.into_iter().next();
        let received = received.and_then(|report| report.streams.into_iter().next());
        let mut notes: Vec<_> = direct.notes.iter().chain(&travelled.notes).cloned().collect();
        notes.dedup();
        let (recording, clock_uncertainty) = match self.joined(case, &direct, &travelled) {
            Ok((recording, unsure)) => (Ok(recording), unsure),
            Err(why) => (Err(why), Span::ZERO),
        };
        let configured = received.as_ref().and_then(|stream| stream.latency.configured_ns);
        let maximum = configured.map_or(latency, Span::from_nanos) + options.ear_delay() + BEYOND;
        let delays = recording.as_ref().map_err(Clone::clone).and_then(|both| both.delays(maximum));
        let used = before.ok().zip(after.ok()).and_then(|(before, after)| before.until(&after));
        let call = MeasuredCall { delays, clock_uncertainty, received, used, cap, bulk, notes };
        Ok((call, recording.ok()))
    }

    fn start_serve(
        &mut self,
        case: &CallCase,
        options: &MouthToEarFlags,
        ear: &str,
    ) -> Result<StartedTaut, HostError> {
        let address = self.called_at(options)?;
        let listen = format!("{}:0", in_url(address));
        let ear = format!("virtual:?cable={ear}&period={}&periods=2", case.period);
        let words = ["serve", "--listen", &listen, "--input", "null:", "--output", &ear];
        let mut words: Vec<_> = words.map(str::to_owned).into_iter().chain(shape(case)).collect();
        words.extend(["--report", "none", "--report-file"].map(str::to_owned));
        words.push(format!("{{dir}}/{REPORT}"));
        words.extend(scheduled(options.scheduler));
        start(&mut self.far, &words, "serve")
    }

    fn start_call(
        &mut self,
        at: &str,
        case: &CallCase,
        options: &MouthToEarFlags,
        mouth: &str,
    ) -> Result<(StartedTaut, Option<u32>), HostError> {
        let program = |child| StartedTaut { child, role: "call" };
        let CallCase { period, periods, .. } = case;
        let mouth = format!("virtual:?cable={mouth}&period={period}&periods={periods}");
        let words = ["call", at, "--transport", case.transport.name(), "--input", &mouth];
        let mut words: Vec<_> = words.map(str::to_owned).into_iter().chain(shape(case)).collect();
        words.extend(["--output", "null:", "--report", "none"].map(str::to_owned));
        if case.is_capped && options.cpu < 100 && self.uncapped.is_none() {
            let limits = ChildLimits { cpu_percent: Some(options.cpu), ..ChildLimits::default() };
            // A quota limits ordinary threads only.
            let words = words.iter().cloned().chain(scheduled(Some("other"))).collect::<Vec<_>>();
            match self.near.start_within(&words, &[], Some(limits)) {
                Ok(child) => return Ok((program(child), Some(options.cpu))),
                Err(HostError::Refused { why, .. }) => self.uncapped = Some(why),
                Err(other) => return Err(other),
            }
        }
        let class = scheduled(options.scheduler);
        let words: Vec<_> = words.into_iter().chain(class).collect();
        Ok((program(self.near.start(&words, &[])?), None))
    }

    fn joined(
        &self,
        case: &CallCase,
        direct: &BranchTap,
        travelled: &BranchTap,
    ) -> Result<(BranchRecording, Span), String> {
        let samples = |tap: &BranchTap, which: &str| {
            let sound = tap.sound().zip(tap.begins());
            let sound = sound.filter(|_| tap.rate_hz == case.rate.hertz());
            sound.ok_or_else(|| format!("the tap of the {which} branch recorded nothing"))
        };
        let (sound, begins) = samples(direct, "direct")?;
        let direct = Branch { samples: sound, begins };
        let (samples, begins) = samples(travelled, "travelled")?;
        let (begins, unsure) = self.begun_here(begins, samples.len(), case)?;
        let travelled = Branch { samples, begins };
        Ok((BranchRecording::of(direct, travelled, case.rate), unsure))
    }

    /// The time is translated at the middle of the recording, as clocks drift.
    fn begun_here(
        &self,
        begins: LocalTime,
        frames: usize,
        case: &CallCase,
    ) -> Result<(LocalTime, Span), String> {
        if self.clock.steps() > 0 {
            return Err(
                "its clock jumped during the call\nhint: prevent suspend of that host".to_owned()
            );
        }
        let half = case.rate.span_of(Frames::from_len(frames / 2));
        let here = self.clock.here(begins + half);
        let (middle, unsure) = here.ok_or("its clock was unknown during the call")?;
        Ok((middle - half, unsure))
    }

    fn exchange_often(&mut self) -> Result<(), HostError> {
        if matches!(self.clock, HostTimeline::Exchanged(_)) {
            for _ in 0..BURST {
                self.far.exchange(&mut self.clock)?;
            }
        }
        Ok(())
    }

    pub(super) fn rest(&mut self, span: Span) -> Result<(), HostError> {
        let until = Instant::now() + Duration::from_nanos(span.as_nanos().max(0) as u64);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(APART));
            self.far.exchange(&mut self.clock)?;
        }
    }
}

fn shape(case: &CallCase) -> Vec<String> {
    let CallCase { rate, channels, period, coding, ptime, latency, .. } = case;
    let mut words = vec![
        ("--rate", rate.hertz().to_string()),
        ("--channels", channels.count().to_string()),
        ("--format", (*coding).to_owned()),
        ("--ptime", format!("{}ns", ptime.as_nanos())),
        ("--period", period.to_string()),
    ];
    words.extend(latency.map(|latency| ("--latency", format!("{}ns", latency.as_nanos()))));
    words.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
}

fn scheduled(class: Option<impl ToString>) -> Vec<String> {
    class.map_or(Vec::new(), |class| vec!["--scheduler".to_owned(), class.to_string()])
}

/// `tap` is the tap's room and delay.
fn alongside(what: &str, cable: &str, case: &CallCase, tap: Option<(Span, Span)>) -> Vec<String> {
    let (rate, channels) = (case.rate.hertz().to_string(), case.channels.count().to_string());
    let mut device = format!("virtual:?cable={cable}");
    let mut words = vec!["lab".to_owned(), what.to_owned()];
    if let Some((_, delay)) = tap.filter(|(_, delay)| *delay != Span::ZERO) {
        device += &format!("&delay={}ns", delay.as_nanos());
    }
    words.extend([device, "--rate".to_owned(), rate, "--channels".to_owned(), channels]);
    if let Some((longest, _)) = tap {
        words.extend(["--longest".to_owned(), longest.to_string()]);
    }
    words
}

fn in_url(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// `out` is stdout, `err` stderr.
fn says(
    host: &mut LabHost,
    program: StartedTaut,
    file: &str,
    what: &str,
) -> Result<String, HostError> {
    let deadline = Instant::now() + BEGINNING;
    while Instant::now() < deadline {
        let said = host.read(&format!("{}.{file}", program.child))?;
        let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
        if let Some(line) = whole.lines().find(|line| line.contains(what)) {
            return Ok(line.to_owned());
        }
        if let ChildState::Ended(ended) = host.wait(program.child, LOOK)? {
            return Err(host.failed(program.role, ended));
        }
    }
    Err(host.refused(&format!("taut {} did not start in time", program.role)))
}

fn end(host: &mut LabHost, program: StartedTaut) -> Result<ChildEnded, HostError> {
    if let ChildState::Ended(ended) = host.wait(program.child, Duration::ZERO)? {
        return Ok(ended);
    }
    host.interrupt(program.child)?;
    host.end_of(program.child, program.role, ENDING)
}

#[derive(Clone, Copy)]
pub(super) struct StartedTaut {
    pub(super) child: u32,
    pub(super) role: &'static str,
}

pub(super) fn start(
    host: &mut LabHost,
    words: &[String],
    role: &'static str,
) -> Result<StartedTaut, HostError> {
    Ok(StartedTaut { child: host.start(words, &[])?, role })
}
