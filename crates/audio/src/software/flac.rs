use std::io::{self, Read, Seek, SeekFrom};

use symphonia::core::codecs::audio::{AudioCodecParameters, AudioDecoder};
use symphonia::core::errors::Error as SymphoniaError;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatReader, TrackType};
use symphonia::core::io::{MediaSource, MediaSourceStream};

const SILENCE: u64 = 4096;

const TAG: (u64, [u8; 3]) = (128, *b"TAG");

/// Removes an ID3v1 tag, which would decode as part of the last frame.
fn without_tag(mut source: Box<dyn MediaSource>) -> io::Result<Box<dyn MediaSource>> {
    let (length, name) = TAG;
    let Some(end) = source.byte_len().and_then(|bytes| bytes.checked_sub(length)) else {
        return Ok(source);
    };
    let mut begins = [0; 3];
    source.seek(SeekFrom::Start(end))?;
    source.read_exact(&mut begins)?;
    source.rewind()?;
    Ok(if begins == name { Box::new(Untagged { source, at: 0, end }) } else { source })
}

struct Untagged {
    source: Box<dyn MediaSource>,
    at: u64,
    end: u64,
}

impl Read for Untagged {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let maximum = out.len().min(left);
        let read = self.source.read(&mut out[..maximum])?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for Untagged {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::End(from_end) => SeekFrom::Start(self.end.saturating_add_signed(from_end)),
            to => to,
        };
        self.at = self.source.seek(to)?;
        Ok(self.at)
    }
}

impl MediaSource for Untagged {
    fn is_seekable(&self) -> bool {
        self.source.is_seekable()
    }

    fn byte_len(&self) -> Option<u64> {
        Some(self.end)
    }
}

pub(super) struct FlacReader {
    container: Box<dyn FormatReader>,
    decoder: Box<dyn AudioDecoder>,
    track: u32,
    parameters: AudioCodecParameters,
    channels: usize,
    promised: Option<u64>,
    at: u64,
    owed: u64,
    next: Vec<f32>,
    damaged: u64,
}

impl FlacReader {
    pub(super) fn open(source: Box<dyn MediaSource>) -> Result<Self, String> {
        let source = without_tag(source).map_err(|error| error.to_string())?;
        let stream = MediaSourceStream::new(source, Default::default());
        let container = symphonia::default::get_probe()
            .probe(&Hint::new(), stream, Default::default(), Default::default())
            .map_err(|error| match error {
                SymphoniaError::IoError(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                    error.to_string()
                }
                _ => "neither WAV nor FLAC".to_owned(),
            })?;
        let opened = container.default_track(TrackType::Audio).and_then(|track| {
            let parameters = track.codec_params.as_ref()?.audio()?;
            Some((track.id, track.num_frames, parameters.clone()))
        });
        let Some((track, promised, parameters)) = opened else {
            return Err("it holds no sound".to_owned());
        };
        let decoder = symphonia::default::get_codecs()
            .make_audio_decoder(&parameters, &Default::default())
            .map_err(|error| error.to_string())?;
        let channels = parameters.channels.as_ref().map_or(0, |channels| channels.count());
        let (at, owed, next, damaged) = (0, 0, Vec::new(), 0);
        Ok(Self {
            container,
            decoder,
            track,
            parameters,
            channels,
            promised,
            at,
            owed,
            next,
            damaged,
        })
    }

    pub(super) fn hertz(&self) -> u32 {
        self.parameters.sample_rate.unwrap_or(0)
    }

    pub(super) const fn channels(&self) -> usize {
        self.channels
    }

    pub(super) fn bits(&self) -> u32 {
        self.parameters.bits_per_sample.unwrap_or(16)
    }

    pub(super) const fn promised_frames(&self) -> Option<u64> {
        self.promised
    }

    pub(super) const fn damaged(&self) -> u64 {
        self.damaged
    }

    pub(super) fn read(&mut self, out: &mut Vec<f32>) -> bool {
        out.clear();
        while self.owed == 0 && self.next.is_empty() {
            if !self.decode() {
                return false;
            }
        }
        if self.owed > 0 {
            let some = self.owed.min(SILENCE);
            self.owed -= some;
            out.resize(some as usize * self.channels, 0.0);
        } else {
            core::mem::swap(&mut self.next, out);
        }
        self.at += (out.len() / self.channels) as u64;
        true
    }

    /// Decodes a packet. Its position reveals damaged packets that the container skipped. Returns
    /// `false` at the end.
    fn decode(&mut self) -> bool {
        // Missing frames are reported as cut.
        let Ok(Some(packet)) = self.container.next_packet() else { return false };
        if packet.track_id != self.track {
            return true;
        }
        let position = u64::try_from(packet.pts.get()).unwrap_or(0);
        match self.promised {
            Some(promised) => self.owed = position.min(promised).saturating_sub(self.at),
            None if self.at == 0 => self.at = position,
            None => self.owed = position.saturating_sub(self.at),
        }
        self.damaged += u64::from(self.owed > 0);
        match self.decoder.decode(&packet) {
            Ok(buffer) if buffer.spec().channels().count() != self.channels => return false,
            Ok(buffer) => {
                self.next.resize(buffer.samples_interleaved(), 0.0);
                buffer.copy_to_slice_interleaved(&mut self.next[..]);
            }
            Err(SymphoniaError::DecodeError(_)) => {
                self.damaged += u64::from(self.owed == 0);
                self.owed += packet.dur.get().min(u64::from(u16::MAX));
            }
            Err(_) => return false,
        }
        true
    }
}
