//! Pipelines in `tautline.toml`: plugins of several workers in series, offered as one.
//!
//! ```toml
//! [[pipeline]]
//! name = "voice"
//! plugins = ["studio/tap_eq:tap_equalizer", "attic/gverb_1216:gverb"]
//! ```
//!
//! Each plugin is named by worker and id in the saved catalogue.

use std::path::Path;

use serde::Deserialize;
use toml::{Table, Value};

use super::SavedWorker;
use crate::pipeline::joined;
use crate::v1::Plugin;

#[derive(Debug, Clone)]
pub(super) struct Pipeline {
    pub(super) plugin: Plugin,
    pub(super) stages: Vec<PipelineStage>,
}

/// A plugin in a pipeline.
#[derive(Debug, Clone)]
pub struct PipelineStage {
    /// Description from the worker.
    pub plugin: Plugin,
    /// Address of its worker.
    pub address: String,
    /// Name of its worker.
    pub worker: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPipeline {
    name: String,
    plugins: Vec<String>,
}

/// Pipelines, and an error message for each invalid one.
pub(super) fn pipelines(
    path: &Path,
    text: &str,
    workers: &[SavedWorker],
) -> (Vec<Pipeline>, Vec<String>) {
    let written = text.parse::<Table>().ok().and_then(|mut table| table.remove("pipeline"));
    let Some(written) = written else { return (Vec::new(), Vec::new()) };
    let place = path.display();
    let Value::Array(written) = written else {
        let why = format!(
            "in {place}: pipeline is not a list\nhint: write [[pipeline]] with name and plugins"
        );
        return (Vec::new(), vec![why]);
    };
    let (mut pipelines, mut complaints) = (Vec::new(), Vec::new());
    for one in written {
        match pipeline(one, workers) {
            Ok(pipeline) if is_taken(&pipelines, &pipeline) => complaints.push(format!(
                "in {place}: two pipelines of these workers have the name `{}`\nhint: rename one of them",
                pipeline.plugin.id
            )),
            Ok(pipeline) => pipelines.push(pipeline),
            Err(why) => complaints.push(format!("in {place}: {why}")),
        }
    }
    (pipelines, complaints)
}

fn is_taken(pipelines: &[Pipeline], new: &Pipeline) -> bool {
    let workers = |one: &Pipeline| -> Vec<String> {
        one.stages.iter().map(|stage| stage.worker.clone()).collect()
    };
    pipelines.iter().any(|one| one.plugin.id == new.plugin.id && workers(one) == workers(new))
}

fn pipeline(written: Value, workers: &[SavedWorker]) -> Result<Pipeline, String> {
    let WrittenPipeline { name, plugins } =
        written.try_into().map_err(|error: toml::de::Error| {
            let why = error.message().replace('\n', ", ");
            format!(
                "invalid pipeline: {why}\nhint: write name = \"NAME\", plugins = [\"WORKER/ID\"]"
            )
        })?;
    let stages = plugins.iter().map(|plugin| stage(&name, plugin, workers));
    let stages = stages.collect::<Result<Vec<_>, _>>()?;
    let all: Vec<Plugin> = stages.iter().map(|stage| stage.plugin.clone()).collect();
    Ok(Pipeline { plugin: joined(&name, &all)?, stages })
}

fn stage(pipeline: &str, named: &str, workers: &[SavedWorker]) -> Result<PipelineStage, String> {
    let found = named.split_once('/').and_then(|(worker, id)| {
        let worker = workers.iter().find(|one| one.name == worker || one.address == worker)?;
        let plugin = worker.catalogue.plugins.iter().find(|plugin| plugin.id == id)?;
        Some(PipelineStage {
            plugin: plugin.clone(),
            address: worker.address.clone(),
            worker: worker.name.clone(),
        })
    });
    found.ok_or_else(|| {
        format!(
            "pipeline `{pipeline}`: no saved worker has a plugin `{named}`\nhint: run taut plugins --worker \
             WORKER --save, and write WORKER/ID with an id that it lists"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{Catalogue, PluginPort, VERSION};

    fn worker(name: &str, inputs: usize) -> SavedWorker {
        let port = |descriptor| PluginPort {
            name: "p".into(),
            descriptor,
            hints: 0,
            lower: 0.0,
            upper: 0.0,
        };
        let plugin = Plugin {
            id: "a.so:a".into(),
            file: "a.so".into(),
            label: "a".into(),
            unique_id: 1,
            name: "A".into(),
            maker: String::new(),
            copyright: String::new(),
            properties: 0,
            ports: (0..inputs).map(|_| port(9)).chain([port(10)]).collect(),
            hash: String::new(),
            cost: None,
        };
        let catalogue = Catalogue { version: VERSION, worker: name.into(), plugins: vec![plugin] };
        SavedWorker { address: format!("{name}:17230"), name: name.into(), catalogue }
    }

    fn by(text: &str) -> (Vec<Pipeline>, Vec<String>) {
        pipelines(Path::new("tautline.toml"), text, &[worker("studio", 1), worker("attic", 2)])
    }

    #[test]
    fn a_pipeline_is_made_of_plugins_that_were_saved() {
        let (pipelines, complaints) = by(
            "[[pipeline]]\nname = \"voice\"\nplugins = [\"studio/a.so:a\", \"studio:17230/a.so:a\"]\n",
        );
        assert_eq!(complaints, Vec::<String>::new());
        assert_eq!(pipelines[0].plugin.id, "voice");
        let workers: Vec<&str> =
            pipelines[0].stages.iter().map(|stage| stage.worker.as_str()).collect();
        assert_eq!(workers, ["studio", "studio"]);
    }

    #[test]
    fn invalid_options_are_reported_and_the_rest_applies() {
        let (pipelines, complaints) =
            by("[[pipeline]]\nname = \"voice\"\nplugins = [\"cellar/a.so:a\"]\n\
             [[pipeline]]\nname = \"wide\"\nplugins = [\"studio/a.so:a\", \"attic/a.so:a\"]\n\
             [[pipeline]]\nname = \"other\"\n\
             [[pipeline]]\nname = \"mono\"\nplugins = [\"studio/a.so:a\", \"studio/a.so:a\"]\n\
             [[pipeline]]\nname = \"mono\"\nplugins = [\"studio/a.so:a\", \"studio/a.so:a\"]\n");
        assert_eq!(
            pipelines.iter().map(|one| one.plugin.id.as_str()).collect::<Vec<_>>(),
            ["mono"]
        );
        assert_eq!(complaints.len(), 4, "{complaints:?}");
        assert!(
            complaints
                .iter()
                .all(|why| why.starts_with("in tautline.toml: ") && why.contains("\nhint: "))
        );
        assert_eq!(by("pipeline = 3").1.len(), 1);
        assert_eq!(by("[offload").1.len(), 0);
    }
}
