//! Recorded networks: the delay of each packet, from a file.
//!
//! The file has comma-separated lines. Empty lines and `#` comments are ignored. The first other
//! line selects the format:
//!
//! | first line | then, for each packet |
//! |---|---|
//! | `delay_us every 1ms` | delay in microseconds; `-` if lost |
//! | `sent_s,arrived_s` | times in seconds on one clock; nothing after the comma if lost |
//! | that of `taut recv --packet-log` | a ledger with `handed` and `arrival`; missing packets were lost, or not requested in time |

mod ledger;

use std::sync::Arc;

use tautline_proto::text::parse_span;
use tautline_proto::time::Span;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// In order of departure, from zero.
    packets: Arc<[RecordedPacket]>,
    length: Span,
    again: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedPacket {
    pub sent: Span,
    /// `None` if lost.
    pub delay: Option<Span>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    #[error(
        "line {line}: invalid first line '{text}': must be 'delay_us every 1ms', \
         'sent_s,arrived_s' or the first line of a packet log of taut recv"
    )]
    Head { line: usize, text: String },
    #[error("line {line}: invalid value '{text}': must be {wanted}")]
    Line { line: usize, text: String, wanted: &'static str },
    #[error("line {line}: time decreases: both columns must be in order and from one clock")]
    Backwards { line: usize },
    #[error("packets with a delay: {packets}; a record needs at least 2")]
    Short { packets: usize },
}

type NumberedLine<'a> = (usize, &'a str);

impl Trace {
    pub fn read(text: &str) -> Result<Self, TraceError> {
        // Spreadsheets write a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = (1..).zip(text.lines().map(str::trim));
        let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let (line, head) = lines.next().unwrap_or((1, ""));
        let unknown = || TraceError::Head { line, text: head.into() };
        let packets = if let Some(every) = head.strip_prefix("delay_us every ") {
            let every = parse_span(every).ok().filter(|every| *every > Span::ZERO);
            delays(lines, every.ok_or_else(unknown)?)?
        } else if head.replace(' ', "") == "sent_s,arrived_s" {
            instants(lines)?
        } else if let Some(columns) = ledger::Columns::of(head) {
            ledger::packets(&columns, lines)?
        } else {
            return Err(unknown());
        };
        Self::new(packets)
    }

    pub fn new(packets: Vec<RecordedPacket>) -> Result<Self, TraceError> {
        let reported = packets.iter().filter(|packet| packet.delay.is_some()).count();
        let (Some(first), Some(last)) = (packets.first(), packets.last()) else {
            return Err(TraceError::Short { packets: 0 });
        };
        let intervals = packets.len() as i64 - 1;
        let whole = last.sent - first.sent;
        if reported < 2 || whole <= Span::ZERO {
            return Err(TraceError::Short { packets: reported });
        }
        let begin = first.sent;
        let packets: Arc<[RecordedPacket]> = packets
            .into_iter()
            .map(|packet| RecordedPacket { sent: packet.sent - begin, ..packet })
            .collect();
        Ok(Self { packets, length: whole + whole.divided(intervals), again: true })
    }

    /// Stops repetition: later packets have the record's minimum delay.
    #[must_use]
    pub fn once(self) -> Self {
        Self { again: false, ..self }
    }

    /// Delay of the last packet recorded by `elapsed`. `None` if lost.
    pub fn at(&self, elapsed: Span) -> Option<Span> {
        let nanos = elapsed.as_nanos().max(0);
        if !self.again && elapsed >= self.length {
            return self.packets.iter().filter_map(|packet| packet.delay).min();
        }
        let within = Span::from_nanos(nanos % self.length.as_nanos());
        let after = self.packets.partition_point(|packet| packet.sent <= within);
        self.packets.get(after.saturating_sub(1))?.delay
    }

    pub const fn length(&self) -> Span {
        self.length
    }

    pub fn packets(&self) -> &[RecordedPacket] {
        &self.packets
    }
}

fn delays<'a>(
    lines: impl Iterator<Item = NumberedLine<'a>>,
    every: Span,
) -> Result<Vec<RecordedPacket>, TraceError> {
    let mut packets = Vec::new();
    for (line, text) in lines {
        let delay = match text {
            "-" => None,
            _ => Some(figure(text, 1e3).filter(|delay| *delay >= Span::ZERO).ok_or_else(|| {
                let wanted = "a delay in microseconds, such as 250.5, or - for a lost packet";
                TraceError::Line { line, text: text.into(), wanted }
            })?),
        };
        packets.push(RecordedPacket { sent: every.times(packets.len() as i64), delay });
    }
    Ok(packets)
}

fn instants<'a>(
    lines: impl Iterator<Item = NumberedLine<'a>>,
) -> Result<Vec<RecordedPacket>, TraceError> {
    let mut packets: Vec<RecordedPacket> = Vec::new();
    for (line, text) in lines {
        let unusable = || {
            let wanted = "a pair of times in seconds, such as 1.002,1.0025, or 1.002, for a lost \
                          packet";
            TraceError::Line { line, text: text.into(), wanted }
        };
        let (sent, arrived) = text.split_once(',').ok_or_else(unusable)?;
        let sent = figure(sent, 1e9).ok_or_else(unusable)?;
        let delay = match arrived.trim() {
            "" => None,
            arrived => Some(figure(arrived, 1e9).ok_or_else(unusable)? - sent),
        };
        let backwards = packets.last().is_some_and(|last| last.sent > sent);
        if backwards || delay.is_some_and(|delay| delay < Span::ZERO) {
            return Err(TraceError::Backwards { line });
        }
        packets.push(RecordedPacket { sent, delay });
    }
    Ok(packets)
}

fn figure(text: &str, unit: f64) -> Option<Span> {
    // A larger product does not fit a span.
    const MAX: f64 = 9.0e18;
    let nanos = text.trim().parse::<f64>().ok()? * unit;
    (nanos.abs() < MAX).then(|| Span::from_nanos(nanos.round() as i64))
}

#[cfg(test)]
mod tests;
