//! One side of a measurement as its own program. Marks stay in preallocated, locked memory and are
//! written after the run.

use std::io::{self, Write};

use tautline_dsp::timecode::RunNumber;
use tautline_engine::error::RunError;
use tautline_engine::monitor::run::Running;
use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::memory;
use tautline_proto::device::{Device, Process, Settings, Stop};
use tautline_proto::time::LocalTime;
use thiserror::Error;

use super::log::{LogBegin, LogEnd, LogLine};
use super::{BEAT, MarkSide, player, recorder};
use crate::kept::lock_memory;

pub(super) struct MarkPart<'a> {
    pub device: Box<dyn Device>,
    pub side: &'a MarkSide,
    pub stop: &'a Stop,
    pub notes: &'a mut dyn FnMut() -> Vec<String>,
}

#[derive(Debug, Error)]
pub(super) enum PartError {
    #[error(transparent)]
    Device(#[from] RunError),
    #[error("cannot write the log: {0}")]
    Log(#[from] io::Error),
}

/// Plays until stopped, then writes DAC times.
pub(super) fn play(part: MarkPart<'_>, to: &mut dyn Write) -> Result<(), PartError> {
    let (settings, run, mut log) = part.begin();
    let shape = &part.side.shape;
    let sound = shape.mark.sound(settings.rate, run, shape.level.into());
    let (player, mut marks) = player::player(&settings, sound);
    let said = part.run(Box::new(player), to, || marks.read(|mark| log.keep(mark)))?;
    let player::DeviceFaults { xruns, skipped } = marks.faults();
    log.write(to, LogEnd { xruns, skipped, notes: said, ..LogEnd::default() })
}

/// Records until stopped, then writes ADC times.
pub(super) fn handle(part: MarkPart<'_>, to: &mut dyn Write) -> Result<(), PartError> {
    let (settings, run, mut log) = part.begin();
    let shape = &part.side.shape;
    let search = shape.mark.search(settings.rate, run);
    let (recorder, mut ear) = recorder::recorder(&settings, shape.channel as usize - 1, search);
    let said = part.run(Box::new(recorder), to, || {
        let runs = ear.listen();
        ear.find(runs, |mark| log.keep(mark));
    })?;
    let player::DeviceFaults { xruns, skipped } = ear.faults();
    let end = LogEnd {
        end_ns: ear.end().as_nanos(),
        xruns,
        skipped,
        unread: ear.unread(),
        foreign: ear.foreign(),
        best_unclear_db: ear.best_unclear_db(),
        overflowed: 0,
        notes: said,
    };
    log.write(to, end)
}

impl MarkPart<'_> {
    fn begin<Mark: Clone + Default>(&self) -> (Settings, RunNumber, MarkLog<Mark>)
    where
        for<'mark> LogLine: From<&'mark Mark>,
    {
        let MarkSide { run, maximum, .. } = *self.side;
        (self.device.settings(), RunNumber::new(run), MarkLog::with_room(maximum as usize))
    }

    fn run(
        self,
        process: Box<dyn Process>,
        to: &mut dyn Write,
        mut look: impl FnMut(),
    ) -> Result<Vec<String>, PartError> {
        let device = self.device;
        let (settings, mut notes) = (device.settings(), Vec::from_iter(lock_memory()));
        let running = Running::start(device, process, self.side.shape.scheduler, self.stop)?;
        if !running.granted.is_granted() {
            notes.push(format!("its device's thread runs as {}", running.granted));
        }
        LogLine::Begun(LogBegin::of(now(), &settings)).write(to)?;
        to.flush()?;
        let ends = self.side.longest.map_or(LocalTime::NEVER, |longest| now() + longest);
        while !self.stop.is_requested() && !running.is_over() && now() < ends {
            sleep_until(now() + BEAT);
            look();
        }
        running.end()?;
        look();
        notes.extend((self.notes)());
        Ok(notes)
    }
}

/// Preallocated.
struct MarkLog<Mark> {
    marks: Vec<Mark>,
    overflowed: u64,
}

impl<Mark: Clone + Default> MarkLog<Mark>
where
    for<'a> LogLine: From<&'a Mark>,
{
    fn with_room(maximum: usize) -> Self {
        // Avoids page faults during the run.
        let mut marks = vec![Mark::default(); maximum];
        marks.clear();
        Self { marks, overflowed: 0 }
    }

    fn keep(&mut self, mark: Mark) {
        if memory::push_within(&mut self.marks, mark).is_err() {
            self.overflowed += 1;
        }
    }

    fn write(self, to: &mut dyn Write, end: LogEnd) -> Result<(), PartError> {
        let mut to = io::BufWriter::new(to);
        for mark in &self.marks {
            LogLine::from(mark).write(&mut to)?;
        }
        LogLine::Ended(LogEnd { overflowed: self.overflowed, ..end }).write(&mut to)?;
        Ok(to.flush()?)
    }
}
