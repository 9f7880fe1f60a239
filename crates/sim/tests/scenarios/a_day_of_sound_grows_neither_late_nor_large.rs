//! Soak: a stream between two cities with 200 ppm of drift, and a call whose Opus bitrate adapts.
//! Memory and latency must not grow.

use tautline_proto::congestion::CodingLimits;
use tautline_proto::jitter_buffer::Resync;
use tautline_proto::receive_policy::ReceiveNote;
use tautline_proto::stream::{Coding, StreamFormat};
use tautline_proto::target_delay::LossTarget;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_sim::card::CardModel;
use tautline_sim::clock::TrueTime;
use tautline_sim::link::{Bottleneck, PathModel};
use tautline_sim::preset::Preset;
use tautline_sim::received::Received;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::World;
use tautline_trial::live_bytes;

/// Bytes that the world itself records about both ends.
fn noted(world: &World) -> i64 {
    let noted = |received: &Received| {
        let Received { carried, errors, offsets, resyncs, silences, notes, damaged, holes, .. } =
            received;
        // A tree has two words per entry, and may be half empty.
        let trees = 4 * 16 * (damaged.len() + holes.len());
        carried.capacity()
            + size_of::<Span>() * errors.capacity()
            + size_of::<(TrueTime, Span)>() * offsets.capacity()
            + size_of::<(TrueTime, Resync)>() * resyncs.capacity()
            + size_of::<(TrueTime, TrueTime)>() * silences.capacity()
            + size_of::<ReceiveNote>() * notes.capacity()
            + trees
    };
    world.received().map(noted).sum::<usize>() as i64
}

fn in_use(worlds: &[&World]) -> i64 {
    live_bytes() - worlds.iter().map(|world| noted(world)).sum::<i64>()
}

/// Maximum slack of lists, in bytes. More is growth.
const MAX_GROWN: i64 = 256 << 10;

fn grows_not(whole: Span) -> String {
    let seed = 31;
    let mut scenario = Scenario::drifting(Preset::Wan, 100.0, seed);
    scenario.auto = Some(LossTarget::DEFAULT);
    scenario.format.packet = Frames::new(960);
    for host in [&mut scenario.sender, &mut scenario.receivers[0].host] {
        host.card.period = Frames::new(480);
    }
    scenario.sender.card = CardModel { period: Frames::new(480), ..CardModel::off_by(-100.0) };
    let mut world = World::new(scenario);
    let first = Span::from_nanos(whole.as_nanos() / 10);
    world.run(first);
    let (before, blocks) =
        (in_use(&[&world]), world.received().next().map_or(0, |received| received.errors.len()));
    world.run(whole - first);
    let grown = in_use(&[&world]) - before;
    let received = world.finish().remove(0);
    let reported = format!("wan, seed {seed}: {grown} bytes more; {received}");
    assert!(grown < MAX_GROWN, "{reported}");
    let moved = grows_not_late(&received, (first, blocks), whole, &reported);
    format!("{grown} bytes more, and {moved} later")
}

/// Compares the latency after `first` and `blocks` with that at the end. Returns the difference.
fn grows_not_late(
    received: &Received,
    (first, blocks): (Span, usize),
    whole: Span,
    reported: &str,
) -> Span {
    let until = first.as_nanos();
    let highest = |late: bool| {
        let offsets = received.offsets.iter().filter(|(at, _)| (at.as_nanos() > until) == late);
        offsets.map(|(_, offset)| *offset).max()
    };
    if let (Some(before), Some(after)) = (highest(false), highest(true)) {
        assert!(after < before + before.half(), "{before} became {after}; {reported}");
    }
    let median = |errors: &[Span]| {
        let mut errors = errors.to_vec();
        errors.sort_unstable();
        errors[errors.len() / 2]
    };
    let (early, late) = received.errors.split_at(blocks);
    let tenth = &late[late.len() - late.len() / 10..];
    let moved = (median(tenth) - median(early)).abs();
    assert!(moved < Span::from_millis(1), "{moved}; {reported}");
    assert!(received.received_until(whole), "{reported}");
    moved
}

/// Seconds of each wide and each narrow stretch.
const SPELL: i64 = 45;

struct Direction {
    world: World,
    bitrate: u32,
    moved: u32,
    range: (u32, u32),
}

fn wide_and_narrow(whole: Span, begins: i64) -> PathModel {
    let wide = Preset::Wan.path();
    let bottleneck = Some(Bottleneck { rate: 56_000, queue: 1_400 });
    let narrow = PathModel { bottleneck, ..wide.clone() };
    let spells = (0..).map(|number| (number, begins + number * SPELL));
    let spells = spells.take_while(|(_, at)| *at < whole.as_nanos() / 1_000_000_000);
    let changes = spells.map(|(number, at)| {
        let path = if number % 2 == 0 { &narrow } else { &wide };
        (TrueTime::from_nanos(at * 1_000_000_000), path.clone())
    });
    PathModel { changes: changes.collect(), ..wide }
}

impl Direction {
    fn new((from, to): (f64, f64), path: PathModel, seed: u64) -> Self {
        let coding = Coding::OPUS.usual_for(Channels::MONO);
        let ptime = Span::from_millis(20);
        let mut scenario = Scenario::drifting(Preset::Wan, to, seed);
        scenario.receivers[0].there = path;
        scenario.auto = Some(LossTarget::DEFAULT);
        scenario.latency = Span::from_millis(80);
        scenario.format = StreamFormat {
            rate: Rate::HZ_48000,
            channels: Channels::MONO,
            sample: coding.sample,
            codec: coding.codec,
            packet: Frames::new(960),
            payload_type: StreamFormat::usual_payload_type(coding.sample, coding.codec),
        };
        scenario.adapts = Some(CodingLimits {
            codings: vec![Coding::OPUS],
            ptimes: (ptime, ptime),
            max_bitrate: Some(96_000),
            after_loss: false,
        });
        scenario.sender.card = CardModel::off_by(from);
        for host in [&mut scenario.sender, &mut scenario.receivers[0].host] {
            host.card.period = Frames::new(480);
        }
        Self { world: World::new(scenario), bitrate: 0, moved: 0, range: (u32::MAX, 0) }
    }

    fn second(&mut self) {
        self.world.run(Span::from_secs(1));
        let bitrate = self.world.sends().coding().bitrate().expect("of Opus");
        self.moved += u32::from(bitrate != core::mem::replace(&mut self.bitrate, bitrate));
        self.range = (self.range.0.min(bitrate), self.range.1.max(bitrate));
    }
}

fn call_grows_not(whole: Span) -> String {
    let seed = 41;
    let mut call = [
        Direction::new((-100.0, 100.0), wide_and_narrow(whole, 20), seed),
        Direction::new((100.0, -100.0), wide_and_narrow(whole, 35), seed + 1),
    ];
    let seconds = whole.as_nanos() / 1_000_000_000;
    let live = |[there, back]: &[Direction; 2]| in_use(&[&there.world, &back.world]);
    let blocks = |direction: &Direction| {
        direction.world.received().next().map_or(0, |received| received.errors.len())
    };
    let (mut before, mut early) = (0, [0; 2]);
    for second in 0..seconds {
        if second == seconds / 10 {
            (before, early) = (live(&call), [blocks(&call[0]), blocks(&call[1])]);
        }
        call.iter_mut().for_each(Direction::second);
    }
    let grown = live(&call) - before;
    let first = Span::from_secs(seconds / 10);
    let mut words = format!("{grown} bytes more");
    for (Direction { world, moved, range, .. }, blocks) in call.into_iter().zip(early) {
        let received = world.finish().remove(0);
        let reported = format!(
            "seed {seed}: {grown} bytes more; bits moved {moved} times within {range:?}; {received}"
        );
        assert!(grown < MAX_GROWN, "{reported}");
        assert!(i64::from(moved) > seconds / SPELL, "{reported}");
        assert!(range.0 < 40_000 && range.1 == 96_000, "{reported}");
        let later = grows_not_late(&received, (first, blocks), whole, &reported);
        words += &format!("; {later} later, {moved} changes of bits within {range:?}");
    }
    words
}

#[test]
fn adaptive_call_of_20_minutes_keeps_latency_and_memory() {
    println!("{}", call_grows_not(Span::from_secs(1200)));
}

#[test]
#[ignore = "soak: a simulated day"]
fn variable_bitrate_call_keeps_latency_and_size_for_a_day() {
    println!("{}", call_grows_not(Span::from_secs(24 * 3600)));
}

#[test]
fn an_hour_of_sound_grows_neither_late_nor_large() {
    println!("{}", grows_not(Span::from_secs(3600)));
}

#[test]
#[ignore = "soak: a simulated day"]
fn a_day_of_sound_grows_neither_late_nor_large() {
    println!("{}", grows_not(Span::from_secs(24 * 3600)));
}
