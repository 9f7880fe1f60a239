//! The arbiter of a zone allocates nothing after set-up.

use tautline_proto::clock::ClockMapping;
use tautline_proto::time::{LocalTime, Span, WallTime};
use tautline_proto::units::Rate;
use tautline_proto::zone::{
    AnnouncementId, Arbiter, Claim, Duck, Priority, ProgramRule, Programs, ReceivedClaim, Targets,
    ZoneSettings,
};
use tautline_trial::allocator_calls;

const AHEAD: Span = Span::from_secs(1000);

#[test]
fn arbiter_and_curves_allocate_nothing() {
    let mut arbiter = Arbiter::new(ZoneSettings {
        numbers: vec![1],
        muted_by: vec![2],
        lead: Span::from_millis(5),
    });
    let mut programs = Programs::new(ProgramRule::FirstAlive, 2);
    let targets = Targets::new(&[[0, 1]]).unwrap();
    let clock = Some(ClockMapping::known(AHEAD, Span::ZERO));
    let mut samples = [0.5; 96];
    let before = allocator_calls();
    for step in 0..20_000_i64 {
        let now = LocalTime::ZERO + Span::from_millis(step);
        let wall = WallTime::of_local(now, AHEAD);
        // A new announcement each 10 ms, of every priority, and goodbyes in between.
        let number = step / 10;
        let priority = Priority(number as u8);
        let claim = Claim {
            id: AnnouncementId(number as u64),
            priority,
            rank: 0,
            starts: wall + Span::from_millis(20),
            ends: None,
            sent: wall,
            longest: Span::from_secs(2),
            duck: Duck::of(priority.class()),
        };
        let ssrc = (number % 24) as u32;
        if step % 10 == 0 {
            let _ = arbiter.handle_claim(&ReceivedClaim { ssrc, claim, targets, clock }, now);
        }
        arbiter.handle_sound(ssrc, wall + Span::from_millis(40), now);
        programs.handle_sound((step / 700 % 2) as usize, now, now);
        programs.choose(now);
        if step % 97 == 0 {
            arbiter.handle_bye((step % 24) as u32, now);
        }
        arbiter.poll(now);
        if step % 1000 == 0 {
            while arbiter.poll_event().is_some() {}
        }
        arbiter.duck().apply(now, Rate::HZ_48000, 2, &mut samples);
        arbiter.announced(ssrc).apply(now, Rate::HZ_48000, 2, &mut samples);
    }
    assert_eq!(allocator_calls() - before, 0);
    assert!(arbiter.revision() > 1000);
}
