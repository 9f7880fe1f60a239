//! Plugins that run for a stream.

use tautline_trial::snapshot;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tautline_api::v1::{StreamPhase, StreamRequest, WorkRefused, WorkStreamState, Workshop};
use tautline_host::chain::ChainFile;
use tautline_host::cost::of_run;
use tautline_host::ladspa::instance::PluginInstance;
use tautline_host::ladspa::library::PluginLibrary;
use tautline_host::offers::PluginOffers;
use tautline_host::scan::{TIMEOUT as SCAN_TIMEOUT, scan};
use tautline_host::workshop::{MAX_SHARE, PluginWorkshop, StreamOver, WorkNews, WorkshopOptions};
use tautline_io::thread::Scheduler;
use tautline_proto::offload::block::ByteOrder;
use tautline_proto::offload::datagram::Flags;
use tautline_proto::time::Span;

use crate::common::{Shelf, installed, program};
use crate::master::{TIMEOUT, TestMaster, Worked, request};

pub(crate) const SECRET: Option<[u8; 32]> = Some([7; 32]);

pub(crate) fn options() -> WorkshopOptions {
    WorkshopOptions {
        program: program(),
        name: "here".to_owned(),
        bind: Ipv4Addr::LOCALHOST.into(),
        scheduler: Scheduler::Other,
        max_streams: 8,
        max_share: MAX_SHARE,
        timeout: Span::from_millis(300),
        silence: Span::from_secs(3600),
        cleartext: true,
        costs: None,
    }
}

pub(crate) fn workshop_of(folder: PathBuf, options: WorkshopOptions) -> PluginWorkshop {
    let found = scan(&program(), &[folder], SCAN_TIMEOUT);
    PluginWorkshop::new(options, PluginOffers::new(&found, None).unwrap())
}

pub(crate) fn odd(options: WorkshopOptions) -> Option<(Shelf, PluginWorkshop)> {
    let shelf = Shelf::new();
    shelf.with("odd", &[])?;
    let workshop = workshop_of(shelf.path().to_owned(), options);
    Some((shelf, workshop))
}

pub(crate) fn opened(workshop: &PluginWorkshop, request: StreamRequest) -> (u32, TestMaster) {
    let stream = workshop.open(request, SECRET).unwrap();
    (stream.id, TestMaster::of(&stream, SECRET))
}

#[track_caller]
pub(crate) fn becomes(
    workshop: &PluginWorkshop,
    id: u32,
    is_so: impl Fn(&WorkStreamState) -> bool,
) -> WorkStreamState {
    let until = Instant::now() + TIMEOUT;
    loop {
        let state = workshop.stream(id).unwrap();
        if is_so(&state) {
            return state;
        }
        assert!(Instant::now() < until, "it never became so: {state:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn sound(block: usize, frames: usize) -> Vec<f32> {
    (0..frames).map(|frame| ((block * 1009 + frame * 7) % 251) as f32 / 251.0 - 0.5).collect()
}

#[test]
fn remote_plugin_is_bit_exact() {
    let Some(folder) = installed("tap_reverb.so") else { return };
    let workshop = workshop_of(folder.clone(), options());
    let (_, mut far) = opened(&workshop, request("tap_reverb:tap_reverb", 44_100, 512));
    let library = Arc::new(PluginLibrary::load(&folder.join("tap_reverb.so")).unwrap());
    let mut here = PluginInstance::new(&library, "tap_reverb", 44_100, 512).unwrap();
    let mut controls: Vec<f32> =
        (0..here.controls()).map(|control| here.control(control)).collect();
    for block in 0..200 {
        let frames = [512, 64, 138, 1, 441][block % 5];
        controls[1] = -(block as f32 % 20.0);
        let inputs: Vec<_> = (0..here.inputs()).map(|of| sound(block + of, frames)).collect();
        for (channel, samples) in inputs.iter().enumerate() {
            here.input_mut(channel)[..frames].copy_from_slice(samples);
        }
        controls.iter().enumerate().for_each(|(control, value)| here.set_control(control, *value));
        {
            let mode = tautline_io::thread::float_mode::FloatMode {
                flush_to_zero: true,
                denormals_are_zero: true,
            };
            let _mode = mode.set();
            here.run(frames);
        }
        let Worked { outputs, clean, .. } = far.run(&inputs, &controls);
        assert!(clean);
        for (channel, received) in outputs.iter().enumerate() {
            let bits = |samples: &[f32]| samples.iter().map(|s| s.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(received), bits(&here.output(channel)[..frames]), "block {block}");
        }
    }
}

#[test]
fn control_outputs_return_and_activation_resets_the_state() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    let (id, mut far) = opened(&workshop, request("odd:odd", 48_000, 64));
    let worked = far.run(&[vec![1.0, 2.0, 4.0]], &[0.0]);
    let expected =
        Worked { outputs: vec![vec![1.0, 3.0, 6.0]], reported: vec![3.0], latency: 3, clean: true };
    assert_eq!(worked, expected);
    assert_eq!(far.run(&[vec![8.0]], &[0.0]).outputs, [[12.0]]);
    far.begin();
    assert_eq!(far.run(&[vec![16.0]], &[0.0]).outputs, [[16.0]]);
    let state = becomes(&workshop, id, |state| state.counters.blocks == 3);
    assert_eq!((state.restarts, state.dirty, state.latency_frames, state.epoch), (0, false, 3, 8));
    assert!(workshop.close(id) && !workshop.close(id) && workshop.streams().is_empty());
}

#[test]
fn crashing_plugin_affects_only_its_stream() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    let (id, mut far) = opened(&workshop, request("odd:odd", 48_000, 64));
    let (other, mut alongside) = opened(&workshop, request("odd:odd", 48_000, 64));
    far.run(&[vec![1.0]], &[0.0]);
    alongside.run(&[vec![1.0]], &[0.0]);
    far.hand_out(&[vec![2.0]], &[1.0], Flags::NONE);
    assert_eq!(alongside.run(&[vec![2.0]], &[0.0]).outputs, [[3.0]]);
    let state = becomes(&workshop, id, |state| state.restarts > 0);
    assert!(
        state.reason.as_ref().is_some_and(|why| why.contains("it crashed (SIGSEGV")),
        "{state:?}"
    );
    // The fatal block would be sent again.
    far.begin();
    assert_eq!(far.run(&[vec![4.0]], &[0.0]).outputs, [[4.0]]);
    assert_eq!(alongside.run(&[vec![4.0]], &[0.0]).outputs, [[6.0]]);
    assert_eq!(workshop.stream(other).unwrap().restarts, 0);
}

#[test]
fn stream_news_is_reported_with_final_counters() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    let (news, reported) = channel();
    let workshop = workshop.event_channel(move |reported| drop(news.send(reported.clone())));
    let next = || reported.recv_timeout(TIMEOUT).unwrap();
    let (id, mut far) = opened(&workshop, request("odd:odd", 48_000, 64));
    far.hand_out(&[vec![1.0]], &[1.0], Flags::NONE);
    let WorkNews::BegunAnew(state) = next() else { panic!("its process died") };
    assert!(
        state.reason.as_ref().is_some_and(|why| why.contains("it crashed (SIGSEGV")),
        "{state:?}"
    );
    assert_eq!((state.id, state.restarts), (id, 1));
    far.begin();
    (0..3).for_each(|_| drop(far.run(&[vec![4.0]], &[0.0])));
    // Before its own reports, twice a second.
    workshop.close(id);
    let WorkNews::Ended(state, StreamOver::Closed) = next() else { panic!("it was closed") };
    assert!(state.id == id && state.counters.blocks >= 3, "{state:?}");
    let (id, _far) = opened(&workshop, request("odd:odd", 48_000, 64));
    drop(workshop);
    let WorkNews::Ended(state, StreamOver::WorkerEnds) = next() else { panic!("the worker ended") };
    assert_eq!(state.id, id);
}

#[test]
fn blocks_at_which_a_plugin_dies_are_passed_over_and_it_goes_on() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    for what in [1.0, 2.0, 4.0] {
        let (id, mut far) = opened(&workshop, request("odd:odd", 48_000, 64));
        assert_eq!(far.run(&[vec![1.0]], &[0.0]).outputs, [[1.0]]);
        let fatal =
            [2.0, 4.0].map(|received| far.hand_out(&[vec![received]], &[what], Flags::NONE));
        let next = far.hand_out(&[vec![8.0]], &[0.0], Flags::NONE);
        for block in fatal {
            let skipped = far.await_block(block);
            // Receivers that ignore flags play silence.
            assert_eq!((skipped.outputs, skipped.clean), (vec![vec![0.0]], false), "{what}");
        }
        // Its output misses a block.
        let worked = far.await_block(next);
        assert_eq!((worked.outputs, worked.clean), (vec![vec![9.0]], false), "{what}");
        assert_eq!(workshop.stream(id).unwrap().restarts, 2, "{what}");
        far.begin();
        let worked = far.run(&[vec![16.0]], &[0.0]);
        assert_eq!((worked.outputs, worked.clean), (vec![vec![16.0]], true), "{what}");
        workshop.close(id);
    }
}

#[test]
fn hanging_plugin_is_killed_and_restarted() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    for what in [2.0, 3.0, 4.0] {
        let (id, mut far) = opened(&workshop, request("odd:odd", 48_000, 64));
        far.hand_out(&[vec![1.0]], &[what], Flags::NONE);
        let state = becomes(&workshop, id, |state| state.restarts > 0);
        snapshot!(what, state.reason.as_ref().unwrap());
        far.begin();
        assert_eq!(far.run(&[vec![4.0]], &[0.0]).outputs, [[4.0]]);
        workshop.close(id);
    }
}

#[test]
fn killed_process_is_replaced_and_its_state_restored() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    let (id, mut far) = opened(&workshop, request("odd:odd", 48_000, 64));
    far.run(&[vec![1.0]], &[0.0]);
    becomes(&workshop, id, |state| state.counters.blocks == 1);
    let before = far.incarnation;
    signal("-KILL", workshop.process(id).unwrap());
    // The next process requests missing blocks.
    let worked = far.run(&[vec![2.0]], &[0.0]);
    assert_eq!((worked.outputs, worked.clean), (vec![vec![3.0]], true));
    assert!(far.incarnation > before, "{} after {before}", far.incarnation);
    let state = becomes(&workshop, id, |state| state.restarts == 1);
    assert!(state.reason.as_ref().is_some_and(|why| why.contains("SIGKILL")), "{state:?}");
    becomes(&workshop, id, |state| state.counters.blocks == 3);
}

#[test]
fn replayed_datagram_is_rejected_after_a_crash() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    let (id, mut far) = opened(&workshop, request("odd:odd", 48_000, 64));
    for block in 0..10 {
        far.run(&[vec![block as f32]], &[0.0]);
    }
    let kept = far.sent.clone();
    signal("-KILL", workshop.process(id).unwrap());
    far.run(&[vec![1.0]], &[0.0]);
    let before = becomes(&workshop, id, |state| state.counters.blocks >= 11).counters.auth_failed;
    far.play_again(&kept);
    let all = before + kept.len() as u64;
    let state = becomes(&workshop, id, |state| state.counters.auth_failed >= all);
    assert_eq!(state.counters.auth_failed, all);
    assert_eq!(far.run(&[vec![4.0]], &[0.0]).outputs, [[5.0]]);
}

#[test]
fn stalled_process_handles_all_waiting_blocks() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    let (id, mut far) = opened(&workshop, request("odd:odd", 48_000, 64));
    assert_eq!(far.run(&[vec![1.0]], &[0.0]).outputs, [[1.0]]);
    let process = workshop.process(id).unwrap();
    signal("-STOP", process);
    let blocks: Vec<_> = (0..20).map(|_| far.hand_out(&[vec![1.0]], &[0.0], Flags::NONE)).collect();
    // Drains answers for a fifth of a second.
    while far.receive() {}
    assert!(!far.receive());
    signal("-CONT", process);
    for block in blocks {
        let worked = far.await_block(block);
        assert_eq!((worked.outputs, worked.clean), (vec![vec![2.0]], true), "{block}");
    }
    assert_eq!(workshop.stream(id).unwrap().restarts, 0);
}

#[test]
fn too_slow_plugin_is_rejected_with_both_figures() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    for _ in 0..2 {
        // Measured, then known: no plugin takes 1 ns.
        let requested = StreamRequest { period_ns: Some(1), ..request("odd:odd", 48_000, 64) };
        let refused = workshop.open(requested, SECRET).unwrap_err();
        assert_eq!(refused.status(), 503);
        assert!(workshop.streams().is_empty());
    }
    assert!(workshop.catalogue().plugins[0].cost.is_some_and(|cost| cost.fixed_ns > 0.0));
    workshop.open(request("odd:odd", 48_000, 64), SECRET).unwrap();
}

#[test]
fn without_a_period_short_runs_are_assumed() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    let share = |max_frames, period_ns| {
        let requested = StreamRequest { period_ns, ..request("odd:odd", 48_000, max_frames) };
        workshop.open(requested, SECRET).unwrap().state.share
    };
    share(4096, None);
    let cost = workshop.catalogue().plugins[0].cost.unwrap();
    let expected = |frames: f64| of_run(cost, frames) / (frames * 1e9 / 48_000.0);
    for (max_frames, frames) in [(4096, 64.0), (64, 64.0), (16, 16.0)] {
        let (share, expected) = (share(max_frames, None), expected(frames));
        assert!((share / expected - 1.0).abs() < 1e-9, "{max_frames}: {share}, not {expected}");
    }
    let reported = share(4096, Some(10_000_000));
    assert!((reported / expected(480.0) - 1.0).abs() < 1e-9, "{reported}");
}

#[test]
fn plugin_cost_does_not_depend_on_the_first_host() {
    let shelf = Shelf::new();
    if shelf.with("heavy", &["HEAVY"]).is_none() {
        return;
    }
    let cost = |max_frames| {
        let workshop = workshop_of(shelf.path().to_owned(), options());
        // Enough even on a shared machine; 21 us per frame is not.
        let period_ns = Some(10_000_000);
        let requested = StreamRequest { period_ns, ..request("heavy:odd", 48_000, max_frames) };
        workshop.open(requested, SECRET).unwrap();
        workshop.catalogue().plugins[0].cost.unwrap().per_frame_ns
    };
    let (short, long) = (cost(1), cost(2048));
    // 200 iterations: some hundred nanoseconds anywhere.
    assert!(short > 20.0 && long > 20.0, "{short} and {long} ns for each frame");
}

fn kept_as(path: &Path, fixed_ns: f64) {
    let mut book: serde_json::Value =
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    book["costs"][0]["fixed_ns"] = fixed_ns.into();
    std::fs::write(path, book.to_string()).unwrap();
}

#[test]
fn stored_cost_is_remeasured_only_before_a_rejection() {
    let shelf = Shelf::new();
    if shelf.with("odd", &[]).is_none() {
        return;
    }
    let path = shelf.path().join("kept/costs.json");
    let start = || {
        let kept = WorkshopOptions { costs: Some(path.clone()), ..options() };
        workshop_of(shelf.path().to_owned(), kept)
    };
    let opened = |workshop: &PluginWorkshop| {
        let id = workshop.open(request("odd:odd", 48_000, 64), SECRET).unwrap().id;
        workshop.stream(id).unwrap().share
    };
    let first = start();
    assert_eq!(first.catalogue().plugins[0].cost, None);
    let measured = opened(&first);
    kept_as(&path, 400_000.0);
    let again = start();
    assert_eq!(again.catalogue().plugins[0].cost.unwrap().fixed_ns, 400_000.0);
    let kept = opened(&again);
    assert!((0.29..0.32).contains(&kept) && measured < 0.29, "{kept}, {measured}");
    kept_as(&path, 4e9);
    let anew = start();
    assert!(opened(&anew) < 0.29);
    assert!(anew.catalogue().plugins[0].cost.unwrap().fixed_ns < 400_000.0);
}

#[test]
fn request_without_a_fitting_worker_evicts_none() {
    let some = WorkshopOptions { max_streams: 2, silence: Span::ZERO, ..options() };
    let Some((_shelf, workshop)) = odd(some) else { return };
    let there = || workshop.streams().iter().map(|state| state.id).collect::<Vec<_>>();
    for _ in 0..2 {
        workshop.open(request("odd:odd", 48_000, 64), SECRET).unwrap();
        let before = there();
        let requested = StreamRequest { period_ns: Some(1), ..request("odd:odd", 48_000, 64) };
        let refused = workshop.open(requested, SECRET).unwrap_err();
        assert_eq!(refused.status(), 503, "{refused}");
        assert_eq!(there(), before);
    }
    let last = workshop.open(request("odd:odd", 48_000, 64), SECRET).unwrap().id;
    assert!(there().len() == 2 && there().contains(&last), "{:?}", there());
}

#[test]
fn silent_stream_makes_room_for_a_new_one() {
    let silence = Span::from_millis(300);
    let few = WorkshopOptions { max_streams: 2, silence, ..options() };
    let Some((_shelf, workshop)) = odd(few) else { return };
    let open = || workshop.open(request("odd:odd", 48_000, 64), SECRET);
    let silent = open().unwrap().id;
    let (received, mut far) = opened(&workshop, request("odd:odd", 48_000, 64));
    let until = Instant::now() + TIMEOUT;
    let third = loop {
        far.run(&[vec![1.0]], &[0.0]);
        match open() {
            Ok(third) => break third.id,
            Err(refused) => assert_eq!(refused.status(), 503),
        }
        assert!(Instant::now() < until);
    };
    let there: Vec<u32> = workshop.streams().iter().map(|state| state.id).collect();
    assert!(there.contains(&received) && there.contains(&third) && !there.contains(&silent));
}

#[test]
fn plain_datagrams_are_sent_to_permitted_hosts_only() {
    let Some((shelf, workshop)) = odd(options()) else { return };
    let stream = workshop.open(request("odd:odd", 48_000, 64), None).unwrap();
    let mut far = TestMaster::of(&stream, None);
    assert_eq!(far.run(&[vec![1.0]], &[0.0]).outputs, [[1.0]]);
    let strict = WorkshopOptions { cleartext: false, ..options() };
    let workshop = workshop_of(shelf.path().to_owned(), strict);
    let refused = workshop.open(request("odd:odd", 48_000, 64), None).unwrap_err();
    assert_eq!(refused.status(), 422);
    assert!(refused.to_string().contains("start it with --cleartext"), "{refused}");
}

#[test]
fn forged_datagrams_disturb_nothing_and_are_counted() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    let stream = workshop.open(request("odd:odd", 48_000, 64), SECRET).unwrap();
    let mut far = TestMaster::of(&stream, SECRET);
    let mut forger = TestMaster::of(&stream, Some([8; 32]));
    assert_eq!(far.run(&[vec![1.0]], &[0.0]).outputs, [[1.0]]);
    for _ in 0..50 {
        forger.hand_out(&[vec![9.0]], &[1.0], Flags::NONE);
    }
    assert_eq!(far.run(&[vec![2.0]], &[0.0]).outputs, [[3.0]]);
    let state = becomes(&workshop, stream.id, |state| state.counters.auth_failed >= 50);
    assert_eq!((state.restarts, state.counters.blocks), (0, 2));
}

#[test]
fn pipeline_output_equals_its_members() {
    let shelf = Shelf::new();
    if shelf.with("odd", &[]).is_none() {
        return;
    }
    let chains = "[[chain]]\nname = 'two'\nplugins = ['odd:odd', 'odd:odd']\n\
                  [[parallel]]\nname = 'both'\nplugins = ['two', 'odd:odd']\n\
                  [[chain]]\nname = 'all'\nplugins = ['both', 'odd:odd']";
    let chains = ChainFile::parse(Path::new("chains.toml"), chains).unwrap();
    let found = scan(&program(), &[shelf.path().to_owned()], SCAN_TIMEOUT);
    let offers = PluginOffers::new(&found, Some(&chains)).unwrap();
    let workshop = PluginWorkshop::new(options(), offers);
    let one = vec![1.0, 0.0, 0.0, 0.0];
    let (_, mut two) = opened(&workshop, request("two", 48_000, 64));
    let worked = two.run(std::slice::from_ref(&one), &[0.0; 2]);
    assert_eq!(worked.outputs, [[1.0, 2.0, 1.0, 0.0]]);
    assert_eq!((worked.reported, worked.latency), (vec![3.0; 2], 6));
    let (_, mut both) = opened(&workshop, request("both", 48_000, 64));
    let worked = both.run(&[one.clone(), one.clone()], &[0.0; 3]);
    assert_eq!(worked.outputs, [[1.0, 2.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]]);
    assert_eq!(worked.latency, 6);
    let (_, mut all) = opened(&workshop, request("all", 48_000, 64));
    assert_eq!((all.sound.controls_in, all.sound.controls_out), (4, 4));
    let worked = all.run(&[one.clone(), one], &[0.0; 4]);
    assert_eq!(worked.outputs, [[1.0, 3.0, 3.0, 1.0], [1.0, 2.0, 1.0, 0.0]]);
    assert_eq!(worked.latency, 9);
}

pub(crate) fn signal(name: &str, process: u32) {
    let sent = Command::new("kill").args([name, &process.to_string()]).status().unwrap();
    assert!(sent.success(), "kill {name} {process}");
    // Each thread stops a moment later, and the process only counts as stopped once all have
    // (proc_pid_stat(5)).
    let until = Instant::now() + TIMEOUT;
    while name == "-STOP" && !all_threads_stopped(process) {
        assert!(Instant::now() < until, "{process} does not stop");
        std::thread::yield_now();
    }
}

fn all_threads_stopped(process: u32) -> bool {
    let mut threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    threads.all(|thread| {
        // A thread that has just ended has no file.
        let stat = std::fs::read_to_string(thread.unwrap().path().join("stat"));
        let stat = stat.unwrap_or_else(|_| ") T".to_owned());
        stat.rsplit(") ").next().is_some_and(|state| state.starts_with('T'))
    })
}

#[test]
fn words_on_standard_output_disturb_nothing() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    let (id, mut far) = opened(&workshop, request("odd:odd", 48_000, 64));
    for _ in 0..100 {
        far.run(&[vec![1.0]], &[5.0]);
    }
    let state = becomes(&workshop, id, |state| state.counters.blocks == 100);
    assert_eq!((state.restarts, state.reason), (0, None));
}

#[test]
fn invalid_control_values_are_counted_and_harmless() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    let (id, mut far) = opened(&workshop, request("odd:odd", 48_000, 64));
    for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        far.run(&[vec![1.0]], &[odd]);
    }
    let state = becomes(&workshop, id, |state| state.reason.is_some());
    let why = state.reason.unwrap();
    snapshot!(why);
}

#[test]
fn a_plugin_that_will_not_begin_is_refused_with_its_words() {
    let shelf = Shelf::new();
    if shelf.with("refuses", &["REFUSES"]).is_none() {
        return;
    }
    let workshop = workshop_of(shelf.path().to_owned(), options());
    let refused = workshop.open(request("refuses:odd", 48_000, 64), SECRET).unwrap_err();
    assert_eq!(refused.status(), 500);
    let said = refused.to_string();
    snapshot!(said);
    assert!(
        workshop.streams().is_empty() && workshop.capacity().used_share.iter().sum::<f64>() == 0.0
    );
}

#[test]
fn missing_or_changed_library_is_reported() {
    let Some((shelf, workshop)) = odd(options()) else { return };
    let open = |hash: Option<&str>| {
        let hash = hash.map(str::to_owned);
        workshop.open(StreamRequest { hash, ..request("odd:odd", 48_000, 64) }, SECRET)
    };
    let hash = workshop.catalogue().plugins[0].hash.clone();
    open(Some(&hash)).unwrap();
    assert_eq!(open(Some("00")).unwrap_err().status(), 410);
    let file = shelf.path().join("odd.so");
    std::fs::remove_file(&file).unwrap();
    let said = open(None).unwrap_err().to_string();
    assert!(said.contains("removed"), "{said}");
    std::fs::write(&file, "another").unwrap();
    let said = open(None).unwrap_err().to_string();
    snapshot!(said);
    let none = workshop.open(request("odd:none", 48_000, 64), SECRET).unwrap_err();
    assert_eq!(none, WorkRefused::NoSuchPlugin("odd:none".to_owned()));
}

#[test]
fn invalid_requests_are_refused_with_valid_values() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    let good = request("odd:odd", 48_000, 64);
    let of = |change: &dyn Fn(&mut StreamRequest)| {
        let mut request = good.clone();
        change(&mut request);
        request
    };
    for (number, bad) in [
        of(&|r| r.version = 2),
        of(&|r| r.rate = 0),
        of(&|r| r.rate = u32::MAX),
        of(&|r| r.max_frames = 0),
        of(&|r| r.max_frames = u32::MAX),
        of(&|r| r.datagram_bytes = 3),
        of(&|r| r.datagram_bytes = u32::MAX),
        of(&|r| r.history = 0),
        of(&|r| r.history = u32::MAX),
        of(&|r| r.copies = 200),
        of(&|r| r.period_ns = Some(0)),
        of(&|r| (r.max_frames, r.history) = (65_536, 65_536)),
    ]
    .into_iter()
    .enumerate()
    {
        let refused = workshop.open(bad, SECRET).unwrap_err();
        assert_eq!(refused.status(), 422, "{refused}");
        snapshot!(number, refused);
    }
    assert!(workshop.streams().is_empty());
}

#[test]
fn big_endian_master_gets_big_endian_samples() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    let other = match ByteOrder::NATIVE {
        ByteOrder::Little => ByteOrder::Big,
        ByteOrder::Big => ByteOrder::Little,
    };
    let requested = StreamRequest { byte_order: other, ..request("odd:odd", 48_000, 64) };
    let (_, mut far) = opened(&workshop, requested);
    let swapped = |value: f32| f32::from_bits(value.to_bits().swap_bytes());
    let worked = far.run(&[vec![swapped(1.0), swapped(2.0)]], &[0.0]);
    assert_eq!(worked.outputs, [[swapped(1.0), swapped(3.0)]]);
    assert_eq!(worked.reported, [swapped(3.0)]);
}

#[test]
fn the_answer_has_the_byte_order_of_the_request() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    for byte_order in [ByteOrder::Little, ByteOrder::Big] {
        let requested = StreamRequest { byte_order, ..request("odd:odd", 48_000, 64) };
        assert_eq!(workshop.open(requested, SECRET).unwrap().byte_order, byte_order);
    }
}

#[test]
fn rejected_requests_leave_no_resources() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    let open = || workshop.open(request("odd:odd", 48_000, 64), SECRET);
    let ids: Vec<u32> = (0..8).map(|_| open().unwrap().id).collect();
    let files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let (before, mut maximum) = (files(), 0);
    for _ in 0..10_000 {
        let refused = open().unwrap_err();
        assert_eq!(refused.status(), 503, "{refused}");
        maximum = maximum.max(workshop.streams().len());
    }
    assert_eq!(maximum, 8);
    // Concurrent tests open files too.
    assert!(files() < before + 200, "{} of {before}", files());
    ids.iter().for_each(|id| assert!(workshop.close(*id)));
    assert_eq!(workshop.capacity().used_share.iter().sum::<f64>(), 0.0);
    open().unwrap();
}

#[test]
fn a_stream_starts_idle_and_runs_while_blocks_come() {
    let Some((_shelf, workshop)) = odd(options()) else { return };
    let (id, mut far) = opened(&workshop, request("odd:odd", 48_000, 64));
    assert_eq!(workshop.stream(id).unwrap().phase, StreamPhase::Idle);
    let until = Instant::now() + TIMEOUT;
    while workshop.stream(id).unwrap().phase != StreamPhase::Running {
        assert!(Instant::now() < until);
        far.run(&[vec![1.0]], &[0.0]);
    }
    becomes(&workshop, id, |state| state.phase == StreamPhase::Idle);
}
