//! Hosts of a world, each with a clock, a card and a session; and a receiver's state.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use fastrand::Rng;
use tautline_proto::clock::HostClock;
use tautline_proto::endpoint::Endpoint;
use tautline_proto::jitter_buffer::JitterBuffer;
use tautline_proto::rtcp_session::{Session, SessionConfig};
use tautline_proto::time::{LocalTime, Span};

use crate::beat::Ordinary;
use crate::card::SimCard;
use crate::clock::{SimClock, TrueTime};
use crate::link::{Path, PathModel, Pauses};
use crate::received::Received;
use crate::scenario::{HostModel, ReceiverModel, Scenario};

pub(super) type SharedPath = Rc<RefCell<Path>>;

fn path(model: &PathModel, rng: &mut Rng) -> SharedPath {
    Rc::new(RefCell::new(Path::new(model.clone(), rng.u64(..))))
}

pub(super) struct SimHost {
    pub(super) clock: SimClock,
    pub(super) card: SimCard,
    pub(super) freezes: Pauses,
    pub(super) session: Session,
    pub(super) wall: Span,
}

pub(super) struct SimReceiver {
    pub(super) host: SimHost,
    pub(super) there: SharedPath,
    pub(super) also_there: Option<SharedPath>,
    pub(super) back: SharedPath,
    pub(super) receiver: JitterBuffer,
    pub(super) arrived: VecDeque<(Vec<u8>, Endpoint, LocalTime)>,
    pub(super) ordinary: Ordinary,
    pub(super) received: Received,
}

pub(super) fn session(ssrc: u32, wall_offset: Span, host: Option<HostClock>) -> Session {
    Session::new(SessionConfig { ssrc, cname: format!("{ssrc:08x}"), wall_offset, host })
}

impl SimHost {
    pub(super) fn new(model: &HostModel, scenario: &Scenario, ssrc: u32, rng: &mut Rng) -> Self {
        let wall = Span::from_secs(1_700_000_000);
        Self {
            clock: SimClock::new(model.clock, model.events.clone(), rng.u64(..)),
            card: SimCard::new(
                model.card,
                model.card_events.clone(),
                scenario.format.rate,
                rng.u64(..),
            ),
            freezes: Pauses::new(model.freezes, rng.u64(..)).and(model.stopped.clone()),
            session: session(ssrc, wall, model.name),
            wall,
        }
    }

    pub(super) fn local(&mut self, at: TrueTime) -> LocalTime {
        self.clock.reading(at)
    }

    /// Time at which the clock shows `local`, at most 1 s from now, so that a stepped clock is read
    /// again.
    pub(super) fn when(&mut self, local: LocalTime, now: TrueTime) -> TrueTime {
        let second = now.after(Span::from_secs(1));
        if local.is_never() { second } else { self.clock.when(local, now).min(second) }
    }
}

impl SimReceiver {
    pub(super) fn new(
        model: &ReceiverModel,
        scenario: &Scenario,
        number: u32,
        rng: &mut Rng,
    ) -> Self {
        let (ordinary, receiver) = Ordinary::new(scenario, &model.host.card);
        let host = SimHost::new(&model.host, scenario, number, rng);
        Self {
            there: path(&model.there, rng),
            back: path(&model.back, rng),
            also_there: model.also_there.as_ref().map(|model| path(model, rng)),
            arrived: VecDeque::new(),
            ordinary,
            received: Received::by(format!(
                "{}, seed {}, receiver {number}",
                scenario.network, scenario.seed
            )),
            receiver,
            host,
        }
    }

    pub(super) fn finish(mut self) -> Received {
        self.ordinary.finish(&mut self.receiver, &mut self.received);
        let counters = self.received.counters;
        assert!(counters.concealed_frames <= counters.missing_frames, "{counters:?}");
        self.received
    }
}
