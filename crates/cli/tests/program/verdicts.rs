//! Reports of streams with faults.

use crate::common::lab::Lab;
use crate::common::{Onlooker, shared};

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/recording.flac");

#[test]
fn stalled_file_input_reports_late_frames() {
    shared(|| {
        let (lab, onlooker) = (Lab::straight(), Onlooker::new());
        let recv = lab.recv("--latency 200ms");
        let send = format!("--input file:{RECORDING} --latency 200ms --duration 4s");
        let send = lab.send_call(&send).and(["--to", &onlooker.address()]).start();
        onlooker.handle(2_000);
        recv.signal("-STOP");
        // More than 600 ms: a stalled sender (up to 119 ms) catches up with older packets.
        onlooker.handle(720);
        recv.signal("-CONT");
        send.end().well();
        let received = recv.end().report();
        // Packets due right after the stop were taken 600 ms later.
        let maximum = received.nanos("/latency/measured/max_ns");
        assert!(maximum >= 600_000_000, "{:#}", received.0);
        assert_eq!(received.stream("/latency/method"), "sound", "{:#}", received.0);
    });
}

#[test]
fn stream_of_another_format_is_refused_without_figures() {
    shared(|| {
        let lab = Lab::straight();
        let recv = lab.recv_to("virtual:", "--rate 48000 --channels 2 --latency 20ms");
        let send = lab.send("--input tone:997 --rate 44100 --duration 2s");
        let fitting = "use --rate 44100 --channels 2";
        let recv = recv.wait_for(fitting);
        send.end().well();
        let ended = recv.end();
        assert_eq!(ended.status, Some(1), "{ended:#?}");
        assert!(
            ended.last().ends_with(&format!("{fitting} here, or change the sender")),
            "{ended:#?}"
        );
        let received = ended.json();
        assert!(received["notes"].to_string().contains(fitting), "{received:#}");
        let stream = &received["streams"][0];
        assert!(stream["refused"].is_string(), "{received:#}");
        assert_eq!(stream["rate"], 44_100, "{received:#}");
        assert_eq!(stream["latency"]["measured"]["count"], 0, "{received:#}");
        let nothing = [
            "/latency/method",
            "/latency/recommended_ns",
            "/drift_ppm",
            "/clock/card_ppm",
            "/gaps",
        ];
        for figure in nothing {
            let reported = stream.pointer(figure);
            assert!(reported.is_none_or(serde_json::Value::is_null), "{figure} in {received:#}");
        }
        assert!(stream["stages"].as_array().unwrap().is_empty(), "{received:#}");
        for counter in
            ["lost", "late", "resyncs", "too_early", "missing_frames", "resampled_frames"]
        {
            assert_eq!(stream["counters"][counter], 0, "{counter} in {received:#}");
        }
        assert!(stream["counters"]["packets_received"].as_u64().unwrap() > 1_000, "{received:#}");
    });
}
