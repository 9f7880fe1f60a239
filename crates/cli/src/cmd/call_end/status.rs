//! How calls stand, on the terminal while they sound.

use tautline_engine::watching::observers::Onlooker;
use tautline_io::terminal::is_in_front;
use tautline_proto::call::terms::CallPath;
use tautline_report::snapshot::{Snapshot, StageLength, StreamSnapshot};
use tautline_report::text::Nanos;

use crate::cmd::top::words::{clean, coding, latencies, loss, meters, nanos};
use crate::screen::{Answers, StatusLines};
use crate::voice::Voice;

/// Lines about calls, and what keys do.
pub(in crate::cmd) struct CallStatus {
    lines: StatusLines,
    keys: Option<&'static str>,
}

/// Both directions of one call, as they were told last.
#[derive(Default)]
pub(in crate::cmd) struct FarStatus {
    /// Where there are several.
    name: Option<String>,
    onlookers: [Onlooker; 2],
    sent: Option<StreamSnapshot>,
    heard: Option<StreamSnapshot>,
}

impl CallStatus {
    /// Where somebody looks: there is a terminal.
    pub(in crate::cmd) fn on_terminal(voice: Voice) -> Self {
        Self { lines: StatusLines::new(voice.target()), keys: None }
    }

    pub(in crate::cmd) fn are_seen(&self) -> bool {
        self.lines.are_seen()
    }

    /// Keys are taken from now on: what they do.
    pub(in crate::cmd) const fn with_keys(&mut self, keys: &'static str) {
        self.keys = Some(keys);
    }

    /// For answers to what was asked.
    pub(in crate::cmd) fn answers(&self) -> Answers {
        self.lines.answers()
    }

    /// Takes what is drawn away, for good.
    pub(in crate::cmd) fn end(&mut self) {
        self.lines.end();
    }

    /// Draws how it stands by now: these lines, and what the keys do. Without any, and over the shell of a terminal that
    /// this program was put aside in, nothing is drawn.
    pub(in crate::cmd) fn show(&mut self, mut lines: Vec<String>) {
        if !self.are_seen() {
            return;
        }
        if !is_in_front(std::io::stderr()) {
            lines.clear();
        }
        if !lines.is_empty() {
            lines.extend(self.keys.map(str::to_owned));
        }
        self.lines.show(&lines);
    }
}

impl FarStatus {
    /// Of a call by this name, or one that needs none.
    pub(in crate::cmd) fn of(name: Option<String>) -> Self {
        Self { name, ..Self::default() }
    }

    /// Those who look at what is sent and at what is heard.
    pub(in crate::cmd) fn onlookers(&self) -> [Onlooker; 2] {
        self.onlookers.clone()
    }

    /// How it stands by now, which is nothing before it is told; `microphone` is a word, and it is said by what its sound
    /// goes.
    pub(in crate::cmd) fn page(&mut self, microphone: &str, path: CallPath) -> Vec<String> {
        let newest = |onlooker: &Onlooker| onlooker.newest().and_then(the_stream);
        let [sent, heard] = self.onlookers.each_ref().map(newest);
        (self.sent, self.heard) = (sent.or(self.sent.take()), heard.or(self.heard.take()));
        let lines = page(self.sent.as_ref(), self.heard.as_ref(), (microphone, path));
        let name = self.name.as_deref().filter(|_| !lines.is_empty()).map(clean);
        name.into_iter().chain(lines).collect()
    }

    /// That it is without sound; of what it sounded like before nothing is told again.
    pub(in crate::cmd) fn quiet(&mut self) -> Vec<String> {
        (self.sent, self.heard) = (None, None);
        // What is told late is not kept for the next sound.
        self.onlookers.iter().for_each(|onlooker| drop(onlooker.newest()));
        let whose = self.name.as_deref().map_or(String::new(), |name| clean(name) + ": ");
        vec![format!("{whose}without sound")]
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
    use tautline_trial::snapshot;

    use tautline_report::snapshot::{LatencySnapshot, Meter, SecondCounts};

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
                StageLength { name: "pack".into(), ns: 2_500_000 },
                StageLength { name: "wire".into(), ns: 80_000 },
            ],
            ..StreamSnapshot::default()
        };
        let (sent, heard) =
            (stream(vec![Meter::default()]), stream(vec![peak(-12.3), peak(-30.0)]));
        let lines = page(Some(&sent), Some(&heard), ("muted", CallPath::Udp));
        snapshot!(lines.join("\n"));
        let seen: String = lines[1].chars().take(80).collect();
        assert!(seen.contains("headroom 3.100ms"), "{seen}");
    }
}
