use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rtrb::Consumer;
use tautline_engine::offload::attendant::Attendant;
use tautline_engine::offload::offloaded::Which;

use crate::emit::emit;
use crate::record::RunRecord;
use crate::twin::TwinSpan;

pub(crate) struct ClientStanding {
    begun: AtomicU64,
    ended: AtomicU64,
    is_over: AtomicBool,
    /// First differing frame, plus one; 0 after it was taken.
    differs: AtomicU64,
    /// Frames of a run longer than the delay.
    short: AtomicU64,
    watch: Mutex<WorkerWatch>,
    papers: Mutex<Papers>,
    changed: Condvar,
}

pub(crate) struct WorkerWatch {
    pub(crate) attendant: Attendant,
    pub(crate) spans: Option<Consumer<TwinSpan>>,
    pub(crate) record: RunRecord,
}

impl WorkerWatch {
    pub(crate) fn handle(&mut self) {
        while let Some(gone) = self.attendant.take_gone() {
            drop(gone);
        }
        while let Some(damage) = self.attendant.take_damage() {
            self.record.note(damage);
        }
        while let Some(slack) = self.attendant.take_slack() {
            self.record.note_slack(slack);
        }
        while let Some(span) = self.spans.as_mut().and_then(|spans| spans.pop().ok()) {
            self.record.note_span(span);
        }
    }
}

#[derive(Default)]
struct Papers {
    workers: [WantedWorker; Which::ALL.len()],
    said: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default)]
struct WantedWorker {
    is_seen_to: bool,
    is_open: bool,
    is_tried: bool,
    opened: u64,
}

const TAKEN: u64 = u64::MAX;
/// Maximum sentences. This limits memory if a worker comes and goes for days.
const MAX_SAID: usize = 32;
const LAST_SAID: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunningStream {
    pub(crate) begun: u64,
    pub(crate) is_inside: bool,
}

impl ClientStanding {
    pub(crate) fn new(attendant: Attendant) -> Self {
        Self {
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            differs: AtomicU64::new(0),
            short: AtomicU64::new(0),
            watch: Mutex::new(WorkerWatch { attendant, spans: None, record: RunRecord::default() }),
            papers: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn watch(&self) -> MutexGuard<'_, WorkerWatch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn papers(&self) -> MutexGuard<'_, Papers> {
        self.papers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin_run(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end_run(&self) {
        self.ended.store(self.begun.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    pub(crate) fn running(&self) -> RunningStream {
        let begun = self.begun.load(Ordering::Relaxed);
        RunningStream { begun, is_inside: self.ended.load(Ordering::Relaxed) != begun }
    }

    pub(crate) fn tell_difference(&self, frame: u64) {
        self.differs.store(frame + 1, Ordering::Relaxed);
    }

    /// Records a run whose answer is late.
    pub(crate) fn tell_short(&self, frames: u64) {
        // The first such run suffices.
        let _ = self.short.compare_exchange(0, frames, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(crate) fn take_short(&self) -> Option<u64> {
        let frames = self.short.load(Ordering::Relaxed);
        let is_new = frames > 0 && frames < TAKEN;
        is_new.then(|| self.short.store(TAKEN, Ordering::Relaxed)).map(|()| frames)
    }

    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn take_difference(&self) -> Option<u64> {
        self.differs.swap(0, Ordering::Relaxed).checked_sub(1)
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(crate) fn set_seen_to(&self, which: Which) {
        self.papers().workers[which as usize].is_seen_to = true;
    }

    pub(crate) fn set_open(&self, which: Which, is_open: bool) {
        let mut papers = self.papers();
        let worker = &mut papers.workers[which as usize];
        worker.opened += u64::from(is_open);
        (worker.is_open, worker.is_tried) = (is_open, true);
        self.changed.notify_all();
    }

    pub(crate) fn opened(&self, which: Which) -> u64 {
        self.papers().workers[which as usize].opened
    }

    pub(crate) fn close(&self, which: Which) {
        let mut papers = self.papers();
        let worker = &mut papers.workers[which as usize];
        (worker.is_seen_to, worker.is_open) = (false, false);
        self.changed.notify_all();
    }

    pub(crate) fn await_tried(&self, timeout: Duration) {
        self.await_papers(timeout, |papers| {
            papers.workers.iter().all(|worker| !worker.is_seen_to || worker.is_tried)
        });
    }

    pub(crate) fn await_open(&self, timeout: Duration) -> bool {
        let is_open = |papers: &Papers| papers.workers.iter().any(|worker| worker.is_open);
        self.await_papers(timeout, is_open);
        is_open(&self.papers())
    }

    pub(crate) fn await_closed(&self, timeout: Duration) {
        self.await_papers(timeout, |papers| !papers.workers.iter().any(|worker| worker.is_open));
    }

    fn await_papers(&self, timeout: Duration, are_so: impl Fn(&Papers) -> bool) {
        let waits = |papers: &mut Papers| !are_so(papers);
        drop(self.changed.wait_timeout_while(self.papers(), timeout, waits));
    }

    /// Skips a sentence that was among the last sentences.
    pub(crate) fn emit(&self, sentence: String) {
        let mut papers = self.papers();
        let is_known = papers.said.iter().rev().take(LAST_SAID).any(|said| *said == sentence);
        if is_known || papers.said.len() >= MAX_SAID {
            return;
        }
        emit(&sentence);
        papers.said.push(sentence);
    }

    pub(crate) fn notify(&self, sentence: &str) {
        emit(sentence);
    }

    pub(crate) fn log(&self, sentence: String) {
        emit(&sentence);
        let mut papers = self.papers();
        if papers.said.len() < MAX_SAID {
            papers.said.push(sentence);
        }
    }

    pub(crate) fn conclude(&self, sentence: String) {
        emit(&sentence);
        self.papers().said.push(sentence);
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        self.papers().said.clone()
    }
}
