//! Attacks by strangers that must not affect calls.

use tautline_trial::snapshot;

use std::cell::RefCell;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustls::ClientConnection;
use tautline_api::call::{CallConnection, DialError};
use tautline_proto::call::message::CallMessage;
use tautline_trial::{Lack, shared, skipped};

use crate::caller::{CALL, CallServer, TIMEOUT, answered, first_flight, second_flight};
use crate::trusted::friends;

const OF_A_HOST: usize = 16;

const PING_EVERY: Duration = Duration::from_millis(200);

fn breaks_off(mut stream: TcpStream, bytes: &[u8]) {
    stream.write_all(bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    is_closed(stream);
}

fn is_closed(mut stream: TcpStream) {
    match stream.read_to_end(&mut Vec::new()) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("it is open: {error}"),
        _ => {}
    }
}

#[test]
fn aborted_handshake_frees_its_place_and_harms_no_call() {
    shared(|| {
        let server = CallServer::at("127.0.0.1:0", 2);
        let mut call = server.call();
        let mut breaks_off_everywhere =
            |flight: &dyn Fn(&mut ClientConnection, &mut TcpStream) -> Vec<u8>| {
                let (mut at, mut length) = (0, usize::MAX);
                while at < length {
                    let (mut tls, mut stream) = server.shakes_hands();
                    let bytes = flight(&mut tls, &mut stream);
                    length = bytes.len();
                    breaks_off(stream, &bytes[..at]);
                    at += 1;
                    if at % 64 == 0 {
                        call.is_answered();
                    }
                }
                length
            };
        let first = breaks_off_everywhere(&|tls, _| first_flight(tls));
        let second = breaks_off_everywhere(&second_flight);
        assert!(first > 100 && second > 300, "{first} and {second} bytes");
        call.is_answered();
        server.call().is_answered();
    });
}

#[test]
fn handshakes_that_stop_and_stay_are_closed_and_make_room() {
    shared(|| {
        let server = CallServer::at("127.0.0.1:0", 2);
        let mut call = server.call();
        let stays = |number: usize| {
            let (mut tls, mut stream) = server.shakes_hands();
            let bytes = match number % 2 {
                0 => first_flight(&mut tls),
                _ => second_flight(&mut tls, &mut stream),
            };
            stream.write_all(&bytes[..bytes.len() * number / OF_A_HOST]).unwrap();
            stream
        };
        let staying: Vec<_> = (0..OF_A_HOST).map(stays).collect();
        server.call().is_answered();
        staying.into_iter().for_each(is_closed);
        call.is_answered();
    });
}

fn trickles(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let waits = |error: &std::io::Error| {
        matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
    };
    bytes.iter().any(|byte| {
        let written = stream.write_all(&[*byte]);
        let answer = stream.read(&mut [0; 512]);
        written.is_err() || answer.map_or_else(|error| !waits(&error), |count| count == 0)
    })
}

#[test]
fn slow_handshake_and_call_get_no_extra_time() {
    shared(|| {
        let server = CallServer::at("127.0.0.1:0", 1);
        let mut call = server.call();
        std::thread::scope(|scope| {
            let slow: Vec<_> = (0..OF_A_HOST / 2)
                .map(|_| {
                    scope.spawn(|| {
                        let (mut tls, mut stream) = server.shakes_hands();
                        let hello = first_flight(&mut tls);
                        assert!(trickles(&mut stream, &hello), "a handshake takes a minute");
                    })
                })
                .collect();
            scope.spawn(|| {
                let (mut tls, mut stream) = server.shakes_hands();
                let rest = second_flight(&mut tls, &mut stream);
                stream.write_all(&rest).unwrap();
                let said = CALL.as_bytes().iter().flat_map(|byte| {
                    tls.writer().write_all(&[*byte]).unwrap();
                    first_flight(&mut tls)
                });
                let said: Vec<u8> = said.collect();
                assert!(trickles(&mut stream, &said), "a call takes a minute to be said");
            });
            while !slow.iter().all(|slow| slow.is_finished()) {
                call.is_answered();
                std::thread::park_timeout(PING_EVERY);
            }
        });
        call.is_answered();
    });
}

#[test]
fn caller_beyond_one_hundred_is_rejected() {
    shared(|| {
        let server = CallServer::at("127.0.0.1:0", 100);
        let mut calls = std::thread::scope(|scope| {
            let dial = || (0..25).map(|_| server.call()).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(dial)).collect();
            let mut calls = Vec::new();
            for thread in threads {
                calls.extend(thread.join().unwrap());
            }
            calls
        });
        calls.iter_mut().for_each(|call| call.is_answered());
        let refused = answered(server.dial(server.address).unwrap());
        let CallMessage::Refused(why) = refused else { panic!("{refused:?}") };
        snapshot!(why.as_str());
        calls.iter_mut().for_each(|call| call.is_answered());
    });
}

const CROWDED: &str = "TAUT_TEST_CROWD";
const CROWD: [[u8; 4]; 4] = [[10, 0, 1, 1], [10, 0, 1, 2], [10, 0, 2, 1], [10, 0, 2, 2]];
const CALLER: [u8; 4] = [10, 0, 9, 1];

#[test]
fn full_handshake_places_keep_no_caller_out() {
    if std::env::var_os(CROWDED).is_some() {
        return crowd();
    }
    let made = "ip link set lo up && for a in 1.1 1.2 2.1 2.2 9.1; do ip address add 10.0.$a/32 dev lo || exit 77; done \
                && exec \"$0\" \"$@\"";
    let mut child = Command::new("unshare");
    child.args(["-rn", "sh", "-c", made]).arg(std::env::current_exe().unwrap());
    let test = "attacks::full_handshake_places_keep_no_caller_out";
    child.args(["--exact", test, "--nocapture"]).env(CROWDED, "1");
    let is_allowed = Command::new("unshare").args(["-rn", "true"]).status();
    let ended = match is_allowed.is_ok_and(|status| status.success()) {
        true => child.output().unwrap(),
        false => return skipped(Lack::Privilege, "no network can be made here (unshare -rn)"),
    };
    let said = String::from_utf8_lossy(&ended.stderr);
    if ended.status.code() == Some(77) {
        return skipped(Lack::Privilege, &said);
    }
    assert!(ended.status.success(), "{}{said}", String::from_utf8_lossy(&ended.stdout));
}

fn crowd() {
    let server = CallServer::at("0.0.0.0:0", 2);
    let port = server.address.port();
    let connect = move |host: [u8; 4]| {
        let mut stream = TcpStream::connect((IpAddr::from(host), port)).unwrap();
        let _ = stream.write_all(&[22]);
        stream.set_nonblocking(true).unwrap();
        (host, stream)
    };
    let mut held: Vec<_> = CROWD.repeat(OF_A_HOST).into_iter().map(connect).collect();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ends = OverAtTheEnd(&over);
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for place in &mut held {
                    let read = place.1.peek(&mut [0]);
                    if !read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
                        *place = connect(place.0);
                    }
                }
                std::thread::park_timeout(Duration::from_millis(1));
            }
        });
        let line = server.dial((CALLER, port).into()).expect("there is room at the first try");
        assert!(matches!(answered(line), CallMessage::Accepted { .. }));
        drop(ends);
    });
}

#[test]
fn connection_closed_in_handshake_has_its_own_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string().parse().unwrap();
    let (_, friend) = friends();
    let closes = std::thread::spawn(move || listener.accept().map(drop).unwrap());
    let error = CallConnection::dial(&address, &friend.store, TIMEOUT).unwrap_err();
    assert!(matches!(error, DialError::Cut(_)), "{error:?}");
    closes.join().unwrap();
}

#[test]
fn call_port_answers_http_with_its_purpose() {
    let server = CallServer::at("127.0.0.1:0", 1);
    let mut stream = TcpStream::connect(server.address).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("taut call"), "{answer}");
}

const FLOODED: &str = "TAUT_TEST_FLOOD";
const CONNECTIONS: usize = 10_000;
/// A hundred handshakes.
const MAX_GROWN: u64 = 16 << 20;

#[test]
fn ten_thousand_silent_connections_block_no_caller() {
    if std::env::var_os(FLOODED).is_some() {
        let reported = RefCell::default();
        shared(|| flood(&reported));
        return println!("{}", reported.borrow());
    }
    // In a child process only.
    let raised = format!("ulimit -n {} || exit 77; exec \"$0\" \"$@\"", CONNECTIONS + 1000);
    let mut child = Command::new("sh");
    child.args(["-c", &raised]).arg(std::env::current_exe().unwrap()).env(FLOODED, "1");
    let test = "attacks::ten_thousand_silent_connections_block_no_caller";
    let child = child.args(["--exact", test, "--nocapture"]);
    let ended = child.output().unwrap();
    if ended.status.code() == Some(77) {
        let why = format!("no more than {CONNECTIONS} open files are allowed here");
        return skipped(Lack::Privilege, &why);
    }
    let said = String::from_utf8_lossy(&ended.stdout);
    let complained = String::from_utf8_lossy(&ended.stderr);
    eprint!("{complained}");
    assert!(ended.status.success(), "{said}{complained}");
    print!("{said}");
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn flood(reported: &RefCell<String>) {
    let server = CallServer::at("[::]:0", 2);
    let port = server.address.port();
    let mut call = answers_itself(&server, port);
    let before = resident();
    let over = AtomicBool::new(false);
    let (open, pings) = std::thread::scope(|scope| {
        let ends = OverAtTheEnd(&over);
        let pinging = scope.spawn(|| {
            let mut pings = 0;
            while !over.load(Ordering::Relaxed) {
                call.is_answered();
                pings += 1;
                // At most ten messages per second.
                std::thread::park_timeout(PING_EVERY);
            }
            pings
        });
        let connect = move || {
            let limit = Duration::from_secs(10);
            let to = ([127, 0, 0, 1], port).into();
            let mut stream = TcpStream::connect_timeout(&to, limit).ok()?;
            let _ = stream.write_all(&[22]);
            Some(stream)
        };
        let many = move || (0..CONNECTIONS / 4).filter_map(|_| connect()).collect::<Vec<_>>();
        let flooding: Vec<_> = (0..4).map(|_| scope.spawn(many)).collect();
        let open: Vec<TcpStream> =
            flooding.into_iter().flat_map(|one| one.join().unwrap()).collect();
        // The flooding address gets in after one of its connections closed.
        answers_itself(&server, port).is_answered();
        drop(ends);
        (open, pinging.join().unwrap())
    });
    assert!(open.len() > CONNECTIONS / 10 * 9, "{} connections came about", open.len());
    let grown = resident().saturating_sub(before);
    assert!(grown < MAX_GROWN, "{grown} bytes");
    let until = Instant::now() + TIMEOUT;
    while let Err(error) = server.dial(([127, 0, 0, 1], port).into()) {
        assert!(Instant::now() < until, "{error}");
    }
    let open = open.len();
    reported.replace(format!("{open} connections, {pings} pings answered, {grown} bytes more"));
}

/// The scope would wait forever after a panic.
struct OverAtTheEnd<'a>(&'a AtomicBool);

impl Drop for OverAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn answers_itself(server: &CallServer, port: u16) -> crate::caller::CallerConnection {
    server.call_at((std::net::Ipv6Addr::LOCALHOST, port).into())
}
