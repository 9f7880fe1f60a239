use super::*;

const START: LocalTime = LocalTime::from_nanos(7_000_000_000);
const ALICE: [u8; 6] = [0x02, 0, 0, 0, 0, 0x01];
const BOB: [u8; 6] = [0x00, 0, 0, 0, 0, 0x02];

struct Scene {
    claims: Vec<AddressClaim>,
    now: LocalTime,
    /// Sender, time, destination and content.
    said: Vec<(usize, LocalTime, [u8; 6], MaapMessage)>,
    events: Vec<(usize, ClaimEvent)>,
}

impl Scene {
    /// Talkers with the same seed pick the same addresses.
    fn of(own: &[[u8; 6]], seed: u64) -> Self {
        let claims = own.iter().map(|own| AddressClaim::new(*own, seed, START)).collect();
        Self { claims, now: START, said: Vec::new(), events: Vec::new() }
    }

    /// `lost` selects messages that do not arrive.
    fn run(&mut self, span: Span, lost: impl Fn(usize) -> bool) {
        let until = self.now + span;
        while let Some(at) = self.claims.iter().map(AddressClaim::deadline).min() {
            if at > until {
                break;
            }
            self.now = self.now.max(at);
            while self.speak(&lost) {}
        }
        self.now = until;
    }

    fn speak(&mut self, lost: &impl Fn(usize) -> bool) -> bool {
        let now = self.now;
        let mut polled = self.claims.iter_mut().enumerate();
        let Some((who, (to, message))) =
            polled.find_map(|(who, claim)| Some((who, claim.poll(now)?)))
        else {
            return false;
        };
        let received = !lost(self.said.len());
        self.said.push((who, now, to, message));
        let read = MaapMessage::read(&message.write()).unwrap();
        assert_eq!(read, message);
        let from = self.claims[who].own;
        for claim in &mut self.claims {
            if received && (to == GROUP || to == claim.own) {
                claim.handle(&read, from, now);
            }
        }
        for (who, claim) in self.claims.iter_mut().enumerate() {
            while let Some(event) = claim.poll_event() {
                self.events.push((who, event));
            }
        }
        true
    }

    fn holds(&self, who: usize) -> Option<[u8; 6]> {
        let claim = &self.claims[who];
        (claim.state == State::Defend).then_some(claim.address)
    }
}

fn nothing(_: usize) -> bool {
    false
}

#[test]
fn uncontested_address_is_probed_four_times_then_announced() {
    let mut scene = Scene::of(&[ALICE], 1);
    scene.run(Span::from_secs(70), nothing);
    let address = scene.holds(0).unwrap();
    assert_eq!(scene.events, [(0, ClaimEvent::Claimed(address))]);
    assert!(POOL.shared_with(&GroupRange::only(address)).is_some(), "{address:x?}");
    let kinds: Vec<_> = scene.said.iter().map(|(.., message)| message.kind).collect();
    let (probe, announce) = (MaapKind::Probe, MaapKind::Announce);
    assert_eq!(kinds, [probe, probe, probe, probe, announce, announce, announce]);
    for (index, pair) in scene.said.windows(2).enumerate() {
        let (base, variation) = match index {
            ..4 => (Span::from_millis(500), Span::from_millis(100)),
            _ => (Span::from_secs(30), Span::from_secs(2)),
        };
        let interval = pair[1].1 - pair[0].1;
        assert!(interval > base && interval < base + variation, "{index}: {interval}");
        assert_eq!((pair[1].2, pair[1].3.requested), (GROUP, GroupRange::only(address)));
    }
}

#[test]
fn two_claimants_that_choose_the_same_never_end_with_the_same() {
    for seed in 0..50 {
        for order in [[ALICE, BOB], [BOB, ALICE]] {
            // All messages but one may be lost.
            for received in 0..10 {
                let mut scene = Scene::of(&order, seed);
                scene.run(Span::from_secs(100), |said| said < 10 && said != received);
                let held = [scene.holds(0), scene.holds(1)].map(Option::unwrap);
                assert_ne!(held[0], held[1], "seed {seed}, heard {received}");
            }
        }
    }
}

#[test]
fn lower_last_byte_wins_simultaneous_probes() {
    for order in [[ALICE, BOB], [BOB, ALICE]] {
        let mut scene = Scene::of(&order, 3);
        let wanted = scene.claims[0].address;
        assert_eq!(scene.claims[1].address, wanted);
        scene.run(Span::from_secs(5), nothing);
        let alice = order.iter().position(|own| *own == ALICE).unwrap();
        assert_eq!(scene.holds(alice), Some(wanted));
        assert_ne!(scene.holds(1 - alice), Some(wanted));
        assert_eq!(scene.events.len(), 2, "{:?}", scene.events);
    }
}

#[test]
fn defender_keeps_its_address_and_answers_the_prober_only() {
    for (holder, newcomer) in [(ALICE, BOB), (BOB, ALICE)] {
        let mut scene = Scene::of(&[holder], 9);
        scene.run(Span::from_secs(5), nothing);
        let held = scene.holds(0).unwrap();
        scene.claims.push(AddressClaim::new(newcomer, 9, scene.now));
        scene.run(Span::from_secs(5), nothing);
        assert_eq!(scene.holds(0), Some(held));
        assert!(scene.holds(1).is_some_and(|other| other != held));
        let only = GroupRange::only(held);
        let defence = MaapMessage { kind: MaapKind::Defend, requested: only, conflict: only };
        let defences: Vec<_> =
            scene.said.iter().filter(|(.., message)| message.kind == MaapKind::Defend).collect();
        assert!(
            matches!(defences[..], [(0, _, to, said)] if *to == newcomer && *said == defence),
            "{defences:?}"
        );
    }
}

#[test]
fn a_lost_probe_does_not_matter() {
    for lost in [vec![0], vec![0, 1], vec![0, 1, 2]] {
        let mut scene = Scene::of(&[ALICE], 4);
        scene.run(Span::from_secs(5), nothing);
        let held = scene.holds(0).unwrap();
        let begun = scene.said.len();
        scene.claims.push(AddressClaim::new(BOB, 4, scene.now));
        scene.run(Span::from_secs(6), |said| lost.contains(&(said - begun)));
        assert_eq!(scene.holds(0), Some(held));
        assert!(scene.holds(1).is_some_and(|other| other != held), "{lost:?}");
        assert_eq!(scene.events.len(), 2, "no host claimed it and lost it: {:?}", scene.events);
    }
}

#[test]
fn owner_without_priority_reports_loss_and_picks_another() {
    // Joined after both have claimed.
    let mut scene = Scene::of(&[ALICE, BOB], 5);
    let both = scene.claims[0].address;
    scene.run(Span::from_secs(5), |_| true);
    assert_eq!([scene.holds(0), scene.holds(1)], [Some(both); 2]);
    scene.events.clear();
    scene.run(Span::from_secs(40), nothing);
    let other = scene.holds(1).unwrap();
    assert_eq!(scene.holds(0), Some(both));
    assert_ne!(other, both);
    let lost = ClaimEvent::Lost { address: both, to: ALICE };
    assert_eq!(scene.events, [(1, lost), (1, ClaimEvent::Claimed(other))]);
}

#[test]
fn lost_address_is_released_and_probes_restart() {
    let mut scene = Scene::of(&[BOB], 11);
    scene.run(Span::from_secs(5), nothing);
    let held = scene.holds(0).unwrap();
    let (now, claim) = (scene.now, &mut scene.claims[0]);
    let lost = GroupRange::only(held);
    // A probe, then an announcement by an owner with priority.
    claim.handle(&MaapMessage::about(MaapKind::Probe, lost), [2, 0, 0, 0, 1, 9], now);
    claim.handle(&MaapMessage::about(MaapKind::Announce, lost), ALICE, now);
    assert_eq!(claim.poll_event(), Some(ClaimEvent::Lost { address: held, to: ALICE }));
    let requests = MaapMessage::about(MaapKind::Probe, GroupRange::only(claim.address()));
    assert_eq!(claim.poll(now), Some((GROUP, requests)), "nothing is said of the other any more");
    claim.handle(&MaapMessage::about(MaapKind::Probe, lost), [2, 0, 0, 0, 1, 9], now);
    assert_eq!(claim.poll(now), None);
    // Taken too: no event, because it was not claimed.
    let next = GroupRange::only(claim.address());
    claim.handle(&MaapMessage::about(MaapKind::Defend, next), ALICE, now);
    assert_eq!((claim.poll_event(), claim.address() == next.first), (None, false));
    scene.said.clear();
    scene.run(Span::from_secs(5), nothing);
    let kinds: Vec<_> = scene.said.iter().map(|(.., message)| message.kind).collect();
    let (probe, announce) = (MaapKind::Probe, MaapKind::Announce);
    assert_eq!(kinds, [probe, probe, probe, probe, announce]);
    assert_eq!(
        scene.events,
        [(0, ClaimEvent::Claimed(held)), (0, ClaimEvent::Claimed(scene.claims[0].address))]
    );
}

#[test]
fn host_defending_all_addresses_gets_two_probes_per_second() {
    let mut claim = AddressClaim::new(BOB, 12, START);
    let (mut now, mut probes) = (START, 0);
    while now < START + Span::from_secs(20) {
        now = now.max(claim.deadline());
        while let Some((_, probe)) = claim.poll(now) {
            probes += 1;
            let requested = probe.requested;
            let defence = MaapMessage { kind: MaapKind::Defend, requested, conflict: requested };
            claim.handle(&defence, ALICE, now);
        }
    }
    assert!((30..=52).contains(&probes), "{probes}");
    assert_eq!(claim.poll_event(), None);
}

#[test]
fn only_four_sent_probes_claim_an_address() {
    for down in 0..4 {
        let mut claim = AddressClaim::new(ALICE, 2, START);
        let (mut said, mut tried, mut now) = (Vec::new(), 0, START);
        while claim.poll_event().is_none() {
            now = now.max(claim.deadline());
            let Some((_, message)) = claim.poll(now) else { continue };
            if (down..down + 3).contains(&tried) {
                claim.unsaid(now);
                said.clear();
            } else {
                said.push(message.kind);
            }
            tried += 1;
        }
        let probe = MaapKind::Probe;
        assert_eq!(said, [probe, probe, probe, probe, MaapKind::Announce], "down at {down}");
    }
}

#[test]
fn unsent_announcement_is_repeated_early() {
    let mut claim = AddressClaim::new(ALICE, 2, START);
    let mut now = START;
    while claim.poll_event().is_none() {
        now = now.max(claim.deadline());
        claim.poll(now);
    }
    claim.unsaid(now);
    assert!(claim.deadline() < now + Span::from_secs(1));
    assert!(
        matches!(claim.poll(claim.deadline()), Some((GROUP, said)) if said.kind == MaapKind::Announce)
    );
    assert_eq!(claim.poll_event(), None, "it was claimed all the time");
}

#[test]
fn messages_on_other_addresses_and_own_ones_are_ignored() {
    let mut claim = AddressClaim::new(BOB, 6, START);
    let address = claim.address();
    let next = GroupRange::only(GroupRange::only(address).at(1));
    for kind in [MaapKind::Probe, MaapKind::Defend, MaapKind::Announce] {
        claim.handle(&MaapMessage::about(kind, next), ALICE, START);
        claim.handle(&MaapMessage::about(kind, GroupRange::only(address)), BOB, START);
        let defence = MaapMessage { kind: MaapKind::Defend, requested: POOL, conflict: next };
        claim.handle(&defence, ALICE, START);
        assert_eq!(claim.address(), address);
    }
    claim.handle(&MaapMessage::about(MaapKind::Announce, POOL), ALICE, START);
    assert_ne!(claim.address(), address, "a range of which it is one");
}

#[test]
fn simultaneous_requests_are_answered_once_each() {
    let mut scene = Scene::of(&[ALICE], 8);
    scene.run(Span::from_secs(5), nothing);
    let (now, claim) = (scene.now, &mut scene.claims[0]);
    let only = GroupRange::only(claim.address());
    let asking: [[u8; 6]; 5] = core::array::from_fn(|host| [2, 0, 0, 0, 1, host as u8]);
    for host in [0, 1, 0, 2, 3, 4] {
        claim.handle(&MaapMessage::about(MaapKind::Probe, only), asking[host], now);
    }
    let answers: Vec<_> = core::iter::from_fn(|| claim.poll(now)).collect();
    let defence = MaapMessage { kind: MaapKind::Defend, requested: only, conflict: only };
    // The first probes are answered.
    assert_eq!(answers, [0, 1, 2, 3].map(|host| (asking[host], defence)));
}
