//! Two zones with the same music; a page lowers it where it is addressed. The music is noise on the
//! right channel, the page a constant on the left one, so each output frame shows both gains.

mod versions;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use crate::common::Road;
use tautline_engine::plan::zone::{AnnouncementPlan, ZonePlan};
use tautline_engine::plan::{SendPlan, StreamPlan};
use tautline_io::thread::realtime::permitted;
use tautline_proto::device::{Cycle, Flow, Process};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;
use tautline_proto::zone::{Duck, Priority};
use tautline_report::Report;

const PAGE: f32 = 0.25;
const HOLD: Span = Span::from_millis(50);
const UP: Span = Span::from_millis(200);
/// Error of both clocks, and a frame.
const NEAR: Span = Span::from_micros(100);

/// Full-scale noise on the grid of 24 bits, which the stream carries exactly.
struct Music(u32);

impl Iterator for Music {
    type Item = f32;

    fn next(&mut self) -> Option<f32> {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        Some(((self.0 >> 9) as i32 - (1 << 22)) as f32 / (1 << 23) as f32)
    }
}

fn music() -> Music {
    Music(0x9E37_79B9)
}

struct Captured<F> {
    process: Box<dyn Process>,
    frame: F,
    first: Option<Sender<LocalTime>>,
}

impl<F: FnMut() -> [f32; 2] + Send> Process for Captured<F> {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        if let Some(first) = self.first.take() {
            let _ = permitted("once, for the test", || first.send(cycle.capture.meets));
        }
        cycle
            .capture
            .samples
            .as_chunks_mut()
            .0
            .iter_mut()
            .for_each(|frame| *frame = (self.frame)());
        self.process.process(cycle)
    }

    fn finish(&mut self) {
        self.process.finish();
    }
}

/// Played frames with the time of the first in each block.
type Played = Vec<(LocalTime, [f32; 2])>;

struct Recorded {
    process: Box<dyn Process>,
    played: Played,
    sounds: Option<Sender<()>>,
    done: Sender<Played>,
}

impl Process for Recorded {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let flow = self.process.process(cycle);
        let (rate, meets) = (Rate::HZ_48000, cycle.playback.meets);
        for (number, frame) in (0..).zip(cycle.playback.samples.as_chunks().0) {
            let at = meets + rate.span_of(Frames::new(number));
            self.played.push((at, *frame));
        }
        if cycle.playback.samples.iter().any(|sample| *sample != 0.0)
            && let Some(sounds) = self.sounds.take()
        {
            let _ = permitted("once, for the test", || sounds.send(()));
        }
        flow
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let _ = self.done.send(core::mem::take(&mut self.played));
    }
}

struct PlayingZone {
    /// Music port and announcement port.
    ports: [SocketAddr; 2],
    sounds: Receiver<()>,
    played: Receiver<Played>,
    run: JoinHandle<Report>,
}

fn zone(number: u16, road: &Road) -> PlayingZone {
    let road = Road {
        zone: Some(ZonePlan { numbers: vec![number, 100], ..ZonePlan::default() }),
        ..road.clone()
    };
    let ((music_port, music), (page_port, page)) = (road.stream(), road.stream());
    let page = StreamPlan { announces: true, senders: NonZeroUsize::new(2), ..page };
    let ((sounding, sounds), (done, played)) = (channel(), channel());
    let run = road.receive(vec![music, page], move |process| {
        let played = Vec::with_capacity(48_000 * 20);
        Box::new(Recorded { process, played, sounds: Some(sounding), done })
    });
    PlayingZone { ports: [music_port, page_port], sounds, played, run }
}

/// Outcome in one zone: frames aligned with the music.
struct Outcome {
    frames: Vec<(LocalTime, [f32; 2], f32)>,
    report: Report,
}

impl Outcome {
    fn of(zone: PlayingZone) -> Self {
        let (report, played) = (zone.run.join().unwrap(), zone.played.recv().unwrap());
        let sounds = played.iter().position(|(_, [_, music])| *music != 0.0).unwrap();
        let played = &played[sounds..];
        let sent: Vec<f32> = music().take(48_000 * 5).collect();
        let begin: Vec<f32> = played[480..512].iter().map(|(_, [_, music])| *music).collect();
        let at = sent.windows(begin.len()).position(|window| *window == begin);
        let at = at.expect("the music is bit for bit as sent") - 480;
        let frames = played.iter().zip(&sent[at..]).map(|((at, frame), sent)| (*at, *frame, *sent));
        // The stream's last packets, and silence after it.
        let sounding = 48_000 * 17 / 10;
        Self { frames: frames.take(sounding).collect(), report }
    }

    fn lowered(&self) -> Option<(LocalTime, LocalTime)> {
        let lowered = |(at, [_, played], sent): &(LocalTime, [f32; 2], f32)| {
            (played.to_bits() != sent.to_bits()).then_some(*at)
        };
        let first = self.frames.iter().find_map(lowered)?;
        Some((first, self.frames.iter().rev().find_map(lowered)?))
    }

    fn page(&self) -> Option<(LocalTime, usize)> {
        let sounding = || self.frames.iter().filter(|(_, [page, _], _)| *page != 0.0);
        Some((sounding().next()?.0, sounding().count()))
    }

    fn gain_between(&self, from: LocalTime, to: LocalTime) -> [f32; 2] {
        let within = |(at, _, sent): &&(LocalTime, [f32; 2], f32)| {
            (from..to).contains(at) && sent.abs() > 0.1
        };
        let gains =
            || self.frames.iter().filter(within).map(|(_, [_, played], sent)| played / sent);
        [gains().fold(f32::INFINITY, f32::min), gains().fold(0.0, f32::max)]
    }
}

/// The claim and the sound arrive within 20 ms of the last moment.
fn hurried() -> Road {
    Road { periods: 16, latency: Span::from_millis(40), ..Road::default() }
}

/// Plays music in zones until it ends, after `lasts`.
fn play_music(road: &Road, zones: &[PlayingZone], lasts: Span) -> JoinHandle<Report> {
    let road = Road { lasts, ..road.clone() };
    let ports: Vec<_> = zones.iter().map(|zone| zone.ports[0]).collect();
    let playing = thread::spawn(move || {
        road.send_by(road.sender(&ports), |process| {
            let mut music = music();
            let frame = move || [0.0, music.next().unwrap_or_default()];
            Box::new(Captured { process, frame, first: None })
        })
    });
    zones.iter().for_each(|zone| zone.sounds.recv().unwrap());
    playing
}

/// A page of one level to the announcement ports.
fn send_page(
    road: &Road,
    zones: &[PlayingZone],
    announcement: Option<AnnouncementPlan>,
    level: f32,
    first: Sender<LocalTime>,
) -> JoinHandle<Report> {
    let road = road.clone();
    let ports: Vec<_> = zones.iter().map(|zone| zone.ports[1]).collect();
    thread::spawn(move || {
        let plan = SendPlan { announcement, ..road.sender(&ports) };
        road.send_by(plan, move |process| {
            let frame = move || [level, 0.0];
            Box::new(Captured { process, frame, first: Some(first) })
        })
    })
}

/// Plays music in two zones, then a page with this announcement to the ports of both. Returns its
/// first capture time, and both outcomes.
fn run(road: &Road, announcement: Option<AnnouncementPlan>) -> (LocalTime, [Outcome; 2]) {
    let zones = [zone(1, road), zone(2, road)];
    let playing = play_music(road, &zones, Span::from_millis(2_000));
    let (first, began) = channel();
    let page = Road { lasts: Span::from_millis(400), ..road.clone() };
    send_page(&page, &zones, announcement, PAGE, first).join().unwrap();
    playing.join().unwrap();
    (began.recv().unwrap(), zones.map(Outcome::of))
}

fn page_to(targets: Vec<u16>) -> AnnouncementPlan {
    let plan = AnnouncementPlan::new(targets, Priority(100)).unwrap();
    AnnouncementPlan { duck: Duck { hold: HOLD, up: UP, ..plan.duck }, ..plan }
}

fn assert_pages(outcome: &Outcome, starts: LocalTime) {
    let notes = &outcome.report.notes;
    let (sounds, frames) = outcome.page().unwrap_or_else(|| panic!("no page: {notes:?}"));
    let (lowered, restored) = outcome.lowered().unwrap_or_else(|| panic!("no duck: {notes:?}"));
    for begins in [sounds, lowered] {
        assert!((begins - starts).abs() <= NEAR, "{} off: {notes:?}", begins - starts);
    }
    let lasted = Rate::HZ_48000.span_of(Frames::from_len(frames));
    let ended = sounds + lasted;
    assert!((lasted - Span::from_millis(400)).abs() < Span::from_millis(60), "{lasted}");
    let [least, most] = outcome.gain_between(starts + Span::from_millis(21), ended + HOLD);
    assert!(least > 0.0999 && most < 0.1001, "{least} to {most}: {notes:?}");
    assert!((restored - (ended + HOLD + UP)).abs() <= NEAR.times(2), "{restored:?} {ended:?}");
}

mod exclusive {
    //! The result is a function of time (decision 25).

    use super::*;
    use tautline_trial::steady;

    #[test]
    fn page_lowers_the_music_where_addressed_only() {
        steady(|| {
            let road = Road::default();
            let (captured, [first, second]) = run(&road, Some(page_to(vec![1])));
            assert_pages(&first, captured + road.latency);
            assert_eq!((second.lowered(), second.page()), (None, None));
        });
    }

    #[test]
    fn addressed_zones_change_at_one_frame() {
        steady(|| {
            let road = hurried();
            let (captured, zones) = run(&road, Some(page_to(vec![100])));
            let starts = captured + road.latency;
            zones.iter().for_each(|zone| assert_pages(zone, starts));
            let [one, other] = zones.map(|zone| zone.lowered().unwrap());
            for skew in [one.0 - other.0, one.1 - other.1] {
                assert!(skew.abs() <= NEAR, "{skew}");
            }
        });
    }

    #[test]
    fn sender_without_a_claim_is_silent_at_the_port() {
        steady(|| {
            let (_, zones) = run(&Road::default(), None);
            for zone in zones {
                assert_eq!((zone.lowered(), zone.page()), (None, None));
                let received: u64 =
                    zone.report.streams[1..].iter().map(|port| port.counters.received).sum();
                assert!(received > 300, "{received}");
            }
        });
    }

    #[test]
    fn emergency_of_another_station_ends_a_page() {
        const EMERGENCY: f32 = 0.125;
        steady(|| {
            let road = Road::default();
            let zones = [zone(1, &road)];
            let playing = play_music(&road, &zones, Span::from_millis(2_000));
            let ((first, began), (second, preempted)) = (channel(), channel());
            let page = Road { lasts: Span::from_millis(800), ..road.clone() };
            let paging = send_page(&page, &zones, Some(page_to(vec![1])), PAGE, first);
            let starts = began.recv().unwrap() + road.latency;
            let plan = AnnouncementPlan::new(vec![1], Priority(240)).unwrap();
            let plan = AnnouncementPlan { duck: Duck { hold: HOLD, up: UP, ..plan.duck }, ..plan };
            let short = Road { lasts: Span::from_millis(300), ..road.clone() };
            send_page(&short, &zones, Some(plan), EMERGENCY, second).join().unwrap();
            let turns = preempted.recv().unwrap() + road.latency;
            paging.join().unwrap();
            playing.join().unwrap();
            let [zone] = zones.map(Outcome::of);
            let ms = Span::from_millis;
            for (from, to, level, gain) in [
                (starts + ms(21), turns + -ms(1), PAGE, Some(0.1)),
                (turns + ms(11), turns + ms(240), EMERGENCY, Some(0.0)),
                (turns + ms(360), turns + ms(640), 0.0, None),
                (turns + ms(640), turns + ms(700), 0.0, Some(1.0)),
            ] {
                let within = |(at, ..): &&(LocalTime, _, _)| (from..to).contains(at);
                let frames = zone.frames.iter().filter(within);
                let notes = &zone.report.notes;
                for (at, [page, _], _) in frames {
                    assert!((page - level).abs() < 1e-4, "{page} at {}: {notes:?}", *at - turns);
                }
                let [least, most] = zone.gain_between(from, to);
                let near = |gain: f32| least > gain - 1e-4 && most < gain + 1e-4;
                assert!(gain.is_none_or(near), "{least} to {most}, not {gain:?}: {notes:?}");
            }
        });
    }
}
