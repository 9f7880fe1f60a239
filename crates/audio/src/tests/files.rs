//! What is read, what is refused, and how.

use tautline_trial::snapshot;

use std::path::Path;

use hound::WavWriter;
use tautline_dsp::format::SampleFormat;
use tautline_proto::device::{DeviceError, Direction};

use super::{Folder, floats, pattern, settings, spec, write_wav};
use crate::software::file::{FileCoding, FileReader, Flaws};
use crate::{DeviceSpec, Extras, FileFormat, SoftwareSpec, open};

fn read(path: &Path) -> (Vec<f32>, Flaws) {
    let mut reader = FileReader::open(path).unwrap();
    let (mut all, mut some) = (vec![], vec![]);
    while reader.read(&mut some) {
        all.extend_from_slice(&some);
    }
    (all, reader.flaws())
}

fn probe(path: &Path) -> Result<FileFormat, DeviceError> {
    FileReader::open(path).map(|reader| reader.format())
}

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

fn extras() -> Extras {
    Extras { listener: None, record_format: SampleFormat::L16 }
}

/// Why `path` cannot be captured from as 48 kHz stereo.
fn refused(path: &Path, direction: Direction) -> String {
    match open(
        &DeviceSpec::Software(SoftwareSpec::File(path.into())),
        direction,
        settings(48, 2),
        extras(),
    ) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{} was opened", path.display()),
    }
}

#[test]
fn integer_wav_files_are_read_bit_for_bit() {
    let folder = Folder::new();
    for bits in [16, 24] {
        let path = folder.path("a.wav");
        write_wav(&path, spec(48_000, 2, bits as u16), &pattern(bits, 9_998));
        assert_eq!(read(&path), (floats(bits, &pattern(bits, 9_998)), Flaws::default()));
        let format = probe(&path).unwrap();
        assert_eq!((format.coding, format.frames), (FileCoding::Integer(bits), Some(4_999)));
    }
}

#[test]
fn float_wav_files_are_read_bit_for_bit() {
    let folder = Folder::new();
    let path = folder.path("a.wav");
    let samples = [0.1, -0.0, f32::MIN_POSITIVE, 1.5, -2.0, 0.333_333_34];
    let mut spec = spec(44_100, 2, 32);
    spec.sample_format = hound::SampleFormat::Float;
    let mut writer = WavWriter::create(&path, spec).unwrap();
    samples.iter().for_each(|&sample| writer.write_sample(sample).unwrap());
    writer.finalize().unwrap();
    let bits = |samples: &[f32]| samples.iter().map(|s| s.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&read(&path).0), bits(&samples));
    let format = probe(&path).unwrap();
    assert_eq!((format.coding, format.rate.hertz()), (FileCoding::Float, 44_100));
    assert_eq!(format.coding.exact_format(), SampleFormat::F32);
}

#[test]
fn flac_files_are_read_bit_for_bit() {
    for (name, bits) in [("pattern16.flac", 16), ("pattern24.flac", 24)] {
        let (samples, flaws) = read(&fixture(name));
        assert!(samples == floats(bits, &pattern(bits, 1000)), "{name}");
        assert_eq!(flaws, Flaws::default());
        assert_eq!(probe(&fixture(name)).unwrap().coding, FileCoding::Integer(bits));
    }
}

#[test]
fn a_wav_that_was_cut_is_refused_with_what_is_there() {
    let folder = Folder::new();
    let path = folder.path("cut.wav");
    for bits in [16, 24] {
        write_wav(&path, spec(48_000, 2, bits as u16), &pattern(bits, 10_000));
        let bytes = std::fs::read(&path).unwrap();
        let frame = bits as usize / 4;
        let header = bytes.len() - 5000 * frame;
        // 1500 frames, and half of one more.
        std::fs::write(&path, &bytes[..header + 1500 * frame + frame / 2]).unwrap();
        let sentence = refused(&path, Direction::Capture);
        let promise = ": the file is cut: it promises 5000 frames and holds 1500; copy it again, ";
        assert!(sentence.contains(promise), "{sentence}");
        let command = format!("sox {} {}", path.display(), folder.path("cut-rest.wav").display());
        assert!(sentence.ends_with(&command), "{sentence}");
        assert!(probe(&path).is_err());
        // Nothing but the header.
        std::fs::write(&path, &bytes[..header]).unwrap();
        let sentence = refused(&path, Direction::Capture);
        snapshot!(sentence);
        // One byte is missing.
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        snapshot!(refused(&path, Direction::Capture));
        std::fs::write(&path, &bytes).unwrap();
        assert!(probe(&path).is_ok());
    }
}

#[test]
fn a_wav_whose_header_was_cut_is_refused() {
    let folder = Folder::new();
    let path = folder.path("cut.wav");
    write_wav(&path, spec(48_000, 2, 24), &pattern(24, 40));
    let bytes = std::fs::read(&path).unwrap();
    for length in 1..bytes.len() {
        std::fs::write(&path, &bytes[..length]).unwrap();
        let sentence = refused(&path, Direction::Capture);
        assert_eq!(sentence.lines().count(), 1, "{sentence}");
    }
}

#[test]
fn a_wav_of_unknown_length_is_read_to_its_end() {
    let folder = Folder::new();
    let path = folder.path("piped.wav");
    let samples = pattern(16, 5_002);
    write_wav(&path, spec(48_000, 2, 16), &samples);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4..8].fill(0xff);
    bytes[40..44].fill(0xff);
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(read(&path), (floats(16, &samples), Flaws::default()));
}

#[test]
fn a_flac_that_was_cut_says_how_much_is_missing() {
    let folder = Folder::new();
    let path = folder.path("cut.flac");
    let bytes = std::fs::read(fixture("pattern16.flac")).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let (read, flaws) = read(&path);
    let (given, promised) = flaws.cut.unwrap();
    assert!(given < promised && promised == 500 && read.len() as u64 == given * 2);
}

#[test]
fn no_prefix_of_a_file_is_a_panic() {
    let folder = Folder::new();
    let path = folder.path("prefix");
    write_wav(&path, spec(48_000, 2, 24), &pattern(24, 40));
    for bytes in [
        std::fs::read(&path).unwrap(),
        std::fs::read(fixture("pattern16.flac")).unwrap()[..300].to_vec(),
    ] {
        for length in 0..bytes.len() {
            std::fs::write(&path, &bytes[..length]).unwrap();
            if FileReader::open(&path).is_ok() {
                read(&path);
            }
        }
    }
}

#[test]
fn no_damage_to_a_file_is_a_panic_or_an_endless_one() {
    let folder = Folder::new();
    let path = folder.path("damaged");
    write_wav(&path, spec(48_000, 2, 24), &pattern(24, 40));
    let originals =
        [std::fs::read(&path).unwrap(), std::fs::read(fixture("pattern16.flac")).unwrap()];
    // Numerical Recipes' generator; the same damage every time.
    let mut state = 1_u32;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % below
    };
    for round in 0..400 {
        let mut bytes = originals[round % 2].clone();
        for _ in 0..=random(4) {
            // Mostly the header, where the lies are.
            let reach = if random(3) == 0 { bytes.len() } else { 80 };
            bytes[random(reach)] = random(256) as u8;
        }
        std::fs::write(&path, &bytes).unwrap();
        let Ok(mut reader) = FileReader::open(&path) else { continue };
        let (mut some, mut total) = (vec![], 0);
        while reader.read(&mut some) {
            total += some.len();
            assert!(total < 10_000_000, "round {round} goes on and on");
        }
    }
}

#[test]
fn what_is_no_file_of_sound_is_refused_in_one_sentence() {
    let folder = Folder::new();
    let path = folder.path("x.wav");
    let sentence = refused(&folder.0, Direction::Capture);
    snapshot!(sentence);
    let sentence = refused(&path, Direction::Capture);
    snapshot!(sentence);
    std::fs::write(&path, []).unwrap();
    snapshot!(refused(&path, Direction::Capture));
    std::fs::write(&path, [b'x'; 5000]).unwrap();
    let sentence = refused(&path, Direction::Capture);
    snapshot!(sentence);
    let sentence = refused(Path::new("/dev/null"), Direction::Capture);
    snapshot!(sentence);
}

#[test]
fn what_cannot_be_written_is_refused_in_one_sentence() {
    let folder = Folder::new();
    let sentence = refused(&folder.0, Direction::Playback);
    snapshot!(sentence);
    let sentence = refused(&folder.path("no/such/a.wav"), Direction::Playback);
    snapshot!(sentence);
    let sentence = refused(&folder.path("a.flac"), Direction::Playback);
    snapshot!(sentence);
}

#[test]
fn what_would_have_to_be_converted_is_refused_with_the_command() {
    let folder = Folder::new();
    let path = folder.path("song.wav");
    for (spec, options) in [
        (spec(12_000, 2, 16), "-r 48000"),
        (spec(44_100, 2, 16), "-r 48000"),
        (spec(48_000, 1, 16), "-c 2"),
        (spec(48_000, 2, 32), "-b 24"),
        (spec(22_050, 1, 32), "-r 48000 -c 2 -b 24"),
    ] {
        write_wav(&path, spec, &[0; 100]);
        let sentence = refused(&path, Direction::Capture);
        snapshot!(format!("{spec:?} {options:?}"), sentence);
        let command = format!("convert it first: sox {} {options} ", path.display());
        assert!(sentence.contains(&command), "{sentence}");
    }
}

#[test]
fn a_tone_cannot_be_played_to() {
    let tone: DeviceSpec = "tone:440".parse().unwrap();
    let Err(error) = open(&tone, Direction::Playback, settings(48, 2), extras()) else { panic!() };
    snapshot!(error);
}

#[test]
fn a_tone_that_the_rate_cannot_carry_is_refused() {
    for text in ["tone:24000", "tone:30000", "virtual:?tone=96000"] {
        let spec: DeviceSpec = text.parse().unwrap();
        let Err(error) = open(&spec, Direction::Capture, settings(48, 2), extras()) else {
            panic!("{text} was opened")
        };
        let sentence = error.to_string();
        snapshot!(sentence);
        assert!(sentence.ends_with("; use one below 24000 Hz, or a higher rate with --rate"));
    }
    let spec: DeviceSpec = "tone:23999.999".parse().unwrap();
    assert!(open(&spec, Direction::Capture, settings(48, 2), extras()).is_ok());
}
