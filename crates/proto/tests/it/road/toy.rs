//! Test codec in place of Opus, with look-ahead and copies. Logs decoder calls.

use std::cell::RefCell;

use tautline_dsp::format::SampleFormat;
use tautline_proto::codec::{Codec, Decode, Encode, Undecodable};
use tautline_proto::stream::Coding;
use tautline_proto::time::Frames;
use tautline_proto::units::{Channels, Rate};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requested {
    Decode(u16),
    Recover(u16),
    Conceal(usize),
    Reset,
}

thread_local! {
    static ASKED: RefCell<Vec<Requested>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn requested() -> Vec<Requested> {
    ASKED.take()
}

fn note(requested: Requested) {
    ASKED.with_borrow_mut(|all| all.push(requested));
}

pub(crate) const CONCEALED: f32 = 1.5;

/// The payload is frames, number, samples, then samples of the previous packet.
const HEAD: usize = 3;

#[derive(Debug)]
struct Encoder {
    codec: Codec,
    channels: Channels,
    number: u16,
    /// Look-ahead and previous packet.
    held: Vec<i16>,
    before: Vec<i16>,
}

pub(crate) fn encoder(codec: Codec, channels: Channels) -> Box<dyn Encode> {
    let held = vec![0; codec.delay().as_len()];
    Box::new(Encoder { codec, channels, number: 0, held, before: Vec::new() })
}

/// First byte of a CELT packet (RFC 6716 §3.1).
fn head_of(frames: usize) -> u8 {
    (28 + (frames / 120).trailing_zeros() as u8) << 3
}

impl Encode for Encoder {
    fn coding(&self) -> Coding {
        Coding { sample: SampleFormat::L24, codec: Some(self.codec) }
    }

    fn encode(&mut self, samples: &[f32], room: &mut [u8]) -> Option<usize> {
        let first = samples.chunks(self.channels.count()).map(|frame| (frame[0] * 32_768.0) as i16);
        self.held.extend(first);
        let frames = samples.len() / self.channels.count();
        let now: Vec<i16> = self.held.drain(..frames).collect();
        self.before.resize(frames, 0);
        room[0] = head_of(frames);
        room[1..HEAD].copy_from_slice(&self.number.to_be_bytes());
        for (place, sample) in room[HEAD..].chunks_mut(2).zip(now.iter().chain(&self.before)) {
            place.copy_from_slice(&sample.to_be_bytes());
        }
        (self.before, self.number) = (now, self.number + 1);
        Some(HEAD + 4 * frames)
    }

    fn reset(&mut self) {}
}

#[derive(Debug)]
struct Decoder {
    codec: Codec,
    channels: Channels,
    last: Option<u16>,
}

pub(crate) fn decoder(codec: Codec, (_, channels): (Rate, Channels)) -> Option<Box<dyn Decode>> {
    let is_toy = matches!(codec, Codec::Opus(_));
    is_toy.then(|| Box::new(Decoder { codec, channels, last: None }) as Box<dyn Decode>)
}

impl Decoder {
    fn fill(&self, bytes: &[u8], out: &mut [f32]) {
        for (frame, two) in out.chunks_mut(self.channels.count()).zip(bytes.as_chunks().0) {
            let sample = f32::from(i16::from_be_bytes(*two)) / 32_768.0;
            frame
                .iter_mut()
                .enumerate()
                .for_each(|(c, s)| *s = if c % 2 == 0 { sample } else { -sample });
        }
    }
}

impl Decode for Decoder {
    fn codec(&self) -> Codec {
        self.codec
    }

    fn decode(&mut self, payload: &[u8], out: &mut [f32]) -> Result<(), Undecodable> {
        let frames = out.len() / self.channels.count();
        assert_eq!(self.codec.frames(payload), Some(Frames::from_len(frames)));
        if payload.len() != HEAD + 4 * frames {
            return Err(Undecodable);
        }
        let number = u16::from_be_bytes([payload[1], payload[2]]);
        assert!(self.last.is_none_or(|last| last < number), "{number} after {:?}", self.last);
        self.last = Some(number);
        note(Requested::Decode(number));
        self.fill(&payload[HEAD..], out);
        Ok(())
    }

    fn recover(&mut self, next: &[u8], ahead: Frames, out: &mut [f32]) -> bool {
        let frames = out.len() / self.channels.count();
        if ahead > Frames::ZERO || next.len() != HEAD + 4 * frames {
            return false;
        }
        note(Requested::Recover(u16::from_be_bytes([next[1], next[2]])));
        self.fill(&next[HEAD + 2 * frames..], out);
        true
    }

    fn conceal(&mut self, out: &mut [f32]) -> bool {
        note(Requested::Conceal(out.len() / self.channels.count()));
        for frame in out.chunks_mut(self.channels.count()) {
            frame
                .iter_mut()
                .enumerate()
                .for_each(|(c, s)| *s = if c % 2 == 0 { CONCEALED } else { -CONCEALED });
        }
        true
    }

    fn reset(&mut self) {
        self.last = None;
        note(Requested::Reset);
    }
}
