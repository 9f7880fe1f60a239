//! Of the commands about who this machine is and whom it trusts.

pub(crate) const ID: &str = r#"Examples:
  # What this machine is known by, a name and a key:
  taut id
  # For curl, which then speaks for this machine:
  taut id --export keys

The key is made at first use. It lies in identity.pem in $TAUT_HOME, else in
$XDG_CONFIG_HOME/tautline (~/.config/tautline), for its owner alone. What is
printed is no secret: the other machine takes it by taut trust. Where it can be
reached by ssh, `taut trust $(ssh studio taut id)` here does that at once.

For scripts, --report json; curl takes --pinnedpubkey sha256// and the pin:
  { "schema": 1, "name", "key", "pin" }"#;

pub(crate) const PAIR: &str = r#"Examples:
  # On one machine, whose address is 10.0.0.2:
  taut pair
  # On the other, which trusts it by the name "studio" from now on:
  taut pair studio=10.0.0.2
  # Both show a code of six digits. If they are equal, type y on both.
  # Where ssh can log in, one command does it all:
  taut pair studio=ssh:user@10.0.0.2

Each machine then has the other's key in its list (taut trust --list), and
trusts it for taut call, taut serve and taut work; those that run use it at
once. If the codes differ, a machine in between may have answered: type n, check
the address and the network, and pair again. Each attempt is one guess in a
million. The machine that waits needs TCP port 17250 open meanwhile.

Exit status: 0 paired, 1 not confirmed or lost, 3 not reached."#;

pub(crate) const SRTP_KEY: &str = r#"Examples:
  # Both ends take the same key, copied there as a secret is:
  taut srtp-key studio.key
  taut send --input alsa:hw:0 --to rtp://239.1.2.3:5004 \
      --srtp-key-file studio.key
  taut recv --from rtp://239.1.2.3:5004 --output alsa:hw:0 \
      --srtp-key-file studio.key
  # Where no UDP passes, likewise:
  taut recv --from rtp+tcp://:5004 --output alsa:hw:0 \
      --srtp-key-file studio.key
  # For ffmpeg, which knows no other profile:
  taut srtp-key --profile AES_CM_128_HMAC_SHA1_80 studio.key
  ffmpeg -re -i song.wav -c:a pcm_s24be -f rtp \
      -srtp_out_suite AES_CM_128_HMAC_SHA1_80 \
      -srtp_out_params "$(cut -d: -f2 studio.key)" \
      "srtp://10.0.0.2:5004?pkt_size=300"

The file is one line, PROFILE inline:BASE64 (RFC 4568), and its owner's alone; it
is refused where others may read it. GStreamer's srtpenc and srtpdec take
the same bytes as hexadecimal digits:
  cut -d: -f2 studio.key | base64 -d | od -An -v -tx1 | tr -d ' \n'
Whoever has the key hears the stream and can send in its place. Make another
from time to time, and whenever somebody is to hear it no more."#;

pub(crate) const TRUST: &str = r#"Examples:
  # What taut id prints on the other machine, by its name there or another:
  taut trust studio oBqPFNDQXqYWGm5rdrEJvQfhSQjH5cGzRJ1BlGtPdHM=
  taut trust --list
  taut trust --remove studio

Whoever is trusted may have this machine run any plugin that taut work offers
here, and is believed in what it says. So both must trust each other. The list
is trusted.toml, beside identity.pem (taut id); a worker that runs heeds a
change at once. Whoever is removed opens no stream of plugins any more; open
ones go on until they are closed. Calls end within two seconds.

For scripts, --list --report json:
  { "schema": 1, "trusted": [ { "name", "key", "pin" } ] }"#;
