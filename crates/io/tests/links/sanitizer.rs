//! Violations under the real-time sanitizer (`RUSTFLAGS="-Zsanitizer=realtime --cfg
//! tautline_rtsan"`). Runs itself as a child, because a detection aborts.

use std::process::{Command, Output};

use crate::common::{collect, outgoing, sender_to};
use tautline_io::link::Link;
use tautline_io::link::direct::DirectLink;
use tautline_io::thread::realtime::{permit, scope};
use tautline_io::udp::UdpOptions;

/// The child's task.
const TASK: &str = "TAUTLINE_SANITIZER_TASK";

fn child(test: &str, task: &str) -> Output {
    let program = std::env::current_exe().unwrap();
    Command::new(program).args(["--exact", test, "--nocapture"]).env(TASK, task).output().unwrap()
}

fn task() -> Option<String> {
    std::env::var(TASK).ok()
}

fn allocate() {
    drop(std::hint::black_box(vec![0u8; 10_000]));
}

#[test]
fn an_allocation_in_a_scope_ends_the_program() {
    const NAME: &str = "sanitizer::an_allocation_in_a_scope_ends_the_program";
    match task().as_deref() {
        Some("allocate") => {
            let _scope = scope();
            allocate();
        }
        Some("permitted") => {
            let _scope = scope();
            let _permit = permit("this test shows that a permit is heeded");
            allocate();
        }
        Some("outside") => {
            drop(scope());
            allocate();
        }
        _ => {
            let caught = child(NAME, "allocate");
            let said = String::from_utf8_lossy(&caught.stderr);
            assert!(!caught.status.success() && said.contains("unsafe-library-call"), "{said}");
            assert!(child(NAME, "permitted").status.success());
            assert!(child(NAME, "outside").status.success());
        }
    }
}

#[test]
fn a_blocking_call_in_a_scope_ends_the_program() {
    const NAME: &str = "sanitizer::a_blocking_call_in_a_scope_ends_the_program";
    if task().is_some() {
        let _scope = scope();
        // SAFETY: the call takes no pointers.
        unsafe { libc::usleep(1) };
    } else {
        assert!(!child(NAME, "sleep").status.success());
    }
}

#[test]
fn sending_and_receiving_is_real_time() {
    const NAME: &str = "sanitizer::sending_and_receiving_is_real_time";
    if task().is_none() {
        let ended = child(NAME, "send");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        return;
    }
    let options = UdpOptions::receiver("127.0.0.1:0".parse().unwrap());
    let mut receiver = DirectLink::open(&options).unwrap();
    let options =
        UdpOptions { transmit_stamp_every: 1, ..UdpOptions::sender(vec![receiver.local()]) };
    let mut sender = DirectLink::open(&options).unwrap();
    let mut datagram = [1, 2, 3];
    let mut received = 0;
    {
        let _scope = scope();
        sender.queue(&outgoing(&mut datagram));
        sender.flush();
        while received == 0 {
            receiver.receive(&mut |_| received += 1);
        }
        sender.transmit_stamps(&mut |_| {});
        std::hint::black_box(sender.counters());
    }
    assert_eq!(received, 1);
    let mut other = sender_to(receiver.local());
    other.queue(&outgoing(&mut datagram));
    other.flush();
    collect(&mut receiver, 1);
}

#[test]
fn link_calls_abort_under_rtsan_without_a_permit() {
    const NAME: &str = "sanitizer::link_calls_abort_under_rtsan_without_a_permit";
    let Some(task) = task() else {
        for call in ["sendmmsg", "recvmmsg", "ppoll", "write"] {
            let ended = child(NAME, call);
            let said = String::from_utf8_lossy(&ended.stderr);
            assert!(!ended.status.success() && said.contains(call), "{call}: {said}");
        }
        return;
    };
    let none = std::ptr::null_mut();
    let call = task.as_str();
    let _scope = scope();
    // SAFETY: the calls get no descriptor and no buffers, so the system refuses each.
    unsafe {
        match call {
            "sendmmsg" => {
                libc::sendmmsg(-1, std::ptr::null_mut(), 0, 0);
            }
            "recvmmsg" => {
                libc::recvmmsg(-1, std::ptr::null_mut(), 0, 0, none);
            }
            "ppoll" => {
                libc::ppoll(std::ptr::null_mut(), 0, &NO_TIME, std::ptr::null());
            }
            _ => {
                libc::write(-1, std::ptr::null(), 0);
            }
        }
    }
}

const NO_TIME: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 0 };
