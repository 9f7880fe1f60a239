//! Compares messages with stored snapshots.
//!
//! The snapshots of `crates/cli/tests/program/errors.rs` are in
//! `crates/cli/snapshots/tests/program/errors.txt`:
//!
//! ```text
//! # name_of_the_test
//! > key
//!     the message
//! ```

use core::fmt::{Display, Write as _};
use core::panic::Location;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{env, fs, io};

const UPDATE: &str = "UPDATE_SNAPSHOTS";

const LONGEST_KEY: usize = 120;

/// Locked while a file is read and written.
static FILES: Mutex<Updated> = Mutex::new(Updated(BTreeSet::new()));

struct Updated(BTreeSet<(PathBuf, String)>);

/// Compares an expression's text with its snapshot. The key is the expression, or the first of two
/// arguments.
#[macro_export]
macro_rules! snapshot {
    ($text:expr $(,)?) => {
        $crate::match_snapshot(stringify!($text), &$text)
    };
    ($key:expr, $text:expr $(,)?) => {
        $crate::match_snapshot(&$key, &$text)
    };
}

/// Compares a text with the snapshots of this key in the calling function's section; one must
/// match.
///
/// `PORT`, `TMP` and `PID` replace ports, temporary directories and this process's id.
///
/// # Panics
///
/// If the snapshot differs or is missing, or if a section's function does not exist.
#[track_caller]
pub fn match_snapshot(key: impl Display, text: impl Display) {
    let caller = Location::caller();
    let workspace = workspace();
    let source = workspace.join(caller.file());
    let code = fs::read_to_string(&source).expect("tests run where they were built");
    let function = enclosing_function(&code, caller.line()).expect("a call is in a function");
    let key = normal(&key.to_string()).split_whitespace().collect::<Vec<_>>().join(" ");
    let (key, text): (String, _) =
        (key.chars().take(LONGEST_KEY).collect(), normal(&text.to_string()));
    let path = kept_at(workspace, caller.file());

    let mut updated = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut file = Snapshots::read(&path);
    if env::var_os(UPDATE).is_some() {
        file.0.retain(|section| position(&code, &section.function).is_some());
        let section = file.section(function);
        if updated.0.insert((path.clone(), function.to_owned())) {
            section.entries.clear();
        }
        section.put(&key, &text);
        file.0.sort_by_key(|section| position(&code, &section.function));
        file.write(&path).expect("a snapshot can be written");
        return;
    }
    drop(updated);
    for section in &file.0 {
        let function = &section.function;
        let is_used = position(&code, function).is_some();
        assert!(is_used, "{}: unused: {function}; set {UPDATE}=1", path.display());
    }
    let kept: Vec<_> = file.section(function).texts(&key).collect();
    assert!(!kept.is_empty(), "no snapshot of {key:?}: {text}\nset {UPDATE}=1");
    assert!(
        kept.contains(&text.trim_end()),
        "{}, {function}, {key}:\n--- kept\n{}\n--- is\n{text}\nif this is right, set {UPDATE}=1",
        path.display(),
        kept.join("\n--- or\n")
    );
}

/// Compares a generated document with its file, relative to the workspace. With `UPDATE_SNAPSHOTS`
/// writes the file.
///
/// # Panics
///
/// If they differ.
#[track_caller]
pub fn match_document(path: &str, text: &str) {
    let file = workspace().join(path);
    if env::var_os(UPDATE).is_some() {
        fs::write(&file, text).expect("a document can be written");
        return;
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    let same = kept.lines().zip(text.lines()).take_while(|(kept, new)| kept == new).count();
    let [kept_line, new_line] =
        [kept.as_str(), text].map(|text| text.lines().nth(same).unwrap_or(""));
    assert!(
        kept == text,
        "{path}, line {}:\n--- kept\n{kept_line}\n--- is\n{new_line}\nset {UPDATE}=1 to rewrite it",
        same + 1
    );
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/trial")
}

fn kept_at(workspace: &Path, source: &str) -> PathBuf {
    let root = ["/src/", "/tests/"].iter().filter_map(|folder| source.find(folder)).min();
    let (package, inner) = source.split_at(root.expect("a test is in src or tests"));
    let inner = inner.trim_start_matches('/');
    workspace.join(package).join("snapshots").join(inner).with_extension("txt")
}

fn function_begun(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line =
        line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub(super) ")).unwrap_or(line);
    let name = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("fn ")?;
    name.split(['(', '<']).next()
}

fn enclosing_function(code: &str, line: u32) -> Option<&str> {
    let above: Vec<_> = code.lines().take(line as usize).collect();
    above.into_iter().rev().find_map(function_begun)
}

fn position(code: &str, function: &str) -> Option<usize> {
    code.lines().position(|line| function_begun(line) == Some(function))
}

fn is_chosen(port: &str) -> bool {
    let port: Option<u32> = if port.len() == 5 { port.parse().ok() } else { None };
    port.is_some_and(|port| (10_000..20_000).contains(&port) || (28_000..61_000).contains(&port))
}

fn normal(text: &str) -> String {
    let temporary = ["taut-", ".tmp"].map(|name| format!("{}/{name}", env::temp_dir().display()));
    let process = std::process::id().to_string();
    // A test's directory or device: process id and counter.
    let of_process = |rest: &str| -> Option<usize> {
        let after = rest.strip_prefix(process.as_str())?;
        let counter = after
            .strip_prefix('-')
            .map_or(0, |after| after.bytes().take_while(u8::is_ascii_digit).count());
        let end = process.len() + if counter > 0 { counter + 1 } else { 0 };
        (!rest[end..].starts_with(|letter: char| letter.is_ascii_digit())).then_some(end)
    };
    let mut rest = text;
    let mut out = String::new();
    while let Some(next) = rest.chars().next() {
        if let Some(after) = temporary.iter().find_map(|it| rest.strip_prefix(it.as_str())) {
            out.push_str("TMP");
            rest = after
                .trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || letter == '-');
            continue;
        }
        let is_named = out.ends_with('-') || out.ends_with("process ");
        if let Some(end) = of_process(rest).filter(|_| is_named) {
            out.push_str("PID");
            rest = &rest[end..];
            continue;
        }
        let port = [":", "port ", "port=", "ports ", "TCP ", "UDP "].iter().find_map(|before| {
            let after = rest.strip_prefix(before)?;
            let end = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
            is_chosen(&after[..end]).then_some((before, &after[end..]))
        });
        match port {
            Some((before, after)) => {
                out.push_str(before);
                out.push_str("PORT");
                rest = after;
            }
            None => {
                out.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    out
}

#[derive(Debug, Default, PartialEq)]
struct Snapshots(Vec<Section>);

#[derive(Debug, PartialEq)]
struct Section {
    function: String,
    entries: Vec<(String, String)>,
}

impl Section {
    /// A key in a loop may have several.
    fn texts(&self, key: &str) -> impl Iterator<Item = &str> {
        self.entries.iter().filter(move |(kept, _)| kept == key).map(|(_, text)| text.as_str())
    }

    fn put(&mut self, key: &str, text: &str) {
        let text = text.trim_end();
        if !self.texts(key).any(|kept| kept == text) {
            self.entries.push((key.to_owned(), text.to_owned()));
        }
    }
}

impl Snapshots {
    fn section(&mut self, function: &str) -> &mut Section {
        let found = self.0.iter().position(|section| section.function == function);
        let index = found.unwrap_or_else(|| {
            self.0.push(Section { function: function.to_owned(), entries: Vec::new() });
            self.0.len() - 1
        });
        &mut self.0[index]
    }

    /// A missing file is empty.
    fn read(path: &Path) -> Self {
        Self::parse(&fs::read_to_string(path).unwrap_or_default())
    }

    fn parse(written: &str) -> Self {
        let mut file = Self::default();
        for line in written.lines() {
            let last = file.0.last_mut();
            if let Some(function) = line.strip_prefix("# ") {
                file.section(function);
            } else if let (Some(key), Some(section)) = (line.strip_prefix("> "), last) {
                section.entries.push((key.to_owned(), String::new()));
            } else if let Some((_, text)) =
                file.0.last_mut().and_then(|section| section.entries.last_mut())
            {
                text.push_str(line.strip_prefix("    ").unwrap_or(line));
                text.push('\n');
            }
        }
        for (_, text) in file.0.iter_mut().flat_map(|section| &mut section.entries) {
            text.truncate(text.trim_end().len());
        }
        file
    }

    fn written(&self) -> String {
        let mut out = String::new();
        for Section { function, entries } in &self.0 {
            let _ = writeln!(out, "# {function}\n");
            for (key, text) in entries {
                let _ = writeln!(out, "> {key}");
                for line in text.lines() {
                    let indent = if line.is_empty() { "" } else { "    " };
                    let _ = writeln!(out, "{indent}{line}");
                }
                out.push('\n');
            }
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
        out
    }

    /// Atomic.
    fn write(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path.parent().expect("a folder of snapshots"))?;
        let new = path.with_extension("new");
        fs::write(&new, self.written())?;
        fs::rename(new, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_file_is_read_as_written() {
        let mut file = Snapshots::default();
        file.section("one").put("a", "first\n\n  third\n");
        file.section("one").put("a", "first\n\n  third");
        file.section("one").put("a", "other");
        file.section("two").put("b", "text");
        assert_eq!(Snapshots::parse(&file.written()), file);
        let kept: Vec<_> = file.section("one").texts("a").map(str::to_owned).collect();
        assert_eq!(kept, ["first\n\n  third", "other"]);
        assert_eq!(file.section("two").texts("a").count(), 0);
    }

    #[test]
    fn snapshot_belongs_to_the_enclosing_function() {
        let code = "fn one() {\n    let x = 1;\n}\n    pub(crate) fn two<T>() {\n        fail();\n";
        assert_eq!(enclosing_function(code, 2), Some("one"));
        assert_eq!(enclosing_function(code, 5), Some("two"));
        assert_eq!((position(code, "two"), position(code, "three")), (Some(3), None));
        let kept = kept_at(Path::new("/w"), "crates/a/src/b/tests.rs");
        assert_eq!(kept, Path::new("/w/crates/a/snapshots/src/b/tests.txt"));
    }

    #[test]
    fn ports_and_folders_of_a_run_are_replaced() {
        let text = format!(
            "{}/.tmpAb12Cd/x at rtp://h:12346, port 40000, :5004",
            env::temp_dir().display()
        );
        assert_eq!(normal(&text), "TMP/x at rtp://h:PORT, port PORT, :5004");
        let text = format!("/dev/shm/test-{0}-17: process {0}, {0}", std::process::id());
        assert_eq!(
            normal(&text),
            format!("/dev/shm/test-PID: process PID, {}", std::process::id())
        );
        assert_eq!(normal("48000 Hz, ‘é’ port 65535"), "48000 Hz, ‘é’ port 65535");
    }

    #[test]
    fn snapshot_of_this_test_is_found() {
        snapshot!(format!("{} is kept", 1 + 1));
        snapshot!("key", "text");
    }

    #[test]
    #[should_panic(expected = "no snapshot of \"missing\"")]
    fn missing_snapshot_fails() {
        assert!(env::var_os(UPDATE).is_none(), "no snapshot of \"missing\"");
        snapshot!("missing", "text");
    }

    #[test]
    #[should_panic(expected = "--- kept\nold\n--- is\nnew")]
    fn other_text_fails() {
        // Update mode would rewrite this snapshot.
        assert!(env::var_os(UPDATE).is_none(), "--- kept\nold\n--- is\nnew");
        snapshot!("other", "new");
    }
}
