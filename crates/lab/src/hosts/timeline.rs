//! Maps another host's clock to this one's, from recorded exchanges, without I/O.

use tautline_proto::clock::{ClockEstimator, ClockMapping, Exchange};
use tautline_proto::time::{LocalTime, Span, WallTime};

/// Whether clocks may be the same; `false` without a name.
pub(super) fn have_one_name(one: Option<&str>, other: Option<&str>) -> bool {
    one.is_some() && one == other
}

#[derive(Debug)]
pub(crate) enum HostTimeline {
    Same,
    Exchanged(Box<ExchangedClock>),
}

#[derive(Debug, Default)]
pub(crate) struct ExchangedClock {
    estimator: ClockEstimator,
    course: Vec<(LocalTime, ClockMapping)>,
}

impl HostTimeline {
    pub(crate) fn observe(&mut self, exchange: Exchange) {
        if let Self::Exchanged(clock) = self {
            clock.observe(exchange);
        }
    }

    /// Translates to this clock, with ± uncertainty. `None` without a near exchange.
    pub(crate) fn here(&self, there: LocalTime) -> Option<(LocalTime, Span)> {
        match self {
            Self::Same => Some((there, Span::ZERO)),
            Self::Exchanged(clock) => clock.here(there),
        }
    }

    pub(crate) fn steps(&self) -> u32 {
        match self {
            Self::Same => 0,
            Self::Exchanged(clock) => clock.estimator.steps(),
        }
    }

    pub(crate) fn round_trip(&self) -> Option<Span> {
        match self {
            Self::Same => None,
            Self::Exchanged(clock) => {
                clock.course.iter().map(|(_, mapping)| mapping.round_trip).min()
            }
        }
    }
}

impl ExchangedClock {
    fn observe(&mut self, exchange: Exchange) {
        if let Some(mapping) = self.estimator.observe(exchange) {
            self.course.push((exchange.answered, mapping));
        }
    }

    /// Mappings have no steps. Before the first, uncertainty grows as after it.
    fn here(&self, there: LocalTime) -> Option<(LocalTime, Span)> {
        let shown = WallTime::of_local(there, Span::ZERO);
        let after = |(made, mapping): &(LocalTime, ClockMapping)| mapping.local(shown) >= *made;
        let next = self.course.partition_point(after);
        let (made, mapping) = self.course.get(next.saturating_sub(1))?;
        let here = mapping.local(shown);
        let uncertainty = mapping.uncertainty_at(*made + (here - *made).abs())?;
        Some((here, uncertainty))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The delay is 0.1 ms there and `back` µs back, plus up to 0.5 ms each.
    struct FarClock {
        offset: Span,
        rate: f64,
        step: Span,
        back: i64,
    }

    const BEGUN: LocalTime = LocalTime::from_nanos(5_000_000_000_000);
    const STEPPED: Span = Span::from_secs(5);

    impl FarClock {
        fn shows(&self, at: LocalTime) -> LocalTime {
            let since = at - BEGUN;
            let gained = Span::from_nanos((since.as_nanos() as f64 * self.rate) as i64);
            let step = if since >= STEPPED { self.step } else { Span::ZERO };
            at + self.offset + gained + step
        }

        fn known(&self) -> HostTimeline {
            let mut timeline = HostTimeline::Exchanged(Box::default());
            let mut random = fastrand::Rng::with_seed(7);
            for requested in 0..50 {
                let requested = BEGUN + Span::from_millis(200 * requested);
                let mut queued = || Span::from_micros(random.i64(0..500).pow(3) / 250_000);
                let received = requested + Span::from_micros(100) + queued();
                let left = received + Span::from_micros(20);
                let answered = left + Span::from_micros(self.back) + queued();
                let wall = |at| WallTime::of_local(self.shows(at), Span::ZERO);
                timeline.observe(Exchange {
                    requested,
                    peer_received: wall(received),
                    peer_answered: wall(left),
                    answered,
                    reading_error: Span::from_nanos(1),
                });
            }
            timeline
        }
    }

    const FAR: FarClock =
        FarClock { offset: Span::from_secs(-3600), rate: 37e-6, step: Span::ZERO, back: 100 };

    fn errors(far: &FarClock) -> Vec<(Span, Span)> {
        let timeline = far.known();
        let at = |tenth: i64| BEGUN + Span::from_millis(100 * tenth);
        let error = |tenth: i64| {
            let (here, unsure) = timeline.here(far.shows(at(tenth))).unwrap();
            (here - at(tenth), unsure)
        };
        (0..105).map(error).collect()
    }

    #[test]
    fn remote_times_map_within_the_stated_uncertainty() {
        for back in [100, 300] {
            let far = FarClock { back, ..FAR };
            let errors = errors(&far);
            for (error, unsure) in &errors {
                assert!(error.abs() <= *unsure, "{back}: {errors:?}");
            }
            // The uncertainty is half the round trip, once the rate is known.
            let (_, unsure) = errors[100];
            assert!(unsure < Span::from_micros((100 + back) / 2 + 60), "{back}: {errors:?}");
            assert_eq!(far.known().steps(), 0);
        }
    }

    #[test]
    fn asymmetric_delay_shifts_times_by_half_within_uncertainty() {
        let far = FarClock { back: 400, ..FAR };
        let (error, unsure) = errors(&far)[100];
        let alongside = error.abs() - Span::from_micros(150);
        assert!(
            alongside.abs() < Span::from_micros(60) && unsure >= error.abs(),
            "{error} {unsure}"
        );
    }

    #[test]
    fn clock_step_on_the_path_is_reported() {
        for step in [Span::from_millis(3), Span::from_millis(-40), Span::from_secs(1000)] {
            assert_eq!(FarClock { step, ..FAR }.known().steps(), 1, "{step}");
        }
    }

    #[test]
    fn time_far_from_any_exchange_is_unknown() {
        let timeline = FAR.known();
        let at = |seconds: i64| FAR.shows(BEGUN + Span::from_secs(seconds));
        assert!(timeline.here(at(5)).is_some());
        assert_eq!(timeline.here(at(25)), None);
        assert_eq!(timeline.here(at(-15)), None);
        assert_eq!(HostTimeline::Exchanged(Box::default()).here(at(5)), None);
    }

    #[test]
    fn clocks_without_a_name_have_none_in_common() {
        assert!(have_one_name(Some("boot 7"), Some("boot 7")));
        assert!(!have_one_name(Some("boot 7"), Some("boot 8")));
        assert!(!have_one_name(None, None) && !have_one_name(Some("boot 7"), None));
    }

    #[test]
    fn one_clock_is_read_as_it_is() {
        let mut same = HostTimeline::Same;
        same.observe(Exchange {
            requested: BEGUN,
            peer_received: WallTime::from_unix_nanos(1),
            peer_answered: WallTime::from_unix_nanos(2),
            answered: BEGUN,
            reading_error: Span::ZERO,
        });
        assert_eq!(same.here(BEGUN), Some((BEGUN, Span::ZERO)));
        assert_eq!((same.steps(), same.round_trip()), (0, None));
    }
}
