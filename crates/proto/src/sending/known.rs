//! The receivers of a stream, as they told of themselves.

use super::duplicates::Duplicates;
use crate::asks::{Ask, Worth};
use crate::clock::ClockMapping;
use crate::endpoint::Host;
use crate::session::Event;
use crate::time::{LocalTime, Span};
use crate::wire::rtcp::{Effective, LossReport, ReportBlock};

/// Receivers that are remembered.
const MOST: usize = 64;

/// A receiver that says nothing for so long is gone: twice the time between the reports of one that
/// keeps to RFC 3550 (§6.2: 5 s, and half as much again by chance).
const FALLEN_SILENT: Span = Span::from_secs(15);

/// What one receiver said of itself.
#[derive(Debug, Clone, Copy)]
pub struct KnownReceiver {
    /// Its name: an SSRC.
    pub ssrc: u32,
    /// Where it said it last.
    pub host: Host,
    /// What it asks for.
    pub ask: Ask,
    /// Its newest report on the stream.
    pub block: Option<ReportBlock>,
    /// The latency that it reaches, where it plays.
    pub effective: Option<Effective>,
    /// How to read its clock.
    pub clock: Option<ClockMapping>,
    /// How much of the stream did not reach it.
    pub losses: Option<LossReport>,
    /// When it said something last.
    said: LocalTime,
    /// Whether it said goodbye.
    left: bool,
    /// Whether it gets what goes by two networks by both.
    pub(super) duplicates: Duplicates,
}

impl KnownReceiver {
    /// Whether its word counts.
    pub fn is_believed(&self) -> bool {
        self.ask.worth() > Worth::Stranger
    }

    /// Whether it is there: it said something lately, and no goodbye.
    pub fn is_here(&self, now: LocalTime) -> bool {
        !self.left && now - self.said < FALLEN_SILENT
    }

    /// Whether it said goodbye.
    pub const fn has_left(&self) -> bool {
        self.left
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Receivers(Vec<KnownReceiver>);

impl Receivers {
    pub(super) fn new() -> Self {
        Self(Vec::with_capacity(MOST))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &KnownReceiver> {
        self.0.iter()
    }

    pub(super) fn believed(&self) -> impl Iterator<Item = &KnownReceiver> {
        self.all().filter(|known| known.is_believed())
    }

    pub(super) fn asks(&self) -> impl Iterator<Item = &Ask> {
        self.all().map(|known| &known.ask)
    }

    /// Takes what a receiver of this worth said. Under one name the hosts that packets go to are one
    /// receiver, and every other is another.
    pub(super) fn hear(&mut self, host: Host, worth: Worth, event: &Event, now: LocalTime) {
        let ssrc = event.ssrc();
        let known = self.0.iter().position(|known| {
            let both = worth.min(known.ask.worth()) == Worth::Destination;
            known.ssrc == ssrc && (known.host == host || both)
        });
        let Some(index) = known.or_else(|| self.make_room(ssrc, host, worth)) else { return };
        let known = &mut self.0[index];
        known.host = host;
        known.ask.set_worth(worth);
        known.said = now;
        known.left = matches!(event, Event::Left { .. });
        match *event {
            Event::Mapped { mapping, .. } => known.clock = Some(mapping),
            Event::Reception { block, .. } => {
                known.block = Some(block);
                known.duplicates.hear(&block);
            }
            Event::Effective { effective, .. } => {
                known.effective = Some(effective).filter(|told| told.effective > Span::ZERO);
                known.ask.need(effective.needed, now);
            }
            Event::Losses { losses, .. } => {
                known.ask.miss(losses.tally, now);
                known.losses = Some(losses);
            }
            // What it lost is not taken back.
            Event::Left { .. } => known.ask.leave(),
            Event::Captured { .. } | Event::Announced { .. } => {}
        }
    }

    /// A place for another receiver: where all are taken, that of one whose word is worth less.
    fn make_room(&mut self, ssrc: u32, host: Host, worth: Worth) -> Option<usize> {
        let new = KnownReceiver {
            ssrc,
            host,
            ask: Ask::default(),
            block: None,
            effective: None,
            clock: None,
            losses: None,
            said: LocalTime::ZERO,
            left: false,
            duplicates: Duplicates::default(),
        };
        if self.0.len() < MOST {
            self.0.push(new);
            return Some(self.0.len() - 1);
        }
        let index = self.0.iter().position(|known| known.ask.worth() < worth)?;
        self.0[index] = new;
        Some(index)
    }
}
