use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::thread;

use clap::FromArgMatches as _;
use tautline_trial::snapshot;

use super::*;
use crate::Lab;

fn ran(burden: &LoadKind, millis: i64) -> LoadgenReport {
    burden.run(&Stop::default(), Some(Span::from_millis(millis))).unwrap()
}

/// Sinks keep their port: another test may take a released one.
fn any() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn for_long(stop: &Stop) -> Until<'_> {
    Until { stop, ends: Some(now() + Span::from_secs(30)) }
}

#[test]
fn every_announcement_is_read_back_and_truncation_rejected() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..1000 {
        let announced = message::write(&mut random);
        assert!(message::LENGTHS.contains(&announced.len()), "{}", announced.len());
        let records = message::read(&announced);
        assert!(records.is_some_and(|records| records > 0), "{announced:?}");
        for length in 0..announced.len() {
            assert_eq!(message::read(&announced[..length]), None, "{length} of {announced:?}");
        }
    }
}

#[test]
fn invalid_announcement_is_not_read() {
    let mut random = fastrand::Rng::with_seed(8);
    for _ in 0..10_000 {
        let mut announced = message::write(&mut random);
        let at = random.usize(..announced.len());
        announced[at] = random.u8(..);
        // Must not panic.
        let _ = message::read(&announced);
    }
    assert_eq!(message::read(&[]), None);
    assert_eq!(message::read(&[0; 300]), None);
}

#[test]
fn a_chatter_is_read_packet_by_packet_at_the_other_end() {
    let socket = UdpSocket::bind(any()).unwrap();
    let at = socket.local_addr().unwrap();
    let stop = Stop::default();
    let sink = {
        let stop = stop.clone();
        thread::spawn(move || datagrams::listen_by(&socket, at, &for_long(&stop)))
    };
    let sent = ran(&LoadKind::Chatter { to: at, rate: 1000 }, 2000);
    stop.request();
    let read = sink.join().unwrap().unwrap();
    assert!(sent.packets + sent.refused >= 1000, "{sent:?}");
    assert!(read.packets > 0 && read.understood == read.packets, "{read:?}");
    assert!(read.packets <= sent.packets, "{read:?} of {sent:?}");
    let length = sent.bytes / sent.packets;
    assert!(message::LENGTHS.contains(&(length as usize)), "{sent:?}");
}

#[test]
fn packets_refused_by_the_kernel_are_no_load() {
    let mut tally = LoadgenReport::default();
    tally.sent(Ok(100));
    tally.sent(Err(io::Error::other("refused")));
    let known = LoadgenReport { packets: 1, bytes: 100, refused: 1, ..LoadgenReport::default() };
    assert_eq!((&tally, tally.tried()), (&known, 2));
}

#[test]
fn tcp_load_keeps_its_rate_and_is_read() {
    let listener = TcpListener::bind(any()).unwrap();
    let at = listener.local_addr().unwrap();
    let stop = Stop::default();
    let sink = {
        let stop = stop.clone();
        thread::spawn(move || bulk::receive_by(&listener, at, &for_long(&stop)))
    };
    let rate = Some(BitRate(80_000_000));
    let begins = now();
    let sent = ran(&LoadKind::Tcp { to: at, rate }, 1000);
    // 10 MB/s for 1 s, and the piece in flight.
    assert!(sent.bytes > 0 && sent.bytes <= 10_000_000 + 65_536, "{sent:?}");
    stop.request();
    let read = sink.join().unwrap().unwrap();
    assert!(read.bytes <= sent.bytes && read.bytes > 0, "{read:?} of {sent:?}");
    // The wait for the first data does not count.
    assert!(read.since.is_some_and(|since| since >= begins), "{read:?}");
}

#[test]
fn multicast_load_has_its_rate_without_a_receiver() {
    let by = (Ipv4Addr::LOCALHOST, 9).into();
    let sent = ran(&LoadKind::Multicast { by, rate: MULTICAST_RATE }, 1000);
    assert!((1..=501).contains(&sent.packets), "{sent:?}");
    assert_eq!(sent.bytes, sent.packets * 1000, "{sent:?}");
}

#[test]
fn spinners_take_the_processor_and_memory_is_written() {
    let spun = ran(&LoadKind::Cpu { threads: 1 }, 300);
    assert!(spun.cpu_ns > 0 && spun.duration_ns >= 300_000_000, "{spun:?}");
    let touched = ran(&LoadKind::Memory { bytes: 1 << 22 }, 300);
    assert!(touched.rounds > 0, "{touched:?}");
}

#[test]
fn rival_pauses_and_a_refused_scheduler_is_an_error() {
    let core = tautline_io::thread::affinity::usable_cores()[0];
    let rival = |scheduler| LoadKind::Rival { scheduler, core };
    let ran = ran(&rival(Scheduler::Other), 300);
    assert!(ran.rounds >= 1 && ran.cpu_ns > 0, "{ran:?}");
    let stop = Stop::default();
    let long = Span::from_secs(3600);
    let impossible = Scheduler::Deadline { runtime: long, deadline: long, period: long };
    let refused = rival(impossible).run(&stop, Some(Span::from_millis(1))).unwrap_err().to_string();
    snapshot!(refused);
    let nowhere = LoadKind::Rival { scheduler: Scheduler::Other, core: 1023 };
    let refused = nowhere.run(&stop, Some(Span::from_millis(1))).unwrap_err().to_string();
    assert!(refused.contains("core 1023): "), "{refused}");
}

#[test]
fn a_noise_is_read_as_it_is_written() {
    let noisy: Noise = "noisy".parse().unwrap();
    snapshot!(noisy);
    snapshot!(noisy.and_tcp(Some(TcpRate::Full)));
    assert_eq!((noisy.with_tcp(Some(TcpRate::Full)), noisy.and_tcp(None)), (noisy, noisy));
    assert_eq!("silent".parse::<Noise>().unwrap().to_string(), "silent");
    let unhandled: Noise = "unhandled".parse().unwrap();
    assert_eq!(unhandled.to_string(), "unhandled multicast");
    snapshot!(unhandled.and_tcp(Some(TcpRate::Full)));
    assert_eq!(Noise::SILENT.and_tcp(Some(TcpRate::Full)), Noise::SILENT);
    snapshot!("loud".parse::<Noise>().unwrap_err());
    assert!("fast".parse::<TcpRate>().unwrap_err().ends_with(", or full"));
}

#[test]
fn agent_understands_a_requested_load() {
    let at: SocketAddr = ([10, 0, 0, 2], 5004).into();
    let rate = BitRate(1000);
    for burden in [
        LoadKind::Cpu { threads: 3 },
        LoadKind::Rival { scheduler: Scheduler::RoundRobin(70), core: 1 },
        LoadKind::StressNg { words: vec!["--cpu".into(), "2".into()] },
        LoadKind::Memory { bytes: 1 << 20 },
        LoadKind::Multicast { by: at, rate },
        LoadKind::Chatter { to: at, rate: 9 },
        LoadKind::ChatterSink { at },
        LoadKind::Tcp { to: at, rate: Some(rate) },
        LoadKind::Tcp { to: at, rate: None },
        LoadKind::TcpSink { at },
    ] {
        let words = ["lab", "loadgen", "--longest", "3s"].map(str::to_owned);
        let words = words.into_iter().chain(burden.words());
        let lab = Lab::augment_subcommands(clap::Command::new("taut")).try_get_matches_from(words);
        let read = Lab::from_arg_matches(&lab.expect("a command line"));
        let Ok(Lab::Loadgen(LoadgenFlags { kind, .. })) = read else { panic!("{read:?}") };
        assert_eq!(kind, burden);
    }
}
