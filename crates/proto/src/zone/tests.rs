use super::*;
use crate::time::WallTime;

const LEAD: Span = Span::from_millis(5);
const OFFSET: Span = Span::from_secs(1_000);

fn at(millis: i64) -> LocalTime {
    LocalTime::ZERO + Span::from_millis(millis)
}

fn ms(millis: i64) -> Span {
    Span::from_millis(millis)
}

/// Rank of the station in the zone.
const OWN: u16 = 4;

/// A zone with number 7 in group 100, and stations whose clocks are 1000 s ahead.
struct Zone {
    arbiter: Arbiter,
    now: LocalTime,
    /// The stations' clocks minus ours.
    ahead: Span,
    /// Gains of the program and of streams 1 to 4 per millisecond, as the device reads them.
    played: Vec<[f32; 5]>,
}

fn wall(millis: i64) -> WallTime {
    WallTime::of_local(at(millis), OFFSET)
}

fn page(id: u64, starts: i64) -> Claim {
    let priority = Priority(100);
    Claim {
        id: AnnouncementId(id),
        priority,
        rank: id as u16,
        starts: wall(starts),
        ends: None,
        sent: wall(starts - 20),
        longest: Span::from_secs(600),
        duck: Duck::of(priority.class()),
    }
}

fn of_priority(priority: u8, claim: Claim) -> Claim {
    let priority = Priority(priority);
    Claim { priority, duck: Duck::of(priority.class()), ..claim }
}

impl Zone {
    fn new() -> Self {
        let settings = ZoneSettings { numbers: vec![7, 100], muted_by: vec![OWN], lead: LEAD };
        Self { arbiter: Arbiter::new(settings), now: at(0), ahead: OFFSET, played: Vec::new() }
    }

    fn until(&mut self, millis: i64) {
        for millis in self.played.len() as i64..=millis {
            if self.arbiter.poll_timeout() <= at(millis) {
                self.arbiter.poll(at(millis));
                assert!(self.arbiter.poll_timeout() > at(millis), "{millis}");
            }
            let curve = |id| match id {
                0 => self.arbiter.duck(),
                ssrc => self.arbiter.announced(ssrc),
            };
            let gains = [0, 1, 2, 3, 4].map(|id| curve(id).gain_at(at(millis) + LEAD).factor());
            self.played.push(gains);
        }
        self.now = at(millis);
    }

    fn claim(&mut self, claim: Claim) -> Result<(), ClaimRefused> {
        let sent = WallTime::of_local(self.now, OFFSET);
        self.send(&Claim { sent, ..claim }, &[[0, 100]])
    }

    fn send(&mut self, claim: &Claim, targets: &[[u8; 2]]) -> Result<(), ClaimRefused> {
        let clock = Some(ClockMapping::known(OFFSET, Span::from_micros(30)));
        let targets = Targets::new(targets).unwrap();
        let ssrc = claim.id.0 as u32;
        self.arbiter.handle_claim(&ReceivedClaim { ssrc, claim: *claim, targets, clock }, self.now)
    }

    /// Packets of 10 ms that arrive 10 ms ahead of their presentation.
    fn sound(&mut self, ids: &[u32], from: i64, to: i64) {
        for begins in (from..to).step_by(10) {
            self.until(begins - 10);
            for id in ids {
                self.arbiter.handle_sound(*id, self.wall(begins + 10), self.now);
            }
        }
    }

    /// A claim 20 ms ahead, sound, and the claimed end.
    fn play(&mut self, claim: Claim, to: i64) {
        let from = (claim.starts.as_unix_nanos() - OFFSET.as_nanos()) / 1_000_000;
        self.until(from - 20);
        self.claim(claim).unwrap();
        self.sound(&[claim.id.0 as u32], from, to);
        self.claim(Claim { ends: Some(wall(to)), ..claim }).unwrap();
    }

    fn wall(&self, millis: i64) -> WallTime {
        WallTime::of_local(at(millis), self.ahead)
    }

    fn events(&mut self) -> Vec<ZoneEvent> {
        core::iter::from_fn(|| self.arbiter.poll_event()).collect()
    }

    fn duck(&mut self, millis: i64) -> f32 {
        self.received(0, millis)
    }

    /// Gain at presentation time `millis`.
    fn received(&mut self, id: usize, millis: i64) -> f32 {
        let taken = millis - LEAD.as_nanos() / 1_000_000;
        if self.played.len() as i64 <= taken {
            self.until(taken);
        }
        self.played[taken as usize][id]
    }
}

fn started(id: u64, millis: i64) -> ZoneEvent {
    ZoneEvent::Started { id: AnnouncementId(id), at: at(millis), muted_by: None }
}

fn ended(id: u64, millis: i64, why: EndReason) -> ZoneEvent {
    ZoneEvent::Ended { id: AnnouncementId(id), at: at(millis), why }
}

#[test]
fn page_ducks_the_program_and_restores_it_exactly() {
    let mut zone = Zone::new();
    zone.until(980);
    zone.claim(page(1, 1000)).unwrap();
    zone.sound(&[1], 1000, 3000);
    assert_eq!((zone.duck(1000), zone.received(1, 999), zone.received(1, 1000)), (1.0, 0.0, 1.0));
    assert!((zone.duck(1010) - 0.55).abs() < 1e-6 && (zone.duck(1020) - 0.1).abs() < 1e-6);
    zone.claim(Claim { ends: Some(wall(3000)), ..page(1, 1000) }).unwrap();
    assert_eq!((zone.received(1, 2999), zone.received(1, 3000)), (1.0, 0.0));
    assert!((zone.duck(3300) - 0.1).abs() < 1e-6 && (zone.duck(3800) - 0.55).abs() < 1e-6);
    assert_eq!(zone.arbiter.duck().settled_at(at(4300)), Some(Gain::UNITY));
    zone.until(9000);
    assert_eq!(zone.arbiter.duck(), GainCurve::constant(Gain::UNITY));
    assert_eq!(zone.events(), [started(1, 1000), ended(1, 3000, EndReason::Station)]);
    assert_eq!(zone.arbiter.poll_timeout(), LocalTime::NEVER);
}

#[test]
fn claim_without_sound_changes_nothing() {
    let mut zone = Zone::new();
    zone.until(980);
    zone.claim(page(1, 1000)).unwrap();
    zone.until(5000);
    assert_eq!((zone.duck(1500), zone.received(1, 1500)), (1.0, 0.0));
    assert_eq!((zone.events(), zone.arbiter.revision()), (vec![], 0));
}

#[test]
fn sound_without_claim_is_silent() {
    let mut zone = Zone::new();
    zone.sound(&[1], 1000, 2000);
    assert_eq!((zone.received(1, 1500), zone.duck(1500)), (0.0, 1.0));
}

#[test]
fn late_claim_joins_the_running_page_within_10_ms() {
    let mut zone = Zone::new();
    zone.until(2000);
    zone.claim(page(1, 1000)).unwrap();
    zone.sound(&[1], 2020, 3000);
    let joins = 2010 + 5;
    assert_eq!((zone.received(1, joins), zone.duck(joins)), (0.0, 1.0));
    assert!((zone.received(1, joins + 5) - 0.5).abs() < 1e-6);
    assert_eq!(zone.received(1, joins + 10), 1.0);
    assert!((zone.duck(joins + 10) - 0.1).abs() < 1e-6);
}

#[test]
fn later_page_of_equal_priority_is_refused() {
    let mut zone = Zone::new();
    zone.until(980);
    zone.claim(page(1, 1000)).unwrap();
    zone.sound(&[1], 1000, 1980);
    zone.claim(page(2, 2000)).unwrap();
    zone.sound(&[1, 2], 2000, 3000);
    zone.claim(Claim { ends: Some(wall(3000)), ..page(1, 1000) }).unwrap();
    zone.sound(&[2], 3000, 4000);
    assert_eq!(
        (zone.received(1, 2999), zone.received(2, 2500), zone.received(2, 3500)),
        (1.0, 0.0, 0.0)
    );
    let refused = ZoneEvent::Refused { id: AnnouncementId(2), by: AnnouncementId(1) };
    assert_eq!(zone.events(), [started(1, 1000), refused, ended(1, 3000, EndReason::Station)]);
    assert_eq!(zone.duck(4300), 1.0, "the refused page does not lower the program");
}

#[test]
fn of_pages_at_one_instant_the_first_rank_plays() {
    for order in [[1, 2], [2, 1]] {
        let mut zone = Zone::new();
        zone.until(980);
        order.iter().for_each(|id| zone.claim(page(*id, 1000)).unwrap());
        zone.sound(&[1, 2], 1000, 2000);
        assert_eq!((zone.received(1, 1500), zone.received(2, 1500)), (1.0, 0.0), "{order:?}");
        let refused = ZoneEvent::Refused { id: AnnouncementId(2), by: AnnouncementId(1) };
        assert_eq!(zone.events(), [started(1, 1000), refused], "{order:?}");
    }
}

#[test]
fn higher_priority_preempts_at_its_first_frame() {
    let mut zone = Zone::new();
    zone.until(980);
    zone.claim(page(1, 1000)).unwrap();
    zone.sound(&[1], 1000, 1980);
    zone.claim(of_priority(150, page(2, 2000))).unwrap();
    zone.sound(&[1, 2], 2000, 3000);
    assert_eq!((zone.received(1, 2000), zone.received(1, 2020)), (1.0, 0.0));
    assert_eq!((zone.received(2, 1999), zone.received(2, 2000)), (0.0, 1.0));
    assert!((zone.duck(2500) - 0.1).abs() < 1e-6, "the program stays down");
    zone.claim(Claim { ends: Some(wall(3000)), ..of_priority(150, page(2, 2000)) }).unwrap();
    zone.sound(&[1], 3000, 5000);
    assert_eq!(zone.received(1, 4000), 0.0, "a pre-empted page does not return");
    assert_eq!((zone.duck(3300), zone.duck(4300)), (zone.duck(2500), 1.0));
    let (id, by) = (AnnouncementId(1), AnnouncementId(2));
    let preempted = ZoneEvent::Preempted { id, by, at: at(2000) };
    let expected =
        [started(1, 1000), preempted, started(2, 2000), ended(2, 3000, EndReason::Station)];
    assert_eq!(zone.events(), expected);
}

#[test]
fn emergency_mutes_the_program_within_10_ms() {
    let mut zone = Zone::new();
    zone.until(980);
    zone.claim(page(1, 1000)).unwrap();
    zone.sound(&[1], 1000, 1980);
    zone.claim(of_priority(230, page(2, 2000))).unwrap();
    zone.sound(&[1, 2], 2000, 2500);
    assert_eq!((zone.duck(2010), zone.received(1, 2010), zone.received(2, 2000)), (0.0, 0.0, 1.0));
}

#[test]
fn latest_wins_at_priority_255_only() {
    for (priority, second) in [(254, 0.0), (255, 1.0)] {
        let mut zone = Zone::new();
        zone.until(980);
        zone.claim(of_priority(priority, page(1, 1000))).unwrap();
        zone.sound(&[1], 1000, 1980);
        zone.claim(of_priority(priority, page(2, 2000))).unwrap();
        zone.sound(&[1, 2], 2000, 2500);
        assert_eq!(zone.received(2, 2400), second, "{priority}");
        assert_eq!(zone.received(1, 2400), 1.0 - second, "{priority}");
    }
}

#[test]
fn rank_decides_between_stations_at_one_instant() {
    for order in [[1, 2], [2, 1]] {
        let mut zone = Zone::new();
        zone.until(980);
        for id in order {
            zone.claim(page(id, 1000)).unwrap();
        }
        zone.sound(&[1, 2], 1000, 1500);
        assert_eq!((zone.received(1, 1400), zone.received(2, 1400)), (1.0, 0.0), "{order:?}");
    }
}

#[test]
fn dead_station_frees_the_zone_after_500_ms() {
    let mut zone = Zone::new();
    zone.until(980);
    zone.claim(page(1, 1000)).unwrap();
    zone.sound(&[1], 1000, 2000);
    zone.until(10_000);
    assert_eq!(zone.events(), [started(1, 1000), ended(1, 2500, EndReason::Silence)]);
    assert_eq!((zone.received(1, 2499), zone.received(1, 2510)), (1.0, 0.0));
    assert!((zone.duck(2500) - 0.1).abs() < 1e-6 && (zone.duck(3000) - 0.55).abs() < 1e-6);
    assert_eq!(zone.duck(3500), 1.0);
}

#[test]
fn page_goes_on_after_an_outage() {
    let mut zone = Zone::new();
    zone.until(980);
    zone.claim(page(1, 1000)).unwrap();
    zone.sound(&[1], 1000, 2000);
    zone.until(3000);
    zone.claim(page(1, 1000)).unwrap();
    assert_eq!(zone.received(1, 3020), 0.0);
    zone.sound(&[1], 3020, 4000);
    assert_eq!(zone.received(1, 3030), 1.0);
    let silent = ended(1, 2500, EndReason::Silence);
    assert_eq!(zone.events(), [started(1, 1000), silent, started(1, 1000)]);
}

#[test]
fn goodbye_ends_the_page_after_its_last_frame() {
    let mut zone = Zone::new();
    zone.until(980);
    zone.claim(page(1, 1000)).unwrap();
    zone.sound(&[1], 1000, 2000);
    zone.arbiter.handle_bye(1, at(1995));
    zone.until(5000);
    assert_eq!(zone.events(), [started(1, 1000), ended(1, 2000, EndReason::Station)]);
    assert_eq!(zone.duck(3300), 1.0);
}

#[test]
fn stopped_page_fades_and_does_not_return() {
    let mut zone = Zone::new();
    zone.until(980);
    zone.claim(page(1, 1000)).unwrap();
    zone.sound(&[1], 1000, 2000);
    zone.until(2000);
    assert!(!zone.arbiter.handle_stop(AnnouncementId(2), at(2000)));
    assert!(zone.arbiter.handle_stop(AnnouncementId(1), at(2000)));
    // Its station goes on.
    zone.sound(&[1], 2020, 4000);
    zone.claim(page(1, 1000)).unwrap();
    zone.sound(&[1], 4000, 5000);
    let ends = 2005;
    assert_eq!((zone.received(1, ends), zone.received(1, ends + 10)), (1.0, 0.0));
    assert!((zone.received(1, ends + 5) - 0.5).abs() < 1e-6);
    assert_eq!((zone.duck(ends + 300), zone.duck(ends + 1300)), (0.1, 1.0));
    assert_eq!(zone.received(1, 4990), 0.0);
    assert_eq!(zone.events(), [started(1, 1000), ended(1, ends, EndReason::Stopped)]);
}

#[test]
fn page_ends_at_its_maximum_duration() {
    let mut zone = Zone::new();
    zone.until(980);
    zone.claim(Claim { longest: ms(500), ..page(1, 1000) }).unwrap();
    zone.sound(&[1], 1000, 4000);
    assert_eq!((zone.received(1, 1499), zone.received(1, 1500)), (1.0, 0.0));
    assert_eq!(zone.events(), [started(1, 1000), ended(1, 1500, EndReason::Longest)]);
}

#[test]
fn withdrawn_claim_never_plays() {
    let mut zone = Zone::new();
    zone.until(980);
    zone.claim(page(1, 1000)).unwrap();
    zone.claim(Claim { ends: Some(wall(1000)), ..page(1, 1000) }).unwrap();
    zone.sound(&[1], 1000, 1500);
    assert_eq!((zone.events(), zone.received(1, 1200)), (vec![], 0.0));
}

#[test]
fn repeated_claim_after_the_end_plays_nothing() {
    let mut zone = Zone::new();
    zone.play(page(1, 1000), 2000);
    zone.until(2600);
    zone.claim(page(1, 1000)).unwrap();
    zone.sound(&[1], 2620, 3000);
    assert_eq!(zone.received(1, 2900), 0.0);
}

#[test]
fn next_page_within_the_hold_keeps_the_program_down() {
    let mut zone = Zone::new();
    zone.play(page(1, 1000), 2000);
    zone.play(page(2, 2200), 3000);
    zone.until(6000);
    for millis in [1500, 2100, 2400, 2800, 3300] {
        assert!((zone.duck(millis) - 0.1).abs() < 1e-6, "{millis}");
    }
    assert_eq!(zone.duck(4300), 1.0);
}

#[test]
fn one_station_pages_twice_with_one_stream() {
    let mut zone = Zone::new();
    let second = Claim { id: AnnouncementId(1 << 32 | 1), ..page(1, 2010) };
    zone.play(page(1, 1000), 2000);
    zone.play(second, 3000);
    assert_eq!(
        [1999, 2005, 2010, 2999, 3000].map(|at| zone.received(1, at)),
        [1.0, 0.0, 1.0, 1.0, 0.0]
    );
}

#[test]
fn zones_agree_whatever_order_claims_arrive_in() {
    let claims = [page(3, 1000), of_priority(150, page(2, 1200)), page(1, 1400), page(4, 1000)];
    let decided = |order: [usize; 4]| {
        let mut zone = Zone::new();
        zone.until(900);
        for index in order {
            let received = Claim { sent: wall(990), ..claims[index] };
            zone.send(&received, &[[0, 7]]).unwrap();
        }
        zone.sound(&[1, 2, 3, 4], 1000, 1600);
        ([1, 2, 3, 4].map(|id| zone.arbiter.announced(id)), zone.arbiter.duck(), zone.events())
    };
    let first = decided([0, 1, 2, 3]);
    for order in [[3, 2, 1, 0], [1, 0, 3, 2], [2, 3, 0, 1]] {
        assert_eq!(decided(order), first, "{order:?}");
    }
}

#[test]
fn higher_claim_that_arrives_late_still_wins() {
    let mut zone = Zone::new();
    zone.until(980);
    zone.claim(page(1, 1000)).unwrap();
    zone.sound(&[1], 1000, 1500);
    zone.claim(of_priority(150, page(2, 900))).unwrap();
    zone.sound(&[1, 2], 1500, 2000);
    assert_eq!((zone.received(1, 1600), zone.received(2, 1600)), (0.0, 1.0));
    let (id, by) = (AnnouncementId(1), AnnouncementId(2));
    let preempted = ZoneEvent::Preempted { id, by, at: at(1495) };
    assert_eq!(zone.events(), [started(1, 1000), started(2, 900), preempted]);
}

/// Sound of a running page 1 is untouched.
fn is_refused(why: ClaimRefused, targets: &[[u8; 2]], change: impl Fn(Claim) -> Claim) {
    let mut zone = Zone::new();
    zone.until(980);
    zone.claim(page(1, 1000)).unwrap();
    zone.sound(&[1], 1000, 1500);
    let (duck, own) = (zone.arbiter.duck(), zone.arbiter.announced(1));
    let claim = change(Claim { sent: wall(1490), ..of_priority(250, page(2, 1510)) });
    assert_eq!(zone.send(&claim, targets), Err(why));
    zone.sound(&[1, 2], 1500, 2000);
    assert_eq!((zone.arbiter.duck(), zone.arbiter.announced(1)), (duck, own), "{why}");
    assert_eq!(zone.arbiter.refused(why), 1);
    assert_eq!(zone.events(), [started(1, 1000)], "{why}");
}

#[test]
fn invalid_claims_are_counted_and_change_nothing() {
    let here = &[[0, 7]];
    is_refused(ClaimRefused::OtherZone, &[[0, 8], [7, 0]], |claim| claim);
    is_refused(ClaimRefused::Background, here, |claim| of_priority(31, claim));
    for sent in [1480 - 1001, 1480 + 1001, 1480 - 86_400_000, i64::MAX / 1_000_000_000] {
        is_refused(ClaimRefused::Clock, here, |claim| Claim { sent: wall(sent), ..claim });
    }
    for starts in [1490 + 1001, 100_000, i64::MAX / 1_000_000_000] {
        is_refused(ClaimRefused::Future, here, |claim| Claim { starts: wall(starts), ..claim });
    }
    is_refused(ClaimRefused::Over, here, |claim| Claim { ends: Some(wall(1400)), ..claim });
    let over = Claim { starts: wall(1000), longest: ms(300), ..page(2, 0) };
    is_refused(ClaimRefused::Over, here, |claim| Claim { sent: claim.sent, ..over });
    let id = AnnouncementId(1);
    is_refused(ClaimRefused::Changed, here, |claim| Claim { id, ..claim });
}

#[test]
fn unmapped_station_is_refused() {
    let mut zone = Zone::new();
    let targets = Targets::new(&[[0, 7]]).unwrap();
    let received = ReceivedClaim { ssrc: 1, claim: page(1, 10), targets, clock: None };
    assert_eq!(zone.arbiter.handle_claim(&received, at(0)), Err(ClaimRefused::Unmapped));
}

#[test]
fn station_with_a_clock_10_s_off_plays_at_its_time() {
    let mut zone = Zone::new();
    zone.until(980);
    let ahead = OFFSET + Span::from_secs(10);
    zone.ahead = ahead;
    let claim = Claim { starts: zone.wall(1000), sent: zone.wall(980), ..page(1, 0) };
    let targets = Targets::new(&[[0, 7]]).unwrap();
    let mapped = Some(ClockMapping::known(ahead, Span::from_micros(30)));
    let received = ReceivedClaim { ssrc: 1, claim, targets, clock: mapped };
    assert_eq!(zone.arbiter.handle_claim(&received, zone.now), Ok(()));
    zone.sound(&[1], 1000, 1500);
    assert_eq!(zone.events(), [started(1, 1000)]);
    // With a mapping that does not know, the claim is refused.
    let wrong = Some(ClockMapping::known(OFFSET, Span::from_micros(30)));
    let received = ReceivedClaim { clock: wrong, ..received };
    assert_eq!(zone.arbiter.handle_claim(&received, zone.now), Err(ClaimRefused::Clock));
}

#[test]
fn flood_of_claims_leaves_a_running_page_alone() {
    let mut zone = Zone::new();
    zone.until(980);
    zone.claim(page(1, 1000)).unwrap();
    zone.sound(&[1], 1000, 1500);
    let (duck, own) = (zone.arbiter.duck(), zone.arbiter.announced(1));
    for id in 100..100_100 {
        let _ = zone.claim(of_priority((id % 250) as u8, page(id, 1600)));
    }
    zone.sound(&[1], 1500, 2000);
    assert_eq!((zone.arbiter.duck(), zone.arbiter.announced(1)), (duck, own));
    assert_eq!(zone.arbiter.refused(ClaimRefused::Background), 100_000 / 250 * 32);
    assert!(zone.arbiter.refused(ClaimRefused::Full) > 80_000);
    zone.claim(of_priority(251, page(2, 2020))).unwrap();
    zone.sound(&[1, 2], 2020, 2100);
    assert_eq!((zone.received(1, 2080), zone.received(2, 2080)), (0.0, 1.0));
}

#[test]
fn next_page_to_other_zones_does_not_revive_the_dead_one() {
    let mut zone = Zone::new();
    zone.until(980);
    zone.claim(page(1, 1000)).unwrap();
    zone.sound(&[1], 1000, 2000);
    let next = Claim { id: AnnouncementId(1 << 32 | 1), sent: wall(2190), ..page(1, 2210) };
    zone.until(2190);
    assert_eq!(zone.send(&next, &[[0, 8]]), Err(ClaimRefused::OtherZone));
    zone.sound(&[1], 2210, 4000);
    assert_eq!((zone.received(1, 2205), zone.received(1, 2250)), (1.0, 0.0));
    assert_eq!(zone.events(), [started(1, 1000), ended(1, 2210, EndReason::Station)]);
}

#[test]
fn sound_without_new_claims_does_not_revive_a_silent_page() {
    let mut zone = Zone::new();
    zone.until(980);
    zone.claim(page(1, 1000)).unwrap();
    zone.sound(&[1], 1000, 2000);
    zone.sound(&[1], 2600, 3000);
    assert_eq!(zone.received(1, 2900), 0.0);
    zone.claim(page(1, 1000)).unwrap();
    zone.sound(&[1], 3000, 3500);
    assert_eq!(zone.received(1, 3400), 1.0);
}

#[test]
fn refused_page_plays_if_the_winner_had_ended_before() {
    let mut zone = Zone::new();
    zone.until(980);
    zone.claim(page(1, 1000)).unwrap();
    zone.sound(&[1], 1000, 1980);
    zone.claim(page(2, 2000)).unwrap();
    zone.sound(&[2], 2000, 2030);
    // The claim of the end arrives late.
    zone.claim(Claim { ends: Some(wall(1990)), ..page(1, 1000) }).unwrap();
    zone.sound(&[2], 2030, 2500);
    assert_eq!((zone.received(1, 2100), zone.received(2, 2100)), (0.0, 1.0));
    let refused = ZoneEvent::Refused { id: AnnouncementId(2), by: AnnouncementId(1) };
    let events = [started(1, 1000), refused, ended(1, 1990, EndReason::Station), started(2, 2000)];
    assert_eq!(zone.events(), events);
}

#[test]
fn next_page_of_a_dead_station_does_not_change_who_lost_to_it() {
    let mut zone = Zone::new();
    zone.until(980);
    zone.claim(page(1, 1000)).unwrap();
    zone.sound(&[1], 1000, 1980);
    zone.claim(page(2, 2200)).unwrap();
    zone.sound(&[2], 2200, 2980);
    let next = Claim { id: AnnouncementId(1 << 32 | 1), ..page(1, 3000) };
    zone.claim(next).unwrap();
    zone.sound(&[2], 3000, 3500);
    assert_eq!(zone.received(2, 3400), 0.0);
}

#[test]
fn many_past_announcements_do_not_block_the_next() {
    let mut zone = Zone::new();
    for number in 0..40 {
        zone.play(page(number + 1, 1000 + 50 * number as i64), 1020 + 50 * number as i64);
    }
    assert_eq!(zone.arbiter.refused(ClaimRefused::Full), 0);
    assert_eq!(zone.events().len(), 64, "the newest entries of the log");
}

/// Page 1 runs from 1000 to `ends` on a true clock. Page 2 starts at 2000 on its own clock, which
/// is `ahead` and mapped with an error. Returns whether it plays.
fn plays_after(ends: WallTime, ahead: Span, error: Span) -> bool {
    let mut zone = Zone::new();
    zone.until(980);
    zone.claim(page(1, 1000)).unwrap();
    zone.sound(&[1], 1000, 1980);
    zone.claim(Claim { ends: Some(ends), ..page(1, 1000) }).unwrap();
    let wall = |millis| WallTime::of_local(at(millis), OFFSET + ahead);
    let claim = Claim { starts: wall(2000), sent: wall(1970), ..page(2, 0) };
    let clock = Some(ClockMapping::known(OFFSET + ahead + error, Span::from_micros(300)));
    let targets = Targets::new(&[[0, 7]]).unwrap();
    let received = ReceivedClaim { ssrc: 2, claim, targets, clock };
    assert_eq!(zone.arbiter.handle_claim(&received, zone.now), Ok(()));
    for begins in (2000..2300).step_by(10) {
        zone.until(begins - 10);
        zone.arbiter.handle_sound(2, wall(begins + 10), zone.now);
    }
    zone.received(2, 2200) == 1.0
}

#[test]
fn zones_with_different_clock_errors_decide_ties_alike() {
    for error in [-200, 0, 200].map(Span::from_micros) {
        let plays = |nanos| plays_after(wall(2000) + Span::from_nanos(nanos), Span::ZERO, error);
        assert_eq!([-1, 0, 1].map(plays), [true, true, false], "{error}");
    }
}

#[test]
fn clock_10_s_off_neither_wins_nor_loses_every_tie() {
    for ahead in [-10, 10].map(Span::from_secs) {
        assert!(plays_after(wall(1900), ahead, Span::ZERO), "{ahead}");
        assert!(!plays_after(wall(2100), ahead, Span::ZERO), "{ahead}");
    }
}

#[test]
fn room_of_a_station_is_mute_while_it_announces() {
    let mut zone = Zone::new();
    let own = page(u64::from(OWN), 1000);
    zone.until(980);
    // Another zone alone plays it.
    zone.send(&own, &[[0, 9]]).unwrap();
    zone.sound(&[4], 1000, 2000);
    let ends = Claim { ends: Some(wall(2000)), sent: wall(1990), ..own };
    zone.send(&ends, &[[0, 9]]).unwrap();
    zone.until(2500);
    let mute = zone.arbiter.mute();
    let gains = [999, 1000, 1005, 1010, 2000, 2010].map(|it| mute.gain_at(at(it)).factor());
    assert_eq!(gains, [1.0, 1.0, 0.5, 0.0, 0.0, 1.0]);
    assert_eq!((zone.duck(1500), zone.received(4, 1500), zone.events()), (1.0, 0.0, vec![]));
    zone.until(9000);
    assert_eq!(zone.arbiter.mute(), GainCurve::constant(Gain::UNITY));
}

#[test]
fn start_in_a_mute_room_names_the_muting_announcement() {
    let mut zone = Zone::new();
    let muted = |zone: &mut Zone| -> Vec<_> {
        let events = zone.events().into_iter();
        let started = |event| match event {
            ZoneEvent::Started { id, muted_by, .. } => Some((id.0, muted_by.map(|by| by.0))),
            _ => None,
        };
        events.filter_map(started).collect()
    };
    zone.play(page(u64::from(OWN), 1000), 1500);
    assert_eq!(muted(&mut zone), [(4, Some(4))]);
    zone.play(page(1, 3000), 3500);
    assert_eq!(muted(&mut zone), [(1, None)]);
    // The station announces in another zone meanwhile.
    zone.until(4980);
    let own = Claim { rank: OWN, sent: wall(4980), ..page(3, 5000) };
    zone.send(&own, &[[0, 9]]).unwrap();
    zone.sound(&[3], 5000, 5200);
    zone.claim(page(2, 5210)).unwrap();
    zone.sound(&[3, 2], 5200, 5400);
    zone.claim(of_priority(240, page(5, 5410))).unwrap();
    zone.sound(&[3, 2, 5], 5400, 5600);
    assert_eq!(muted(&mut zone), [(2, Some(3)), (5, None)]);
}

#[test]
fn claim_without_sound_mutes_no_room() {
    let mut zone = Zone::new();
    zone.until(980);
    zone.send(&page(u64::from(OWN), 1000), &[[0, 9]]).unwrap();
    zone.until(1500);
    assert_eq!(zone.arbiter.mute(), GainCurve::constant(Gain::UNITY));
}

#[test]
fn program_of_a_station_mutes_no_room() {
    let mut zone = Zone::new();
    zone.until(980);
    let program = of_priority(31, page(u64::from(OWN), 1000));
    assert_eq!(zone.send(&program, &[[0, 9]]), Err(ClaimRefused::Background));
}

#[test]
fn room_stays_mute_after_its_station_lost_there() {
    let mut zone = Zone::new();
    let own = page(u64::from(OWN), 1000);
    zone.until(980);
    zone.claim(own).unwrap();
    zone.sound(&[4], 1000, 1500);
    zone.claim(of_priority(150, page(2, 1520))).unwrap();
    zone.sound(&[4, 2], 1500, 1700);
    zone.claim(Claim { ends: Some(wall(1700)), ..of_priority(150, page(2, 1520)) }).unwrap();
    // The winner is forgotten after some seconds, while the station announces elsewhere.
    zone.sound(&[4], 1700, 8000);
    assert_eq!(zone.arbiter.mute().gain_at(at(8000)), Gain::SILENCE);
    assert_eq!(zone.received(4, 7900), 0.0);
}

#[test]
fn mute_lasts_as_long_as_one_of_several_announcements() {
    let mut zone = Zone::new();
    let claims = [(1, 1000), (2, 1500)].map(|(id, from)| Claim { rank: OWN, ..page(id, from) });
    zone.until(980);
    for claim in claims {
        zone.send(&Claim { sent: wall(980), ..claim }, &[[0, 9]]).unwrap();
    }
    zone.sound(&[1], 1000, 1500);
    zone.sound(&[1, 2], 1500, 2000);
    let ends = Claim { ends: Some(wall(2000)), sent: wall(1990), ..claims[0] };
    zone.send(&ends, &[[0, 9]]).unwrap();
    zone.sound(&[2], 2000, 2400);
    zone.until(2500);
    let mute = zone.arbiter.mute();
    assert_eq!([1400, 1600, 2010, 2100].map(|it| mute.gain_at(at(it)).factor()), [0.0; 4]);
}

#[test]
fn emergency_of_another_station_sounds_in_a_muted_room() {
    let mut zone = Zone::new();
    let is_muted = |zone: &Zone, ssrc| zone.arbiter.gains().announced(ssrc).unwrap().is_muted;
    zone.play(of_priority(240, page(1, 1000)), 1500);
    assert!(!is_muted(&zone, 1));
    let emergency = zone.arbiter.emergency();
    let gains = [999, 1000, 1499, 1500].map(|it| emergency.gain_at(at(it)).factor());
    assert_eq!(gains, [0.0, 1.0, 1.0, 0.0]);
    zone.play(page(2, 5000), 5500);
    assert!(is_muted(&zone, 2));
    assert_eq!(zone.arbiter.emergency().gain_at(at(5100)), Gain::SILENCE);
    zone.play(of_priority(240, page(u64::from(OWN), 9000)), 9500);
    assert!(is_muted(&zone, 4), "its own room");
}
