//! WirePlumber for a test's PipeWire: Lua scripts up to 0.4, a profile of components since 0.5.
//! Uses no D-Bus, no hardware, and no saved state.

use std::path::Path;

const INSTALLED: &str = "/usr/share/wireplumber";

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SetUp {
    pub(crate) arguments: &'static str,
    files: &'static [(&'static str, &'static str)],
    /// Whether it falls back to [`INSTALLED`].
    over_installed: bool,
}

const BY_SCRIPTS: SetUp = SetUp {
    arguments: "",
    files: &[("wireplumber.conf", SCRIPTING), ("test.lua", SCRIPTS)],
    over_installed: false,
};

const BY_PROFILE: SetUp = SetUp {
    arguments: "--profile test",
    files: &[("wireplumber.conf.d/test.conf", PROFILE)],
    over_installed: true,
};

impl SetUp {
    /// `None` if unknown.
    pub(crate) fn of(major: u32, minor: u32) -> Option<Self> {
        match (major, minor) {
            (0, 4) => Some(BY_SCRIPTS),
            (0, 5) => Some(BY_PROFILE),
            _ => None,
        }
    }

    pub(crate) fn write(&self, folder: &Path) {
        for (name, text) in self.files {
            let file = folder.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
    }

    pub(crate) fn looks_in(&self, folder: &Path) -> String {
        let installed = if self.over_installed { format!(":{INSTALLED}") } else { String::new() };
        format!("{}{installed}", folder.display())
    }
}

const SCRIPTING: &str = "
context.properties = { wireplumber.script-engine = lua-scripting }
context.spa-libs = {
    audio.convert.* = audioconvert/libspa-audioconvert
    support.* = support/libspa-support
}
context.modules = [
    { name = libpipewire-module-protocol-native }
    { name = libpipewire-module-client-node }
    { name = libpipewire-module-adapter }
    { name = libpipewire-module-metadata }
    { name = libpipewire-module-session-manager }
]
wireplumber.components = [
    { name = libwireplumber-module-lua-scripting, type = module }
    { name = test.lua, type = config/lua }
]
";

const SCRIPTS: &str = r#"
components = {}
local function module(name, arguments)
  components[name] = { "libwireplumber-module-" .. name, type = "module", args = arguments }
end
local function script(name, arguments)
  components[name] = { name, type = "script/lua", args = arguments }
end
module("metadata")
module("default-nodes", { ["use-persistent-storage"] = false })
module("si-node")
module("si-audio-adapter")
module("si-standard-link")
module("si-audio-endpoint")
module("default-nodes-api")
module("mixer-api")
script("access/access-default.lua", {})
script("create-item.lua", {})
script("policy-node.lua", { ["move"] = true, ["follow"] = true })
script("suspend-node.lua")
"#;

const PROFILE: &str = "
wireplumber.profiles = {
    test = {
        metadata.sm-settings = required
        support.settings = required
        policy.standard = required
        support.portal-permissionstore = disabled
        script.client.access-portal = disabled
        hooks.device.profile.state = disabled
        hooks.device.routes.state = disabled
        hooks.default-nodes.state = disabled
        hooks.stream.state = disabled
    }
}
";
