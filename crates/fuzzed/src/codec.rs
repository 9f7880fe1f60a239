#[path = "../../codec/tests/received/operations.rs"]
mod operations;

use tautline_codec::decoder;
use tautline_dsp::format::SampleFormat;
use tautline_proto::codec::{Codec, Coding, Opus};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::Frames;
use tautline_proto::units::{Channels, Rate};

/// Decodes payloads, each after its length. Bits 0 and 2 to 7 of the first byte select the decoder,
/// the next byte the channels. With bit 1, the bytes are packets for a receiver with all decoders.
/// Every sample is finite.
pub fn codec(bytes: &[u8]) {
    let &[which, channels, ref rest @ ..] = bytes else { return };
    let mut codecs: Vec<Codec> = Coding::compressed().filter_map(|coding| coding.codec).collect();
    codecs.dedup_by(|one, other| one.is_read_as(*other));
    let codec = codecs[usize::from(which >> 1 & !1 | which & 1) % codecs.len()];
    let Ok(channels) = Channels::new(u32::from(channels % 3) + 1) else { return };
    if which & 2 != 0 {
        operations::play(channels, rest);
        return;
    }
    let format = StreamFormat {
        rate: Rate::HZ_48000,
        channels,
        sample: SampleFormat::L24,
        codec: Some(codec),
        packet: Frames::new(240),
        payload_type: 100,
    };
    let Some(mut decoder) = decoder(codec, format.shape()) else { return };
    let mut out = vec![0.0; channels.samples_in(Opus::MAX_FRAMES)];
    let mut rest = rest;
    while let Some((&[high, low], after)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_be_bytes([high & 0x07, low])).min(after.len());
        let (payload, next) = after.split_at(len);
        rest = next;
        let Some(frames) = codec.frames(payload).filter(|frames| *frames <= Opus::MAX_FRAMES)
        else {
            decoder.reset();
            continue;
        };
        let out = &mut out[..channels.samples_in(frames)];
        if decoder.decode(payload, out).is_err() {
            decoder.conceal(out);
        }
        decoder.recover(payload, Frames::ZERO, out);
        decoder.recover(payload, frames, out);
        assert!(out.iter().all(|sample| sample.is_finite()));
    }
}
