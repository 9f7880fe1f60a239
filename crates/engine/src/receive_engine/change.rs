//! Changes of the mix during playback: gains, and streams that replace others.

use rtrb::{Consumer, Producer};
use tautline_dsp::gain::Gain;
use tautline_io::clock::now;
use tautline_io::thread::memory;
use tautline_proto::latency::LatencyRule;
use tautline_proto::zone::AnnouncementId;
use tautline_report::StreamReport;
use tautline_report::ledger::ReceivedEntry;

use crate::control::{
    Answer, CannotChange, Changed, Fader, ReceiveStanding, RecvChange, Requests, StreamStanding,
};
use crate::error::RunError;
use crate::monitor::ledger_file::LedgerFile;
use crate::monitor::run::RunWatch;
use crate::monitor::sound::Hearing;
use crate::plan::StreamPlan;
use crate::receive_engine::labels::Labels;
use crate::receive_engine::mixer::{MixerInput, Replacement, Succession};
use crate::receive_engine::repairers::{RepairerStore, Spares, repairers};
use crate::receive_engine::stream::{Mix, ReceivedStream, connect};

pub(crate) struct MixChanges {
    pub(crate) requests: Option<Requests<RecvChange>>,
    pub(crate) mix: Mix,
    pub(crate) made: bool,
    fader: Fader,
    gains: Producer<Gain>,
    coming: Producer<Replacement>,
    gone: Consumer<MixerInput>,
    pub(crate) repairers: RepairerStore,
    successors: Vec<(usize, ReceivedStream)>,
    pub(crate) closed: Vec<StreamReport>,
    pub(crate) count: usize,
    /// Announcements that a user ended.
    pub(crate) stopped: Vec<AnnouncementId>,
    /// Latency requested for all streams; later streams adopt it.
    pub(crate) latency_of_all: Option<LatencyRule>,
}

/// Maximum closed streams kept. A sender may keep changing its SSRC, so this limits memory.
const CLOSED: usize = 1000;

const WAITING: usize = 4;

impl MixChanges {
    pub(crate) fn new(
        mix: Mix,
        (places, more): (usize, usize),
        gain: Gain,
    ) -> (Self, (Succession, Spares, Consumer<Gain>)) {
        let (gains, gains_out) = memory::ring(64);
        let (coming, coming_out) = memory::ring(WAITING);
        let (gone_in, gone) = memory::ring(WAITING);
        let (repairers, spares) = repairers(places, places + more + WAITING);
        let changes = Self {
            requests: None,
            made: false,
            mix,
            fader: Fader { gain, muted: false },
            gains,
            coming,
            gone,
            repairers,
            successors: Vec::new(),
            closed: Vec::new(),
            count: places,
            stopped: Vec::new(),
            latency_of_all: None,
        };
        (changes, (Succession::new(places, coming_out, gone_in), spares, gains_out))
    }

    pub(crate) fn connect(
        &mut self,
        plan: StreamPlan,
    ) -> Result<(ReceivedStream, MixerInput), RunError> {
        let receiver = plan.receiver();
        let connected = connect(plan, receiver, None, self.count, &self.mix)?;
        self.count += 1;
        Ok(connected)
    }

    pub(crate) fn keep(&mut self, report: StreamReport) {
        if self.closed.len() < CLOSED {
            self.closed.push(report);
        }
    }

    pub(crate) fn successors(&self) -> impl Iterator<Item = &ReceivedStream> + Clone {
        self.successors.iter().map(|(_, stream)| stream)
    }

    pub(crate) fn successors_mut(&mut self) -> impl Iterator<Item = &mut ReceivedStream> {
        self.successors.iter_mut().map(|(_, stream)| stream)
    }

    pub(crate) fn serve(&mut self, streams: &mut [ReceivedStream]) {
        if let Some(requests) = self.requests.take() {
            requests.serve(|change| self.change(change, streams));
            self.requests = Some(requests);
        }
    }

    fn change(&mut self, change: RecvChange, streams: &mut [ReceivedStream]) -> Answer {
        self.made |= !matches!(change, RecvChange::Status);
        match change {
            RecvChange::Latency(which, latency) => {
                let chosen = chosen(which, streams)?;
                // All streams change or none. If any stream rejects the change, the first stream
                // does.
                let latencies = chosen.iter_mut().map(|stream| stream.set_latency(latency));
                let latencies = latencies.collect::<Result<_, _>>()?;
                if which.is_none() {
                    self.latency_of_all = Some(latency);
                }
                Ok(Changed::Latencies(latencies))
            }
            RecvChange::Volume(None, gain) => self.set_gain(gain, self.fader.muted),
            RecvChange::Mute(None, muted) => self.set_gain(self.fader.gain, muted),
            RecvChange::Volume(Some(which), gain) => {
                one(which, streams)?.set_gain(|fader| fader.gain = gain).map(Changed::Volume)
            }
            RecvChange::Mute(Some(which), muted) => {
                one(which, streams)?.set_gain(|fader| fader.muted = muted).map(Changed::Volume)
            }
            RecvChange::From(which, plan) => self.replace(which, *plan, streams),
            RecvChange::EndAnnouncement(id) => {
                self.stopped.push(id);
                Ok(Changed::Ended(id))
            }
            RecvChange::Status => Ok(Changed::Receiving(self.standing(streams))),
        }
    }

    fn set_gain(&mut self, gain: Gain, muted: bool) -> Answer {
        let fader = Fader { gain, muted };
        self.gains.push(fader.wanted()).map_err(|_| CannotChange::Busy)?;
        self.fader = fader;
        Ok(Changed::Volume(fader))
    }

    fn replace(
        &mut self,
        which: Option<usize>,
        plan: StreamPlan,
        streams: &mut [ReceivedStream],
    ) -> Answer {
        let place = match which {
            Some(which) => which,
            None if streams.len() == 1 => 0,
            None => return Err(CannotChange::WhichStream),
        };
        let fader = one(place, streams)?.fader;
        if self.coming.is_full() {
            return Err(CannotChange::Busy);
        }
        if streams[place].shares.is_some() {
            return Err(CannotChange::Shared);
        }
        if streams[place].carries_clock {
            return Err(CannotChange::CarriesClock);
        }
        let address = plan.address.clone();
        let plan = StreamPlan { announces: streams[place].announced.is_some(), ..plan };
        let joins = plan.joins;
        let (mut stream, mut input) = self.connect(plan).map_err(CannotChange::Open)?;
        input.await_turn(fader.wanted());
        stream.inherit(&streams[place]);
        let _ = self.coming.push(Replacement { place, joins, input });
        self.successors.push((place, stream));
        Ok(Changed::From(address))
    }

    pub(crate) fn close_gone(
        &mut self,
        streams: &mut [ReceivedStream],
        watch: &mut RunWatch,
        (mut ledger, mut labels): (Option<&mut LedgerFile<ReceivedEntry>>, Option<&mut Labels>),
        hearing: &Hearing,
    ) {
        while let Ok(mut input) = self.gone.pop() {
            let waiting =
                self.successors.iter().position(|(_, stream)| stream.number == input.number);
            if let Some(waiting) = waiting {
                let (_, mut stream) = self.successors.remove(waiting);
                stream.conversation.leave();
                continue;
            }
            let Some(place) = streams.iter().position(|stream| stream.number == input.number)
            else {
                continue;
            };
            let Some(successor) = self.successors.iter().position(|(wanted, _)| *wanted == place)
            else {
                continue;
            };
            let (_, mut stream) = self.successors.remove(successor);
            let old = &mut streams[place];
            let xruns = old.statistics.status.map_or(0, |status| status.stream.counters.xruns);
            input.notify(now(), xruns, None);
            old.converse(watch);
            old.turn(watch, ledger.as_deref_mut(), hearing);
            labels.iter_mut().for_each(|labels| labels.close(old));
            old.finish(watch, ledger.as_deref_mut(), hearing);
            stream.measurement = old.measurement.take();
            self.closed.push(core::mem::replace(old, stream).report(watch));
        }
    }

    fn standing(&self, streams: &[ReceivedStream]) -> ReceiveStanding {
        let standing = (0..).zip(streams).map(|(place, stream)| {
            let successor = self.successors.iter().rfind(|(wanted, _)| *wanted == place);
            StreamStanding {
                latency: stream.policy.link_offset(),
                auto: stream.policy.auto().is_some(),
                longest: stream.policy.longest(),
                volume: stream.fader,
                address: stream.address.clone(),
                waits_for: successor.map(|(_, successor)| successor.address.clone()),
            }
        });
        ReceiveStanding { volume: self.fader, streams: standing.collect() }
    }
}

fn one(which: usize, streams: &mut [ReceivedStream]) -> Result<&mut ReceivedStream, CannotChange> {
    let count = streams.len();
    streams.get_mut(which).ok_or(CannotChange::NoStream { requested: which, streams: count })
}

fn chosen(
    which: Option<usize>,
    streams: &mut [ReceivedStream],
) -> Result<&mut [ReceivedStream], CannotChange> {
    match which {
        None => Ok(streams),
        Some(which) => Ok(core::slice::from_mut(one(which, streams)?)),
    }
}
