use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};

use super::Missing;
use crate::scan;

/// Newest tested ABI. Older kernels apply their subset.
const TESTED: ABI = ABI::V6;

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
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/sys/devices/system/cpu",
];

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
        // All access is denied unless granted below.
        .handle_access(AccessFs::from_all(TESTED))?
        .handle_access(AccessNet::from_all(TESTED))?
        .scope(Scope::from_all(TESTED))?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, read))?
        .add_rules(path_beneath_rules(folders, read))?
        .add_rules(path_beneath_rules(["/dev/null"], read | AccessFs::WriteFile))?
        .restrict_self()?;
    Ok(status.landlock)
}
