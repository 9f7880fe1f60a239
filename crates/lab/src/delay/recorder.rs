//! Keeps what a device hears, and finds the marks in it.

use std::collections::VecDeque;
use std::sync::Arc;

use tautline_dsp::timecode::{Finder, FoundMark, SPACING};
use tautline_engine::watching::sound::rings::{Reader, Writer, rings};
use tautline_proto::device::{Cycle, Flow, Process, Settings};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;

use super::judge::{HeardMark, Judge};
use super::part_of_a_frame;
use super::player::{DeviceFaults, FaultCounter};

/// A run of frames, as its device had it.
#[derive(Debug, Clone, Copy)]
struct FrameRun {
    /// Of the device, from its start: what it dropped counts.
    frame: i64,
    meets: LocalTime,
    uncertainty: Span,
}

/// What the input's device calls.
pub(super) struct MarkRecorder {
    writer: Writer<FrameRun>,
    channels: usize,
    channel: usize,
    frames: i64,
    faults: Arc<FaultCounter>,
}

/// The other end.
pub(super) struct MarkReader {
    reader: Reader<FrameRun>,
    rate: Rate,
    finder: Finder,
    /// Frames that the finder was given, and the same by the count of the device.
    given: i64,
    frame: i64,
    /// Sound that was heard and is still to be searched, in runs.
    sound: Vec<f32>,
    fresh: VecDeque<(FrameRun, usize)>,
    /// Runs that marks to come may lie in, with the count of the finder at their first frame.
    searched: VecDeque<(i64, FrameRun)>,
    unread: i64,
    /// When the last frame met the ADC.
    end: LocalTime,
    faults: Arc<FaultCounter>,
}

/// What may wait for the ordinary thread.
const HELD: Span = Span::from_secs(4);
/// The shortest periods.
const SHORTEST_RUN: Span = Span::from_micros(125);
/// Runs that a mark may still lie in: a mark is told when it is over.
const REMEMBERED: i64 = 4 * SPACING as i64;

pub(super) fn recorder(settings: &Settings, channel: usize) -> (MarkRecorder, MarkReader) {
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
        finder: Finder::new(),
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
    /// Takes in what was heard so far; how much that is.
    pub(super) fn listen(&mut self) -> usize {
        let Self { reader, sound, fresh, rate, end, .. } = self;
        reader.read(|run, samples| {
            sound.extend_from_slice(samples);
            fresh.push_back((run, samples.len()));
            *end = run.meets + rate.span_of(Frames::from_len(samples.len()));
        });
        fresh.len()
    }

    /// Searches the first `runs` of it.
    pub(super) fn find(&mut self, runs: usize, judge: &mut Judge) {
        let mut begin = 0;
        for _ in 0..runs {
            let Some((run, len)) = self.fresh.pop_front() else { break };
            self.mind_the_gap(run.frame);
            self.searched.push_back((self.given, run));
            self.search(begin..begin + len, judge);
            begin += len;
            self.given += len as i64;
            self.frame = run.frame + len as i64;
        }
        self.sound.drain(..begin);
        let oldest = self.given - REMEMBERED;
        while self.searched.get(1).is_some_and(|(given, _)| *given < oldest) {
            self.searched.pop_front();
        }
    }

    /// Frames that the device dropped, or for which there was no room, belong to no mark.
    fn mind_the_gap(&mut self, frame: i64) {
        let gap = frame - self.frame;
        if gap > 0 && self.given > 0 {
            self.unread += gap;
            let silence = [0.0; SPACING];
            let len = silence.len().min(gap as usize);
            self.finder.push(&silence[..len], |_| {});
            self.given += len as i64;
        }
    }

    fn search(&mut self, range: core::ops::Range<usize>, judge: &mut Judge) {
        let Self { finder, sound, searched, rate, .. } = self;
        finder.push(&sound[range], |found| {
            if let Some(heard) = heard(searched, *rate, &found) {
                judge.heard(heard);
            }
        });
    }

    /// Frames that were not searched: dropped by the device, or because there was no room.
    pub(super) fn unread(&self) -> i64 {
        self.unread - self.faults().skipped
    }

    pub(super) fn end(&self) -> LocalTime {
        self.end
    }

    pub(super) fn faults(&self) -> DeviceFaults {
        self.faults.read()
    }
}

/// When a mark met the ADC, by the word of the run that it lies in.
fn heard(searched: &VecDeque<(i64, FrameRun)>, rate: Rate, found: &FoundMark) -> Option<HeardMark> {
    let (first, run) = searched.iter().rev().find(|(first, _)| *first <= found.frame)?;
    let into = Frames::new(found.frame - first);
    Some(HeardMark {
        number: found.number,
        frame: (run.frame + into.count()) as f64 + found.fraction,
        at: run.meets + rate.span_of(into) + part_of_a_frame(rate, found.fraction),
        uncertainty: run.uncertainty + part_of_a_frame(rate, found.uncertainty),
        confidence: found.confidence,
        gain: found.gain,
    })
}
