//! A receiver without a goodbye, as its sender reports it. Simulated twin:
//! `a_receiver_that_is_killed_is_lost_within_three_seconds`.

use serde_json::{Value, json};

use crate::common::program::{Running, taut, words};
use crate::common::{Folder, loopback, shared};

fn recv(address: &str) -> Running {
    taut(words(&format!("recv --from {address} --output null:"))).start().listening()
}

#[test]
fn killed_receiver_is_logged_counted_and_handed_to_a_command() {
    shared(|| {
        let (folder, address) = (Folder::new(), loopback());
        let run = |line: &str| taut(words(line)).with("XDG_RUNTIME_DIR", folder.path());
        let killed = recv(&address);
        let send = run(&format!("send --input tone:440 --to {address} --report json"));
        let send = send.and(["--on-lost", r#"echo "to $TAUT_STREAM: $TAUT_RECEIVER""#]);
        let send = send.controlled().start();
        let send = send.becomes(|messages| messages.ends_with("; receivers 1 here, 0 lost"));
        killed.signal("-KILL");
        killed.end();
        let send = send.wait_for(" at 127.0.0.1 is lost: no report for ");
        let send = send.request("status", "; receivers 0 here, 1 lost");
        let top: Value =
            serde_json::from_str(&run("top --once --report json").run().well().out).unwrap();
        let stream = &top["programs"][0]["streams"][0];
        let shown = (&stream["state"], &stream["counters"]["receivers_lost"]);
        assert_eq!(shown, (&json!("lost"), &json!(1)), "{top:#}");
        let restarted = recv(&address);
        let send = send.wait_for(" at 127.0.0.1 is back after ");
        restarted.signal("-INT");
        restarted.end().well();
        let send = send.becomes(|messages| messages.ends_with("; receivers 0 here, 0 lost"));
        let ended = send.request("quit", "ok quit").end().well();
        let started = format!("to {address}: 127.0.0.1");
        assert_eq!(ended.messages.iter().filter(|line| **line == started).count(), 1, "{ended:#?}");
        let report: Value = serde_json::from_str(&ended.out).unwrap();
        let stream = &report["streams"][0];
        assert_eq!(stream["counters"]["receivers_lost"], 1, "{report:#}");
        let reported = |field: &str| {
            let receivers = stream["receivers"].as_array().unwrap().iter();
            receivers.map(|receiver| receiver[field].clone()).collect::<Vec<_>>()
        };
        assert_eq!(reported("times_lost"), [1, 0], "{report:#}");
        assert_eq!(reported("state"), ["left", "left"], "{report:#}");
    });
}
