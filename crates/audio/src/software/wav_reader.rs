//! WAV reader, from beginning to end (RIFF, WAVE; WAVEFORMATEXTENSIBLE; EBU Tech 3306 and ITU-R
//! BS.2088 for RF64 and BW64).

#[cfg(test)]
mod tests;

use std::io::{self, BufReader, ErrorKind, Read};

use symphonia::core::io::MediaSource;

use super::wav::{EXTENSIBLE, FLOAT, PCM, SUBFORMAT};

const A_LAW: u16 = 6;
const MU_LAW: u16 = 7;
/// Minimum placeholder size in pipes: sox has 0x7ffff000, arecord 0x80000000, ffmpeg 0xffffffff.
const PLACEHOLDER: u64 = 0x7fff_0000;
const FRAMES: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WavCoding {
    /// In the upper bits: unsigned with one byte, else signed.
    Integer {
        bytes: usize,
        bits: u32,
    },
    Float,
    Double,
    /// ITU-T G.711, decoded to 16 bits.
    ALaw,
    /// ITU-T G.711, decoded to 16 bits.
    MuLaw,
}

impl WavCoding {
    const fn bytes(self) -> usize {
        match self {
            Self::Integer { bytes, .. } => bytes,
            Self::Float => 4,
            Self::Double => 8,
            Self::ALaw | Self::MuLaw => 1,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct WavHeader {
    pub(super) rate: u32,
    pub(super) channels: u16,
    pub(super) coding: Result<WavCoding, String>,
    promised: Option<u64>,
    held: Option<u64>,
    block: u64,
    begun: Vec<u8>,
}

pub(super) fn is_wav(begins: &[u8]) -> bool {
    matches!(begins, [b'R', b'I', b'F', b'F', .., b'W', b'A', b'V', b'E'])
        || matches!(begins, [b'R' | b'B', b'F' | b'W', b'6', b'4', .., b'W', b'A', b'V', b'E'])
}

impl WavHeader {
    /// Reads everything before the samples; `None` if incomplete. Sizes are not trusted: skipping
    /// needs no memory.
    pub(super) fn read(input: &mut impl Read, length: Option<u64>) -> io::Result<Option<Self>> {
        let (mut at, mut format, mut long) = (12, None, None);
        let Some([_, _, _, _, a, b, c, d, ..]) = array::<12>(input)? else { return Ok(None) };
        let riff = u32::from_le_bytes([a, b, c, d]).into();
        while let Some([i, j, k, l, a, b, c, d]) = array::<8>(input)? {
            let size = u64::from(u32::from_le_bytes([a, b, c, d]));
            at += 8;
            if [i, j, k, l] == *b"data" {
                let Some(header) = format else { return Ok(None) };
                return Self::sized(header, input, Sizes { at, riff, data: size, long, length });
            }
            let mut chunk = Vec::new();
            let kept = if matches!(&[i, j, k, l], b"fmt " | b"ds64") { size.min(40) } else { 0 };
            if input.by_ref().take(kept).read_to_end(&mut chunk)? as u64 != kept {
                return Ok(None);
            }
            match &[i, j, k, l] {
                b"fmt " => format = Self::described(&chunk),
                b"ds64" => long = longs(&chunk),
                _ => {}
            }
            let rest = size - kept + size % 2;
            io::copy(&mut input.by_ref().take(rest), &mut io::sink())?;
            at += size + size % 2;
        }
        Ok(None)
    }

    fn described(chunk: &[u8]) -> Option<Self> {
        let short =
            |at: usize| chunk.get(at..at + 2).map(|two| u16::from_le_bytes([two[0], two[1]]));
        let (channels, block, bits) = (short(2)?, short(12)?, short(14)?);
        let rate = u32::from(short(4)?) | u32::from(short(6)?) << 16;
        let (mut tag, mut valid) = (short(0)?, bits);
        if tag == EXTENSIBLE {
            tag = short(24)?;
            valid = short(18).filter(|valid| *valid > 0).unwrap_or(bits);
            if chunk.get(26..40) != Some(&SUBFORMAT[..]) {
                tag = EXTENSIBLE;
            }
        }
        let whole = channels > 0 && block % channels == 0;
        let width = if whole { usize::from(block / channels) } else { 0 };
        let coding = match (tag, width, u32::from(valid)) {
            (PCM, 1..=4, bits) if (1..=8 * width as u32).contains(&bits) => {
                Ok(WavCoding::Integer { bytes: width, bits })
            }
            (FLOAT, 4, 32) => Ok(WavCoding::Float),
            (FLOAT, 8, 64) => Ok(WavCoding::Double),
            (A_LAW, 1, _) => Ok(WavCoding::ALaw),
            (MU_LAW, 1, _) => Ok(WavCoding::MuLaw),
            (PCM | FLOAT | A_LAW | MU_LAW, ..) => Err(format!(
                "its frames of {block} bytes do not hold {channels} samples of {valid} bits"
            )),
            (tag, ..) => Err(format!("unsupported coding: WAVE format {tag:#06x}")),
        };
        let block = u64::from(block.max(1));
        let (promised, held, begun) = (None, None, Vec::new());
        Some(Self { rate, channels, coding, promised, held, block, begun })
    }

    fn sized(mut self, input: &mut impl Read, sizes: Sizes) -> io::Result<Option<Self>> {
        let Sizes { at, riff, data, long, length } = sizes;
        let held = length.map(|length| length.saturating_sub(at));
        let (data, riff, placeholder) = match (data, long) {
            (0 | 0xffff_ffff, Some((riff, data))) => (data, riff, u64::MAX),
            (0xffff_ffff, None) => (data, riff, 0),
            _ => (data, riff, PLACEHOLDER),
        };
        let unknown = match data {
            0 => {
                input.by_ref().take(8).read_to_end(&mut self.begun)?;
                let within = riff.saturating_add(8).saturating_sub(at);
                !self.begun.is_empty() && !is_chunk(&self.begun, within)
            }
            _ => data >= placeholder && held.is_none_or(|held| held < data || placeholder == 0),
        };
        self.promised = (!unknown).then_some(data);
        self.held = held;
        Ok(Some(self))
    }

    pub(super) fn promised_frames(&self) -> Option<u64> {
        self.promised.map(|bytes| bytes / self.block)
    }

    pub(super) fn held_frames(&self) -> Option<u64> {
        self.held.map(|bytes| bytes / self.block)
    }
}

struct Sizes {
    at: u64,
    riff: u64,
    data: u64,
    long: Option<(u64, u64)>,
    length: Option<u64>,
}

fn longs(chunk: &[u8]) -> Option<(u64, u64)> {
    let (longs, _) = chunk.as_chunks::<8>();
    Some((u64::from_le_bytes(*longs.first()?), u64::from_le_bytes(*longs.get(1)?)))
}

/// Whether a chunk begins here and ends `within`; otherwise this is sound despite a header size of
/// 0.
fn is_chunk(begun: &[u8], within: u64) -> bool {
    let &[i, j, k, l, a, b, c, d] = begun else { return false };
    let size = u64::from(u32::from_le_bytes([a, b, c, d]));
    [i, j, k, l].iter().all(|byte| matches!(byte, b' '..=b'~')) && 8 + size <= within
}

fn array<const N: usize>(input: &mut impl Read) -> io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    match input.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) struct WavReader {
    input: BufReader<Box<dyn MediaSource>>,
    coding: WavCoding,
    block: usize,
    left: u64,
    bytes: Box<[u8]>,
    filled: usize,
}

impl WavReader {
    pub(super) fn new(
        input: BufReader<Box<dyn MediaSource>>,
        header: &WavHeader,
        coding: WavCoding,
    ) -> Self {
        let block = coding.bytes() * usize::from(header.channels);
        let mut bytes: Box<[u8]> = vec![0; FRAMES * block].into();
        let begun = if header.promised.is_none() { &header.begun[..] } else { &[] };
        bytes[..begun.len()].copy_from_slice(begun);
        let left = header.promised.unwrap_or(u64::MAX);
        Self { input, coding, block, left, bytes, filled: begun.len() }
    }

    /// Reads available samples, so that a pipe adds no latency; `false` at the end.
    pub(super) fn read(&mut self, out: &mut Vec<f32>) -> bool {
        out.clear();
        while self.filled < self.block {
            // An open pipe would block after its last sample.
            if self.left == 0 {
                return false;
            }
            let left = usize::try_from(self.left).unwrap_or(usize::MAX);
            let room = &mut self.bytes[self.filled..];
            let maximum = room.len().min(left);
            match self.input.read(&mut room[..maximum]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return false,
                Ok(count) => {
                    self.filled += count;
                    self.left -= count as u64;
                }
            }
        }
        let whole = self.filled / self.block * self.block;
        decode(self.coding, &self.bytes[..whole], out);
        self.bytes.copy_within(whole..self.filled, 0);
        self.filled -= whole;
        true
    }
}

fn decode(coding: WavCoding, bytes: &[u8], out: &mut Vec<f32>) {
    const STEP: f32 = 1.0 / 2_147_483_648.0;
    match coding {
        WavCoding::Integer { bytes: width, bits } => {
            let valid = u32::MAX << (32 - bits);
            out.extend(bytes.chunks_exact(width).map(|sample| {
                let mut upper = [0; 4];
                upper[4 - width..].copy_from_slice(sample);
                upper[3] ^= if width == 1 { 0x80 } else { 0 };
                (u32::from_le_bytes(upper) & valid).cast_signed() as f32 * STEP
            }));
        }
        WavCoding::Float => {
            out.extend(bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)));
        }
        WavCoding::Double => {
            let doubles = bytes.as_chunks::<8>().0.iter();
            out.extend(doubles.map(|eight| f64::from_le_bytes(*eight) as f32));
        }
        WavCoding::ALaw => out.extend(bytes.iter().map(|&byte| f32::from(a_law(byte)) / 32_768.0)),
        WavCoding::MuLaw => {
            out.extend(bytes.iter().map(|&byte| f32::from(mu_law(byte)) / 32_768.0));
        }
    }
}

/// ITU-T G.711 §3, table 1.
fn a_law(coded: u8) -> i16 {
    let bits = coded ^ 0x55;
    let steps = i16::from(bits & 0x0f) << 4;
    let level = match bits >> 4 & 7 {
        0 => steps + 8,
        segment => (steps + 0x108) << (segment - 1),
    };
    if bits & 0x80 == 0 { -level } else { level }
}

/// ITU-T G.711 §3, table 2.
fn mu_law(coded: u8) -> i16 {
    let bits = !coded;
    let level = (((i16::from(bits & 0x0f) << 3) + 0x84) << (bits >> 4 & 7)) - 0x84;
    if bits & 0x80 == 0 { level } else { -level }
}
