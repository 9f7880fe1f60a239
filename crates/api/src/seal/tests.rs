use proptest::prelude::*;

use super::replay::REPLAY_WINDOW;
use super::*;

fn ends(incarnation: u32) -> (Sealed, Sealed) {
    let keys = StreamKeys::of(&[3; SECRET_BYTES], 7);
    (Sealed::master(&keys, incarnation), Sealed::worker(&keys, incarnation))
}

fn sealed(by: &mut Sealed, plain: &[u8]) -> Vec<u8> {
    let mut bytes = plain.to_vec();
    bytes.resize(plain.len() + ROOM, 0);
    let len = by.seal(&mut bytes, plain.len());
    bytes.truncate(len);
    bytes
}

#[test]
fn encrypted_datagram_is_decrypted_by_the_peer() {
    let (mut master, mut worker) = ends(0);
    for plain in [&b"block"[..], b"", &[9; 1400]] {
        let mut there = sealed(&mut master, plain);
        assert_eq!(there.len(), plain.len() + master.room());
        assert_eq!(worker.open(&mut there), Some(plain));
        let mut back = sealed(&mut worker, plain);
        assert_eq!(master.open(&mut back), Some(plain));
    }
}

#[test]
fn nothing_of_it_can_be_read_on_the_way() {
    let (mut master, _) = ends(0);
    let seen = sealed(&mut master, &[0x55; 64]);
    assert!(!seen.windows(3).any(|run| run == [0x55; 3]), "{seen:?}");
}

#[test]
fn peer_cannot_decrypt_its_own_packets() {
    let (mut master, mut worker) = ends(0);
    let mut reflected = sealed(&mut master, b"block");
    assert_eq!(master.open(&mut reflected.clone()), None);
    assert_eq!(worker.open(&mut reflected), Some(&b"block"[..]));
}

#[test]
fn each_stream_and_each_secret_has_keys_of_its_own() {
    let (mut master, _) = ends(0);
    let datagram = sealed(&mut master, b"block");
    for keys in [StreamKeys::of(&[3; SECRET_BYTES], 8), StreamKeys::of(&[4; SECRET_BYTES], 7)] {
        assert_eq!(Sealed::worker(&keys, 0).open(&mut datagram.clone()), None);
    }
    let (one, other) = ([1; SECRET_BYTES], [2; SECRET_BYTES]);
    assert_ne!(stream_secret(&one, &one), stream_secret(&one, &other));
    assert_ne!(stream_secret(&one, &one), stream_secret(&other, &one));
}

#[test]
fn duplicate_is_not_decrypted_again() {
    let (mut master, mut worker) = ends(0);
    let recorded: Vec<_> = (0..40_u8).map(|n| sealed(&mut master, &[n])).collect();
    for datagram in recorded.iter().rev() {
        assert!(worker.open(&mut datagram.clone()).is_some(), "in any order");
    }
    for datagram in &recorded {
        assert_eq!(worker.open(&mut datagram.clone()), None);
    }
    assert!(worker.open(&mut sealed(&mut master, b"next")).is_some());
}

#[test]
fn standby_does_not_open_a_dead_process_streams() {
    let (mut master, mut worker) = ends(0);
    let recorded: Vec<_> = (0..200_u8).map(|n| sealed(&mut master, &[n])).collect();
    let (received, late) = recorded.split_at(199);
    for datagram in received {
        assert!(worker.open(&mut datagram.clone()).is_some());
    }
    assert_eq!(worker.newest(), Some((0, 198)));
    let (_, next) = ends(1);
    let mut next = next.after(worker.newest());
    assert!(received.iter().all(|datagram| next.open(&mut datagram.clone()).is_none()));
    assert_eq!(next.open(&mut late[0].clone()), Some(&[199][..]));
    assert_eq!(next.open(&mut late[0].clone()), None);
    let (_, first) = ends(1);
    assert!(first.after(None).open(&mut received[7].clone()).is_some());
}

#[test]
fn datagram_older_than_the_window_is_not_decrypted() {
    let (mut master, mut worker) = ends(0);
    let mut all: Vec<_> = (0..=REPLAY_WINDOW + 1).map(|_| sealed(&mut master, b"x")).collect();
    assert!(worker.open(all.last_mut().unwrap()).is_some());
    assert_eq!(worker.open(&mut all[0]), None, "1025 older than the newest");
    assert_eq!(worker.open(&mut all[1]), None, "1024 older");
    assert!(worker.open(&mut all[2]).is_some(), "1023 older");
}

#[test]
fn old_counters_do_not_match_new_datagrams() {
    let mut window = ReplayWindow::default();
    let turn = REPLAY_WINDOW + 64;
    window.note(0, 5);
    window.note(0, 5 + turn + 10);
    assert!(window.is_new(0, 5 + turn));
    window.note(0, 5 + 9 * turn);
    assert!(window.is_new(0, 5 + 9 * turn - 1));
}

#[test]
fn higher_incarnation_replaces_the_previous_one() {
    let keys = StreamKeys::of(&[3; SECRET_BYTES], 7);
    let mut master = Sealed::master(&keys, 0);
    let (mut first, mut second) = (Sealed::worker(&keys, 1), Sealed::worker(&keys, 2));
    let recorded: Vec<_> = (0..3).map(|_| sealed(&mut first, b"old")).collect();
    assert!(master.open(&mut recorded[0].clone()).is_some());
    assert!(master.open(&mut sealed(&mut second, b"new")).is_some());
    assert_eq!(master.open(&mut recorded[1].clone()), None, "of the dead process");
    assert!(master.open(&mut sealed(&mut second, b"new")).is_some());
}

#[test]
fn a_forged_datagram_moves_no_window() {
    let (mut master, mut worker) = ends(0);
    let mut forged = sealed(&mut master, b"block");
    let nonce = forged.len() - NONCE_BYTES;
    forged[nonce..].copy_from_slice(&written(u32::MAX, u64::MAX));
    assert_eq!(worker.open(&mut forged), None);
    assert!(worker.open(&mut sealed(&mut master, b"true")).is_some());
}

#[test]
fn without_room_or_nonces_nothing_leaves() {
    let (mut master, _) = ends(0);
    assert_eq!(master.seal(&mut [0; 30], 3), 0, "27 bytes of room");
    assert_eq!(master.seal(&mut [0; 3], 30), 0);
    master.count = u64::MAX;
    assert_eq!(master.seal(&mut [0; 64], 3), 0);
}

#[test]
fn debug_output_has_no_key() {
    let keys = StreamKeys::of(&[3; SECRET_BYTES], 7);
    let printed = format!("{keys:?} {:?}", Sealed::master(&keys, 5));
    assert_eq!(printed, "StreamKeys Sealed { incarnation: 5, count: 0 }");
}

proptest! {
    #[test]
    fn one_changed_bit_is_noticed(plain in proptest::collection::vec(any::<u8>(), 0..200), bit in any::<prop::sample::Index>()) {
        let (mut master, mut worker) = ends(0);
        let mut whole = sealed(&mut master, &plain);
        let mut changed = whole.clone();
        let bit = bit.index(whole.len() * 8);
        changed[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(worker.open(&mut changed), None);
        prop_assert_eq!(worker.open(&mut whole), Some(&plain[..]));
    }

    #[test]
    fn arbitrary_datagrams_do_not_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        prop_assert_eq!(ends(0).1.open(&mut bytes), None);
    }

    #[test]
    fn the_window_opens_each_count_once(
        counts in proptest::collection::vec((0..2_u32, prop_oneof![0..200_u64, 0..3000_u64, any::<u64>()]), 1..200)
    ) {
        let mut window = ReplayWindow::default();
        let mut opened: Vec<(u32, u64)> = Vec::new();
        for (incarnation, count) in counts {
            let of_newest = |(other, _): &&(u32, u64)| Some(*other) == opened.iter().map(|o| o.0).max();
            let newest = opened.iter().filter(of_newest).map(|(_, count)| *count).max();
            let highest = opened.iter().map(|(of, _)| *of).max();
            let expected = match (highest, newest) {
                (Some(highest), Some(newest)) if highest == incarnation => {
                    !opened.contains(&(incarnation, count))
                        && newest.saturating_sub(count) < REPLAY_WINDOW
                }
                (Some(highest), _) => incarnation > highest,
                _ => true,
            };
            prop_assert_eq!(window.is_new(incarnation, count), expected);
            if expected {
                window.note(incarnation, count);
                opened.push((incarnation, count));
            }
        }
    }
}
