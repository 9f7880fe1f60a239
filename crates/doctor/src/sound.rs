//! Sound cards and servers: whether they may be used, and what they keep for themselves.

use tautline_audio::pipewire::{Graph, graph};
use tautline_io::thread::limits::may_use;
use tautline_proto::time::Span;

use super::ask::run;
use super::interrupts::RunningProcess;
use super::root::Root;
use super::{Finding, Requirements, Verdict};

pub(crate) fn check(
    root: &Root,
    asked: &Requirements,
    processes: &[RunningProcess],
) -> Vec<Finding> {
    let mut found = Vec::new();
    let graph = if HAS_PIPEWIRE { graph() } else { told() };
    found.extend(match graph {
        Some(graph) => Some(pipewire(&graph, asked)),
        None if HAS_PIPEWIRE => None,
        None => unasked(processes),
    });
    found.extend(access(&nodes(root)));
    found.extend(suspended(&usb_cards(root)));
    found
}

/// Whether this build can ask a server itself.
const HAS_PIPEWIRE: bool = cfg!(feature = "pipewire");

/// What a server tells PipeWire's own program, which may wait for one that stalls.
fn told() -> Option<Graph> {
    Graph::listed(&run("timeout", &["1", "pw-metadata", "-n", "settings"]).ok()?)
}

/// A server is here that nobody could ask.
fn unasked(processes: &[RunningProcess]) -> Option<Finding> {
    processes.iter().find(|process| process.name == "pipewire")?;
    let what = "how often PipeWire calls could not be asked: this taut was built without it, and \
                pw-metadata does not answer";
    let why = "its cycles may be longer than the latency; ask as the user whose server it is";
    let finding = Finding::of(Verdict::Unknown, "pipewire", what, why);
    Some(finding.seen_by("sudo apt install pipewire-bin && pw-metadata -n settings"))
}

fn pipewire(graph: &Graph, asked: &Requirements) -> Finding {
    const CHECK: &str = "pipewire";
    let least = graph.forced.unwrap_or(graph.min_quantum);
    let cycle = Span::from_nanos(least.count() * 1_000_000_000 / i64::from(graph.rate.max(1)));
    // To the microsecond.
    let shown = Span::from_micros(cycle.as_nanos() / 1000);
    let (frames, rate) = (least.count(), graph.rate);
    let how = if graph.forced.is_some() { "forces" } else { "grants" };
    let least_word = if graph.forced.is_some() { "" } else { "at least " };
    let what =
        format!("PipeWire {how} {least_word}{frames} frames per cycle ({shown} at {rate} Hz)");
    let latency = asked.latency;
    // At either end a buffer is filled or emptied for a cycle.
    let (verdict, why) = if cycle > latency {
        (Verdict::Spoils, format!("pipewire: takes a cycle at either end, and {latency} is less"))
    } else if cycle.times(2) > latency {
        (Verdict::Warns, format!("two ends by pipewire: take two cycles, and {latency} is less"))
    } else {
        return Finding::fine(CHECK, what);
    };
    let mend = if graph.forced.is_some() {
        "pw-metadata -n settings 0 clock.force-quantum 0"
    } else {
        "pw-metadata -n settings 0 clock.min-quantum 32"
    };
    Finding::of(verdict, CHECK, what, why).mended_by(mend)
}

/// A file by which a card is opened, and whether this user may.
type DeviceFile = (String, bool);

fn nodes(root: &Root) -> Vec<DeviceFile> {
    let names = root.list("dev/snd").into_iter().filter(|name| name.starts_with("pcm"));
    names
        .map(|name| (format!("/dev/snd/{name}"), may_use(&root.path(&format!("dev/snd/{name}")))))
        .collect()
}

fn access(nodes: &[DeviceFile]) -> Option<Finding> {
    const CHECK: &str = "sound-access";
    let kept: Vec<_> = nodes.iter().filter(|(_, may)| !may).collect();
    match (nodes.first()?, kept.first()) {
        (_, None) => Some(Finding::fine(CHECK, "this user may open the sound cards")),
        (_, Some((name, _))) => {
            let what = format!("this user may not open {name}");
            let why = "alsa: can have no card; the mend counts from the next log-in on";
            let finding = Finding::of(Verdict::Spoils, CHECK, what, why);
            Some(finding.mended_by("sudo usermod -aG audio \"$(id -un)\""))
        }
    }
}

/// A sound card on USB.
#[derive(Debug, PartialEq, Eq)]
struct UsbCard {
    /// Its place, as `1-4`.
    place: String,
    name: String,
    /// Whether it is put to sleep when nobody uses it.
    sleeps: bool,
}

const USB: &str = "sys/bus/usb/devices";
/// Of an interface of sound (USB class codes).
const AUDIO: &str = "01";

fn usb_cards(root: &Root) -> Vec<UsbCard> {
    let interfaces = root.list(USB).into_iter();
    let mut places: Vec<_> = interfaces
        .filter_map(|interface| {
            let (place, _) = interface.split_once(':')?;
            let class = root.read(&format!("{USB}/{interface}/bInterfaceClass"));
            (class.as_deref() == Some(AUDIO)).then(|| place.to_owned())
        })
        .collect();
    places.dedup();
    let card = |place: String| UsbCard {
        name: root.read(&format!("{USB}/{place}/product")).unwrap_or_else(|| place.clone()),
        sleeps: root.read(&format!("{USB}/{place}/power/control")).as_deref() == Some("auto"),
        place,
    };
    places.into_iter().map(card).collect()
}

fn suspended(cards: &[UsbCard]) -> Option<Finding> {
    const CHECK: &str = "usb-autosuspend";
    cards.first()?;
    let Some(UsbCard { place, name, .. }) = cards.iter().find(|card| card.sleeps) else {
        return Some(Finding::fine(CHECK, "USB sound cards stay awake"));
    };
    let what = format!("{name} (USB {place}) is put to sleep when nobody uses it");
    let why = "waking takes it longer than a run waits for its first period";
    let mend = format!("echo on | sudo tee /sys/bus/usb/devices/{place}/power/control");
    Some(Finding::of(Verdict::Warns, CHECK, what, why).mended_by(mend))
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use tautline_proto::time::Frames;

    use super::*;
    use crate::root::fake::Machine;
    use crate::tests::asked;

    #[test]
    fn a_quantum_that_leaves_no_time_spoils_with_what_sets_it() {
        let graph = |least, forced: Option<i64>| Graph {
            quantum: Frames::new(1024),
            min_quantum: Frames::new(least),
            max_quantum: Frames::new(2048),
            forced: forced.map(Frames::new),
            rate: 48_000,
            rates: vec![48_000],
        };
        assert_eq!(pipewire(&graph(32, None), &asked(5)).verdict, Verdict::Fine);
        assert_eq!(pipewire(&graph(120, None), &asked(5)).verdict, Verdict::Fine);
        assert_eq!(pipewire(&graph(128, None), &asked(5)).verdict, Verdict::Warns);
        let found = pipewire(&graph(256, None), &asked(5));
        assert_eq!(found.verdict, Verdict::Spoils);
        snapshot!(found.what);
        assert!(found.mend().unwrap().ends_with("clock.min-quantum 32"));
        let found = pipewire(&graph(32, Some(1024)), &asked(5));
        assert!(found.mend().unwrap().ends_with("clock.force-quantum 0"));
        assert_eq!(pipewire(&graph(32, Some(1024)), &asked(100)).verdict, Verdict::Fine);
    }

    #[test]
    fn a_server_that_could_not_be_asked_is_told_and_none_is_not() {
        let found = unasked(&[RunningProcess::ordinary(7, "pipewire")]).unwrap();
        assert_eq!((found.check, found.verdict), ("pipewire", Verdict::Unknown));
        assert!(found.look().unwrap().ends_with("pw-metadata -n settings"));
        assert_eq!(unasked(&[RunningProcess::ordinary(7, "pipewire-pulse")]), None);
    }

    #[test]
    fn a_card_that_this_user_may_not_open_spoils() {
        let node = |may| ("/dev/snd/pcmC0D0p".to_owned(), may);
        let found = access(&[node(true), node(false)]).unwrap();
        assert_eq!(found.verdict, Verdict::Spoils);
        snapshot!(found.what);
        assert_eq!(access(&[node(true)]).unwrap().verdict, Verdict::Fine);
        assert_eq!(access(&[]), None, "there is no card");
        let machine = Machine::of(&[("dev/snd/pcmC0D0p", ""), ("dev/snd/seq", "")]);
        assert_eq!(nodes(&machine.root()), [node(true)]);
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
        let cards = usb_cards(&machine.root());
        assert_eq!(cards.len(), 1);
        let found = suspended(&cards).unwrap();
        snapshot!(found.what);
        let awake = UsbCard { place: "1-4".to_owned(), name: String::new(), sleeps: false };
        assert_eq!(suspended(&[awake]).unwrap().verdict, Verdict::Fine);
        assert_eq!(suspended(&[]), None);
    }
}
