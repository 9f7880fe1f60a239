//! Folders of plugins that somebody named, and that are not there.

use std::path::PathBuf;

use tautline_host::scan::missing;

use super::known::listed_words;

/// What to say of those in `LADSPA_PATH`: plugins that nobody finds look like plugins that there are not.
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
        "LADSPA_PATH names {folders}, where no folder is; make {them}, or take {them} out of LADSPA_PATH"
    ))
}
