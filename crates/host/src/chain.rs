//! Several plugins as one, in series or parallel. `file` has definitions, `outline` the ports;
//! `node` runs them in a child.

mod file;
mod node;
mod outline;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use file::{ChainDefinition, ChainFile, ChainFileError, ChainKind};
pub use node::{ChainNode, NodeError};
pub use outline::{MisfitError, Outline};

pub const MAX_INSTANCES: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recipe {
    Plugin { path: PathBuf, label: String },
    Chain(Vec<Recipe>),
    Parallel(Vec<Recipe>),
    Copies { of: Box<Recipe>, times: usize },
}

impl Recipe {
    pub fn instances(&self) -> usize {
        match self {
            Self::Plugin { .. } => 1,
            Self::Chain(members) | Self::Parallel(members) => {
                members.iter().map(Self::instances).fold(0, usize::saturating_add)
            }
            Self::Copies { of, times } => of.instances().saturating_mul(*times),
        }
    }

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
