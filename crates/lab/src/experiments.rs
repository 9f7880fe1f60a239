use crate::report::LabReport;
use crate::{align, delay, quality};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Experiment {
    pub(crate) name: &'static str,
    pub(crate) requests: &'static str,
    pub(crate) does: &'static str,
    /// In `taut lab all`: the machine first.
    pub(crate) turn: u8,
    /// Arguments in `taut lab all`; `{folder}` is for reports.
    pub(crate) words: &'static str,
    pub(crate) sends: bool,
    pub(crate) needs: Option<&'static Experiment>,
}

const ALONE: Experiment =
    Experiment { name: "", requests: "", does: "", turn: 0, words: "", sends: false, needs: None };
const SENDS: Experiment = Experiment { sends: true, ..ALONE };

const DEMO: Experiment = Experiment {
    name: "demo",
    does: "record the sound that the next experiment compares",
    words: "demo --duration 5s --out {folder} --quiet",
    ..ALONE
};
const SENT: Experiment = Experiment {
    name: "sent",
    does: "send the packets whose intervals are measured",
    // Only the sender affects packet regularity.
    words: "send --input tone:997 --to rtp://127.77.0.1:5004 --duration 3s --packet-log {folder}/sent.csv \
            --quiet",
    ..ALONE
};

pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "delay",
        requests: delay::QUESTION,
        does: "play time marks on one device and find them on another",
        turn: 14,
        words: "lab delay --output virtual:?cable=taut-all --input virtual:?cable=taut-all&delay=5ms \
                --duration 5s",
        ..ALONE
    },
    Experiment {
        name: "align",
        requests: align::QUESTION,
        does: "find the delay between two taps of one sound",
        turn: 16,
        words: "lab align {folder}/receiver-1.wav",
        needs: Some(&DEMO),
        ..ALONE
    },
    Experiment {
        name: "mouth-to-ear",
        requests: "how long does sound take from the mouth at one end of a call to the ear at the other?",
        does: "call, and compare the sound at the mouth with the sound at the far ear",
        turn: 15,
        words: "lab mouth-to-ear --only latency --duration 1s --settle 500ms",
        ..ALONE
    },
    Experiment {
        name: "stages",
        requests: "where does the time of every packet go?",
        does: "send a stream and measure each packet stage by stage",
        turn: 4,
        words: "lab stages --duration 5s --settle 1s",
        ..SENDS
    },
    Experiment {
        name: "kernel",
        requests: "how long does a packet take from the kernel to the program?",
        does: "measure packets from the kernel's timestamp to the receiving program",
        turn: 2,
        words: "lab kernel --duration 500ms",
        ..ALONE
    },
    Experiment {
        name: "latency-sweep",
        requests: "does the measured latency equal the configured one?",
        does: "compare measured with configured latency, from 100 ms down to 3 ms",
        turn: 5,
        words: "lab latency-sweep --duration 1s --settle 1s",
        ..SENDS
    },
    Experiment {
        name: "min-latency",
        requests: "what is the minimum latency without loss?",
        does: "find the minimum latency without loss, and hold it",
        turn: 6,
        // A latency that outlasts interruptions of a shared machine, up to 119 ms.
        words: "lab min-latency --period 240 --periods 32 --step 50ms --max-latency 500ms --duration 500ms --settle 1s \
                --hold 1s",
        ..SENDS
    },
    Experiment {
        name: "schedulers",
        requests: "which scheduler is best for audio?",
        does: "send the same stream with each scheduler, idle and loaded",
        turn: 7,
        words: "lab schedulers --duration 500ms --settle 1s",
        ..SENDS
    },
    Experiment {
        name: "network",
        requests: "how does other traffic affect a stream, and what does a stream cost the network?",
        does: "send a stream next to multicast, chatter and bulk TCP, and count the traffic",
        turn: 8,
        words: "lab network --duration 500ms --settle 1s",
        ..SENDS
    },
    Experiment {
        name: "callback-jitter",
        requests: "how regular are the callbacks on both sides of a sound device?",
        does: "measure the callbacks on both sides of a sound device",
        turn: 3,
        words: "lab callback-jitter --device virtual: --duration 3s",
        ..ALONE
    },
    Experiment {
        name: "limits",
        requests: "how does a stream fare if its receiver has little CPU or memory?",
        does: "send a stream to a receiver that has little CPU or memory",
        turn: 9,
        words: "lab limits --duration 1s --settle 1s",
        ..SENDS
    },
    Experiment {
        name: "stalls",
        requests: "how late does this host wake a thread?",
        does: "measure the wake-up lateness of each core, and stalls of all cores",
        turn: 0,
        words: "lab stalls --duration 3s",
        ..ALONE
    },
    Experiment {
        name: "resources",
        requests: "how busy is this machine?",
        does: "sample the load of this machine and its programs",
        turn: 1,
        words: "lab resources --duration 3s",
        ..ALONE
    },
    Experiment {
        name: "quality",
        requests: quality::QUESTION,
        does: "send known sound and compare it with the received sound",
        turn: 13,
        words: "lab quality",
        ..SENDS
    },
    Experiment {
        name: "load",
        requests: "how many streams run without a miss?",
        does: "send more and more streams until the first miss, then hold the maximum",
        turn: 10,
        words: "lab load --duration 1s --settle 1s --max-streams 16 --hold 2 --allow 1%",
        ..SENDS
    },
    Experiment {
        name: "capacity",
        requests: "how much of a period can plugins on other machines use?",
        does: "send blocks to plugins on other machines, with growing run times, until one is \
               missed",
        turn: 11,
        words: "lab capacity --workers 1 --workers-here --virtual-work --step 500us --attempt 100ms \
                --idle 500ms --hold 500ms",
        ..ALONE
    },
    Experiment {
        name: "overhead",
        requests: "what does measuring cost?",
        does: "compare the cost of a measured stream with that of an unmeasured one",
        turn: 12,
        words: "lab overhead --duration 1s --settle 1s --rounds 2",
        ..SENDS
    },
    Experiment {
        name: "interval",
        requests: "at which intervals do packets leave or arrive?",
        does: "measure the packet intervals in a packet log",
        turn: 17,
        words: "lab interval --packet-log {folder}/sent.csv",
        needs: Some(&SENT),
        ..ALONE
    },
];

impl Experiment {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        EXPERIMENTS.iter().find(|known| known.name == name)
    }
}

impl LabReport {
    pub(crate) fn asking(experiment: &'static str) -> Self {
        Self::of(experiment, Experiment::named(experiment).map_or("", |known| known.requests))
    }
}
