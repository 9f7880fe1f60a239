//! `file:-`: sound that another program pipes in, on standard input.

use std::fmt;
use std::io::{self, Cursor, IsTerminal, Read};
use std::sync::{Arc, Mutex, PoisonError};

use symphonia::core::io::ReadOnlySource;
use tautline_proto::device::DeviceError;

use super::convert::Wanted;
use super::file::{FileFormat, FileReader, FileRequest};

/// Standard input. Who looks into it has read a part of it, and nobody can do that twice: so what
/// reads it stays here until the device takes it. Clones share it.
#[derive(Clone, Default)]
pub struct StandardInput(Arc<Mutex<Option<FileReader>>>);

impl StandardInput {
    /// What comes. Waits for the beginning of it.
    pub(crate) fn look(&self, wanted: Wanted) -> Result<FileFormat, DeviceError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = match kept.take() {
            Some(reader) => reader,
            None => open(wanted)?,
        };
        Ok(kept.insert(reader).format())
    }

    /// What reads it.
    pub(crate) fn take(&self, wanted: Wanted) -> Result<FileReader, DeviceError> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept.map_or_else(|| open(wanted), Ok)
    }
}

impl fmt::Debug for StandardInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StandardInput")
    }
}

fn refuse(answer: &str) -> DeviceError {
    DeviceError {
        tried: "file:-".to_owned(),
        answer: answer.to_owned(),
        mend: "pipe a WAV or FLAC into it, as in: cat song.wav | taut send --input file:- --to …"
            .to_owned(),
    }
}

fn open(wanted: Wanted) -> Result<FileReader, DeviceError> {
    let mut input = io::stdin();
    if input.is_terminal() {
        return Err(refuse("standard input is a terminal"));
    }
    // Enough to tell a WAV from others.
    let mut begins = Vec::new();
    input.by_ref().take(12).read_to_end(&mut begins).map_err(|error| refuse(&error.to_string()))?;
    if begins.is_empty() {
        return Err(refuse("nothing came on standard input"));
    }
    let source = ReadOnlySource::new(Cursor::new(begins.clone()).chain(input));
    FileReader::read_from(Box::new(source), &begins, FileRequest { path: None, wanted })
}
