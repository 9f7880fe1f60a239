//! PulseAudio's RTP modules receive from us and we from them, between two networks.

use std::process::{Command, Stdio};

use crate::common::host::{steady, timed};
use crate::common::messages;
use crate::common::network::Cable;
use crate::common::program::{Call, Running, call, taut, words};
use crate::common::sound::{FileCoding, Shape, Sound};
use crate::common::{Folder, Lack, PATIENT, median, skipped};

const WIRE: &str = "--format l16 --rate 48000 --channels 2 --payload-type 127";
const SHAPE: Shape = Shape { coding: FileCoding::L16, ..Shape::STEREO_24 };

struct Pulse {
    // Dropped before its folder.
    server: Running,
    cable: Cable,
    folder: Folder,
}

impl Pulse {
    fn start(module: &str) -> Option<Self> {
        let mut requests = Command::new("pulseaudio");
        let requests = requests.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        if !requests.status().is_ok_and(|status| status.success()) {
            skipped(Lack::Package, "PulseAudio is not installed: apt-get install pulseaudio");
            return None;
        }
        let cable = Cable::lay()?;
        let folder = Folder::new();
        let socket = folder.file(SOCKET);
        let socket =
            format!("module-native-protocol-unix auth-anonymous=1 socket={}", socket.display());
        let sink = "module-null-sink sink_name=out rate=48000 channels=2 format=s16le";
        let server = "-n --daemonize=no --exit-idle-time=-1 --use-pid-file=no --log-target=stderr \
                      --log-level=info --disable-shm";
        let server =
            call("pulseaudio", words(server)).and(["-L", &socket, "-L", sink, "-L", module]);
        let server = server.in_folder(folder.path()).with("HOME", folder.path());
        let server =
            server.with("XDG_RUNTIME_DIR", folder.path()).with("XDG_CONFIG_HOME", folder.path());
        let server = server.within(&cable.right).start().wait_for(messages::PULSE_STARTED);
        Some(Self { server, cable, folder })
    }

    fn taut(&self, line: &str) -> Call {
        taut(words(line)).in_folder(self.folder.path()).within(&self.cable.left)
    }

    fn client(&self, line: &str) -> Call {
        let mut words = words(line);
        let program = words.remove(0);
        let server = format!("unix:{}", self.folder.file(SOCKET).display());
        let client = call(&program, words).in_folder(self.folder.path());
        client.with("PULSE_SERVER", server).with("HOME", self.folder.path())
    }

    /// Announces `stream.sdp` to it (RFC 2974 §6). Version 16.1 needs lines that end with a line
    /// feed only; 17.0 listens on UDP port 37670, which is 9875 with swapped bytes.
    fn announce(&self) {
        let description = std::fs::read_to_string(self.folder.file("stream.sdp")).unwrap();
        let mut packet = vec![0x20, 0, 0x12, 0x34, 10, 77, 0, 1];
        packet.extend(b"application/sdp\0");
        packet.extend(description.replace('\r', "").bytes());
        std::fs::write(self.folder.file("announcement"), packet).unwrap();
        for port in [9875_u16, 9875_u16.swap_bytes()] {
            let emit = format!("cat announcement >/dev/udp/{}/{port}", self.cable.right.address);
            let emit = call("bash", ["-c", &emit]).in_folder(self.folder.path());
            // May be refused if neither port is open.
            emit.within(&self.cable.left).run();
        }
    }
}

const SOCKET: &str = "server";

mod exclusive {
    use super::*;

    #[test]
    fn pulseaudio_plays_our_announced_stream() {
        // In one of ten runs with others, its server played nothing.
        timed(|| {
            let Some(mut pulse) = Pulse::start("module-rtp-recv sink=out sap_address=10.77.0.2")
            else {
                return;
            };
            let send = format!(
                "send --input tone:440 --to rtp://{}:5004 {WIRE}",
                pulse.cable.right.address
            );
            pulse.taut(&format!("{send} --sdp stream.sdp --duration 1ms")).run().well();
            pulse.announce();
            pulse.server = pulse.server.wait_for("New session 'tone:440'");
            let record = "parec --verbose --device=out.monitor --file-format=wav --format=s16le --rate=48000 \
                      --channels=2 --latency-msec=20 heard.wav";
            let record = pulse.client(record).start().wait_for(messages::PULSE_STREAM);
            pulse.taut(&format!("{send} --duration 4s")).and(PATIENT).run().well();
            record.signal("-INT");
            record.end();
            let received = Sound::read(&pulse.folder.file("heard.wav"));
            let tone: Vec<_> = (0..received.frames())
                .map(|at| received.frame(at)[0])
                .filter(|s| *s != 0)
                .collect();
            assert!(tone.len() > 2 * 48_000, "{} frames sound", tone.len());
            // It resamples by up to 0.2 % and skips sound on xruns, so the test measures the tone's
            // period.
            let rises: Vec<_> =
                (1..tone.len()).filter(|at| tone[at - 1] < 0 && tone[*at] > 0).collect();
            let period = median(rises.windows(2).map(|two| two[1] - two[0]));
            assert!((107..=111).contains(&period), "{period} frames, of {} periods", rises.len());
        });
    }

    #[test]
    fn pulseaudios_stream_is_played_without_loss() {
        let module = "module-rtp-send source=out.monitor format=s16be channels=2 rate=48000 \
                      destination_ip=10.77.0.1 port=5004";
        // A stalled server changes the resampling a lot.
        steady(|| {
            let Some(pulse) = Pulse::start(module) else { return };
            // A stream fades in, and its last packets are played after the end.
            let sent = Sound::noise(SHAPE, 2000, 21);
            let mut played = Sound { shape: SHAPE, samples: vec![0; 48_000] };
            played.samples.extend(&sent.samples);
            played.samples.extend(vec![0; 2 * 48_000]);
            sent.write(&pulse.folder.file("sent.wav"));
            played.write(&pulse.folder.file("played.wav"));
            let recv = "recv --from rtp://10.77.0.1:5004 --output file:heard.wav --report json";
            let recv = pulse.taut(&format!("{recv} {WIRE}")).and(PATIENT).start().listening();
            pulse.client("paplay --device=out played.wav").run().well();
            recv.signal("-INT");
            let report = recv.end().report();
            assert_eq!(report.count("lost"), 0, "{:#}", report.0);
            // It reports no clock, so its packets are resampled: frames at an edge are found in
            // blocks.
            let compared = pulse.taut("compare sent.wav heard.wav").run();
            assert!(compared.frames_found() * 100 > sent.frames() * 98, "{compared:#?}");
        });
    }
}
