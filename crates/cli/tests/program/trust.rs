//! Identity and trust of machines.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tautline_trial::snapshot;

use crate::common::Folder;
use crate::common::program::{Call, Running, taut, words};
use crate::errors::is_refused;

fn at(home: &Folder, line: &str) -> Call {
    taut(words(line)).with("TAUT_HOME", home.path())
}

#[test]
fn printed_key_is_accepted_by_the_other_machine() {
    let (here, there) = (Folder::new(), Folder::new());
    let printed = at(&there, "id").run().well().out;
    assert_eq!(printed, at(&there, "id").run().well().out, "made once");
    assert_eq!(at(&here, &format!("trust {printed}")).run().well().out, "");
    assert_eq!(at(&here, "trust --list").run().well().out, printed);
    let (reported, known) =
        (at(&there, "id --report json"), at(&here, "trust --list --report json"));
    let (reported, known) = (reported.run().well().json(), known.run().well().json());
    for field in ["name", "key", "pin"] {
        assert_eq!(known["trusted"][0][field], reported[field], "{field}");
    }
    let name = reported["name"].as_str().unwrap();
    at(&here, &format!("trust --remove {name}")).run().well();
    let nobody = at(&here, "trust --list").run().well();
    assert_eq!(nobody.out, "");
    snapshot!(nobody.messages.join("\n"));
}

#[test]
fn changed_key_of_a_name_is_reported() {
    let home = Folder::new();
    let key = |byte: char| format!("{}=", byte.to_string().repeat(43));
    at(&home, &format!("trust studio {}", key('A'))).run().well();
    let ended = at(&home, &format!("trust studio {}", key('E'))).run().well();
    assert!(ended.last().contains("studio") && ended.last().contains("AAAA"), "{ended:?}");
}

#[test]
fn invalid_key_or_name_is_refused_with_a_hint() {
    let home = Folder::new();
    is_refused(&at(&home, "trust studio x"), 2);
    let key = format!("{}=", "A".repeat(43));
    is_refused(&at(&home, &format!("trust a/b {key}")), 2);
    is_refused(&at(&home, "trust studio"), 2);
    is_refused(&at(&home, "trust"), 2);
    is_refused(&at(&home, "trust --remove attic"), 2);
}

#[test]
fn key_readable_by_others_is_refused_with_a_hint() {
    let home = Folder::new();
    at(&home, "id").run().well();
    let identity = home.file("identity.pem");
    std::fs::set_permissions(identity, PermissionsExt::from_mode(0o644)).unwrap();
    is_refused(&at(&home, "id"), 3);
}

#[test]
fn exported_key_is_readable_by_its_owner_only() {
    let home = Folder::new();
    let keys = home.file("keys");
    let ended = at(&home, "id --export").and([&keys]).run().well();
    snapshot!(ended.last());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&keys.join("taut-key.pem")), 0o600);
    let key = std::fs::read_to_string(keys.join("taut-key.pem")).unwrap();
    let secret = key.lines().nth(1).unwrap();
    assert!(!format!("{ended:?}").contains(secret));
}

#[test]
fn worker_sections_of_the_file_are_not_options() {
    let folder = Folder::new();
    let file = "workers = [\"10.0.0.2\"]\n[offload]\nwindow = 1\n";
    std::fs::write(folder.file("tautline.toml"), file).unwrap();
    let join = taut(words("doctor --report none --latency 0ms")).in_folder(folder.path());
    is_refused(&join, 2);
}

fn code(shown: &Running) -> String {
    let line =
        shown.messages().find_map(|line| line.strip_prefix("taut: code: ").map(str::to_owned));
    line.unwrap().split(',').next().unwrap().to_owned()
}

fn both_show_a_code(here: &Folder, there: &Folder, name: &str) -> [Running; 2] {
    let waits = at(there, "pair --listen 127.0.0.1:0").requested().start().wait_for("waiting at");
    let line = format!("pair {name}{}", waits.address());
    let calls = at(here, &line).requested().start().wait_for("type y");
    [calls, waits.wait_for("type y")]
}

fn list(home: &Folder) -> Value {
    at(home, "trust --list --report json").run().well().json()["trusted"].clone()
}

fn key(home: &Folder) -> Value {
    at(home, "id --report json").run().well().json()["key"].clone()
}

#[test]
fn machines_are_paired_once_both_users_confirm_the_code() {
    let (here, there) = (Folder::new(), Folder::new());
    let [calls, waits] = both_show_a_code(&here, &there, "studio=");
    assert_eq!(code(&calls), code(&waits));
    assert_eq!(list(&here), serde_json::json!([]), "before it was confirmed");
    let [calls, waits] = [calls, waits].map(|end| end.enter("y"));
    let ended = [calls.end().well(), waits.end().well()];
    snapshot!(ended[0].last());
    assert_eq!((&list(&here)[0]["name"], &list(&here)[0]["key"]), (&"studio".into(), &key(&there)));
    assert_eq!(list(&there)[0]["key"], key(&here));
}

#[test]
fn no_key_is_stored_where_one_user_sees_another_code() {
    let (here, there) = (Folder::new(), Folder::new());
    for answers in [["y", "n"], ["", "y"]] {
        let ends = both_show_a_code(&here, &there, "");
        let ends: Vec<_> =
            ends.into_iter().zip(answers).map(|(end, answer)| end.enter(answer)).collect();
        for end in ends {
            let ended = end.end();
            assert_eq!(ended.status, Some(1), "{ended:?}");
        }
        assert_eq!([list(&here), list(&there)], [serde_json::json!([]), serde_json::json!([])]);
    }
}

#[test]
fn pairing_refuses_the_name_of_another_machine_and_itself() {
    let (here, there) = (Folder::new(), Folder::new());
    let other = format!("{}=", "A".repeat(43));
    at(&here, &format!("trust studio {other}")).run().well();
    let waits = at(&there, "pair --listen 127.0.0.1:0").requested().start().wait_for("waiting at");
    let ended = at(&here, &format!("pair studio={}", waits.address())).run();
    assert_eq!(ended.status, Some(2), "{ended:?}");
    assert!(ended.messages.iter().any(|line| line.contains(&other)), "{ended:?}");
    assert_eq!(list(&here)[0]["key"], other.as_str());
    let waits = waits.wait_for("type y").enter("y").end();
    let own = key(&there);
    assert!(waits.messages.iter().any(|line| line.contains(own.as_str().unwrap())), "{waits:?}");
    let waits = at(&there, "pair --listen 127.0.0.1:0").requested().start().wait_for("waiting at");
    let ended = at(&there, &format!("pair {}", waits.address())).run();
    assert_eq!(ended.status, Some(1), "{ended:?}");
}
