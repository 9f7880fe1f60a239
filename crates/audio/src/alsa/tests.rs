use std::fs;

use ::alsa::ValueOr;
use ::alsa::pcm::{Access as AlsaAccess, Format, HwParams};
use tautline_dsp::card::CardFormat;
use tautline_proto::device::{Direction, Settings};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};

use super::pace::PcmPace;
use super::params;
use super::pcm::{Access, CardPcm, Reading};
use super::spec::{AlsaSpec, Wakeup};

fn settings() -> Settings {
    let (rate, channels, period) = (Rate::HZ_48000, Channels::STEREO, Frames::new(48));
    Settings { rate, channels, period, periods: 2 }
}

fn at(micros: i64) -> LocalTime {
    LocalTime::from_nanos(1_000_000_000) + Span::from_micros(micros)
}

fn reading(micros: i64, old: i64, avail: i64, delay: i64) -> Reading {
    let (avail, delay) = (Frames::new(avail), Frames::new(delay));
    Reading { now: at(micros), avail, delay, stamp: Some(at(micros - old)) }
}

#[test]
fn pcm_that_consumes_instantly_is_paced_by_a_timer() {
    let mut pace = PcmPace::new(Direction::Playback, settings());
    pace.start(at(0), Some(reading(20, 0, 96, 0)));
    assert_eq!(pace.wakes(Wakeup::Card), Some(at(0)));
    assert!(pace.is_ready(&reading(30, 0, 96, 0)));
    let block = pace.begin(&reading(30, 0, 96, 0));
    pace.finish(&reading(30, 0, 96, 0));
    assert!(!pace.is_ready(&reading(999, 0, 96, 0)) && pace.is_ready(&reading(1000, 0, 96, 0)));
    assert_eq!((block.meets, block.uncertainty), (at(1000), Span::from_nanos(1)));
    let mut pace = PcmPace::new(Direction::Capture, settings());
    pace.start(at(0), Some(reading(20, 0, 96, 0)));
    assert_eq!(pace.wakes(Wakeup::Card), Some(at(1000)));
}

#[test]
fn cardless_ends_wake_together_a_buffer_apart() {
    let [mut captures, mut plays] = [Direction::Capture, Direction::Playback]
        .map(|direction| PcmPace::new(direction, settings()));
    plays.go_beside_capture();
    captures.start(at(0), Some(reading(20, 0, 96, 0)));
    plays.start(at(0), Some(reading(20, 0, 96, 0)));
    for period in 0..10 {
        let due = at(1000 * (period + 1));
        assert_eq!([&captures, &plays].map(|end| end.wakes(Wakeup::Card)), [Some(due); 2]);
        let woken = reading(1000 * (period + 1), 0, 96, 0);
        let blocks = [&mut captures, &mut plays].map(|end| end.begin(&woken));
        assert_eq!(blocks.map(|block| block.meets), [at(1000 * period), at(1000 * (period + 2))]);
        assert_eq!(blocks.map(|block| block.skipped), [Frames::ZERO; 2]);
        for end in [&mut captures, &mut plays] {
            end.finish(&woken);
        }
    }
}

#[test]
fn pcm_that_swallows_blocks_later_gets_a_timer() {
    let mut pace = PcmPace::new(Direction::Playback, settings());
    pace.start(at(0), Some(reading(30_000, 0, 96, 0)));
    assert_eq!(pace.wakes(Wakeup::Card), None);
    let mut periods = 0;
    while pace.wakes(Wakeup::Card).is_none() {
        let now = reading(30_000 + periods, 0, 96, 0);
        pace.begin(&now);
        pace.finish(&now);
        periods += 1;
    }
    assert!((20..80).contains(&periods), "{periods}");
}

#[test]
fn card_with_an_internal_queue_is_paced_as_a_card() {
    let mut pace = PcmPace::new(Direction::Playback, settings());
    pace.start(at(0), Some(reading(20, 0, 96, 96)));
    assert_eq!(pace.wakes(Wakeup::Card), None);
}

#[test]
fn block_meets_the_converter_after_the_queued_frames() {
    for (direction, meets) in [(Direction::Playback, 2000), (Direction::Capture, 0)] {
        let mut pace = PcmPace::new(direction, settings());
        pace.start(at(0), Some(reading(5, 5, 0, if meets > 0 { 96 } else { 0 })));
        // Woken 40 us late; the interrupt was at 1 ms.
        let block = pace.begin(&reading(1040, 40, 48, 48));
        assert_eq!(block.meets, at(meets), "{direction:?}");
    }
}

#[test]
fn driver_delay_is_current_when_read() {
    let mut pace = PcmPace::new(Direction::Playback, settings());
    pace.start(at(0), None);
    let block = pace.begin(&reading(1040, 40, 48, 58));
    assert_eq!(block.meets, at(1040) + Rate::HZ_48000.span_of(Frames::new(58)));
}

#[test]
fn a_stamp_by_another_clock_is_not_believed() {
    for stamp in [None, Some(at(3_600_000_000)), Some(LocalTime::from_nanos(5))] {
        let mut pace = PcmPace::new(Direction::Capture, settings());
        pace.start(at(0), None);
        let now = at(10_000_000);
        let (avail, delay) = (Frames::new(48), Frames::new(48));
        let block = pace.begin(&Reading { now, avail, delay, stamp });
        assert_eq!(block.meets, now - Span::from_millis(1));
        assert!(block.uncertainty >= Span::from_millis(1));
    }
}

#[test]
fn a_timer_wakes_when_the_period_should_be_ready() {
    let mut pace = PcmPace::new(Direction::Capture, settings());
    pace.start(at(0), None);
    assert_eq!(pace.wakes(Wakeup::Timer), Some(at(1000)));
    pace.not_yet(&reading(1010, 1010, 0, 0));
    assert_eq!(pace.wakes(Wakeup::Timer), Some(at(1010 + 125)));
    let now = reading(1200, 0, 72, 72);
    pace.begin(&now);
    pace.finish(&now);
    assert_eq!(pace.wakes(Wakeup::Timer), Some(at(1700)));
}

#[test]
fn blocks_that_are_copied_come_out_bit_for_bit() {
    let path = std::env::temp_dir().join(format!("taut-copied-{}.raw", std::process::id()));
    let spec: AlsaSpec = format!("file:{},raw", path.display()).parse().unwrap();
    let (direction, settings) = (Direction::Playback, settings());
    let alsa = spec.open(direction).unwrap();
    {
        let params = HwParams::any(&alsa).unwrap();
        params.set_access(AlsaAccess::RWInterleaved).unwrap();
        params.set_channels(2).unwrap();
        params.set_rate(48_000, ValueOr::Nearest).unwrap();
        params.set_format(Format::s16()).unwrap();
        params.set_period_size(48, ValueOr::Nearest).unwrap();
        params.set_buffer_size(96).unwrap();
        params::apply(&spec, &alsa, &params, settings).unwrap();
    }
    let coding = (CardFormat::S16, Access::Copied);
    let mut copied = CardPcm::new(alsa, false, direction, settings, coding).unwrap();
    let mut block = [0.0; 96];
    copied.prepare().unwrap();
    copied.fill(&mut block).unwrap();
    copied.start().unwrap();
    let values: Vec<i16> = (0..96).map(|n| n * 331 - 16_000).collect();
    for (sample, &value) in block.iter_mut().zip(&values) {
        *sample = f32::from(value) / 32_768.0;
    }
    copied.transfer(&mut block).unwrap();
    drop(copied);
    let written = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let expected: Vec<u8> = values.into_iter().flat_map(i16::to_ne_bytes).collect();
    assert!(written[written.len() - expected.len()..] == expected);
    assert_eq!(written.len(), 3 * expected.len());
}
