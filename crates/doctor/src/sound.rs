//! Sound cards and sound servers.

use tautline_audio::jack::JackServer;
use tautline_audio::pipewire::{Graph, graph};
use tautline_io::thread::Granted;
use tautline_io::thread::limits::{ResourceLimits, may_use};
use tautline_proto::device::Settings;
use tautline_proto::latency::LatencySum;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, Span};

use crate::Verdict::{Failure, Unknown, Warning};
use crate::interrupts::Process;
use crate::machine::run;
use crate::privileges::GRANT;
use crate::{Finding, Machine, Requirements};

const HAS_PIPEWIRE: bool = cfg!(feature = "pipewire");

pub(crate) fn server(processes: &[Process], latency: Span) -> Option<Finding> {
    if HAS_PIPEWIRE {
        return graph().map(|graph| pipewire(&graph, latency));
    }
    // `pw-metadata` may wait for a stalled server.
    let listed = run("timeout", &["1", "pw-metadata", "-n", "settings"]).ok();
    match listed.and_then(|listed| Graph::listed(&listed)) {
        Some(graph) => Some(pipewire(&graph, latency)),
        None => unrequested(processes),
    }
}

fn unrequested(processes: &[Process]) -> Option<Finding> {
    processes.iter().find(|process| process.name == "pipewire")?;
    let what = "cannot query PipeWire's cycle: this taut was built without PipeWire, and \
                pw-metadata does not answer";
    let why = "its cycles may be longer than the latency; run as the user of the PipeWire server";
    let finding = Finding::new(Unknown, what, why);
    Some(finding.details("sudo apt install pipewire-bin && pw-metadata -n settings"))
}

fn pipewire(graph: &Graph, latency: Span) -> Finding {
    let minimum = graph.forced.unwrap_or(graph.min_quantum);
    let cycle = Span::from_nanos(minimum.count() * 1_000_000_000 / i64::from(graph.rate.max(1)));
    let shown = Span::from_micros(cycle.as_nanos() / 1000);
    let (frames, rate) = (minimum.count(), graph.rate);
    let how = if graph.forced.is_some() { "forces" } else { "grants" };
    let min_word = if graph.forced.is_some() { "" } else { "at least " };
    let what = format!("PipeWire {how} {min_word}{frames} frames per cycle ({shown} at {rate} Hz)");
    // Each end buffers one cycle.
    let (verdict, why) = if cycle > latency {
        (Failure, format!("each pipewire: end takes a cycle, more than {latency}"))
    } else if cycle.times(2) > latency {
        (Warning, format!("two pipewire: ends take two cycles, more than {latency}"))
    } else {
        return Finding::passed(what);
    };
    let fix = if graph.forced.is_some() {
        "pw-metadata -n settings 0 clock.force-quantum 0"
    } else {
        "pw-metadata -n settings 0 clock.min-quantum 32"
    };
    Finding::new(verdict, what, why).fix(fix)
}

/// Periods that a card takes to play; two with `jackd -S`.
const JACK_PERIODS: u32 = 3;
/// Minimum of `jackd -p` for most cards.
const MIN_JACK_PERIOD: i64 = 16;

pub(crate) fn jack(
    server: &JackServer,
    limits: &ResourceLimits,
    granted: Granted,
    &Requirements { latency, ref format }: &Requirements,
) -> Finding {
    let JackServer { rate, period, priority, .. } = *server;
    let frames = period.count();
    let length = Span::from_nanos(frames * 1_000_000_000 / i64::from(rate.max(1)));
    let shown = Span::from_micros(length.as_nanos() / 1000);
    let what = format!("JACK runs with periods of {frames} frames ({shown} at {rate} Hz)");
    let needs = |frames: i64, periods: u32| {
        let period = Frames::new(frames);
        let StreamFormat { rate, channels, .. } = *format;
        LatencySum::of(format.packing_age(period), &Settings { rate, channels, period, periods })
    };
    let needed = needs(frames, JACK_PERIODS);
    if needed.is_beyond(latency) {
        let fits = core::iter::successors(Some(frames), |frames| Some(frames / 2))
            .take_while(|frames| *frames >= MIN_JACK_PERIOD)
            .find(|frames| !needs(*frames, JACK_PERIODS).is_beyond(latency));
        let why = format!("between two cards with JACK, this takes {needed}");
        let synchronous = needs(frames, JACK_PERIODS - 1);
        let verdict = if synchronous.is_beyond(latency) { Failure } else { Warning };
        let shorter = fits.unwrap_or(MIN_JACK_PERIOD);
        return Finding::new(verdict, what, why).fix(format!("jack_bufsize {shorter}"));
    }
    let Some(priority) = priority else {
        let what = format!("{what}, without real-time scheduling");
        let why = "its threads wait for other programs; stop it, and start it with -R";
        let fix = format!("jackd -R -d alsa -d hw:0 -r {rate} -p {frames} -n 2");
        return Finding::new(Warning, what, why).fix(fix);
    };
    let what = format!("{what}, and clients at priority {priority}");
    if granted.is_granted() || limits.priority.now.is_none_or(|limit| limit >= priority) {
        return Finding::passed(format!("{what}; between two cards, this takes {needed}"));
    }
    let limit = limits.priority.now.unwrap_or(0);
    let why =
        format!("the rtprio limit is {limit}, so taut's thread in JACK waits for other programs");
    Finding::new(Warning, what, why).fix(GRANT)
}

/// With this user's access.
pub(crate) fn device_files(machine: &Machine) -> Vec<(String, bool)> {
    let names = machine.list("dev/snd").into_iter().filter(|name| name.starts_with("pcm"));
    let file = |name| format!("dev/snd/{name}");
    names.map(file).map(|file| (format!("/{file}"), may_use(&machine.path(&file)))).collect()
}

pub(crate) fn access(files: &[(String, bool)]) -> Option<Finding> {
    let kept: Vec<_> = files.iter().filter(|(_, may)| !may).collect();
    match (files.first()?, kept.first()) {
        (_, None) => Some(Finding::passed("this user may open the sound cards")),
        (_, Some((name, _))) => {
            let what = format!("this user is not allowed to open {name}");
            let why = "alsa: cannot use the card; the fix takes effect at the next login";
            let finding = Finding::new(Failure, what, why);
            Some(finding.fix("sudo usermod -aG audio \"$(id -un)\""))
        }
    }
}

const USB: &str = "sys/bus/usb/devices";
/// USB class code.
const AUDIO: &str = "01";

fn usb_cards(machine: &Machine) -> Vec<String> {
    let interfaces = machine.list(USB).into_iter();
    let mut places: Vec<_> = interfaces
        .filter_map(|interface| {
            let (place, _) = interface.split_once(':')?;
            let class = machine.read(&format!("{USB}/{interface}/bInterfaceClass"));
            (class.as_deref() == Some(AUDIO)).then(|| place.to_owned())
        })
        .collect();
    places.dedup();
    places
}

pub(crate) fn suspended(machine: &Machine) -> Option<Finding> {
    let read = |place: &str, file: &str| machine.read(&format!("{USB}/{place}/{file}"));
    let cards = usb_cards(machine);
    cards.first()?;
    let Some(place) =
        cards.iter().find(|place| read(place, "power/control").as_deref() == Some("auto"))
    else {
        return Some(Finding::passed("USB sound cards stay awake"));
    };
    let name = read(place, "product").unwrap_or_else(|| place.clone());
    let what = format!("{name} (USB {place}) is suspended while unused");
    let why = "it takes longer to wake than a run waits for its first period";
    let fix = format!("echo on | sudo tee /{USB}/{place}/power/control");
    Some(Finding::new(Warning, what, why).fix(fix))
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use tautline_io::thread::Scheduler;
    use tautline_io::thread::limits::Limit;

    use super::*;
    use crate::Verdict::Passed;
    use crate::tests::requested;

    const MILLIS_5: Span = Span::from_millis(5);

    #[test]
    fn too_long_quantum_is_a_failure_with_its_origin() {
        let graph = |minimum, forced: Option<i64>| Graph {
            quantum: Frames::new(1024),
            min_quantum: Frames::new(minimum),
            max_quantum: Frames::new(2048),
            forced: forced.map(Frames::new),
            rate: 48_000,
            rates: vec![48_000],
        };
        assert_eq!(pipewire(&graph(32, None), MILLIS_5).verdict, Passed);
        assert_eq!(pipewire(&graph(120, None), MILLIS_5).verdict, Passed);
        assert_eq!(pipewire(&graph(128, None), MILLIS_5).verdict, Warning);
        let found = pipewire(&graph(256, None), MILLIS_5);
        assert_eq!(found.verdict, Failure);
        snapshot!(found.message);
        assert!(found.fix.unwrap().ends_with("clock.min-quantum 32"));
        let found = pipewire(&graph(32, Some(1024)), MILLIS_5);
        assert!(found.fix.unwrap().ends_with("clock.force-quantum 0"));
        assert_eq!(pipewire(&graph(32, Some(1024)), Span::from_millis(100)).verdict, Passed);
    }

    #[test]
    fn jack_server_is_judged_by_period_and_priority() {
        let limit = |now| Limit { now: Some(now), maximum: Some(now) };
        let refused = Granted { requested: Scheduler::Fifo(70), errno: 1 };
        let found = |frames, priority, rtprio, millis| {
            let server = JackServer::new(48_000, Frames::new(frames), priority);
            let limits =
                ResourceLimits { priority: limit(rtprio), locked_bytes: limit(0), files: limit(0) };
            jack(&server, &limits, refused, &requested(millis))
        };
        assert_eq!(found(64, Some(10), 10, 8).verdict, Passed);
        assert_eq!(found(64, Some(10), 9, 8).fix.as_deref(), Some(GRANT));
        let slow = found(64, None, 99, 8);
        assert!(slow.verdict == Warning && slow.fix.unwrap().starts_with("jackd -R"));
        let long = found(64, Some(10), 99, 6);
        assert_eq!((long.verdict, long.fix.as_deref()), (Warning, Some("jack_bufsize 32")));
        snapshot!(long.message);
        snapshot!(long.reason.unwrap());
        assert_eq!(found(64, Some(10), 99, 4).verdict, Failure);
        let longer = found(1024, Some(10), 99, 8);
        assert_eq!((longer.verdict, longer.fix.as_deref()), (Failure, Some("jack_bufsize 64")));
        assert_eq!(found(128, Some(10), 99, 1).fix.as_deref(), Some("jack_bufsize 16"));
    }

    #[test]
    fn unreachable_server_is_reported_a_missing_one_is_not() {
        let found = unrequested(&[Process::new(7, "pipewire", 0, 0)]).unwrap();
        assert_eq!(found.verdict, Unknown);
        assert!(found.details.unwrap().ends_with("pw-metadata -n settings"));
        assert_eq!(unrequested(&[Process::new(7, "pipewire-pulse", 0, 0)]), None);
    }

    #[test]
    fn a_card_that_this_user_may_not_open_spoils() {
        let node = |may| ("/dev/snd/pcmC0D0p".to_owned(), may);
        let found = access(&[node(true), node(false)]).unwrap();
        assert_eq!(found.verdict, Failure);
        snapshot!(found.message);
        assert_eq!(access(&[node(true)]).unwrap().verdict, Passed);
        assert_eq!(access(&[]), None, "there is no card");
        let machine = Machine::of(&[("dev/snd/pcmC0D0p", ""), ("dev/snd/seq", "")]);
        assert_eq!(device_files(&machine), [node(true)]);
    }

    #[test]
    fn a_card_on_usb_that_sleeps_is_named_and_other_devices_are_not() {
        let machine = Machine::of(&[
            ("sys/bus/usb/devices/1-4/product", "Scarlett 2i2"),
            ("sys/bus/usb/devices/1-4/power/control", "auto"),
            ("sys/bus/usb/devices/1-4:1.0/bInterfaceClass", "01"),
            ("sys/bus/usb/devices/1-4:1.1/bInterfaceClass", "01"),
            ("sys/bus/usb/devices/1-5/power/control", "auto"),
            ("sys/bus/usb/devices/1-5:1.0/bInterfaceClass", "08"),
        ]);
        assert_eq!(usb_cards(&machine), ["1-4"]);
        let found = suspended(&machine).unwrap();
        snapshot!(found.message);
        let awake = Machine::of(&[("sys/bus/usb/devices/1-4:1.0/bInterfaceClass", "01")]);
        assert_eq!(suspended(&awake).unwrap().verdict, Passed);
        assert_eq!(suspended(&Machine::empty()), None);
    }
}
