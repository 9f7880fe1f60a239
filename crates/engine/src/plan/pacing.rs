//! Pacing of packets: modes, and the choice of the best available mode.
//!
//! The best modes are queues that hold packets until their launch times: the card's, then the
//! kernel's `etf` (TAI), then `fq` (monotonic clock, no privilege). Next is a thread that sleeps
//! until each departure.

mod phase;
mod queues;

use tautline_io::ethernet::EthernetOptions;
use tautline_io::link::OpenError;
use tautline_io::link::direct::DirectLink;
use tautline_io::link::launch_probe::{LaunchProbe, probe, wakes};
use tautline_io::link::threaded::Spacing;
use tautline_io::network::qdisc::{QueueDiscipline, queue_disciplines};
use tautline_io::socket::launch::{LaunchClock, LaunchOptions};
use tautline_io::thread::{Scheduler, spawn};
use tautline_io::udp::UdpOptions;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, Span};

use crate::plan::LinkKind;
use crate::plan::pacing::phase::{HandOver, HandOvers, MAX_AT_ONCE, slept, woken};
use crate::plan::pacing::queues::{LaunchQueue, has_etf, queues};
use crate::plan::sockets::LinkOptions;

tautline_dsp::named_enum! {
    /// Pacing mode, most regular first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum PacingMode {
        /// `etf` in the card.
        Offload = "etf-offload",
        /// `etf` in the kernel.
        Etf = "etf",
        /// `fq` in the kernel.
        Fq = "fq",
        /// A thread that sleeps until each departure.
        Sleep = "sleep",
        /// All packets of a period back to back.
        Batch = "batch",
    }
    unknown: "invalid pacing mode '{}': must be etf-offload, etf, fq, sleep or batch"
}

impl PacingMode {
    const fn queue(self) -> &'static str {
        match self {
            Self::Offload => "an etf with offload",
            Self::Etf => "an etf with CLOCK_TAI and without deadline_mode",
            Self::Fq => "an fq",
            Self::Sleep | Self::Batch => "needed",
        }
    }

    const fn clock(self) -> Option<LaunchClock> {
        match self {
            Self::Offload | Self::Etf => Some(LaunchClock::Tai),
            Self::Fq => Some(LaunchClock::Monotonic),
            Self::Sleep | Self::Batch => None,
        }
    }
}

/// Unavailable mode. The caller adds the hint, as it knows the option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("pacing with {mode}: {why}")]
pub struct PacingRefused {
    /// Requested mode.
    pub mode: PacingMode,
    /// Reason.
    pub why: String,
}

/// Chosen pacing and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paced {
    /// Chosen mode.
    pub mode: PacingMode,
    /// Launch times, if any.
    pub launch: Option<LaunchOptions>,
    /// Spacing of a wire thread.
    pub spacing: Spacing,
    /// Whether a wire thread sends.
    pub by_wire_thread: bool,
    /// Reason for the choice.
    pub why: String,
}

impl Paced {
    /// Time from a packet's due time to its departure.
    pub fn lead(&self) -> Span {
        self.launch.map_or(self.spacing.lead, |launch| launch.lead)
    }
}

/// Launch-time modes of an interface's queues (of a VLAN's card), most regular first.
pub fn heeded(all: &[QueueDiscipline], interface: u32) -> Vec<PacingMode> {
    queues(all, &[interface]).into_iter().map(|queue| queue.mode).collect()
}

const WORTH: i64 = 4;

/// Chooses the best available pacing. `spare` is the latency without the packing age; `scheduler`
/// is the sending thread's scheduler. Blocks for about 100 ms to probe a queue, so call it before
/// the stream starts.
pub fn pace(
    by: &mut LinkOptions,
    (link, requested): (LinkKind, Option<PacingMode>),
    (format, period): (&StreamFormat, Frames),
    (spare, scheduler): (Span, Scheduler),
) -> Result<Paced, PacingRefused> {
    let spaced = link.spaces(format, period);
    let packets = period.as_len().div_ceil(format.packet.as_len().max(1));
    // The wire thread sends after the device's thread is done, when no launch is disturbed.
    let launched_by_wire = match link {
        LinkKind::Auto => packets > 1,
        _ => spaced,
    };
    // A bandwidth reservation for AVTP allows one packet per interval (IEEE 802.1Q §34.3); batches
    // exceed it.
    let one_by_one = matches!(by, LinkOptions::Ethernet(_)) && launched_by_wire && packets > 1;
    let packet = format.ptime();
    let mut paced = climb(
        by,
        requested,
        PacedStream { packet, packets, spare, scheduler, launched_by_wire, one_by_one },
        if spaced { PacingMode::Sleep } else { PacingMode::Batch },
    )?;
    by.pace(paced.launch, paced.spacing);
    if paced.launch.is_none()
        && let Some(reported) = pass_by_etf(by)
    {
        paced.why = format!("{}; {reported}", paced.why);
    }
    Ok(paced)
}

/// An etf queue drops packets without a launch time. Sets the priority to 0 if packets with
/// priority 0 pass, and returns a message.
fn pass_by_etf(link: &mut LinkOptions) -> Option<String> {
    let interfaces = link.interfaces()?;
    if !has_etf(&queue_disciplines().ok()?, &interfaces) {
        return None;
    }
    let interface = *interfaces.first()?;
    let passes = |link: &LinkOptions| {
        tried(link.without_receivers(interface), None).is_ok_and(|probe| probe.has_left())
    };
    if passes(link) {
        return None;
    }
    if let LinkOptions::Ethernet(ethernet) = link {
        let plain = EthernetOptions { priority: 0, ..ethernet.clone() };
        if ethernet.priority > 0 && passes(&LinkOptions::Ethernet(plain)) {
            let priority = core::mem::take(&mut ethernet.priority);
            return Some(format!(
                "etf drops packets of priority {priority} without a launch time; using priority 0"
            ));
        }
    }
    Some(
        "etf drops packets without a launch time, so none would be sent: attach it below a queue for one priority \
         (see `taut doctor`), or grant CAP_NET_ADMIN to use launch times"
            .to_owned(),
    )
}

#[derive(Debug, Clone, Copy)]
struct PacedStream {
    packet: Span,
    packets: usize,
    spare: Span,
    scheduler: Scheduler,
    launched_by_wire: bool,
    one_by_one: bool,
}

impl PacedStream {
    fn wakes(&self) -> [Span; 2] {
        let there = spawn("taut-probe", self.scheduler, 0, wakes).ok();
        there.and_then(|(thread, _)| thread.join().ok()).unwrap_or_else(wakes)
    }
}

fn climb(
    link: &LinkOptions,
    requested: Option<PacingMode>,
    wanted: PacedStream,
    otherwise: PacingMode,
) -> Result<Paced, PacingRefused> {
    let plain = Paced {
        mode: otherwise,
        launch: None,
        spacing: Spacing::default(),
        by_wire_thread: otherwise == PacingMode::Sleep,
        why: String::new(),
    };
    if let Some(mode) = requested.filter(|mode| mode.clock().is_none()) {
        let by_wire_thread = mode == PacingMode::Sleep;
        let spacing = if by_wire_thread { sleeping(wanted) } else { Spacing::default() };
        let why = "requested".to_owned();
        return Ok(Paced { mode, spacing, by_wire_thread, why, ..plain });
    }
    if requested.is_none() && wanted.packets <= 1 && !matches!(link, LinkOptions::Ethernet(_)) {
        return Ok(Paced { why: "a period is one packet".to_owned(), ..plain });
    }
    let all = queue_disciplines().unwrap_or_default();
    let interfaces = link.interfaces();
    let by = interfaces.as_deref().unwrap_or_default();
    let mut why = Vec::new();
    let found = queues(&all, by);
    for queue in
        found.iter().filter(|queue| requested.is_none_or(|requested| requested == queue.mode))
    {
        // An automatic mode may use only a small part of the latency.
        let maximum = if requested.is_some() { Span::MAX } else { wanted.spare.divided(WORTH) };
        match held_by((link, by), *queue, wanted, maximum) {
            Ok(paced) => {
                why.push(paced.why);
                return Ok(Paced { why: why.join("; "), ..paced });
            }
            Err(not) => why.push(not),
        }
    }
    if why.is_empty() {
        why.push(match requested {
            Some(mode) if interfaces.is_none() => {
                format!("{mode} needs one interface for all packets of a network")
            }
            Some(mode) if by.len() > 1 => {
                format!("the two interfaces do not both have {}", mode.queue())
            }
            Some(mode) => format!("no queue of the interface is {}", mode.queue()),
            None => "no queue of the interface supports launch times".to_owned(),
        });
    }
    match requested {
        Some(mode) => Err(PacingRefused { mode, why: why.join("; ") }),
        None => {
            let sleeping = wanted.one_by_one.then(|| sleeping(wanted));
            let worth = |spacing: &Spacing| spacing.lead <= wanted.spare.divided(WORTH);
            if let Some(lead) = sleeping.filter(|spacing| !worth(spacing)).map(|it| it.lead) {
                why.push(format!(
                    "a thread that sleeps until each would use {lead} of the latency"
                ));
            }
            let why = why.join("; ");
            Ok(match sleeping.filter(worth) {
                Some(spacing) => {
                    Paced { mode: PacingMode::Sleep, spacing, by_wire_thread: true, why, ..plain }
                }
                None => Paced { why, ..plain },
            })
        }
    }
}

fn sleeping(wanted: PacedStream) -> Spacing {
    let [wake, late] = wanted.wakes();
    Spacing { together: 1, lead: woken(wake, wanted.packet).avoided(slept(late), wanted.packet) }
}

/// Paces with `queue`, with a lead of at most `maximum`, if a probe confirms launch times.
/// Otherwise returns the reason.
fn held_by(
    (link, interfaces): (&LinkOptions, &[u32]),
    queue: LaunchQueue,
    wanted: PacedStream,
    maximum: Span,
) -> Result<Paced, String> {
    let LaunchQueue { mode, minimum, ahead, stamped_ahead } = queue;
    let Some(clock) = mode.clock() else {
        return Err(format!("{mode} has no launch times"));
    };
    let (packet, [wake, late]) = (wanted.packet, wanted.wakes());
    let launched = |lead: Span| match lead > maximum {
        true => Err(format!("launch times with {mode} would use {lead} of the latency")),
        false => Ok(LaunchOptions { clock, lead, minimum, ahead }),
    };
    let (mut cost, mut latest, mut probed) = (Span::ZERO, Span::ZERO, 0);
    for interface in interfaces {
        let launch = launched(minimum + slept(late))?;
        let probe = tried(link.without_receivers(*interface), Some((launch, stamped_ahead)))
            .map_err(|error| format!("{mode} is unavailable: {}", error.answer))?;
        if !probe.is_held() {
            return Err(format!("{mode} {}", broken(&probe)));
        }
        cost += probe.cost.times(link.max_destinations() as i64);
        latest = latest.max(probe.off.last().copied().unwrap_or_default());
        probed += probe.off.len();
    }
    let hands = HandOvers {
        packet,
        packets: wanted.packets,
        // An fq queue counts all destinations as one stream.
        maximum: wanted.packets.min(MAX_AT_ONCE / link.max_destinations()),
        cost,
        wake,
        late: slept(late),
        latest,
        minimum,
        by_wire_thread: wanted.launched_by_wire,
    };
    let HandOver { together, begin, takes, lead } = hands.chosen(maximum);
    let hold = if wanted.launched_by_wire { begin } else { Span::ZERO };
    Ok(Paced {
        mode,
        launch: Some(launched(lead)?),
        spacing: Spacing { together, lead: hold },
        by_wire_thread: wanted.launched_by_wire,
        why: format!(
            "{probed} probe packets left at most {latest} after their launch times; hand-overs of {together} take \
             {takes} and begin {begin} after the first is due"
        ),
    })
}

/// Probes a link. `launch` also holds the time before launch at which the driver gets a packet.
fn tried(
    mut link: LinkOptions,
    launch: Option<(LaunchOptions, Span)>,
) -> Result<LaunchProbe, OpenError> {
    link.pace(launch.map(|(launch, _)| launch), Spacing { together: 1, lead: Span::ZERO });
    let mut link = match link {
        LinkOptions::Udp(udp) => DirectLink::open(&UdpOptions { transmit_stamp_every: 1, ..*udp }),
        LinkOptions::Tcp(link) => Err(OpenError {
            tried: format!("probing the path to {}", link.place),
            answer: "TCP connections have no launch times".into(),
            hint: "leave --pacing out".into(),
            errno: 0,
        }),
        LinkOptions::Ethernet(ethernet) => {
            DirectLink::open_ethernet(&EthernetOptions { transmit_stamp_every: 1, ..ethernet })
        }
    }?;
    let after = launch.map_or(Span::ZERO, |(launch, ahead)| launch.lead - ahead);
    Ok(probe(&mut link, after))
}

fn broken(probe: &LaunchProbe) -> String {
    let LaunchProbe { off, dropped, refused, .. } = probe;
    match (off.first(), dropped, refused) {
        (_, 1.., _) => format!("dropped {dropped} probe packets"),
        (_, _, 1..) => "refused probe packets".to_owned(),
        (Some(off), ..) => format!("sent a probe packet {} before its launch time", off.abs()),
        (None, ..) => "reported no transmit time of a probe packet".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tautline_dsp::format::SampleFormat;
    use tautline_proto::units::{Channels, Rate};

    use super::*;
    use crate::plan::address::EthernetPlace;
    use crate::plan::sockets::any_by_ethernet;

    fn paced(by: LinkOptions, link: LinkKind, packet: i64, spare: Span) -> (PacingMode, Spacing) {
        let format = StreamFormat {
            codec: None,
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            sample: SampleFormat::L16,
            packet: Frames::new(packet),
            payload_type: 4,
        };
        let (mut by, period) = (by, Frames::new(48));
        let paced =
            pace(&mut by, (link, None), (&format, period), (spare, Scheduler::Other)).unwrap();
        assert_eq!(paced.by_wire_thread, paced.mode == PacingMode::Sleep, "{paced:?}");
        (paced.mode, paced.spacing)
    }

    fn by_ethernet() -> LinkOptions {
        let interface = "lo".to_owned();
        let address = [0x91, 0xE0, 0xF0, 0, 0xFE, 1];
        let place = EthernetPlace { interface, address, stream: None, priority: 3 };
        LinkOptions::Ethernet(any_by_ethernet(&place))
    }

    #[test]
    fn ethernet_packets_leave_singly_without_launch_times() {
        let roomy = Span::from_secs(1);
        let (mode, spacing) = paced(by_ethernet(), LinkKind::Auto, 6, roomy);
        assert_eq!((mode, spacing.together), (PacingMode::Sleep, 1));
        assert!(spacing.lead > Span::ZERO);
        assert_eq!(paced(by_ethernet(), LinkKind::Auto, 48, roomy).0, PacingMode::Batch);
        assert_eq!(paced(by_ethernet(), LinkKind::Direct, 6, roomy).0, PacingMode::Batch);
        assert_eq!(paced(by_ethernet(), LinkKind::Auto, 6, Span::ZERO).0, PacingMode::Batch);
        // UDP has no reservations, so short packets leave together.
        let to = "127.0.0.1:9".parse().unwrap();
        let by_udp = LinkOptions::Udp(Box::new(UdpOptions::sender(vec![to])));
        assert_eq!(paced(by_udp, LinkKind::Auto, 6, roomy).0, PacingMode::Batch);
    }
}
