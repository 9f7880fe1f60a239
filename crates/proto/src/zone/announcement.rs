//! An announcement as known to a zone.

use super::EndReason;
use super::claim::{AnnouncementId, Claim, Class};
use crate::clock::ClockMapping;
use crate::time::{LocalTime, Span, WallTime};

/// Presentation time on the station's wall clock and on this host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) wall: WallTime,
    pub(super) local: LocalTime,
}

impl Moment {
    pub(super) fn of(wall: WallTime, clock: &ClockMapping) -> Self {
        Self { wall, local: clock.local(wall) }
    }

    fn min(self, other: Self) -> Self {
        if other.wall < self.wall { other } else { self }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    Playing,
    Lost(Loss),
    Over,
}

/// Another announcement takes precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) by: AnnouncementId,
    /// Start of the winning announcement, or of this announcement if it is later.
    pub(super) at: Moment,
    /// The winner is forgotten, so this result no longer changes.
    is_final: bool,
}

/// How an announcement concerns the zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Concerns {
    /// The claim addresses the zone.
    pub(super) plays: bool,
    /// The zone is the room of the announcement's station.
    pub(super) mutes: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Announcement {
    pub(super) concerns: Concerns,
    pub(super) ssrc: u32,
    /// As first accepted.
    pub(super) claim: Claim,
    pub(super) clock: ClockMapping,
    pub(super) starts: Moment,
    /// Start plus maximum duration.
    limit: Moment,
    /// End of the last frame, by flag or BYE.
    pub(super) ended: Option<Moment>,
    /// Presentation time up to which sound was received.
    pub(super) received: Option<WallTime>,
    /// Time at which the zone is free again, without packets.
    silent: Option<Moment>,
    /// Whether a user ended the announcement here.
    is_stopped: bool,
    /// Whether a claim arrived since then.
    claimed: bool,
    pub(super) state: State,
    /// Arrival of the newest claim or sound.
    pub(super) newest: LocalTime,
}

impl Announcement {
    /// A station without packets for this long has ended its announcement.
    const SILENCE: Span = Span::from_millis(500);
    /// Fade of a stopped announcement: short, without a click.
    const STOP_FADE: Span = Span::from_millis(10);
    /// Late packets and claims of an announcement that is over still find its record: twice the
    /// maximum age of claims.
    const MEMORY: Span = Span::from_secs(2);

    pub(super) fn new(
        ssrc: u32,
        claim: &Claim,
        clock: ClockMapping,
        concerns: Concerns,
        now: LocalTime,
    ) -> Self {
        Self {
            concerns,
            ssrc,
            claim: *claim,
            clock,
            starts: Moment::of(claim.starts, &clock),
            limit: Moment::of(claim.starts + claim.longest, &clock),
            ended: claim.ends.map(|ends| Moment::of(ends, &clock)),
            received: None,
            silent: None,
            is_stopped: false,
            claimed: true,
            state: State::Waiting,
            newest: now,
        }
    }

    /// A claim alone plays nothing: sound must arrive, too.
    pub(super) fn competes(&self) -> bool {
        self.concerns.plays && self.received.is_some() && self.ends().wall > self.starts.wall
    }

    /// Time in which the announcement mutes its station's room: as long as it runs, even if only
    /// other zones play it.
    pub(super) fn mutes_during(&self) -> Option<(LocalTime, LocalTime)> {
        let ends = self.runs_until().local;
        let mutes = self.concerns.mutes && self.received.is_some() && ends > self.starts.local;
        mutes.then_some((self.starts.local, ends))
    }

    /// Whether a mute silences this announcement here. An emergency of another station sounds in
    /// all rooms.
    pub(super) fn is_muted(&self) -> bool {
        self.concerns.mutes || self.claim.priority.class() != Class::Emergency
    }

    fn runs_until(&self) -> Moment {
        self.ended.or(self.silent).map_or(self.limit, |ends| ends.min(self.limit))
    }

    pub(super) fn lose(&mut self, by: AnnouncementId, at: LocalTime) {
        let at = if at <= self.starts.local {
            self.starts
        } else {
            Moment { wall: self.clock.wall(at), local: at }
        };
        self.state = State::Lost(Loss { by, at, is_final: false });
    }

    pub(super) fn remember_loss(&mut self, knows: impl Fn(AnnouncementId) -> bool) {
        if let State::Lost(loss) = &mut self.state {
            loss.is_final |= !knows(loss.by);
        }
    }

    /// Time at which the zone is free again, as known now.
    pub(super) fn ends(&self) -> Moment {
        match self.state {
            State::Lost(Loss { at, is_final: true, .. }) => at,
            _ => self.runs_until(),
        }
    }

    /// When the program returns.
    pub(super) fn restores(&self) -> LocalTime {
        // The silence is part of the hold.
        let waited =
            if self.ended.is_none() && self.silent.is_some() { Self::SILENCE } else { Span::ZERO };
        self.ends().local + (self.claim.duck.hold - waited).max(Span::ZERO)
    }

    pub(super) fn falls_silent(&self) -> Option<Moment> {
        let received = self.received.filter(|_| self.ended.is_none() && self.silent.is_none());
        received.map(|received| Moment::of(received + Self::SILENCE, &self.clock))
    }

    /// Handles a repeated claim.
    pub(super) fn claim_again(&mut self, claim: &Claim, clock: &ClockMapping, now: LocalTime) {
        (self.newest, self.clock, self.claimed) = (now, *clock, true);
        self.ended = self.ended.or(claim.ends.map(|ends| Moment::of(ends, clock)));
    }

    /// Ends the announcement if its stream carries a later announcement. Returns whether the stream
    /// does.
    pub(super) fn give_way(&mut self, later: &Claim) -> bool {
        let frees = self.received.map_or(later.starts, |received| received + Self::SILENCE);
        let last = frees.min(later.starts);
        let ends = self.ended.is_none()
            && later.id != self.claim.id
            && later.starts > self.claim.starts
            && self.silent.is_none_or(|silent| last < silent.wall);
        if ends {
            self.ended = Some(Moment::of(last, &self.clock));
        }
        ends
    }

    /// Ends the announcement at presentation time `at`, unless it ends earlier.
    pub(super) fn stop(&mut self, at: LocalTime) {
        let stops = Moment { wall: self.clock.wall(at), local: at };
        if self.ends().wall > stops.wall {
            (self.ended, self.is_stopped) = (Some(stops), true);
        }
    }

    /// Fade after the announcement's end: its sound may continue after a stop.
    pub(super) const fn fade(&self) -> Span {
        if self.is_stopped { Self::STOP_FADE } else { Span::ZERO }
    }

    /// Detects silence at presentation time `earliest`.
    pub(super) fn watch(&mut self, earliest: LocalTime) {
        let falls = self.falls_silent().filter(|at| at.local <= earliest);
        if falls.is_some() {
            (self.silent, self.claimed) = (falls, false);
        }
    }

    pub(super) fn end_reason(&self) -> EndReason {
        match (self.ended, self.silent) {
            _ if self.is_stopped => EndReason::Stopped,
            (Some(ended), _) if ended.wall <= self.limit.wall => EndReason::Station,
            (None, Some(silent)) if silent.wall <= self.limit.wall => EndReason::Silence,
            _ => EndReason::Longest,
        }
    }

    /// Handles sound up to `until`. Returns whether the announcement is alive again: after a
    /// silence only with a claim, because the stream may carry another announcement.
    pub(super) fn hear(&mut self, until: WallTime, now: LocalTime) -> bool {
        if until <= self.received.unwrap_or(self.starts.wall) || !self.claimed {
            return false;
        }
        self.newest = now;
        let revives = self.received.is_none() || self.silent.is_some();
        self.received = Some(until);
        if self.ended.is_none() && self.silent.take().is_some() && self.state == State::Over {
            self.state = State::Waiting;
        }
        revives
    }

    pub(super) fn is_forgotten_at(&self) -> LocalTime {
        let memory = self.newest + Self::MEMORY;
        match self.state {
            State::Waiting => memory,
            State::Playing => LocalTime::NEVER,
            State::Lost(_) | State::Over => memory.max(self.restores() + self.claim.duck.up),
        }
    }
}
