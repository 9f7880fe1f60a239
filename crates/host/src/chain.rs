//! Several plugins that are offered, and run, as one: one behind the other, or side by side.
//!
//! `file` reads what a user wrote, `outline` says what ports such a thing has and whether its members fit,
//! by what their libraries said of them; `node` is it at work, in a child.

mod file;
mod node;
mod outline;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use file::{ChainDefinition, ChainFile, ChainFileError, ChainKind};
pub use node::{ChainNode, NodeError};
pub use outline::{MisfitError, Outline};

/// Plugins that one stream runs at most.
pub const MOST_INSTANCES: usize = 256;

/// What is to be run, down to files and labels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recipe {
    /// One plugin of one library.
    Plugin { path: PathBuf, label: String },
    /// One behind the other: each hears what the one before it plays.
    Chain(Vec<Recipe>),
    /// Side by side: each has inputs and outputs of its own.
    Parallel(Vec<Recipe>),
    /// The same several times side by side, one for each channel, with one set of controls.
    Copies { of: Box<Recipe>, times: usize },
}

impl Recipe {
    /// How many plugins run.
    pub fn instances(&self) -> usize {
        match self {
            Self::Plugin { .. } => 1,
            Self::Chain(members) | Self::Parallel(members) => {
                members.iter().map(Self::instances).fold(0, usize::saturating_add)
            }
            Self::Copies { of, times } => of.instances().saturating_mul(*times),
        }
    }

    /// The libraries that it needs.
    pub fn libraries(&self) -> Vec<&PathBuf> {
        match self {
            Self::Plugin { path, .. } => vec![path],
            Self::Chain(members) | Self::Parallel(members) => {
                members.iter().flat_map(Self::libraries).collect()
            }
            Self::Copies { of, .. } => of.libraries(),
        }
    }
}

#[cfg(test)]
mod tests;
