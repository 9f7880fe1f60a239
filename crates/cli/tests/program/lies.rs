//! A sender whose reports lie, on real sockets, as `reports_that_lie_move_no_sound` of
//! `crates/sim/tests` has it simulated.

use std::net::{SocketAddr, UdpSocket};

use tautline_io::thread::{Scheduler, spawn};

use crate::common::host::timed;
use crate::common::program::{taut, words};
use crate::common::sound::{Shape, Sound};
use crate::common::{Folder, PATIENT, free_udp_ports};

pub(crate) fn bound(port: u16) -> UdpSocket {
    UdpSocket::bind(("127.0.0.1", port)).unwrap()
}

/// Hands on what comes to `from`, as `change` makes it, until the process ends; by a real-time
/// thread, as a busy machine would hold packets up for longer than sockets keep them.
pub(crate) fn hand_on(
    from: &UdpSocket,
    by: &UdpSocket,
    to: impl Fn(SocketAddr) -> SocketAddr + Send + 'static,
    mut change: impl FnMut(&mut [u8]) + Send + 'static,
) {
    let (from, by) = (from.try_clone().unwrap(), by.try_clone().unwrap());
    let relay = move || {
        let mut datagram = vec![0; 65_536];
        while let Ok((bytes, peer)) = from.recv_from(&mut datagram) {
            change(&mut datagram[..bytes]);
            // Nobody may listen any more.
            let _ = by.send_to(&datagram[..bytes], to(peer));
        }
    };
    let _granted = spawn("hand-on", Scheduler::Fifo(60), 256 << 10, relay).unwrap().1;
}

/// Sets the clock of a compound of reports ahead by a second: NTP timestamps of sender reports (RFC
/// 3550 §6.4.1) and reference times (RFC 3611 §4.4).
fn a_second_ahead(compound: &mut [u8]) {
    let length = |part: &[u8]| 4 * (usize::from(u16::from_be_bytes([part[2], part[3]])) + 1);
    let ahead = |field: &mut [u8]| {
        let seconds = u32::from_be_bytes(field[..4].try_into().unwrap());
        field[..4].copy_from_slice(&seconds.wrapping_add(1).to_be_bytes());
    };
    let mut at = 0;
    while at + 8 <= compound.len() {
        let packet = &mut compound[at..];
        let end = length(packet).min(packet.len());
        if packet[1] == 200 {
            ahead(&mut packet[8..]);
        }
        let mut block = if packet[1] == 207 { 8 } else { end };
        while block + 12 <= end {
            if packet[block] == 4 {
                ahead(&mut packet[block + 4..]);
            }
            block += length(&packet[block..]);
        }
        at += end;
    }
}

/// Tests that run alone (decision 25).
mod exclusive {
    use super::*;

    #[test]
    fn reports_that_lie_move_no_sound_and_are_counted() {
        timed(|| {
            let folder = Folder::new();
            let sent = Sound::noise(Shape::STEREO_24, 10_000, 21);
            sent.write(&folder.file("sent.wav"));
            let [listen, out, to] = [(); 3].map(|()| free_udp_ports());
            let [media, reports] = [listen, listen + 1].map(bound);
            let [media_out, reports_out] = [out, out + 1].map(bound);
            let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
            hand_on(&media, &media_out, move |_| local(to), |_| ());
            // Who the sender is, its first report says.
            let sender = std::sync::Arc::new(std::sync::OnceLock::new());
            let (told, mut count) = (sender.clone(), 0);
            let lies = move |report: &mut [u8]| {
                count += 1;
                if count > 20 && count % 2 == 0 {
                    a_second_ahead(report);
                }
            };
            let learn = move |peer| {
                told.get_or_init(|| peer);
                local(to + 1)
            };
            hand_on(&reports, &reports_out, learn, lies);
            let back = move |_| sender.get().copied().unwrap_or_else(|| local(listen));
            hand_on(&reports_out, &reports, back, |_| ());

            let call = |line: String| taut(words(&line)).and(PATIENT).in_folder(folder.path());
            let recv = format!(
                "recv --from rtp://127.0.0.1:{to} --output file:heard.wav --until-bye --report json \
                 --rate 48000 --channels 2"
            );
            let recv = call(recv).start().listening();
            call(format!("send --input file:sent.wav --to rtp://127.0.0.1:{listen}")).run().well();
            let report = recv.end().report();
            let refused = report.count("refused_exchanges");
            assert!((5..=20).contains(&refused), "{:#}", report.0);
            let moved = ["clock_steps", "resampled_frames", "missing_frames", "late", "lost"];
            for counter in moved {
                assert_eq!(report.count(counter), 0, "{counter} in {:#}", report.0);
            }
            Sound::read(&folder.file("heard.wav")).is_exactly(&sent);
        });
    }
}
