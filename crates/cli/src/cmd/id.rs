use serde::Serialize;
use tautline_api::trust::{HostIdentity, HostKey, host_name, usual_folder};

use crate::cmd::answer;
use crate::failure::Failure;
use crate::flags::Id;
use crate::screen;

/// Version of the JSON. It increases when a field disappears or changes its meaning.
pub(super) const SCHEMA: u32 = 2;

#[derive(Serialize)]
pub(super) struct HostJson<'a> {
    name: &'a str,
    key: String,
    pin: String,
}

impl<'a> HostJson<'a> {
    pub(super) fn new(name: &'a str, key: HostKey) -> Self {
        Self { name, key: key.to_string(), pin: key.pin() }
    }
}

#[derive(Serialize)]
struct IdentityJson<'a> {
    schema: u32,
    #[serde(flatten)]
    host: HostJson<'a>,
}

pub(crate) fn run(flags: &Id) -> Result<(), Failure> {
    let identity = HostIdentity::load_or_make(&usual_folder()?)?;
    if let Some(folder) = &flags.export {
        identity.export(folder)?;
        let folder = folder.display();
        screen::notify(&format!(
            "wrote taut-cert.pem and taut-key.pem to {folder}; with the second, any machine can pose as this one"
        ));
    }
    let (name, key) = (host_name(), identity.key());
    let reported = IdentityJson { schema: SCHEMA, host: HostJson::new(&name, key) };
    let json = serde_json::to_string_pretty(&reported).map(|text| text + "\n");
    answer(flags.report, &format!("{name} {key}\n"), json)
}

#[cfg(test)]
mod tests {
    use tautline_trial::assert_shape;

    use super::*;
    use crate::help;

    #[test]
    fn help_gives_the_shape_of_the_json() {
        let folder = tempfile::tempdir().unwrap();
        let key = HostIdentity::load_or_make(folder.path()).unwrap().key();
        let reported = IdentityJson { schema: SCHEMA, host: HostJson::new("studio", key) };
        let json = serde_json::to_string(&reported).unwrap();
        assert_shape(help::ID, "{ \"schema\"", &json);
    }
}
