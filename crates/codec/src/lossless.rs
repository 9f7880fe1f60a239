//! Lossless compression of independent packets.
//!
//! A payload is the number of frames (16 bits, big-endian), a byte per channel, and bits: the
//! residual of polynomial prediction of order 0 to 3 (Robinson, "Shorten: Simple lossless and
//! near-lossless waveform compression", 1994, §3.2), in Rice's code (Rice 1979). The second channel
//! may be the difference from the first. If this saves nothing, the samples follow uncompressed.

use tautline_dsp::dither::Dither;
use tautline_dsp::format::{self, SampleFormat};
use tautline_proto::codec::{Codec, Decode, Encode, Undecodable};
use tautline_proto::stream::{Coding, StreamFormat};
use tautline_proto::units::{Channels, Rate};

use crate::bits::{RiceReader, RiceWriter};
use crate::{CodecFactory, NoEncoder};

const MAX_ORDER: usize = 3;
const VERBATIM: u8 = 31;
/// Maximum Rice parameter. Residuals of 24-bit differences have 28 bits.
const MAX_PARAMETER: u32 = 28;
/// Maximum Rice quotient. Beyond it, another parameter takes fewer bits.
const MAX_QUOTIENT: u32 = 1 << 20;
const ORDER_SHIFT: u32 = 5;
const PARAMETER: u8 = 0x1F;
/// Flag of a channel. First channel: the packet has 24 bits. Second channel: it is the difference
/// from the first.
const FLAG: u8 = 0x80;
/// Maximum frames of a packet: 20 ms (`PTIME_RANGE`) at 192 kHz.
const MAX_FRAMES: usize = 3840;

pub(crate) struct Lossless;

impl CodecFactory for Lossless {
    fn encoder(&self, format: &StreamFormat) -> Result<Box<dyn Encode>, NoEncoder> {
        Ok(Box::new(LosslessEncoder::new(format.sample, format.channels)))
    }

    fn decoder(&self, _: Rate, channels: Channels) -> Option<Box<dyn Decode>> {
        Some(Box::new(LosslessDecoder::new(channels)))
    }
}

#[derive(Debug)]
pub struct LosslessEncoder {
    sample: SampleFormat,
    channels: Channels,
    raw: Box<[u8]>,
    dither: Dither,
    first: Box<[i32]>,
    one: Box<[i32]>,
    difference: Box<[i32]>,
}

impl LosslessEncoder {
    /// 16 bits for 16-bit formats, else 24. Only this function allocates.
    pub fn new(sample: SampleFormat, channels: Channels) -> Self {
        let sample = if sample == SampleFormat::L16 { sample } else { SampleFormat::L24 };
        Self {
            sample,
            channels,
            raw: vec![0; MAX_FRAMES * channels.count() * sample.bytes()].into(),
            dither: Dither::default(),
            first: vec![0; MAX_FRAMES].into(),
            one: vec![0; MAX_FRAMES].into(),
            difference: vec![0; MAX_FRAMES].into(),
        }
    }

    fn write(&mut self, frames: usize, samples: &[f32], room: &mut [u8]) -> Option<usize> {
        let (channels, bytes) = (self.channels.count(), self.sample.bytes());
        let raw = &mut self.raw[..samples.len() * bytes];
        self.dither.encode(self.sample, samples, raw);
        let head = Codec::LOSSLESS_HEAD + channels;
        if room.len() < head {
            return None;
        }
        let (heads, rest) = room.split_at_mut(head);
        heads[..2].copy_from_slice(&u16::try_from(frames).ok()?.to_be_bytes());
        let depth_flag = if self.sample == SampleFormat::L24 { FLAG } else { 0 };
        let maximum = rest.len().min(raw.len());
        let mut bits = RiceWriter::new(&mut rest[..maximum]);
        for channel in 0..channels {
            let one = &mut self.one[..frames];
            for (number, frame) in one.iter_mut().zip(raw.chunks_exact(channels * bytes)) {
                *number = number_at(&frame[channel * bytes..(channel + 1) * bytes]);
            }
            let depth = 8 * bytes as u32;
            let (mut best, mut flag) = (ChannelPlan::of(one, depth), 0);
            if channel == 0 {
                self.first[..frames].copy_from_slice(one);
                flag = depth_flag;
            } else if channel == 1 {
                let difference = &mut self.difference[..frames];
                for ((out, one), first) in difference.iter_mut().zip(&*one).zip(&self.first) {
                    *out = one - first;
                }
                let apart = ChannelPlan::of(difference, depth + 1);
                if apart.cost < best.cost {
                    (best, flag) = (apart, FLAG);
                }
            }
            let differs = channel == 1 && flag == FLAG;
            let numbers = if differs { &self.difference[..frames] } else { &*one };
            heads[2 + channel] = flag | (best.order as u8) << ORDER_SHIFT | best.parameter as u8;
            best.write(numbers, depth + u32::from(differs), &mut bits);
        }
        if let Some(written) = bits.finish() {
            return Some(head + written);
        }
        heads[2..].fill(VERBATIM);
        heads[2] |= depth_flag;
        rest.get_mut(..raw.len())?.copy_from_slice(raw);
        Some(head + raw.len())
    }
}

impl Encode for LosslessEncoder {
    fn coding(&self) -> Coding {
        Coding { sample: self.sample, codec: Some(Codec::Lossless) }
    }

    fn encode(&mut self, samples: &[f32], room: &mut [u8]) -> Option<usize> {
        let frames = samples.len() / self.channels.count();
        if frames > MAX_FRAMES {
            return None;
        }
        self.write(frames, samples, room)
    }

    fn reset(&mut self) {}
}

fn number_at(bytes: &[u8]) -> i32 {
    match *bytes {
        [a, b] => i16::from_be_bytes([a, b]).into(),
        [a, b, c] => i32::from_be_bytes([a, b, c, 0]) >> 8,
        _ => 0,
    }
}

#[derive(Debug, Clone, Copy)]
struct ChannelPlan {
    order: usize,
    parameter: u32,
    cost: u64,
}

impl ChannelPlan {
    fn of(numbers: &[i32], depth: u32) -> Self {
        let mut sums = [0u64; MAX_ORDER + 1];
        let mut before = [0i32; MAX_ORDER];
        for (at, number) in numbers.iter().enumerate() {
            // Each order takes the difference of the previous residuals.
            let mut left = *number;
            for order in 0..=MAX_ORDER.min(at) {
                sums[order] += u64::from(left.unsigned_abs());
                if order < MAX_ORDER {
                    let next = left.wrapping_sub(before[order]);
                    before[order] = left;
                    left = next;
                }
            }
            if at < MAX_ORDER {
                before[at] = left;
            }
        }
        let orders = 0..=MAX_ORDER.min(numbers.len());
        let plans = orders.map(|order| {
            let coded = (numbers.len() - order) as u64;
            let mean = (2 * sums[order]).checked_div(coded).unwrap_or(0);
            let parameter = (u64::BITS - mean.leading_zeros()).saturating_sub(1).min(MAX_PARAMETER);
            let cost = order as u64 * u64::from(depth)
                + coded * u64::from(parameter + 1)
                + ((2 * sums[order]) >> parameter);
            Self { order, parameter, cost }
        });
        plans.min_by_key(|plan| plan.cost).unwrap_or(Self { order: 0, parameter: 0, cost: 0 })
    }

    fn write(&self, numbers: &[i32], depth: u32, bits: &mut RiceWriter<'_>) {
        let (begin, rest) = numbers.split_at(self.order);
        begin.iter().for_each(|number| bits.put(*number as u32, depth));
        let mut predictor = Predictor::after(begin);
        for number in rest {
            let left = number.wrapping_sub(predictor.next(self.order));
            let folded = (left << 1 ^ left >> 31) as u32;
            bits.put_unary(folded >> self.parameter);
            bits.put(folded, self.parameter);
            predictor.push(*number);
        }
    }
}

struct Predictor([i32; MAX_ORDER]);

impl Predictor {
    fn after(begin: &[i32]) -> Self {
        let mut predictor = Self([0; MAX_ORDER]);
        begin.iter().for_each(|number| predictor.push(*number));
        predictor
    }

    fn push(&mut self, number: i32) {
        self.0 = [number, self.0[0], self.0[1]];
    }

    fn next(&self, order: usize) -> i32 {
        let [a, b, c] = self.0;
        match order {
            0 => 0,
            1 => a,
            2 => a.wrapping_mul(2).wrapping_sub(b),
            _ => a.wrapping_sub(b).wrapping_mul(3).wrapping_add(c),
        }
    }
}

#[derive(Debug)]
pub struct LosslessDecoder {
    channels: Channels,
    raw: Box<[u8]>,
    first: Box<[i32]>,
}

impl LosslessDecoder {
    /// Creates a decoder. Only this function allocates.
    pub fn new(channels: Channels) -> Self {
        Self {
            channels,
            raw: vec![0; MAX_FRAMES * channels.count() * 3].into(),
            first: vec![0; MAX_FRAMES].into(),
        }
    }

    fn read(&mut self, payload: &[u8], out: &mut [f32]) -> Option<()> {
        let (channels, frames) = (self.channels.count(), out.len() / self.channels.count());
        let (counted, rest) = payload.split_first_chunk()?;
        if usize::from(u16::from_be_bytes(*counted)) != frames || frames > MAX_FRAMES {
            return None;
        }
        let (heads, rest) = rest.split_at_checked(channels)?;
        let deep = heads.first()? & FLAG != 0;
        let sample = if deep { SampleFormat::L24 } else { SampleFormat::L16 };
        let bytes = sample.bytes();
        if heads.iter().any(|head| head & PARAMETER == VERBATIM) {
            let as_they_are = rest.len() == out.len() * bytes;
            return as_they_are.then(|| format::decode(sample, rest, out));
        }
        let mut bits = RiceReader::new(rest);
        let Self { raw, first, .. } = self;
        for (channel, head) in heads.iter().enumerate() {
            let order = usize::from(head >> ORDER_SHIFT & 3);
            let parameter = u32::from(head & PARAMETER);
            let differs = channel == 1 && head & FLAG != 0;
            let depth = 8 * bytes as u32 + u32::from(differs);
            let mut predictor = Predictor([0; MAX_ORDER]);
            for frame in 0..frames {
                let number = if frame < order {
                    let shift = 32 - depth;
                    (bits.get(depth)? << shift).cast_signed() >> shift
                } else {
                    let quotient = bits.get_unary(MAX_QUOTIENT)?;
                    let low = bits.get(parameter)?;
                    let folded = quotient.checked_shl(parameter)? | low;
                    let left = (folded >> 1).cast_signed() ^ -((folded & 1).cast_signed());
                    predictor.next(order).wrapping_add(left)
                };
                predictor.push(number);
                let sound = if differs { number.wrapping_add(first[frame]) } else { number };
                if channel == 0 {
                    first[frame] = sound;
                }
                let at = (frame * channels + channel) * bytes;
                raw[at..at + bytes].copy_from_slice(&sound.to_be_bytes()[4 - bytes..]);
            }
        }
        bits.is_over().then(|| format::decode(sample, &raw[..out.len() * bytes], out))
    }
}

impl Decode for LosslessDecoder {
    fn codec(&self) -> Codec {
        Codec::Lossless
    }

    fn decode(&mut self, payload: &[u8], out: &mut [f32]) -> Result<(), Undecodable> {
        self.read(payload, out).ok_or(Undecodable)
    }

    fn reset(&mut self) {}
}
