use tautline_api::srtp::{MasterKey, Profile, SrtpSeal};
use tautline_io::socket::seal::Seal;

fn key(profile: Profile) -> MasterKey {
    let bytes = vec![7; profile.key_bytes() + profile.salt_bytes()];
    MasterKey::new(profile, &bytes).expect("a key of the profile's length")
}

/// A forged or damaged datagram is rejected; others decrypt to the original bytes.
pub fn srtp(bytes: &[u8]) {
    let Some((&chosen, rest)) = bytes.split_first() else { return };
    if let Ok(text) = core::str::from_utf8(rest)
        && let Ok(key) = text.parse::<MasterKey>()
    {
        assert_eq!(key.to_sdes().parse(), Ok(key));
    }
    let key = key(Profile::ALL[usize::from(chosen) % Profile::ALL.len()]);
    let (mut sender, mut receiver) = (SrtpSeal::shared(&key), SrtpSeal::shared(&key));
    let mut rest = rest;
    while let Some((&len, more)) = rest.split_first() {
        let (datagram, after) = more.split_at(usize::from(len).min(more.len()));
        rest = after;
        let mut forged = datagram.to_vec();
        assert!(receiver.open(&mut forged).is_none(), "a forged datagram opened");
        let mut sealed = datagram.to_vec();
        sealed.resize(datagram.len() + sender.room(), 0);
        let len = sender.seal(&mut sealed, datagram.len());
        if len == 0 {
            continue;
        }
        sealed.truncate(len);
        let mut flipped = sealed.clone();
        flipped[usize::from(chosen) % len] ^= 1 << (chosen % 8);
        assert!(receiver.open(&mut flipped).is_none(), "a damaged datagram opened");
        // Fails for sequence numbers far from the last.
        if let Some(opened) = receiver.open(&mut sealed) {
            assert_eq!(opened, datagram);
        }
    }
}
