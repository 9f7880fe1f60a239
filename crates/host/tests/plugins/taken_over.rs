//! Processes that are stopped or killed, and the standby that takes over.

use std::process::Command;
use std::time::{Duration, Instant};

use tautline_api::v1::Workshop;
use tautline_host::workshop::PluginWorkshop;
use tautline_proto::offload::datagram::Flags;

use crate::master::{PATIENCE, TestMaster, request};
use crate::worked::{becomes, odd, opened, options, signal};

/// The processes that this one started.
fn children() -> Vec<u32> {
    let own = std::process::id().to_string();
    let listed = Command::new("ps").args(["-o", "pid=", "--ppid", &own]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    listed.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Whether a process is the child that has this descriptor of the stream: its socket's port.
fn works_for(process: u32, stream: u32, workshop: &PluginWorkshop) -> bool {
    let inode = |process: u32| -> Option<Vec<String>> {
        let files = std::fs::read_dir(format!("/proc/{process}/fd")).ok()?;
        let links = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
        let names = links.map(|link| link.to_string_lossy().into_owned());
        Some(names.filter(|name| name.starts_with("socket:")).collect())
    };
    let works = workshop.process(stream).and_then(inode).unwrap_or_default();
    inode(process).is_some_and(|sockets| sockets.iter().any(|socket| works.contains(socket)))
}

/// The standby of a stream, once there is one that has loaded: only then it has its threads. A child that is just being
/// started has every socket of this process for a moment, and one thread.
fn standby(workshop: &PluginWorkshop, stream: u32) -> u32 {
    let has_loaded = |child: u32| {
        let tasks = std::fs::read_dir(format!("/proc/{child}/task"));
        tasks.is_ok_and(|tasks| tasks.count() >= 3)
    };
    let until = Instant::now() + PATIENCE;
    loop {
        let at_work = workshop.process(stream);
        let mut others = children().into_iter().filter(|child| Some(*child) != at_work);
        let found = others.find(|child| has_loaded(*child) && works_for(*child, stream, workshop));
        if let Some(found) = found {
            return found;
        }
        assert!(Instant::now() < until, "no standby came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn one(far: &mut TestMaster, sample: f32, control: f32) -> (f32, bool) {
    let worked = far.run(&[vec![sample]], &[control]);
    (worked.outputs[0][0], worked.clean)
}

#[test]
fn standby_takes_over_a_killed_process_with_all_that_was_heard() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    let (id, mut far) = opened(&workshop, request("odd:odd", 48_000, 64));
    assert_eq!(one(&mut far, 1.0, 0.0), (1.0, true));
    let (first, before) = (standby(&workshop, id), far.incarnation);
    assert_eq!(workshop.stream(id).unwrap().restarts, 0, "a standby is no restart");
    signal("-KILL", workshop.process(id).unwrap());
    assert_eq!(one(&mut far, 2.0, 0.0), (3.0, true));
    assert_eq!(workshop.process(id), Some(first));
    assert!(far.incarnation > before);
    // The next one stands by, and takes over a plugin that crashes, too.
    let (second, before) = (standby(&workshop, id), far.incarnation);
    let fatal = far.hand_out(&[vec![2.0]], &[1.0], Flags::NONE);
    assert!(!far.await_block(fatal).clean);
    assert_eq!(workshop.process(id), Some(second));
    assert!(far.incarnation > before);
    let state = becomes(&workshop, id, |state| state.restarts == 2);
    assert!(state.why.is_some_and(|why| why.contains("SIGSEGV")));
}

#[test]
fn standby_that_dies_is_replaced_and_disturbs_nothing() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    let (id, mut far) = opened(&workshop, request("odd:odd", 48_000, 64));
    assert_eq!(one(&mut far, 1.0, 0.0), (1.0, true));
    let at_work = workshop.process(id);
    let first = standby(&workshop, id);
    signal("-KILL", first);
    let until = Instant::now() + PATIENCE;
    while standby(&workshop, id) == first {
        assert!(Instant::now() < until, "it was not replaced");
    }
    assert_eq!(one(&mut far, 2.0, 0.0), (3.0, true));
    assert_eq!((workshop.process(id), workshop.stream(id).unwrap().restarts), (at_work, 0));
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
    assert!(state.why.as_ref().is_some_and(|why| why.contains("was stopped")), "{state:?}");
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

    /// Decision 25: a median of ten, on a machine that is not busy.
    #[test]
    fn sound_is_back_within_20_ms_of_a_kill() {
        timed(|| {
            let Some((_shelf, workshop)) = odd(options()) else { return };
            // Of one block it hears all again; of more than are kept it hears the end.
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
                    // 256 frames at 48 kHz.
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
