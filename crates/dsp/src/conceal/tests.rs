use proptest::prelude::*;

use super::*;

const RATE: u32 = 48_000;

fn tone(hertz: f64, frames: core::ops::Range<usize>) -> Vec<f32> {
    let phase = |at: usize| 2.0 * PI * hertz * at as f64 / f64::from(RATE);
    frames.map(|at| (0.5 * phase(at).sin() + 0.2 * (2.0 * phase(at)).cos()) as f32).collect()
}

fn greatest(samples: &[f32]) -> f32 {
    samples.iter().fold(0.0, |peak, sample| sample.abs().max(peak))
}

fn after_a_tone(hertz: f64, hole: usize) -> (Concealer, Vec<f32>) {
    let mut concealer = Concealer::new(1, RATE);
    concealer.sound(&mut tone(hertz, 0..4800));
    let mut samples = vec![9.0; hole];
    concealer.conceal(&mut samples);
    (concealer, samples)
}

#[test]
fn a_stream_that_begins_is_not_faded() {
    let mut concealer = Concealer::new(2, RATE);
    let mut samples = [0.5; 4];
    concealer.conceal(&mut samples);
    assert_eq!(samples, [0.0; 4]);
    let mut samples = [0.3; 4];
    concealer.sound(&mut samples);
    assert_eq!(samples, [0.3; 4]);
    assert_eq!(concealer.concealed(), 0);
}

#[test]
fn a_tone_goes_on_in_a_hole_as_if_nothing_were_missing() {
    for hertz in [200.0, 440.0, 1234.5, 3000.0, 9000.0] {
        let (_, samples) = after_a_tone(hertz, 240);
        for (at, (reported, sent)) in samples.iter().zip(tone(hertz, 4800..5040)).enumerate() {
            assert!((reported - sent).abs() < 0.2, "{hertz} Hz, {at}: {reported} for {sent}");
        }
    }
}

#[test]
fn a_long_hole_falls_to_silence_within_50_ms() {
    let (mut concealer, samples) = after_a_tone(440.0, 4800);
    let peak = |range: core::ops::Range<usize>| greatest(&samples[range]);
    assert!(peak(0..480) > 0.6, "as loud as before for 10 ms");
    assert!(peak(1200..1440) > peak(1680..1920) && peak(1680..1920) > peak(2160..2400));
    assert!(peak(2300..2400) > 0.0);
    assert_eq!(peak(2400..4800), 0.0);
    assert_eq!(concealer.concealed(), 2400);
    let mut again = vec![9.0; 48];
    concealer.conceal(&mut again);
    assert_eq!(again, [0.0; 48]);
}

#[test]
fn silence_goes_on_as_silence_whatever_was_before_it() {
    let mut concealer = Concealer::new(1, 48_000);
    let noise =
        |index: u32| f32::from(index.wrapping_mul(0x9E37_79B9).to_be_bytes()[0]) / 256.0 - 0.5;
    let mut sound: Vec<f32> = (0..1440).map(noise).collect();
    sound[1200..].fill(0.0);
    concealer.sound(&mut sound);
    let mut hole = [1.0; 2400];
    concealer.conceal(&mut hole);
    assert_eq!(greatest(&hole), 0.0);
}

#[test]
fn returned_sound_is_complete_after_1_ms() {
    for hole in [48, 240, 1000, 5000] {
        let (mut concealer, samples) = after_a_tone(440.0, hole);
        let sent = tone(440.0, 4800 + hole..4900 + hole);
        let mut back = sent.clone();
        concealer.sound(&mut back);
        assert_eq!(concealer.return_frames(), 48);
        assert_eq!(back[48..], sent[48..], "{hole}");
        assert!(concealer.is_transparent());
        let whole: Vec<f32> = samples.into_iter().chain(back).collect();
        for pair in whole.windows(2) {
            assert!((pair[1] - pair[0]).abs() < 0.06, "no click: {hole}, {pair:?}");
        }
    }
}

#[test]
fn cut_crossfades_from_old_to_new_sound() {
    let mut concealer = Concealer::new(1, RATE);
    concealer.sound(&mut tone(440.0, 0..4800));
    concealer.cut();
    assert!(!concealer.is_transparent());
    let sent = tone(300.0, 6000..6100);
    let mut samples = sent.clone();
    concealer.sound(&mut samples);
    let next = tone(440.0, 4800..4801)[0];
    assert!((samples[0] - next).abs() < 0.01, "{} follows {next}", samples[0]);
    assert!(samples.windows(2).all(|pair| (pair[1] - pair[0]).abs() < 0.08));
    assert_eq!(samples[48..], sent[48..]);
}

#[test]
fn ended_source_fades_immediately_without_concealment() {
    let mut concealer = Concealer::new(1, RATE);
    concealer.sound(&mut tone(440.0, 0..4815));
    concealer.end();
    let last = tone(440.0, 4814..4815)[0];
    let mut samples = [9.0; 96];
    concealer.conceal(&mut samples);
    assert!((samples[0] - last).abs() < 0.02 * last.abs());
    assert!(samples.windows(2).all(|pair| pair[1].abs() <= pair[0].abs()));
    assert_eq!(samples[32..], [0.0; 64]);
    assert_eq!(concealer.concealed(), 0);
}

#[test]
fn after_a_cut_an_end_is_forgotten() {
    let mut concealer = Concealer::new(1, RATE);
    concealer.end();
    concealer.cut();
    concealer.sound(&mut tone(440.0, 0..4800));
    concealer.conceal(&mut [9.0; 96]);
    assert_eq!(concealer.concealed(), 96);
}

#[test]
fn too_little_sound_to_learn_from_fades() {
    let mut concealer = Concealer::new(1, RATE);
    concealer.sound(&mut tone(440.0, 0..400));
    let mut samples = [9.0; 96];
    concealer.conceal(&mut samples);
    assert_eq!(samples[32..], [0.0; 64]);
}

#[test]
fn each_channel_goes_on_by_itself_and_those_beyond_sixteen_fade() {
    let channels = 20;
    let sent = |frames: core::ops::Range<usize>| -> Vec<f32> {
        let each: Vec<_> =
            (0..channels).map(|c| tone(200.0 + 50.0 * c as f64, frames.clone())).collect();
        (0..frames.len()).flat_map(|at| each.iter().map(move |one| one[at])).collect()
    };
    let mut concealer = Concealer::new(channels, RATE);
    concealer.sound(&mut sent(0..4800));
    let mut samples = vec![9.0; 48 * channels];
    concealer.conceal(&mut samples);
    let wanted = sent(4800..4848);
    for (at, (reported, wanted)) in samples.iter().zip(&wanted).enumerate() {
        if at % channels < 16 {
            assert!((reported - wanted).abs() < 0.05, "{at}: {reported} for {wanted}");
        } else if at / channels >= 32 {
            assert_eq!(*reported, 0.0, "{at}");
        }
    }
}

#[test]
fn every_rate_is_concealed() {
    let rates = [8000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 88_200, 96_000, 192_000];
    for rate in rates {
        let mut concealer = Concealer::new(1, rate);
        let frames = rate as usize / 10;
        let phase = |at: usize| 2.0 * PI * 440.0 * at as f64 / f64::from(rate);
        let mut sent = (0..frames + 100).map(|at| (0.5 * phase(at).sin()) as f32);
        let mut before: Vec<f32> = sent.by_ref().take(frames).collect();
        concealer.sound(&mut before);
        let mut samples = [9.0; 100];
        concealer.conceal(&mut samples);
        for (reported, sent) in samples.iter().zip(sent) {
            assert!((reported - sent).abs() < 0.05, "{rate}: {reported} for {sent}");
        }
    }
}

#[test]
fn burgs_method_finds_the_model_that_made_a_signal() {
    let (first, second) = (2.0 * 0.95 * 0.7_f64.cos(), -0.95_f64 * 0.95);
    let (mut noise, mut before) = (1_u32, [0.0_f64; 2]);
    let signal: Vec<f32> = (0..4000)
        .map(|_| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let drive = f64::from(noise >> 8) / f64::from(1 << 24) - 0.5;
            let next = first * before[0] + second * before[1] + 0.1 * drive;
            before = [next, before[0]];
            next as f32
        })
        .collect();
    let mut fitter = model::Fitter::new(signal.len(), 2);
    fitter.window(signal.len()).copy_from_slice(&signal);
    let mut model = [0.0_f64; 2];
    fitter.fit(signal.len(), &mut model);
    assert!((model[1] - first).abs() < 0.02, "{model:?}");
    assert!((model[0] - second).abs() < 0.02, "{model:?}");
}

#[derive(Debug, Clone, Copy)]
enum Piece {
    Sound(usize),
    Hole(usize),
    Cut,
    End,
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let piece = prop_oneof![
        8 => (0..900_usize).prop_map(Piece::Sound),
        8 => (0..300_usize).prop_map(Piece::Hole),
        1 => (2000..4000_usize).prop_map(Piece::Hole),
        2 => Just(Piece::Cut),
        1 => Just(Piece::End),
    ];
    prop::collection::vec(piece, 1..24)
}

fn with_holes(pieces: &[Piece], block: usize, sample: impl Fn(usize) -> f32) -> Vec<f32> {
    let mut concealer = Concealer::new(2, RATE);
    let (mut out, mut at) = (vec![], 0);
    for piece in pieces {
        let (frames, sound) = match *piece {
            Piece::Sound(frames) => (frames, true),
            Piece::Hole(frames) => (frames, false),
            Piece::Cut => {
                concealer.cut();
                continue;
            }
            Piece::End => {
                concealer.end();
                continue;
            }
        };
        let mut samples: Vec<f32> = (2 * at..2 * (at + frames)).map(&sample).collect();
        for block in samples.chunks_mut(2 * block) {
            if sound { concealer.sound(block) } else { concealer.conceal(block) }
        }
        at += frames;
        out.extend(samples);
    }
    out
}

fn wild(seed: u64) -> impl Fn(usize) -> f32 {
    move |index| match (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ seed {
        drawn if drawn % 7 == 0 => f32::NAN,
        drawn if drawn % 11 == 0 => f32::INFINITY,
        drawn if drawn % 13 == 0 => f32::MIN_POSITIVE / 4.0,
        drawn => f32::from_bits((drawn >> 20) as u32),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_gets_louder_than_the_sound_was(pieces in pieces(), seed in any::<u64>()) {
        let noise = |index: usize| {
            let drawn = (index as u64 ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            drawn as f32 / (1 << 23) as f32 - 1.0
        };
        let out = with_holes(&pieces, usize::MAX / 2, noise);
        prop_assert!(greatest(&out) <= 1.0, "{}", greatest(&out));
    }

    #[test]
    fn a_steady_tone_never_clicks(pieces in pieces()) {
        let out = with_holes(&pieces, 48, |index| {
            (0.5 * (2.0 * PI * 300.0 * (index / 2) as f64 / f64::from(RATE)).sin()) as f32
        });
        let first = out.iter().position(|s| *s != 0.0).unwrap_or(out.len()) / 2;
        for at in first + 1..out.len() / 2 {
            // The tone moves by 0.02; the fade by 0.05.
            let step = (out[2 * at] - out[2 * at - 2]).abs();
            prop_assert!(step < 0.1, "{step} at {at}");
        }
    }

    #[test]
    fn the_size_of_the_blocks_changes_nothing(pieces in pieces()) {
        let sample = |index: usize| ((index / 2) as f32 * 0.05).sin() * 0.5;
        prop_assert_eq!(
            with_holes(&pieces, usize::MAX / 2, sample),
            with_holes(&pieces, 7, sample)
        );
    }

    #[test]
    fn nan_and_huge_samples_leave_holes_finite(
        pieces in pieces(), seed in any::<u64>()
    ) {
        let mut concealer = Concealer::new(2, RATE);
        for piece in &pieces {
            match *piece {
                Piece::Sound(frames) => {
                    let mut samples: Vec<f32> = (0..2 * frames).map(wild(seed)).collect();
                    concealer.sound(&mut samples);
                }
                Piece::Hole(frames) => {
                    let mut samples = vec![f32::NAN; 2 * frames];
                    concealer.conceal(&mut samples);
                    prop_assert!(samples.iter().all(|sample| sample.is_finite()));
                }
                Piece::Cut => concealer.cut(),
                Piece::End => concealer.end(),
            }
        }
    }
}
