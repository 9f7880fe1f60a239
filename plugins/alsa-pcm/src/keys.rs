//! The keys of `type tautline` in ALSA's configuration.

use std::net::Ipv6Addr;
use std::path::Path;

use tautline_dsp::format::SampleFormat;
use tautline_engine::plan::LinkKind;
use tautline_engine::plan::address::{Address, MOST_AHEAD};
use tautline_engine::plan::pacing::PacingRung;
use tautline_proto::device::Direction;
use tautline_proto::latency::LatencyRule;
use tautline_proto::stream::{LONGEST_LINK_OFFSET, PTIME_RANGE, packet_frames};
use tautline_proto::text::{SpanError, parse_span};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::avtp;

use crate::complaint::Complaint;

/// A value as ALSA reads it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Number(i64),
    Real(f64),
    /// A compound or a pointer.
    Other,
}

/// A PCM as it is configured.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wish {
    pub(crate) address: Address,
    pub(crate) latency: LatencyRule,
    pub(crate) ptime: Span,
    /// Coding on the wire.
    pub(crate) format: SampleFormat,
    /// Whether the program's own samples say that, as with type `aaf`; until it has chosen, the widest holds.
    pub(crate) coded_as_program: bool,
    pub(crate) rate: Option<Rate>,
    pub(crate) channels: Option<Channels>,
    /// Frames per wake-up of the thread that owns the wire, at most.
    pub(crate) period: Frames,
    pub(crate) link: LinkKind,
    /// The only pacing that will do, if there is one.
    pub(crate) pacing: Option<PacingRung>,
    /// Frames of a packet, where that is said and no `ptime`.
    pub(crate) packet: Option<Frames>,
    /// From departure to presentation, where that is said and no latency: what packets take at most, and what the
    /// talker's clock may be off by.
    pub(crate) transit: Option<Span>,
}

impl Wish {
    /// The program codes its samples so. Whether that changes what is on the wire.
    pub(crate) fn code_as(&mut self, program: SampleFormat) -> bool {
        let format = if self.coded_as_program { program } else { self.format };
        core::mem::replace(&mut self.format, format) != format
    }
}

/// Periods that an engine takes: 16 frames are what cards at their least do, 8192 is more than any
/// latency wants.
pub(crate) const PERIODS: (i64, i64) = (16, 8192);

const KEYS: &str = "to, from, latency, ptime, format, rate, channels, period, link and pacing, or of those of type aaf \
                    ifname, addr, streamid, prio, mtt, time_uncertainty, frames_per_pdu and ptime_tolerance";

/// What the keys of ALSA's own type `aaf` say, so that what it is configured by is understood here, too.
#[derive(Default)]
struct AafKeys {
    ifname: Option<String>,
    addr: Option<String>,
    prio: Option<i64>,
    streamid: Option<String>,
    mtt: Span,
    time_uncertainty: Span,
    timed: bool,
    frames_per_pdu: Option<Frames>,
}

impl AafKeys {
    /// Takes a key, if it is one of them.
    fn take(&mut self, key: &str, value: &Value) -> Result<bool, String> {
        match key {
            "ifname" => self.ifname = Some(text(key, value, "eth0")?),
            "addr" => self.addr = Some(text(key, value, "01:AA:AA:AA:AA:AA")?),
            "streamid" => self.streamid = Some(text(key, value, "AA:BB:CC:DD:EE:FF:0001")?),
            "prio" => self.prio = Some(number(key, value)?),
            "mtt" => (self.mtt, self.timed) = (micros(key, value)?, true),
            "time_uncertainty" => {
                (self.time_uncertainty, self.timed) = (micros(key, value)?, true);
            }
            "frames_per_pdu" => {
                let frames = number(key, value)?;
                if !(1..=PERIODS.1).contains(&frames) {
                    return Err(format!("frames_per_pdu {frames} cannot be carried; use 6"));
                }
                self.frames_per_pdu = Some(Frames::new(frames));
            }
            // Presentation times are followed here however far they are off.
            "ptime_tolerance" => drop(micros(key, value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The address that they come to, if they name one.
    fn address(&self, direction: Direction) -> Result<Option<String>, String> {
        let (ifname, addr) = match (&self.ifname, &self.addr) {
            (None, None) => return self.of_no_interface().map(|()| None),
            (Some(ifname), Some(addr)) => (ifname, addr),
            _ => {
                return Err(
                    "ifname and addr belong together; write both, or to \"avtp://eth0/…\"".into()
                );
            }
        };
        let id = self.streamid.as_ref().map(|id| format!("streamid={id}"));
        let sends = direction == Direction::Playback;
        let prio = self.prio.filter(|_| sends).map(|prio| format!("prio={prio}"));
        let query: Vec<_> = id.into_iter().chain(prio).collect();
        let begins = if query.is_empty() { "" } else { "?" };
        Ok(Some(format!("avtp://{ifname}/{addr}{begins}{}", query.join("&"))))
    }

    /// Refuses what says something of them where they are not there: another address has it behind its `?`.
    fn of_no_interface(&self) -> Result<(), String> {
        let prio = self.prio.map(|prio| ("prio", prio.to_string()));
        let streamid = self.streamid.clone().map(|id| ("streamid", id));
        match prio.or(streamid) {
            Some((key, value)) => Err(format!(
                "{key} is of ifname and addr; leave it out, or write it as avtp://eth0/ADDRESS?{key}={value}"
            )),
            None => Ok(()),
        }
    }
}

/// What is gathered while keys are read.
struct Gathered {
    to: Option<String>,
    from: Option<String>,
    latency: LatencyRule,
    ptime: Option<Span>,
    format: Option<SampleFormat>,
    rate: Option<Rate>,
    channels: Option<Channels>,
    period: Frames,
    link: LinkKind,
    pacing: Option<PacingRung>,
    aaf: AafKeys,
}

/// Reads the keys of the PCM called `name`, opened in this direction. A text that is empty stands
/// for a key that is not there, as arguments with nothing in them do.
pub(crate) fn read(
    name: &str,
    keys: &[(String, Value)],
    direction: Direction,
) -> Result<Wish, Complaint> {
    let mut gathered = Gathered {
        to: None,
        from: None,
        latency: LatencyRule::Usual,
        ptime: None,
        format: None,
        rate: None,
        channels: None,
        period: Frames::new(48),
        link: LinkKind::Auto,
        pacing: None,
        aaf: AafKeys::default(),
    };
    let about = |why: String| Complaint::unusable(format!("pcm.{name}: {why}"));
    let is_there = |value: &Value| !matches!(value, Value::Text(text) if text.trim().is_empty());
    for (key, value) in keys.iter().filter(|(_, value)| is_there(value)) {
        gathered.take(key, value).map_err(about)?;
    }
    let wish = gathered.wish(direction).map_err(about)?;
    if let Some(rate) = wish.rate {
        packet_frames(rate, wish.ptime).map_err(|error| about(error.to_string()))?;
    }
    Ok(wish)
}

impl Gathered {
    fn take(&mut self, key: &str, value: &Value) -> Result<(), String> {
        match key {
            // `type` brought us here, the others are for people and for lists of PCMs.
            "type" | "comment" | "hint" => {}
            "to" => self.to = Some(text(key, value, "rtp://239.69.1.5:5004")?),
            "from" => self.from = Some(text(key, value, "rtp://0.0.0.0:5004")?),
            "latency" => self.latency = latency(&text(key, value, "5ms")?)?,
            "ptime" => {
                let ptime = span(key, &text(key, value, "1ms")?, PTIME_RANGE.0, PTIME_RANGE.1)?;
                packet_frames(Rate::HZ_48000, ptime).map_err(|error| error.to_string())?;
                self.ptime = Some(ptime);
            }
            "format" => self.format = Some(format(&text(key, value, "l24")?)?),
            "rate" => {
                let rate = number(key, value)?;
                let rate = u32::try_from(rate)
                    .map_err(|_| format!("rate {rate} is no rate; use 48000"))?;
                self.rate = Some(Rate::new(rate).map_err(|_| {
                    format!("rate {rate} is not carried; use {}", Rate::listed(|_| true))
                })?);
            }
            "channels" => {
                let count = number(key, value)?;
                let known = u32::try_from(count).ok().and_then(|count| Channels::new(count).ok());
                self.channels = Some(known.ok_or_else(|| {
                    format!("{count} channels cannot be carried; use 1 to {}", Channels::MAX)
                })?);
            }
            "period" => {
                let frames = number(key, value)?;
                if !(PERIODS.0..=PERIODS.1).contains(&frames) {
                    return Err(format!(
                        "period {frames} cannot be kept; use {} to {} frames",
                        PERIODS.0, PERIODS.1
                    ));
                }
                self.period = Frames::new(frames);
            }
            "link" => self.link = link(&text(key, value, "auto")?)?,
            "pacing" => {
                let word = text(key, value, "auto")?;
                match link(&word) {
                    // What `link` was called at first; `auto` is the same of both.
                    Ok(link) => self.link = link,
                    Err(_) => self.pacing = Some(pacing(&word)?),
                }
            }
            key if self.aaf.take(key, value)? => {}
            other => return Err(format!("`{other}` is no key of type tautline; use {KEYS}")),
        }
        Ok(())
    }

    fn wish(self, direction: Direction) -> Result<Wish, String> {
        let (own, other, end) = match direction {
            Direction::Playback => (self.to, self.from, ("to", "from", "playing", "recorded from")),
            Direction::Capture => (self.from, self.to, ("from", "to", "recording", "played to")),
        };
        let (key, other_key, doing, rather) = end;
        let by_aaf = self.aaf.address(direction)?;
        if let (Some(_), Some(own)) = (&by_aaf, &own) {
            return Err(format!("{key} {own} and ifname say both where it goes; leave one out"));
        }
        let own = own.or(by_aaf);
        let Some(text) = own else {
            return Err(if other.is_some() {
                format!(
                    "it has only `{other_key}`, so it can be {rather}; for {doing} add {key} \
                     \"rtp://HOST:5004\""
                )
            } else {
                format!(
                    "an address is missing; write taut:HOST, or {key} \"rtp://HOST:5004\" in its pcm"
                )
            });
        };
        let text = completed(&text).ok_or_else(|| {
            format!("{key} {text} names no host; write {key} \"rtp://HOST:5004\"")
        })?;
        let address = match direction {
            Direction::Playback => Address::to_send_to(&text)?,
            Direction::Capture => Address::to_hear(&text)?,
        };
        let Self { latency, ptime, format, rate, channels, period, link, pacing, aaf, .. } = self;
        let transit = aaf.timed.then_some(aaf.mtt + aaf.time_uncertainty);
        if transit.is_some() && latency != LatencyRule::Usual {
            return Err("latency and mtt say the same; leave one out".to_owned());
        }
        let sends = direction == Direction::Playback;
        if sends && address.form().presents() && latency == LatencyRule::Auto {
            return Err("latency auto follows what receivers ask for, and packets of AVTP say when they are to be \
                        presented; give a latency or an mtt"
                .to_owned());
        }
        if sends {
            refuse_untellable(&address, latency)?;
        }
        if let Some(rate) = rate.filter(|rate| !carries(&address, *rate)) {
            let carried = Rate::listed(avtp::carries);
            return Err(format!("AVTP has no rate of {rate}; use {carried}"));
        }
        let packet = aaf.frames_per_pdu;
        if let (Some(frames), Some(ptime)) = (packet, ptime) {
            refuse_two_lengths(frames, ptime, rate.unwrap_or(Rate::HZ_48000))?;
        }
        let coded_as_program = format.is_none() && aaf.ifname.is_some();
        let unsaid = if coded_as_program { SampleFormat::L32 } else { SampleFormat::L24 };
        Ok(Wish {
            address,
            latency,
            ptime: ptime.unwrap_or(Span::from_millis(1)),
            format: format.unwrap_or(unsaid),
            coded_as_program,
            rate,
            channels,
            period,
            link,
            pacing,
            packet,
            transit,
        })
    }
}

/// Whether packets that go or come there may be of this rate.
fn carries(address: &Address, rate: Rate) -> bool {
    !address.form().presents() || avtp::carries(rate)
}

/// Refuses a latency that puts presentations further ahead than packets can tell.
fn refuse_untellable(address: &Address, latency: LatencyRule) -> Result<(), String> {
    match latency {
        LatencyRule::Chosen(latency) if latency > MOST_AHEAD && address.form().presents() => {
            Err(format!(
                "latency {latency} is too long, as packets of AVTP tell presentations {MOST_AHEAD} ahead at most; use \
                 latency \"{MOST_AHEAD}\" or less"
            ))
        }
        _ => Ok(()),
    }
}

/// Refuses what says twice how long a packet is, unless that is the same at this rate.
fn refuse_two_lengths(frames: Frames, ptime: Span, rate: Rate) -> Result<(), String> {
    let other = packet_frames(rate, ptime).map_err(|error| error.to_string())?;
    if frames == other {
        return Ok(());
    }
    Err(format!(
        "frames_per_pdu {frames} and ptime {ptime}, which is {other} frames at {rate}, say how long a packet is; leave \
         one out"
    ))
}

/// An address as `aplay -D taut:HOST` gives it, in full: RTP, at UDP port 5004 unless it says
/// another. Nothing if it is a number, which the system's resolver takes for an IP address.
fn completed(text: &str) -> Option<String> {
    let (place, query) = text.split_at(text.find('?').unwrap_or(text.len()));
    let is_file = Path::new(place).extension().is_some_and(|end| end.eq_ignore_ascii_case("sdp"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // A beginning that lacks a slash is for the address's reader to mend; a host may be called rtp.
    let begins = place.strip_prefix("rtp:").is_some_and(|rest| !is_number(rest));
    if is_file || begins || place.contains("://") {
        return Some(text.to_owned());
    }
    if place.parse::<Ipv6Addr>().is_ok() {
        return Some(format!("rtp://[{place}]:5004{query}"));
    }
    // One beyond what there are is a port too, for the address's reader to refuse.
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if is_number(port) => (host, port),
        _ => (place, "5004"),
    };
    (!is_number(host)).then(|| format!("rtp://{host}:{port}{query}"))
}

fn text(key: &str, value: &Value, example: &str) -> Result<String, String> {
    let timed = key == "latency" || key == "ptime";
    match value {
        Value::Text(text) => Ok(text.trim().to_owned()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Real(real) if timed => Ok(real.to_string()),
        Value::Real(_) | Value::Other => {
            Err(format!("`{key}` is to be a text; write {key} \"{example}\""))
        }
    }
}

fn number(key: &str, value: &Value) -> Result<i64, String> {
    let unusable = |given: &str| {
        format!("{key} {given} is no whole number; write it without unit and quotation marks")
    };
    match value {
        Value::Number(number) => Ok(*number),
        Value::Text(text) => text.trim().parse().map_err(|_| unusable(&format!("\"{text}\""))),
        Value::Real(real) => {
            Err(format!("{key} {real} is no whole number; write {key} {:.0}", real.max(1.0)))
        }
        Value::Other => Err(unusable("{…}")),
    }
}

/// A duration between these. Of a figure alone it says the unit that it may have.
fn span(key: &str, text: &str, least: Span, most: Span) -> Result<Span, String> {
    let figure = match parse_span(text) {
        Err(SpanError::Unit(figure)) => figure,
        answer => return answer.map_err(|error| format!("{key}: {error}")),
    };
    let with = |unit: &str| parse_span(&format!("{figure}{unit}"));
    let can_be = |unit: &&str| with(unit).is_ok_and(|span| span >= least && span <= most);
    match ["ms", "us"].into_iter().find(can_be) {
        Some(unit) => Err(format!("{key} {figure} has no unit; write {key} \"{figure}{unit}\"")),
        None => with("ms").map_err(|error| format!("{key}: {error}")),
    }
}

fn latency(text: &str) -> Result<LatencyRule, String> {
    if text == "auto" {
        return Ok(LatencyRule::Auto);
    }
    let latency = span("latency", text, Span::from_micros(1), LONGEST_LINK_OFFSET)?;
    if latency <= Span::ZERO || latency > LONGEST_LINK_OFFSET {
        return Err(format!(
            "a latency of {latency} cannot be kept; use one up to {LONGEST_LINK_OFFSET}, or auto"
        ));
    }
    Ok(LatencyRule::Chosen(latency))
}

fn format(text: &str) -> Result<SampleFormat, String> {
    match text.to_ascii_lowercase().as_str() {
        "l16" => Ok(SampleFormat::L16),
        "l24" => Ok(SampleFormat::L24),
        "l32" => Ok(SampleFormat::L32),
        "f32" => Ok(SampleFormat::F32),
        _ => Err(format!("format \"{text}\" is not carried; use l16, l24, l32 or f32")),
    }
}

fn link(text: &str) -> Result<LinkKind, String> {
    match text {
        "auto" => Ok(LinkKind::Auto),
        "direct" => Ok(LinkKind::Direct),
        "ringed" => Ok(LinkKind::Ringed),
        _ => Err(format!("link \"{text}\" is unknown; use auto, direct or ringed")),
    }
}

fn pacing(text: &str) -> Result<PacingRung, String> {
    text.parse().map_err(|_| {
        let names = PacingRung::ALL.map(PacingRung::name).join(", ");
        format!("pacing \"{text}\" is unknown; use auto or one of {names}")
    })
}

/// Whole microseconds, as type `aaf` has them.
fn micros(key: &str, value: &Value) -> Result<Span, String> {
    let micros = number(key, value)?;
    if !(0..=1_000_000).contains(&micros) {
        return Err(format!("{key} {micros} is no time in microseconds up to a second"));
    }
    Ok(Span::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use alsa_sys::{
        SND_PCM_FORMAT_FLOAT_BE, SND_PCM_FORMAT_S16_BE, SND_PCM_FORMAT_S24_3BE,
        SND_PCM_FORMAT_S32_BE,
    };

    use super::*;
    use crate::samples::SampleCoding;

    fn keys(pairs: &[(&str, &str)]) -> Vec<(String, Value)> {
        let value =
            |text: &str| text.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Number);
        pairs.iter().map(|(key, text)| ((*key).to_owned(), value(text))).collect()
    }

    fn refusal(pairs: &[(&str, &str)]) -> String {
        let complaint = read("x", &keys(pairs), Direction::Playback).unwrap_err();
        assert_eq!(complaint.errno, libc::EINVAL);
        complaint.sentence
    }

    #[test]
    fn a_pcm_is_what_its_keys_say() {
        let all = [
            ("type", "tautline"),
            ("to", "rtp://239.69.1.5:5004"),
            ("from", ""),
            ("latency", "5ms"),
            ("ptime", "125us"),
            ("format", "L16"),
            ("rate", "96000"),
            ("channels", "8"),
            ("period", "32"),
            ("link", "ringed"),
            ("pacing", "fq"),
        ];
        let wish = read("x", &keys(&all), Direction::Playback).unwrap();
        assert_eq!(wish.latency, LatencyRule::Chosen(Span::from_millis(5)));
        assert_eq!((wish.ptime, wish.format), (Span::from_micros(125), SampleFormat::L16));
        assert_eq!(wish.rate.map(Rate::hertz), Some(96_000));
        assert_eq!(wish.channels.map(Channels::count), Some(8));
        assert_eq!((wish.period, wish.link), (Frames::new(32), LinkKind::Ringed));
        assert_eq!(wish.pacing, Some(PacingRung::Fq));
        assert_eq!(wish.address.to_string(), "rtp://239.69.1.5:5004");
    }

    #[test]
    fn what_link_was_called_at_first_is_still_understood() {
        let read = |word| {
            let wish = read("x", &keys(&[("to", "a"), ("pacing", word)]), Direction::Playback);
            wish.map(|wish| (wish.link, wish.pacing)).unwrap()
        };
        assert_eq!(read("ringed"), (LinkKind::Ringed, None));
        assert_eq!(read("auto"), (LinkKind::Auto, None));
        assert_eq!(read("etf"), (LinkKind::Auto, Some(PacingRung::Etf)));
    }

    #[test]
    fn what_type_aaf_is_configured_by_is_understood() {
        let configured = [
            ("type", "tautline"),
            ("ifname", "eth0"),
            ("addr", "01:AA:AA:AA:AA:AA"),
            ("prio", "3"),
            ("streamid", "AA:BB:CC:DD:EE:FF:0001"),
            ("mtt", "2000"),
            ("time_uncertainty", "125"),
            ("frames_per_pdu", "6"),
            ("ptime_tolerance", "100"),
        ];
        for direction in [Direction::Playback, Direction::Capture] {
            let wish = read("x", &keys(&configured), direction).unwrap();
            let address = wish.address.to_string();
            assert!(address.starts_with("avtp://eth0/01:AA:AA:AA:AA:AA"), "{address}");
            assert_eq!(wish.packet, Some(Frames::new(6)));
            assert_eq!(wish.transit, Some(Span::from_micros(2125)));
        }
        let without = |key: &str| {
            let left: Vec<_> = configured.into_iter().filter(|(other, _)| *other != key).collect();
            read("x", &keys(&left), Direction::Playback)
        };
        assert!(without("addr").unwrap_err().sentence.contains("belong together"));
        assert_eq!(without("mtt").unwrap().transit, Some(Span::from_micros(125)));
        assert_eq!(without("frames_per_pdu").unwrap().packet, None);
    }

    #[test]
    fn what_type_aaf_is_configured_by_is_coded_as_the_program_codes_it() {
        let wish = |format: &str| {
            let place = [("ifname", "eth0"), ("addr", "01:AA:AA:AA:AA:AA"), ("format", format)];
            read("x", &keys(&place), Direction::Playback).unwrap()
        };
        let mut free = wish("");
        assert_eq!(free.format, SampleFormat::L32, "the widest, until it is known");
        // All that type `aaf` offers, with its `format` on the wire.
        for (number, sample, format) in [
            (SND_PCM_FORMAT_S16_BE, SampleFormat::L16, 4),
            (SND_PCM_FORMAT_S24_3BE, SampleFormat::L24, 3),
            (SND_PCM_FORMAT_S32_BE, SampleFormat::L32, 2),
            (SND_PCM_FORMAT_FLOAT_BE, SampleFormat::F32, 1),
        ] {
            let program = SampleCoding::of(number).unwrap().on_wire();
            assert!(free.code_as(program) && free.format == sample);
            assert_eq!(free.address.form().coding(free.format), format);
            assert!(!free.code_as(program), "the same once more");
        }
        let mut said = wish("l24");
        assert!(!said.code_as(SampleFormat::L16) && said.format == SampleFormat::L24);
        let mut by_address = read("x", &keys(&[("to", "a")]), Direction::Playback).unwrap();
        assert!(!by_address.code_as(SampleFormat::L16));
        assert_eq!(by_address.format, SampleFormat::L24);
    }

    #[test]
    fn a_packet_may_be_told_twice_where_both_are_the_same() {
        let wish = |rate| {
            let twice = [("to", "a"), ("frames_per_pdu", "6"), ("ptime", "125us"), ("rate", rate)];
            read("x", &keys(&twice), Direction::Playback)
        };
        assert_eq!(wish("").unwrap().packet, Some(Frames::new(6)));
        assert_eq!(wish("48000").unwrap().packet, Some(Frames::new(6)));
        let other = wish("96000").unwrap_err().sentence;
        assert!(other.contains("12 frames at 96000 Hz"), "{other}");
    }

    #[test]
    fn the_direction_says_which_address_is_meant() {
        let both = keys(&[("to", "10.0.0.2"), ("from", "0.0.0.0:6000")]);
        let address = |direction| read("x", &both, direction).unwrap().address.to_string();
        assert_eq!(address(Direction::Playback), "rtp://10.0.0.2:5004");
        assert_eq!(address(Direction::Capture), "rtp://0.0.0.0:6000");
    }

    #[test]
    fn an_address_may_leave_out_what_is_usual() {
        for (short, full) in [
            ("kitchen", "rtp://kitchen:5004"),
            ("kitchen:6000", "rtp://kitchen:6000"),
            ("239.69.1.5?iface=eth0&ttl=4", "rtp://239.69.1.5:5004?iface=eth0&ttl=4"),
            ("::1", "rtp://[::1]:5004"),
            ("[::1]:6000", "rtp://[::1]:6000"),
            ("[::1]", "rtp://[::1]:5004"),
            ("rtp://a:1", "rtp://a:1"),
            ("/tmp/kitchen.sdp", "/tmp/kitchen.sdp"),
        ] {
            assert_eq!(completed(short).as_deref(), Some(full));
        }
    }

    #[test]
    fn what_cannot_be_is_answered_with_the_mend() {
        for (pairs, words) in [
            (vec![], "an address is missing; write taut:HOST, or to \"rtp://HOST:5004\""),
            (vec![("from", "0.0.0.0")], "only `from`"),
            (vec![("to", "a"), ("latncy", "5ms")], "`latncy` is no key of type tautline; use to"),
            (vec![("to", "a"), ("latency", "5")], "latency 5 has no unit; write latency \"5ms\""),
            (vec![("to", "a"), ("latency", "5 parsecs")], "is not a duration"),
            (vec![("to", "a"), ("latency", "1h")], "cannot be kept"),
            (vec![("to", "a"), ("ptime", "1s")], "125us to 20ms"),
            (vec![("to", "a"), ("ptime", "0")], "125us to 20ms"),
            (vec![("to", "a"), ("ptime", "250")], "write ptime \"250us\""),
            (vec![("to", "a"), ("ptime", "0.5")], "write ptime \"0.5ms\""),
            (vec![("to", "a"), ("latency", "0")], "cannot be kept"),
            (vec![("to", "5")], "to 5 names no host; write to \"rtp://HOST:5004\""),
            (vec![("to", "5:5004")], "names no host"),
            (vec![("to", ":5004")], "names no host; write rtp://HOST:5004"),
            (vec![("to", " ")], "an address is missing"),
            (vec![("to", "rtp:/127.0.0.1:5004")], "write rtp://127.0.0.1:5004"),
            (vec![("to", "rtp:127.0.0.1")], "write rtp://127.0.0.1:5004"),
            (vec![("to", "127.0.0.1:99999")], "99999 is too large for a UDP port"),
            (vec![("to", "a"), ("format", "s16")], "l16, l24, l32 or f32"),
            (vec![("to", "a"), ("rate", "44000")], "44000"),
            (vec![("to", "a"), ("rate", "many")], "no whole number"),
            (vec![("to", "a"), ("rate", "-1")], "no rate"),
            (vec![("to", "a"), ("channels", "65")], "65"),
            (vec![("to", "a"), ("channels", "0")], "0"),
            (vec![("to", "a"), ("channels", "-2")], "-2 channels cannot be carried; use 1 to 64"),
            (vec![("to", "a"), ("period", "7")], "16 to 8192"),
            (vec![("to", "a"), ("link", "etf")], "auto, direct or ringed"),
            (vec![("to", "a"), ("pacing", "soon")], "use auto or one of etf-offload, etf, fq"),
            (vec![("to", "a"), ("ifname", "eth0"), ("addr", "1")], "say both where it goes"),
            (vec![("to", "a"), ("latency", "5ms"), ("mtt", "2000")], "say the same"),
            (vec![("to", "a"), ("mtt", "2ms")], "mtt"),
            (vec![("to", "a"), ("frames_per_pdu", "0")], "cannot be carried"),
            (vec![("to", "avtp://eth0/01:02")], "01:02"),
            (vec![("to", "avtp+udp://a"), ("latency", "auto")], "give a latency or an mtt"),
            (vec![("to", "a?gain=3dB")], "--from"),
            (vec![("ifname", "eth0")], "belong together"),
            (vec![("to", "a"), ("mttt", "1")], "pacing, or of those of type aaf ifname, addr"),
            (vec![("to", "a"), ("prio", "3")], "prio is of ifname and addr; leave it out, or"),
            (vec![("to", "avtp://e/1:0:0:0:0:1"), ("streamid", "1:2:3:4:5:6:7")], "?streamid="),
            (vec![("to", "a"), ("frames_per_pdu", "6"), ("ptime", "1ms")], "leave one out"),
            (vec![("to", "avtp+udp://a"), ("latency", "3s")], "2.1s ahead at most; use latency"),
            (vec![("to", "avtp+udp://a"), ("rate", "11025")], "use 8000, 16000, 24000"),
            (vec![("to", "a"), ("rate", "47000")], "96000, 176400 or 192000"),
        ] {
            let sentence = refusal(&pairs);
            assert!(sentence.starts_with("pcm.x: ") && sentence.contains(words), "{sentence}");
        }
        let half = [("channels".to_owned(), Value::Real(2.5))];
        let sentence = read("x", &half, Direction::Playback).unwrap_err().sentence;
        assert!(
            sentence.contains("channels 2.5 is no whole number; write channels 2"),
            "{sentence}"
        );
        let compound = [("to".to_owned(), Value::Other)];
        let sentence = read("x", &compound, Direction::Playback).unwrap_err().sentence;
        assert!(sentence.contains("is to be a text"), "{sentence}");
    }
}
