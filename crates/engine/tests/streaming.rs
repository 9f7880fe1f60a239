//! Streams under adverse conditions. With the real-time sanitizer (`scripts/sanitize`), the first
//! allocation, lock or blocking call on a device's thread aborts.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its road has failed")]

mod common;
mod memory_link;
mod zones;

use std::net::{SocketAddr, UdpSocket};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use common::Road;
use tautline_dsp::format::SampleFormat;
use tautline_dsp::gain::Gain;
use tautline_engine::control::{ChangeSender, Destined, RecvChange, SendChange};
use tautline_engine::plan::LinkKind;
use tautline_engine::plan::probes::Probes;
use tautline_io::link::destinations::Destinations;
use tautline_io::link::{Datagram, Link, LinkCounters, TransmitStamp};
use tautline_proto::device::{Cycle, Flow, Process};
use tautline_proto::latency::LatencyRule;
use tautline_proto::stream::Outgoing;
use tautline_proto::time::Span;
use tautline_report::{Report, StreamReport};
use tautline_trial::steady;

fn as_it_is(process: Box<dyn Process>) -> Box<dyn Process> {
    process
}

fn only_stream(report: &Report) -> &StreamReport {
    assert_eq!(report.streams.len(), 1);
    &report.streams[0]
}

/// Received packets. A stall over 20 ms at the card leaves one on probation.
fn arrived(stream: &StreamReport) -> u64 {
    stream.counters.received + stream.counters.on_probation
}

struct Through {
    link: Box<dyn Link>,
    arrived: u32,
    passes: fn(u32) -> bool,
}

impl Link for Through {
    fn queue(&mut self, packet: &Outgoing<'_>) -> bool {
        self.link.queue(packet)
    }

    fn flush(&mut self) {
        self.link.flush();
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>)) {
        let (arrived, passes) = (&mut self.arrived, self.passes);
        self.link.receive(&mut |datagram| {
            *arrived += 1;
            if passes(*arrived) {
                deliver(datagram);
            }
        });
    }

    fn transmit_stamps(&mut self, deliver: &mut dyn FnMut(TransmitStamp)) {
        self.link.transmit_stamps(deliver);
    }

    fn counters(&self) -> LinkCounters {
        self.link.counters()
    }
}

struct Slow(Box<dyn Process>);

impl Process for Slow {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        cycle.playback.meets += Span::from_millis(30);
        self.0.process(cycle)
    }
}

struct Jump {
    process: Box<dyn Process>,
    periods: u32,
}

impl Process for Jump {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        self.periods += 1;
        if self.periods > 700 {
            cycle.playback.meets += Span::from_millis(5);
        }
        self.process.process(cycle)
    }
}

#[test]
fn streams_are_mixed_with_maps_and_volumes() {
    for link in [LinkKind::Direct, LinkKind::Threaded] {
        let swap = "2,1";
        let road = Road {
            link,
            ringed_receiver: link == LinkKind::Threaded,
            streams: 2,
            gain: Gain::from_db(-6.0).unwrap(),
            maps: (swap.parse().unwrap(), swap.parse().unwrap()),
            lasts: Span::from_millis(700),
            ..Road::default()
        };
        let (report, senders) = road.run(as_it_is, |_| {});
        let sent: u64 = senders.iter().map(|s| s.streams[0].counters.sent).sum();
        let arrived = report.streams.iter().map(arrived);
        assert_eq!((report.streams.len(), arrived.sum::<u64>()), (2, sent));
    }
}

#[cfg(tautline_rtsan)]
mod sanitizer {
    use std::process::{Command, Output};

    use super::*;

    const CHILD: &str = "TAUTLINE_SANITIZER_CHILD";

    fn child(test: &str) -> Output {
        let program = std::env::current_exe().unwrap();
        Command::new(program)
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap()
    }

    fn assert_caught(test: &str, road: impl FnOnce()) {
        if std::env::var_os(CHILD).is_some() {
            return road();
        }
        let caught = child(test);
        let said = String::from_utf8_lossy(&caught.stderr);
        assert!(!caught.status.success() && said.contains("RealtimeSanitizer"), "{said}");
    }

    fn careless(number: u32) -> bool {
        std::hint::black_box(vec![number; 1_000]).len() == 1_000
    }

    #[test]
    fn a_receiver_that_allocates_is_caught() {
        assert_caught("sanitizer::a_receiver_that_allocates_is_caught", || {
            let between =
                |link| Box::new(Through { link, arrived: 0, passes: careless }) as Box<dyn Link>;
            Road { between, ..Road::default() }.run(as_it_is, |_| {});
        });
    }

    struct Locking(Box<dyn Process>, std::sync::Arc<std::sync::Mutex<u32>>);

    impl Process for Locking {
        fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
            let flow = self.0.process(cycle);
            let text = format!("{}", self.1.lock().unwrap());
            std::hint::black_box(text);
            flow
        }
    }

    #[test]
    fn a_card_that_allocates_is_caught() {
        assert_caught("sanitizer::a_card_that_allocates_is_caught", || {
            let locking =
                |process| Box::new(Locking(process, std::sync::Arc::default())) as Box<dyn Process>;
            Road::default().run(locking, |_| {});
        });
    }
}

static ELSEWHERE: OnceLock<SocketAddr> = OnceLock::new();

fn ask_sender(asker: &ChangeSender<SendChange>) {
    for _ in 0..3 {
        for ptime in [125, 20_000, 1_500, 1_000] {
            asker.request(SendChange::Ptime(Span::from_micros(ptime))).unwrap();
        }
        for sample in [SampleFormat::L16, SampleFormat::F32, SampleFormat::L24] {
            asker.request(SendChange::Format(sample.into())).unwrap();
        }
        asker.request(SendChange::Volume(Gain::from_db(-6.0).unwrap())).unwrap();
        asker.request(SendChange::Volume(Gain::UNITY)).unwrap();
    }
    move_to(asker, *ELSEWHERE.wait());
    assert!(asker.request(SendChange::Latency(LatencyRule::Chosen(Span::from_micros(1)))).is_err());
}

fn move_to(asker: &ChangeSender<SendChange>, elsewhere: SocketAddr) {
    let destined = Destined {
        address: elsewhere.to_string(),
        destinations: Destinations::new(&[elsewhere]).unwrap(),
        reports_to: vec![SocketAddr::new(elsewhere.ip(), elsewhere.port() + 1).into()],
    };
    asker.request(SendChange::To(Box::new(destined))).unwrap();
}

fn ask_receiver(asker: &ChangeSender<RecvChange>) {
    for millis in [80, 120, 85, 100] {
        asker
            .request(RecvChange::Latency(None, LatencyRule::Chosen(Span::from_millis(millis))))
            .unwrap();
        asker.request(RecvChange::Mute(Some(0), millis == 120)).unwrap();
        asker.request(RecvChange::Mute(None, millis == 80)).unwrap();
    }
    let (address, plan) = Road::default().stream();
    asker.request(RecvChange::From(None, Box::new(plan))).unwrap();
    ELSEWHERE.set(address).unwrap();
    assert!(asker.request(RecvChange::Volume(Some(1), Gain::UNITY)).is_err());
}

#[test]
fn a_run_that_is_changed_in_every_way_goes_on() {
    let lasts = Span::from_secs(4);
    let (asks_sender, asks_receiver) = (ask_sender as fn(&_), ask_receiver as fn(&_));
    let road = Road { lasts, asks_sender, asks_receiver, ..Road::default() };
    let (report, senders) = road.run(as_it_is, |_| {});
    assert_eq!(report.streams.len(), 2, "{report:#?}");
    let sent = senders[0].streams[0].counters.sent;
    let arrived = report.streams.iter().map(arrived);
    assert_eq!(arrived.sum::<u64>(), sent, "{report:#?} {senders:#?}");
    assert!(report.streams.iter().all(|s| s.counters.received > 100), "{report:#?}");
    assert_eq!(report.streams[0].latency.configured_ns, Some(100_000_000), "{report:#?}");
}

static LACKS: AtomicBool = AtomicBool::new(false);
static NEXT: OnceLock<SocketAddr> = OnceLock::new();

fn thinned(link: Box<dyn Link>) -> Box<dyn Link> {
    let passes = |number| {
        LACKS.fetch_or(number == 300, Ordering::Relaxed);
        number % 50 != 25
    };
    Box::new(Through { link, arrived: 0, passes })
}

fn move_when_it_lacks(asker: &ChangeSender<SendChange>) {
    while !LACKS.load(Ordering::Relaxed) {
        asker.request(SendChange::Volume(Gain::UNITY)).unwrap();
    }
    move_to(asker, *NEXT.wait());
}

fn ask_for_another(asker: &ChangeSender<RecvChange>) {
    let (address, plan) = Road { between: thinned, ..Road::default() }.stream();
    asker.request(RecvChange::From(None, Box::new(plan))).unwrap();
    NEXT.set(address).unwrap();
}

#[test]
fn labels_cover_every_stream_and_replaced_ones() {
    let path = std::env::temp_dir().join(format!("taut-labels-{}", std::process::id()));
    let (asks_sender, asks_receiver) = (move_when_it_lacks as fn(&_), ask_for_another as fn(&_));
    let road = Road {
        lasts: Span::from_secs(3),
        between: thinned,
        labels: Some(path.clone()),
        asks_sender,
        asks_receiver,
        ..Road::default()
    };
    let (report, _) = road.run(as_it_is, |_| {});
    let labels = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(report.streams.len(), 2, "{report:#?}");
    for stream in &report.streams {
        let of = format!(", {}", stream.address);
        let lost = labels.lines().filter(|line| line.ends_with(&of) && line.contains("\tlost"));
        assert!(lost.count() >= 5, "{of}: {labels}");
    }
}

/// Run alone (decision 25).
mod exclusive {
    use super::*;

    #[test]
    fn slow_device_is_noted_with_a_sufficient_latency() {
        steady(|| {
            let slow = |process| Box::new(Slow(process)) as Box<dyn Process>;
            let (report, _) = Road::short().run(slow, |_| {});
            let reported =
                |note: &&String| note.contains("too little and most packets will be late");
            let note =
                report.notes.iter().find(reported).unwrap_or_else(|| panic!("{:#?}", report.notes));
            let millis = |after: &str| {
                let number = note.split(after).nth(1).and_then(|rest| rest.split("ms").next());
                number
                    .and_then(|number| number.parse::<f64>().ok())
                    .unwrap_or_else(|| panic!("{note}"))
            };
            // 2 ms of card buffer, less the thread's lateness (0.16 ms if busy), and 30 ms.
            let takes = millis("the device here takes ");
            assert!((30.0..=32.1).contains(&takes), "{note}");
            let enough = millis("--latency ");
            assert!((takes + 1.9..=takes + 2.2).contains(&enough), "{note}");
        });
    }

    #[test]
    fn only_requested_packets_are_measured() {
        for probes in Probes::ALL {
            steady(|| {
                let (report, senders) = Road { probes, ..Road::default() }.run(as_it_is, |_| {});
                let (receiver, sent) = (only_stream(&report), only_stream(&senders[0]));
                assert_eq!((&*receiver.sampling, &*sent.sampling), (probes.name(), probes.name()));
                let (received, left) = (receiver.counters.received, sent.counters.sent);
                assert!(received > 1000 && left >= received, "{report:#?}");
                // Host stalls affect the number of packets found, but not of those searched.
                let measured = |count: u64, of: u64| match probes {
                    Probes::All => count <= of && count > of / 4,
                    Probes::OneIn64 => count <= of.div_ceil(64) && count > of / 64 / 4,
                    Probes::Off => count == 0,
                };
                let missed = receiver.latency.not_measured;
                let played = received
                    - missed.late
                    - missed.underrun_discarded
                    - missed.not_played
                    - missed.trace_overflow;
                let unprobed = match probes {
                    Probes::All => 0,
                    Probes::OneIn64 => played - played.div_ceil(64),
                    Probes::Off => played,
                };
                let latency = &receiver.latency;
                assert!(measured(latency.measured.count, received), "{latency:#?}");
                let not_found: u64 =
                    latency.not_measured.each().iter().map(|(_, count)| count).sum();
                assert_eq!(latency.measured.count + not_found, received, "{latency:#?}");
                assert_eq!(latency.not_measured.not_sampled, unprobed, "{latency:#?}");
                let off = probes == Probes::Off;
                assert_eq!(latency.method.as_deref(), (!off).then_some("sound"));
                assert_eq!(latency.measured.p50_ns.is_none(), off);
                assert_eq!(latency.uncertainty_ns.is_none(), off);
                assert!(latency.recommended_ns.is_some());
                for (stream, of) in [(receiver, received), (sent, left)] {
                    assert_eq!(stream.stages.is_empty(), off, "{stream:#?}");
                    let counts = stream.stages.iter().map(|stage| stage.summary.count);
                    counts.for_each(|count| assert!(measured(count, of), "{stream:#?}"));
                }
                assert_eq!(receiver.worst.is_empty(), off);
                assert_eq!(sent.lateness.is_none(), off);
                assert!(!off || sent.transmit.is_none());
                // `--sample-packets` does not affect the peer's values.
                let receiver = &sent.receivers[0];
                assert!(receiver.effective_ns.is_some_and(|nanos| nanos > 0), "{sent:#?}");
                // At least half a frame, as the receiver reports it.
                assert!(receiver.uncertainty_ns >= Some(10_416), "{sent:#?}");
                // The device has no converter. The receiver searches the sound of all packets only.
                let by = if probes == Probes::All { "sound" } else { "due" };
                assert_eq!(receiver.method.as_deref(), Some(by), "{sent:#?}");
            });
        }
    }

    #[test]
    fn lost_packets_are_counted_and_the_others_played() {
        steady(|| {
            let lossy = |link| {
                Box::new(Through { link, arrived: 0, passes: |number| number % 100 != 50 })
                    as Box<dyn Link>
            };
            let (report, senders) =
                Road { between: lossy, ..Road::default() }.run(as_it_is, |_| {});
            let stream = only_stream(&report);
            let (counters, sent) = (stream.counters, senders[0].streams[0].counters.sent);
            let lost = sent / 100 + u64::from(sent % 100 >= 50);
            assert_eq!(arrived(stream) + lost, sent, "{counters:?}");
            assert!(counters.lost >= 10, "{counters:?}");
            assert!(stream.latency.measured.count > sent / 4, "{report:#?}");
        });
    }

    #[test]
    fn garbage_is_counted_and_changes_nothing() {
        steady(|| {
            let garbage = |to: SocketAddr| {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                let mut state = 1_u32;
                for length in 0..500 {
                    let datagram: Vec<u8> = (0..length % 200)
                        .map(|_| {
                            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                            (state >> 24) as u8
                        })
                        .collect();
                    socket.send_to(&datagram, to).unwrap();
                    if length % 10 == 0 {
                        socket.send_to(&datagram, SocketAddr::new(to.ip(), to.port() + 1)).unwrap();
                    }
                }
            };
            let (report, senders) = Road::default().run(as_it_is, garbage);
            let stream = only_stream(&report);
            assert_eq!(arrived(stream), senders[0].streams[0].counters.sent, "{report:#?}");
            assert!(stream.counters.invalid >= 500, "{:?}", stream.counters);
            assert!(stream.latency.measured.count > 700, "{report:#?}");
        });
    }

    #[test]
    fn second_sender_is_measured_by_its_own_clock() {
        steady(|| {
            let latency = Span::from_millis(500);
            let (report, senders) =
                Road { senders: 2, latency, ..Road::default() }.run(as_it_is, |_| {});
            let stream = only_stream(&report);
            assert_eq!(stream.latency.basis, "clock");
            assert!(stream.counters.resyncs >= 1, "{:?}", stream.counters);
            let sent: u64 = senders.iter().map(|sender| sender.streams[0].counters.sent).sum();
            assert_eq!((senders.len(), arrived(stream)), (2, sent), "{report:#?}");
            assert!(stream.latency.measured.count > sent * 3 / 5, "{report:#?}");
            let error =
                stream.latency.measured.p50_ns.unwrap() - stream.latency.configured_ns.unwrap();
            assert!(error.abs() < 100_000, "{error} ns off");
        });
    }

    #[test]
    fn card_clock_jump_is_followed() {
        steady(|| {
            let jumps = |process| Box::new(Jump { process, periods: 0 }) as Box<dyn Process>;
            let (report, _) = Road::default().run(jumps, |_| {});
            let stream = only_stream(&report);
            assert!(stream.counters.resyncs >= 1, "{:?}", stream.counters);
            assert!(stream.latency.measured.count > 500, "{report:#?}");
        });
    }

    #[test]
    fn volume_and_map_do_not_hide_a_stream_from_the_measurement() {
        steady(|| {
            let road = Road {
                gain: Gain::from_db(-6.0).unwrap(),
                maps: ("2,1".parse().unwrap(), "2,1".parse().unwrap()),
                ..Road::default()
            };
            let (report, _) = road.run(as_it_is, |_| {});
            let stream = only_stream(&report);
            assert_eq!(stream.latency.method.as_deref(), Some("sound"));
            assert!(stream.latency.measured.count > 700, "{report:#?}");
        });
    }
}
