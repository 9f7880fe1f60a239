//! The minimum latency without loss, over a path with a known delay.

use std::fs;

use serde_json::{Value, json};

use crate::common::program::{taut, words};
use crate::common::{Folder, executable, shared};
use crate::errors::is_refused;

const TAUT: &str = env!("CARGO_BIN_EXE_taut");

/// An `ssh` to a host behind a relay, which takes each receiver's ports; the receiver has the same
/// at another address.
fn behind_a_relay(folder: &Folder, delay: &str) {
    let script = format!(
        "#!/bin/sh\nrelay=\nwhile IFS= read -r line; do\n case \"$line\" in *'\"recv\"'*)\n  \
         [ -z \"$relay\" ] || kill $relay\n  \
         port=$(expr \"$line\" : '.*rtp://0.0.0.0:2\\([0-9]*\\)')\n  \
         {TAUT} lab impair --listen rtp://127.0.0.1:2$port --to rtp://127.0.0.2:2$port --delay {delay} \
         --duration 30s --report none < /dev/null > /dev/null 2>&1 &\n  relay=$!\n  \
         line=$(printf '%s' \"$line\" | sed \"s/0.0.0.0:2$port/127.0.0.2:2$port/\")\n esac\n \
         printf '%s\\n' \"$line\"\ndone | {TAUT} lab agent\n"
    );
    executable(&folder.file("ssh"), &script);
}

#[test]
fn minimum_latency_over_a_delayed_path_is_found_and_held() {
    shared(|| {
        let folder = Folder::new();
        behind_a_relay(&folder, "200ms");
        // The buffers survive delays of one core of a shared host, up to 119 ms. With packets they
        // take 165 ms, so 300 ms leave 135 for the network, and 600 leave 435.
        let line = "lab min-latency --with ssh:x --at 127.0.0.1 --period 240 --periods 32 --step 300ms \
                    --max-latency 2700ms --settle 2s --duration 500ms --hold 1s --report json \
                    --report-file least.html";
        let call = taut(words(line)).finding(folder.path());
        let ended = call.in_folder(folder.path()).run().well();
        let report = ended.json();
        let rows = report["rows"].as_array().unwrap();
        let first = &rows[0];
        assert_eq!(
            (&first["name"], &first["invalid"]),
            (&json!("300ms"), &Value::Null),
            "{first:#}"
        );
        assert!(first["late"].as_u64() > Some(0), "{first:#}");
        for name in ["900ms", "600ms"] {
            assert!(rows.iter().any(|row| row["name"] == name), "{name}: {report:#}");
        }
        let minimum = rows.last().unwrap();
        assert_eq!((&minimum["name"], &minimum["result"]), (&json!("minimum"), &json!("no loss")));
        assert_eq!(minimum["configured_ns"], 600_000_000, "{minimum:#}");
        let missed = &minimum["missed"];
        assert_eq!(missed["missed"], 0, "{minimum:#}");
        // One packet per millisecond, except those under way at the end (90 ms), those in stalls,
        // and the share that may be missed by 3/n.
        let due = missed["due"].as_f64().unwrap();
        assert!((800.0..1500.0).contains(&due), "{minimum:#}");
        let bound = missed["at_most"].as_f64().unwrap() * due;
        assert!((2.9..3.1).contains(&bound), "{minimum:#}");
        assert_eq!(minimum["below_ns"], 300_000_000, "{minimum:#}");
        let below = minimum["below_missed"].as_str().unwrap();
        assert!(below.contains(" late"), "{below}");
        let page = fs::read_to_string(folder.file("least.html")).unwrap();
        assert!(page.contains("<svg") && page.contains("<p>minimum 600ms: "), "{page}");
    });
}

#[test]
fn hold_longer_than_the_noise_is_refused_before_the_search() {
    let folder = Folder::new();
    executable(&folder.file("ssh"), "#!/bin/sh\nexit 1\n");
    let call = |hold: &str| {
        taut(words(&format!("lab min-latency --with ssh:x --hold {hold}")))
            .finding(folder.path())
            .in_folder(folder.path())
    };
    is_refused(&call("3596s"), 2);
    for goes_on in ["3595s", "7200s --input tone:997"] {
        let ended = call(goes_on).run();
        let messages = ended.messages.join("\n");
        assert!(messages.contains("at ssh:x") && !messages.contains("held"), "{messages}");
    }
}
