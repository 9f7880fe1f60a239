//! Looks for libraries of plugins, and asks each what it has: in a child process, as some crash or
//! never come back where they are loaded.

pub(crate) mod asked;

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use ring::digest::{SHA256, digest};
use tautline_proto::time::Span;

use crate::ladspa::description::PluginDescription;
use crate::process::ChildProgram;

/// How long a library may take to say what it has. The slowest of Debian's take some milliseconds.
pub const PATIENCE: Span = Span::from_secs(5);
/// Libraries that are asked at once at most.
const AT_ONCE: usize = 4;

/// What a library has.
#[derive(Debug, Clone, PartialEq)]
pub struct ScannedLibrary {
    pub path: PathBuf,
    /// By which its plugins are named: the file's name without `.so`.
    pub file: String,
    /// SHA-256 of the file, in hex.
    pub hash: String,
    /// Those that can be used.
    pub plugins: Vec<PluginDescription>,
}

/// A file, or a plugin of one, that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub path: PathBuf,
    pub why: String,
}

/// All that was found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scan {
    /// By name of their files, each of which stands there once.
    pub libraries: Vec<ScannedLibrary>,
    /// What is of no use.
    pub skipped: Vec<Skipped>,
}

/// Where plugins are looked for: `LADSPA_PATH`, folders with a colon between, and where that is not
/// set, where distributions have them.
pub fn folders() -> Vec<PathBuf> {
    named().unwrap_or_else(usual)
}

/// Folders that `LADSPA_PATH` names and that are not there, but for the usual ones: who names those
/// means whichever of them this machine has.
pub fn missing() -> Vec<PathBuf> {
    let usual = usual();
    let mut missing = named().unwrap_or_default();
    missing.retain(|folder| !folder.is_dir() && !usual.contains(folder));
    missing
}

/// Those of `LADSPA_PATH`, if it is set.
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

/// The library by which hosts have the plugins of workers (`tautline.so`). Offered again, they would be so by each of two
/// machines that work for each other, and once more each time.
const OURS: &str = "tautline";

/// Asks every library of these folders. Where two have a name in common, the first counts.
pub fn scan(program: &ChildProgram, folders: &[PathBuf], patience: Span) -> Scan {
    let files = Mutex::new(libraries(folders));
    let found = Mutex::new(Scan::default());
    let ask_all = || {
        loop {
            // A lock at a time: nobody is kept from a file while another is asked.
            let next = files.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop_front();
            let Some(path) = next else { break };
            let asked = match name_of(&path).as_str() {
                OURS => {
                    Err("it shows plugins of other workers, which are asked themselves".to_owned())
                }
                _ => asked::ask(program, &path, patience),
            };
            let hash = hash_of(&path);
            let mut found = found.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            match asked.and_then(|asked| Ok((asked, hash?))) {
                Ok((asked, hash)) => {
                    let skip = |why| Skipped { path: path.clone(), why };
                    found.skipped.extend(asked.skipped.into_iter().map(skip));
                    let file = name_of(&path);
                    found.libraries.push(ScannedLibrary {
                        file,
                        hash,
                        plugins: asked.plugins,
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

/// The libraries of these folders, in order, the first of each name.
fn libraries(folders: &[PathBuf]) -> VecDeque<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    for folder in folders {
        // A folder that is not there has nothing.
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

/// SHA-256 of a file, in hex.
pub fn hash_of(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path)
        .map_err(|error| format!("reading it: {error}; make it readable for this user"))?;
    Ok(hex(digest(&SHA256, &bytes).as_ref()))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
