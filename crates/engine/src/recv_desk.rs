//! What the ordinary thread holds of one received stream: it hears the peer, tells the device's
//! thread, keeps the books and measures.

mod need;
mod promise;
mod shape;
mod succeeding;
pub(crate) mod types;
mod wishes;

use rtrb::{Consumer, Producer};
use tautline_dsp::gain::{Gain, Volume};
use tautline_io::clock::host::host_clock;
use tautline_io::clock::{WallClock, now};
use tautline_io::control::waiter::Waiter;
use tautline_io::link::told::telling;
use tautline_io::thread::memory;
use tautline_proto::arrivals::{Arrivals, ArrivalsConfig, Standing};
use tautline_proto::device::Settings;
use tautline_proto::endpoint::{Author, Host};
use tautline_proto::faults::Faults;
use tautline_proto::ledger::Passage;
use tautline_proto::receiver::{Receiver, ReceiverConfig};
use tautline_proto::session::{Event, Session, SessionConfig};
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::wire::rtcp::{Announcement, Effective};

use crate::books::Books;
use crate::ledger_file::LedgerFile;
use crate::link_news::LinkNews;
use crate::machine;
use crate::own::Own;
use crate::paths::Paths;
use crate::pending::Pending;
use crate::plan::{LatencyRule, StreamPlan, least_latency, packets_within};
use crate::recent::Recent;
use crate::repairable::Repairable;
use crate::run::{RunError, Watch};
use crate::rx::{Command, Incoming, RxStatus, VOLUME_RAMP};
use crate::session::{Audience, Talk};
use crate::sound::{Found, Hearing, Measurement, PacketTap};
use crate::summary;
use need::Needs;

/// What the ordinary thread holds of one stream.
pub(crate) struct Desk {
    pub(crate) address: String,
    /// Its gain in the mix.
    pub(crate) own: Own,
    config: ReceiverConfig,
    rule: LatencyRule,
    pub(crate) talk: Talk,
    commands: Producer<Command>,
    passages: Consumer<Passage>,
    status: Consumer<RxStatus>,
    /// Where the card can be heard.
    pub(crate) measurement: Option<Measurement>,
    pub(crate) books: Books,
    arrivals: Arrivals,
    /// Whose packets are heard, and since when.
    heard: Option<u32>,
    heard_since: LocalTime,
    /// When its packets came last. Where they do not go on coming, another sender may follow, and
    /// reports before its first packet.
    pub(crate) recent: Recent,
    /// Answers about a sender's clock that were not believed, and its steps: of the worst of those
    /// that were heard.
    refused_exchanges: u32,
    clock_steps: u32,
    announced: Option<Announcement>,
    /// What the device takes from a wake-up to the end of its block, where it turned out to be more
    /// than its own buffer.
    takes: Span,
    /// What its packets need, where it announces nothing.
    needs: Needs,
    /// Hosts that were named for sending under the name of the one heard.
    strangers: Vec<Host>,
    /// The payload type that people were told of, of packets that are not taken for theirs.
    other_type_told: Option<u8>,
    /// Why it is not played: it is of another shape.
    refusal: Option<String>,
    /// Whether any of it was played.
    played: bool,
    /// The how many-th it is, for the ledger.
    pub(crate) number: usize,
    pending: Pending,
    pub(crate) link_offset: Span,
    /// The longest latency there is room for.
    longest: Span,
    /// Whether the sender said goodbye and no other followed.
    pub(crate) left: bool,
    /// Whether packets had the time to be repaired.
    repairable: Repairable,
    news: LinkNews,
}

/// A sender whose packets come for so long is no stray packet;
const SURE: Span = Span::from_millis(60);
/// for so long it is the one that is meant.
const SETTLED: Span = Span::from_secs(1);
/// So many datagrams that are no packets are no stray ones.
const STRAY: u64 = 8;

/// What the lines hold that wait for the books: a dozen times what one beat brings.
const LINES_HELD: Span = Span::from_millis(250);

/// The two ends of one stream: the ordinary thread's and the device's.
pub(crate) fn connect(
    mut stream: StreamPlan,
    mut receiver: Receiver,
    heard: Option<(Measurement, PacketTap)>,
    (number, wall, device, waiter): (usize, WallClock, &Settings, &Waiter),
) -> Result<(Desk, Incoming), RunError> {
    let format = stream.receiver.format;
    let random =
        machine::random().map_err(|error| RunError::System("reading /dev/urandom", error))?;
    if let Some(control) = &stream.control {
        waiter
            .add(&**control, number as u64)
            .map_err(|error| RunError::System("waiting for reports", error))?;
    }
    let session = Session::new(SessionConfig {
        ssrc: u32::from_ne_bytes([random[0], random[1], random[2], random[3]]),
        cname: summary::cname(&random),
        wall_offset: wall.offset(),
        host: host_clock(),
    });
    let (commands_in, commands) = memory::ring(64);
    let (passages, passages_out) = memory::ring(packets_within(LINES_HELD, format.ptime()));
    // A receiver's link hands over no packets.
    let (teller, told) = telling(1);
    stream.link.tell(teller);
    // The newest says all.
    let (status, status_out) = memory::ring(8);
    let room = format.rate.frames_within(Span::from_millis(40));
    let room = vec![0.0; format.channels.samples_in(room)].into_boxed_slice();
    let ring = least_latency(Span::ZERO, device);
    receiver.measure_unannounced(ring, stream.latency == LatencyRule::Sender);
    let longest = receiver.longest_link_offset();
    let (measurement, tap) = heard.unzip();
    let input = Incoming {
        receiver,
        link: stream.link,
        number,
        gain: stream.gain,
        volume: Volume::over(stream.gain, VOLUME_RAMP),
        gate: Volume::new(Gain::UNITY),
        tap: tap.map(|tap| (tap, room)),
        commands,
        passages,
        status,
        silent_since: LocalTime::NEVER,
        loud: LocalTime::ZERO,
        alive: false,
        muted: false,
        faults: Faults::NONE,
        unbooked: 0,
        paths: Paths::default(),
    };
    let arrivals = Arrivals::new(ArrivalsConfig {
        loss_target: stream.loss_target,
        device: *device,
        packing_age: format.ptime(),
        start: stream.receiver.link_offset,
        longest,
    });
    let link_offset = stream.receiver.link_offset;
    let desk = Desk {
        address: stream.address,
        own: Own { gain: stream.gain, muted: false },
        config: stream.receiver,
        rule: stream.latency,
        talk: Talk::new(session, stream.control, Audience::Whoever(None)),
        commands: commands_in,
        passages: passages_out,
        status: status_out,
        measurement,
        books: Books::new(),
        arrivals,
        heard: None,
        heard_since: LocalTime::ZERO,
        refused_exchanges: 0,
        clock_steps: 0,
        recent: Recent::NONE,
        announced: None,
        takes: Span::ZERO,
        needs: Needs::of(ring, LocalTime::ZERO),
        strangers: Vec::new(),
        other_type_told: None,
        refusal: None,
        played: false,
        number,
        pending: Pending::default(),
        link_offset,
        longest,
        left: false,
        repairable: Repairable::default(),
        news: LinkNews::of(told.events),
    };
    Ok((desk, input))
}

/// How the stream stands, as its arrivals want to know it.
pub(crate) fn standing(status: &RxStatus) -> Standing {
    Standing {
        late: status.counters.late,
        lost: status.counters.lost,
        starved: status.xruns,
        dropped: status.link.kernel_drops + status.link.ring_drops,
        unheard: status.counters.unheard,
        faults: status.faults,
    }
}

/// Enters one packet into the books, and into the ledger if one is written.
fn book(
    books: &mut Books,
    ledger: Option<&mut LedgerFile>,
    stream: usize,
    (passage, found): (&Passage, Option<&Found>),
) {
    books.enter(passage, found);
    if let Some(ledger) = ledger {
        ledger.passage(stream, passage, found.map(|found| found.measured));
    }
}

impl Desk {
    /// Hears the peer and answers: where it said something, or a report is due.
    pub(crate) fn converse(&mut self, device: &Settings, watch: &mut Watch) {
        let mut events = Vec::new();
        self.talk.hear(self.speaker(), |from, event| events.push((from, event)));
        self.count_lies();
        for (from, event) in events {
            self.take(from, event, device, watch);
        }
        self.tell();
        self.talk.speak();
    }

    /// One beat: empties the rings and keeps the books.
    pub(crate) fn turn(
        &mut self,
        (device, watch): (&Settings, &mut Watch),
        ledger: Option<&mut LedgerFile>,
        hearing: &Hearing,
    ) {
        self.measure(ledger, hearing);
        while let Ok(status) = self.status.pop() {
            self.books.status = Some(status);
            self.arrivals.set_repair(status.repair);
            self.arrivals.stand(standing(&status), |from, to| watch.witness.overlaps(from, to));
            self.left = status.said_goodbye;
            self.follow_source(&status, device, watch);
            self.follow_device(&status, device, watch);
            self.follow_need(&status);
            self.note_stranger(&status, watch);
            self.note_other_type(&status, watch);
            self.note_reach(&status, watch);
        }
        self.news.hear(&self.address, |note| watch.note(note));
        self.news.error(&self.address, 0).into_iter().for_each(|error| watch.note(error));
        self.adapt();
        self.note_need(watch);
        self.note_repair(watch);
    }

    /// The latency that is kept, if it follows the packets.
    pub(crate) fn auto(&self) -> Option<Span> {
        (self.rule == LatencyRule::Arrivals).then_some(self.link_offset)
    }

    /// Follows what arrivals ask for, where nobody else says what the latency is.
    fn adapt(&mut self) {
        let quiet = self.books.status.is_some_and(|status| status.quiet);
        let offset = self.arrivals.poll(now(), quiet);
        let follows = self.rule == LatencyRule::Arrivals && offset != self.link_offset;
        // Where the ring is full, at the next turn.
        if follows && self.commands.push(Command::LinkOffset(offset)).is_ok() {
            self.link_offset = offset;
        }
    }

    /// The last round, when the device has stopped: what is still to be found is found, and the
    /// peer is told goodbye.
    pub(crate) fn finish(
        &mut self,
        watch: &Watch,
        mut ledger: Option<&mut LedgerFile>,
        hearing: &Hearing,
    ) {
        self.arrivals.finish(|from, to| watch.witness.overlaps(from, to));
        let Self { measurement, books, pending, number, .. } = self;
        if let Some(measurement) = measurement {
            measurement.finish(hearing, &mut |found| {
                books.found(found);
                pending.found(found, |passage, found| {
                    book(books, ledger.as_deref_mut(), *number, (passage, found));
                });
            });
            books.unfound.add(measurement.take_unfound());
        }
        pending.finish(|passage, found| {
            book(books, ledger.as_deref_mut(), *number, (passage, found));
        });
        self.talk.leave();
    }

    /// Whether the stream is over: its sender said goodbye, or was heard and is silent for so long
    /// that its goodbye must have been lost.
    pub(crate) fn is_over(&self, now: LocalTime) -> bool {
        self.left || self.recent.is_gone(now)
    }

    /// What the sender announces whose packets go on coming, where that is refused for its shape.
    pub(crate) fn refused(&self) -> Option<Announcement> {
        self.announced.filter(|_| self.refusal.is_some() && !self.left && self.is_heard_for(SURE))
    }

    /// Whether a sender was heard long enough that nothing else is waited for.
    pub(crate) fn is_settled(&self) -> bool {
        self.refusal.is_none() && self.is_heard_for(SETTLED)
    }

    /// Whether packets came for so long of the one that is heard.
    fn is_heard_for(&self, long: Span) -> bool {
        self.heard.is_some() && self.recent.last() - self.heard_since >= long
    }

    /// Whether datagrams come that are no packets of the expected shape, and nothing else does.
    pub(crate) fn reads_nothing(&self) -> bool {
        let invalid = self.books.status.map_or(0, |status| status.counters.invalid_total());
        self.heard.is_none() && invalid >= STRAY
    }

    fn measure(&mut self, mut ledger: Option<&mut LedgerFile>, hearing: &Hearing) {
        let Self { measurement, books, arrivals, pending, number, passages, .. } = self;
        if let Some(measurement) = measurement {
            measurement.listen();
        }
        // What comes before the sender says what it is is not counted: it may be noise here.
        let refused = self.refusal.is_some();
        // So may what somebody announced of whom no packet has come.
        let fits = self.heard.is_some() && self.announced.is_some() && !refused;
        while let Ok(passage) = passages.pop() {
            if refused {
                // What is not played says nothing.
                continue;
            }
            self.played |= fits && !passage.late;
            books.promise(&passage);
            arrivals.enter(&passage);
            let may_be_found = match measurement {
                Some(measurement) if !passage.late => measurement.expect(&passage, hearing),
                _ => false,
            };
            if may_be_found {
                pending.push(passage, |passage, found| {
                    book(books, ledger.as_deref_mut(), *number, (passage, found));
                });
            } else {
                book(books, ledger.as_deref_mut(), *number, (&passage, None));
            }
        }
        if let Some(measurement) = measurement {
            measurement.search(hearing, &mut |found| {
                books.found(found);
                pending.found(found, |passage, found| {
                    book(books, ledger.as_deref_mut(), *number, (passage, found));
                });
            });
            books.unfound.add(measurement.take_unfound());
        }
    }

    /// Who is answered alone: the one whose packets come.
    fn speaker(&self) -> Option<u32> {
        self.heard.filter(|_| self.recent.is_lively() && !self.left)
    }

    /// Takes what the session counted of the one that is heard, which it forgets with a goodbye.
    fn count_lies(&mut self) {
        let (Some(ssrc), session) = (self.heard, &self.talk.session) else { return };
        self.refused_exchanges = self.refused_exchanges.max(session.refused_exchanges(ssrc));
        self.clock_steps = self.clock_steps.max(session.clock_steps(ssrc));
    }

    /// Whether what `ssrc` says is of the stream that is heard or still sounds, or may be before one is.
    /// Another that follows is asked what it said as its first packet comes.
    fn concerns(&self, ssrc: u32) -> bool {
        let sounds = self.heard.filter(|_| self.recent.sounds(self.link_offset));
        sounds.is_none_or(|heard| heard == ssrc)
    }

    fn take(&mut self, host: Host, event: Event, device: &Settings, watch: &mut Watch) {
        let author = |ssrc| Author { ssrc, host };
        let command = match event {
            Event::Mapped { ssrc, mapping } => {
                if self.concerns(ssrc) {
                    self.books.clock = Some(mapping);
                }
                Command::Clock(author(ssrc), mapping)
            }
            Event::Captured { ssrc, rtp_timestamp, wall } => {
                Command::Captured(author(ssrc), rtp_timestamp, wall)
            }
            Event::Left { ssrc } => Command::Left(author(ssrc)),
            Event::Announced { ssrc, announcement } => {
                if self.concerns(ssrc) {
                    self.heed((author(ssrc), announcement), device, watch);
                }
                return;
            }
            Event::Reception { .. } | Event::Effective { .. } | Event::Losses { .. } => return,
        };
        // The device's thread empties this ring each period; if it does not run, nothing is lost
        // that the next report does not bring again.
        let _ = self.commands.push(command);
    }

    /// Tells the session how the stream arrives.
    fn tell(&mut self) {
        let Some(mut receiving) = self.books.status.and_then(|status| status.receiving) else {
            return;
        };
        let (recent, needed) = (self.books.recent(), self.arrivals.needed());
        let played = self.books.clock.filter(|_| self.refusal.is_none());
        // Where all is late nothing is played, and what is needed is to be known the more.
        let told = played.filter(|_| recent.or(needed).is_some());
        receiving.effective = told.map(|clock| Effective {
            ssrc: receiving.ssrc,
            configured: self.link_offset,
            effective: recent.unwrap_or(Span::ZERO),
            uncertainty: clock.uncertainty,
            needed,
        });
        self.talk.session.set_receiving(receiving);
    }

    pub(crate) fn report(&self, notes: &mut Vec<String>) -> crate::report::Stream {
        notes.extend(self.untold_need());
        let stream = summary::Received {
            address: &self.address,
            config: &self.config,
            link_offset: self.link_offset,
            rule: self.rule,
            books: &self.books,
            arrivals: &self.arrivals,
            invalid_reports: self.talk.invalid,
            foreign_reports: self.talk.session.foreign(),
            refused_exchanges: self.refused_exchanges,
            clock_steps: self.clock_steps,
            refusal: self.refusal.as_ref().filter(|_| !self.played),
            announced: self.announced.map(|announced| announced.format),
        };
        stream.report(notes)
    }
}
