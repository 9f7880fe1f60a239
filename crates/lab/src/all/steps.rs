//! What is run, in which order, and how shortly.

use std::path::Path;

use crate::experiments::EXPERIMENTS;
use crate::hosts::HostPlace;

/// An experiment as it is run among all of them, or what one needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AllStep {
    /// Of the experiment, or of what is made for one.
    pub name: &'static str,
    /// Its own words on the command line, `{folder}` being where the reports go.
    words: &'static str,
    /// Whether it sends a stream and is told where its receiver is.
    sends: bool,
    /// What must have been made before.
    needs: Option<&'static str>,
}

const fn machine(name: &'static str, words: &'static str) -> AllStep {
    AllStep { name, words, sends: false, needs: None }
}

const fn sends(name: &'static str, words: &'static str) -> AllStep {
    AllStep { name, words, sends: true, needs: None }
}

const fn after(needs: &'static str, name: &'static str, words: &'static str) -> AllStep {
    AllStep { name, words, sends: false, needs: Some(needs) }
}

/// All of them: the machine first, what was measured on it after.
pub(super) const STEPS: &[AllStep] = &[
    machine("stalls", "lab stalls --duration 3s"),
    machine("resources", "lab resources --duration 3s"),
    machine("kernel", "lab kernel --duration 500ms"),
    machine("handover", "lab handover --device virtual: --duration 3s"),
    sends("stages", "lab stages --duration 5s --settle 1s"),
    sends("ladder", "lab ladder --duration 1s --settle 1s"),
    sends(
        "least",
        // Buffers that outlast what keeps a core of a shared machine, up to 119 ms.
        "lab least --period 240 --periods 32 --step 50ms --most 500ms --duration 500ms --settle 1s \
         --hold 1s",
    ),
    sends("schedulers", "lab schedulers --duration 500ms --settle 1s"),
    sends("network", "lab network --duration 500ms --settle 1s"),
    sends("starved", "lab starved --duration 1s --settle 1s"),
    sends("load", "lab load --duration 1s --settle 1s --most 16 --hold 2 --allow 1%"),
    machine(
        "capacity",
        "lab capacity --workers 1 --workers-here --virtual-work --step 500us --attempt 100ms \
         --idle 500ms --hold 500ms",
    ),
    sends("overhead", "lab overhead --duration 1s --settle 1s --rounds 2"),
    sends("quality", "lab quality"),
    machine(
        "delay",
        "lab delay --output virtual:?cable=taut-all --input virtual:?cable=taut-all&delay=5ms \
         --duration 5s",
    ),
    machine("mouth-to-ear", "lab mouth-to-ear --only latency --duration 1s --settle 500ms"),
    machine("demo", "demo --seconds 5 --out {folder} --quiet"),
    after("demo", "between", "lab between {folder}/receiver-1.wav"),
    machine(
        "sent",
        // Nobody hears it: how evenly packets leave is the sender's own doing.
        "send --input tone:997 --to rtp://127.77.0.1:5004 --duration 3s --ledger {folder}/sent.csv \
         --quiet",
    ),
    after("sent", "interval", "lab interval --ledger {folder}/sent.csv"),
];

impl AllStep {
    /// The experiment of that name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        STEPS.iter().find(|step| step.name == name && step.is_experiment())
    }

    /// What it does, in a sentence.
    pub(super) fn does(&self) -> &'static str {
        match EXPERIMENTS.iter().find(|experiment| experiment.name == self.name) {
            Some(experiment) => experiment.does,
            None if self.name == "demo" => "carry the recording that two taps are taken of",
            None => "send the packets whose intervals are looked at",
        }
    }

    /// Whether it finds anything; else it is made for one that does.
    pub(super) fn is_experiment(&self) -> bool {
        self.words.starts_with("lab ")
    }

    /// The report for programs, beside the others.
    pub(super) fn json(&self) -> String {
        format!("{}.json", self.name)
    }

    /// The report as a page.
    pub(super) fn page(&self) -> String {
        format!("{}.html", self.name)
    }

    /// What it said on the way.
    pub(super) fn log(&self) -> String {
        format!("{}.log", self.name)
    }

    /// What it writes that is read later.
    pub(super) fn leaves(&self) -> Vec<String> {
        match self.name {
            "demo" => vec!["receiver-1.wav".to_owned()],
            "sent" => vec!["sent.csv".to_owned()],
            _ => self.files(),
        }
    }

    fn files(&self) -> Vec<String> {
        if self.is_experiment() { vec![self.json(), self.page()] } else { Vec::new() }
    }

    /// How anybody calls it, after the program's name.
    pub(super) fn words(&self, folder: &Path, with: &HostPlace) -> Vec<String> {
        let folder = folder.display().to_string();
        let own = self.words.split(' ').map(|word| word.replace("{folder}", &folder));
        let mut words: Vec<String> = own.collect();
        if self.sends && *with != HostPlace::Local {
            words.extend(["--with".to_owned(), with.to_string()]);
        }
        words
    }

    /// What is said besides, so that it writes its reports.
    pub(super) fn reports(&self, folder: &Path) -> Vec<String> {
        if !self.is_experiment() {
            return Vec::new();
        }
        let file = |name| ["--report-file".to_owned(), folder.join(name).display().to_string()];
        let none = ["--report".to_owned(), "none".to_owned()];
        none.into_iter().chain(self.files().into_iter().flat_map(file)).collect()
    }
}

/// What is run for these: all if there is none, else they and what they need, in the order of all.
pub(super) fn needed(only: &[&'static AllStep]) -> Vec<&'static AllStep> {
    let asked = |step: &AllStep| only.is_empty() || only.iter().any(|one| one.name == step.name);
    let for_one = |name: &str| STEPS.iter().any(|step| step.needs == Some(name) && asked(step));
    STEPS.iter().filter(|step| asked(step) || for_one(step.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_is_among_all() {
        for experiment in EXPERIMENTS {
            assert!(AllStep::named(experiment.name).is_some(), "{}", experiment.name);
        }
        let experiments = STEPS.iter().filter(|step| step.is_experiment());
        assert_eq!(experiments.count(), EXPERIMENTS.len());
    }

    #[test]
    fn what_one_needs_is_made_before_it_and_nothing_else() {
        let names = |only: &[&'static AllStep]| -> Vec<&str> {
            needed(only).iter().map(|step| step.name).collect()
        };
        assert_eq!(names(&[]).len(), STEPS.len());
        assert_eq!(names(&[AllStep::named("between").unwrap()]), ["demo", "between"]);
        let [stalls, interval] = ["stalls", "interval"].map(|name| AllStep::named(name).unwrap());
        assert_eq!(names(&[interval, stalls]), ["stalls", "sent", "interval"]);
    }

    #[test]
    fn one_that_sends_is_told_where_and_each_writes_both_reports() {
        let words = |name| {
            let step = AllStep::named(name).unwrap();
            step.words(Path::new("/a b"), &HostPlace::Namespace("far".into()))
        };
        let ladder = words("ladder");
        assert!(ladder.windows(2).any(|pair| pair == ["--with", "netns:far"]), "{ladder:?}");
        let reports = AllStep::named("ladder").unwrap().reports(Path::new("/a b"));
        let files = ["/a b/ladder.json", "/a b/ladder.html"];
        assert_eq!(
            reports,
            ["--report", "none", "--report-file", files[0], "--report-file", files[1]]
        );
        let between = words("between");
        assert!(between.contains(&"/a b/receiver-1.wav".to_owned()), "{between:?}");
        assert!(!between.contains(&"--with".to_owned()));
    }
}
