//! `taut lab all`

use std::fmt::Write as _;

use tautline_lab::all::{AllOptions, AllReport, run as run_all};
use tautline_lab::page::index;

use crate::cmd::{answer, stop_on_signals};
use crate::failure::Failure;
use crate::flags::{All, PlainKind};
use crate::page::command_line;
use crate::report_file::ReportFile;
use crate::screen;

pub(crate) fn run(flags: &All) -> Result<(), Failure> {
    let folder = &flags.out;
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::open(format!("making the folder {}: {error}", folder.display()))
    })?;
    let page = ReportFile::create(&folder.join("index.html"))?;
    let stop = stop_on_signals()?;
    let options =
        AllOptions { folder: folder.clone(), with: flags.with.clone(), only: flags.only.clone() };
    let tell = |sentence: &str| {
        if flags.report != PlainKind::None {
            screen::tell(sentence);
        }
    };
    let mut report = run_all(&options, &|| stop.is_requested(), tell)
        .map_err(|error| Failure::running(error.to_string()))?;
    report.command = command_line();
    page.write(&index(&report))?;
    let path = folder.join("index.html");
    let json = serde_json::to_string_pretty(&report).map(|text| text + "\n");
    answer(flags.report, &format!("{}{}\n", text(&report), path.display()), json)?;
    let failed = report.experiments.iter().filter(|outcome| outcome.failed.is_some());
    match failed.map(|outcome| outcome.name).collect::<Vec<_>>() {
        none if none.is_empty() && !report.ended_early => Ok(()),
        none if none.is_empty() => {
            Err(Failure::running("it was ended before all experiments had run"))
        }
        names => {
            Err(Failure::running(format!("{} found nothing; see above why", names.join(", "))))
        }
    }
}

fn text(report: &AllReport) -> String {
    report.experiments.iter().fold(String::new(), |mut text, outcome| {
        // Writing into a string does not fail.
        let _ = writeln!(text, "{outcome}");
        text
    })
}
