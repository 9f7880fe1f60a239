//! Runs a stream's plugin on a real-time thread, monitored by the main thread.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Stdin};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

use tautline_api::seal::{Sealed, StreamKeys};
use tautline_api::v1::StreamRequest;
use tautline_engine::offload::working::{work, work_between};
use tautline_io::clock::{now, sleep_until};
use tautline_io::link::Pollable;
use tautline_io::link::direct::DirectLink;
use tautline_io::socket::seal::Seal;
use tautline_io::thread::float_mode::FloatMode;
use tautline_io::thread::halt::Halt;
use tautline_io::thread::memory::lock;
use tautline_io::thread::{Granted, Scheduler, spawn, without_signals};
use tautline_io::udp::UdpOptions;
use tautline_proto::offload::worker::{Worker, WorkerConfig};
use tautline_proto::text::on_one_line;
use tautline_proto::time::Span;

use super::gauge::Gauge;
use super::noted::NotedSeal;
use super::soiled::SoiledLink;
use super::sound::PluginSound;
use super::{emit, end_with_the_parent, leave, parent};
use crate::chain::ChainNode;
use crate::child_notes::{PendingNote, RunNote, notes};
use crate::confinement::{Confinement, folders_of};
use crate::cost::{self, MEASURED_FRAMES};
use crate::plan::{ChildEvent, Plan, PlannedFeed, TakeBlocks};

const STEP: Span = Span::from_millis(50);
const REPORT: u32 = 10;
const STACK_BYTES: usize = 512 << 10;
/// Datagrams per second, for the socket buffer: one per 32 frames at 96 kHz, sent twice.
const DATAGRAMS_PER_SECOND: u32 = 6000;
const BATCH: usize = 32;

pub(super) fn run(descriptors: &[RawFd]) -> io::Result<()> {
    let mut parent = parent()?;
    let mut lines = BufReader::new(io::stdin());
    let plan = read_plan(&mut lines)?;
    // SAFETY: the parent left these descriptors open for this process, where nothing else refers to
    // them.
    let handed = descriptors.iter().map(|number| unsafe { OwnedFd::from_raw_fd(*number) });
    let opened = open(&plan, handed.collect());
    let libraries = plan.recipe.libraries();
    let folders = libraries.into_iter().flat_map(|library| folders_of(library));
    let readable: Vec<_> = plan.readable.iter().cloned().chain(folders).collect();
    // Before any thread starts. `taut doctor` reports missing kernel features.
    let _ = Confinement::enter(&readable);
    let thread = begin_thread(&plan);
    let counts = Arc::new(OnceLock::<(File, Arc<Gauge>)>::new());
    let counted = Arc::clone(&counts);
    let (notify, orders) = sync_channel(1);
    let ordered = move |line| {
        let _ = notify.try_send(line);
    };
    end_with_the_parent(lines, ordered, move || {
        let Some((parent, gauge)) = counted.get() else { return };
        let _ = parent
            .try_clone()
            .and_then(|mut parent| emit(&mut parent, &ChildEvent::Standing(gauge.standing())));
    })?;
    let gauge = Arc::new(Gauge::default());
    let _ = counts.set((parent.try_clone()?, Arc::clone(&gauge)));
    // After the thread's priority, before any plugin.
    Confinement::fix_scheduling();
    let ready = thread.and_then(|thread| prepare(&plan, opened?, &gauge, thread));
    match ready {
        Ok((ready, take)) => {
            emit(&mut parent, &ready)?;
            // A standby waits here.
            let order: TakeBlocks = match orders.recv() {
                Ok(line) => serde_json::from_slice(&line)?,
                Err(_) => leave(),
            };
            let _ = take.send(order);
            watch(&plan, &mut parent, &gauge)
        }
        Err(why) => {
            emit(&mut parent, &ChildEvent::Refused(why))?;
            leave()
        }
    }
}

fn read_plan(lines: &mut BufReader<Stdin>) -> io::Result<Plan> {
    let mut line = String::new();
    lines.read_line(&mut line)?;
    serde_json::from_str(&line).map_err(io::Error::other)
}

struct Opened {
    note: RunNote,
    links: WorkLinks,
}

fn open(plan: &Plan, handed: Vec<OwnedFd>) -> Result<Opened, String> {
    let mut handed = handed.into_iter();
    let place = handed.next().ok_or("it was started without a place for notes")?;
    let (note, received) = notes(place).map_err(on_one_line)?;
    Ok(Opened { note, links: links(plan, handed, received)? })
}

fn prepare(
    plan: &Plan,
    opened: Opened,
    gauge: &Arc<Gauge>,
    (give, granted): (SyncSender<WorkOn>, Granted),
) -> Result<(ChildEvent, SyncSender<TakeBlocks>), String> {
    let load = |max_frames| ChainNode::load(&plan.recipe, plan.request.rate, max_frames);
    let node = load(plan.request.max_frames as usize).map_err(|error| error.to_string())?;
    check(plan, &node)?;
    // Denormals are a hundred times slower; the master's mode takes precedence.
    let flushed = FloatMode { flush_to_zero: true, denormals_are_zero: true };
    let cost = if plan.measure {
        let _mode = flushed.set();
        // Measured on a second instance.
        let mut measured = load(MEASURED_FRAMES).map_err(|error| error.to_string())?;
        Some(cost::measure(&mut measured))
    } else {
        None
    };
    let Opened { note, links: WorkLinks { from, mut to } } = opened;
    let sound = PluginSound::new(node, plan.sound_set(), Arc::clone(gauge), note);
    let mut sound = sound.map_err(|error| error.to_string())?;
    let mut worker = worker(plan)?;
    let halt =
        Halt::new().map_err(|error| format!("cannot create an event descriptor: {error}"))?;
    let _ = lock();
    let (take, taken) = sync_channel::<TakeBlocks>(1);
    let work_on = Box::new(move || {
        let _mode = flushed.set();
        let Ok(TakeBlocks { fatal }) = taken.recv() else { leave() };
        let mut from: Box<dyn Pollable> = match fatal.is_empty() {
            true => from,
            false => Box::new(SoiledLink::new(from, fatal.clone())),
        };
        sound.pass_over(fatal);
        match &mut to {
            Some(to) => work_between(&mut *from, &mut **to, &mut worker, &mut sound, &halt),
            None => work(&mut *from, &mut worker, &mut sound, &halt),
        }
        leave();
    });
    let _ = give.send(work_on);
    Ok((ChildEvent::Ready { scheduled: granted.to_string(), cost }, take))
}

type WorkOn = Box<dyn FnOnce() + Send>;

/// Starts the plugin's thread before any plugin is loaded: later, priorities are fixed.
fn begin_thread(plan: &Plan) -> Result<(SyncSender<WorkOn>, Granted), String> {
    let scheduler = plan.scheduler.parse::<Scheduler>().map_err(|error| error.to_string())?;
    let (give, given) = sync_channel::<WorkOn>(1);
    let thread = without_signals(|| {
        spawn("plugin", scheduler, STACK_BYTES, move || {
            reset_on_fork();
            if let Ok(work_on) = given.recv() {
                work_on();
            }
        })
    });
    let (_, granted) =
        thread.map_err(|error| format!("cannot start a thread: {error}; raise ulimit -u"))?;
    Ok((give, granted))
}

/// Threads that the plugin's thread starts do not get its priority, because they are not monitored.
fn reset_on_fork() {
    // SAFETY: all zeros are a valid sched_attr.
    let mut own: libc::sched_attr = unsafe { core::mem::zeroed() };
    // SAFETY: `own` has room for a sched_attr of the given size. Thread 0 is the caller; flags are
    // 0.
    let found = unsafe {
        libc::syscall(libc::SYS_sched_getattr, 0, &raw mut own, size_of::<libc::sched_attr>(), 0)
    };
    if found == 0 {
        own.sched_flags |= libc::SCHED_FLAG_RESET_ON_FORK as u64;
        // SAFETY: `own` is a sched_attr and contains its size. If the kernel refuses, threads
        // inherit the priority.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const own, 0) };
    }
}

fn check(plan: &Plan, node: &ChainNode) -> Result<(), String> {
    let ports = &plan.ports;
    let said = [ports.inputs, ports.outputs, ports.controls, ports.reported];
    let found = [node.inputs(), node.outputs(), node.controls(), node.reported_controls()];
    if said == found {
        return Ok(());
    }
    Err(format!(
        "the plugin has {found:?} inputs, outputs, controls and control outputs, but reported {said:?}; restart `taut \
         work`"
    ))
}

fn worker(plan: &Plan) -> Result<Worker, String> {
    let set = plan.sound_set().block_set().map_err(|error| error.to_string())?;
    let StreamRequest { byte_order: order, datagram_bytes, history, copies, memory_frames, .. } =
        plan.request;
    let config = WorkerConfig {
        set,
        stream: plan.stream,
        order,
        datagram_bytes: datagram_bytes as usize,
        history: history as usize,
        copies,
        hold: history as usize,
        memory: memory_frames,
    };
    let mut worker = Worker::new(config).map_err(|error| error.to_string())?;
    if let Some(feeds) = &plan.pipeline.feeds {
        worker.feed(feeds.stream);
    }
    Ok(worker)
}

struct WorkLinks {
    from: Box<DirectLink>,
    to: Option<Box<DirectLink>>,
}

fn links(
    plan: &Plan,
    mut sockets: impl Iterator<Item = OwnedFd>,
    [by_master, by_fed]: [PendingNote; 2],
) -> Result<WorkLinks, String> {
    let own = sockets.next().ok_or("it was started without a socket")?;
    let master = link(plan, own, plan.secret, by_master)?;
    let from = match plan.pipeline.fed {
        Some(secret) => {
            let fed = sockets.next().ok_or("it was started without a second socket")?;
            Some(link(plan, fed, secret, by_fed)?)
        }
        None => None,
    };
    let to = plan.pipeline.feeds.as_ref().map(|feeds| onward(plan, feeds)).transpose()?;
    let (from, to) = match (from, to) {
        (None, to) => (master, to),
        (Some(from), None) => (from, Some(master)),
        (Some(from), Some(to)) => (from, Some(to)),
    };
    Ok(WorkLinks { from, to })
}

fn onward(plan: &Plan, feeds: &PlannedFeed) -> Result<Box<DirectLink>, String> {
    let options = UdpOptions {
        datagram_bytes: plan.request.datagram_bytes as usize,
        packets_per_second: DATAGRAMS_PER_SECOND,
        batch: BATCH,
        ..UdpOptions::sender(vec![feeds.address])
    };
    let seal = feeds.secret.map(|secret| -> Box<dyn Seal> {
        let keys = StreamKeys::of(&secret, feeds.stream);
        Box::new(Sealed::master(&keys, plan.incarnation))
    });
    DirectLink::open_sealed(&options, seal).map(Box::new).map_err(on_one_line)
}

fn link(
    plan: &Plan,
    socket: OwnedFd,
    secret: Option<[u8; 32]>,
    received: PendingNote,
) -> Result<Box<DirectLink>, String> {
    let options = UdpOptions {
        max_destinations: 1,
        datagram_bytes: plan.request.datagram_bytes as usize,
        packets_per_second: DATAGRAMS_PER_SECOND,
        batch: BATCH,
        ..UdpOptions::default()
    };
    let seal = secret.map(|secret| -> Box<dyn Seal> {
        let keys = StreamKeys::of(&secret, plan.stream);
        Box::new(NotedSeal::new(keys, plan.incarnation, received))
    });
    DirectLink::over_socket(socket, &options, seal).map(Box::new).map_err(on_one_line)
}

/// Reports the plugin's state, and ends the process if a run hangs.
fn watch(plan: &Plan, parent: &mut File, gauge: &Gauge) -> ! {
    let maximum = plan.timeout_ms.div_ceil(STEP.as_nanos().unsigned_abs() / 1_000_000).max(2);
    let (mut seen, mut looks, mut reported) = (None, 0u64, None);
    for step in 1u32.. {
        // Counts looks instead of time: a stopped process has not hung.
        sleep_until(now() + STEP);
        let under_way = gauge.under_way();
        looks = if under_way.is_some() && under_way == seen { looks + 1 } else { 0 };
        seen = under_way;
        let standing = gauge.standing();
        if looks >= maximum {
            let millis = looks * STEP.as_nanos().unsigned_abs() / 1_000_000;
            let _ = emit(parent, &ChildEvent::Standing(standing));
            let _ = emit(parent, &ChildEvent::Hung { millis });
            break;
        }
        if step.is_multiple_of(REPORT) && reported != Some(standing) {
            reported = Some(standing);
            if emit(parent, &ChildEvent::Standing(standing)).is_err() {
                break;
            }
        }
    }
    leave()
}
