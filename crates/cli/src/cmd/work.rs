//! `taut work`: runs plugins for other machines.

pub(super) mod log;
mod shown;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tautline_api::folders::cache_folder;
use tautline_api::trust::{HostIdentity, TrustStore, host_name, usual_folder};
use tautline_api::v1::Workshop as _;
use tautline_host::confinement::Confinement;
use tautline_host::process::ChildProgram;
use tautline_host::workshop::{MAX_SHARE, PluginWorkshop, SILENCE, TIMEOUT, WorkshopOptions};
use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::{Scheduler, spawn};
use tautline_proto::time::{LocalTime, Span};
use tautline_serving::{Listening, serve_with_events};

use super::plugins::{missing_folders, offers};
use super::stop_on_signals;
use crate::failure::{Failure, on_one_line};
use crate::flags::WorkFlags;
use crate::screen;
use crate::show::observers;
use crate::voice::Voice;
use log::WorkLog;

const STEP: Span = Span::from_millis(50);

pub(crate) fn run(flags: &WorkFlags) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    let voice = flags.voice.voice();
    let address = flags.listen;
    let trust = trust(address)?;
    let program = ChildProgram::this().reading(flags.allow_read.clone());
    let offers = offers(&program, flags.chains.as_deref())?;
    if let Some(missing) = missing_folders() {
        voice.notify(&missing);
    }
    if let Some(refused) = refused(flags.scheduler) {
        voice.notify(&format!("plugins run as {refused}"));
    }
    let confinement = Confinement::of_this_kernel();
    if !confinement.is_whole() {
        voice.notify(&format!("plugins are {confinement}; `taut doctor` shows the fix"));
    }
    let left_out = offers.skipped().len();
    if left_out > 0 {
        voice.notify(&format!(
            "{left_out} libraries or plugins are left out; taut plugins shows why"
        ));
    }
    for skipped in offers.skipped() {
        let why = on_one_line(&skipped.why);
        voice.detail(&format!("left out: {}: {why}", skipped.path.display()));
    }
    let options = WorkshopOptions {
        program,
        name: host_name(),
        bind: address.ip(),
        scheduler: flags.scheduler,
        max_streams: flags.max_streams as usize,
        max_share: MAX_SHARE,
        timeout: TIMEOUT,
        silence: SILENCE,
        cleartext: flags.cleartext,
        costs: cache_folder().map(|folder| folder.join("costs.json")),
    };
    let count = offers.all().len();
    let log = Arc::new(Mutex::new(WorkLog::new(voice)));
    let (worked, served) = (Arc::clone(&log), Arc::clone(&log));
    let workshop = PluginWorkshop::new(options, offers);
    let workshop =
        Arc::new(workshop.event_channel(move |news| locked(&worked).worked(news, now())));
    let listening = Listening { address, trust };
    let server = serve_with_events(&listening, Arc::clone(&workshop) as _, move |news| {
        locked(&served).served(news, now());
    });
    let server = server.map_err(|error| Failure::open(error.to_string()))?;
    screen::emit(&format!("worker at {} with {count} plugins", server.address()));
    let (observers, began) = (observers("work", voice), now());
    while !stop.is_requested() {
        emit(voice, &log, now());
        if observers.are_here() {
            observers.notify(|| {
                let states = workshop.streams();
                shown::snapshot(&states, &locked(&log), now() - began)
            });
        }
        sleep_until(now() + STEP);
    }
    server.stop();
    drop(workshop);
    emit(voice, &log, LocalTime::NEVER);
    Ok(())
}

/// A log poisoned by a panic is still consistent.
pub(super) fn locked(log: &Mutex<WorkLog>) -> MutexGuard<'_, WorkLog> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Releases the lock before printing, which may block.
pub(super) fn emit(voice: Voice, log: &Mutex<WorkLog>, now: LocalTime) {
    let due = locked(log).due(now);
    due.iter().for_each(|line| voice.notify(line));
}

/// Loopback needs no key, but uses an existing one.
fn trust(address: SocketAddr) -> Result<Option<Arc<TrustStore>>, Failure> {
    let open = || {
        if address.ip().to_canonical().is_loopback() {
            let is_there = usual_folder().and_then(|folder| HostIdentity::load(&folder));
            if is_there?.is_none() {
                return Ok(None);
            }
        }
        TrustStore::usual().map(Some)
    };
    open().map_err(|error: tautline_api::trust::TrustError| Failure::open(error.to_string()))
}

fn refused(scheduler: Scheduler) -> Option<String> {
    let (thread, granted) = spawn("asks", scheduler, 0, || ()).ok()?;
    let _ = thread.join();
    (!granted.is_granted()).then(|| granted.to_string())
}
