//! Key files: one line that only its owner may read.

use std::path::Path;

use super::key::MasterKey;
use crate::trust::TrustError;
use crate::trust::files::{self, FileRules, NewFile};

/// A key has 120 characters at most.
const MOST_BYTES: u64 = 1024;

const RULES: FileRules = FileRules {
    forbidden: 0o077,
    otherwise: (
        "others may read or change this key",
        "if somebody may have, make another with taut srtp-key; otherwise",
        0o600,
    ),
    most_bytes: MOST_BYTES,
};

const DESCRIPTION_RULES: FileRules = FileRules {
    otherwise: (
        "others may read or change the key in this description",
        "if somebody may have, make another; otherwise",
        0o600,
    ),
    ..RULES
};

/// Refuses a description with a key in it, which is as secret as a key file, if others may read or change it.
pub fn allow_description(path: &Path) -> Result<(), TrustError> {
    // One that is gone by now was read all the same.
    std::fs::metadata(path).map_or(Ok(()), |there| DESCRIPTION_RULES.allow(path, &there))
}

/// The key in this file; refused if others may read or change it.
pub fn read_key(path: &Path) -> Result<MasterKey, TrustError> {
    let content = |what| TrustError::Content {
        path: path.to_owned(),
        what,
        mend: "give the file that taut srtp-key made",
    };
    let text = files::read(path, &RULES)?;
    let text = text.ok_or_else(|| content("there is no such file".to_owned()))?;
    text.parse().map_err(|error: super::NoMasterKey| content(error.to_string()))
}

/// Makes a key file that its owner alone may read. One that is there is kept: others may have its key.
pub fn write_key(path: &Path, key: &MasterKey) -> Result<(), TrustError> {
    let text = format!("{}\n", key.to_sdes());
    let made = NewFile { path, text: &text, mode: 0o600 }.make()?;
    if made {
        return Ok(());
    }
    Err(TrustError::Content {
        path: path.to_owned(),
        what: "there is a file of this name".to_owned(),
        mend: "give another name, or move it away",
    })
}
