//! WAV writer (RIFF, WAVE: Multimedia Programming Interface and Data Specifications 1.0;
//! WAVEFORMATEXTENSIBLE above two channels or 16 bits).

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};

use tautline_dsp::dither::Dither;
use tautline_dsp::format::SampleFormat;
use tautline_io::clock::now;
use tautline_io::output::{create_private, open_private, set_blocking};
use tautline_proto::device::Settings;
use tautline_proto::time::Span;

const BLOCK: usize = 16 * 1024;
pub(super) const MAX_BYTES: u64 = u32::MAX as u64 - 4096;
pub(super) const PCM: u16 = 1;
pub(super) const FLOAT: u16 = 3;
pub(super) const EXTENSIBLE: u16 = 0xfffe;
pub(super) const SUBFORMAT: [u8; 14] = *b"\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71";
const POSITIONS: usize = 18;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Spent {
    pub(crate) coding: Span,
    pub(crate) storing: Span,
}

enum WavOutput {
    /// Seekable: lengths are filled in later.
    File(File),
    /// Not seekable: lengths stay unknown.
    Pipe {
        pipe: File,
        begun: bool,
    },
    Awaited(PathBuf),
}

const UNKNOWN: u32 = u32::MAX;
const SILENCE: [u8; 4096] = [0; 4096];

pub(crate) struct WavFile {
    store: WavOutput,
    format: SampleFormat,
    header: Vec<u8>,
    bytes: u64,
    coded: Box<[u8]>,
    dither: Dither,
    spent: Spent,
}

impl WavFile {
    pub(crate) fn create(
        path: &Path,
        settings: &Settings,
        format: SampleFormat,
    ) -> io::Result<Self> {
        match create_private(path)? {
            Some(file) => Self::begin(file, settings, format),
            None => Ok(Self::on(WavOutput::Awaited(path.to_owned()), settings, format)),
        }
    }

    pub(crate) fn begin(file: File, settings: &Settings, format: SampleFormat) -> io::Result<Self> {
        let kind = file.metadata()?.file_type();
        if !kind.is_file() {
            set_blocking(&file)?;
            let mut wav = Self::stream(file, settings, format);
            if !kind.is_fifo() {
                wav.flush()?;
            }
            return Ok(wav);
        }
        let mut wav = Self::on(WavOutput::File(file), settings, format);
        wav.flush()?;
        if let WavOutput::File(file) = &mut wav.store {
            file.seek(SeekFrom::End(0))?;
        }
        Ok(wav)
    }

    pub(crate) fn stream(pipe: File, settings: &Settings, format: SampleFormat) -> Self {
        Self::on(WavOutput::Pipe { pipe, begun: false }, settings, format)
    }

    fn on(store: WavOutput, settings: &Settings, format: SampleFormat) -> Self {
        let coded = vec![0; BLOCK * format.bytes()].into();
        let header = header(settings, format);
        let (dither, spent) = (Dither::default(), Spent::default());
        Self { store, format, header, bytes: 0, coded, dither, spent }
    }

    pub(crate) const fn is_pipe(&self) -> bool {
        !matches!(self.store, WavOutput::File(_))
    }

    pub(crate) fn has_reader(&mut self) -> io::Result<bool> {
        let WavOutput::Awaited(path) = &self.store else { return Ok(true) };
        let Some(pipe) = open_private(path, &mut OpenOptions::new())? else { return Ok(false) };
        set_blocking(&pipe)?;
        self.store = WavOutput::Pipe { pipe, begun: false };
        Ok(true)
    }

    pub(crate) const fn samples(&self) -> u64 {
        self.bytes / self.format.bytes() as u64
    }

    pub(crate) fn has_room(&self, samples: u64) -> bool {
        if self.is_pipe() {
            return true;
        }
        let more = samples.saturating_mul(self.format.bytes() as u64);
        self.bytes.saturating_add(more) <= MAX_BYTES
    }

    /// Rounds as on the wire, so unchanged samples stay unchanged.
    pub(crate) fn write(&mut self, samples: &[f32]) -> io::Result<()> {
        let width = self.format.bytes();
        for block in samples.chunks(BLOCK) {
            let begun = now();
            let coded = &mut self.coded[..block.len() * width];
            self.dither.encode(self.format, block, coded);
            match width {
                2 => coded.as_chunks_mut::<2>().0.iter_mut().for_each(|bytes| bytes.reverse()),
                3 => coded.as_chunks_mut::<3>().0.iter_mut().for_each(|bytes| bytes.swap(0, 2)),
                _ => coded.as_chunks_mut::<4>().0.iter_mut().for_each(|bytes| bytes.reverse()),
            }
            let ready = now();
            match &mut self.store {
                WavOutput::File(file) | WavOutput::Pipe { pipe: file, .. } => {
                    file.write_all(coded)?
                }
                WavOutput::Awaited(_) => {}
            }
            self.bytes += coded.len() as u64;
            self.spent.coding += ready - begun;
            self.spent.storing += now() - ready;
        }
        Ok(())
    }

    /// Writes silence, in a file as a hole.
    pub(crate) fn silence(&mut self, samples: u64) -> io::Result<()> {
        let begun = now();
        let bytes = samples * self.format.bytes() as u64;
        self.bytes += bytes;
        match &mut self.store {
            WavOutput::File(file) => {
                file.set_len(self.header.len() as u64 + self.bytes)?;
                file.seek(SeekFrom::End(0))?;
            }
            WavOutput::Pipe { pipe, .. } => {
                let mut left = bytes;
                while left > 0 {
                    let some = left.min(SILENCE.len() as u64);
                    pipe.write_all(&SILENCE[..some as usize])?;
                    left -= some;
                }
            }
            WavOutput::Awaited(_) => {}
        }
        self.spent.storing += now() - begun;
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let started = now();
        let length = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes();
        let end = self.header.len();
        let padded = self.bytes + self.bytes % 2;
        match &mut self.store {
            WavOutput::File(file) => {
                self.header[4..8].copy_from_slice(&length(end as u64 - 8 + padded));
                self.header[end - 4..].copy_from_slice(&length(self.bytes));
                file.write_all_at(&self.header, 0)?;
            }
            WavOutput::Pipe { pipe, begun: begun @ false } => {
                self.header[4..8].copy_from_slice(&UNKNOWN.to_le_bytes());
                self.header[end - 4..].copy_from_slice(&UNKNOWN.to_le_bytes());
                *begun = true;
                pipe.write_all(&self.header)?;
            }
            WavOutput::Pipe { .. } | WavOutput::Awaited(_) => {}
        }
        self.spent.storing += now() - started;
        Ok(())
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        let whole = match &mut self.store {
            WavOutput::File(file) => {
                file.set_len(self.header.len() as u64 + self.bytes + self.bytes % 2)
            }
            _ => Ok(()),
        };
        self.flush().and(whole)
    }

    pub(crate) fn spent(&mut self) -> Spent {
        std::mem::take(&mut self.spent)
    }
}

fn header(settings: &Settings, format: SampleFormat) -> Vec<u8> {
    let (channels, rate) = (settings.channels.count(), settings.rate.hertz());
    let width = format.bytes();
    let kind = if format == SampleFormat::F32 { FLOAT } else { PCM };
    let extensible = channels > 2 || width > 2;
    let mut header = b"RIFF\0\0\0\0WAVEfmt ".to_vec();
    let short = |value: usize| (value as u16).to_le_bytes();
    let length: u32 = if extensible { 40 } else { 16 };
    header.extend(length.to_le_bytes());
    header.extend((if extensible { EXTENSIBLE } else { kind }).to_le_bytes());
    header.extend(short(channels));
    header.extend(rate.to_le_bytes());
    header.extend((rate * (channels * width) as u32).to_le_bytes());
    header.extend(short(channels * width));
    header.extend(short(width * 8));
    if extensible {
        header.extend(short(22));
        header.extend(short(width * 8));
        header.extend(((1_u32 << channels.min(POSITIONS)) - 1).to_le_bytes());
        header.extend(kind.to_le_bytes());
        header.extend(SUBFORMAT);
    }
    header.extend(b"data\0\0\0\0");
    header
}
