//! Below the options of the experiments.

pub(crate) const STALLS: &str = r#"Is this machine fit for sound, before anything is sent?
  taut lab stalls
  # An hour of one core, as a program without privileges fares:
  taut lab stalls --cpus 1 --scheduler other --duration 3600s --period 5ms

Lateness is from the instant that was asked for to the wake-up; what came due
while a core stood still counts each for itself. A period is missed if its
wake-up came when the next was due. A freeze is what every core missed at once,
each having woken 1ms late or more: the host stood still, not a core."#;

pub(crate) const KERNEL: &str = r#"Packets of 1, 5 and 20ms, to a waiting thread and by the direct link, on one
core and on two; 12 rows of 10s:
  taut lab kernel
  # 50000 packets of one length, 250s a row:
  taut lab kernel --ptime 5ms --packets 50000 --cpus 0,1
  # Packets that another machine sends, by the network card:
  taut lab kernel --with ssh:studio --ptime 1ms

From the kernel's stamp of arrival to the program, over loopback, or by whatever
interface packets of another host come by; its clock is not asked for. A thread
that is blocked waits in the very call that reads; the direct link is read once
a period by a device's thread, and what a packet waits for that is told apart
from what the thread woke late. Payloads of 1ms are 192 bytes of L16 stereo."#;

pub(crate) const HANDOVER: &str = r#"Examples:
  # A card, both ways:
  taut lab handover --device alsa:hw:0 --period 48 --duration 60s
  # Playing to one device and capturing from another, beside each other:
  taut lab handover --output "virtual:?period=240" --input alsa:hw:0

The interval is from one call of the device to the next. Lateness is against the
grid that the device's own clock lays, from the earliest call of the run: what
was skipped counts for each period. Where two intervals in turn are too long and
too short, blocks come in pairs."#;

pub(crate) const RESOURCES: &str = r#"Examples:
  # What the machine does in ten seconds, second by second:
  taut lab resources
  # And what one program takes of it, every fifth of a second:
  taut lab resources --pid 1 --interval 200ms --duration 60s --report json
  # As charts over time:
  taut lab resources --pid 1 --duration 300s --report-file resources.html

Shares of processor time are of all cores for the machine and of one core for a
process; the kernel counts them in hundredths of a second. Packets are those of
all interfaces but loopback, in this network namespace. The table has means; the
JSON report has every interval ("meanwhile"). The page draws processor time,
interrupts and context switches over time."#;

pub(crate) const INTERVAL: &str = r#"Examples:
  # How evenly `taut send --ledger sent.csv` handed its packets over:
  taut lab interval --ledger sent.csv
  # What arrives here for a minute, by the kernel's stamps; no receiver runs:
  taut lab interval --listen 0.0.0.0:5004 --duration 60s
  # Every stream of RTP or AVTP in a capture, such as that of
  # tcpdump -i eth0 -w wire.pcap 'udp or ether proto 0x22f0':
  taut lab interval --pcap wire.pcap --report json
  # AVTP of any talker, such as `aplay` through ALSA's plugin `aaf`:
  taut lab interval --listen avtp://eth0/91:E0:F0:00:FE:01 --duration 300s
  # A stream of class A to another host, by each rung of the pacing ladder that
  # there is here, five minutes each:
  taut lab interval --rungs --with ssh:studio --duration 300s

Two rows for each stream: from each packet to the next, and how much later each
is than the earliest by the stream's own media clock, whose rate is found from
its timestamps and told in ppm; the media clock of AVTP is its presentation
times. What is missing is counted by sequence numbers; a ledger has none, and
its lateness against its schedule instead.

After each rung that spaces packets a bare loop sends the same ones: a thread
that sleeps and hands them to the kernel. Its row says how many times its
deviation and its p99.9 - p0.1 ours are, and of the rung that sleeps another how
late packets were handed over."#;

pub(crate) const NETWORK: &str = r#"Examples:
  # What the network carries without a stream; a stream in silence, and beside
  # multicast, chatter, bulk TCP and all of it; then what the heads of packets
  # of 20, 10, 5 and 1 ms cost:
  taut lab network --with ssh:studio
  # The protocols on the interfaces of both machines for a minute, no stream:
  taut lab network --with ssh:studio --only ambient --duration 60s
  # The same of what `tcpdump -i eth0 -w ambient.pcap` captured, as a page:
  taut lab network --pcap ambient.pcap --report-file ambient.html
  # Between two namespaces of one machine, at 1 Gbit/s of TCP and no more:
  taut lab network --with netns:far --only silent --only all --tcp-rate 1Gbit
  # What the heads cost alone:
  taut lab network --with netns:far --only overhead --duration 5s
  # While every core of the receiver's host is kept busy:
  taut lab network --with ssh:studio --load spin

Multicast is 4 Mbit/s to a group that nobody joined; chatter is 2500 packets of
60 to 300 bytes per second, in bursts, which a program at the receiver reads and
walks through; TCP is one connection. All of them start at this machine, before
the stream, and end after it. Each row says what they really carried.

Ambient traffic is what a tap sees on each interface (root or CAP_NET_RAW): its
protocols and kinds of addresses, with their shares of packets and bytes, the
mean of the run and the busiest second. Protocols are known by EtherType, IP
protocol and well-known port, RTP by its header and packets that follow one
another.

Rows of interfaces are what the kernels of both machines counted while packets
were on their way, other programs' among it; rows of protocols and of layers
are what a tap saw of the same, which takes root or CAP_NET_RAW at both ends.
Without it protocols are told in packets of the whole machine, and a note says
so. Overhead is what of an Ethernet frame is no sound, its checksum counted in,
and of layers what neither UDP nor TCP carries, nor RTP where it is the stream;
`counted` is what the interface counted per packet of sound, without checksums
and with its share of control traffic."#;

pub(crate) const MOUTH_TO_EAR: &str = r#"Examples:
  # Calls as they are usual, and the buffers that the paper tried, on this host:
  taut lab mouth-to-ear
  # Between two namespaces, with a page, and each recording to hear:
  taut lab mouth-to-ear netns:far --report-file ears.html --keep ears
  # What the paper settled for, without the little processor of its device:
  taut lab mouth-to-ear --only "playback 64, recording 16" --cpu 100%
  # Whether the measurement finds a delay that is added at the ear:
  taut lab mouth-to-ear --only "kept at 15 ms" --ear-delay 3370us
  # What a call and a download cost each other, by UDP and by TCP:
  taut lab mouth-to-ear netns:far --only "latency auto" --bulk

Noise is played on a cable by which taut call here hears it, and taut serve at
HOST plays what came on another. Both are tapped, and lie in one recording side
by side by the taps' instants: measured is how far apart they are in it. What
the call says of itself stands beside it. Two hosts call each other with the
keys that each trusts (taut trust).

A block is a period of the cards, and a packet. Playback slots of a block are
the latency that is kept; recording slots the buffer of the card at the mouth.
What no call can be is a void row that says why."#;

pub(crate) const STARVED: &str = r#"Examples:
  # On this machine, as root:
  taut lab starved
  # Of another machine, for a minute each, without real time:
  taut lab starved --with ssh:root@studio --scheduler other --duration 60s
  # With half a processor, alone and beside a program that wants it too:
  taut lab starved --only 50% --only shared

The receiver is put into a control group that has 100 (no cap), 50, 20 and 10 %
of one processor; 50 % that a spinning thread beside it wants too; 64 MiB beside
a program that writes 128. A quota caps ordinary threads; those of FIFO and RR
only where groups have real-time shares, so each cap is measured with real time
and without, unless --scheduler asks for one. A row says which ran and how much
of the processor it got; one that cannot be made is void and says why."#;

pub(crate) const LADDER: &str = r#"Examples:
  # On this machine alone, the ten latencies of the thesis and four below:
  taut lab ladder
  # To another machine, by ssh without a password, with a page at the end:
  taut lab ladder --with ssh:studio --report-file ladder.html
  # One rung, between two namespaces of one machine:
  taut lab ladder --rung "test 10" --with netns:far --duration 60s
  # The same while the network carries what the thesis's did, and without what
  # somebody handles of it:
  taut lab ladder --rung "test 10" --with ssh:studio --noise silent \
      --noise noisy --noise unhandled
  # While every core of the receiver's host is kept busy:
  taut lab ladder --rung "1 ms" --load spin

Each row is `taut send` and `taut recv` as anybody runs them: capture to DAC by
the sound itself, packet by packet. The latency configured includes the period
that the thesis had on top. What was missed is told with the share that it may
be in the long run, with 95 % confidence. A row is void where the clocks of two
hosts are known no better than --max-uncertainty, or one was set meanwhile."#;

pub(crate) const LEAST: &str = r#"Examples:
  # On this machine, in periods and packets of a millisecond:
  taut lab least
  # To another machine's card, held for ten minutes, with a page at the end:
  taut lab least --with ssh:studio --output alsa:hw:0 --hold 600s \
      --report-file least.html
  # In shorter periods, while every core of the receiver's host is kept busy:
  taut lab least --period 32 --ptime 667us --load spin
  # In coarse steps from 20 ms on, by Wi-Fi:
  taut lab least --with ssh:laptop --first 20ms --step 5ms --most 400ms

Ever greater latencies are tried for --duration each until one goes, then what
lies between; what is left is held for --hold, and if that fails, more is. One
goes if no packet was late, lost or unheard and neither device had an xrun, the
first seconds (--settle) aside. A try that misses something while a host freezes
is run again, twice at most, and told. The last row is the least, with what was
missed one step below it."#;

pub(crate) const STAGES: &str = r#"Examples:
  # Where 5 ms go, on this machine:
  taut lab stages
  # To another machine, for a minute, at cards:
  taut lab stages --with ssh:studio --input alsa:hw:0 --output alsa:hw:0 \
      --duration 60s
  # Only if both know each other's clocks to 50 us:
  taut lab stages --with ssh:studio --max-uncertainty 50us
  # While stress-ng loads the receiver's host:
  taut lab stages --load stress-ng:cpu,4,vm,1

Stages, in the order of travel: capture, pack, send, wire, wakeup, buffer,
render, device; those of the sender are on the receiver's clock, and what that
may be off by is told at `wire`. Where it may be off by more than is allowed, or
a clock was set meanwhile, the row is void. What rests on one clock stands
beside: the way through each host, and the round trip between them."#;

pub(crate) const SCHEDULERS: &str = r#"Examples:
  # All of them on this machine, in five minutes:
  taut lab schedulers
  # The real-time ones alone, at a smaller period:
  taut lab schedulers --case fifo --case rr --period 32 --ptime 667us \
      --latency 4ms

  # Loaded by stress-ng, and on processors of one's own choice:
  taut lab schedulers --load stress-ng:cpu,4,vm,1 --cpus 2,3

Loaded is with every core of the receiver's host kept busy, or as --load says.
On one core, the first of --cpus, the sender runs below, beside and above the
receiver. A scheduler that the kernel refuses is a void row, and says why: also
a deadline with --cpus, as it goes by all processors."#;

pub(crate) const QUALITY: &str = r#"Examples:
  # As 24 bits, 16 and floats, and to a card whose clock is off:
  taut lab quality
  # A song, to another machine where it is under the same path:
  taut lab quality --with ssh:studio --input /srv/song.flac
  # One stream as it is to be run:
  taut lab quality --send "--format l16 --redundancy auto" --latency 50ms
  # Test 10 of the thesis: 20 ms without noise, with it, and without its mDNS:
  taut lab quality --only l16 --latency 20ms --period 240 --periods 2 \
      --noise noisy --noise unhandled

Each row is `taut send` of a file and `taut recv` into one, judged by `taut
compare` where it was heard; its sentence is a note, its figures are columns.
The sound is built in unless --input names a file: a sine, whose THD+N is told,
a sweep and noise, other ones in each channel. `resampled` plays on a virtual
card that runs 100 ppm fast. With --send or --recv one row is run, with their
words.

With --noise each row is run without noise first, then with each noise. Columns
report the noise that was carried, in Mbit/s and packets/s, and its effect on
the sound: none, lost (frames were lost, and none without noise), changed (no
frame was lost, but the sound differs) or unknown (the sound without noise was
not whole). Exit status: 0 whatever the verdict is; 1 if there is none."#;

pub(crate) const LOAD: &str = r#"Examples:
  # Between two programs of this machine, doubling from 1 stream on:
  taut lab load
  # To another machine, for a minute each, then ten minutes with the most:
  taut lab load --with ssh:studio --duration 60s --hold 10
  # What is left for streams beside two threads that do nothing but turn:
  taut lab load --load spin:2

One sender sends each stream to a destination of its own, one receiver plays
all of them mixed. What was missed while the host was frozen as a whole is told
apart and does not count."#;

pub(crate) const OVERHEAD: &str = r#"Examples:
  # Eight runs of each kind on this machine, in turn:
  taut lab overhead
  # Longer ones, for a smaller error:
  taut lab overhead --rounds 16 --duration 30s

Processor time of sender and receiver for each period of sound: with nothing
measured, with one packet of 64, with every packet, and the stall witness on
top. What is added is told with the interval that 95 of 100 samples lie in."#;

pub(crate) const ALL: &str = r#"Examples:
  # Everything on this machine, in five minutes, as root:
  taut lab all
  # With the receivers on another machine:
  taut lab all --with ssh:studio --out studio
  # Two of them:
  taut lab all --only stalls --only ladder

Each runs as a program of its own, its command beside its figures; what it says
on the way is in NAME.log. Rows of a second or two tell whether all is well;
for figures to stand by, run an experiment's own command for longer. The pages
need no server: open index.html.

For scripts, --report json:
  { "schema": 1, "command", "duration_ns", "ended_early", "experiments": [
    { "name", "does", "command", "duration_ns", "page", "failed", "rows": [ { "name", "void",
      "configured_ns", "uncertainty_ns", "measured": { "count", "p50_ns",
        "p99_ns", "max_ns" } } ] } ] }

Exit status: 1 if one of them found nothing, or not all have run."#;

pub(crate) const LAB_COMPARE: &str = r#"Examples:
  # Is this version slower than the last?
  taut lab compare last.json this.json
  # Of differences of less than 100 us nothing is to be said
  taut lab compare last.json this.json --threshold 100us

Both are reports as --report-file X.json writes them: of experiments, or of
send, recv, call or serve. Rows are matched by name; where each has one stream,
that is matched however it is configured, and all is compared but what follows
from that. What only one report has is listed.

Each stage is listed with its median in both reports and the difference in
signed milliseconds, with a bar, whether it is judged or not. The verdict is no
difference; no regression (nothing that is judged is worse, and a stage
differs); better; WORSE; or UNDECIDED. A report of one run has no seconds: what
it missed is judged, and its latency by the median of the run.

Of times the median and the 99th percentile of each second are compared (the
greatest value where one second of ten has fewer than 1000): of the latency, of
each stage and of how late both devices' threads woke (against the best of the
second). They differ if chance would hardly make them (Mann and Whitney), if
that is much beside what each run scatters (Cliff's delta), and if the
difference is surely (bootstrap, 95 %) more than --threshold and than both rows'
uncertainty. Where no --threshold is said it is a frame of streams and of what
`delay` and `between` found in sound, and nothing of rows of microseconds.

What was missed, late, lost or unheard, and the xruns of both devices, are
compared by the seconds that had any (Fisher) and by how much those had (Mann
and Whitney): one burst is no difference. Of reports of the same 5 of 100 are
told to differ anywhere, at most (Holm).

Not judged are `buffer`, which is what other stages leave, and differences of up
to a period in `wakeup` and `device` (and in `capture` and `send`, if a packet
is not a period): the two cards run at another phase each time.

Two reports do not say whether the program changed or the machine: first compare
two of the same version, measured one after the other.

For scripts, --report json:
  { "schema": 1, "experiment", "outcome": "same" |
    "no_regression" | "better" | "worse" | "undecided", "because": [],
    "tested", "rows": [ { "name", "other_name", "unknown", "lacks": [],
    "gone", "stages": [ { "name", "first_ns", "second_ns", "difference_ns",
    "differs" } ], "counters": [ { "name", "first", "second" } ],
    "only_first": [], "only_second": [], "figures": [ { "part": stage |
      "sender_late" | "receiver_late" | null, "key": "p50_ns" | "p99_ns" |
      "max_ns" | "missed_share" | "late_share" | "lost_share" |
      "unheard_share" | "sender_xruns_per_s" | "receiver_xruns_per_s" |
      "freezes_per_s", "first", "second", "interval", "threshold_ns", "a12",
      "counted": [ { "count", "due", "seconds_with", "seconds" } of each ],
      "p", "p_of_all", "verdict": "unknown" | "follows" | "none" | "less" |
      "more", "why" } ] } ], "notes": [] }

Exit status: 0 if all that both have was compared and nothing is worse; 1 if
anything is slower, more missed or more xruns, or if the second has measured
nothing of a row that the first has (`gone`); 5 if nothing is known to be worse
and not all could be compared, such as rows shorter than 8 seconds, a latency
that is configured otherwise, or two experiments; 2 if a file is no such
report, 3 if it cannot be opened."#;

pub(crate) const CAPACITY: &str = r#"Examples:
  # Seven workers at 96 kHz and 2.19 ms, one block under way, as root:
  taut lab capacity --virtual-work
  # The same if the host's call may wait for a quarter of a millisecond:
  taut lab capacity --virtual-work --wait 250us
  # All that Lago and Kon measured, with a page that has their points behind:
  taut lab capacity --grid paper --report-file capacity.html
  # One worker that works, without root:
  taut lab capacity --workers 1 --local
  # The same where a JACK server calls the master, with the xruns it tells of:
  taut lab capacity --workers 1 --local --jack

Workers need the plugin that takes time, libtautline_ladspa_cost.so: `make
plugins` builds it, and --plugins says where it is looked for. Threads that
stand for workers (--workers-here) need none.

A thread is woken once a period, as a sound card wakes its own, and hands a
block to each worker: `taut work`, in a network namespace of its own. Its plugin
takes --step longer each time until more than 2 % of the answers are missed;
what lies between is halved to --fine, and what went is held. If that misses
anything, or more than --allow, less is held.

Before it comes the same plugin on this machine alone, and workers whose blocks
cost nothing: an idle exchange. After it comes a bare exchange of as many bytes.
What was missed while every core of the host stood still does not count, and
neither does what a worker that such a freeze held up is still behind with; both
are told. With --virtual-work a plugin's time passes by a timer; grids have it
but for the rows that say `real work`.

With --jack a JACK server without a card, started for this and ended with it,
calls the master once a cycle. Xruns that it tells of stand in each row beside
what is missed: of calls that return too late, not of answers that are late."#;
