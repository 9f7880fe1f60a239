use tautline_proto::time::LocalTime;
use tautline_trial::snapshot;

use super::far::{Unmeasured, run_all};
use super::figures::{far_row, growth, row};
use super::receivers::ArrivalRecord;
use super::sender::SentDatagram;
use super::*;
use crate::cases::Cases;
use crate::hosts::HostError;
use crate::statistics::Missed;

const SHORT: PacketShape = PacketShape { ptime: Span::from_millis(1), payload: 192 };

fn at(micros: i64) -> LocalTime {
    LocalTime::ZERO + Span::from_micros(micros)
}

fn micros(span: i64) -> Span {
    Span::from_micros(span)
}

fn options(count: usize) -> KernelOptions {
    KernelOptions {
        packets: vec![SHORT],
        maximum: count,
        duration: Span::from_secs(10),
        period: Span::from_millis(1),
        cores: tautline_io::thread::affinity::usable_cores(),
        scheduler: Scheduler::Other,
    }
}

fn case(way: Way, count: usize) -> KernelCase {
    KernelCase::of(&options(count), SHORT, way, CaseSender::TwoCores)
}

fn sent(count: usize) -> Vec<SentDatagram> {
    let due = |index: usize| at(1000 * index as i64);
    let of = |index| SentDatagram { due: due(index), handed: due(index) + micros(3), taken: true };
    (0..count).map(of).collect()
}

fn received(arrival: LocalTime, woke: LocalTime) -> Option<ArrivalRecord> {
    let uncertainty = Span::from_nanos(50);
    Some(ArrivalRecord { arrival, uncertainty, woke, read: woke + micros(2) })
}

#[test]
fn arrival_to_read_is_measured_with_timestamp_uncertainty() {
    let sent = sent(1000);
    let mut log: Vec<_> =
        sent.iter().map(|sent| received(sent.due + micros(10), sent.due + micros(30))).collect();
    log[7] = None;
    log[500] = received(sent[500].due + micros(10), sent[500].due + micros(900));
    let row = row(&case(Way::Blocked, 1000), &sent, &log).unwrap();
    let measured = row.measured.unwrap();
    assert_eq!((measured.count, measured.p50_ns), (999, Some(22_000)));
    assert_eq!(row.uncertainty, Some(Span::from_nanos(50)));
    assert_eq!(row.missed, Some(Missed::of(1, 1000)));
    assert_eq!((row.worst[0].at_ns, row.worst[0].value_ns), (500_000_000, 892_000));
    assert_eq!(row.points[0].values.len(), 999);
    assert_eq!(row.published[0].value_ns, 40_000);
    assert!(row.stages.is_empty());
}

#[test]
fn of_a_sender_elsewhere_nothing_is_taken_by_its_clock() {
    let case = KernelCase::of(&options(1000), SHORT, Way::Blocked, CaseSender::Far("ssh:x".into()));
    // An hour ahead of the sender's clock.
    let begins = at(3_600_000_000);
    let mut log: Vec<_> = (0..1000_i64)
        .map(|number| begins + micros(1000 * number + 10))
        .map(|arrival| received(arrival, arrival + micros(20)))
        .collect();
    log[7] = None;
    let sent = SentPackets { schema: 2, taken: 1000, late_max_ns: Some(5000) };
    let row = far_row(&case, begins, &sent, &log).unwrap();
    assert_eq!(row.name, "1ms blocked, from ssh:x");
    let measured = row.measured.unwrap();
    assert_eq!((measured.count, measured.p50_ns), (999, Some(22_000)));
    assert_eq!(row.missed, Some(Missed::of(1, 1000)));
    assert_eq!(row.points[0].values[0], (10_000, 22_000));
    let figures: Vec<_> = row.figures.iter().map(|figure| figure.key).collect();
    assert_eq!(figures, ["payload_bytes", "stdev_ns", "sent_late_max_ns"]);
    let why = far_row(&case, begins, &sent, &[None, None]).unwrap_err();
    assert!(why.contains("firewall") && why.contains("--at"), "{why}");
}

#[test]
fn reordered_packets_belong_to_the_second_of_arrival() {
    let case = KernelCase::of(&options(2000), SHORT, Way::Blocked, CaseSender::Far("ssh:x".into()));
    let mut log: Vec<_> =
        (0..2000_i64).map(|number| received(at(1000 * number), at(1000 * number + 20))).collect();
    log.swap(999, 1000);
    let sent = SentPackets { schema: 2, taken: 2000, late_max_ns: Some(5000) };
    let row = far_row(&case, at(0), &sent, &log).unwrap();
    let seconds: Vec<_> = row.intervals.iter().map(|second| (second.at_ns, second.count)).collect();
    assert_eq!(seconds, [(0, 1000), (1_000_000_000, 1000)]);
}

fn second(arrived: Unmeasured) -> (Vec<String>, Vec<String>) {
    let options = KernelOptions { packets: vec![SHORT; 2], ..options(10) };
    let sender = CaseSender::Far("ssh:x".into());
    let mut goes_on = |_: &ReportRow| true;
    let mut cases = Cases::of("kernel", &mut goes_on);
    let (mut number, mut arrived) = (0, Some(arrived));
    run_all(&mut cases, &options, &sender, &mut (), |(), case| {
        number += 1;
        match arrived.take_if(|_| number == 2) {
            Some(arrived) => Err(arrived),
            None => Ok(ReportRow::named(case.name())),
        }
    });
    let report = cases.report;
    (report.rows.into_iter().map(|row| row.invalid.unwrap_or_default()).collect(), report.notes)
}

#[test]
fn lost_host_ends_with_a_note_but_a_failed_case_continues() {
    let gone = HostError::Ended { place: "ssh:x".to_owned(), why: "its power failed".to_owned() };
    let (invalid, notes) = second(Unmeasured::Host(gone.clone()));
    assert_eq!(invalid, [String::new(), gone.to_string()]);
    assert_eq!(notes, [format!("ended at 1ms direct, from ssh:x: {gone}")]);
    let refused = HostError::Refused { place: "ssh:x".to_owned(), why: "no privilege".to_owned() };
    let (invalid, notes) = second(Unmeasured::Host(refused.clone()));
    assert_eq!(invalid, [String::new(), refused.to_string(), String::new(), String::new()]);
    assert_eq!(notes, [""; 0]);
    let (invalid, notes) = second(Unmeasured::Case("no packet arrived".to_owned()));
    assert_eq!((invalid.len(), invalid[1].as_str(), notes.len()), (4, "no packet arrived", 0));
}

#[test]
fn direct_link_separates_period_wait_from_late_wakeup() {
    let case = KernelCase { tick: micros(1000), ..case(Way::Direct, 3) };
    let log = [
        // Polls at 1000, wakes 40 late.
        received(at(300), at(1040)),
        received(at(1300), at(3500)),
        // Arrived after the wake-up.
        received(at(3501), at(3500)),
    ];
    let row = row(&case, &sent(3), &log).unwrap();
    let stage = |index: usize| row.stages[index].summary;
    assert_eq!((stage(0).max_ns, stage(0).min_ns), (Some(700_000), Some(1_000)));
    assert_eq!((stage(1).max_ns, stage(1).min_ns), (Some(1_500_000), Some(0)));
    assert_eq!((stage(2).max_ns, stage(2).min_ns), (Some(2_000), Some(0)));
    let means = row.stages.iter().map(|stage| stage.summary.mean_ns.unwrap()).sum::<i64>();
    assert!((means - row.measured.unwrap().mean_ns.unwrap()).abs() <= 2, "they add up");
}

#[test]
fn the_device_meets_every_part_of_its_period_once_in_a_case() {
    let case = case(Way::Direct, 10_000);
    let slid = case.tick.times(10_000) - micros(1000).times(10_000);
    assert!((slid - Span::from_millis(1)).abs() < micros(20), "{slid}");
}

#[test]
fn missing_kernel_timestamps_give_an_invalid_row_with_hint() {
    let sent = sent(2);
    let none = |_: &SentDatagram| {
        Some(ArrivalRecord { arrival: at(1), uncertainty: Span::MAX, woke: at(1), read: at(1) })
    };
    let log: Vec<_> = sent.iter().map(none).collect();
    let why = row(&case(Way::Blocked, 2), &sent, &log).unwrap_err();
    snapshot!(why);
    let why = row(&case(Way::Blocked, 2), &sent, &[None, None]).unwrap_err();
    snapshot!(why);
}

#[test]
fn growth_with_packet_length_is_listed_next_to_published() {
    let row = |name: &str, nanos| {
        let mut series = crate::statistics::Series::with_room(1);
        series.push(LocalTime::ZERO, Span::from_nanos(nanos));
        ReportRow::named(name).with(&series)
    };
    let rows = [row("1ms blocked, one core", 1000), row("20ms blocked, one core", 1500)];
    let both = [CaseSender::OneCore, CaseSender::TwoCores];
    let reported = growth(&rows, &both);
    assert_eq!(reported.len(), 1);
    assert!(reported[0].contains("+50.0 %") && reported[0].contains("29.8 %"), "{reported:?}");
    assert!(growth(&rows[..1], &both).is_empty());
}

#[test]
fn every_packet_is_read_both_ways_after_it_arrived() {
    let options = KernelOptions { cores: options(1).cores[..1].to_vec(), ..options(30) };
    let report = measure(&options, &Stop::default(), &mut |_| {});
    assert_eq!(report.rows.len(), 4);
    for (row, is_void) in report.rows.iter().zip([false, true, false, true]) {
        assert_eq!(row.invalid.is_some(), is_void, "{row:?}");
        if is_void {
            assert!(row.invalid.as_ref().unwrap().contains("--cpus 0,1"), "{row:?}");
            continue;
        }
        let measured = row.measured.unwrap();
        assert!(measured.count == 30 && measured.min_ns.unwrap() >= 0, "{row:?}");
        assert_eq!(row.missed, Some(Missed::of(0, 30)));
    }
}
