//! The `aaf` plugin of alsa-plugins (libavtp), both ways. `TAUTLINE_AAF` is the path of
//! `libasound_module_pcm_aaf.so`, which Debian does not package. The plugin adds 37 s to the system
//! clock, so the kernel's TAI offset must be 37, or the plugin be built for 0.

use std::path::PathBuf;

use crate::common::network::{Cable, Namespace};
use crate::common::program::{Call, call, taut, words};
use crate::common::sound::{Shape, Sound};
use crate::common::{Folder, Lack, shared, skipped};

/// From the MAAP pool (IEEE 1722-2016, table B.9).
const GROUP: &str = "91:E0:F0:00:FE:0A";
const STREAM: &str = "AA:BB:CC:DD:EE:FF:0001";

fn peer() -> Option<PathBuf> {
    let there = std::env::var_os("TAUTLINE_AAF").map(PathBuf::from).filter(|path| path.exists());
    if there.is_none() {
        skipped(Lack::Package, "TAUTLINE_AAF names no plugin of alsa-plugins");
    }
    there
}

fn by_the_peer(end: &Namespace, folder: &Folder, plugin: &std::path::Path, line: &str) -> Call {
    let (interface, plugin) = (&end.interface, plugin.display());
    let text = format!(
        "</usr/share/alsa/alsa.conf>\npcm_type.aaf {{ lib \"{plugin}\" }}\npcm.peer {{ type plug slave {{ format S24_3BE \
         pcm {{ type aaf ifname {interface} addr \"{GROUP}\" streamid \"{STREAM}\" prio 3 mtt 100000 \
         time_uncertainty 1000 frames_per_pdu 6 ptime_tolerance 100 }} }} }}\n"
    );
    let conf = folder.file(&format!("{interface}.conf"));
    std::fs::write(&conf, text).unwrap();
    let (program, line) = line.split_once(' ').unwrap();
    let call = call(program, words(line));
    call.in_folder(folder.path()).within(end).with("ALSA_CONFIG_PATH", conf)
}

#[track_caller]
fn is_a_part(received: &Sound, sent: &Sound) {
    let begins = received.begins().expect("sound");
    let begun = (0..sent.frames() - 32)
        .find(|at| (0..32).all(|index| received.frame(begins + index) == sent.frame(at + index)));
    let begun = begun.expect("it begins as what was sent");
    let both = (received.frames() - begins).min(sent.frames() - begun);
    assert!(both > sent.shape.rate as usize * 4 / 5, "{both} frames were heard");
    let differs = (0..both).find(|at| received.frame(begins + at) != sent.frame(begun + at));
    assert_eq!(differs, None, "of {both} frames");
}

#[test]
fn alsa_aaf_receives_bit_exact() {
    shared(|| {
        let Some(plugin) = peer() else { return };
        let Some(cable) = Cable::lay() else { return };
        let folder = Folder::new();
        let sent = Sound::noise(Shape::STEREO_24, 1000, 21);
        sent.write(&folder.file("sent.wav"));
        let recv = format!(
            "recv --from avtp://{}/{GROUP} --rate 48000 --channels 2 --output file:heard.wav --latency 150ms \
             --periods 32 --duration 6s --report json --no-stall-monitor",
            cable.right.interface
        );
        let recv = taut(words(&recv)).in_folder(folder.path()).within(&cable.right);
        let recv = recv.start().listening();
        let play = "aplay -q -D peer --period-size=480 --buffer-size=9600 sent.wav";
        by_the_peer(&cable.left, &folder, &plugin, play).run().well();
        recv.end().well();
        is_a_part(&Sound::read(&folder.file("heard.wav")), &sent);
    });
}

#[test]
fn alsa_aaf_records_bit_exact() {
    shared(|| {
        let Some(plugin) = peer() else { return };
        let Some(cable) = Cable::lay() else { return };
        let folder = Folder::new();
        let sent = Sound::noise(Shape::STEREO_24, 4000, 22);
        sent.write(&folder.file("sent.wav"));
        let send = format!(
            "send --input file:sent.wav --to avtp://{}/{GROUP}?streamid={STREAM} --ptime 125us --max-transit-time 100ms \
             --report none --no-stall-monitor",
            cable.left.interface
        );
        let record = "arecord -q -D peer -f S24_3LE -c 2 -r 48000 -d 1 --period-size=480 --buffer-size=19200 heard.wav";
        let record = by_the_peer(&cable.right, &folder, &plugin, record).start();
        let send = taut(words(&send)).in_folder(folder.path()).within(&cable.left).start();
        record.end().well();
        send.end().well();
        is_a_part(&Sound::read(&folder.file("heard.wav")), &sent);
    });
}
