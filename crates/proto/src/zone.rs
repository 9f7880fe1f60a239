//! Arbiter of a zone: which announcement plays, and how loud everything else is.
//!
//! Stations claim ([`Claim`]); the zone decides alone. The decision is a function of the claims
//! only, so zones with the same claims agree. The result is a set of gains over presentation time
//! ([`GainCurve`]), so all zones change at the same frame, within the error of their clocks.
//!
//! A driver passes claims, sound and goodbyes to `handle_…`, calls [`Arbiter::poll`] at
//! [`Arbiter::poll_timeout`], and copies changed curves to the device thread. All times are on this
//! host's clock, except those in claims. Nothing allocates after set-up.

mod announcement;
mod claim;
mod curve;
mod gains;
mod plan;
mod program;
mod queue;
mod sender;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use tautline_dsp::gain::Gain;

use crate::clock::ClockMapping;
use crate::time::{LocalTime, Span, WallTime};
use announcement::{Announcement, Concerns, Moment, State};
use plan::Plan;

pub use claim::{AnnouncementId, Claim, Class, Duck, Priority, Targets};
pub use curve::GainCurve;
pub use gains::{AnnouncedGain, ZoneGains};
pub use program::{ProgramRule, Programs};
pub use queue::{Queue, QueueStep};
pub use sender::ClaimSender;

/// Settings of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneSettings {
    /// Numbers that address this zone: its own and its groups' numbers.
    pub numbers: Vec<u16>,
    /// Ranks of the stations that mute this zone, their own room, during their announcements.
    pub muted_by: Vec<u16>,
    /// Presentation time minus current time of the newest frame that the device has taken. Gains
    /// before that no longer change.
    pub lead: Span,
}

/// A claim that arrived.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedClaim<'a> {
    /// Stream of the announcement: the SSRC of the report with the claim.
    pub ssrc: u32,
    /// The claim.
    pub claim: Claim,
    /// Zones and groups addressed.
    pub targets: Targets<'a>,
    /// Mapping of the station's wall clock.
    pub clock: Option<ClockMapping>,
}

tautline_dsp::named_enum! {
    /// Reason why a claim has no effect.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ClaimRefused {
        /// Addresses other zones.
        OtherZone = "other-zone",
        /// The priority is a program's priority.
        Background = "background",
        /// The station's clock is not mapped yet.
        Unmapped = "unmapped",
        /// Departure is over 1 s from now: a repeated claim, or a wrong clock.
        Clock = "clock",
        /// The announcement starts over 1 s after the departure of its claim.
        Future = "future",
        /// The announcement is over.
        Over = "over",
        /// Contradicts an earlier claim of this announcement.
        Changed = "changed",
        /// Too many announcements take precedence.
        Full = "full",
    }
}

tautline_dsp::named_enum! {
    /// Why an announcement ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum EndReason {
        /// The station claimed the end or said goodbye.
        Station = "station",
        /// No packet for 500 ms.
        Silence = "silence",
        /// Reached its maximum duration.
        Longest = "longest",
        /// A user ended the announcement in this zone.
        Stopped = "stopped",
    }
}

/// Entry of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneEvent {
    /// An announcement plays from `at`, at the earliest from `now` plus lead.
    Started {
        /// Announcement.
        id: AnnouncementId,
        /// Presentation time of its first frame.
        at: LocalTime,
        /// Announcement whose station's room is this zone, which is silent therefore. It can be
        /// this announcement.
        muted_by: Option<AnnouncementId>,
    },
    /// Another announcement takes precedence: this announcement never starts here.
    Refused {
        /// Announcement.
        id: AnnouncementId,
        /// Announcement that plays instead.
        by: AnnouncementId,
    },
    /// The claim has no effect here, for a reason other than precedence.
    Rejected {
        /// Announcement.
        id: AnnouncementId,
        /// Reason.
        why: ClaimRefused,
    },
    /// Another announcement ends this announcement.
    Preempted {
        /// Announcement.
        id: AnnouncementId,
        /// Announcement that plays instead.
        by: AnnouncementId,
        /// Presentation time of the change.
        at: LocalTime,
    },
    /// The announcement is over.
    Ended {
        /// Announcement.
        id: AnnouncementId,
        /// Presentation time at which the zone is free.
        at: LocalTime,
        /// Reason.
        why: EndReason,
    },
}

impl ZoneEvent {
    /// Announcement of the event.
    pub const fn id(&self) -> AnnouncementId {
        match self {
            Self::Started { id, .. }
            | Self::Refused { id, .. }
            | Self::Rejected { id, .. }
            | Self::Preempted { id, .. }
            | Self::Ended { id, .. } => *id,
        }
    }
}

/// Planned curve, and the curve as played: they differ after late claims.
#[derive(Debug, Clone, Copy)]
struct Followed {
    planned: GainCurve,
    played: GainCurve,
}

impl Followed {
    const fn new(gain: Gain) -> Self {
        let curve = GainCurve::constant(gain);
        Self { planned: curve, played: curve }
    }

    fn follow(&mut self, planned: GainCurve, earliest: LocalTime) -> bool {
        let changes = self.planned != planned;
        if changes {
            self.planned = planned;
            self.played = self.played.joined(&planned, earliest, Arbiter::CATCH_UP);
        }
        changes
    }
}

/// State machine of a zone.
#[derive(Debug)]
pub struct Arbiter {
    settings: ZoneSettings,
    announcements: Vec<Announcement>,
    plan: Plan,
    duck: Followed,
    mute: Followed,
    emergency: Followed,
    announced: Vec<(u32, Followed)>,
    events: VecDeque<ZoneEvent>,
    refused: [u64; ClaimRefused::ALL.len()],
    timeout: LocalTime,
    revision: u64,
}

impl Arbiter {
    /// Maximum announcements known at once.
    pub const MAX_ANNOUNCEMENTS: usize = 16;
    /// Maximum error of a claimed time.
    const CLOCK_LIMIT: Span = Span::from_secs(1);
    /// Ramp after a late claim: short, without a click.
    const CATCH_UP: Span = Span::from_millis(10);
    /// Log entries kept if the driver does not take them.
    const MAX_EVENTS: usize = 64;

    /// Creates the arbiter of a zone without announcements.
    pub fn new(settings: ZoneSettings) -> Self {
        Self {
            settings,
            announcements: Vec::with_capacity(Self::MAX_ANNOUNCEMENTS),
            plan: Plan::with_capacity(Self::MAX_ANNOUNCEMENTS),
            duck: Followed::new(Gain::UNITY),
            mute: Followed::new(Gain::UNITY),
            emergency: Followed::new(Gain::SILENCE),
            announced: Vec::with_capacity(Self::MAX_ANNOUNCEMENTS),
            events: VecDeque::with_capacity(Self::MAX_EVENTS),
            refused: [0; ClaimRefused::ALL.len()],
            timeout: LocalTime::NEVER,
            revision: 0,
        }
    }

    /// The announcement that plays, or `None` if the zone is free.
    pub fn playing(&self) -> Option<AnnouncementId> {
        let playing = self.announcements.iter().find(|it| it.state == State::Playing);
        playing.map(|it| it.claim.id)
    }

    /// Gain of all programs below announcements.
    pub const fn duck(&self) -> GainCurve {
        self.duck.played
    }

    /// Gain of everything but emergencies: silence while a station of
    /// [`ZoneSettings::muted_by`] announces, in whatever zones.
    pub const fn mute(&self) -> GainCurve {
        self.mute.played
    }

    /// Full gain while an emergency announcement plays, else silence.
    pub const fn emergency(&self) -> GainCurve {
        self.emergency.played
    }

    /// Gain of announcement stream `ssrc`; silence without a claim.
    pub fn announced(&self, ssrc: u32) -> GainCurve {
        let found = self.announced.iter().find(|(of, _)| *of == ssrc);
        found.map_or(GainCurve::constant(Gain::SILENCE), |(_, followed)| followed.played)
    }

    /// All gains.
    pub fn gains(&self) -> ZoneGains {
        let announced = self.announced.iter().map(|(ssrc, followed)| {
            let all = self.announcements.iter();
            let is_muted = all.filter(|it| it.ssrc == *ssrc).any(Announcement::is_muted);
            AnnouncedGain { ssrc: *ssrc, curve: followed.played, is_muted }
        });
        let (mute, emergency) = (self.mute.played, self.emergency.played);
        ZoneGains::new([self.duck.played, mute, emergency], announced)
    }

    /// Whether an announcement starts soon whose sound has not arrived: report it without delay.
    pub fn awaits_sound(&self, now: LocalTime) -> bool {
        let awaited = |it: &Announcement| it.received.is_none() && it.starts.local > now;
        self.announcements.iter().any(awaited)
    }

    /// Rises with each change of a curve.
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Claims without effect, by reason.
    pub const fn refused(&self, why: ClaimRefused) -> u64 {
        self.refused[why as usize]
    }

    /// Time of the next [`Arbiter::poll`].
    pub const fn poll_timeout(&self) -> LocalTime {
        self.timeout
    }

    /// Next log entry.
    pub fn poll_event(&mut self) -> Option<ZoneEvent> {
        self.events.pop_front()
    }

    /// Handles an authenticated claim.
    pub fn handle_claim(
        &mut self,
        received: &ReceivedClaim<'_>,
        now: LocalTime,
    ) -> Result<(), ClaimRefused> {
        let result = self.take_claim(received, now);
        match result {
            Ok(()) => self.poll(now),
            Err(why) => self.refused[why as usize] = self.refused[why as usize].saturating_add(1),
        }
        result
    }

    fn take_claim(
        &mut self,
        received: &ReceivedClaim<'_>,
        now: LocalTime,
    ) -> Result<(), ClaimRefused> {
        let ReceivedClaim { ssrc, claim, targets, .. } = received;
        let is_addressed = targets.address(&self.settings.numbers);
        let mutes = self.settings.muted_by.contains(&claim.rank);
        if (is_addressed || mutes) && claim.priority.class() == Class::Background {
            return Err(ClaimRefused::Background);
        }
        let clock = Self::timely(received, now);
        if clock.is_ok() {
            let mut of_stream = self.announcements.iter_mut().filter(|it| it.ssrc == *ssrc);
            if of_stream.any(|it| it.give_way(claim)) {
                self.poll(now);
            }
        }
        if !is_addressed && !mutes {
            return Err(ClaimRefused::OtherZone);
        }
        let clock = clock?;
        if let Some(known) = self.announcements.iter_mut().find(|it| it.claim.id == claim.id) {
            if known.ssrc != *ssrc || !known.claim.is_same(claim) {
                return Err(ClaimRefused::Changed);
            }
            known.claim_again(claim, clock, now);
            return Ok(());
        }
        if claim.starts - claim.sent > Self::CLOCK_LIMIT {
            return Err(ClaimRefused::Future);
        }
        let concerns = Concerns { plays: is_addressed, mutes };
        let new = Announcement::new(*ssrc, claim, *clock, concerns, now);
        if new.ends().local <= self.earliest(now) {
            return Err(ClaimRefused::Over);
        }
        self.make_room(claim)?;
        self.announcements.push(new);
        Ok(())
    }

    /// The station's clock, if it agrees with the departure of the claim.
    fn timely<'a>(
        received: &'a ReceivedClaim<'_>,
        now: LocalTime,
    ) -> Result<&'a ClockMapping, ClaimRefused> {
        let clock = received.clock.as_ref().ok_or(ClaimRefused::Unmapped)?;
        let uncertainty = clock.uncertainty_at(now).ok_or(ClaimRefused::Unmapped)?;
        let error = (clock.local(received.claim.sent) - now).abs();
        if error > Self::CLOCK_LIMIT + uncertainty { Err(ClaimRefused::Clock) } else { Ok(clock) }
    }

    /// Drops the announcement that matters least, if all places are taken.
    fn make_room(&mut self, claim: &Claim) -> Result<(), ClaimRefused> {
        if self.announcements.len() < Self::MAX_ANNOUNCEMENTS {
            return Ok(());
        }
        let waits = |it: &&Announcement| it.state == State::Waiting && it.received.is_none();
        let least = self.announcements.iter().filter(waits).map(|it| it.claim);
        let least = least.min_by(Claim::precedence).filter(|it| claim.precedence(it).is_gt());
        let is_past = |it: &&Announcement| matches!(it.state, State::Lost(_) | State::Over);
        let oldest = self.announcements.iter().filter(is_past).min_by_key(|it| it.newest);
        let dropped = least.or(oldest.map(|it| it.claim)).ok_or(ClaimRefused::Full)?;
        self.announcements.retain(|it| it.claim.id != dropped.id);
        Ok(())
    }

    /// Handles received sound of stream `ssrc` that ends at presentation time `until`, on the
    /// station's clock.
    pub fn handle_sound(&mut self, ssrc: u32, until: WallTime, now: LocalTime) {
        let farthest = self.earliest(now) + Self::CLOCK_LIMIT;
        let mut revives = false;
        for known in self.announcements.iter_mut().filter(|it| it.ssrc == ssrc) {
            revives |= known.hear(until.min(known.clock.wall(farthest)), now);
        }
        if revives {
            self.poll(now);
        }
    }

    /// Handles a goodbye of stream `ssrc`.
    pub fn handle_bye(&mut self, ssrc: u32, now: LocalTime) {
        for known in self.announcements.iter_mut().filter(|it| it.ssrc == ssrc) {
            let last = known.received.unwrap_or_else(|| known.clock.wall(now));
            known.ended = known.ended.or(Some(Moment::of(last, &known.clock)));
        }
        self.poll(now);
    }

    /// Ends an announcement in this zone as soon as possible, by a user's request. Returns whether
    /// it is known. Its later claims and sound have no effect.
    pub fn handle_stop(&mut self, id: AnnouncementId, now: LocalTime) -> bool {
        let earliest = self.earliest(now);
        let known = self.announcements.iter_mut().find(|it| it.claim.id == id);
        let is_known = known.map(|it| it.stop(earliest)).is_some();
        if is_known {
            self.poll(now);
        }
        is_known
    }

    fn earliest(&self, now: LocalTime) -> LocalTime {
        now + self.settings.lead
    }

    /// Decides again. Call at [`Arbiter::poll_timeout`]; more often does no harm.
    pub fn poll(&mut self, now: LocalTime) {
        let earliest = self.earliest(now);
        self.announcements.retain(|it| it.is_forgotten_at() > now);
        let mut known = [None; Self::MAX_ANNOUNCEMENTS];
        for (id, it) in known.iter_mut().zip(&mut self.announcements) {
            *id = Some(it.claim.id);
            it.watch(earliest);
        }
        for it in &mut self.announcements {
            it.remember_loss(|id| known.contains(&Some(id)));
        }
        self.plan.make(&self.announcements);
        self.follow_curves(earliest);
        self.settle(earliest);
        self.schedule(now, earliest);
    }

    fn follow_curves(&mut self, earliest: LocalTime) {
        let (plan, all) = (&self.plan, &self.announcements);
        let mut changed = self.duck.follow(plan.duck(all), earliest);
        changed |= self.mute.follow(plan.mute(all, Self::CATCH_UP), earliest);
        changed |= self.emergency.follow(plan.emergency(), earliest);
        self.announced.retain(|(ssrc, _)| all.iter().any(|it| it.ssrc == *ssrc));
        for it in all {
            if !self.announced.iter().any(|(ssrc, _)| *ssrc == it.ssrc) {
                self.announced.push((it.ssrc, Followed::new(Gain::SILENCE)));
            }
        }
        for (ssrc, followed) in &mut self.announced {
            changed |= followed.follow(plan.announced(*ssrc, all), earliest);
        }
        self.revision += u64::from(changed);
    }

    /// Logs decisions that no longer change.
    fn settle(&mut self, earliest: LocalTime) {
        let Self { plan, announcements: all, events, .. } = self;
        let mut log = |event| {
            if events.len() == Self::MAX_EVENTS {
                events.pop_front();
            }
            events.push_back(event);
        };
        for turn in &plan.turns {
            let by = turn.preempted_by.map(|by| all[by].claim.id);
            let muted_by = plan::muting(all, turn);
            let it = &mut all[turn.index];
            let (id, at) = (it.claim.id, turn.ends.local);
            let begins = match it.state {
                State::Waiting => turn.begins.local <= earliest,
                // The winner ended earlier, as its claim shows now.
                State::Lost(_) => turn.begins.local <= earliest && at > earliest,
                State::Playing | State::Over => false,
            };
            if begins {
                it.state = State::Playing;
                log(ZoneEvent::Started { id, at: turn.begins.local, muted_by });
            }
            if it.state == State::Playing && at <= earliest {
                if let Some(by) = by {
                    it.lose(by, at);
                    log(ZoneEvent::Preempted { id, by, at });
                } else {
                    it.state = State::Over;
                    log(ZoneEvent::Ended { id, at, why: it.end_reason() });
                }
            }
        }
        for (index, winner) in &plan.refused {
            let by = all[*winner].claim.id;
            let it = &mut all[*index];
            let id = it.claim.id;
            match it.state {
                State::Waiting if it.starts.local <= earliest => {
                    log(ZoneEvent::Refused { id, by });
                }
                // The winner's claim arrived late.
                State::Playing => log(ZoneEvent::Preempted { id, by, at: earliest }),
                _ => continue,
            }
            it.lose(by, it.starts.local);
        }
    }

    fn schedule(&mut self, now: LocalTime, earliest: LocalTime) {
        let lead = self.settings.lead;
        let due = self.announcements.iter().flat_map(|it| {
            let silent = it.falls_silent().map(|at| at.local);
            let decided = [Some(it.starts.local), Some(it.ends().local), silent];
            let decided = decided.into_iter().flatten().filter(|at| *at > earliest);
            decided.map(|at| at - lead).chain([it.is_forgotten_at()])
        });
        self.timeout = due.filter(|at| *at > now).min().unwrap_or(LocalTime::NEVER);
    }
}
