//! Stopped and killed processes, and their standby.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tautline_api::v1::Workshop;
use tautline_host::workshop::PluginWorkshop;
use tautline_proto::offload::datagram::Flags;

use crate::common::Shelf;
use crate::master::{TIMEOUT, TestMaster, request};
use crate::worked::{becomes, odd, opened, options, signal, workshop_of};

fn standby(workshop: &PluginWorkshop, stream: u32) -> u32 {
    let until = Instant::now() + TIMEOUT;
    loop {
        if let Some(standby) = workshop.standby(stream) {
            return standby;
        }
        assert!(Instant::now() < until, "no standby came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits for a child, other than `but`, that has mapped this library, and returns its ID.
fn loading(library: &Path, but: Option<u32>) -> u32 {
    let own = std::process::id().to_string();
    let until = Instant::now() + TIMEOUT;
    loop {
        let listed = Command::new("ps").args(["-o", "pid=", "--ppid", &own]).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let mut children = listed.split_whitespace().map(|process| process.parse().unwrap());
        let library = library.display().to_string();
        let maps = |process: u32| std::fs::read_to_string(format!("/proc/{process}/maps"));
        let has_it = |process: &u32| maps(*process).is_ok_and(|maps| maps.contains(&library));
        if let Some(found) = children.find(|it| Some(*it) != but && has_it(it)) {
            return found;
        }
        assert!(Instant::now() < until, "none loads it");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn one(far: &mut TestMaster, sample: f32, control: f32) -> (f32, bool) {
    let worked = far.run(&[vec![sample]], &[control]);
    (worked.outputs[0][0], worked.clean)
}

#[test]
fn standby_takes_over_with_all_received_blocks() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    let (id, mut far) = opened(&workshop, request("odd:odd", 48_000, 64));
    assert_eq!(one(&mut far, 1.0, 0.0), (1.0, true));
    let (first, before) = (standby(&workshop, id), far.incarnation);
    assert_eq!(workshop.stream(id).unwrap().restarts, 0, "a standby does not count as a restart");
    signal("-KILL", workshop.process(id).unwrap());
    assert_eq!(one(&mut far, 2.0, 0.0), (3.0, true));
    assert_eq!(workshop.process(id), Some(first));
    assert!(far.incarnation > before);
    let (second, before) = (standby(&workshop, id), far.incarnation);
    let fatal = far.hand_out(&[vec![2.0]], &[1.0], Flags::NONE);
    assert!(!far.await_block(fatal).clean);
    assert_eq!(workshop.process(id), Some(second));
    assert!(far.incarnation > before);
    let state = becomes(&workshop, id, |state| state.restarts == 2);
    assert!(state.reason.is_some_and(|why| why.contains("SIGSEGV")));
}

#[test]
fn standby_that_dies_is_replaced_and_disturbs_nothing() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    let (id, mut far) = opened(&workshop, request("odd:odd", 48_000, 64));
    assert_eq!(one(&mut far, 1.0, 0.0), (1.0, true));
    let at_work = workshop.process(id);
    let first = standby(&workshop, id);
    signal("-KILL", first);
    let until = Instant::now() + TIMEOUT;
    while standby(&workshop, id) == first {
        assert!(Instant::now() < until, "it was not replaced");
    }
    assert_eq!(one(&mut far, 2.0, 0.0), (3.0, true));
    assert_eq!((workshop.process(id), workshop.stream(id).unwrap().restarts), (at_work, 0));
}

#[test]
fn standby_takes_over_at_once_after_repeated_kills() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    let (id, mut far) = opened(&workshop, request("odd:odd", 48_000, 64));
    let (mut sum, mut before) = (1.0, 0.0);
    assert_eq!(one(&mut far, 1.0, 0.0).0, sum + before);
    for kill in 1..=7 {
        (before, sum) = (sum, sum + 1.0);
        let next = standby(&workshop, id);
        signal("-KILL", workshop.process(id).unwrap());
        let killed = Instant::now();
        assert_eq!(one(&mut far, sum, 0.0), (sum + before, true), "kill {kill}");
        assert_eq!(workshop.process(id), Some(next));
        assert!(killed.elapsed() < Duration::from_millis(1200), "{:?}", killed.elapsed());
    }
}

#[test]
fn standby_that_hangs_while_it_loads_holds_up_no_take_over() {
    let shelf = Shelf::new();
    let hang = shelf.path().join("hang");
    let hangs = format!("HANGS_IF=\"{}\"", hang.display());
    let Some(library) = shelf.with("odd", &[&hangs]) else { return };
    let workshop = workshop_of(shelf.path().to_owned(), options());
    let (id, mut far) = opened(&workshop, request("odd:odd", 48_000, 64));
    assert_eq!(one(&mut far, 1.0, 0.0), (1.0, true));
    std::fs::write(&hang, "").unwrap();
    let hung = loading(&library, workshop.process(id));
    std::fs::remove_file(&hang).unwrap();
    signal("-KILL", workshop.process(id).unwrap());
    let killed = Instant::now();
    assert_eq!(one(&mut far, 2.0, 0.0), (3.0, true));
    assert_ne!(workshop.process(id), Some(hung));
    assert!(killed.elapsed() < Duration::from_secs(5), "{:?}", killed.elapsed());
}

#[test]
fn standby_that_is_stopped_does_not_take_over() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    let (id, mut far) = opened(&workshop, request("odd:odd", 48_000, 64));
    assert_eq!(one(&mut far, 1.0, 0.0), (1.0, true));
    let stopped = standby(&workshop, id);
    signal("-STOP", stopped);
    signal("-KILL", workshop.process(id).unwrap());
    assert_eq!(one(&mut far, 2.0, 0.0), (3.0, true));
    assert_ne!(workshop.process(id), Some(stopped));
    assert_eq!(workshop.stream(id).unwrap().restarts, 1, "one more would be the stopped one");
}

#[test]
fn process_that_stays_stopped_is_ended_and_the_sound_goes_on() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    let (id, mut far) = opened(&workshop, request("odd:odd", 48_000, 64));
    assert_eq!(one(&mut far, 1.0, 0.0), (1.0, true));
    standby(&workshop, id);
    signal("-STOP", workshop.process(id).unwrap());
    assert_eq!(one(&mut far, 2.0, 0.0), (3.0, true));
    let state = becomes(&workshop, id, |state| state.restarts == 1);
    assert!(state.reason.as_ref().is_some_and(|why| why.contains("was stopped")), "{state:?}");
}

#[test]
fn plugin_cannot_stop_its_own_process() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    let (id, mut far) = opened(&workshop, request("odd:odd", 48_000, 64));
    assert_eq!(one(&mut far, 1.0, 6.0), (1.0, true));
    assert_eq!(one(&mut far, 2.0, 6.0), (3.0, true));
    assert_eq!(workshop.stream(id).unwrap().restarts, 0);
}

mod exclusive {
    use tautline_trial::timed;

    use super::*;

    /// Decision 25: median of ten, on a quiet machine.
    #[test]
    fn sound_is_back_within_20_ms_of_a_kill() {
        timed(|| {
            let Some((_shelf, workshop)) = odd(options()) else { return };
            // Up to the number kept, all again; else the last ones.
            for blocks in [1, 300] {
                let mut took = Vec::new();
                for _ in 0..10 {
                    let (id, mut far) = opened(&workshop, request("odd:odd", 48_000, 64));
                    for _ in 0..blocks {
                        one(&mut far, 1.0, 0.0);
                    }
                    standby(&workshop, id);
                    let process = workshop.process(id).unwrap();
                    signal("-KILL", process);
                    took.push(far.plays_again(&[vec![2.0]], Duration::from_micros(5333)));
                    workshop.close(id);
                }
                took.sort_unstable();
                let median = took[took.len() / 2];
                assert!(median < Duration::from_millis(20), "{took:?} after {blocks} blocks");
            }
        });
    }
}
