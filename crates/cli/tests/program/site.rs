//! `taut site check`: exit statuses and the places of the building file.

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
fn missing_building_file_is_an_error_with_a_hint() {
    let folder = Folder::new();
    let named = check(&folder).and(["absent.toml"]).run();
    assert_eq!(named.status, Some(3), "{named:#?}");
    snapshot!("named", named.messages.join("\n"));
    let unnamed = check(&folder).run();
    assert_eq!(unnamed.status, Some(3), "{unnamed:#?}");
    snapshot!("unnamed", unnamed.messages.join("\n"));
}
