use core::ffi::c_int;
use std::path::Path;

use super::Recipe;
use crate::ladspa::abi::{AUDIO, CONTROL, HARD_RT_CAPABLE, INPUT, OUTPUT, REALTIME};
use crate::ladspa::description::{PluginDescription, PortDescription};

#[derive(Debug, Clone, PartialEq)]
pub struct Outline {
    pub label: String,
    pub recipe: Recipe,
    pub properties: c_int,
    pub inputs: Vec<PortDescription>,
    pub controls: Vec<PortDescription>,
    pub outputs: Vec<PortDescription>,
    pub reported: Vec<PortDescription>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{before} has {outputs} outputs, and {after} after it has {inputs} inputs\nhint: use equal numbers, a single output, or \
     a plugin with one input and one output"
)]
pub struct MisfitError {
    pub before: String,
    pub outputs: usize,
    pub after: String,
    pub inputs: usize,
}

impl Outline {
    pub fn of(path: &Path, plugin: &PluginDescription) -> Self {
        let kind = |kind| plugin.places(kind).map(|place| plugin.ports[place].clone()).collect();
        Self {
            label: plugin.label.clone(),
            recipe: Recipe::Plugin { path: path.to_owned(), label: plugin.label.clone() },
            properties: plugin.properties,
            inputs: kind(INPUT | AUDIO),
            controls: kind(INPUT | CONTROL),
            outputs: kind(OUTPUT | AUDIO),
            reported: kind(OUTPUT | CONTROL),
        }
    }

    /// In series; a mono plugin after several channels runs once per channel, with one set of
    /// controls.
    pub fn chain(label: &str, members: Vec<Self>) -> Result<Self, MisfitError> {
        let mut fitting: Vec<Self> = Vec::with_capacity(members.len());
        for member in members {
            let Some(before) = fitting.last() else {
                fitting.push(member);
                continue;
            };
            let (outputs, inputs) = (before.outputs.len(), member.inputs.len());
            let is_mono = (inputs, member.outputs.len()) == (1, 1);
            fitting.push(match outputs {
                _ if outputs == inputs && outputs > 0 => member,
                1 if inputs > 0 => member,
                _ if outputs > 1 && is_mono => member.copies(outputs),
                _ => {
                    let (before, after) = (before.label.clone(), member.label);
                    return Err(MisfitError { before, outputs, after, inputs });
                }
            });
        }
        let ends = (fitting.first(), fitting.last());
        let inputs = ends.0.map_or_else(Vec::new, |first| first.inputs.clone());
        let outputs = ends.1.map_or_else(Vec::new, |last| last.outputs.clone());
        Ok(Self { inputs, outputs, ..Self::joined(label, &fitting, Recipe::Chain) })
    }

    pub fn parallel(label: &str, members: &[Self]) -> Self {
        let joined = Self::joined(label, members, Recipe::Parallel);
        let all = |ports: fn(&Self) -> &[PortDescription]| prefixed(members, ports);
        Self { inputs: all(|of| &of.inputs), outputs: all(|of| &of.outputs), ..joined }
    }

    fn joined(label: &str, members: &[Self], recipe: fn(Vec<Recipe>) -> Recipe) -> Self {
        let properties = members.iter().map(|member| member.properties);
        let all = properties.clone().fold(HARD_RT_CAPABLE, |all, one| all & one);
        let any = properties.fold(0, |any, one| any | one);
        Self {
            label: label.to_owned(),
            recipe: recipe(members.iter().map(|member| member.recipe.clone()).collect()),
            properties: all & HARD_RT_CAPABLE | any & REALTIME,
            inputs: Vec::new(),
            controls: prefixed(members, |of| &of.controls),
            outputs: Vec::new(),
            reported: prefixed(members, |of| &of.reported),
        }
    }

    fn copies(self, times: usize) -> Self {
        let numbered = |ports: &[PortDescription]| -> Vec<PortDescription> {
            let copy = |number: usize| {
                ports.iter().map(move |port| {
                    let name = format!("{} {}", port.name, number + 1);
                    PortDescription { name, ..port.clone() }
                })
            };
            (0..times).flat_map(copy).collect()
        };
        Self {
            inputs: numbered(&self.inputs),
            outputs: numbered(&self.outputs),
            recipe: Recipe::Copies { of: Box::new(self.recipe), times },
            ..self
        }
    }
}

fn prefixed(
    members: &[Outline],
    ports: fn(&Outline) -> &[PortDescription],
) -> Vec<PortDescription> {
    let mut all = Vec::new();
    for (place, member) in members.iter().enumerate() {
        let label = &member.label;
        let before = members[..place].iter().filter(|of| of.label == *label).count();
        let number = if before == 0 { String::new() } else { format!(" {}", before + 1) };
        all.extend(ports(member).iter().map(|port| PortDescription {
            name: format!("{label}{number}: {}", port.name),
            ..port.clone()
        }));
    }
    all
}
