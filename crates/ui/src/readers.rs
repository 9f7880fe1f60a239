//! Parsers of option values.

use clap::builder::{OsStringValueParser, TypedValueParser};
use tautline_audio::DeviceSpec;
use tautline_engine::plan::address::Address;
use tautline_proto::codec::Opus;
use tautline_proto::latency::LatencyRule;
use tautline_proto::stream::{LONGEST_LINK_OFFSET, PTIME_RANGE};
use tautline_proto::text::parse_span;
use tautline_proto::time::Span;
use tautline_proto::units::{Channels, Rate};

pub fn parse<T: std::str::FromStr>(text: &str) -> Result<T, String>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error: T::Err| error.to_string())
}

/// Parses a device; its path may be any bytes.
pub fn device() -> impl TypedValueParser<Value = DeviceSpec> {
    OsStringValueParser::new()
        .try_map(|name| DeviceSpec::try_from(&*name).map_err(|error| error.to_string()))
}

/// Parses an address; the path of a description may be any bytes.
pub fn address(
    read: fn(&str) -> Result<Address, String>,
) -> impl TypedValueParser<Value = Address> {
    OsStringValueParser::new().try_map(move |name| {
        read(&name.to_string_lossy()).map(|address| address.with_bytes_of(&name))
    })
}

pub fn span(text: &str) -> Result<Span, String> {
    let span = parse_span(text).map_err(|error| error.to_string())?;
    if span <= Span::ZERO {
        return Err(format!("`{text}` is not longer than 0\nhint: write a time such as 5ms"));
    }
    Ok(span)
}

pub fn ptime(text: &str) -> Result<Span, String> {
    let (minimum, maximum) = PTIME_RANGE;
    match span(text)? {
        ptime if ptime < minimum || ptime > maximum => {
            Err(format!("packets have {minimum} to {maximum}\nhint: write a time such as 5ms"))
        }
        ptime => Ok(ptime),
    }
}

/// Parses a time, `auto`, or `auto:` with a maximum.
pub fn latency(text: &str) -> Result<LatencyRule, String> {
    if text == "auto" {
        return Ok(LatencyRule::AUTO);
    }
    if let Some(maximum) = text.strip_prefix("auto:") {
        return match span(maximum)? {
            maximum if maximum > LONGEST_LINK_OFFSET => Err(format!(
                "the maximum latency is {LONGEST_LINK_OFFSET}\nhint: write auto:{LONGEST_LINK_OFFSET} or less"
            )),
            maximum => Ok(LatencyRule::Auto { maximum: Some(maximum) }),
        };
    }
    span(text).map(LatencyRule::Chosen).map_err(|error| format!("{error}, or auto"))
}

pub fn rate(text: &str) -> Result<Rate, String> {
    let hertz = text.parse().map_err(|_| {
        format!("`{text}` is not a sample rate\nhint: write a number such as 48000")
    })?;
    Rate::new(hertz).map_err(|error| error.to_string())
}

/// Parses bits per second: `96k` or `96000`.
pub fn bitrate(text: &str) -> Result<u32, String> {
    let (number, thousands) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1000),
        None => (text, 1),
    };
    let bits = number.parse::<u32>().ok().and_then(|number| number.checked_mul(thousands));
    let (minimum, maximum) = Opus::BITRATES;
    bits.filter(|bits| (minimum..=maximum).contains(bits)).ok_or_else(|| {
        format!("`{text}` is not a bit rate of Opus\nhint: write 6k to 510k, such as 96k")
    })
}

/// Parses a DSCP: a number or IANA name (RFC 2474, 2597, 3246, 5865, 8622).
pub fn dscp(text: &str) -> Result<u8, String> {
    let name = text.to_ascii_uppercase();
    let digits = |prefix| name.strip_prefix(prefix).map(str::as_bytes);
    let code = match name.as_str() {
        "EF" => Some(46),
        "VA" => Some(44),
        "LE" => Some(1),
        "DF" | "BE" => Some(0),
        _ => match (digits("CS"), digits("AF")) {
            (Some([class @ b'0'..=b'7']), _) => Some(8 * (class - b'0')),
            (_, Some([class @ b'1'..=b'4', drop @ b'1'..=b'3'])) => {
                Some(8 * (class - b'0') + 2 * (drop - b'0'))
            }
            _ => text.parse().ok().filter(|code| *code < 64),
        },
    };
    code.ok_or_else(|| "must be 0 to 63, or a name such as EF, AF41 or CS5".to_owned())
}

pub fn channels(text: &str) -> Result<Channels, String> {
    let count = text.parse().map_err(|_| {
        format!("`{text}` is not a number of channels\nhint: write a number such as 2")
    })?;
    Channels::new(count).map_err(|error| error.to_string())
}
