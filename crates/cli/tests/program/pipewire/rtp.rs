//! Interoperation with PipeWire's RTP modules.

use std::net::{Ipv4Addr, UdpSocket};

use super::{BOTH, SHAPE, noise, send, stop};
use crate::common::desktop::{Desktop, is_linked};
use crate::common::free_udp_ports;
use crate::common::host::steady;
use crate::common::sound::Sound;

/// Announces a stream to `rtp-source` by SAP (RFC 2974 §6). Its configuration (1.4.2) would connect
/// the socket to the host address, with one UDP port.
fn announce(description: &std::path::Path, port: u16) {
    let mut packet = vec![0x20, 0, 0x12, 0x34, 127, 0, 0, 1];
    packet.extend(b"application/sdp\0");
    packet.extend(std::fs::read(description).unwrap());
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.send_to(&packet, (Ipv4Addr::LOCALHOST, port)).unwrap();
}

mod exclusive {
    use super::*;

    #[test]
    fn sound_to_pipewires_rtp_sink_is_received_completely() {
        steady(|| {
            let port = free_udp_ports();
            let sink = format!(
            "{{ name = libpipewire-module-rtp-sink args = {{ source.ip = 127.0.0.1 sap.ip = 127.0.0.1
                destination.ip = 127.0.0.1 destination.port = {port} audio.format = S24BE
                stream.props = {{ node.name = Abroad media.class = Audio/Sink }} }} }}"
        );
            let Some(desktop) = Desktop::with_modules(&sink) else { return };
            // Silence follows the noise, because the last frames leave once they fill a packet.
            let sent = noise(&desktop, 1500);
            let line = format!(
                "recv --from rtp://127.0.0.1:{port} --output file:heard.wav --report json {SHAPE} {BOTH} \
             --format l24 --payload-type 127"
            );
            let recv = desktop.taut(&line).start().listening();
            desktop.node("Abroad", 2);
            desktop.pw_cat("--playback --target Abroad sent.wav").run().well();
            recv.signal("-INT");
            let report = recv.end().report();
            if desktop.is_before([1, 4, 0]) {
                report.missed_nothing();
                return Sound::read(&desktop.folder().join("heard.wav")).is_exactly(&sent);
            }
            // A timer sends its packets without a clock report, so they are resampled.
            for counter in ["lost", "late", "underrun_discarded", "missing_frames"] {
                assert_eq!(report.count(counter), 0, "{counter}: {:#}", report.0);
            }
            sent.write(&desktop.folder().join("sent.wav"));
            let compared = desktop.taut("compare sent.wav heard.wav").run();
            assert!(compared.frames_found() * 100 > sent.frames() * 98, "{compared:#?}");
        });
    }

    #[test]
    fn pipewires_rtp_source_receives_plain_rtp() {
        steady(|| {
            let (port, announcements) = (free_udp_ports(), free_udp_ports());
            let source = format!(
            "{{ name = libpipewire-module-rtp-source args = {{ sap.ip = 127.0.0.1 sap.port = {announcements}
                source.ip = 0.0.0.0 source.port = {port} audio.format = S24BE sess.latency.msec = 300
                stream.props = {{ node.name = \"file:sent.wav\" media.class = Audio/Source }} }} }}"
        );
            let Some(desktop) = Desktop::with_modules(&source) else { return };
            let sent = noise(&desktop, 4000);
            let to = format!("rtp://127.0.0.1:{port} --format l24 --no-header-extensions");
            let describe =
                format!("send --input file:sent.wav --to {to} --sdp stream.sdp --duration 1ms");
            desktop.taut(&describe).run().well();
            announce(&desktop.folder().join("stream.sdp"), announcements);
            desktop.node("file:sent.wav", 2);
            let record =
                desktop.pw_cat("--record --target file:sent.wav --format s16 heard.wav").start();
            desktop.wait_for("a recorder", |objects| is_linked(objects, "file:sent.wav", "pw-cat"));
            send(&desktop, "file:sent.wav", &to).end().well();
            stop(record);
            let received = Sound::read(&desktop.folder().join("heard.wav"));
            let sounding = (0..received.frames()).filter(|at| received.frame(*at)[0] != 0).count();
            assert!(sounding * 2 > sent.frames(), "{sounding} of {} frames sound", sent.frames());
        });
    }
}
