//! Calls through a NAT router.

use std::time::{Duration, Instant};

use tautline_trial::steady;

use crate::common::host::alongside;
use crate::common::messages;
use crate::common::network::Behind;
use crate::common::program::{Running, taut, words};
use crate::common::sound::Sound;
use crate::common::{Folder, PATIENT, grows, until};

struct CallThroughNat {
    network: Behind,
    serve: Running,
    call: Running,
    folder: Folder,
    _home: Folder,
}

impl CallThroughNat {
    fn begin() -> Option<Self> {
        Self::begin_with("")
    }

    fn begin_with(options: &str) -> Option<Self> {
        let talk = Self::made(options, None)?;
        let call = talk.call.becomes(|status| status.contains("latency 400ms"));
        Some(Self { call, ..talk })
    }

    /// Before any sound. The router drops `dropped` from the start.
    fn made(options: &str, dropped: Option<&str>) -> Option<Self> {
        let network = Behind::a_nat()?;
        dropped.iter().for_each(|what| network.drops(what));
        let (home, folder) = (Folder::new(), Folder::new());
        let id = taut(words("id")).with("TAUT_HOME", home.path()).run().well().out;
        let key = id.split_whitespace().last().unwrap().to_owned();
        let trust = taut(words("trust studio")).and([key]).with("TAUT_HOME", home.path());
        trust.run().well();
        let line = "serve --listen 0.0.0.0 --input tone:440 --output file:caller.wav --report none";
        let serve = taut(words(line)).and(PATIENT).within(&network.outside).listened_to();
        let serve = serve.with("TAUT_HOME", home.path()).in_folder(folder.path());
        let serve = serve.start().wait_for(messages::AWAITS_CALLS);
        let there = network.outside.address;
        let line = format!(
            "call studio={there} --input tone:300 --output file:heard.wav --report none {options}"
        );
        let call = taut(words(&line)).and(PATIENT).within(&network.inside).controlled();
        let call = call.with("TAUT_HOME", home.path()).in_folder(folder.path());
        let call = call.start().wait_for(messages::IN_A_CALL);
        let serve = serve.wait_for("call from studio (10.77.9.1)");
        Some(Self { network, serve, call, folder, _home: home })
    }

    fn sounds(&self) {
        for end in [&self.network.inside, &self.network.outside] {
            let before = end.arrived();
            until("no sound comes", || end.arrived() >= before + 400);
        }
    }

    fn hang_up(self) -> [(&'static str, Sound); 2] {
        self.call.enter("quit").end().well();
        self.serve.signal("-TERM");
        self.serve.end().well();
        ["caller.wav", "heard.wav"].map(|name| (name, Sound::read(&self.folder.file(name))))
    }
}

/// Both tones, 300 and 440 Hz, repeat after this many frames at 48 kHz.
const CYCLE: usize = 2_400;
const LEFT_AFTER: Duration = Duration::from_secs(1);
/// Tolerance of the gap: 1.5 times the latency of 400 ms, for a beat of 20 ms, a connection setup,
/// and stalls of 36 ms.
const MOVED_WITHIN: Duration = Duration::from_millis(600);
const BY_TCP: usize = 2 * 48_000;
/// In a gap, sound is predicted for 50 ms and fades out.
const CONCEALED_FRAMES: usize = 2 * 2_400;
/// Maximum fade-in after a gap, in frames.
const FADED: usize = 480;

/// Minimum gap: 0.1 s, in frames.
const GAP: usize = 4_800;

fn recorded(talk: &CallThroughNat, name: &str) -> usize {
    let bytes = talk.folder.file(name).metadata().unwrap().len();
    usize::try_from(bytes / 6).unwrap()
}

#[test]
fn call_moves_to_tcp_without_datagrams_and_back() {
    let _turn = alongside();
    let Some(mut talk) = CallThroughNat::begin() else { return };
    talk.sounds();
    talk.network.drops("meta l4proto udp");
    talk.call = talk.call.wait_for(messages::BY_TCP);
    talk.serve = talk.serve.wait_for(messages::BY_TCP);
    // After the latency, over two seconds came via TCP.
    let names = ["caller.wav", "heard.wav"];
    names.iter().for_each(|name| grows(&talk.folder.file(name), 3000));
    talk.network.carries_all();
    talk.call = talk.call.wait_for(messages::BY_UDP);
    talk.serve = talk.serve.wait_for(messages::BY_UDP);
    let moved = names.map(|name| recorded(&talk, name));
    names.iter().for_each(|name| grows(&talk.folder.file(name), 2000));
    for ((name, received), moved) in talk.hang_up().into_iter().zip(moved) {
        let gaps = received.silences(GAP);
        let [gap] = &gaps[..] else { panic!("{name}: there is one gap, and not {gaps:?}") };
        let last = received.samples.iter().rposition(|sample| *sample != 0).expect("sound");
        assert!(
            last / 2 > moved + 48_000,
            "{name}: sound until {}, by UDP from {moved} on",
            last / 2
        );
        let frames = u32::try_from(gap.len()).unwrap();
        let lasted = Duration::from_secs(1) * frames / received.shape.rate + CONCEALED;
        println!("{name}: nothing was heard for {lasted:?}");
        let bounds = LEFT_AFTER / 2..LEFT_AFTER + MOVED_WITHIN;
        assert!(bounds.contains(&lasted), "{name}: nothing was heard for {lasted:?}");
        // TCP sound continues the tone in phase.
        let whole = gap.start - CONCEALED_FRAMES - CYCLE;
        let before = |frame: usize| whole + (frame - whole) % CYCLE;
        let by_tcp = gap.end + FADED..gap.end + FADED + BY_TCP;
        assert!(by_tcp.end <= received.frames(), "{name}: {} frames, {gap:?}", received.frames());
        let other = by_tcp.filter(|frame| received.frame(*frame) != received.frame(before(*frame)));
        assert_eq!(other.count(), 0, "{name}: frames of {BY_TCP} by TCP are not the tone's");
    }
}

/// Drops datagrams above 1280 bytes, without ICMP.
const BLACK_HOLE: &str = "udp length > 1288";
/// A packet of 5 ms of stereo L24 does not fit.
const LONG: &str = "l24 in packets of 5ms";
const SHORT: &str = "l24 in packets of 2.5ms";

fn in_short_packets(mut talk: CallThroughNat) -> [(&'static str, Sound); 2] {
    talk.call = talk.call.becomes(|status| status.matches(SHORT).count() == 2);
    ["caller.wav", "heard.wav"].iter().for_each(|name| grows(&talk.folder.file(name), 4_000));
    let moved: Vec<_> =
        talk.call.messages().filter(|line| line.contains(messages::BY_TCP)).collect();
    assert!(moved.is_empty(), "{moved:?}");
    talk.hang_up()
}

#[test]
fn udp_only_call_starts_gapless_on_a_path_with_a_black_hole() {
    let _turn = alongside();
    let options = "--ptime 5ms --transport udp";
    let Some(talk) = CallThroughNat::made(options, Some(BLACK_HOLE)) else { return };
    for (name, received) in in_short_packets(talk) {
        let gaps = received.silences(GAP);
        assert!(received.begins().is_some() && gaps.is_empty(), "{name}: {gaps:?}");
    }
}

#[test]
fn call_stays_on_udp_when_a_black_hole_appears() {
    let _turn = alongside();
    let Some(mut talk) = CallThroughNat::begin_with("--ptime 5ms") else { return };
    talk.call = talk.call.becomes(|status| status.matches(LONG).count() == 2);
    talk.sounds();
    talk.network.drops(BLACK_HOLE);
    for (name, received) in in_short_packets(talk) {
        assert_eq!(received.silences(GAP).len(), 1, "{name}: {:?}", received.silences(GAP));
    }
}

#[test]
fn udp_only_call_reports_the_blocked_direction() {
    let _turn = alongside();
    let Some(mut talk) = CallThroughNat::begin_with("--transport udp") else { return };
    let there = talk.network.outside.address;
    // Packets passed for long enough to know that no firewall drops them.
    for (address, way, fix) in [("daddr", "to", ""), ("saddr", "from", "; they did before")] {
        talk.sounds();
        talk.network.drops(&format!("meta l4proto udp ip {address} {there}"));
        let reported = format!("no UDP packets pass {way} studio=10.77.9.2:17240{fix}");
        talk.call = talk.call.wait_for(&reported);
        talk.network.carries_all();
    }
    let names = ["caller.wav", "heard.wav"];
    let passed = names.map(|name| recorded(&talk, name));
    names.iter().for_each(|name| grows(&talk.folder.file(name), 2000));
    for ((name, received), passed) in talk.hang_up().into_iter().zip(passed) {
        let last = received.samples.iter().rposition(|sample| *sample != 0).expect("sound") / 2;
        assert!(last > passed + 48_000, "{name}: sound until {last}, let through from {passed} on");
    }
}

#[test]
fn call_without_any_received_sound_fails() {
    let _turn = alongside();
    let udp = Some("meta l4proto udp");
    let Some(talk) = CallThroughNat::made("--transport udp", udp) else { return };
    let call = talk.call.wait_for(messages::NO_DATAGRAM);
    let to = call.messages().any(|line| line.contains(messages::NO_DATAGRAM_TO));
    let call =
        call.wait_for(if to { messages::NO_DATAGRAM_FROM } else { messages::NO_DATAGRAM_TO });
    let ended = call.enter("quit").end();
    assert_eq!(ended.status, Some(1), "{ended:#?}");
    for reported in
        [messages::NO_DATAGRAM_TO, messages::NO_DATAGRAM_FROM, "nothing was received from studio"]
    {
        assert!(
            ended.messages.iter().any(|line| line.contains(reported)),
            "{reported}: {ended:#?}"
        );
    }
}

/// Maximum delay of new sound after a link returns.
const SOUND_BACK: Duration = Duration::from_millis(100);
const CONCEALED: Duration = Duration::from_millis(50);
/// Attempts under way may take 4 s to fail (2 s each for media and control), plus the longest pause
/// of 2 s.
const CONTROL_BACK: Duration = Duration::from_secs(6);

mod exclusive {
    use super::*;

    #[test]
    fn after_a_5_s_outage_sound_returns_first_then_control() {
        steady(|| {
            let Some(mut talk) = CallThroughNat::begin() else { return };
            talk.sounds();
            talk.network.drops("");
            let cut = Instant::now();
            while let Some(left) = Duration::from_secs(5).checked_sub(cut.elapsed()) {
                std::thread::park_timeout(left);
            }
            // Measured from before the return and after the cut, so the computed times are upper
            // bounds.
            let (away, back) = (cut.elapsed(), Instant::now());
            talk.network.carries_all();
            talk.call = talk.call.wait_for(messages::CONTROL_LOST).wait_for(messages::CALL_GOES_ON);
            let control = back.elapsed();
            talk.serve =
                talk.serve.wait_for(messages::CONTROL_LOST).wait_for(messages::CALL_GOES_ON);
            talk.sounds();
            for (name, received) in talk.hang_up() {
                let gap =
                    received.silences(0).into_iter().map(|gap| gap.len()).max().expect("sound");
                let gap = Duration::from_secs_f64(gap as f64 / f64::from(received.shape.rate));
                let gap = gap + CONCEALED;
                let sound = gap.checked_sub(away).expect("nothing crosses a link that is cut");
                println!("{name}: sound {sound:?} after the link, control connection {control:?}");
                assert!(sound <= SOUND_BACK, "{name}: {sound:?} after the link was back");
            }
            assert!(control <= CONTROL_BACK, "{control:?} after the link was back");
        });
    }
}
