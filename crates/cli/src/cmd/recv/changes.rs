//! Changes to `taut recv` via standard input.

use std::sync::{Arc, Mutex, PoisonError};

use tautline_engine::control::RecvChange;
use tautline_engine::plan::address::Address;
use tautline_proto::device::Settings;
use tautline_proto::latency::LatencyRule;
use tautline_proto::stream::StreamFormat;

use super::streams::{ReceiveAddress, check_alike, check_goodbye, stream};
use crate::cmd::resolve;
use crate::control::nothing;
use crate::flags::{Recv, latency, parse};

/// `None` until the format is known. Another sender may change it.
#[derive(Clone, Default)]
pub(crate) struct PlayedFormat(Arc<Mutex<Option<(StreamFormat, Settings)>>>);

impl PlayedFormat {
    pub(crate) fn set(&self, format: StreamFormat, device: Settings) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((format, device));
    }

    fn get(&self) -> Option<(StreamFormat, Settings)> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct RecvLines {
    pub(crate) flags: Recv,
    pub(crate) shape: PlayedFormat,
}

impl RecvLines {
    pub(crate) fn read(&self, verb: &str, rest: &str) -> Result<RecvChange, String> {
        match verb {
            "latency" => {
                let (which, latency) = numbered(rest)?;
                Ok(RecvChange::Latency(which, wanted(latency)?))
            }
            "volume" => {
                let (which, gain) = numbered(rest)?;
                Ok(RecvChange::Volume(which, parse(gain)?))
            }
            "mute" => Ok(RecvChange::Mute(number(rest)?, true)),
            "unmute" => Ok(RecvChange::Mute(number(rest)?, false)),
            "from" => self.from(rest),
            "status" => nothing(verb, rest, RecvChange::Status),
            _ => Err("unknown change\nhint: write latency, volume, mute, unmute, \
                      from, status or quit"
                .into()),
        }
    }

    fn from(&self, rest: &str) -> Result<RecvChange, String> {
        let (which, text) = numbered(rest)?;
        let address = Address::to_hear(text)?;
        check_goodbye(&self.flags, &address).map_err(|failure| failure.to_string())?;
        let Some((format, device)) = self.shape.get() else {
            return Err(
                "no packets yet, so the format is unknown\nhint: repeat this when they arrive"
                    .into(),
            );
        };
        let resolved = resolve(&address, &self.flags.running);
        let plan = resolved.and_then(|resolved| {
            let mut from = ReceiveAddress { address: &address, resolved, begun: None };
            check_alike(&from, &format)?;
            stream(&self.flags, &mut from, None, (format, false), &device)
        });
        let plan = plan.map_err(|failure| failure.to_string())?;
        Ok(RecvChange::From(which, Box::new(plan)))
    }
}

fn wanted(text: &str) -> Result<LatencyRule, String> {
    if text.is_empty() {
        return Err(
            "latency needs a time\nhint: write latency 8ms, latency auto or latency announced"
                .into(),
        );
    }
    if text == "announced" {
        return Ok(LatencyRule::Usual);
    }
    latency(text).map_err(|error| format!("{error}, or announced"))
}

fn numbered(rest: &str) -> Result<(Option<usize>, &str), String> {
    match rest.split_once(char::is_whitespace) {
        Some((first, value)) if first.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok((number(first)?, value.trim_start()))
        }
        _ => Ok((None, rest)),
    }
}

/// From 1, in the order of `--from`. Empty: all streams.
fn number(text: &str) -> Result<Option<usize>, String> {
    match text {
        "" => Ok(None),
        _ => match text.parse::<usize>().ok().filter(|number| *number > 0) {
            Some(number) => Ok(Some(number - 1)),
            None => Err(format!(
                "no --from has the number `{text}`\nhint: write 1 for the first, or none"
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::flags::{Command, Taut};

    #[test]
    fn exit_on_bye_refuses_addresses_without_goodbyes() {
        let line = "taut recv --output null: --from rtp://127.0.0.1:5004 --exit-on-bye";
        let Ok(Taut { command: Command::Recv(flags) }) = Taut::try_parse_from(line.split(' '))
        else {
            panic!("no command of recv");
        };
        let lines = RecvLines { flags: *flags, shape: PlayedFormat::default() };
        let refused = lines.read("from", "avtp://eth0/91:E0:F0:00:FE:01").err();
        assert!(refused.is_some_and(|why| why.contains("has no goodbye")));
    }

    #[test]
    fn a_number_before_a_value_names_a_stream() {
        assert_eq!(numbered("-6dB"), Ok((None, "-6dB")));
        assert_eq!(numbered("-6 dB"), Ok((None, "-6 dB")));
        assert_eq!(numbered("2  -6dB"), Ok((Some(1), "-6dB")));
        assert_eq!(number("1"), Ok(Some(0)));
        assert!(numbered("0 8ms").is_err() && number("first").is_err());
    }
}
