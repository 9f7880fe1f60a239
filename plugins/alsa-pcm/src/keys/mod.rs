//! Keys of `type tautline` in ALSA's configuration.

mod aaf;
mod values;

use std::net::Ipv6Addr;
use std::path::Path;

use tautline_dsp::format::SampleFormat;
use tautline_engine::plan::LinkKind;
use tautline_engine::plan::address::{Address, MAX_AHEAD};
use tautline_engine::plan::pacing::PacingMode;
use tautline_io::programs::ProgramsName;
use tautline_proto::device::Direction;
use tautline_proto::latency::LatencyRule;
use tautline_proto::stream::{PTIME_RANGE, packet_frames};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::avtp;

use self::aaf::AafKeys;
pub(crate) use self::values::Value;
use self::values::{format, io_thread, latency, number, pacing, span, text};
use crate::complaint::Complaint;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlainKeys {
    pub(crate) latency: LatencyRule,
    pub(crate) rate: Option<Rate>,
    pub(crate) channels: Option<Channels>,
    /// Maximum frames per wake-up.
    pub(crate) period: Frames,
    pub(crate) io_thread: LinkKind,
    /// `None` is automatic.
    pub(crate) pacing: Option<PacingMode>,
    /// Clock that a recorder follows.
    pub(crate) clock: Option<Address>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wish {
    pub(crate) address: Address,
    pub(crate) keys: PlainKeys,
    pub(crate) ptime: Span,
    pub(crate) format: SampleFormat,
    /// As with type `aaf`.
    pub(crate) coded_as_program: bool,
    /// Instead of `ptime`.
    pub(crate) packet: Option<Frames>,
    /// Time from departure to presentation, instead of the latency.
    pub(crate) transit: Option<Span>,
}

impl Wish {
    /// Returns whether the wire format changes.
    pub(crate) fn code_as(&mut self, program: SampleFormat) -> bool {
        let format = if self.coded_as_program { program } else { self.format };
        core::mem::replace(&mut self.format, format) != format
    }
}

/// Limits in frames: 8192 exceeds any useful latency.
pub(crate) const PERIODS: (i64, i64) = (16, 8192);

const KEYS: &str = "serve alone, or to, from, latency, ptime, format, rate, channels, period, io_thread, pacing and \
    clock, or of type aaf ifname, addr, streamid, prio, mtt, time_uncertainty, frames_per_pdu and ptime_tolerance";

struct Gathered {
    to: Option<String>,
    from: Option<String>,
    ptime: Option<Span>,
    format: Option<SampleFormat>,
    keys: PlainKeys,
    aaf: AafKeys,
}

pub(crate) fn served(
    name: &str,
    keys: &[(String, Value)],
) -> Result<Option<ProgramsName>, Complaint> {
    let about = |why: String| Complaint::unusable(format!("pcm.{name}: {why}"));
    let hint = "use up to 32 letters, digits, - and _, as in taut serve --input programs:NAME";
    let named = |name: &str| keys.iter().find(|(key, value)| key == name && is_there(value));
    let Some((_, value)) = named("serve") else {
        let empty = keys.iter().any(|(key, _)| key == "serve");
        return match empty && named("to").or(named("from")).is_none() {
            true => Err(about(format!("serve: no name; {hint}"))),
            false => Ok(None),
        };
    };
    let given = text("serve", value, "taut").map_err(about)?;
    let others = |(key, value): &&(String, Value)| {
        !["type", "comment", "hint", "serve"].contains(&&**key) && is_there(value)
    };
    if let Some((other, _)) = keys.iter().find(others) {
        return Err(about(format!("serve {given} excludes {other}; remove one of them")));
    }
    given.parse().map(Some).map_err(|()| about(format!("invalid serve \"{given}\"; {hint}")))
}

fn is_there(value: &Value) -> bool {
    !matches!(value, Value::Text(text) if text.trim().is_empty())
}

/// An empty text counts as unset.
pub(crate) fn read(
    name: &str,
    keys: &[(String, Value)],
    direction: Direction,
) -> Result<Wish, Complaint> {
    let mut gathered = Gathered {
        to: None,
        from: None,
        ptime: None,
        format: None,
        keys: PlainKeys {
            latency: LatencyRule::Usual,
            rate: None,
            channels: None,
            period: Frames::new(48),
            io_thread: LinkKind::Auto,
            pacing: None,
            clock: None,
        },
        aaf: AafKeys::default(),
    };
    let about = |why: String| Complaint::unusable(format!("pcm.{name}: {why}"));
    for (key, value) in keys.iter().filter(|(_, value)| is_there(value)) {
        gathered.take(key, value).map_err(about)?;
    }
    let wish = gathered.wish(direction).map_err(about)?;
    if let Some(rate) = wish.keys.rate {
        packet_frames(rate, wish.ptime).map_err(|error| about(error.to_string()))?;
    }
    Ok(wish)
}

impl Gathered {
    fn take(&mut self, key: &str, value: &Value) -> Result<(), String> {
        match key {
            // ALSA uses `type`; `comment` and `hint` are for people and PCM lists.
            "type" | "comment" | "hint" => {}
            "to" => self.to = Some(text(key, value, "rtp://239.69.1.5:5004")?),
            "from" => self.from = Some(text(key, value, "rtp://0.0.0.0:5004")?),
            "latency" => self.keys.latency = latency(&text(key, value, "5ms")?)?,
            "ptime" => {
                let ptime = span(key, &text(key, value, "1ms")?, PTIME_RANGE.0, PTIME_RANGE.1)?;
                packet_frames(Rate::HZ_48000, ptime).map_err(|error| error.to_string())?;
                self.ptime = Some(ptime);
            }
            "format" => self.format = Some(format(&text(key, value, "l24")?)?),
            "rate" => {
                let rate = number(key, value)?;
                let rate =
                    u32::try_from(rate).map_err(|_| format!("invalid rate {rate}; use 48000"))?;
                self.keys.rate = Some(Rate::new(rate).map_err(|_| {
                    format!("unsupported rate {rate}; use {}", Rate::listed(|_| true))
                })?);
            }
            "channels" => {
                let count = number(key, value)?;
                let known = u32::try_from(count).ok().and_then(|count| Channels::new(count).ok());
                self.keys.channels = Some(known.ok_or_else(|| {
                    format!("invalid channels {count}: must be 1 to {}", Channels::MAX)
                })?);
            }
            "period" => {
                let frames = number(key, value)?;
                if !(PERIODS.0..=PERIODS.1).contains(&frames) {
                    return Err(format!(
                        "invalid period {frames}: must be {} to {} frames",
                        PERIODS.0, PERIODS.1
                    ));
                }
                self.keys.period = Frames::new(frames);
            }
            "clock" => {
                let address = text(key, value, "avtp://eth0/91:E0:F0:00:FE:08")?;
                self.keys.clock = Some(Address::to_follow(&address)?);
            }
            "io_thread" => self.keys.io_thread = io_thread(&text(key, value, "auto")?)?,
            "pacing" => self.keys.pacing = pacing(&text(key, value, "auto")?)?,
            key if self.aaf.take(key, value)? => {}
            other => return Err(format!("unknown key `{other}`; use {KEYS}")),
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
            return Err(format!("{key} {own} and ifname both set the address; remove one of them"));
        }
        if self.keys.clock.is_some() && direction == Direction::Playback && other.is_none() {
            return Err(
                "clock applies only to recording, and this PCM has no `from`; remove it".into()
            );
        }
        let own = own.or(by_aaf);
        let Some(text) = own else {
            return Err(if other.is_some() {
                format!(
                    "it has only `{other_key}` and can only be {rather}; for {doing} add {key} \"rtp://HOST:5004\""
                )
            } else {
                format!(
                    "the address is missing; write taut:HOST, or {key} \"rtp://HOST:5004\" in its pcm"
                )
            });
        };
        let text = completed(&text)
            .ok_or_else(|| format!("no host in {key} {text}; write {key} \"rtp://HOST:5004\""))?;
        let address = match direction {
            Direction::Playback => Address::to_send_to(&text)?,
            Direction::Capture => Address::to_hear(&text)?,
        };
        let Self { ptime, format, mut keys, aaf, .. } = self;
        let PlainKeys { latency, rate, .. } = keys;
        let transit = aaf.timed.then_some(aaf.mtt + aaf.time_uncertainty);
        if transit.is_some() && latency != LatencyRule::Usual {
            return Err("latency and mtt are the same setting; remove one of them".to_owned());
        }
        let sends = direction == Direction::Playback;
        if sends && address.form().presents() && latency.is_auto() {
            return Err("latency auto does not apply to AVTP, whose packets carry presentation times; write a latency \
                or an mtt"
                .to_owned());
        }
        // A PCM for both directions follows the clock when it records.
        keys.clock = keys.clock.filter(|_| !sends);
        if keys.clock.is_some() && !address.form().presents() {
            return Err(format!(
                "clock applies only to AVTP streams, but {address} is not one; remove `clock`, or record from avtp://"
            ));
        }
        if sends {
            refuse_untellable(&address, latency)?;
        }
        if let Some(rate) = rate.filter(|rate| !carries(&address, *rate)) {
            let carried = Rate::listed(avtp::carries);
            return Err(format!("AVTP does not support a rate of {rate}; use {carried}"));
        }
        let packet = aaf.frames_per_pdu;
        if let (Some(frames), Some(ptime)) = (packet, ptime) {
            refuse_two_lengths(frames, ptime, rate.unwrap_or(Rate::HZ_48000))?;
        }
        let coded_as_program = format.is_none() && aaf.ifname.is_some();
        let unsaid = if coded_as_program { SampleFormat::L32 } else { SampleFormat::L24 };
        Ok(Wish {
            address,
            keys,
            ptime: ptime.unwrap_or(Span::from_millis(1)),
            format: format.unwrap_or(unsaid),
            coded_as_program,
            packet,
            transit,
        })
    }
}

fn carries(address: &Address, rate: Rate) -> bool {
    !address.form().presents() || avtp::carries(rate)
}

fn refuse_untellable(address: &Address, latency: LatencyRule) -> Result<(), String> {
    match latency {
        LatencyRule::Chosen(latency) if latency > MAX_AHEAD && address.form().presents() => {
            Err(format!(
                "latency {latency} is too long: AVTP presentation times are at most {MAX_AHEAD} ahead; use latency \
                 \"{MAX_AHEAD}\" or less"
            ))
        }
        _ => Ok(()),
    }
}

fn refuse_two_lengths(frames: Frames, ptime: Span, rate: Rate) -> Result<(), String> {
    let other = packet_frames(rate, ptime).map_err(|error| error.to_string())?;
    if frames == other {
        return Ok(());
    }
    Err(format!(
        "frames_per_pdu {frames} and ptime {ptime}, which is {other} frames at {rate}, contradict each other; remove \
         one of them"
    ))
}

/// Expands `HOST`, as in `aplay -D taut:HOST`. `None` for a bare number, which the resolver would
/// take for an IP address.
fn completed(text: &str) -> Option<String> {
    let (place, query) = text.split_at(text.find('?').unwrap_or(text.len()));
    let is_file = Path::new(place).extension().is_some_and(|end| end.eq_ignore_ascii_case("sdp"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // But a host may be called `rtp`.
    let begins = place.strip_prefix("rtp:").is_some_and(|rest| !is_number(rest));
    if is_file || begins || place.contains("://") {
        return Some(text.to_owned());
    }
    if place.parse::<Ipv6Addr>().is_ok() {
        return Some(format!("rtp://[{place}]:5004{query}"));
    }
    // The address parser rejects them.
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if is_number(port) => (host, port),
        _ => (place, "5004"),
    };
    (!is_number(host)).then(|| format!("rtp://{host}:{port}{query}"))
}

#[cfg(test)]
mod tests;
