//! What spaces a stream's packets: the rungs of a ladder, and which of them stand here.
//!
//! Best is a queue that holds each packet until its launch time, however late a thread hands it over: first the
//! card's own, then the kernel's `etf` (by TAI), then its `fq` (by the monotonic clock, which anyone may use).
//! Below them a thread sleeps until each departure, and last all packets of a period leave at once.

use core::fmt;
use core::str::FromStr;

use tautline_io::ethernet::EthernetOptions;
use tautline_io::link::OpenError;
use tautline_io::link::direct::DirectLink;
use tautline_io::link::launch_probe::{LaunchProbe, probe, wakes};
use tautline_io::link::ringed::Spacing;
use tautline_io::network::qdisc::{QueueDiscipline, queue_disciplines};
use tautline_io::socket::launch::{LaunchClock, LaunchOptions};
use tautline_io::thread::{Scheduler, spawn};
use tautline_io::udp::UdpOptions;
use tautline_proto::pacing::is_spaced;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, Span};

use crate::plan::LinkKind;
use crate::plan::sockets::LinkOptions;

/// A rung, the most regular first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PacingRung {
    /// An `etf` whose card launches packets itself.
    Offload,
    /// An `etf` in the kernel.
    Etf,
    /// An `fq`.
    Fq,
    /// A thread that sleeps until each departure.
    Sleep,
    /// All packets of a period at once.
    Batch,
}

impl PacingRung {
    /// All, the most regular first.
    pub const ALL: [Self; 5] = [Self::Offload, Self::Etf, Self::Fq, Self::Sleep, Self::Batch];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Offload => "etf-offload",
            Self::Etf => "etf",
            Self::Fq => "fq",
            Self::Sleep => "sleep",
            Self::Batch => "batch",
        }
    }

    /// What keeps its launch times.
    const fn queue(self) -> &'static str {
        match self {
            Self::Offload => "an etf whose card launches packets (offload)",
            Self::Etf => "an etf by CLOCK_TAI without deadline_mode",
            Self::Fq => "an fq",
            Self::Sleep | Self::Batch => "needed",
        }
    }

    /// The clock of its launch times, if it has any.
    const fn clock(self) -> Option<LaunchClock> {
        match self {
            Self::Offload | Self::Etf => Some(LaunchClock::Tai),
            Self::Fq => Some(LaunchClock::Monotonic),
            Self::Sleep | Self::Batch => None,
        }
    }
}

impl FromStr for PacingRung {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = |rung: &Self| rung.name() == text;
        Self::ALL.into_iter().find(named).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{text}` is no rung of the pacing ladder; use one of {names}")
        })
    }
}

impl fmt::Display for PacingRung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How a stream's packets are spaced, and why so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paced {
    /// The rung.
    pub rung: PacingRung,
    /// Its launch times, if it has any.
    pub launch: Option<LaunchOptions>,
    /// How a wire thread spaces them.
    pub spacing: Spacing,
    /// Whether a wire thread hands them over.
    pub by_wire_thread: bool,
    /// Why this one.
    pub why: String,
}

impl Paced {
    /// How long after it is due a packet leaves.
    pub fn lead(&self) -> Span {
        self.launch.map_or(self.spacing.lead, |launch| launch.lead)
    }
}

/// What a queue wants of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LaunchQueue {
    rung: PacingRung,
    /// How long before its launch it wants it.
    least: Span,
    /// How long before the time that it is told it lets it go.
    ahead: Span,
}

/// Queues of an interface that heed launch times, the most regular first.
fn queues(all: &[QueueDiscipline], interface: u32) -> Vec<LaunchQueue> {
    let of_it = all.iter().filter(|queue| queue.interface == interface);
    let mut queues: Vec<LaunchQueue> = of_it
        .filter_map(|queue| match (queue.kind.as_str(), queue.etf) {
            ("fq", _) => {
                Some(LaunchQueue { rung: PacingRung::Fq, least: Span::ZERO, ahead: Span::ZERO })
            }
            // Deadlines are no launch times, and by another clock our times mean nothing.
            ("etf", Some(etf)) if etf.by_tai && !etf.deadlines => {
                Some(match etf.offload {
                    true => {
                        let least = etf.delta + MARGIN;
                        LaunchQueue { rung: PacingRung::Offload, least, ahead: Span::ZERO }
                    }
                    // What the card is to have in time leaves at once where none waits for its time.
                    false => {
                        LaunchQueue { rung: PacingRung::Etf, least: Span::ZERO, ahead: etf.delta }
                    }
                })
            }
            _ => None,
        })
        .collect();
    queues.sort_by_key(|queue| (queue.rung, queue.least));
    queues.dedup_by_key(|queue| queue.rung);
    queues
}

/// From the hand-over to the queue, beyond what the queue wants: system calls, and a queue that is read at a
/// timer's tick.
const MARGIN: Span = Span::from_micros(100);
/// The least that a thread is taken to be late by.
const LEAST_LATE: Span = Span::from_micros(100);
/// No more than this is kept for a thread that is late.
const MOST_LATE: Span = Span::from_millis(2);

/// A timer that fires for a hand-over disturbs a launch that is no further behind it than this, or an eighth of a packet.
const DISTURBED: Span = Span::from_micros(25);
/// From a packet's being due to the end of its hand-over, beyond what wake-ups and system calls take.
const SPARE: Span = Span::from_micros(5);
/// Wake-ups until a packet is handed over by a wire thread: the device's thread by its timer, and the wire thread by
/// it, and as much for what both do.
const WAKES: i64 = 3;
/// Launch times may take one part in so many of the time that the latency leaves: else they are not worth it.
const WORTH: i64 = 4;

/// How long after it is due a packet is launched: what the queue wants, what a thread was late by, and on to where
/// no other launch falls into the hand-over, which ends so long after the packet is due.
fn lead(least: Span, late: Span, packet: Span, handing: Span) -> Span {
    let needed = least + slept(late);
    let last = packet - packet.divided(8).min(DISTURBED);
    let first = handing.min(last);
    let since = Span::from_nanos(needed.as_nanos() % packet.as_nanos().max(1));
    if since < first {
        needed + (first - since)
    } else if since > last {
        needed + (packet - since) + first
    } else {
        needed
    }
}

/// What is kept for a thread that was so late.
fn slept(late: Span) -> Span {
    late.clamp(LEAST_LATE, MOST_LATE)
}

/// An fq drops what it holds more than 100 packets of one stream for (`flow_limit`, tc-fq(8)).
const MOST: usize = 64;

/// When a hand-over ends, after its first packet was due, and how many packets it takes: as many as leave a launch its
/// place between two, of the `all` that a period holds.
fn handing(cost: Span, wake: Span, packet: Span, all: usize) -> (Span, usize) {
    let begin = wake.times(WAKES).min(packet.half());
    let room = packet - packet.divided(4) - begin;
    let most = usize::try_from(room.as_nanos() / cost.as_nanos().max(1)).unwrap_or(1);
    let together = most.clamp(1, all.clamp(1, MOST));
    (begin + cost.times(together as i64) + SPARE, together)
}

/// Has a link's packets spaced as well as can be here: `link` and `asked` are what people ask for, `spare` what the
/// latency leaves beside the age of packets, `scheduler` what the thread that hands them over is to run as. Takes some
/// 100 ms where a queue heeds launch times: for ordinary threads, before the stream.
pub fn pace(
    by: &mut LinkOptions,
    (link, asked): (LinkKind, Option<PacingRung>),
    (format, period): (&StreamFormat, Frames),
    (spare, scheduler): (Span, Scheduler),
) -> Result<Paced, OpenError> {
    let spaced = match link {
        LinkKind::Auto => is_spaced(format, period),
        LinkKind::Direct => false,
        LinkKind::Ringed => true,
    };
    let packets = period.as_len().div_ceil(format.packet.as_len().max(1));
    let paced = climb(
        by,
        asked,
        PacedStream { packet: format.ptime(), packets, spare, scheduler },
        if spaced { PacingRung::Sleep } else { PacingRung::Batch },
    )?;
    let by_wire_thread = match (link, paced.rung) {
        (_, PacingRung::Sleep) => true,
        (_, PacingRung::Batch) => false,
        // All packets of a period at once would disturb launches.
        (LinkKind::Auto, _) => packets > paced.spacing.together,
        _ => spaced,
    };
    let paced = Paced { by_wire_thread, ..paced };
    by.pace(paced.launch, paced.spacing);
    Ok(paced)
}

/// What of a stream its packets' spacing goes by.
#[derive(Debug, Clone, Copy)]
struct PacedStream {
    /// Sound in one packet.
    packet: Span,
    /// Packets in a period.
    packets: usize,
    /// What the latency leaves beside the age of packets.
    spare: Span,
    /// Of the thread that hands them over.
    scheduler: Scheduler,
}

impl PacedStream {
    /// How late such a thread wakes up ([`wakes`]).
    fn wakes(&self) -> [Span; 2] {
        let there = spawn("taut-probe", self.scheduler, 0, wakes).ok();
        there.and_then(|(thread, _)| thread.join().ok()).unwrap_or_else(wakes)
    }
}

/// As high as it can be.
fn climb(
    link: &LinkOptions,
    asked: Option<PacingRung>,
    wanted: PacedStream,
    otherwise: PacingRung,
) -> Result<Paced, OpenError> {
    let plain = Paced {
        rung: otherwise,
        launch: None,
        spacing: Spacing::default(),
        by_wire_thread: false,
        why: String::new(),
    };
    if let Some(rung) = asked.filter(|rung| rung.clock().is_none()) {
        let spacing = match rung {
            // As regular as can be, where that is what is asked for.
            PacingRung::Sleep => Spacing { together: 1, lead: slept(wanted.wakes()[1]) },
            _ => Spacing::default(),
        };
        return Ok(Paced { rung, spacing, why: "it was asked for".to_owned(), ..plain });
    }
    if asked.is_none() && wanted.packets <= 1 && matches!(link, LinkOptions::Udp(_)) {
        return Ok(Paced { why: "a period is one packet".to_owned(), ..plain });
    }
    let all = queue_disciplines().unwrap_or_default();
    let interface = link.interface();
    let found = interface.map_or_else(Vec::new, |interface| queues(&all, interface));
    let mut why = Vec::new();
    for queue in found.iter().filter(|queue| asked.is_none_or(|asked| asked == queue.rung)) {
        // By itself, launch times are used only where they are worth what they take.
        let most = if asked.is_some() { Span::MAX } else { wanted.spare.divided(WORTH) };
        match held_by(link, *queue, wanted, most) {
            Ok(paced) => {
                why.push(paced.why);
                return Ok(Paced { why: why.join("; "), ..paced });
            }
            Err(not) => why.push(not),
        }
    }
    if why.is_empty() {
        why.push(match asked {
            Some(rung) if interface.is_none() => {
                format!("{rung} launches where all packets leave by one interface, and not by two networks")
            }
            Some(rung) => format!("no queue of the interface is {}", rung.queue()),
            None => "no queue of the interface heeds launch times".to_owned(),
        });
    }
    match asked {
        Some(rung) => Err(OpenError {
            tried: format!("launching packets by {rung}"),
            answer: why.join("; "),
            mend: "see `taut doctor`, or leave --pacing out".to_owned(),
            errno: 0,
        }),
        None => Ok(Paced { why: why.join("; "), ..plain }),
    }
}

/// Packets launched by that queue, with a lead of `most` at most, if a probe finds it held; else why not.
fn held_by(
    link: &LinkOptions,
    queue: LaunchQueue,
    wanted: PacedStream,
    most: Span,
) -> Result<Paced, String> {
    let LaunchQueue { rung, least, ahead } = queue;
    let (Some(clock), Some(interface)) = (rung.clock(), link.interface()) else {
        return Err(format!("{rung} launches nothing here"));
    };
    let (packet, [wake, late]) = (wanted.packet, wanted.wakes());
    let launched = |lead: Span| match lead > most {
        true => Err(format!("launch times by {rung} would take {lead} of the latency")),
        false => Ok(LaunchOptions { clock, lead, least, ahead }),
    };
    let probe = tried(link.to_nobody(interface), launched(least + slept(late))?)
        .map_err(|error| format!("{rung} is not to be had: {}", error.answer))?;
    if !probe.is_held() {
        return Err(format!("{rung} {}", broken(&probe)));
    }
    let (handing, together) = handing(probe.cost, wake, packet, wanted.packets);
    let latest = probe.off.last().copied().unwrap_or_default();
    Ok(Paced {
        rung,
        launch: Some(launched(lead(least, late, packet, handing))?),
        spacing: Spacing { together, lead: Span::ZERO },
        by_wire_thread: false,
        why: format!(
            "{} probe packets left {latest} after their launch times at most, {together} are handed over in {handing}",
            probe.off.len()
        ),
    })
}

/// What a probe by such a link sees.
fn tried(mut link: LinkOptions, launch: LaunchOptions) -> Result<LaunchProbe, OpenError> {
    link.pace(Some(launch), Spacing { together: 1, lead: Span::ZERO });
    let mut link = match link {
        LinkOptions::Udp(udp) => DirectLink::open(&UdpOptions { transmit_stamp_every: 1, ..*udp }),
        LinkOptions::Ethernet(ethernet) => {
            DirectLink::open_ethernet(&EthernetOptions { transmit_stamp_every: 1, ..ethernet })
        }
    }?;
    Ok(probe(&mut link, launch.lead))
}

/// Why a queue that was probed will not do.
fn broken(probe: &LaunchProbe) -> String {
    let LaunchProbe { off, dropped, refused, .. } = probe;
    match (off.first(), dropped, refused) {
        (_, 1.., _) => format!("dropped {dropped} probe packets"),
        (_, _, 1..) => "did not take probe packets".to_owned(),
        (Some(off), ..) => format!("let a probe packet go {} before its launch time", off.abs()),
        (None, ..) => "says of no probe packet when it left".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautline_io::network::qdisc::{EtfSettings, QdiscPlace};

    fn queue(kind: &str, etf: Option<EtfSettings>) -> QueueDiscipline {
        QueueDiscipline { interface: 2, kind: kind.to_owned(), place: QdiscPlace::Below, etf }
    }

    #[test]
    fn queues_that_heed_launch_times_are_found_the_most_regular_first() {
        let delta = Span::from_micros(300);
        let etf = EtfSettings { delta, by_tai: true, offload: false, deadlines: false };
        let all = [
            queue("fq", None),
            queue("pfifo_fast", None),
            queue("etf", Some(EtfSettings { by_tai: false, ..etf })),
            queue("etf", Some(EtfSettings { deadlines: true, ..etf })),
            queue("etf", None),
            queue("etf", Some(etf)),
            queue("etf", Some(EtfSettings { offload: true, ..etf })),
            QueueDiscipline { interface: 3, ..queue("fq", None) },
        ];
        let found = queues(&all, 2);
        let rungs: Vec<_> = found.iter().map(|queue| (queue.rung, queue.least)).collect();
        let none = Span::ZERO;
        assert_eq!(
            rungs,
            [
                (PacingRung::Offload, delta + MARGIN),
                (PacingRung::Etf, none),
                (PacingRung::Fq, none)
            ]
        );
        assert_eq!(found.iter().map(|queue| queue.ahead).collect::<Vec<_>>(), [none, delta, none]);
        assert_eq!(queues(&all, 4), []);
    }

    #[test]
    fn a_packet_is_handed_over_early_enough_and_not_when_another_is_launched() {
        let micros = Span::from_micros;
        let packet = micros(125);
        for (least, late, handing, lead_is) in [
            (0, 10, 80, 100),
            (0, 10, 300, 109),
            (0, 230, 80, 230),
            (0, 240, 80, 330),
            (400, 100, 80, 580),
            (400, 90_000, 80, 2_455),
        ] {
            let found = lead(micros(least), micros(late), packet, micros(handing));
            assert_eq!(found.as_nanos() / 1000, lead_is, "{least} {late} {handing}");
        }
        assert_eq!(lead(Span::ZERO, micros(10), micros(1000), micros(80)), micros(100));
    }

    #[test]
    fn so_many_are_handed_over_at_once_that_a_launch_has_its_place_between_two() {
        let micros = Span::from_micros;
        let of = |cost, wake, all| handing(micros(cost), micros(wake), micros(125), all);
        assert_eq!(of(2, 5, 8), (micros(15 + 16 + 5), 8));
        assert_eq!(of(20, 10, 8), (micros(30 + 60 + 5), 3));
        assert_eq!(of(20, 40, 8), (Span::from_nanos(62_500 + 20_000 + 5_000), 1));
        assert_eq!(of(400, 1, 8), (micros(3 + 400 + 5), 1));
    }
}
