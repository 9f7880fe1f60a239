//! `taut plugins`: plugins of this machine and of workers.

mod folders;
mod known;
mod offered;
mod page;
mod saved;

use serde::Serialize;
use tautline_api::client::{WorkerAddress, WorkerClient};
use tautline_api::trust::host_name;
use tautline_api::v1::{Catalogue, VERSION};
use tautline_host::offers::{OfferedPlugin, PluginOffers};
use tautline_host::process::ChildProgram;
use tautline_host::scan::Skipped;

use crate::config::named_workers;
use crate::failure::{Failure, on_one_line};
use crate::flags::{PlainKind, Plugins};
use crate::screen;
pub(super) use folders::{missing_folders, offers};

/// Version of the JSON. It increases when a field disappears or changes its meaning.
const SCHEMA: u32 = 2;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ListedWorker {
    /// `HOST:PORT`; `None` for this machine.
    pub(super) address: Option<String>,
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
    reason: &'a str,
}

pub(crate) fn run(flags: &Plugins) -> Result<(), Failure> {
    if flags.saved {
        return offered::show(flags.report);
    }
    if !flags.forget.is_empty() {
        screen::notify(&saved::forget(&flags.forget)?);
        return Ok(());
    }
    // Hosts find this machine's plugins themselves.
    let with_here = flags.worker.is_empty() && !flags.save;
    let offered = || offers(&ChildProgram::this(), flags.chains.as_deref());
    let here = with_here.then(offered).transpose()?;
    if let Some(missing) = missing_folders().filter(|_| with_here) {
        screen::notify(&missing);
    }
    let requested = match &*flags.worker {
        // Chains are a local file.
        [] if flags.chains.is_some() => Vec::new(),
        [] => named_workers()?,
        given => given.to_vec(),
    };
    if flags.save && requested.is_empty() {
        return Err(Failure::usage(
            "--save needs a worker\nhint: write --worker HOST, or workers = [\"HOST\"] in tautline.toml",
        ));
    }
    if flags.save {
        saved::check_names(&requested)?;
    }
    let mut workers: Vec<_> = here.as_ref().map(listed_here).into_iter().collect();
    let mut failures = Vec::new();
    for address in &requested {
        match listed(address) {
            Ok(worker) => workers.push(worker),
            // Local problems, such as a missing key, are reported once.
            Err(failure) if failures.contains(&failure) => {}
            Err(failure) => failures.push(failure),
        }
    }
    if !workers.is_empty() {
        let skipped: Vec<_> = here.iter().flat_map(skipped_here).collect();
        failures.extend(keep_and_show(flags, &workers, &skipped).err());
    }
    // Errors follow the list, to be seen.
    let Some(last) = failures.pop() else { return Ok(()) };
    failures.iter().for_each(screen::complain);
    Err(last)
}

fn keep_and_show(
    flags: &Plugins,
    workers: &[ListedWorker],
    skipped: &[Skipped],
) -> Result<(), Failure> {
    if flags.save {
        saved::keep(workers)?.iter().for_each(|sentence| screen::notify(sentence));
    }
    match flags.report {
        PlainKind::Text => screen::print(&page::page(workers, skipped)),
        PlainKind::Json => {
            let file = |it: &'_ Skipped| it.path.to_string_lossy().into_owned();
            let skipped =
                skipped.iter().map(|it| SkippedFile { path: file(it).into(), reason: &it.why });
            let list = List { schema: SCHEMA, workers, skipped: skipped.collect() };
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

fn skipped_here(offers: &PluginOffers) -> impl Iterator<Item = Skipped> {
    offers
        .skipped()
        .iter()
        .map(|Skipped { path, why }| Skipped { path: path.clone(), why: on_one_line(why) })
}

fn listed(address: &WorkerAddress) -> Result<ListedWorker, Failure> {
    let requested = WorkerClient::usual(address).and_then(|client| client.catalogue());
    let (catalogue, wrong) = requested.map_err(|error| Failure::open(error.to_string()))?;
    if let [first, ..] = &wrong[..] {
        screen::notify(&format!(
            "{address}: plugins left out: {}, the first: {first}\nhint: update taut or these plugins there",
            wrong.len()
        ));
    }
    let name = address.name.clone().unwrap_or_else(|| address.host.clone());
    Ok(ListedWorker { address: Some(address.to_string()), name, catalogue })
}
