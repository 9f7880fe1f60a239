pub(crate) const SITE_CHECK: &str = r#"Examples:
  taut site check
  taut site check /srv/school/building.toml --report json

Each mistake has a line, FILE:LINE: and the message; the fix follows a
semicolon. A valid file has one line with its epoch, the first digits of its
hash and the number of nodes, zones, groups and stations. Its keys are in
docs/reference/building.md.

For scripts, --report json:
  { "schema": 1, "file", "epoch", "hash", "nodes", "zones", "groups",
    "stations" }
or, with mistakes:
  { "schema": 1, "file",
    "mistakes": [ { "line", "column", "message", "fix" } ] }

Exit status: 0 valid, 1 a calendar of the schedule cannot be used, 2 mistakes,
3 the file could not be read."#;

pub(crate) const SITE_PUSH: &str = r#"Examples:
  taut site push
  taut site push /srv/school/building.toml

Copies the file, and the .key, .wav, .flac and .ics files that it names below
its folder. Each node must run taut node and trust this machine (taut pair).
It keeps what it has if the file has a lower epoch or mistakes, or if its own
file of this epoch differs. Cards and sources that did not change play on.

Exit status: 0 all nodes have the file, 1 not all have it."#;

pub(crate) const NODE: &str = r#"Example, on each machine of the building:
  taut node

The node plays the zones of its cards, sends its sources, plays the schedule,
and answers other machines at TCP port 17250: taut zones, taut zone, taut ack.
It restarts what fails. Changes of zones, and faults, outlast a restart.

Building file: docs/reference/building.md"#;

pub(crate) const ZONES: &str = r#"Example:
  taut zones

Faults are listed below the zones until taut ack clears them. A zone without
packets from its source has a fault after 5 s.

For scripts, --report json (times in nanoseconds):
  { "schema": 1, "nodes": [ { "node", "epoch", "hash", "zones": [ { "zone",
    "state", "fault", "seconds", "source", "volume", "page_volume", "muted",
    "delay", "equalizer", "limiter", "latency_ns", "lost", "refused_claims",
    "announcement", "announcements": [ { "id", "result", "by", "reason",
    "station", "rank", "priority", "targets", "planned_ns", "started_ns" } ]
    } ], "sources": [ { "source", "fault" } ], "faults": [ { "kind", "name",
    "reason", "first_s", "last_s", "lasts" } ], "fault" } ] }

Times in first_s and last_s are Unix seconds.

Exit status: 0 without faults, 1 with faults."#;

pub(crate) const ACK: &str = r#"Examples:
  taut ack
  taut ack hall,gym

Faults that last stay.

Exit status: 0 all cleared, 1 a fault lasts or a node did not answer."#;

pub(crate) const ZONE: &str = r#"Examples:
  taut zone hall
  taut zone hall volume -6dB
  taut zone hall page-volume -3dB
  taut zone hall,gym mute
  taut zone yard delay 17.5m
  taut zone hall equalizer "peaking 120 -4dB 1.4; high-pass 80"
  taut zone indoors source radio
  taut zone hall volume default

default is the value of the building file. taut zone hall shows it for each
setting that differs."#;

pub(crate) const PRESET: &str = r#"Example:
  taut preset evening"#;

pub(crate) const SCHEDULE_NEXT: &str = r#"Examples:
  taut schedule next
  taut schedule next 50

Reads the building file and its calendars; asks no node. Each node plays its
own copy, if its clock is synchronized.

For scripts, --report json:
  { "schema": 1, "plays": [ { "time", "rule", "zones", "message", "preset" } ] }"#;

pub(crate) const PAGE: &str = r#"Examples:
  taut page all
  taut page hall,gym --input alsa:hw:1

Speak after "ready", until Ctrl-C: the microphone is sent after the chime. The
zones lower their music, and raise it after the page. A zone refuses the page
while it plays an announcement of higher priority."#;

pub(crate) const PLAY: &str = r#"Examples:
  taut play all closing.wav
  taut play indoors fire
  taut play all evacuate --repeat

The recording is a WAV or FLAC file of any rate."#;

pub(crate) const SAY: &str = r#"Examples:
  taut say all "The library closes in ten minutes."
  taut say gym "Guten Tag." --command "espeak-ng -v de --stdin --stdout"

For another default, write in tautline.toml of this machine:
  [say]
  command = "piper --model en.onnx --output_file -""#;

pub(crate) const STOP: &str = r#"Examples:
  taut stop gym
  taut stop 01c2a95be41f8d37

With zones, the announcement ends in these zones and plays on in others. With a
number, it ends everywhere. Its station stops when no zone plays it. The number
is in taut zones --report json, and on the station with --verbose."#;
