use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use tautline_api::trust::tls::calling;
use tautline_api::v1::WorkRefused;
use tautline_serving::{ApiAsker, ServingNews, TurnedAway};

use crate::caller::first_flight;
use crate::common::{client, event_channel, plugin, request, state};
use crate::trusted::{Host, friends};

const TIMEOUT: Duration = Duration::from_secs(60);

fn next(reported: &Receiver<ServingNews>) -> ServingNews {
    reported.recv_timeout(TIMEOUT).unwrap()
}

#[test]
fn opener_is_reported_by_trusted_name_or_address() {
    let (worker, master) = friends();
    let (server, _, reported) = event_channel(Some(Arc::clone(&worker.store)));
    let here = [127, 0, 0, 1].into();
    master.requests(&server).open(&request()).unwrap();
    let by = ApiAsker { name: Some("master".to_owned()), address: here };
    assert_eq!(by.to_string(), "master (127.0.0.1)");
    assert_eq!(next(&reported), ServingNews::Opened { by, stream: Box::new(state(1)) });
    client(server.address()).open(&request()).unwrap();
    let by = ApiAsker { name: None, address: here };
    assert_eq!(by.to_string(), "127.0.0.1");
    assert_eq!(next(&reported), ServingNews::Opened { by, stream: Box::new(state(2)) });
}

#[test]
fn refused_stream_is_reported_with_the_reason() {
    let (server, hollow, reported) = event_channel(None);
    let refused = WorkRefused::Overloaded("no core has time".to_owned());
    *hollow.refuse.lock().unwrap() = Some(refused.clone());
    client(server.address()).open(&request()).unwrap_err();
    let by = ApiAsker { name: None, address: [127, 0, 0, 1].into() };
    let why = refused.to_string();
    assert_eq!(next(&reported), ServingNews::Refused { by, plugin: plugin().id, why });
}

#[test]
fn peer_that_hangs_up_is_not_reported_as_distrustful() {
    let (worker, master) = friends();
    let (server, _, reported) = event_channel(Some(Arc::clone(&worker.store)));
    let name = ServerName::IpAddress(server.address().ip().into());
    let tls =
        || ClientConnection::new(calling(&master.store, None).unwrap(), name.clone()).unwrap();
    for cut in [2, 1] {
        let hello = first_flight(&mut tls());
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(&hello[..hello.len() / cut]).unwrap();
        drop(stream);
        let address = [127, 0, 0, 1].into();
        assert_eq!(next(&reported), ServingNews::TurnedAway { address, why: TurnedAway::HungUp });
    }
}

#[test]
fn handshake_that_takes_too_long_is_reported_as_slow() {
    let (worker, _) = friends();
    let (server, _, reported) = event_channel(Some(Arc::clone(&worker.store)));
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(&[22, 3, 1]).unwrap();
    let address = [127, 0, 0, 1].into();
    assert_eq!(next(&reported), ServingNews::TurnedAway { address, why: TurnedAway::Slow });
}

#[test]
fn rejected_host_is_reported_with_the_reason() {
    let (worker, master) = friends();
    let (server, _, reported) = event_channel(Some(Arc::clone(&worker.store)));
    let turned_away = |why| ServingNews::TurnedAway { address: [127, 0, 0, 1].into(), why };
    let stranger = Host::new();
    stranger.trusts("worker", &worker);
    stranger.requests(&server).capacity().unwrap_err();
    assert_eq!(next(&reported), turned_away(TurnedAway::NotTrusted));
    // It trusts no host.
    for _ in 0..20 {
        Host::new().requests(&server).capacity().unwrap_err();
        assert_eq!(next(&reported), turned_away(TurnedAway::TrustsNot));
    }
    worker.store.trusted().remove("master").unwrap();
    master.requests(&server).capacity().unwrap_err();
    assert_eq!(next(&reported), turned_away(TurnedAway::NotTrusted));
    let requested = ureq::get(format!("http://{}/v1/capacity", server.address()));
    requested.header("Host", "example.org").call().unwrap_err();
    assert_eq!(next(&reported), turned_away(TurnedAway::OtherHost));
}
