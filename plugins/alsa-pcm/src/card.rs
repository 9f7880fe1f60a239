//! The card between the application and the engine, with the time of a card without hardware
//! ([`tautline_proto::card_clock`]). A slow application only causes silence. A late wake-up loses
//! no sound.

use std::sync::mpsc::SyncSender;

use tautline_io::clock::host_clock;
use tautline_io::clock::{now, sleep_until};
use tautline_io::programs::ends::{Feeder, Giver};
use tautline_io::thread::realtime;
use tautline_proto::card_clock::{CardClock, CardRing};
use tautline_proto::clock::{ClockId, HostClock};
use tautline_proto::device::{
    Cycle, Device, Direction, Ended, Flow, Process, Settings, Stop, TimestampSource,
};
use tautline_proto::time::Frames;
use tautline_proto::units::Ppm;

pub(crate) enum BufferEnd {
    ToWire(Feeder),
    FromWire(Giver),
}

pub(crate) struct DeviceProcess {
    settings: Settings,
    end: BufferEnd,
    started: SyncSender<CardClock>,
    clock: Option<ClockId>,
    block: Box<[f32]>,
}

impl DeviceProcess {
    pub(crate) fn new(settings: Settings, end: BufferEnd, started: SyncSender<CardClock>) -> Self {
        let block = vec![0.0; settings.channels.samples_in(settings.period)].into();
        let clock = host_clock().map(HostClock::id);
        Self { settings, end, started, clock, block }
    }

    fn direction(&self) -> Direction {
        match self.end {
            BufferEnd::ToWire(_) => Direction::Capture,
            BufferEnd::FromWire(_) => Direction::Playback,
        }
    }

    fn go(&mut self, clock: CardClock, process: &mut dyn Process, stop: &Stop) -> Ended {
        let direction = self.direction();
        let mut ring = CardRing::new(direction, clock, &self.settings);
        loop {
            sleep_until(ring.wakes());
            let _realtime = realtime::scope();
            if stop.is_requested() {
                return Ended::Stopped;
            }
            let woke = now();
            let turn = ring.begin(woke);
            match &mut self.end {
                BufferEnd::ToWire(feeder) => feeder.feed(&turn, &mut self.block),
                BufferEnd::FromWire(_) => self.block.fill(0.0),
            }
            let xruns = u32::from(turn.skipped > Frames::ZERO);
            let side = turn.side(&mut self.block);
            let cycle = Cycle::one_way(direction, woke, side, xruns);
            let flow = process.process(&mut cycle.by(self.clock));
            if let BufferEnd::FromWire(giver) = &mut self.end {
                ring.finish(now());
                giver.give(&turn, &self.block);
            }
            if flow == Flow::Finished {
                return Ended::Finished;
            }
        }
    }
}

impl Device for DeviceProcess {
    fn settings(&self) -> Settings {
        self.settings
    }

    fn clock(&self) -> Option<ClockId> {
        self.clock
    }

    fn timestamp_source(&self) -> TimestampSource {
        TimestampSource::Due
    }

    fn run(&mut self, mut process: Box<dyn Process>, stop: &Stop) -> (Box<dyn Process>, Ended) {
        let start = match self.direction() {
            Direction::Capture => CardClock::start_at_tick(now()),
            Direction::Playback => now(),
        };
        let clock = CardClock::new(start, self.settings.rate, Ppm::ZERO);
        // Fails only if the PCM was abandoned meanwhile.
        let _ = self.started.try_send(clock);
        let ended = self.go(clock, process.as_mut(), stop);
        (process, ended)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::sync_channel;

    use tautline_io::programs::buffer::RecordingEnd;
    use tautline_io::programs::buffer::{Mode, Order, ProgramBuffer};
    use tautline_proto::time::{LocalTime, MediaTime};
    use tautline_proto::units::{Channels, Rate};

    use super::*;

    struct Blocks {
        left: usize,
        received: Vec<(LocalTime, f32)>,
    }

    impl Process for Blocks {
        fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
            cycle.playback.samples.fill(1.0);
            let received = cycle.capture.samples.first().copied();
            if self.received.len() < self.received.capacity() {
                self.received.push((cycle.capture.meets, received.unwrap_or(0.0)));
            }
            self.left -= 1;
            if self.left == 0 { Flow::Finished } else { Flow::Continue }
        }
    }

    fn settings() -> Settings {
        let period = Frames::new(48);
        Settings { rate: Rate::HZ_48000, channels: Channels::MONO, period, periods: 2 }
    }

    /// Five periods, under the real-time sanitizer.
    fn run(end: BufferEnd, shared: &ProgramBuffer) -> CardClock {
        let (started, starts) = sync_channel(1);
        shared.order(Order { stint: 1, mode: Mode::Running });
        let mut card = DeviceProcess::new(settings(), end, started);
        let blocks = Blocks { left: 5, received: Vec::with_capacity(5) };
        let (_, ended) = card.run(Box::new(blocks), &Stop::default());
        assert!(matches!(ended, Ended::Finished));
        starts.recv().unwrap()
    }

    #[test]
    fn a_card_takes_one_period_of_the_applications_at_each_wake_up() {
        let shared = Arc::new(ProgramBuffer::new(480, 1));
        let clock = run(BufferEnd::ToWire(Feeder::new(Arc::clone(&shared))), &shared);
        let standing = shared.standing();
        assert_eq!((standing.position, standing.anchor), (MediaTime::from_frames(5 * 48), Some(0)));
        assert!(now() >= clock.instant_of(5 * 48), "by its own clock");
    }

    #[test]
    fn a_card_gives_the_application_one_period_at_each_wake_up() {
        let shared = Arc::new(ProgramBuffer::new(480, 1));
        run(BufferEnd::FromWire(Giver::new(Arc::clone(&shared))), &shared);
        assert_eq!(RecordingEnd::new(Arc::clone(&shared)).frames(), 5 * 48);
        // One period of silence precedes the first frame.
        assert_eq!(shared.standing().anchor, Some(48));
    }
}
