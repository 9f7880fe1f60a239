//! Peers outside loopback, and connections that outlast trust.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use tautline_api::client::{AskError, WorkerClient};
use tautline_api::trust::tls::calling;
use tautline_api::v1::StreamRequest;
use tautline_serving::{Listening, serve};
use tautline_trial::{Lack, skipped};

use crate::common::{Hollow, request};
use crate::trusted::friends;

fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Only selects the source address.
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|address| !address.is_loopback())
}

#[test]
fn remote_host_needs_a_key_and_tls() {
    let Some(own) = own_address() else {
        return skipped(
            Lack::Device,
            "this host has no address but that of the loopback interface",
        );
    };
    let (worker, master) = friends();
    let trust = Some(Arc::clone(&worker.store));
    let listening = Listening { address: "0.0.0.0:0".parse().unwrap(), trust };
    let hollow = Arc::new(Hollow::default());
    let server = serve(&listening, Arc::clone(&hollow) as _).unwrap();
    let at = (own, server.address().port());
    let mut plain = TcpStream::connect(at).unwrap();
    write!(plain, "GET /v1/capacity HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");

    let address = format!("{own}:{}", at.1).parse().unwrap();
    let without = WorkerClient::new(&address, None).capacity().expect_err("no key");
    assert!(matches!(without, AskError::NoTrust(..)), "{without:?}");
    let client = WorkerClient::new(&address, Some(Arc::clone(&master.store)));
    let requested = StreamRequest { cleartext: true, ..request() };
    let error = client.open(&requested).expect_err("cleartext");
    assert!(matches!(error, AskError::Refused { status: 422, .. }), "{error:?}");
    let opened = client.open(&request()).unwrap();
    assert_eq!(
        (opened.far, opened.secret),
        ((own, 40_000).into(), hollow.requested.lock().unwrap()[0].1)
    );
}

#[test]
fn connection_ends_when_its_peer_loses_trust() {
    let (worker, master) = friends();
    let (server, _) = worker.serving();
    let name = ServerName::IpAddress(server.address().ip().into());
    let connection = ClientConnection::new(calling(&master.store, None).unwrap(), name).unwrap();
    let stream = TcpStream::connect(server.address()).unwrap();
    let mut stream = StreamOwned::new(connection, stream);
    let mut request = || {
        write!(stream, "GET /v1/capacity HTTP/1.1\r\nHost: worker\r\n\r\n").unwrap();
        let mut answer = [0; 4096];
        let len = stream.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..len]).into_owned()
    };
    assert!(request().starts_with("HTTP/1.1 200"));
    assert!(request().starts_with("HTTP/1.1 200"), "it is kept");
    worker.store.trusted().remove("master").unwrap();
    let answer = request();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}
