//! Receivers known from their reports.

use super::duplicates::Duplicates;
use super::presence::{Presence, ReportWatch};
use crate::clock::ClockMapping;
use crate::endpoint::Host;
use crate::rtcp_session::Event;
use crate::send_policy::{Request, SendNote, TrustLevel};
use crate::time::{LocalTime, Span};
use crate::wire::rtcp::{Effective, LossReport, ReportBlock};

const MAX: usize = 64;

/// State of one receiver.
#[derive(Debug, Clone, Copy)]
pub struct KnownReceiver {
    /// SSRC of the receiver.
    pub ssrc: u32,
    /// Host of its last report.
    pub host: Host,
    /// Its requests.
    pub request: Request,
    /// Its newest report block.
    pub block: Option<ReportBlock>,
    /// Its measured latency.
    pub effective: Option<Effective>,
    /// Mapping of its clock.
    pub clock: Option<ClockMapping>,
    /// Its losses.
    pub losses: Option<LossReport>,
    /// Share of packets neither received nor repaired in time, between its last two reports.
    pub loss_share: Option<f64>,
    pub(super) watch: ReportWatch,
    sends: bool,
    pub(super) duplicates: Duplicates,
}

impl KnownReceiver {
    /// Whether its reports are trusted.
    pub fn is_believed(&self) -> bool {
        self.request.worth() > TrustLevel::Stranger
    }

    /// Presence of the receiver.
    pub const fn presence(&self) -> Presence {
        self.watch.presence()
    }

    /// Whether it reports now.
    pub fn is_here(&self) -> bool {
        self.presence() == Presence::Here
    }

    /// Times it was lost.
    pub const fn times_lost(&self) -> u32 {
        self.watch.times_lost()
    }

    /// Time since its last report.
    pub fn silence(&self, now: LocalTime) -> Span {
        self.watch.silence(now)
    }

    /// Whether it receives: in a call, another sender reports from the same host.
    pub(super) const fn receives(&self) -> bool {
        !self.sends || self.block.is_some() || self.effective.is_some() || self.losses.is_some()
    }
}

#[derive(Debug)]
pub(super) struct Receivers {
    all: Vec<KnownReceiver>,
    lost: u64,
}

impl Receivers {
    pub(super) fn new() -> Self {
        Self { all: Vec::with_capacity(MAX), lost: 0 }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &KnownReceiver> {
        self.all.iter()
    }

    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }

    /// Passes newly lost receivers to `notify`.
    pub(super) fn find_lost(&mut self, now: LocalTime, mut notify: impl FnMut(&KnownReceiver)) {
        for known in &mut self.all {
            if !known.watch.is_newly_lost(now) {
                continue;
            }
            // Strangers and other senders do not count as lost.
            if known.is_believed() && known.receives() {
                self.lost += 1;
                notify(known);
            } else {
                known.watch.end();
            }
        }
    }

    /// Hosts that are no longer destinations may stop reporting.
    pub(super) fn end_others(&mut self, is_destination: impl Fn(Host) -> bool) {
        self.all
            .iter_mut()
            .filter(|known| !is_destination(known.host))
            .for_each(|known| known.watch.end());
    }

    pub(super) fn believed(&self) -> impl Iterator<Item = &KnownReceiver> {
        self.all().filter(|known| known.is_believed())
    }

    pub(super) fn requests(&self) -> impl Iterator<Item = &Request> {
        self.all().map(|known| &known.request)
    }

    /// Returns a note if a lost receiver is back. Destination hosts with one SSRC are one receiver.
    pub(super) fn handle(
        &mut self,
        host: Host,
        worth: TrustLevel,
        event: &Event,
        now: LocalTime,
    ) -> Option<SendNote> {
        let ssrc = event.ssrc();
        let known = self.all.iter().position(|known| {
            let both = worth.min(known.request.worth()) == TrustLevel::Destination;
            known.ssrc == ssrc && (known.host == host || both)
        });
        let restarted = known.is_none().then(|| self.end_lost_at(host, now)).flatten();
        let index = known.or_else(|| self.make_room(ssrc, host, worth, now))?;
        let known = &mut self.all[index];
        known.host = host;
        known.request.set_worth(worth);
        let silence = known.watch.silence(now);
        let was_lost = match event {
            Event::Left(..) => {
                known.watch.leave(now);
                false
            }
            _ => known.watch.report(now),
        };
        match *event {
            Event::Mapped(_, mapping) => known.clock = Some(mapping),
            Event::Reception(_, block) => {
                known.block = Some(block);
                known.duplicates.handle(&block);
            }
            Event::Effective(_, effective) => {
                known.effective =
                    Some(effective).filter(|reported| reported.effective > Span::ZERO);
                known.request.need(effective.needed, now);
            }
            Event::Losses(_, losses) => {
                known.request.miss(losses.tally, now);
                let before = known.losses.replace(losses);
                known.loss_share = before.and_then(|before| losses.share_since(&before));
            }
            Event::Left(..) => known.request.leave(),
            Event::Captured(..) | Event::Announced(..) | Event::Capture(..) => known.sends = true,
            // The rate control and the path size use these.
            Event::Feedback(..) | Event::Passed(..) => {}
        }
        let same = was_lost.then(|| (silence, known.times_lost()));
        let (silence, times_lost) = same.or(restarted)?;
        Some(SendNote::ReceiverBack { ssrc, host, silence, times_lost })
    }

    /// Ends a lost receiver that another receiver replaces, as after a restart.
    fn end_lost_at(&mut self, host: Host, now: LocalTime) -> Option<(Span, u32)> {
        let lost =
            |known: &&mut KnownReceiver| known.host == host && known.presence() == Presence::Lost;
        let known = self.all.iter_mut().find(lost)?;
        known.watch.end();
        Some((known.watch.silence(now), known.times_lost()))
    }

    /// May replace a receiver that is gone or less trusted.
    fn make_room(
        &mut self,
        ssrc: u32,
        host: Host,
        worth: TrustLevel,
        now: LocalTime,
    ) -> Option<usize> {
        let new = KnownReceiver {
            ssrc,
            host,
            request: Request::default(),
            block: None,
            effective: None,
            clock: None,
            losses: None,
            loss_share: None,
            watch: ReportWatch::new(now),
            sends: false,
            duplicates: Duplicates::default(),
        };
        if self.all.len() < MAX {
            self.all.push(new);
            return Some(self.all.len() - 1);
        }
        let less = self.all.iter().position(|known| known.request.worth() < worth);
        let gone = || self.all.iter().position(|known| !known.is_here());
        let index = less.or_else(gone)?;
        self.all[index] = new;
        Some(index)
    }
}
