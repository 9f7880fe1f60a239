//! One library that is asked, by a child.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tautline_io::clock::now;
use tautline_proto::time::{LocalTime, Span};

use crate::ladspa::description::PluginDescription;
use crate::process::{ChildProcess, ChildProgram, ChildSaid, SCAN, Starting, words_of};

/// What a child says of a library, in one line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LibraryAnswer {
    Library(AskedLibrary),
    /// It was not, and why.
    Refused(String),
}

/// What a library has.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct AskedLibrary {
    pub(crate) plugins: Vec<PluginDescription>,
    /// What is wrong with the others.
    pub(crate) skipped: Vec<String>,
}

/// Asks the library at `path` within `patience`; otherwise why it is of no use.
pub(crate) fn ask(
    program: &ChildProgram,
    path: &Path,
    patience: Span,
) -> Result<AskedLibrary, String> {
    let folders = program.readable().iter().map(|folder| folder.as_os_str().to_owned());
    let words = [SCAN.into(), path.as_os_str().to_owned()].into_iter().chain(folders).collect();
    let starting = Starting { words, ..Starting::default() };
    let mut child = ChildProcess::start(program, &starting).map_err(|error| {
        format!("starting a process for it: {error}; free some memory or processes")
    })?;
    let until = now() + patience;
    match child.line(until, None) {
        ChildSaid::Line(line) => match serde_json::from_str(&line) {
            Ok(LibraryAnswer::Library(asked)) => Ok(asked),
            Ok(LibraryAnswer::Refused(why)) => Err(why),
            Err(error) => {
                Err(format!("its process said nonsense: {error}; leave it out of LADSPA_PATH"))
            }
        },
        ChildSaid::Late => Err(format!(
            "loading it does not come to an end, within {patience}; leave it out of LADSPA_PATH"
        )),
        ChildSaid::Nothing => {
            // Whoever crashed has ended by now; who only fell silent is ended.
            let how =
                words_of(child.end(until.min(now() + Span::from_secs(1)).max(LocalTime::ZERO)));
            Err(format!("loading it: {how}; leave it out of LADSPA_PATH"))
        }
    }
}
