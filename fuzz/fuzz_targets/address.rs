//! Text as an address of each kind: what is accepted reads the same when it is written again, is
//! resolved without waiting where it says so, and what is refused is answered with what works.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline_engine::plan::address::{Address, AddressError};

/// A group of which whoever sends claims one (IEEE 1722 annex B).
const GROUP: [u8; 6] = [0x91, 0xE0, 0xF0, 0x00, 0x0A, 0x01];

fuzz_target!(|text: &str| {
    let kinds: [fn(&str) -> Result<Address, String>; 4] =
        [Address::to_send_to, Address::to_hear, Address::to_listen_at, Address::to_relay_to];
    for read in kinds {
        match read(text) {
            Ok(address) => check(&address, read),
            // Where the text says so itself, the suggestion cannot be told from it.
            Err(why) if !text.contains("; write") => check_mend(&why, read),
            Err(_) => {}
        }
    }
});

fn check(address: &Address, read: fn(&str) -> Result<Address, String>) {
    assert_eq!(read(&address.to_string()).as_ref(), Ok(address));
    assert!(address.file().is_none() || address.may_wait(), "a disk may take long");
    // A name would be asked of the system's resolver.
    if address.may_wait() {
        return;
    }
    if address.unclaimed().is_some() {
        assert!(address.resolve().is_err(), "nobody knows where {address} is yet");
        let claimed = address.clone().claimed(GROUP);
        assert_eq!(claimed.unclaimed(), None);
        return check(&claimed, read);
    }
    match address.resolve() {
        Ok(resolved) => {
            assert!(resolved.description.is_none());
            let Some((media, reports)) = resolved.media().zip(resolved.reports()) else {
                // Frames of Ethernet have no ports, and one connection carries both.
                assert!(resolved.ethernet().is_some() != resolved.tcp().is_some());
                assert!(resolved.tcp().is_none_or(|place| place.port() > 0));
                return;
            };
            assert_eq!(media.ip(), reports.ip());
            assert_eq!(media.port().checked_add(1), Some(reports.port()));
            assert!(media.port() > 0);
        }
        Err(AddressError::Unusable(why)) => assert!(why.contains("; use one below"), "{why}"),
        Err(AddressError::NotThere(why)) => panic!("{address} asks nobody, and yet: {why}"),
    }
}

/// An address that is suggested can be used; what stands behind its `?` is as it was given.
fn check_mend(why: &str, read: fn(&str) -> Result<Address, String>) {
    assert!(!why.is_empty());
    let Some((_, suggested)) = why.rsplit_once("; write rtp://") else { return };
    let place = suggested.split('?').next().unwrap_or("");
    if !place.contains("HOST") {
        let suggested = format!("rtp://{place}");
        assert!(read(&suggested).is_ok(), "{why}: {:?}", read(&suggested));
    }
}
