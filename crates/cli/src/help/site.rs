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

Exit status: 0 valid, 2 mistakes, 3 the file could not be read."#;
