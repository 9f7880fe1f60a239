//! Receives and plays: from links and control sockets to one device, and the report of it.

use tautline_dsp::gain::Volume;
use tautline_io::clock::{WallClock, now};
use tautline_proto::clock::ClockSource;
use tautline_proto::device::{Device, Listener, Settings, Stop};
use tautline_proto::stream::PTIME_RANGE;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::Channels;

use crate::control::{RecvChange, Requests};
use crate::ledger_file::LedgerFile;
use crate::machine;
use crate::plan::RecvPlan;
use crate::recv_change::Changes;
use crate::recv_desk::{Desk, connect};
use crate::report::Report;
use crate::run::{Progress, RunError, RunOptions, Running, Watch};
use crate::rx::{Mixer, Passages, VOLUME_RAMP};
use crate::session::wait_for;
use crate::sound::{Ear, Measurement, measurement};

/// Hears what the device plays, for every stream.
struct Ears(Vec<Ear>);

impl Listener for Ears {
    fn heard(&mut self, meets: LocalTime, samples: &[f32]) {
        for ear in &mut self.0 {
            ear.heard(meets, samples);
        }
    }
}

/// A receiver with everything but its device, which may want the [`RecvEngine::listener`] first.
pub struct RecvEngine {
    desks: Vec<Desk>,
    changes: Changes,
    mixer: Mixer,
    device: Settings,
    until_bye: bool,
    ledger: Option<LedgerFile>,
    ears: Option<Ears>,
}

/// The longest block that is filled at once: more than any card's period.
const BLOCK: usize = 4096;

impl RecvEngine {
    /// Lays out all that the run will need.
    pub fn new(plan: RecvPlan) -> Result<Self, RunError> {
        let first = plan.streams.first().map(|stream| stream.receiver.format);
        let channels = first.map_or(Channels::STEREO, |format| format.channels);
        let wall = WallClock::frozen();
        let (mut desks, mut inputs, mut ears) = (Vec::new(), Vec::new(), Vec::new());
        let heard_channel = plan.map.source_of(0).unwrap_or(0);
        for (number, stream) in plan.streams.into_iter().enumerate() {
            let rate = stream.receiver.format.rate;
            let receiver = stream.receiver();
            let longest = receiver.longest_link_offset();
            let (measurement, tap, ear) =
                measurement(rate, plan.device.channels.count(), heard_channel, longest);
            ears.push(ear);
            let (desk, input) =
                connect(stream, receiver, Some((measurement, tap)), (number, wall, &plan.device))?;
            desks.push(desk);
            inputs.push(input);
        }
        let block = vec![0.0; BLOCK * channels.count()].into_boxed_slice();
        let (changes, succession, gains) = Changes::new(inputs.len(), plan.gain, plan.device, wall);
        // Each stream may have an heir.
        let playing = 2 * inputs.len().max(1);
        let mixer = Mixer {
            passages: Passages::with_capacity(passages_of(&plan.device) * playing),
            inputs,
            succession,
            gains,
            select: plan.select,
            chosen: None,
            volume: Volume::over(plan.gain, VOLUME_RAMP),
            gain: plan.gain,
            map: plan.map,
            channels,
            one: block.clone(),
            sum: block,
            xruns: 0,
            woke: now(),
            told: LocalTime::ZERO,
        };
        let ledger = plan.ledger.as_deref().map(LedgerFile::create).transpose()?;
        Ok(Self {
            desks,
            changes,
            mixer,
            device: plan.device,
            until_bye: plan.until_bye,
            ledger,
            ears: Some(Ears(ears)),
        })
    }

    /// Makes the changes that are asked for while it runs.
    pub fn listen(&mut self, requests: Requests<RecvChange>) {
        self.changes.requests = Some(requests);
    }

    /// The ears of the measurement, for a card that can listen to itself. Once.
    pub fn listener(&mut self) -> Option<Box<dyn Listener>> {
        self.ears.take().map(|ears| Box::new(ears) as Box<dyn Listener>)
    }

    /// Measures nothing where nobody took the ears: packets that wait to be found in the sound would
    /// only become more.
    fn stop_listening_to_the_deaf(&mut self) {
        self.ears = None;
        for (desk, input) in self.desks.iter_mut().zip(&mut self.mixer.inputs) {
            if desk.measurement.as_ref().is_some_and(Measurement::is_deaf) {
                (desk.measurement, input.tap) = (None, None);
            }
        }
    }

    /// Runs until asked to stop, then reports.
    pub fn run(
        mut self,
        device: Box<dyn Device>,
        options: &RunOptions,
        stop: &Stop,
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<Report, RunError> {
        self.stop_listening_to_the_deaf();
        let mut watch = Watch::begin(options);
        let running = Running::start(device, Box::new(self.mixer), options.scheduler, stop)?;
        watch.note_scheduler(&running.granted);
        let scheduler = running.granted.effective().to_string();
        let mut quiet_since = None;
        while !watch.is_over(stop) && !running.is_over() {
            let desks = self.desks.iter().chain(self.changes.heirs());
            wait_for(desks.map(|desk| &desk.talk), watch.beat());
            self.changes.serve(&mut self.desks);
            turn(
                all(&mut self.desks, &mut self.changes),
                &self.device,
                &mut watch,
                &mut self.ledger,
            );
            self.changes.close_gone(&mut self.desks, &mut watch, self.ledger.as_mut());
            progress(&progress_of(&self.desks, &watch));
            if self.until_bye
                && all(&mut self.desks, &mut self.changes).all(|desk| desk.is_over(now()))
            {
                // The last frames are heard one latency after the last packet was captured.
                let longest = self.desks.iter().map(|d| d.link_offset).max();
                let since = *quiet_since.get_or_insert_with(now);
                if now() - since > longest.unwrap_or(Span::ZERO) + Span::from_millis(100) {
                    break;
                }
            } else {
                quiet_since = None;
            }
        }
        let ended = now();
        let process = running.end()?;
        turn(all(&mut self.desks, &mut self.changes), &self.device, &mut watch, &mut self.ledger);
        // Its last word: there is room for it now.
        drop(process);
        turn(all(&mut self.desks, &mut self.changes), &self.device, &mut watch, &mut self.ledger);
        for desk in &mut self.desks {
            desk.finish(&watch, self.ledger.as_mut());
        }
        if let Some(Err(flaw)) = self.ledger.map(LedgerFile::finish) {
            watch.note(flaw);
        }
        let playing = self.desks.iter().map(|desk| desk.report(&mut watch.notes));
        let mut streams: Vec<_> = playing.collect();
        streams.extend(self.changes.closed());
        Ok(Report {
            schema: 1,
            role: "recv",
            duration_ns: (ended - watch.began).as_nanos(),
            streams,
            host: machine::host(scheduler, watch.witness.book().total()),
            notes: watch.notes,
        })
    }
}

/// The desks of streams that have a place, and of those that are to have one.
fn all<'a>(desks: &'a mut [Desk], changes: &'a mut Changes) -> impl Iterator<Item = &'a mut Desk> {
    desks.iter_mut().chain(changes.heirs_mut())
}

/// One round of the ordinary thread.
fn turn<'a>(
    desks: impl Iterator<Item = &'a mut Desk>,
    device: &Settings,
    watch: &mut Watch,
    ledger: &mut Option<LedgerFile>,
) {
    watch.look();
    for desk in desks {
        desk.turn(device, watch, ledger.as_mut());
    }
}

fn progress_of<'a>(desks: &[Desk], watch: &'a Watch) -> Progress<'a> {
    let elapsed = now() - watch.began;
    let mut progress = Progress { elapsed, notes: &watch.notes, ..Progress::default() };
    for desk in desks {
        progress.link_offset = progress.link_offset.max(desk.link_offset);
        let Some(status) = &desk.books.status else { continue };
        progress.packets += status.counters.received;
        progress.missed += status.counters.lost + status.counters.late;
        progress.xruns = status.xruns;
        progress.auto = progress.auto.or(desk.auto());
        let (latency, heard) = desk.books.latency();
        if let (None, Some(median), Some(clock)) =
            (progress.latency, latency.median(), desk.books.clock)
        {
            progress.latency = Some((median, clock.uncertainty));
            progress.heard = heard;
            let other = clock.source != ClockSource::Exchange;
            progress.clock = other.then(|| clock.source.name());
        }
    }
    progress
}

/// The most packets of one stream whose turn comes in one period: the shortest there are, and as
/// many again that a skip brings.
fn passages_of(device: &Settings) -> usize {
    let shortest = device.rate.frames_within(PTIME_RANGE.0).count().max(1);
    2 * (device.period.count() / shortest + 64).unsigned_abs() as usize
}
