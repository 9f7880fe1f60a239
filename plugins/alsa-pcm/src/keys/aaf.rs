use tautline_proto::device::Direction;
use tautline_proto::time::{Frames, Span};

use super::PERIODS;
use super::values::{Value, micros, number, text};

#[derive(Default)]
pub(super) struct AafKeys {
    pub(super) ifname: Option<String>,
    addr: Option<String>,
    prio: Option<i64>,
    streamid: Option<String>,
    pub(super) mtt: Span,
    pub(super) time_uncertainty: Span,
    pub(super) timed: bool,
    ptime_tolerance: Option<Span>,
    pub(super) frames_per_pdu: Option<Frames>,
}

impl AafKeys {
    pub(super) fn take(&mut self, key: &str, value: &Value) -> Result<bool, String> {
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
                    return Err(format!("invalid frames_per_pdu {frames}; use 6"));
                }
                self.frames_per_pdu = Some(Frames::new(frames));
            }
            "ptime_tolerance" => {
                self.ptime_tolerance = Some(micros(key, value)?.max(Span::from_micros(1)));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn address(&self, direction: Direction) -> Result<Option<String>, String> {
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
        let tolerance = self.ptime_tolerance.filter(|_| !sends);
        let tolerance = tolerance.map(|tolerance| format!("tolerance={tolerance}"));
        let query: Vec<_> = query.into_iter().chain(tolerance).collect();
        let begins = if query.is_empty() { "" } else { "?" };
        Ok(Some(format!("avtp://{ifname}/{addr}{begins}{}", query.join("&"))))
    }

    /// Rejects `prio` and `streamid` without `ifname`.
    fn of_no_interface(&self) -> Result<(), String> {
        let prio = self.prio.map(|prio| ("prio", prio.to_string()));
        let streamid = self.streamid.clone().map(|id| ("streamid", id));
        match prio.or(streamid) {
            Some((key, value)) => Err(format!(
                "{key} applies only with ifname and addr; remove it, or write avtp://eth0/ADDRESS?{key}={value}"
            )),
            None => Ok(()),
        }
    }
}
