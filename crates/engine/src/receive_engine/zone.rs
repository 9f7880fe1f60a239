//! A zone on the ordinary thread: passes claims and sound to the arbiter, and its gains to the
//! device.

use std::collections::VecDeque;

use rtrb::{Consumer, Producer};
use tautline_io::clock::now;
use tautline_io::thread::memory;
use tautline_proto::device::Settings;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::zone::{
    AnnouncementId, Arbiter, Claim, ClaimRefused, ReceivedClaim, Targets, ZoneEvent, ZoneGains,
};
use tautline_report::snapshot::ZoneSnapshot;

use crate::conversation::StoredClaim;
use crate::monitor::note::Note;
use crate::monitor::run::RunWatch;
use crate::plan::zone::ZonePlan;
use crate::receive_engine::mixer::{AnnouncedSound, ZoneMix};
use crate::receive_engine::stream::ReceivedStream;

/// Called on the ordinary thread with each event of the zone, and the claim of its announcement.
pub type ZoneHook = Box<dyn FnMut(&ZoneEvent, Option<(&Claim, Targets<'_>)>) + Send>;

pub(crate) struct Zone {
    arbiter: Arbiter,
    gains: Producer<ZoneGains>,
    sound: Consumer<AnnouncedSound>,
    /// Newest revision that the device has.
    revision: u64,
    /// Events in the notes of the run.
    noted: usize,
    pub(crate) hook: Option<ZoneHook>,
    /// First claims of the newest announcements, for the hook.
    claims: VecDeque<StoredClaim>,
}

/// Claims and goodbyes at an announcement port.
#[derive(Default)]
pub(crate) struct AnnouncedNews {
    pub(crate) left: Vec<u32>,
    /// A claim that waits for a mapping of its station's clock.
    unmapped: Option<StoredClaim>,
}

/// Decisions that the device has not taken yet.
const GAINS: usize = 4;
/// Two beats of the shortest period, for two announcements.
const SOUNDS: usize = 1024;
/// Interval of decisions while a claimed announcement waits for its sound.
const HASTE: Span = Span::from_millis(1);

/// Events in the notes of a run; the rest of the notes is for faults. The hook gets all.
const MAX_NOTED: usize = 32;

/// Creates both ends. The device takes a block a period before the next one.
pub(crate) fn zone(plan: ZonePlan, device: &Settings) -> (Zone, ZoneMix) {
    let (gains, gains_out) = memory::ring(GAINS);
    let (sound_in, sound) = memory::ring(SOUNDS);
    let period = device.rate.span_of(Frames::new(device.period.count()));
    let volumes = plan.volumes.clone();
    let arbiter = Arbiter::new(plan.settings(device.playback_lead() + period));
    let zone =
        Zone { arbiter, gains, sound, revision: 0, noted: 0, hook: None, claims: VecDeque::new() };
    (zone, ZoneMix::new(gains_out, sound_in, volumes))
}

impl Zone {
    /// Running announcements, and as many that ended.
    const MAX_CLAIMS: usize = 2 * Arbiter::MAX_ANNOUNCEMENTS;

    /// Time of the next decision.
    pub(crate) fn deadline(&self) -> LocalTime {
        let now = now();
        let due = self.arbiter.poll_timeout();
        let pending = self.awaits_sound() || self.revision != self.arbiter.revision();
        if pending { due.min(now + HASTE) } else { due }
    }

    /// Whether a claimed announcement waits for its sound.
    pub(crate) fn awaits_sound(&self) -> bool {
        self.arbiter.awaits_sound(now())
    }

    /// Takes claims and goodbyes of an announcement port.
    pub(crate) fn follow(&mut self, stream: &mut ReceivedStream, watch: &mut RunWatch) {
        let ReceivedStream { announced, conversation, address, .. } = stream;
        let Some(news) = announced else { return };
        // The end of the sound is known before a goodbye is.
        self.take_sound();
        let mapping = |claim: &StoredClaim| conversation.session.mapping(claim.ssrc);
        let mapped = news.unmapped.take_if(|claim| mapping(claim).is_some());
        let mapped = mapped.map(|claim| StoredClaim { clock: mapping(&claim), ..claim });
        for claim in
            mapped.into_iter().chain(conversation.claims.iter_mut().flat_map(|it| it.drain(..)))
        {
            let id = claim.claim.id;
            let why = match self.take(&claim) {
                Ok(()) | Err(ClaimRefused::OtherZone) => continue,
                Err(why) => why,
            };
            // Directly: a flood of claims must not displace decisions in the arbiter's queue.
            self.hook.iter_mut().for_each(|hook| hook(&ZoneEvent::Rejected { id, why }, None));
            match why {
                ClaimRefused::Unmapped => news.unmapped = Some(claim),
                why => watch.note(&Note::ClaimRefused { address, why }),
            }
        }
        for ssrc in news.left.drain(..) {
            self.arbiter.handle_bye(ssrc, now());
        }
    }

    fn take(&mut self, stored: &StoredClaim) -> Result<(), ClaimRefused> {
        let StoredClaim { ssrc, claim, clock, .. } = *stored;
        let targets = Targets::new(&stored.targets).ok_or(ClaimRefused::OtherZone)?;
        self.arbiter.handle_claim(&ReceivedClaim { ssrc, claim, targets, clock }, now())?;
        if self.hook.is_some() && self.claims.iter().all(|it| it.claim.id != claim.id) {
            self.claims.truncate(Self::MAX_CLAIMS - 1);
            self.claims.push_front(stored.clone());
        }
        Ok(())
    }

    /// Ends an announcement in this zone.
    pub(crate) fn stop(&mut self, id: AnnouncementId) {
        self.arbiter.handle_stop(id, now());
    }

    pub(crate) fn snapshot(&self, now: LocalTime) -> ZoneSnapshot {
        ZoneSnapshot {
            announcement: self.arbiter.playing().map(|id| id.to_string()),
            program_gain: self.arbiter.duck().gain_at(now).factor().into(),
            refused_claims: self.refused_claims(),
        }
    }

    /// Invalid claims that address this zone.
    fn refused_claims(&self) -> u64 {
        let usual = |why: &ClaimRefused| {
            matches!(why, ClaimRefused::OtherZone | ClaimRefused::Unmapped | ClaimRefused::Over)
        };
        let counted = ClaimRefused::ALL.into_iter().filter(|why| !usual(why));
        counted.map(|why| self.arbiter.refused(why)).sum()
    }

    fn take_sound(&mut self) {
        while let Ok(AnnouncedSound { ssrc, until }) = self.sound.pop() {
            self.arbiter.handle_sound(ssrc, until, now());
        }
    }

    /// Decides, and passes a changed decision to the device.
    pub(crate) fn turn(&mut self, watch: &mut RunWatch) {
        self.take_sound();
        let now = now();
        if now >= self.arbiter.poll_timeout() {
            self.arbiter.poll(now);
        }
        let revision = self.arbiter.revision();
        if revision != self.revision && self.gains.push(self.arbiter.gains()).is_ok() {
            self.revision = revision;
        }
        while let Some(event) = self.arbiter.poll_event() {
            if self.noted < MAX_NOTED {
                self.noted += 1;
                watch.note(&Note::Zone(&event));
            }
            if let Some(hook) = &mut self.hook {
                let stored = self.claims.iter().find(|it| it.claim.id == event.id());
                hook(&event, stored.and_then(|it| Some((&it.claim, Targets::new(&it.targets)?))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tautline_proto::clock::{ClockEstimator, Exchange};
    use tautline_proto::time::WallTime;
    use tautline_proto::units::{Channels, Rate};
    use tautline_proto::zone::{Class, Duck, Priority};

    use super::*;

    const SSRC: u32 = 7;

    fn claim(targets: &[[u8; 2]], starts_after: Span) -> StoredClaim {
        let now = now();
        let wall = WallTime::of_local(now, Span::ZERO);
        let exchange = Exchange {
            requested: now,
            peer_received: wall,
            peer_answered: wall,
            answered: now,
            reading_error: Span::ZERO,
        };
        let claim = Claim {
            id: AnnouncementId(1),
            priority: Priority(100),
            rank: 0,
            starts: wall + starts_after,
            ends: None,
            sent: wall,
            longest: Span::from_secs(60),
            duck: Duck::of(Class::Announcement),
        };
        let clock = ClockEstimator::new().observe(exchange);
        StoredClaim { ssrc: SSRC, claim, targets: targets.into(), clock }
    }

    fn zone_3() -> (Zone, ZoneMix) {
        let (rate, channels) = (Rate::HZ_48000, Channels::STEREO);
        let device = Settings { rate, channels, period: Frames::new(48), periods: 2 };
        zone(ZonePlan { numbers: vec![3], ..ZonePlan::default() }, &device)
    }

    #[test]
    fn refused_claims_are_counted() {
        let (mut zone, _device) = zone_3();
        let late = claim(&[[0, 3]], Span::from_secs(2));
        assert_eq!(zone.take(&claim(&[[0, 4]], HASTE)), Err(ClaimRefused::OtherZone));
        assert_eq!(zone.snapshot(now()).refused_claims, 0);
        assert_eq!(zone.take(&late), Err(ClaimRefused::Future));
        assert_eq!(zone.snapshot(now()).refused_claims, 1);
    }

    #[test]
    fn decisions_hurry_until_the_sound_arrives() {
        let (mut zone, _device) = zone_3();
        assert!(zone.deadline().is_never());
        assert_eq!(zone.take(&claim(&[[0, 4]], HASTE)), Err(ClaimRefused::OtherZone));
        assert!(zone.deadline().is_never());
        let claim = claim(&[[0, 4], [0, 3]], Span::from_secs(1));
        zone.take(&claim).unwrap();
        assert!(zone.deadline() <= now() + HASTE);
        let until = claim.claim.starts + Span::from_millis(10);
        zone.arbiter.handle_sound(SSRC, until, now());
        zone.gains.push(zone.arbiter.gains()).unwrap();
        zone.revision = zone.arbiter.revision();
        assert!(zone.deadline() > now() + HASTE.times(100), "nothing changes before the start");
    }
}
