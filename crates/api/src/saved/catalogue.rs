//! The catalogue file: what the workers' plugins were when it was saved. A host that scans sees no
//! more than this file; no network is asked.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::folders::cache_folder;
use crate::v1::Catalogue;
use serde::Deserialize;

/// The version of the file that is read here.
const VERSION: u32 = 1;
/// A thousand plugins take about 1 MB.
const MOST_BYTES: u64 = 64 << 20;

/// The file, as `taut plugins --save` writes it.
#[derive(Debug, Deserialize)]
struct Saved {
    version: u32,
    workers: Vec<SavedWorker>,
}

/// One worker and what it had.
#[derive(Debug, Deserialize)]
pub struct SavedWorker {
    /// Where it is, `HOST:PORT`.
    pub address: String,
    /// What people call it.
    pub name: String,
    /// Its plugins when they were saved.
    pub catalogue: Catalogue,
}

/// Where the file is, if this process has a home.
pub fn place() -> Option<PathBuf> {
    cache_folder().map(|folder| folder.join("plugins.json"))
}

/// What the file says; nothing where there is none. The sentence is for people.
pub fn read(path: &Path) -> Result<Vec<SavedWorker>, String> {
    let mend = "run taut plugins --worker HOST --save";
    let refuse = |why: String| format!("reading {}: {why}; {mend}", path.display());
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(refuse(error.to_string())),
    };
    let mut text = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut text).map_err(|error| refuse(error.to_string()))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(refuse(format!("it has more than {MOST_BYTES} bytes")));
    }
    let saved: Saved = serde_json::from_slice(&text).map_err(|error| refuse(error.to_string()))?;
    if saved.version != VERSION {
        return Err(refuse(format!("it is of version {} and not {VERSION}", saved.version)));
    }
    Ok(saved.workers)
}
