//! Several senders at one UDP port, each heard as a stream of its own (`?senders=`).

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock};

use crate::common::program::{Call, Running, taut, words};
use crate::common::report::Report;
use crate::common::sound::{Shape, Sound};
use crate::common::{Folder, Onlooker, PATIENT, free_udp_ports, loopback, shared};
use crate::lies::{bound, hand_on};

/// A test's folder and the commands run in it.
struct Scene(Folder, String);

impl Scene {
    fn new() -> Self {
        Self(Folder::new(), loopback())
    }

    fn call(&self, line: &str) -> Call {
        taut(words(line)).and(PATIENT).in_folder(self.0.path())
    }

    /// Hears the one address.
    fn recv(&self, query: &str) -> Running {
        let line = format!(
            "recv --from {}{query} --output file:heard.wav --until-bye --report json --rate 48000 \
             --channels 2",
            self.1
        );
        self.call(&line).start().listening()
    }

    fn send(&self, name: &str) -> Call {
        self.call(&format!("send --input file:{name} --to {} --report json", self.1))
    }

    fn noise(&self, name: &str, millis: usize, seed: u64) -> Sound {
        let sound = Sound::noise(Shape::STEREO_24, millis, seed).quieter();
        sound.write(&self.0.file(name));
        sound
    }

    fn heard(&self) -> Sound {
        Sound::read(&self.0.file("heard.wav"))
    }
}

/// Where to send what is to come from this host: media and reports are handed on by its sockets, and
/// what is answered comes back.
fn at_host(host: &str, address: &str) -> String {
    let port: u16 = address.rsplit_once(':').unwrap().1.parse().unwrap();
    let [listen, out] = [(); 2].map(|()| free_udp_ports());
    let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let [media, reports] = [listen, listen + 1].map(bound);
    let [media_out, reports_out] =
        [out, out + 1].map(|port| UdpSocket::bind((host, port)).unwrap());
    hand_on(&media, &media_out, move |_| local(port), |_| ());
    let sender = Arc::new(OnceLock::new());
    let told = Arc::clone(&sender);
    let learn = move |peer| {
        told.get_or_init(|| peer);
        local(port + 1)
    };
    hand_on(&reports, &reports_out, learn, |_| ());
    let back = move |_| sender.get().copied().unwrap_or_else(|| local(listen));
    hand_on(&reports_out, &reports, back, |_| ());
    format!("rtp://127.0.0.1:{listen}")
}

/// Whose stream each is that was received, and how many packets came of it; and that none was missed.
#[track_caller]
fn senders(report: &Report) -> Vec<(String, u64, u64)> {
    let streams = report.0["streams"].as_array().unwrap();
    let sender = |index: usize| {
        let of = |pointer: &str| report.of_stream(index, pointer);
        for counter in ["lost", "late", "foreign", "unplaced", "missing_frames"] {
            assert_eq!(of(&format!("/counters/{counter}")), 0, "{counter}: {:#}", report.0);
        }
        assert_eq!(of("/latency/basis"), "clock", "{:#}", report.0);
        let from = of("/sender/from").as_str().unwrap().to_owned();
        let packets = of("/counters/packets_received").as_u64().unwrap();
        (from, of("/sender/ssrc").as_u64().unwrap(), packets)
    };
    (0..streams.len()).map(sender).collect()
}

#[test]
fn two_senders_at_one_port_are_heard_as_their_sum_and_each_is_told() {
    shared(|| {
        let scene = Scene::new();
        let (early, late) = (scene.noise("early.wav", 1500, 1), scene.noise("late.wav", 400, 2));
        let onlooker = Onlooker::new();
        let recv = scene.recv("?senders=all");
        let first = scene.send("early.wav").and(["--to", &onlooker.address()]).start();
        onlooker.see(300);
        let second = scene.send("late.wav").run().report();
        let first = first.end().report();
        let report = recv.end().report();
        let heard = scene.heard();
        heard.without(&early, heard.begins().unwrap()).is_exactly(&late);
        let told = senders(&report);
        assert_eq!(told.len(), 2, "{:#}", report.0);
        assert_ne!((&told[0].0, told[0].1), (&told[1].0, told[1].1));
        for (sent, (_, _, packets)) in [first, second].iter().zip(&told) {
            assert_eq!(sent.count("packets_sent"), *packets, "{:#}", report.0);
            let answered = sent.stream("/receivers").as_array().unwrap();
            assert_eq!(answered.len(), 1, "{:#}", sent.0);
        }
    });
}

#[test]
fn senders_that_follow_each_other_while_another_goes_on_are_streams_of_their_own() {
    shared(|| {
        let scene = Scene::new();
        let long = scene.noise("long.wav", 3000, 1);
        let sounds = [scene.noise("0.wav", 300, 2), scene.noise("1.wav", 300, 3)];
        let onlooker = Onlooker::new();
        let recv = scene.recv("?senders=all");
        let first = scene.send("long.wav").and(["--to", &onlooker.address()]).start();
        onlooker.see(300);
        scene.send("0.wav").run().well();
        onlooker.see(1000);
        scene.send("1.wav").run().well();
        first.end().well();
        let report = recv.end().report();
        assert_eq!(senders(&report).len(), 3, "{:#}", report.0);
        let heard = scene.heard();
        let rest = heard.without(&long, heard.begins().unwrap()).samples;
        let mut left = &rest[..];
        for sound in &sounds {
            left = &left[left.iter().position(|sample| *sample != 0).unwrap()..];
            assert!(left.starts_with(&sound.samples), "each is heard whole");
            left = &left[sound.samples.len()..];
        }
        assert!(left.iter().all(|sample| *sample == 0), "and nothing else");
    });
}

#[test]
fn who_finds_no_place_is_counted_and_told_with_the_mend() {
    shared(|| {
        let scene = Scene::new();
        let early = scene.noise("early.wav", 1500, 1);
        scene.noise("late.wav", 300, 2);
        let onlooker = Onlooker::new();
        let recv = scene.recv("?senders=1");
        let first = scene.send("early.wav").and(["--to", &onlooker.address()]).start();
        onlooker.see(300);
        let second = scene.send("late.wav").run().report();
        first.end().well();
        let report = recv.end().report();
        scene.heard().is_exactly(&early);
        assert_eq!(report.0["streams"].as_array().unwrap().len(), 1, "{:#}", report.0);
        assert_eq!(report.count("unplaced"), second.count("packets_sent"), "{:#}", report.0);
        let notes = report.0["notes"].to_string();
        assert!(notes.contains("?senders=2"), "{notes}");
    });
}

#[test]
fn of_the_hosts_that_send_to_one_port_those_that_are_named_are_heard() {
    shared(|| {
        let scene = Scene::new();
        let [near, far] = [scene.noise("near.wav", 4000, 1), scene.noise("far.wav", 400, 2)];
        scene.noise("other.wav", 300, 3);
        let onlooker = Onlooker::new();
        let recv = scene.recv("?source=127.0.0.2,127.0.0.1");
        let first = scene.send("near.wav").and(["--to", &onlooker.address()]).start();
        onlooker.see(300);
        let send = |name: &str, host| {
            let to = at_host(host, &scene.1);
            scene.call(&format!("send --input file:{name} --to {to} --report json"))
        };
        let other = send("other.wav", "127.0.0.3").run().report();
        send("far.wav", "127.0.0.2").run().well();
        first.end().well();
        let report = recv.end().report();
        let heard = scene.heard();
        heard.without(&near, heard.begins().unwrap()).is_exactly(&far);
        let streams = report.0["streams"].as_array().unwrap();
        let hosts: Vec<_> = (0..streams.len())
            .map(|index| report.of_stream(index, "/sender/from").as_str().unwrap().to_owned())
            .collect();
        let of = |host: &str| hosts.iter().filter(|from| from.starts_with(host)).count();
        assert_eq!((hosts.len(), of("127.0.0.1:"), of("127.0.0.2:")), (2, 1, 1), "{hosts:?}");
        assert_eq!(report.count("foreign"), other.count("packets_sent"), "{:#}", report.0);
    });
}
