//! Several senders on one link: the ordinary thread's part. Receivers are prepared in advance;
//! reports go to their sender's stream.

use rtrb::{Consumer, Producer};
use tautline_io::control::Control;
use tautline_io::thread::memory;
use tautline_proto::clock::ClockMapping;
use tautline_proto::demux::Unplaced;
use tautline_proto::endpoint::Author;
use tautline_proto::latency::LatencyRule;

use crate::monitor::note::Note;
use crate::monitor::run::RunWatch;
use crate::plan::StreamPlan;
use crate::receive_engine::change::MixChanges;
use crate::receive_engine::mixer::{Fed, MixerInput, SharedLink, SharedNews};
use crate::receive_engine::sharing::{LinkShare, SharedReport};
use crate::receive_engine::stream::ReceivedStream;

impl StreamPlan {
    pub(crate) fn fed(&self) -> Self {
        let (address, receiver) = (self.address.clone(), self.receiver.clone());
        let (link, control) = (Box::new(Fed), None);
        Self { address, receiver, link, control, senders: None, carries_clock: false, ..*self }
    }
}

pub(crate) struct SharedLinkEnd {
    model: StreamPlan,
    maximum: usize,
    pub(crate) host: usize,
    pub(crate) control: Option<Box<dyn Control>>,
    said: Vec<SharedReport>,
    early: Vec<SharedReport>,
    authors: Vec<Author>,
    spares: Producer<MixerInput>,
    waiting: Vec<ReceivedStream>,
    news: Consumer<SharedNews>,
    pub(crate) gone: Consumer<MixerInput>,
    arrived: usize,
    left: usize,
    pub(crate) unplaced: Unplaced,
    reported: bool,
}

/// Minimum ready receivers: the senders that can start within a beat without loss.
const WAITING: usize = 4;
const MAX_WAITING: usize = 32;
const EARLY: usize = 64;

pub(crate) fn share(
    (model, maximum): (StreamPlan, usize),
    link: usize,
    received: &mut ReceivedStream,
    input: &mut MixerInput,
) -> (SharedLinkEnd, SharedLink) {
    let (spares, spares_out) = memory::ring(maximum.min(MAX_WAITING));
    let (news_in, news) = memory::ring(2 * MAX_WAITING);
    let (gone_in, gone) = memory::ring(MAX_WAITING);
    received.shares = Some(LinkShare { link, planned: true, author: None });
    input.shares = true;
    let shared = SharedLinkEnd {
        model,
        maximum,
        host: received.number,
        control: received.conversation.control.take(),
        said: Vec::new(),
        early: Vec::new(),
        authors: Vec::new(),
        spares,
        waiting: Vec::new(),
        news,
        gone,
        arrived: 0,
        left: 0,
        unplaced: Unplaced::default(),
        reported: false,
    };
    (shared, SharedLink::new(input.number, maximum, spares_out, news_in, gone_in))
}

impl SharedLinkEnd {
    /// Replaces taken receivers. Prepares more if many senders start together.
    pub(crate) fn refill(&mut self, link: usize, changes: &mut MixChanges) {
        let here = self.arrived - self.left;
        let wanted = if self.waiting.is_empty() { here.max(WAITING) } else { WAITING };
        // One more than can join, because the first stream keeps its place.
        while self.waiting.len() < wanted && here + self.waiting.len() < self.maximum {
            if self.spares.is_full() {
                return;
            }
            let Ok((mut received, mut input)) = changes.connect(self.model.fed()) else { return };
            received.shares = Some(LinkShare { link, planned: false, author: None });
            input.shares = true;
            let _ = self.spares.push(input);
            self.waiting.push(received);
        }
    }

    pub(crate) fn follow(&mut self, streams: &mut Vec<ReceivedStream>, watch: &mut RunWatch) {
        while let Ok(news) = self.news.pop() {
            match news {
                SharedNews::Arrived { number, stream, from } => {
                    let author = Author { ssrc: stream.ssrc(), host: from.host() };
                    self.welcome(number, author, streams, watch);
                }
                SharedNews::Unplaced(unplaced) => {
                    self.unplaced = unplaced;
                    let here = 1 + self.arrived - self.left;
                    if let (false, Some(from)) =
                        (self.reported || here < self.maximum, unplaced.from)
                    {
                        let (address, maximum) = (&*self.model.address, self.maximum);
                        watch.note(&Note::NoPlace { address, maximum, from });
                        self.reported = true;
                    }
                }
            }
        }
    }

    pub(crate) fn welcome(
        &mut self,
        number: usize,
        author: Author,
        streams: &mut Vec<ReceivedStream>,
        watch: &mut RunWatch,
    ) {
        if let Some(waiting) = self.waiting.iter().position(|spare| spare.number == number) {
            self.arrived += 1;
            streams.push(self.waiting.remove(waiting));
        }
        let clock = self.take_clock(number, author, streams);
        let Some(received) = streams.iter_mut().find(|received| received.number == number) else {
            return;
        };
        if let Some(clock) = clock {
            received.adopt(author, clock);
        }
        let Some(shares) = received.shares.as_mut() else { return };
        let before = shares.author.replace(author);
        self.authors.retain(|other| Some(*other) != before);
        self.authors.push(author);
        let early = self.early.extract_if(.., |said| said.author == author);
        received.conversation.control = self.control.take();
        received.converse_about(early.collect::<Vec<_>>().iter(), watch);
        self.control = received.conversation.control.take();
    }

    /// The clock of a station as known at an announcement port before its first packet.
    fn take_clock(
        &mut self,
        number: usize,
        author: Author,
        streams: &mut [ReceivedStream],
    ) -> Option<ClockMapping> {
        let host = streams.iter_mut().find(|stream| stream.number == self.host)?;
        if !self.model.announces {
            return None;
        }
        if number != self.host {
            host.conversation.control = self.control.take();
            host.conversation.dismiss(author.ssrc);
            self.control = host.conversation.control.take();
        }
        host.conversation.session.mapping(author.ssrc)
    }

    /// Whether `shares` answers this report: the report of its sender, or at an announcement port
    /// the report of a station that sends no packets.
    fn answers(&self, shares: &LinkShare, said: &SharedReport) -> bool {
        let idle = self.model.announces && shares.planned && !self.authors.contains(&said.author);
        idle || said.concerns(shares, &self.authors)
    }

    pub(crate) fn leave(&mut self, stream: &ReceivedStream) {
        self.left += 1;
        let author = stream.shares.and_then(|shares| shares.author);
        self.authors.retain(|other| Some(*other) != author);
    }

    pub(crate) fn set_latency(&mut self, rule: LatencyRule) {
        self.model.policy.latency = rule;
        for waiting in &mut self.waiting {
            let _ = waiting.set_latency(rule);
        }
    }

    pub(crate) fn read(&mut self) {
        let Self { control, said, .. } = self;
        if let Some(control) = control {
            control.receive(&mut |arrival| said.extend(SharedReport::of(&arrival)));
        }
    }

    pub(crate) fn put_away(&mut self) {
        let Self { said, early, .. } = self;
        early.extend(said.drain(..).filter(|said| !said.received));
        early.drain(..early.len().saturating_sub(EARLY + 2 * self.maximum));
    }

    pub(crate) fn converse(&mut self, received: &mut ReceivedStream, watch: &mut RunWatch) {
        let Some(shares) = received.shares else { return };
        received.conversation.control = self.control.take();
        let own = self.said.iter().filter(|said| self.answers(&shares, said));
        received.converse_about(own, watch);
        self.control = received.conversation.control.take();
        let Self { said, authors, .. } = self;
        let received = said.iter_mut().filter(|said| said.concerns(&shares, authors));
        received.for_each(|said| said.received = true);
    }

    pub(crate) fn is_spoken_to(&self, received: &ReceivedStream) -> bool {
        let concerns = |shares: LinkShare| self.said.iter().any(|s| self.answers(&shares, s));
        received.shares.is_some_and(concerns)
    }

    pub(crate) fn lend(
        &mut self,
        received: &mut ReceivedStream,
        speak: impl FnOnce(&mut ReceivedStream),
    ) {
        received.conversation.control = self.control.take();
        speak(received);
        self.control = received.conversation.control.take();
    }
}
