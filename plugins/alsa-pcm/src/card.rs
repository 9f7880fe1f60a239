//! The device between the application's ring and the engine: a clock, and one period per wake-up.
//!
//! It keeps the time of a card without hardware ([`tautline_proto::card_clock`]) and not the
//! application's, so a slow application costs silence and the stream goes on.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use tautline_io::clock::{now, sleep_until};
use tautline_io::realtime;
use tautline_proto::card_clock::{CaptureRing, CardClock, PlaybackRing};
use tautline_proto::device::{Cycle, Device, Ended, Flow, Process, Settings, Side, Stop};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Ppm;

use crate::ends::{Feeder, Giver};
use crate::shared::Shared;

/// How late the thread may wake without a frame being lost, as long as a file's card waits: the
/// application's sound is there, and waits too.
const PATIENCE: Span = Span::from_secs(1);

/// Which way sound goes, with the ring's end.
pub(crate) enum End {
    /// From the application.
    ToWire(Feeder),
    /// To the application.
    FromWire(Giver),
}

/// The device.
pub(crate) struct Card {
    settings: Settings,
    end: End,
    shared: Arc<Shared>,
    /// Is told the clock when the card starts.
    started: SyncSender<CardClock>,
    block: Box<[f32]>,
}

impl Card {
    pub(crate) fn new(
        settings: Settings,
        end: End,
        shared: Arc<Shared>,
        started: SyncSender<CardClock>,
    ) -> Self {
        let block = vec![0.0; settings.channels.samples_in(settings.period)].into();
        Self { settings, end, shared, started, block }
    }

    fn patience(&self) -> Frames {
        self.settings.rate.frames_within(PATIENCE)
    }

    fn capture(&mut self, clock: CardClock, process: &mut dyn Process, stop: &Stop) -> Ended {
        let mut ring = CaptureRing::new(clock, &self.settings).patient(self.patience());
        loop {
            sleep_until(ring.wakes());
            let _realtime = realtime::scope();
            if stop.is_requested() {
                return Ended::Stopped;
            }
            let now = now();
            let turn = ring.begin(now);
            if let End::ToWire(feeder) = &mut self.end {
                feeder.feed(&self.shared, &turn, &mut self.block);
            }
            let mut cycle = Cycle {
                now,
                capture: Side {
                    samples: &mut self.block,
                    meets: turn.meets,
                    uncertainty: CardClock::UNCERTAINTY,
                    skipped: turn.skipped,
                },
                playback: Side::absent(),
                xruns: u32::from(turn.skipped > Frames::ZERO),
            };
            if process.process(&mut cycle) == Flow::Finished {
                return Ended::Finished;
            }
        }
    }

    fn play(&mut self, clock: CardClock, process: &mut dyn Process, stop: &Stop) -> Ended {
        let mut ring = PlaybackRing::new(clock, &self.settings).patient(self.patience());
        loop {
            sleep_until(ring.wakes());
            let _realtime = realtime::scope();
            if stop.is_requested() {
                return Ended::Stopped;
            }
            let woke = now();
            let turn = ring.begin(woke);
            self.block.fill(0.0);
            let mut cycle = Cycle {
                now: woke,
                capture: Side::absent(),
                playback: Side {
                    samples: &mut self.block,
                    meets: turn.meets,
                    uncertainty: CardClock::UNCERTAINTY,
                    skipped: turn.skipped,
                },
                xruns: u32::from(turn.skipped > Frames::ZERO),
            };
            let flow = process.process(&mut cycle);
            ring.finish(now());
            if let End::FromWire(giver) = &mut self.end {
                giver.give(&self.shared, &turn, &self.block);
            }
            if flow == Flow::Finished {
                return Ended::Finished;
            }
        }
    }
}

impl Device for Card {
    fn settings(&self) -> Settings {
        self.settings
    }

    fn run(&mut self, mut process: Box<dyn Process>, stop: &Stop) -> (Box<dyn Process>, Ended) {
        let clock = CardClock::new(now(), self.settings.rate, Ppm::ZERO);
        // Nobody waits any more only if the PCM was given up meanwhile.
        let _ = self.started.try_send(clock);
        let ended = match self.end {
            End::ToWire(_) => self.capture(clock, process.as_mut(), stop),
            End::FromWire(_) => self.play(clock, process.as_mut(), stop),
        };
        (process, ended)
    }
}
