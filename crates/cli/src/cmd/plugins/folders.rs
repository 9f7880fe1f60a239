//! Plugin folders that are configured but missing.

use std::path::{Path, PathBuf};

use tautline_host::chain::{ChainFile, ChainFileError};
use tautline_host::offers::PluginOffers;
use tautline_host::process::ChildProgram;
use tautline_host::scan::{TIMEOUT, folders, missing, scan};

use super::known::listed_words;
use crate::failure::Failure;

pub(in crate::cmd) fn offers(
    program: &ChildProgram,
    chains: Option<&Path>,
) -> Result<PluginOffers, Failure> {
    let refused = |error: ChainFileError| match error {
        ChainFileError::Unreadable(..) => Failure::open(error.to_string()),
        _ => Failure::usage(error.to_string()),
    };
    let chains = chains.map(ChainFile::read).transpose().map_err(refused)?;
    let found = scan(program, &folders(), TIMEOUT);
    PluginOffers::new(&found, chains.as_ref()).map_err(refused)
}

/// Missing folders in `LADSPA_PATH` would look like missing plugins.
pub(in crate::cmd) fn missing_folders() -> Option<String> {
    sentence(&missing())
}

fn sentence(missing: &[PathBuf]) -> Option<String> {
    let them = match missing {
        [] => return None,
        [_] => "it",
        _ => "them",
    };
    let folders: Vec<_> = missing.iter().map(|folder| folder.display().to_string()).collect();
    let folders = listed_words(&folders);
    Some(format!(
        "LADSPA_PATH names {folders}, which does not exist\nhint: create {them}, or remove {them} from LADSPA_PATH"
    ))
}
