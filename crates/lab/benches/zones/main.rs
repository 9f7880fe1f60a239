//! Zones on virtual cards, from the press of a station's button to the sound at the DAC. All
//! figures but processor time come from the sound: program and announcements are constant samples,
//! so a change crosses a threshold at a known instant.
//!
//! Cases, with their arguments:
//!
//! - `press ZONES PAGES`: time from the first captured frame of a page to its sound in each zone.
//! - `skew ZONES PAGES`: differences between zones on impaired paths that hide that all share one
//!   clock. Cards are 50 ppm fast or slow.
//! - `switch ZONES TIMES`: differences between zones on such paths in the sound of another program,
//!   from 100 ms after its cross-fade began.
//! - `dead PAGES`: time from the last frame of a dead station to the return of the program.
//! - `busy SECONDS`: processor time of a zone with 16 announcements, next to a bare loop that
//!   receives the same packets.
#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot set itself up is over")]

mod busy;
mod station;
mod zone;

use std::net::SocketAddr;

use tautline_dsp::format::SampleFormat;
use tautline_engine::monitor::run::RunOptions;
use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::Scheduler;
use tautline_lab::impair::{Relay, RelayOptions};
use tautline_proto::device::Settings;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_sim::link::{Jitter, PathModel};

use station::Sender;
use zone::{Change, Seen, Zone};

const LINK_OFFSET: Span = Span::from_millis(20);
/// Number of the group of all zones.
const ALL: u16 = 1000;
/// Samples of the program and of an announcement.
const PROGRAM: f32 = 0.25;
const PAGE: f32 = 0.5;

const OPTIONS: RunOptions = RunOptions {
    scheduler: Scheduler::Fifo(70),
    duration: None,
    stall_monitor: false,
    lock_memory: true,
    words: |note| Some(format!("{note:?}")),
};

/// Lengths of packets and of the periods of devices.
#[derive(Debug, Clone, Copy)]
struct Pace {
    packet: Frames,
    period: Frames,
}

impl Pace {
    /// As a node of a building.
    const USUAL: Self = Self { packet: Frames::new(48), period: Frames::new(48) };
    /// For many zones on one machine.
    const MANY: Self = Self { packet: Frames::new(192), period: Frames::new(96) };

    const fn format(self) -> StreamFormat {
        StreamFormat {
            codec: None,
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            sample: SampleFormat::L24,
            packet: self.packet,
            payload_type: StreamFormat::default_payload_type(SampleFormat::L24),
        }
    }

    const fn device(self) -> Settings {
        let (rate, channels) = (Rate::HZ_48000, Channels::STEREO);
        Settings { rate, channels, period: self.period, periods: 2 }
    }
}

/// An idle station exchanges reports for this long, so that zones know its clock.
const READY: Span = Span::from_millis(2500);
const PAGES: Span = Span::from_millis(600);
/// Hold, ramp, and time to spare.
const RESTORED: Span = Span::from_millis(1600);
const CROSSED: Span = Span::from_millis(100);
const FLIP: Span = Span::from_millis(250);
/// A program that keeps its sign.
const STEADY: Span = Span::from_secs(24 * 3600);
/// A dead station's announcement lasts this much longer.
const SILENCE: Span = Span::from_millis(500);
/// From the return of the program to its crossing of half its gain.
const HALF_UP: Span = Span::from_millis(500);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let number = |at: usize, usual: usize| {
        words.get(at).map_or(usual, |word| word.parse().expect("a number"))
    };
    match words.first().map(String::as_str) {
        Some("press") => press(number(1, 50), number(2, 20)),
        Some("skew") => skew(number(1, 4), number(2, 20)),
        Some("switch") => switch(number(1, 4), number(2, 20)),
        Some("dead") => dead(number(1, 5)),
        Some("busy") => busy::busy(number(1, 5)),
        _ => panic!("give a case: press, skew, switch, dead or busy"),
    }
}

fn pause(length: Span) {
    sleep_until(now() + length);
}

struct Building {
    zones: Vec<Zone>,
    program: Sender,
    pace: Pace,
    /// Where stations send to.
    announcements: Vec<SocketAddr>,
    /// Relays of announcements.
    relays: Vec<Relay>,
    /// Relays of the program.
    programs: Vec<Relay>,
}

impl Building {
    fn open(zones: usize, pace: Pace, impaired: bool) -> Self {
        let ppm = |number: usize| if number.is_multiple_of(2) { 50 } else { -50 };
        let zones = (0..zones).map(|number| {
            let ppm = if impaired { ppm(number) } else { 0 };
            Zone::start(number as u16 + 1, pace, ppm)
        });
        let zones: Vec<Zone> = zones.collect();
        let relayed = |to: Vec<SocketAddr>, seed| match impaired {
            true => relayed(&to, seed),
            false => (to, Vec::new()),
        };
        let at = |of: fn(&Zone) -> SocketAddr| zones.iter().map(of).collect::<Vec<_>>();
        let (announcements, relays) = relayed(at(|zone| zone.announcements), 1);
        let (to, programs) = relayed(at(|zone| zone.program), 1000);
        let program = Sender::program(&to, pace, STEADY);
        Self { zones, program, pace, announcements, relays, programs }
    }

    /// Switches all zones to a program that changes its sign every [`FLIP`]. Returns the first change
    /// in each zone after the cross-fade.
    fn switch(&mut self, seed: u64) -> Vec<Option<LocalTime>> {
        let (plans, to): (Vec<_>, Vec<_>) = self.zones.iter().map(Zone::another_program).unzip();
        let (to, relays) = relayed(&to, seed);
        let program = Sender::program(&to, self.pace, FLIP);
        let at = now() + READY;
        for (zone, plan) in self.zones.iter().zip(plans) {
            zone.switch(plan, at);
        }
        pause(READY + RESTORED);
        self.programs = relays;
        core::mem::replace(&mut self.program, program).release();
        let crossed = |seen: &&Seen| seen.0 == Change::Sign && seen.1 >= at + CROSSED;
        self.seen().iter().map(|seen| Some(seen.iter().find(crossed)?.1)).collect()
    }

    fn station(&self) -> Sender {
        let station = Sender::station((&self.announcements, &[]), self.pace, PAGE);
        pause(READY);
        station
    }

    /// Pages, and returns the instant of the first captured frame and each zone's changes.
    fn page(&mut self) -> (LocalTime, Vec<Vec<Seen>>) {
        let station = self.station();
        self.seen();
        let pressed = station.press();
        pause(PAGES);
        station.release();
        pause(RESTORED);
        (pressed, self.seen())
    }

    fn seen(&mut self) -> Vec<Vec<Seen>> {
        self.zones.iter_mut().map(Zone::seen).collect()
    }

    fn close(self) {
        self.program.release();
        self.zones.into_iter().for_each(Zone::end);
    }
}

/// Relays to each address.
fn relayed(to: &[SocketAddr], seed: u64) -> (Vec<SocketAddr>, Vec<Relay>) {
    let relays: Vec<Relay> = (seed..).zip(to).map(|(seed, to)| relay(*to, seed)).collect();
    (relays.iter().map(Relay::address).collect(), relays)
}

/// A path as in `tautline_sim::zones`.
fn relay(to: SocketAddr, seed: u64) -> Relay {
    let path = PathModel {
        jitter: Jitter::Exponential(Span::from_micros(60)),
        ..PathModel::ideal(Span::from_micros(200))
    };
    let options = RelayOptions {
        there: path.clone(),
        back: path,
        seed,
        ..RelayOptions::between("127.0.0.1:0".parse().unwrap(), to)
    };
    Relay::start(&options).unwrap()
}

/// Time of the first change of this kind. A dropout during the page looks like its end, so the end is
/// the last one, and the restore follows it.
fn find(seen: &[Seen], change: Change) -> Option<LocalTime> {
    let last_end = seen.iter().rposition(|(found, _)| *found == Change::End);
    let seen = match change {
        Change::End | Change::Restore => &seen[last_end?..],
        Change::Start | Change::Duck | Change::Sign => seen,
    };
    seen.iter().find(|(found, _)| *found == change).map(|(_, at)| *at)
}

/// Prints quantiles in microseconds.
fn print(name: &str, mut spans: Vec<Span>, missed: usize) {
    spans.sort_unstable();
    let at = |per_mille: usize| {
        let index = (spans.len() * per_mille / 1000).min(spans.len().saturating_sub(1));
        spans.get(index).map_or(f64::NAN, |span| span.as_nanos() as f64 / 1e3)
    };
    println!(
        "{name}: {} times, {missed} missed, p50 {:.1} us, p99 {:.1} us, p99.9 {:.1} us, maximum {:.1} us",
        spans.len(),
        at(500),
        at(990),
        at(999),
        at(1000)
    );
}

fn press(zones: usize, pages: usize) {
    let mut building = Building::open(zones, Pace::MANY, false);
    let (mut taken, mut missed) = (Vec::new(), 0);
    for page in 0..pages {
        let (pressed, seen) = building.page();
        for (zone, seen) in seen.iter().enumerate() {
            match find(seen, Change::Start) {
                Some(start) => taken.push(start - pressed),
                None => {
                    missed += 1;
                    let seen: Vec<_> =
                        seen.iter().map(|(change, at)| (change, *at - pressed)).collect();
                    println!("missed: page {page}, zone {zone}: {seen:?}");
                }
            }
        }
    }
    building.close();
    print("press", taken, missed);
}

fn skew(zones: usize, pages: usize) {
    let mut building = Building::open(zones, Pace::USUAL, true);
    let changes = [("start", Change::Start), ("duck", Change::Duck), ("restore", Change::Restore)];
    let mut skews = [const { Skews::new() }; 3];
    for _ in 0..pages {
        let (_, seen) = building.page();
        for (skews, (_, change)) in skews.iter_mut().zip(changes) {
            let times: Vec<_> = seen.iter().map(|seen| find(seen, change)).collect();
            skews.add(&times, |skew| skew);
        }
    }
    building.close();
    for ((name, _), Skews { pairs, missed }) in changes.into_iter().zip(skews) {
        print(name, pairs, missed);
    }
}

/// Differences between zones.
struct Skews {
    pairs: Vec<Span>,
    missed: usize,
}

impl Skews {
    const fn new() -> Self {
        Self { pairs: Vec::new(), missed: 0 }
    }

    /// `wrap` maps differences of changes that are not the same one.
    fn add(&mut self, times: &[Option<LocalTime>], wrap: impl Fn(Span) -> Span) {
        let found: Vec<LocalTime> = times.iter().flatten().copied().collect();
        self.missed += times.len() - found.len();
        for (number, time) in found.iter().enumerate() {
            self.pairs.extend(found[number + 1..].iter().map(|it| wrap((*it - *time).abs())));
        }
    }
}

fn switch(zones: usize, times: usize) {
    let (mut building, mut skews) = (Building::open(zones, Pace::USUAL, true), Skews::new());
    pause(READY);
    building.seen();
    for number in 0..times {
        let changes = building.switch(2000 + 100 * number as u64);
        skews.add(&changes, |skew| if skew.times(2) > FLIP { (skew - FLIP).abs() } else { skew });
    }
    building.close();
    print("switch", skews.pairs, skews.missed);
}

/// The network of a station fails, so its goodbye is lost, too.
fn dead(pages: usize) {
    let (mut taken, mut missed) = (Vec::new(), 0);
    for _ in 0..pages {
        let mut building = Building::open(2, Pace::USUAL, true);
        let station = building.station();
        building.seen();
        station.press();
        pause(PAGES);
        building.relays.clear();
        pause(SILENCE + RESTORED);
        for seen in building.seen() {
            let ended = find(&seen, Change::End).zip(find(&seen, Change::Restore));
            taken.extend(ended.map(|(ended, restored)| restored - HALF_UP - ended));
            missed += usize::from(ended.is_none());
        }
        station.release();
        building.close();
    }
    print("dead", taken, missed);
}
