//! Writes what a virtual card played into a WAV file, on a thread of its own.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hound::{WavSpec, WavWriter};
use rtrb::{Consumer, Producer, RingBuffer};
use tautline_dsp::format::{SampleFormat, encode};
use tautline_proto::device::{DeviceError, Settings};

use crate::file::tried;
use crate::notes::Notes;
use crate::{STACK, spawn_error};

/// How often the ring is emptied.
const INTERVAL: Duration = Duration::from_millis(20);
/// Samples that may wait for the disk at most: 2 MiB.
const MOST_WAITING: usize = 512 * 1024;
/// A WAV file counts its bytes in 32 bits; this leaves room for the header.
const MOST_BYTES: u64 = u32::MAX as u64 - 4096;

/// The writing end of a WAV file. Dropping it completes the file.
pub(crate) struct Recorder {
    ring: Producer<f32>,
    /// Samples of silence to be written before anything else.
    owed: u64,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// Samples that became silence because the ring was full.
    lost: AtomicU64,
}

impl Recorder {
    /// Creates the file at `path`, in place of one that is there.
    pub(crate) fn create(
        path: &Path,
        settings: &Settings,
        format: SampleFormat,
        notes: &Notes,
    ) -> Result<Self, DeviceError> {
        let writer = create(path, settings, format)?;
        let second = settings.rate.hertz() as usize * settings.channels.count();
        let periods = settings.channels.samples_in(settings.period) * 8;
        let (ring, samples) = RingBuffer::new(second.min(MOST_WAITING).max(periods));
        let shared = Arc::new(Shared::default());
        let scribe = Scribe {
            samples,
            writer,
            format,
            bytes: 0,
            since_header: 0,
            header_every: second / 4,
            shared: Arc::clone(&shared),
            notes: notes.clone(),
            name: path.display().to_string(),
        };
        let thread = thread::Builder::new()
            .name("taut-record".to_owned())
            .stack_size(STACK)
            .spawn(move || scribe.run())
            .map_err(|error| spawn_error(&tried(path), &error))?;
        Ok(Self { ring, owed: 0, shared, thread: Some(thread) })
    }

    /// Records whole frames. Real-time. If the disk is too slow they become silence, so that what
    /// follows stays in its place.
    pub(crate) fn write(&mut self, samples: &[f32]) {
        self.settle();
        // Nothing may overtake the silence, even if the other thread has just made room.
        if self.owed > 0 || self.ring.push_entire_slice(samples).is_err() {
            self.owed += samples.len() as u64;
            self.shared.lost.fetch_add(samples.len() as u64, Ordering::Relaxed);
        }
    }

    /// Records silence of this many samples. Real-time.
    pub(crate) fn silence(&mut self, samples: u64) {
        self.owed += samples;
        self.settle();
    }

    fn settle(&mut self) {
        let room = usize::try_from(self.owed).unwrap_or(usize::MAX).min(self.ring.slots());
        // The slots of a fresh chunk are zeros.
        if room > 0
            && let Ok(chunk) = self.ring.write_chunk(room)
        {
            chunk.commit_all();
            self.owed -= room as u64;
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.shared.stop.store(true, Ordering::Release);
            thread.thread().unpark();
            // A thread that panicked has said so on its own; the file is whole up to its last
            // header.
            let _ = thread.join();
        }
    }
}

fn create(
    path: &Path,
    settings: &Settings,
    format: SampleFormat,
) -> Result<WavWriter<BufWriter<File>>, DeviceError> {
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
    let (bits_per_sample, sample_format) = match format {
        SampleFormat::L16 => (16, hound::SampleFormat::Int),
        SampleFormat::L24 => (24, hound::SampleFormat::Int),
        SampleFormat::F32 => (32, hound::SampleFormat::Float),
    };
    let spec = WavSpec {
        channels: settings.channels.count() as u16,
        sample_rate: settings.rate.hertz(),
        bits_per_sample,
        sample_format,
    };
    let started = WavWriter::new(BufWriter::new(file), spec).and_then(|mut writer| {
        writer.flush()?;
        Ok(writer)
    });
    started.map_err(|error| refuse(error.to_string(), "make room on the disk".to_owned()))
}

fn mend(path: &Path, error: &io::Error) -> String {
    let folder = path.parent().unwrap_or(Path::new("."));
    match error.kind() {
        io::ErrorKind::NotFound => format!("make its folder: mkdir -p {}", folder.display()),
        io::ErrorKind::PermissionDenied => "choose a folder that you may write to".to_owned(),
        _ => "choose another path".to_owned(),
    }
}

/// The thread's side.
struct Scribe {
    samples: Consumer<f32>,
    writer: WavWriter<BufWriter<File>>,
    format: SampleFormat,
    bytes: u64,
    since_header: usize,
    header_every: usize,
    shared: Arc<Shared>,
    notes: Notes,
    name: String,
}

impl Scribe {
    fn run(mut self) {
        loop {
            // Asked before the ring is emptied: what was written before the stop is then all there.
            let stop = self.shared.stop.load(Ordering::Acquire);
            if let Err(answer) = self.empty() {
                self.note(&answer);
                break;
            }
            if stop {
                break;
            }
            thread::park_timeout(INTERVAL);
        }
        let lost = self.shared.lost.load(Ordering::Relaxed);
        if lost > 0 {
            self.note(&format!(
                "the disk was too slow and {lost} samples were recorded as silence; record to a \
                 faster one, such as /dev/shm"
            ));
        }
        let Self { writer, notes, name, .. } = self;
        if let Err(error) = writer.finalize() {
            notes.add(format!("file:{name}: {error}; what was recorded may be incomplete"));
        }
    }

    fn note(&self, sentence: &str) {
        self.notes.add(format!("file:{}: {sentence}", self.name));
    }

    /// Writes what is in the ring, and every quarter of a second a header that makes it readable
    /// if the program is killed.
    fn empty(&mut self) -> Result<(), String> {
        let say = |error: hound::Error| format!("{error}; nothing more is recorded");
        let count = self.samples.slots();
        let Ok(chunk) = self.samples.read_chunk(count) else { return Ok(()) };
        self.bytes += (count * self.format.bytes()) as u64;
        if self.bytes > MOST_BYTES {
            return Err("a WAV file holds no more than 4 GiB; the rest is not recorded".to_owned());
        }
        let (first, second) = chunk.as_slices();
        for samples in [first, second] {
            write(&mut self.writer, self.format, samples).map_err(say)?;
        }
        chunk.commit_all();
        self.since_header += count;
        if self.since_header >= self.header_every {
            self.since_header = 0;
            self.writer.flush().map_err(say)?;
        }
        Ok(())
    }
}

/// Integers are rounded as on the wire, so that what arrived unchanged is written unchanged.
fn write(
    writer: &mut WavWriter<BufWriter<File>>,
    format: SampleFormat,
    samples: &[f32],
) -> Result<(), hound::Error> {
    let mut coded = [0; 4];
    let coded = &mut coded[..format.bytes()];
    for sample in samples {
        encode(format, std::slice::from_ref(sample), coded);
        match *coded {
            [high, low] => writer.write_sample(i16::from_be_bytes([high, low]))?,
            [high, middle, low] => {
                writer.write_sample(i32::from_be_bytes([high, middle, low, 0]) >> 8)?;
            }
            _ => writer.write_sample(*sample)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tautline_proto::time::Frames;
    use tautline_proto::units::{Channels, Rate};

    use super::*;

    /// A recorder whose thread is the test.
    fn stepped(path: &Path, format: SampleFormat, room: usize) -> (Recorder, Scribe) {
        let settings = Settings {
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            period: Frames::new(48),
            periods: 2,
        };
        let (ring, samples) = RingBuffer::new(room);
        let shared = Arc::new(Shared::default());
        let scribe = Scribe {
            samples,
            writer: create(path, &settings, format).unwrap(),
            format,
            bytes: 0,
            since_header: 0,
            header_every: 8,
            shared: Arc::clone(&shared),
            notes: Notes::default(),
            name: String::new(),
        };
        (Recorder { ring, owed: 0, shared, thread: None }, scribe)
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

    #[test]
    fn what_a_slow_disk_could_not_take_is_silence_and_the_rest_stays_in_place() {
        let path = scratch("slow");
        let (mut recorder, mut scribe) = stepped(&path, SampleFormat::F32, 8);
        recorder.write(&[1.0; 6]);
        recorder.write(&[2.0; 4]);
        recorder.write(&[3.0; 2]);
        scribe.empty().unwrap();
        recorder.silence(2);
        scribe.empty().unwrap();
        recorder.write(&[4.0; 2]);
        scribe.shared.stop.store(true, Ordering::Release);
        let (notes, shared) = (scribe.notes.clone(), Arc::clone(&scribe.shared));
        scribe.run();
        let mut expected = vec![1.0; 6];
        expected.extend([0.0; 8]);
        expected.extend([4.0; 2]);
        assert_eq!(read(&path), expected);
        assert_eq!(shared.lost.load(Ordering::Relaxed), 6);
        assert!(notes.take()[0].contains("6 samples were recorded as silence"));
        std::fs::remove_file(path).unwrap();
    }
}
