//! `taut preset` and `taut schedule`.

use std::path::Path;

use serde::Serialize;
use tautline_site::{Play, RuleAction, Schedule, Site};

use super::site::building;
use super::zones::change_all;
use crate::cmd::answer;
use crate::failure::Failure;
use crate::flags::{NextFlags, PresetFlags};
use crate::screen;

pub(crate) fn preset(flags: &PresetFlags) -> Result<(), Failure> {
    let (_, site) = building(&flags.site)?;
    let changes = site.presets.get(&flags.name).ok_or_else(|| {
        let known: Vec<_> = site.presets.keys().map(String::as_str).collect();
        let name = &flags.name;
        let hint = match known.as_slice() {
            [] => format!("add [preset.{name}] to it"),
            known => format!("it has {}", known.join(", ")),
        };
        Failure::usage(format!("the building file has no preset {name:?}\nhint: {hint}"))
    })?;
    change_all(&site, changes)
}

pub(crate) fn next(flags: &NextFlags) -> Result<(), Failure> {
    let (path, site) = building(&flags.site)?;
    let (schedule, faults) = Schedule::load(&site, path.parent().unwrap_or(Path::new("")));
    let plays = schedule.upcoming(flags.count);
    let json = serde_json::to_string_pretty(&listed(&site, &schedule, &plays));
    answer(flags.report, &table(&site, &schedule, &plays), json.map(|text| text + "\n"))?;
    faults.iter().for_each(|fault| screen::notify(&fault.to_string()));
    match faults.len() {
        0 => Ok(()),
        1 => Err(Failure::running("1 fault in the schedule")),
        count => Err(Failure::running(format!("{count} faults in the schedule"))),
    }
}

/// Zones of a play, and its message or preset.
fn parts<'a>(site: &'a Site, play: &'a Play) -> (Vec<&'a str>, Option<&'a str>, Option<&'a str>) {
    match &play.action {
        RuleAction::Announce { zones, message, .. } => {
            (site.zones_of(zones.iter().map(String::as_str)), message.as_deref(), None)
        }
        RuleAction::Preset(preset) => {
            let changes = site.presets.get(preset).into_iter().flatten();
            (changes.map(|change| change.zone.as_str()).collect(), None, Some(preset))
        }
    }
}

fn table(site: &Site, schedule: &Schedule, plays: &[Play]) -> String {
    if plays.is_empty() {
        return "nothing is scheduled\n".to_owned();
    }
    let mut rows = vec![["TIME", "RULE", "PLAYS", "ZONES"].map(str::to_owned)];
    for play in plays {
        let (zones, message, preset) = parts(site, play);
        let time = schedule.local(play.at).strftime("%a %Y-%m-%d %H:%M:%S %Z").to_string();
        let plays = match (message, preset) {
            (_, Some(preset)) => format!("preset {preset}"),
            (message, None) => message.unwrap_or_default().to_owned(),
        };
        rows.push([time, play.rule.clone(), plays, zones.join(", ")]);
    }
    screen::columns(&rows).join("\n") + "\n"
}

/// `--report json`; scripts rely on the names.
#[derive(Serialize)]
struct Listed<'a> {
    schema: u32,
    plays: Vec<ListedPlay<'a>>,
}

#[derive(Serialize)]
struct ListedPlay<'a> {
    time: String,
    rule: &'a str,
    zones: Vec<&'a str>,
    message: Option<&'a str>,
    preset: Option<&'a str>,
}

fn listed<'a>(site: &'a Site, schedule: &Schedule, plays: &'a [Play]) -> Listed<'a> {
    let plays = plays.iter().map(|play| {
        let (zones, message, preset) = parts(site, play);
        let time = schedule.local(play.at).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
        ListedPlay { time, rule: &play.rule, zones, message, preset }
    });
    Listed { schema: 1, plays: plays.collect() }
}

#[cfg(test)]
mod tests {
    use tautline_trial::assert_shape;

    use super::*;
    use crate::help;

    const DOCUMENT: &str = include_str!("../../../../docs/reference/building.md");

    #[test]
    fn help_gives_the_shape_of_the_schedule_json() {
        let example = DOCUMENT.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let site = Site::check(example.as_bytes()).unwrap();
        let (schedule, _) = Schedule::load(&site, Path::new(""));
        let plays = schedule.upcoming(3);
        assert_eq!(plays.len(), 3);
        let json = serde_json::to_string(&listed(&site, &schedule, &plays)).unwrap();
        assert_shape(help::SCHEDULE_NEXT, "{ \"schema\"", &json);
        assert_eq!(table(&site, &schedule, &plays).lines().count(), 4);
    }
}
