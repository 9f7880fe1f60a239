//! Runs plugins in this process.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::{MAX_INSTANCES, Recipe};
use crate::ladspa::instance::{InstanceError, PluginInstance};
use crate::ladspa::library::{LoadError, PluginLibrary};

/// A loaded recipe. Members' audio and controls are concatenated, as in a [`PluginInstance`].
#[derive(Debug)]
pub enum ChainNode {
    Plugin(Box<PluginInstance>),
    Chain(Vec<ChainNode>),
    Parallel(Vec<ChainNode>),
    Copies(Vec<ChainNode>),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Instance(#[from] InstanceError),
    #[error("it has {0} plugins, more than the maximum of {MAX_INSTANCES}; split it")]
    TooMany(usize),
}

type Count = fn(&ChainNode) -> usize;

impl ChainNode {
    pub fn load(recipe: &Recipe, rate: u32, max_frames: usize) -> Result<Self, NodeError> {
        match recipe.instances() {
            count if count > MAX_INSTANCES => Err(NodeError::TooMany(count)),
            _ => Loading { rate, max_frames, libraries: BTreeMap::new() }.node(recipe),
        }
    }

    pub fn inputs(&self) -> usize {
        match self {
            Self::Plugin(plugin) => plugin.inputs(),
            Self::Chain(members) => members.first().map_or(0, Self::inputs),
            Self::Parallel(members) | Self::Copies(members) => sum(members, Self::inputs),
        }
    }

    pub fn outputs(&self) -> usize {
        match self {
            Self::Plugin(plugin) => plugin.outputs(),
            Self::Chain(members) => members.last().map_or(0, Self::outputs),
            Self::Parallel(members) | Self::Copies(members) => sum(members, Self::outputs),
        }
    }

    pub fn controls(&self) -> usize {
        match self {
            Self::Plugin(plugin) => plugin.controls(),
            Self::Chain(members) | Self::Parallel(members) => sum(members, Self::controls),
            Self::Copies(members) => members.first().map_or(0, Self::controls),
        }
    }

    pub fn reported_controls(&self) -> usize {
        match self {
            Self::Plugin(plugin) => plugin.reported_controls(),
            Self::Chain(members) | Self::Parallel(members) => sum(members, Self::reported_controls),
            Self::Copies(members) => members.first().map_or(0, Self::reported_controls),
        }
    }

    pub fn input_mut(&mut self, channel: usize) -> &mut [f32] {
        match self {
            Self::Plugin(plugin) => plugin.input_mut(channel),
            Self::Chain(members) => members[0].input_mut(channel),
            Self::Parallel(members) | Self::Copies(members) => {
                let (member, channel) = member_of(members, Self::inputs, channel);
                members[member].input_mut(channel)
            }
        }
    }

    pub fn output(&self, channel: usize) -> &[f32] {
        match self {
            Self::Plugin(plugin) => plugin.output(channel),
            Self::Chain(members) => members[members.len() - 1].output(channel),
            Self::Parallel(members) | Self::Copies(members) => {
                let (member, channel) = member_of(members, Self::outputs, channel);
                members[member].output(channel)
            }
        }
    }

    pub fn set_control(&mut self, control: usize, value: f32) {
        match self {
            Self::Plugin(plugin) => plugin.set_control(control, value),
            Self::Chain(members) | Self::Parallel(members) => {
                let (member, control) = member_of(members, Self::controls, control);
                members[member].set_control(control, value);
            }
            Self::Copies(members) => {
                members.iter_mut().for_each(|member| member.set_control(control, value));
            }
        }
    }

    pub fn reported(&self, control: usize) -> f32 {
        match self {
            Self::Plugin(plugin) => plugin.reported(control),
            Self::Chain(members) | Self::Parallel(members) => {
                let (member, control) = member_of(members, Self::reported_controls, control);
                members[member].reported(control)
            }
            Self::Copies(members) => members[0].reported(control),
        }
    }

    /// Latency in frames: the sum in a chain, the maximum in parallel.
    pub fn latency(&self) -> u32 {
        match self {
            Self::Plugin(plugin) => plugin.latency(),
            Self::Chain(members) => members.iter().map(Self::latency).fold(0, u32::saturating_add),
            Self::Parallel(members) | Self::Copies(members) => {
                members.iter().map(Self::latency).max().unwrap_or(0)
            }
        }
    }

    pub fn activate(&mut self) {
        match self {
            Self::Plugin(plugin) => plugin.activate(),
            Self::Chain(members) | Self::Parallel(members) | Self::Copies(members) => {
                members.iter_mut().for_each(Self::activate);
            }
        }
    }

    pub fn run(&mut self, frames: usize) {
        match self {
            Self::Plugin(plugin) => plugin.run(frames),
            Self::Parallel(members) | Self::Copies(members) => {
                members.iter_mut().for_each(|member| member.run(frames));
            }
            Self::Chain(members) => {
                for place in 0..members.len() {
                    let (before, from_here) = members.split_at_mut(place);
                    if let (Some(before), Some(here)) = (before.last(), from_here.first_mut()) {
                        here.handle(before, frames);
                    }
                    members[place].run(frames);
                }
            }
        }
    }

    fn handle(&mut self, before: &Self, frames: usize) {
        let is_mono = before.outputs() == 1;
        for channel in 0..self.inputs() {
            let received = before.output(if is_mono { 0 } else { channel });
            let (received, input) = (received.iter().take(frames), self.input_mut(channel));
            input.iter_mut().zip(received).for_each(|(input, received)| *input = *received);
        }
    }
}

fn sum(members: &[ChainNode], count: Count) -> usize {
    members.iter().map(count).sum()
}

fn member_of(members: &[ChainNode], count: Count, mut port: usize) -> (usize, usize) {
    for (member, node) in members.iter().enumerate() {
        match count(node) {
            own if port < own => return (member, port),
            own => port -= own,
        }
    }
    (members.len() - 1, port)
}

struct Loading {
    rate: u32,
    max_frames: usize,
    libraries: BTreeMap<PathBuf, Arc<PluginLibrary>>,
}

impl Loading {
    fn node(&mut self, recipe: &Recipe) -> Result<ChainNode, NodeError> {
        Ok(match recipe {
            Recipe::Plugin { path, label } => {
                let library = match self.libraries.get(path) {
                    Some(library) => Arc::clone(library),
                    None => {
                        let library = Arc::new(PluginLibrary::load(path)?);
                        self.libraries.insert(path.clone(), Arc::clone(&library));
                        library
                    }
                };
                ChainNode::Plugin(Box::new(PluginInstance::new(
                    &library,
                    label,
                    self.rate,
                    self.max_frames,
                )?))
            }
            Recipe::Chain(members) => ChainNode::Chain(self.nodes(members)?),
            Recipe::Parallel(members) => ChainNode::Parallel(self.nodes(members)?),
            Recipe::Copies { of, times } => {
                let copies = (0..*times).map(|_| self.node(of));
                ChainNode::Copies(copies.collect::<Result<_, _>>()?)
            }
        })
    }

    fn nodes(&mut self, members: &[Recipe]) -> Result<Vec<ChainNode>, NodeError> {
        members.iter().map(|member| self.node(member)).collect()
    }
}
