//! Who a machine is and whom it trusts.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tautline_trial::snapshot;

use crate::common::Folder;
use crate::common::program::{Call, taut, words};
use crate::errors::is_refused;

fn at(home: &Folder, line: &str) -> Call {
    taut(words(line)).with("TAUT_HOME", home.path())
}

#[test]
fn what_one_machine_prints_the_other_takes() {
    let (here, there) = (Folder::new(), Folder::new());
    let printed = at(&there, "id").run().well().out;
    assert_eq!(printed, at(&there, "id").run().well().out, "made once");
    assert_eq!(at(&here, &format!("trust {printed}")).run().well().out, "");
    assert_eq!(at(&here, "trust --list").run().well().out, printed);
    let (told, known) = (at(&there, "id --report json"), at(&here, "trust --list --report json"));
    let (told, known) = (told.run().well().json(), known.run().well().json());
    for field in ["name", "key", "pin"] {
        assert_eq!(known["trusted"][0][field], told[field], "{field}");
    }
    let name = told["name"].as_str().unwrap();
    at(&here, &format!("trust --remove {name}")).run().well();
    let nobody = at(&here, "trust --list").run().well();
    assert_eq!(nobody.out, "");
    snapshot!(nobody.last());
}

#[test]
fn a_name_that_gets_another_key_is_told() {
    let home = Folder::new();
    let key = |byte: char| format!("{}=", byte.to_string().repeat(43));
    at(&home, &format!("trust studio {}", key('A'))).run().well();
    let ended = at(&home, &format!("trust studio {}", key('E'))).run().well();
    assert!(ended.last().contains("studio") && ended.last().contains("AAAA"), "{ended:?}");
}

#[test]
fn a_key_or_name_that_is_none_is_refused_with_the_mend() {
    let home = Folder::new();
    is_refused(&at(&home, "trust studio x"), 2);
    let key = format!("{}=", "A".repeat(43));
    is_refused(&at(&home, &format!("trust a/b {key}")), 2);
    is_refused(&at(&home, "trust studio"), 2);
    is_refused(&at(&home, "trust"), 2);
    is_refused(&at(&home, "trust --remove attic"), 2);
}

#[test]
fn a_key_that_others_may_read_is_refused_with_the_mend() {
    let home = Folder::new();
    at(&home, "id").run().well();
    let identity = home.file("identity.pem");
    std::fs::set_permissions(identity, PermissionsExt::from_mode(0o644)).unwrap();
    is_refused(&at(&home, "id"), 3);
}

#[test]
fn what_is_exported_is_for_its_owner_alone() {
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
fn what_the_file_has_for_workers_is_no_option_of_a_command() {
    let folder = Folder::new();
    let file = "workers = [\"10.0.0.2\"]\n[offload]\nwindow = 1\n";
    std::fs::write(folder.file("tautline.toml"), file).unwrap();
    let join = taut(words("doctor --report none --latency 0ms")).in_folder(folder.path());
    is_refused(&join, 2);
}
