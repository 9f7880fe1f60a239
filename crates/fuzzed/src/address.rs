use tautline_engine::plan::address::{Address, AddressError};

type Read = fn(&str) -> Result<Address, String>;

/// IEEE 1722 annex B.
const GROUP: [u8; 6] = [0x91, 0xE0, 0xF0, 0x00, 0x0A, 0x01];

/// A valid address survives a round trip and does not block if it promises so. An error suggests a
/// valid address.
pub fn address(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let kinds: [Read; 4] =
        [Address::to_send_to, Address::to_hear, Address::to_listen_at, Address::to_relay_to];
    for read in kinds {
        match read(text) {
            Ok(address) => check(&address, read),
            Err(why) if !text.contains("hint: write") => check_suggestion(&why, read),
            Err(_) => {}
        }
    }
}

fn check(address: &Address, read: Read) {
    assert_eq!(read(&address.to_string()).as_ref(), Ok(address));
    assert!(address.file().is_none() || address.may_wait(), "a file may block");
    if address.may_wait() {
        return;
    }
    if address.unclaimed().is_some() {
        assert!(address.resolve().is_err(), "{address} is not claimed yet");
        let claimed = address.clone().claimed(GROUP);
        assert_eq!(claimed.unclaimed(), None);
        return check(&claimed, read);
    }
    match address.resolve() {
        Ok(resolved) => {
            assert!(resolved.description.is_none());
            let Some((media, reports)) = resolved.media().zip(resolved.reports()) else {
                // Ethernet has no ports, and one TCP connection carries both.
                assert!(resolved.ethernet().is_some() != resolved.tcp().is_some());
                assert!(resolved.tcp().is_none_or(|place| place.port() > 0));
                return;
            };
            assert_eq!(media.ip(), reports.ip());
            assert_eq!(media.port().checked_add(1), Some(reports.port()));
            assert!(media.port() > 0);
        }
        Err(AddressError::Unusable(why)) => {
            assert!(
                why.contains("\nhint: use port 65534") || why.contains("unspecified address"),
                "{why}"
            );
        }
        Err(AddressError::NotThere(why)) => panic!("{address} needs no lookup: {why}"),
    }
}

/// Valid without its `?` part.
fn check_suggestion(why: &str, read: Read) {
    assert!(!why.is_empty());
    let Some((_, suggested)) = why.rsplit_once("\nhint: write rtp://") else { return };
    let place = suggested.split('?').next().unwrap_or("");
    if !place.contains("HOST") {
        let suggested = format!("rtp://{place}");
        assert!(read(&suggested).is_ok(), "{why}: {:?}", read(&suggested));
    }
}
