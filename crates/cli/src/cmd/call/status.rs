//! How a call stands, on the terminal while it sounds.

use tautline_engine::watching::observers::Onlooker;
use tautline_engine::watching::snapshot::{Snapshot, StreamSnapshot};
use tautline_engine::watching::text::Nanos;
use tautline_proto::call::terms::CallPath;

use crate::cmd::top::words::{clean, latencies, loss, meters, nanos};
use crate::screen::{Answers, StatusLines};
use crate::voice::Voice;

const KEYS: &str = "m: mute or unmute   SPACE: talk while muted   q: hang up";

/// Both directions, as they were told last.
pub(super) struct CallStatus {
    lines: StatusLines,
    onlookers: [Onlooker; 2],
    sent: Option<StreamSnapshot>,
    heard: Option<StreamSnapshot>,
    keys: bool,
}

impl CallStatus {
    /// Where somebody looks: there is a terminal. `keys` are told if there are any.
    pub(super) fn on_terminal(voice: Voice) -> Self {
        let lines = StatusLines::new(voice.target());
        Self { lines, onlookers: Default::default(), sent: None, heard: None, keys: false }
    }

    /// Keys are taken from now on.
    pub(super) const fn with_keys(&mut self) {
        self.keys = true;
    }

    /// Those who look at what is sent and at what is heard, if anybody does.
    pub(super) fn onlookers(&self) -> Option<[Onlooker; 2]> {
        self.lines.are_seen().then(|| self.onlookers.clone())
    }

    /// For answers to what was asked.
    pub(super) fn answers(&self) -> Answers {
        self.lines.answers()
    }

    /// Takes what is drawn away, for good.
    pub(super) fn end(&mut self) {
        self.lines.end();
    }

    /// Draws how it stands by now; `microphone` is a word.
    pub(super) fn show(&mut self, microphone: &str, path: CallPath) {
        let newest = |onlooker: &Onlooker| onlooker.newest().and_then(the_stream);
        let [sent, heard] = self.onlookers.each_ref().map(newest);
        if sent.is_none() && heard.is_none() {
            return;
        }
        (self.sent, self.heard) = (sent.or(self.sent.take()), heard.or(self.heard.take()));
        let mut lines = page(self.sent.as_ref(), self.heard.as_ref(), (microphone, path));
        if self.keys {
            lines.push(KEYS.to_owned());
        }
        self.lines.show(&lines);
    }
}

fn the_stream(snapshot: Snapshot) -> Option<StreamSnapshot> {
    snapshot.streams.into_iter().next()
}

/// A line for what is sent, two for what is heard: what matters most comes first, as terminals cut them.
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
    }
    lines.iter().map(|line| clean(line)).collect()
}

fn peaks(stream: &StreamSnapshot) -> String {
    stream.meters.as_deref().map_or_else(|| "–".to_owned(), |all| format!("{} dBFS", meters(all)))
}

fn coded(stream: &StreamSnapshot) -> String {
    format!("{} in packets of {}", stream.format, Nanos(stream.ptime_ns))
}

#[cfg(test)]
mod tests {
    use tautline_engine::watching::snapshot::{LatencySnapshot, Meter, SecondCounts};

    use super::*;

    #[test]
    fn a_call_is_told_in_three_lines_whose_beginnings_fit_a_narrow_terminal() {
        let peak = |db| Meter { peak_db: Some(db), rms_db: None };
        let stream = |peaks: Vec<Meter>| StreamSnapshot {
            format: "l24".to_owned(),
            ptime_ns: 2_500_000,
            meters: Some(peaks),
            headroom_ns: Some(3_100_000),
            second: SecondCounts { loss_share: Some(0.0125), ..SecondCounts::default() },
            latency: LatencySnapshot {
                configured_ns: Some(15_000_000),
                measured_ns: Some(15_020_000),
                by: "device".to_owned(),
                ..LatencySnapshot::default()
            },
            ..StreamSnapshot::default()
        };
        let (sent, heard) =
            (stream(vec![Meter::default()]), stream(vec![peak(-12.3), peak(-30.0)]));
        let lines = page(Some(&sent), Some(&heard), ("muted", CallPath::Udp));
        assert_eq!(
            lines,
            [
                "sent             -inf dBFS  muted  l24 in packets of 2.500ms by UDP",
                "heard  ██████▍  -12.3 ████     -30.0 dBFS  loss 1.25 % –, headroom 3.100ms  l24 in packets of 2.500ms",
                "latency: 15.00ms kept; 15.020 ms by device",
            ]
        );
        let seen: String = lines[1].chars().take(80).collect();
        assert!(seen.contains("headroom 3.100ms"), "{seen}");
    }
}
