//! A worker's service for masters: plugins within limits, one process per stream.

mod request;
mod standby;
mod stream;
mod stream_report;

use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use request::Agreed;
use ring::rand::{SecureRandom, SystemRandom};
use stream::{StreamProcess, StreamSetting, StreamSockets};
use tautline_api::seal::SECRET_BYTES;
use tautline_api::v1::{
    Capacity, Catalogue, FedPort, PluginCost, SecretText, StreamRequest, VERSION, WorkRefused,
    WorkStream, WorkStreamState, Workshop,
};
use tautline_io::clock::now;
use tautline_io::thread::Scheduler;
use tautline_io::thread::affinity::usable_cores;
use tautline_proto::time::{LocalTime, Span};

use crate::admission::{CoreAdmission, Demand};
use crate::cost::book::CostBook;
use crate::offers::{Gone, OfferedPlugin, PluginOffers};
use crate::plan::{Plan, PlannedPipeline};
use crate::process::{ChildProcess, ChildProgram};

/// Maximum share of a period. The rest is for the kernel's datagrams, and for runs longer than
/// measured.
pub const MAX_SHARE: f64 = 0.8;
pub const TIMEOUT: Span = Span::from_secs(1);

/// Silence after which a stream can be ended for another, because its master may be gone.
pub const SILENCE: Span = Span::from_secs(60);

#[derive(Debug, Clone, PartialEq)]
pub struct WorkshopOptions {
    pub program: ChildProgram,
    pub name: String,
    pub bind: IpAddr,
    pub scheduler: Scheduler,
    pub max_streams: usize,
    pub max_share: f64,
    pub timeout: Span,
    pub silence: Span,
    pub cleartext: bool,
    /// Measured costs; without a file each start measures.
    pub costs: Option<PathBuf>,
}

pub struct PluginWorkshop {
    options: WorkshopOptions,
    offers: PluginOffers,
    costs: Mutex<CostBook>,
    admission: Arc<Mutex<CoreAdmission>>,
    streams: Mutex<BTreeMap<u32, OpenStream>>,
    taken: Arc<AtomicUsize>,
    next: Mutex<u32>,
    notify: TellWork,
}

struct OpenStream {
    process: StreamProcess,
    _promise: HeldPromise,
    _place: WorkPlace,
}

enum NotOpened {
    Refused(WorkRefused),
    NoPlace(WorkRefused),
    NoTime(f64, WorkRefused),
}

impl From<WorkRefused> for NotOpened {
    fn from(refused: WorkRefused) -> Self {
        Self::Refused(refused)
    }
}

struct WorkPlace(Arc<AtomicUsize>);

impl Drop for WorkPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct HeldPromise(Arc<Mutex<CoreAdmission>>, u32);

impl Drop for HeldPromise {
    fn drop(&mut self) {
        locked(&self.0).release(self.1);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PluginWorkshop {
    pub fn new(options: WorkshopOptions, offers: PluginOffers) -> Self {
        let admission = CoreAdmission::new(usable_cores().len(), options.max_share);
        // Random, so that a restarted worker reuses no ids.
        let mut first = [0; 4];
        let _ = SystemRandom::new().fill(&mut first);
        Self {
            costs: Mutex::new(CostBook::open(options.costs.clone())),
            options,
            offers,
            admission: Arc::new(Mutex::new(admission)),
            streams: Mutex::default(),
            taken: Arc::default(),
            next: Mutex::new(u32::from_ne_bytes(first)),
            notify: Arc::new(|_| ()),
        }
    }

    #[must_use]
    pub fn event_channel(mut self, notify: impl Fn(&WorkNews) + Send + Sync + 'static) -> Self {
        self.notify = Arc::new(notify);
        self
    }

    pub const fn offers(&self) -> &PluginOffers {
        &self.offers
    }

    pub fn process(&self, stream: u32) -> Option<u32> {
        locked(&self.streams).get(&stream)?.process.process()
    }

    pub fn standby(&self, stream: u32) -> Option<u32> {
        locked(&self.streams).get(&stream)?.process.standby()
    }

    fn take_place(&self) -> Result<WorkPlace, NotOpened> {
        let maximum = self.options.max_streams;
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            (taken < maximum).then_some(taken + 1)
        });
        let full = |_| {
            NotOpened::NoPlace(WorkRefused::Overloaded(format!(
                "busy: maximum of streams reached ({maximum}); close some, or start it with a larger --max-streams"
            )))
        };
        taken.map(|_| WorkPlace(Arc::clone(&self.taken))).map_err(full)
    }

    /// Ends the longest silent streams, as few as needed for this share, or one; none if that is
    /// not enough. Returns whether there is room.
    fn make_room(&self, share: Option<f64>) -> bool {
        let mut streams = locked(&self.streams);
        let received = streams.iter().map(|(number, stream)| (stream.process.received(), *number));
        let long_ago = |received: &(LocalTime, u32)| now() - received.0 >= self.options.silence;
        let mut silent: Vec<_> = received.filter(long_ago).collect();
        silent.sort_unstable();
        let mut numbers: Vec<_> = silent.into_iter().map(|(_, number)| number).collect();
        let is_enough = match share {
            Some(share) => {
                let needed = locked(&self.admission).making_room(share, &numbers);
                let is_enough = needed.is_some();
                numbers = needed.unwrap_or_default();
                is_enough
            }
            None => {
                numbers.truncate(1);
                !numbers.is_empty()
            }
        };
        let ended: Vec<_> = numbers.iter().filter_map(|number| streams.remove(number)).collect();
        // The streams end after the lock is released.
        drop(streams);
        ended.into_iter().for_each(|stream| self.end(stream, StreamOver::MadeRoom));
        is_enough
    }

    fn end(&self, stream: OpenStream, how: StreamOver) {
        let OpenStream { process, _promise: promise, _place: place } = stream;
        let state = process.end();
        drop((promise, place));
        (self.notify)(&WorkNews::Ended(state, how));
    }

    fn next_number(&self) -> u32 {
        let mut next = locked(&self.next);
        *next = next.wrapping_add(1).max(1);
        *next
    }

    fn admit(
        &self,
        number: u32,
        agreed: &Agreed,
        cost: PluginCost,
    ) -> Result<(f64, HeldPromise), NotOpened> {
        let Agreed { run_frames, period_ns, .. } = *agreed;
        let demand = Demand { cost, frames: run_frames, period_ns };
        let share = locked(&self.admission).admit(number, &demand);
        let share = share.map_err(|error| {
            NotOpened::NoTime(demand.share(), WorkRefused::Overloaded(error.to_string()))
        })?;
        Ok((share, HeldPromise(Arc::clone(&self.admission), number)))
    }

    fn bind(&self, is_sealed: bool) -> Result<UdpSocket, WorkRefused> {
        let address = match self.options.bind {
            address if is_sealed => address,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        UdpSocket::bind((address, 0)).map_err(|error| {
            WorkRefused::Failed(format!(
                "cannot open a UDP socket at {address}: {error}; check --listen, or raise ulimit -n"
            ))
        })
    }

    fn stand(
        &self,
        request: &StreamRequest,
        is_sealed: bool,
    ) -> Result<(PlannedPipeline, Option<UdpSocket>), WorkRefused> {
        let Some(place) = &request.pipeline else { return Ok((PlannedPipeline::default(), None)) };
        let fed = place.fed.then(|| self.bind(is_sealed)).transpose()?;
        let key = match is_sealed {
            true => {
                let mut key = [0; SECRET_BYTES];
                let random = SystemRandom::new().fill(&mut key);
                random.map_err(|_| {
                    WorkRefused::Failed("cannot read random bytes; try again later".into())
                })?;
                Some(key)
            }
            false => None,
        };
        let feeds = place.feeds.as_ref().map(|feeds| request::planned(feeds, is_sealed));
        let plan = PlannedPipeline { fed: place.fed.then_some(key), feeds: feeds.transpose()? };
        Ok((plan, fed))
    }

    fn find(&self, request: &StreamRequest) -> Result<&OfferedPlugin, WorkRefused> {
        let offer = self.offers.find(&request.plugin);
        let offer = offer.ok_or_else(|| WorkRefused::NoSuchPlugin(request.plugin.clone()))?;
        let gone = |what: &str| WorkRefused::PluginGone {
            id: request.plugin.clone(),
            what: what.to_owned(),
        };
        if request.hash.as_ref().is_some_and(|hash| *hash != offer.plugin.hash) {
            return Err(gone(
                "differs from the saved one: run taut plugins --worker HOST --save, or, for a spare, give both workers \
                 the same file",
            ));
        }
        match offer.check() {
            Ok(()) => Ok(offer),
            Err(Gone::Missing) => Err(gone(
                "was removed: reinstall its library, or restart taut work there and run taut plugins --worker HOST \
                 --save",
            )),
            Err(Gone::Changed) => Err(gone(
                "changed after this worker started: restart taut work there, then run taut plugins --worker HOST \
                 --save",
            )),
        }
    }

    fn try_to_open(
        &self,
        request: &StreamRequest,
        secret: Option<[u8; 32]>,
    ) -> Result<WorkStream, NotOpened> {
        let offer = self.find(request)?;
        let agreed = Agreed::on(request, offer)?;
        if secret.is_none() && !self.options.cleartext {
            return Err(WorkRefused::BadRequest(
                "this worker encrypts every datagram; remove cleartext, or start it with --cleartext".into(),
            )
            .into());
        }
        let number = self.next_number();
        let known = locked(&self.costs).of(&offer.plugin, request.rate);
        let promised = known.map(|known| self.admit(number, &agreed, known.cost));
        let promised = match promised {
            // The figure may be outdated, so this measures again.
            Some(Err(NotOpened::NoTime(..))) if known.is_some_and(|known| known.is_kept) => None,
            promised => promised.transpose()?,
        };
        let place = self.take_place()?;
        let own = self.bind(secret.is_some())?;
        let (pipeline, fed) = self.stand(request, secret.is_some())?;
        let fed_port = fed.as_ref().and_then(|fed| fed.local_addr().ok()).map(|fed| FedPort {
            udp_port: fed.port(),
            key: pipeline.fed.flatten().map(|key| SecretText(STANDARD.encode(key))),
        });
        let plan = Plan {
            recipe: offer.recipe.clone(),
            readable: self.options.program.readable().to_vec(),
            ports: offer.ports,
            stream: number,
            request: request.clone(),
            incarnation: 0,
            secret,
            pipeline,
            scheduler: self.options.scheduler.to_string(),
            measure: promised.is_none(),
            timeout_ms: (self.options.timeout.as_nanos() / 1_000_000).max(1) as u64,
        };
        let setting = StreamSetting {
            program: self.options.program.clone(),
            admission: Arc::clone(&self.admission),
            plugin: offer.plugin.id.clone(),
            controls: offer.plugin.ports.clone(),
            notify: Arc::clone(&self.notify),
        };
        let (process, measured) = StreamProcess::begin(plan, StreamSockets { own, fed }, setting)?;
        let (share, promise) = match (promised, measured) {
            (Some(promised), _) => promised,
            (None, cost) => {
                let cost = cost.unwrap_or(PluginCost { fixed_ns: 0.0, per_frame_ns: 0.0 });
                locked(&self.costs).measured(&offer.plugin, request.rate, cost);
                self.admit(number, &agreed, cost)?
            }
        };
        process.promise(share);
        let opened = WorkStream { fed: fed_port, ..agreed.answer(request, offer, process.state()) };
        let stream = OpenStream { process, _promise: promise, _place: place };
        locked(&self.streams).insert(number, stream);
        Ok(opened)
    }
}

impl Workshop for PluginWorkshop {
    fn catalogue(&self) -> Catalogue {
        let costs = locked(&self.costs);
        let with_cost = |offer: &OfferedPlugin| {
            let mut plugin = offer.plugin.clone();
            plugin.cost = costs.of_any_rate(&plugin);
            plugin
        };
        Catalogue {
            version: VERSION,
            worker: self.options.name.clone(),
            plugins: self.offers.all().iter().map(with_cost).collect(),
        }
    }

    fn capacity(&self) -> Capacity {
        let admission = locked(&self.admission);
        let used_share = admission.used();
        Capacity {
            cores: used_share.len() as u32,
            used_share,
            max_share: admission.max_share(),
            streams: locked(&self.streams).len() as u32,
            max_streams: self.options.max_streams as u32,
        }
    }

    fn open(
        &self,
        request: StreamRequest,
        secret: Option<[u8; 32]>,
    ) -> Result<WorkStream, WorkRefused> {
        loop {
            let (share, refused) = match self.try_to_open(&request, secret) {
                Ok(opened) => return Ok(opened),
                Err(NotOpened::Refused(refused)) => return Err(refused),
                Err(NotOpened::NoPlace(refused)) => (None, refused),
                Err(NotOpened::NoTime(share, refused)) => (Some(share), refused),
            };
            if !self.make_room(share) {
                return Err(refused);
            }
        }
    }

    fn streams(&self) -> Vec<WorkStreamState> {
        locked(&self.streams).values().map(|stream| stream.process.state()).collect()
    }

    fn stream(&self, id: u32) -> Option<WorkStreamState> {
        locked(&self.streams).get(&id).map(|stream| stream.process.state())
    }

    fn close(&self, id: u32) -> bool {
        let closed = locked(&self.streams).remove(&id);
        let was_there = closed.is_some();
        closed.into_iter().for_each(|stream| self.end(stream, StreamOver::Closed));
        was_there
    }
}

impl Drop for PluginWorkshop {
    fn drop(&mut self) {
        let left = core::mem::take(&mut *locked(&self.streams));
        left.into_values().for_each(|stream| self.end(stream, StreamOver::WorkerEnds));
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum WorkNews {
    /// The stream's process died or hung (the state has the reason), and another process starts.
    BegunAnew(WorkStreamState),
    Abandoned(WorkStreamState),
    Ended(WorkStreamState, StreamOver),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamOver {
    Closed,
    MadeRoom,
    WorkerEnds,
}

/// Runs while a stream waits for its next process, so be quick.
type TellWork = Arc<dyn Fn(&WorkNews) + Send + Sync>;

const BEGINNING: Span = Span::from_secs(10);
const MAX_IN_A_ROW: u32 = 20;
/// Delay before replacing a process that failed twice in a row. It doubles per failure, up to
/// [`LONGEST_WAIT`].
const FIRST_WAIT: Span = Span::from_millis(50);
const LONGEST_WAIT: Span = Span::from_secs(5);
const LOOK: Span = Span::from_millis(100);
/// Consecutive looks, about 1 s, after which a stopped process is killed. A time limit would be
/// wrong, because this process may be stopped too.
const MAX_STOPPED: u32 = 10;

fn pause(in_a_row: u32) -> Span {
    match in_a_row {
        0 | 1 => Span::ZERO,
        more => {
            let doubled = FIRST_WAIT.as_nanos() << (more - 2).min(16);
            Span::from_nanos(doubled).min(LONGEST_WAIT)
        }
    }
}

#[derive(Debug)]
struct StopLooks {
    next: LocalTime,
    stopped: u32,
}

impl StopLooks {
    fn from(now: LocalTime) -> Self {
        Self { next: now + LOOK, stopped: 0 }
    }

    const fn next(&self) -> LocalTime {
        self.next
    }

    fn look(&mut self, child: &ChildProcess, now: LocalTime) -> Option<bool> {
        if now < self.next {
            return None;
        }
        self.next = now + LOOK;
        self.stopped = if child.is_stopped() { self.stopped + 1 } else { 0 };
        Some(self.stopped >= MAX_STOPPED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_delays_grow_after_the_first_restart() {
        let pauses: Vec<_> = (1..=10).map(|n| pause(n).as_nanos() / 1_000_000).collect();
        assert_eq!(pauses, [0, 50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(pause(u32::MAX), LONGEST_WAIT);
    }
}
