//! What a worker does for masters: it runs plugins, each stream's in a process of its own, and refuses what
//! would be too much.

mod request;
mod stream;
mod told;

use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::rand::{SecureRandom, SystemRandom};
use tautline_api::v1::{
    Capacity, Catalogue, PluginCost, StreamRequest, VERSION, WorkRefused, WorkStream,
    WorkStreamState, Workshop,
};
use tautline_io::clock::now;
use tautline_io::thread::Scheduler;
use tautline_io::thread::affinity::usable_cores;
use tautline_proto::time::Span;

use crate::admission::{CoreAdmission, Demand};
use crate::offers::{Gone, OfferedPlugin, PluginOffers};
use crate::plan::Plan;
use crate::process::ChildProgram;
use request::Agreed;
use stream::{StreamProcess, StreamSetting};

/// Streams that a worker takes where nobody says otherwise.
pub const MOST_STREAMS: usize = 64;
/// What of each core may be promised: the rest is for the kernel, which brings and takes the datagrams, and for what a
/// run takes beyond what was measured.
pub const MOST_SHARE: f64 = 0.8;
/// A run that takes longer does not come to an end: no period of sound is as long.
pub const PATIENCE: Span = Span::from_secs(1);

/// A stream from which nothing came for so long makes room for one that finds none: its master may be gone.
pub const SILENCE: Span = Span::from_secs(60);

/// How a worker works.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkshopOptions {
    /// What children are started as.
    pub program: ChildProgram,
    /// As masters are told.
    pub name: String,
    /// Where datagrams are heard.
    pub bind: IpAddr,
    /// Of the threads that run plugins.
    pub scheduler: Scheduler,
    /// [`MOST_STREAMS`], as a rule.
    pub most_streams: usize,
    /// [`MOST_SHARE`], as a rule.
    pub most_share: f64,
    /// [`PATIENCE`], as a rule.
    pub patience: Span,
    /// [`SILENCE`], as a rule.
    pub silence: Span,
    /// Whether masters of this host may have datagrams without a seal.
    pub cleartext: bool,
}

/// Runs what it offers.
pub struct PluginWorkshop {
    options: WorkshopOptions,
    offers: PluginOffers,
    /// What plugins take at a rate, as far as that was measured.
    costs: Mutex<BTreeMap<(String, u32), PluginCost>>,
    admission: Arc<Mutex<CoreAdmission>>,
    streams: Mutex<BTreeMap<u32, OpenStream>>,
    /// Those that are open or being opened.
    taken: Arc<AtomicUsize>,
    next: Mutex<u32>,
}

/// A stream, and what is given back when it is over.
struct OpenStream {
    process: StreamProcess,
    _promise: HeldPromise,
    _place: WorkPlace,
}

/// A place among the streams that there may be.
struct WorkPlace(Arc<AtomicUsize>);

impl Drop for WorkPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What was promised of a core.
struct HeldPromise(Arc<Mutex<CoreAdmission>>, u32);

impl Drop for HeldPromise {
    fn drop(&mut self) {
        locked(&self.0).release(self.1);
    }
}

/// What is locked is whole between two statements, whoever panicked.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PluginWorkshop {
    /// Offers what was found.
    pub fn new(options: WorkshopOptions, offers: PluginOffers) -> Self {
        let admission = CoreAdmission::new(usable_cores().len(), options.most_share);
        // So that the streams of a worker that is started anew are none of those that it had before.
        let mut first = [0; 4];
        let _ = SystemRandom::new().fill(&mut first);
        Self {
            options,
            offers,
            costs: Mutex::default(),
            admission: Arc::new(Mutex::new(admission)),
            streams: Mutex::default(),
            taken: Arc::default(),
            next: Mutex::new(u32::from_ne_bytes(first)),
        }
    }

    /// What it offers.
    pub const fn offers(&self) -> &PluginOffers {
        &self.offers
    }

    /// The process that runs a stream's plugin at the moment.
    pub fn process(&self, stream: u32) -> Option<u32> {
        locked(&self.streams).get(&stream)?.process.process()
    }

    fn take_place(&self) -> Result<WorkPlace, WorkRefused> {
        let most = self.options.most_streams;
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            (taken < most).then_some(taken + 1)
        });
        let full = |_| {
            WorkRefused::Overloaded(format!(
                "{most} streams are open, as many as this worker takes; close some, or start it with a greater \
                 --most-streams"
            ))
        };
        taken.map(|_| WorkPlace(Arc::clone(&self.taken))).map_err(full)
    }

    /// Ends the stream that has been silent for longest, if that is long enough; whether there was one.
    fn make_room(&self) -> bool {
        let mut streams = locked(&self.streams);
        let heard = streams.iter().map(|(number, stream)| (stream.process.heard(), *number));
        let Some((heard, number)) = heard.min() else { return false };
        if now() - heard < self.options.silence {
            return false;
        }
        let silent = streams.remove(&number);
        // Ended after the others can be asked for again.
        drop(streams);
        silent.is_some()
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
    ) -> Result<(f64, HeldPromise), WorkRefused> {
        let Agreed { run_frames, period_ns, .. } = *agreed;
        let demand = Demand { cost, frames: run_frames, period_ns };
        let share = locked(&self.admission).admit(number, &demand);
        let share = share.map_err(|error| WorkRefused::Overloaded(error.to_string()))?;
        Ok((share, HeldPromise(Arc::clone(&self.admission), number)))
    }

    /// Where the datagrams of a stream are heard: of one that anybody could read, here alone.
    fn bind(&self, is_sealed: bool) -> Result<UdpSocket, WorkRefused> {
        let address = match self.options.bind {
            address if is_sealed => address,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        UdpSocket::bind((address, 0)).map_err(|error| {
            WorkRefused::Failed(format!(
                "opening a UDP socket at {address}: {error}; check --listen, or allow more open files"
            ))
        })
    }

    fn find(&self, request: &StreamRequest) -> Result<&OfferedPlugin, WorkRefused> {
        let offer = self.offers.find(&request.plugin);
        let offer = offer.ok_or_else(|| WorkRefused::NoSuchPlugin(request.plugin.clone()))?;
        let gone = |what: &str| WorkRefused::PluginGone {
            id: request.plugin.clone(),
            what: what.to_owned(),
        };
        if request.hash.as_ref().is_some_and(|hash| *hash != offer.plugin.hash) {
            return Err(gone("is another by now"));
        }
        match offer.check() {
            Ok(()) => Ok(offer),
            Err(Gone::Missing) => Err(gone("has gone")),
            Err(Gone::Changed) => Err(gone("is another than when this worker was started")),
        }
    }

    fn try_to_open(
        &self,
        request: &StreamRequest,
        secret: Option<[u8; 32]>,
    ) -> Result<WorkStream, WorkRefused> {
        let offer = self.find(request)?;
        let agreed = Agreed::on(request, offer)?;
        if secret.is_none() && !self.options.cleartext {
            return Err(WorkRefused::BadRequest(
                "this worker seals every datagram; leave cleartext out, or start it with --cleartext".into(),
            ));
        }
        let place = self.take_place()?;
        let number = self.next_number();
        let key = (offer.plugin.id.clone(), request.rate);
        let known = locked(&self.costs).get(&key).copied();
        let promised = known.map(|cost| self.admit(number, &agreed, cost)).transpose()?;
        let socket = self.bind(secret.is_some())?;
        let plan = Plan {
            recipe: offer.recipe.clone(),
            ports: offer.ports,
            stream: number,
            rate: request.rate,
            most_frames: request.most_frames,
            datagram_bytes: request.datagram_bytes as usize,
            history: request.history as usize,
            copies: request.copies,
            memory_frames: request.memory_frames,
            byte_order: request.byte_order,
            incarnation: 0,
            secret,
            scheduler: self.options.scheduler.to_string(),
            measure: known.is_none(),
            patience_ms: (self.options.patience.as_nanos() / 1_000_000).max(1) as u64,
        };
        let setting = StreamSetting {
            program: self.options.program.clone(),
            admission: Arc::clone(&self.admission),
            plugin: offer.plugin.id.clone(),
            controls: offer.plugin.ports.clone(),
        };
        let (process, measured) = StreamProcess::begin(plan, socket, setting)?;
        let (share, promise) = match (promised, measured) {
            (Some(promised), _) => promised,
            (None, cost) => {
                let cost = cost.unwrap_or(PluginCost { fixed_ns: 0.0, per_frame_ns: 0.0 });
                locked(&self.costs).insert(key, cost);
                self.admit(number, &agreed, cost)?
            }
        };
        process.promise(share);
        let opened = agreed.answer(request, offer, process.state());
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
            // Of the lowest rate that it was measured at.
            let known = costs.range((plugin.id.clone(), 0)..=(plugin.id.clone(), u32::MAX));
            plugin.cost = known.map(|(_, cost)| *cost).next();
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
            most_share: admission.most_share(),
            streams: locked(&self.streams).len() as u32,
            most_streams: self.options.most_streams as u32,
        }
    }

    fn open(
        &self,
        request: StreamRequest,
        secret: Option<[u8; 32]>,
    ) -> Result<WorkStream, WorkRefused> {
        loop {
            match self.try_to_open(&request, secret) {
                Err(WorkRefused::Overloaded(_)) if self.make_room() => {}
                opened => return opened,
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
        // Ended after the others can be asked for again.
        let closed = locked(&self.streams).remove(&id);
        closed.is_some()
    }
}
