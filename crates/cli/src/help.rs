//! What help and man pages say below the options: examples to paste, addresses, devices.
//!
//! Lines stay within 80 columns: a terminal then shows them as they stand here, and an example that
//! needs more goes on after a `\`. The tests read every example by a shell and the real parser.

mod call;
mod files;
mod stages;
#[cfg(test)]
mod tests;
mod trust;
mod work;

pub(crate) use call::{CALL, SERVE};
pub(crate) use files::COMPARE;
use stages::stages;
pub(crate) use trust::{ID, PAIR, SRTP_KEY, TRUST};
pub(crate) use work::{PLUGINS, WORK};

macro_rules! send_examples {
    () => {
        r#"Examples:
  # A file to one receiver, which runs `taut recv --from rtp://0.0.0.0:5004`:
  taut send --input file:song.flac --to rtp://10.0.0.2:5004
  # To any number of receivers, by multicast over the network at eth0:
  taut send --input tone:440 --to "rtp://239.69.1.1:5004?iface=eth0&ttl=4" \
      --sdp tone.sdp
  # To two receivers with very little delay, on quiet machines:
  taut send --input "virtual:?tone=440" --to rtp://10.0.0.2:5004 \
      --to rtp://10.0.0.3:5004 --ptime 125us --period 12 --latency 2ms
  # Over Wi-Fi: what is lost is repaired within 10 ms of its departure:
  taut send --input tone:440 --to rtp://10.0.0.2:5004 --redundancy auto \
      --redundancy-budget 10ms
  # Send a message when a receiver stops reporting:
  taut send --input tone:440 --to rtp://10.0.0.2:5004 \
      --on-lost 'logger "$TAUT_RECEIVER lost $TAUT_STREAM"'
  # To a device or program that takes 16 bits and no header extensions:
  taut send --input tone:440 --to rtp://10.0.0.9:5004 --format l16 --no-stamps"#
    };
}

macro_rules! recv_examples {
    () => {
        r#"Examples:
  # Listen on every interface of this machine, record until the sender ends:
  taut recv --from rtp://0.0.0.0:5004 --output file:heard.wav --until-bye
  # The same, and in heard.labels.txt, for Audacity, what spoilt it and where:
  taut recv --from rtp://0.0.0.0:5004 --output file:heard.wav --until-bye \
      --labels
  # A stream by its description; the figures alone, without the sound:
  taut recv --from tone.sdp --output null: --latency 5ms
  # A multicast group at eth0, from one sender only:
  taut recv --from "rtp://239.69.1.1:5004?iface=eth0&source=10.0.0.7" \
      --output null: --report json
  # What became of every packet, as a page with charts:
  taut recv --from rtp://0.0.0.0:5004 --output null: --until-bye \
      --ledger packets.csv --report-file page.html
  # Two streams, the second heard while the first is silent, and softer:
  taut recv --from rtp://0.0.0.0:5004 --from "rtp://0.0.0.0:5006?gain=-6dB" \
      --output file:mix.wav --select priority"#
    };
}

pub(crate) const TAUT: &str = r#"Try it:
  taut demo

From one machine to another; the latency follows what the network needs:
  # On 10.0.0.2, first; without --until-bye it goes on until Ctrl-C:
  taut recv --from rtp://0.0.0.0:5004 --output file:heard.wav --until-bye \
      --latency auto
  # On 10.0.0.1:
  taut send --input file:song.flac --to rtp://10.0.0.2:5004

Any option of demo, send, recv, serve and call can also stand in tautline.toml,
by its long name:
  latency = "20ms"                  # of every command that has it
  [send]
  to = ["rtp://10.0.0.2:5004", "rtp://10.0.0.3:5004"]
The first that is there is read, of those in this folder, $TAUT_HOME,
$XDG_CONFIG_HOME/tautline (~/.config/tautline) and /etc/tautline. What the
command line says stands before it.

Exit status: 0 done; 1 failed while running, such as when nothing was received,
or what was to be written found no room; 2 wrong usage; 3 a device, file or
address could not be opened; 4 recv --until-bye ended as nothing more came, and
without a goodbye; 5 a comparison is left open: compare of periodic sound whose
delay is ambiguous, lab compare of what cannot be compared."#;

pub(crate) const DEMO: &str = r#"The default of 100 ms rides out a host that freezes for tens of milliseconds, as
virtual machines do: half of it lies in the card's buffer, 48 periods of 1 ms,
and half before it. As tight as a quiet machine allows:
  taut demo --latency 5ms --periods 2
  taut demo --latency 2ms --period 12 --periods 2"#;

pub(crate) const JOIN: &str = concat!(
    r#"Example, with what `--ledger` of both ends wrote:
  taut join sent.csv heard.csv

A line of CSV for each packet that both have, in nanoseconds; what is unknown is
empty:
  rtp_timestamp    of the packet's first frame
  capture_ns to device_ns
                   the length of each stage, 0 for one that the packet does not
                   have. The first four are by the sender's clock, wire across
                   both clocks, the rest by the receiver's
  total_ns         the sum of these columns: ADC to DAC
  measured_ns      the same as found in the sound, if it was found: it is known
                   apart from the stages and differs by what they err
  lateness_ns      how long after it was due the packet was handed over; a part
                   of send_ns, and of no sum
  late             1 if it came after its turn and was not played: device_ns is
                   then below zero

"#,
    stages!()
);

pub(crate) const DEVICES: &str = r#"A name that is shown is what --input and --output take. Rates, formats, channels
and periods are those that the hardware or its server has; a period is told in
frames and, in parentheses, as time at the lowest of the rates.

For scripts, --report json (times in nanoseconds, null where anything goes):
  { "schema": 1, "devices": [ { "name", "says", "ways": [ { "direction",
    "rates", "formats", "channels_least", "channels_most",
    "period_least_frames", "period_least_ns", "unknown" } ] } ] }"#;

pub(crate) const TOP: &str = concat!(
    r#"Examples:
  # Every stream of every taut that runs here, and of every program that plays
  # or records by the ALSA PCM, drawn anew ten times a second:
  taut top
  # The same once, as text or for scripts:
  taut top --once
  taut top --once --report json

Keys: up and down choose a stream, Enter shows it alone or among the others, q
ends. A ! marks what went wrong within the last second.

A row is a stream. LATENCY is the median of the newest packets, and how far that
may be from the truth; P99 that of the whole run; HEADROOM the least of the last
second; LOSS the share that was lost in it and, behind that, the packets lost
since the beginning, as LATE and XRUNS count; METERS are peaks in dBFS. Below
stand the stages (medians of the last second), the packet of the last minute
that had the least to spare, all that was counted and, of a receiver with
--clock, how fast that runs and for how long it is silent.

A run of send, recv or demo tells it by a socket in $XDG_RUNTIME_DIR/tautline,
else in /run/user/UID/tautline or /tmp/tautline-UID: to its own user and to
root, and only while somebody looks. As root the runs of all users are seen.

For scripts, --report json (times in nanoseconds, null where nothing is known):
  { "schema": 1, "programs": [ { "schema", "pid", "role", "command",
    "elapsed_ns", "streams": [ { "address", "sender", "state": "here" |
    "awaited" | "silent" | "refused" | "nobody" | "lost" | "unknown", "rate",
    "channels", "format", "bitrate", "transport", "muted", "ptime_ns",
    "latency": { "configured_ns", "measured_ns", "uncertainty_ns", "p99_ns",
    "by" }, "stages": [ { "name", "ns" } ],
    "depth_ns", "headroom_ns", "counters", "second": { "over_ns", "packets",
    "lost", "late", "xruns", "loss_share" }, "meters": [ { "peak_db", "rms_db" }
    ], "worst": { "rtp_timestamp", "total_ns", "stages" }, "clock": { "source",
    "uncertainty_ns", "round_trip_ns", "rate_ppm" } } ], "clock": { "address",
    "stream", "state": "unheard" | "heard" | "held", "rate_ppm",
    "uncertainty_ppm", "held_ns" }, "worked": [ { "id", "plugin", "by", "phase",
    "share", "blocks", "missed", "restarts" } ] } ],
    "unread": [ { "socket", "why" } ] }

"#,
    stages!()
);

pub(crate) const DOCTOR: &str = r#"Examples:
  # Would 5 ms hold here?
  taut doctor
  # Would 2 ms, in packets of an eighth of a millisecond?
  taut doctor --latency 2ms --ptime 125us

It looks for a second and changes nothing. Each finding is a line: ok, warns
(sound is whole while nothing else goes wrong), SPOILS (at this latency sound
will be missed) or ? (it could not be seen); what is so; why it matters; and the
command that mends it, until the next boot where nothing else is said, or that
shows more. As root it sees more.

For scripts, --report json:
  { "schema": 1, "latency_ns", "findings": [ { "check", "verdict": "fine" |
    "unknown" | "warns" | "spoils", "what", "why", "mend", "look",
    "better" } ], "counts": { "fine", "unknown", "warns", "spoils" } }

Exit status: 0 if nothing found would spoil sound, 1 if something would."#;

pub(crate) const SEND: &str = send_examples!();
pub(crate) const RECV: &str = recv_examples!();

/// With `--help` and on the man page.
pub(crate) const SEND_LONG: &str = concat!(
    send_examples!(),
    r#"

Addresses, for --to:
  rtp://HOST:PORT  a machine, or a multicast group (239.x.y.z) that any number
                   of machines listen to. PORT is a UDP port; RTCP, by which
                   both ends learn of each other's clocks, takes the one above.
                   A firewall must let both through, both ways
  rtp+tcp://HOST:PORT
                   a machine by TCP, for networks that let no UDP through: RTP
                   and RTCP by one connection (RFC 4571), which is made again
                   when it is lost. What it does not take in time is dropped
  FILE.sdp         the machine or group of a session description
  avtp://eth0/91:E0:F0:00:FE:01
                   by Ethernet alone (AVTP, IEEE 1722): to a group's or a
                   machine's address there. Without one, as avtp://eth0, taut
                   claims a group by MAAP, which takes two seconds, and says
                   which it took; where that is lost to a talker with more right
                   to it, it goes to another and says so
  avtp+udp://HOST:17220
                   AVTP by UDP

  Options follow a ? and are joined by &, which a shell takes for its own: quote
  the whole address, as in the examples.
  iface=eth0       send by this network interface: its name or IP address
  ttl=4            for groups: how many networks packets may pass; 1, the
                   default, stays in this one
  loop=0           for groups: not to programs on this machine; 1, the default,
                   reaches them too
  streamid=AA:BB:CC:DD:EE:FF:0001
                   of AVTP: the name of the stream, instead of one that is made
                   of this machine's address
  prio=2           of avtp: the priority in this machine's queues, and by a VLAN
                   in the network's; 3, the default, is that of class A

  All --to go out of one socket, so groups must agree on iface, ttl and loop.

Redundancy, for --redundancy: what packets carry of earlier ones, so that lost
ones are repaired within --redundancy-budget, which is part of the latency.
Receivers that know nothing of it play the stream as before:
  red:2            two copies of earlier packets, spread over the budget
  code:1           one symbol of an erasure code over all packets of the budget:
                   as long as one copy, and good for any one packet among them
  auto             what the losses ask for that receivers report
  paths:eth0,eth1  every packet by two networks: to a group by both, or to two
                   --to by one each; alone or as in code:1+paths:eth0,eth1

Devices, for --input (`taut devices` lists them):
  file:song.flac   a WAV or FLAC file or pipe, at its own rate: up to 64
                   channels of 24 bits or float. --loop repeats it gapless
  file:-           a WAV or FLAC that another program pipes in, as it comes. It
                   begins when 0.4 s of it are there, and ends with it
  tone:440         a sine, in hertz
  null:            silence
  programs:        what programs of this user play meanwhile, by the ALSA PCM
                   tautserve; programs:NAME by tautserve:NAME
  alsa:hw:0        a sound card, or any other PCM of ALSA; alsa:plughw:0
                   converts rate, channels and format where the card has
                   others. After a ?, with & between: wakeup=timer where a
                   card's interrupt is coarse, format=S16_LE for one of its
                   formats
  jack:taut        the client taut of the JACK server, one input for each
                   channel, at the server's rate and buffer. Inputs are
                   connected to the card's; connect=none after a ? leaves them
                   to you, and connect=ardour: takes ports that begin so.
                   server=NAME is another server
  pipewire:Kitchen a sink called Kitchen in PipeWire: any program plays to it.
                   pipewire:taut?as=stream records from the default microphone,
                   pipewire:taut?target=NODE from another node; &force=yes
                   makes the graph run at --period, whoever else is there. The
                   graph is told what the network takes: by the latency of the
                   ports, and from PipeWire 1.4 on by ProcessLatency
  virtual:         a sound card without hardware, for tests; after a ?, with &
                   between: tone=440 or source=song.wav for what it captures,
                   ppm=50 for a clock that runs fast, period=48 and periods=2
                   for its buffer, gone=2s and back=1s to be pulled out and put
                   back. cable=NAME captures what another virtual card of this
                   user plays on the cable of that name, in whatever process,
                   delay=3.37ms as much later

Changes, with --control, one in each line of standard input:
  latency 8ms      the latency that is promised; auto, what receivers need
  ptime 2ms        sound in one packet
  format l16       coding of samples
  redundancy red:1
                   what packets carry of earlier ones
  volume -6dB      gain; mute and unmute keep it
  mute             silence
  unmute           sound again
  to rtp://10.0.0.2:5004,rtp://10.0.0.3:5004
                   every address to send to from now on; those left out are told
                   goodbye
  status           nothing: tells how all this stands, and how many receivers
                   are here and lost
  quit             end, as Ctrl-C does

  Each line is answered by one on standard error: ok and what it came to, or
  error, the line and the reason.

Receivers report twice a second. One that stops without a goodbye is lost after
3 s, or after 5 of its report intervals if those are longer: that is logged,
counted in the report (receivers_lost; of each receiver state and times_lost)
and shown by status and `taut top`. One that reports again is back, or another
that begins at its host. Then --on-lost runs its command, which nothing waits
for; what it prints goes to standard error.

Times are written 125us, 5ms or 2s.

"#,
    stages!()
);

/// With `--help` and on the man page.
pub(crate) const RECV_LONG: &str = concat!(
    recv_examples!(),
    r#"

Addresses, for --from:
  rtp://HOST:PORT  an address of this machine, 0.0.0.0 for all of IPv4, [::] for
                   all of IPv6 and IPv4, or a multicast group (239.x.y.z) to
                   join. PORT is a UDP port.
                   RTCP, which tells of the sender's clock and latency, is
                   heard at the UDP port above: a firewall must let both
                   through
  rtp+tcp://HOST:PORT
                   listens there for one sender at a time, which connects by
                   TCP. Another is let in once that is silent for a second
  FILE.sdp         the first audio stream of a session description that can be
                   received, such as `taut send --sdp` writes. Lines that are
                   ignored are reported with number and reason
  avtp://eth0/91:E0:F0:00:FE:01
                   AVTP (IEEE 1722 AAF) in frames of Ethernet at eth0, to this
                   group or to eth0's own address. It takes CAP_NET_RAW, and no
                   RTCP: the talker's clock is TAI, as PTP keeps it, and it says
                   no goodbye, so no --until-bye. It tells when its sound is to
                   be heard, and no latency: --latency moves nothing, it makes
                   room for sound that waits and is taken for the way from
                   capture, by which reports then tell the latency
  avtp+udp://HOST  AVTP by UDP port 17220, or another behind a :

  Options follow a ? and are joined by &, which a shell takes for its own: quote
  the whole address, as in the examples.
  iface=eth0       listen at this network interface only: its name or an IP
                   address of it; of a group that comes by two networks,
                   iface=eth0,eth1
  source=10.0.0.7  hear this host only, and of it the first sender;
                   source=10.0.0.7,10.0.0.9 hears these hosts only, every
                   sender of theirs as a stream of its own
  senders=all      hear whoever sends there, up to 64 at once: each is placed,
                   mixed and reported as a stream of its own. senders=200 is
                   for as many, 1024 at most, also of those that source names;
                   without it the first alone is heard
  streamid=ID      of AVTP: this stream only, AA:BB:CC:DD:EE:FF:0001; without it
                   the first that comes
  tolerance=20ms   of AVTP: a presentation time further than this from where
                   the sequence numbers place its packet starts the stream
                   again
  gain=-6dB        of this stream in the mix; --volume is for all of them

  ttl and loop are for --to: a receiver sends nothing to a group.

Clocks, for --clock:
  avtp://eth0/91:E0:F0:00:FE:08
                   a stream of CRF (IEEE 1722) in frames of Ethernet at eth0:
                   how fast the talkers' media clock runs. Streams of AVTP are
                   resampled by that, and no more by what their own packets
                   tell; while it is silent the rate is held, which is said
  avtp+udp://HOST:PORT
                   the same by UDP; iface and source as above
  After a ?, streamid=ID is the stream to follow; without it the first that
  comes.

Devices, for --output (`taut devices` lists them):
  file:heard.wav   a WAV file; one that is there is kept without --overwrite.
                   Into a pipe (mkfifo) or a device it goes as by file:-, from
                   when a program reads it
  file:-           a WAV on standard output, to be piped on, as to aplay - or
                   ffmpeg -i -; the report goes to standard error. Its length
                   is told as 0xffffffff, not known: sox reads it without a
                   word by --ignore-length. Ends when nobody reads it any more
  null:            nothing, at the pace of a card
  programs:        to programs of this user that record by the ALSA PCM
                   tautserve; programs:NAME by tautserve:NAME
  alsa:hw:0        a sound card, or any other PCM of ALSA; alsa:plughw:0
                   converts rate, channels and format where the card has
                   others. After a ?, with & between: wakeup=timer where a
                   card's interrupt is coarse, format=S16_LE for one of its
                   formats
  jack:taut        the client taut of the JACK server, one output for each
                   channel, at the server's rate and buffer. Outputs are
                   connected to the card's; connect=none after a ? leaves them
                   to you, and connect=ardour: takes ports that begin so: then
                   the least --latency holds what those take, and no card's
                   buffer. server=NAME is another server
  pipewire:Stage   a source called Stage in PipeWire: any program records it.
                   pipewire:taut?as=stream plays to the default speakers,
                   pipewire:taut?target=NODE to another node; &force=yes makes
                   the graph run at --period, whoever else is there. The
                   graph is told what the network takes: by the latency of the
                   ports, and from PipeWire 1.4 on by ProcessLatency
  virtual:         a sound card without hardware, for tests; after a ?, with &
                   between: record=out.wav writes what it played, ppm=50 for a
                   clock that runs fast, period=48 and periods=2 for its
                   buffer, gone=2s and back=1s to be pulled out and put back.
                   cable=NAME plays to a cable of that name, on which virtual
                   cards of this user hear it, in whatever process

Changes, with --control, one in each line of standard input:
  latency 8ms      the latency; promised for the sender's, auto to follow what
                   the packets' arrivals ask for
  volume -6dB      gain of everything; mute and unmute keep it
  mute             silence
  unmute           sound again
  from rtp://0.0.0.0:5006
                   another address to hear: over once its sound is there
  status           nothing: tells how all this stands
  quit             end, as Ctrl-C does

  A number before the value, or alone after mute and unmute, means only the
  stream that is the how-many-th --from: volume 2 -6dB.
  Each line is answered by one on standard error: ok and what it came to, or
  error, the line and the reason.

Times are written 125us, 5ms or 2s.

"#,
    stages!()
);
