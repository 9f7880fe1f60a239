//! `taut site check`: every mistake in a building file.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tautline_proto::text::on_one_line;
use tautline_proto::zone::{Class, Priority};
use tautline_site::{
    FileFault, MAX_BYTES, MAX_MISTAKES, Mistake, NodeClient, Schedule, Site, usual_paths,
};

use crate::cmd::answer;
use crate::failure::{Failure, on_one_line as one_line};
use crate::flags::{BuildingFile, SiteCheck, SitePush};
use crate::screen;

pub(crate) fn check(flags: &SiteCheck) -> Result<(), Failure> {
    let path = flags.file.clone().map_or_else(found, Ok)?;
    let checked = Site::check(&read(&path)?);
    let json = serde_json::to_string_pretty(&json(&path, &checked)).map(|text| text + "\n");
    answer(flags.report, &text(&path, &checked), json)?;
    let (silent, warnings) = checked.as_ref().map(|site| warnings(site, &path)).unwrap_or_default();
    warnings.iter().for_each(|it| screen::notify(it));
    let site = checked.map_err(|mistakes| {
        let count = match mistakes.len() {
            1 => "1 mistake".to_owned(),
            count if count > MAX_MISTAKES => format!("more than {MAX_MISTAKES} mistakes"),
            count => format!("{count} mistakes"),
        };
        Failure::usage(format!("{count} in {}", path.display()))
    })?;
    // Recordings and the key may be missing where the file is written.
    let folder = path.parent().unwrap_or(Path::new(""));
    for fault in site.faulty_recordings(folder).into_iter().chain(site.faulty_key(folder)) {
        match fault {
            FileFault::Hash { .. } => return Err(Failure::usage(fault.to_string())),
            fault => screen::notify(&one_line(&fault.to_string())),
        }
    }
    usable(silent)
}

fn usable(silent: usize) -> Result<(), Failure> {
    match silent {
        0 => Ok(()),
        1 => Err(Failure::running("1 calendar of the schedule cannot be used")),
        count => Err(Failure::running(format!("{count} calendars of the schedule cannot be used"))),
    }
}

/// Faults that do not make the file invalid, and how many of them keep a rule from playing.
fn warnings(site: &Site, path: &Path) -> (usize, Vec<String>) {
    let (schedule, faults) = Schedule::load(site, path.parent().unwrap_or(Path::new("")));
    let mut faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
    let silent = faults.len();
    faults.extend(schedule.conflicts(site, &schedule.upcoming(CHECKED_PLAYS)));
    let emergencies =
        site.stations.values().any(|it| Priority(it.priority).class() == Class::Emergency);
    let limited = site.zones.iter().filter(|(_, zone)| emergencies && zone.limits_emergencies);
    faults.extend(limited.map(|(name, zone)| {
        format!(
            "zone {name}: max-volume {} also limits emergencies; emergency-volume sets theirs",
            zone.max_volume
        )
    }));
    if site.srtp_key_file.is_none() {
        faults.push(
            "no srtp-key-file: any machine of the network can announce; taut srtp-key building.key creates one"
                .to_owned(),
        );
    }
    (silent, faults)
}

/// Maximum compared plays: a month of a school's bells.
const CHECKED_PLAYS: usize = 500;

/// The building of a command.
pub(super) fn building(file: &BuildingFile) -> Result<(PathBuf, Site), Failure> {
    let path = file.file.clone().map_or_else(found, Ok)?;
    let mut site = Site::check(&read(&path)?).map_err(|mistakes| {
        let path = path.display();
        let first = mistakes
            .first()
            .map_or(String::new(), |first| format!(", first in line {}", first.line));
        Failure::usage(format!(
            "{path} has mistakes: {}{first}\nhint: taut site check {path}",
            mistakes.len()
        ))
    })?;
    site.folder = path.parent().unwrap_or(Path::new("")).to_owned();
    Ok((path, site))
}

pub(crate) fn push(flags: &SitePush) -> Result<(), Failure> {
    let (path, site) = building(&BuildingFile { file: flags.file.clone() })?;
    let bytes = read(&path)?;
    let text = std::str::from_utf8(&bytes).unwrap_or_default();
    let folder = path.parent().unwrap_or(Path::new(""));
    let (silent, warnings) = warnings(&site, &path);
    warnings.iter().for_each(|warning| screen::notify(warning));
    // A push would replace a calendar that plays with an unusable calendar.
    usable(silent)?;
    let pushed = NodeClient::new(&site)?.push(text, folder);
    let (pushed, left) = pushed.map_err(|fault| Failure::open(fault.to_string()))?;
    left.iter().for_each(|fault| screen::notify(&one_line(&fault.to_string())));
    let mut failed = 0;
    for it in &pushed {
        screen::emit(&match &it.epoch {
            Ok((epoch, 0)) => format!("{}: epoch {epoch}", it.node),
            Ok((epoch, 1)) => format!("{}: epoch {epoch}, 1 file copied", it.node),
            Ok((epoch, files)) => format!("{}: epoch {epoch}, {files} files copied", it.node),
            Err(why) => {
                failed += 1;
                format!("{}: keeps its file: {}", it.node, one_line(&why.to_string()))
            }
        });
    }
    match failed {
        0 => Ok(()),
        failed => Err(Failure::running(format!(
            "{failed} of {} nodes did not take the file",
            pushed.len()
        ))),
    }
}

fn found() -> Result<PathBuf, Failure> {
    usual_paths().find(|path| path.exists()).ok_or_else(|| {
        let places: Vec<_> = usual_paths().map(|path| path.display().to_string()).collect();
        Failure::open(format!(
            "no building file at {}\nhint: run it in the folder of the file, or name the file",
            places.join(", ")
        ))
    })
}

/// At most one byte more than a valid file has.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes));
    read.map(|_| bytes).map_err(|error| {
        let hint = "check the path and its permissions";
        Failure::open(format!("reading {}: {error}\nhint: {hint}", path.display()))
    })
}

fn text(path: &Path, checked: &Result<Site, Vec<Mistake>>) -> String {
    let path = path.display();
    match checked {
        Ok(site) => {
            let Site { epoch, hash, nodes, zones, groups, stations, .. } = site;
            let count = |count: usize, noun: &str| {
                format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
            };
            format!(
                "{path}: epoch {epoch}, hash {hash:.8}, {}, {}, {}, {}\n",
                count(nodes.len(), "node"),
                count(zones.len(), "zone"),
                count(groups.len(), "group"),
                count(stations.len(), "station")
            )
        }
        Err(mistakes) => mistakes.iter().fold(String::new(), |mut text, mistake| {
            let _ = writeln!(text, "{path}:{}: {}", mistake.line, on_one_line(mistake));
            text
        }),
    }
}

/// `--report json`; scripts rely on the names.
#[derive(Serialize)]
struct Checked {
    schema: u32,
    file: String,
    #[serde(flatten)]
    verdict: Verdict,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Verdict {
    Valid { epoch: u64, hash: String, nodes: usize, zones: usize, groups: usize, stations: usize },
    Invalid { mistakes: Vec<ListedMistake> },
}

#[derive(Serialize)]
struct ListedMistake {
    line: usize,
    column: usize,
    message: String,
    fix: String,
}

fn json(path: &Path, checked: &Result<Site, Vec<Mistake>>) -> Checked {
    let verdict = match checked {
        Ok(site) => Verdict::Valid {
            epoch: site.epoch,
            hash: site.hash.to_string(),
            nodes: site.nodes.len(),
            zones: site.zones.len(),
            groups: site.groups.len(),
            stations: site.stations.len(),
        },
        Err(mistakes) => Verdict::Invalid { mistakes: mistakes.iter().map(listed).collect() },
    };
    Checked { schema: 1, file: path.display().to_string(), verdict }
}

fn listed(mistake: &Mistake) -> ListedMistake {
    let text = mistake.to_string();
    let (message, fix) = text.split_once("\nhint: ").unwrap_or((&text, ""));
    let (message, fix) = (message.to_owned(), on_one_line(fix));
    ListedMistake { line: mistake.line, column: mistake.column, message, fix }
}

#[cfg(test)]
mod tests {
    use tautline_trial::{assert_shape, snapshot};

    use super::*;
    use crate::help;

    const DOCUMENT: &str = include_str!("../../../../docs/reference/building.md");

    fn example() -> &'static str {
        DOCUMENT.split("```toml\n").nth(1).unwrap().split("```").next().unwrap()
    }

    fn invalid() -> String {
        example().replace("channels = [3]", "channels = [2]").replace("\"17.5m\"", "\"17.5\"")
    }

    #[test]
    fn line_of_the_example_is_in_the_document() {
        let line = text("building.toml".as_ref(), &Site::check(example().as_bytes()));
        assert!(DOCUMENT.contains(&format!("\n{line}```\n")), "{line}");
    }

    #[test]
    fn each_mistake_has_a_line_with_its_fix() {
        let checked = Site::check(invalid().as_bytes());
        snapshot!(text("building.toml".as_ref(), &checked));
    }

    #[test]
    fn help_gives_the_shape_of_the_site_json() {
        let json = |text: &str| {
            let checked = Site::check(text.as_bytes());
            serde_json::to_string(&json("building.toml".as_ref(), &checked)).unwrap()
        };
        let (valid, invalid_shape) = help::SITE_CHECK.split_once("\nor, with").unwrap();
        assert_shape(valid, "{ \"schema\"", &json(example()));
        assert_shape(invalid_shape, "{ \"schema\"", &json(&invalid()));
        let mistakes: serde_json::Value = serde_json::from_str(&json(&invalid())).unwrap();
        assert_eq!(
            mistakes["mistakes"][1]["fix"],
            "write a time or a distance up to 1s, such as \"12ms\" or \"4.1m\""
        );
        assert_eq!(mistakes["mistakes"][1]["column"], 9);
    }
}
