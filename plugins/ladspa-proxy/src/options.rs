//! Settings of an instance: `[offload]` in `tautline.toml`, and the environment, which takes
//! precedence.
//!
//! ```toml
//! [offload]
//! window = 1              # blocks under way; or delay, in frames
//! wait = "250us"          # maximum wait of the host's thread for a block; 0us never waits
//! replacement = "conceal" # or "matched", "dry", "last-good": replaces a missing block
//! spare = "attic"         # a second worker that gets the same blocks
//! [offload."cmt:freeverb3@studio"]
//! window = 2              # for this plugin
//! ```
//!
//! Invalid settings are skipped and reported.

use std::path::{Path, PathBuf};

use tautline_api::folders::library_config;
use tautline_proto::offload::returns::Replacement;
use tautline_proto::text::{on_one_line, parse_span};
use tautline_proto::time::Span;
use toml::{Table, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitOffline {
    Never,
    ByPace,
    Always,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OffloadOptions {
    pub(crate) window: u32,
    pub(crate) delay: Option<u32>,
    pub(crate) block: Option<u32>,
    pub(crate) wait: Span,
    pub(crate) replacement: Replacement,
    pub(crate) spare: Option<String>,
    pub(crate) wait_offline: WaitOffline,
    pub(crate) compare_local: bool,
    pub(crate) copies: u8,
    pub(crate) history: u32,
    pub(crate) cleartext: bool,
    pub(crate) report: Option<PathBuf>,
}

impl Default for OffloadOptions {
    fn default() -> Self {
        Self {
            window: 1,
            delay: None,
            block: None,
            wait: Span::ZERO,
            replacement: Replacement::Matched,
            spare: None,
            wait_offline: WaitOffline::ByPace,
            compare_local: false,
            copies: 0,
            history: 256,
            cleartext: false,
            report: None,
        }
    }
}

const MAX_WINDOW: u32 = 64;
const MAX_DELAY: u32 = 192_000;
/// Maximum block in frames. No host has longer blocks.
const MAX_BLOCK: u32 = 65_536;
/// Maximum wait. A host's thread that waits longer has stopped.
const MAX_WAIT: Span = Span::from_secs(1);
const MAX_COPIES: u32 = 8;
/// Minimum history, for repeat requests, and maximum, above which memory is wasted.
const HISTORY: (u32, u32) = (16, 4096);

pub(crate) fn read(label: &str) -> (OffloadOptions, Vec<String>) {
    let mut complaints = Vec::new();
    let mut options = match library_config() {
        Some((path, text)) => by_file(&path, &text, label, &mut complaints),
        None => OffloadOptions::default(),
    };
    for key in KEYS {
        let name = format!("{PREFIX}{}", key.to_uppercase());
        let Some(value) = std::env::var_os(&name) else { continue };
        if let Err(why) = options.set(key, &value.to_string_lossy()) {
            complaints.push(format!("in {name}: {why}"));
        }
    }
    if options.replacement == Replacement::Dry {
        complaints.push(format!(
            "{label}: with replacement = \"dry\" the input bypasses the plugin while its worker is away, which may be much \
             louder; \"matched\" plays it at the level of the plugin"
        ));
    }
    (options, complaints)
}

pub(crate) fn for_nobody(is_known: impl Fn(&str) -> bool) -> Vec<String> {
    let named = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let mut said = unknown_variables(named);
    if let Some((path, text)) = library_config() {
        said.extend(unaddressed_sections(&path, &text, is_known));
    }
    said
}

fn unknown_variables(names: impl Iterator<Item = String>) -> Vec<String> {
    let options = names.filter_map(|name| name.strip_prefix(PREFIX).map(str::to_owned));
    let unknown = options.filter(|name| !KEYS.contains(&name.to_lowercase().as_str()));
    let emit = |name| format!("{PREFIX}{name}: unknown option; use {}", KEYS.join(", "));
    unknown.map(emit).collect()
}

fn unaddressed_sections(path: &Path, text: &str, is_known: impl Fn(&str) -> bool) -> Vec<String> {
    // A syntax error is reported elsewhere.
    let table = text.parse::<Table>().unwrap_or_default();
    let offload = table.get("offload").and_then(Value::as_table);
    let sections = offload.into_iter().flatten().filter(|(_, value)| value.is_table());
    let unknown = sections.filter(|(name, _)| !is_known(name));
    let emit = |(name, _)| {
        format!(
            "in {}, [offload.\"{name}\"]: unknown plugin; listplugins shows the names",
            path.display()
        )
    };
    unknown.map(emit).collect()
}

fn by_file(path: &Path, text: &str, label: &str, complaints: &mut Vec<String>) -> OffloadOptions {
    let mut options = OffloadOptions::default();
    let table = match text.parse::<Table>() {
        Ok(table) => table,
        Err(error) => {
            let why = error.message().replace('\n', ", ");
            complaints.push(format!("cannot read {}: {why}; fix that line", path.display()));
            return options;
        }
    };
    let Some(offload) = table.get("offload").and_then(Value::as_table) else { return options };
    let own = offload.get(label).and_then(Value::as_table);
    let place = |section: String, key: &str| format!("in {}, [{section}] {key}", path.display());
    let of_all = offload.iter().map(|pair| ("offload".to_owned(), pair));
    let of_it = own.into_iter().flatten().map(|pair| (format!("offload.\"{label}\""), pair));
    for (section, (key, value)) in of_all.chain(of_it) {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            Value::Boolean(truth) => truth.to_string(),
            Value::Table(_) => continue,
            _ => {
                let hint = "write a number, a word or true";
                complaints.push(format!("{}: invalid type; {hint}", place(section, key)));
                continue;
            }
        };
        if let Err(why) = options.set(&key.replace('-', "_"), &text) {
            complaints.push(format!("{}: {why}", place(section, key)));
        }
    }
    options
}

const PREFIX: &str = "TAUT_OFFLOAD_";

const KEYS: [&str; 12] = [
    "window",
    "delay",
    "block",
    "wait",
    "replacement",
    "spare",
    "wait_offline",
    "compare_local",
    "copies",
    "history",
    "cleartext",
    "report",
];

impl OffloadOptions {
    pub(crate) fn hint_after(&self, rendered: bool, in_real_time: bool) -> &'static str {
        match (rendered, self.wait_offline) {
            (true, WaitOffline::Never) => {
                "; with wait_offline = \"never\" this render does not wait: use \"by-pace\" or \"always\""
            }
            (true, WaitOffline::ByPace) if in_real_time => {
                "; this host renders on a thread with real-time priority, which waits only with wait_offline = \
                 \"always\""
            }
            (true, _) => "; check that the worker runs, and render again",
            (false, _) if self.report.is_none() => "; TAUT_OFFLOAD_REPORT=/FILE lists them",
            (false, _) => "",
        }
    }

    fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        match key {
            "window" => self.window = count(text, 0, MAX_WINDOW)?,
            "delay" => self.delay = Some(count(text, 0, MAX_DELAY)?),
            "block" => self.block = Some(count(text, 1, MAX_BLOCK)?),
            "wait" => self.wait = wait(text)?,
            "replacement" => {
                self.replacement = match text {
                    "matched" => Replacement::Matched,
                    "dry" => Replacement::Dry,
                    "conceal" => Replacement::Conceal,
                    "last-good" | "last_good" => Replacement::LastGood,
                    _ => return Err(none_of(text, "matched, dry, conceal or last-good")),
                }
            }
            "spare" => self.spare = Some(text.to_owned()).filter(|name| !name.is_empty()),
            "wait_offline" => {
                self.wait_offline = match text {
                    "always" => WaitOffline::Always,
                    "by-pace" | "true" | "1" => WaitOffline::ByPace,
                    "never" | "false" | "0" => WaitOffline::Never,
                    _ => return Err(none_of(text, "never, by-pace or always")),
                }
            }
            "compare_local" => self.compare_local = truth(text)?,
            "copies" => self.copies = count(text, 0, MAX_COPIES)? as u8,
            "history" => self.history = count(text, HISTORY.0, HISTORY.1)?,
            "cleartext" => self.cleartext = truth(text)?,
            "report" => {
                let path =
                    Some(PathBuf::from(text)).filter(|path| !text.is_empty() && path.is_absolute());
                if path.is_none() && !text.is_empty() {
                    return Err(format!("invalid path `{text}`: must be absolute"));
                }
                self.report = path;
            }
            _ => return Err(format!("unknown option; use {}", KEYS.join(", "))),
        }
        Ok(())
    }
}

fn none_of(text: &str, words: &str) -> String {
    format!("invalid value `{text}`; use {words}")
}

fn count(text: &str, minimum: u32, maximum: u32) -> Result<u32, String> {
    let read = text.trim().parse().ok().filter(|count| (minimum..=maximum).contains(count));
    read.ok_or_else(|| {
        format!("invalid value `{text}`: must be a number from {minimum} to {maximum}")
    })
}

fn truth(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" | "yes" => Ok(true),
        "false" | "0" | "no" | "" => Ok(false),
        _ => Err(none_of(text, "true or false")),
    }
}

fn wait(text: &str) -> Result<Span, String> {
    // A complaint is one line.
    let span = parse_span(text).map_err(on_one_line)?;
    if (Span::ZERO..=MAX_WAIT).contains(&span) {
        return Ok(span);
    }
    Err(format!("invalid value `{text}`: must be 0us to {MAX_WAIT}"))
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;

    fn by(text: &str) -> (OffloadOptions, Vec<String>) {
        let mut complaints = Vec::new();
        let options = by_file(Path::new("tautline.toml"), text, "verb@studio", &mut complaints);
        (options, complaints)
    }

    #[test]
    fn section_of_a_plugin_overrides_the_general_one() {
        let (options, complaints) =
            by("workers = [\"10.0.0.2\"]\n[offload]\nwindow = 2\nwait = \"250us\"\n\
             [offload.\"verb@studio\"]\nwindow = 3\nreplacement = \"last-good\"\nblock = 1024\n\
             [offload.\"other@studio\"]\nwindow = 4\n");
        assert_eq!(complaints, Vec::<String>::new());
        assert_eq!((options.window, options.replacement), (3, Replacement::LastGood));
        assert_eq!((options.wait, options.block), (Span::from_micros(250), Some(1024)));
    }

    #[test]
    fn unreadable_parts_are_reported_and_the_rest_used() {
        let (options, complaints) =
            by("[offload]\nwindow = -1\nwaiting = 3\ncopies = 2\nwait = \"5min\"\n");
        assert_eq!((options.window, options.copies), (1, 2));
        assert_eq!(complaints.len(), 3, "{complaints:?}");
        snapshot!(complaints.join("\n"));
    }

    #[test]
    fn invalid_option_error_names_the_plugins_section() {
        let (_, complaints) = by("[offload.\"verb@studio\"]\nreplacement = \"drie\"\n");
        snapshot!(complaints.join("\n"));
    }

    #[test]
    fn unknown_variable_is_reported() {
        let names = ["TAUT_OFFLOAD_WINDO", "TAUT_OFFLOAD_WINDOW", "TAUT_HOME", "HOME"];
        let said = unknown_variables(names.map(str::to_owned).into_iter());
        assert_eq!(said.len(), 1);
        snapshot!(said[0]);
    }

    #[test]
    fn section_of_an_unknown_plugin_is_reported() {
        let text = "[offload]\nwindow = 2\n[offload.\"verb@studio\"]\nwindow = 3\n\
                    [offload.\"verb@stduio\"]\nwindow = 4\n";
        let said = |known: &str| {
            unaddressed_sections(Path::new("tautline.toml"), text, |name| known.contains(name))
        };
        assert_eq!(said("verb@studio verb@stduio"), Vec::<String>::new());
        snapshot!(said("verb@studio").join("\n"));
    }

    #[test]
    fn missing_file_leaves_the_defaults() {
        let (options, complaints) = by("[offload\nwindow = 2");
        assert_eq!(options, OffloadOptions::default());
        assert_eq!(complaints.len(), 1);
    }
}
