use core::ffi::c_ulong;
use std::path::{Path, PathBuf};
use std::sync::Once;

use libloading::os::unix::{Library as Loaded, RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW};

use super::abi::{Descriptor, DescriptorFunction, ENTRY};
use super::description::{InvalidDescription, PluginDescription};

pub const MAX_PLUGINS: usize = 4096;

/// Running plugins keep it loaded.
#[derive(Debug)]
pub struct PluginLibrary {
    path: PathBuf,
    plugins: Vec<(*const Descriptor, PluginDescription)>,
    skipped: Vec<SkippedPlugin>,
    _loaded: Loaded,
}

// SAFETY: the library's data is constant, and exists as long as it is loaded.
unsafe impl Send for PluginLibrary {}
// SAFETY: as above.
unsafe impl Sync for PluginLibrary {}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedPlugin {
    pub index: usize,
    pub why: InvalidDescription,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    #[error("loading {path}: {answer}; install its dependencies, or remove it from LADSPA_PATH")]
    Load { path: PathBuf, answer: String },
    #[error(
        "loading {0}: not a LADSPA library: it has no function {ENTRY}; remove it from LADSPA_PATH"
    )]
    NoPlugins(PathBuf),
    #[error("loading {0}: it has more than {MAX_PLUGINS} plugins; remove it from LADSPA_PATH")]
    Endless(PathBuf),
}

impl PluginLibrary {
    /// Runs the library's code: use an expendable process, unless the user chose the file.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        // The loader would search system paths for a name without slash.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        lend_mathematics();
        // SAFETY: a library's initialisation runs arbitrary code; see above.
        let loaded = unsafe { Loaded::open(Some(&path), RTLD_NOW | RTLD_LOCAL) };
        let loaded = loaded.map_err(|error| LoadError::Load {
            answer: words_of(&error, &path),
            path: path.clone(),
        })?;
        // SAFETY: per the header, a function of this name has this type.
        let entry = unsafe { loaded.get::<DescriptorFunction>(ENTRY) };
        let entry = *entry.map_err(|_| LoadError::NoPlugins(path.clone()))?;
        let (mut plugins, mut skipped) = (Vec::new(), Vec::new());
        for index in 0.. {
            // SAFETY: per the header, any index may be requested, in sequence.
            let reported = unsafe { entry(index as c_ulong) };
            // SAFETY: null, or a descriptor that exists as long as the library.
            let Some(descriptor) = (unsafe { reported.as_ref() }) else { break };
            if index >= MAX_PLUGINS {
                return Err(LoadError::Endless(path));
            }
            // SAFETY: the loaded library returned it.
            match unsafe { PluginDescription::read(descriptor) } {
                Ok(description) => plugins.push((reported, description)),
                Err(why) => skipped.push(SkippedPlugin { index, why }),
            }
        }
        Ok(Self { path, plugins, skipped, _loaded: loaded })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn plugins(&self) -> impl Iterator<Item = &PluginDescription> {
        self.plugins.iter().map(|(_, description)| description)
    }

    pub fn skipped(&self) -> &[SkippedPlugin] {
        &self.skipped
    }

    pub(crate) fn find(&self, label: &str) -> Option<(&Descriptor, &PluginDescription)> {
        let (reported, description) = self.plugins.iter().find(|(_, of)| of.label == label)?;
        // SAFETY: returned by the library, which is loaded as long as this is borrowed.
        Some((unsafe { &**reported }, description))
    }
}

/// Loads libm globally: some libraries (`ladspa-sdk`) use it without linking it.
fn lend_mathematics() {
    static LENT: Once = Once::new();
    LENT.call_once(|| {
        // SAFETY: libm is part of the C library and has no effects. Under another name it is part
        // of libc.
        if let Ok(loaded) = unsafe { Loaded::open(Some("libm.so.6"), RTLD_NOW | RTLD_GLOBAL) } {
            core::mem::forget(loaded);
        }
    });
}

fn words_of(error: &libloading::Error, path: &Path) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let words = innermost.to_string();
    let after = words.strip_prefix(&format!("{}: ", path.display()));
    after.unwrap_or(&words).to_owned()
}
