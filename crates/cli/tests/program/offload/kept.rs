//! Plugins saved by `taut plugins` for hosts.

use std::net::SocketAddr;
use tautline_trial::snapshot;

use serde_json::{Value, json};

use super::{TestWorker, cost_library, taut, words};
use crate::common::Folder;
use crate::common::messages;
use crate::common::program::{Call, Ended};
use crate::errors::is_refused;

struct Desk {
    cache: Folder,
    folder: Folder,
}

impl Desk {
    fn new() -> Self {
        Self { cache: Folder::new(), folder: Folder::new() }
    }

    fn keeping(addresses: &[&str]) -> Self {
        let desk = Self::new();
        let worker = |address: &&str| {
            let name = address.split(['=', ':']).next().unwrap();
            let catalogue = json!({ "version": 1, "worker": name, "plugins": [] });
            json!({ "address": address, "name": name, "catalogue": catalogue })
        };
        let workers: Vec<_> = addresses.iter().map(worker).collect();
        std::fs::create_dir(desk.cache.file("tautline")).unwrap();
        let text = json!({ "version": 1, "workers": workers }).to_string();
        std::fs::write(desk.cache.file("tautline/plugins.json"), text).unwrap();
        desk
    }

    fn call(&self, line: &str) -> Call {
        let call = taut(words(line)).with("XDG_CACHE_HOME", self.cache.path());
        call.with("LADSPA_PATH", self.folder.path()).in_folder(self.folder.path())
    }

    fn run(&self, line: &str) -> Ended {
        self.call(line).run()
    }

    fn kept(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.cache.file("tautline/plugins.json")).unwrap();
        let kept: Value = serde_json::from_str(&text).unwrap();
        let workers = kept["workers"].as_array().unwrap().clone();
        workers.iter().map(|worker| worker["address"].as_str().unwrap().to_owned()).collect()
    }
}

fn two_workers() -> [TestWorker; 2] {
    let cost = cost_library();
    [TestWorker::start(&[&cost], ""), TestWorker::start(&[&cost], "")]
}

fn addresses(workers: &[TestWorker; 2]) -> [SocketAddr; 2] {
    workers.each_ref().map(|worker| worker.address)
}

#[track_caller]
fn says(ended: &Ended, sentence: &str) {
    assert!(
        ended.messages.iter().any(|line| line.contains(sentence)),
        "no {sentence:?}: {ended:#?}"
    );
}

#[test]
fn saving_is_reported_and_a_name_means_the_last_saved_worker() {
    let (workers, desk) = (two_workers(), Desk::new());
    let [one, other] = addresses(&workers);
    desk.run(&format!("plugins --worker {one} --save")).well();
    let saved = desk.run(&format!("plugins --worker {other} --save")).well();
    assert_eq!(desk.kept(), [one.to_string(), other.to_string()]);
    snapshot!("both", saved.messages.join("\n"));
    let desk = Desk::new();
    let saved = desk.run(&format!("plugins --worker studio={one} --save")).well();
    snapshot!("one", saved.messages.join("\n"));
    let moved = desk.run(&format!("plugins --worker studio={other} --save")).well();
    assert_eq!(desk.kept(), [format!("studio={other}")]);
    says(&moved, &messages::moved(one, other));
    let named = format!("workers = [\"studio={one}\"]\n");
    std::fs::write(desk.folder.file("tautline.toml"), named).unwrap();
    let moved = desk.run("plugins --save").well();
    assert_eq!(desk.kept(), [format!("studio={one}")]);
    says(&moved, &messages::moved(other, one));
    let again = desk.run("plugins --save").well();
    assert_eq!(again.messages.len(), 1, "it did not move: {again:#?}");
}

#[test]
fn saved_plugins_are_listed_by_their_labels_without_asking() {
    let desk = Desk::keeping(&["attic=127.0.0.1:1", "studio=127.0.0.1:2"]);
    let port = |name: &str, descriptor: u32| json!({ "name": name, "descriptor": descriptor, "hints": 0, "lower": 0.0, "upper": 0.0 });
    let ports = [port("In", 9), port("Out", 10)];
    let plugin = json!({ "id": "verb:hall, large", "file": "verb.so", "label": "hall", "unique_id": 1,
        "name": "Hall", "maker": "", "copyright": "", "properties": 0, "ports": ports, "hash": "" });
    let path = desk.cache.file("tautline/plugins.json");
    let mut kept: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    for worker in kept["workers"].as_array_mut().unwrap() {
        worker["catalogue"]["plugins"] = json!([plugin]);
    }
    std::fs::write(&path, kept.to_string()).unwrap();
    let pipeline = "[[pipeline]]\nname = \"both\"\nplugins = [\"studio/verb:hall, large\", \"attic/verb:hall, large\"]\n";
    std::fs::write(desk.folder.file("tautline.toml"), pipeline).unwrap();
    let call = |line: &str| desk.call(line).with("TAUT_HOME", desk.folder.path());
    let listed = call("plugins --saved --report json").run().well();
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    let field = |name: &str| -> Vec<Value> {
        listed["saved"].as_array().unwrap().iter().map(|row| row[name].clone()).collect()
    };
    let labels = ["verb:hall__large@attic", "verb:hall__large@studio", "both@studio+attic"];
    assert_eq!(field("label"), labels);
    assert_eq!(field("worker"), ["attic", "studio", "studio+attic"]);
    assert_eq!(field("name"), ["Hall", "Hall", "both"]);
    let page = call("plugins --saved").run().well().out;
    let lines: Vec<_> = page.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(lines, labels);
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    let none = Desk::new().run("plugins --saved").well();
    assert_eq!((none.out.as_str(), none.messages.len()), ("", 1));
}

#[test]
fn one_name_for_two_workers_is_refused_before_any_contact() {
    let desk = Desk::keeping(&["attic=10.77.0.9:17230"]);
    let line = "plugins --worker studio=127.0.0.1:1 --worker studio=127.0.0.1:2 --save";
    is_refused(&desk.call(line), 2);
    assert_eq!(desk.kept(), ["attic=10.77.0.9:17230"]);
}

#[test]
fn worker_is_forgotten_by_any_form_of_name_or_address() {
    let all = ["attic=10.77.0.9:17230", "studio=10.77.0.2:17230", "rack=[fe80::2]:9000"];
    for (word, meant) in [
        ("studio", 1),
        ("10.77.0.2", 1),
        ("10.77.0.2:17230", 1),
        ("studio=10.77.0.2", 1),
        ("studio=10.77.0.2:17230", 1),
        ("fe80::2", 2),
        ("[fe80::2]", 2),
        ("[fe80::2]:9000", 2),
    ] {
        let desk = Desk::keeping(&all);
        let ended = desk.run(&format!("plugins --forget {word}")).well();
        let left: Vec<_> = all.into_iter().filter(|one| *one != all[meant]).collect();
        assert_eq!(desk.kept(), left, "{word}");
        snapshot!(word, ended.last());
    }
    let desk = Desk::keeping(&all);
    let ended = desk.run("plugins --forget attic --forget 10.77.0.2").well();
    snapshot!("two", ended.last());
    for word in ["10.77.0.2:9000", "10.77.0", "rack=10.77.0.2"] {
        let call = desk.call(&format!("plugins --forget {word}"));
        is_refused(&call, 2);
    }
}

#[test]
fn ambiguous_word_lists_each_worker_as_it_can_be_typed() {
    for (word, all) in [
        ("10.77.0.2", ["10.77.0.2:17230", "studio=10.77.0.2:17230"]),
        ("10.77.0.2", ["rack=10.77.0.2:9000", "studio=10.77.0.2:17230"]),
        ("127.0.0.1", ["127.0.0.1:1", "127.0.0.1:2"]),
        // As saved when a name could mean several workers.
        ("studio", ["studio=10.77.0.2:17230", "studio=10.77.0.3:17230"]),
    ] {
        for meant in all {
            let desk = Desk::keeping(&all);
            is_refused(&desk.call(&format!("plugins --forget {word}")), 2);
            assert_eq!(desk.kept(), all);
            desk.run(&format!("plugins --forget {meant}")).well();
            assert!(!desk.kept().contains(&meant.to_owned()), "{meant} of {all:?}");
            assert_eq!(desk.kept().len(), 1, "{meant} of {all:?}");
        }
    }
}

#[test]
fn forgetting_nothing_is_reported() {
    for desk in [Desk::new(), Desk::keeping(&[])] {
        is_refused(&desk.call("plugins --forget attic"), 2);
    }
}

#[test]
fn workers_that_answer_are_listed_despite_one_that_does_not() {
    let workers = two_workers();
    let [one, other] = addresses(&workers);
    let request =
        format!("plugins --worker studio={one} --worker attic=127.0.0.1:1 --worker rack={other}");
    for report in ["text", "json"] {
        let desk = Desk::keeping(&["attic=127.0.0.1:1"]);
        let ended = desk.run(&format!("{request} --save --report {report}"));
        assert_eq!(ended.status, Some(3), "{ended:#?}");
        says(&ended, "error: attic=127.0.0.1:1: ");
        let kept = ["attic=127.0.0.1:1", &format!("studio={one}"), &format!("rack={other}")];
        assert_eq!(desk.kept(), kept);
        for name in ["studio", "rack"] {
            let [text, json] = [format!("{name}, at "), format!("\"name\": \"{name}\"")];
            let listed = if report == "text" { text } else { json };
            assert!(ended.out.contains(&listed), "no {listed:?}: {ended:#?}");
        }
        assert!(!ended.out.contains("attic"), "{ended:#?}");
    }
}

#[test]
fn each_silent_worker_is_reported_and_without_any_no_list() {
    let desk = Desk::keeping(&["attic=127.0.0.1:1"]);
    let line = "plugins --worker attic=127.0.0.1:1 --worker rack=127.0.0.1:2 --save --report json";
    let ended = desk.run(line);
    assert_eq!((ended.status, &*ended.out), (Some(3), ""), "{ended:#?}");
    let [attic, rack] = ended.messages.as_slice() else { panic!("not two lines: {ended:#?}") };
    assert!(attic.starts_with("error: attic=127.0.0.1:1: "), "{attic}");
    assert!(rack.starts_with("error: rack=127.0.0.1:2: "), "{rack}");
    assert_eq!(desk.kept(), ["attic=127.0.0.1:1"]);
}

#[test]
fn missing_ladspa_path_folder_is_reported_with_a_hint() {
    let desk = Desk::new();
    let there = desk.folder.path().display();
    for path in ["/nodir".to_owned(), format!("/nodir:{there}:/none")] {
        let listed = desk.call("plugins").with("LADSPA_PATH", &path).run().well();
        let [sentence] = listed.messages.as_slice() else { panic!("{listed:#?}") };
        snapshot!(path, sentence);
        let worker = desk.call("work --listen 127.0.0.1:0 --scheduler other").listened_to();
        let running = worker.with("LADSPA_PATH", &path).start().wait_for("worker at ");
        let is_reported = |line: &String| sentence.lines().next() == Some(line.as_str());
        assert!(running.messages().any(is_reported), "{:#?}", running.messages().last());
    }
    // Not every machine has each default folder, and scripts/install names them.
    let usual = format!("{there}:/usr/local/lib/ladspa:/usr/lib/ladspa");
    let listed = desk.call("plugins").with("LADSPA_PATH", usual).run().well();
    assert!(listed.messages.is_empty(), "{listed:#?}");
}
