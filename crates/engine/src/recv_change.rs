//! Changes of what is received while it plays, as far as they concern more than one stream's desk:
//! the gain of all, and streams that take the place of others.

use rtrb::{Consumer, Producer};
use tautline_dsp::gain::Gain;
use tautline_io::clock::{WallClock, now};
use tautline_io::control::waiter::Waiter;
use tautline_io::thread::memory;
use tautline_proto::device::Settings;

use crate::control::{Answer, RecvChange, Requests};
use crate::ledger_file::LedgerFile;
use crate::own::{BUSY, Own};
use crate::plan::StreamPlan;
use crate::recv_desk::{Desk, connect};
use crate::repairers::{Spares, Store, repairers};
use crate::report::Stream;
use crate::run::Watch;
use crate::rx::{Incoming, Succession};
use crate::sound::Hearing;

/// The ordinary thread's end of what may be changed of a mix.
pub(crate) struct Changes {
    pub(crate) requests: Option<Requests<RecvChange>>,
    /// Knows when a stream's reports arrive, by its number.
    pub(crate) waiter: Waiter,
    device: Settings,
    wall: WallClock,
    /// Whether any was asked for.
    pub(crate) made: bool,
    gain: Gain,
    muted: bool,
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
            gain,
            muted: false,
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
                let states = chosen.iter_mut().map(|desk| desk.set_latency(latency, &self.device));
                let states = states.collect::<Result<Vec<_>, _>>()?;
                Ok(format!("latency {}", states.join(", ")))
            }
            RecvChange::Volume(None, gain) => self.set_gain(gain, self.muted),
            RecvChange::Mute(None, muted) => self.set_gain(self.gain, muted),
            RecvChange::Volume(Some(which), gain) => {
                one(which, desks)?.set_gain(|own| own.gain = gain)
            }
            RecvChange::Mute(Some(which), muted) => {
                one(which, desks)?.set_gain(|own| own.muted = muted)
            }
            RecvChange::From(which, plan) => self.replace(which, *plan, desks),
            RecvChange::Status => Ok(self.status_line(desks)),
        }
    }

    fn set_gain(&mut self, gain: Gain, muted: bool) -> Answer {
        let wanted = if muted { Gain::SILENCE } else { gain };
        self.gains.push(wanted).map_err(|_| BUSY)?;
        (self.gain, self.muted) = (gain, muted);
        Ok(format!("volume {}", Own { gain, muted }))
    }

    fn replace(&mut self, which: Option<usize>, plan: StreamPlan, desks: &mut [Desk]) -> Answer {
        let place = match which {
            Some(which) => which,
            None if desks.len() == 1 => 0,
            None => {
                return Err("several streams are heard; write from N ADDRESS, N being the \
                            how-many-th --from is to be another"
                    .into());
            }
        };
        let own = one(place, desks)?.own;
        if self.coming.is_full() {
            return Err(BUSY.into());
        }
        let address = plan.address.clone();
        let receiver = plan.receiver();
        let new = (self.streams, self.wall, &self.device, &self.waiter);
        let (mut desk, mut input) =
            connect(plan, receiver, None, new).map_err(|error| error.to_string())?;
        self.streams += 1;
        // It is faded in when the other is faded out.
        input.await_turn(own.wanted());
        desk.inherit(&desks[place]);
        // There is room: asked for above.
        let _ = self.coming.push((place, input));
        self.heirs.push((place, desk));
        Ok(format!("from {address}, heard when its sound is there"))
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
            input.tell_last(now(), old.books.status.map_or(0, |status| status.xruns));
            old.converse(&self.device, watch);
            old.turn((&self.device, watch), ledger.as_deref_mut(), hearing);
            old.finish(watch, ledger.as_deref_mut(), hearing);
            // The ear stays with the place.
            desk.measurement = old.measurement.take();
            self.closed.push(core::mem::replace(old, desk).report(&mut watch.notes));
        }
    }

    /// How it stands, in the words that change it.
    fn status_line(&self, desks: &[Desk]) -> String {
        let all = Own { gain: self.gain, muted: self.muted };
        let streams = (0..).zip(desks).map(|(place, desk)| {
            let heir = self.heirs.iter().rfind(|(wanted, _)| *wanted == place);
            let heir = heir.map(|(_, heir)| format!(", waiting for {}", heir.address));
            desk.status_line() + &heir.unwrap_or_default()
        });
        let streams = streams.collect::<Vec<_>>();
        match &streams[..] {
            [only] => format!("status mix volume {all}, {only}"),
            several => {
                let numbered = several.iter().zip(1..).map(|(one, n)| format!("; {n}: {one}"));
                format!("status mix volume {all}{}", numbered.collect::<String>())
            }
        }
    }
}

fn one(which: usize, desks: &mut [Desk]) -> Result<&mut Desk, String> {
    let count = desks.len();
    desks.get_mut(which).ok_or_else(|| {
        format!("there is no stream {}; write a number from 1 to {count}, or none", which + 1)
    })
}

fn chosen(which: Option<usize>, desks: &mut [Desk]) -> Result<&mut [Desk], String> {
    match which {
        None => Ok(desks),
        Some(which) => Ok(core::slice::from_mut(one(which, desks)?)),
    }
}
