//! Substitute for Opus: the same packet lengths and delay, but lossless output. It models a codec's
//! effect on the path, not on the sound.

use tautline_proto::codec::{Codec, Decode, Encode, Opus, Undecodable};
use tautline_proto::stream::Coding;
use tautline_proto::time::Frames;
use tautline_proto::units::{Channels, Rate};

use crate::received::{VALUES, value};
use crate::scenario::{OTHER_CHANNELS, Scenario};

pub(crate) fn codings(scenario: &Scenario) -> impl Iterator<Item = Coding> {
    let adapted = scenario.adapts.iter().flat_map(|limits| limits.codings.iter().copied());
    let own = Some(scenario.format.coding())
        .filter(|own| !adapted.clone().any(|coding| coding.is_coded_as(*own)));
    adapted.chain(own).filter(|coding| coding.codec.is_some())
}

pub(crate) fn encoders(
    codings: impl Iterator<Item = Coding>,
    channels: Channels,
) -> Vec<Box<dyn Encode>> {
    let encoder = |coding: Coding| match coding.codec {
        Some(Codec::Opus(opus)) => {
            Some(Box::new(SimEncoder { coding, opus, channels }) as Box<dyn Encode>)
        }
        _ => None,
    };
    codings.filter_map(encoder).collect()
}

pub(crate) fn decoder(
    codec: Codec,
    (_rate, channels): (Rate, Channels),
) -> Option<Box<dyn Decode>> {
    let Codec::Opus(_) = codec else { return None };
    Some(Box::new(SimDecoder { codec, channels }))
}

/// First byte (TOC) of one CELT frame of `packet` samples (RFC 6716 §3.1).
fn head(packet: Frames) -> Option<u8> {
    let celt = match packet.count() {
        120 => 16,
        240 => 17,
        480 => 18,
        960 => 19,
        _ => return None,
    };
    Some(celt << 3)
}

#[derive(Debug)]
struct SimEncoder {
    coding: Coding,
    opus: Opus,
    channels: Channels,
}

impl Encode for SimEncoder {
    fn coding(&self) -> Coding {
        self.coding
    }

    fn encode(&mut self, samples: &[f32], room: &mut [u8]) -> Option<usize> {
        let packet = Frames::from_len(samples.len() / self.channels.count());
        let index = ((samples.first()? + 1.0) * VALUES as f32 / 2.0) as i64;
        let codec = Codec::Opus(self.opus);
        let index = (index - codec.delay().count()).rem_euclid(VALUES) as u16;
        let payload = room.get_mut(..codec.payload_bytes((self.channels, packet), 0))?;
        payload.fill(0);
        let [high, low] = index.to_be_bytes();
        payload.get_mut(..3)?.copy_from_slice(&[head(packet)?, high, low]);
        Some(payload.len())
    }

    fn set_bitrate(&mut self, bitrate: u32) {
        self.opus.bitrate = bitrate;
    }

    fn reset(&mut self) {}
}

#[derive(Debug)]
struct SimDecoder {
    codec: Codec,
    channels: Channels,
}

impl Decode for SimDecoder {
    fn codec(&self) -> Codec {
        self.codec
    }

    fn decode(&mut self, payload: &[u8], out: &mut [f32]) -> Result<(), Undecodable> {
        let [_, high, low, ..] = *payload else { return Err(Undecodable) };
        let first = i64::from(u16::from_be_bytes([high, low]));
        for (index, frame) in (first..).zip(out.chunks_exact_mut(self.channels.count())) {
            frame.fill(OTHER_CHANNELS);
            frame[0] = value(index);
        }
        Ok(())
    }

    fn conceal(&mut self, out: &mut [f32]) -> bool {
        out.fill(0.0);
        true
    }

    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_codec_has_opus_delay_and_sizes() {
        let (rate, channels) = (Rate::HZ_48000, Channels::MONO);
        let mut encoder = encoders([Coding::OPUS].into_iter(), channels).remove(0);
        let mut decoder = decoder(Codec::OPUS, (rate, channels)).unwrap();
        for (first, bitrate) in [(0, 96_000), (65_500, 24_000), (40_000, 128_000)] {
            let sound: Vec<f32> = (first..first + 240).map(value).collect();
            let mut room = [0; 1000];
            encoder.set_bitrate(bitrate);
            let len = encoder.encode(&sound, &mut room).unwrap();
            assert_eq!(len, bitrate as usize / 8 / 200);
            assert_eq!(Codec::OPUS.frames(&room[..len]), Some(Frames::new(240)));
            let mut out = [0.0; 240];
            decoder.decode(&room[..len], &mut out).unwrap();
            let later: Vec<f32> = (first - 120..first + 120).map(value).collect();
            assert_eq!(out[..], later[..]);
        }
    }
}
