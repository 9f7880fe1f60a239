//! Distance of concealed holes from the original. With `--nocapture`, prints the tables of
//! docs/performance.md.
#![expect(clippy::print_stdout, reason = "the tables are for docs/performance.md")]
#![expect(clippy::unwrap_used, reason = "a test that cannot read the recording has failed")]

mod distance;
mod loss;
mod material;
mod recording;

use distance::{inside_holes, log_spectral, median};
use loss::{Cover, Loss};

const RATE: usize = 48_000;

/// Packet time in microseconds, packets per run.
const LOSSES: [(usize, usize); 12] = [
    (1000, 1),
    (1000, 2),
    (1000, 3),
    (1000, 5),
    (2500, 1),
    (2500, 2),
    (2500, 3),
    (2500, 5),
    (5000, 1),
    (5000, 2),
    (5000, 3),
    (5000, 5),
];

const COVERS: [Cover; 4] =
    [Cover::Concealment, Cover::Silence, Cover::Repetition, Cover::SmoothRepetition];

#[derive(Default, Clone)]
struct Distances {
    spectral: Vec<f64>,
    inside: Vec<f64>,
}

impl Distances {
    fn add(&mut self, other: &Self) {
        self.spectral.extend(&other.spectral);
        self.inside.extend(&other.inside);
    }
}

fn measured(cover: Cover, sent: &[f32], loss: &Loss) -> Distances {
    let received = cover.received(sent, loss);
    Distances {
        spectral: log_spectral(sent, &received, loss),
        inside: inside_holes(sent, &received, loss),
    }
}

fn row(name: &str, of: &[Distances]) -> Vec<f64> {
    let spectral: Vec<f64> = of.iter().map(|one| median(one.spectral.clone())).collect();
    let inside: Vec<f64> = of.iter().map(|one| median(one.inside.clone())).collect();
    let show = |figures: &[f64]| {
        figures.iter().map(|figure| format!(" {figure:.1} |")).collect::<String>()
    };
    println!("| {name} |{}{}", show(&spectral), show(&inside));
    spectral
}

fn heading(first: &str) {
    println!(
        "\n| {first} | LSD (dB): concealed | silence | repetition | smoothed \
         | SNR (dB): concealed | silence | repetition | smoothed |"
    );
    println!("|{}", "---|".repeat(2 * COVERS.len() + 1));
}

#[test]
fn concealment_beats_silence_and_repetition() {
    let materials = [
        ("speech, made", material::speech(6)),
        ("chords, made", material::chords(6)),
        ("drums, made", material::drums(6)),
        ("recording, speech over music", recording::mono(3.75, 9.2)),
        ("recording, music", recording::mono(0.1, 2.0)),
    ];
    let mut by_loss = vec![vec![Distances::default(); COVERS.len()]; LOSSES.len()];
    heading("material");
    for (name, sent) in &materials {
        let mut all = vec![Distances::default(); COVERS.len()];
        for ((packet, run), by_loss) in LOSSES.iter().zip(&mut by_loss) {
            let loss = Loss::new(sent.len(), *packet, *run, (packet + run) as u64);
            for ((cover, all), by_loss) in COVERS.iter().zip(&mut all).zip(by_loss) {
                let distances = measured(*cover, sent, &loss);
                all.add(&distances);
                by_loss.add(&distances);
            }
        }
        let medians = row(name, &all);
        for (cover, other) in COVERS.iter().zip(&medians).skip(1) {
            assert!(medians[0] < 0.95 * other, "{name}, {cover:?}: {medians:?}");
        }
    }
    heading("lost at a time");
    for ((packet, run), distances) in LOSSES.iter().zip(&by_loss) {
        row(&format!("{run} × {} ms", *packet as f64 / 1000.0), distances);
    }
}
