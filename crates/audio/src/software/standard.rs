//! `file:-`: sound that another program pipes in, on standard input.

use std::fmt;
use std::io::{self, BufRead, Cursor, IsTerminal, Read};
use std::sync::{Arc, Mutex, PoisonError};

use symphonia::core::io::ReadOnlySource;
use tautline_proto::device::DeviceError;

use super::convert::Wanted;
use super::file::{FileFormat, FileReader, FileRequest};

/// Of the length in a WAV header: what is longer was not known when the header was written. sox
/// writes 0x7ffff000 into a pipe, arecord 0x80000000, ffmpeg 0xffffffff.
const NOT_KNOWN: u32 = 0x7fff_0000;
/// The most of a WAV that may stand before its samples: room for a picture.
const MOST_BEFORE: u64 = 4 << 20;

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
    let unreadable = |error: io::Error| refuse(&error.to_string());
    if input.lock().fill_buf().map_err(unreadable)?.is_empty() {
        return Err(refuse("nothing came on standard input"));
    }
    let begun = without_false_length(&mut input).map_err(unreadable)?;
    let source = ReadOnlySource::new(Cursor::new(begun).chain(input));
    FileReader::read_from(Box::new(source), FileRequest { path: None, wanted })
}

/// The beginning of what `input` has: of a WAV all before its samples, and if it was written before
/// their number was known it says so, as ffmpeg would, however whoever wrote it says it.
fn without_false_length(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut begun = Vec::new();
    let mut read = |begun: &mut Vec<u8>, bytes: u64| {
        let whole = bytes == input.by_ref().take(bytes).read_to_end(begun)? as u64;
        io::Result::Ok(whole)
    };
    if !read(&mut begun, 12)? || !begun.starts_with(b"RIFF") || !begun.ends_with(b"WAVE") {
        return Ok(begun);
    }
    while (begun.len() as u64) < MOST_BEFORE {
        let at = begun.len();
        if !read(&mut begun, 8)? {
            break;
        }
        let [a, b, c, d] = [4, 5, 6, 7].map(|byte| begun[at + byte]);
        let bytes = u32::from_le_bytes([a, b, c, d]);
        if begun[at..].starts_with(b"data") {
            if bytes == 0 || bytes >= NOT_KNOWN {
                begun[at + 4..].fill(0xff);
                begun[4..8].fill(0xff);
            }
            break;
        }
        let padded = u64::from(bytes) + u64::from(bytes % 2);
        if !read(&mut begun, padded.min(MOST_BEFORE))? {
            break;
        }
    }
    Ok(begun)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A WAV whose samples are said to be so many bytes, behind a chunk of odd length.
    fn wav(bytes: u32) -> Vec<u8> {
        let mut wav = b"RIFF\x24\0\0\x80WAVELIST\x03\0\0\0abc\0data".to_vec();
        wav.extend(bytes.to_le_bytes());
        wav.extend(*b"samples");
        wav
    }

    #[test]
    fn a_length_that_was_not_known_is_told_in_one_way() {
        for unknown in [0, 0x7fff_effc, 0x7fff_f000, 0x8000_0000, u32::MAX] {
            let given = wav(unknown);
            let mut rest = &given[..];
            let begun = without_false_length(&mut rest).unwrap();
            assert_eq!(rest, b"samples", "{unknown:x}");
            assert!(begun.ends_with(b"data\xff\xff\xff\xff"), "{unknown:x}");
            assert!(begun.starts_with(b"RIFF\xff\xff\xff\xffWAVELIST"), "{unknown:x}");
        }
    }

    #[test]
    fn what_is_known_or_is_no_wav_or_is_cut_stays_as_it_came() {
        let flac = b"fLaC and more than twelve bytes".to_vec();
        for given in [wav(7), flac, wav(7)[..30].to_vec(), b"RI".to_vec(), Vec::new()] {
            let mut rest = &given[..];
            let mut all = without_false_length(&mut rest).unwrap();
            all.extend(rest);
            assert_eq!(all, given);
        }
    }

    #[test]
    fn what_stands_before_the_samples_is_read_no_further_than_is_sane() {
        let given = b"RIFF\xff\xff\xff\x7fWAVEjunk\xf0\xff\xff\x7f".to_vec();
        let mut endless = Cursor::new(given).chain(io::repeat(0));
        let begun = without_false_length(&mut endless).unwrap();
        assert!(begun.len() as u64 <= 2 * MOST_BEFORE, "{}", begun.len());
    }
}
