use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use pipewire::buffer::Buffer;
use pipewire::stream::StreamRef;
use tautline_io::clock::now;
use tautline_io::thread::realtime;
use tautline_proto::device::{Cycle, Direction, Flow, Process, Settings, Side};
use tautline_proto::time::{Frames, LocalTime, Span};

use super::course::{BlockPlace, CycleReport, GraphTiming};
use super::priority::Priority;
use crate::toolbox::callback::{HeldProcess, Seat};

pub(super) const LONGEST: usize = 4096;
const BYTES: usize = size_of::<f32>();

pub(super) struct GraphShared {
    pub(super) seat: Seat,
    over: AtomicBool,
    pace: AtomicU64,
    graph_delay: AtomicI64,
    priority: Priority,
}

impl GraphShared {
    pub(super) fn new() -> Self {
        Self {
            seat: Seat::default(),
            over: AtomicBool::new(false),
            pace: AtomicU64::new(0),
            graph_delay: AtomicI64::new(0),
            priority: Priority::default(),
        }
    }

    pub(super) fn give(&self, process: Box<dyn Process>) {
        self.priority.take_from_this_thread();
        self.over.store(false, Ordering::Relaxed);
        self.seat.give(process);
    }

    pub(super) fn give_priority(&self) {
        self.priority.give_to_this_thread();
    }

    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(super) fn notify(&self, course: &GraphTiming, report: CycleReport) {
        if let Some(quantum) = course.quantum() {
            let pace = quantum << 32 | u64::from(report.hertz);
            self.pace.store(pace, Ordering::Relaxed);
            self.graph_delay.store(course.graph_delay().as_nanos(), Ordering::Relaxed);
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(super) fn pace(&self) -> Option<(u32, u32)> {
        let pace = self.pace.load(Ordering::Relaxed);
        (pace != 0).then_some(((pace >> 32) as u32, pace as u32))
    }

    pub(super) fn graph_delay(&self) -> Span {
        Span::from_nanos(self.graph_delay.load(Ordering::Relaxed))
    }
}

pub(super) struct Callee {
    shared: Arc<GraphShared>,
    pub(super) direction: Direction,
    pub(super) settings: Settings,
    course: GraphTiming,
    block: Box<[f32]>,
    begun: bool,
}

impl Callee {
    pub(super) fn new(
        shared: Arc<GraphShared>,
        direction: Direction,
        settings: Settings,
        at_ports: bool,
    ) -> Self {
        let course = GraphTiming::new(direction, settings.rate);
        let course = if at_ports { course.at_ports() } else { course };
        let block = vec![0.0; LONGEST * settings.channels.count()].into();
        Self { shared, direction, settings, course, block, begun: false }
    }

    pub(super) fn call(&mut self, stream: &StreamRef, report: Option<CycleReport>) {
        let now = now();
        let shared = Arc::clone(&self.shared);
        let mut held = shared.seat.hold();
        let process = held.as_mut().and_then(HeldProcess::process);
        if process.is_some() && !std::mem::replace(&mut self.begun, true) {
            shared.give_priority();
        }
        let _realtime = realtime::scope();
        let called = process.filter(|_| !shared.is_over()).zip(report);
        let Some((process, report)) = called else {
            self.course.restart();
            self.pass_over(stream);
            return;
        };
        while let Some(mut buffer) = stream.dequeue_buffer() {
            let flow = match self.direction {
                Direction::Capture => self.capture(process, &mut buffer, report, now),
                Direction::Playback => self.play(process, &mut buffer, report, now),
            };
            if flow == Flow::Finished {
                shared.end();
            }
            if flow == Flow::Finished || self.direction == Direction::Playback {
                break;
            }
        }
        shared.notify(&self.course, report);
    }

    fn pass_over(&mut self, stream: &StreamRef) {
        while let Some(mut buffer) = stream.dequeue_buffer() {
            if self.direction == Direction::Playback {
                let frames = self.wanted(&mut buffer);
                let written = self.bytes(frames);
                fill(&mut buffer, self.bytes(1), written, |bytes| bytes.fill(0));
                break;
            }
        }
    }

    fn capture(
        &mut self,
        process: &mut dyn Process,
        buffer: &mut Buffer<'_>,
        report: CycleReport,
        now: LocalTime,
    ) -> Flow {
        let Some(data) = buffer.datas_mut().first_mut() else { return Flow::Continue };
        let (from, size) = (data.chunk().offset() as usize, data.chunk().size() as usize);
        let frames = Frames::from_len(size / self.bytes(1));
        let size = self.bytes(frames.as_len());
        let bytes = data.data().and_then(|bytes| bytes.get(from..from + size));
        let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) else { return Flow::Continue };
        let place = self.course.place(report, frames);
        let longest = self.bytes(LONGEST);
        let mut flow = Flow::Continue;
        for (index, piece) in bytes.chunks(longest).enumerate() {
            let block = &mut self.block[..piece.len() / BYTES];
            for (sample, bytes) in block.iter_mut().zip(piece.chunks_exact(BYTES)) {
                *sample = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            }
            let capture = side(block, self.settings, place, index);
            let xruns = xruns(&capture);
            flow = process.process(&mut Cycle::one_way(Direction::Capture, now, capture, xruns));
            if flow == Flow::Finished {
                break;
            }
        }
        flow
    }

    fn play(
        &mut self,
        process: &mut dyn Process,
        buffer: &mut Buffer<'_>,
        report: CycleReport,
        now: LocalTime,
    ) -> Flow {
        let frames = self.wanted(buffer);
        let (stride, size) = (self.bytes(1), self.bytes(frames));
        if size == 0 {
            return Flow::Continue;
        }
        let place = self.course.place(report, Frames::from_len(frames));
        let (longest, settings, room) = (self.bytes(LONGEST), self.settings, &mut self.block);
        let mut flow = Flow::Continue;
        fill(buffer, stride, size, |bytes| {
            for (index, piece) in bytes.chunks_mut(longest).enumerate() {
                let block = &mut room[..piece.len() / BYTES];
                block.fill(0.0);
                let playback = side(block, settings, place, index);
                let xruns = xruns(&playback);
                let mut cycle = Cycle::one_way(Direction::Playback, now, playback, xruns);
                if flow == Flow::Continue {
                    flow = process.process(&mut cycle);
                }
                for (bytes, sample) in piece.chunks_exact_mut(BYTES).zip(room.iter()) {
                    bytes.copy_from_slice(&sample.to_le_bytes());
                }
            }
        });
        flow
    }

    fn wanted(&self, buffer: &mut Buffer<'_>) -> usize {
        let requested = usize::try_from(buffer.requested()).unwrap_or(usize::MAX);
        let data = buffer.datas_mut().first_mut().and_then(|data| data.data());
        let room = data.map_or(0, |bytes| bytes.len() / self.bytes(1));
        if requested > 0 { requested.min(room) } else { room.min(self.settings.period.as_len()) }
    }

    fn bytes(&self, frames: usize) -> usize {
        frames * self.settings.channels.count() * BYTES
    }
}

fn fill(buffer: &mut Buffer<'_>, stride: usize, size: usize, write: impl FnOnce(&mut [u8])) {
    let Some(data) = buffer.datas_mut().first_mut() else { return };
    let Some(bytes) = data.data().and_then(|bytes| bytes.get_mut(..size)) else { return };
    write(bytes);
    let chunk = data.chunk_mut();
    *chunk.offset_mut() = 0;
    *chunk.stride_mut() = stride as i32;
    *chunk.size_mut() = size as u32;
}

pub(super) fn side(
    samples: &mut [f32],
    settings: Settings,
    place: BlockPlace,
    index: usize,
) -> Side<'_> {
    let before = Frames::from_len(index * LONGEST);
    let skipped = if index == 0 { place.skipped } else { Frames::ZERO };
    let meets = place.meets + settings.rate.span_of(before);
    Side { samples, meets, uncertainty: place.uncertainty, skipped }
}

fn xruns(side: &Side<'_>) -> u32 {
    u32::from(side.skipped > Frames::ZERO)
}
