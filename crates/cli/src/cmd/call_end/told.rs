//! What there is to tell of an end, while it runs and at its end.

use tautline_report::text;
use tautline_report::{CallReport, Report};

use crate::failure::Failure;
use crate::flags::{ReportKind, RunFlags};
use crate::page::{self, Drawing};
use crate::report_file::{FileFormat, ReportFiles};
use crate::screen;
use crate::voice::Voice;

/// Tells each note once.
pub(super) struct NoteTeller {
    voice: Voice,
    told: Vec<String>,
}

impl NoteTeller {
    /// Told once each; a peer cannot make it more.
    const MOST: usize = 256;

    pub(super) const fn new(voice: Voice) -> Self {
        Self { voice, told: Vec::new() }
    }

    pub(super) fn tell<'a>(&mut self, notes: impl Iterator<Item = &'a String>) {
        for note in notes {
            if self.told.len() < Self::MOST && !self.told.contains(note) {
                self.voice.tell(note);
                self.told.push(note.clone());
            }
        }
    }
}

/// Tells how both directions went at the end of that role, `call` or `serve`, as it was asked for; a page is that of what was heard.
pub(in crate::cmd) fn tell_reports(
    role: &str,
    reports: &[Report],
    files: ReportFiles,
    running: &RunFlags,
) -> Result<(), Failure> {
    let json =
        || CallReport::json(role, reports).map_err(|error| Failure::running(error.to_string()));
    let drawn =
        |drawing| reports.first().map_or(String::new(), |heard| page::of_run(heard, None, drawing));
    let text = || reports.iter().map(text::render_call).collect::<String>();
    // The files first: nobody may be reading what is printed.
    let written = files.write(|format| match format {
        FileFormat::Html => Ok(drawn(Drawing::Page)),
        FileFormat::Svg => Ok(drawn(Drawing::Charts)),
        FileFormat::Txt => Ok(text()),
        FileFormat::Json | FileFormat::Csv => json(),
    });
    match running.report() {
        ReportKind::Text => screen::print(&text()),
        ReportKind::Json => screen::print(&json()?),
        ReportKind::Html => screen::print(&drawn(Drawing::Page)),
        ReportKind::None => {}
    }
    written
}
