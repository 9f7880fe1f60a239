//! Effects of a pushed file on the schedule, zones and processes.

use super::*;

#[test]
fn push_replaces_a_changed_calendar_and_the_schedule() {
    let run = Run::of(CARD);
    let rule = |more: &str| {
        let station = "[priorities]\npage = 100\n[station.bell]\nnode = \"east\"\npriority = \"page\"\n\
                       rank = 1\nto = [\"hall\"]\n[message.gong]\nfile = \"gong.wav\"\n";
        let rule = "[schedule.bell]\nat = \"08:00\"\nzones = [\"hall\"]\nstation = \"bell\"\nmessage = \"gong\"\n";
        newer(&format!("{station}{rule}{more}"))
            .replace("epoch = 2", "epoch = 2\ntimezone = \"UTC\"")
    };
    let days = || {
        let player = run.node.player.lock().unwrap();
        let after = "2026-01-05T00:00:00Z".parse().unwrap();
        player.as_ref().map(|it| it.schedule().plays(after, 1)[0].at.to_string())
    };
    assert_eq!(days(), None);
    let text = rule("holidays = \"free.ics\"\n");
    let free = |day: &str| format!("BEGIN:VEVENT\nDTSTART:{day}\nEND:VEVENT\n");
    for (day, next) in [("20260105", "2026-01-06T08:00:00Z"), ("20260106", "2026-01-05T08:00:00Z")]
    {
        let calendar = free(day).into_bytes();
        let given = push(text.clone(), &[("free.ics", &calendar)]);
        let missing = run.node.push(given.clone()).unwrap().missing;
        assert_eq!(missing, [crate::files::sha256(&calendar)]);
        run.node.stage(&missing[0], &calendar).unwrap();
        assert_eq!(run.node.push(given).unwrap().missing, [""; 0]);
        assert_eq!(file_of(&run, "free.ics"), Some(calendar));
        run.node.update();
        assert_eq!(days().as_deref(), Some(next));
    }
    // The operator edits it in the folder of this node, so the push finds no difference.
    let calendar = free("20260105").into_bytes();
    std::fs::write(run.folder.path().join("site/free.ics"), &calendar).unwrap();
    assert_eq!(run.node.push(push(text.clone(), &[("free.ics", &calendar)])).unwrap().epoch, 2);
    run.node.update();
    assert_eq!(days().as_deref(), Some("2026-01-06T08:00:00Z"));
    // What it has played is known to the next schedule.
    let journal = crate::schedule::Journal::from([("bell".to_owned(), 5)]);
    crate::disk::write_json(&run.folder.path().join("zones.journal.json"), &journal).unwrap();
    let site = Site::check(text.as_bytes()).unwrap();
    assert_eq!(*run.node.new_player(&site).unwrap().journal(), journal);
    run.end();
}

#[test]
fn pushed_file_without_a_zone_ends_its_faults() {
    let run = Run::of(CARD);
    run.until(ZonePlayback::Playing);
    run.node.set_fault(FaultKind::Silent, "hall", Some(String::new()));
    let (kept, _) = BUILDING.split_once("[zone.hall]").unwrap();
    let attic = "[zone.attic]\nnumber = 2\nnode = \"east\"\ncard = \"main\"\nchannels = [1]\n";
    let pushed = |text: String| {
        run.node.push(push(text, &[])).unwrap();
        run.node.update();
    };
    pushed(kept.replace("epoch = 1", "epoch = 2") + attic);
    let state = run.node.state();
    let zones: Vec<_> = state.zones.iter().map(|it| it.zone.as_str()).collect();
    assert_eq!(zones, ["attic"]);
    let faults: Vec<_> = state.faults.iter().map(|it| (it.kind, it.lasts)).collect();
    assert_eq!(faults, [(FaultKind::Silent, false)]);
    pushed(BUILDING.replace("epoch = 1", "epoch = 3"));
    let source = ZoneChange { source: Some("other".into()), ..change("hall") };
    run.node.change(source).unwrap();
    let without = BUILDING.replace("[source.other]\nstream = \"rtp://239.1.2.3:5004\"\n", "");
    pushed(without.replace("epoch = 1", "epoch = 4"));
    assert_eq!(run.node.standing().saved.of("hall").source, None);
    run.end();
}

#[test]
fn part_of_a_card_has_its_groups_and_muting_stations() {
    let of = |more: &str| {
        let run = Run::of(CARD);
        run.node.push(push(newer(more), &[])).unwrap();
        run.node.update();
        let part = run.node.part(&Role::Card("main".into()));
        run.end();
        part
    };
    let station = "[priorities]\npage = 100\n[station.desk]\nnode = \"east\"\npriority = \"page\"\n\
                   rank = 1\nto = [\"hall\"]\n";
    let group = "[group.all]\nnumber = 9\nmembers = [\"hall\"]\n";
    let parts = ["", station, &format!("{station}mutes = \"hall\"\n"), group].map(of);
    assert_eq!(parts[0], parts[1]);
    assert!(parts[2] != parts[0] && parts[3] != parts[0]);
}

#[test]
fn unsynchronized_clock_is_a_fault_with_a_schedule_only() {
    let run = Run::of(CARD);
    let clock = || {
        run.node.play_schedule();
        run.node.state().faults.iter().any(|it| it.kind == FaultKind::Clock && it.lasts)
    };
    assert!(!clock());
    let rule = "[preset.quiet]\nhall = { mute = true }\n[schedule.night]\ncron = \"0 0 30 2 *\"\n\
                preset = \"quiet\"\n";
    let text = newer(rule).replace("epoch = 2", "epoch = 2\ntimezone = \"UTC\"");
    run.node.push(push(text, &[])).unwrap();
    run.node.update();
    let kernel = tautline_io::clock::disciplined::KernelClock::read();
    assert_eq!(clock(), kernel.is_none_or(|it| !it.synchronised));
    run.end();
}

#[test]
fn station_of_a_newer_file_is_named_though_the_card_runs_on() {
    let run = Run::of(
        r#"read first; while read line; do echo '{"state":{"zone":"hall","state":"playing","announcements":
            [{"id":"aa","rank":7,"result":"playing"}]}}' | tr -d '\n'; echo; done"#,
    );
    let card = Role::Card("main".into());
    let before = loop {
        match run.process(&card) {
            None => std::thread::yield_now(),
            process => break process,
        }
    };
    let station = "[priorities]\nfire = 230\n[station.alarm]\nnode = \"east\"\npriority = \"fire\"\n\
                   rank = 7\nto = [\"hall\"]\n";
    run.node.push(push(newer(station), &[])).unwrap();
    run.node.update();
    run.node.change(ZoneChange { volume: Some("-4dB".into()), ..change("hall") }).unwrap();
    let zone = run.until(ZonePlayback::Playing);
    assert_eq!(zone.announcements[0].station.as_deref(), Some("alarm"));
    assert_eq!(run.process(&card), before, "the card runs on");
    run.end();
}
