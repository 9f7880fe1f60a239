use tautline_api::v1::{Plugin, PluginPort};
use tautline_host::ladspa::abi::{AUDIO, CONTROL, INPUT, OUTPUT};
use tautline_host::scan::Skipped;

use super::ListedWorker;
use crate::columns::wrapped;

/// Ids have their own lines, for copying.
pub(super) fn page(workers: &[ListedWorker], skipped: &[Skipped]) -> String {
    let mut page = String::new();
    for ListedWorker { address, name, catalogue } in workers {
        if !page.is_empty() {
            page.push('\n');
        }
        let place = address.as_ref().map_or(String::new(), |address| format!(", at {address}"));
        let count = catalogue.plugins.len();
        page.push_str(&wrapped("", &format!("{name}{place}: {count} plugins")));
        catalogue.plugins.iter().for_each(|plugin| describe(plugin, &mut page));
    }
    if !skipped.is_empty() {
        page.push_str("\nLeft out\n");
        for Skipped { path, why } in skipped {
            page.push_str(&format!("  {}\n", path.display()));
            page.push_str(&wrapped("      ", why));
        }
    }
    page
}

fn describe(plugin: &Plugin, page: &mut String) {
    page.push_str(&format!("  {}\n", plugin.id));
    let count = |kind: i32| {
        let is_so = |port: &&PluginPort| port.descriptor & kind as u32 == kind as u32;
        plugin.ports.iter().filter(is_so).count()
    };
    let mut words = format!(
        "{}; {} in, {} out, {} controls",
        plugin.name,
        count(AUDIO | INPUT),
        count(AUDIO | OUTPUT),
        count(CONTROL | INPUT)
    );
    let reported = count(CONTROL | OUTPUT);
    if reported > 0 {
        words += &format!(", {reported} output controls");
    }
    if let Some(cost) = plugin.cost {
        let (fixed, each) = (cost.fixed_ns / 1000.0, cost.per_frame_ns);
        words += &format!("; takes {fixed:.1} us and {each:.1} ns a frame");
    }
    page.push_str(&wrapped("      ", &words));
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tautline_api::v1::{Catalogue, PluginCost};
    use tautline_trial::assert_shape;

    use super::super::{List, SCHEMA, SkippedFile};
    use super::*;
    use crate::columns::COLUMNS;
    use crate::help;

    fn one_port(worker: &ListedWorker) -> ListedWorker {
        let mut one = worker.clone();
        one.catalogue.plugins[0].ports.truncate(1);
        one
    }

    #[test]
    fn plugin_fits_80_columns_with_its_id_on_its_own_line() {
        let port = |descriptor: i32| PluginPort {
            name: "P".to_owned(),
            descriptor: descriptor as u32,
            hints: 0,
            lower: 0.0,
            upper: 0.0,
        };
        let kinds =
            [AUDIO | INPUT, AUDIO | OUTPUT, AUDIO | OUTPUT, CONTROL | INPUT, CONTROL | OUTPUT];
        let plugin = Plugin {
            id: "plate_1423:plate".to_owned(),
            file: "plate_1423.so".to_owned(),
            label: "plate".to_owned(),
            unique_id: 1423,
            name: "Plate reverb, of a name that nobody would have thought of".to_owned(),
            maker: String::new(),
            copyright: String::new(),
            properties: 0,
            ports: kinds.into_iter().map(port).collect(),
            hash: String::new(),
            cost: Some(PluginCost { fixed_ns: 1234.0, per_frame_ns: 56.78 }),
        };
        let catalogue = Catalogue { version: 1, worker: "x".into(), plugins: vec![plugin] };
        let worker = ListedWorker {
            address: Some("10.0.0.2:17230".to_owned()),
            name: "studio".to_owned(),
            catalogue,
        };
        let why = "loading it: it crashed (SIGABRT: it aborted); remove it from LADSPA_PATH";
        let skipped = [Skipped { path: PathBuf::from("/lib/bad.so"), why: why.to_owned() }];
        let skipped_file = SkippedFile { path: "/lib/bad.so".into(), reason: why };
        let list =
            List { schema: SCHEMA, workers: &[one_port(&worker)], skipped: vec![skipped_file] };
        let json = serde_json::to_string(&list).unwrap();
        assert_shape(help::PLUGINS_LONG, "{ \"schema\": 2, \"workers\"", &json);
        let page = page(&[worker], &skipped);
        assert!(page.lines().all(|line| line.chars().count() <= COLUMNS), "{page}");
        assert!(
            page.starts_with("studio, at 10.0.0.2:17230: 1 plugins\n  plate_1423:plate\n"),
            "{page}"
        );
        let flat = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(
            "1 in, 2 out, 1 controls, 1 output controls; takes 1.2 us and 56.8 ns a frame"
        ));
        assert!(flat.ends_with(&format!("Left out /lib/bad.so {why}")), "{page}");
    }
}
