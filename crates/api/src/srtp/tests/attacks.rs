//! Forged and replayed packets are rejected, without side effects.

use super::*;

fn ends(profile: Profile) -> (SrtpSeal, SrtpSeal) {
    (SrtpSeal::shared(&key(profile, 1)), SrtpSeal::shared(&key(profile, 1)))
}

fn report(ssrc: u32) -> Vec<u8> {
    let mut report = vec![0x80, 200, 0, 6];
    report.extend(ssrc.to_be_bytes());
    report.extend([5; 20]);
    report
}

#[test]
fn no_bit_of_a_packet_or_a_report_can_be_turned() {
    for profile in Profile::ALL {
        let (mut sender, mut receiver) = ends(profile);
        for plain in [packet(9, 7, &[5; 40]), report(9)] {
            let made = sealed(&mut sender, &plain);
            for bit in 0..8 * made.len() {
                let mut turned = made.clone();
                turned[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(opened(&mut receiver, &turned), None, "{profile}: bit {bit}");
            }
            for len in 0..made.len() {
                assert_eq!(opened(&mut receiver, &made[..len]), None, "{profile}: {len} bytes");
            }
            assert_ne!(made[12..28], plain[12..28]);
            assert_eq!(opened(&mut receiver, &made), Some(plain), "{profile}");
        }
    }
}

#[test]
fn another_key_opens_nothing_and_each_direction_has_its_own() {
    for profile in Profile::ALL {
        let (here, there) = (key(profile, 1), key(profile, 2));
        let (mut a, mut b) = (SrtpSeal::new(&here, &there), SrtpSeal::new(&there, &here));
        for plain in [packet(9, 7, &[5; 40]), report(9)] {
            let made = sealed(&mut a, &plain);
            assert_eq!(opened(&mut a, &made), None, "what it sealed itself came back");
            assert_eq!(opened(&mut b, &made), Some(plain));
        }
    }
}

#[test]
fn a_seal_for_reports_seals_all_and_opens_reports_alone() {
    let (here, there) = (key(Profile::default(), 1), key(Profile::default(), 2));
    let mut a = SrtpSeal::for_reports(&here, &there);
    let mut b = SrtpSeal::new(&there, &here);
    for (plain, back) in [(packet(9, 7, &[5; 40]), None), (report(9), Some(report(9)))] {
        let made = sealed(&mut a, &plain);
        assert_eq!(opened(&mut b, &made), Some(plain.clone()));
        let made = sealed(&mut b, &plain);
        assert_eq!(opened(&mut a, &made), back);
    }
}

#[test]
fn recent_duplicates_pass_and_old_packets_are_rejected() {
    for profile in Profile::ALL {
        let (mut sender, mut receiver) = ends(profile);
        let number = |step: u64| 65_000_u16.wrapping_add(step as u16);
        let first = sealed(&mut sender, &packet(9, number(0), &[5; 40]));
        assert!(opened(&mut receiver, &first).is_some());
        for step in 1..OLDEST {
            let made = sealed(&mut sender, &packet(9, number(step), &[6; 40]));
            assert!(opened(&mut receiver, &made).is_some(), "{profile}: {step}");
        }
        assert!(opened(&mut receiver, &first).is_some(), "as by a second network");
        let made = sealed(&mut sender, &packet(9, number(OLDEST), &[6; 40]));
        assert!(opened(&mut receiver, &made).is_some());
        assert_eq!(opened(&mut receiver, &first), None, "{profile}: it is too old by now");
    }
}

#[test]
fn a_report_is_opened_once() {
    for profile in Profile::ALL {
        let (mut sender, mut receiver) = ends(profile);
        let two = [sealed(&mut sender, &report(9)), sealed(&mut sender, &report(9))];
        assert_ne!(two[0], two[1]);
        assert!(opened(&mut receiver, &two[1]).is_some());
        assert!(opened(&mut receiver, &two[0]).is_some());
        assert!(two.iter().all(|made| opened(&mut receiver, made).is_none()), "{profile}");
    }
}

#[test]
fn no_index_is_sealed_twice() {
    let (mut sender, _) = ends(Profile::AeadAes128Gcm);
    assert!(!sealed(&mut sender, &packet(9, 7, &[5; 40])).is_empty());
    assert!(sealed(&mut sender, &packet(9, 7, &[6; 40])).is_empty());
    assert!(!sealed(&mut sender, &packet(9, 6, &[6; 40])).is_empty());
    assert_eq!(sender.sent[..2], [Some((9, 0x1_0006)), None]);
    for ssrc in 10..10 + MAX_SENT as u32 - 1 {
        assert!(!sealed(&mut sender, &packet(ssrc, 7, &[6; 40])).is_empty());
    }
    assert!(sealed(&mut sender, &packet(99, 7, &[6; 40])).is_empty(), "one source too many");
    assert!(!sealed(&mut sender, &packet(9, 7, &[6; 40])).is_empty());
    assert!(sealed(&mut sender, &packet(9, 8, &[])[..11]).is_empty(), "no whole header");
    let mut without_room = packet(9, 9, &[5; 40]);
    assert_eq!(sender.seal(&mut without_room, 52), 0);
    sender.sent[0] = Some((9, MAX_RTP - 1));
    assert!(sealed(&mut sender, &packet(9, 0, &[5; 40])).is_empty(), "the key is used up");
    sender.sent_reports = MAX_RTCP;
    assert!(sealed(&mut sender, &report(9)).is_empty());
}

fn at(sender: &mut SrtpSeal, ssrc: u32, index: u64) -> Vec<u8> {
    sender.sent[0] = Some((ssrc, index - 1));
    sealed(sender, &packet(ssrc, index as u16, &[5; 40]))
}

fn received_after(
    sender: &mut SrtpSeal,
    receiver: &mut SrtpSeal,
    from: u64,
    maximum: u64,
) -> Option<u64> {
    (0..maximum).find(|step| opened(receiver, &at(sender, 9, from + step)).is_some())
}

#[test]
fn late_receiver_finds_the_roll_over_counter_quickly() {
    for (index, maximum) in [(0x1_0000, 1), (5 << 16, 3), (200 << 16, 113), (1000 << 16, 700)] {
        let (mut sender, mut receiver) = ends(Profile::AeadAes128Gcm);
        let after = received_after(&mut sender, &mut receiver, index, maximum + 1);
        assert!(after.is_some(), "{index:x} is not found within {maximum} packets");
    }
}

#[test]
fn stream_resumes_after_any_outage_without_old_packets() {
    let (mut sender, mut receiver) = ends(Profile::AesCm128HmacSha1);
    let old: Vec<_> = (0..50).map(|step| at(&mut sender, 9, 1000 + step)).collect();
    assert!(old.iter().all(|made| opened(&mut receiver, made).is_some()));
    for (outage, maximum) in [(40_000, 1), (70_000, 1), (700_000, 3500)] {
        let begins = receiver.received.newest(9).unwrap() + outage;
        assert!(received_after(&mut sender, &mut receiver, begins, maximum).is_some(), "{outage}");
        let mut replayed = old.iter().cycle().take(500);
        assert!(replayed.all(|made| opened(&mut receiver, made).is_none()), "{outage}");
    }
}

#[test]
fn strangers_take_no_memory_and_move_nothing() {
    let (mut sender, mut receiver) = ends(Profile::AeadAes128Gcm);
    let mut stranger = SrtpSeal::shared(&key(Profile::AeadAes128Gcm, 3));
    assert!(opened(&mut receiver, &at(&mut sender, 9, 40_000)).is_some());
    for number in 0..20_000_u32 {
        let forged = at(&mut stranger, if number % 2 == 0 { 9 } else { number }, 50_000);
        assert_eq!(opened(&mut receiver, &forged), None);
    }
    assert_eq!(receiver.received.newest(9), Some(40_000));
    assert_eq!(receiver.received.newest(3), None);
    assert!(opened(&mut receiver, &at(&mut sender, 9, 40_001)).is_some());
}

#[test]
fn packet_with_a_premature_cryptex_mark_is_not_sent() {
    for profile in Profile::ALL {
        let (mut sender, mut receiver) = ends(profile);
        for form in [0xC0DE_u16, 0xC2DE] {
            let mut plain = packet(9, 7, &[0, 0, 0, 1, 5, 6, 7, 8, 9]);
            plain[0] |= 0x10;
            plain[12..14].copy_from_slice(&form.to_be_bytes());
            assert!(sealed(&mut sender, &plain).is_empty(), "{profile}: {form:x}");
        }
        let plain = packet(9, 7, &[5; 40]);
        assert_eq!(opened(&mut receiver, &sealed(&mut sender, &plain)), Some(plain));
    }
}
