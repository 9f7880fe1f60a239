//! Untrusted, malformed and silent connections.

use tautline_trial::snapshot;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tautline_api::client::{AskError, WorkerClient};
use tautline_api::trust::{HostIdentity, TrustStore};
use tautline_api::v1::MAX_TEXT;
use tautline_proto::text::is_printable;

use crate::common::{client, plugin, request, serving};

const TIMEOUT: Duration = Duration::from_secs(30);

fn endured(at: SocketAddr, bytes: &[u8]) -> (Duration, Vec<u8>) {
    let began = Instant::now();
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("still open: {error}"),
        _ => (began.elapsed(), answer),
    }
}

fn trusting() -> (tempfile::TempDir, Arc<TrustStore>) {
    let folder = tempfile::tempdir().unwrap();
    let store = TrustStore::open(folder.path()).unwrap();
    store.trusted().trust("other", HostIdentity::made().unwrap().key()).unwrap();
    (folder, store)
}

#[test]
fn idle_or_partial_requests_time_out() {
    let (_folder, store) = trusting();
    let (server, _) = serving(Some(store));
    let at = server.address();
    let half_hello = [22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    let half_head = b"GET /v1/capacity HTTP/1.1\r\nHost: 127.0.0.1\r\n".as_slice();
    let half_body = b"POST /v1/streams HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: \
                      application/json\r\nContent-Length: 400\r\nConnection: close\r\n\r\n{"
        .as_slice();
    std::thread::scope(|scope| {
        for bytes in [b"".as_slice(), &half_hello, half_head, half_body] {
            scope.spawn(move || {
                let (time, _) = endured(at, bytes);
                assert!(time < TIMEOUT, "{bytes:?}");
            });
        }
    });
    assert!(client(at).capacity().is_ok(), "and others are answered");
}

#[test]
fn idle_local_connections_shut_out_no_local_request() {
    let (_folder, store) = trusting();
    let (server, _) = serving(Some(store));
    let at = server.address();
    let mut held: Vec<TcpStream> = Vec::new();
    for _ in 0..40 {
        let idle = |_: usize| {
            let mut stream = TcpStream::connect(at).unwrap();
            let _ = stream.write_all(b"G");
            stream.set_nonblocking(true).unwrap();
            stream
        };
        held.extend((0..10).map(idle));
        held.retain(|stream| {
            stream.peek(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        });
        let _ = client(at).within(Duration::from_millis(200)).capacity();
    }
    assert!(client(at).capacity().is_ok());
    let opened = client(at).open(&request());
    assert!(opened.is_ok(), "{opened:?}");
    drop(held);
}

#[test]
fn slow_request_head_gets_no_extra_time() {
    let (server, _) = serving(None);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ").unwrap();
    let began = Instant::now();
    while began.elapsed() < TIMEOUT {
        let written = stream.write_all(b"x");
        let answer = stream.read(&mut [0; 64]);
        let waits = |error: &std::io::Error| error.kind() == ErrorKind::WouldBlock;
        if written.is_err() || answer.map_or_else(|error| !waits(&error), |_| true) {
            return;
        }
    }
    panic!("it was let go on");
}

#[test]
fn a_head_that_is_too_long_is_not_kept() {
    let (server, _) = serving(None);
    let long = format!("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let (_, answer) = endured(server.address(), long.as_bytes());
    assert!(!answer.starts_with(b"HTTP/1.1 2"), "{answer:?}");
    assert!(client(server.address()).capacity().is_ok());
}

#[test]
fn noise_and_other_protocols_are_closed() {
    let (_folder, store) = trusting();
    let (server, _) = serving(Some(store));
    let at = server.address();
    let older = [22, 3, 1, 0, 5, 1, 0, 0, 1, 0];
    for bytes in [b"SSH-2.0-x\r\n\r\n".as_slice(), &[0xff; 300], &older, b"PRI * HTTP/2.0\r\n\r\n"]
    {
        let (_, answer) = endured(at, bytes);
        assert!(!answer.starts_with(b"HTTP/1.1 2"), "{answer:?}");
    }
    assert!(client(at).capacity().is_ok());
}

#[test]
fn tls_server_without_a_key_sends_nothing() {
    let (server, _) = serving(None);
    let (_folder, store) = trusting();
    let address = server.address().to_string().parse().unwrap();
    let error = WorkerClient::new(&address, Some(store)).by_tls().capacity().expect_err("no key");
    assert!(matches!(error, AskError::Unreachable { .. } | AskError::Tls { .. }), "{error:?}");
}

fn lying(answer: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(answer.as_bytes());
    });
    at
}

fn http(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn a_worker_that_lies_is_found_out() {
    let catalogue = |change: &dyn Fn(&mut serde_json::Value)| {
        let plugin = serde_json::to_value(plugin()).unwrap();
        let mut reported = serde_json::json!({"version": 1, "worker": "w", "plugins": [plugin]});
        change(&mut reported);
        http(&reported.to_string())
    };
    for (answer, says) in [
        (catalogue(&|reported| reported["version"] = 2.into()), "version 2"),
        (http("nonsense"), "line 1"),
        ("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_owned(), "status 500"),
        ("SMTP ready\r\n".to_owned(), "update taut"),
    ] {
        let error = client(lying(answer)).catalogue().expect_err(says).to_string();
        assert!(error.contains("update taut"), "{says}: {error}");
        snapshot!(says, error);
    }
}

#[test]
fn odd_plugin_is_left_out_of_a_catalogue_and_the_others_are_not() {
    type Change = fn(&mut serde_json::Value);
    let odd: [(Change, &str); 6] = [
        (|odd| odd["label"] = "two words".into(), "no word"),
        (|odd| odd["name"] = "\u{1b}[2J".into(), "control characters"),
        (|odd| odd["name"] = "gnp.\u{202e}".into(), "an override"),
        (|odd| odd["maker"] = "m".repeat(2000).into(), "too long"),
        (|odd| odd["ports"][0]["descriptor"] = 15.into(), "no kind"),
        (|odd| odd["ports"] = vec![odd["ports"][0].clone(); 5000].into(), "5000 ports"),
    ];
    let whole = serde_json::to_value(plugin()).unwrap();
    let same: (Change, &str) = (|_| (), "two plugins are");
    for (change, says) in odd.into_iter().chain([same]) {
        let mut odd = whole.clone();
        if says != "two plugins are" {
            odd["id"] = "odd.so:odd".into();
        }
        change(&mut odd);
        let plugins = [&whole, &odd, &whole];
        let mut reported = serde_json::json!({"version": 1, "worker": "w", "plugins": plugins});
        reported["plugins"][2]["id"] = "last.so:last".into();
        let (catalogue, wrong) = client(lying(http(&reported.to_string()))).catalogue().unwrap();
        let ids: Vec<_> = catalogue.plugins.iter().map(|plugin| plugin.id.as_str()).collect();
        assert_eq!(ids, [plugin().id.as_str(), "last.so:last"], "{says}");
        let [wrong] = &wrong[..] else { panic!("{says}: {wrong:?}") };
        snapshot!(says, wrong);
    }
}

#[test]
fn words_of_a_hostile_worker_are_escaped_and_cut() {
    let said = format!("no\u{202e}\u{2028}\u{1b}[2J{}", "x".repeat(5_000));
    let body = serde_json::json!({ "error": said }).to_string();
    let answer = http(&body).replace("200 OK", "503 No");
    let error = client(lying(answer)).capacity().expect_err("it refuses");
    let AskError::Refused { error, .. } = error else { panic!("{error:?}") };
    assert!(error.starts_with(r"no\u{202e}\u{2028}\u{1b}[2Jxx"), "{error}");
    assert!(error.chars().all(is_printable) && error.chars().count() <= MAX_TEXT, "{error}");
}

#[test]
fn a_stream_without_a_secret_is_none() {
    let (server, _) = serving(None);
    let opened = client(server.address()).open(&request()).unwrap();
    let reported = serde_json::to_string(&opened.stream).unwrap();
    let error = client(lying(http(&reported))).open(&request()).expect_err("no key in it");
    snapshot!(error);
}

#[test]
fn silent_worker_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = client(listener.local_addr().unwrap()).within(Duration::from_millis(200));
    let error = silent.catalogue().expect_err("it says nothing");
    assert!(matches!(error, AskError::TimedOut { .. }), "{error:?}");
}

#[test]
fn a_timeout_reports_the_time_that_passed_and_not_the_limit() {
    let (_folder, store) = trusting();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string().parse().unwrap();
    let limit = Duration::from_secs(600);
    let silent = WorkerClient::new(&address, Some(store)).by_tls().within(limit);
    let began = Instant::now();
    let error = silent.catalogue().expect_err("it says nothing");
    let took = began.elapsed();
    let AskError::TimedOut { waited, .. } = error else { panic!("{error:?}") };
    assert!(waited > Duration::from_secs(1) && waited <= took, "{waited:?} of {took:?}");
}

#[test]
fn an_answer_that_never_ends_is_given_up_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut written = stream.write_all(head);
        while written.is_ok() {
            written = stream.write_all(b"4\r\n    \r\n");
        }
    });
    let error = client(at).within(Duration::from_secs(2)).catalogue().expect_err("no end");
    let given_up = matches!(error, AskError::TimedOut { .. } | AskError::InvalidAnswer { .. });
    assert!(given_up, "{error:?}");
}

#[test]
fn unpaired_host_and_unknown_host_are_distinguished() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = client(free).catalogue().expect_err("no worker");
    assert!(matches!(error, AskError::Unreachable { .. }), "{error:?}");
    let address = "no-such-host.invalid".parse().unwrap();
    let error = WorkerClient::new(&address, None).catalogue().expect_err("no host");
    assert!(error.to_string().contains("no-such-host.invalid"), "{error}");
}
