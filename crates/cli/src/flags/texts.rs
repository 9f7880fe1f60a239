//! Help of shared options where it differs between commands.

use clap::Arg;
use tautline_proto::units::Rate;

use super::values::coding_names;

const PAYLOAD_TYPES: &str =
    "96 for l16, 97 for l24, 98 for f32, 99 for l32, 100 for opus, 101 and 102 for lossless";

pub(super) fn send(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "rate" => with(arg, "Sample rate [default: the file's, or 48000]", &rates()),
        "channels" => arg.help("Channels, 1 to 64 [default: the file's, or 2]"),
        "format" => {
            let long = format!("{}. auto: l24, or f32 for a float file.", coding_names());
            with(arg, "l16, l24, l32, f32, opus, … [default: auto]", &long)
        }
        "payload_type" => {
            let long = format!("[default: {PAYLOAD_TYPES}]");
            with(arg, "RTP payload type", &long)
        }
        "duration" => until(arg, "at Ctrl-C, or at the end of the input file"),
        _ => arg,
    }
}

pub(super) fn recv(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "rate" => with(arg, "Sample rate [default: the sender's, or 48000]", &rates()),
        "channels" => arg.help("Channels, 1 to 64 [default: the sender's, or 2]"),
        "format" => {
            let long =
                format!("{}. auto: as announced, or detected from the packets.", coding_names());
            with(arg, "l16, l24, l32, f32, opus, … [default: auto]", &long)
        }
        "payload_type" => {
            let long = format!(
                "Other packets are discarded. [default: any with --format; otherwise {PAYLOAD_TYPES}]"
            );
            with(arg, "RTP payload type to receive", &long)
        }
        "duration" => until(arg, "at Ctrl-C"),
        _ => arg,
    }
}

pub(super) fn call(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "rate" => {
            let long = "By default the other machine's rate, if the devices here support it; otherwise 48000.";
            with(arg, "Sample rate of both devices", long).hide_short_help(true)
        }
        "channels" => {
            let long = "By default the other machine's channels, if the devices here support them; otherwise 2.";
            with(arg, "Channels, 1 or 2 with most devices", long).hide_short_help(true)
        }
        "format" => {
            let long = format!(
                "{}. Used for both directions if both machines support it. auto: each direction follows what the \
                 network can carry, from l24 down to opus-voice.",
                coding_names()
            );
            with(arg, "l16, l24, f32, opus, opus-voice, … [default: l24]", &long)
        }
        "ptime" => {
            let long = "The longer one of both machines is used.";
            with(arg, "Packet time [default: 2500us]", long)
        }
        "latency" => {
            let long = "For both directions. auto: the shortest without late packets; auto:150ms sets a \
                        maximum and discards later packets.";
            with(arg, "Total latency, a time or auto [default: auto:250ms]", long)
        }
        "redundancy" => {
            let long = "In both directions, with UDP. See \"Redundancy\" in taut send --help. [default: auto after a loss of \
                        1 %; off with --format]";
            with(arg, "Repair lost packets: off, auto, red:N, fec:N", long)
        }
        "record" => {
            let long = "DIR: two WAV files of 24 bits per call, named by its start. FILE.wav: both directions are mixed \
                        into it at the end, as 32-bit floats.";
            with(arg, "Record both directions to a folder or FILE.wav", long)
                .value_name("DIR|FILE.wav")
        }
        "duration" => until(arg, "at q or Ctrl-C, or at the end of the input file"),
        "periods" | "control" | "report_file" => arg.hide_short_help(true),
        _ => arg,
    }
}

pub(super) fn serve(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "rate" => arg.help("Sample rate of both devices [default: 48000]"),
        "channels" => arg.help("Channels, 1 or 2 with most devices [default: 2]"),
        "format" => {
            let long = format!(
                "{}. The caller chooses. With this option only one codec is offered.",
                coding_names()
            );
            with(arg, "l16, l24, f32, opus, opus-voice, … [default: l24]", &long)
        }
        "ptime" => {
            let long = "The longer one of both machines is used. The default is a period of --input if that is shorter.";
            with(arg, "Packet time [default: 2500us]", long)
        }
        "latency" => {
            let long = "For both directions, of callers that request none. auto: the shortest without late \
                        packets; auto:150ms sets a maximum and discards later packets.";
            with(arg, "Total latency, a time or auto [default: auto:250ms]", long)
        }
        "redundancy" => {
            let long = "In both directions, with UDP, for callers that request none. See \"Redundancy\" in taut send --help. \
                        [default: auto after a loss of 1 %; off with --format]";
            with(arg, "Repair lost packets: off, auto, red:N, fec:N", long)
        }
        "record" => {
            let long = "Two WAV files of 24 bits per call, named by its start.";
            with(arg, "Record both directions to a folder", long)
        }
        "duration" => until(arg, "at Ctrl-C"),
        "periods" | "report_file" => arg.hide_short_help(true),
        // taut serve rejects it.
        "control" => arg.hide(true),
        _ => arg,
    }
}

fn rates() -> String {
    Rate::listed(|_| true) + "."
}

/// Sets the line of `-h`; `--help` adds `more` to it.
fn with(arg: Arg, short: &str, more: &str) -> Arg {
    arg.help(short.to_owned()).long_help(format!("{short}\n\n{more}"))
}

fn until(arg: Arg, default: &str) -> Arg {
    with(arg, "Stop after this time, such as 10s", &format!("[default: {default}]"))
}
