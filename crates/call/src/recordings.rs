//! WAV recordings of sent and received sound (`--record`).

mod mix;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use tautline_audio::{MAX_OF_A_PART, RecordedTime, Recording, recorded};
use tautline_dsp::format::SampleFormat;
use tautline_proto::device::{Device, Direction};
use tautline_proto::text::split_hint;
use tautline_proto::time::{LocalTime, Span};
use time::OffsetDateTime;

use crate::{Error, Event, Events, running};

/// Format of recordings. The codec may change during a call, and 24 bits hold a converter's range.
const FORMAT: SampleFormat = SampleFormat::L24;

const AHEAD: Span = Span::from_secs(1);

pub(crate) struct Recordings {
    folder: PathBuf,
    mixed: Option<PathBuf>,
    names: Vec<FileName>,
    events: Events,
    maximum: u64,
    calls: u32,
    name: Option<FileName>,
    devices: Vec<(Direction, Recording)>,
}

#[derive(Debug, Clone)]
struct FileName {
    stem: String,
    /// Number of the file: a WAV holds 4 GiB, four hours.
    part: u32,
    begins: RecordedTime,
}

impl Recordings {
    /// Records to a folder, which it creates, or mixes into a WAV file.
    pub(crate) fn at(path: &Path, events: &Events) -> Result<Self, Error> {
        let mixed = is_mixed(path).then(|| path.to_owned());
        let alongside = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = if mixed.is_some() { alongside.unwrap_or(Path::new(".")) } else { path };
        std::fs::create_dir_all(folder).map_err(|error| {
            let folder = folder.display();
            Error::Open(format!(
                "--record {folder}: {error}\nhint: name a folder that you can write to"
            ))
        })?;
        let folder = folder.to_owned();
        // The mix has 32 bits per sample.
        let maximum = if mixed.is_some() { MAX_OF_A_PART / 4 * 3 } else { MAX_OF_A_PART };
        Ok(Self {
            folder,
            mixed,
            names: Vec::new(),
            events: Events::clone(events),
            maximum,
            calls: 0,
            name: None,
            devices: Vec::new(),
        })
    }

    pub(crate) fn after(&mut self, calls: u32) {
        self.calls = calls;
    }

    pub(crate) const fn calls(&self) -> u32 {
        self.calls
    }

    /// Records from the first period if a call has begun.
    pub(crate) fn of(
        &mut self,
        device: Box<dyn Device>,
        direction: Direction,
    ) -> Result<Box<dyn Device>, Error> {
        let (device, mut recording) = recorded(device, direction, FORMAT);
        if let Some(name) = &self.name {
            recording.begin_in_step(&name.file(&self.folder, direction), &name.begins)?;
        }
        let at = if direction == Direction::Capture { 0 } else { self.devices.len() };
        self.devices.insert(at, (direction, recording));
        Ok(device)
    }

    pub(crate) fn begin(&mut self) {
        self.calls += 1;
        let mut name = FileName { stem: self.stem(), part: 1, begins: RecordedTime::default() };
        while name.is_taken(&self.folder) {
            self.calls += 1;
            name.stem = self.stem();
        }
        self.record(name);
    }

    /// Files to be mixed are hidden next to the result.
    fn stem(&self) -> String {
        let stem = stem(self.calls);
        match self.mixed.as_deref().and_then(Path::file_stem) {
            Some(mixed) => format!(".{}-{stem}", mixed.to_string_lossy()),
            None => stem,
        }
    }

    pub(crate) fn turn(&mut self, now: LocalTime) {
        let maximum = self.maximum;
        let is_full = self.devices.iter().any(|(_, recording)| recording.holds(maximum));
        if let Some(name) = self.name.take_if(|_| is_full) {
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
            let begun = recording.begin_in_step(&name.file(&folder, *direction), &name.begins);
            if let Err(error) = begun {
                events(Event::Note(error.to_string()));
            }
        }
        let shown = match &self.mixed {
            Some(mixed) => mix::free_path(mixed, self.names.len()),
            None => name.both(&self.folder),
        };
        events(Event::Note(format!("recording to {}", shown.display())));
        self.names.push(name.clone());
        self.name = Some(name);
    }

    pub(crate) fn finish(mut self) -> Result<(), Error> {
        self.report_notes();
        let failed =
            self.devices.iter().flat_map(|(_, recording)| recording.notes().failed()).next();
        failed.map_or(Ok(()), |failed| Err(running(split_hint(&failed))))?;
        self.devices.clear();
        let recorded = |path: PathBuf| {
            (self.events)(Event::Note(format!("recorded {}", path.display())));
        };
        let Some(mixed) = &self.mixed else {
            self.names.iter().for_each(|name| recorded(name.both(&self.folder)));
            return Ok(());
        };
        (self.events)(Event::Note(format!("writing {}", mixed.display())));
        for name in &self.names {
            let sides = [Direction::Capture, Direction::Playback];
            let [sent, received] = sides.map(|way| name.file(&self.folder, way));
            let written = mix::mix([&sent, &received], mixed).map_err(|error| {
                let (sent, received) = (sent.display(), received.display());
                running(format!(
                    "--record {}: {error}\nhint: the sound is in {sent} and {received}",
                    mixed.display()
                ))
            })?;
            recorded(written);
        }
        Ok(())
    }
}

/// Whether `--record` names a file, not a folder.
pub fn is_mixed(record: &Path) -> bool {
    record.extension().is_some_and(|is| is.eq_ignore_ascii_case("wav")) && !record.is_dir()
}

impl FileName {
    fn file(&self, folder: &Path, direction: Direction) -> PathBuf {
        let what = match direction {
            Direction::Capture => "sent",
            Direction::Playback => "received",
        };
        folder.join(format!("{}-{what}{}.wav", self.stem, self.suffix()))
    }

    fn both(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}-{{sent,received}}{}.wav", self.stem, self.suffix()))
    }

    fn suffix(&self) -> String {
        if self.part == 1 { String::new() } else { format!("-{}", self.part) }
    }

    fn is_taken(&self, folder: &Path) -> bool {
        let ways = [Direction::Capture, Direction::Playback];
        ways.into_iter().any(|way| self.file(folder, way).symlink_metadata().is_ok())
    }
}

fn stem(call: u32) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    format!("{}-call-{call}", utc(since.map_or(0, |since| since.as_secs())))
}

fn utc(seconds: u64) -> String {
    let at =
        i64::try_from(seconds).ok().and_then(|at| OffsetDateTime::from_unix_timestamp(at).ok());
    let at = at.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (year, month, day) = at.to_calendar_date();
    let (hour, minute, second) = at.to_hms();
    format!("{year:04}{:02}{day:02}T{hour:02}{minute:02}{second:02}Z", u8::from(month))
}
