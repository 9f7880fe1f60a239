use super::*;

const OFFSET: Span = Span::from_secs(1_800_000_000);
const KEPT: Keeping = Keeping { source: ClockSource::Ptp, uncertainty: Span::from_micros(3) };

/// A host whose clock runs `rate` slow.
struct Host {
    clock: TaiClock,
    now: LocalTime,
    truth: f64,
    rate: f64,
    /// Maximum error beyond the uncertainty, and jump.
    beyond: Span,
    jumped: Span,
    slewed: f64,
}

impl Host {
    fn new(rate: f64) -> Self {
        let now = LocalTime::ZERO + Span::from_secs(1000);
        Self {
            clock: TaiClock::default(),
            now,
            truth: 0.0,
            rate,
            beyond: -Span::MAX,
            jumped: Span::ZERO,
            slewed: 0.0,
        }
    }

    fn tai(&self) -> WallTime {
        WallTime::of_local(self.now, OFFSET + Span::from_nanos(self.truth as i64))
    }

    fn error(&self) -> Span {
        let mapping = self.clock.mapping().expect("something was read");
        mapping.wall(self.now) - self.tai()
    }

    /// Reads the clock every second, with an error of `set`.
    fn pass(&mut self, seconds: i64, kept: Option<Keeping>, set: Span) {
        for _ in 0..seconds {
            let before = self.clock.mapping();
            let was = before.map(|before| (self.now, before.wall(self.now)));
            self.now += Span::from_secs(1);
            self.truth += self.rate * 1e9;
            // Typical reading error.
            let alongside =
                Span::from_nanos((self.now.as_nanos() / 1_000_000_000 * 7919 % 201) - 100);
            let reading = TaiReading {
                local: self.now,
                offset: self.tai() - WallTime::of_local(self.now, Span::ZERO) + alongside + set,
                precision: Span::from_nanos(100),
                kept,
            };
            if let (Some(before), Some((at, wall))) = (before, was) {
                let passed = (self.now - at).as_nanos() as f64;
                let ran = (before.wall(self.now) - wall).as_nanos() as f64 / passed - 1.0;
                self.slewed = self.slewed.max((ran - self.rate).abs());
            }
            let next = self.clock.observe(&reading);
            if let Some(before) = before {
                let jumped = (next.wall(self.now) - before.wall(self.now)).abs();
                self.jumped = self.jumped.max(jumped);
            }
            let said = next.uncertainty_at(self.now).expect("just made");
            self.beyond = self.beyond.max(self.error().abs() - said);
        }
    }
}

#[test]
fn holdover_stays_within_its_bound_and_ends_without_a_jump() {
    for rate in [-40e-6, 12e-6] {
        let mut host = Host::new(rate);
        host.pass(120, Some(KEPT), Span::ZERO);
        assert_eq!(host.clock.state().name(), "locked");
        assert!(host.error().abs() < Span::from_nanos(200), "{}", host.error());
        let lost = host.now;
        host.rate += 5e-6;
        host.pass(60, None, Span::from_secs(7));
        assert_eq!(host.clock.state(), TaiState::Holdover(ClockSource::Ptp, lost));
        let off = host.error().abs() - Span::from_micros(300);
        assert!(off.abs() < Span::from_micros(10), "at its last rate: {off}");
        host.pass(1, Some(KEPT), Span::ZERO);
        assert_eq!(host.clock.state(), TaiState::Locked(ClockSource::Ptp, host.now));
        assert!(host.error().abs() > Span::from_micros(290), "it does not step");
        host.pass(10, Some(KEPT), Span::ZERO);
        assert!(host.error().abs() < Span::from_micros(1), "{}", host.error());
        assert!(host.beyond <= Span::ZERO, "{} beyond the uncertainty", host.beyond);
        assert!(host.jumped <= Span::from_nanos(3), "{}", host.jumped);
        assert!(host.slewed < 215e-6, "{}", host.slewed);
        assert_eq!(host.clock.steps(), 0);
    }
}

#[test]
fn small_clock_changes_are_slewed_and_large_ones_stepped() {
    let mut host = Host::new(0.0);
    host.pass(20, Some(KEPT), Span::ZERO);
    host.pass(50, Some(KEPT), Span::from_millis(8));
    assert!((host.error() - Span::from_millis(8)).abs() < Span::from_micros(1));
    assert!(host.jumped <= Span::from_nanos(3) && host.slewed < 205e-6, "{}", host.slewed);
    host.pass(1, Some(KEPT), Span::from_secs(37));
    assert_eq!((host.error() - Span::from_secs(37)).abs().as_nanos() / 1000, 0);
    assert_eq!(host.clock.steps(), 1);
}

#[test]
fn holdover_is_uncertain_after_a_minute_until_locked_again() {
    let mut host = Host::new(12e-6);
    host.pass(60, Some(KEPT), Span::ZERO);
    assert!(!host.clock.is_uncertain());
    host.pass(60, None, Span::ZERO);
    assert!(!host.clock.is_uncertain(), "{:?}", host.clock.uncertainty(host.now));
    host.pass(10, None, Span::ZERO);
    assert!(host.clock.is_uncertain(), "{:?}", host.clock.uncertainty(host.now));
    host.pass(10, Some(KEPT), Span::ZERO);
    assert!(!host.clock.is_uncertain());
}

#[test]
fn unsynchronised_clock_is_free_and_equals_the_kernels_tai() {
    let mut host = Host::new(12e-6);
    host.pass(20, None, Span::ZERO);
    assert_eq!(host.clock.state(), TaiState::Free);
    assert!(host.clock.is_uncertain() && host.clock.uncertainty(host.now).is_none());
    assert!(host.error().abs() < Span::from_nanos(200), "{}", host.error());
}

#[test]
fn holdover_lasts_until_a_better_source_than_the_system_clock() {
    let system = |micros| {
        Some(Keeping { source: ClockSource::System, uncertainty: Span::from_micros(micros) })
    };
    let mut host = Host::new(0.0);
    host.pass(20, Some(KEPT), Span::ZERO);
    for second in 1..10 {
        host.pass(1, system(500 * second), Span::ZERO);
        assert_eq!(host.clock.state().name(), "holdover");
    }
    host.pass(1, system(40), Span::ZERO);
    assert_eq!(host.clock.state(), TaiState::Locked(ClockSource::System, host.now));
}
