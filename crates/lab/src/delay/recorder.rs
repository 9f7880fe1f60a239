//! Records a device's sound and finds marks.

use std::collections::VecDeque;
use std::sync::Arc;

use tautline_dsp::timecode::bits::{BitDepth, BitReader, WORD};
use tautline_dsp::timecode::{Finder, FoundMark};
use tautline_engine::monitor::sound::rings::{Reader, Writer, rings};
use tautline_proto::device::{Cycle, Flow, Process, Settings};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;

use super::judge::JudgedMark;
use super::player::{DeviceFaults, FaultCounter};
use super::sweep::{FoundSweep, SweepFinder};
use super::{off_rate, part_of_a_frame};

#[derive(Debug, Clone, Copy)]
struct FrameRun {
    frame: i64,
    meets: LocalTime,
    uncertainty: Span,
}

pub(super) struct MarkRecorder {
    writer: Writer<FrameRun>,
    channels: usize,
    channel: usize,
    frames: i64,
    faults: Arc<FaultCounter>,
}

pub(super) struct MarkReader {
    reader: Reader<FrameRun>,
    rate: Rate,
    search: MarkSearch,
    /// Frames passed to the finder.
    given: i64,
    frame: i64,
    sound: Vec<f32>,
    fresh: VecDeque<(FrameRun, usize)>,
    /// Runs that upcoming marks may lie in, with the finder's count.
    searched: VecDeque<(i64, FrameRun)>,
    unread: i64,
    end: LocalTime,
    faults: Arc<FaultCounter>,
}

pub(super) enum MarkSearch {
    Marks(Box<Finder>, BitReader),
    Sweeps(Box<SweepFinder>),
}

impl MarkSearch {
    pub(super) fn of(finder: Finder) -> Self {
        Self::Marks(Box::new(finder), BitReader::new(BitDepth::Bits16))
    }

    fn spacing(&self) -> usize {
        match self {
            Self::Marks(finder, _) => finder.spacing(),
            Self::Sweeps(finder) => finder.spacing(),
        }
    }

    /// Reports marks that end before the silence, whose low-bit words do not count.
    fn silence(&mut self, frames: usize, mut found: impl FnMut(FoundMark, u64, Option<f64>)) {
        match self {
            Self::Marks(finder, bits) => {
                for _ in 0..frames {
                    finder.push(&[0.0], |mark| found(mark, bits.words(), None));
                }
            }
            Self::Sweeps(_) => self.push(&vec![0.0; frames], found),
        }
    }

    fn push(&mut self, frames: &[f32], mut found: impl FnMut(FoundMark, u64, Option<f64>)) {
        match self {
            Self::Marks(finder, bits) => {
                bits.push(frames);
                finder.push(frames, |mark| found(mark, bits.words(), None));
            }
            Self::Sweeps(finder) => finder.push(frames, |sweep| {
                let FoundSweep { frame, fraction, uncertainty, confidence, gain, clear_db } = sweep;
                let mark = FoundMark { number: 0, frame, fraction, uncertainty, confidence, gain };
                found(mark, 0, Some(clear_db));
            }),
        }
    }
}

const HELD: Span = Span::from_secs(4);
const SHORTEST_RUN: Span = Span::from_micros(125);
/// Frames remembered, in marks. A mark is reported after its end.
const REMEMBERED: usize = 4;

pub(super) fn recorder(
    settings: &Settings,
    channel: usize,
    search: MarkSearch,
) -> (MarkRecorder, MarkReader) {
    let rate = settings.rate;
    let runs = HELD.as_nanos() / SHORTEST_RUN.as_nanos();
    let (writer, reader) = rings(rate.frames_within(HELD).as_len(), runs as usize);
    let faults = Arc::<FaultCounter>::default();
    let channels = settings.channels.count();
    let channel = channel.min(channels - 1);
    let recorder =
        MarkRecorder { writer, channels, channel, frames: 0, faults: Arc::clone(&faults) };
    let ear = MarkReader {
        reader,
        rate,
        search,
        given: 0,
        frame: 0,
        sound: Vec::new(),
        fresh: VecDeque::new(),
        searched: VecDeque::new(),
        unread: 0,
        end: LocalTime::ZERO,
        faults,
    };
    (recorder, ear)
}

impl Process for MarkRecorder {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let side = &cycle.capture;
        self.faults.count(cycle.xruns, side.skipped);
        self.frames += side.skipped.count();
        let run = FrameRun { frame: self.frames, meets: side.meets, uncertainty: side.uncertainty };
        self.writer.write(run, self.channels, self.channel, side.samples);
        self.frames += (side.samples.len() / self.channels) as i64;
        Flow::Continue
    }
}

impl MarkReader {
    pub(super) fn listen(&mut self) -> usize {
        let Self { reader, sound, fresh, rate, end, .. } = self;
        reader.read(|run, samples| {
            sound.extend_from_slice(samples);
            fresh.push_back((run, samples.len()));
            *end = run.meets + rate.span_of(Frames::from_len(samples.len()));
        });
        fresh.len()
    }

    pub(super) fn find(&mut self, runs: usize, mut notify: impl FnMut(JudgedMark)) {
        let mut begin = 0;
        for _ in 0..runs {
            let Some((run, len)) = self.fresh.pop_front() else { break };
            self.mind_the_gap(run.frame, &mut notify);
            self.searched.push_back((self.given, run));
            self.search(begin..begin + len, &mut notify);
            begin += len;
            self.given += len as i64;
            self.frame = run.frame + len as i64;
        }
        self.sound.drain(..begin);
        let oldest = self.given - (REMEMBERED * self.search.spacing()) as i64;
        while self.searched.get(1).is_some_and(|(given, _)| *given < oldest) {
            self.searched.pop_front();
        }
    }

    /// Frames that were dropped or did not fit belong to no mark.
    fn mind_the_gap(&mut self, frame: i64, notify: &mut impl FnMut(JudgedMark)) {
        let gap = frame - self.frame;
        if gap > 0 && self.given > 0 {
            self.unread += gap;
            let len = self.search.spacing().min(gap as usize);
            let Self { search, searched, rate, .. } = self;
            search.silence(len, |found, words, clear_db| {
                let received = received(searched, *rate, &found);
                received
                    .into_iter()
                    .for_each(|received| notify(JudgedMark { words, clear_db, ..received }));
            });
            self.given += len as i64;
        }
    }

    fn search(&mut self, range: core::ops::Range<usize>, notify: &mut impl FnMut(JudgedMark)) {
        let Self { search, sound, searched, rate, .. } = self;
        for frames in sound[range].chunks(WORD) {
            search.push(frames, |found, words, clear_db| {
                let received = received(searched, *rate, &found);
                received
                    .into_iter()
                    .for_each(|received| notify(JudgedMark { words, clear_db, ..received }));
            });
        }
    }

    /// Unsearched frames, without the device's drops.
    pub(super) fn unread(&self) -> i64 {
        self.unread - self.faults().skipped
    }

    pub(super) fn foreign(&self) -> u64 {
        match &self.search {
            MarkSearch::Marks(finder, _) => finder.foreign(),
            MarkSearch::Sweeps(_) => 0,
        }
    }

    pub(super) fn best_unclear_db(&self) -> Option<f64> {
        match &self.search {
            MarkSearch::Marks(..) => None,
            MarkSearch::Sweeps(finder) => finder.best_unclear_db(),
        }
    }

    pub(super) fn end(&self) -> LocalTime {
        self.end
    }

    pub(super) fn faults(&self) -> DeviceFaults {
        self.faults.read()
    }
}

fn received(
    searched: &VecDeque<(i64, FrameRun)>,
    rate: Rate,
    found: &FoundMark,
) -> Option<JudgedMark> {
    let (first, run) = searched.iter().rev().find(|(first, _)| *first <= found.frame)?;
    let into = Frames::new(found.frame - first);
    Some(JudgedMark {
        number: found.number,
        frame: (run.frame + into.count()) as f64 + found.fraction,
        alongside: found.uncertainty,
        at: run.meets + rate.span_of(into) + part_of_a_frame(rate, found.fraction),
        uncertainty: run.uncertainty
            + off_rate(rate.span_of(into))
            + part_of_a_frame(rate, found.uncertainty),
        clock: Span::ZERO,
        confidence: found.confidence,
        gain: found.gain,
        words: 0,
        clear_db: None,
    })
}
