use tautline_trial::snapshot;

use std::os::unix::fs::PermissionsExt;

use super::*;

fn home() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

pub(super) struct OpenedStore {
    pub(super) store: Arc<TrustStore>,
    _folder: tempfile::TempDir,
}

pub(super) fn opened() -> OpenedStore {
    let folder = home();
    OpenedStore { store: TrustStore::open(folder.path()).unwrap(), _folder: folder }
}

fn rights(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_folder_is_that_of_taut_else_of_the_user() {
    let of = |set: &[(&str, &str)]| {
        let found = |name: &str| set.iter().find(|(known, _)| *known == name);
        folder(|name| found(name).map(|(_, value)| PathBuf::from(value))).ok()
    };
    let all = [("TAUT_HOME", "/t"), ("XDG_CONFIG_HOME", "/x"), ("HOME", "/h")];
    assert_eq!(of(&all), Some("/t".into()));
    assert_eq!(of(&all[1..]), Some("/x/tautline".into()));
    assert_eq!(of(&all[2..]), Some("/h/.config/tautline".into()));
    assert_eq!(
        of(&[("XDG_CONFIG_HOME", "relative"), ("HOME", "/h")]),
        Some("/h/.config/tautline".into())
    );
    assert_eq!(of(&[]), None);
}

#[test]
fn a_key_is_made_once_and_for_its_owner_alone() {
    let home = home();
    let folder = home.path().join("not/yet");
    assert!(HostIdentity::load(&folder).unwrap().is_none());
    let made = HostIdentity::load_or_make(&folder).unwrap();
    let again = HostIdentity::load_or_make(&folder).unwrap();
    assert_eq!(made.key(), again.key());
    assert_ne!(made.key(), HostIdentity::made().unwrap().key());
    assert_eq!(mode(&folder.join("identity.pem")), 0o600);
    assert_eq!(mode(&folder), 0o700);
    let left: Vec<_> = std::fs::read_dir(&folder).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing beside it: {left:?}");
}

#[test]
fn of_several_that_make_a_key_at_once_all_have_the_same() {
    let home = home();
    let keys: Vec<_> = std::thread::scope(|scope| {
        let make = || HostIdentity::load_or_make(home.path()).map(|made| made.key());
        let all: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
        all.into_iter().map(|one| one.join().unwrap().unwrap()).collect()
    });
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[test]
fn key_readable_by_others_is_refused_with_a_hint() {
    let home = home();
    let path = home.path().join("identity.pem");
    HostIdentity::load_or_make(home.path()).unwrap();
    for wrong in [0o640, 0o604, 0o660, 0o601] {
        rights(&path, wrong);
        let error = HostIdentity::load_or_make(home.path()).expect_err("others may read it");
        let hint = format!("\nhint: chmod 600 {};", path.display());
        assert!(error.to_string().contains(&hint), "{error}");
    }
    rights(&path, 0o600);
    assert!(HostIdentity::load_or_make(home.path()).is_ok());
}

#[test]
fn damaged_key_file_is_reported_and_kept() {
    let home = home();
    let path = home.path().join("identity.pem");
    let whole = HostIdentity::made().unwrap().key_pem();
    let cut = whole.replace("MC4C", "MC4D");
    let rsa = whole.replace("PRIVATE KEY", "RSA PRIVATE KEY");
    for text in [
        "",
        "nonsense",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        &cut,
        &rsa,
    ] {
        std::fs::write(&path, text).unwrap();
        rights(&path, 0o600);
        let error = HostIdentity::load_or_make(home.path()).expect_err("no key").to_string();
        snapshot!(error);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    std::fs::write(&path, whole + &"x".repeat(100_000)).unwrap();
    let error = HostIdentity::load(home.path()).expect_err("a key, and no end of it");
    snapshot!(error);
}

#[test]
fn debug_output_of_an_identity_has_no_secret() {
    let identity = HostIdentity::made().unwrap();
    assert_eq!(format!("{identity:?}"), format!("HostIdentity({})", identity.key()));
}

#[test]
fn exported_certificate_belongs_to_the_key() {
    let home = home();
    let identity = HostIdentity::load_or_make(home.path()).unwrap();
    let out = home.path().join("out");
    identity.export(&out).unwrap();
    assert_eq!((mode(&out.join("taut-key.pem")), mode(&out.join("taut-cert.pem"))), (0o600, 0o644));
    let kept = std::fs::read_to_string(home.path().join("identity.pem")).unwrap();
    for name in ["taut-key.pem", "taut-cert.pem"] {
        assert!(kept.contains(&std::fs::read_to_string(out.join(name)).unwrap()), "{name}");
    }
}

#[test]
fn a_key_in_text_is_read_again() {
    let key = HostIdentity::made().unwrap().key();
    assert_eq!(key.to_string().parse(), Ok(key));
    assert_eq!(key.to_string().len(), 44);
    let text = key.to_string();
    for wrong in [
        "",
        "x",
        &text[..43],
        &format!("{text}="),
        &text[4..],
        "ssh-ed25519 AAAA",
        &"A".repeat(9999),
    ] {
        let error = wrong.parse::<HostKey>().expect_err(wrong).to_string();
        assert!(error.contains("taut id") && error.len() < 300, "{error}");
    }
}

#[test]
fn trusted_host_is_listed_until_removed() {
    let home = home();
    let list = TrustFile::in_folder(&home.path().join("new"));
    let keys = [1, 2, 3].map(|byte| HostKey::new([byte; 32]));
    assert!(list.hosts().unwrap().is_empty());
    assert_eq!(list.trust("studio.local", keys[0]).unwrap(), None);
    assert_eq!(list.trust("attic", keys[1]).unwrap(), None);
    assert_eq!(list.trust("attic", keys[1]).unwrap(), None, "the same again");
    assert_eq!(list.trust("attic", keys[2]).unwrap(), Some(keys[1]), "another key");
    let hosts = list.hosts().unwrap();
    assert_eq!(hosts.iter().collect::<Vec<_>>(), [("attic", keys[2]), ("studio.local", keys[0])]);
    assert_eq!((hosts.name(keys[0]), hosts.name(keys[1])), (Some("studio.local"), None));
    assert_eq!(hosts.key("attic"), Some(keys[2]));
    assert_eq!(mode(list.path()), 0o600);
    assert_eq!(list.remove("attic").unwrap(), Some(keys[2]));
    assert_eq!(list.remove("attic").unwrap(), None);
    assert_eq!(list.hosts().unwrap().key("attic"), None);
}

#[test]
fn place_of_a_paired_host_is_kept_with_its_key_and_no_longer() {
    let home = home();
    let list = TrustFile::in_folder(home.path());
    let keys = [1, 2].map(|byte| HostKey::new([byte; 32]));
    std::fs::write(list.path(), format!("\"attic\" = \"{}\"\n", keys[1])).unwrap();
    rights(list.path(), 0o600);
    list.trust_at("studio", keys[0], Some("10.0.0.2")).unwrap();
    let places = || {
        let hosts = TrustFile::in_folder(home.path()).hosts().unwrap();
        ["attic", "studio"].map(|name| (hosts.key(name), hosts.place(name).map(str::to_owned)))
    };
    let place = Some("10.0.0.2".to_owned());
    assert_eq!(places(), [(Some(keys[1]), None), (Some(keys[0]), place.clone())]);
    list.trust("studio", keys[0]).unwrap();
    assert_eq!(places()[1], (Some(keys[0]), place));
    list.trust("studio", keys[1]).unwrap();
    assert_eq!(places()[1], (Some(keys[1]), None), "it is another host");
    for odd in ["a b", "\"", "\u{202e}", "", &"x".repeat(321)] {
        list.trust_at("studio", keys[1], Some(odd)).unwrap();
        assert_eq!(places()[1], (Some(keys[1]), None), "{odd:?}");
        std::fs::write(list.path(), format!("studio = '{} {odd}'", keys[0])).unwrap();
        assert!(list.hosts().is_err(), "{odd:?}");
        std::fs::write(list.path(), "").unwrap();
    }
}

#[test]
fn several_that_change_the_list_at_once_undo_nothing() {
    let home = home();
    std::thread::scope(|scope| {
        for byte in 0..8 {
            let list = TrustFile::in_folder(home.path());
            let name = format!("host{byte}");
            scope.spawn(move || list.trust(&name, HostKey::new([byte; 32])).unwrap());
        }
    });
    assert_eq!(TrustFile::in_folder(home.path()).hosts().unwrap().iter().count(), 8);
}

#[test]
fn a_change_by_another_process_is_seen_at_once() {
    let home = home();
    let (mine, other) = (TrustFile::in_folder(home.path()), TrustFile::in_folder(home.path()));
    for byte in 0..20 {
        let key = HostKey::new([byte; 32]);
        other.trust("host", key).unwrap();
        assert_eq!(mine.hosts().unwrap().key("host"), Some(key));
    }
    std::fs::remove_file(other.path()).unwrap();
    assert!(mine.hosts().unwrap().is_empty());
}

#[test]
fn a_name_that_would_not_stand_in_the_list_is_refused() {
    let home = home();
    let list = TrustFile::in_folder(home.path());
    for name in ["", "two words", "a=b", "\"", "a\nb", &"x".repeat(65), "ä", "a/b"] {
        let error = list.trust(name, HostKey::new([0; 32])).expect_err(name);
        assert!(matches!(error, TrustError::Name(_)), "{error:?}");
    }
    assert!(!list.path().exists());
}

#[test]
fn damaged_trust_list_is_empty_and_kept() {
    let home = home();
    let list = TrustFile::in_folder(home.path());
    let key = HostKey::new([1; 32]);
    for text in [
        "attic = ",
        "attic = 1",
        "attic = \"AAAA\"",
        "[attic]\nkey = \"x\"",
        "\"a b\" = \"x\"",
        "\u{0}",
    ] {
        std::fs::write(list.path(), text).unwrap();
        rights(list.path(), 0o600);
        for error in
            [list.hosts().map(drop), list.trust("b", key).map(drop), list.remove("b").map(drop)]
        {
            snapshot!(format!("{text:?}"), error.expect_err(text));
        }
        assert_eq!(std::fs::read_to_string(list.path()).unwrap(), text);
    }
}

#[test]
fn list_writable_by_others_is_refused_with_a_hint() {
    let home = home();
    let list = TrustFile::in_folder(home.path());
    list.trust("attic", HostKey::new([1; 32])).unwrap();
    for wrong in [0o620, 0o602, 0o666] {
        rights(list.path(), wrong);
        let error = TrustFile::in_folder(home.path()).hosts().expect_err("others may change it");
        let hint = format!("\nhint: chmod 600 {};", list.path().display());
        assert!(error.to_string().contains(&hint), "{error}");
    }
    rights(list.path(), 0o644);
    assert!(TrustFile::in_folder(home.path()).hosts().is_ok(), "it is no secret");
    assert!(list.hosts().is_ok());
    rights(list.path(), 0o666);
    assert!(list.hosts().is_err());
}

#[test]
fn nothing_in_a_folder_that_others_may_change_is_believed() {
    let home = home();
    let list = || TrustFile::in_folder(home.path());
    list().trust("attic", HostKey::new([1; 32])).unwrap();
    HostIdentity::load_or_make(home.path()).unwrap();
    for wrong in [0o720, 0o702, 0o777] {
        rights(home.path(), wrong);
        for error in [
            list().hosts().map(drop),
            list().trust("b", HostKey::new([2; 32])).map(drop),
            HostIdentity::load_or_make(home.path()).map(drop),
        ] {
            let error = error.expect_err("others may change it");
            let TrustError::Rights { path, mode, right, .. } = error else { panic!("{error}") };
            assert_eq!((&*path, mode, right), (home.path(), wrong, 0o700));
        }
    }
    rights(home.path(), 0o755);
    assert!(list().hosts().is_ok() && HostIdentity::load(home.path()).is_ok());
}

#[test]
fn nothing_that_another_user_owns_is_believed() {
    let home = home();
    let list = TrustFile::in_folder(home.path());
    list.trust("attic", HostKey::new([1; 32])).unwrap();
    HostIdentity::load_or_make(home.path()).unwrap();
    let give = |path: &Path, user| std::os::unix::fs::chown(path, Some(user), None);
    let [file, key, folder] =
        [list.path().to_owned(), home.path().join("identity.pem"), home.path().to_owned()];
    for given in [&file, &key, &folder] {
        if give(given, 65_534).is_err() {
            return tautline_trial::skipped(tautline_trial::Lack::Privilege, "chown needs root");
        }
        let hosts = TrustFile::in_folder(home.path()).hosts().map(drop);
        let identity = HostIdentity::load(home.path()).map(drop);
        for (believed, from) in [(hosts, &file), (identity, &key)] {
            match believed {
                Err(TrustError::Owner { path, owner: 65_534 }) if path == *given => {}
                other => assert!(given != from && *given != folder && other.is_ok(), "{other:?}"),
            }
        }
        give(given, 0).unwrap();
    }
}

#[test]
fn a_host_has_a_name_that_can_be_trusted() {
    let name = host_name();
    assert!(!name.is_empty() && name.chars().all(trusted::is_name_character), "{name}");
}
