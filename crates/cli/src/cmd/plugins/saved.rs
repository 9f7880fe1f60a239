//! What is kept for `tautline.so`, which asks no network when a host looks for plugins.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tautline_api::folders::cache_folder;

use super::ListedWorker;
use crate::failure::Failure;

/// Of the file: `tautline.so` reads no other.
const VERSION: u32 = 1;

/// Keeps what these workers have, in place of what they had; what is kept of others stays.
pub(super) fn keep(workers: &[ListedWorker]) -> Result<PathBuf, Failure> {
    let path = known_place()?;
    keep_at(&path, workers)?;
    Ok(path)
}

/// Keeps no more what these workers had, by their names or addresses.
pub(super) fn forget(workers: &[String]) -> Result<PathBuf, Failure> {
    let path = known_place()?;
    change_at(&path, |kept| without(kept, workers))?;
    Ok(path)
}

fn known_place() -> Result<PathBuf, Failure> {
    cache_folder().map(|folder| folder.join("plugins.json")).ok_or_else(|| {
        Failure::open(
            "neither XDG_CACHE_HOME nor HOME says where to keep anything; set one of them",
        )
    })
}

fn keep_at(path: &Path, workers: &[ListedWorker]) -> Result<(), Failure> {
    change_at(path, |kept| {
        joined(kept, workers).map_err(|error| Failure::running(error.to_string()))
    })
}

/// Makes another file of what was kept.
fn change_at(
    path: &Path,
    change: impl FnOnce(Vec<Value>) -> Result<String, Failure>,
) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::open(format!("keeping {}: {error}; make room, or mend its rights", path.display()))
    };
    let _held = hold(path).map_err(failed)?;
    let before = match fs::read(path) {
        Ok(text) => kept(&text),
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(failed(error)),
    };
    replace(path, &change(before)?).map_err(failed)
}

/// What is kept but for these; one that is not there is a mistake.
fn without(mut kept: Vec<Value>, workers: &[String]) -> Result<String, Failure> {
    for worker in workers {
        let is_it = |kept: &Value| ["name", "address"].iter().any(|key| kept[*key] == **worker);
        let before = kept.len();
        kept.retain(|one| !is_it(one));
        if kept.len() == before {
            let names: Vec<_> = kept.iter().filter_map(|one| one["name"].as_str()).collect();
            let names = if names.is_empty() { "nobody".to_owned() } else { names.join(", ") };
            return Err(Failure::usage(format!(
                "nothing is kept of {worker:?}, only of {names}; write one of those"
            )));
        }
    }
    Ok(json!({ "version": VERSION, "workers": kept }).to_string())
}

/// Whoever keeps something there waits until this is dropped: what another kept meanwhile is not lost.
fn hold(path: &Path) -> io::Result<fs::File> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    // The folder and not the file: that is another each time.
    let folder = fs::File::open(folder)?;
    folder.lock()?;
    Ok(folder)
}

/// The workers that a file has; what cannot be read is made anew.
fn kept(text: &[u8]) -> Vec<Value> {
    let file: Option<Value> = serde_json::from_slice(text).ok();
    let is_ours = |file: &Value| file.get("version") == Some(&VERSION.into());
    let workers =
        file.filter(is_ours).and_then(|mut file| file.get_mut("workers").map(Value::take));
    workers.and_then(|workers| workers.as_array().cloned()).unwrap_or_default()
}

/// Each worker where it stood, so that hosts find plugins in the order that they had; a new one last.
fn joined(mut before: Vec<Value>, workers: &[ListedWorker]) -> serde_json::Result<String> {
    for worker in workers {
        let anew = serde_json::to_value(worker)?;
        let of = |kept: &&mut Value| kept.get("address") == anew.get("address");
        match before.iter_mut().find(of) {
            Some(kept) => *kept = anew,
            None => before.push(anew),
        }
    }
    serde_json::to_string(&json!({ "version": VERSION, "workers": before }))
}

/// Whoever reads meanwhile sees the old one whole or the new one whole.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let write = || {
        let mut file = fs::File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().inspect_err(|_| {
        // Nothing is left beside.
        let _ = fs::remove_file(&new);
    })
}

#[cfg(test)]
mod tests {
    use tautline_api::v1::Catalogue;

    use super::*;

    fn worker(address: &str, name: &str) -> ListedWorker {
        let catalogue = Catalogue { version: 1, worker: name.to_owned(), plugins: Vec::new() };
        ListedWorker { address: Some(address.to_owned()), name: name.to_owned(), catalogue }
    }

    #[test]
    fn what_is_kept_of_a_worker_is_replaced_in_its_place_and_that_of_others_stays() {
        let first = joined(Vec::new(), &[worker("a:1", "old"), worker("b:1", "other")]).unwrap();
        let second = joined(kept(first.as_bytes()), &[worker("c:1", "c"), worker("a:1", "new")]);
        let file: Value = serde_json::from_str(&second.unwrap()).unwrap();
        assert_eq!(file["version"], 1);
        let names: Vec<_> =
            file["workers"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
        assert_eq!(names, ["new", "other", "c"]);
        assert_eq!(file["workers"][0]["catalogue"]["worker"], "new");
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
        let beside = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(beside, 1, "nothing is left beside it");
    }

    #[test]
    fn a_worker_is_forgotten_by_its_name_or_address_and_one_that_is_not_there_is_told() {
        let all = [worker("a:1", "old"), worker("b:1", "other"), worker("c:1", "c")];
        let kept_now = || kept(joined(Vec::new(), &all).unwrap().as_bytes());
        let text = without(kept_now(), &["old".to_owned(), "c:1".to_owned()]).unwrap();
        let left = kept(text.as_bytes());
        assert_eq!(left.len(), 1);
        assert_eq!(left[0]["name"], "other");
        assert!(without(kept_now(), &["nobody".to_owned()]).is_err());
    }

    #[test]
    fn a_file_that_is_none_of_ours_is_made_anew() {
        for text in ["", "[]", "{\"version\":2,\"workers\":[1]}", "{\"version\":1,\"workers\":7}"] {
            assert!(kept(text.as_bytes()).is_empty(), "{text}");
        }
    }
}
