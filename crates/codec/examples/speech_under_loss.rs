//! Speech as received after loss, for a metric such as PLCMOS: `cargo run -p tautline-codec
//! --features bundled --example speech_under_loss -- OUT_DIR SPEECH.wav...`
//!
//! Reads mono WAV files with 16 bits at 48 kHz. Writes `BITRATE-LOSS-AHEAD-WAY-NAME.wav`. `AHEAD`
//! is the number of packets between a loss and its playout.
#![expect(clippy::unwrap_used, reason = "a tool for developers")]

use std::path::{Path, PathBuf};

use hound::{WavReader, WavWriter};
use tautline_codec::{OpusDecoder, OpusEncoder};
use tautline_proto::codec::{Decode, Encode, Opus, OpusTuning};
use tautline_proto::time::Frames;
use tautline_proto::units::{Channels, Rate};

const PACKET: usize = 960;
const MAX_BYTES: usize = 1275;
const BITRATES: [u32; 3] = [24_000, 32_000, 48_000];
const AHEADS: [usize; 3] = [1, 3, 5];

/// Name, percentage, and packets per burst.
const LOSSES: [(&str, u8, usize); 5] = [
    ("none", 0, 1),
    ("random5", 5, 1),
    ("random10", 10, 1),
    ("random20", 20, 1),
    ("bursts10", 10, 3),
];

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Plain,
    Fec,
    Dred,
    /// Half of the bits for a copy of the earliest packet that the latency permits.
    Copy,
}

const WAYS: [(&str, Way); 4] =
    [("plain", Way::Plain), ("fec", Way::Fec), ("dred", Way::Dred), ("copy", Way::Copy)];

fn main() {
    let mut args = std::env::args().skip(1).map(PathBuf::from);
    let folder = args.next().unwrap();
    for file in args {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let speech = read(&file);
        for bitrate in BITRATES {
            for (loss, percent, burst) in LOSSES {
                let lost = losses(speech.len() / PACKET, percent, burst, &name);
                for (way_name, way) in WAYS {
                    let packets = encode(&speech, bitrate, percent, way);
                    for ahead in AHEADS {
                        if (loss == "none" || way == Way::Plain) && ahead > 1 {
                            continue;
                        }
                        let received = receive(&packets, &lost, (ahead, way));
                        let bitrate = bitrate / 1000;
                        let to = format!("{bitrate}k-{loss}-{ahead}-{way_name}-{name}.wav");
                        write(&folder.join(to), &received);
                    }
                }
            }
        }
    }
}

fn read(file: &Path) -> Vec<f32> {
    let mut wav = WavReader::open(file).unwrap();
    let spec = wav.spec();
    assert_eq!((spec.sample_rate, spec.channels), (48_000, 1), "{}", file.display());
    wav.samples::<i16>().map(|sample| f32::from(sample.unwrap()) / 32768.0).collect()
}

fn write(file: &Path, samples: &[f32]) {
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: 48_000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut wav = WavWriter::create(file, spec).unwrap();
    for sample in samples {
        wav.write_sample((sample * 32767.0).clamp(-32768.0, 32767.0) as i16).unwrap();
    }
    wav.finalize().unwrap();
}

fn losses(packets: usize, percent: u8, burst: usize, name: &str) -> Vec<bool> {
    let seed = name.bytes().fold(7_u64, |seed, byte| seed.wrapping_mul(31) + u64::from(byte));
    let mut random = fastrand::Rng::with_seed(seed);
    let share = f64::from(percent) / 100.0;
    let begins = share / (burst as f64 * (1.0 - share) + share);
    let (mut lost, mut left) = (Vec::new(), 0);
    for _ in 0..packets {
        if left == 0 && random.f64() < begins {
            left = burst;
        }
        lost.push(left > 0);
        left = left.saturating_sub(1);
    }
    lost
}

fn encode(speech: &[f32], bitrate: u32, percent: u8, way: Way) -> Vec<Vec<u8>> {
    let bitrate = if way == Way::Copy { bitrate / 2 } else { bitrate };
    let opus = Opus { bitrate, ..Opus::usual(OpusTuning::Voice, Channels::MONO) };
    let mut encoder = OpusEncoder::new(opus, Channels::MONO).unwrap();
    encoder.expect_loss(if matches!(way, Way::Plain | Way::Copy) { 0 } else { percent });
    if way == Way::Dred {
        encoder.carry_dred().unwrap();
    }
    let code = |block: &[f32]| {
        let mut room = [0; MAX_BYTES];
        let bytes = encoder.encode(block, &mut room).unwrap();
        room[..bytes].to_vec()
    };
    speech.chunks_exact(PACKET).map(code).collect()
}

fn receive(packets: &[Vec<u8>], lost: &[bool], (ahead, way): (usize, Way)) -> Vec<f32> {
    let mut decoder = OpusDecoder::new(Rate::HZ_48000, Channels::MONO).unwrap();
    let (mut received, mut out) = (Vec::new(), [0.0; PACKET]);
    for (at, packet) in packets.iter().enumerate() {
        let has_copy = way == Way::Copy && lost.get(at + ahead) == Some(&false);
        if !lost[at] || has_copy {
            decoder.decode(packet, &mut out).unwrap();
        } else {
            let later = (at + 1..packets.len().min(at + 1 + ahead)).find(|later| !lost[*later]);
            let recovered = later.is_some_and(|later| {
                let between = Frames::from_len((later - at - 1) * PACKET);
                decoder.recover(&packets[later], between, &mut out)
            });
            if !recovered && !decoder.conceal(&mut out) {
                out.fill(0.0);
            }
        }
        received.extend(out);
    }
    received
}
