use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};

use super::Missing;
use crate::scan;

/// The newest interface whose every restriction the tests cover. Older kernels apply what they know of it.
const TESTED: ABI = ABI::V6;

/// Libraries, data, settings and facts about the machine; NixOS's and Guix's stores, Flatpak's `/app`.
const SYSTEM: [&str; 19] = [
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/gnu/store",
    "/app",
    "/etc/ld.so.cache",
    "/etc/fftw",
    "/etc/localtime",
    "/dev/null",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
    // Of this process alone: the link is followed now.
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/sys/devices/system/cpu",
];

/// Limits this thread to reading `readable` and the system's libraries; returns Landlock's version.
pub(super) fn restrict(readable: &[PathBuf]) -> Result<u32, Missing> {
    let status = enforce(readable).map_err(|error| Missing::Refused(error.to_string()))?;
    match status {
        LandlockStatus::NotImplemented => Err(Missing::NotBuilt),
        LandlockStatus::NotEnabled => Err(Missing::NotEnabled),
        LandlockStatus::Available { effective_abi, kernel_abi } => {
            let known = effective_abi.to_string().parse().unwrap_or(0);
            Ok(kernel_abi.and_then(|abi| u32::try_from(abi).ok()).unwrap_or(known))
        }
    }
}

fn enforce(readable: &[PathBuf]) -> Result<LandlockStatus, RulesetError> {
    let read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    let plugins = scan::folders();
    let linked = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let linked: Vec<_> =
        std::env::split_paths(&linked).filter(|it| !it.as_os_str().is_empty()).collect();
    let folders = readable.iter().chain(&plugins).chain(&linked);
    let status = Ruleset::default()
        // All of it, to execute a file, too: what is not granted below is refused.
        .handle_access(AccessFs::from_all(TESTED))?
        .handle_access(AccessNet::from_all(TESTED))?
        .scope(Scope::from_all(TESTED))?
        .create()?
        // A path that does not exist is left out.
        .add_rules(path_beneath_rules(SYSTEM, read))?
        .add_rules(path_beneath_rules(folders, read))?
        .add_rules(path_beneath_rules(["/dev/null"], read | AccessFs::WriteFile))?
        .restrict_self()?;
    Ok(status.landlock)
}
