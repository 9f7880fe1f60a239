//! Log of `taut work`, and rejections of `taut serve`, with a limit during floods.
//!
//! Any thread adds lines without waiting; the command's own thread prints them.

use core::mem;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use tautline_api::v1::WorkStreamState;
use tautline_host::workshop::{StreamOver, WorkNews};
use tautline_proto::text::printable;
use tautline_proto::time::{LocalTime, Span};
use tautline_serving::{ApiAsker, ServingNews, TurnedAway};

use crate::messages::times;
use crate::voice::Voice;

/// Interval of a repeated sentence. It is printed once, and then with its count.
const WINDOW: Span = Span::from_secs(10);
/// Maximum different sentences of one kind per window: a studio session opens as many streams
/// together.
const MAX_ALIKE: usize = 32;
const MAX_KEPT: usize = 256;
/// Maximum characters of a sentence. Plugin names come from clients.
const MAX_CHARS: usize = 400;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LineKind {
    Opened,
    Refused,
    TurnedAway,
    CloseDenied,
    BegunAnew,
    Abandoned,
    Ended,
}

impl LineKind {
    const fn plural(self) -> &'static str {
        match self {
            Self::Opened => "streams opened",
            Self::Refused => "streams rejected",
            Self::TurnedAway => "connections rejected",
            Self::CloseDenied => "requests to end other clients' streams denied",
            Self::BegunAnew => "streams restarted",
            Self::Abandoned => "streams given up",
            Self::Ended => "streams ended",
        }
    }
}

#[derive(Debug)]
struct RecentMessages {
    since: LocalTime,
    sentences: Vec<(String, u64)>,
    others: u64,
}

#[derive(Debug)]
struct Opener {
    name: String,
    closed_by: Option<String>,
}

#[derive(Debug)]
pub(in crate::cmd) struct WorkLog {
    voice: Voice,
    lately: BTreeMap<LineKind, RecentMessages>,
    lines: VecDeque<String>,
    openers: BTreeMap<u32, Opener>,
}

impl WorkLog {
    pub(in crate::cmd) const fn new(voice: Voice) -> Self {
        Self { voice, lately: BTreeMap::new(), lines: VecDeque::new(), openers: BTreeMap::new() }
    }

    pub(in crate::cmd) fn served(&mut self, news: &ServingNews, now: LocalTime) {
        match news {
            ServingNews::Opened { by, stream } => self.opened(by, stream, now),
            ServingNews::Refused { by, plugin, why } => {
                let sentence = format!("{by}: no stream of {plugin}: {why}");
                self.emit(LineKind::Refused, &sentence, now);
            }
            ServingNews::Closing { by, id } => {
                if let Some(opener) = self.openers.get_mut(id) {
                    opener.closed_by = Some(by.to_string());
                }
            }
            ServingNews::CloseDenied { by, id } => {
                let opener = self.opener(*id);
                let sentence = format!("{by} is not allowed to end stream {id}{opener}");
                self.emit(LineKind::CloseDenied, &sentence, now);
            }
            ServingNews::TurnedAway { address, why } => self.turned_away(*address, *why, now),
        }
    }

    pub(super) fn opened_by(&self, id: u32) -> Option<&str> {
        self.openers.get(&id).map(|opener| opener.name.as_str())
    }

    fn opener(&self, id: u32) -> String {
        self.openers.get(&id).map_or(String::new(), |opener| format!(" of {}", opener.name))
    }

    fn opened(&mut self, by: &ApiAsker, stream: &WorkStreamState, now: LocalTime) {
        let WorkStreamState { id, plugin, rate, max_frames, udp_port, share, .. } = stream;
        self.openers.insert(*id, Opener { name: by.to_string(), closed_by: None });
        let sentence = format!("stream {id} opens for {by}: {plugin} at {rate} Hz");
        if self.emit(LineKind::Opened, &sentence, now) && self.voice == Voice::Verbose {
            self.keep(&format!(
                "stream {id}: UDP port {udp_port}, at most {max_frames} frames per run, {:.1} % of a core",
                share * 100.0
            ));
        }
    }

    fn turned_away(&mut self, address: IpAddr, why: TurnedAway, now: LocalTime) {
        let sentence = format!("{} is rejected: {why}", address.to_canonical());
        self.emit(LineKind::TurnedAway, &sentence, now);
    }

    pub(super) fn worked(&mut self, news: &WorkNews, now: LocalTime) {
        let (WorkNews::BegunAnew(state) | WorkNews::Abandoned(state) | WorkNews::Ended(state, _)) =
            news;
        let id = state.id;
        let opener = self.opener(id);
        let (plugin, why) = (&state.plugin, state.reason.as_deref().unwrap_or("unknown reason"));
        let (kind, sentence) = match news {
            WorkNews::BegunAnew(_) => {
                (LineKind::BegunAnew, format!("stream {id}{opener} is restarted: {plugin}: {why}"))
            }
            WorkNews::Abandoned(state) => {
                let sentence = format!(
                    "stream {id}{opener} is given up after {} restarts: {plugin}: {why}",
                    state.restarts
                );
                (LineKind::Abandoned, sentence)
            }
            WorkNews::Ended(state, how) => {
                let closed_by = self.openers.remove(&id).and_then(|opener| opener.closed_by);
                let how = match (how, closed_by) {
                    (StreamOver::Closed, Some(by)) => format!(", closed by {by}"),
                    (StreamOver::Closed, None) => String::new(),
                    (StreamOver::MadeRoom, _) => " to make room: no packets for long".to_owned(),
                    (StreamOver::WorkerEnds, _) => " with the worker".to_owned(),
                };
                let counters = &state.counters;
                let sentence = format!(
                    "stream {id}{opener} ends{how}: {plugin} at {} Hz, {} blocks processed, {} missed",
                    state.rate, counters.blocks, counters.expired
                );
                (LineKind::Ended, sentence)
            }
        };
        self.emit(kind, &sentence, now);
    }

    /// Returns `false` if the line is only counted.
    fn emit(&mut self, kind: LineKind, sentence: &str, now: LocalTime) -> bool {
        self.log_omitted(now);
        let sentence = printable(sentence, MAX_CHARS);
        let fresh = || RecentMessages { since: now, sentences: Vec::new(), others: 0 };
        let lately = self.lately.entry(kind).or_insert_with(fresh);
        if let Some((_, again)) = lately.sentences.iter_mut().find(|(said, _)| *said == sentence) {
            *again += 1;
            return false;
        }
        if lately.sentences.len() == MAX_ALIKE {
            lately.others += 1;
            return false;
        }
        lately.sentences.push((sentence.clone(), 0));
        self.keep(&sentence);
        true
    }

    fn log_omitted(&mut self, now: LocalTime) {
        let is_over = |lately: &RecentMessages| now - lately.since >= WINDOW;
        let (over, on) = mem::take(&mut self.lately).into_iter().partition(|(_, it)| is_over(it));
        self.lately = on;
        let over: BTreeMap<LineKind, RecentMessages> = over;
        for (kind, RecentMessages { sentences, others, .. }) in over {
            for (sentence, again) in sentences.into_iter().filter(|(_, again)| *again > 0) {
                let again = times(again);
                self.keep(&format!("{again} more within {WINDOW}: {sentence}"));
            }
            if others > 0 {
                self.keep(&format!("{others} more {} within {WINDOW}", kind.plural()));
            }
        }
    }

    fn keep(&mut self, line: &str) {
        // On a blocked terminal, the first lines are as useful as the last.
        if self.voice != Voice::Quiet && self.lines.len() < MAX_KEPT {
            self.lines.push_back(line.to_owned());
        }
    }

    pub(super) fn due(&mut self, now: LocalTime) -> VecDeque<String> {
        self.log_omitted(now);
        mem::take(&mut self.lines)
    }
}

#[cfg(test)]
mod tests {
    use tautline_proto::text::is_printable;
    use tautline_trial::snapshot;

    use super::*;

    fn at(seconds: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_secs(seconds)
    }

    fn stranger(last: u8) -> ServingNews {
        let address = [10, 0, 0, last].into();
        ServingNews::TurnedAway { address, why: TurnedAway::NotTrusted }
    }

    #[test]
    fn repeated_stranger_is_logged_once_then_counted() {
        let mut log = WorkLog::new(Voice::Usual);
        (0..1000).for_each(|_| log.served(&stranger(7), at(1)));
        let said = log.due(at(1));
        assert_eq!(said.len(), 1, "{said:?}");
        snapshot!(said[0]);
        assert!(log.due(at(10)).is_empty());
        let said = log.due(at(11));
        assert_eq!(said.len(), 1, "{said:?}");
        snapshot!(said[0]);
        assert!(log.due(at(60)).is_empty());
        log.served(&stranger(7), at(61));
        assert_eq!(log.due(at(61)).len(), 1, "later it is told again");
    }

    #[test]
    fn strangers_from_everywhere_do_not_flood_the_terminal() {
        let mut log = WorkLog::new(Voice::Usual);
        (0..200).for_each(|last| log.served(&stranger(last), at(1)));
        assert_eq!(log.due(at(1)).len(), MAX_ALIKE);
        let said = log.due(at(11));
        assert_eq!(said, [format!("{} more connections rejected within 10s", 200 - MAX_ALIKE)]);
    }

    fn stream(id: u32) -> WorkStreamState {
        let state = r#"{"plugin":"a:b","rate":48000,"max_frames":64,"udp_port":1,"phase":"running","reason":null,
            "restarts":0,"epoch":0,"dirty":false,"latency_frames":0,"core":null,"share":0.1,"counters":{}}"#;
        let mut state: serde_json::Value = serde_json::from_str(state).unwrap();
        state["id"] = id.into();
        serde_json::from_value(state).unwrap()
    }

    #[test]
    fn the_party_that_ends_a_stream_is_logged() {
        let mut log = WorkLog::new(Voice::Usual);
        let by =
            |name: &str| ApiAsker { name: Some(name.to_owned()), address: [10, 0, 0, 2].into() };
        let opened = ServingNews::Opened { by: by("desk"), stream: Box::new(stream(3)) };
        log.served(&opened, at(1));
        log.served(&ServingNews::CloseDenied { by: by("rack"), id: 3 }, at(2));
        log.served(&ServingNews::Closing { by: by("this machine"), id: 3 }, at(3));
        log.worked(&WorkNews::Ended(stream(3), StreamOver::Closed), at(3));
        let said = log.due(at(3)).into_iter().skip(1).collect::<Vec<_>>();
        snapshot!(said.join("\n"));
        assert!(log.openers.is_empty());
    }

    #[test]
    fn client_text_makes_no_extra_or_long_log_lines() {
        let mut log = WorkLog::new(Voice::Usual);
        let by = ApiAsker { name: None, address: [127, 0, 0, 1].into() };
        let plugin = format!("a\ntaut: \u{1b}[31m{}", "x".repeat(70_000));
        log.served(&ServingNews::Refused { by, plugin, why: "no".into() }, at(1));
        let said = log.due(at(1));
        assert!(said[0].chars().all(is_printable), "{said:?}");
        assert_eq!(said[0].chars().count(), MAX_CHARS);
    }

    #[test]
    fn quiet_log_keeps_nothing_and_blocked_terminal_a_bounded_part() {
        let mut quiet = WorkLog::new(Voice::Quiet);
        quiet.served(&stranger(1), at(1));
        assert!(quiet.due(at(100)).is_empty());
        let mut usual = WorkLog::new(Voice::Usual);
        (0..100_000).for_each(|second| usual.served(&stranger((second % 256) as u8), at(second)));
        assert_eq!(usual.lines.len(), MAX_KEPT);
    }
}
