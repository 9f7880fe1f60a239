//! Recordings of calls: WAV files of sent and received sound (`--record`).

mod mix;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use tautline_audio::{MAX_OF_A_PART, RecordedTime, Recording, recorded};
use tautline_dsp::format::SampleFormat;
use tautline_proto::device::{Device, Direction};
use tautline_proto::time::{LocalTime, Span};
use time::OffsetDateTime;

use crate::{Error, Event, Events, running};

/// Of all files: the agreed coding may change during a call, and 24 bits hold all that a converter gives.
const FORMAT: SampleFormat = SampleFormat::L24;

/// From the command to begin the next files to their first frame: both devices have the command by then, and hold only
/// earlier frames.
const AHEAD: Span = Span::from_secs(1);

pub(crate) struct Recordings {
    folder: PathBuf,
    /// Into which both directions are mixed at the end.
    mixed: Option<PathBuf>,
    /// Files of both directions, in order.
    names: Vec<FileName>,
    events: Events,
    /// Bytes of sound in a file before the next begins.
    most: u64,
    /// Calls that were begun.
    calls: u32,
    name: Option<FileName>,
    devices: Vec<(Direction, Recording)>,
}

#[derive(Debug, Clone)]
struct FileName {
    /// The time of its beginning, and its number.
    stem: String,
    /// A WAV holds 4 GiB, which is four hours: the number of the present file.
    part: u32,
    /// When all of these files begin.
    begins: RecordedTime,
}

impl Recordings {
    /// In this folder, which is created, or mixed into this file where it is named as a WAV.
    pub(crate) fn at(path: &Path, events: &Events) -> Result<Self, Error> {
        let mixed = is_mixed(path).then(|| path.to_owned());
        let beside = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = if mixed.is_some() { beside.unwrap_or(Path::new(".")) } else { path };
        std::fs::create_dir_all(folder).map_err(|error| {
            let folder = folder.display();
            Error::Open(format!("--record {folder}: {error}\nhint: name a folder that you can write to"))
        })?;
        let folder = folder.to_owned();
        let most = MAX_OF_A_PART;
        Ok(Self {
            folder,
            mixed,
            names: Vec::new(),
            events: Events::clone(events),
            most,
            calls: 0,
            name: None,
            devices: Vec::new(),
        })
    }

    /// So many calls were recorded in this folder before.
    pub(crate) fn after(&mut self, calls: u32) {
        self.calls = calls;
    }

    /// All calls in this folder.
    pub(crate) const fn calls(&self) -> u32 {
        self.calls
    }

    /// The device, recorded from its first period on if a call has begun.
    pub(crate) fn of(
        &mut self,
        device: Box<dyn Device>,
        direction: Direction,
    ) -> Result<Box<dyn Device>, Error> {
        let (device, mut recording) = recorded(device, direction, FORMAT);
        if let Some(name) = &self.name {
            recording.begin_in_step(&name.file(&self.folder, direction), &name.begins)?;
        }
        // Sent sound first, whichever device is opened first.
        let at = if direction == Direction::Capture { 0 } else { self.devices.len() };
        self.devices.insert(at, (direction, recording));
        Ok(device)
    }

    /// A call begins. An error is reported, and the call goes on.
    pub(crate) fn begin(&mut self) {
        self.calls += 1;
        let mut name = FileName { stem: self.stem(), part: 1, begins: RecordedTime::default() };
        // Another program may have begun a call in this very second.
        while name.is_taken(&self.folder) {
            self.calls += 1;
            name.stem = self.stem();
        }
        self.record(name);
    }

    /// Of files that are to be mixed, hidden beside the file that they go into.
    fn stem(&self) -> String {
        let stem = stem(self.calls);
        match self.mixed.as_deref().and_then(Path::file_stem) {
            Some(mixed) => format!(".{}-{stem}", mixed.to_string_lossy()),
            None => stem,
        }
    }

    /// Begins the next files if these are full, and reports notes. To be called now and then.
    pub(crate) fn turn(&mut self, now: LocalTime) {
        let most = self.most;
        let is_full = self.devices.iter().any(|(_, recording)| recording.holds(most));
        if let Some(name) = self.name.take_if(|_| is_full) {
            // Each device goes on to it by itself: only an instant is the same to both.
            let begins = RecordedTime::at(now + AHEAD);
            self.record(FileName { part: name.part + 1, begins, ..name });
        }
        self.report_notes();
    }

    fn report_notes(&mut self) {
        let events = Events::clone(&self.events);
        for (_, recording) in &mut self.devices {
            recording.turn();
            recording.notes().take().into_iter().for_each(|note| events(Event::Note(note)));
        }
    }

    fn record(&mut self, name: FileName) {
        let (folder, events) = (self.folder.clone(), Events::clone(&self.events));
        for (direction, recording) in &mut self.devices {
            // Not a frame is between it and the part before.
            let begun = recording.begin_in_step(&name.file(&folder, *direction), &name.begins);
            if let Err(error) = begun {
                events(Event::Note(error.to_string()));
            }
        }
        self.names.push(name.clone());
        self.name = Some(name);
    }

    /// After the devices have ended: an error if not all was recorded.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        self.report_notes();
        let failed =
            self.devices.iter().flat_map(|(_, recording)| recording.notes().failed()).next();
        failed.map_or(Ok(()), |failed| Err(running(failed)))?;
        // Files end as they are dropped.
        self.devices.clear();
        let Some(mixed) = &self.mixed else { return Ok(()) };
        for name in &self.names {
            let sides = [Direction::Capture, Direction::Playback];
            let [sent, heard] = sides.map(|way| name.file(&self.folder, way));
            mix::mix([&sent, &heard], mixed).map_err(|error| {
                let (sent, heard) = (sent.display(), heard.display());
                running(format!(
                    "--record {}: {error}; {sent} and {heard} are kept",
                    mixed.display()
                ))
            })?;
        }
        Ok(())
    }
}

/// Whether `--record` names a file for both directions, not a folder.
pub fn is_mixed(record: &Path) -> bool {
    record.extension().is_some_and(|is| is.eq_ignore_ascii_case("wav")) && !record.is_dir()
}

impl FileName {
    fn file(&self, folder: &Path, direction: Direction) -> PathBuf {
        let what = match direction {
            Direction::Capture => "sent",
            Direction::Playback => "heard",
        };
        let part = if self.part == 1 { String::new() } else { format!("-{}", self.part) };
        folder.join(format!("{}-{what}{part}.wav", self.stem))
    }

    fn is_taken(&self, folder: &Path) -> bool {
        let ways = [Direction::Capture, Direction::Playback];
        ways.into_iter().any(|way| self.file(folder, way).symlink_metadata().is_ok())
    }
}

/// Begins with the time, so that files are sorted by it.
fn stem(call: u32) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    format!("{}-call-{call}", utc(since.map_or(0, |since| since.as_secs())))
}

/// Seconds since 1970 in the basic form of ISO 8601.
fn utc(seconds: u64) -> String {
    let at =
        i64::try_from(seconds).ok().and_then(|at| OffsetDateTime::from_unix_timestamp(at).ok());
    let at = at.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (year, month, day) = at.to_calendar_date();
    let (hour, minute, second) = at.to_hms();
    format!("{year:04}{:02}{day:02}T{hour:02}{minute:02}{second:02}Z", u8::from(month))
}
