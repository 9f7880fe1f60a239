//! What is kept for `tautline.so`, which asks no network when a host looks for plugins.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::ListedWorker;
use crate::failure::Failure;

/// Of the file: `tautline.so` reads no other.
const VERSION: u32 = 1;

/// Keeps what these workers have, in place of what they had; what is kept of others stays.
pub(super) fn keep(workers: &[ListedWorker]) -> Result<PathBuf, Failure> {
    let path = place().ok_or_else(|| {
        Failure::open(
            "neither XDG_CACHE_HOME nor HOME says where to keep anything; set one of them",
        )
    })?;
    let failed = |error: io::Error| {
        Failure::open(format!("keeping {}: {error}; make room, or mend its rights", path.display()))
    };
    let before = match fs::read(&path) {
        Ok(text) => kept(&text),
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(failed(error)),
    };
    let text = joined(before, workers).map_err(|error| Failure::running(error.to_string()))?;
    replace(&path, &text).map_err(failed)?;
    Ok(path)
}

fn place() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(cache.join("tautline").join("plugins.json"))
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
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
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
    fn a_file_that_is_none_of_ours_is_made_anew() {
        for text in ["", "[]", "{\"version\":2,\"workers\":[1]}", "{\"version\":1,\"workers\":7}"] {
            assert!(kept(text.as_bytes()).is_empty(), "{text}");
        }
    }
}
