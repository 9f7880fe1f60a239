//! Quality of echo cancellation in two rooms: `cargo run --release -p tautline-audio --example
//! echo_table [FOLDER]`. Writes WAV files into FOLDER.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

mod signals;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use signals::{ALONE_AGAIN, AnyError, DOUBLE_TALK, END, JUMP, JUMP_BACK, RATE, ROOMS, Run};
use tautline_audio::echo::Canceller;
use tautline_proto::units::{Channels, Rate};

const PERIOD: usize = 120;
const FAR: &str = "The north wind and the sun were disputing which was the stronger, when a traveller came along \
    wrapped in a warm cloak. They agreed that the one who first succeeded in making the traveller take his cloak off \
    should be considered stronger than the other. Then the north wind blew as hard as he could, but the more he blew \
    the more closely did the traveller fold his cloak around him; and at last the north wind gave up the attempt. \
    Then the sun shone out warmly, and immediately the traveller took off his cloak.";
const NEAR: &str = "Please call Stella. Ask her to bring these things with her from the store: six spoons of fresh \
    snow peas, five thick slabs of blue cheese, and maybe a snack for her brother Bob.";

fn main() -> Result<(), AnyError> {
    let folder = std::env::args().nth(1).map(PathBuf::from);
    let far = signals::speech("en-us", FAR, END)?;
    let near = signals::speech("en-gb+f3", NEAR, ALONE_AGAIN - DOUBLE_TALK)?;
    for room in &ROOMS {
        let run = Run::new(&far, &near, room);
        let received: Vec<f32> =
            run.echo.iter().zip(&run.near).map(|(echo, near)| echo + near).collect();
        let (left, mut times) = cancelled(&run.far, &received)?;
        println!("room of {}", room.name);
        report(&run, &left);
        times.sort();
        let [middle, maximum] =
            [0.5, 0.99].map(|share| times[(times.len() as f64 * share) as usize].as_secs_f64());
        println!("  {:.1} us a period of 2.5 ms, 99 % below {:.1}", middle * 1e6, maximum * 1e6);
        if let Some(folder) = &folder {
            let name = room.name.replace(' ', "");
            for (kind, sound) in
                [("far", &run.far), ("heard", &received), ("near", &run.near), ("left", &left)]
            {
                write(&folder.join(format!("{name}-{kind}.wav")), sound)?;
            }
        }
    }
    Ok(())
}

fn cancelled(far: &[f32], received: &[f32]) -> Result<(Vec<f32>, Vec<Duration>), AnyError> {
    let one = Channels::new(1)?;
    let mut canceller = Canceller::new(Rate::HZ_48000, one, one)?;
    let mut left = received.to_vec();
    let mut times = Vec::new();
    for (captured, played) in left.chunks_exact_mut(PERIOD).zip(far.chunks_exact(PERIOD)) {
        let began = Instant::now();
        canceller.cancel(captured, played);
        times.push(began.elapsed());
    }
    Ok((left, times))
}

fn power(sound: impl Iterator<Item = f32>) -> f64 {
    sound.map(|sample| f64::from(sample).powi(2)).sum::<f64>().max(1e-20)
}

fn decibels(ratio: f64) -> f64 {
    10.0 * ratio.log10()
}

fn report(run: &Run, left: &[f32]) {
    let less = |from: usize, to: usize| {
        decibels(power(run.echo[from..to].iter().copied()) / power(left[from..to].iter().copied()))
    };
    let by_second = |seconds: std::ops::Range<usize>| {
        seconds
            .map(|second| format!("{:6.1}", less(second * RATE, (second + 1) * RATE)))
            .collect::<String>()
    };
    println!("  ERLE by second: {}", by_second(0..DOUBLE_TALK));
    println!("  ERLE after 5 to 7 s: {:.1} dB", less(5 * RATE, 7 * RATE));
    let both = DOUBLE_TALK * RATE..ALONE_AGAIN * RATE;
    let near = &run.near[both.clone()];
    let differs = near.iter().zip(&left[both]).map(|(near, left)| left - near);
    println!(
        "  SDR of the near speech in double talk: {:.1} dB",
        decibels(power(near.iter().copied()) / power(differs))
    );
    println!(
        "  ERLE by second before, after a jump and after one back: {} |{} |{}",
        by_second(ALONE_AGAIN..JUMP),
        by_second(JUMP..JUMP_BACK),
        by_second(JUMP_BACK..END)
    );
    for (what, at) in [("jump", JUMP), ("jump back", JUMP_BACK)] {
        let tenths: String = (0..12)
            .map(|tenth| {
                let from = at * RATE + tenth * RATE / 10;
                format!("{:6.1}", less(from, from + RATE / 10))
            })
            .collect();
        println!("  by tenths of a second after the {what}: {tenths}");
    }
}

fn write(path: &Path, sound: &[f32]) -> Result<(), AnyError> {
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: RATE as u32,
        bits_per_sample: 32,
        sample_format: hound::SampleFormat::Float,
    };
    let mut writer = hound::WavWriter::create(path, spec)?;
    sound.iter().try_for_each(|sample| writer.write_sample(*sample))?;
    Ok(writer.finalize()?)
}
