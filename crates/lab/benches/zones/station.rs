//! Senders of constant samples: the program, and stations with a button.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::JoinHandle;

use tautline_engine::plan::SendPlan;
use tautline_engine::plan::probes::Probes;
use tautline_engine::plan::zone::AnnouncementPlan;
use tautline_engine::send_engine::SendEngine;
use tautline_io::clock::{now, sleep_until};
use tautline_io::udp::UdpOptions;
use tautline_io::udp::pair::open_stream;
use tautline_proto::device::{
    Cycle, Device, Direction, Ended, Flow, Process, Settings, Side, Stop,
};
use tautline_proto::latency::LatencyRule;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::wire::rtp::STAMPED_HEADER_BYTES;
use tautline_proto::zone::Priority;

use crate::{ALL, LINK_OFFSET, OPTIONS, PROGRAM, Pace, STEADY};

/// A running sender. Until its button is pressed, it only exchanges reports.
pub(crate) struct Sender {
    pressed: Arc<AtomicI64>,
    stop: Stop,
    run: JoinHandle<()>,
}

const NOT_YET: i64 = i64::MAX;

impl Sender {
    /// A program that sends from now on. Its sign changes every `flip`.
    pub(crate) fn program(to: &[SocketAddr], pace: Pace, flip: Span) -> Self {
        let sender = Self::start((to, &[]), pace, (PROGRAM, flip), None);
        sender.press();
        sender
    }

    /// A station. Its packets also go to `taps`, without reports.
    pub(crate) fn station(
        (to, taps): (&[SocketAddr], &[SocketAddr]),
        pace: Pace,
        level: f32,
    ) -> Self {
        let plan = AnnouncementPlan::new(vec![ALL], Priority(100)).unwrap();
        Self::start((to, taps), pace, (level, STEADY), Some(plan))
    }

    fn start(
        (to, taps): (&[SocketAddr], &[SocketAddr]),
        pace: Pace,
        (level, flip): (f32, Span),
        announcement: Option<AnnouncementPlan>,
    ) -> Self {
        let format = pace.format();
        let mut options = UdpOptions::sender([to, taps].concat());
        options.datagram_bytes = STAMPED_HEADER_BYTES + format.payload_bytes();
        let opened = open_stream(&options, None).unwrap();
        let settings = pace.device();
        let mut plan = SendPlan::new("zones".to_owned(), opened, format, settings).unwrap();
        let reports = to.iter().map(|to| SocketAddr::new(to.ip(), to.port() + 1).into());
        plan.reports_to = reports.collect();
        plan.policy.link_offset = LINK_OFFSET;
        plan.policy.latency = LatencyRule::Chosen(LINK_OFFSET);
        plan.stream.probes = Probes::Off;
        plan.announcement = announcement;
        let engine = SendEngine::new(plan).unwrap();
        let (pressed, stop) = (Arc::new(AtomicI64::new(NOT_YET)), Stop::default());
        let device = Button {
            settings,
            level,
            flip: format.rate.frames_within(flip),
            pressed: Arc::clone(&pressed),
        };
        let ends = stop.clone();
        let run = std::thread::spawn(move || {
            engine.run(Box::new(device), &OPTIONS, &ends, &mut |_| ()).unwrap();
        });
        Self { pressed, stop, run }
    }

    /// Captures from now on. Returns the capture time of the first frame.
    pub(crate) fn press(&self) -> LocalTime {
        let at = now();
        self.pressed.store(at.as_nanos(), Ordering::Release);
        at
    }

    /// Ends the announcement, and waits until its goodbye was sent.
    pub(crate) fn release(self) {
        self.stop.request();
        self.run.join().unwrap();
    }
}

/// A capturing device that starts when its button is pressed.
struct Button {
    settings: Settings,
    level: f32,
    /// Frames between changes of the sign.
    flip: Frames,
    pressed: Arc<AtomicI64>,
}

impl Device for Button {
    fn settings(&self) -> Settings {
        self.settings
    }

    fn run(&mut self, mut process: Box<dyn Process>, stop: &Stop) -> (Box<dyn Process>, Ended) {
        let Settings { rate, channels, period, .. } = self.settings;
        let mut block = vec![self.level; channels.samples_in(period)];
        let (mut start, mut frame) = (None, Frames::ZERO);
        while !stop.is_requested() {
            let pressed = LocalTime::from_nanos(self.pressed.load(Ordering::Acquire));
            let Some(begun) = start.or((pressed <= now()).then_some(pressed)) else {
                sleep_until(now() + Span::from_micros(500));
                continue;
            };
            start = Some(begun);
            let is_negative = frame.count() / self.flip.count() % 2 == 1;
            block.fill(if is_negative { -self.level } else { self.level });
            let meets = begun + rate.span_of(frame);
            frame += period;
            sleep_until(begun + rate.span_of(frame));
            let (uncertainty, skipped) = (Span::ZERO, Frames::ZERO);
            let side = Side { samples: &mut block, meets, uncertainty, skipped };
            let mut cycle = Cycle::one_way(Direction::Capture, now(), side, 0);
            if process.process(&mut cycle) == Flow::Finished {
                break;
            }
        }
        (process, Ended::Finished)
    }
}
