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

pub(crate) const TRUST: &str = r#"Examples:
  # What taut id prints on the other machine, by its name there or another:
  taut trust studio oBqPFNDQXqYWGm5rdrEJvQfhSQjH5cGzRJ1BlGtPdHM=
  taut trust --list
  taut trust --remove studio

Whoever is trusted may have this machine run any plugin that taut work offers
here, and is believed in what it says. So both must trust each other. The list
is trusted.toml, beside identity.pem (taut id); a worker that runs heeds a
change at once. Whoever is removed opens no stream any more; those that are open
go on until they are closed.

For scripts, --list --report json:
  { "schema": 1, "trusted": [ { "name", "key", "pin" } ] }"#;
