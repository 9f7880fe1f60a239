//! `taut demo`: the bundled recording, one sender, two receivers, real sockets.

mod building;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::thread::JoinHandle;

use indicatif::{MultiProgress, ProgressBar};
use tautline_audio::{DeviceSpec, Extras, SoftwareSpec, Wanted};
use tautline_compare::{Comparison, ComparisonReport};
use tautline_dsp::format::SampleFormat;
use tautline_engine::error::RunError;
use tautline_engine::monitor::run::{Progress, RunOptions};
use tautline_engine::plan::lay;
use tautline_engine::plan::pacing;
use tautline_engine::plan::sockets::LinkOptions;
use tautline_engine::plan::{LinkKind, RecvPlan, SendPlan, StreamPlan};
use tautline_engine::receive_engine::RecvEngine;
use tautline_engine::send_engine::SendEngine;
use tautline_io::udp::UdpOptions;
use tautline_io::udp::pair::{OpenedStream, open_stream};
use tautline_proto::device::{Direction, Settings, Stop};
use tautline_proto::jitter_buffer::JitterBufferConfig;
use tautline_proto::latency::LatencyRule;
use tautline_proto::packet::Codings;
use tautline_proto::stream::{StreamFormat, packet_frames};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::PacketHeads;
use tautline_proto::wire::rtp::RtpUnpack;
use tautline_report::Report;
use tautline_report::text::{self, Detail};

use super::compare::compare;
use super::{reported_pacing, stop_on_signals};
use crate::details::Details;
use crate::failure::Failure;
use crate::flags::{Demo, OtherDemo};
use crate::messages::words;
use crate::page::{self, Drawing};
use crate::screen::{self, LiveLine};
use crate::show;
use crate::voice::Voice;

static RECORDING: &[u8] = include_bytes!("../../../../assets/recording.flac");

#[derive(Clone, Copy)]
struct DemoSetup {
    format: StreamFormat,
    device: Settings,
    latency: Span,
    options: RunOptions,
}

pub(crate) fn run(flags: &Demo) -> Result<(), Failure> {
    if let Some(OtherDemo::Building(flags)) = &flags.other {
        return building::run(flags);
    }
    std::fs::create_dir_all(&flags.out).map_err(|error| {
        Failure::open(format!("creating the folder {}: {error}", flags.out.display()))
    })?;
    let recording = flags.out.join("recording.flac");
    write(&recording, RECORDING)?;
    let scene = scene(flags, &recording)?;
    let stop = stop_on_signals()?;
    let stage = DemoOutput::new(flags.voice.voice());
    let mut receivers = Vec::new();
    for name in ["receiver-1", "receiver-2"] {
        receivers.push(DemoReceiver::start(name, &flags.out, scene, stage.part(name))?);
    }
    let sender = stage.part("sender    ");
    let sent = send(&recording, &receivers, scene, &stop, sender);
    if sent.is_err() {
        // Receivers get no goodbye.
        receivers.iter().for_each(|receiver| receiver.stop.request());
    }
    let received: Vec<ReceiverOutcome> =
        receivers.into_iter().map(DemoReceiver::end).collect::<Result<_, Failure>>()?;
    let sent = sent?;
    let stopped = stop.is_requested().then_some(Cut::Stopped);
    let cut = stopped.or(flags.duration.map(Cut::After));
    notify(flags, &sent, &received, &recording, cut)
}

struct DemoOutput {
    lines: MultiProgress,
    voice: Voice,
    refused: Arc<Once>,
}

struct Part {
    line: LiveLine,
    name: &'static str,
    lines: MultiProgress,
    voice: Voice,
    refused: Arc<Once>,
    details: Details,
}

impl DemoOutput {
    fn new(voice: Voice) -> Self {
        let lines = MultiProgress::with_draw_target(voice.target());
        Self { lines, voice, refused: Arc::new(Once::new()) }
    }

    fn part(&self, name: &'static str) -> Part {
        Part {
            line: LiveLine::on(self.lines.add(ProgressBar::no_length()), name),
            name: name.trim_end(),
            lines: self.lines.clone(),
            voice: self.voice,
            refused: Arc::clone(&self.refused),
            details: Details::default(),
        }
    }
}

impl Part {
    fn on(&mut self, progress: &Progress<'_>) {
        self.line.show(progress);
        if let Some(refused) = progress.refused {
            self.refused.call_once(|| {
                let line = refused.line();
                line.iter().for_each(|line| self.lines.suspend(|| self.voice.notify(line)));
            });
        }
        if self.voice == Voice::Verbose {
            for news in self.details.news(progress) {
                self.detail(&news);
            }
        }
    }

    fn detail(&self, news: &str) {
        self.lines.suspend(|| self.voice.detail(&format!("{}: {news}", self.name)));
    }
}

fn scene(flags: &Demo, recording: &Path) -> Result<DemoSetup, Failure> {
    let file = tautline_audio::probe(
        &DeviceSpec::Software(SoftwareSpec::File(recording.into())),
        Wanted::default(),
    )?;
    let device = Settings {
        rate: file.map_or(Rate::HZ_48000, |file| file.rate),
        channels: file.map_or(Channels::STEREO, |file| file.channels),
        period: Frames::new(i64::from(flags.period)),
        periods: flags.periods,
    };
    let sample = file.map_or(SampleFormat::L24, |file| file.coding.exact_format());
    let packet = packet_frames(device.rate, Span::from_millis(1))
        .map_err(|error| Failure::usage(error.to_string()))?;
    let format = StreamFormat {
        codec: None,
        rate: device.rate,
        channels: device.channels,
        sample,
        packet,
        payload_type: StreamFormat::default_payload_type(sample),
    };
    let latency = flags.latency;
    if let Some(why) = too_short(latency, &format, &device) {
        return Err(Failure::usage(why));
    }
    let options = RunOptions {
        scheduler: flags.scheduler,
        duration: flags.duration,
        stall_monitor: true,
        lock_memory: true,
        words,
    };
    Ok(DemoSetup { format, device, latency, options })
}

/// Error, with a working latency, if none of the sound would be audible.
fn too_short(latency: Span, format: &StreamFormat, device: &Settings) -> Option<String> {
    let (packing, period) = (format.packing_age(device.period), device.rate.span_of(device.period));
    let takes = |periods: i64| packing + period.times(periods);
    let periods = i64::from(device.periods);
    if latency >= takes(periods) {
        return None;
    }
    // Half for the buffer, half for the network and late threads.
    let fits = (latency - packing).as_nanos() / (2 * period.as_nanos()).max(1);
    let hint = match fits {
        FEWEST.. => format!("use --periods {fits}, on a quiet machine"),
        _ => format!(
            "use --latency {} --periods {FEWEST}, on a quiet machine, or a shorter --period",
            takes(2 * FEWEST)
        ),
    };
    Some(format!(
        "--latency {latency} is less than the {} of a packet and {periods} periods of {period}\n\
         hint: {hint}, or a --latency well above {0}",
        takes(periods)
    ))
}

const FEWEST: i64 = 2;

struct DemoReceiver {
    name: &'static str,
    rtp: SocketAddr,
    rtcp: SocketAddr,
    played: PathBuf,
    stop: Stop,
    thread: JoinHandle<Result<Report, RunError>>,
}

struct ReceiverOutcome {
    name: &'static str,
    played: PathBuf,
    report: Report,
}

impl DemoReceiver {
    fn start(
        name: &'static str,
        out: &Path,
        scene: DemoSetup,
        mut part: Part,
    ) -> Result<Self, Failure> {
        let options = UdpOptions::receiver(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0));
        let opened = open_stream(&options, None)?;
        let (rtp, rtcp) = opened.addresses();
        let OpenedStream { link, control, .. } = opened;
        let wire = RtpUnpack::taking(Codings::Exactly);
        let config = JitterBufferConfig::new(wire, scene.format, scene.latency);
        let stream = StreamPlan::new(format!("rtp://{rtp}"), config, link, control);
        let plan = RecvPlan { exit_on_bye: true, ..RecvPlan::new(vec![stream], scene.device) };
        let mut engine = RecvEngine::new(plan)?;
        engine.show_to(show::observers("recv", part.voice));
        let played = out.join(format!("{name}.wav"));
        let extras = Extras {
            listener: engine.listener(),
            record_format: scene.format.sample,
            ..Extras::default()
        };
        let spec = DeviceSpec::Software(SoftwareSpec::File(played.clone().into()));
        let device = tautline_audio::open(&spec, Direction::Playback, scene.device, extras)?.device;
        let stop = Stop::default();
        let (requested, options) = (stop.clone(), RunOptions { duration: None, ..scene.options });
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || {
                engine.run(device, &options, &requested, &mut |progress| part.on(progress))
            })
            .map_err(|error| Failure::running(format!("starting {name}: {error}")))?;
        Ok(Self { name, rtp, rtcp, played, stop, thread })
    }

    fn end(self) -> Result<ReceiverOutcome, Failure> {
        match self.thread.join() {
            Ok(report) => {
                Ok(ReceiverOutcome { name: self.name, played: self.played, report: report? })
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn send(
    recording: &Path,
    receivers: &[DemoReceiver],
    scene: DemoSetup,
    stop: &Stop,
    mut part: Part,
) -> Result<Report, Failure> {
    let spec = DeviceSpec::Software(SoftwareSpec::File(recording.into()));
    let extras = Extras { record_format: scene.format.sample, ..Extras::default() };
    let device = tautline_audio::open(&spec, Direction::Capture, scene.device, extras)?.device;
    let mut udp = UdpOptions::sender(receivers.iter().map(|receiver| receiver.rtp).collect());
    let (format, period, scheduler) = (&scene.format, scene.device.period, scene.options.scheduler);
    lay::make_room(&mut udp, format, period, PacketHeads::rtp(true));
    let mut by = LinkOptions::Udp(Box::new(udp));
    let age = format.packing_age(period);
    let (requested, spare) = ((LinkKind::Auto, None), scene.latency - age);
    let paced = pacing::pace(&mut by, requested, (format, period), (spare, scheduler))?;
    part.detail(&reported_pacing(&paced));
    let opened = by.open(paced.by_wire_thread.then_some(scheduler))?;
    let address =
        receivers.iter().map(|r| format!("rtp://{}", r.rtp)).collect::<Vec<_>>().join(" ");
    let mut plan = SendPlan::new(address, opened, scene.format, scene.device)?;
    plan.reports_to = receivers.iter().map(|receiver| receiver.rtcp.into()).collect();
    plan.policy.link_offset = scene.latency;
    plan.policy.latency = LatencyRule::Chosen(scene.latency);
    plan.stream.pacing = Some(paced);
    let mut engine = SendEngine::new(plan)?;
    engine.show_to(show::observers("send", part.voice));
    Ok(engine.run(device, &scene.options, stop, &mut |progress| part.on(progress))?)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Stopped,
    After(Span),
}

/// Fails if a receiver did not play all sent sound up to the cut.
fn notify(
    flags: &Demo,
    sent: &Report,
    received: &[ReceiverOutcome],
    recording: &Path,
    cut: Option<Cut>,
) -> Result<(), Failure> {
    write(&flags.out.join("sender.json"), json(sent)?.as_bytes())?;
    let emit = match flags.voice.voice() {
        Voice::Quiet => |_: &str| (),
        Voice::Usual | Voice::Verbose => screen::emit,
    };
    let mut broken = None;
    for ReceiverOutcome { name, played, report } in received {
        write(&flags.out.join(format!("{name}.json")), json(report)?.as_bytes())?;
        if page::AVAILABLE {
            let page = page::of_run(report, None, Drawing::Page);
            write(&flags.out.join(format!("{name}.html")), page.as_bytes())?;
        }
        emit(&format!("── {name}\n{}", text::render(report, Detail::Full).trim_end()));
        let verdict = compare(recording, played)?;
        let faults = FaultCounts::of(report).and(&FaultCounts::of(sent));
        let alongside = beside_the_report(report, &verdict.report());
        emit(&format!("{}: {}{alongside}\n", played.display(), reported(&verdict, cut, &faults)));
        if !is_good(&verdict, cut, &faults) {
            let why = faults.why();
            broken =
                Some(Failure::running(format!("{name} did not play all of the recording: {why}")));
        }
    }
    emit(&format!("recordings and reports: {}", flags.out.display()));
    broken.map_or(Ok(()), Err)
}

/// Explains why the file and the counters differ about missing frames.
fn beside_the_report(report: &Report, verdict: &ComparisonReport) -> String {
    let counters = report.streams.iter().map(|stream| stream.counters);
    let missing = counters.map(|counters| counters.missing_frames).sum();
    let rate = report.streams.first().map_or(0, |stream| stream.rate);
    let dropouts = &verdict.dropouts;
    // Concealment cross-fades for 1 ms (`dsp::conceal`).
    let faded = dropouts.count as u64 * u64::from(rate / 1000);
    differing(missing, dropouts.frames as u64, faded)
}

/// Up to `faded` of the differing frames are cross-faded.
fn differing(missing: u64, differ: u64, faded: u64) -> String {
    match (missing, differ) {
        (1.., 1..) if differ > missing + faded => format!(
            "\n  {missing} frames were missing according to the report; it does not explain the other {}",
            differ - missing
        ),
        (1.., 1..) if missing < differ => format!(
            "\n  {missing} frames were missing according to the report; the other {} are cross-fades of 1 ms \
             at the end of each dropout",
            differ - missing
        ),
        (1.., _) if missing > differ => format!(
            "\n  {missing} frames were missing according to the report; {} of them were concealed without \
             a difference",
            missing - differ
        ),
        _ => String::new(),
    }
}

fn is_good(verdict: &Comparison, cut: Option<Cut>, faults: &FaultCounts) -> bool {
    match cut {
        None => verdict.is_whole(),
        Some(Cut::Stopped) if !verdict.is_found() => faults.all == 0,
        Some(_) => verdict.is_whole_so_far() && faults.all == 0,
    }
}

fn reported(verdict: &Comparison, cut: Option<Cut>, faults: &FaultCounts) -> String {
    let identical = format!("{} frames identical to the recording", verdict.identical());
    match cut.filter(|_| is_good(verdict, cut, faults)) {
        Some(Cut::Stopped) if !verdict.is_found() => {
            "stopped before anything was played".to_owned()
        }
        Some(Cut::Stopped) => format!("{identical} until it was stopped"),
        Some(Cut::After(time)) => format!("{identical} in {time}"),
        None => verdict.to_string(),
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct FaultCounts {
    all: u64,
    host: u64,
}

impl FaultCounts {
    fn of(report: &Report) -> Self {
        let counters = report.streams.iter().map(|stream| &stream.counters);
        counters.fold(Self::default(), |sum, counted| {
            let all = counted.missed() + counted.xruns;
            sum.and(&Self { all, host: counted.host_stalled })
        })
    }

    fn and(self, more: &Self) -> Self {
        Self { all: self.all + more.all, host: self.host + more.host }
    }

    fn why(&self) -> String {
        let Self { all, host } = self;
        match host {
            0 => "its report shows the losses; the host did not stall".to_owned(),
            _ => format!(
                "{host} of {all} missed packets and xruns were during stalls of the host\n\
                 hint: run it again on a quieter machine, or with a longer --latency and more --periods"
            ),
        }
    }
}

fn json(report: &Report) -> Result<String, Failure> {
    report.to_json().map_err(|error| Failure::running(error.to_string()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes)
        .map_err(|error| Failure::open(format!("writing {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use tautline_compare::{Sound, judge};

    fn until(frames: usize, hole: core::ops::Range<usize>) -> Comparison {
        let noise = |at: u32| {
            (at.wrapping_mul(at).wrapping_mul(2_654_435_761) >> 8) as f32 / 16_777_216.0 - 0.5
        };
        let sent = vec![(0..200_000).map(noise).collect::<Vec<_>>()];
        let mut received = vec![sent[0][..frames].to_vec()];
        received[0][hole].fill(0.0);
        let [sent, received] =
            [sent, received].map(|channels| Sound { channels, rate: Rate::HZ_48000 });
        judge(&sent, &received, &mut |_| {})
    }

    #[test]
    fn demo_cut_off_reports_what_was_played_without_blame() {
        let good = FaultCounts::default();
        let (verdict, all) = (until(183_360, 0..0), 183_360);
        let identical = format!("{all} frames identical to the recording");
        let stopped = Some(Cut::Stopped);
        snapshot!(reported(&verdict, stopped, &good));
        assert_eq!(
            reported(&verdict, Some(Cut::After(Span::from_secs(4))), &good),
            format!("{identical} in 4s")
        );
        snapshot!(reported(&verdict, None, &good));
        assert!(!is_good(&verdict, None, &good), "nobody asked it to end");
        let nothing = until(0, 0..0);
        snapshot!(reported(&nothing, stopped, &good));
        assert!(is_good(&nothing, stopped, &good));
        assert!(!is_good(&nothing, stopped, &FaultCounts { all: 9, host: 0 }), "all was lost");
        assert!(!is_good(&nothing, Some(Cut::After(Span::from_secs(4))), &good));
    }

    #[test]
    fn faded_in_frames_are_counted_apart_from_missing_frames() {
        let one = |missing, differ| differing(missing, differ, 48);
        snapshot!(one(6, 54));
        snapshot!(one(6, 55));
        snapshot!(one(54, 6));
        assert_eq!([one(0, 0), one(0, 9), one(9, 9)], ["", "", ""]);
    }

    #[test]
    fn demo_that_lost_sound_reports_it_whatever_the_cause() {
        let damaged = until(183_360, 48_000..48_480);
        let faults = FaultCounts { all: 40, host: 31 };
        for cut in [None, Some(Cut::Stopped), Some(Cut::After(Span::from_secs(4)))] {
            assert!(!is_good(&damaged, cut, &faults), "{cut:?}");
            let reported = reported(&damaged, cut, &faults);
            snapshot!(format!("{cut:?}"), reported);
            assert!(!reported.contains("identical to"), "{reported}");
        }
        snapshot!(faults.why());
        snapshot!(FaultCounts { all: 40, host: 0 }.why());
    }
}
