//! Of the commands that run other people's plugins and list them.

pub(crate) const WORK: &str = r#"Examples:
  # For programs of this machine alone, such as a first try:
  taut work
  # For other machines; `taut id` says how both come to trust each other:
  taut work --listen 0.0.0.0
  # With a file of chains:
  taut work --listen 10.0.0.2:17230 --chains studio.toml

It offers every LADSPA plugin of the folders in LADSPA_PATH, or of
/usr/lib/ladspa and its like. Each library is asked once, by a process of its
own; what crashes or never comes back is left out, and `taut plugins` says why.
Each plugin that is asked for runs in a process of its own, too, and a second
process, the standby, waits with the plugin loaded. If the first crashes, does
not come back from a run within a second, or stays stopped for a second
(SIGSTOP), the standby takes over, and no other plugin notices. A plugin is
measured when it is asked for first, and what it takes is kept for later starts,
in $XDG_CACHE_HOME/tautline/costs.json (~/.cache/tautline); one that would leave
a core less than a fifth of its time is measured again, and refused if that is
still so.

Plugins are other people's code, so the kernel confines their processes
(Landlock, seccomp): a plugin reads the folders of plugins and the system's
libraries (/usr, /lib), writes no file, opens no socket, starts no program and
sends no signal to other processes. A plugin that reads samples or presets
elsewhere needs --allow-read FOLDER, once for each folder. `taut doctor` reports
what this kernel lacks of it.

Plugins that are run as one, by one exchange of datagrams:
  [[chain]]
  name = "voice"
  plugins = ["tap_eq:tap_equalizer", "sc4_1882:sc4"]
  [[parallel]]
  name = "rooms"
  plugins = ["gverb_1216:gverb", "voice"]
In a chain each hears the one before it. As many channels fit; one channel fits
any number; and after several channels a plugin of one input and one output runs
once for each. What runs in parallel has inputs and outputs of its own. A member
is FILE:LABEL, as `taut plugins` shows it, or a name from the file.

It listens at TCP port 17230 where none is given, and at a UDP port for each
plugin that runs. Ctrl-C ends it, and with it what it runs. Meanwhile it says on
standard error, a line each, who opens a stream of what and how many blocks it
worked on and missed when it ends, what is begun anew or given up, and who is
turned away. What would be said again and again is said once in ten seconds,
with how often it came."#;

pub(crate) const PLUGINS: &str = r#"Examples:
  # What this machine would offer by `taut work`, and what it would leave out:
  taut plugins
  # What other machines have; for hosts of LADSPA here, which load tautline.so:
  taut plugins --worker studio --worker rack=10.0.0.3:17230
  taut plugins --worker studio --save
  # The same of all that `workers = ["studio", "rack=10.0.0.3:17230"]` names in
  # tautline.toml; without --save this machine stands above them:
  taut plugins --save
  taut plugins
  # What is kept, by the labels that hosts show, without asking a worker:
  taut plugins --saved

A plugin is told by its id, FILE:LABEL, its name, its channels and controls, and
what it takes, where that was measured: so much for a run, and so much for each
frame. What --save keeps lies in $XDG_CACHE_HOME/tautline/plugins.json
(~/.cache/tautline). A host shows it when it looks for plugins the next time.
A NAME stands for one worker: what is saved under it later takes the place of
what was kept under it. Where a worker does not answer, the others are listed
and kept all the same, and the exit status is 3.

For scripts, --report json:
  { "schema": 1, "workers": [ { "address", "name", "catalogue": { "version",
    "worker", "plugins": [ { "id", "file", "label", "unique_id", "name",
    "maker", "copyright", "properties", "ports": [ { "name", "descriptor",
    "hints", "lower", "upper" } ], "hash", "cost": { "fixed_ns",
    "per_frame_ns" } } ] } } ], "skipped": [ { "path", "why" } ] }
and with --saved:
  { "schema": 1, "saved": [ { "label", "unique_id", "worker", "address",
    "name" } ] }"#;
