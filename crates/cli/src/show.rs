//! Output of a run: news immediately, the report at the end.

use std::path::PathBuf;

use tautline_audio::Notes;
use tautline_engine::monitor::observers::Observers;
use tautline_engine::monitor::run::{PeerState, Progress};
use tautline_engine::plan::address::Address;
use tautline_io::clock::now;
use tautline_proto::time::Span;
use tautline_report::Report;
use tautline_report::snapshot::{Snapshot, StreamSnapshot, StreamState};
use tautline_report::text::{self, Detail};

use crate::details::Details;
use crate::failure::{Failure, on_one_line};
use crate::flags::{ReportKind, RunFlags};
use crate::live::ANSWER;
use crate::messages;
use crate::not_received::NotReceived;
use crate::outcome::{self, Blame};
use crate::page::{self, Drawing};
use crate::report_file::{FileFormat, ReportFiles};
use crate::screen::{self, Answers, LiveLine};
use crate::voice::Voice;

pub(crate) struct Show {
    line: LiveLine,
    voice: Voice,
    details: Details,
    kind: ReportKind,
    /// Standard output carries the sound.
    aside: bool,
    files: ReportFiles,
    ledger: Option<PathBuf>,
    device: Notes,
    said: Vec<String>,
    reported: Vec<String>,
    refused: Option<Option<String>>,
    packets_since: Option<Span>,
    /// For a receiver until the first packet.
    not_received: Option<NotReceived>,
    reported_unopened: bool,
    observers: Observers,
}

/// A failure does not end the run; `--verbose` reports it.
pub(crate) fn observers(role: &'static str, voice: Voice) -> Observers {
    Observers::open(role).unwrap_or_else(|why| {
        voice.detail(&why.to_string());
        Observers::none()
    })
}

impl Show {
    pub(crate) fn open(name: &'static str, flags: &RunFlags) -> Result<Self, Failure> {
        Ok(Self {
            files: flags.report_files()?,
            ledger: flags.packet_log.clone(),
            line: LiveLine::new(name, flags.voice().target()),
            voice: flags.voice(),
            details: Details::default(),
            kind: flags.report(),
            aside: false,
            device: Notes::default(),
            said: Vec::new(),
            reported: Vec::new(),
            refused: None,
            packets_since: None,
            not_received: None,
            reported_unopened: false,
            observers: observers(name, flags.voice()),
        })
    }

    pub(crate) fn observers(&self) -> Observers {
        self.observers.clone()
    }

    pub(crate) fn awaits<A: ToString>(&self, addresses: impl Iterator<Item = A>) {
        if !self.observers.are_here() {
            return;
        }
        let (state, streams) = (StreamState::Waiting, StreamSnapshot::default());
        let awaited = |at: A| StreamSnapshot { address: at.to_string(), state, ..streams.clone() };
        self.observers.notify(|| Snapshot {
            streams: addresses.map(awaited).collect(),
            ..Snapshot::default()
        });
    }

    pub(crate) fn leave_output_to_the_sound(&mut self) {
        self.aside = true;
    }

    pub(crate) fn answers(&self) -> Answers {
        self.line.answers()
    }

    pub(crate) fn restart(&mut self, why: &str) {
        self.notify(why);
        self.line.restart();
        self.details = Details::default();
        self.packets_since = None;
    }

    pub(crate) fn listen_to(&mut self, device: Notes) {
        self.device = device;
    }

    pub(crate) fn wait_for(&mut self, not_received: NotReceived) {
        self.not_received = Some(not_received);
    }

    /// Reports possible reasons after a while without packets.
    pub(crate) fn still_waiting(&mut self) {
        let blame = self.not_received.as_mut().and_then(|not_received| not_received.still(now()));
        blame.iter().for_each(|blame| self.notify(blame));
    }

    /// Reports only once.
    pub(crate) fn auth_failed<'a>(
        &mut self,
        from: impl Iterator<Item = &'a Address>,
        datagrams: u64,
    ) {
        if !std::mem::replace(&mut self.reported_unopened, true) {
            let from: Vec<_> = from.map(ToString::to_string).collect();
            self.notify(&messages::auth_failed(&from.join(" "), datagrams));
        }
    }

    pub(crate) fn on(&mut self, progress: &Progress<'_>) {
        self.line.show(progress);
        if self.voice == Voice::Verbose {
            for news in self.details.news(progress) {
                self.line.suspend(|| self.voice.detail(&news));
            }
        }
        if let Some(refused) = progress.refused.filter(|_| self.refused.is_none()) {
            self.refused = Some(refused.line());
            self.refused.clone().flatten().iter().for_each(|line| self.notify(line));
        }
        for note in progress.notes {
            self.notify(note);
        }
        for note in self.device.take() {
            self.notify(&note);
            self.said.push(note);
        }
    }

    /// Like `on`, but a receiver needs the sender's clock.
    pub(crate) fn on_receiving(&mut self, progress: &Progress<'_>) {
        self.on(progress);
        if progress.packets == 0 {
            if progress.peer == PeerState::Awaited {
                self.still_waiting();
            }
            return;
        }
        let since = *self.packets_since.get_or_insert(progress.elapsed);
        // Presentation times use this host's clock, even if the latency is unknown.
        let unplaced = progress.latency.is_none() && progress.known.is_none();
        if unplaced && progress.elapsed - since > ANSWER {
            self.notify(
                "the sender's clock is not known (no RTCP answer), so the fastest arrivals set the \
                 playout time; check that no firewall drops the next UDP port",
            );
        }
    }

    fn notify(&mut self, note: &str) {
        if !self.reported.iter().any(|reported| reported == note) {
            self.line.suspend(|| self.voice.notify(note));
            self.reported.push(note.to_owned());
        }
    }

    pub(crate) fn end(mut self, mut report: Report) -> Result<(), Failure> {
        report.notes.append(&mut self.said);
        report.notes.extend(self.device.take());
        report.incomplete_files.extend(self.device.failed());
        let mut not_received = self.not_received.take();
        let blame = || {
            let limits = not_received.as_ref().map_or(String::new(), NotReceived::limits);
            Blame { limits, firewall: not_received.as_mut().and_then(NotReceived::blame) }
        };
        let mut failure = outcome::judge(&mut report, blame);
        if self.kind != ReportKind::Text {
            let last = failure.as_ref().map(|failure| on_one_line(&failure.to_string()));
            let notes = report.notes.iter().filter(|note| last != Some(on_one_line(note)));
            notes.for_each(|note| self.notify(note));
        }
        drop(self.line);
        let print = if self.aside { screen::print_aside } else { screen::print };
        let json = || report.to_json().map_err(|error| Failure::running(error.to_string()));
        let drawn = |drawing| page::of_run(&report, self.ledger.as_deref(), drawing);
        let render = |format| match format {
            FileFormat::Html => Ok(drawn(Drawing::Page)),
            FileFormat::Svg => Ok(drawn(Drawing::Charts)),
            FileFormat::Txt => Ok(text::render(&report, Detail::Full)),
            FileFormat::Json | FileFormat::Csv => json(),
        };
        // The file first, because printing may fail.
        if let Err(unwritten) = self.files.write(render) {
            failure = Some(unwritten);
        }
        match self.kind {
            ReportKind::Text => {
                // `--quiet` suppressed it so far.
                let unreported = self.refused.flatten().filter(|_| self.voice == Voice::Quiet);
                report.notes.splice(0..0, unreported);
                print(&text::render(&report, self.voice.report_detail()));
            }
            ReportKind::Json => print(&json()?),
            ReportKind::Html => print(&drawn(Drawing::Page)),
            ReportKind::None => {}
        }
        failure.map_or(Ok(()), Err)
    }
}
