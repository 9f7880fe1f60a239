//! `taut serve` and `taut call` with a router between them that gives the caller an address of its own (NAT).

use std::time::Instant;

use crate::common::host::beside;
use crate::common::network::Behind;
use crate::common::program::{PATIENCE as MOST, Running, taut, words};
use crate::common::sound::Sound;
use crate::common::{Folder, PATIENT};

/// Two machines with a NAT between them, in a call.
struct CallThroughNat {
    network: Behind,
    serve: Running,
    call: Running,
    folder: Folder,
    _home: Folder,
}

impl CallThroughNat {
    fn begin(test: &str) -> Option<Self> {
        let network = Behind::a_nat(test)?;
        let (home, folder) = (Folder::new(), Folder::new());
        // They trust each other by being one: both have the same key.
        let id = taut(words("id")).with("TAUT_HOME", home.path()).run().well().out;
        let key = id.split_whitespace().last().unwrap().to_owned();
        let trust = taut(words("trust studio")).and([key]).with("TAUT_HOME", home.path());
        trust.run().well();
        let line = "serve --listen 0.0.0.0 --input tone:440 --output file:caller.wav --report none";
        let serve = taut(words(line)).and(PATIENT).within(&network.outside).listened_to();
        let serve = serve.with("TAUT_HOME", home.path()).in_folder(folder.path());
        let serve = serve.start().wait_for("listening for calls at ");
        let there = network.outside.address;
        let line =
            format!("call studio={there} --input tone:300 --output file:heard.wav --report none");
        let call = taut(words(&line)).and(PATIENT).within(&network.inside).controlled();
        let call = call.with("TAUT_HOME", home.path()).in_folder(folder.path());
        let call = call.start().wait_for("in a call with ");
        let serve = serve.wait_for("studio (10.77.9.1) calls");
        let call = call.becomes(|status| status.contains("latency 400ms"));
        Some(Self { network, serve, call, folder, _home: home })
    }

    /// Returns when a second of sound more came to both ends, which is more than the latency.
    fn sounds(&self) {
        for end in [&self.network.inside, &self.network.outside] {
            let (until, before) = (Instant::now() + MOST, end.arrived());
            while end.arrived() < before + 400 {
                assert!(Instant::now() < until, "no sound comes");
            }
        }
    }

    /// Both hang up: what each end heard.
    fn hang_up(self) -> [(&'static str, Sound); 2] {
        self.call.tell("quit").end().well();
        self.serve.signal("-TERM");
        self.serve.end().well();
        ["caller.wav", "heard.wav"].map(|name| (name, Sound::read(&self.folder.file(name))))
    }

    /// Both hang up; of each end's sound, whether it comes back after a gap.
    fn ends(self, is_gap_certain: bool) {
        for (name, heard) in self.hang_up() {
            let sounds = |window: &[i32]| window.iter().any(|sample| *sample != 0);
            let windows: Vec<bool> = heard.samples.chunks(9_600).map(sounds).collect();
            let first = windows.iter().position(|sounds| *sounds).expect("sound");
            let gap = windows[first..].iter().position(|sounds| !sounds).map(|gap| gap + first);
            assert!(gap.is_some() || !is_gap_certain, "{name}: nothing was cut: {windows:?}");
            let back = gap.is_none_or(|gap| windows[gap..].iter().any(|sounds| *sounds));
            assert!(back, "{name}: nothing came back: {windows:?}");
        }
    }
}

#[test]
fn a_call_through_a_nat_outlives_seconds_without_a_network() {
    let _turn = beside();
    let test = "calls_through_nat::a_call_through_a_nat_outlives_seconds_without_a_network";
    let Some(mut talk) = CallThroughNat::begin(test) else { return };
    talk.sounds();
    talk.network.drops("");
    talk.call = talk.call.wait_for("the control connection is lost");
    talk.serve = talk.serve.wait_for("control connection is lost");
    talk.network.carries_all();
    talk.call = talk.call.wait_for("the call goes on");
    talk.serve = talk.serve.wait_for("is back: the call goes on");
    talk.sounds();
    talk.ends(true);
}

#[test]
fn a_call_moves_to_tcp_when_no_datagram_passes_and_back_when_some_do() {
    let _turn = beside();
    let test =
        "calls_through_nat::a_call_moves_to_tcp_when_no_datagram_passes_and_back_when_some_do";
    let Some(mut talk) = CallThroughNat::begin(test) else { return };
    talk.sounds();
    talk.network.drops("meta l4proto udp");
    talk.call = talk.call.wait_for("the sound goes by TCP from now on");
    talk.serve = talk.serve.wait_for("the sound goes by TCP from now on");
    talk.network.carries_all();
    talk.call = talk.call.wait_for("the sound goes by UDP from now on");
    talk.serve = talk.serve.wait_for("the sound goes by UDP from now on");
    talk.sounds();
    talk.ends(false);
}
