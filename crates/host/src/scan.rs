//! Queries each library for plugins in a child, because some crash or hang when loaded.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use tautline_io::clock::now;
use tautline_proto::time::{LocalTime, Span};

use crate::ladspa::description::PluginDescription;
use crate::process::{ChildMessage, ChildProcess, ChildProgram, SCAN, Starting, words_of};

pub const TIMEOUT: Span = Span::from_secs(5);
const AT_ONCE: usize = 4;

#[derive(Debug, Clone, PartialEq)]
pub struct ScannedLibrary {
    pub path: PathBuf,
    pub file: String,
    pub hash: String,
    pub plugins: Vec<PluginDescription>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub path: PathBuf,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scan {
    pub libraries: Vec<ScannedLibrary>,
    pub skipped: Vec<Skipped>,
}

/// `LADSPA_PATH` (colon-separated), or common directories.
pub fn folders() -> Vec<PathBuf> {
    named().unwrap_or_else(usual)
}

pub fn missing() -> Vec<PathBuf> {
    let usual = usual();
    let mut missing = named().unwrap_or_default();
    missing.retain(|folder| !folder.is_dir() && !usual.contains(folder));
    missing
}

fn named() -> Option<Vec<PathBuf>> {
    let set = std::env::var_os("LADSPA_PATH").filter(|set| !set.is_empty())?;
    Some(std::env::split_paths(&set).filter(|it| !it.as_os_str().is_empty()).collect())
}

fn usual() -> Vec<PathBuf> {
    let multiarch = format!("/usr/lib/{}-linux-gnu/ladspa", std::env::consts::ARCH);
    ["/usr/lib/ladspa", "/usr/local/lib/ladspa", &multiarch, "/usr/lib64/ladspa"]
        .map(PathBuf::from)
        .to_vec()
}

const OURS: &str = "tautline";

pub fn scan(program: &ChildProgram, folders: &[PathBuf], timeout: Span) -> Scan {
    let files = Mutex::new(libraries(folders));
    let found = Mutex::new(Scan::default());
    let ask_all = || {
        loop {
            // Locks only here: other threads take files during a query.
            let next = files.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop_front();
            let Some(path) = next else { break };
            let requested = match name_of(&path).as_str() {
                OURS => Err("its plugins belong to other workers".to_owned()),
                _ => request(program, &path, timeout),
            };
            let hash = hash_of(&path);
            let mut found = found.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            match requested.and_then(|requested| Ok((requested, hash?))) {
                Ok((requested, hash)) => {
                    let skip = |why| Skipped { path: path.clone(), why };
                    found.skipped.extend(requested.skipped.into_iter().map(skip));
                    let file = name_of(&path);
                    found.libraries.push(ScannedLibrary {
                        file,
                        hash,
                        plugins: requested.plugins,
                        path,
                    });
                }
                Err(why) => found.skipped.push(Skipped { path, why }),
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        (0..cores.min(AT_ONCE)).for_each(|_| {
            scope.spawn(ask_all);
        });
    });
    let mut found = found.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    found.libraries.sort_by(|one, other| one.file.cmp(&other.file));
    found.skipped.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

fn libraries(folders: &[PathBuf]) -> VecDeque<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    for folder in folders {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut here: Vec<_> =
            entries.map(|entry| entry.path()).filter(|it| is_library(it)).collect();
        here.sort();
        here.retain(|path| !all.iter().any(|known| known.file_name() == path.file_name()));
        all.extend(here);
    }
    all.into()
}

fn is_library(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("so")) && path.is_file()
}

fn name_of(path: &Path) -> String {
    path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

pub fn hash_of(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path)
        .map_err(|error| format!("cannot read it: {error}; make it readable for this user"))?;
    Ok(hex(digest(&SHA256, &bytes).as_ref()))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LibraryAnswer {
    Library(LibraryRequest),
    Refused(String),
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct LibraryRequest {
    pub(crate) plugins: Vec<PluginDescription>,
    pub(crate) skipped: Vec<String>,
}

pub(crate) fn request(
    program: &ChildProgram,
    path: &Path,
    timeout: Span,
) -> Result<LibraryRequest, String> {
    let folders = program.readable().iter().map(|folder| folder.as_os_str().to_owned());
    let words = [SCAN.into(), path.as_os_str().to_owned()].into_iter().chain(folders).collect();
    let starting = Starting { words, ..Starting::default() };
    let mut child = ChildProcess::start(program, &starting).map_err(|error| {
        format!("cannot start a process for it: {error}; free memory, or stop other processes")
    })?;
    let until = now() + timeout;
    match child.line(until, None) {
        ChildMessage::Line(line) => match serde_json::from_str(&line) {
            Ok(LibraryAnswer::Library(requested)) => Ok(requested),
            Ok(LibraryAnswer::Refused(why)) => Err(why),
            Err(error) => Err(format!(
                "its process returned invalid data: {error}; remove it from LADSPA_PATH"
            )),
        },
        ChildMessage::Late => {
            Err(format!("loading it takes longer than {timeout}; remove it from LADSPA_PATH"))
        }
        ChildMessage::Nothing => {
            let how =
                words_of(child.end(until.min(now() + Span::from_secs(1)).max(LocalTime::ZERO)));
            Err(format!("loading it: {how}; remove it from LADSPA_PATH"))
        }
    }
}
