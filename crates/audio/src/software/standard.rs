//! `file:-`: sound that another program pipes in, on standard input.

use std::fmt;
use std::io::{self, IsTerminal, Read};

use tautline_proto::device::DeviceError;

use super::convert::Wanted;
use super::file::{FileFormat, FileReader, FileRequest, PipeReader};

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
