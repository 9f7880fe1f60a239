//! Coding, rate and channels of payload types.

use tautline_dsp::format::SampleFormat;

use super::lines::{Line, Section, shown};
use super::{DescriptionError, SdpFault, SdpOddity};
use crate::codec::{Codec, Coding};
use crate::units::{Channels, Rate};

pub(super) struct SdpCoding {
    pub(super) rate: Rate,
    pub(super) channels: Channels,
    pub(super) sample: SampleFormat,
    pub(super) codec: Option<Codec>,
    pub(super) payload_type: u8,
}

/// `TYPE CODING/RATE/CHANNELS` (RFC 8866 §6.6).
#[derive(Clone, Copy)]
struct RtpMap<'a> {
    payload_type: u8,
    coding: &'a str,
    rate: u32,
    channels: u32,
}

impl<'a> RtpMap<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let (payload_type, rest) = text.split_once(char::is_whitespace)?;
        let mut parts = rest.split('/').map(str::trim);
        let (coding, rate) = (parts.next()?, parts.next()?.parse().ok()?);
        let channels = match parts.next() {
            None | Some("") => 1,
            Some(text) => text.parse().ok()?,
        };
        Some(Self { payload_type: payload_type.parse().ok()?, coding, rate, channels })
    }

    /// Payload types that need no `rtpmap` (RFC 3551 table 4).
    const fn fixed(payload_type: u8) -> Option<Self> {
        let channels = match payload_type {
            10 => 2,
            11 => 1,
            _ => return None,
        };
        Some(Self { payload_type, coding: "L16", rate: 44_100, channels })
    }
}

impl<'a> Section<'a> {
    /// First supported payload type, or the fault of the first.
    pub(super) fn coding(&mut self) -> Result<SdpCoding, DescriptionError> {
        let mut explained: Vec<(u8, bool)> = Vec::new();
        for (line, value) in self.values("rtpmap") {
            let oddity = match RtpMap::read(value).map(|map| (map.payload_type, self.is_own(line)))
            {
                None => SdpOddity::Expected("TYPE CODING/RATE/CHANNELS"),
                Some(again) if explained.contains(&again) => SdpOddity::Another,
                Some(first) => {
                    explained.push(first);
                    continue;
                }
            };
            self.warnings.push(line.warning(oddity));
        }
        let mut codings = self.words().skip(3).map(|format| self.coding_of(format));
        let nothing = || Err(self.media.fault(SdpFault::PayloadType(String::new())));
        match codings.next().unwrap_or_else(nothing) {
            Ok(coding) => Ok(coding),
            Err(error) => codings.find_map(Result::ok).ok_or(error),
        }
    }

    fn coding_of(&self, format: &str) -> Result<SdpCoding, DescriptionError> {
        let unexplained = || self.media.fault(SdpFault::PayloadType(shown(format)));
        let payload_type = format.parse().ok().filter(|number| *number < 128);
        let payload_type: u8 = payload_type.ok_or_else(unexplained)?;
        let map = self.values("rtpmap").find_map(|(line, value)| {
            let map = RtpMap::read(value).filter(|map| map.payload_type == payload_type)?;
            Some((line, map))
        });
        let fixed = || Some((self.media, RtpMap::fixed(payload_type)?));
        let (line, map): (&Line, RtpMap<'a>) = map
            .or_else(fixed)
            .ok_or_else(|| self.broken_map(format).unwrap_or_else(unexplained))?;
        let Coding { sample, codec } =
            Coding::find(|row| row.encoding.eq_ignore_ascii_case(map.coding))
                .ok_or_else(|| line.fault(SdpFault::Coding(shown(map.coding))))?;
        let mono = codec.and_then(|codec| codec.rules().mono_parameter());
        let mono = mono.is_some_and(|parameter| self.has_parameter(payload_type, parameter));
        let channels = if mono { 1 } else { map.channels };
        Ok(SdpCoding {
            sample,
            codec,
            rate: Rate::new(map.rate).map_err(|error| line.fault(error.into()))?,
            channels: Channels::new(channels).map_err(|error| line.fault(error.into()))?,
            payload_type,
        })
    }

    fn broken_map(&self, format: &str) -> Option<DescriptionError> {
        let mut maps = self.values("rtpmap");
        let (line, value) =
            maps.find(|(_, value)| value.split_whitespace().next() == Some(format))?;
        Some(line.fault(SdpFault::Map(shown(value))))
    }

    fn has_parameter(&self, payload_type: u8, wanted: &str) -> bool {
        let parameters =
            self.values("fmtp").filter_map(|(_, text)| text.split_once(char::is_whitespace));
        parameters
            .filter(|(of, _)| of.parse() == Ok(payload_type))
            .flat_map(|(_, parameters)| parameters.split(';'))
            .any(|parameter| parameter.trim().eq_ignore_ascii_case(wanted))
    }
}
