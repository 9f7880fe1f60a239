//! Status of calls on the terminal.

use tautline_call::{CallView, Standing};
use tautline_io::terminal::is_in_front;
use tautline_report::snapshot::{StageLength, StreamSnapshot};
use tautline_report::text::{self, Nanos};

use crate::cmd::top::messages::{clean, coding, latencies, loss, meters, nanos};
use crate::screen::{Answers, StatusLines};
use crate::voice::Voice;

pub(in crate::cmd) struct CallStatus {
    lines: StatusLines,
    keys: Option<&'static str>,
}

impl CallStatus {
    pub(in crate::cmd) fn on_terminal(voice: Voice) -> Self {
        Self { lines: StatusLines::new(voice.target()), keys: None }
    }

    pub(in crate::cmd) fn are_seen(&self) -> bool {
        self.lines.are_seen()
    }

    pub(in crate::cmd) const fn with_keys(&mut self, keys: &'static str) {
        self.keys = Some(keys);
    }

    pub(in crate::cmd) fn answers(&self) -> Answers {
        self.lines.answers()
    }

    pub(in crate::cmd) fn end(&mut self) {
        self.lines.end();
    }

    /// Draws nothing without lines, or while a shell has the terminal (job control).
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

/// Empty before sound. `microphone` is a word. Names the peer if there are `several` calls.
/// Terminals wrap lists and cut other lines, so the key figures come first.
pub(in crate::cmd) fn page(view: &CallView<'_>, several: bool, microphone: &str) -> Vec<String> {
    let name = several.then(|| clean(view.peer));
    let path = match view.standing {
        Standing::None => return Vec::new(),
        Standing::Held => {
            let whose = name.map_or(String::new(), |name| name + ": ");
            return vec![format!("{whose}without sound")];
        }
        Standing::By(path) => path.name().to_uppercase(),
    };
    let mut lines = Vec::new();
    if let Some(sent) = view.sent {
        let counts = [("receiver_repaired", "repaired"), ("receiver_late", "late")];
        let counts = counts.map(|(counter, name)| (sent.count(counter), name));
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts: Vec<_> = counts.map(|(count, name)| format!("{count} {name}")).collect();
        let repaired = match counts.as_slice() {
            [] => String::new(),
            counts => format!(" ({})", counts.join(", ")),
        };
        let lost = sent.second.loss_share.map(|_| format!("  loss {}{repaired}", loss(sent)));
        lines.push(format!(
            "sent   {}  {microphone:<5}{}  {} via {path}",
            peaks(sent),
            lost.unwrap_or_default(),
            coded(sent)
        ));
    }
    if let Some(received) = view.received {
        lines.push(format!(
            "heard  {}  loss {}, headroom {}  {}",
            peaks(received),
            loss(received),
            nanos(received.headroom_ns),
            coded(received)
        ));
        lines.push(text::missed(received, view.sent));
        // Each direction has its own latency.
        lines.push(format!("heard {}", latencies(received)));
        let sent = view.sent.filter(|sent| sent.latency.measured_ns.is_some());
        lines.extend(sent.map(|sent| format!("sent {}", latencies(sent))));
        if !received.stages.is_empty() {
            lines.push(stages(received));
        }
    }
    let name = name.filter(|_| !lines.is_empty());
    name.into_iter().chain(lines.iter().map(|line| clean(line))).collect()
}

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
    use tautline_proto::call::terms::CallPath;
    use tautline_trial::snapshot;

    use tautline_report::GapReport;
    use tautline_report::snapshot::{LatencySnapshot, Meter, SecondCounts, StreamState};

    use super::*;

    #[test]
    fn call_status_has_lines_that_fit_a_narrow_terminal() {
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
                method: "device".to_owned(),
                ..LatencySnapshot::default()
            },
            counters: [
                ("xruns", 4127),
                ("repaired", 293),
                ("receiver_repaired", 12),
                ("receiver_late", 7),
            ]
            .map(|(name, count)| (name.to_owned(), count))
            .into(),
            gaps: Some(GapReport {
                late_sender: 400,
                not_sent: 61,
                late_receiver: 1060,
                late_network: 200,
                lost: 40,
                ..GapReport::default()
            }),
            stages: vec![
                StageLength { name: "pack".into(), ns: 2_500_000 },
                StageLength { name: "wire".into(), ns: 80_000 },
            ],
            ..StreamSnapshot::default()
        };
        let (sent, received) =
            (stream(vec![Meter::default()]), stream(vec![peak(-12.3), peak(-30.0)]));
        let standing = Standing::By(CallPath::Udp);
        let view =
            CallView { peer: "studio", standing, sent: Some(&sent), received: Some(&received) };
        let lines = page(&view, false, "muted");
        snapshot!(lines.join("\n"));
        let seen: String = lines[1].chars().take(80).collect();
        assert!(seen.contains("headroom 3.100ms"), "{seen}");
        assert!(lines[0].contains("(12 repaired, 7 late)"), "{}", lines[0]);
        assert!(lines[2].chars().count() <= 80, "{}", lines[2]);
        assert!(lines[2].contains("1761: 1060 here, 461 sender, 240 network"), "{}", lines[2]);
        let state = StreamState::Silent;
        let silent = StreamSnapshot { state, ..received.clone() };
        let lines = page(&CallView { received: Some(&silent), ..view }, false, "open");
        let latency = lines.iter().find(|line| line.starts_with("heard latency")).unwrap();
        assert!(latency.contains("no packets") && !latency.contains("15.020"), "{latency}");
        let faultless = StreamSnapshot::default();
        assert_eq!(text::missed(&faultless, Some(&faultless)), "missed 0");
        assert!(text::missed(&faultless, Some(&sent)).ends_with("4127 xruns here"), "of the input");
    }
}
