//! A thread per plugin and worker opens and watches streams. The host's threads share only
//! wait-free rings and atomics with it.

mod errand;
mod http;
pub(crate) mod standing;

use core::sync::atomic::{AtomicI64, AtomicPtr, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use errand::AWAY;
pub(crate) use errand::StreamErrand;
use http::HttpCalls;
use tautline_api::v1::StreamRequest;
use tautline_engine::offload::offloaded::Far;
use tautline_io::clock::now;
use tautline_io::thread::without_signals;
use tautline_proto::time::LocalTime;

/// Interval of looks. Together with a failed attempt and the opening, it must fit in 100 ms.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Default)]
pub(crate) struct Desk {
    inbox: Mutex<Inbox>,
    bell: Condvar,
}

#[derive(Default)]
struct Inbox {
    arrived: Vec<StreamErrand>,
    mode: bool,
    is_staffed: bool,
}

impl Desk {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ring(&self) {
        self.inbox().mode = true;
        self.bell.notify_all();
    }
}

#[derive(Default)]
struct KnownWorker {
    desks: BTreeMap<String, Arc<Desk>>,
    absence: Arc<Absence>,
}

/// Time until which a worker counts as absent, in ns; else 0.
#[derive(Default)]
struct Absence(AtomicI64);

impl Absence {
    /// Whether this thread may try to reach the worker. One thread at a time may.
    fn may_try(&self, now: LocalTime) -> bool {
        let until = self.0.load(Ordering::Relaxed);
        let next = (now + AWAY).as_nanos();
        let takes = || self.0.compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed);
        until == 0 || (now.as_nanos() >= until && takes().is_ok())
    }

    fn begins(&self, now: LocalTime) {
        self.0.store((now + AWAY).as_nanos(), Ordering::Relaxed);
    }

    fn ends(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

type Desks = Mutex<BTreeMap<String, KnownWorker>>;

static DESKS: AtomicPtr<Desks> = AtomicPtr::new(core::ptr::null_mut());

pub(crate) fn forget_all() {
    DESKS.store(core::ptr::null_mut(), Ordering::Relaxed);
}

fn desks() -> &'static Desks {
    let mut there = DESKS.load(Ordering::Acquire);
    if there.is_null() {
        let made = Box::into_raw(Box::new(Desks::default()));
        let null = core::ptr::null_mut();
        match DESKS.compare_exchange(null, made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => there = made,
            Err(first) => {
                // SAFETY: made above and not shared.
                drop(unsafe { Box::from_raw(made) });
                there = first;
            }
        }
    }
    // SAFETY: a box made by this or another thread, and never freed.
    unsafe { &*there }
}

pub(crate) fn leave(address: &str, errand: StreamErrand) -> Arc<Desk> {
    let mut desks = desks().lock().unwrap_or_else(PoisonError::into_inner);
    let known = desks.entry(address.to_owned()).or_default();
    let desk = Arc::clone(known.desks.entry(errand.plugin().to_owned()).or_default());
    let absence = Arc::clone(&known.absence);
    drop(desks);
    let (standing, which) = (Arc::clone(&errand.standing), errand.which);
    standing.set_seen_to(which);
    let mut inbox = desk.inbox();
    inbox.arrived.push(errand.at(address));
    if !inbox.is_staffed {
        let (its, mut calls) = (Arc::clone(&desk), HttpCalls::new(address));
        let thread = std::thread::Builder::new().name("taut-clerk".into());
        match without_signals(|| thread.spawn(move || work(&its, &absence, &mut calls))) {
            Ok(_) => inbox.is_staffed = true,
            Err(error) => {
                inbox.arrived.clear();
                standing.close(which);
                standing.emit(format!("cannot start a thread: {error}; raise ulimit -u"));
            }
        }
    }
    drop(inbox);
    desk.ring();
    desk
}

fn work(desk: &Desk, absence: &Absence, calls: &mut dyn WorkerCalls) {
    let mut errands: Vec<StreamErrand> = Vec::new();
    loop {
        let mut inbox = desk.inbox();
        errands.append(&mut inbox.arrived);
        inbox.mode = false;
        if errands.is_empty() {
            inbox.is_staffed = false;
            return;
        }
        drop(inbox);
        let may_try = absence.may_try(now());
        let mut is_away = !may_try;
        let mut opened = false;
        errands.retain_mut(|errand| {
            let was_open = errand.is_open();
            let goes_on = errand.see_to(calls, now(), &mut is_away);
            opened |= !was_open && errand.is_open();
            goes_on
        });
        if opened {
            absence.ends();
        } else if may_try && is_away {
            absence.begins(now());
        }
        let inbox = desk.inbox();
        let waits = |inbox: &mut Inbox| !inbox.mode;
        drop(
            desk.bell
                .wait_timeout_while(inbox, LOOK, waits)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }
}

#[derive(Debug, Clone)]
pub(crate) struct StreamOrder {
    pub(crate) request: StreamRequest,
    pub(crate) ports: [usize; 4],
    pub(crate) behind: Vec<OrderBehind>,
}

#[derive(Debug, Clone)]
pub(crate) struct OrderBehind {
    pub(crate) address: String,
    pub(crate) request: StreamRequest,
    pub(crate) ports: [usize; 4],
}

pub(crate) enum Opening {
    Opened { id: u32, far: Far },
    Refused(String),
    Away(String),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Alive {
    Yes,
    No,
    Abandoned(String),
    Unknown,
    Away(String),
}

pub(crate) trait WorkerCalls: Send {
    fn open(&mut self, order: &StreamOrder) -> Opening;
    fn look(&mut self, id: u32) -> Alive;
    fn close(&mut self, id: u32);
}
