//! How a call stands, on the terminal while it sounds.

use tautline_engine::watching::observers::Onlooker;
use tautline_engine::watching::snapshot::{Snapshot, StageLength, StreamSnapshot};
use tautline_engine::watching::text::Nanos;
use tautline_proto::call::terms::CallPath;

use crate::cmd::top::words::{clean, coding, latencies, loss, meters, nanos};
use crate::screen::{Answers, StatusLines};
use crate::voice::Voice;

const KEYS: &str =
    "m: mute or unmute   SPACE: talk while muted   + -: latency   < >: packets   q: hang up";

/// Every call, as it was told last.
pub(super) struct CallStatus {
    lines: StatusLines,
    fars: Vec<FarStatus>,
    keys: bool,
}

/// Both directions of one call.
#[derive(Default)]
struct FarStatus {
    /// Where there are several.
    name: Option<String>,
    onlookers: [Onlooker; 2],
    sent: Option<StreamSnapshot>,
    heard: Option<StreamSnapshot>,
}

impl CallStatus {
    /// Where somebody looks: there is a terminal. Of calls with these names, or of one that needs none.
    pub(super) fn on_terminal(voice: Voice, names: Vec<Option<String>>) -> Self {
        let lines = StatusLines::new(voice.target());
        let far = |name| FarStatus { name, ..FarStatus::default() };
        Self { lines, fars: names.into_iter().map(far).collect(), keys: false }
    }

    /// Whether somebody looks.
    pub(super) fn are_seen(&self) -> bool {
        self.lines.are_seen()
    }

    /// Keys are taken from now on.
    pub(super) const fn with_keys(&mut self) {
        self.keys = true;
    }

    /// Those who look at what is sent and at what is heard in this call, if anybody does.
    pub(super) fn onlookers(&self, call: usize) -> Option<[Onlooker; 2]> {
        let far = self.fars.get(call).filter(|_| self.lines.are_seen());
        far.map(|far| far.onlookers.clone())
    }

    /// For answers to what was asked.
    pub(super) fn answers(&self) -> Answers {
        self.lines.answers()
    }

    /// Takes what is drawn away, for good.
    pub(super) fn end(&mut self) {
        self.lines.end();
    }

    /// Draws how it stands by now; `microphone` is a word, and of each call it is said by what its sound goes.
    pub(super) fn show(&mut self, microphone: &str, paths: &[Option<CallPath>]) {
        let mut lines = Vec::new();
        for (far, path) in self.fars.iter_mut().zip(paths) {
            if let (true, Some(path)) = (far.look(), path) {
                lines.extend(far.name.as_deref().map(clean));
                lines.extend(page(far.sent.as_ref(), far.heard.as_ref(), (microphone, *path)));
            }
        }
        if lines.is_empty() {
            return;
        }
        if self.keys {
            lines.push(KEYS.to_owned());
        }
        self.lines.show(&lines);
    }
}

impl FarStatus {
    /// Takes what is new; whether there is anything to show.
    fn look(&mut self) -> bool {
        let newest = |onlooker: &Onlooker| onlooker.newest().and_then(the_stream);
        let [sent, heard] = self.onlookers.each_ref().map(newest);
        (self.sent, self.heard) = (sent.or(self.sent.take()), heard.or(self.heard.take()));
        self.sent.is_some() || self.heard.is_some()
    }
}

fn the_stream(snapshot: Snapshot) -> Option<StreamSnapshot> {
    snapshot.streams.into_iter().next()
}

/// A line for what is sent, three for what is heard: what matters most comes first, as terminals cut them.
fn page(
    sent: Option<&StreamSnapshot>,
    heard: Option<&StreamSnapshot>,
    (microphone, path): (&str, CallPath),
) -> Vec<String> {
    let path = path.name().to_uppercase();
    let mut lines = Vec::new();
    if let Some(sent) = sent {
        lines.push(format!("sent   {}  {microphone:<5}  {} by {path}", peaks(sent), coded(sent)));
    }
    if let Some(heard) = heard {
        lines.push(format!(
            "heard  {}  loss {}, headroom {}  {}",
            peaks(heard),
            loss(heard),
            nanos(heard.headroom_ns),
            coded(heard)
        ));
        lines.push(latencies(heard));
        if !heard.stages.is_empty() {
            lines.push(stages(heard));
        }
    }
    lines.iter().map(|line| clean(line)).collect()
}

/// Where the latency goes, in the order of travel.
fn stages(stream: &StreamSnapshot) -> String {
    let stage = |stage: &StageLength| format!("{} {}", stage.name, Nanos(stage.ns));
    format!("stages: {}", stream.stages.iter().map(stage).collect::<Vec<_>>().join(", "))
}

fn peaks(stream: &StreamSnapshot) -> String {
    stream.meters.as_deref().map_or_else(|| "–".to_owned(), |all| format!("{} dBFS", meters(all)))
}

fn coded(stream: &StreamSnapshot) -> String {
    format!("{} in packets of {}", coding(stream), Nanos(stream.ptime_ns))
}

#[cfg(test)]
mod tests {
    use tautline_engine::watching::snapshot::{LatencySnapshot, Meter, SecondCounts};

    use super::*;

    #[test]
    fn a_call_is_told_in_four_lines_whose_beginnings_fit_a_narrow_terminal() {
        let peak = |db| Meter { peak_db: Some(db), rms_db: None };
        let stream = |peaks: Vec<Meter>| StreamSnapshot {
            format: "opus".to_owned(),
            ptime_ns: 5_000_000,
            bitrate: Some(96_000),
            meters: Some(peaks),
            headroom_ns: Some(3_100_000),
            second: SecondCounts { loss_share: Some(0.0125), ..SecondCounts::default() },
            latency: LatencySnapshot {
                configured_ns: Some(15_000_000),
                measured_ns: Some(15_020_000),
                by: "device".to_owned(),
                ..LatencySnapshot::default()
            },
            stages: vec![
                StageLength { name: "pack".to_owned(), ns: 2_500_000 },
                StageLength { name: "wire".to_owned(), ns: 80_000 },
            ],
            ..StreamSnapshot::default()
        };
        let (sent, heard) =
            (stream(vec![Meter::default()]), stream(vec![peak(-12.3), peak(-30.0)]));
        let lines = page(Some(&sent), Some(&heard), ("muted", CallPath::Udp));
        assert_eq!(
            lines,
            [
                "sent             -inf dBFS  muted  opus at 96 kbit/s in packets of 5.000ms by UDP",
                "heard  ██████▍  -12.3 ████     -30.0 dBFS  loss 1.25 % –, headroom 3.100ms  opus at 96 kbit/s in packets of 5.000ms",
                "latency: 15.00ms kept; 15.020 ms by device",
                "stages: pack 2.500ms, wire 80.00us",
            ]
        );
        let seen: String = lines[1].chars().take(80).collect();
        assert!(seen.contains("headroom 3.100ms"), "{seen}");
    }
}
