//! How much sound a WAV file really holds, as against what its header says.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Where the samples of a WAV file lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WavExtent {
    /// Bytes of samples that the header promises; `u32::MAX` stands for "not known".
    promised: u64,
    /// Bytes of samples up to the end of the file.
    present: u64,
    /// Bytes of one frame.
    frame: u64,
}

impl WavExtent {
    /// Looks for the samples of `file` and rewinds it; `None` if it is no WAV file, which is for
    /// the container reader to say.
    pub(crate) fn of(mut file: &File) -> io::Result<Option<Self>> {
        let length = file.metadata()?.len();
        let found = Self::find(file, length);
        file.seek(SeekFrom::Start(0))?;
        match found {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            found => found,
        }
    }

    fn find(mut file: &File, length: u64) -> io::Result<Option<Self>> {
        let mut head = [0; 12];
        file.read_exact(&mut head)?;
        if !head.starts_with(b"RIFF") || !head.ends_with(b"WAVE") {
            return Ok(None);
        }
        let mut position = head.len() as u64;
        let mut frame = 0;
        loop {
            let mut chunk = [0; 8];
            file.read_exact(&mut chunk)?;
            position += chunk.len() as u64;
            let [_, _, _, _, size @ ..] = chunk;
            let size = u64::from(u32::from_le_bytes(size));
            if chunk.starts_with(b"data") {
                let present = length - position.min(length);
                return Ok((frame > 0).then_some(Self { promised: size, present, frame }));
            }
            if chunk.starts_with(b"fmt ") {
                let mut fmt = [0; 14];
                file.read_exact(&mut fmt)?;
                let [.., low, high] = fmt;
                frame = u64::from(u16::from_le_bytes([low, high]));
            }
            // Chunks are padded to an even length.
            position += size + size % 2;
            file.seek(SeekFrom::Start(position))?;
        }
    }

    /// Whether the samples end before the header says so, or it does not say.
    pub(crate) fn is_cut(&self) -> bool {
        self.present < self.promised
    }

    /// Whole frames in the file.
    pub(crate) fn frames_present(&self) -> u64 {
        self.present.min(self.promised) / self.frame
    }
}
