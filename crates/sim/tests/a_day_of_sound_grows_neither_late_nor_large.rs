//! Under test: one direction of a call between two cities, whose latency follows the packets and whose cards are 200 ppm
//! apart: what it takes after a while is what it takes at the end.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use tautline_proto::depth::LossTarget;
use tautline_proto::time::{Frames, Span};
use tautline_sim::card::CardModel;
use tautline_sim::clock::TrueTime;
use tautline_sim::heard::Heard;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::World;

/// Bytes that are in use.
static LIVE: AtomicI64 = AtomicI64::new(0);

struct Counting;

// SAFETY: everything is handed to the system's allocator as it came; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// One world at a time: what is in use is counted for all.
static TURN: Mutex<()> = Mutex::new(());

#[global_allocator]
static COUNTING: Counting = Counting;

/// What both ends have in use beside what the world notes of them for this test.
fn in_use(world: &World) -> i64 {
    let noted = |heard: &Heard| {
        let Heard { carried, errors, offsets, resyncs, silences, spoilt, holes, .. } = heard;
        // A tree has two words for an entry, and is half empty at the worst.
        let trees = 4 * 16 * (spoilt.len() + holes.len());
        carried.capacity()
            + size_of::<Span>() * errors.capacity()
            + size_of::<(TrueTime, Span)>() * offsets.capacity()
            + size_of_val(&resyncs[..])
            + size_of_val(&silences[..])
            + trees
    };
    LIVE.load(Ordering::Relaxed) - world.heard().map(noted).sum::<usize>() as i64
}

/// More than that is no slack of some list, but growth.
const MOST_GROWN: i64 = 256 << 10;

/// Plays for a tenth of the time, and then for the rest of it: what became of it, in words.
fn grows_not(whole: Span) -> String {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
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
        (in_use(&world), world.heard().next().map_or(0, |heard| heard.errors.len()));
    world.run(whole - first);
    let grown = in_use(&world) - before;
    let heard = world.finish().remove(0);
    let told = format!("wan, seed {seed}: {grown} bytes more; {heard}");
    assert!(grown < MOST_GROWN, "{told}");
    let until = first.as_nanos();
    let highest = |late: bool| {
        let offsets = heard.offsets.iter().filter(|(at, _)| (at.as_nanos() > until) == late);
        offsets.map(|(_, offset)| *offset).max()
    };
    // What is kept follows the packets, which are as they were.
    if let (Some(before), Some(after)) = (highest(false), highest(true)) {
        assert!(after < before + before.half(), "{before} became {after}; {told}");
    }
    let median = |errors: &[Span]| {
        let mut errors = errors.to_vec();
        errors.sort_unstable();
        errors[errors.len() / 2]
    };
    let (early, late) = heard.errors.split_at(blocks);
    let tenth = &late[late.len() - late.len() / 10..];
    let moved = (median(tenth) - median(early)).abs();
    assert!(moved < Span::from_millis(1), "{moved}; {told}");
    assert!(heard.heard_until(whole), "{told}");
    format!("{grown} bytes more, and {moved} later")
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
