use tautline_proto::device::{Cycle, DeviceError, Ended, Process, Side as CycleSide};
use tautline_proto::time::{Frames, LocalTime};
use tautline_proto::units::{Channels, Rate};
use tautline_trial::snapshot;

use super::client::HandedBlock;
use super::*;
use crate::answer::parsed;
use crate::statistics::Missed;

const SETTINGS: Settings = Settings {
    rate: Rate::HZ_48000,
    channels: Channels::STEREO,
    period: Frames::new(48),
    periods: 2,
};

fn at(micros: i64) -> LocalTime {
    LocalTime::ZERO + Span::from_micros(micros)
}

fn side(directions: Directions) -> HandoverSide {
    HandoverSide { name: "card".to_owned(), directions, settings: SETTINGS }
}

fn call(micros: i64, began: i64, skipped: i64) -> Call {
    let block = |meets| HandedBlock {
        meets,
        uncertainty: Span::from_micros(3),
        frames: Frames::new(48),
        skipped: Frames::new(48 * skipped),
    };
    let xruns = u32::from(skipped > 0);
    Call { at: at(micros), xruns, capture: block(at(began)), playback: block(at(began + 3000)) }
}

#[test]
fn regular_calls_are_a_period_apart_and_late_by_nothing() {
    let calls: Vec<_> = (0..100).map(|n| call(1000 * n + 1020, 1000 * n, 0)).collect();
    let rows = figures::rows(&side(Directions::Both), &calls, 0);
    let names: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["card interval", "card capture", "card playback"]);
    let interval = rows[0].measured.unwrap();
    assert_eq!((interval.count, interval.range_ns), (99, Some(0)));
    assert_eq!(rows[0].configured, Some(Span::from_millis(1)));
    for (row, ahead) in rows[1..].iter().zip([1_020_000, 1_980_000]) {
        assert_eq!(row.measured.unwrap().max_ns, Some(0), "{row:?}");
        assert_eq!(row.figures.last().unwrap().value, ahead, "{row:?}");
        assert_eq!(row.uncertainty, Some(Span::from_micros(3)));
    }
}

#[test]
fn late_call_is_late_on_the_grid_but_the_next_is_not() {
    let mut calls: Vec<_> = (0..100).map(|n| call(1000 * n + 1020, 1000 * n, 0)).collect();
    calls[40] = call(41_520, 40_000, 0);
    let rows = figures::rows(&side(Directions::One(Direction::Capture)), &calls, 0);
    assert_eq!(rows.len(), 2);
    let interval = rows[0].measured.unwrap();
    assert_eq!((interval.max_ns, interval.min_ns), (Some(1_500_000), Some(500_000)));
    assert_eq!(rows[1].worst[0].value_ns, 500_000);
    assert_eq!(rows[1].worst[1].value_ns, 0);
    assert_eq!(rows[1].missed, Some(Missed::of(0, 100)));
}

#[test]
fn stall_counts_for_every_skipped_period() {
    let calls: Vec<_> = (0..50)
        .map(|n| call(1000 * n + 1020, 1000 * n, 0))
        .chain([call(60_020, 59_000, 9)])
        .chain((60..100).map(|n| call(1000 * n + 1020, 1000 * n, 0)))
        .collect();
    let rows = figures::rows(&side(Directions::One(Direction::Playback)), &calls, 0);
    let late = &rows[1];
    assert_eq!(late.measured.unwrap().count, 100, "{late:?}");
    assert_eq!(late.missed, Some(Missed::of(9, 100)));
    assert_eq!((late.worst[0].value_ns, late.worst[8].value_ns), (9_000_000, 1_000_000));
    assert_eq!(late.worst[0].at_ns, 50_000_000, "when the first of them was due");
    assert_eq!(late.figures[0].value, 9 * 48);
    assert_eq!(rows[0].figures[0].value, 1, "xruns");
}

struct Goes(i64);

impl Device for Goes {
    fn settings(&self) -> Settings {
        SETTINGS
    }

    fn run(&mut self, mut process: Box<dyn Process>, _stop: &Stop) -> (Box<dyn Process>, Ended) {
        for _ in 0..self.0 {
            let mut samples = [1.0; 96];
            let meets = now();
            let (uncertainty, skipped) = (Span::ZERO, Frames::ZERO);
            let side = CycleSide { samples: &mut samples, meets, uncertainty, skipped };
            let mut cycle = Cycle::one_way(Direction::Playback, meets, side, 0);
            process.process(&mut cycle);
            assert!(samples.iter().all(|sample| *sample == 0.0), "what is played is silence");
        }
        let error = DeviceError {
            tried: "card".into(),
            answer: "it went".into(),
            hint: "put it back".into(),
        };
        (process, if self.0 == 7 { Ended::Gone(error) } else { Ended::Finished })
    }
}

#[test]
fn a_device_that_goes_is_a_void_row_and_another_is_measured() {
    let of = |calls| -> OpenedSide {
        let name = format!("card {calls}");
        let device = Goes(calls);
        let (directions, settings) = (Direction::Playback.into(), device.settings());
        (HandoverSide { name, directions, settings }, Box::new(device))
    };
    let flags = parsed("--output null: --duration 60s --scheduler other");
    let options = CallbackJitterFlags { settle: Span::ZERO, ..flags };
    let report = measure(vec![of(7), of(20), of(1)], &options, &Stop::default()).unwrap();
    let invalid = |row: usize| report.rows[row].invalid.clone().unwrap_or_default();
    snapshot!(invalid(0));
    assert_eq!(report.rows[1].measured.unwrap().count, 19);
    snapshot!(invalid(3));
}
