//! `tautline.toml`: any command line option under the same name.
//!
//! ```toml
//! latency = "5ms"            # for every command that has it
//! [send]
//! input = "file:song.flac"
//! to = ["rtp://10.0.0.2:5004", "rtp://10.0.0.3:5004"]
//! ```
//!
//! The file supplies arguments that the command line lacks, so clap parses them. Error messages
//! name the place in the file.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory};
use tautline_api::client::WorkerAddress;
use tautline_api::workers::{NamedWorkers, WorkerFinder};
use tautline_audio::DeviceSpec;
use toml::{Table, Value};

use crate::failure::Failure;
use crate::flags::Taut;

const NAME: &str = "tautline.toml";

const ENDS: [&str; 2] = ["send", "recv"];

const COUNTERPARTS: [(&[&str], &str); 4] = [
    (&["--input", "-i"], "recv plays to --output and receives with --from"),
    (&["--to", "-t"], "recv receives with --from, at an address of this machine or a group"),
    (&["--output", "-o"], "send captures from --input and sends with --to"),
    (&["--from", "-f"], "send sends with --to, to the receiver's address or a group"),
];

pub(crate) struct Arguments {
    /// Words of the command line come first.
    pub(crate) words: Vec<OsString>,
    added: Vec<(String, String)>,
}

impl Arguments {
    fn given(words: Vec<OsString>) -> Self {
        Self { words, added: Vec::new() }
    }

    pub(crate) fn refuse(&self, error: clap::Error) -> Failure {
        let said = |kind| match error.get(kind) {
            Some(ContextValue::String(wrong)) => wrong.clone(),
            _ => String::new(),
        };
        if error.kind() == ErrorKind::InvalidSubcommand {
            return self.no_command(&said(ContextKind::InvalidSubcommand));
        }
        let wrong = said(ContextKind::InvalidArg);
        let alone = error.kind() == ErrorKind::UnknownArgument && !wrong.starts_with('-');
        if let Some(failure) = alone.then(|| self.lacks_its_option(&wrong)).flatten() {
            return failure;
        }
        let flag = wrong.split([' ', '=']).next().unwrap_or("");
        let place = self.added.iter().find(|(added, _)| added == flag).map(|(_, place)| place);
        match place {
            Some(place) => Failure::usage(format!("in {place}: {}", Failure::from(error))),
            None => self.of_the_other_end(flag).unwrap_or_else(|| error.into()),
        }
    }

    fn no_command(&self, word: &str) -> Failure {
        let names = |command: &Command| {
            let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
            shown.map(Command::get_name).collect::<Vec<_>>().join(", ")
        };
        let taut = Taut::command();
        Failure::usage(match self.called().and_then(|called| taut.find_subcommand(called)) {
            Some(of) => {
                let called = of.get_name();
                format!(
                    "unknown command: taut {called} {word}\nhint: taut {called} has {}",
                    names(of)
                )
            }
            None => format!(
                "unknown command: {word}\nhint: taut send captures and sends audio, taut recv receives \
                 and plays it; all commands: {}",
                names(&taut)
            ),
        })
    }

    fn called(&self) -> Option<&str> {
        let mut words = self.words.iter().skip(1).filter_map(|word| word.to_str());
        words.find(|word| !word.starts_with('-'))
    }

    fn lacks_its_option(&self, word: &str) -> Option<Failure> {
        let called = self.called().filter(|called| ENDS.contains(called))?;
        let (device, address) = match called {
            "send" => ("--input", "--to"),
            _ => ("--output", "--from"),
        };
        let is_sdp = Path::new(word).extension().is_some_and(|end| end.eq_ignore_ascii_case("sdp"));
        let host = word.parse::<IpAddr>().is_ok() || word.parse::<SocketAddr>().is_ok();
        let hint = match (word.parse::<DeviceSpec>(), Path::new(word).extension()) {
            _ if word.contains("://") || is_sdp => format!("{address} {word}"),
            _ if host => format!("{address} rtp://HOST:PORT"),
            (Ok(_), _) => format!("{device} {word}"),
            (Err(_), Some(_)) => format!("{device} file:{word}"),
            (Err(_), None) => format!("{device} DEVICE or {address} rtp://HOST:PORT"),
        };
        Some(Failure::usage(format!("`{word}` has no option before it\nhint: write {hint}")))
    }

    fn of_the_other_end(&self, flag: &str) -> Option<Failure> {
        let called = self.called()?;
        let other = ENDS.iter().find(|end| **end != called).filter(|_| ENDS.contains(&called))?;
        let taut = Taut::command();
        let has = |command: &str| {
            let command = taut.find_subcommand(command);
            command.is_some_and(|command| {
                command.get_arguments().any(|argument| {
                    let short = argument.get_short().map(|short| format!("-{short}"));
                    let long = argument.get_long().map(|long| format!("--{long}"));
                    [short, long].iter().flatten().any(|name| name == flag)
                })
            })
        };
        if has(called) || !has(other) {
            return None;
        }
        let hint = COUNTERPARTS
            .iter()
            .find(|(flags, _)| flags.contains(&flag))
            .map_or(format!("see taut {called} --help"), |(_, hint)| (*hint).to_owned());
        Some(Failure::usage(format!("{flag} is an option of taut {other}\nhint: {hint}")))
    }
}

pub(crate) fn arguments() -> Result<Arguments, Failure> {
    with_file(std::env::args_os().collect(), file)
}

fn file() -> Option<(PathBuf, String)> {
    places().find_map(|path| std::fs::read_to_string(&path).ok().map(|text| (path, text)))
}

pub(crate) fn named_workers() -> Result<Vec<WorkerAddress>, Failure> {
    let Some((path, text)) = file() else { return Ok(Vec::new()) };
    let workers = NamedWorkers::of(&path, &read(&path, &text)?);
    workers.workers().map_err(|error| Failure::usage(error.to_string()))
}

fn read(path: &Path, text: &str) -> Result<Table, Failure> {
    text.parse().map_err(|error| {
        Failure::usage(format!("reading {}: {}", path.display(), unreadable(text, &error)))
    })
}

pub(crate) fn with_file(
    words: Vec<OsString>,
    file: impl FnOnce() -> Option<(PathBuf, String)>,
) -> Result<Arguments, Failure> {
    let mut arguments = Arguments::given(words);
    let taut = Taut::command();
    // Lenient, because the file may contain the missing options. Help and commands without options
    // ignore the file.
    let Ok(matches) = taut.clone().ignore_errors(true).try_get_matches_from(&arguments.words)
    else {
        return Ok(arguments);
    };
    let called = matches.subcommand().and_then(|(name, given)| {
        let command = taut.find_subcommand(name).filter(|command| takes_options(command))?;
        // The words would follow a command below it, such as `taut demo building`.
        if given.subcommand().is_some() {
            return None;
        }
        Some((name, command, given))
    });
    let Some((name, command, given)) = called else { return Ok(arguments) };
    let Some((path, text)) = file() else { return Ok(arguments) };
    let refuse = |why: String| Failure::usage(format!("reading {}: {why}", path.display()));
    let table = read(&path, &text)?;
    check(&table, &taut).map_err(refuse)?;
    let own = table.get(name).and_then(Value::as_table);
    let section = format!("{}, [{name}] ", path.display());
    let top = format!("{}, ", path.display());
    for (place, table) in own.map(|own| (section, own)).into_iter().chain([(top, &table)]) {
        add(&place, table, command, given, &mut arguments).map_err(refuse)?;
    }
    Ok(arguments)
}

/// Commands that ignore the file. They write pages, list devices for the file, show and permit other
/// programs' actions, or have the building file.
const WITHOUT_FILE: [&str; 11] = [
    "man",
    "completions",
    "devices",
    "top",
    "id",
    "trust",
    "node",
    "zones",
    "page",
    "play",
    "stop",
];

/// Sections of other programs: the LADSPA plugin, and the list of workers.
const OF_OTHERS: [&str; 3] = ["offload", "pipeline", "workers"];

pub(crate) fn takes_options(command: &Command) -> bool {
    !WITHOUT_FILE.contains(&command.get_name())
        && command.get_arguments().any(|argument| argument.get_long().is_some())
}

fn unreadable(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or("");
    let line = 1 + before.matches('\n').count();
    let why = error.message().replace('\n', ", ");
    format!("line {line}: {why}\nhint: write NAME = \"VALUE\", such as latency = \"5ms\"")
}

fn places() -> impl Iterator<Item = PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let system = folder("XDG_CONFIG_HOME")
        .or_else(|| folder("HOME").map(|home| home.join(".config")))
        .map(|config| config.join("tautline"));
    [Some(PathBuf::from(".")), folder("TAUT_HOME"), system, Some("/etc/tautline".into())]
        .into_iter()
        .flatten()
        .map(|folder| folder.join(NAME))
}

/// Every key must be an option of some command.
fn check(table: &Table, taut: &Command) -> Result<(), String> {
    let has = |command: &Command, key: &str| {
        takes_options(command)
            && command.get_arguments().any(|argument| argument.get_long() == Some(key))
    };
    for (key, value) in table.iter().filter(|(key, _)| !OF_OTHERS.contains(&key.as_str())) {
        match (value.as_table(), taut.find_subcommand(key)) {
            (Some(own), Some(command)) => {
                if let Some(unknown) = own.keys().find(|key| !has(command, key)) {
                    return Err(format!(
                        "taut {key} has no option `{unknown}`\nhint: see taut {key} --help"
                    ));
                }
            }
            (Some(_), None) => {
                return Err(format!("unknown command [{key}]\nhint: see taut --help"));
            }
            (None, _) if taut.get_subcommands().any(|command| has(command, key)) => {}
            (None, _) => {
                return Err(format!("no command has an option `{key}`\nhint: see taut --help"));
            }
        }
    }
    Ok(())
}

fn add(
    place: &str,
    table: &Table,
    command: &Command,
    given: &ArgMatches,
    arguments: &mut Arguments,
) -> Result<(), String> {
    let present = arguments.words.clone();
    for argument in command.get_arguments() {
        let Some(name) = argument.get_long() else { continue };
        let Some(value) = table.get(name).filter(|value| !value.is_table()) else { continue };
        let id = argument.get_id().as_str();
        let flag = format!("--{name}");
        let on_line = |id: &str| given.value_source(id) == Some(ValueSource::CommandLine);
        let others = command.get_arg_conflicts_with(argument);
        let said = on_line(id)
            || others.iter().any(|other| on_line(other.get_id().as_str()))
            || present.iter().any(|argument| {
                let argument = argument.to_string_lossy();
                argument == *flag || argument.starts_with(&format!("{flag}="))
            });
        if said {
            continue;
        }
        arguments.added.push((flag.clone(), format!("{place}{name} = {}", shown(value))));
        let words = &mut arguments.words;
        let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for value in values {
            match value {
                Value::Boolean(false) => {}
                Value::Boolean(true) => words.push(flag.clone().into()),
                Value::String(text) => words.push(format!("{flag}={text}").into()),
                Value::Integer(number) => words.push(format!("{flag}={number}").into()),
                other => {
                    let kind = other.type_str();
                    return Err(format!(
                        "{name} is a {kind}\nhint: write a text, a number or a list"
                    ));
                }
            }
        }
    }
    Ok(())
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{text}\""),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(truth) => truth.to_string(),
        Value::Datetime(time) => time.to_string(),
        Value::Array(values) => {
            format!("[{}]", values.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
        Value::Table(_) => "{…}".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_command_do_not_follow_the_command_below_it() {
        let given = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let file = || Some((PathBuf::from(NAME), "[demo]\nout = \"elsewhere\"\n".to_owned()));
        let words = |line: &str| with_file(given(line), file).ok().map(|all| all.words);
        assert_eq!(words("taut demo building"), Some(given("taut demo building")));
        assert_eq!(words("taut demo"), Some(given("taut demo --out=elsewhere")));
    }
}
