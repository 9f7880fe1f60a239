//! A receiver to which nothing comes: whether this machine's own firewall keeps it out.

use std::thread::JoinHandle;

use tautline_engine::plan::address::Resolved;
use tautline_proto::time::{LocalTime, Span};

use crate::doctor::{Awaited, firewall_keeps_out};

/// Nothing for so long is worth a look: who waits for a sender that is not there yet hears one line.
const PATIENCE: Span = Span::from_secs(3);

/// Asks once, on a thread of its own, as programs are run that know the rules.
pub(crate) struct Unheard {
    awaited: Vec<Awaited>,
    since: LocalTime,
    state: LookupState,
}

enum LookupState {
    Waits,
    Asks(JoinHandle<Option<String>>),
    Answered(Option<String>),
}

impl Unheard {
    /// Of a receiver that listens at these addresses since then.
    pub(crate) fn at<'a>(addresses: impl Iterator<Item = &'a Resolved>, since: LocalTime) -> Self {
        // No firewall stands between programs of one machine.
        // Nor before what comes without IP.
        let reached = addresses.filter_map(|address| address.media().zip(address.reports()));
        let reached = reached.filter(|(media, _)| !media.ip().is_loopback());
        let awaited = reached.map(|(media, reports)| Awaited {
            ports: [media.port(), reports.port()],
            v6: Some(media.is_ipv6()),
        });
        Self { awaited: awaited.collect(), since, state: LookupState::Waits }
    }

    /// Nothing has come by now. Tells once what may be why, as soon as that is known.
    pub(crate) fn still(&mut self, now: LocalTime) -> Option<String> {
        match &self.state {
            LookupState::Waits if now - self.since >= PATIENCE => self.ask(),
            LookupState::Asks(asking) if asking.is_finished() => {
                let blame = self.answer()?;
                return Some(format!("nothing has come for {PATIENCE}: {blame}"));
            }
            _ => {}
        }
        None
    }

    /// Nothing came at all: what may be why.
    pub(crate) fn blame(&mut self) -> Option<String> {
        if matches!(self.state, LookupState::Waits) {
            self.ask();
        }
        self.answer()
    }

    fn ask(&mut self) {
        let awaited = std::mem::take(&mut self.awaited);
        let asking = (!awaited.is_empty())
            .then(|| std::thread::Builder::new().name("taut-firewall".into()))
            .and_then(|thread| thread.spawn(move || firewall_keeps_out(&awaited)).ok());
        self.state = asking.map_or(LookupState::Answered(None), LookupState::Asks);
    }

    /// The answer, once it is there.
    fn answer(&mut self) -> Option<String> {
        let answer = match std::mem::replace(&mut self.state, LookupState::Answered(None)) {
            LookupState::Waits => None,
            // A thread that panicked has said so on its own.
            LookupState::Asks(asking) => asking.join().ok().flatten(),
            LookupState::Answered(answer) => answer,
        };
        self.state = LookupState::Answered(answer.clone());
        answer
    }
}
