//! Saved plugins for `tautline.so`, which uses no network during plugin scans.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tautline_api::client::WorkerAddress;
use tautline_api::saved::place;

use super::ListedWorker;
use super::known::{StoredWorker, listed_words, meant, ways_to_forget, word_for};
use crate::failure::Failure;

/// Version of the file. `tautline.so` reads no other version.
const VERSION: u32 = 1;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct KeptNow {
    /// Names that now belong to another worker.
    moved: Vec<String>,
    others: Vec<String>,
    in_all: usize,
}

/// Replaces these workers' plugins, keeps other workers'. Returns the text to report.
pub(super) fn keep(workers: &[ListedWorker]) -> Result<Vec<String>, Failure> {
    let path = known_place()?;
    let KeptNow { moved: mut sentences, others, in_all } = keep_at(&path, workers)?;
    let count: usize = workers.iter().map(|worker| worker.catalogue.plugins.len()).sum();
    let (plugins, path) = (if count == 1 { "plugin is" } else { "plugins are" }, path.display());
    let rest = match &*others {
        [] => String::new(),
        others => format!(", {in_all} in all with the plugins of {}", listed_words(others)),
    };
    sentences.push(format!("{count} {plugins} saved in {path}{rest}"));
    Ok(sentences)
}

pub(super) fn check_names(requested: &[WorkerAddress]) -> Result<(), Failure> {
    let requested: Vec<_> = requested.iter().map(StoredWorker::of).collect();
    for (before, worker) in requested.iter().enumerate() {
        let is_other =
            |one: &&StoredWorker| one.is_one_with(worker) && one.place() != worker.place();
        if let Some(one) = requested[..before].iter().find(is_other) {
            let (name, one, other) = (&worker.name, one.place(), worker.place());
            return Err(Failure::usage(format!(
                "{name} is at {one} and at {other}: two workers with one name\nhint: give one of them another name \
                 (NAME=HOST)"
            )));
        }
    }
    Ok(())
}

pub(super) fn forget(words: &[String]) -> Result<String, Failure> {
    let path = known_place()?;
    let gone = change_at(&path, |kept| without(kept, words))?;
    let are = if gone.len() == 1 { "is" } else { "are" };
    Ok(format!("{} {are} removed from {}", listed_words(&gone), path.display()))
}

pub(super) fn known_place() -> Result<PathBuf, Failure> {
    place().ok_or_else(|| {
        Failure::open(
            "no folder to save in: XDG_CACHE_HOME and HOME are not set\nhint: set one of them",
        )
    })
}

fn keep_at(path: &Path, workers: &[ListedWorker]) -> Result<KeptNow, Failure> {
    change_at(path, |kept| {
        joined(kept, workers).map_err(|error| Failure::running(error.to_string()))
    })
}

fn change_at<T>(
    path: &Path,
    change: impl FnOnce(Vec<Value>) -> Result<(Vec<Value>, T), Failure>,
) -> Result<T, Failure> {
    let failed = |error: io::Error| {
        Failure::open(format!(
            "writing {}: {error}\nhint: free space on this disk, or fix the permissions",
            path.display()
        ))
    };
    let _held = hold(path).map_err(failed)?;
    let before = match fs::read(path) {
        Ok(text) => kept(&text),
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(failed(error)),
    };
    let (after, said) = change(before)?;
    let text = json!({ "version": VERSION, "workers": after }).to_string();
    replace(path, &text).map_err(failed)?;
    Ok(said)
}

/// Returns the rest and the removed addresses. An unknown or ambiguous word is an error.
fn without(mut kept: Vec<Value>, words: &[String]) -> Result<(Vec<Value>, Vec<String>), Failure> {
    let known: Vec<_> = kept.iter().map(StoredWorker::kept).collect();
    if known.is_empty() {
        return Err(Failure::usage(
            "no plugins are saved\nhint: taut plugins --worker HOST --save saves a worker's plugins",
        ));
    }
    let mut gone: Vec<String> = Vec::new();
    for word in words {
        match &*meant(&known, word) {
            [] => {
                let ways = ways_to_forget(known.iter().map(|one| word_for(&known, one)));
                let why = format!("no plugins are saved of {word:?}\nhint: write {ways}");
                return Err(Failure::usage(why));
            }
            [one] if gone.contains(&one.address) => {}
            [one] => gone.push(one.address.clone()),
            several => {
                let ways = ways_to_forget(several.iter().map(|one| &*one.address));
                let why =
                    format!("{word:?} is ambiguous: {} workers\nhint: write {ways}", several.len());
                return Err(Failure::usage(why));
            }
        }
    }
    kept.retain(|one| !gone.contains(&StoredWorker::kept(one).address));
    Ok((kept, gone))
}

fn hold(path: &Path) -> io::Result<fs::File> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    // The folder, because each change replaces the file.
    let folder = fs::File::open(folder)?;
    folder.lock()?;
    Ok(folder)
}

/// None if the file is unreadable.
fn kept(text: &[u8]) -> Vec<Value> {
    let file: Option<Value> = serde_json::from_slice(text).ok();
    let is_ours = |file: &Value| file.get("version") == Some(&VERSION.into());
    let workers =
        file.filter(is_ours).and_then(|mut file| file.get_mut("workers").map(Value::take));
    workers.and_then(|workers| workers.as_array().cloned()).unwrap_or_default()
}

/// Replaces workers in place, so that hosts keep their plugin order.
fn joined(
    mut kept: Vec<Value>,
    workers: &[ListedWorker],
) -> serde_json::Result<(Vec<Value>, KeptNow)> {
    let mut now = KeptNow::default();
    let mut anew = Vec::new();
    for worker in workers {
        let value = serde_json::to_value(worker)?;
        let new = StoredWorker::kept(&value);
        let is_replaced = |one: &Value| StoredWorker::kept(one).is_one_with(&new);
        let at = kept.iter().position(is_replaced).unwrap_or(kept.len());
        for old in kept.extract_if(.., |one| is_replaced(one)).map(|one| StoredWorker::kept(&one)) {
            let (name, from, to) = (&new.name, old.place(), new.place());
            if from != to {
                now.moved.push(format!(
                    "{name} was at {from} and is at {to} now\nhint: to keep both, give one of them another name (NAME=HOST)"
                ));
            }
        }
        kept.insert(at, value);
        anew.push(new.address);
    }
    let known: Vec<_> = kept.iter().map(StoredWorker::kept).collect();
    let others = known.iter().filter(|one| !anew.contains(&one.address));
    now.others = others.map(|one| word_for(&known, one).to_owned()).collect();
    let plugins = |one: &Value| one["catalogue"]["plugins"].as_array().map_or(0, Vec::len);
    now.in_all = kept.iter().map(plugins).sum();
    Ok((kept, now))
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let write = || {
        let mut file = fs::File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&new);
    })
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use tautline_api::v1::Catalogue;

    use super::*;

    fn worker(address: &str, name: &str) -> ListedWorker {
        let catalogue = Catalogue { version: 1, worker: name.to_owned(), plugins: Vec::new() };
        ListedWorker { address: Some(address.to_owned()), name: name.to_owned(), catalogue }
    }

    #[test]
    fn saving_a_worker_replaces_it_in_place_and_keeps_others() {
        let first = [worker("a:1", "a"), worker("b:1", "b"), worker("d=c:1", "d")];
        let (first, _) = joined(Vec::new(), &first).unwrap();
        let again = ListedWorker {
            catalogue: Catalogue { version: 1, worker: "new".to_owned(), plugins: Vec::new() },
            ..worker("a:1", "a")
        };
        let (second, now) =
            joined(first, &[worker("e:1", "e"), again, worker("d=f:2", "d")]).unwrap();
        let addresses: Vec<_> = second.iter().map(|it| &it["address"]).collect();
        assert_eq!(addresses, ["a:1", "b:1", "d=f:2", "e:1"]);
        assert_eq!(second[0]["catalogue"]["worker"], "new");
        assert_eq!((now.others, now.moved.len()), (vec!["b".to_owned()], 1));
    }

    #[test]
    fn a_name_that_was_kept_of_several_is_kept_of_one_again() {
        let before = ["studio=a:1", "b:1", "studio=c:1"].map(|address| {
            serde_json::to_value(worker(address, address.split(['=', ':']).next().unwrap()))
                .unwrap()
        });
        let (after, now) = joined(before.to_vec(), &[worker("studio=c:1", "studio")]).unwrap();
        let addresses: Vec<_> = after.iter().map(|it| &it["address"]).collect();
        assert_eq!(addresses, ["studio=c:1", "b:1"]);
        let [moved] = &*now.moved else { panic!("{now:?}") };
        snapshot!(moved);
    }

    #[test]
    fn of_workers_that_are_kept_at_once_none_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tautline").join("plugins.json");
        let addresses: Vec<_> = (1..=16).map(|port| format!("a:{port}")).collect();
        let all_at_once = std::sync::Barrier::new(addresses.len());
        std::thread::scope(|scope| {
            for address in &addresses {
                scope.spawn(|| {
                    all_at_once.wait();
                    keep_at(&path, &[worker(address, "w")])
                });
            }
        });
        let mut kept: Vec<_> = kept(&fs::read(&path).unwrap())
            .iter()
            .map(|worker| worker["address"].as_str().unwrap().to_owned())
            .collect();
        kept.sort_unstable_by_key(|address| (address.len(), address.clone()));
        assert_eq!(kept, addresses);
        let alongside = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(alongside, 1, "nothing is left beside it");
    }

    #[test]
    fn forgetting_twice_reports_once_and_unknown_words_fail() {
        let all = ["old=a:1", "b:1", "c:1"].map(|address| {
            serde_json::to_value(worker(address, address.split(['=', ':']).next().unwrap()))
                .unwrap()
        });
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let (left, gone) = without(all.to_vec(), &words(&["old", "c:1", "a"])).unwrap();
        assert_eq!(left, all[1..2]);
        assert_eq!(gone, ["old=a:1", "c:1"]);
        assert!(without(all.to_vec(), &words(&["old", "nobody"])).is_err());
    }

    #[test]
    fn foreign_file_is_replaced() {
        for text in ["", "[]", "{\"version\":2,\"workers\":[1]}", "{\"version\":1,\"workers\":7}"] {
            assert!(kept(text.as_bytes()).is_empty(), "{text}");
        }
    }
}
