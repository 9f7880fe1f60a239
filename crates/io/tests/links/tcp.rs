use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use tautline_io::clock::now;
use tautline_io::control::Control;
use tautline_io::link::Link;
use tautline_io::link::muxed::{MuxedTransport, Seals, is_report};
use tautline_io::socket::seal::Seal;
use tautline_io::tcp::keep::{connect_stream, listen_stream};
use tautline_io::tcp::{ConnectionLost, TcpOptions, TcpWatch};
use tautline_io::thread::Scheduler;
use tautline_io::udp::pair::OpenedStream;
use tautline_proto::endpoint::Endpoint;
use tautline_proto::time::Span;

use crate::common::outgoing;
use crate::muxed::{end_with, packet, received, report, send, until};

pub(crate) fn connected() -> [TcpStream; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    [one, listener.accept().unwrap().0]
}

fn line(stream: TcpStream, options: &TcpOptions) -> (MuxedTransport, TcpWatch) {
    MuxedTransport::tcp(stream, options, Seals::default()).unwrap()
}

/// A free port. If it is taken meanwhile, the test fails.
fn free_port() -> std::net::SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn read_arrived(stream: &mut TcpStream, room: &mut [u8], bytes: &mut Vec<u8>) {
    loop {
        match stream.read(room) {
            // The caller reports missing data.
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&room[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
}

fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length));
        let Some((frame, rest)) = rest.split_at_checked(length) else { break };
        all.push(frame.to_vec());
        bytes = rest;
    }
    all
}

#[test]
fn stalled_tcp_drops_old_packets_in_whole_frames() {
    let [ours, mut theirs] = connected();
    theirs.set_nonblocking(true).unwrap();
    let options = TcpOptions { max_wait: Span::from_millis(5), ..TcpOptions::default() };
    let (line, watch) = line(ours, &options);
    let mut end = end_with(line);
    let mut number = 0u32;
    let packet = |number: u32| {
        let mut packet = vec![0x80, 96, 0, 0];
        packet.extend(number.to_be_bytes());
        packet.resize(700 + number as usize % 700, number as u8);
        packet
    };
    // Nothing reads, so the kernel's buffers fill up.
    until("packets were dropped", || {
        assert!(end.sending.queue(&outgoing(&mut packet(number))));
        end.sending.flush();
        number += 1;
        end.sending.counters().overdue > 200
    });
    let stood = now();
    until("none of those that wait is young", || now() - stood > Span::from_millis(20));
    let newest = number;
    let mut bytes = Vec::new();
    let mut room = [0; 1009];
    until("the newest came", || {
        end.sending.queue(&outgoing(&mut packet(number)));
        end.sending.flush();
        number += 1;
        read_arrived(&mut theirs, &mut room, &mut bytes);
        frames(&bytes).last().is_some_and(|last| *last == packet(number - 1))
    });
    let all = frames(&bytes);
    let numbers: Vec<u32> =
        all.iter().map(|frame| u32::from_be_bytes(frame[4..8].try_into().unwrap())).collect();
    assert!(numbers.iter().zip(&all).all(|(number, frame)| *frame == packet(*number)));
    assert!(numbers.windows(2).all(|two| two[0] < two[1]));
    let counters = end.sending.counters();
    assert_eq!(counters.sent, numbers.len() as u64);
    assert_eq!(counters.sent + counters.overdue, u64::from(number), "{counters:?}");
    // Those in the kernel and the begun one remained.
    let left = numbers.iter().filter(|one| (newest - 50..newest).contains(one)).count();
    assert!(left <= 2, "{left}");
    assert_eq!(watch.lost(), None);
}

#[test]
fn tcp_sends_null_packets_until_the_window_is_wide() {
    let [ours, mut theirs] = connected();
    theirs.set_nonblocking(true).unwrap();
    let options = TcpOptions { grows_window: true, ..TcpOptions::default() };
    let (line, _watch) = line(ours, &options);
    let mut end = end_with(line);
    let (mut number, mut bytes, mut room) = (0u32, Vec::new(), [0; 4096]);
    until("ten packets left", || {
        // Spread over several round trips.
        let mut packet = packet(number as u16);
        assert!(end.sending.queue(&outgoing(&mut packet)));
        end.sending.flush();
        number += 1;
        read_arrived(&mut theirs, &mut room, &mut bytes);
        end.sending.counters().sent >= 10
    });
    let all = frames(&bytes);
    let nulls = all.iter().take_while(|frame| frame.is_empty()).count();
    let counters = end.sending.counters();
    assert!(nulls > 0 && nulls.is_multiple_of(300), "whole segments of them: {nulls}");
    assert_eq!(counters.let_go + counters.sent, u64::from(number), "{counters:?}");
    assert!(counters.let_go > 0, "the first would have waited for the window");
    assert!(all[nulls..].iter().all(|frame| !frame.is_empty()));
}

#[test]
fn tcp_reports_are_sent_with_and_without_packets() {
    let [ours, theirs] = connected().map(|stream| line(stream, &TcpOptions::default()).0);
    let (ours, mut theirs) = (end_with(ours), end_with(theirs));
    let (mut sending, [mut one, mut other]) = (ours.sending, ours.controls);
    let reported = |theirs: &mut tautline_io::link::muxed::Muxed, wanted: &[u8]| {
        let mut all = Vec::new();
        until("the reports came", || {
            received(&mut theirs.receiving);
            theirs.controls[1].receive(&mut |datagram| all.push(datagram.bytes[7]));
            all.len() >= wanted.len()
        });
        assert_eq!(all, wanted);
    };
    one.send(&report(1), Endpoint::UNKNOWN).unwrap();
    other.send(&report(2), Endpoint::UNKNOWN).unwrap();
    reported(&mut theirs, &[1, 2]);
    // Sent with the next packet.
    assert!(send(&mut sending, 1));
    one.send(&report(3), Endpoint::UNKNOWN).unwrap();
    assert!(send(&mut sending, 2));
    reported(&mut theirs, &[3]);
    assert!(send(&mut sending, 3));
    one.send(&report(4), Endpoint::UNKNOWN).unwrap();
    drop(sending);
    other.send(&report(5), Endpoint::UNKNOWN).unwrap();
    reported(&mut theirs, &[4, 5]);
}

#[test]
fn too_long_tcp_frame_ends_the_connection() {
    let [ours, mut theirs] = connected();
    let (line, watch) = line(ours, &TcpOptions::default());
    let mut end = end_with(line);
    let mut bytes = vec![0, 0];
    for number in 0..3 {
        bytes.extend([&[0, 14][..], &packet(number)].concat());
    }
    bytes.extend(1473u16.to_be_bytes());
    bytes.extend([0; 3000]);
    theirs.write_all(&bytes).unwrap();
    let mut arrived = Vec::new();
    until("it was refused", || {
        arrived.extend(received(&mut end.receiving));
        watch.lost().is_some()
    });
    assert_eq!((arrived, watch.lost()), (vec![0, 1, 2], Some(ConnectionLost::TooLong(1473))));
    theirs.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let ended = theirs.read(&mut [0; 10]);
    assert!(
        matches!(&ended, Ok(0)) || ended.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset)
    );
    assert!(!send(&mut end.sending, 1), "it goes nowhere");
}

#[test]
fn observer_notices_that_the_far_end_left() {
    let [ours, theirs] = connected();
    let (line, watch) = line(ours, &TcpOptions::default());
    let mut end = end_with(line);
    assert_eq!(watch.lost(), None);
    theirs.shutdown(Shutdown::Write).unwrap();
    until("it was noticed", || watch.lost().is_some());
    assert_eq!(watch.lost(), Some(ConnectionLost::Ended));
    assert_eq!(received(&mut end.receiving), []);
}

fn flows(sender: &mut OpenedStream, receiver: &mut OpenedStream, number: &mut u16) {
    let mut arrived = Vec::new();
    until("a packet came", || {
        sender.link.queue(&outgoing(&mut packet(*number)));
        sender.link.flush();
        *number = number.wrapping_add(1);
        receiver.link.receive(&mut |datagram| arrived.push(datagram.bytes.to_vec()));
        std::thread::yield_now();
        !arrived.is_empty()
    });
}

#[test]
fn a_lost_connection_is_made_again_and_the_links_go_on() {
    for device in [None, Some(Scheduler::Other)] {
        let (at, options) = (free_port(), TcpOptions::default());
        let refused = connect_stream(at, &options, device, None).map(drop).unwrap_err().to_string();
        assert!(
            refused.contains("connection refused") && refused.contains("taut recv"),
            "{refused}"
        );
        let mut receiver = listen_stream(at, &options, device, None).unwrap();
        let mut sender = connect_stream(at, &options, device, None).unwrap();
        let mut number = 0;
        for _ in 0..3 {
            flows(&mut sender, &mut receiver, &mut number);
            drop(receiver);
            receiver = listen_stream(at, &options, device, None).unwrap();
        }
        flows(&mut sender, &mut receiver, &mut number);
        for _ in 0..2 {
            drop(sender);
            sender = connect_stream(at, &options, device, None).unwrap();
            flows(&mut sender, &mut receiver, &mut number);
        }
        let (one, other) = (sender.control.as_mut().unwrap(), receiver.control.as_mut().unwrap());
        let mut arrived = [0; 2];
        until("reports came", || {
            let _ = one.send(&report(1), Endpoint::UNKNOWN);
            let _ = other.send(&report(2), Endpoint::UNKNOWN);
            sender.link.flush();
            receiver.link.receive(&mut |_| ());
            one.receive(&mut |datagram| arrived[0] = datagram.bytes[7]);
            other.receive(&mut |datagram| arrived[1] = datagram.bytes[7]);
            arrived == [2, 1]
        });
    }
}

#[test]
fn one_sender_is_let_in_and_another_only_once_that_is_silent() {
    let (at, options) = (free_port(), TcpOptions::default());
    let mut receiver = listen_stream(at, &options, None, None).unwrap();
    let [mut first, mut second] =
        [(); 2].map(|()| connect_stream(at, &options, None, None).unwrap());
    let mut from = Vec::new();
    let mut round = |first: Option<&mut OpenedStream>, second: &mut OpenedStream| {
        for (link, number) in first.into_iter().map(|one| (one, 1)).chain([(second, 2)]) {
            link.link.queue(&outgoing(&mut packet(number)));
            link.link.flush();
        }
        receiver.link.receive(&mut |datagram| from.push(datagram.bytes[13]));
        from.clone()
    };
    let began = now();
    until("the first was received", || {
        round(Some(&mut first), &mut second).len() > 20 && now() - began > Span::from_millis(300)
    });
    assert!(!round(Some(&mut first), &mut second).contains(&2));
    // The first stays connected but silent.
    until("the second was received", || round(None, &mut second).contains(&2));
    drop(first);
}

/// Appends a sequence number; opens only the highest.
struct Numbered(u32);

impl Seal for Numbered {
    fn room(&self) -> usize {
        4
    }

    fn seal(&mut self, bytes: &mut [u8], len: usize) -> usize {
        self.0 += 1;
        bytes[len..len + 4].copy_from_slice(&self.0.to_be_bytes());
        len + 4
    }

    fn open<'a>(&mut self, bytes: &'a mut [u8]) -> Option<&'a [u8]> {
        let (inside, number) = bytes.split_last_chunk::<4>()?;
        let number = u32::from_be_bytes(*number);
        let is_new = number > self.0;
        self.0 = self.0.max(number);
        is_new.then_some(inside)
    }
}

fn numbered() -> Box<dyn Seal> {
    Box::new(Numbered(0))
}

#[test]
fn seal_counters_continue_on_the_next_connection() {
    for device in [None, Some(Scheduler::Other)] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let (at, options) = (listener.local_addr().unwrap(), TcpOptions::default());
        let mut sender = connect_stream(at, &options, device, Some(&numbered)).unwrap();
        let (mut packets, mut reports) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let mut made = None;
            until("it connects", || {
                made = listener.accept().ok();
                made.is_some()
            });
            let (mut stream, _) = made.unwrap();
            stream.set_nonblocking(true).unwrap();
            let (mut bytes, mut arrived) = (Vec::new(), Vec::new());
            until("packets and reports came", || {
                sender.link.queue(&outgoing(&mut packet(1)));
                let _ = sender.control.as_mut().unwrap().send(&report(1), Endpoint::UNKNOWN);
                sender.link.flush();
                read_arrived(&mut stream, &mut [0; 4096], &mut bytes);
                arrived = frames(&bytes);
                let reports = arrived.iter().filter(|frame| is_report(frame)).count();
                reports > 3 && arrived.len() > reports + 3
            });
            for frame in arrived {
                let number = u32::from_be_bytes(*frame.last_chunk().unwrap());
                if is_report(&frame) { &mut reports } else { &mut packets }.push(number);
            }
        }
        for numbers in [packets, reports] {
            assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
        }
    }
}

fn sealed(numbers: core::ops::RangeInclusive<u32>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in numbers {
        let mut packet = packet(number as u16);
        packet.extend(number.to_be_bytes());
        bytes.extend((packet.len() as u16).to_be_bytes());
        bytes.extend(packet);
    }
    bytes
}

#[test]
fn replay_over_a_new_connection_is_rejected() {
    let at = free_port();
    let mut receiver = listen_stream(at, &TcpOptions::default(), None, Some(&numbered)).unwrap();
    let mut received = 0;
    for (numbers, all) in [(1..=5, 5), (1..=6, 6)] {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(&sealed(numbers)).unwrap();
        until("as many were received", || {
            receiver.link.receive(&mut |_| received += 1);
            received == all
        });
    }
    assert_eq!(receiver.link.counters().auth_failed, 5);
}

#[test]
fn other_host_that_connects_first_does_not_block_the_sender() {
    let at = free_port();
    let mut receiver = listen_stream(at, &TcpOptions::default(), None, Some(&numbered)).unwrap();
    let mut stranger = TcpStream::connect(at).unwrap();
    stranger.set_nonblocking(true).unwrap();
    let (mut received, mut number) = (0, 1);
    let mut sender = None;
    until("the sender was received", || {
        // Valid frames, but none opens.
        let _ = stranger.write_all(&sealed(0..=0));
        receiver.link.receive(&mut |_| received += 1);
        let stream: &mut TcpStream = sender.get_or_insert_with(|| TcpStream::connect(at).unwrap());
        if stream.write_all(&sealed(number..=number)).is_err() {
            sender = None;
        }
        number += 1;
        std::thread::yield_now();
        received > 0
    });
}
