use std::cell::RefCell;
use std::rc::Rc;

use tautline_report::ledger::LAUNCH;
use tautline_trial::snapshot;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::resources::machine_quantities;

pub(crate) fn read<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).unwrap()
}

/// 1 ms packets, 5 ms from capture to DAC; all but `lost` arrive.
pub(crate) fn outcome(packets: i64, lost: &[i64]) -> StreamOutcome {
    let millis = |number: i64| number * 1_000_000;
    let timestamp = |number: i64| (number * 48 - 480) as u32;
    let departures = (0..packets).map(|number| SentPacket {
        timestamp: timestamp(number),
        capture: millis(number),
        ..SentPacket::default()
    });
    let arrivals = (0..packets).filter(|number| !lost.contains(number)).map(|number| {
        let at = |micros: i64| Some(millis(number) + micros * 1000);
        ReceivedPacket {
            timestamp: timestamp(number),
            sender: [at(0), at(1000), at(1010), at(1020), at(1020)],
            arrival: millis(number) + 1_100_000,
            receiver: [at(1200), at(3200), at(3300), at(5000)],
            measured: Some(5_000_000),
            ..ReceivedPacket::default()
        }
    });
    StreamOutcome {
        sent: Report::default(),
        received: read(json!({"role": "recv",
            "streams": [{"latency": {"configured_ns": 5_000_000, "uncertainty_ns": 10_000},
            "stages": [{"name": "wire", "uncertainty_ns": 7}], "counters": {"packets_received": 1, "lost": lost.len()}}]})),
        departures: departures.collect(),
        arrivals: arrivals.collect(),
        used: [None, None],
        machines: SampledMachines::default(),
        refused: None,
        shape: LabStream::default().shape(),
        devices: [None, None],
        settle: SETTLE,
        max_uncertainty: None,
    }
}

#[test]
fn a_stream_is_a_row_of_all_packets_after_the_first_seconds() {
    let row = outcome(4000, &[]).row("test");
    let measured = row.measured.unwrap();
    assert_eq!((measured.count, measured.p50_ns), (2000, Some(5_000_000)));
    assert_eq!(row.configured, Some(Span::from_millis(5)));
    assert_eq!(row.invalid, None);
    let missed = row.missed.unwrap();
    assert_eq!((missed.due, missed.missed), (2000, 0));
    let lengths: Vec<_> = row.stages.iter().map(|stage| stage.summary.p50_ns.unwrap()).collect();
    assert_eq!(lengths.iter().sum::<i64>(), 5_000_000, "stages add up: {lengths:?}");
    assert_eq!(row.stages[3].uncertainty_ns, Some(7));
    snapshot!(row.worst[0].cause.as_deref().unwrap());
    let all: Vec<_> = row.worst[0].stages.iter().map(|stage| stage.length_ns).collect();
    assert_eq!(all, [1_000_000, 10_000, 10_000, 80_000, 100_000, 2_000_000, 100_000, 1_700_000]);
    assert_eq!(row.points.len(), 8);
    assert_eq!(row.points[7].values[0], (0, 5_000_000));
}

#[test]
fn unknown_capture_times_come_from_the_senders_log() {
    let mut outcome = outcome(4000, &[3000]);
    outcome.arrivals.iter_mut().for_each(|packet| packet.sender = [None; 5]);
    let counted = outcome.counted();
    let first = counted.first().map(|(due, packet)| (due.as_nanos(), packet.timestamp));
    assert_eq!((counted.len(), first), (1999, Some((2_000_000_000, 2000 * 48 - 480))));
    let missed = outcome.missed(&counted).unwrap();
    assert_eq!((missed.due, missed.missed), (2000, 1));
}

#[test]
fn stream_by_second_has_all_parts_and_misses() {
    let mut outcome = outcome(6400, &[100, 2500, 2501, 4000]);
    for (number, packet) in outcome.arrivals.iter_mut().enumerate() {
        packet.late = (5000..5003).contains(&number);
        if number == 2600 {
            packet.receiver[1..].fill(None);
        }
    }
    let stream = outcome.row("test").stream.unwrap();
    assert_eq!((stream.rate, stream.period, stream.periods), (48_000, 48, 2));
    assert_eq!((stream.seconds, stream.due, stream.ptime_ns), (4, 4400, 1_000_000));
    assert_eq!(stream.lost, [(0, 2), (2, 1)]);
    assert_eq!((stream.late, stream.underrun_discarded), (vec![(3, 3)], vec![(0, 1)]));
    let names: Vec<_> = stream.parts.iter().map(|part| part.name.as_str()).collect();
    let mut expected: Vec<_> =
        tautline_report::ledger::STAGES.into_iter().filter(|name| *name != LAUNCH).collect();
    expected.extend(["sender_late", "receiver_late"]);
    assert_eq!(names, expected);
    let wire = &stream.parts[3];
    assert_eq!((&wire.p50_ns, &wire.max_ns), (&vec![80_000; 4], &vec![80_000; 4]));
    assert_eq!(wire.p99_ns, [None, Some(80_000), None, Some(80_000)], "it takes a thousand");
}

#[test]
fn a_thread_is_late_against_the_best_of_its_own_second() {
    let mut outcome = outcome(6000, &[]);
    for (number, packet) in outcome.arrivals.iter_mut().enumerate() {
        // The card drifts by 200 µs; every tenth wake-up is 30 µs late.
        let off =
            if number < 4000 { 0 } else { 200_000 } + if number % 10 == 0 { 30_000 } else { 0 };
        packet.receiver[2] = packet.receiver[2].map(|written| written + off);
    }
    let stream = outcome.row("test").stream.unwrap();
    let late = stream.parts.iter().find(|part| part.name == "receiver_late").unwrap();
    assert_eq!((&late.p50_ns, &late.max_ns), (&vec![0; 4], &vec![30_000; 4]));
}

#[test]
fn packets_that_never_arrived_are_missed() {
    for (lost, known) in [(vec![100, 2500, 2501, 3000], 3), ((3500..4000).collect(), 500)] {
        let missed = outcome(4000, &lost).row("test").missed.unwrap();
        assert_eq!((missed.due, missed.missed), (2000, known));
    }
}

/// Like [`outcome`], but neither end has a line for these packets.
fn overrun(packets: i64, never_sent: &[i64]) -> StreamOutcome {
    let mut outcome = outcome(packets, never_sent);
    let arrivals: std::collections::HashSet<_> =
        outcome.arrivals.iter().map(|packet| packet.timestamp).collect();
    outcome.departures.retain(|packet| arrivals.contains(&packet.timestamp));
    outcome
}

#[test]
fn sound_lost_by_the_senders_device_is_missed_at_its_time() {
    let lost: Vec<i64> = [100, 2500].into_iter().chain(2998..3003).collect();
    let row = overrun(4400, &lost).row("test");
    let missed = row.missed.unwrap();
    assert_eq!((missed.due, missed.missed), (2400, 6), "a row that lost sound is not without loss");
    let figure = row.figures.iter().find(|figure| figure.key == "never_sent").unwrap();
    assert_eq!((figure.words, figure.value.clone()), ("missed: never sent", json!(6)));
    let stream = row.stream.unwrap();
    assert_eq!((stream.due, &stream.lost[..]), (2394, &[][..]), "no network lost them");
    assert_eq!(stream.never_sent, Some(vec![(0, 3), (1, 3)]));
    let [events] = &row.events[..] else { panic!("{:?}", row.events) };
    assert_eq!((&*events.key, events.without_time), ("never_sent", 0));
    assert_eq!(events.values, [(500_000_000, 1), (998_000_000, 5)]);
    let seconds = &row.meanwhile.iter().find(|one| one.key == "missed").unwrap().values;
    assert_eq!(seconds[..2], [(500_000_000, 3.0), (1_500_000_000, 3.0)]);
    let whole = overrun(4400, &[]).row("test");
    assert_eq!((whole.missed.unwrap().due, whole.events.len(), whole.figures.len()), (2400, 0, 0));
}

#[test]
fn partly_lost_packet_is_missed() {
    // 100 lost frames: later packets are off the packet grid.
    let mut outcome = overrun(4000, &[3000, 3001]);
    let later = |timestamp: &mut u32| *timestamp = timestamp.wrapping_add(4);
    for packet in outcome.departures.iter_mut().filter(|one| one.capture > 3_001_000_000) {
        later(&mut packet.timestamp);
    }
    for packet in outcome.arrivals.iter_mut().filter(|one| one.arrival > 3_002_000_000) {
        later(&mut packet.timestamp);
    }
    let missed = outcome.row("test").missed.unwrap();
    assert_eq!((missed.due, missed.missed), (2001, 3));
}

#[test]
fn extreme_media_time_gaps_are_bounded_as_never_sent() {
    let mut outcome = overrun(4000, &[]);
    for (number, packet) in outcome.departures[2100..].iter_mut().enumerate() {
        packet.timestamp = (number as u32).wrapping_mul(0x0600_0000);
    }
    let row = outcome.row("test");
    let seconds = row.stream.unwrap().never_sent.unwrap();
    assert!((2000..=3600).contains(&seconds.len()), "{}", seconds.len());
    let missed = row.missed.unwrap();
    assert!(missed.missed <= 3_600_000 + 2000 && missed.missed > 2_000_000, "{missed:?}");
}

#[test]
fn unmeasured_stream_is_invalid_with_a_reason() {
    let mut outcome = outcome(4000, &[]);
    outcome.arrivals.clear();
    outcome.received.streams[0].counters.received = 0;
    let why = outcome.row("test").invalid.unwrap();
    snapshot!(why);
    outcome.received.streams[0].counters.received = 9;
    outcome.received.streams[0].latency.not_measured = read(json!({"ambiguous": 9, "lost": 1}));
    let why = outcome.row("test").invalid.unwrap();
    snapshot!(why);
}

#[test]
fn row_reports_how_packets_were_missed_or_unmeasured() {
    let mut outcome = overrun(4400, &[2500, 2501]);
    outcome.arrivals.retain(|packet| packet.timestamp != 3000 * 48 - 480);
    for (number, packet) in outcome.arrivals.iter_mut().enumerate() {
        packet.late = (3100..3103).contains(&number);
        if (3200..3204).contains(&number) {
            packet.receiver[1..].fill(None);
        }
        if packet.late || !packet.is_received() || (3300..3305).contains(&number) {
            packet.measured = None;
        }
    }
    let not_found = json!({"no_match": 4, "silent": 1, "ambiguous": 0, "late": 3, "lost": 1});
    outcome.received.streams[0].latency.not_measured = read(not_found);
    outcome.received.streams[0].counters.lost = 1;
    let row = outcome.row("test");
    assert_eq!(row.missed.unwrap().missed, 10);
    let reported: Vec<_> = row.figures.iter().map(|one| (one.key, one.value.clone())).collect();
    let known = [
        ("never_sent", json!(2)),
        ("late", json!(3)),
        ("lost", json!(1)),
        ("underrun_discarded", json!(4)),
        ("unmeasured", json!(5)),
        ("unmeasured_reasons", json!("4 not found (gap or glitch), 1 in silence")),
    ];
    assert_eq!(reported, known);
    outcome.received.streams[0].counters.lost = 0;
    let row = outcome.row("test");
    let count = |key| row.figures.iter().find(|one| one.key == key).map(|one| one.value.clone());
    assert_eq!([count("lost"), count("underrun_discarded")], [Some(json!(0)), Some(json!(5))]);
    let stream = row.stream.unwrap();
    let each = |seconds: &[(u32, u32)]| seconds.iter().map(|(_, count)| count).sum::<u32>();
    assert_eq!((each(&stream.lost), each(&stream.underrun_discarded)), (0, 5));
}

#[test]
fn row_with_an_incomplete_packet_log_is_invalid() {
    let mut outcome = outcome(4000, &[]);
    outcome.received.incomplete_files.push("the ledger heard.csv is incomplete: no space".into());
    let why = outcome.row("test").invalid.unwrap();
    assert!(why.contains("no space"), "{why}");
}

#[test]
fn late_packet_gives_no_wake_up_time() {
    let mut outcome = outcome(4000, &[]);
    let late = &mut outcome.arrivals[3000];
    late.late = true;
    late.receiver[3] = late.receiver[3].map(|dac| dac - 900_000);
    let [sender, receiver] = outcome.wake_ups();
    assert_eq!((receiver.summary().max_ns, receiver.summary().count), (Some(0), 1999));
    assert_eq!(sender.summary().max_ns, Some(0));
}

#[test]
fn packet_log_times_too_far_apart_are_omitted() {
    let mut outcome = outcome(4000, &[]);
    let far = [Some(i64::MAX), Some(i64::MIN + 4_000_000_000), Some(i64::MIN)];
    for (packet, taken) in outcome.arrivals[3000..].iter_mut().zip(far) {
        packet.sender[1] = taken;
        packet.receiver[3] = taken;
    }
    let row = outcome.row("test");
    assert_eq!((row.invalid, row.measured.unwrap().count), (None, 2000));
    let stage = |name| row.stages.iter().find(|stage| stage.name == name).unwrap().summary.count;
    assert_eq!((stage("capture"), stage("wakeup")), (1999, 2000));
    let sender = &outcome.wake_ups()[0];
    assert_eq!(sender.summary().count, 1998);
}

#[test]
fn only_a_refused_requested_scheduler_invalidates_the_row() {
    let mut outcome = outcome(4000, &[]);
    outcome.sent.host.refused.priority = Some("refused fifo:70; root may".into());
    let requested = || Some("fifo:70".to_owned());
    assert_eq!(outcome.refusal(&[None, requested()]), None);
    outcome.refused = outcome.refusal(&[requested(), None]);
    snapshot!(outcome.row("test").invalid.as_deref().unwrap());
}

#[test]
fn stalls_come_from_each_ends_monitor_or_are_unknown() {
    let mut outcome = outcome(10, &[]);
    outcome.sent = read(json!({"role": "send", "host": {"stalls": 2}}));
    let mut plan = LabStream::default();
    assert_eq!(outcome.stalls(&plan), [Some(2), Some(0)]);
    plan.recv.push("--no-stall-monitor".to_owned());
    assert_eq!(outcome.stalls(&plan), [Some(2), None]);
}

fn sampled(key: &str, values: &[(i64, f64)]) -> SampledQuantity {
    SampledQuantity { key: key.to_owned(), values: values.to_vec() }
}

#[test]
fn machine_load_is_joined_to_packets_by_each_clock() {
    let seconds = |at: i64| at * 1_000_000_000;
    let mut outcome = between_two(Span::from_micros(60));
    let sender = 7_000_000_000_000 + seconds(2);
    let there = vec![sampled("runnable", &[(sender - 1, 1.0), (sender + 5, 2.0)])];
    let at = [(seconds(3), 10.0), (seconds(4), 20.0), (seconds(9), 30.0)];
    let here = vec![sampled("user_percent", &at), sampled("irq_percent", &at[1..])];
    outcome.machines = SampledMachines::Two([Ok(there), Ok(here.clone())]);
    let meanwhile = outcome.row("test").meanwhile;
    let reported: Vec<_> = meanwhile.iter().map(|one| (&*one.key, one.values.clone())).collect();
    let busy = vec![(seconds(1), 10.0), (seconds(2), 40.0)];
    let user = vec![(seconds(1), 10.0), (seconds(2), 20.0)];
    let known = [
        ("sender_runnable", vec![(5, 2.0)]),
        ("receiver_busy_percent", busy.clone()),
        ("receiver_user_percent", user.clone()),
        ("receiver_irq_percent", vec![(seconds(2), 20.0)]),
    ];
    assert_eq!(reported, known, "what was before and after the packets is none of theirs");
    outcome.machines = SampledMachines::One(Ok(here));
    let meanwhile = outcome.row("test").meanwhile;
    let reported: Vec<_> = meanwhile.iter().map(|one| (&*one.key, &one.values)).collect();
    assert_eq!(reported[..2], [("busy_percent", &busy), ("user_percent", &user)]);
    assert_eq!(reported.len(), 3);
}

#[test]
fn all_machine_quantities_are_reported_but_few_drawn() {
    let mut outcome = between_two(Span::from_micros(60));
    let at = |begin: i64| [(begin + 1, 3.0), (begin + 1_000_000_001, 4.0)];
    let read = |begin| {
        let all = machine_quantities().map(|(key, _)| sampled(key, &at(begin)));
        Ok(all.chain([sampled("of_another_version", &at(begin))]).collect::<Vec<_>>())
    };
    outcome.machines = SampledMachines::Two([read(7_002_000_000_000), read(2_000_000_000)]);
    let meanwhile = outcome.row("test").meanwhile;
    let mut reported: Vec<_> = meanwhile.iter().map(|one| (&*one.key, &*one.words)).collect();
    reported.retain(|(key, _)| !key.ends_with("_busy_percent"));
    let names = machine_quantities().collect::<Vec<_>>();
    let of = |end: &str| {
        let reported = |(key, words)| (format!("{end}_{key}"), format!("{end}'s machine: {words}"));
        names.iter().copied().map(reported).collect::<Vec<_>>()
    };
    let known = [of("sender"), of("receiver")].concat();
    let known: Vec<_> = known.iter().map(|(key, words)| (&**key, &**words)).collect();
    assert_eq!(reported, known);
    assert!(meanwhile.iter().all(|one| one.values[0].0 == 1 && one.values.len() == 2));
    let drawn: Vec<_> = meanwhile.iter().filter(|one| one.drawn).map(|one| &*one.key).collect();
    let strips =
        ["sender_busy_percent", "sender_runnable", "receiver_busy_percent", "receiver_runnable"];
    assert_eq!(drawn, strips);
}

#[test]
fn unreadable_machine_is_noted_and_not_replaced_by_the_other() {
    let mut outcome = between_two(Span::from_micros(60));
    let here = vec![sampled("runnable", &[(3_000_000_000, 1.0)])];
    let gone =
        HostError::Refused { place: "ssh:x".into(), why: "taut lab sample: no /proc".into() };
    outcome.machines = SampledMachines::Two([Err(gone), Ok(here)]);
    let row = outcome.row("test");
    let reported: Vec<_> = row.meanwhile.iter().map(|one| &*one.key).collect();
    assert_eq!(
        reported,
        ["receiver_runnable"],
        "both ends on one machine are not reported as such"
    );
    let unread = row.figures.iter().find(|one| one.key == "sender_machine_unread").unwrap();
    snapshot!(unread.value);
    assert!(!row.figures.iter().any(|one| one.key == "receiver_machine_unread"));
}

#[test]
fn xruns_have_times_on_each_ends_clock() {
    let mut outcome = between_two(Span::from_micros(60));
    let seconds = |at: i64| at * 1_000_000_000;
    let sender = 7_000_000_000_000 + seconds(2);
    let xrun = |at_ns: i64, count: u32| json!({"last_wakeup_ns": at_ns - 9, "at_ns": at_ns, "count": count});
    outcome.sent = read(json!({"streams": [{
        "xruns": [xrun(sender - 500, 1), xrun(sender + 700, 2)], "counters": {"xruns": 3}}]}));
    let received = &mut outcome.received.streams[0];
    received.xruns = read(json!([xrun(seconds(3), 1)]));
    received.counters.xruns = 5;
    let events = outcome.row("test").events;
    let reported: Vec<_> =
        events.iter().map(|one| (&*one.key, &one.values[..], one.without_time)).collect();
    let known = [
        ("sender_xruns", &[(-500, 1), (700, 2)][..], 0),
        ("receiver_xruns", &[(seconds(1), 1)][..], 4),
    ];
    assert_eq!(reported, known, "what was before the packets that count is below zero");
    assert!(between_two(Span::from_micros(60)).row("test").events.is_empty());
}

#[test]
fn seconds_in_which_packets_were_missed_are_marked() {
    let meanwhile = outcome(4000, &[100, 2500, 2501, 3999]).row("test").meanwhile;
    let [missed] = &meanwhile[..] else { panic!("{meanwhile:?}") };
    assert_eq!(missed.key, "missed");
    assert_eq!(missed.values, [(500_000_000, 2.0), (1_500_000_000, 1.0)]);
    assert!(outcome(4000, &[]).row("test").meanwhile.is_empty());
}

pub(crate) fn between_two(uncertainty: Span) -> StreamOutcome {
    let mut outcome = outcome(4000, &[]);
    for packet in &mut outcome.departures {
        packet.capture += 7_000_000_000_000;
        packet.handed = packet.capture + 1_020_000;
    }
    let stream = &mut outcome.received.streams[0];
    stream.latency.uncertainty_ns = Some(uncertainty.as_nanos());
    stream.clock = read(json!({"source": "rtcp", "round_trip_ns": 180_000}));
    outcome.max_uncertainty = Some(MAX_UNSURE);
    outcome
}

#[test]
fn two_clock_row_has_uncertainty_and_one_clock_figures() {
    let row = between_two(Span::from_micros(60)).row("test");
    assert_eq!((&row.invalid, row.uncertainty), (&None, Some(Span::from_micros(60))));
    let figure = |key| row.figures.iter().find(|one| one.key == key).map(|one| one.value.clone());
    assert_eq!(figure("clock_source"), Some(json!("rtcp")));
    assert_eq!(figure("round_trip_ns"), Some(json!(180_000)));
    assert_eq!(figure("sender_own_ns"), Some(json!(1_020_000)));
    assert_eq!(figure("receiver_own_ns"), Some(json!(3_900_000)));
    let mut one = between_two(Span::from_millis(9));
    one.received.streams[0].clock = read(json!({"source": "host"}));
    one.received.streams[0].counters.clock_steps = 1;
    let row = one.row("test");
    assert!(row.invalid.is_none() && row.figures.is_empty(), "{row:#?}");
}

#[test]
fn clock_uncertainty_above_the_limit_invalidates_the_row() {
    let why = between_two(Span::from_micros(251)).row("test").invalid.unwrap();
    snapshot!(why);
    assert_eq!(between_two(MAX_UNSURE).row("test").invalid, None);
    let mut unknown = between_two(MAX_UNSURE);
    unknown.received.streams[0].latency.uncertainty_ns = None;
    let why = unknown.row("test").invalid.unwrap();
    snapshot!(why);
    unknown.max_uncertainty = None;
    assert_eq!(unknown.row("test").invalid, None);
}

#[test]
fn a_clock_that_was_set_while_it_ran_makes_a_row_void() {
    let mut ours = between_two(Span::from_micros(60));
    ours.sent = read(json!({"streams": [{"counters": {"clock_steps": 2}}]}));
    let mut theirs = between_two(Span::from_micros(60));
    theirs.received.streams[0].counters.clock_steps = 2;
    for outcome in [ours, theirs] {
        let why = outcome.row("test").invalid.unwrap();
        snapshot!(why);
    }
}

#[test]
fn packets_received_before_departure_invalidate_a_row() {
    let mut outcome = between_two(Span::from_micros(60));
    for packet in &mut outcome.arrivals {
        packet.arrival -= 130_000;
    }
    assert_eq!(outcome.row("test").invalid, None, "50 us early are within what is not known");
    for packet in &mut outcome.arrivals {
        packet.arrival -= 20_000;
    }
    let why = outcome.row("test").invalid.unwrap();
    snapshot!(why);
}

#[test]
fn remaining_time_of_a_stream_is_reported_once() {
    let reported = Rc::<RefCell<Vec<Duration>>>::default();
    let all = Rc::clone(&reported);
    let mut ending = StreamEnding::reported_to(move |left| all.borrow_mut().push(left));
    let ends = Instant::now() + Duration::from_secs(60);
    ending.notify(ends);
    ending.notify(ends);
    let reported = reported.borrow();
    assert!(reported.len() == 1 && reported[0] <= Duration::from_secs(60), "{reported:?}");
    StreamEnding::default().notify(ends);
}

#[test]
fn row_names_the_conditions_of_its_stream() {
    let mut outcome = outcome(4000, &[]);
    outcome.received.streams[0] = StreamReport {
        format: "l24".into(),
        rate: 48_000,
        channels: 2,
        clock: read(json!({"source": "host"})),
        ..outcome.received.streams[0].clone()
    };
    let here = outcome.row("a").conditions.unwrap();
    assert_eq!(
        here,
        "virtual card to virtual card, 2 periods of 48 frames; l24, 48000 Hz, 2 channels, 1ms per packet; one clock"
    );
    outcome.devices[1] = Some("alsa:hw:0".to_owned());
    outcome.received.streams[0].clock = read(json!({"source": "rtcp"}));
    let there = outcome.row("a").conditions.unwrap();
    assert!(there.starts_with("virtual card to alsa:hw:0, "), "{there}");
    assert!(there.ends_with("; two clocks, compared via rtcp"), "{there}");
}
