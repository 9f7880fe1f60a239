pub(crate) const WORK: &str = "Examples:
  # For programs on this machine:
  taut work
  # For other machines, after `taut pair`:
  taut work --listen 0.0.0.0

All options, isolation of plugins and chains: taut work --help";

pub(crate) const WORK_LONG: &str = r#"Examples:
  # For programs on this machine:
  taut work
  # For other machines, after `taut pair`:
  taut work --listen 0.0.0.0
  # With a file of chains:
  taut work --listen 10.0.0.2:17230 --chains studio.toml

Offers all LADSPA plugins in LADSPA_PATH, or in /usr/lib/ladspa and similar
folders. A separate process reads each library. Libraries that crash or hang are
left out; `taut plugins` shows the reason. Each plugin runs in a process of its
own. A second process, the standby, waits with the plugin loaded. It takes over
if the first one crashes, needs more than a second for a run, or is stopped for
a second (SIGSTOP). Other plugins are not affected. The cost of a plugin is
measured at its first use and kept in $XDG_CACHE_HOME/tautline/costs.json
(~/.cache/tautline). A plugin that would leave less than a fifth of a core free
is measured again, and rejected if the result is the same.

The kernel confines plugin processes (Landlock, seccomp). A plugin can read the
plugin folders and the system's libraries (/usr, /lib). It cannot write files,
open sockets, start programs or send signals to other processes. A plugin that
reads samples or presets elsewhere needs --allow-read FOLDER. `taut doctor`
reports which of this the kernel does not support.

Chains: plugins that run as one, with one exchange of packets per block:
  [[chain]]
  name = "voice"
  plugins = ["tap_eq:tap_equalizer", "sc4_1882:sc4"]
  [[parallel]]
  name = "rooms"
  plugins = ["gverb_1216:gverb", "voice"]
In a chain, each plugin processes the output of the one before. Channel counts
must match; one channel fits any number, and a mono plugin after several
channels runs once per channel. Plugins in parallel keep their own inputs and
outputs. A member is FILE:LABEL, as shown by `taut plugins`, or a name from the
file.

Uses TCP port 17230 by default and one UDP port per running plugin. Ctrl-C ends
it and all plugins. It logs to standard error: opened and closed streams with
blocks processed and missed, restarts, and rejected clients. Repeated messages
are logged once in ten seconds, with their count."#;

pub(crate) const PLUGINS: &str = "Examples:
  # Plugins that this machine would offer with `taut work`, and omitted plugins:
  taut plugins
  # Plugins of another machine; --save offers them to LADSPA hosts here:
  taut plugins --worker studio --save

Columns, more examples and JSON: taut plugins --help";

pub(crate) const PLUGINS_LONG: &str = r#"Examples:
  # Plugins that this machine would offer with `taut work`, and omitted plugins:
  taut plugins
  # Plugins of other machines; --save makes them available to LADSPA hosts here:
  taut plugins --worker studio --worker rack=10.0.0.3:17230
  taut plugins --worker studio --save
  # Save the plugins of all workers in tautline.toml, such as
  # `workers = ["studio", "rack=10.0.0.3:17230"]`:
  taut plugins --save
  # Saved plugins, by the labels that hosts show; no worker is contacted:
  taut plugins --saved

Columns: id (FILE:LABEL), name, channels, controls and cost, if measured: per
run and per frame. --save writes to $XDG_CACHE_HOME/tautline/plugins.json
(~/.cache/tautline); hosts load it through tautline.so when they scan for
plugins. Saving a NAME again replaces its plugins. If a worker does not answer,
the others are listed and saved, and the exit status is 3.

For scripts, --report json:
  { "schema": 2, "workers": [ { "address", "name", "catalogue": { "version",
    "worker", "plugins": [ { "id", "file", "label", "unique_id", "name",
    "maker", "copyright", "properties", "ports": [ { "name", "descriptor",
    "hints", "lower", "upper" } ], "hash", "cost": { "fixed_ns",
    "per_frame_ns" } } ] } } ], "skipped": [ { "path", "reason" } ] }
and with --saved:
  { "schema": 2, "saved": [ { "label", "unique_id", "worker", "address",
    "name" } ] }"#;
