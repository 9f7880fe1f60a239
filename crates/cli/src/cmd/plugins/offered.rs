//! `taut plugins --saved`: plugins that hosts find in `tautline.so`. Contacts no worker.

use serde::Serialize;
use tautline_api::saved::{SavedPlugin, offered, read};

use super::SCHEMA;
use super::saved::known_place;
use crate::cmd::answer;
use crate::columns::wrapped;
use crate::failure::Failure;
use crate::flags::PlainKind;
use crate::screen;

#[derive(Serialize)]
struct SavedList<'a> {
    schema: u32,
    saved: Vec<SavedRow<'a>>,
}

#[derive(Serialize)]
struct SavedRow<'a> {
    label: &'a str,
    unique_id: u32,
    worker: &'a str,
    address: &'a str,
    name: &'a str,
}

impl<'a> SavedRow<'a> {
    fn of(saved: &'a SavedPlugin) -> Self {
        let SavedPlugin { label, number, host, address, plugin, .. } = saved;
        Self { label, unique_id: *number, worker: host, address, name: &plugin.name }
    }
}

pub(super) fn show(report: PlainKind) -> Result<(), Failure> {
    let (all, complaints) = offered(read(&known_place()?).map_err(Failure::open)?);
    complaints.iter().for_each(|why| screen::notify(why));
    if all.is_empty() {
        screen::notify(
            "no plugins are saved\nhint: taut plugins --worker HOST --save saves a worker's plugins",
        );
    }
    let list = SavedList { schema: SCHEMA, saved: all.iter().map(SavedRow::of).collect() };
    let json = serde_json::to_string_pretty(&list).map(|text| text + "\n");
    answer(report, &page(&all), json)
}

/// Labels have their own lines, for copying.
fn page(all: &[SavedPlugin]) -> String {
    let entry = |saved: &SavedPlugin| {
        let SavedPlugin { label, host, address, plugin, .. } = saved;
        let place = match saved.stages.is_empty() {
            true => format!("{host}, at {address}"),
            false => host.clone(),
        };
        format!("{label}\n{}", wrapped("      ", &format!("{}; worker {place}", plugin.name)))
    };
    all.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use tautline_trial::assert_shape;

    use super::*;
    use crate::help;

    #[test]
    fn help_gives_the_shape_of_the_json() {
        let [label, worker, address, name] = ["plate @studio", "studio", "10.0.0.2:17230", "Plate"];
        let saved = vec![SavedRow { label, unique_id: 1, worker, address, name }];
        let list = SavedList { schema: SCHEMA, saved };
        let json = serde_json::to_string(&list).unwrap();
        assert_shape(help::PLUGINS_LONG, "{ \"schema\": 2, \"saved\"", &json);
    }
}
