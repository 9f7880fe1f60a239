//! Of the commands for calls.

pub(crate) const SERVE: &str = r#"Examples:
  # Programs here play to whoever calls, and record what the caller says, by the
  # ALSA PCM tautserve; see Programs:
  taut serve --listen 0.0.0.0
  # On a desktop with PipeWire: programs play to Speaker and record from
  # Microphone, which both end at whoever calls:
  taut serve --listen 0.0.0.0 --input pipewire:Speaker \
      --output pipewire:Microphone
  # On a machine without a sound card, for a first try of both commands:
  taut serve --input tone:440 --output file:caller.wav
  # Three callers at most, who hear this machine and not one another:
  taut serve --listen 0.0.0.0 --input alsa:hw:0 --output alsa:hw:0 \
      --callers 3 --private

Both machines come to trust each other by `taut pair`. The
devices are there as long as taut serve runs, whether somebody calls or not, and
while a caller's network is away: programs that use them notice nothing. Several
callers are in one conversation: each hears the others and never itself, as long
after they spoke as both calls take, and no longer. The first is heard at the
UDP port of --listen, the others at those that follow: 17240 to 17247 for eight.
One too many is refused in a sentence. All of it is sealed: the connection by
which a call is agreed on by TLS 1.3 with the keys of both machines, the sound
by SRTP with keys that come of it. On a terminal it shows who calls, with levels,
losses and latency: m mutes and unmutes this machine for all of them, q ends it.

Programs, of this user, while taut serve runs with --input programs: and
--output programs:, which it does unless it is told otherwise:
  aplay -D plug:tautserve song.wav
  arecord -D tautserve -f S24_3LE -r 48000 -c 2 caller.wav
Up to 16 play at once, mixed, and as many record. Without a caller they play to
nobody and record silence, and time goes on. For programs that know the default
PCM alone, in ~/.asoundrc: pcm.!default { type plug slave.pcm tautserve }"#;

pub(crate) const CALL: &str = r#"Examples:
  # The sound of the machine `studio`, and this microphone there:
  taut call studio
  # On a good network, with short packets and a latency that is kept:
  taut call studio --ptime 1ms --latency 8ms --input alsa:hw:0 \
      --output alsa:hw:0
  # Only the one that is trusted by the name studio, at this address:
  taut call studio=10.0.0.3
  # What is heard, into a file, while a tone is played there:
  taut call 127.0.0.1 --input tone:440 --output file:heard.wav --duration 10s
  # Two machines at once, which hear one another by way of this one:
  taut call studio stage --bridge
  # Both directions kept in a folder, a WAV file each:
  taut call studio --record calls
  # Where only ssh is open; taut pair ssh:me@office came first:
  taut call ssh:me@office
  # Over whatever network there is, in the best coding that it carries:
  taut call studio --codec auto

Without --rate and --channels the call has those of the other machine, as far
as the devices here can: 8000 to 192000 Hz; a period lasts as long at any rate
as its frames do at 48000. Several hosts are called at one rate.
The caller connects, so it may be behind a NAT or a firewall: the other machine
never connects back. Where the network goes away, the call goes on by itself
once it is back: it is kept there while sound arrives, and for a minute after.
Usual devices, where --input or --output names none, of the first that there is:
  pipewire:taut?as=stream   the user's defaults, where a PipeWire server runs
  jack:taut                 joined to the card, where a JACK server runs
  alsa:default              ALSA's default PCM, where it goes that way
Without a microphone silence is sent (null:). Which they are is told in a line.
The echo of a desktop's loudspeaker in its microphone is cancelled (--echo), which
delays nothing. JACK, hw: and plughw: count as line inputs: without --echo cancel
their sound stays as it is.
On a terminal it shows levels, losses and latency of both directions: m mutes
and unmutes, SPACE talks while muted, as long as it is held, + and - change the
latency by a packet, > and < the length of packets, and q hangs up.
With --control, lines on standard input change it while it sounds: mute, unmute,
volume -6dB, latency 8ms, latency auto, latency auto:150ms, ptime 5ms, format
l16, format auto (by what the network carries, as --codec auto), bitrate 64k (of
Opus), transport udp, tcp or auto, hold, resume, status, quit. Each is answered
ok or error; what the other end refuses is told by a line of refused."#;
