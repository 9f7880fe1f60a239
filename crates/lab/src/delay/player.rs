//! Plays marks, and records when each meets the DAC.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use rtrb::{Consumer, Producer};
use tautline_dsp::timecode::bits::{BitDepth, BitWriter};
use tautline_dsp::timecode::{Marker, PlacedMark};
use tautline_io::thread::memory;
use tautline_proto::device::{Cycle, Flow, Process, Settings};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Rate;

use super::judge::Played;
use super::off_rate;
use super::sweep::Sweeper;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct DeviceFaults {
    pub(super) xruns: u64,
    pub(super) skipped: i64,
}

#[derive(Debug, Default)]
pub(super) struct FaultCounter {
    xruns: AtomicU64,
    skipped: AtomicI64,
}

impl FaultCounter {
    pub(super) fn count(&self, xruns: u32, skipped: Frames) {
        self.xruns.fetch_add(u64::from(xruns), Ordering::Relaxed);
        self.skipped.fetch_add(skipped.count(), Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> DeviceFaults {
        DeviceFaults {
            xruns: self.xruns.load(Ordering::Relaxed),
            skipped: self.skipped.load(Ordering::Relaxed),
        }
    }
}

pub(super) enum PlayedSound {
    Marks(Marker, BitWriter),
    Sweeps(Sweeper),
}

impl PlayedSound {
    pub(super) fn of(marker: Marker) -> Self {
        Self::Marks(marker, BitWriter::new(BitDepth::Bits16))
    }

    fn fill(&mut self, channels: usize, samples: &mut [f32], placed: impl FnMut(PlacedMark)) {
        match self {
            Self::Marks(marker, bits) => {
                marker.fill(channels, samples, placed);
                bits.write(channels, samples);
            }
            Self::Sweeps(sweeper) => sweeper.fill(channels, samples, placed),
        }
    }
}

pub(super) struct Player {
    sound: PlayedSound,
    channels: usize,
    rate: Rate,
    frames: i64,
    marks: Producer<Played>,
    faults: Arc<FaultCounter>,
}

pub(super) struct Marks {
    marks: Consumer<Played>,
    faults: Arc<FaultCounter>,
}

/// Ring capacity in marks: 10 s at 48 kHz. An ordinary thread reads them.
const WAITING: usize = 1024;

pub(super) fn player(settings: &Settings, sound: PlayedSound) -> (Player, Marks) {
    let (producer, marks) = memory::ring(WAITING);
    let faults = Arc::<FaultCounter>::default();
    let player = Player {
        sound,
        channels: settings.channels.count(),
        rate: settings.rate,
        frames: 0,
        marks: producer,
        faults: Arc::clone(&faults),
    };
    (player, Marks { marks, faults })
}

impl Process for Player {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let side = &mut cycle.playback;
        self.faults.count(cycle.xruns, side.skipped);
        self.frames += side.skipped.count();
        let Self { sound, rate, frames, marks, .. } = self;
        let (meets, uncertainty) = (side.meets, side.uncertainty);
        sound.fill(self.channels, side.samples, |placed| {
            let into = rate.span_of(Frames::from_len(placed.frame));
            let played = Played {
                number: placed.number,
                frame: *frames + placed.frame as i64,
                at: meets + into,
                uncertainty: uncertainty + off_rate(into),
                clock: Span::ZERO,
            };
            // A full ring makes the mark look foreign.
            let _ = marks.push(played);
        });
        self.frames += (side.samples.len() / self.channels) as i64;
        Flow::Continue
    }
}

impl Marks {
    pub(super) fn read(&mut self, mut notify: impl FnMut(Played)) {
        while let Ok(played) = self.marks.pop() {
            notify(played);
        }
    }

    pub(super) fn faults(&self) -> DeviceFaults {
        self.faults.read()
    }
}
