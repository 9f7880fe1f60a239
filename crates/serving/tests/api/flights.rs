//! Round trips of a caller until it gets its answer.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

use tautline_api::call::CallConnection;
use tautline_io::clock::now;
use tautline_io::control::wait;
use tautline_proto::call::message::CallMessage;
use tautline_proto::time::Span;

use crate::caller::{CALL, CallServer, TIMEOUT};

const BEAT: Span = Span::from_millis(5);

/// Passes server data only in granted turns. Without one the caller waits forever.
struct Relay {
    address: SocketAddr,
    given: Arc<AtomicU32>,
    over: Arc<AtomicBool>,
    carries: JoinHandle<u32>,
}

impl Relay {
    fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (given, over) = (Arc::<AtomicU32>::default(), Arc::<AtomicBool>::default());
        let (may, ends) = (Arc::clone(&given), Arc::clone(&over));
        let carries = std::thread::spawn(move || {
            let (caller, _) = listener.accept().unwrap();
            let server = TcpStream::connect(server).unwrap();
            for stream in [&caller, &server] {
                stream.set_nonblocking(true).unwrap();
            }
            let (mut taken, mut answers) = (0, false);
            while !ends.load(Ordering::Acquire) {
                let given = may.load(Ordering::Acquire);
                if pass(&caller, &server) {
                    answers = false;
                }
                let may_answer = answers || taken < given;
                if may_answer && pass(&server, &caller) && !answers {
                    (answers, taken) = (true, taken + 1);
                }
                let both: [&dyn AsFd; 2] = [&caller, &server];
                wait(if may_answer { &both } else { &both[..1] }, now() + BEAT);
            }
            taken
        });
        Self { address, given, over, carries }
    }

    fn gives_a_turn(&self) {
        self.given.fetch_add(1, Ordering::Release);
    }

    fn ends(self) -> u32 {
        self.over.store(true, Ordering::Release);
        self.carries.join().unwrap()
    }
}

fn pass(mut from: &TcpStream, mut to: &TcpStream) -> bool {
    let (mut bytes, mut any) = ([0; 4096], false);
    loop {
        match from.read(&mut bytes) {
            Ok(count @ 1..) => to.write_all(&bytes[..count]).unwrap(),
            Err(error) if error.kind() != ErrorKind::WouldBlock => panic!("{error}"),
            _ => return any,
        }
        any = true;
    }
}

#[test]
fn a_caller_is_accepted_two_round_trips_after_it_is_connected() {
    let called = CallServer::at("127.0.0.1:0", 1);
    let relay = Relay::to(called.address);
    relay.gives_a_turn();
    let address = relay.address.to_string().parse().unwrap();
    let mut line = CallConnection::dial(&address, &called.friend.store, TIMEOUT).unwrap();
    line.emit(&tautline_api::call::read(CALL.as_bytes()).unwrap());
    relay.gives_a_turn();
    let (until, mut answer) = (now() + Span::from_nanos(TIMEOUT.as_nanos() as i64), None);
    while answer.is_none() {
        assert!(wait(&[&line], until), "it waits for more than two turns");
        line.handle(&mut |said| answer = Some(said)).unwrap();
    }
    assert!(matches!(answer, Some(CallMessage::Accepted { .. })), "{answer:?}");
    assert_eq!(relay.ends(), 2);
}

#[test]
fn callers_read_the_last_message_if_sending_fails() {
    let called = CallServer::at("127.0.0.1:0", 1);
    let mut line = called.dial(called.address).unwrap();
    line.emit(&CallMessage::Resumed);
    let until = now() + Span::from_nanos(TIMEOUT.as_nanos() as i64);
    assert!(wait(&[&line], until), "an unexpected message is refused");
    let stream = TcpStream::from(line.as_fd().try_clone_to_owned().unwrap());
    stream.shutdown(Shutdown::Write).unwrap();
    line.emit(&CallMessage::Ping);
    let mut last = None;
    while line.handle(&mut |said| last = Some(said)).is_ok() {
        assert!(wait(&[&line], until), "the connection never ends");
    }
    assert!(matches!(last, Some(CallMessage::Refused(_))), "{last:?}");
}
