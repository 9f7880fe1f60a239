//! `file:-`: sound that another program pipes in, on standard input.

use std::fmt;
use std::io::{self, IsTerminal, Read};
use std::sync::{Arc, Mutex, PoisonError};

use tautline_proto::device::DeviceError;

use super::convert::Wanted;
use super::file::{FileFormat, FileReader, FileRequest};

/// The reader of a pipe. A look at the format reads the beginning of the pipe, and no byte can be read twice, so the reader
/// is kept here until the device takes it. Clones share it.
#[derive(Clone, Default)]
pub(super) struct PipeReader(Arc<Mutex<Option<FileReader>>>);

impl PipeReader {
    /// The format of what the pipe holds; waits for its beginning.
    pub(super) fn look(
        &self,
        open: impl FnOnce() -> Result<FileReader, DeviceError>,
    ) -> Result<FileFormat, DeviceError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = kept.take().map_or_else(open, Ok)?;
        Ok(kept.insert(reader).format())
    }

    pub(super) fn take(
        &self,
        open: impl FnOnce() -> Result<FileReader, DeviceError>,
    ) -> Result<FileReader, DeviceError> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept.map_or_else(open, Ok)
    }
}

#[derive(Clone, Default)]
pub struct StandardInput(PipeReader);

impl StandardInput {
    /// The format of the piped sound.
    pub(crate) fn look(&self, wanted: Wanted) -> Result<FileFormat, DeviceError> {
        self.0.look(|| open(wanted))
    }

    pub(crate) fn take(&self, wanted: Wanted) -> Result<FileReader, DeviceError> {
        self.0.take(|| open(wanted))
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
    let mut begins = Vec::new();
    input.by_ref().take(12).read_to_end(&mut begins).map_err(|error| refuse(&error.to_string()))?;
    if begins.is_empty() {
        return Err(refuse("nothing came on standard input"));
    }
    FileReader::read_pipe(input, begins, FileRequest { path: None, wanted })
}
