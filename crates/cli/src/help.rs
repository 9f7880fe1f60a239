//! Help below the options, also for man pages.
//!
//! Lines are at most 80 columns. Tests run each example through a shell and the parser.

mod call;
mod files;
mod site;
mod stages;
#[cfg(test)]
mod tests;
mod trust;
mod work;

pub(crate) use call::{CALL, CALL_LONG, SERVE, SERVE_LONG};
pub(crate) use files::{COMPARE, COMPARE_LONG};
pub(crate) use site::{
    ACK, NODE, PAGE, PLAY, PRESET, SAY, SCHEDULE_NEXT, SITE_CHECK, SITE_PUSH, STOP, ZONE, ZONES,
};
use stages::stages;
pub(crate) use trust::{ID, PAIR, SRTP_KEY, TRUST};
pub(crate) use work::{PLUGINS, PLUGINS_LONG, WORK, WORK_LONG};

macro_rules! send_examples {
    () => {
        r#"Examples:
  # A file to one receiver, which runs `taut recv --from rtp://0.0.0.0:5004`:
  taut send --input file:song.flac --to rtp://10.0.0.2:5004
  # Multicast on eth0, to any number of receivers, with an SDP file:
  taut send --input tone:440 --to "rtp://239.69.1.1:5004?iface=eth0&ttl=4" \
      --sdp tone.sdp
  # Two receivers with very little delay, on quiet machines:
  taut send --input "virtual:?tone=440" --to rtp://10.0.0.2:5004 \
      --to rtp://10.0.0.3:5004 --ptime 125us --period 12 --latency 2ms
  # Over Wi-Fi; lost packets are repaired within 10 ms:
  taut send --input tone:440 --to rtp://10.0.0.2:5004 --redundancy auto \
      --redundancy-budget 10ms
  # Log a message when a receiver stops reporting:
  taut send --input tone:440 --to rtp://10.0.0.2:5004 \
      --on-lost 'logger "$TAUT_RECEIVER lost $TAUT_STREAM"'
  # To a device that accepts only 16 bits and no header extensions:
  taut send --input tone:440 --to rtp://10.0.0.9:5004 --format l16 \
      --no-header-extensions"#
    };
}

macro_rules! recv_examples {
    () => {
        r#"Examples:
  # Record on all interfaces until the sender ends:
  taut recv --from rtp://0.0.0.0:5004 --output file:heard.wav --exit-on-bye
  # The same, with Audacity labels for dropouts in heard.labels.txt:
  taut recv --from rtp://0.0.0.0:5004 --output file:heard.wav --exit-on-bye \
      --labels
  # A stream described by an SDP file; figures only, no audio:
  taut recv --from tone.sdp --output null: --latency 5ms
  # A multicast group on eth0, from one sender only:
  taut recv --from "rtp://239.69.1.1:5004?iface=eth0&source=10.0.0.7" \
      --output null: --report json
  # The times of every packet, as a page with charts:
  taut recv --from rtp://0.0.0.0:5004 --output null: --exit-on-bye \
      --packet-log packets.csv --report-file page.html
  # The second stream, quieter, plays while the first sends no packets:
  taut recv --from rtp://0.0.0.0:5004 --from "rtp://0.0.0.0:5006?volume=-6dB" \
      --output file:mix.wav --select priority"#
    };
}

pub(crate) const TAUT: &str =
    "Try it: taut demo. Examples, tautline.toml, exit status: taut --help";

pub(crate) const TAUT_LONG: &str = r#"Try it:
  taut demo

From one machine to another, with a latency that follows the network:
  # On 10.0.0.2, first:
  taut recv --from rtp://0.0.0.0:5004 --output file:heard.wav --exit-on-bye \
      --latency auto
  # On 10.0.0.1:
  taut send --input file:song.flac --to rtp://10.0.0.2:5004

Options of most commands can also be set in tautline.toml, by their long names:
  latency = "20ms"                  # all commands that have it
  [send]
  to = ["rtp://10.0.0.2:5004", "rtp://10.0.0.3:5004"]
The first file found is used: in the current folder, $TAUT_HOME,
$XDG_CONFIG_HOME/tautline (~/.config/tautline) or /etc/tautline. The command
line overrides it.

make install also installs what these two write to a folder:
  taut man --out DIR
  taut completions --out DIR

Exit status: 0 success; 1 failed while running: nothing was received, or an
output file is incomplete; 2 usage error; 3 a device, file or address could not
be opened; 4 recv --exit-on-bye: the sender stopped without a goodbye; 5 no
verdict: compare of periodic audio with an ambiguous delay, lab compare of
reports that cannot be compared."#;

pub(crate) const DEMO: &str = r#"The default latency of 100 ms survives hosts that stall for tens of
milliseconds, such as virtual machines: half of it is in the card's buffer, 48
periods of 1 ms, half in the jitter buffer. On a quiet machine:
  taut demo --latency 5ms --periods 2
  taut demo --latency 2ms --period 12 --periods 2"#;

pub(crate) const DEMO_BUILDING: &str = r#"Example, as root:
  taut demo building
  taut-building/office taut zones          (in another terminal)
  taut-building/office taut play all chime

Three network namespaces are the machines cellar, gym and office. Each runs a
node with a virtual card that records. The folder has a script per machine,
which runs a command there. The demo announces a chime, and measures in the
recorded sound how far apart the zones start it. Tutorial:
docs/tutorials/zones.md"#;

pub(crate) const JOIN: &str = "Example:
  taut join sent.csv heard.csv

Columns and stages: taut join --help";

pub(crate) const JOIN_LONG: &str = concat!(
    r#"Example, with the files that `--packet-log` wrote at both ends:
  taut join sent.csv heard.csv

Output: one line of CSV per sent packet. Unknown values are empty:
  rtp_timestamp    of the packet's first frame
  time_s           seconds from the first packet's capture to this packet's
  outcome          played; late; underrun (its sound was skipped); missing (in
                   the receiver's log); dropped (by the sender's queue);
                   unlogged (sent before or after the receiver's log)
  capture_ns to device_ns
                   length of each stage, 0 if the packet skips it. The first
                   four use the sender's clock, wire spans both clocks, the
                   others use the receiver's clock
  total_ns         sum of these columns: ADC to DAC, of played packets
  measured_ns      the same, measured from the audio, if possible; independent
                   of the stages
  lateness_ns      delay of the hand-over to the kernel after its due time; in
                   no sum

"#,
    stages!()
);

pub(crate) const DEVICES: &str = r#"The names are values for --input and --output. The hardware or
its server reports the rates, formats, channels and periods. A period is shown
in frames and, in parentheses, as time at the lowest rate.

For scripts, --report json (times in nanoseconds; null: no restriction):
  { "schema": 2, "devices": [ { "name", "description", "directions": [ {
    "direction", "rates", "formats", "min_channels", "max_channels",
    "min_period_frames", "min_period_ns", "unknown" } ] } ] }"#;

pub(crate) const TOP: &str = "Examples:
  taut top
  taut top --once --report json

Keys: up and down select a stream, Enter shows only that stream or all, q quits.
! marks a problem in the last second.

Columns, stages and JSON: taut top --help";

pub(crate) const TOP_LONG: &str = concat!(
    r#"Examples:
  # All streams of this user, updated ten times a second:
  taut top
  # Once, as text or JSON:
  taut top --once
  taut top --once --report json

Keys: up and down select a stream, Enter shows only that stream or all, q quits.
! marks a problem in the last second.

One row per stream. LATENCY: median of the newest packets with its uncertainty.
P99: of the whole run. HEADROOM: minimum of the last second. LOSS: share lost in
the last second and packets lost in total; LATE and XRUNS likewise. METERS:
peaks in dBFS. Below: stages (medians of the last second), the packet of the
last minute with the least headroom, all counters and, with --clock, the rate
and state of the media clock.

Runs of send, recv, call, serve, work and demo report through a socket in
$XDG_RUNTIME_DIR/tautline, /run/user/UID/tautline or /tmp/tautline-UID, to the
same user and root. Root sees the runs of all users.

For scripts, --report json (times in nanoseconds, null if unknown):
  { "schema": 2, "programs": [ { "schema", "pid", "role", "command",
    "elapsed_ns", "streams": [ { "address", "sender", "state": "connected" |
    "waiting" | "silent" | "refused" | "no_receiver" | "lost" | "unknown",
    "rate", "channels", "format", "bitrate", "transport", "muted", "ptime_ns",
    "latency": { "configured_ns", "measured_ns", "uncertainty_ns", "p99_ns",
    "method" }, "stages": [ { "name", "ns" } ], "target_delay_ns",
    "target_delay_has_repair", "headroom_ns", "counters", "gaps",
    "second": { "interval_ns", "packets", "lost", "late", "xruns",
    "loss_share" }, "meters": [ { "peak_db", "rms_db" } ],
    "worst": { "rtp_timestamp", "total_ns", "stages" },
    "clock": { "source", "uncertainty_ns", "round_trip_ns", "rate_ppm",
    "rate_uncertainty_ppm" } } ],
    "clock": { "address", "stream", "state": "waiting" | "locked" | "holdover",
    "rate_ppm", "uncertainty_ppm", "holdover_ns" }, "offloads": [ { "id",
    "plugin", "client", "phase", "share", "blocks", "missed", "restarts" } ]
    } ],
    "unreadable": [ { "socket", "reason" } ] }

"#,
    stages!()
);

pub(crate) const DOCTOR: &str = r#"Examples:
  # Is 5 ms possible on this machine?
  taut doctor
  # Is 2 ms possible, with packets of 125 us?
  taut doctor --latency 2ms --ptime 125us

It observes for a second and changes nothing. Each finding is a line: ok,
warning (dropouts if something else goes wrong), FAILURE (dropouts at this
latency) or ? (unknown); the state; why it matters; and the command that fixes
it until the next boot, or shows more. Root sees more.

With a building file, it also observes the network of this node: IGMP queries,
and the priority (DSCP) of the sources, for --observe at most.

For scripts, --report json:
  { "schema": 2, "latency_ns", "findings": [ { "check", "verdict": "ok" |
    "unknown" | "warning" | "failure", "message", "reason", "fix", "details",
    "improvement" } ], "counts": { "ok", "unknown", "warning", "failure" } }

Exit status: 0 if no finding is FAILURE, 1 otherwise."#;

pub(crate) const SEND: &str = r#"Examples:
  taut send --input file:song.flac --to rtp://10.0.0.2:5004
  taut send --input alsa:hw:0 --to "rtp://239.69.1.1:5004?iface=eth0&ttl=4"

All options, addresses, devices and examples: taut send --help"#;

pub(crate) const RECV: &str = r#"Examples:
  taut recv --from rtp://0.0.0.0:5004 --output alsa:hw:0
  taut recv --from rtp://0.0.0.0:5004 --output file:heard.wav --exit-on-bye

All options, addresses, devices and examples: taut recv --help"#;

pub(crate) const SEND_LONG: &str = concat!(
    send_examples!(),
    r#"

Addresses, for --to:
  rtp://HOST:PORT  a machine or a multicast group (239.x.y.z). PORT is a UDP
                   port; RTCP uses the next one. A firewall must pass both, in
                   both directions
  rtp+tcp://HOST:PORT
                   a machine over TCP (RFC 4571), for networks that block UDP.
                   A lost connection is restored; data that TCP does not accept
                   in time is dropped
  FILE.sdp         the machine or group of an SDP file
  avtp://eth0/91:E0:F0:00:FE:01
                   AVTP (IEEE 1722) over Ethernet, to a multicast or unicast MAC
                   address. avtp://eth0 claims an address with MAAP, which takes
                   two seconds, and reports it. After a conflict it claims
                   another one
  avtp+udp://HOST:17220
                   AVTP over UDP

  Options follow ? and are separated by &. Quote the address: & is special in a
  shell.
  iface=eth0       send on this interface: its name or IP address
  ttl=4            multicast: maximum number of router hops; 1, the default,
                   stays in the local network
  loop=0           multicast: do not deliver on this machine; default 1
  streamid=AA:BB:CC:DD:EE:FF:0001
                   avtp: the stream ID; default: derived from the MAC address
  prio=2           avtp: priority of frames in this machine's queues and, with a
                   VLAN, in the network; default 3 (class A)

  All --to share one socket, so groups need the same iface, ttl and loop.

Redundancy, for --redundancy. Lost packets are repaired within
--redundancy-budget, which is part of the latency. Receivers without support
play the stream without repair:
  red:2            copies of two earlier packets, spread over the budget
  fec:1            one symbol of an erasure code over all packets of the budget:
                   as long as one copy; repairs any one of them
  auto             as much as the reported losses need
  paths:eth0,eth1  each packet over two networks: to a group over both, or to
                   one --to over each; alone or as in fec:1+paths:eth0,eth1

Devices, for --input (see taut devices):
  file:song.flac   a WAV or FLAC file or pipe, at its own rate; up to 64
                   channels of 24 bits or float
  file:-           WAV or FLAC from standard input. Starts when 0.4 s of audio
                   are there
  tone:440         a sine wave, in hertz
  null:            silence
  programs:        what programs of this user play to the ALSA PCM tautserve;
                   programs:NAME for tautserve:NAME
  alsa:hw:0        a sound card or other ALSA PCM; alsa:plughw:0 converts rate,
                   channels and format. Options: wakeup=timer for a card with
                   coarse interrupts, format=S16_LE for one of its formats
  jack:taut        a JACK client named taut with one input port per channel,
                   connected to the card. Options: connect=none connects
                   nothing, connect=ardour: connects ports whose names start
                   so, server=NAME selects another server
  pipewire:Kitchen a PipeWire sink named Kitchen that programs play to.
                   pipewire:taut?as=stream records from the default source,
                   pipewire:taut?target=NODE from another node; force=yes makes
                   the graph run at --period. The network's latency is reported
                   to the graph as port latency and, from PipeWire 1.4 on, as
                   ProcessLatency
  virtual:         a sound card without hardware, for tests. Options: tone=440
                   or source=song.wav to capture, ppm=50 for a fast clock,
                   period=48, periods=2, unplug=2s and replug=1s.
                   cable=NAME captures what another virtual card of this user
                   plays to the same cable, delay=3.37ms later

Changes, with --control, one per line of standard input:
  latency 8ms      the latency; auto: as long as receivers request
  ptime 2ms        audio per packet
  format l16       codec
  redundancy red:1
                   data of earlier packets
  volume -6dB      gain; kept while muted
  mute             silence
  unmute           audio again
  to rtp://10.0.0.2:5004,rtp://10.0.0.3:5004
                   all destinations from now on; removed ones get a goodbye
  status           no change; prints the settings and the numbers of connected
                   and lost receivers
  quit             exit, as Ctrl-C does

  Each line is answered on standard error: ok and the new value, or error, the
  line and the reason.

Receivers report twice a second. A receiver that stops without a goodbye is lost
after 3 s, or after five of its report intervals if that is longer. This is
logged, counted in the report (receivers_lost; times_lost of each receiver) and
shown by status and `taut top`. --on-lost then runs its command in the
background; its output goes to standard error.

Times are written 125us, 5ms or 2s.

"#,
    stages!()
);

pub(crate) const RECV_LONG: &str = concat!(
    recv_examples!(),
    r#"

Addresses, for --from:
  rtp://HOST:PORT  an address of this machine (0.0.0.0: all of IPv4, [::]: all)
                   or a multicast group (239.x.y.z) to join. PORT is a UDP port;
                   RTCP, which carries the sender's clock and latency, uses the
                   next one. A firewall must pass both
  rtp+tcp://HOST:PORT
                   accepts one sender at a time over TCP. Another one is
                   accepted after 1 s of silence
  FILE.sdp         the first supported audio stream of an SDP file, such as
                   `taut send --sdp` writes. Ignored lines are reported
  avtp://eth0/91:E0:F0:00:FE:01
                   AVTP (IEEE 1722 AAF) over Ethernet on eth0, from this group
                   or to eth0's own address. It needs CAP_NET_RAW. There is no
                   RTCP: the talker's clock is TAI, from PTP, and there is no
                   goodbye, so no --exit-on-bye. Packets carry presentation
                   times, so --latency moves nothing: it reserves buffer space
                   and counts as the time from capture in reports
  avtp+udp://HOST  AVTP over UDP port 17220, or another after a colon

  Options follow ? and are separated by &. Quote the address: & is special in a
  shell.
  iface=eth0       receive on this interface only: its name or IP address; for a
                   group on two networks iface=eth0,eth1
  source=10.0.0.7  receive from this host only, its first sender;
                   source=10.0.0.7,10.0.0.9: every sender of these hosts, as a
                   stream each
  senders=all      receive up to 64 senders, each as a stream of its own;
                   senders=200 for up to 200, maximum 1024, also with source.
                   By default only the first sender is received
  streamid=ID      avtp: this stream only, AA:BB:CC:DD:EE:FF:0001; default: the
                   first that arrives
  tolerance=20ms   avtp: restart the stream if a presentation time differs by
                   more than this from that expected by sequence number
  volume=-6dB      gain of this stream; --volume is for all

  ttl and loop are options of --to.

Clocks, for --clock:
  avtp://eth0/91:E0:F0:00:FE:08
                   a CRF stream (IEEE 1722) over Ethernet on eth0: the rate of
                   the talkers' media clock. AVTP streams are resampled by it
                   instead of by their own packets. While it is silent the last
                   rate is held, and this is reported
  avtp+udp://HOST:PORT
                   the same over UDP; iface and source as above
  streamid=ID selects a stream; default: the first that arrives.

Devices, for --output (see taut devices):
  file:heard.wav   a WAV file; an existing one is kept without --overwrite. A
                   pipe (mkfifo) or device is written as file:- is
  file:-           WAV to standard output, for aplay - or ffmpeg -i -; the
                   report goes to standard error. The length in the header is
                   0xffffffff (unknown): sox needs --ignore-length. Ends when
                   the reader exits
  null:            discards audio at the pace of a card
  programs:        to programs of this user that record from the ALSA PCM
                   tautserve; programs:NAME for tautserve:NAME
  alsa:hw:0        a sound card or other ALSA PCM; alsa:plughw:0 converts rate,
                   channels and format. Options: wakeup=timer for a card with
                   coarse interrupts, format=S16_LE for one of its formats
  jack:taut        a JACK client named taut with one output port per channel,
                   connected to the card. Options: connect=none connects
                   nothing, connect=ardour: connects ports whose names start
                   so (the minimum --latency is then that of those ports),
                   server=NAME selects another server
  pipewire:Stage   a PipeWire source named Stage that programs record from.
                   pipewire:taut?as=stream plays to the default sink,
                   pipewire:taut?target=NODE to another node; force=yes makes
                   the graph run at --period. The network's latency is reported
                   to the graph as port latency and, from PipeWire 1.4 on, as
                   ProcessLatency
  virtual:         a sound card without hardware, for tests. Options:
                   record=out.wav writes what it played, ppm=50 for a fast
                   clock, period=48, periods=2, unplug=2s and replug=1s.
                   cable=NAME plays to a cable that virtual cards of this user
                   capture from

Changes, with --control, one per line of standard input:
  latency 8ms      the latency; auto: as short as the arrivals allow
  volume -6dB      gain of all streams; kept while muted
  mute             silence
  unmute           audio again
  from rtp://0.0.0.0:5006
                   another address; switches when its audio arrives
  status           no change; prints the settings
  quit             exit, as Ctrl-C does

  A number before the value, or after mute and unmute, selects the Nth --from:
  volume 2 -6dB.
  Each line is answered on standard error: ok and the new value, or error, the
  line and the reason.

Times are written 125us, 5ms or 2s.

"#,
    stages!()
);
