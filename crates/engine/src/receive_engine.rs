//! Receive engine: links and control channels to one device, with reports.

mod change;
mod followed;
mod kept;
mod labels;
pub mod learn;
mod mixer;
mod repairers;
mod shared;
mod sharing;
mod statistics;
mod stream;
mod streams;
mod summary;
mod zone;

#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use tautline_dsp::gain::Volume;
use tautline_io::clock::{WallClock, now};
use tautline_io::control::Waiter;
use tautline_proto::device::{Device, Listener, Settings, Stop};
use tautline_proto::lead::Lead;
use tautline_proto::stream::PTIME_RANGE;
use tautline_proto::time::LocalTime;
use tautline_proto::units::Channels;
use tautline_proto::wire::rtcp::Announcement;
use tautline_proto::zone::Programs;
use tautline_report::Report;
use tautline_report::ledger::ReceivedEntry;

use crate::control::{RecvChange, Requests, VOLUME_RAMP};
use crate::error::RunError;
use crate::monitor::ledger_file::LedgerFile;
use crate::monitor::machine;
use crate::monitor::observers::Observers;
use crate::monitor::run::{Progress, RunOptions, RunWatch, Running};
use crate::monitor::sound::{CardEar, Hearing, hearing, measurement};
use crate::plan::RecvPlan;
use crate::plan::probes::Probes;
use crate::plan::zone::ZonePlan;
use crate::receive_engine::change::MixChanges;
use crate::receive_engine::followed::FollowedClock;
use crate::receive_engine::labels::Labels;
use crate::receive_engine::mixer::{Mixer, Passages};
use crate::receive_engine::shared::{SharedLinkEnd, share};
use crate::receive_engine::stream::{Mix, ReceivedStream, connect};
use crate::receive_engine::streams::ReceivedStreams;
use crate::receive_engine::zone::{Zone, zone};

pub use crate::receive_engine::zone::ZoneHook;

/// A receiver without its device. For a card that listens to its output, call
/// [`RecvEngine::listener`] first.
pub struct RecvEngine {
    streams: Vec<ReceivedStream>,
    shared: Vec<SharedLinkEnd>,
    changes: MixChanges,
    clock: Option<FollowedClock>,
    zone: Option<Zone>,
    mixer: Mixer,
    exit_on_bye: bool,
    ledger: Option<LedgerFile<ReceivedEntry>>,
    labels: Option<PathBuf>,
    hearing: Hearing,
    ear: Option<CardEar>,
    observers: Observers,
}

const BLOCK: usize = 4096;

/// Doubts about an announced plan. They end after a second with a sender, or when the user changes
/// the run, because its recording is never discarded.
pub struct Doubt<'a> {
    /// Whether no packet preceded the announcement; its author may not be the sender.
    pub hearsay: bool,
    /// Whether the plan follows from unannounced packets; silent packets prove no format.
    pub proven: bool,
    /// Whether an announced stream is playable here. If not, the run continues and rejects the
    /// stream.
    pub playable: &'a dyn Fn(&Announcement) -> bool,
}

/// Outcome of a run with [`Doubt`]s.
pub enum Ran {
    /// Ended as requested.
    Whole(Box<Report>),
    /// A different stream arrived.
    Another(Box<Another>),
}

/// The next run's start.
pub struct Another {
    /// Announcement of the new stream; `None` for unexpected or unreadable packets.
    pub announcement: Option<Announcement>,
    /// Unfinished change requests.
    pub requests: Option<Requests<RecvChange>>,
}

impl RecvEngine {
    /// Allocates everything for the run.
    pub fn new(plan: RecvPlan) -> Result<Self, RunError> {
        let first = plan.streams.first().map(|stream| stream.receiver.format);
        let channels = first.map_or(Channels::STEREO, |format| format.channels);
        let rate = first.map_or(plan.device.rate, |format| format.rate);
        let (hearing, ear, mouth) = hearing(rate, plan.device.channels.count(), plan.device.period);
        let probes = plan.probes;
        let waiter =
            Waiter::new().map_err(|error| RunError::System("waiting for reports", error))?;
        let (wall, device, labels) = (WallClock::frozen(), plan.device, plan.labels.is_some());
        let mix = Mix { wall, device, waiter, probes, labels };
        let announces = plan.streams.iter().any(|stream| stream.announces);
        let zone_plan = plan.zone.or_else(|| announces.then(ZonePlan::default));
        let (zone, zone_mix) = zone_plan.map(|plan| zone(plan, &device)).unzip();
        let (mut streams, mut inputs) = (Vec::new(), Vec::new());
        let (mut shared, mut shared_links) = (Vec::new(), Vec::new());
        let more = plan.streams.iter().filter_map(|stream| stream.senders);
        let more = more.map(NonZeroUsize::get).sum::<usize>();
        inputs.reserve_exact(plan.streams.len() + more);
        let received_channel = plan.map.source_of(0).unwrap_or(0);
        for (number, stream) in plan.streams.into_iter().enumerate() {
            let receiver = stream.receiver();
            let (longest, ptime) = (receiver.longest_link_offset(), receiver.format().ptime());
            let mut measured = measurement(rate, number, received_channel, longest, ptime);
            measured.0.probes = probes;
            let several = stream.senders.map(|maximum| (stream.fed(), maximum.get()));
            let (mut received, mut input) =
                connect(stream, receiver, Some(measured), number, &mix)?;
            if let Some(several) = several {
                let (ours, links) = share(several, shared.len(), &mut received, &mut input);
                shared.push(ours);
                shared_links.push(links);
            }
            streams.push(received);
            inputs.push(input);
        }
        let clock = plan.clock.map(|clock| FollowedClock::new(clock, rate));
        let block = vec![0.0; BLOCK * channels.count()].into_boxed_slice();
        let (mut changes, (succession, spares, gains)) =
            MixChanges::new(mix, (inputs.len(), more), plan.gain);
        for (link, shared) in shared.iter_mut().enumerate() {
            shared.refill(link, &mut changes);
        }
        let playing = 2 * inputs.len().max(1) + more;
        let programs = Programs::new(plan.select, inputs.len() + more);
        let mixer = Mixer {
            passages: Passages::with_capacity(passages_of(&device) * playing),
            inputs,
            shared: shared_links,
            succession,
            spares,
            gains,
            programs,
            zone: zone_mix.map(Box::new),
            volume: Volume::over(plan.gain, VOLUME_RAMP),
            gain: plan.gain,
            map: plan.map,
            channels,
            one: block.clone(),
            sum: block,
            mouth: Some(mouth),
            xruns: 0,
            lead: Lead::of(&device),
            woke: now(),
            reported: LocalTime::ZERO,
        };
        let ledger = plan.ledger.as_deref().map(LedgerFile::create).transpose()?;
        Ok(Self {
            streams,
            shared,
            changes,
            clock,
            zone,
            mixer,
            exit_on_bye: plan.exit_on_bye,
            ledger,
            labels: plan.labels,
            hearing,
            ear: (probes != Probes::Off).then_some(ear),
            observers: Observers::none(),
        })
    }

    /// Applies changes from `requests` during the run.
    pub fn listen(&mut self, requests: Requests<RecvChange>) {
        self.changes.requests = Some(requests);
    }

    /// Sets the hook for events of the zone, such as a log.
    pub fn on_zone_event(&mut self, hook: ZoneHook) {
        if let Some(zone) = &mut self.zone {
            zone.hook = Some(hook);
        }
    }

    /// Publishes snapshots.
    pub fn show_to(&mut self, observers: Observers) {
        self.observers = observers;
    }

    /// The listener for a card's own output; `None` after the first call.
    pub fn listener(&mut self) -> Option<Box<dyn Listener>> {
        self.ear.take().map(|ear| Box::new(ear) as Box<dyn Listener>)
    }

    /// Without a listening card, packets to find would accumulate.
    fn stop_listening_to_the_deaf(&mut self) {
        self.ear = None;
        if !self.hearing.is_deaf() {
            return;
        }
        self.mixer.mouth = None;
        for (received, input) in self.streams.iter_mut().zip(&mut self.mixer.inputs) {
            (received.measurement, input.tap) = (None, None);
        }
    }

    /// Runs until stopped.
    pub fn run(
        self,
        device: Box<dyn Device>,
        options: &RunOptions,
        stop: &Stop,
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<Report, RunError> {
        self.run_until(device, options, stop, progress, |_| None).map(|(report, _)| report)
    }

    /// Runs an announced plan; ends early at a different stream.
    pub fn run_as_announced(
        self,
        device: Box<dyn Device>,
        options: &RunOptions,
        stop: &Stop,
        doubt: &Doubt<'_>,
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<Ran, RunError> {
        let another = |all: &mut ReceivedStreams| all.another(doubt);
        Ok(match self.run_until(device, options, stop, progress, another)? {
            (_, Some(another)) => Ran::Another(Box::new(another)),
            (report, None) => Ran::Whole(Box::new(report)),
        })
    }

    fn begin(self, watch: RunWatch, device: &Settings) -> (ReceivedStreams, Mixer) {
        let Self { streams, shared, changes, clock, hearing, ledger, observers, zone, .. } = self;
        let all = ReceivedStreams {
            streams,
            shared,
            changes,
            hearing,
            clock,
            ledger,
            observers,
            zone,
            labels: self.labels.map(|path| Labels::new(&path, device)),
            watch,
            beat: LocalTime::ZERO,
            quiet_since: None,
            settled: false,
        };
        (all, self.mixer)
    }

    fn run_until(
        mut self,
        device: Box<dyn Device>,
        options: &RunOptions,
        stop: &Stop,
        progress: &mut dyn FnMut(&Progress<'_>),
        disproved: impl Fn(&mut ReceivedStreams) -> Option<Option<Announcement>>,
    ) -> Result<(Report, Option<Another>), RunError> {
        self.stop_listening_to_the_deaf();
        self.streams
            .iter_mut()
            .for_each(|received| received.statistics.timestamp_source = device.timestamp_source());
        let (settings, exit_on_bye) = (device.settings(), self.exit_on_bye);
        let (mut all, mixer) = self.begin(RunWatch::begin(options), &settings);
        let running = Running::start(device, Box::new(mixer), options.scheduler, stop)?;
        machine::note_priority(&mut all.watch.refused, &running.granted);
        let scheduler = running.granted.effective().to_string();
        let (mut over, mut another) = (false, None);
        while !all.watch.is_over(stop) && !running.is_over() {
            if !all.work() {
                continue;
            }
            another = disproved(&mut all);
            if another.is_some() {
                break;
            }
            progress(&all.progress());
            all.publish();
            over = exit_on_bye && all.is_over();
            if over {
                break;
            }
        }
        let ended = now();
        let process = running.end()?;
        all.turn();
        drop(process);
        all.turn();
        if another.is_none() {
            // A short run reported no progress.
            progress(&all.progress());
        }
        let another = another.map(|announcement| {
            let requests = all.changes.requests.take();
            Another { announcement, requests }
        });
        Ok((all.close(ended, scheduler, over), another))
    }
}

fn passages_of(device: &Settings) -> usize {
    let shortest = device.rate.frames_within(PTIME_RANGE.0).count().max(1);
    2 * (device.period.count() / shortest + 64).unsigned_abs() as usize
}
