pub(crate) const ID: &str = r#"Examples:
  # The name and key of this machine:
  taut id
  # A certificate for curl:
  taut id --export keys

`taut pair` exchanges keys in one step; `taut id` is for doing it by hand. The
output is not secret: run taut trust with it on the other machine, or here
`taut trust $(ssh studio taut id)`. The key is created at first use, in
identity.pem in $TAUT_HOME or $XDG_CONFIG_HOME/tautline (~/.config/tautline),
readable by its owner only.

For scripts, --report json; curl takes --pinnedpubkey sha256// and the pin:
  { "schema": 2, "name", "key", "pin" }"#;

pub(crate) const PAIR: &str = r#"Examples:
  # On one machine, whose address is 10.0.0.2:
  taut pair
  # On the other, which trusts it by the name "studio" from now on:
  taut pair studio=10.0.0.2
  # Both show a code of six digits. If they are equal, type y on both.
  # Where ssh can log in, one command does it all:
  taut pair studio=ssh:user@10.0.0.2

Each machine then has the other's key in its list (taut trust --list), and
trusts it for taut call, taut serve and taut work, and for the zones and the
building file of taut node. Programs that run use it at once. If the codes
differ, a machine in between may have answered: type n, check the address and
the network, and pair again. Each attempt is one guess in a million. The machine
that waits needs TCP port 17251 open meanwhile.

Exit status: 0 paired, 1 not confirmed or lost, 3 not reached."#;

pub(crate) const SRTP_KEY: &str = r#"Examples:
  # Create a key, and copy it to both ends over a secure channel:
  taut srtp-key studio.key
  taut send --input alsa:hw:0 --to rtp://239.1.2.3:5004 \
      --srtp-key-file studio.key
  taut recv --from rtp://239.1.2.3:5004 --output alsa:hw:0 \
      --srtp-key-file studio.key
  # Over TCP:
  taut recv --from rtp+tcp://:5004 --output alsa:hw:0 \
      --srtp-key-file studio.key
  # For ffmpeg, which supports only this profile:
  taut srtp-key --profile AES_CM_128_HMAC_SHA1_80 studio.key
  ffmpeg -re -i song.wav -c:a pcm_s24be -f rtp \
      -srtp_out_suite AES_CM_128_HMAC_SHA1_80 \
      -srtp_out_params "$(cut -d: -f2 studio.key)" \
      "srtp://10.0.0.2:5004?pkt_size=300"

The file has one line, PROFILE inline:BASE64 (RFC 4568). It is rejected if other
users can read it. GStreamer's srtpenc and srtpdec take the same bytes in
hexadecimal:
  cut -d: -f2 studio.key | base64 -d | od -An -v -tx1 | tr -d ' \n'
With the key, a machine can receive the stream and send in its place. Create a
new key from time to time, and when a machine must no longer receive it."#;

pub(crate) const TRUST: &str = r#"Examples:
  # By hand, with the output of taut id on the other machine:
  taut trust studio oBqPFNDQXqYWGm5rdrEJvQfhSQjH5cGzRJ1BlGtPdHM=
  taut trust --list
  taut trust --remove studio

A trusted machine may run all plugins of `taut work` here, call `taut serve`,
and change the zones and the building file of `taut node`. Both machines must
trust each other. The list is trusted.toml, next to identity.pem (`taut id`).
Running programs notice changes immediately. A removed machine cannot open new
streams. Open plugin streams continue until they are closed, calls end within
two seconds.

For scripts, --list --report json:
  { "schema": 2, "trusted": [ { "name", "key", "pin" } ] }"#;
