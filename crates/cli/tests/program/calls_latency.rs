//! Adaptive latency of a call, and its maximum, on a connection that pauses like TCP after a loss.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::common::Folder;
use crate::common::host::alongside;
use crate::common::messages;
use crate::common::program::{taut, words};

/// Duration and interval of pauses.
const HELD: Duration = Duration::from_millis(400);
const EVERY: Duration = Duration::from_millis(900);

fn hand_on(mut from: TcpStream, mut to: TcpStream) {
    let began = Instant::now();
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let within = Duration::from_nanos((began.elapsed().as_nanos() % EVERY.as_nanos()) as u64);
        if within >= EVERY - HELD {
            std::thread::sleep(EVERY - within);
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn through_holds(called: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, called) = (listener.local_addr().unwrap(), called.to_owned());
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect(&called) else { return };
            for stream in [&near, &far] {
                stream.set_nodelay(true).unwrap();
            }
            let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
            std::thread::spawn(move || hand_on(near, far));
            std::thread::spawn(move || hand_on(back.0, back.1));
        }
    });
    address.to_string()
}

fn greatest(folder: &Folder, report: &str) -> i64 {
    let report = std::fs::read_to_string(folder.file(report)).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let auto = &report["directions"][0]["streams"][0]["latency"]["auto"];
    let greatest = auto["max_ns"].as_i64();
    let nanos = greatest.unwrap_or_else(|| panic!("no greatest latency in {report:#}"));
    (nanos + 999_999) / 1_000_000
}

fn greatest_of(options: &str) -> [i64; 2] {
    let home = Folder::new();
    let folder = Folder::new();
    let run = |line: &str| {
        let call = taut(words(line)).and(["--periods", "8", "--report", "none"]);
        call.with("TAUT_HOME", home.path()).in_folder(folder.path())
    };
    let serve =
        run("serve --listen 127.0.0.1:0 --input tone:440 --output null: --report-file there.json");
    let serve = serve.listened_to().start().wait_for(messages::AWAITS_CALLS);
    let address = through_holds(&serve.address());
    let line = format!(
        "call {address} --input tone:1000 --output null: --transport tcp --duration 8s --report-file here.json \
         {options}"
    );
    run(&line).run().well();
    serve.signal("-TERM");
    serve.end().well();
    ["here.json", "there.json"].map(|report| greatest(&folder, report))
}

#[test]
fn adaptive_latency_stays_below_its_maximum_at_both_ends() {
    let _turn = alongside();
    let all = ["", "--latency auto:120ms", "--latency auto:1s"];
    let all = all.map(|options| std::thread::spawn(move || greatest_of(options)));
    let [usual, less, more] = all.map(|call| call.join().unwrap());
    let reported = format!("as is usual {usual:?} ms, within 120 ms {less:?}, within 1 s {more:?}");
    assert!(more.iter().all(|greatest| *greatest > 300), "this proves nothing: {reported}");
    assert!(usual.iter().all(|greatest| *greatest == 250), "{reported}");
    assert!(less.iter().all(|greatest| *greatest == 120), "{reported}");
}
