use std::path::Path;

use crate::experiments::{EXPERIMENTS, Experiment};
use crate::hosts::HostPlace;

impl Experiment {
    /// Whether the step is an experiment. Other steps prepare an experiment.
    pub(super) fn is_experiment(&self) -> bool {
        self.words.starts_with("lab ")
    }

    pub(super) fn json(&self) -> String {
        format!("{}.json", self.name)
    }

    pub(super) fn page(&self) -> String {
        format!("{}.html", self.name)
    }

    pub(super) fn log(&self) -> String {
        format!("{}.log", self.name)
    }

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

    pub(super) fn words(&self, folder: &Path, with: &HostPlace) -> Vec<String> {
        let folder = folder.display().to_string();
        let own = self.words.split(' ').map(|word| word.replace("{folder}", &folder));
        let mut words: Vec<String> = own.collect();
        if self.sends && *with != HostPlace::Local {
            words.extend(["--with".to_owned(), with.to_string()]);
        }
        words
    }

    pub(super) fn reports(&self, folder: &Path) -> Vec<String> {
        if !self.is_experiment() {
            return Vec::new();
        }
        let file = |name| ["--report-file".to_owned(), folder.join(name).display().to_string()];
        let none = ["--report".to_owned(), "none".to_owned()];
        none.into_iter().chain(self.files().into_iter().flat_map(file)).collect()
    }
}

/// All steps if `only` is empty, else the steps in `only` and their prerequisites.
pub(super) fn needed(only: &[&'static Experiment]) -> Vec<&'static Experiment> {
    let requested = EXPERIMENTS.iter().filter(|known| only.is_empty() || only.contains(known));
    let mut requested: Vec<_> = requested.collect();
    requested.sort_by_key(|experiment| experiment.turn);
    requested
        .into_iter()
        .flat_map(|experiment| experiment.needs.into_iter().chain([experiment]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_is_among_all() {
        let steps = needed(&[]);
        for experiment in EXPERIMENTS {
            assert!(steps.contains(&experiment), "{}", experiment.name);
        }
        let experiments = steps.iter().filter(|step| step.is_experiment());
        assert_eq!(experiments.count(), EXPERIMENTS.len());
    }

    #[test]
    fn steps_are_built_before_they_are_needed_only() {
        let names = |only: &[&'static Experiment]| -> Vec<&str> {
            needed(only).iter().map(|step| step.name).collect()
        };
        assert_eq!(names(&[]).len(), EXPERIMENTS.len() + 2);
        assert_eq!(names(&[Experiment::named("align").unwrap()]), ["demo", "align"]);
        let [stalls, interval] =
            ["stalls", "interval"].map(|name| Experiment::named(name).unwrap());
        assert_eq!(names(&[interval, stalls]), ["stalls", "sent", "interval"]);
    }

    #[test]
    fn sender_gets_an_address_and_each_end_writes_both_reports() {
        let words = |name| {
            let step = Experiment::named(name).unwrap();
            step.words(Path::new("/a b"), &HostPlace::Namespace("far".into()))
        };
        let ladder = words("latency-sweep");
        assert!(ladder.windows(2).any(|pair| pair == ["--with", "netns:far"]), "{ladder:?}");
        let reports = Experiment::named("latency-sweep").unwrap().reports(Path::new("/a b"));
        let files = ["/a b/latency-sweep.json", "/a b/latency-sweep.html"];
        assert_eq!(
            reports,
            ["--report", "none", "--report-file", files[0], "--report-file", files[1]]
        );
        let between = words("align");
        assert!(between.contains(&"/a b/receiver-1.wav".to_owned()), "{between:?}");
        assert!(!between.contains(&"--with".to_owned()));
    }
}
