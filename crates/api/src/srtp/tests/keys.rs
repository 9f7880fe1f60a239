use tautline_trial::snapshot;

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn keys_parse_in_our_and_in_foreign_text_form() {
    for profile in Profile::ALL {
        let key = MasterKey::random(profile).unwrap();
        let text = key.to_sdes();
        assert_eq!(text.parse(), Ok(key.clone()), "{profile}");
        assert_eq!(format!("{text}|2^20\n").parse(), Ok(key));
    }
    let other = "AES_CM_128_HMAC_SHA1_80 inline:d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSoj|2^20|1:32";
    assert_eq!(other.parse::<MasterKey>(), Err(NoMasterKey::KeyIdentifier));
}

#[test]
fn invalid_key_is_refused_without_repeating_it() {
    let secret = MasterKey::random(Profile::AeadAes256Gcm).unwrap().to_sdes();
    let base64 = secret.split(':').nth(1).unwrap();
    for wrong in [
        String::new(),
        base64.to_owned(),
        format!("inline:{base64}"),
        format!("AEAD_AES_128_GCM inline:{base64}"),
        format!("AEAD_AES_256_GCM inline:{}", &base64[1..]),
        format!("{secret} UNENCRYPTED_SRTP"),
        format!("AES_CM_128_HMAC_SHA1_32 inline:{base64}"),
    ] {
        let reported = wrong.parse::<MasterKey>().unwrap_err().to_string();
        assert!(!reported.contains(&base64[..8]), "{reported}");
    }
}

#[test]
fn nothing_of_a_key_is_printed_for_debugging() {
    let key = key(Profile::AeadAes128Gcm, 0xA5);
    assert_eq!(format!("{key:?}"), "MasterKey(AEAD_AES_128_GCM)");
    let seal = format!("{:?}", SrtpSeal::shared(&key));
    assert_eq!(seal, "SrtpSeal { sending: AEAD_AES_128_GCM, receiving: AEAD_AES_128_GCM }");
}

#[test]
fn key_file_is_private_and_rejected_if_readable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let key = MasterKey::random(Profile::default()).unwrap();
    write_key(&path, &key).unwrap();
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(read_key(&path).unwrap(), key);
    let again = write_key(&path, &key).unwrap_err().to_string();
    snapshot!(again);
    for open in [0o640, 0o604, 0o620] {
        set_permissions(&path, Permissions::from_mode(open)).unwrap();
        let reported = read_key(&path).unwrap_err().to_string();
        snapshot!(reported);
    }
    let reported = read_key(&folder.path().join("none")).unwrap_err().to_string();
    snapshot!(reported);
}
