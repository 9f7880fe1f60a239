//! A run before people's eyes: what they should know is told as soon as it is known, once; the
//! report follows at the end.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use tautline_audio::Notes;
use tautline_engine::watching::report::Report;
use tautline_engine::watching::run::{PeerState, Progress};
use tautline_engine::watching::text;
use tautline_io::clock::now;
use tautline_proto::time::Span;

use crate::details::Details;
use crate::failure::Failure;
use crate::flags::{ReportKind, RunFlags};
use crate::live::ANSWER;
use crate::outcome;
use crate::screen::{self, Answers, LiveLine};
use crate::unheard::Unheard;
use crate::voice::Voice;

/// Where the report goes as JSON, made before the run: whoever waits an hour for it must not learn
/// then that it cannot be written.
struct ReportFile {
    path: PathBuf,
    file: File,
}

impl ReportFile {
    fn create(path: &Path) -> Result<Self, Failure> {
        match File::create(path) {
            Ok(file) => Ok(Self { path: path.to_owned(), file }),
            Err(error) => Err(Failure::open(format!(
                "writing {}: {error}; name a file in a folder that is there and that you may \
                 write in",
                path.display()
            ))),
        }
    }

    fn write(mut self, json: &str) -> Result<(), Failure> {
        self.file.write_all(json.as_bytes()).map_err(|error| {
            let path = self.path.display();
            Failure::running(format!("writing the report {path}: {error}; is there room for it?"))
        })
    }
}

/// One run, shown.
pub(crate) struct Show {
    line: LiveLine,
    voice: Voice,
    /// What is told as it goes to who wants to see all of it.
    details: Details,
    kind: ReportKind,
    /// Whether standard output is for the sound.
    aside: bool,
    file: Option<ReportFile>,
    /// What the device has to say, as it comes.
    device: Notes,
    /// What it said so far.
    said: Vec<String>,
    told: Vec<String>,
    /// What the system refused, once that is known.
    refused: Option<Option<String>>,
    /// When the first packets were there, as a length of the run.
    packets_since: Option<Span>,
    /// Of a receiver, until something comes.
    unheard: Option<Unheard>,
}

impl Show {
    /// Of `taut send` or `taut recv`.
    pub(crate) fn open(name: &'static str, flags: &RunFlags) -> Result<Self, Failure> {
        Ok(Self {
            file: flags.report_file.as_deref().map(ReportFile::create).transpose()?,
            line: LiveLine::new(name, flags.voice().target()),
            voice: flags.voice(),
            details: Details::default(),
            kind: flags.report(),
            aside: false,
            device: Notes::default(),
            said: Vec::new(),
            told: Vec::new(),
            refused: None,
            packets_since: None,
            unheard: None,
        })
    }

    /// Standard output is for the sound: the report goes where all else is told.
    pub(crate) fn leave_output_to_the_sound(&mut self) {
        self.aside = true;
    }

    /// For answers that another thread gives meanwhile.
    pub(crate) fn answers(&self) -> Answers {
        self.line.answers()
    }

    /// What was shown so far was of another stream, on another device.
    pub(crate) fn begin_anew(&mut self, why: &str) {
        self.tell(why);
        self.line.begin_anew();
        self.details = Details::default();
        self.packets_since = None;
    }

    /// From now on tells what this device has to say.
    pub(crate) fn listen_to(&mut self, device: Notes) {
        self.device = device;
    }

    /// Asks what keeps it out, if nothing comes there.
    pub(crate) fn wait_for(&mut self, unheard: Unheard) {
        self.unheard = Some(unheard);
    }

    /// Nothing has come yet.
    pub(crate) fn still_unheard(&mut self) {
        let blame = self.unheard.as_mut().and_then(|unheard| unheard.still(now()));
        blame.iter().for_each(|blame| self.tell(blame));
    }

    /// Shows how it goes, and tells what is new.
    pub(crate) fn on(&mut self, progress: &Progress<'_>) {
        self.line.show(progress);
        if self.voice == Voice::Verbose {
            for news in self.details.news(progress) {
                self.line.suspend(|| self.voice.detail(&news));
            }
        }
        if let Some(refused) = progress.refused.filter(|_| self.refused.is_none()) {
            self.refused = Some(refused.line());
            self.refused.clone().flatten().iter().for_each(|line| self.tell(line));
        }
        for note in progress.notes {
            self.tell(note);
        }
        for note in self.device.take() {
            self.tell(&note);
            self.said.push(note);
        }
    }

    /// The same for a receiver, which needs the sender's clock.
    pub(crate) fn on_receiving(&mut self, progress: &Progress<'_>) {
        self.on(progress);
        if progress.packets == 0 {
            if progress.peer == PeerState::Awaited {
                self.still_unheard();
            }
            return;
        }
        let since = *self.packets_since.get_or_insert(progress.elapsed);
        if progress.latency.is_none() && progress.elapsed - since > ANSWER {
            self.tell(
                "the sender's clock is not known, as no RTCP answer came: its sound is placed by \
                 the fastest arrivals; does a firewall keep back the UDP port above?",
            );
        }
    }

    fn tell(&mut self, note: &str) {
        if !self.told.iter().any(|told| told == note) {
            self.line.suspend(|| self.voice.tell(note));
            self.told.push(note.to_owned());
        }
    }

    /// The end: the report, with all that was told.
    pub(crate) fn end(mut self, mut report: Report) -> Result<(), Failure> {
        report.notes.append(&mut self.said);
        report.notes.extend(self.device.take());
        report.unwritten.extend(self.device.failed());
        let mut unheard = self.unheard.take();
        let blame = || unheard.as_mut().and_then(Unheard::blame);
        let mut failure = outcome::judge(&mut report, blame);
        if self.kind != ReportKind::Text {
            let last = failure.as_ref().map(ToString::to_string);
            let notes = report.notes.iter().filter(|note| last.as_ref() != Some(*note));
            notes.for_each(|note| self.tell(note));
        }
        drop(self.line);
        let print = if self.aside { screen::print_aside } else { screen::print };
        let json = || report.to_json().map_err(|error| Failure::running(error.to_string()));
        // The file first: nobody may be reading what is printed.
        if let Some(Err(unwritten)) = self.file.map(|file| file.write(&json()?)) {
            failure = Some(unwritten);
        }
        match self.kind {
            ReportKind::Text => {
                // Who was not told then reads it here.
                let untold = self.refused.flatten().filter(|_| self.voice == Voice::Quiet);
                report.notes.splice(0..0, untold);
                print(&text::render(&report));
            }
            ReportKind::Json => print(&json()?),
            ReportKind::None => {}
        }
        failure.map_or(Ok(()), Err)
    }
}
