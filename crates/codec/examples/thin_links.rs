//! Speech over thin links, in simulated time: `cargo run --profile dist -p tautline-codec --example
//! thin_links SPEECH.wav FOLDER`, then `scripts/mos plc FOLDER`.
//!
//! SPEECH.wav has one channel of 16 bits at 48 kHz. FOLDER receives one WAV per link rate: from the
//! start (`start`), and after a cut from 1 Mbit/s at 12 s (`cut`). References: the speech (`clean`)
//! and the codings without loss (`floor`).
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::path::Path;
use std::sync::Arc;

use hound::{WavReader, WavSpec, WavWriter};
use tautline_proto::congestion::CodingLimits;
use tautline_proto::stream::Coding;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Channels;
use tautline_sim::clock::TrueTime;
use tautline_sim::link::{Bottleneck, PathModel};
use tautline_sim::scenario::{RealSound, Scenario};
use tautline_sim::world::duplex::Duplex;

/// As in the scenario `a_call_on_a_thin_link_is_understood`.
const RATES: [u64; 5] = [100_000, 150_000, 200_000, 300_000, 500_000];
const QUEUES: [usize; 4] = [4_000, 8_000, 16_000, 32_000];
const BEFORE: i64 = 12;
const DELAY: Span = Span::from_millis(20);

fn scenario(path: PathModel, coding: Coding, sound: &RealSound) -> Scenario {
    Scenario { sound: Some(sound.clone()), ..Scenario::call(coding, Frames::new(960), path, 1) }
}

fn call(path: PathModel, seconds: i64, sound: &RealSound) -> (Vec<f32>, String) {
    let coding = Coding::OPUS.usual_for(Channels::STEREO).at_bitrate(25_000);
    let adapts = Some(CodingLimits {
        codings: vec![Coding::OPUS, Coding::OPUS_VOICE],
        ptimes: (Span::from_micros(2500), Span::from_millis(20)),
        max_bitrate: None,
        after_loss: false,
    });
    let one = Scenario { adapts, ..scenario(path, coding, sound) };
    let mut call = Duplex::new([one.clone(), Scenario { seed: 2, ..one }]);
    let mut sent = String::new();
    for _ in 0..seconds {
        call.run(Span::from_secs(1));
        let format = call.worlds[0].sends();
        let bits = format.coding().bitrate().unwrap_or(0) / 1000;
        sent += &format!(" {}-{bits}k/{}", format.coding_name(), format.ptime());
    }
    let [one, _] = call.worlds;
    (one.finish().remove(0).played, sent)
}

fn floor(coding: Coding, seconds: i64, sound: &RealSound) -> Vec<f32> {
    let one = scenario(PathModel::ideal(DELAY), coding, sound);
    let mut call = Duplex::new([one.clone(), one]);
    call.run(Span::from_secs(seconds));
    let [one, _] = call.worlds;
    one.finish().remove(0).played
}

fn write(folder: &str, name: &str, samples: &[f32]) -> Result<(), hound::Error> {
    let spec = WavSpec {
        channels: 1,
        sample_rate: 48_000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut wav = WavWriter::create(Path::new(folder).join(format!("{name}.wav")), spec)?;
    samples.iter().try_for_each(|sample| wav.write_sample((sample * 32_767.0) as i16))?;
    wav.finalize()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [speech, folder] = &arguments[..] else {
        return Err("usage: thin_links SPEECH.wav FOLDER".into());
    };
    let samples = WavReader::open(speech)?.into_samples::<i16>();
    let samples = samples.map(|sample| sample.map(|sample| f32::from(sample) / 32_768.0));
    let sound = RealSound {
        samples: samples.collect::<Result<Arc<[f32]>, _>>()?,
        encoders: |format| tautline_codec::encoders(format, None).unwrap_or_default(),
        decoder: tautline_codec::decoder,
    };
    write(folder, "clean", &sound.samples)?;
    for coding in [Coding::OPUS, Coding::OPUS_VOICE] {
        for bits in [24_000, 32_000, 48_000, 64_000, 96_000] {
            let name = format!("floor-{}-{}k", coding.name(), bits / 1000);
            write(folder, &name, &floor(coding.at_bitrate(bits), 12, &sound))?;
        }
    }
    for rate in RATES {
        for queue in QUEUES {
            let narrow = |rate| PathModel {
                bottleneck: Some(Bottleneck { rate, queue }),
                ..PathModel::ideal(DELAY)
            };
            let cut = TrueTime::from_nanos(BEFORE * 1_000_000_000);
            let cut = PathModel { rates: vec![(cut, rate)], ..narrow(1_000_000) };
            for (how, path, seconds) in [("start", narrow(rate), 12), ("cut", cut, 24)] {
                let (received, sent) = call(path, seconds, &sound);
                let name = format!("{how}-{}k-{}kB", rate / 1000, queue / 1000);
                println!("{name}:{sent}");
                write(folder, &name, &received)?;
            }
        }
    }
    Ok(())
}
