use serde_json::Value;
use tautline_api::client::WorkerAddress;
use tautline_engine::monitor::shell::shell_line;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredWorker {
    /// `[NAME=]HOST:PORT`, unique among saved workers.
    pub(super) address: String,
    /// Distinguishes its plugins from other workers'.
    pub(super) name: String,
    /// `None` if the file contains no valid address.
    place: Option<WorkerAddress>,
    /// Given by the user. Otherwise it is the host's name, which several workers may share.
    is_named: bool,
}

impl StoredWorker {
    pub(super) fn of(worker: &WorkerAddress) -> Self {
        Self {
            address: worker.to_string(),
            name: worker.name.clone().unwrap_or_else(|| worker.host.clone()),
            place: Some(WorkerAddress { name: None, ..worker.clone() }),
            is_named: worker.name.is_some(),
        }
    }

    pub(super) fn kept(worker: &Value) -> Self {
        let text = |key: &str| worker[key].as_str().unwrap_or_default().to_owned();
        let (address, name) = (text("address"), text("name"));
        match address.parse::<WorkerAddress>() {
            Ok(read) => Self { address, name, ..Self::of(&read) },
            Err(_) => Self { address, name, place: None, is_named: true },
        }
    }

    pub(super) fn place(&self) -> String {
        self.place.as_ref().map_or_else(|| self.address.clone(), WorkerAddress::to_string)
    }

    /// Whether both are the same worker: same address, or same user-given name.
    pub(super) fn is_one_with(&self, other: &Self) -> bool {
        let share_a_name = self.name == other.name && (self.is_named || other.is_named);
        self.address == other.address || share_a_name
    }

    fn is_called(&self, word: &str) -> bool {
        let is_place = |word: &str| {
            self.place.as_ref().is_some_and(|place| {
                let host = word.strip_prefix('[').and_then(|word| word.strip_suffix(']'));
                host.unwrap_or(word) == place.host || word == place.to_string()
            })
        };
        let behind = word.strip_prefix(&*self.name).and_then(|rest| rest.strip_prefix('='));
        self.name == word || self.address == word || is_place(behind.unwrap_or(word))
    }
}

/// Workers that `word` may mean. A full saved address means only that worker.
pub(super) fn meant<'a>(kept: &'a [StoredWorker], word: &str) -> Vec<&'a StoredWorker> {
    let exactly: Vec<_> = kept.iter().filter(|worker| worker.address == word).collect();
    match exactly.is_empty() {
        true => kept.iter().filter(|worker| worker.is_called(word)).collect(),
        false => exactly,
    }
}

pub(super) fn word_for<'a>(kept: &[StoredWorker], worker: &'a StoredWorker) -> &'a str {
    match meant(kept, &worker.name).len() {
        1 => &worker.name,
        _ => &worker.address,
    }
}

pub(super) fn ways_to_forget<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let way = |word: &str| shell_line(["--forget", word].into_iter().map(str::to_owned));
    words.map(way).collect::<Vec<_>>().join(" or ")
}

pub(super) fn listed_words(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(address: &str) -> StoredWorker {
        StoredWorker::of(&address.parse().unwrap())
    }

    #[test]
    fn given_name_means_one_worker_a_host_name_all_workers_there() {
        let is_one = |one: &str, other: &str| known(one).is_one_with(&known(other));
        assert!(is_one("studio=10.0.0.2", "studio=10.0.0.3:9000"));
        // First named by the network, later by the user.
        assert!(is_one("studio", "studio=10.0.0.3") && is_one("studio=10.0.0.3", "studio"));
        assert!(is_one("studio:1", "studio:1"));
        assert!(!is_one("studio:1", "studio:2"));
        assert!(!is_one("studio=10.0.0.2", "attic=10.0.0.2"));
    }

    #[test]
    fn suggested_command_is_quoted_for_a_shell() {
        let kept = [known("the attic=10.0.0.2"), known("rack=10.0.0.3")];
        let words = kept.iter().map(|worker| word_for(&kept, worker));
        assert_eq!(ways_to_forget(words), "--forget 'the attic' or --forget rack");
    }

    #[test]
    fn worker_with_an_invalid_address_is_known_by_its_text() {
        let kept = [StoredWorker::kept(&serde_json::json!({ "address": "a b", "name": "x" }))];
        assert_eq!(kept[0].place(), "a b");
        assert!(meant(&kept, "a b").len() == 1 && meant(&kept, "x").len() == 1);
    }

    #[test]
    fn words_are_listed_as_people_do() {
        let words = ["a", "b", "c"].map(str::to_owned);
        let listed: Vec<_> = (0..=3).map(|n| listed_words(&words[..n])).collect();
        assert_eq!(listed, ["", "a", "a and b", "a, b and c"]);
    }
}
