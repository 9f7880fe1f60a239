//! `taut site check`: exit statuses and the places of the building file.

use std::collections::BTreeSet;
use std::fs;

use tautline_trial::snapshot;

use crate::common::Folder;
use crate::common::program::{Call, taut, words};

fn check(folder: &Folder) -> Call {
    taut(words("site check")).in_folder(folder.path()).with("TAUT_HOME", folder.file("home"))
}

#[test]
fn mistakes_are_printed_and_end_with_status_2() {
    let folder = Folder::new();
    fs::write(
        folder.file("building.toml"),
        "epoch = 0\nannouncements = \"239.255.77.1:5004\"\n[zone.gym]\n",
    )
    .unwrap();
    let ended = check(&folder).run();
    assert_eq!(ended.status, Some(2), "{ended:#?}");
    assert_eq!(ended.out.lines().count(), 5, "{ended:#?}");
    assert_eq!(ended.messages, ["error: 5 mistakes in building.toml"]);
    let quiet = check(&folder).and(["--report", "none"]).run();
    assert_eq!((quiet.status, quiet.out.as_str()), (Some(2), ""));
}

#[test]
fn current_folder_comes_before_taut_home() {
    let folder = Folder::new();
    fs::create_dir(folder.file("home")).unwrap();
    let building = |epoch| format!("epoch = {epoch}\nannouncements = \"239.255.77.1:5004\"\n");
    fs::write(folder.file("home").join("building.toml"), building(2)).unwrap();
    let epoch = || {
        let ended = check(&folder).and(["--report", "json"]).run();
        assert_eq!(ended.status, Some(0), "{ended:#?}");
        let json: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
        json["epoch"].as_u64()
    };
    assert_eq!(epoch(), Some(2));
    fs::write(folder.file("building.toml"), building(1)).unwrap();
    assert_eq!(epoch(), Some(1));
}

/// Each snippet extends the building of the demo, but those of `local.toml`.
#[test]
fn recipes_are_valid_and_ring_no_bell_on_holidays() {
    const PAGE: &str = include_str!("../../../../docs/guide/recipes.md");
    const DEMO: &str = include_str!("../../src/cmd/demo/building.toml");
    let blocks = |kind: &str| {
        let begins = format!("```{kind}\n");
        let blocks = PAGE.split(&begins).skip(1).filter_map(|block| block.split("```").next());
        blocks.map(str::to_owned).collect::<Vec<_>>()
    };
    let folder = Folder::new();
    let [holidays] = &blocks("ics")[..] else { panic!("not one calendar") };
    fs::write(folder.file("holidays.ics"), holidays).unwrap();
    let recipes: Vec<_> =
        blocks("toml").into_iter().filter(|block| !block.starts_with("# local.toml")).collect();
    assert!(recipes.len() > 5, "{recipes:#?}");
    let all = format!("{DEMO}\n{}", recipes.join("\n"));
    for recipe in recipes.iter().map(|recipe| format!("{DEMO}\n{recipe}")).chain([all]) {
        fs::write(folder.file("building.toml"), &recipe).unwrap();
        let ended = check(&folder).run();
        assert_eq!((ended.status, ended.out.lines().count()), (Some(0), 1), "{recipe}{ended:#?}");
    }
    // One bell a day, so that the list has more than a year.
    let bell = recipes[0].replace("at = [\"08:00\", ", "at = [\"08:00\"] #");
    fs::write(folder.file("building.toml"), format!("{DEMO}\n{bell}")).unwrap();
    let next = taut(words("schedule next 1000 --report json")).in_folder(folder.path());
    let next: serde_json::Value = serde_json::from_str(&next.run().well().out).unwrap();
    let plays = next["plays"].as_array().unwrap().iter();
    let bells = plays.filter(|play| play["rule"] == "lesson");
    let days: BTreeSet<_> =
        bells.map(|play| play["time"].as_str().unwrap()[5..10].to_owned()).collect();
    // At least one of the three holidays is a working day.
    let in_december = days.range("12-01".to_owned().."12-24".to_owned()).count();
    assert!(in_december > 10, "{days:?}");
    assert_eq!(days.range("12-24".to_owned().."12-27".to_owned()).count(), 0, "{days:?}");
}

#[test]
fn calendar_that_cannot_be_used_ends_with_status_1() {
    let folder = Folder::new();
    let building = "epoch = 1\nannouncements = \"239.255.77.1:5004\"\ntimezone = \"UTC\"\n\
                    [node.a]\nhost = \"10.0.0.1\"\n[preset.night]\n[schedule.night]\nat = \"22:00\"\n\
                    preset = \"night\"\nholidays = \"holidays.ics\"\n";
    fs::write(folder.file("building.toml"), building).unwrap();
    assert_eq!(check(&folder).run().status, Some(1));
    fs::write(folder.file("holidays.ics"), "garbage").unwrap();
    assert_eq!(check(&folder).run().status, Some(1));
    fs::write(folder.file("holidays.ics"), "BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n").unwrap();
    let valid = check(&folder).run();
    assert_eq!(valid.status, Some(0), "{valid:#?}");
}

#[test]
fn missing_recordings_and_keys_are_reported() {
    let folder = Folder::new();
    let building = "epoch = 1\nannouncements = \"239.255.77.1:5004\"\nsrtp-key-file = \"group.key\"\n\
                    [message.gong]\nfile = \"gong.wav\"\n";
    fs::write(folder.file("building.toml"), building).unwrap();
    let reported = || {
        let ended = check(&folder).run();
        assert_eq!(ended.status, Some(0), "{ended:#?}");
        let files = ["gong.wav", "group.key"];
        files.map(|file| ended.messages.iter().any(|it| it.contains(file)))
    };
    assert_eq!(reported(), [true, true]);
    fs::write(folder.file("gong.wav"), "").unwrap();
    assert_eq!(reported(), [false, true]);
    fs::write(folder.file("group.key"), "").unwrap();
    assert_eq!(reported(), [false, false]);
}

#[test]
fn missing_building_file_is_an_error_with_a_hint() {
    let folder = Folder::new();
    let named = check(&folder).and(["absent.toml"]).run();
    assert_eq!(named.status, Some(3), "{named:#?}");
    snapshot!("named", named.messages.join("\n"));
    let unnamed = check(&folder).run();
    assert_eq!(unnamed.status, Some(3), "{unnamed:#?}");
    snapshot!("unnamed", unnamed.messages.join("\n"));
}
