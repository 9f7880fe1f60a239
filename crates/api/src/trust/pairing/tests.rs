use std::net::TcpListener;
use std::thread;

use super::*;
use crate::trust::tests::{OpenedStore as Home, opened as home};

type Paired = Result<Pairing, PairingError>;

fn connected(
    caller: impl FnOnce(TcpStream) -> Paired,
    answerer: impl FnOnce(TcpStream) -> Paired + Send,
) -> (Paired, Paired) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        let answers = scope.spawn(|| answerer(listener.accept().unwrap().0));
        let called = caller(TcpStream::connect(address).unwrap());
        (called, answers.join().unwrap())
    })
}

fn paired(here: &Home, there: &Home) -> (Pairing, Pairing) {
    let (called, answered) = connected(
        |line| Pairing::call(line, &here.store),
        |line| Pairing::answer(line, &there.store),
    );
    (called.unwrap(), answered.unwrap())
}

fn confirmed(
    (called, answered): (Pairing, Pairing),
    says: [bool; 2],
) -> [Result<(), PairingError>; 2] {
    thread::scope(|scope| {
        let answers = scope.spawn(|| answered.confirm(says[1]));
        [called.confirm(says[0]), answers.join().unwrap()]
    })
}

#[test]
fn both_ends_show_the_same_code_and_have_each_others_key() {
    let (here, there) = (home(), home());
    let (called, answered) = paired(&here, &there);
    assert_eq!(called.code(), answered.code());
    assert_eq!(called.peer_key(), there.store.identity().key());
    assert_eq!(answered.peer_key(), here.store.identity().key());
    assert_eq!((called.peer_name(), answered.peer_name()), (&*host_name(), &*host_name()));
    assert!(confirmed((called, answered), [true, true]).iter().all(Result::is_ok));
}

#[test]
fn codes_differ_from_one_attempt_to_the_next() {
    let (here, there) = (home(), home());
    let codes: Vec<_> = (0..4).map(|_| paired(&here, &there).0.code().0).collect();
    // The probability is 10^-18.
    assert!(codes.iter().any(|code| *code != codes[0]), "{codes:?}");
}

#[test]
fn no_end_is_paired_unless_both_users_confirm() {
    let (here, there) = (home(), home());
    for says in [[true, false], [false, true], [false, false]] {
        let ends = confirmed(paired(&here, &there), says);
        for (end, same) in ends.iter().zip(says) {
            let refused = matches!(end, Err(PairingError::Refused));
            let not_confirmed = matches!(end, Err(PairingError::NotConfirmed));
            assert!(if same { refused } else { not_confirmed }, "{says:?}: {end:?}");
        }
    }
}

#[test]
fn taken_name_is_reported_to_the_other_end_with_its_key() {
    let (here, there) = (home(), home());
    let (called, answered) = paired(&here, &there);
    answered.reject_name("desk");
    let refused = called.confirm(true);
    let own = here.store.identity().key();
    assert!(
        matches!(&refused, Err(PairingError::NameTaken { name, key }) if name == "desk" && *key == own),
        "{refused:?}"
    );
}

#[test]
fn aborted_pairing_trusts_no_host() {
    let (here, there) = (home(), home());
    let (called, answered) = paired(&here, &there);
    drop(answered);
    assert!(matches!(called.confirm(true), Err(PairingError::Lost(_))));
}

#[test]
fn a_host_in_between_makes_the_codes_differ() {
    let (here, there, between) = (home(), home(), home());
    let (called, received) = paired(&here, &between);
    let (says, answered) = paired(&between, &there);
    assert_eq!(called.peer_key(), between.store.identity().key());
    assert_eq!(answered.peer_key(), between.store.identity().key());
    assert_eq!((called.code(), says.code()), (received.code(), answered.code()));
    // The probability is 10^-6.
    assert_ne!(called.code(), answered.code());
}

fn caller_that(
    store: &Arc<TrustStore>,
    stream: TcpStream,
    speak: impl FnOnce(&mut dyn Line),
) -> Paired {
    let server = ServerName::IpAddress(stream.peer_addr().unwrap().ip().into());
    let tls = ClientConnection::new(tls::pairing_client(store).unwrap(), server).unwrap();
    speak(&mut StreamOwned::new(tls, stream));
    Err(PairingError::Protocol("a test's"))
}

fn answered(committed: &[u8], revealed: &[u8]) -> Paired {
    let (here, there) = (home(), home());
    let speaks = |line: &mut dyn Line| {
        line.write_all(commitment(committed).as_ref()).unwrap();
        Revealed::read(&mut &mut *line).unwrap();
        line.write_all(revealed).unwrap();
        let _ = line.read(&mut [0]);
    };
    let caller = |line| caller_that(&here.store, line, speaks);
    connected(caller, |line| Pairing::answer(line, &there.store)).1
}

#[test]
fn a_number_or_name_that_was_not_committed_to_is_refused() {
    let by = |number: u8, name: &[u8]| [[number; 32].as_slice(), name].concat();
    let committed = by(1, b"\x04desk");
    for revealed in [by(2, b"\x04desk"), by(1, b"\x04dusk")] {
        let answered = answered(&committed, &revealed);
        assert!(matches!(answered, Err(PairingError::Protocol(_))), "{answered:?}");
    }
}

#[test]
fn a_name_that_no_list_could_hold_is_refused() {
    for name in [&b"\x00"[..], b"\x03a/b", b"\x05a\x1b[2J", b"\x02\xff\xfe", &[255; 256]] {
        let revealed = [&[1; 32], name].concat();
        let answered = answered(&revealed, &revealed);
        assert!(matches!(answered, Err(PairingError::Protocol(_))), "{name:?}: {answered:?}");
    }
}

#[test]
fn other_programs_and_this_host_itself_are_refused() {
    let (here, there) = (home(), home());
    let (called, answered) = connected(
        |line| Pairing::call(line, &here.store),
        |line| Pairing::answer(line, &here.store),
    );
    assert!(matches!(called, Err(PairingError::SameHost)), "{called:?}");
    assert!(matches!(answered, Err(PairingError::SameHost)), "{answered:?}");
    let http = |mut line: TcpStream| {
        line.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let _ = line.read(&mut [0]);
        Err(PairingError::Protocol("a test's"))
    };
    let (_, answered) = connected(http, |line| Pairing::answer(line, &there.store));
    assert!(matches!(answered, Err(PairingError::NoExchange(_))), "{answered:?}");
}

#[test]
fn leaving_after_the_code_differs_from_a_port_scan() {
    let (here, there) = (home(), home());
    let leaves = |line: &mut dyn Line| {
        line.write_all(&[7; 32]).unwrap();
        Revealed::read(&mut &mut *line).unwrap();
    };
    let (_, answered) = connected(
        |line| caller_that(&here.store, line, leaves),
        |line| Pairing::answer(line, &there.store),
    );
    assert!(answered.as_ref().is_err_and(|error| !error.is_before_code()), "{answered:?}");
    let (_, answered) = connected(
        |line| caller_that(&here.store, line, |line| line.flush().unwrap()),
        |line| Pairing::answer(line, &there.store),
    );
    assert!(answered.as_ref().is_err_and(PairingError::is_before_code), "{answered:?}");
}

#[test]
fn the_code_depends_on_all_that_both_ends_contribute() {
    let key = |byte| HostKey::new([byte; 32]);
    let end = |key, nonce, name| Contribution { key, nonce: [nonce; 32], name };
    let usual = || [end(key(1), 2, "desk"), end(key(3), 4, "studio")];
    let of = |[caller, answerer]: [Contribution<'_>; 2]| PairingCode::of(&caller, &answerer);
    let code = of(usual());
    // Computed with Python's hashlib (docs/reference/wire.md).
    assert_eq!(code.to_string(), "836 864");
    let [caller, answerer] = usual();
    assert_ne!(of([answerer, caller]), code);
    for at in 0..2 {
        let others = [
            |end: &mut Contribution<'_>| end.key = HostKey::new([9; 32]),
            |end: &mut Contribution<'_>| end.nonce = [9; 32],
            |end: &mut Contribution<'_>| end.name = "attic",
        ];
        for other in others {
            let mut ends = usual();
            other(&mut ends[at]);
            assert_ne!(of(ends), code);
        }
    }
    assert_eq!(PairingCode(913).to_string(), "000 913");
}

#[test]
fn unknown_name_is_no_unreachable_host() {
    let whom = "no-such-host.invalid".parse().unwrap();
    let dialled = Pairing::dial(&whom, &home().store);
    assert!(matches!(dialled, Err(PairingError::NoSuchHost(_))), "{dialled:?}");
}
