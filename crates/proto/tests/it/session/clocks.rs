use proptest::prelude::*;
use tautline_proto::clock::{ClockMapping, ClockSource, DisciplinedClock, HostClock};
use tautline_proto::endpoint::Host as From;
use tautline_proto::rtcp_session::{Event, ReportArrival, Session, SessionConfig};
use tautline_proto::time::{LocalTime, Span, WallTime};
use tautline_proto::units::Ppm;

use super::talk::{Host, LISTENER, SENDER, Talk, sending, steady};

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn mapping_error_is_within_its_bound(
        // One-way delay leaves the bound no slack.
        there in prop_oneof![0_i64..3, 0_i64..40_000],
        back in prop_oneof![0_i64..3, 0_i64..40_000],
        jitter in prop_oneof![0_u32..3, 0_u32..20_000],
        loss in 0_u32..50,
        // Sum within the assumed 15 ppm.
        drifts in [-7_500_000_i64..=7_500_000, -7_500_000_i64..=7_500_000],
    ) {
        let pipe = move |from: usize, [lot, delay]: [u32; 2]| {
            let minimum = Span::from_micros(if from == 0 { there } else { back });
            let more = Span::from_micros(i64::from(delay % (jitter + 1)));
            (lot % 100 >= loss).then_some(minimum + more)
        };
        let mut talk = Talk::between(Box::new(pipe), drifts.map(Ppm::from_millionths));
        talk.run(Span::from_secs(60));
        prop_assert!(talk.mapped.iter().any(|(host, _)| *host == 0));
        prop_assert!(talk.mapped.iter().any(|(host, _)| *host == 1));
    }

    #[test]
    fn both_clocks_are_mapped_within_three_round_trips(
        there in 1_i64..150_000,
        back in 1_i64..150_000,
    ) {
        let (there, back) = (Span::from_micros(there), Span::from_micros(back));
        let mut talk = Talk::new(steady(there, back));
        let start = talk.now;
        talk.run(Span::from_secs(2));
        for host in [0, 1] {
            let first = talk.mapped.iter().find(|(mapped, _)| *mapped == host);
            let took = first.expect("mapped").1 - start;
            prop_assert!(took <= (there + back).times(3), "host {host}: {took}");
        }
    }

    #[test]
    fn reports_are_half_a_second_apart_at_most_and_soon_no_closer(delay in 0_i64..100_000) {
        let delay = Span::from_micros(delay);
        let mut talk = Talk::new(steady(delay, delay));
        talk.run(Span::from_secs(20));
        for host in &talk.hosts {
            let apart = |two: &[LocalTime]| two[1] - two[0];
            prop_assert!(host.reports.windows(2).all(|two| apart(two) <= Span::from_millis(500)));
            let begun = host.reports[0];
            let within = |from, to| {
                let (from, to) = (begun + Span::from_secs(from), begun + Span::from_secs(to));
                host.reports.iter().filter(|at| (from..to).contains(*at)).count()
            };
            prop_assert!(within(0, 1) <= 24, "{} in the first second", within(0, 1));
            for second in 2..18 {
                prop_assert!(within(second, second + 1) <= 3);
            }
        }
    }
}

fn mapped(talk: &Talk) -> (ClockMapping, Span) {
    let mapping = talk
        .reported(1)
        .filter_map(|e| if let Event::Mapped(_, mapping) = e { Some(*mapping) } else { None })
        .next_back()
        .expect("mapped");
    let error = mapping.local(talk.hosts[0].wall(talk.now)) - talk.hosts[1].local(talk.now);
    (mapping, error)
}

#[test]
fn a_symmetric_path_gives_the_offset_itself() {
    let delay = Span::from_micros(100);
    let mut talk = Talk::new(steady(delay, delay));
    talk.run(Span::from_secs(10));
    let (mapping, error) = mapped(&talk);
    assert!(error.abs() <= Span::from_micros(5), "{error}");
    assert!((mapping.round_trip - delay.times(2)).abs() <= Span::from_micros(8));
    assert!(mapping.uncertainty <= Span::from_micros(120), "{}", mapping.uncertainty);
}

/// After ten seconds, 4 ms there and 1 ms back. Both system clocks are known to `micros`.
fn kept(micros: i64) -> (ClockSource, Span) {
    let mut talk = Talk::new(steady(Span::from_millis(4), Span::from_millis(1)));
    for host in &mut talk.hosts {
        host.session.set_disciplined(Some(DisciplinedClock {
            offset: Span::from_secs(1_000_000) - host.origin,
            uncertainty: Span::from_micros(micros),
            source: ClockSource::System,
        }));
    }
    talk.run(Span::from_secs(10));
    let (mapping, error) = mapped(&talk);
    (mapping.source, error.abs())
}

#[test]
fn system_clock_better_than_the_round_trip_is_used() {
    // Half the round trip; asymmetry is not observable.
    let (source, error) = kept(100);
    assert_eq!(source, ClockSource::System);
    assert!(error <= Span::from_micros(1), "{error}");
    let (source, error) = kept(5_000);
    assert_eq!(source, ClockSource::Exchange);
    assert!((error - Span::from_micros(1_500)).abs() <= Span::from_micros(10), "{error}");
}

#[test]
fn first_report_delayed_by_arp_makes_no_later_one_odd() {
    // The first packets to a host wait for ARP.
    for (slow_end, count, millis) in
        [(0, 1, 10), (0, 1, 65), (1, 1, 65), (0, 2, 30), (1, 3, 65), (0, 1, 300)]
    {
        let mut sent = [0; 2];
        let pipe = move |from: usize, [_, delay]: [u32; 2]| {
            sent[from] += 1;
            let waits = from == slow_end && sent[from] <= count;
            let usual = Span::from_micros(110 + i64::from(delay % 10));
            Some(if waits { Span::from_millis(millis) } else { usual })
        };
        let mut talk = Talk::new(Box::new(pipe));
        talk.run(Span::from_secs(40));
        for (host, peer) in [(0, LISTENER), (1, SENDER)] {
            let session = &talk.hosts[host].session;
            let odd = (session.path_changes(peer), session.refused_exchanges(peer));
            assert_eq!(odd, (0, 0), "{count} of {slow_end} took {millis} ms; host {host}");
        }
    }
}

#[test]
fn a_stepped_clock_is_noticed_once_and_followed() {
    let delay = Span::from_micros(200);
    let mut talk = Talk::new(steady(delay, delay));
    talk.run(Span::from_secs(10));
    assert_eq!(talk.hosts[1].session.clock_steps(SENDER), 0);
    let wall = talk.hosts[0].wall_offset + Span::from_millis(30);
    talk.hosts[0] = Host::new(SENDER, Ppm::ZERO, talk.hosts[0].origin, wall);
    talk.hosts[0].session.set_sending(sending());
    talk.run(Span::from_secs(10));
    assert_eq!(talk.hosts[1].session.clock_steps(SENDER), 1);
}

#[test]
fn a_peer_on_the_same_host_is_mapped_by_its_first_report() {
    let (here, offset) = (HostClock::of(b"this boot"), Span::from_secs(1_000));
    let session = |ssrc, wall_offset, host| {
        Session::new(SessionConfig { ssrc, cname: "one".into(), wall_offset, host })
    };
    let now = LocalTime::from_nanos(5_000_000_000);
    let mut sender = session(1, offset, Some(here));
    sender.set_sending(sending());
    let mut buffer = [0; 1400];
    let bytes = sender.poll(now, &mut buffer).unwrap();
    for host in [Some(here), Some(HostClock::of(b"another")), None] {
        let mut mapped = None;
        let mut receiver = session(2, Span::ZERO, host);
        let arrival = now + Span::from_millis(3);
        let reported = receiver.handle(
            &buffer[..bytes],
            ReportArrival::exact(From::UNKNOWN, arrival),
            |event| {
                if let Event::Mapped(_, mapping) = event {
                    mapped = Some(mapping);
                }
            },
        );
        assert_eq!(reported, Ok(()));
        assert_eq!(mapped.is_some(), host == Some(here));
        let Some(mapping) = mapped else { continue };
        assert_eq!((mapping.source, mapping.uncertainty), (ClockSource::Host, Span::ZERO));
        assert_eq!(receiver.mapping(1), Some(mapping), "it is known when packets arrive");
        let later = now + Span::from_secs(86_400);
        assert_eq!(mapping.wall(later), WallTime::of_local(later, offset));
        assert_eq!(mapping.uncertainty_at(later), Some(Span::ZERO));
    }
}
