//! A zone on a virtual card, whose output is watched at the DAC.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::JoinHandle;

use rtrb::{Consumer, Producer, RingBuffer};
use tautline_audio::{DeviceSpec, Extras, open_supervised};
use tautline_engine::control::{ChangeSender, RecvChange, requests};
use tautline_engine::plan::probes::Probes;
use tautline_engine::plan::zone::ZonePlan;
use tautline_engine::plan::{RecvPlan, StreamPlan};
use tautline_engine::receive_engine::RecvEngine;
use tautline_io::clock::thread_time;
use tautline_io::udp::UdpOptions;
use tautline_io::udp::pair::open_stream;
use tautline_proto::device::{Direction, Listener, Stop};
use tautline_proto::jitter_buffer::JitterBufferConfig;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;
use tautline_proto::wire::rtp::{RtpUnpack, STAMPED_HEADER_BYTES};
use tautline_proto::zone::Arbiter;

use crate::{ALL, LINK_OFFSET, OPTIONS, PAGE, PROGRAM, Pace};

/// A change in the sound of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// First frame of an announcement.
    Start,
    /// The program is halfway down.
    Duck,
    /// Last frame of an announcement.
    End,
    /// The program is halfway up.
    Restore,
    /// The program changes its sign, and is past half of its level.
    Sign,
}

pub(crate) type Seen = (Change, LocalTime);

pub(crate) struct Zone {
    pub(crate) program: SocketAddr,
    pub(crate) announcements: SocketAddr,
    pace: Pace,
    changes: ChangeSender<RecvChange>,
    seen: Consumer<Seen>,
    /// Processor time of the ordinary thread and the device's.
    used: Arc<[AtomicI64; 2]>,
    stop: Stop,
    run: JoinHandle<()>,
}

impl Zone {
    /// `ppm`: error of the card's clock.
    pub(crate) fn start(number: u16, pace: Pace, ppm: i32) -> Self {
        let settings = pace.device();
        let (program, program_at) = stream(pace);
        let (announcements, announcements_at) = stream(pace);
        let senders = NonZeroUsize::new(Arbiter::MAX_ANNOUNCEMENTS);
        let announcements = StreamPlan { announces: true, senders, ..announcements };
        let plan = RecvPlan {
            zone: Some(ZonePlan { numbers: vec![number, ALL], ..ZonePlan::default() }),
            probes: Probes::Off,
            ..RecvPlan::new(vec![program, announcements], settings)
        };
        let (sees, seen) = RingBuffer::new(1024);
        let used = Arc::<[AtomicI64; 2]>::default();
        let watch = Watch {
            rate: settings.rate,
            before: 0.0,
            pages: false,
            inverted: false,
            sees,
            used: Arc::clone(&used),
        };
        let spec: DeviceSpec = format!("virtual:?ppm={ppm}").parse().unwrap();
        let extras = Extras { listener: Some(Box::new(watch)), ..Extras::default() };
        let device = open_supervised(&spec, Direction::Playback, settings, extras).unwrap().device;
        let mut engine = RecvEngine::new(plan).unwrap();
        let (changes, requests) = requests();
        engine.listen(requests);
        let stop = Stop::default();
        let (ends, uses) = (stop.clone(), Arc::clone(&used));
        let run = std::thread::spawn(move || {
            let report = |used: Span| uses[0].store(used.as_nanos(), Ordering::Relaxed);
            engine.run(device, &OPTIONS, &ends, &mut |_| report(thread_time())).unwrap();
        });
        let (program, announcements) = (program_at, announcements_at);
        Self { program, announcements, pace, changes, seen, used, stop, run }
    }

    /// A port for another program.
    pub(crate) fn another_program(&self) -> (StreamPlan, SocketAddr) {
        stream(self.pace)
    }

    /// Plays another program from presentation time `at` on.
    pub(crate) fn switch(&self, program: StreamPlan, at: LocalTime) {
        let program = StreamPlan { joins: Some(at), ..program };
        self.changes.request(RecvChange::From(Some(0), Box::new(program))).unwrap();
    }

    /// Changes since the last call.
    pub(crate) fn seen(&mut self) -> Vec<Seen> {
        core::iter::from_fn(|| self.seen.pop().ok()).collect()
    }

    pub(crate) fn used(&self) -> Span {
        Span::from_nanos(self.used.iter().map(|used| used.load(Ordering::Relaxed)).sum())
    }

    pub(crate) fn end(self) {
        self.stop.request();
        self.run.join().unwrap();
    }
}

fn stream(pace: Pace) -> (StreamPlan, SocketAddr) {
    let format = pace.format();
    let mut options = UdpOptions::receiver("127.0.0.1:0".parse().unwrap());
    options.datagram_bytes = STAMPED_HEADER_BYTES + format.payload_bytes();
    options.packets_per_second *= Arbiter::MAX_ANNOUNCEMENTS as u32;
    let opened = open_stream(&options, None).unwrap();
    let at = opened.addresses().0;
    let receiver = JitterBufferConfig::new(RtpUnpack::usual(), format, LINK_OFFSET);
    (StreamPlan::new(at.to_string(), receiver, opened.link, opened.control), at)
}

struct Watch {
    rate: Rate,
    before: f32,
    /// Whether an announcement plays.
    pages: bool,
    /// Whether the samples of the program are negative.
    inverted: bool,
    sees: Producer<Seen>,
    used: Arc<[AtomicI64; 2]>,
}

/// Program under an announcement: −20 dB.
const DUCKED: f32 = PROGRAM / 10.0;
const HALFWAY: f32 = f32::midpoint(PROGRAM, DUCKED);

impl Watch {
    /// The change between two samples, with its threshold.
    fn change(&self, sample: f32) -> Option<(Change, f32)> {
        let (start, end) = (PROGRAM + PAGE / 2.0, DUCKED + PAGE / 2.0);
        let falls = |below: f32| self.before >= below && sample < below;
        let rises = |above: f32| self.before < above && sample >= above;
        // The resampler's filter rings around 0 at the end of an announcement.
        let flipped = if self.inverted { PROGRAM / 2.0 } else { -PROGRAM / 2.0 };
        if if self.inverted { rises(flipped) } else { falls(flipped) } {
            Some((Change::Sign, flipped))
        } else if !self.pages && rises(start) {
            Some((Change::Start, start))
        } else if self.pages && falls(end) {
            Some((Change::End, end))
        } else if self.pages && falls(PAGE + HALFWAY) {
            Some((Change::Duck, PAGE + HALFWAY))
        } else if !self.pages && rises(HALFWAY) {
            Some((Change::Restore, HALFWAY))
        } else {
            None
        }
    }
}

impl Listener for Watch {
    fn received(&mut self, meets: LocalTime, _: LocalTime, samples: &[f32]) {
        for (index, frame) in samples.chunks_exact(2).enumerate() {
            if let Some((change, threshold)) = self.change(frame[0]) {
                let back = (frame[0] - threshold) / (frame[0] - self.before);
                let frames = self.rate.span_of(Frames::new(index as i64));
                let nanos = f64::from(back) * 1e9 / f64::from(self.rate.hertz());
                let at = meets + frames - Span::from_nanos(nanos as i64);
                let _ = self.sees.push((change, at));
                match change {
                    Change::Start => self.pages = true,
                    Change::End => self.pages = false,
                    Change::Sign => self.inverted = !self.inverted,
                    Change::Duck | Change::Restore => {}
                }
            }
            self.before = frame[0];
        }
        self.used[1].store(thread_time().as_nanos(), Ordering::Relaxed);
    }
}
