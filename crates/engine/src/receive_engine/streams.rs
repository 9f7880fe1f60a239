//! All received streams, and when to serve each.
//!
//! A session runs only for a received or due report; rings are emptied once per beat. So a stream's
//! cost does not depend on their number.

use tautline_io::clock::now;
use tautline_proto::clock::ClockSource;
#[cfg(test)]
use tautline_proto::endpoint::Author;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::wire::rtcp::Announcement;

use crate::monitor::ledger_file::LedgerFile;
use crate::monitor::machine;
use crate::monitor::note::Note;
use crate::monitor::observers::Observers;
use crate::monitor::run::{KnownClock, PeerState, Progress, RunWatch};
use crate::monitor::sound::Hearing;
use crate::receive_engine::Doubt;
use crate::receive_engine::change::MixChanges;
use crate::receive_engine::followed::FollowedClock;
use crate::receive_engine::labels::Labels;
use crate::receive_engine::shared::SharedLinkEnd;
use crate::receive_engine::stream::ReceivedStream;
use crate::receive_engine::zone::Zone;
use tautline_proto::receive_policy::recent::Recent;
use tautline_report::ledger::ReceivedEntry;
use tautline_report::snapshot::Snapshot;
use tautline_report::{Report, StreamReport};

const WITNESSED: Span = Span::from_millis(500);

pub(crate) struct ReceivedStreams {
    pub(crate) streams: Vec<ReceivedStream>,
    pub(crate) shared: Vec<SharedLinkEnd>,
    pub(crate) changes: MixChanges,
    pub(crate) hearing: Hearing,
    pub(crate) clock: Option<FollowedClock>,
    pub(crate) ledger: Option<LedgerFile<ReceivedEntry>>,
    pub(crate) observers: Observers,
    pub(crate) labels: Option<Labels>,
    pub(crate) zone: Option<Zone>,
    pub(crate) watch: RunWatch,
    pub(crate) beat: LocalTime,
    pub(crate) quiet_since: Option<LocalTime>,
    pub(crate) settled: bool,
}

impl ReceivedStreams {
    pub(crate) fn publish(&mut self) {
        let Self { streams, clock, zone, observers, watch, .. } = self;
        let (now, here) = (now(), observers.are_here());
        streams.iter_mut().for_each(|stream| stream.look(now, here));
        observers.notify(|| Snapshot {
            elapsed_ns: (now - watch.began).as_nanos(),
            streams: streams.iter_mut().map(|stream| stream.snapshot(now)).collect(),
            clock: clock.as_ref().map(|clock| clock.snapshot(now)),
            zone: zone.as_ref().map(|zone| zone.snapshot(now)),
            ..Snapshot::default()
        });
    }

    pub(crate) fn work(&mut self) -> bool {
        self.converse_until(self.beat);
        if now() < self.beat {
            return false;
        }
        self.beat = self.watch.beat();
        self.changes.serve(&mut self.streams);
        for id in self.changes.stopped.drain(..) {
            self.zone.iter_mut().for_each(|zone| zone.stop(id));
        }
        self.changes.repairers.refill(self.changes.count);
        self.follow_senders();
        self.keep_statistics();
        let Self { streams, changes, hearing, ledger, labels, watch, .. } = self;
        changes.close_gone(streams, watch, (ledger.as_mut(), labels.as_mut()), hearing);
        true
    }

    /// Waits for a received report, a due report or `until`. Runs these sessions and returns their
    /// number.
    pub(crate) fn converse_until(&mut self, until: LocalTime) -> usize {
        let until = self.zone.as_ref().map_or(until, |zone| zone.deadline().min(until));
        let due = self.all().map(|stream| stream.conversation.session.deadline());
        let speaking = self.changes.mix.waiter.wait(due.fold(until, LocalTime::min));
        let (now, mut conversing) = (now(), 0);
        let Self { streams, shared, changes, zone, watch, .. } = self;
        let speaks = |number: usize| speaking.binary_search(&(number as u64)).is_ok();
        shared.iter_mut().filter(|shared| speaks(shared.host)).for_each(SharedLinkEnd::read);
        for stream in streams.iter_mut().chain(changes.successors_mut()) {
            let link = stream.shares.map(|shares| &mut shared[shares.link]);
            let spoken_to = match &link {
                Some(link) => link.is_spoken_to(stream),
                None => speaks(stream.number),
            };
            if spoken_to || stream.conversation.session.deadline() <= now {
                converse(stream, link, watch);
                conversing += 1;
                zone.iter_mut().for_each(|zone| zone.follow(stream, watch));
            }
        }
        shared.iter_mut().for_each(SharedLinkEnd::put_away);
        zone.iter_mut().for_each(|zone| zone.turn(watch));
        // Its first packets may wait for a stream, and that for the station's clock.
        if zone.as_ref().is_some_and(Zone::awaits_sound) {
            self.follow_senders();
        }
        conversing
    }

    fn follow_senders(&mut self) {
        let Self { streams, shared, changes, hearing, ledger, labels, zone, watch, .. } = self;
        let latency = changes.latency_of_all.take();
        for (link, shared) in shared.iter_mut().enumerate() {
            if let Some(rule) = latency {
                shared.set_latency(rule);
            }
            // Pop ended streams first but handle new streams first: a stream must be known before
            // its removal.
            let gone: Vec<_> = std::iter::from_fn(|| shared.gone.pop().ok()).collect();
            shared.follow(streams, watch);
            for mut input in gone {
                let number = input.number;
                let Some(place) = streams.iter().position(|stream| stream.number == number) else {
                    continue;
                };
                let mut stream = streams.remove(place);
                shared.leave(&stream);
                let status = stream.statistics.status;
                let xruns = status.map_or(0, |status| status.stream.counters.xruns);
                input.notify(now(), xruns, None);
                shared.converse(&mut stream, watch);
                zone.iter_mut().for_each(|zone| zone.follow(&mut stream, watch));
                stream.turn(watch, ledger.as_mut(), hearing);
                drop(input);
                labels.iter_mut().for_each(|labels| labels.close(&mut stream));
                shared.lend(&mut stream, |stream| {
                    stream.finish(watch, ledger.as_mut(), hearing);
                });
                let end = stream.end();
                changes.keep(StreamReport { ended: Some(end), ..stream.report(watch) });
            }
            shared.refill(link, changes);
        }
        // Claims that arrived before their stream.
        if let Some(zone) = zone {
            streams.iter_mut().for_each(|stream| zone.follow(stream, watch));
            zone.turn(watch);
        }
    }

    fn keep_statistics(&mut self) {
        let Self { streams, changes, hearing, clock, ledger, labels, watch, .. } = self;
        let reported = clock.as_mut().and_then(|clock| clock.handle(|note| watch.note(note)));
        watch.look();
        hearing.listen();
        for stream in streams.iter_mut().chain(changes.successors_mut()) {
            if let Some(reported) = reported {
                stream.keep_pace(reported);
            }
            stream.turn(watch, ledger.as_mut(), hearing);
            labels.iter_mut().for_each(|labels| labels.follow(stream));
        }
        if let Some(labels) = labels {
            labels.judge(now() - WITNESSED, |from, to| watch.stall_monitor.overlaps(from, to));
        }
        hearing.forget();
        if let Some(flaw) = ledger.as_ref().and_then(LedgerFile::flaw) {
            watch.note(&Note::Unwritten(&flaw));
        }
    }

    pub(crate) fn turn(&mut self) {
        self.follow_senders();
        let Self { streams, shared, changes, watch, .. } = self;
        shared.iter_mut().for_each(SharedLinkEnd::read);
        for stream in streams.iter_mut().chain(changes.successors_mut()) {
            let link = stream.shares.map(|shares| &mut shared[shares.link]);
            converse(stream, link, watch);
        }
        shared.iter_mut().for_each(SharedLinkEnd::put_away);
        self.keep_statistics();
    }

    fn all(&self) -> impl Iterator<Item = &ReceivedStream> {
        self.streams.iter().chain(self.changes.successors())
    }

    pub(crate) fn is_over(&mut self) -> bool {
        let now = now();
        if !self.all().all(|stream| stream.policy.is_over(now)) {
            self.quiet_since = None;
            return false;
        }
        let longest = self.streams.iter().map(|stream| stream.policy.link_offset()).max();
        let since = *self.quiet_since.get_or_insert(now);
        now - since > longest.unwrap_or(Span::ZERO) + Span::from_millis(100)
    }

    #[cfg(test)]
    pub(crate) fn welcome(&mut self, author: Author) {
        let Self { streams, shared, watch, .. } = self;
        shared[0].welcome(0, author, streams, watch);
    }

    /// Returns the next run's start, if an unplanned stream arrives.
    pub(crate) fn another(&mut self, doubt: &Doubt<'_>) -> Option<Option<Announcement>> {
        // Silence proves no format: a wrong one shows with the sound.
        let disproved = |stream: &ReceivedStream| stream.policy.is_disproved();
        if doubt.proven && !self.changes.made && self.streams.iter().any(disproved) {
            return Some(None);
        }
        // A run with a settled stream, or changed by the user, is never discarded.
        self.settled |=
            self.changes.made || self.streams.iter().any(|stream| stream.policy.is_settled());
        if self.settled {
            return None;
        }
        let planned = |stream: &&ReceivedStream| stream.shares.is_none_or(|s| s.planned);
        let mut streams = self.streams.iter().filter(planned);
        if let Some(theirs) = streams.find_map(|stream| stream.policy.refused()) {
            self.settled = !(doubt.playable)(&theirs);
            return (!self.settled).then_some(Some(theirs));
        }
        let read_nothing =
            doubt.hearsay && self.streams.iter().any(|stream| stream.policy.reads_nothing());
        read_nothing.then_some(None)
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
            progress.gaps.add_counts(&stream.gaps());
            progress.repaired += status.stream.counters.repaired;
            progress.resyncs += status.stream.counters.resyncs;
            progress.xruns = status.stream.counters.xruns;
            progress.known =
                progress.known.or(stream.statistics.clock.as_ref().map(KnownClock::of));
            progress.auto = progress.auto.or(stream.policy.auto());
            let (latency, received) = stream.statistics.latency();
            if let (None, Some(median), Some(clock)) =
                (progress.latency, latency.median(), stream.statistics.clock)
            {
                // The sound search finds whole frames.
                let rounding = status.stream.format.rate.span_of(Frames::new(1)).half();
                let known = stream.statistics.known_to();
                progress.latency =
                    Some((median, known.map_or(Span::ZERO, |known| known + rounding)));
                progress.received = received;
                let kept = matches!(clock.source, ClockSource::System | ClockSource::Ptp);
                progress.clock = kept.then(|| clock.source.name());
            }
        }
        progress.missed = progress.gaps.faults().iter().sum();
        if seen {
            progress.peer = self.peer();
            progress.left = self.streams.iter().all(|stream| stream.policy.has_left());
        }
        progress
    }

    fn peer(&self) -> PeerState {
        let sounded =
            self.streams.iter().map(|stream| stream.policy.recent()).filter(|recent| recent.any());
        let silences = sounded.clone().filter_map(Recent::silent);
        match (sounded.count(), silences.clone().min()) {
            (0, _) => PeerState::Awaited,
            (_, None) => PeerState::Here,
            (of, Some(since)) => PeerState::Silent { since, silent: silences.count(), of },
        }
    }

    pub(crate) fn close(self, ended: LocalTime, scheduler: String, over: bool) -> Report {
        let Self { mut streams, mut shared, changes, hearing, mut ledger, mut watch, .. } = self;
        let (mut labels, clock) = (self.labels, self.clock);
        for stream in &mut streams {
            match stream.shares.map(|shares| &mut shared[shares.link]) {
                None => stream.finish(&mut watch, ledger.as_mut(), &hearing),
                Some(link) => link.lend(stream, |stream| {
                    stream.finish(&mut watch, ledger.as_mut(), &hearing);
                }),
            }
        }
        for stream in &mut streams {
            labels.iter_mut().for_each(|labels| labels.close(stream));
        }
        let stalled = |from, to| watch.stall_monitor.overlaps(from, to);
        let flawed = labels.and_then(|labels| labels.finish(stalled));
        let incomplete_files = ledger.and_then(LedgerFile::finish).into_iter().chain(flawed);
        let incomplete_files: Vec<_> = incomplete_files.collect();
        incomplete_files.iter().for_each(|flaw| watch.note(&Note::Unwritten(flaw)));
        let playing = streams.iter().map(|stream| {
            let ended = over.then(|| stream.end());
            let mut report = stream.report(&mut watch);
            let planned = stream.shares.filter(|shares| shares.planned);
            report.counters.over_stream_limit =
                planned.map_or(0, |shares| shared[shares.link].unplaced.packets);
            StreamReport { ended, ..report }
        });
        let mut reports: Vec<_> = playing.collect();
        let closed = changes.closed.into_iter();
        reports.extend(
            closed.map(|stream| StreamReport { ended: stream.ended.filter(|_| over), ..stream }),
        );
        Report {
            schema: 2,
            role: "recv".into(),
            started_ns: watch.began.as_nanos(),
            duration_ns: (ended - watch.began).as_nanos(),
            streams: reports,
            clock: clock.as_ref().map(FollowedClock::report),
            host: machine::host(scheduler, watch.stall_monitor.log().total(), watch.refused),
            incomplete_files,
            notes: watch.notes,
        }
    }
}

fn converse(received: &mut ReceivedStream, link: Option<&mut SharedLinkEnd>, watch: &mut RunWatch) {
    match link {
        Some(link) => link.converse(received, watch),
        None => received.converse(watch),
    }
}
