//! All streams that are received, and when each is seen to.
//!
//! A stream converses when its peer said something or its own report is due, whoever else has news; the
//! rings of all are emptied once a beat. So what a stream costs does not depend on how many there are.

use tautline_io::clock::now;
use tautline_proto::clock::ClockSource;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::wire::rtcp::Announcement;

use crate::control::{RecvChange, Requests};
use crate::receiving::change::Changes;
use crate::receiving::doubt::Doubt;
use crate::receiving::stream::ReceivedStream;
use crate::watching::ledger_file::LedgerFile;
use crate::watching::machine;
use crate::watching::note::Note;
use crate::watching::report::{End, Report, Stream};
use crate::watching::run::{KnownClock, Peer, Progress, Watch};
use crate::watching::sound::Hearing;
use tautline_proto::receiving::recent::Recent;

/// What the ordinary thread of a receiver works with.
pub(crate) struct ReceivedStreams {
    streams: Vec<ReceivedStream>,
    changes: Changes,
    hearing: Hearing,
    ledger: Option<LedgerFile>,
    pub(crate) watch: Watch,
    /// When the rings are emptied next.
    beat: LocalTime,
    /// Since when all streams are over.
    quiet_since: Option<LocalTime>,
    /// Whether it is past doubt that what it was laid out for is to be heard.
    settled: bool,
}

impl ReceivedStreams {
    pub(crate) fn open(
        streams: Vec<ReceivedStream>,
        changes: Changes,
        (hearing, ledger): (Hearing, Option<LedgerFile>),
        watch: Watch,
    ) -> Self {
        let beat = LocalTime::ZERO;
        let (quiet_since, settled) = (None, false);
        Self { streams, changes, hearing, ledger, watch, beat, quiet_since, settled }
    }

    /// Waits until there is something to do, and does it. Tells whether that was a beat.
    pub(crate) fn work(&mut self) -> bool {
        self.converse_until(self.beat);
        if now() < self.beat {
            return false;
        }
        self.beat = self.watch.beat();
        self.changes.serve(&mut self.streams);
        self.changes.refill();
        self.keep_statistics();
        let hearing = &self.hearing;
        self.changes.close_gone(&mut self.streams, &mut self.watch, self.ledger.as_mut(), hearing);
        true
    }

    /// Waits until a peer says something, a report is due, or `until`, and lets the streams hear and
    /// speak that this concerns: how many that were.
    pub(crate) fn converse_until(&mut self, until: LocalTime) -> usize {
        let due = self.all().map(|stream| stream.conversation.session.deadline());
        let speaking = self.changes.waiter.wait(due.fold(until, LocalTime::min));
        let (now, mut conversing) = (now(), 0);
        let Self { streams, changes, watch, .. } = self;
        for stream in streams.iter_mut().chain(changes.heirs_mut()) {
            let spoken_to = speaking.binary_search(&(stream.number as u64)).is_ok();
            if spoken_to || stream.conversation.session.deadline() <= now {
                stream.converse(watch);
                conversing += 1;
            }
        }
        conversing
    }

    fn keep_statistics(&mut self) {
        let Self { streams, changes, hearing, ledger, watch, .. } = self;
        watch.look();
        // Before the packets' lines: what was heard by now has its line there.
        hearing.listen();
        for stream in streams.iter_mut().chain(changes.heirs_mut()) {
            stream.turn(watch, ledger.as_mut(), hearing);
        }
        hearing.forget();
        // The sound goes on without it.
        if let Some(flaw) = ledger.as_ref().and_then(LedgerFile::flaw) {
            watch.note(&Note::Unwritten(&flaw));
        }
    }

    /// Everything once, for every stream.
    pub(crate) fn turn(&mut self) {
        let Self { streams, changes, watch, .. } = self;
        for stream in streams.iter_mut().chain(changes.heirs_mut()) {
            stream.converse(watch);
        }
        self.keep_statistics();
    }

    /// Those that have a place, and those that are to have one.
    fn all(&self) -> impl Iterator<Item = &ReceivedStream> {
        self.streams.iter().chain(self.changes.heirs())
    }

    /// Whether every stream has ended and was heard to its end.
    pub(crate) fn is_over(&mut self) -> bool {
        let now = now();
        if !self.all().all(|stream| stream.policy.is_over(now)) {
            self.quiet_since = None;
            return false;
        }
        // The last frames are heard one latency after the last packet was captured.
        let longest = self.streams.iter().map(|stream| stream.policy.link_offset()).max();
        let since = *self.quiet_since.get_or_insert(now);
        now - since > longest.unwrap_or(Span::ZERO) + Span::from_millis(100)
    }

    /// What the run is to begin anew with, where it was laid out for another stream than comes.
    pub(crate) fn another(&mut self, doubt: &Doubt<'_>) -> Option<Option<Announcement>> {
        // What somebody changed, or a sender has filled, is not thrown away.
        self.settled |=
            self.changes.made || self.streams.iter().any(|stream| stream.policy.is_settled());
        if self.settled {
            return None;
        }
        if let Some(theirs) = self.streams.iter().find_map(|stream| stream.policy.refused()) {
            self.settled = !(doubt.playable)(&theirs);
            return (!self.settled).then_some(Some(theirs));
        }
        let read_nothing =
            doubt.hearsay && self.streams.iter().any(|stream| stream.policy.reads_nothing());
        read_nothing.then_some(None)
    }

    /// The changes that are listened to.
    pub(crate) fn take_requests(&mut self) -> Option<Requests<RecvChange>> {
        self.changes.requests.take()
    }

    pub(crate) fn progress(&self) -> Progress<'_> {
        let elapsed = now() - self.watch.began;
        let (notes, refused) = (&self.watch.notes, Some(&self.watch.refused));
        let mut progress = Progress { elapsed, notes, refused, ..Progress::default() };
        let mut seen = false;
        for stream in &self.streams {
            progress.link_offset = progress.link_offset.max(stream.policy.link_offset());
            let Some(status) = &stream.statistics.status else { continue };
            seen = true;
            progress.packets += status.stream.counters.received;
            progress.missed += status.stream.counters.lost + status.stream.counters.late;
            progress.late += status.stream.counters.late;
            progress.resyncs += status.stream.counters.resyncs;
            progress.xruns = status.stream.counters.xruns;
            progress.known =
                progress.known.or(stream.statistics.clock.as_ref().map(KnownClock::of));
            progress.auto = progress.auto.or(stream.policy.auto());
            let (latency, heard) = stream.statistics.latency();
            if let (None, Some(median), Some(clock)) =
                (progress.latency, latency.median(), stream.statistics.clock)
            {
                // The sound is placed on whole frames.
                let rounding = status.stream.format.rate.span_of(Frames::new(1)).half();
                progress.latency = Some((median, clock.uncertainty + rounding));
                progress.heard = heard;
                let kept = matches!(clock.source, ClockSource::System | ClockSource::Ptp);
                progress.clock = kept.then(|| clock.source.name());
            }
        }
        if seen {
            progress.peer = self.peer();
        }
        progress
    }

    /// How it stands with the senders.
    fn peer(&self) -> Peer {
        let sounded =
            self.streams.iter().map(|stream| stream.policy.recent()).filter(|recent| recent.any());
        let silences = sounded.clone().filter_map(Recent::silent);
        match (sounded.count(), silences.clone().min()) {
            (0, _) => Peer::Awaited,
            (_, None) => Peer::Here,
            (of, Some(since)) => Peer::Silent { since, silent: silences.count(), of },
        }
    }

    /// Says goodbye to all, and reports. `over`: it ended as all streams had.
    pub(crate) fn close(mut self, ended: LocalTime, scheduler: String, over: bool) -> Report {
        for stream in &mut self.streams {
            stream.finish(&mut self.watch, self.ledger.as_mut(), &self.hearing);
        }
        let Self { streams, changes, ledger, mut watch, .. } = self;
        let unwritten: Vec<_> = ledger.and_then(LedgerFile::finish).into_iter().collect();
        unwritten.iter().for_each(|flaw| watch.note(&Note::Unwritten(flaw)));
        let playing = streams.iter().map(|stream| {
            let ended =
                over.then_some(if stream.policy.has_left() { End::Goodbye } else { End::Silence });
            Stream { ended, ..stream.report(&mut watch) }
        });
        let mut reports: Vec<_> = playing.collect();
        reports.extend(changes.closed());
        Report {
            schema: 1,
            role: "recv",
            duration_ns: (ended - watch.began).as_nanos(),
            streams: reports,
            host: machine::host(scheduler, watch.witness.book().total(), watch.refused),
            unwritten,
            notes: watch.notes,
        }
    }
}
