use tautline_trial::snapshot;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::{client, plugin, request, serving, state};
use tautline_api::client::AskError;
use tautline_api::v1::{Capacity, SecretText, WorkRefused};

fn sent(at: SocketAddr, bytes: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(bytes.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

fn requested(at: SocketAddr, method: &str, path: &str, head: &str, body: &str) -> (u16, String) {
    let length = body.len();
    sent(
        at,
        &format!(
            "{method} {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nContent-Length: \
             {length}\r\n{head}\r\n{body}"
        ),
    )
}

const TIMEOUT: Duration = Duration::from_secs(20);

const JSON: &str = "Content-Type: application/json\r\n";

#[test]
fn plugin_list_of_the_worker_is_complete() {
    let (server, _) = serving(None);
    let client = client(server.address());
    let mut expected = plugin();
    expected.ports.iter_mut().for_each(|port| port.upper = 0.0);
    let (catalogue, wrong) = client.catalogue().unwrap();
    assert_eq!(wrong, [] as [String; 0]);
    assert_eq!((catalogue.worker.as_str(), catalogue.plugins), ("hollow", vec![expected]));
    let Capacity { cores, used_share, .. } = client.capacity().unwrap();
    assert_eq!((cores, used_share), (2, vec![0.25, 0.5]));
}

#[test]
fn a_stream_is_opened_looked_at_and_closed() {
    let (server, hollow) = serving(None);
    let client = client(server.address());
    let opened = client.open(&request()).unwrap();
    let id = opened.stream.id;
    let (requested, secret) = hollow.requested.lock().unwrap()[0].clone();
    assert_eq!((requested, secret), (request(), opened.secret));
    assert!(opened.secret.is_some_and(|secret| secret != [0; 32]));
    assert_eq!(opened.far, (server.address().ip(), 40_000).into());
    assert_eq!(client.state(id).unwrap(), Some(state(id)));
    assert_eq!(client.states().unwrap(), [state(id)]);
    assert!(client.close(id).unwrap() && !client.close(id).unwrap());
    assert_eq!(client.state(id).unwrap(), None);
}

#[test]
fn stream_is_closed_if_its_opener_left() {
    let (server, hollow) = serving(None);
    let at = server.address();
    let ((begun, is_begun), (let_on, is_let_on)) = (channel(), channel());
    *hollow.gate.lock().unwrap() = Some((begun, is_let_on));
    let (closed, is_closed) = channel();
    *hollow.closed.lock().unwrap() = Some(closed);
    let body = serde_json::to_string(&request()).unwrap();
    let length = body.len();
    let mut opener = TcpStream::connect(at).unwrap();
    let head = format!("POST /v1/streams HTTP/1.1\r\nHost: {at}\r\nContent-Length: {length}\r\n");
    opener.write_all(format!("{head}{JSON}\r\n{body}").as_bytes()).unwrap();
    is_begun.recv_timeout(TIMEOUT).unwrap();
    drop(opener);
    // One thread reads all connections.
    (0..2).for_each(|_| drop(client(at).capacity().unwrap()));
    let_on.send(()).unwrap();
    assert_eq!(is_closed.recv_timeout(TIMEOUT), Ok(1));
    assert_eq!(client(at).states().unwrap(), []);
    let stays = client(at).open(&request()).unwrap().stream.id;
    assert_eq!(client(at).states().unwrap(), [state(stays)]);
}

#[test]
fn each_stream_has_a_secret_of_its_own_that_is_not_printed() {
    let (server, _) = serving(None);
    let client = client(server.address());
    let (one, other) = (client.open(&request()).unwrap(), client.open(&request()).unwrap());
    assert_ne!(one.secret, other.secret);
    assert_eq!(one.stream.key, None, "it was taken out of what may be shown");
    assert!(format!("{one:?}").contains("sealed: true"), "{one:?}");
}

#[test]
fn every_refusal_has_its_status_and_message() {
    let (server, hollow) = serving(None);
    let client = client(server.address());
    let gone = WorkRefused::PluginGone { id: "a:b".to_owned(), what: "was removed".to_owned() };
    for (refused, status) in [
        (WorkRefused::NoSuchPlugin("x.so:y".to_owned()), 404),
        (gone, 410),
        (WorkRefused::Overloaded("core 0 is promised to 0.8; close a stream".to_owned()), 503),
        (WorkRefused::BadRequest("rate 0 is none; use 48000".to_owned()), 422),
        (WorkRefused::Failed("fork: no memory; free some".to_owned()), 500),
    ] {
        *hollow.refuse.lock().unwrap() = Some(refused.clone());
        let error = client.open(&request()).expect_err("refused");
        let AskError::Refused { status: reported, error: sentence, .. } = &error else {
            panic!("{error:?}")
        };
        assert_eq!((*reported, sentence), (status, &refused.to_string()));
        let shown = refused.to_string().replace("; ", "\nhint: ");
        assert!(error.to_string().ends_with(&shown), "{error}");
    }
}

#[test]
fn invalid_request_is_answered_with_the_reason() {
    let (server, hollow) = serving(None);
    let at = server.address();
    let good = serde_json::to_string(&request()).unwrap();
    for (head, body, status) in [
        ("", good.as_str(), 415),
        ("Content-Type: text/plain\r\n", &good, 415),
        (JSON, "", 422),
        (JSON, "[1", 422),
        (JSON, "{\"version\":1}", 422),
        (JSON, "{\"version\":2,\"whatever\":1}", 422),
        (JSON, &good.replace("\"copies\":1", "\"copies\":1,\"pace\":2"), 422),
        (JSON, &good.replace("48000", "-1"), 422),
        (JSON, &good.replace("48000", "1e99"), 422),
        (JSON, &good.replace("little", "middle"), 422),
        (JSON, &"[".repeat(50_000), 422),
        (JSON, &" ".repeat(70_000), 413),
    ] {
        let (answered, text) = requested(at, "POST", "/v1/streams", head, body);
        assert_eq!(answered, status, "{text}");
        assert!(text.starts_with("{\"error\":\""), "{text}");
        snapshot!(format!("{head:?} {body:?}"), text);
    }
    assert_eq!(hollow.requested.lock().unwrap().len(), 0);
    assert_eq!(requested(at, "POST", "/v1/streams", JSON, &good).0, 201, "and goes on");
}

#[test]
fn invalid_place_has_a_hint() {
    let (server, _) = serving(None);
    for (method, path, status) in [
        ("GET", "/", 404),
        ("GET", "/v2/catalogue", 404),
        ("GET", "/v1/streams/1", 404),
        ("GET", "/v1/streams/x", 404),
        ("GET", "/v1/streams/99999999999", 404),
        ("DELETE", "/v1/streams/1", 404),
        ("PUT", "/v1/streams", 405),
        ("DELETE", "/v1/catalogue", 405),
    ] {
        let (answered, text) = requested(server.address(), method, path, "", "");
        assert_eq!(answered, status, "{method} {path}: {text}");
        let looks = text.contains("/v1/openapi.json") || text.contains("GET /v1/streams");
        assert!(looks, "{text}");
    }
}

#[test]
fn a_page_in_a_browser_that_took_the_hosts_name_is_not_answered() {
    let (server, _) = serving(None);
    let at = server.address();
    for (host, status) in [
        ("localhost:17230", 200),
        ("127.0.0.1", 200),
        ("[::1]:17230", 200),
        ("evil.example:17230", 403),
        ("localhost.evil.example", 403),
        ("10.0.0.1", 403),
    ] {
        let text =
            format!("GET /v1/capacity HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let (answered, text) = sent(at, &text);
        assert_eq!(answered, status, "{host}: {text}");
    }
    assert_eq!(sent(at, "GET /v1/capacity HTTP/1.0\r\n\r\n").0, 403, "none at all");
}

#[test]
fn stopped_server_does_not_answer() {
    let (server, _) = serving(None);
    let at = server.address();
    let idle = TcpStream::connect(at).unwrap();
    server.stop();
    let error = client(at).capacity().expect_err("stopped");
    assert!(matches!(error, AskError::Unreachable { .. }), "{error:?}");
    snapshot!(error);
    drop(idle);
}

#[test]
fn worker_debug_output_has_no_key() {
    let stream = serde_json::json!({"a": "AAAA"});
    let key: SecretText = serde_json::from_value(stream["a"].clone()).unwrap();
    assert_eq!(serde_json::to_value(&key).unwrap(), "AAAA");
    assert!(!format!("{key:?}").contains('A'));
}
