//! What sealing and opening a datagram costs by either cipher, and by the seal that streams have.
//!
//! Rounds alternate and the cheapest of each counts, so that a busy host moves none of them.
#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a bench without its keys is over")]

use std::hint::black_box;
use std::time::Instant;

use ring::aead::{
    AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, Tag, UnboundKey,
};
use tautline_api::seal::{ROOM, Sealed, StreamKeys};
use tautline_io::link::seal::Seal;

const ROUNDS: usize = 200;
const CALLS: u32 = 500;

fn main() {
    println!("bytes  cipher              seal      open");
    for bytes in [64, 256, 1024, 1400] {
        cipher("ChaCha20-Poly1305", &CHACHA20_POLY1305, bytes);
        cipher("AES-256-GCM", &AES_256_GCM, bytes);
        ours(bytes);
    }
}

fn report(name: &str, bytes: usize, seal: f64, open: f64) {
    println!("{bytes:5}  {name:18}  {seal:6.0} ns {open:6.0} ns");
}

/// Nanoseconds that a call takes.
fn per_call(mut call: impl FnMut()) -> f64 {
    let began = Instant::now();
    for _ in 0..CALLS {
        call();
    }
    began.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

fn cipher(name: &str, algorithm: &'static Algorithm, bytes: usize) {
    let key = LessSafeKey::new(UnboundKey::new(algorithm, &[7; 32]).unwrap());
    let nonce = || Nonce::assume_unique_for_key([1; 12]);
    let (mut seal, mut open) = (f64::MAX, f64::MAX);
    let mut datagram = vec![0_u8; bytes];
    let mut tag = [0; 16];
    for _ in 0..ROUNDS {
        seal = seal.min(per_call(|| {
            let made = key.seal_in_place_separate_tag(nonce(), Aad::empty(), &mut datagram);
            tag.copy_from_slice(made.unwrap().as_ref());
        }));
        let sealed = datagram.clone();
        let copy = per_call(|| black_box(&mut datagram).copy_from_slice(black_box(&sealed)));
        open = open.min(
            per_call(|| {
                datagram.copy_from_slice(&sealed);
                let tag = Tag::from(tag);
                let opened =
                    key.open_in_place_separate_tag(nonce(), Aad::empty(), tag, &mut datagram, 0..);
                black_box(opened.unwrap());
            }) - copy,
        );
    }
    report(name, bytes, seal, open);
}

fn ours(bytes: usize) {
    let keys = StreamKeys::of(&[7; 32], 1);
    let (mut master, mut worker) = (Sealed::master(&keys, 0), Sealed::worker(&keys, 0));
    let (mut seal, mut both) = (f64::MAX, f64::MAX);
    let mut datagram = vec![0_u8; bytes + ROOM];
    for _ in 0..ROUNDS {
        let mut silent = Sealed::master(&keys, 9);
        seal = seal.min(per_call(|| {
            black_box(silent.seal(&mut datagram, bytes));
        }));
        both = both.min(per_call(|| {
            let sealed = master.seal(&mut datagram, bytes);
            black_box(worker.open(&mut datagram[..sealed]).unwrap());
        }));
    }
    report("a stream's seal", bytes, seal, both - seal);
}
