//! Sound piped from and to other programs: standard input and output.

use std::path::Path;
use tautline_trial::snapshot;

use crate::common::program::{Call, Ended, call, taut, words};
use crate::common::report::Report;
use crate::common::sound::{FileCoding, Shape, Sound};
use crate::common::{Folder, Lack, PATIENT, loopback, shared, skipped, sounding_at};
use crate::errors::is_refused;

fn shell(folder: &Folder, line: &str) -> Call {
    let line = line.replace("TAUT", env!("CARGO_BIN_EXE_taut"));
    call("sh", ["-c", &line]).in_folder(folder.path())
}

/// The header of piped sound lacks the length, which hound needs.
fn received(path: &Path) -> Sound {
    let mut wav = std::fs::read(path).unwrap();
    let data = wav.windows(4).position(|four| four == b"data").expect("samples") + 8;
    assert_eq!(wav[data - 4..data], [0xff; 4], "the length is not known");
    assert_eq!(wav[4..8], [0xff; 4], "nor is that of all");
    let length = u32::try_from(wav.len()).unwrap();
    wav[4..8].copy_from_slice(&(length - 8).to_le_bytes());
    wav[data - 4..data].copy_from_slice(&(length - data as u32).to_le_bytes());
    std::fs::write(path, wav).unwrap();
    Sound::read(path)
}

fn carry(folder: &Folder, input: &str, format: &str) -> (Sound, Ended) {
    let (address, patient) = (loopback(), PATIENT.join(" "));
    let recv = format!(
        "TAUT recv --from {address} --output file:- --exit-on-bye --report json {patient} \
         --rate 48000 --channels 2 {format} | cat > heard.wav"
    );
    let recv = shell(folder, &recv).start().listening();
    let send = format!(
        "{input} | TAUT send --input file:- --to {address} {format} --report none {patient}"
    );
    shell(folder, &send).run().well();
    let ended = recv.end().well();
    (received(&folder.file("heard.wav")), ended)
}

#[test]
fn piped_sound_is_bit_exact_and_the_report_is_separate() {
    shared(|| {
        for coding in [FileCoding::L16, FileCoding::L24, FileCoding::F32] {
            let folder = Folder::new();
            let sent = Sound::noise(Shape { coding, ..Shape::STEREO_24 }, 1000, 4);
            sent.write(&folder.file("sent.wav"));
            let format = format!("--format {}", coding.word());
            let (received, ended) = carry(&folder, "cat sent.wav", &format);
            received.is_exactly(&sent);
            let reported = ended.messages.iter().filter(|line| !line.starts_with("taut: "));
            let json: String = reported.map(String::as_str).collect();
            let report =
                serde_json::from_str(&json).unwrap_or_else(|why| panic!("{why}: {ended:#?}"));
            Report(report).missed_nothing();
        }
    });
}

#[test]
fn pipes_of_sox_and_ffmpeg_are_read_to_the_end() {
    shared(|| {
        let folder = Folder::new();
        let sent = Sound::noise(Shape::STEREO_24, 500, 6);
        sent.write(&folder.file("sent.wav"));
        for (program, line) in [
            ("sox", "sox sent.wav -t wav - 2>/dev/null"),
            ("ffmpeg", "ffmpeg -v error -i sent.wav -c:a pcm_s24le -f wav -"),
            ("ffmpeg", "ffmpeg -v error -i sent.wav -c:a flac -sample_fmt s32 -f flac -"),
        ] {
            let there = std::process::Command::new(program).arg("--version").output();
            if there.is_err() {
                skipped(Lack::Package, &format!("there is no {program}"));
                continue;
            }
            let (received, ended) = carry(&folder, line, "");
            received.is_exactly(&sent);
            assert!(!ended.messages.concat().contains("truncated"), "{line}: {ended:#?}");
        }
    });
}

#[test]
fn closed_pipe_ends_a_recording_successfully() {
    let folder = Folder::new();
    let address = loopback();
    let _send = sounding_at(&address);
    let recv = "TAUT recv --rate 48000 --channels 2 --output file:- --report json --from";
    let line = format!("{{ {recv} {address}; echo $? > status; }} | head -c 200000 > begun");
    let ended = shell(&folder, &line).run().well();
    assert_eq!(std::fs::read_to_string(folder.file("status")).unwrap(), "0\n", "{ended:#?}");
    assert_eq!(std::fs::metadata(folder.file("begun")).unwrap().len(), 200_000);
    assert!(!ended.messages.concat().contains("ipe"), "{ended:#?}");
    assert!(ended.messages.iter().any(|line| line.contains("\"role\": \"recv\"")), "{ended:#?}");
}

#[test]
fn unread_pipe_does_not_delay_the_end() {
    let (folder, address) = (Folder::new(), loopback());
    let _send = sounding_at(&address);
    // More than pipe and buffer hold; the reader reads nothing until the end of the run.
    let recv = "TAUT recv --rate 48000 --channels 2 --output file:- --duration 2s --report none";
    let line = format!(
        "mkfifo over; {{ {recv} --from {address}; echo $? > status; echo > over; }} | cat over"
    );
    let ended = shell(&folder, &line).run().well();
    assert_eq!(std::fs::read_to_string(folder.file("status")).unwrap(), "0\n", "{ended:#?}");
    let unread = ended
        .messages
        .iter()
        .find(|line| line.contains("its reader stopped"))
        .expect("it is reported");
    snapshot!(unread);
}

#[test]
fn pipes_that_no_program_reads_keep_no_run_from_its_end() {
    let (folder, address) = (Folder::new(), loopback());
    let _send = sounding_at(&address);
    let recv = format!(
        "mkfifo sound ledger report; exec TAUT recv --from {address} --rate 48000 --channels 2 \
         --output file:sound --packet-log ledger --report-file report --duration 1s --report none"
    );
    let ended = shell(&folder, &recv).run();
    assert_eq!(ended.status, Some(1), "{ended:#?}");
    let messages = ended.messages.concat();
    assert!(messages.contains("file:sound: no program read it"), "{ended:#?}");
    snapshot!(ended.last());
}

#[test]
fn recording_into_an_unread_pipe_fails_the_run() {
    let (folder, address) = (Folder::new(), loopback());
    let _send = sounding_at(&address);
    let recv = format!(
        "mkfifo sound; exec TAUT recv --from {address} --rate 48000 --channels 2 \
         --output file:sound --duration 1s --report none"
    );
    let ended = shell(&folder, &recv).run();
    assert_eq!(ended.status, Some(1), "{ended:#?}");
    assert!(ended.last().contains("file:sound: no program read it"), "{ended:#?}");
}

#[test]
fn wav_in_a_pipe_that_stays_open_ends_with_its_last_sample() {
    let (folder, address) = (Folder::new(), loopback());
    let sent = Sound::noise(Shape::STEREO_24, 300, 4);
    sent.write(&folder.file("sent.wav"));
    // The file ends long before the pipe; the shell waits for neither.
    let send = format!(
        "mkfifo pipe; {{ cat sent.wav; exec sleep 60; }} > pipe & feeder=$!; \
         TAUT send --input file:pipe --to {address} --report json; status=$?; \
         kill $feeder; exit $status"
    );
    let begun = std::time::Instant::now();
    let ended = shell(&folder, &send).run().well();
    assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{ended:#?}");
    let report = Report(serde_json::from_str(&ended.out).unwrap());
    let packets = report.count("packets_sent");
    assert!((300..320).contains(&packets), "{packets} packets of 1 ms");
}

#[test]
fn a_pipe_that_a_program_reads_gets_all_that_a_file_would() {
    shared(|| {
        let (folder, address, patient) = (Folder::new(), loopback(), PATIENT.join(" "));
        let sent = Sound::noise(Shape::STEREO_24, 1000, 4);
        sent.write(&folder.file("sent.wav"));
        let recv = format!(
            "mkfifo sound ledger; cat sound > heard.wav & cat ledger > ledger.csv & \
             exec TAUT recv --from {address} --rate 48000 --channels 2 --output file:sound \
             --packet-log ledger --exit-on-bye --report json {patient}"
        );
        let recv = shell(&folder, &recv).start().listening();
        let send =
            format!("TAUT send --input file:sent.wav --to {address} --report none {patient}");
        shell(&folder, &send).run().well();
        let ended = recv.end().well();
        received(&folder.file("heard.wav")).is_exactly(&sent);
        let packets = ended.report().count("packets_received");
        let lines = std::fs::read_to_string(folder.file("ledger.csv")).unwrap().lines().count();
        assert_eq!(lines as u64, packets + 1);
    });
}

#[test]
fn invalid_standard_input_is_refused_in_one_sentence() {
    let folder = Folder::new();
    let send = |options: &str| taut(words(&format!("send --to rtp://127.0.0.1:5004 {options}")));
    is_refused(&send("--input file:-"), 3);
    let text = "TAUT send --to rtp://127.0.0.1:5004 --input file:-";
    let text = shell(&folder, &format!("echo some words that are no sound | {text}"));
    is_refused(&text, 3);
}

#[test]
fn pipe_without_a_writer_is_awaited_for_the_run() {
    shared(|| {
        let folder = Folder::new();
        shell(&folder, "mkfifo in.wav in.sdp").run().well();
        let address = loopback();
        for line in [
            format!("send --input file:in.wav --to {address} --duration 200ms"),
            "recv --from in.sdp --output null: --duration 200ms".to_owned(),
        ] {
            let ended = taut(words(&line)).in_folder(folder.path()).run();
            assert_eq!(ended.status, Some(1), "{ended:#?}");
        }
    });
}
