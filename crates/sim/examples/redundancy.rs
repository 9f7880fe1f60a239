//! Prints residual losses and cost per redundancy method, budget and bandwidth: `cargo run
//! --release -p tautline-sim --example redundancy [PACKETS]`.
//!
//! Packets are 1 ms of 24-bit mono. All methods get the same losses. The bound counts packets that
//! no method can repair: no datagram of their repair window survives.
#![expect(clippy::print_stdout, reason = "it prints a table")]

use std::time::Instant;

use tautline_proto::redundancy::{Encoder, LONGEST, Layout, Repairer};
use tautline_proto::time::Span;
use tautline_proto::wire::rtp::{Header, Packet};
use tautline_sim::clock::TrueTime;
use tautline_sim::link::{Loss, Path, PathModel};

const PAYLOAD: usize = 144;

fn losses(loss: Loss, packets: usize) -> Vec<bool> {
    let mut path = Path::new(PathModel { loss, ..PathModel::ideal(Span::ZERO) }, 5);
    (0..packets)
        .map(|index| {
            let mut lost = true;
            path.carry(100, TrueTime::from_nanos(index as i64 * 1_000_000), |_| lost = false);
            lost
        })
        .collect()
}

fn bound(lost: &[bool], window: usize) -> usize {
    let mut run = 0;
    lost.iter()
        .filter(|lost| {
            run = if **lost { run + 1 } else { 0 };
            run > window
        })
        .count()
}

struct Outcome {
    residual: usize,
    longest: usize,
    bytes: usize,
    encode: f64,
    decode: f64,
}

fn run(lost: &[bool], layout: Layout, window: usize) -> Outcome {
    let (mut encoder, mut repairer) = (Encoder::new(layout), Repairer::default());
    let (mut repair_data, mut datagram) = (vec![0; LONGEST], vec![0; LONGEST]);
    let mut received: Vec<bool> = lost.iter().map(|lost| !lost).collect();
    let (mut bytes, mut encode, mut decode) = (0, 0.0, 0.0);
    let mut payload = [0; PAYLOAD];
    for (number, lost) in (0i64..).zip(lost) {
        payload[..8].copy_from_slice(&number.to_be_bytes());
        let header = Header {
            sequence: number as u16,
            timestamp: 0,
            ssrc: 0,
            marker: false,
            payload_type: 97,
            stamps: None,
        };
        let began = Instant::now();
        let len = encoder.write(number, 97, &payload, &mut repair_data);
        let start = header.write_with(&repair_data[..len], &mut datagram);
        encode += began.elapsed().as_nanos() as f64;
        datagram[start..start + PAYLOAD].copy_from_slice(&payload);
        bytes += start + PAYLOAD + 28;
        if *lost {
            continue;
        }
        let began = Instant::now();
        let packet = Packet::parse(&datagram[..start + PAYLOAD]).expect("what was written is read");
        repairer.accept(number, 97, packet.payload, packet.carried).expect("and whole");
        while let Some((sequence, payload)) = repairer.pull() {
            assert_eq!(payload[..8], sequence.to_be_bytes(), "what comes back is what was sent");
            received[sequence as usize] |= number - sequence <= window as i64;
        }
        decode += began.elapsed().as_nanos() as f64;
    }
    let (mut run, mut longest) = (0, 0);
    for received in &received {
        run = if *received { 0 } else { run + 1 };
        longest = longest.max(run);
    }
    Outcome {
        residual: received.iter().filter(|received| !**received).count(),
        longest,
        bytes: bytes / lost.len(),
        encode: encode / lost.len() as f64,
        decode: decode / lost.len() as f64,
    }
}

fn main() {
    let packets = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(3_600_000);
    let plain = run(&vec![false; 1000], Layout::NONE, 1).bytes;
    let kinds = [
        ("5 % random", Loss::random(0.05)),
        ("5 % in bursts of 3", Loss::bursts(0.05, 3.0)),
        ("20 % in bursts of 3", Loss::bursts(0.2, 3.0)),
    ];
    for (name, loss) in kinds {
        let lost = losses(loss, packets);
        let count = lost.iter().filter(|lost| **lost).count();
        for window in [3, 10, 20, 40] {
            let bound = bound(&lost, window);
            println!("\n{name}, {count} of {packets} lost; budget {window} ms, bound {bound}");
            println!(
                "| way | bandwidth | residual | of the bound | longest gap | ns to make | ns to use |"
            );
            println!("|---|---|---|---|---|---|---|");
            for symbols in [1, 2, 3, 4, 6, 8, 19].into_iter().filter(|n| *n <= window) {
                let ways = [
                    (format!("red:{symbols}"), Layout::copies(symbols, window)),
                    (format!("fec:{symbols}"), Layout::code(symbols, window)),
                ];
                for (way, layout) in ways.into_iter().take(if symbols == window { 1 } else { 2 }) {
                    let Outcome { residual, longest, bytes, encode, decode } =
                        run(&lost, layout, window);
                    println!(
                        "| {way} | × {:.2} | {residual} ({:.1e}) | × {:.2} | {longest} | {encode:.0} | \
                         {decode:.0} |",
                        bytes as f64 / plain as f64,
                        residual as f64 / packets as f64,
                        residual as f64 / bound.max(1) as f64,
                    );
                }
            }
        }
    }
}
