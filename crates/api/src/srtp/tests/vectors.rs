//! Test vectors from RFCs.

use super::*;
use crate::srtp::packet::RtpParts;

const GALLIA: &str = "8040f17b 8041f8d3 5501a0b2 47616c6c 69612065 7374206f 6d6e6973 20646976 \
                      69736120 696e2070 61727465 73207472 6573";
const SALT: &str = "517569642070726f2071756f";
const KEYS: [(Profile, &str); 2] = [
    (Profile::AeadAes128Gcm, "000102030405060708090a0b0c0d0e0f"),
    (Profile::AeadAes256Gcm, "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"),
];

fn with_session(profile: Profile, session: &str) -> SrtpSeal {
    let keys = || {
        let cipher = || Cipher::of_session(profile, &hex(session), &hex(SALT), &[]);
        Keys { profile, rtp: cipher(), rtcp: cipher() }
    };
    SrtpSeal::with(keys(), keys())
}

#[test]
fn packets_of_rtp_are_sealed_as_in_rfc_7714_16() {
    let expected = [
        "8040f17b 8041f8d3 5501a0b2 f24de3a3 fb34de6c acba861c 9d7e4bca be633bd5 0d294e6f 42a5f47a \
         51c7d19b 36de3adf 8833899d 7f27beb1 6a9152cf 765ee439 0cce",
        "8040f17b 8041f8d3 5501a0b2 32b1de78 a822fe12 ef9f78fa 332e33aa b1801238 9a58e2f3 b50b2a02 \
         76ffae0f 1ba63799 b87b7aa3 db36dfff d6b0f9bb 7878d7a7 6c13",
    ];
    for ((profile, session), expected) in KEYS.into_iter().zip(expected) {
        let (mut sender, mut receiver) =
            (with_session(profile, session), with_session(profile, session));
        let made = sealed(&mut sender, &hex(GALLIA));
        assert_eq!(made, hex(expected), "{profile}");
        assert_eq!(opened(&mut receiver, &made), Some(hex(GALLIA)), "{profile}");
    }
}

#[test]
fn packets_of_rtcp_are_sealed_as_in_rfc_7714_17() {
    let report = "81c8000d 4d617273 4e545031 4e545032 52545020 0000042a 0000e930 4c756e61 \
                  deadbeef deadbeef deadbeef deadbeef deadbeef";
    let expected = [
        "81c8000d 4d617273 63e94885 dcdab67c a727d766 2f6b7e99 7ff5c0f7 6c06f32d c676a5f1 730d6fda \
         4ce09b46 86303ded 0bb9275b c84aa458 96cf4d2f c5abf872 45d9eade 800005d4",
        "81c8000d 4d617273 d50ae4d1 f5ce5d30 4ba297e4 7d470c28 2c3ece5d bffe0a50 a2eaa5c1 110555be \
         8415f658 c61de047 6f1b6fad 1d1eb30c 4446839f 57ff6f6c b26ac3be 800005d4",
    ];
    for ((profile, session), expected) in KEYS.into_iter().zip(expected) {
        let (mut sender, mut receiver) =
            (with_session(profile, session), with_session(profile, session));
        sender.sent_reports = 0x5d4;
        let made = sealed(&mut sender, &hex(report));
        assert_eq!(made, hex(expected), "{profile}");
        assert_eq!(opened(&mut receiver, &made), Some(hex(report)), "{profile}");
    }
}

const CM_KEY: &str = "E1F97A0D3E018BE0D64FA32C06DE4139 0EC675AD498AFEEBB6960B3AABE6";
const GCM_KEY: &str = "000102030405060708090a0b0c0d0e0f a0a1a2a3a4a5a6a7a8a9aaab";

/// From `test/srtp_driver.c`, with the master key of RFC 3711 B.3.
#[test]
fn packets_are_sealed_by_counter_mode_as_libsrtp_does() {
    let master = MasterKey::new(Profile::AesCm128HmacSha1, &hex(CM_KEY)).unwrap();
    let (mut sender, mut receiver) = (SrtpSeal::shared(&master), SrtpSeal::shared(&master));
    let plain = "800f1234 decafbad cafebabe abababab abababab abababab abababab";
    let made = sealed(&mut sender, &hex(plain));
    let expected =
        "800f1234 decafbad cafebabe 4e55dc4c e79978d8 8ca4d215 949d2402 b78d6acc 99ea179b 8dbb";
    assert_eq!(made, hex(expected));
    assert_eq!(opened(&mut receiver, &made), Some(hex(plain)));
    let report = "81c8000b cafebabe abababab abababab abababab abababab";
    sender.sent_reports = 1;
    let made = sealed(&mut sender, &hex(report));
    let expected =
        "81c8000b cafebabe 7128035b e487b9bd bef89041 f977a5a8 80000001 993e08cd 54d6c123 0798";
    assert_eq!(made, hex(expected));
    assert_eq!(opened(&mut receiver, &made), Some(hex(report)));
}

/// RFC 9335 appendix A.
const CRYPTEX: [(Profile, &str, &str, &str); 8] = [
    (
        Profile::AesCm128HmacSha1,
        CM_KEY,
        "900f1235 decafbad cafebabe bede0001 51000200",
        "900f1235 decafbad cafebabe c0de0001 eb923652 51c3e036 f8de27e9 c27ee3e0 b4651d9f bc4218a7 \
         0244522f 34a5",
    ),
    (
        Profile::AesCm128HmacSha1,
        CM_KEY,
        "900f1236 decafbad cafebabe 10000001 05020002",
        "900f1236 decafbad cafebabe c2de0001 4ed9cc4e 6a712b30 96c5ca77 339d4204 ce0d7739 6cab6958 \
         5fbce381 94a5",
    ),
    (
        Profile::AesCm128HmacSha1,
        CM_KEY,
        "920f1238 decafbad cafebabe 0001e240 0000b26e bede0001 51000200",
        "920f1238 decafbad cafebabe 8bb6e12b 5cff16dd c0de0001 92838c8c 09e58393 e1de3a9a 74734d67 \
         45671338 c3acf11d a2df8423 bee0",
    ),
    (
        Profile::AesCm128HmacSha1,
        CM_KEY,
        "920f1239 decafbad cafebabe 0001e240 0000b26e 10000001 05020002",
        "920f1239 decafbad cafebabe f70e513e b90b9b25 c2de0001 bbed4848 faa64466 5f3d7f34 125914e9 \
         f4d0ae92 3c6f479b 95a0f7b5 3133",
    ),
    (
        Profile::AeadAes128Gcm,
        GCM_KEY,
        "900f1235 decafbad cafebabe bede0001 51000200",
        "900f1235 decafbad cafebabe c0de0001 39972dc9 572c4d99 e8fc355d e743fb2e 94f9d8ff 54e72f41 \
         93bbc5c7 4ffab0fa 9fa0fbeb",
    ),
    (
        Profile::AeadAes128Gcm,
        GCM_KEY,
        "900f1236 decafbad cafebabe 10000001 05020002",
        "900f1236 decafbad cafebabe c2de0001 bb75a4c5 45cd1f41 3bdb7daa 2b1e3263 de313667 c9632490 \
         81b35a65 f5cb6c88 b394235f",
    ),
    (
        Profile::AeadAes128Gcm,
        GCM_KEY,
        "920f1238 decafbad cafebabe 0001e240 0000b26e bede0001 51000200",
        "920f1238 decafbad cafebabe 63bbccc4 a7f695c4 c0de0001 8ad7c71f ac70a80c 92866b4c 6ba98546 \
         ef913586 e95ffaaf fe956885 bb0647a8 bc094ac8",
    ),
    (
        Profile::AeadAes128Gcm,
        GCM_KEY,
        "920f1239 decafbad cafebabe 0001e240 0000b26e 10000001 05020002",
        "920f1239 decafbad cafebabe 3680524f 8d312b00 c2de0001 c78d1200 38422bc1 11a7187a 18246f98 \
         0c059cc6 bc9df8b6 26394eca 344e4b05 d80fea83",
    ),
];

#[test]
fn encrypted_extensions_match_rfc_9335_appendix_a() {
    let mut written = 0;
    for (profile, master, plain, expected) in CRYPTEX {
        let master = MasterKey::new(profile, &hex(master)).unwrap();
        let plain = [hex(plain), vec![0xab; 16]].concat();
        let mut receiver = SrtpSeal::shared(&master);
        assert_eq!(opened(&mut receiver, &hex(expected)), Some(plain.clone()), "{expected}");
        let parts = RtpParts::read(&plain).unwrap();
        if parts.to_seal(&mut plain.clone()).unwrap().clear == 16 {
            assert_eq!(sealed(&mut SrtpSeal::shared(&master), &plain), hex(expected));
            written += 1;
        }
    }
    assert_eq!(written, 4);
}
