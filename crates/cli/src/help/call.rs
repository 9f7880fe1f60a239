pub(crate) const SERVE: &str = r#"Examples:
  taut serve --listen 0.0.0.0
  taut serve --listen 0.0.0.0 --input alsa:default --output alsa:default

All options, programs and more examples: taut serve --help"#;

pub(crate) const SERVE_LONG: &str = r#"Examples:
  # Programs here play to callers and record them, with the ALSA PCM tautserve:
  taut serve --listen 0.0.0.0
  # A desktop with PipeWire: programs play to Speaker and record Microphone:
  taut serve --listen 0.0.0.0 --input pipewire:Speaker \
      --output pipewire:Microphone
  # Without a sound card, to try both commands on one machine:
  taut serve --input tone:440 --output file:caller.wav
  # At most three callers, which do not hear each other:
  taut serve --listen 0.0.0.0 --input alsa:hw:0 --output alsa:hw:0 \
      --max-callers 3 --private

Run `taut pair` once, so that both machines trust each other. The connection is
encrypted with TLS 1.3, the audio with SRTP. The devices stay open while no one
calls and while a caller's network is down, so programs notice nothing. Several
callers are in one conference: each hears the others, and never itself. The
first caller uses the UDP port of --listen, the others the next ones: 17240 to
17247 for eight. Further callers are rejected with a message. On a terminal,
levels, losses and latency are shown: m mutes this machine, q quits.

Programs of this user, with --input programs: and --output programs: (default):
  aplay -D plug:tautserve song.wav
  arecord -D tautserve -f S24_3LE -r 48000 -c 2 caller.wav
Up to 16 programs play together, mixed, and up to 16 record. Without a caller
they record silence. For programs that use only the default PCM, in ~/.asoundrc:
pcm.!default { type plug slave.pcm tautserve }"#;

pub(crate) const CALL: &str = r#"Examples:
  taut call studio
  taut call studio=10.0.0.3 --input alsa:hw:0 --output alsa:hw:0 --latency 8ms

All options, keys and more examples: taut call --help"#;

pub(crate) const CALL_LONG: &str = r#"Examples:
  # Hear the machine studio and send it this microphone:
  taut call studio
  # On a good network, with short packets and a fixed latency:
  taut call studio --ptime 1ms --latency 8ms --input alsa:hw:0 \
      --output alsa:hw:0
  # The machine trusted as studio, at this address:
  taut call studio=10.0.0.3
  # Play a tone there and record what is heard here:
  taut call 127.0.0.1 --input tone:440 --output file:heard.wav --duration 10s
  # Two machines in one call, which hear each other through this one:
  taut call studio stage --bridge
  # Record both directions to a folder:
  taut call studio --record calls
  # Through ssh, after `taut pair ssh:me@office`:
  taut call ssh:me@office
  # With the best codec that the network can carry:
  taut call studio --format auto

Without --rate and --channels the call uses those of the other machine, if the
devices here support them. A period lasts as long as its frames at 48 kHz do.
Several machines are called at one rate.

The caller connects, so it can be behind a NAT or firewall. When the network
fails, the call continues as soon as it is back: the other machine keeps it
while audio arrives, and for one minute after that.

Default devices, the first that is available:
  pipewire:taut?as=stream   the user's default devices, with a PipeWire server
  jack:taut                 connected to the card, with a JACK server
  alsa:default              ALSA's default PCM
Without a microphone silence is sent (null:). The choice is printed.

Echo of a desktop's loudspeaker is cancelled, without delay (--echo-cancel).
JACK, hw: and plughw: count as line inputs: their audio is not changed.

Keys on a terminal: m mutes and unmutes, SPACE talks while held, + and - change
the latency by one packet, > and < the packet length, q hangs up.

Changes, with --control, one per line of standard input:
  mute, unmute, volume -6dB, latency 8ms, latency auto, latency auto:150ms,
  ptime 5ms, format l16, format auto, bitrate 64k (Opus), transport udp, tcp or
  auto, hold, resume, status, quit
Each line is answered with ok or error on standard error, and with refused if
the other machine rejects the change."#;
