//! What is sent and heard in calls, kept as WAV files (`--record`).

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use tautline_audio::{MOST_OF_A_PART, RecordedTime, Recording, recorded};
use tautline_dsp::format::SampleFormat;
use tautline_io::clock::now;
use tautline_proto::device::{Device, Direction};
use tautline_proto::time::{LocalTime, Span};

use crate::failure::Failure;
use crate::voice::Voice;

/// Of all files: what is agreed on may change while a call sounds, and 24 bits hold all that a converter gives.
const FORMAT: SampleFormat = SampleFormat::L24;

/// From the word that the next files begin until they do: it has come to both devices by then, and is later than what
/// either holds.
const AHEAD: Span = Span::from_secs(1);

/// The recordings of one end.
pub(in crate::cmd) struct CallRecordings {
    folder: PathBuf,
    voice: Voice,
    /// Bytes of sound in a file before the next begins.
    most: u64,
    /// Calls that were begun.
    calls: u32,
    /// While one is recorded.
    name: Option<CallName>,
    sent: Option<Recording>,
    heard: Option<Recording>,
}

/// By what the files of a call are known.
struct CallName {
    /// When it began, and the how many-th it is.
    stem: String,
    /// A WAV holds 4 GiB, which is four hours: the how many-th file of each is written.
    part: u32,
    /// When all of these files begin.
    begins: RecordedTime,
}

impl CallRecordings {
    /// Those in this folder, which is made if need be.
    pub(in crate::cmd) fn in_folder(folder: &Path, voice: Voice) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder).map_err(|error| {
            let folder = folder.display();
            Failure::open(format!(
                "--record {folder}: {error}; name a folder that you may write to"
            ))
        })?;
        let folder = folder.to_owned();
        let most = MOST_OF_A_PART;
        Ok(Self { folder, voice, most, calls: 0, name: None, sent: None, heard: None })
    }

    /// The calls before, in this folder, were so many.
    pub(in crate::cmd) fn after(&mut self, calls: u32) {
        self.calls = calls;
    }

    /// Calls that were begun, with those before.
    pub(in crate::cmd) const fn calls(&self) -> u32 {
        self.calls
    }

    /// The device, recorded from its first period on if a call has begun.
    pub(super) fn of(
        &mut self,
        device: Box<dyn Device>,
        direction: Direction,
    ) -> Result<Box<dyn Device>, Failure> {
        let (device, mut recording) = recorded(device, direction, FORMAT);
        if let Some(name) = &self.name {
            recording.begin_in_step(&name.file(&self.folder, direction), &name.begins)?;
        }
        match direction {
            Direction::Capture => self.sent = Some(recording),
            Direction::Playback => self.heard = Some(recording),
        }
        Ok(device)
    }

    /// A call begins. What cannot be recorded is told, and it goes on.
    pub(in crate::cmd) fn begin(&mut self) {
        self.calls += 1;
        let mut name =
            CallName { stem: stem(self.calls), part: 1, begins: RecordedTime::default() };
        // Another program may have begun a call in this very second.
        while name.is_taken(&self.folder) {
            self.calls += 1;
            name.stem = stem(self.calls);
        }
        self.record(name);
    }

    /// Goes on to the next files where these are full, and tells what there is to tell. To be called now and then.
    pub(in crate::cmd) fn turn(&mut self) {
        self.turn_at(now());
    }

    fn turn_at(&mut self, now: LocalTime) {
        let most = self.most;
        let is_full = self.each().any(|(_, recording)| recording.holds(most));
        if let Some(name) = self.name.take_if(|_| is_full) {
            // Each device goes on to it by itself: only an instant is the same to both.
            let begins = RecordedTime::at(now + AHEAD);
            self.record(CallName { part: name.part + 1, begins, ..name });
        }
        let voice = self.voice;
        for (_, recording) in self.each() {
            recording.turn();
            recording.notes().take().iter().for_each(|note| voice.tell(note));
        }
    }

    fn record(&mut self, name: CallName) {
        let (folder, voice) = (self.folder.clone(), self.voice);
        for (direction, recording) in self.each() {
            // Not a frame is between it and the part before.
            let begun = recording.begin_in_step(&name.file(&folder, direction), &name.begins);
            if let Err(error) = begun {
                voice.tell(&error.to_string());
            }
        }
        self.name = Some(name);
    }

    fn each(&mut self) -> impl Iterator<Item = (Direction, &mut Recording)> {
        let sent = self.sent.iter_mut().map(|recording| (Direction::Capture, recording));
        sent.chain(self.heard.iter_mut().map(|recording| (Direction::Playback, recording)))
    }

    /// Once the devices have ended, and with them the files: what was left to tell, and whether all was recorded.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.turn();
        let failed = self.each().flat_map(|(_, recording)| recording.notes().failed()).next();
        failed.map_or(Ok(()), |failed| Err(Failure::running(failed)))
    }
}

impl CallName {
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

/// Of a call that begins now: so the files of a folder stand in the order of time.
fn stem(call: u32) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    format!("{}-call-{call}", utc(since.map_or(0, |since| since.as_secs())))
}

/// Seconds since 1970 in the basic form of ISO 8601.
fn utc(seconds: u64) -> String {
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{:02}T{hour:02}{minute:02}{second:02}Z", days + 1)
}
