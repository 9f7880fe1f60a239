//! Queries libraries for their plugins.

use tautline_trial::snapshot;

use std::path::Path;

use tautline_api::v1::{Catalogue, VERSION};
use tautline_host::chain::ChainFile;
use tautline_host::offers::PluginOffers;
use tautline_host::scan::{Scan, TIMEOUT, scan};
use tautline_proto::time::Span;

use crate::common::{Shelf, installed, program};

fn scanned(shelf: &Shelf, timeout: Span) -> Scan {
    scan(&program(), &[shelf.path().to_owned()], timeout)
}

fn why<'a>(scan: &'a Scan, name: &str) -> &'a str {
    let of = |path: &std::path::Path| path.file_stem().is_some_and(|stem| stem == name);
    let found = scan.skipped.iter().find(|skipped| of(&skipped.path));
    &found.unwrap_or_else(|| panic!("{name} was not skipped: {scan:#?}")).why
}

#[test]
fn the_plugins_of_debian_are_all_found() {
    for file in ["cmt.so", "plate_1423.so", "tap_reverb.so"] {
        let Some(folder) = installed(file) else { return };
        let found = scan(&program(), &[folder.clone(), folder], TIMEOUT);
        assert_eq!(found.skipped, [], "{file}");
        let count: usize = found.libraries.iter().map(|library| library.plugins.len()).sum();
        let name = file.trim_end_matches(".so");
        let library = found.libraries.iter().find(|library| library.file == name).unwrap();
        assert!(count > 100 && !library.plugins.is_empty(), "{count}, of {library:?}");
        assert_eq!(library.hash.len(), 64);
    }
}

#[test]
fn the_library_that_shows_other_workers_plugins_is_left_out() {
    let shelf = Shelf::new();
    if shelf.with("tautline", &[]).is_none() || shelf.with("odd", &[]).is_none() {
        return;
    }
    let found = scanned(&shelf, TIMEOUT);
    assert_eq!(found.libraries.len(), 1);
    assert!(why(&found, "tautline").contains("other workers"), "{found:?}");
}

#[test]
fn unloadable_library_is_skipped() {
    let shelf = Shelf::new();
    for (name, does) in [
        ("good", &[][..]),
        ("crashes", &["CRASHES"]),
        ("leaves", &["LEAVES"]),
        ("endless", &["ENDLESS"]),
        ("spaced", &["SPACED_LABEL"]),
        ("strange", &["STRANGE_PORT"]),
        ("talks", &["TALKS"]),
    ] {
        if shelf.with(name, does).is_none() {
            return;
        }
    }
    std::fs::write(shelf.path().join("text.so"), "no library").unwrap();
    std::fs::write(shelf.path().join("notes.txt"), "nobody's").unwrap();
    let found = scanned(&shelf, TIMEOUT);
    let usable = |name| {
        let library = found.libraries.iter().find(|library| library.file == name);
        library.map_or(0, |library| library.plugins.len())
    };
    assert_eq!([usable("good"), usable("talks"), usable("spaced")], [1, 1, 0], "{found:#?}");
    for name in ["crashes", "leaves", "endless", "spaced", "strange", "text"] {
        snapshot!(format!("{name:?}"), why(&found, name));
    }
    assert_eq!(found.skipped.len(), 6, "{found:#?}");
}

#[test]
fn hanging_library_is_skipped_after_the_timeout() {
    let shelf = Shelf::new();
    if shelf.with("hangs", &["HANGS"]).is_none() {
        return;
    }
    let found = scanned(&shelf, Span::from_millis(200));
    snapshot!(why(&found, "hangs"));
}

#[test]
fn a_plugin_is_described_as_its_library_has_it() {
    let shelf = Shelf::new();
    if shelf.with("good", &[]).is_none() {
        return;
    }
    let found = scanned(&shelf, TIMEOUT);
    let plugin = &found.libraries[0].plugins[0];
    assert_eq!((&*plugin.label, &*plugin.name, plugin.unique_id), ("odd", "Odd", 901));
    let names: Vec<_> = plugin.ports.iter().map(|port| &*port.name).collect();
    assert_eq!(names, ["In", "Out", "What", "latency"]);
    assert!(plugin.ports[3].is_latency() && !plugin.ports[2].is_latency());
}

fn catalogue(offers: &PluginOffers) -> Catalogue {
    let plugins = offers.all().iter().map(|offer| offer.plugin.clone()).collect();
    Catalogue { version: VERSION, worker: "here".to_owned(), plugins }
}

fn ids(offers: &PluginOffers) -> Vec<&str> {
    offers.all().iter().map(|offer| &*offer.plugin.id).collect()
}

#[test]
fn odd_plugin_texts_are_sanitised() {
    let shelf = Shelf::new();
    for (name, does) in [("good", &[][..]), ("odd", &["ODD_TEXTS"]), ("bell", &["BELL_LABEL"])] {
        if shelf.with(name, does).is_none() {
            return;
        }
    }
    let found = scanned(&shelf, TIMEOUT);
    let offers = PluginOffers::new(&found, None).unwrap();
    assert_eq!(catalogue(&offers).check(), Ok(Vec::new()));
    assert_eq!(ids(&offers), ["good:odd", "odd:odd"]);
    let plugin = &offers.find("odd:odd").unwrap().plugin;
    assert_eq!((&*plugin.copyright, &*plugin.ports[0].name), (r"GPL\n", r"In\tput"));
    assert_eq!(plugin.maker, "m".repeat(1023) + "…");
    snapshot!(why(&found, "bell"));
}

#[test]
fn unacceptable_plugin_is_left_out_with_the_reason() {
    let shelf = Shelf::new();
    for (name, does) in [("good", &[][..]), ("five", &["FIFTH_PORT"]), ("line\nfeed", &[])] {
        if shelf.with(name, does).is_none() {
            return;
        }
    }
    let members = ["'five:odd'"; 256].join(", ");
    let chains = format!(
        "[[parallel]]\nname = 'wide'\nplugins = [{members}]\n\
         [[chain]]\nname = 'fits'\nplugins = ['good:odd']"
    );
    let chains = ChainFile::parse(Path::new("chains.toml"), &chains).unwrap();
    let offers = PluginOffers::new(&scanned(&shelf, TIMEOUT), Some(&chains)).unwrap();
    assert_eq!(catalogue(&offers).check(), Ok(Vec::new()));
    assert_eq!(ids(&offers), ["five:odd", "good:odd", "fits"]);
    let whys: Vec<_> = offers.skipped().iter().map(|skipped| &*skipped.why).collect();
    assert_eq!(whys.len(), 2, "{whys:?}");
    snapshot!(whys[0]);
    snapshot!(whys[1]);
    assert_eq!(offers.skipped()[1].path, Path::new("chains.toml"));
}
