use super::*;

const TAKES: Span = Span::from_millis(2);

fn depth() -> Depth {
    depth_from(Span::from_millis(5))
}

fn depth_from(start: Span) -> Depth {
    Depth::new(DepthConfig {
        loss_target: LossTarget::DEFAULT,
        takes: TAKES,
        minimum: Span::from_millis(3),
        longest: Span::from_millis(400),
        start,
    })
}

fn micros(micros: i64) -> Span {
    Span::from_micros(micros)
}

fn drawn(index: i64, below: i64) -> i64 {
    let mixed = (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33) as i64 % below
}

/// Passes 1 ms packets, polls every 20 ms, returns changes by milliseconds.
fn pass(
    depth: &mut Depth,
    (from, to): (i64, i64),
    quiet: bool,
    transit: impl Fn(i64) -> Span,
) -> Vec<(i64, Span)> {
    let mut reported = Vec::new();
    for milli in from * 1000..to * 1000 {
        depth.observe(transit(milli));
        if milli % 20 == 19 {
            let now = LocalTime::ZERO + Span::from_millis(milli);
            reported.extend(depth.poll(now, quiet).map(|offset| (milli, offset)));
        }
    }
    reported
}

/// A quiet network: 1.2 ms plus up to 30 µs.
fn wire(milli: i64) -> Span {
    micros(1_200 + drawn(milli, 30))
}

/// Every two seconds a spike delays 20 packets by up to `height`.
fn spikes_of(height: i64, until: i64) -> impl Fn(i64) -> Span {
    move |milli| {
        let within = milli % 2_000;
        let spike = milli < until * 1000 && within < 20;
        wire(milli) + if spike { micros(height - height / 20 * within) } else { Span::ZERO }
    }
}

fn spikes(until: i64) -> impl Fn(i64) -> Span {
    spikes_of(6_000, until)
}

#[test]
fn quiet_network_sets_the_offset_after_a_tenth_of_a_second() {
    let mut depth = depth_from(Span::from_millis(50));
    assert_eq!(depth.offset(), Span::from_millis(50));
    let reported = pass(&mut depth, (0, 1), false, wire);
    assert_eq!(reported[0].0, 99, "{reported:?}");
    let needed = micros(1_230) + TAKES;
    assert!(depth.offset() >= needed, "{reported:?}");
    assert!(depth.offset() <= needed + micros(130), "{reported:?}");
    pass(&mut depth, (1, 120), false, wire);
    let Journal { before, increases: rises, decreases: falls, minimum, greatest, .. } =
        *depth.journal();
    assert_eq!(before, Span::from_millis(50), "what it began with");
    assert!(rises <= 2 && falls == 0 && greatest - minimum <= micros(60), "{:?}", depth.journal());
}

#[test]
fn small_excess_falls_without_a_step_after_ten_seconds() {
    let mut depth = depth();
    assert_eq!(pass(&mut depth, (0, 10), true, wire), []);
    let reported = pass(&mut depth, (10, 22), false, wire);
    let steps = reported.windows(2).map(|two| two[0].1 - two[1].1);
    assert!(reported[0].1 > micros(4_990) && steps.max() <= Some(micros(4)), "{reported:?}");
    let needed = micros(1_230) + TAKES;
    assert!((needed..=needed + micros(130)).contains(&depth.offset()), "{:?}", depth.offset());
    let Journal { first, decreases: falls, .. } = *depth.journal();
    assert_eq!((first, falls), (Some(Span::from_millis(5)), 1));
}

#[test]
fn a_network_that_slows_down_is_followed_at_once() {
    let mut depth = depth();
    pass(&mut depth, (0, 60), false, wire);
    let reported = pass(&mut depth, (60, 61), false, |milli| wire(milli) + Span::from_millis(5));
    let needed = micros(6_200) + TAKES;
    assert!(reported[0].0 < 60_020 && reported[0].1 > needed, "{reported:?}");
}

#[test]
fn one_late_packet_in_10000_is_tolerated_but_two_are_not() {
    for (late, waited) in [(1, false), (2, true)] {
        let mut depth = depth();
        pass(&mut depth, (0, 60), false, |milli| {
            let odd = milli > 50_000 && milli <= 50_000 + late;
            wire(milli) + if odd { Span::from_millis(4) } else { Span::ZERO }
        });
        assert_eq!(depth.offset() > Span::from_millis(7), waited, "{late}: {:?}", depth.offset());
    }
}

#[test]
fn latency_falls_within_30_s_after_spikes() {
    let mut depth = depth();
    pass(&mut depth, (0, 60), false, spikes(60));
    assert!(depth.offset() > Span::from_millis(9), "{:?}", depth.offset());
    pass(&mut depth, (60, 90), false, spikes(60));
    assert!(depth.offset() < micros(3_600), "{:?}", depth.offset());
    assert_eq!(depth.journal().decreases, 1);
}

#[test]
fn a_short_way_down_is_gone_by_resampling_alone() {
    let mut depth = depth();
    pass(&mut depth, (0, 60), false, spikes_of(2_000, 60));
    assert!(depth.offset() > Span::from_millis(5), "{:?}", depth.offset());
    let reported = pass(&mut depth, (60, 90), false, spikes_of(2_000, 60));
    assert!(depth.offset() < micros(3_600), "{:?}", depth.offset());
    let steps = reported.windows(2).map(|two| two[0].1 - two[1].1);
    assert!(steps.clone().all(|step| step <= micros(4)), "{:?}", steps.max());
}

#[test]
fn recurring_delay_is_covered_all_the_time() {
    let mut depth = depth();
    pass(&mut depth, (0, 10), false, spikes(300));
    let reported = pass(&mut depth, (10, 300), false, spikes(300));
    assert!(reported.is_empty(), "{reported:?}");
}

#[test]
fn a_pause_is_used_to_come_down_at_once() {
    let mut depth = depth();
    pass(&mut depth, (0, 60), false, spikes(60));
    pass(&mut depth, (60, 73), true, spikes(60));
    assert!(depth.offset() < micros(3_600), "{:?}", depth.offset());
}

#[test]
fn large_fall_without_a_pause_is_cut_within_thirty_seconds() {
    let mut depth = depth();
    let slow = |milli| wire(milli) + Span::from_millis(if milli < 20_000 { 80 } else { 0 });
    pass(&mut depth, (0, 20), false, slow);
    assert!(depth.offset() > Span::from_millis(80), "{:?}", depth.offset());
    pass(&mut depth, (20, 50), false, slow);
    assert!(depth.offset() < micros(3_600), "{:?}", depth.offset());
}

#[test]
fn past_rare_events_add_at_most_the_spread() {
    let offset_after = |rare: i64| {
        let transit = |milli: i64| {
            let odd = milli % 5_000 < 2 && milli < 100_000;
            micros(if odd { rare } else { 1_000 + drawn(milli, 2_000) })
        };
        let mut depth = depth();
        pass(&mut depth, (0, 100), false, transit);
        let with = depth.offset();
        pass(&mut depth, (100, 150), false, transit);
        (with, depth.offset())
    };
    let (with, after) = offset_after(4_500);
    assert!(after >= with - micros(150), "{with:?} {after:?}");
    let (with, after) = offset_after(12_000);
    assert!(with > Span::from_millis(14), "{with:?}");
    // Packets up to 3 ms, their spread again, the device, and half the band.
    assert!(after <= micros(3_000 + 2_000 + 2_000 + 400), "{after:?}");
}

#[test]
fn offset_stays_between_minimum_and_buffer_maximum() {
    for (transit, offset) in [(0, 3), (3_000, 400)] {
        let mut depth = depth();
        pass(&mut depth, (0, 25), false, |_| Span::from_millis(transit));
        assert_eq!(depth.offset(), Span::from_millis(offset));
    }
}

#[test]
fn repair_gets_its_budget_where_more_is_lost_than_may_be() {
    let offset_with = |budget, lost| {
        let mut depth = depth();
        depth.set_repair(Span::from_millis(budget), lost);
        pass(&mut depth, (0, 25), false, wire);
        (depth.offset(), depth.has_repair())
    };
    let (without, _) = offset_with(0, 50_000_000);
    assert_eq!(offset_with(0, 50_000_000), (without, false));
    assert_eq!(offset_with(3, 0), (without, false));
    assert_eq!(offset_with(3, 90_000), (without, false));
    let (with, has_repair) = offset_with(3, 50_000_000);
    assert!(has_repair);
    assert!((with - without - Span::from_millis(3)).abs() <= micros(250), "{with:?}");
}

#[test]
fn forgetting_keeps_the_offset_until_the_next_measurement() {
    let mut depth = depth();
    pass(&mut depth, (0, 10), false, spikes(60));
    let before = depth.offset();
    depth.forget();
    assert_eq!(depth.poll(LocalTime::ZERO + Span::from_secs(10), false), None);
    assert_eq!(depth.offset(), before);
    let reported = pass(&mut depth, (10, 11), false, |milli| wire(milli) - Span::from_millis(1));
    assert_eq!(reported[0], (10_099, Span::from_millis(3)));
}

#[test]
fn a_pause_of_the_sender_changes_nothing() {
    let mut depth = depth();
    pass(&mut depth, (0, 10), false, spikes(60));
    let before = depth.offset();
    for second in 10..300 {
        assert_eq!(depth.poll(LocalTime::ZERO + Span::from_secs(second), true), None);
    }
    assert_eq!(depth.offset(), before);
}

mod advice {
    use super::*;

    #[test]
    fn curve_gives_the_late_share() {
        let mut advice = Advice::new(TAKES, Span::from_millis(3));
        // Latencies with the device are 3 to 12.99 ms.
        (0..10_000).for_each(|index| advice.observe(micros(1_000 + index)));
        let curve = advice.curve();
        for CurvePoint { latency, late, of } in &curve {
            let due = (13_000 - latency.as_nanos() / 1000).clamp(0, 10_000);
            assert!((*late as i64 - due).abs() <= 40, "{latency}: {late} of {of}, not {due}");
        }
        for millis in (3..=13).map(Span::from_millis) {
            assert!(curve.iter().any(|point| point.latency == millis), "{millis}: {curve:?}");
        }
        assert_eq!(advice.advised("10%".parse().unwrap()), Some(micros(12_000)));
        assert_eq!(advice.advised(LossTarget::DEFAULT), Some(micros(13_000)));
    }

    #[test]
    fn knee_is_listed_finely_and_the_tail_coarsely() {
        let mut advice = Advice::new(TAKES, Span::from_millis(3));
        for index in 0..1_000_000 {
            let tail = if index % 1000 == 0 { drawn(index, 3_000) } else { 0 };
            advice.observe(wire(index) + Span::from_millis(tail));
        }
        let curve = advice.curve();
        assert!(curve.len() <= 74, "{curve:?}");
        assert!(curve.windows(2).all(|two| two[0].latency < two[1].latency), "{curve:?}");
        let half = curve.iter().find(|point| point.late < point.of / 2).map(|point| point.latency);
        assert_eq!(half, Some(micros(3_300)));
        assert_eq!(curve.last().map(|point| point.late), Some(0));
    }

    #[test]
    fn nothing_received_advises_nothing() {
        let advice = Advice::new(TAKES, Span::from_millis(3));
        assert_eq!(advice.advised(LossTarget::DEFAULT), None);
        assert!(advice.curve().is_empty());
    }
}

#[test]
fn new_maximum_lowers_the_offset_at_once_and_limits_it() {
    let maximum = Span::from_millis(60);
    let held = |milli: i64| wire(milli) + Span::from_millis((120 - milli % 2_000).max(0));
    let mut depth = depth();
    pass(&mut depth, (0, 30), false, held);
    assert!(depth.offset() > Span::from_millis(120), "{:?}", depth.offset());
    depth.set_max(Some(maximum));
    assert_eq!(depth.offset(), maximum);
    assert!(pass(&mut depth, (30, 60), false, held).iter().all(|(_, offset)| *offset <= maximum));
    depth.set_max(None);
    pass(&mut depth, (60, 61), false, held);
    assert!(depth.offset() > Span::from_millis(120), "{:?}", depth.offset());
}

#[test]
fn path_above_the_maximum_gets_fastest_need_plus_a_fifth() {
    let maximum = Span::from_millis(50);
    let mut depth = depth();
    depth.set_max(Some(maximum));
    let slow = |milli: i64| wire(milli) + Span::from_millis(80 + 40 * (milli % 500 / 499));
    pass(&mut depth, (0, 30), false, slow);
    let needed = micros(81_200) + TAKES + Span::from_millis(10);
    assert!(depth.offset() >= needed - micros(200), "{:?}", depth.offset());
    assert!(depth.offset() <= needed + micros(200), "{:?}", depth.offset());
    let mut depth = self::depth();
    depth.set_max(Some(micros(1)));
    depth.start_at(Span::from_millis(50));
    assert_eq!(depth.offset(), enough_latency(Span::from_millis(3)));
}

proptest::proptest! {
    /// Paths: delay and jitter in milliseconds, and seconds.
    #[test]
    fn ceiling_holds_when_a_recent_packet_shows_that_it_can(
        ways in proptest::collection::vec((0_i64..500, 0_i64..400, 1_i64..8), 1..6),
    ) {
        let maximum = Span::from_millis(250);
        let allows = maximum - maximum.divided(5) - TAKES - Span::from_millis(5);
        let mut depth = depth();
        depth.set_max(Some(maximum));
        let (mut milli, mut allowed) = (0, -10_000);
        for (way, jitter, seconds) in ways {
            let until = milli + seconds * 1000;
            while milli < until {
                let transit = Span::from_millis(way + drawn(milli, jitter + 1));
                depth.observe(transit);
                if transit <= allows {
                    allowed = milli;
                }
                milli += 5;
                if milli % 20 == 0 {
                    depth.poll(LocalTime::ZERO + Span::from_millis(milli), false);
                    let holds = milli - allowed < 10_000;
                    proptest::prop_assert!(!holds || depth.offset() <= maximum, "{milli} ms: {:?}", depth.offset());
                }
            }
        }
    }
}
