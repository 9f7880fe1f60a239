//! Changes of what is received while it plays, as far as they concern more than one stream's desk:
//! the gain of all, and streams that take the place of others.

use rtrb::{Consumer, Producer};
use tautline_dsp::gain::Gain;
use tautline_io::clock::{WallClock, now};
use tautline_io::control::waiter::Waiter;
use tautline_io::thread::memory;
use tautline_proto::device::Settings;

use crate::control::{
    Answer, CannotChange, Changed, ReceiveStanding, RecvChange, Requests, StreamStanding,
};
use crate::fader::Fader;
use crate::plan::StreamPlan;
use crate::receiving::mixer::{Incoming, Succession};
use crate::receiving::repairers::{Spares, Store, repairers};
use crate::receiving::stream::{Desk, connect};
use crate::watching::ledger_file::LedgerFile;
use crate::watching::report::Stream;
use crate::watching::run::Watch;
use crate::watching::sound::Hearing;

/// The ordinary thread's end of what may be changed of a mix.
pub(crate) struct Changes {
    pub(crate) requests: Option<Requests<RecvChange>>,
    /// Knows when a stream's reports arrive, by its number.
    pub(crate) waiter: Waiter,
    device: Settings,
    wall: WallClock,
    /// Whether any was asked for.
    pub(crate) made: bool,
    fader: Fader,
    gains: Producer<Gain>,
    coming: Producer<(usize, Incoming)>,
    gone: Consumer<Incoming>,
    repairers: Store,
    /// The desks of streams that are to take the place given, oldest first.
    heirs: Vec<(usize, Desk)>,
    /// The reports of streams whose place was taken. Their sockets are closed: the same address may
    /// be heard again.
    closed: Vec<Stream>,
    /// Streams that there have been.
    streams: usize,
}

/// Streams that may wait to be taken in or closed.
const WAITING: usize = 4;

impl Changes {
    /// Both ends, for a mix of so many `places` that plays on `device` with this gain.
    pub(crate) fn new(
        places: usize,
        gain: Gain,
        device: Settings,
        (wall, waiter): (WallClock, Waiter),
    ) -> (Self, (Succession, Spares, Consumer<Gain>)) {
        let (gains, gains_out) = memory::ring(64);
        let (coming, coming_out) = memory::ring(WAITING);
        let (gone_in, gone) = memory::ring(WAITING);
        let (repairers, spares) = repairers(places, places + WAITING);
        let changes = Self {
            requests: None,
            made: false,
            waiter,
            device,
            wall,
            fader: Fader { gain, muted: false },
            gains,
            coming,
            gone,
            repairers,
            heirs: Vec::new(),
            closed: Vec::new(),
            streams: places,
        };
        (changes, (Succession::new(places, coming_out, gone_in), spares, gains_out))
    }

    /// The desks of streams that have no place yet.
    pub(crate) fn heirs(&self) -> impl Iterator<Item = &Desk> + Clone {
        self.heirs.iter().map(|(_, desk)| desk)
    }

    /// The same, to be worked on.
    pub(crate) fn heirs_mut(&mut self) -> impl Iterator<Item = &mut Desk> {
        self.heirs.iter_mut().map(|(_, desk)| desk)
    }

    /// The reports of streams that had a place.
    pub(crate) fn closed(self) -> Vec<Stream> {
        self.closed
    }

    /// Lays out repairers in place of those that were taken. Once a beat.
    pub(crate) fn refill(&mut self) {
        self.repairers.refill(self.streams);
    }

    /// Makes the changes that were asked for.
    pub(crate) fn serve(&mut self, desks: &mut [Desk]) {
        if let Some(requests) = self.requests.take() {
            requests.serve(|change| self.change(change, desks));
            self.requests = Some(requests);
        }
    }

    fn change(&mut self, change: RecvChange, desks: &mut [Desk]) -> Answer {
        self.made |= !matches!(change, RecvChange::Status);
        match change {
            RecvChange::Latency(which, latency) => {
                let chosen = chosen(which, desks)?;
                // All or none: the first that refuses is the first that is asked.
                let latencies = chosen.iter_mut().map(|desk| desk.set_latency(latency));
                Ok(Changed::Latencies(latencies.collect::<Result<_, _>>()?))
            }
            RecvChange::Volume(None, gain) => self.set_gain(gain, self.fader.muted),
            RecvChange::Mute(None, muted) => self.set_gain(self.fader.gain, muted),
            RecvChange::Volume(Some(which), gain) => {
                one(which, desks)?.set_gain(|own| own.gain = gain).map(Changed::Volume)
            }
            RecvChange::Mute(Some(which), muted) => {
                one(which, desks)?.set_gain(|own| own.muted = muted).map(Changed::Volume)
            }
            RecvChange::From(which, plan) => self.replace(which, *plan, desks),
            RecvChange::Status => Ok(Changed::Receiving(self.standing(desks))),
        }
    }

    fn set_gain(&mut self, gain: Gain, muted: bool) -> Answer {
        let own = Fader { gain, muted };
        self.gains.push(own.wanted()).map_err(|_| CannotChange::Busy)?;
        self.fader = own;
        Ok(Changed::Volume(own))
    }

    fn replace(&mut self, which: Option<usize>, plan: StreamPlan, desks: &mut [Desk]) -> Answer {
        let place = match which {
            Some(which) => which,
            None if desks.len() == 1 => 0,
            None => return Err(CannotChange::WhichStream),
        };
        let own = one(place, desks)?.fader;
        if self.coming.is_full() {
            return Err(CannotChange::Busy);
        }
        let address = plan.address.clone();
        let receiver = plan.receiver();
        let new = (self.streams, self.wall, &self.device, &self.waiter);
        let (mut desk, mut input) =
            connect(plan, receiver, None, new).map_err(CannotChange::Open)?;
        self.streams += 1;
        // It is faded in when the other is faded out.
        input.await_turn(own.wanted());
        desk.inherit(&desks[place]);
        // There is room: asked for above.
        let _ = self.coming.push((place, input));
        self.heirs.push((place, desk));
        Ok(Changed::From(address))
    }

    /// Closes the streams that the device's thread gave back; those that took their places are
    /// heard from now on.
    pub(crate) fn close_gone(
        &mut self,
        desks: &mut [Desk],
        watch: &mut Watch,
        mut ledger: Option<&mut LedgerFile>,
        hearing: &Hearing,
    ) {
        while let Ok(mut input) = self.gone.pop() {
            // Its last word: there is room for it now, and nobody else to say it.
            let waiting = self.heirs.iter().position(|(_, desk)| desk.number == input.number);
            if let Some(waiting) = waiting {
                let (_, mut desk) = self.heirs.remove(waiting);
                desk.talk.leave();
                continue;
            }
            let Some(place) = desks.iter().position(|desk| desk.number == input.number) else {
                continue;
            };
            let Some(heir) = self.heirs.iter().position(|(wanted, _)| *wanted == place) else {
                continue;
            };
            let (_, mut desk) = self.heirs.remove(heir);
            let old = &mut desks[place];
            input.tell_last(now(), old.books.status.map_or(0, |status| status.stream.xruns));
            old.converse(watch);
            old.turn(watch, ledger.as_deref_mut(), hearing);
            old.finish(watch, ledger.as_deref_mut(), hearing);
            // The ear stays with the place.
            desk.measurement = old.measurement.take();
            self.closed.push(core::mem::replace(old, desk).report(watch));
        }
    }

    /// How it stands.
    fn standing(&self, desks: &[Desk]) -> ReceiveStanding {
        let streams = (0..).zip(desks).map(|(place, desk)| {
            let heir = self.heirs.iter().rfind(|(wanted, _)| *wanted == place);
            StreamStanding {
                latency: desk.policy.link_offset(),
                auto: desk.policy.auto().is_some(),
                volume: desk.fader,
                address: desk.address.clone(),
                waits_for: heir.map(|(_, heir)| heir.address.clone()),
            }
        });
        ReceiveStanding { volume: self.fader, streams: streams.collect() }
    }
}

fn one(which: usize, desks: &mut [Desk]) -> Result<&mut Desk, CannotChange> {
    let streams = desks.len();
    desks.get_mut(which).ok_or(CannotChange::NoStream { asked: which, streams })
}

fn chosen(which: Option<usize>, desks: &mut [Desk]) -> Result<&mut [Desk], CannotChange> {
    match which {
        None => Ok(desks),
        Some(which) => Ok(core::slice::from_mut(one(which, desks)?)),
    }
}
