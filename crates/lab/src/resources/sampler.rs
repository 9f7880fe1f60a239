//! Reads counters at intervals during a measurement.

use std::fs::{File, read_dir};
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tautline_io::clock::{now, sleep_until, thread_time};
use tautline_io::thread::{Scheduler, spawn};
use tautline_proto::time::Span;

use super::counters::{MachineCounters, ProcessCounters, context_switches};
use super::record::{Record, Sample};
use crate::schedule::OpenSchedule;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SamplerOptions {
    pub interval: Span,
    pub duration: Span,
    pub pids: Vec<u32>,
}

const BEAT: Span = Span::from_millis(20);
const MAX: usize = 1 << 20;
/// Maximum bytes read. All the files are smaller.
const TEXT: usize = 256 << 10;
const STACK: usize = 128 << 10;

pub struct Sampler {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Record>,
}

impl Sampler {
    /// Returns after the first reading.
    pub fn start(options: &SamplerOptions) -> Result<Self, String> {
        let over = Arc::<AtomicBool>::default();
        let mut reader = ProcReader::open(&options.pids)?;
        let first = reader.read();
        let begins = first.at;
        let interval = options.interval.max(Span::from_millis(1));
        let ends = begins + options.duration + Span::from_nanos(1);
        let schedule = OpenSchedule::new(begins + interval, interval, ends);
        let mut samples = Vec::with_capacity(schedule.count().min(MAX) + 2);
        samples.push(first);
        let requested = Arc::clone(&over);
        let sampling = Sampling { reader, schedule, interval, samples, over: requested };
        let started = spawn("taut-resources", Scheduler::Other, STACK, move || sampling.run());
        let (thread, _) = started.map_err(|error| {
            format!("cannot start a thread: {error}\nhint: end other programs or raise ulimit -u")
        })?;
        Ok(Self { over, thread })
    }

    /// Adds a last reading if the previous reading is old.
    pub fn finish(self) -> Record {
        self.over.store(true, Ordering::Release);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

struct Sampling {
    reader: ProcReader,
    schedule: OpenSchedule,
    interval: Span,
    samples: Vec<Sample>,
    over: Arc<AtomicBool>,
}

impl Sampling {
    fn run(mut self) -> Record {
        let before = thread_time();
        while let Some(due) = self.schedule.next() {
            while now() < due && !self.over.load(Ordering::Acquire) {
                sleep_until(due.min(now() + BEAT));
            }
            if now() < due {
                break;
            }
            self.take();
            self.schedule.pass(now(), |_| {});
        }
        while !self.over.load(Ordering::Acquire) {
            sleep_until(now() + BEAT);
        }
        // Ticks are too coarse for half an interval.
        let last = self.samples.last().map(|sample| now() - sample.at);
        if self.samples.len() < 2 || last.is_some_and(|since| since >= self.interval.half()) {
            self.take();
        }
        let Self { reader, samples, .. } = self;
        Record { samples, names: reader.names(), pids: reader.pids(), cost: thread_time() - before }
    }

    fn take(&mut self) {
        if self.samples.len() < MAX {
            self.samples.push(self.reader.read());
        }
    }
}

struct ProcReader {
    stat: File,
    vmstat: Option<File>,
    meminfo: Option<File>,
    net: Option<File>,
    processes: Vec<WatchedProcess>,
    text: [String; 4],
}

struct WatchedProcess {
    pid: u32,
    stat: Option<File>,
    name: String,
}

impl ProcReader {
    fn open(pids: &[u32]) -> Result<Self, String> {
        let stat = File::open("/proc/stat").map_err(|error| {
            format!("cannot read /proc/stat: {error}\nhint: mount proc (mount -t proc proc /proc)")
        })?;
        let processes = pids.iter().map(|&pid| {
            let stat = File::open(format!("/proc/{pid}/stat")).ok();
            WatchedProcess { pid, stat, name: String::new() }
        });
        let mut reader = Self {
            stat,
            vmstat: File::open("/proc/vmstat").ok(),
            meminfo: File::open("/proc/meminfo").ok(),
            net: File::open("/proc/net/dev").ok(),
            processes: processes.collect(),
            text: core::array::from_fn(|_| String::with_capacity(TEXT / 4)),
        };
        for process in &mut reader.processes {
            if let Some(stat) = &mut process.stat {
                again(stat, &mut reader.text[0]);
                process.name =
                    ProcessCounters::name(&reader.text[0]).unwrap_or_default().to_owned();
            }
        }
        Ok(reader)
    }

    fn read(&mut self) -> Sample {
        let Self { stat, vmstat, meminfo, net, processes, text } = self;
        let at = now();
        let files = [Some(stat), vmstat.as_mut(), meminfo.as_mut(), net.as_mut()];
        for (file, text) in files.into_iter().zip(text.iter_mut()) {
            text.clear();
            if let Some(file) = file {
                again(file, text);
            }
        }
        let machine = MachineCounters::read(&text[0], &text[1], &text[2], &text[3]);
        let processes = processes.iter_mut().map(|process| {
            again(process.stat.as_mut()?, &mut text[0]);
            let switches = switches(process.pid);
            Some(ProcessCounters { switches, ..ProcessCounters::read(&text[0])? })
        });
        Sample { at, machine, processes: processes.collect() }
    }

    fn names(&self) -> Vec<String> {
        self.processes.iter().map(|process| process.name.clone()).collect()
    }

    fn pids(&self) -> Vec<u32> {
        self.processes.iter().map(|process| process.pid).collect()
    }
}

fn again(file: &mut File, text: &mut String) {
    text.clear();
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| {
        let limit = TEXT as u64;
        Read::take(&mut *file, limit).read_to_string(text)
    });
    if read.is_err() {
        text.clear();
    }
}

fn switches(pid: u32) -> Option<u64> {
    let threads = read_dir(format!("/proc/{pid}/task")).ok()?;
    let counted = threads.filter_map(|thread| {
        context_switches(&std::fs::read_to_string(thread.ok()?.path().join("status")).ok()?)
    });
    counted.reduce(u64::saturating_add)
}
