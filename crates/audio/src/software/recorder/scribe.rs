use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use rtrb::Consumer;
use tautline_io::clock::now;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Rate;

use super::{Gap, INTERVAL, PIECE, RecorderShared};
use crate::software::wav::{Spent, WavFile};
use crate::toolbox::Notes;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Lap {
    pub(super) overslept: Span,
    pub(super) spent: Spent,
}

impl Lap {
    fn total(self) -> Span {
        self.overslept + self.spent.coding + self.spent.storing
    }

    pub(super) fn blame(self, piped: bool) -> String {
        let Self { overslept, spent: Spent { coding, storing } } = self;
        if storing >= coding.max(overslept) && piped {
            format!("its reader took {storing}; make it faster, or insert a buffer")
        } else if storing >= coding.max(overslept) {
            format!("the disk took {storing}; record to a faster one, such as /dev/shm")
        } else if coding >= overslept {
            format!("encoding took {coding}; record fewer channels or at a lower rate")
        } else {
            format!("the writer did not run for {overslept}; stop other programs")
        }
    }
}

pub(super) struct Scribe {
    pub(super) samples: Consumer<f32>,
    pub(super) silences: Consumer<Gap>,
    pub(super) taken: u64,
    pub(super) file: WavFile,
    pub(super) channels: u64,
    pub(super) rate: Rate,
    pub(super) since_header: usize,
    pub(super) header_every: usize,
    pub(super) shared: Arc<RecorderShared>,
    pub(super) worst: Lap,
    pub(super) notes: Notes,
    pub(super) name: String,
}

impl Scribe {
    pub(super) fn run(mut self) {
        let recorded = self.record();
        self.end(recorded);
    }

    pub(super) fn end(self, recorded: Result<(), Unwritten>) {
        let whole = recorded.is_ok();
        match recorded {
            Ok(()) => {}
            Err(Unwritten::Deserted) => self.shared.deserted.store(true, Ordering::Relaxed),
            Err(Unwritten::Because { answer, hint }) => {
                let frames = self.file.samples() / self.channels;
                let length = self.rate.span_of(Frames::new(frames as i64));
                self.notes.fail(format!(
                    "file:{}: {answer}; the recording ended after {length} ({frames} frames); {hint}",
                    self.name
                ));
            }
        }
        let lost = self.shared.lost.load(Ordering::Relaxed) / self.channels;
        if lost > 0 && whole {
            let blame = self.worst.blame(self.file.is_pipe());
            self.note(&format!("{lost} frames were recorded as silence because {blame}"));
        }
        let Self { file, notes, name, .. } = self;
        if let (Err(error), true) = (file.finish(), whole) {
            notes.fail(format!(
                "file:{name}: {error}, so the recording may be incomplete; free space, or record \
                 elsewhere"
            ));
        }
    }

    fn record(&mut self) -> Result<(), Unwritten> {
        let (mut overslept, mut lost) = (Span::ZERO, 0);
        if !self.await_reader()? {
            return Ok(());
        }
        self.file.flush()?;
        loop {
            // Before the ring, which then holds everything until the stop.
            let stop = self.shared.stop.load(Ordering::Acquire);
            self.empty()?;
            let lap = Lap { overslept, spent: self.file.spent() };
            let lost_by_now = self.shared.lost.load(Ordering::Relaxed);
            if lost_by_now > lost && lap.total() >= self.worst.total() {
                self.worst = lap;
            }
            lost = lost_by_now;
            if stop {
                let tail = self.shared.tail.load(Ordering::Relaxed);
                return self.silence(tail);
            }
            let asleep = now();
            thread::park_timeout(INTERVAL);
            overslept = now() - asleep - Span::from_nanos(INTERVAL.as_nanos() as i64);
        }
    }

    fn await_reader(&mut self) -> Result<bool, Unwritten> {
        while !self.file.has_reader()? {
            if self.shared.stop.load(Ordering::Acquire) {
                let name = &self.name;
                let unread = format!("file:{name}: no program read it, so nothing was recorded");
                self.notes.fail(unread);
                return Ok(false);
            }
            let count = self.samples.slots();
            if let Ok(chunk) = self.samples.read_chunk(count) {
                chunk.commit_all();
            }
            self.taken += count as u64;
            while self.silences.peek().is_ok_and(|gap| gap.after <= self.taken) {
                let _ = self.silences.pop();
            }
            thread::park_timeout(INTERVAL);
        }
        Ok(true)
    }

    fn note(&self, sentence: &str) {
        self.notes.add(format!("file:{}: {sentence}", self.name));
    }

    /// Writes the ring, and a header every quarter of a second, in case the program is killed.
    pub(super) fn empty(&mut self) -> Result<(), Unwritten> {
        // Before the silences, which then include all in between.
        let count = self.samples.slots();
        let end = self.taken + count as u64;
        while let Some(gap) = self.silences.peek().ok().copied().filter(|gap| gap.after <= end) {
            self.take((gap.after - self.taken) as usize)?;
            self.silence(gap.samples)?;
            let _ = self.silences.pop();
        }
        self.take((end - self.taken) as usize)?;
        self.since_header += count;
        if self.since_header >= self.header_every {
            self.since_header = 0;
            self.file.flush()?;
        }
        Ok(())
    }

    fn take(&mut self, mut count: usize) -> Result<(), Unwritten> {
        while count > 0 {
            let piece = count.min(PIECE);
            self.check_room(piece as u64)?;
            let Ok(chunk) = self.samples.read_chunk(piece) else { return Ok(()) };
            let (first, second) = chunk.as_slices();
            self.file.write(first).and_then(|()| self.file.write(second))?;
            chunk.commit_all();
            self.taken += piece as u64;
            self.shared.stored.fetch_add(piece as u64, Ordering::Relaxed);
            count -= piece;
        }
        Ok(())
    }

    fn silence(&mut self, samples: u64) -> Result<(), Unwritten> {
        if samples == 0 {
            return Ok(());
        }
        self.check_room(samples)?;
        self.file.silence(samples)?;
        self.shared.stored.fetch_add(samples, Ordering::Relaxed);
        Ok(())
    }

    fn check_room(&self, samples: u64) -> Result<(), Unwritten> {
        if self.file.has_room(samples) {
            return Ok(());
        }
        Err(Unwritten::Because {
            answer: "a WAV file holds at most 4 GiB".to_owned(),
            hint: "record in parts, or fewer channels",
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unwritten {
    Deserted,
    Because { answer: String, hint: &'static str },
}

impl From<io::Error> for Unwritten {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Deserted,
            _ => {
                Self::Because { answer: error.to_string(), hint: "free space, or record elsewhere" }
            }
        }
    }
}
