//! Cost of encryption per cipher. Rounds alternate and the cheapest of each counts.
#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a bench without its keys is over")]

use std::hint::black_box;
use std::net::UdpSocket;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ring::aead::{
    AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, Tag, UnboundKey,
};
use tautline_api::seal::{ROOM, Sealed, StreamKeys};
use tautline_api::srtp::{MasterKey, Profile, SrtpSeal};
use tautline_io::link::Link;
use tautline_io::link::direct::DirectLink;
use tautline_io::socket::seal::Seal;
use tautline_io::udp::UdpOptions;
use tautline_proto::ledger::Departure;
use tautline_proto::stream::Outgoing;
use tautline_proto::time::{LocalTime, MediaTime};

const ROUNDS: usize = 200;
const CALLS: u32 = 500;

fn main() {
    println!("bytes  cipher                           seal      open");
    for bytes in [64, 256, 1024, 1400] {
        cipher("ChaCha20-Poly1305", &CHACHA20_POLY1305, bytes);
        cipher("AES-256-GCM", &AES_256_GCM, bytes);
        ours(bytes);
    }
    for payload in [288, 1400] {
        Profile::ALL.into_iter().for_each(|profile| srtp(profile, payload));
    }
    println!("as it is in a stream, once a millisecond, with caches that others used meanwhile:");
    for payload in [288, 720] {
        once_a_millisecond(payload);
    }
    println!("handing a packet to the kernel (sendmmsg of one): {:.0} ns", handed_over(40 + 288));
}

fn report(name: &str, bytes: usize, seal: f64, open: f64) {
    println!("{bytes:5}  {name:28}  {seal:6.0} ns {open:6.0} ns");
}

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

fn srtp(profile: Profile, payload: usize) {
    let key = MasterKey::random(profile).unwrap();
    let (mut seal, mut both) = (f64::MAX, f64::MAX);
    let len = 40 + payload;
    let mut datagram = vec![0_u8; len + 20];
    let head = |datagram: &mut [u8], number: u16| {
        datagram[..4].copy_from_slice(&[0x90, 97, (number >> 8) as u8, number as u8]);
        datagram[12..16].copy_from_slice(&[0xBE, 0xDE, 0, 6]);
    };
    for _ in 0..ROUNDS {
        let (mut sender, mut receiver) = (SrtpSeal::shared(&key), SrtpSeal::shared(&key));
        let mut number = 0;
        seal = seal.min(per_call(|| {
            number += 1;
            head(&mut datagram, number);
            black_box(sender.seal(&mut datagram, len));
        }));
        both = both.min(per_call(|| {
            number += 1;
            head(&mut datagram, number);
            let sealed = sender.seal(&mut datagram, len);
            black_box(receiver.open(&mut datagram[..sealed]).unwrap());
        }));
    }
    report(&format!("SRTP {profile}"), len, seal, both - seal);
}

fn once_a_millisecond(payload: usize) {
    const PACKETS: u16 = 3000;
    let key = MasterKey::random(Profile::AeadAes256Gcm).unwrap();
    let (mut sender, mut receiver) = (SrtpSeal::shared(&key), SrtpSeal::shared(&key));
    let (from, to) =
        (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    from.connect(to.local_addr().unwrap()).unwrap();
    let len = 40 + payload;
    let (mut datagram, mut arrived) = (vec![0_u8; len + 20], vec![0_u8; 2048]);
    let (mut seals, mut opens, mut nothing) = (Vec::new(), Vec::new(), Vec::new());
    let timed = |all: &mut Vec<u128>, work: &mut dyn FnMut()| {
        let began = Instant::now();
        work();
        all.push(began.elapsed().as_nanos());
    };
    for number in 1..=PACKETS {
        sleep(Duration::from_millis(1));
        datagram[..4].copy_from_slice(&[0x90, 97, (number >> 8) as u8, number as u8]);
        datagram[12..16].copy_from_slice(&[0xBE, 0xDE, 0, 6]);
        let mut sealed = 0;
        timed(&mut seals, &mut || sealed = sender.seal(&mut datagram, len));
        from.send(&datagram[..sealed]).unwrap();
        sleep(Duration::from_micros(500));
        let count = to.recv(&mut arrived).unwrap();
        timed(&mut nothing, &mut || ());
        timed(&mut opens, &mut || {
            black_box(receiver.open(&mut arrived[..count]).unwrap());
        });
    }
    let [seal, open, nothing] = [seals, opens, nothing].map(|mut all| {
        all.sort_unstable();
        all[all.len() / 2] as f64
    });
    report("SRTP AEAD_AES_256_GCM", len, seal - nothing, open - nothing);
}

/// In nanoseconds, on the loopback interface.
fn handed_over(bytes: usize) -> f64 {
    let there = UdpSocket::bind("127.0.0.1:0").unwrap();
    let options = UdpOptions::sender(vec![there.local_addr().unwrap()]);
    let mut link = DirectLink::open(&options).unwrap();
    let mut datagram = vec![7; bytes];
    let mut minimum = f64::MAX;
    there.set_nonblocking(true).unwrap();
    let mut room = [0; 2000];
    for _ in 0..ROUNDS {
        minimum = minimum.min(per_call(|| {
            let instants = Departure {
                media: MediaTime::ZERO,
                capture: LocalTime::ZERO,
                taken: LocalTime::ZERO,
                packed: LocalTime::ZERO,
                due: LocalTime::ZERO,
                handed: LocalTime::ZERO,
                launched: LocalTime::ZERO,
            };
            let datagram = &mut datagram[..];
            link.queue(&Outgoing { datagram, instants, handed_at: None, again: None });
            link.flush();
        }));
        while there.recv(&mut room).is_ok() {}
    }
    minimum
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
