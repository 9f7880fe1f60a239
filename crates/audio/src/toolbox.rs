//! Common to all devices.

pub(crate) mod callback;
pub(crate) mod fading;
pub(crate) mod microphone;
pub(crate) mod part;
pub(crate) mod supervise;
pub(crate) mod tapped;

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tautline_proto::device::{DeviceError, Direction};
use tautline_proto::text::on_one_line;
use tautline_proto::time::{Frames, Span};

pub(crate) const STACK: usize = 256 * 1024;

pub(crate) fn spawn_error(tried: &str, error: &io::Error) -> DeviceError {
    DeviceError {
        tried: tried.to_owned(),
        answer: format!("cannot start a thread: {error}"),
        hint: "stop other programs, or raise the limit with ulimit -u".to_owned(),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sides<T> {
    pub(crate) capture: T,
    pub(crate) playback: T,
}

impl<T> Sides<T> {
    pub(crate) fn each(mut make: impl FnMut(Direction) -> T) -> Self {
        Self { capture: make(Direction::Capture), playback: make(Direction::Playback) }
    }

    pub(crate) fn of(&self, direction: Direction) -> &T {
        match direction {
            Direction::Capture => &self.capture,
            Direction::Playback => &self.playback,
        }
    }

    pub(crate) fn of_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Capture => &mut self.capture,
            Direction::Playback => &mut self.playback,
        }
    }
}

/// A stream's link offset, which JACK and PipeWire report to programs. Wait-free; clones share it.
#[derive(Debug, Clone, Default)]
pub struct StreamLatency(Arc<AtomicI64>);

impl StreamLatency {
    /// Zero if unknown.
    pub fn set(&self, latency: Span) {
        self.0.store(latency.as_nanos(), Ordering::Relaxed);
    }

    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    pub fn get(&self) -> Span {
        Span::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceDescription {
    pub name: String,
    pub sides: Vec<DeviceSide>,
    pub says: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSide {
    pub direction: Direction,
    pub offers: Offers,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offers {
    Anything,
    These {
        rates: Vec<u32>,
        formats: Vec<String>,
        channels: RangeInclusive<u32>,
        min_period: Frames,
    },
    Unknown(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelsOffered {
    pub minimum: u32,
    pub maximum: u32,
    pub converter: Option<String>,
}

/// Messages for the user, shared by clones. It locks: a device's thread uses `PreparedNote`.
#[derive(Debug, Clone, Default)]
pub struct Notes(Arc<Mutex<Sentences>>);

#[derive(Debug, Default)]
struct Sentences {
    left: Vec<String>,
    prepared: Vec<(Arc<AtomicBool>, String)>,
    failed: Vec<String>,
    /// Present faults of files, by the name of the file.
    files: BTreeMap<String, Vec<String>>,
}

/// Adds a prepared message on a device's thread. Wait-free.
#[derive(Debug)]
pub struct PreparedNote(Arc<AtomicBool>);

impl PreparedNote {
    pub fn arises(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Notes {
    fn sentences(&self) -> std::sync::MutexGuard<'_, Sentences> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, sentence: String) {
        self.sentences().left.push(on_one_line(&sentence));
    }

    pub fn fail(&self, sentence: String) {
        let sentence = on_one_line(&sentence);
        let mut sentences = self.sentences();
        sentences.failed.push(sentence.clone());
        sentences.left.push(sentence);
    }

    /// Replaces the faults of a file, which may be read again and again. Adds new ones as messages.
    pub fn set_file(&self, name: &str, faults: Vec<String>) {
        let faults: Vec<_> = faults.iter().map(on_one_line).collect();
        let mut sentences = self.sentences();
        let before = sentences.files.remove(name).unwrap_or_default();
        let new = faults.iter().filter(|fault| !before.contains(fault)).cloned();
        sentences.left.extend(new);
        if !faults.is_empty() {
            sentences.files.insert(name.to_owned(), faults);
        }
    }

    /// Failures, and the present faults of files.
    pub fn failed(&self) -> Vec<String> {
        let sentences = self.sentences();
        sentences.failed.iter().chain(sentences.files.values().flatten()).cloned().collect()
    }

    /// A message, added at most once; replaced by an equal one.
    pub fn prepare(&self, sentence: String) -> PreparedNote {
        let occasion = Arc::new(AtomicBool::new(false));
        let mut sentences = self.sentences();
        sentences.prepared.retain(|(_, other)| *other != sentence);
        sentences.prepared.push((Arc::clone(&occasion), sentence));
        PreparedNote(occasion)
    }

    pub fn take(&self) -> Vec<String> {
        let mut sentences = self.sentences();
        let arose = sentences.prepared.extract_if(.., |(flag, _)| flag.load(Ordering::Relaxed));
        let arose: Vec<String> = arose.map(|(_, sentence)| sentence).collect();
        sentences.left.extend(arose);
        std::mem::take(&mut sentences.left)
    }
}
