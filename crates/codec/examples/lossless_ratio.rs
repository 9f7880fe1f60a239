//! Compression ratio of the lossless codec, by packet length: `ffmpeg -i assets/recording.flac -f
//! s32le - | cargo run -p tautline-codec --example lossless_ratio`.

#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::io::{self, Read};

use tautline_codec::LosslessEncoder;
use tautline_dsp::format::SampleFormat;
use tautline_proto::codec::Encode;
use tautline_proto::units::Channels;

fn main() -> io::Result<()> {
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes)?;
    let samples = bytes.as_chunks().0.iter();
    let full = -f64::from(i32::MIN);
    let sound: Vec<f32> =
        samples.map(|bytes| (f64::from(i32::from_le_bytes(*bytes)) / full) as f32).collect();
    let mut room = [0; 1 << 13];
    for sample in [SampleFormat::L16, SampleFormat::L24] {
        for (ptime, frames) in [("1 ms", 48), ("2.5 ms", 120), ("5 ms", 240), ("20 ms", 960)] {
            let mut encoder = LosslessEncoder::new(sample, Channels::STEREO);
            let coded = |block| encoder.encode(block, &mut room).unwrap_or_default();
            let coded: usize = sound.chunks_exact(2 * frames).map(coded).sum();
            let raw = sound.len() * sample.bytes();
            println!("{}, {ptime}: {:.1} %", sample.name(), 100.0 * coded as f64 / raw as f64);
        }
    }
    Ok(())
}
