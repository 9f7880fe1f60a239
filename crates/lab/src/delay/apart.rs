//! One side alone: what plays marks on a device, and what hears them on another, each a program of its own on
//! whatever host. Marks are kept in memory that was taken and locked before, and are written when the run is
//! over.

use std::io::{self, Write};

use tautline_dsp::timecode::RunNumber;
use tautline_engine::watching::run::{RunError, Running};
use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::{Scheduler, memory};
use tautline_proto::device::{Device, Process, Stop};
use tautline_proto::time::{LocalTime, Span};
use thiserror::Error;

use super::log::{LogBegin, LogEnd, LogLine};
use super::{BEAT, MarkKind, player, recorder};
use crate::kept::lock_memory;

/// How one side runs.
#[derive(Debug, Clone, Copy)]
pub struct PartOptions {
    /// Of the device's thread.
    pub scheduler: Scheduler,
    /// Which channel is listened to, counted from 0.
    pub channel: usize,
    /// What is played.
    pub mark: MarkKind,
    /// The peak of it, in dB of full scale.
    pub level_db: f64,
    /// What tells this run's marks from another's, as both sides have it.
    pub run: u32,
    /// So many marks are kept.
    pub most: usize,
    /// It ends by itself after so long, should nobody end it.
    pub longest: Option<Span>,
}

/// What its device has to say when it has ended.
type NotesAtEnd<'a> = &'a mut dyn FnMut() -> Vec<String>;

/// Why a side ended.
#[derive(Debug, Error)]
pub enum PartError {
    /// Its device did.
    #[error(transparent)]
    Device(#[from] RunError),
    /// Nobody takes what it has to say.
    #[error("writing the log: {0}")]
    Log(#[from] io::Error),
}

/// Plays marks until asked to stop, and writes which of them met the DAC when.
pub fn play(
    device: Box<dyn Device>,
    options: &PartOptions,
    stop: &Stop,
    notes: NotesAtEnd<'_>,
    to: &mut dyn Write,
) -> Result<(), PartError> {
    let settings = device.settings();
    let run = RunNumber::new(options.run);
    let mut log = MarkLog::with_room(options.most);
    let sound = options.mark.sound(settings.rate, run, options.level_db);
    let (player, mut marks) = player::player(&settings, sound);
    let part = OneDevice { options, stop };
    let mut said = part.run(device, Box::new(player), to, || marks.read(|mark| log.keep(mark)))?;
    said.extend(notes());
    let player::DeviceFaults { xruns, skipped } = marks.faults();
    log.write(to, LogEnd { xruns, skipped, notes: said, ..LogEnd::default() })
}

/// Hears marks until asked to stop, and writes which of them met the ADC when.
pub fn hear(
    device: Box<dyn Device>,
    options: &PartOptions,
    stop: &Stop,
    notes: NotesAtEnd<'_>,
    to: &mut dyn Write,
) -> Result<(), PartError> {
    let settings = device.settings();
    let mut log = MarkLog::with_room(options.most);
    let search = options.mark.search(settings.rate, RunNumber::new(options.run));
    let (recorder, mut ear) = recorder::recorder(&settings, options.channel, search);
    let part = OneDevice { options, stop };
    let mut said = part.run(device, Box::new(recorder), to, || {
        let runs = ear.listen();
        ear.find(runs, |mark| log.keep(mark));
    })?;
    said.extend(notes());
    let player::DeviceFaults { xruns, skipped } = ear.faults();
    let end = LogEnd {
        end_ns: ear.end().as_nanos(),
        xruns,
        skipped,
        unread: ear.unread(),
        foreign: ear.foreign(),
        best_unclear_db: ear.best_unclear_db(),
        unkept: 0,
        notes: said,
    };
    log.write(to, end)
}

/// A device, and when it is to end.
struct OneDevice<'a> {
    options: &'a PartOptions,
    stop: &'a Stop,
}

impl OneDevice<'_> {
    /// Says that it has begun, and looks after it to its end; what is to be known of it.
    fn run(
        self,
        device: Box<dyn Device>,
        process: Box<dyn Process>,
        to: &mut dyn Write,
        mut look: impl FnMut(),
    ) -> Result<Vec<String>, PartError> {
        let (settings, mut notes) = (device.settings(), Vec::from_iter(lock_memory()));
        let running = Running::start(device, process, self.options.scheduler, self.stop)?;
        if !running.granted.is_granted() {
            notes.push(format!("its device's thread runs as {}", running.granted));
        }
        LogLine::Begun(LogBegin::of(now(), &settings)).write(to)?;
        to.flush()?;
        let ends = self.options.longest.map_or(LocalTime::NEVER, |longest| now() + longest);
        while !self.stop.is_requested() && !running.is_over() && now() < ends {
            sleep_until(now() + BEAT);
            look();
        }
        running.end()?;
        look();
        Ok(notes)
    }
}

/// Marks, in memory that is there already.
struct MarkLog<Mark> {
    marks: Vec<Mark>,
    unkept: u64,
}

impl<Mark: Clone + Default> MarkLog<Mark>
where
    for<'a> LogLine: From<&'a Mark>,
{
    fn with_room(most: usize) -> Self {
        // Each page is touched, and none is fetched while marks come.
        let mut marks = vec![Mark::default(); most];
        marks.clear();
        Self { marks, unkept: 0 }
    }

    /// Never allocates.
    fn keep(&mut self, mark: Mark) {
        if memory::push_within(&mut self.marks, mark).is_err() {
            self.unkept += 1;
        }
    }

    fn write(self, to: &mut dyn Write, end: LogEnd) -> Result<(), PartError> {
        let mut to = io::BufWriter::new(to);
        for mark in &self.marks {
            LogLine::from(mark).write(&mut to)?;
        }
        LogLine::Ended(LogEnd { unkept: self.unkept, ..end }).write(&mut to)?;
        Ok(to.flush()?)
    }
}
