//! Cost of echo cancellation by period and channels: `cargo run --release -p tautline-audio
//! --example echo_cost`.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::time::Instant;

use tautline_audio::echo::Canceller;
use tautline_proto::time::Frames;
use tautline_proto::units::{Channels, Rate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut random = fastrand::Rng::with_seed(1);
    for (block, channels) in
        [(48, 1), (120, 1), (240, 1), (480, 1), (48, 2), (120, 2), (240, 2), (480, 2)]
    {
        let count = Channels::new(channels)?;
        let mut canceller = Canceller::new(Rate::HZ_48000, count, count)?;
        let samples = count.samples_in(Frames::new(block));
        let mut noise = || (0..samples).map(|_| random.f32() - 0.5).collect::<Vec<f32>>();
        let (played, captured) = (noise(), noise());
        let rounds = 48_000 / block * 4;
        let began = Instant::now();
        for _ in 0..rounds {
            canceller.cancel(&mut captured.clone(), &played);
        }
        let each = began.elapsed().as_secs_f64() / rounds as f64;
        let share = each / (block as f64 / 48_000.0);
        println!(
            "{:.2} ms, {channels} channels: {:.1} us a period, {:.1} % of a core",
            block as f64 / 48.0,
            each * 1e6,
            share * 100.0
        );
    }
    Ok(())
}
