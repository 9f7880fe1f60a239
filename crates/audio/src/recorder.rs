//! Writes what a virtual card played into a WAV file, on a thread of its own.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};
use tautline_dsp::format::SampleFormat;
use tautline_io::clock::now;
use tautline_proto::device::{DeviceError, Settings};
use tautline_proto::time::Span;

use crate::file::tried;
use crate::notes::Notes;
use crate::wav::{Spent, WavFile};
use crate::{STACK, ring_samples, spawn_error};

/// How often the ring is emptied.
const INTERVAL: Duration = Duration::from_millis(20);
/// Samples after which their place in the ring is free again.
const PIECE: usize = 64 * 1024;
/// Silences that may wait between the sounds in the ring.
const MOST_GAPS: usize = 256;

/// The writing end of a WAV file. Dropping it completes the file.
pub(crate) struct Recorder {
    ring: Producer<f32>,
    gaps: Producer<Gap>,
    /// Samples that went into the ring so far.
    written: u64,
    /// Samples of silence after them.
    owed: u64,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Silence between the samples in the ring: it takes no room there, however long it is.
#[derive(Debug, Clone, Copy)]
struct Gap {
    /// Samples that went into the ring before it.
    after: u64,
    /// Its length, in samples.
    samples: u64,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// Samples that became silence because the ring was full.
    lost: AtomicU64,
    /// Samples of silence at the very end, known at the stop.
    tail: AtomicU64,
}

impl Recorder {
    /// Creates the file at `path`, in place of one that is there.
    pub(crate) fn create(
        path: &Path,
        settings: &Settings,
        format: SampleFormat,
        notes: &Notes,
    ) -> Result<Self, DeviceError> {
        let file = create(path, settings, format)?;
        let (mut recorder, mut scribe) = pair(file, ring_samples(settings), settings);
        scribe.notes = notes.clone();
        scribe.name = path.display().to_string();
        let thread = thread::Builder::new()
            .name("taut-record".to_owned())
            .stack_size(STACK)
            .spawn(move || scribe.run())
            .map_err(|error| spawn_error(&tried(path), &error))?;
        recorder.thread = Some(thread);
        Ok(recorder)
    }

    /// Whether so many samples can be taken now. Real-time.
    pub(crate) fn has_room(&self, samples: usize) -> bool {
        self.ring.slots() >= samples
    }

    /// Records whole frames. Real-time. If they cannot be taken they become silence, so that what
    /// follows stays in its place.
    pub(crate) fn write(&mut self, samples: &[f32]) {
        let gap = Gap { after: self.written, samples: self.owed };
        if self.owed > 0 && self.gaps.push(gap).is_ok() {
            self.owed = 0;
        }
        // Nothing may overtake the silence.
        if self.owed == 0 && self.ring.push_entire_slice(samples).is_ok() {
            self.written += samples.len() as u64;
        } else {
            self.owed += samples.len() as u64;
            self.shared.lost.fetch_add(samples.len() as u64, Ordering::Relaxed);
        }
    }

    /// Records silence of this many samples. Real-time, however many they are.
    pub(crate) fn silence(&mut self, samples: u64) {
        self.owed += samples;
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.shared.tail.store(self.owed, Ordering::Relaxed);
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A thread that panicked has said so on its own; the file is whole up to its last
            // header.
            let _ = thread.join();
        }
    }
}

/// The two ends of a ring for so many samples, the one without its thread yet. What the device's
/// thread will touch is touched here.
fn pair(file: WavFile, room: usize, settings: &Settings) -> (Recorder, Scribe) {
    let (mut ring, mut samples) = RingBuffer::new(room);
    if let Ok(all) = ring.write_chunk(room) {
        all.commit_all();
    }
    if let Ok(all) = samples.read_chunk(room) {
        all.commit_all();
    }
    let (gaps, silences) = RingBuffer::new(MOST_GAPS);
    let shared = Arc::new(Shared::default());
    let scribe = Scribe {
        samples,
        silences,
        taken: 0,
        file,
        channels: settings.channels.count() as u64,
        since_header: 0,
        header_every: settings.rate.hertz() as usize * settings.channels.count() / 4,
        shared: Arc::clone(&shared),
        worst: Lap::default(),
        notes: Notes::default(),
        name: String::new(),
    };
    (Recorder { ring, gaps, written: 0, owed: 0, shared, thread: None }, scribe)
}

fn create(path: &Path, settings: &Settings, format: SampleFormat) -> Result<WavFile, DeviceError> {
    let refuse = |answer: String, mend: String| DeviceError { tried: tried(path), answer, mend };
    if path.is_dir() {
        let mend = format!("name a file in it, such as {}", path.join("out.wav").display());
        return Err(refuse("this is a directory".to_owned(), mend));
    }
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("flac")) {
        let mend = format!("name it {}", path.with_extension("wav").display());
        return Err(refuse("what is played is written as WAV".to_owned(), mend));
    }
    let file = File::create(path).map_err(|error| refuse(error.to_string(), mend(path, &error)))?;
    WavFile::create(file, settings, format)
        .map_err(|error| refuse(error.to_string(), "make room on the disk".to_owned()))
}

fn mend(path: &Path, error: &io::Error) -> String {
    let folder = path.parent().unwrap_or(Path::new("."));
    match error.kind() {
        io::ErrorKind::NotFound => format!("make its folder: mkdir -p {}", folder.display()),
        io::ErrorKind::PermissionDenied => "choose a folder that you may write to".to_owned(),
        _ => "choose another path".to_owned(),
    }
}

/// Where the time between two visits to the ring went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Lap {
    /// Longer than it meant to, the thread did not run.
    overslept: Span,
    spent: Spent,
}

impl Lap {
    fn total(self) -> Span {
        self.overslept + self.spent.coding + self.spent.storing
    }

    /// Why the ring ran full, and the mend.
    fn blame(self) -> String {
        let Self { overslept, spent: Spent { coding, storing } } = self;
        if storing >= coding.max(overslept) {
            format!("the disk took {storing}; record to a faster one, such as /dev/shm")
        } else if coding >= overslept {
            format!("coding them took {coding}; record fewer channels or at a lower rate")
        } else {
            format!("the machine did not run the writer for {overslept}; end other programs")
        }
    }
}

/// The thread's side.
struct Scribe {
    samples: Consumer<f32>,
    silences: Consumer<Gap>,
    /// Samples that were taken out of the ring.
    taken: u64,
    file: WavFile,
    channels: u64,
    since_header: usize,
    header_every: usize,
    shared: Arc<Shared>,
    /// The longest lap of those in which samples were lost.
    worst: Lap,
    notes: Notes,
    name: String,
}

impl Scribe {
    fn run(mut self) {
        if let Err(answer) = self.record() {
            self.note(&answer);
        }
        let lost = self.shared.lost.load(Ordering::Relaxed) / self.channels;
        if lost > 0 {
            let blame = self.worst.blame();
            self.note(&format!("{lost} frames were recorded as silence because {blame}"));
        }
        let Self { file, notes, name, .. } = self;
        if let Err(error) = file.finish() {
            notes.add(format!("file:{name}: {error}; what was recorded may be incomplete"));
        }
    }

    /// Until it is to stop, or why it cannot go on.
    fn record(&mut self) -> Result<(), String> {
        let (mut overslept, mut lost) = (Span::ZERO, 0);
        loop {
            // Asked before the ring is emptied: what was written before the stop is then all there.
            let stop = self.shared.stop.load(Ordering::Acquire);
            self.empty()?;
            let lap = Lap { overslept, spent: self.file.spent() };
            let lost_by_now = self.shared.lost.load(Ordering::Relaxed);
            if lost_by_now > lost && lap.total() >= self.worst.total() {
                self.worst = lap;
            }
            lost = lost_by_now;
            if stop {
                let tail = self.shared.tail.load(Ordering::Relaxed);
                return self.silence(tail);
            }
            let asleep = now();
            thread::park_timeout(INTERVAL);
            overslept = now() - asleep - Span::from_nanos(INTERVAL.as_nanos() as i64);
        }
    }

    fn note(&self, sentence: &str) {
        self.notes.add(format!("file:{}: {sentence}", self.name));
    }

    /// Writes what is in the ring, and every quarter of a second a header that makes it readable
    /// if the program is killed.
    fn empty(&mut self) -> Result<(), String> {
        // Asked before the silences: those between these samples are then all there.
        let count = self.samples.slots();
        let end = self.taken + count as u64;
        while let Some(gap) = self.silences.peek().ok().copied().filter(|gap| gap.after <= end) {
            self.take((gap.after - self.taken) as usize)?;
            self.silence(gap.samples)?;
            // It is there: nobody else takes it.
            let _ = self.silences.pop();
        }
        self.take((end - self.taken) as usize)?;
        self.since_header += count;
        if self.since_header >= self.header_every {
            self.since_header = 0;
            self.file.flush().map_err(said)?;
        }
        Ok(())
    }

    /// Writes the next samples of the ring, piece by piece.
    fn take(&mut self, mut count: usize) -> Result<(), String> {
        while count > 0 {
            let piece = count.min(PIECE);
            self.check_room(piece as u64)?;
            let Ok(chunk) = self.samples.read_chunk(piece) else { return Ok(()) };
            let (first, second) = chunk.as_slices();
            self.file.write(first).and_then(|()| self.file.write(second)).map_err(said)?;
            chunk.commit_all();
            self.taken += piece as u64;
            count -= piece;
        }
        Ok(())
    }

    fn silence(&mut self, samples: u64) -> Result<(), String> {
        if samples == 0 {
            return Ok(());
        }
        self.check_room(samples)?;
        self.file.silence(samples).map_err(said)
    }

    fn check_room(&self, samples: u64) -> Result<(), String> {
        if self.file.has_room(samples) {
            return Ok(());
        }
        Err("a WAV file holds no more than 4 GiB; the rest is not recorded".to_owned())
    }
}

fn said(error: io::Error) -> String {
    format!("{error}; nothing more is recorded")
}

#[cfg(test)]
mod tests {
    use tautline_proto::device::{Cycle, Device, Direction, Flow, Process, Stop};
    use tautline_proto::time::{Frames, LocalTime};
    use tautline_proto::units::{Channels, Ppm, Rate};

    use super::*;
    use crate::pace::Pace;
    use crate::virtual_card::{Ends, Parts, VirtualCard};

    /// A recorder whose thread is the test.
    fn stepped(path: &Path, format: SampleFormat, room: usize) -> (Recorder, Scribe) {
        let settings = Settings {
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            period: Frames::new(48),
            periods: 2,
        };
        let (recorder, mut scribe) =
            pair(create(path, &settings, format).unwrap(), room, &settings);
        scribe.header_every = 8;
        (recorder, scribe)
    }

    fn read(path: &Path) -> Vec<f32> {
        let mut reader = hound::WavReader::open(path).unwrap();
        reader.samples().map(Result::unwrap).collect()
    }

    fn scratch(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("tautline-audio-{}-{name}.wav", std::process::id()))
    }

    #[test]
    fn a_file_can_be_read_while_it_is_written() {
        let path = scratch("killed");
        let (mut recorder, mut scribe) = stepped(&path, SampleFormat::F32, 64);
        assert_eq!(read(&path), [] as [f32; 0]);
        recorder.write(&[0.1, -0.0, 3.0, 0.4, 0.5, 0.6, 0.7, 0.8]);
        scribe.empty().unwrap();
        assert_eq!(read(&path), [0.1, -0.0, 3.0, 0.4, 0.5, 0.6, 0.7, 0.8]);
        std::fs::remove_file(path).unwrap();
    }

    /// Lets the thread's side take the rest; the samples of the file and what was said.
    fn ended(path: &Path, recorder: Recorder, scribe: Scribe) -> (Vec<f32>, Vec<String>) {
        let notes = scribe.notes.clone();
        drop(recorder);
        scribe.run();
        let samples = read(path);
        std::fs::remove_file(path).unwrap();
        (samples, notes.take())
    }

    #[test]
    fn what_could_not_be_taken_is_silence_and_the_rest_stays_in_place() {
        let path = scratch("slow");
        let (mut recorder, mut scribe) = stepped(&path, SampleFormat::F32, 8);
        recorder.write(&[1.0; 6]);
        recorder.write(&[2.0; 4]);
        recorder.write(&[3.0; 2]);
        scribe.empty().unwrap();
        recorder.silence(2);
        recorder.write(&[4.0; 2]);
        let (samples, notes) = ended(&path, recorder, scribe);
        let expected = [&[1.0_f32; 6][..], &[0.0; 4], &[3.0; 2], &[0.0; 2], &[4.0; 2]].concat();
        assert_eq!(samples, expected);
        assert!(notes[0].contains(": 2 frames were recorded as silence because "), "{notes:?}");
    }

    #[test]
    fn silence_takes_no_room_in_the_ring_and_costs_nothing_that_follows() {
        let path = scratch("gap");
        let (mut recorder, scribe) = stepped(&path, SampleFormat::L24, 8);
        recorder.silence(1_000_000);
        recorder.write(&[0.5; 4]);
        recorder.silence(2);
        recorder.silence(2);
        recorder.write(&[0.25; 4]);
        recorder.silence(6);
        drop(recorder);
        scribe.run();
        let mut reader = hound::WavReader::open(&path).unwrap();
        let samples: Vec<i32> = reader.samples().map(Result::unwrap).collect();
        let (silence, rest) = samples.split_at(1_000_000);
        assert!(silence.iter().all(|&sample| sample == 0));
        let half = 1 << 22;
        assert_eq!(
            rest,
            [[half; 4], [0; 4], [half / 2; 4]]
                .concat()
                .into_iter()
                .chain([0; 6])
                .collect::<Vec<_>>()
        );
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn more_silences_than_are_remembered_keep_every_sample_in_place() {
        let path = scratch("gaps");
        let (mut recorder, scribe) = stepped(&path, SampleFormat::F32, 4096);
        let mut expected = vec![];
        for index in 0..MOST_GAPS + 10 {
            recorder.silence(2);
            recorder.write(&[1.0; 2]);
            expected.extend([0.0, 0.0].iter().chain(if index < MOST_GAPS {
                &[1.0; 2]
            } else {
                &[0.0; 2]
            }));
        }
        let (samples, notes) = ended(&path, recorder, scribe);
        assert_eq!(samples, expected);
        assert!(notes[0].contains(": 10 frames "), "{notes:?}");
    }

    #[test]
    fn what_took_longest_is_blamed_for_a_loss() {
        let (much, little) = (Span::from_millis(700), Span::from_millis(20));
        let lap = |overslept, coding, storing| Lap { overslept, spent: Spent { coding, storing } };
        assert!(lap(little, little, much).blame().starts_with("the disk took 700ms; record to a"));
        assert!(lap(little, much, little).blame().starts_with("coding them took 700ms; record f"));
        assert!(
            lap(much, little, little).blame().starts_with("the machine did not run the writer")
        );
    }

    /// Virtual time in which the disk is only as fast as the card sleeps.
    struct Lazy {
        now: i64,
        late: Option<i64>,
        scribe: Scribe,
    }

    impl Pace for Lazy {
        fn now(&mut self) -> LocalTime {
            LocalTime::from_nanos(self.now)
        }

        fn sleep_until(&mut self, due: LocalTime) {
            if due.as_nanos() > self.now {
                self.scribe.empty().unwrap();
                self.now = due.as_nanos() + self.late.take().unwrap_or(0);
            }
        }
    }

    #[test]
    fn a_patient_card_waits_for_its_disk_too() {
        let path = scratch("patient");
        let settings = Settings {
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            period: Frames::new(48),
            periods: 2,
        };
        // Room for a tenth of what the late program brings at once.
        let (recorder, scribe) = stepped(&path, SampleFormat::F32, 96 * 50);
        let parts = Parts {
            name: "file:".to_owned(),
            direction: Direction::Playback,
            settings,
            error: Ppm::ZERO,
            fault: None,
            patience: Frames::new(48_000),
        };
        let ends = Ends { recorder: Some(recorder), ..Ends::silent() };
        let pace = Lazy { now: 0, late: Some(500_000_000), scribe };
        let mut card = VirtualCard::new(parts, ends, Box::new(pace));
        card.run(Box::new(Steady { left: 600 }), &Stop::default());
        drop(card);
        // The header is that of the last flush, which is never far behind.
        let samples = read(&path);
        assert!(samples.len() > 96 * 500 && samples[96..].iter().all(|&sample| sample == 0.5));
        std::fs::remove_file(path).unwrap();
    }

    struct Steady {
        left: u32,
    }

    impl Process for Steady {
        fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
            assert_eq!((cycle.xruns, cycle.playback.skipped), (0, Frames::ZERO));
            cycle.playback.samples.fill(0.5);
            self.left -= 1;
            if self.left == 0 { Flow::Finished } else { Flow::Continue }
        }
    }

    #[test]
    fn the_ring_holds_half_a_second_of_the_most_that_is_carried() {
        let settings = Settings {
            rate: Rate::new(192_000).unwrap(),
            channels: Channels::new(64).unwrap(),
            period: Frames::new(48),
            periods: 2,
        };
        let path = scratch("much");
        for format in [SampleFormat::L16, SampleFormat::L24, SampleFormat::F32] {
            let file = create(&path, &settings, format).unwrap();
            let (mut recorder, scribe) = pair(file, ring_samples(&settings), &settings);
            let block: Vec<f32> = (0..64 * 48).map(|sample| sample as f32 / 4096.0).collect();
            for _ in 0..2000 {
                recorder.write(&block);
            }
            let notes = scribe.notes.clone();
            drop(recorder);
            scribe.run();
            assert_eq!(notes.take(), [] as [String; 0]);
            let reader = hound::WavReader::open(&path).unwrap();
            assert_eq!((reader.spec().channels, reader.duration()), (64, 96_000));
            std::fs::remove_file(&path).unwrap();
        }
    }
}
