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

/// Handing over disturbs a launch that is no further away than this: or than half a packet before it, in which it is
/// done, and a quarter of one behind it.
const DISTURBED: Span = Span::from_micros(100);
/// Launch times may take one part in so many of the time that the latency leaves: else they are not worth it.
const WORTH: i64 = 4;

/// How long after it is due a packet is launched: what the queue wants, what a thread was late by, and on to where
/// handing over disturbs no other launch.
fn lead(least: Span, late: Span, packet: Span) -> Span {
    let needed = least + slept(late);
    let (before, after) = (packet.half().min(DISTURBED), packet.divided(4).min(DISTURBED));
    let since = Span::from_nanos(needed.as_nanos() % packet.as_nanos().max(1));
    if since < before {
        needed + (before - since)
    } else if since > packet - after {
        needed + (packet - since) + before
    } else {
        needed
    }
}

/// What is kept for a thread that was so late.
fn slept(late: Span) -> Span {
    late.clamp(LEAST_LATE, MOST_LATE)
}

/// So many packets are handed over in half the time from one launch to the next.
fn together(cost: Span, packet: Span) -> usize {
    let many = packet.half().as_nanos() / cost.as_nanos().max(1);
    usize::try_from(many).unwrap_or(1).max(1)
}

/// Has a link's packets spaced as well as can be here: `link` and `asked` are what people ask for, `spare` what the
/// latency leaves beside the age of packets. Takes some 100 ms where a queue heeds launch times: for ordinary
/// threads, before the stream.
pub fn pace(
    by: &mut LinkOptions,
    (link, asked): (LinkKind, Option<PacingRung>),
    (format, period): (&StreamFormat, Frames),
    spare: Span,
) -> Result<Paced, OpenError> {
    let spaced = match link {
        LinkKind::Auto => is_spaced(format, period),
        LinkKind::Direct => false,
        LinkKind::Ringed => true,
    };
    let paced = climb(
        by,
        asked,
        (format, spare),
        if spaced { PacingRung::Sleep } else { PacingRung::Batch },
    )?;
    let packets = period.as_len().div_ceil(format.packet.as_len().max(1));
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

/// As high as it can be.
fn climb(
    link: &LinkOptions,
    asked: Option<PacingRung>,
    (format, spare): (&StreamFormat, Span),
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
            PacingRung::Sleep => Spacing { together: 1, lead: slept(wakes()[1]) },
            _ => Spacing::default(),
        };
        return Ok(Paced { rung, spacing, why: "it was asked for".to_owned(), ..plain });
    }
    let all = queue_disciplines().unwrap_or_default();
    let interface = link.interface();
    let found = interface.map_or_else(Vec::new, |interface| queues(&all, interface));
    let mut why = Vec::new();
    for queue in found.iter().filter(|queue| asked.is_none_or(|asked| asked == queue.rung)) {
        // By itself, launch times are used only where they are worth what they take.
        let most = if asked.is_some() { Span::MAX } else { spare.divided(WORTH) };
        match held_by(link, *queue, format.ptime(), most) {
            Ok(paced) => {
                why.push(paced.why);
                return Ok(Paced { why: why.join("; "), ..paced });
            }
            Err(not) => why.push(not),
        }
    }
    if why.is_empty() {
        why.push(match asked {
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
    packet: Span,
    most: Span,
) -> Result<Paced, String> {
    let LaunchQueue { rung, least, ahead } = queue;
    let (Some(clock), Some(interface)) = (rung.clock(), link.interface()) else {
        return Err(format!("{rung} launches nothing here"));
    };
    let lead = lead(least, wakes()[1], packet);
    if lead > most {
        return Err(format!("launch times by {rung} would take {lead} of the latency"));
    }
    let launch = LaunchOptions { clock, lead, least, ahead };
    let probe = tried(link.to_nobody(interface), launch)
        .map_err(|error| format!("{rung} is not to be had: {}", error.answer))?;
    if !probe.is_held() {
        return Err(format!("{rung} {}", broken(&probe)));
    }
    let latest = probe.off.last().copied().unwrap_or_default();
    Ok(Paced {
        rung,
        launch: Some(launch),
        spacing: Spacing { together: together(probe.cost, packet), lead: Span::ZERO },
        by_wire_thread: false,
        why: format!(
            "{} probe packets left {latest} after their launch times at most",
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
        for (least, late, lead_is) in
            [(0, 10, 187), (0, 130, 187), (0, 190, 190), (400, 100, 562), (400, 90_000, 2_437)]
        {
            let found = lead(micros(least), micros(late), packet);
            assert_eq!(found.as_nanos() / 1000, lead_is, "{least} {late}");
            let from_launch = found.as_nanos() % packet.as_nanos();
            assert!((62_500..=93_750).contains(&from_launch), "{from_launch}");
        }
        assert_eq!(lead(Span::ZERO, micros(10), micros(1000)), micros(100));
    }
}
