//! Encryption and decryption do not allocate: they run on the device's thread.

use tautline_api::seal::{ROOM, Sealed, StreamKeys};
use tautline_api::srtp::{MasterKey, Profile, SrtpSeal};
use tautline_io::socket::seal::Seal;
use tautline_trial::{CountingAllocator, allocator_calls};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn allocations(run: impl FnOnce()) -> u64 {
    let before = allocator_calls();
    run();
    allocator_calls() - before
}

#[test]
fn sealing_and_opening_take_no_memory() {
    let keys = StreamKeys::of(&[1; 32], 1);
    let (mut master, mut worker) = (Sealed::master(&keys, 0), Sealed::worker(&keys, 0));
    let mut bytes = [5; 1400 + ROOM];
    let taken = allocations(|| {
        for len in 0..1400 {
            let sealed = master.seal(&mut bytes, len);
            assert!(worker.open(&mut bytes[..sealed]).is_some());
            assert!(worker.open(&mut bytes[..sealed]).is_none());
        }
    });
    assert_eq!(taken, 0);
}

#[test]
fn srtp_does_not_allocate_for_any_sender() {
    for profile in Profile::ALL {
        let key = MasterKey::random(profile).unwrap();
        let (mut sender, mut receiver) = (SrtpSeal::shared(&key), SrtpSeal::shared(&key));
        let mut bytes = [0; 1500];
        let taken = allocations(|| {
            for number in 0..5000_u32 {
                // More sources than a link supports.
                let source = if number % 3 == 0 { number } else { number % 9 };
                let kind = if number % 3 == 0 { 201 } else { 97 };
                bytes[..2].copy_from_slice(&[0x80, kind]);
                bytes[2..4].copy_from_slice(&(number as u16).to_be_bytes());
                let at = if kind == 97 { 8 } else { 4 };
                bytes[at..at + 4].copy_from_slice(&source.to_be_bytes());
                let sealed = sender.seal(&mut bytes, 100);
                assert!(sealed > 100);
                let mut flipped = bytes;
                flipped[sealed - 20] ^= 1;
                assert!(receiver.open(&mut flipped[..sealed]).is_none());
                assert!(receiver.open(&mut bytes[..sealed]).is_some());
            }
        });
        assert_eq!(taken, 0);
    }
}
