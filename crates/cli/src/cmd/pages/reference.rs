//! Generates `docs/reference/options.md` and `docs/reference/config.md` from the clap definitions.
//! `UPDATE_SNAPSHOTS=1 cargo test -p tautline-cli reference` rewrites both.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command, CommandFactory};
use tautline_trial::match_document;

use crate::config::takes_options;
use crate::flags::Taut;

/// Minimum number of commands with a row that moves to a shared table.
const SHARED_BY: usize = 3;

const OPTIONS: &str = r"<!-- Made from the options in crates/cli and crates/lab; `UPDATE_SNAPSHOTS=1 cargo test -p tautline-cli reference` writes it. -->
# Options

Every command and its options. `taut COMMAND --help` and the manual pages add details, addresses, devices and examples.
Most options can also be set in [a file](config.md). Each command also has `--help` (`-h` for a summary).

A value followed by … can be given several times.

| Value | Write |
|---|---|
| `TIME` | a number with `ns`, `us`, `ms`, `s`, `min` or `h`, such as `125us`, `2.5ms` or `10s` |
| `FRAMES` | a number of frames; 48 frames are 1 ms at 48000 Hz |
| `HZ` | frames per second, such as `48000` |
| `BITS` | bits per second, such as `96k` |
| `RATE` | bits per second, such as `100Mbit` |
| `SHARE` | a percentage, such as `0.1%` |
| `GAIN` | decibels or a percentage of the amplitude, such as `-6dB` or `50%` |
| `N` | a number |
| `DEVICE` | a device or file, as listed by `taut devices` ([cards](../guide/cards.md), [JACK](../guide/jack.md), [PipeWire](../guide/pipewire.md)) |
| `ADDRESS` | a stream, such as `rtp://10.0.0.2:5004`, or an `.sdp` file |
| `CLASS` | a scheduler: `fifo:70`, `rr:70`, `deadline:RUNTIME/DEADLINE/PERIOD`, or `other` |
| `CORES` | numbers of cores, such as `0,2` |
| `PLACE` | a host: `local`, `netns:NAME` or `ssh:HOST` |
| `DIR`, `FOLDER`, `FILE`, `PATH` | a path |
";

const CONFIG: &str = r#"<!-- Made from the options in crates/cli; `UPDATE_SNAPSHOTS=1 cargo test -p tautline-cli reference` writes it. -->
# Configuration file

`tautline.toml` sets options by their long names, without `--`:

```toml
latency = "20ms"                  # every command with --latency
[send]                            # taut send only
to = ["rtp://10.0.0.2:5004", "rtp://10.0.0.3:5004"]
no-header-extensions = true
```

`taut` reads the first of these files that exists, and ignores the others:

1. `tautline.toml` in the current folder
2. `$TAUT_HOME/tautline.toml`
3. `$XDG_CONFIG_HOME/tautline/tautline.toml`, by default `~/.config/tautline/tautline.toml`
4. `/etc/tautline/tautline.toml`

The environment variable `TAUT_HOME` names another folder for keys, trusted machines, settings and logs than
`~/.config/tautline`. The system services set it to `/var/lib/tautline`.

| Rule | |
|---|---|
| Order | the command line overrides the section of the command, which overrides keys outside of sections. Options that conflict with the command line are ignored |
| Values | text in quotes; integers also without. `true` sets an option without a value, `false` leaves it unset. A list repeats the option |
| Errors | an unknown key or section is an error (exit status 2), as is an invalid value. The message names the place in the file |
| Exceptions | `taut devices`, `top`, `id`, `trust`, `man`, `completions`, `lab`, and those with a [building file](building.md) but `say` do not read the file |

`workers`, `[[pipeline]]`, `[offload]` and `[offload."PLUGIN"]` belong to [remote plugins](../guide/offload.md).

## Keys

Each key equals the option of the same name. [Options](options.md) has its meaning and the notation of values.

| Key | Value | Default | Commands |
|---|---|---|---|
"#;

#[derive(Clone, PartialEq)]
struct Row {
    heading: String,
    option: String,
    value: String,
    default: String,
    meaning: String,
}

impl Row {
    fn new(arg: &Arg) -> Self {
        let group = if arg.is_positional() { "Arguments" } else { "Options" };
        Self {
            heading: arg.get_help_heading().unwrap_or(group).to_owned(),
            option: option(arg),
            value: value(arg),
            default: default(arg),
            meaning: meaning(arg),
        }
    }

    fn long_name(&self) -> &str {
        self.option.rsplit(", ").next().unwrap_or_default()
    }

    fn has_name_of(&self, other: &Self) -> bool {
        self.heading == other.heading && self.option == other.option
    }
}

struct Section {
    command: String,
    about: String,
    rows: Vec<Row>,
}

fn sections(command: &Command, above: &str) -> Vec<Section> {
    let mut found = Vec::new();
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        let name = format!("{above} {}", below.get_name());
        let about = below.get_about().map(ToString::to_string).unwrap_or_default();
        let rows: Vec<_> =
            below.get_arguments().filter(|arg| !arg.is_hide_set()).map(Row::new).collect();
        let with_values = below.get_positionals().fold(name.clone(), |name, arg| {
            format!("{name} {}", arg.get_id().as_str().to_uppercase())
        });
        if !below.has_subcommands() || !rows.is_empty() {
            found.push(Section { command: name, about, rows });
        }
        if below.has_subcommands() {
            found.extend(sections(below, &with_values));
        }
    }
    found
}

/// Rows of several sections. Of rows with one name, only the most frequent may be shared.
fn shared(sections: &[Section]) -> Vec<Row> {
    let mut counts: Vec<(&Row, usize)> = Vec::new();
    for row in sections.iter().flat_map(|section| &section.rows) {
        match counts.iter_mut().find(|(known, _)| *known == row) {
            Some((_, count)) => *count += 1,
            None => counts.push((row, 1)),
        }
    }
    counts.retain(|(_, count)| *count >= SHARED_BY);
    counts.sort_by_key(|(_, count)| Reverse(*count));
    let mut shared: Vec<Row> = Vec::new();
    for (row, _) in counts {
        if !shared.iter().any(|other| other.has_name_of(row)) {
            shared.push(row.clone());
        }
    }
    shared
}

fn groups<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<(&'a str, Vec<&'a Row>)> {
    let mut groups: Vec<(&str, Vec<&Row>)> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|(heading, _)| *heading == row.heading) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((row.heading.as_str(), vec![row])),
        }
    }
    groups
}

fn table(rows: &[&Row]) -> String {
    let mut out = "\n| Option | Value | Default | Meaning |\n|---|---|---|---|\n".to_owned();
    for Row { option, value, default, meaning, .. } in rows {
        let _ = writeln!(out, "| {option} | {value} | {default} | {meaning} |");
    }
    out
}

fn part(sections: &[Section], title: &str) -> String {
    let (shared, mut out) = (shared(sections), String::new());
    for Section { command, about, rows } in sections {
        let _ = write!(out, "\n## {command}\n\n{about}.\n");
        let (elsewhere, own): (Vec<_>, Vec<_>) = rows.iter().partition(|row| shared.contains(row));
        for (heading, rows) in groups(own) {
            if heading != "Options" && heading != "Arguments" {
                let _ = write!(out, "\n**{heading}**\n");
            }
            out += &table(&rows);
        }
        let links: Vec<_> = groups(elsewhere)
            .into_iter()
            .map(|(heading, rows)| {
                let names: Vec<_> = rows.iter().map(|row| row.long_name()).collect();
                let anchor = anchor(&format!("{title}: {heading}"));
                format!("[{heading}](#{anchor}): {}", names.join(", "))
            })
            .collect();
        if !links.is_empty() {
            let _ = write!(out, "\nShared – {}.\n", links.join("; "));
        }
    }
    let _ = write!(out, "\n## {title}\n");
    for (heading, rows) in groups(&shared) {
        let _ = write!(out, "\n### {title}: {heading}\n{}", table(&rows));
    }
    out
}

/// As derived by GitHub and mdBook.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || " -".contains(*letter));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

fn is_repeatable(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

fn value_name(arg: &Arg) -> String {
    arg.get_value_names().unwrap_or_default().join(" ")
}

fn option(arg: &Arg) -> String {
    let Some(long) = arg.get_long() else { return code(&value_name(arg)) };
    let short = arg.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    format!("{short}{}", code(&format!("--{long}")))
}

fn words(arg: &Arg) -> Vec<String> {
    let values = arg.get_possible_values();
    let shown = values.iter().filter(|value| !value.is_hide_set());
    shown.map(|value| value.get_name().to_owned()).collect()
}

fn value(arg: &Arg) -> String {
    if !arg.get_action().takes_values() {
        return String::new();
    }
    let words = words(arg);
    let value = match words.as_slice() {
        [] => code(&value_name(arg)),
        words => words.iter().map(|word| code(word)).collect::<Vec<_>>().join(", "),
    };
    if is_repeatable(arg) { value + " …" } else { value }
}

fn help(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help());
    help.map(ToString::to_string).unwrap_or_default()
}

/// From the help, as in `[default: 5ms]`, or else clap's default.
fn default(arg: &Arg) -> String {
    let help = help(arg);
    let written = help.split_once("[default: ").and_then(|(_, rest)| rest.split_once(']'));
    if let Some((default, _)) = written {
        return text(&default.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    if arg.is_required_set() {
        return "required".to_owned();
    }
    let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy());
    defaults.map(|value| text(&value)).collect::<Vec<_>>().join(" ")
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let without = match help.split_once("[default: ") {
        Some((before, rest)) => {
            let after = rest.split_once(']').map_or("", |(_, after)| after);
            format!("{}{after}", before.trim_end())
        }
        None => help,
    };
    text(without.trim())
}

fn text(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

fn options_page(taut: &Command) -> String {
    let (lab, main): (Vec<_>, Vec<_>) = sections(taut, "taut")
        .into_iter()
        .partition(|section| section.command.starts_with("taut lab "));
    let main = part(&main, "Shared options");
    OPTIONS.to_owned() + &main + &part(&lab, "Shared options of experiments")
}

fn toml_value(arg: &Arg) -> String {
    if !arg.get_action().takes_values() {
        return code("true");
    }
    let words = words(arg);
    match words.as_slice() {
        [] if is_repeatable(arg) => code(&format!("[\"{}\", …]", value_name(arg))),
        [] => code(&format!("\"{}\"", value_name(arg))),
        words => {
            words.iter().map(|word| code(&format!("\"{word}\""))).collect::<Vec<_>>().join(", ")
        }
    }
}

fn config_page(taut: &Command) -> String {
    let mut keys: BTreeMap<(String, String, String), Vec<String>> = BTreeMap::new();
    let commands = taut.get_subcommands().filter(|command| !command.is_hide_set());
    for command in commands.filter(|command| takes_options(command)) {
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let Some(long) = arg.get_long() else { continue };
            let key = (long.to_owned(), toml_value(arg), default(arg));
            let name = command.get_name();
            let anchor = anchor(&format!("taut {name}"));
            keys.entry(key).or_default().push(format!("[{name}](options.md#{anchor})"));
        }
    }
    let mut out = CONFIG.to_owned();
    for ((key, value, default), commands) in keys {
        let _ = writeln!(out, "| {} | {value} | {default} | {} |", code(&key), commands.join(", "));
    }
    out
}

#[test]
fn reference_of_options_matches_the_command_line() {
    match_document("docs/reference/options.md", &options_page(&Taut::command()));
}

#[test]
fn reference_of_the_config_file_matches_the_command_line() {
    match_document("docs/reference/config.md", &config_page(&Taut::command()));
}
