//! `taut plugins`: what this machine or others offer.

mod page;
mod saved;

use serde::Serialize;
use tautline_api::client::{WorkerAddress, WorkerClient};
use tautline_api::trust::host_name;
use tautline_api::v1::{Catalogue, VERSION};
use tautline_host::offers::{OfferedPlugin, PluginOffers};

use super::work::offers;
use crate::failure::Failure;
use crate::flags::{PlainKind, Plugins};
use crate::screen;

/// Raised when a field goes or means something else.
const SCHEMA: u32 = 1;

/// What one machine has.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ListedWorker {
    /// `HOST:PORT`; none of this machine.
    pub(super) address: Option<String>,
    /// By which its plugins are told from others'.
    pub(super) name: String,
    pub(super) catalogue: Catalogue,
}

#[derive(Serialize)]
struct List<'a> {
    schema: u32,
    workers: &'a [ListedWorker],
    skipped: Vec<SkippedFile<'a>>,
}

#[derive(Serialize)]
struct SkippedFile<'a> {
    path: std::borrow::Cow<'a, str>,
    why: &'a str,
}

pub(crate) fn run(flags: &Plugins) -> Result<(), Failure> {
    let here = flags.worker.is_empty().then(|| offers(flags.chains.as_deref())).transpose()?;
    let workers = match &here {
        Some(offers) => vec![listed_here(offers)],
        None => flags.worker.iter().map(listed).collect::<Result<_, _>>()?,
    };
    let skipped = here.as_ref().map_or(&[][..], PluginOffers::skipped);
    if flags.save {
        let path = saved::keep(&workers)?;
        let count: usize = workers.iter().map(|worker| worker.catalogue.plugins.len()).sum();
        screen::tell(&format!("{count} plugins are kept in {}", path.display()));
    }
    match flags.report {
        PlainKind::Text => screen::print(&page::page(&workers, skipped)),
        PlainKind::Json => {
            let file =
                |it: &'_ tautline_host::scan::Skipped| it.path.to_string_lossy().into_owned();
            let skipped =
                skipped.iter().map(|it| SkippedFile { path: file(it).into(), why: &it.why });
            let list = List { schema: SCHEMA, workers: &workers, skipped: skipped.collect() };
            let text = serde_json::to_string_pretty(&list);
            let text = text.map_err(|error| Failure::running(error.to_string()))?;
            screen::print(&(text + "\n"));
        }
        PlainKind::None => {}
    }
    Ok(())
}

fn listed_here(offers: &PluginOffers) -> ListedWorker {
    let plugin = |offer: &OfferedPlugin| offer.plugin.clone();
    let plugins = offers.all().iter().map(plugin).collect();
    let worker = host_name();
    let catalogue = Catalogue { version: VERSION, worker: worker.clone(), plugins };
    ListedWorker { address: None, name: worker, catalogue }
}

fn listed(address: &WorkerAddress) -> Result<ListedWorker, Failure> {
    let asked = WorkerClient::usual(address).and_then(|client| client.catalogue());
    let catalogue = asked.map_err(|error| Failure::open(error.to_string()))?;
    let name = address.name.clone().unwrap_or_else(|| address.host.clone());
    Ok(ListedWorker { address: Some(address.to_string()), name, catalogue })
}
