//! Chains and parallel plugins:
//!
//! ```toml
//! [[chain]]
//! name = "voice"
//! plugins = ["tap_eq:tap_equalizer", "sc4_1882:sc4"]
//!
//! [[parallel]]
//! name = "rooms"
//! plugins = ["gverb_1216:gverb", "voice"]
//! ```
//!
//! A member is `LIBRARY:LABEL`, or defined in the same file.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{MAX_INSTANCES, MisfitError, Outline};

const MAX: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainKind {
    Chain,
    Parallel,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainDefinition {
    pub kind: ChainKind,
    pub name: String,
    pub members: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChainFile {
    pub path: PathBuf,
    pub definitions: Vec<ChainDefinition>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainFileError {
    #[error("cannot read {0}: {1}\nhint: check its name and permissions")]
    Unreadable(PathBuf, String),
    #[error(
        "invalid chain file {0}: {1}\nhint: write [[chain]], name = \"NAME\", plugins = [\"FILE:LABEL\"]"
    )]
    Unusable(PathBuf, String),
    #[error("invalid chain name `{0}`\nhint: use one without whitespace and colons")]
    Name(String),
    #[error("`{0}` is defined twice\nhint: rename one of them")]
    Twice(String),
    #[error(
        "unknown member `{member}` in `{chain}`\nhint: `taut plugins` lists the available members"
    )]
    Unknown { chain: String, member: String },
    #[error("`{chain}` contains itself via `{member}`\nhint: leave `{member}` out of `{chain}`")]
    Cycle { chain: String, member: String },
    #[error("`{0}` has {1} plugins: must be 1 to {MAX_INSTANCES}")]
    Size(String, usize),
    #[error("`{0}`: {1}")]
    Misfit(String, MisfitError),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenChains {
    #[serde(default)]
    chain: Vec<WrittenDefinition>,
    #[serde(default)]
    parallel: Vec<WrittenDefinition>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenDefinition {
    name: String,
    plugins: Vec<String>,
}

impl ChainFile {
    pub fn read(path: &Path) -> Result<Self, ChainFileError> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            ChainFileError::Unreadable(path.to_owned(), error.to_string().to_lowercase())
        })?;
        Self::parse(path, &text)
    }

    pub fn parse(path: &Path, text: &str) -> Result<Self, ChainFileError> {
        let unusable = |why: String| ChainFileError::Unusable(path.to_owned(), why);
        let written: WrittenChains = toml::from_str(text).map_err(|error| {
            unusable(error.message().split_whitespace().collect::<Vec<_>>().join(" "))
        })?;
        let of = |kind| {
            move |WrittenDefinition { name, plugins }| ChainDefinition {
                kind,
                name,
                members: plugins,
            }
        };
        let chains = written.chain.into_iter().map(of(ChainKind::Chain));
        let definitions: Vec<_> =
            chains.chain(written.parallel.into_iter().map(of(ChainKind::Parallel))).collect();
        if definitions.len() > MAX {
            return Err(unusable(format!("{} definitions are too many", definitions.len())));
        }
        for (place, ChainDefinition { name, .. }) in definitions.iter().enumerate() {
            if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c == ':') {
                return Err(ChainFileError::Name(name.clone()));
            }
            if definitions[..place].iter().any(|before| before.name == *name) {
                return Err(ChainFileError::Twice(name.clone()));
            }
        }
        Ok(Self { path: path.to_owned(), definitions })
    }

    pub fn outlines(
        &self,
        plugin: &dyn Fn(&str) -> Option<Outline>,
    ) -> Result<Vec<Outline>, ChainFileError> {
        let mut made: Vec<Option<Outline>> = vec![None; self.definitions.len()];
        // Members may be defined later. A definition that never resolves lacks a member or contains
        // itself.
        while made.iter().any(Option::is_none) {
            let before = made.iter().flatten().count();
            let mut lacks = Vec::new();
            for place in 0..made.len() {
                if made[place].is_some() {
                    continue;
                }
                let known = |name: &str| {
                    plugin(name)
                        .or_else(|| made.iter().flatten().find(|of| of.label == name).cloned())
                };
                match outline(&self.definitions[place], &known) {
                    Err(ChainFileError::Unknown { chain, member }) => lacks.push((chain, member)),
                    outline => made[place] = Some(outline?),
                }
            }
            if made.iter().flatten().count() == before {
                return Err(unresolved(&lacks));
            }
        }
        Ok(made.into_iter().flatten().collect())
    }
}

/// Error for chains that each lack a member: the member is not defined, or the chains form a cycle.
fn unresolved(lacks: &[(String, String)]) -> ChainFileError {
    let next = |chain: &str| lacks.iter().position(|(lacking, _)| lacking == chain);
    let (mut seen, mut at) = (vec![false; lacks.len()], 0);
    if let Some(unknown) = lacks.iter().position(|(_, member)| next(member).is_none()) {
        let (chain, member) = lacks[unknown].clone();
        return ChainFileError::Unknown { chain, member };
    }
    while !seen[at] {
        seen[at] = true;
        at = next(&lacks[at].1).unwrap_or(at);
    }
    let (chain, member) = lacks[at].clone();
    ChainFileError::Cycle { chain, member }
}

fn outline(
    definition: &ChainDefinition,
    known: &dyn Fn(&str) -> Option<Outline>,
) -> Result<Outline, ChainFileError> {
    let ChainDefinition { kind, name, members } = definition;
    let unknown =
        |member: &String| ChainFileError::Unknown { chain: name.clone(), member: member.clone() };
    let mut found = Vec::new();
    for member in members {
        found.push(known(member).ok_or_else(|| unknown(member))?);
        let count = found.iter().map(|of: &Outline| of.recipe.instances()).sum();
        if count > MAX_INSTANCES {
            return Err(ChainFileError::Size(name.clone(), count));
        }
    }
    if found.is_empty() {
        return Err(ChainFileError::Size(name.clone(), 0));
    }
    let outline = match kind {
        ChainKind::Chain => Outline::chain(name, found)
            .map_err(|misfit| ChainFileError::Misfit(name.clone(), misfit))?,
        ChainKind::Parallel => Outline::parallel(name, &found),
    };
    match outline.recipe.instances() {
        count if count > MAX_INSTANCES => Err(ChainFileError::Size(name.clone(), count)),
        _ => Ok(outline),
    }
}
