use tautline_api::srtp::{MasterKey, write_key};

use crate::failure::Failure;
use crate::flags::SrtpKey;
use crate::screen;

pub(crate) fn run(flags: &SrtpKey) -> Result<(), Failure> {
    let key = MasterKey::random(flags.profile).map_err(|error| Failure::open(error.to_string()))?;
    write_key(&flags.file, &key)?;
    let (file, profile) = (flags.file.display(), flags.profile);
    screen::notify(&format!(
        "{file} contains a key for {profile}; with it, any machine can decrypt the stream"
    ));
    Ok(())
}
