use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ServerConnection, Stream};
use tautline_api::call::{CallConnection, read, version_of, written};
use tautline_api::trust::tls::answering;
use tautline_io::clock::now;
use tautline_proto::call::caller::{CallerEnd, CallerStep};
use tautline_proto::call::message::{CALL_VERSION, CallMessage, OLDEST_CALL_VERSION};
use tautline_proto::time::Span;

use crate::caller::{CALL, CallServer};
use crate::trusted::friends;

const BEFORE: &[u8] = b"tautline-call/1";

#[test]
fn a_caller_of_the_version_before_is_answered_in_its_words() {
    let server = CallServer::at("127.0.0.1:0", 2);
    let newest = server.dial(server.address).unwrap();
    assert_eq!(newest.version(), CALL_VERSION);
    let (mut tls, mut stream) = server.shakes_hands_by(vec![BEFORE.to_vec()]);
    let mut line = Stream::new(&mut tls, &mut stream);
    line.write_all(format!("{CALL}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(&mut line).read_line(&mut answer).unwrap();
    let said = read(answer.trim().as_bytes()).unwrap();
    assert!(matches!(said, CallMessage::Accepted { .. }), "{answer}");
    assert_eq!(version_of(tls.alpn_protocol()), Some(OLDEST_CALL_VERSION));
}

#[test]
fn previous_version_gets_messages_that_it_knows() {
    let (host, friend) = friends();
    let mut config = Arc::unwrap_or_clone(answering(&host.store).unwrap());
    config.alpn_protocols = vec![BEFORE.to_vec(), b"http/1.1".to_vec()];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answers = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut tls = ServerConnection::new(Arc::new(config)).unwrap();
        tls.complete_io(&mut stream).unwrap();
        (tls, stream)
    });
    let limit = Duration::from_secs(5);
    let line =
        CallConnection::dial(&address.to_string().parse().unwrap(), &friend.store, limit).unwrap();
    assert_eq!(line.version(), OLDEST_CALL_VERSION);
    drop(answers.join().unwrap());

    let CallMessage::Call { mut offer, .. } = read(CALL.as_bytes()).unwrap() else { panic!() };
    let takes = Some(Span::from_millis(20));
    (offer.there.takes, offer.back.takes) = (takes, takes);
    let said = |version| {
        let mut caller = CallerEnd::new(offer.clone(), now());
        caller.poll(now() + Span::from_secs(1));
        caller.connected(version, now());
        let said = core::iter::from_fn(|| caller.step()).last();
        let Some(CallerStep::Say(message)) = said else { panic!("{said:?}") };
        String::from_utf8(written(&message)).unwrap()
    };
    // Byte for byte the previous version's message.
    assert_eq!(said(line.version()).trim(), CALL);
    assert!(said(CALL_VERSION).contains("\"takes_ns\":20000000"), "{}", said(CALL_VERSION));
}
