//! A receiver gets valid and invalid compressed packets in any order.

mod operations;

use tautline_codec::encoder;
use tautline_dsp::format::SampleFormat;
use tautline_proto::codec::Codec;
use tautline_proto::stream::{Coding, StreamFormat};
use tautline_proto::time::Frames;
use tautline_proto::units::{Channels, Rate};

fn stream(coding: Coding) -> Vec<u8> {
    let Coding { sample, codec } = coding;
    let payload_type = StreamFormat::usual_payload_type(sample, codec);
    let format = StreamFormat {
        rate: Rate::HZ_48000,
        channels: Channels::STEREO,
        sample,
        codec,
        packet: Frames::new(240),
        payload_type,
    };
    let mut encoder = encoder(&format).expect("such streams are coded").expect("by a coder");
    let tone =
        |at: usize| 0.3 * ((at / 2) as f32 * 440.0 / 48_000.0 * core::f32::consts::TAU).sin();
    let sound: Vec<f32> = (0..2 * 96_000).map(tone).collect();
    let mut bytes = Vec::new();
    for block in sound.chunks_exact(480) {
        let mut room = [0; 4096];
        let len = encoder.encode(block, &mut room).expect("a packet");
        bytes.extend([payload_type - 100, 0, (len >> 8) as u8, len as u8]);
        bytes.extend(&room[..len]);
        bytes.push(0xC0 | 29);
    }
    bytes
}

const CODINGS: [Coding; 3] = [
    Coding { sample: SampleFormat::L24, codec: Some(Codec::OPUS) },
    Coding::LOSSLESS_16,
    Coding::LOSSLESS_24,
];

#[test]
fn intact_packets_are_played() {
    for coding in CODINGS {
        let played = operations::play(Channels::STEREO, &stream(coding));
        assert!(played.loud > 2 * 48_000, "{coding:?}: {played:?}");
        assert_eq!(played.undecodable, 0, "{coding:?}");
    }
}

#[test]
fn damaged_compressed_packets_decode_to_finite_samples() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut undecodable = 0;
    for round in 0..60 {
        let mut bytes = stream(CODINGS[round % 3]);
        for _ in 0..random.usize(1..200) {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
        }
        let channels =
            [Channels::MONO, Channels::STEREO, Channels::new(3).expect("it is one of them")];
        undecodable += operations::play(channels[round / 3 % 3], &bytes).undecodable;
        random.fill(&mut bytes[..10_000]);
        operations::play(Channels::STEREO, &bytes[..10_000]);
    }
    assert!(undecodable > 0, "some are none");
}
