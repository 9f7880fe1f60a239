use serde::Serialize;
use tautline_api::trust::{TrustFile, TrustedHosts, usual_folder};

use super::id::{HostJson, SCHEMA};
use crate::cmd::answer;
use crate::failure::Failure;
use crate::flags::TrustFlags;
use crate::screen;

#[derive(Serialize)]
struct TrustListJson<'a> {
    schema: u32,
    trusted: Vec<HostJson<'a>>,
}

pub(crate) fn run(flags: &TrustFlags) -> Result<(), Failure> {
    let file = TrustFile::in_folder(&usual_folder()?);
    if let Some(name) = &flags.remove {
        return match file.remove(name)? {
            Some(_) => Ok(()),
            None => Err(Failure::usage(format!(
                "no trusted machine has the name {name:?}\nhint: taut trust --list lists them"
            ))),
        };
    }
    if let Some((name, key)) = flags.name.as_ref().zip(flags.key) {
        if let Some(before) = file.trust(name, key)? {
            screen::notify(&format!(
                "{name} had another key, {before}, which is no longer trusted"
            ));
        }
        return Ok(());
    }
    let hosts = file.hosts()?;
    if hosts.is_empty() {
        screen::notify(
            "no machine is trusted\nhint: run `taut pair` here, and `taut pair HOST` on the other machine",
        );
    }
    list(flags, &hosts)
}

fn list(flags: &TrustFlags, hosts: &TrustedHosts) -> Result<(), Failure> {
    let text: String = hosts.iter().map(|(name, key)| format!("{name} {key}\n")).collect();
    let trusted = hosts.iter().map(|(name, key)| HostJson::new(name, key)).collect();
    let reported = TrustListJson { schema: SCHEMA, trusted };
    let json = serde_json::to_string_pretty(&reported).map(|text| text + "\n");
    answer(flags.report, &text, json)
}

#[cfg(test)]
mod tests {
    use tautline_api::trust::HostIdentity;
    use tautline_trial::assert_shape;

    use super::*;
    use crate::help;

    #[test]
    fn help_gives_the_shape_of_the_json() {
        let folder = tempfile::tempdir().unwrap();
        let key = HostIdentity::load_or_make(folder.path()).unwrap().key();
        let reported =
            TrustListJson { schema: SCHEMA, trusted: vec![HostJson::new("studio", key)] };
        let json = serde_json::to_string(&reported).unwrap();
        assert_shape(help::TRUST, "{ \"schema\"", &json);
    }
}
