//! Reading files.

use tautline_trial::snapshot;

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hound::WavWriter;
use tautline_dsp::format::SampleFormat;
use tautline_proto::device::{DeviceError, Direction, Settings};
use tautline_proto::units::{Channels, Rate};

use super::{Folder, floats, pattern, settings, spec, write_wav};
use crate::software::convert::Wanted;
use crate::software::file::{FileCoding, FileReader, FileRequest, Flaws, SoundFile};
use crate::software::filled::Filled;
use crate::software::recorder::Recorder;
use crate::software::source::FileSource;
use crate::software::wav::WavFile;
use crate::{DeviceSpec, Extras, FileFormat, Notes, SoftwareSpec, open};

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
    Extras { record_format: SampleFormat::L16, ..Extras::default() }
}

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
fn a_tag_behind_a_flac_is_no_sound() {
    let folder = Folder::new();
    let path = folder.path("tagged.flac");
    let mut bytes = std::fs::read(fixture("pattern16.flac")).unwrap();
    bytes.extend(b"TAG");
    bytes.resize(bytes.len() + 125, 0);
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(read(&path), read(&fixture("pattern16.flac")));
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
fn cut_wav_plays_its_rest_and_fails_the_run() {
    let folder = Folder::new();
    let path = folder.path("cut.wav");
    for bits in [16, 24] {
        let samples = pattern(bits, 10_000);
        write_wav(&path, spec(48_000, 2, bits as u16), &samples);
        let bytes = std::fs::read(&path).unwrap();
        let frame = bits as usize / 4;
        let header = bytes.len() - 5000 * frame;
        for (held, left) in [
            (1500, header + 1500 * frame + frame / 2),
            (4999, bytes.len() - 1),
            (1, header + frame),
        ] {
            std::fs::write(&path, &bytes[..left]).unwrap();
            let (rest, flaws) = read(&path);
            assert_eq!(rest, floats(bits, &samples)[..2 * held], "{held}");
            assert_eq!(flaws.cut, Some((held as u64, 5000)));
        }
        let notes = Notes::default();
        drop(FileSource::open(&(&*path).into(), &settings(48, 2), false, &notes).unwrap());
        snapshot!(notes.failed().join("\n"));
        std::fs::write(&path, &bytes[..header]).unwrap();
        let sentence = refused(&path, Direction::Capture);
        snapshot!(sentence);
    }
}

fn wav_of(promised: u32, rest: &[u8]) -> Vec<u8> {
    let folder = Folder::new();
    write_wav(&folder.path("empty.wav"), spec(48_000, 2, 16), &[]);
    let mut wav = std::fs::read(folder.path("empty.wav")).unwrap();
    wav[40..44].copy_from_slice(&promised.to_le_bytes());
    let size = wav.len() as u32 - 8 + rest.len() as u32;
    wav[4..8].copy_from_slice(&size.to_le_bytes());
    wav.extend(rest);
    wav
}

#[test]
fn wav_without_a_sample_is_refused() {
    let folder = Folder::new();
    let path = folder.path("empty.wav");
    let list = b"LIST\x04\0\0\0INFO";
    for (promised, rest) in [
        (0, &b""[..]),
        (0, list),
        (3, b"abc"),
        // Unknown length.
        (u32::MAX, b""),
        (u32::MAX, b"ab"),
    ] {
        std::fs::write(&path, wav_of(promised, rest)).unwrap();
        let sentence = refused(&path, Direction::Capture);
        assert!(sentence.contains(": the file holds no samples\nhint: "), "{promised}: {sentence}");
    }
    snapshot!(refused(&path, Direction::Capture));
}

#[test]
fn pipe_without_a_sample_fails_the_run() {
    let request = || FileRequest { path: None, wanted: Wanted::default(), fitted: false };
    let read = |wav: Vec<u8>| {
        let begins = wav[..12].to_vec();
        let rest = std::io::Cursor::new(wav[12..].to_vec());
        FileReader::read_pipe(rest, begins, request())
    };
    let refused = read(wav_of(0, b"")).map(|_| ()).unwrap_err();
    snapshot!(refused);
    let reader = read(wav_of(u32::MAX, b"")).unwrap();
    let notes = Notes::default();
    let settings = settings(48, 2);
    drop(FileSource::play(reader, &Path::new("-").into(), &settings, &notes).unwrap());
    while notes.failed().is_empty() {
        std::thread::yield_now();
    }
    snapshot!(notes.failed().join("\n"));
}

#[test]
fn wav_in_a_pipe_ends_with_its_last_sample() {
    let samples = pattern(16, 9_998);
    let data: Vec<u8> = samples.iter().flat_map(|sample| (*sample as i16).to_le_bytes()).collect();
    let wav = wav_of(data.len() as u32, &data);
    let (pipe, mut writer) = std::io::pipe().unwrap();
    let feeding = std::thread::spawn(move || {
        writer.write_all(&wav[12..]).unwrap();
        writer
    });
    let request = FileRequest { path: None, wanted: Wanted::default(), fitted: false };
    let begins = b"RIFF\xff\xff\xff\xffWAVE".to_vec();
    let (done, is_done) = std::sync::mpsc::channel();
    let mut reader =
        FileReader::read_pipe(std::fs::File::from(OwnedFd::from(pipe)), begins, request).unwrap();
    std::thread::spawn(move || {
        let (mut all, mut block) = (Vec::new(), Vec::new());
        while reader.read(&mut block) {
            all.extend_from_slice(&block);
        }
        let _ = done.send((all, reader.flaws()));
    });
    let read = is_done.recv_timeout(std::time::Duration::from_secs(10)).expect("it ends");
    assert_eq!(read, (floats(16, &samples), Flaws::default()));
    drop(feeding.join().unwrap());
}

#[test]
fn wav_with_a_truncated_header_is_refused() {
    let folder = Folder::new();
    let path = folder.path("cut.wav");
    write_wav(&path, spec(48_000, 2, 24), &pattern(24, 40));
    let bytes = std::fs::read(&path).unwrap();
    for length in 1..bytes.len() - 19 * 6 {
        std::fs::write(&path, &bytes[..length]).unwrap();
        let sentence = refused(&path, Direction::Capture);
        assert_eq!(sentence.lines().count(), 2, "a message and a hint: {sentence}");
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
fn every_file_that_is_written_is_read() {
    let folder = Folder::new();
    let path = folder.path("own.wav");
    for channels in 1..=64 {
        for (format, read_as) in [
            (SampleFormat::L16, SampleFormat::L16),
            (SampleFormat::L24, SampleFormat::L24),
            (SampleFormat::F32, SampleFormat::F32),
            (SampleFormat::L32, SampleFormat::L24),
        ] {
            let channels = Channels::new(channels).unwrap();
            let settings = Settings { channels, ..settings(48, 2) };
            let samples: Vec<f32> =
                (0..3 * channels.count()).map(|sample| sample as f32 / 32_768.0).collect();
            let mut file = WavFile::create(&path, &settings, format).unwrap();
            file.write(&samples).unwrap();
            file.finish().unwrap();
            assert_eq!(read(&path), (samples, Flaws::default()), "{channels} in {format:?}");
            let found = probe(&path).unwrap();
            assert_eq!((found.channels, found.frames), (channels, Some(3)));
            assert_eq!(found.coding.exact_format(), read_as);
        }
    }
}

#[test]
fn more_channels_than_64_are_refused_with_their_number() {
    let folder = Folder::new();
    let path = folder.path("many.wav");
    write_wav(&path, spec(48_000, 65, 16), &[0; 130]);
    let sentence = probe(&path).unwrap_err().to_string();
    assert!(sentence.contains(": it has 65 channels\nhint: convert it first: sox "), "{sentence}");
}

#[test]
fn damaged_flac_frames_are_silence_and_the_rest_stays_in_place() {
    let folder = Folder::new();
    let path = folder.path("damaged.flac");
    let bytes = std::fs::read(fixture("blocks16.flac")).unwrap();
    let whole = floats(16, &pattern(16, 2000));
    assert_eq!(read(&fixture("blocks16.flac")), (whole.clone(), Flaws::default()));
    let begins = [86, 832, 1578, 2322, 3066];
    for damage in begins.map(|begin| begin + 1).into_iter().chain([400, 1100, 2000, 2500, 3500]) {
        let mut damaged = bytes.clone();
        damaged[damage] ^= 0x10;
        std::fs::write(&path, &damaged).unwrap();
        let (samples, flaws) = read(&path);
        assert_eq!(flaws, Flaws { cut: None, damaged: 1 }, "{damage}");
        assert_eq!(samples.len(), whole.len(), "{damage}");
        let changed: Vec<usize> = (0..1000)
            .filter(|frame| samples[2 * frame..][..2] != whole[2 * frame..][..2])
            .collect();
        let (first, last) = (changed[0], changed[changed.len() - 1]);
        assert!(last - first < 2 * 192, "{damage}: {first} to {last}");
        assert!(samples[2 * first..=2 * last].iter().all(|sample| *sample == 0.0), "{damage}");
    }
    let mut damaged = bytes.clone();
    damaged[bytes.len() - 30] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    let (samples, flaws) = read(&path);
    assert_eq!((samples.len(), flaws.cut), (2 * 960, Some((960, 1000))));
}

#[test]
fn a_looped_file_goes_on_with_its_first_frame_after_its_last() {
    let folder = Folder::new();
    let path = folder.path("loop.wav");
    let counter: Vec<i32> = (0..2 * 1001).collect();
    write_wav(&path, spec(48_000, 2, 16), &counter);
    let flac = fixture("blocks16.flac");
    for (path, samples) in [(&path, floats(16, &counter)), (&flac, floats(16, &pattern(16, 2000)))]
    {
        let notes = Notes::default();
        let mut source =
            FileSource::open(&(&**path).into(), &settings(48, 2), true, &notes).unwrap();
        let mut all = vec![0.0; 3 * samples.len() + 48];
        assert_eq!(source.fill(&mut all), Filled::Whole);
        let expected = samples.iter().cycle().copied().take(all.len());
        assert!(expected.eq(all), "{}", path.display());
        assert_eq!(notes.take(), [] as [String; 0]);
    }
}

#[test]
fn files_follow_each_other_without_a_gap_and_again() {
    let folder = Folder::new();
    let (wav, flac) = (folder.path("a.wav"), fixture("blocks16.flac"));
    let counter: Vec<i32> = (0..2 * 1001).collect();
    write_wav(&wav, spec(48_000, 2, 16), &counter);
    let both = [floats(16, &counter), floats(16, &pattern(16, 2000))].concat();
    let file = SoundFile::sequence(&[wav, flac]);
    file.look(Wanted::default()).unwrap();
    for looped in [true, false] {
        let notes = Notes::default();
        let mut source = FileSource::open(&file, &settings(48, 2), looped, &notes).unwrap();
        let mut all = vec![0.0; 2 * both.len() + 48];
        let (filled, sound): (_, Vec<f32>) = match looped {
            true => (Filled::Whole, both.iter().cycle().copied().take(all.len()).collect()),
            false => (Filled::Last, [both.clone(), vec![0.0; both.len() + 48]].concat()),
        };
        assert_eq!(source.fill(&mut all), filled);
        assert!(all == sound, "{looped}");
        assert_eq!(notes.take(), [] as [String; 0]);
    }
}

#[test]
fn file_unlike_the_first_one_is_skipped_and_named() {
    let folder = Folder::new();
    let names = ["first.wav", "mono.wav", "slow.wav"].map(|name| folder.path(name));
    for (path, (rate, channels)) in names.iter().zip([(48_000, 2), (48_000, 1), (44_100, 2)]) {
        write_wav(path, spec(rate, channels, 16), &pattern(16, 200));
    }
    let [first, mono, slow] = names;
    for (other, hint) in [(mono, " -c 2 "), (slow, " -r 48000 ")] {
        let file = SoundFile::sequence(&[first.clone(), other.clone(), first.clone()]);
        let notes = Notes::default();
        let mut source = FileSource::open(&file, &settings(48, 2), false, &notes).unwrap();
        let [fault] = &notes.failed()[..] else { panic!("{:?}", notes.failed()) };
        assert!(fault.contains(&*other.to_string_lossy()) && fault.contains(hint), "{fault}");
        let mut all = vec![0.0; 400];
        assert_eq!(source.fill(&mut all), Filled::Whole);
        assert!(all == [floats(16, &pattern(16, 200)), floats(16, &pattern(16, 200))].concat());
    }
    assert!(SoundFile::sequence(&[]).look(Wanted::default()).is_err());
}

#[test]
fn fitted_files_of_any_rate_play_in_stereo_without_a_gap() {
    let folder = Folder::new();
    let names = ["cd.wav", "exact.wav", "speech.wav", "many.wav"].map(|name| folder.path(name));
    let tone = |hertz: u32, frames: u32| {
        let at = |frame| f64::from(frame) * 480.0 / f64::from(hertz) * core::f64::consts::TAU;
        (0..frames).map(|frame| (at(frame).sin() * 8000.0) as i32).collect::<Vec<_>>()
    };
    write_wav(&names[0], spec(44_100, 1, 16), &tone(44_100, 4410));
    let stereo: Vec<i32> = tone(48_000, 4800).iter().flat_map(|sample| [*sample; 2]).collect();
    write_wav(&names[1], spec(48_000, 2, 16), &stereo);
    write_wav(&names[2], spec(12_000, 1, 16), &tone(12_000, 1200));
    write_wav(&names[3], spec(48_000, 3, 16), &[0; 300]);
    let [cd, exact, speech, many] = names;
    let wanted = Wanted { rate: Some(Rate::HZ_48000), channels: None };
    let refused = SoundFile::sequence(&[many]).fitted().look(wanted).unwrap_err();
    assert!(refused.hint.contains(" -c 2 "), "{refused}");
    let file = SoundFile::sequence(&[cd, exact, speech]).fitted();
    let format = file.look(wanted).unwrap();
    assert_eq!((format.rate, format.channels), (Rate::HZ_48000, Channels::STEREO));
    let notes = Notes::default();
    let mut source = FileSource::open(&file, &settings(48, 2), false, &notes).unwrap();
    let mut all = vec![0.0; 2 * (3 * 4800 + 1)];
    assert_eq!(source.fill(&mut all), Filled::Last);
    assert_eq!(notes.take(), [] as [String; 0]);
    let (sound, after) = all.split_at(2 * (3 * 4800));
    assert!(after.iter().all(|sample| *sample == 0.0) && sound[sound.len() - 1] != 0.0);
    assert!(sound.chunks_exact(2).all(|frame| frame[0] == frame[1]));
    // The joints are whole periods of the tone.
    let at = |frame: usize| (frame as f64 * 0.01 * core::f64::consts::TAU).sin() * 0.244_14;
    let steady = sound.iter().step_by(2).enumerate().skip(2000);
    let worst = steady.map(|(frame, sample)| (at(frame) - f64::from(*sample)).abs());
    let worst = worst.fold(0.0, f64::max);
    assert!(worst < 0.05, "{worst}");
}

#[test]
fn late_pipe_plays_on_after_one_gap() {
    let folder = Folder::new();
    let path = folder.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (to, (go, waits)) = (path.clone(), std::sync::mpsc::channel::<()>());
    let writer = std::thread::spawn(move || {
        let mut pipe = File::options().write(true).open(to).unwrap();
        let second = [[0, 32, 0, 32]; 48_000].concat();
        pipe.write_all(&wav_of(u32::MAX, &[])).unwrap();
        pipe.write_all(&second[..96_000]).unwrap();
        waits.recv().unwrap();
        pipe.write_all(&second[..48_000]).unwrap();
        waits.recv().unwrap();
        pipe.write_all(&second).unwrap();
        let _ = waits.recv();
    });
    let file = SoundFile::from(&*path).fitted();
    let mut source = FileSource::open(&file, &settings(48, 2), false, &Notes::default()).unwrap();
    let mut half = vec![1.0; 48_000 + 96];
    assert_eq!(source.fill(&mut half), Filled::Starved);
    let mut period = [1.0; 96];
    go.send(()).unwrap();
    // A quarter of a second is not enough to play on.
    for _ in 0..100 {
        assert_eq!(source.fill(&mut period), Filled::Whole);
        assert_eq!(period, [0.0; 96]);
        std::thread::yield_now();
    }
    go.send(()).unwrap();
    while source.fill(&mut period) == Filled::Whole && period == [0.0; 96] {
        std::thread::yield_now();
    }
    assert_eq!(period, [0.25; 96]);
    drop(go);
    writer.join().unwrap();
}

#[test]
fn sequence_without_a_sample_ends() {
    let folder = Folder::new();
    let (wav, damaged) = (folder.path("a.wav"), folder.path("damaged.flac"));
    let samples = pattern(16, 2000);
    write_wav(&wav, spec(48_000, 2, 16), &samples);
    let bytes = std::fs::read(fixture("blocks16.flac")).unwrap();
    std::fs::write(&damaged, &bytes[..100]).unwrap();
    let play = |files: &[_]| {
        let (notes, mut all) = (Notes::default(), vec![0.0; 3 * 2000]);
        let file = SoundFile::sequence(files);
        let mut source = FileSource::open(&file, &settings(48, 2), true, &notes).unwrap();
        (source.fill(&mut all), all, notes.failed().len())
    };
    let (filled, all, failed) = play(&[damaged.clone(), wav.clone(), damaged.clone()]);
    assert_eq!((filled, failed), (Filled::Whole, 1));
    assert!(floats(16, &samples).into_iter().cycle().take(all.len()).eq(all));
    let (filled, _, failed) = play(&[damaged.clone(), damaged]);
    assert_eq!((filled, failed), (Filled::Over, 1));
}

#[test]
fn missing_file_is_skipped_until_it_is_there() {
    let folder = Folder::new();
    let [here, missing] = ["here.wav", "missing.wav"].map(|name| folder.path(name));
    let samples = pattern(16, 2000);
    write_wav(&here, spec(48_000, 2, 16), &samples);
    let file = SoundFile::sequence(&[missing.clone(), here.clone()]);
    assert_eq!(file.look(Wanted::default()).unwrap(), probe(&here).unwrap());
    let notes = Notes::default();
    let mut source = FileSource::open(&file, &settings(48, 2), true, &notes).unwrap();
    let [fault] = &notes.failed()[..] else { panic!("{:?}", notes.failed()) };
    assert!(fault.contains(&*missing.to_string_lossy()), "{fault}");
    // As many samples as wait at the start.
    let mut all = vec![0.0; 36_000];
    assert_eq!(source.fill(&mut all), Filled::Whole);
    assert!(floats(16, &samples).into_iter().cycle().take(all.len()).eq(all));
    assert_eq!(notes.take().len(), 1, "one message for many turns");
    write_wav(&missing, spec(48_000, 2, 16), &[0x4000; 2000]);
    let mut block = [0.0; 2000];
    let is_repaired = |block: &[f32]| block.windows(500).any(|it| *it == [0.5; 500]);
    while !(notes.failed().is_empty() && is_repaired(&block)) {
        source.fill(&mut block);
        std::thread::yield_now();
    }
    std::fs::remove_file(&missing).unwrap();
    std::fs::remove_file(&here).unwrap();
    while source.fill(&mut block) != Filled::Over {
        std::thread::yield_now();
    }
    assert_eq!(notes.failed().len(), 2);
    let refused = file.look(Wanted::default()).unwrap_err();
    assert_eq!(refused.tried, format!("file:{}", missing.display()));
}

#[test]
fn unknown_size_is_noted_and_damage_fails_the_run() {
    let folder = Folder::new();
    let path = folder.path("unknown.wav");
    write_wav(&path, spec(48_000, 2, 16), &pattern(16, 200));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[40..44].copy_from_slice(&0x7fff_ffff_u32.to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let notes = Notes::default();
    let mut source =
        FileSource::open(&path.clone().into(), &settings(48, 2), false, &notes).unwrap();
    assert_eq!(source.fill(&mut [0.0; 400]), Filled::Last);
    snapshot!(notes.take().join("\n"));
    assert_eq!(notes.failed(), [] as [String; 0]);
    let path = folder.path("damaged.flac");
    let mut bytes = std::fs::read(fixture("blocks16.flac")).unwrap();
    bytes[1100] ^= 1;
    std::fs::write(&path, &bytes[..3500]).unwrap();
    drop(FileSource::open(&path.clone().into(), &settings(48, 2), false, &notes).unwrap());
    snapshot!(notes.failed().join("\n"));
}

#[test]
fn a_name_may_be_any_bytes() {
    let folder = Folder::new();
    let path = folder.0.join(OsStr::from_bytes(b"a\xff b.wav"));
    write_wav(&path, spec(48_000, 2, 16), &pattern(16, 20));
    for name in [&b"file:"[..], b"virtual:?ppm=0&source="] {
        let name = [name, path.as_os_str().as_bytes()].concat();
        let spec = DeviceSpec::try_from(OsStr::from_bytes(&name)).unwrap();
        let opened = open(&spec, Direction::Capture, settings(48, 2), extras());
        assert!(opened.is_ok(), "{spec}");
    }
    for name in [&b"alsa:\xff"[..], b"tone:\xff", b"\xff", b"virtual:?tone=\xff"] {
        let refused = DeviceSpec::try_from(OsStr::from_bytes(name)).unwrap_err();
        assert!(!refused.hint.is_empty(), "{refused}");
    }
}

#[test]
fn a_pipe_is_read_from_its_beginning_after_a_look() {
    let folder = Folder::new();
    let (path, wav) = (folder.path("pipe"), folder.path("a.wav"));
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    write_wav(&wav, spec(48_000, 2, 16), &pattern(16, 9_998));
    let (bytes, to) = (std::fs::read(&wav).unwrap(), path.clone());
    let writer = std::thread::spawn(move || std::fs::write(to, bytes));
    let file = SoundFile::from(&*path);
    let looked = file.look(Wanted::default()).unwrap();
    assert_eq!(looked, probe(&wav).unwrap());
    let mut reader = file.clone().take(Wanted::default()).unwrap();
    let (mut all, mut block) = (Vec::new(), Vec::new());
    while reader.read(&mut block) {
        all.extend_from_slice(&block);
    }
    assert_eq!(all, floats(16, &pattern(16, 9_998)));
    writer.join().unwrap().unwrap();
}

#[test]
fn a_pipe_or_a_device_is_recorded_to_and_not_waited_for() {
    let folder = Folder::new();
    let path = folder.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let record = |path: &Path, notes: &Notes| {
        let mut recorder =
            Recorder::create(path, &settings(48, 2), SampleFormat::F32, notes).unwrap();
        recorder.write(&[0.5; 96]);
        recorder
    };
    let notes = Notes::default();
    drop(record(&path, &notes));
    assert!(notes.failed()[0].ends_with(": no program read it, so nothing was recorded"));
    let notes = Notes::default();
    let mut recorder = record(&path, &notes);
    let reader = std::thread::spawn({
        let path = path.clone();
        move || std::fs::read(path).unwrap()
    });
    // The first 96 samples are stored too, if the reader is there before the recorder looks.
    while recorder.stored().count() <= 96 {
        if recorder.has_room(96) {
            recorder.write(&[0.25; 96]);
        }
        std::thread::yield_now();
    }
    drop(recorder);
    let read = reader.join().unwrap();
    assert!(read.starts_with(b"RIFF\xff\xff\xff\xffWAVE"));
    assert!(read.ends_with(&0.25_f32.to_le_bytes().repeat(96)));
    let mut null = record(Path::new("/dev/null"), &notes);
    null.silence(96);
    drop(null);
    assert_eq!((notes.take().len(), notes.failed().len()), (0, 0));
}

#[test]
fn truncated_flac_reports_the_missing_length() {
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
    // Numerical Recipes: reproducible damage.
    let mut state = 1_u32;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % below
    };
    for round in 0..400 {
        let mut bytes = originals[round % 2].clone();
        for _ in 0..=random(4) {
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
fn non_sound_file_is_refused_with_a_command() {
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
fn unwritable_file_is_refused_with_one_error() {
    let folder = Folder::new();
    let sentence = refused(&folder.0, Direction::Playback);
    snapshot!(sentence);
    let sentence = refused(&folder.path("no/such/a.wav"), Direction::Playback);
    snapshot!(sentence);
    let sentence = refused(&folder.path("a.flac"), Direction::Playback);
    snapshot!(sentence);
}

#[test]
fn file_to_be_converted_is_refused_with_the_command() {
    let folder = Folder::new();
    let path = folder.path("song.wav");
    for (spec, options) in [
        (spec(12_000, 2, 16), "-r 48000"),
        (spec(44_100, 2, 16), "-r 48000"),
        (spec(48_000, 1, 16), "-c 2"),
        (spec(22_050, 1, 16), "-r 48000 -c 2"),
    ] {
        write_wav(&path, spec, &[0; 100]);
        let sentence = refused(&path, Direction::Capture);
        snapshot!(format!("{spec:?} {options:?}"), sentence);
        let command = format!("convert it first: sox {} {options} ", path.display());
        assert!(sentence.contains(&command), "{sentence}");
    }
}

#[test]
fn file_of_a_virtual_device_is_looked_at_as_one_that_is_named() {
    let folder = Folder::new();
    let path = folder.path("song.wav");
    write_wav(&path, spec(44_100, 1, 16), &[0; 100]);
    let named: DeviceSpec = format!("virtual:?source={}", path.display()).parse().unwrap();
    let found = crate::probe(&named, Wanted::default()).unwrap();
    assert_eq!(found, Some(probe(&path).unwrap()));
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
        assert!(sentence.ends_with("\nhint: use one below 24000 Hz, or a higher rate with --rate"));
    }
    let spec: DeviceSpec = "tone:23999.999".parse().unwrap();
    assert!(open(&spec, Direction::Capture, settings(48, 2), extras()).is_ok());
}
