//! Receives and plays: from links and control sockets to one device, and the report of it.

use rtrb::{Consumer, Producer, RingBuffer};
use tautline_dsp::gain::{Gain, Volume};
use tautline_dsp::map::ChannelMap;
use tautline_io::clock::now;
use tautline_io::clock::WallClock;
use tautline_io::control::ControlSocket;
use tautline_io::link::Link;
use tautline_proto::device::{Device, Listener, Settings, Stop};
use tautline_proto::ledger::Passage;
use tautline_proto::receiver::{Receiver, ReceiverConfig};
use tautline_proto::session::{Event, Session, SessionConfig};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::wire::rtcp::{Announcement, Effective};

use crate::books::Books;
use crate::ledger_file::LedgerFile;
use crate::machine;
use crate::report::Report;
use crate::run::{Progress, RunError, RunOptions, Running, Watch};
use crate::rx::{Command, Incoming, Mixer, Passages, RxStatus};
use crate::select::Select;
use crate::session::{Audience, Talk, wait_for};
use crate::sound::{Measurement, PacketTap, measurement};
use crate::summary;

/// One stream to receive.
pub struct StreamPlan {
    /// As it was given, for the report.
    pub address: String,
    /// What it is and how it is to be placed.
    pub receiver: ReceiverConfig,
    /// Whether the latency was chosen here; if not, the sender's word is taken.
    pub latency_chosen: bool,
    /// Where its packets arrive.
    pub link: Box<dyn Link>,
    /// Where its reports arrive.
    pub control: ControlSocket,
    /// Its gain in the mix.
    pub gain: Gain,
}

/// What to receive and how.
pub struct RecvPlan {
    /// The streams, the most important first.
    pub streams: Vec<StreamPlan>,
    /// Which of them are heard.
    pub select: Select,
    /// Gain of all.
    pub gain: Gain,
    /// Stream channels to device channels.
    pub map: ChannelMap,
    /// How the device runs.
    pub device: Settings,
    /// Ends when every sender has said goodbye and all is played.
    pub until_bye: bool,
    /// Writes the ledger of every packet here.
    pub ledger: Option<std::path::PathBuf>,
}

/// Hears what the device plays, for every stream.
struct Ears(Vec<crate::sound::Ear>);

impl Listener for Ears {
    fn heard(&mut self, meets: LocalTime, samples: &[f32]) {
        for ear in &mut self.0 {
            ear.heard(meets, samples);
        }
    }
}

/// What the ordinary thread holds of one stream.
struct Desk {
    address: String,
    config: ReceiverConfig,
    latency_chosen: bool,
    talk: Talk,
    commands: Producer<Command>,
    passages: Consumer<Passage>,
    status: Consumer<RxStatus>,
    measurement: Measurement,
    books: Books,
    announced: Option<Announcement>,
    link_offset: Span,
    left: bool,
}

/// A receiver with everything but its device, which may want the [`RecvEngine::listener`] first.
pub struct RecvEngine {
    desks: Vec<Desk>,
    mixer: Mixer,
    device: Settings,
    until_bye: bool,
    ledger: Option<LedgerFile>,
    ears: Option<Ears>,
}

/// The longest block that is filled at once: more than any card's period.
const BLOCK: usize = 4096;

impl RecvEngine {
    /// Lays out all that the run will need.
    pub fn new(plan: RecvPlan) -> Result<Self, RunError> {
        let channels = plan.streams.first().map_or(tautline_proto::units::Channels::STEREO, |s| {
            s.receiver.format.channels
        });
        let wall = WallClock::frozen();
        let (mut desks, mut inputs, mut ears) = (Vec::new(), Vec::new(), Vec::new());
        let heard_channel = plan.map.source_of(0).unwrap_or(0);
        for stream in plan.streams {
            let rate = stream.receiver.format.rate;
            let (measurement, tap, ear) =
                measurement(rate, plan.device.channels.count(), heard_channel);
            ears.push(ear);
            let (desk, input) = connect(stream, measurement, tap, wall)?;
            desks.push(desk);
            inputs.push(input);
        }
        let block = vec![0.0; BLOCK * channels.count()].into_boxed_slice();
        let mixer = Mixer {
            // A block of 20 ms at 0.125 ms of each stream, twice over.
            passages: Passages::with_capacity(320 * inputs.len().max(1)),
            inputs,
            select: plan.select,
            chosen: None,
            volume: Volume::new(plan.gain),
            gain: plan.gain,
            map: plan.map,
            channels,
            one: block.clone(),
            sum: block,
            xruns: 0,
            told: LocalTime::ZERO,
        };
        let ledger = plan.ledger.as_deref().map(LedgerFile::create).transpose()?;
        Ok(Self {
            desks,
            mixer,
            device: plan.device,
            until_bye: plan.until_bye,
            ledger,
            ears: Some(Ears(ears)),
        })
    }

    /// The ears of the measurement, for a card that can listen to itself. Once.
    pub fn listener(&mut self) -> Option<Box<dyn Listener>> {
        self.ears.take().map(|ears| Box::new(ears) as Box<dyn Listener>)
    }

    /// Runs until asked to stop, then reports.
    pub fn run(
        mut self,
        device: Box<dyn Device>,
        options: &RunOptions,
        stop: &Stop,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Report, RunError> {
        let mut watch = Watch::begin(options);
        let running =
            Running::start(device, Box::new(self.mixer), options.scheduler, stop)?;
        watch.note_scheduler(&running.granted);
        let scheduler = running.granted.effective().to_string();
        let mut quiet_since = None;
        while !watch.is_over(stop) && !running.is_over() {
            wait_for(self.desks.iter().map(|desk| &desk.talk), watch.beat());
            watch.witness.poll();
            for desk in &mut self.desks {
                desk.turn(&self.device, &mut watch, self.ledger.as_mut());
            }
            progress(&progress_of(&self.desks, watch.began));
            if self.until_bye && self.desks.iter().all(|desk| desk.left) {
                // The last frames are heard one latency after the last packet was captured.
                let longest = self.desks.iter().map(|d| d.link_offset).max();
                let since = *quiet_since.get_or_insert_with(now);
                if now() - since > longest.unwrap_or(Span::ZERO) + Span::from_millis(100) {
                    break;
                }
            } else {
                quiet_since = None;
            }
        }
        let ended = now();
        running.end()?;
        watch.witness.poll();
        for desk in &mut self.desks {
            desk.turn(&self.device, &mut watch, self.ledger.as_mut());
            desk.talk.leave();
        }
        if let Some(ledger) = self.ledger {
            ledger.finish()?;
        }
        let streams = self.desks.iter().map(|desk| desk.report(&mut watch.notes)).collect();
        Ok(Report {
            schema: 1,
            role: "recv",
            duration_ns: (ended - watch.began).as_nanos(),
            streams,
            host: machine::host(scheduler, watch.witness.book().total()),
            notes: watch.notes,
        })
    }
}

fn connect(
    stream: StreamPlan,
    measurement: Measurement,
    tap: PacketTap,
    wall: WallClock,
) -> Result<(Desk, Incoming), RunError> {
    let format = stream.receiver.format;
    let random =
        machine::random().map_err(|error| RunError::System("reading /dev/urandom", error))?;
    let session = Session::new(SessionConfig {
        ssrc: u32::from_ne_bytes([random[0], random[1], random[2], random[3]]),
        cname: summary::cname(&random),
        wall_offset: wall.offset(),
    });
    let (commands_in, commands) = RingBuffer::new(64);
    // A second of the shortest packets: fifty times what one beat brings.
    let (passages, passages_out) = RingBuffer::new(8192);
    let (status, status_out) = RingBuffer::new(64);
    let room = format.rate.frames_within(Span::from_millis(40));
    let room = vec![0.0; format.channels.samples_in(room)].into_boxed_slice();
    let input = Incoming {
        receiver: Receiver::new(stream.receiver),
        link: stream.link,
        gain: stream.gain,
        volume: Volume::new(stream.gain),
        tap: Some((tap, room)),
        commands,
        passages,
        status,
        silent_since: LocalTime::NEVER,
        alive: false,
    };
    let desk = Desk {
        address: stream.address,
        config: stream.receiver,
        latency_chosen: stream.latency_chosen,
        talk: Talk::new(session, stream.control, Audience::Whoever(None)),
        commands: commands_in,
        passages: passages_out,
        status: status_out,
        measurement,
        books: Books::new(),
        announced: None,
        link_offset: stream.receiver.link_offset,
        left: false,
    };
    Ok((desk, input))
}

impl Desk {
    /// One round: hear the peer, empty the rings, answer.
    fn turn(&mut self, device: &Settings, watch: &mut Watch, ledger: Option<&mut LedgerFile>) {
        let mut events = Vec::new();
        self.talk.hear(|event| events.push(event));
        for event in events {
            self.take(event, device, watch);
        }
        let mut ledger = ledger;
        while let Ok(passage) = self.passages.pop() {
            self.books.enter(&passage);
            self.measurement.expect(&passage);
            if let Some(ledger) = ledger.as_deref_mut() {
                ledger.enter(&passage);
            }
        }
        let books = &mut self.books;
        self.measurement.poll(|found| {
            books.found(found);
            if let Some(ledger) = ledger.as_deref_mut() {
                ledger.found(found);
            }
        });
        while let Ok(status) = self.status.pop() {
            self.books.stand(status, &watch.witness);
            self.left |= status.said_goodbye;
            self.left &= status.said_goodbye;
        }
        self.tell();
        self.talk.speak();
    }

    fn take(&mut self, event: Event, device: &Settings, watch: &mut Watch) {
        let command = match event {
            Event::Mapped { ssrc, mapping } => {
                self.books.clock = Some(mapping);
                Command::Clock(ssrc, mapping)
            }
            Event::Captured { ssrc, rtp_timestamp, wall } => {
                Command::Captured(ssrc, rtp_timestamp, wall)
            }
            Event::Left { ssrc } => Command::Left(ssrc),
            Event::Announced { announcement, .. } => {
                if self.announced.replace(announcement) == Some(announcement) {
                    return;
                }
                match self.follow(announcement, device, watch) {
                    Some(command) => command,
                    None => return,
                }
            }
            Event::Reception { .. } | Event::Effective { .. } => return,
        };
        // The device's thread empties this ring each period; if it does not run, nothing is lost
        // that the next report does not bring again.
        let _ = self.commands.push(command);
    }

    /// What the sender says of its stream against what was set up here.
    fn follow(
        &mut self,
        announcement: Announcement,
        device: &Settings,
        watch: &mut Watch,
    ) -> Option<Command> {
        let (theirs, ours) = (announcement.format, self.config.format);
        if (theirs.rate, theirs.channels) != (ours.rate, ours.channels) {
            watch.notes.push(format!(
                "{} sends {} Hz with {} channels and this end expects {} Hz with {}; \
                 run with --rate {} --channels {}",
                self.address,
                theirs.rate.hertz(),
                theirs.channels,
                ours.rate.hertz(),
                ours.channels,
                theirs.rate.hertz(),
                theirs.channels
            ));
            return None;
        }
        if self.latency_chosen {
            return None;
        }
        let least = least_latency(theirs.ptime(), device);
        if announcement.link_offset < least {
            watch.notes.push(format!(
                "{} promises {} but this end needs {least} at least (packet {}, {} periods of {}); \
                 it runs at that",
                self.address,
                announcement.link_offset,
                theirs.ptime(),
                device.periods,
                device.period
            ));
        }
        self.link_offset = announcement.link_offset.max(least);
        Some(Command::LinkOffset(self.link_offset))
    }

    /// Tells the session how the stream arrives.
    fn tell(&mut self) {
        let Some(mut receiving) = self.books.status.and_then(|status| status.receiving) else {
            return;
        };
        let (latency, _) = self.books.latency();
        receiving.effective = self.books.clock.zip(latency.median()).map(|(clock, effective)| {
            Effective {
                ssrc: receiving.ssrc,
                configured: self.link_offset,
                effective,
                uncertainty: clock.uncertainty,
            }
        });
        self.talk.session.set_receiving(receiving);
    }

    fn report(&self, notes: &mut Vec<String>) -> crate::report::Stream {
        let stream = summary::Received {
            address: &self.address,
            config: &self.config,
            link_offset: self.link_offset,
            books: &self.books,
            invalid_reports: self.talk.invalid,
            unmatched: self.measurement.unmatched(),
        };
        stream.report(notes)
    }
}

fn progress_of(desks: &[Desk], began: LocalTime) -> Progress {
    let mut progress = Progress { elapsed: now() - began, ..Progress::default() };
    for desk in desks {
        let Some(status) = &desk.books.status else { continue };
        progress.packets += status.counters.received;
        progress.missed += status.counters.lost + status.counters.late;
        progress.xruns = status.xruns;
        let (latency, heard) = desk.books.latency();
        if let (None, Some(median), Some(clock)) =
            (progress.latency, latency.median(), desk.books.clock)
        {
            progress.latency = Some((median, clock.uncertainty));
            progress.heard = heard;
        }
    }
    progress
}

/// The least latency at which a receiver can play: the whole packet must have been captured, and a
/// block is written one ring of the device before its last frame is heard.
pub fn least_latency(ptime: Span, device: &Settings) -> Span {
    let ring = device.period.count() * i64::from(device.periods);
    ptime + device.rate.span_of(Frames::new(ring))
}
