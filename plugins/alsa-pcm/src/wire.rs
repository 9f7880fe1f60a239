//! Engine configuration for a PCM.

use std::sync::{Arc, mpsc};

use tautline_engine::plan::address::{Address, AddressError, Resolved, StreamPlace};
use tautline_engine::plan::alongside::follow;
use tautline_engine::plan::claim::ClaimedAddress;
use tautline_engine::plan::sockets::{LinkOptions, any_by_ethernet, ethernet_sender};
use tautline_engine::plan::{RecvPlan, SendPlan, StreamPlan};
use tautline_engine::plan::{lay, pacing, sockets};
use tautline_engine::receive_engine::learn::{Believe, Learnt, LinkArrivals, ListenedAt, learn};
use tautline_io::clock::now;
use tautline_io::thread::{Scheduler, without_signals};
use tautline_io::udp::UdpOptions;
use tautline_proto::device::{Direction, Settings};
use tautline_proto::latency::{LatencySum, usual_latency};
use tautline_proto::stream::{MAX_DATAGRAM_BYTES, StreamFormat, packet_frames};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::PacketHeads;
use tautline_proto::wire::avtp::maap::POOL;
use tautline_proto::wire::rtcp::Announcement;

use crate::complaint::Complaint;
use crate::keys::{PERIODS, Wish};

/// Timeout of a look-up. Announcements have the rest of [`OPEN`].
const LOOK_UP: Span = Span::from_millis(600);
/// Timeout of an opening, less than a second on a busy host. Announcements arrive twice a second.
const OPEN: Span = Span::from_millis(700);

/// Timeout of a stream, whose packets arrive at least every 20 ms.
const SILENT: Span = Span::from_millis(150);

pub(crate) const CARD_PERIODS: u32 = 2;

pub(crate) struct Reached {
    pub(crate) wish: Wish,
    pub(crate) resolved: Resolved,
    /// Defended while the PCM is open.
    pub(crate) claim: Option<Arc<ClaimedAddress>>,
    pub(crate) clock: Option<Resolved>,
    pub(crate) announced: Option<TheirStream>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct TheirStream {
    format: StreamFormat,
    promised: Option<Span>,
}

/// Takes less than a second. Only starts an address claim.
pub(crate) fn reach(mut wish: Wish, direction: Direction) -> Result<Reached, Complaint> {
    let until = now() + OPEN;
    let (mut clock, mut claim) = (None, None);
    if direction == Direction::Playback {
        claim = without_signals(|| ClaimedAddress::begin(&wish.address))?.map(Arc::new);
    }
    let resolved = match &claim {
        // A placeholder address without receivers.
        Some(_) => wish.address.clone().claimed(POOL.at(0)).resolve()?,
        None => look_up(&wish.address)?,
    };
    let mut announced = None;
    match direction {
        Direction::Playback => {
            sending(&wish, &resolved, None)?.open(None)?;
        }
        Direction::Capture => {
            if let Some(address) = &wish.keys.clock {
                let resolved = look_up(address)?;
                sockets::clock(address, &resolved).open(None)?;
                clock = Some(resolved);
            }
            let opened = sockets::reception(&wish.address, &resolved).open(None)?;
            let described = resolved.description.as_ref();
            wish.keys.rate = wish.keys.rate.or(described.map(|described| described.rate));
            wish.keys.channels =
                wish.keys.channels.or(described.map(|described| described.channels));
            if described.is_none() {
                let known = wish.keys.rate.is_some() && wish.keys.channels.is_some();
                let (rate, channels) = (wish.keys.rate, wish.keys.channels);
                announced = hear_of(
                    ListenedAt::new(resolved.form.unpack(resolved.stream), opened),
                    until,
                    known.then_some(now() + SILENT),
                    (rate, channels),
                );
                if let Some(announced) = &announced {
                    settle_with(&mut wish, &announced.format)?;
                }
            }
        }
    }
    Ok(Reached { wish, resolved, claim, clock, announced })
}

/// Waits only until `silent` if no packet arrives.
fn hear_of(
    opened: ListenedAt,
    until: LocalTime,
    silent: Option<LocalTime>,
    (rate, channels): (Option<Rate>, Option<Channels>),
) -> Option<TheirStream> {
    let given_up = |arrived: LinkArrivals| {
        let now = now();
        now >= until || silent.is_some_and(|silent| !arrived.packets && now >= silent)
    };
    match learn(&mut [opened], Believe::AnyHost, given_up) {
        Learnt::Announced { announcement: Announcement { format, link_offset, .. }, .. } => {
            Some(TheirStream { format, promised: Some(link_offset) })
        }
        Learnt::Shaped(format) => Some(TheirStream { format, promised: None }),
        Learnt::Unannounced(proof) => {
            Some(TheirStream { format: proof?.format(rate, channels)?, promised: None })
        }
        Learnt::Nothing => None,
    }
}

/// Rejects contradictions.
fn settle_with(wish: &mut Wish, theirs: &StreamFormat) -> Result<(), Complaint> {
    let rate = *wish.keys.rate.get_or_insert(theirs.rate);
    let channels = *wish.keys.channels.get_or_insert(theirs.channels);
    if (rate, channels) == (theirs.rate, theirs.channels) {
        return Ok(());
    }
    let (hertz, count) = (theirs.rate.hertz(), theirs.channels);
    Err(Complaint::unusable(format!(
        "{} sends {hertz} Hz with {count} channels and the PCM expects {} Hz with {channels}; write rate {hertz} and \
         channels {count}, or remove these keys, and use plug: for another rate",
        wish.address,
        rate.hertz()
    )))
}

/// Resolves on its own thread: the system's resolver has no timeout.
fn look_up(address: &Address) -> Result<Resolved, Complaint> {
    let resolved = look_up_whole(address)?;
    // They would be sent in clear, or played as noise.
    if resolved.description.as_ref().is_some_and(|described| described.sealed) {
        return Err(Complaint::unusable(format!(
            "unsupported: {address} is encrypted with SRTP; use taut send or taut recv"
        )));
    }
    Ok(resolved)
}

fn look_up_whole(address: &Address) -> Result<Resolved, Complaint> {
    if !address.may_wait() {
        return Ok(address.resolve()?);
    }
    let (notify, handle) = mpsc::channel();
    let requested = address.clone();
    let thread = std::thread::Builder::new().name("taut-resolve".into());
    let started = without_signals(|| {
        thread.spawn(move || {
            let _ = notify.send(requested.resolve());
        })
    });
    started.map_err(|error| Complaint {
        errno: libc::EAGAIN,
        sentence: format!("cannot start a thread: {error}; stop other programs or raise ulimit -u"),
    })?;
    let timeout = std::time::Duration::from_nanos(LOOK_UP.as_nanos().unsigned_abs());
    let answer: Result<Resolved, AddressError> =
        handle.recv_timeout(timeout).map_err(|_| unanswered(address))?;
    Ok(answer?)
}

fn unanswered(address: &Address) -> Complaint {
    let (doing, hint) = match address.file() {
        Some(_) => ("reading", "copy the file to a disk of this machine"),
        None => ("looking up", "check the name server or give an IP address"),
    };
    Complaint {
        errno: libc::EHOSTUNREACH,
        sentence: format!("{doing} {address}: no answer within {LOOK_UP}; {hint}"),
    }
}

/// Without `stream`, only settings independent of it.
fn sending(
    wish: &Wish,
    resolved: &Resolved,
    stream: Option<(&StreamFormat, Frames)>,
) -> Result<LinkOptions, Complaint> {
    let media = match &resolved.place {
        StreamPlace::Udp { media, .. } => *media,
        StreamPlace::Tcp(_) => {
            return Err(Complaint::unusable(format!(
                "unsupported: {} is a connection; use rtp://HOST:PORT, or taut send and taut recv",
                wish.address
            )));
        }
        StreamPlace::Ethernet(place) => {
            return Ok(LinkOptions::Ethernet(match stream {
                Some((format, period)) => {
                    ethernet_sender(place, format, lay::batch(period, format.packet))
                }
                None => any_by_ethernet(place),
            }));
        }
    };
    let mut udp = UdpOptions::sender(vec![media]);
    sockets::set(&mut udp, core::slice::from_ref(&wish.address), core::slice::from_ref(resolved))?;
    if let Some((format, period)) = stream {
        lay::make_room(&mut udp, format, period, heads(wish));
    }
    Ok(LinkOptions::Udp(Box::new(udp)))
}

pub(crate) fn format(wish: &Wish, device: &Settings) -> Result<StreamFormat, Complaint> {
    let packet = match wish.packet {
        Some(packet) => packet,
        None => packet_frames(device.rate, wish.ptime)
            .map_err(|error| Complaint::unusable(error.to_string()))?,
    };
    Ok(StreamFormat {
        codec: None,
        rate: device.rate,
        channels: device.channels,
        sample: wish.format,
        packet,
        payload_type: wish.address.form().coding(wish.format),
    })
}

fn heads(wish: &Wish) -> PacketHeads {
    PacketHeads { form: wish.address.form(), stamps: true }
}

fn carried(wish: &Wish, format: &StreamFormat) -> Result<usize, Complaint> {
    let heads = heads(wish);
    heads.form.check(format).map_err(|error| Complaint::unusable(error.to_string()))?;
    let bytes = heads.datagram_bytes(format);
    if bytes > MAX_DATAGRAM_BYTES {
        return Err(Complaint::unusable(format!(
            "packets of {} with {} channels at {} Hz exceed the maximum packet length; use a shorter ptime",
            format.ptime(),
            format.channels,
            format.rate.hertz()
        )));
    }
    Ok(bytes)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) rates: Vec<Rate>,
    pub(crate) channels: (Channels, Channels),
    pub(crate) shortest: Frames,
    pub(crate) buffer: Option<Frames>,
}

fn shortest(rate: Rate, channels: Channels) -> Settings {
    Settings { rate, channels, period: Frames::new(PERIODS.0), periods: CARD_PERIODS }
}

/// An error if none fits a datagram and the latency.
pub(crate) fn carries(reached: &Reached, direction: Direction) -> Result<Range, Complaint> {
    let wish = &reached.wish;
    let all = || Rate::SUPPORTED.iter().filter_map(|hertz| Rate::new(*hertz).ok()).collect();
    let mut rates: Vec<Rate> = wish.keys.rate.map_or_else(all, |rate| vec![rate]);
    let fewest = wish.keys.channels.unwrap_or(Channels::MONO);
    let mut refused = None;
    rates.retain(|rate| match keeps(reached, direction, &shortest(*rate, fewest)) {
        Ok(()) => true,
        Err(complaint) => {
            refused = Some(complaint);
            false
        }
    });
    if let Some(refused) = refused.filter(|_| rates.is_empty()) {
        return Err(refused);
    }
    let fits = |channels: &Channels| {
        rates.iter().all(|rate| keeps(reached, direction, &shortest(*rate, *channels)).is_ok())
    };
    let counts = (1..=Channels::MAX.into()).rev();
    let maximum = counts.filter_map(|count| Channels::new(count).ok()).find(fits).unwrap_or(fewest);
    let channels = (fewest, wish.keys.channels.unwrap_or(maximum));
    Ok(Range { rates, channels, shortest: Frames::new(PERIODS.0), buffer: None })
}

fn keeps(reached: &Reached, direction: Direction, device: &Settings) -> Result<(), Complaint> {
    match direction {
        Direction::Playback => {
            let format = format(&reached.wish, device)?;
            carried(&reached.wish, &format)?;
            promised(&reached.wish, &format, device, Span::ZERO).map(drop)
        }
        Direction::Capture => kept(reached, &received(reached, device)?, device).map(drop),
    }
}

/// Maximum up to the card's, within the latency.
pub(crate) fn longest_period(
    reached: &Reached,
    direction: Direction,
    device: &Settings,
) -> Result<Frames, Complaint> {
    let with = |period: i64| Settings { period: Frames::new(period), ..*device };
    let kept = |period: &i64| keeps(reached, direction, &with(*period)).is_ok();
    match (PERIODS.0..=device.period.count()).rev().find(kept) {
        Some(period) => Ok(Frames::new(period)),
        None => keeps(reached, direction, &with(PERIODS.0)).map(|()| device.period),
    }
}

/// Waits for a claimed address until about 2 s after [`reach`].
pub(crate) fn send_plan(
    reached: &Reached,
    device: &Settings,
    scheduler: Scheduler,
) -> Result<SendPlan, Complaint> {
    let Reached { wish, claim, .. } = reached;
    let format = format(wish, device)?;
    carried(wish, &format)?;
    let address = claim.as_ref().map_or_else(|| Ok(wish.address.clone()), |claim| claim.wait())?;
    let resolved = match claim {
        Some(_) => &address.resolve()?,
        None => &reached.resolved,
    };
    let mut by = sending(wish, resolved, Some((&format, device.period)))?;
    let unpaced = promised(wish, &format, device, Span::ZERO)?;
    let spare = unpaced - format.packing_age(device.period);
    let paced = pacing::pace(
        &mut by,
        (wish.keys.io_thread, wish.keys.pacing),
        (&format, device.period),
        (spare, scheduler),
    )?;
    let link_offset = promised(wish, &format, device, paced.lead())?;
    let opened = by.open(paced.by_wire_thread.then_some(scheduler))?;
    let mut plan = SendPlan::new(address.to_string(), opened, format, *device)?;
    plan.reports_to = resolved.reports().into_iter().map(Into::into).collect();
    plan.policy.link_offset = link_offset;
    plan.policy.latency = wish.keys.latency;
    plan.policy.form = wish.address.form();
    plan.policy.identity = lay::identity(core::slice::from_ref(resolved))?;
    (plan.stream.pacing, plan.claim) = (Some(paced), claim.clone());
    Ok(plan)
}

/// Latency with the time in a packet queue.
fn promised(
    wish: &Wish,
    format: &StreamFormat,
    device: &Settings,
    held: Span,
) -> Result<Span, Complaint> {
    let needs = LatencySum::of(format.packing_age(device.period) + held, device);
    if let Some(transit) = wish.transit {
        return Ok(needs.packing_age + transit);
    }
    let usual = usual_latency(format, device.period);
    lay::promised(wish.keys.latency, usual, needs).map_err(|short| {
        Complaint::unusable(format!(
            "latency {} is too short: a receiver with the same periods needs {needs}; use {} or more, or a shorter \
             ptime",
            short.requested,
            needs.total()
        ))
    })
}

fn received(reached: &Reached, device: &Settings) -> Result<StreamFormat, Complaint> {
    let mut format = format(&reached.wish, device)?;
    if let Some(announced) = &reached.announced {
        (format.sample, format.packet) = (announced.format.sample, announced.format.packet);
        format.payload_type = announced.format.payload_type;
    }
    Ok(lay::described(&reached.resolved, format))
}

fn kept(reached: &Reached, format: &StreamFormat, device: &Settings) -> Result<Span, Complaint> {
    let described = reached.resolved.description.as_ref();
    let promised = described.and_then(|described| described.link_offset);
    let promised = promised.or(reached.announced.and_then(|announced| announced.promised));
    lay::kept(reached.wish.keys.latency, promised, format, device).map_err(|short| {
        Complaint::unusable(format!(
            "latency {} is too short: {}; use {} or more, or a shorter ptime",
            short.requested,
            short.needs,
            short.needs.total()
        ))
    })
}

pub(crate) fn recv_plan(reached: &Reached, device: &Settings) -> Result<RecvPlan, Complaint> {
    let Reached { wish, resolved, .. } = reached;
    let format = received(reached, device)?;
    let receiver = lay::receiver(resolved, format, kept(reached, &format, device)?);
    let options = sockets::receiving((&wish.address, resolved), &format);
    let opened = options.open(None)?;
    let mut stream = StreamPlan::of(&wish.address, receiver, opened);
    stream.policy.latency = wish.keys.latency;
    let (streams, clock) = match wish.keys.clock.as_ref().zip(reached.clock.as_ref()) {
        Some(reported) => follow(reported, &[(&wish.address, resolved)], vec![stream])?,
        None => (vec![stream], None),
    };
    Ok(RecvPlan { clock, ..RecvPlan::new(streams, *device) })
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;

    #[test]
    fn unanswered_address_is_described() {
        let of = |text| unanswered(&Address::to_hear(text).unwrap()).sentence;
        snapshot!(of("rtp://kitchen:5004"));
        snapshot!(of("/net/kitchen.sdp"));
    }
}
