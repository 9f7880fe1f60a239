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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use tautline_proto::time::LocalTime;
    use tautline_proto::units::{Channels, Rate};

    use super::*;
    use crate::shared::{Mode, Order};

    /// Hears, or plays, one block of ones after the other, and ends after so many.
    struct Blocks {
        left: usize,
        heard: Vec<(LocalTime, f32)>,
    }

    impl Process for Blocks {
        fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
            cycle.playback.samples.fill(1.0);
            let heard = cycle.capture.samples.first().copied();
            if self.heard.len() < self.heard.capacity() {
                self.heard.push((cycle.capture.meets, heard.unwrap_or(0.0)));
            }
            self.left -= 1;
            if self.left == 0 { Flow::Finished } else { Flow::Continue }
        }
    }

    fn settings() -> Settings {
        let period = Frames::new(48);
        Settings { rate: Rate::HZ_48000, channels: Channels::MONO, period, periods: 2 }
    }

    /// Runs a card of this end for five periods. The real-time sanitizer watches.
    fn run(end: End, shared: &Arc<Shared>) -> CardClock {
        let (started, starts) = sync_channel(1);
        shared.order(Order { stint: 1, mode: Mode::Running }, 0);
        let mut card = Card::new(settings(), end, Arc::clone(shared), started);
        let blocks = Blocks { left: 5, heard: Vec::with_capacity(5) };
        let (_, ended) = card.run(Box::new(blocks), &Stop::default());
        assert!(matches!(ended, Ended::Finished));
        starts.recv().unwrap()
    }

    #[test]
    fn a_card_takes_one_period_of_the_applications_at_each_wake_up() {
        let (mut ring, consumer) = rtrb::RingBuffer::new(480);
        (0..480).for_each(|number| ring.push(number as f32).unwrap());
        let shared = Arc::new(Shared::default());
        let clock = run(End::ToWire(Feeder::new(consumer, 1)), &shared);
        assert_eq!(ring.slots(), 5 * 48);
        let standing = shared.standing();
        assert_eq!((standing.position, standing.anchor), (5 * 48, Some(0)));
        assert!(now() >= clock.instant_of(5 * 48), "by its own clock");
    }

    #[test]
    fn a_card_gives_the_application_one_period_at_each_wake_up() {
        let (producer, ring) = rtrb::RingBuffer::new(480);
        let shared = Arc::new(Shared::default());
        run(End::FromWire(Giver::new(producer, 1)), &shared);
        assert_eq!(ring.slots(), 5 * 48);
        // What is given first meets the converter when the silence before it has.
        assert_eq!(shared.standing().anchor, Some(48));
    }
}
