//! Lines of a description, as changed by editors and mail programs.

use std::borrow::Cow;

use super::decimal;
use super::{DescriptionError, MAX_BYTES, MAX_LINES, MAX_MEDIA, SdpFault, SdpOddity, SdpWarning};
use crate::text::{is_printable, printable};

/// RFC 8866 §5.
const LETTERS: &str = "vosiuepcbtrzkam";
const SHOWN: usize = 60;

#[derive(Debug)]
pub(super) struct Line {
    pub(super) number: usize,
    pub(super) letter: char,
    /// [Printable](is_printable) text after the `=`.
    pub(super) value: String,
}

impl Line {
    /// Invalid UTF-8 is Latin-1. Spaces replace unprintable characters.
    fn read(number: usize, bytes: &[u8]) -> Result<Option<Self>, SdpWarning> {
        let text = match str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => bytes.iter().copied().map(char::from).collect(),
        };
        let text = text.trim_start_matches(|c: char| c.is_whitespace() || is_noise(c));
        let text = text.trim_end_matches(is_noise).replace(is_noise, " ");
        if text.trim().is_empty() {
            return Ok(None);
        }
        let form = text.split_once('=').and_then(|(name, value)| {
            let letter = name.trim().parse().ok().filter(|letter| LETTERS.contains(*letter))?;
            Some(Self { number, letter, value: value.to_owned() })
        });
        let oddity = SdpOddity::Form;
        form.map(Some).ok_or_else(|| SdpWarning { line: number, text: shown(&text), oddity })
    }

    pub(super) fn attribute(&self) -> Option<(&str, &str)> {
        let (name, value) = self.value.split_once(':').unwrap_or((&self.value, ""));
        (self.letter == 'a').then_some((name.trim(), value.trim()))
    }

    fn oddity(&self) -> Option<SdpOddity> {
        let number =
            |text: Option<&str>| text.is_some_and(|text| text.trim().parse::<u64>().is_ok());
        match self.letter {
            'v' if self.value.trim() != "0" => Some(SdpOddity::Expected("0")),
            'b' if !number(self.value.split(':').nth(1)) => {
                Some(SdpOddity::Expected("TYPE:KILOBITS, a whole number"))
            }
            't' => {
                let mut times = self.value.split_whitespace();
                let both = number(times.next()) && number(times.next());
                (!both).then_some(SdpOddity::Expected("START STOP, two whole numbers"))
            }
            'z' => {
                let words: Vec<&str> = self.value.split_whitespace().collect();
                let pairs = !words.is_empty() && words.len().is_multiple_of(2);
                let times = words.iter().step_by(2).all(|time| number(Some(time)));
                (!(pairs && times)).then_some(SdpOddity::Expected("pairs of TIME OFFSET"))
            }
            'k' => Some(SdpOddity::Obsolete),
            'a' => {
                let (name, value) = self.attribute()?;
                let odd = name.eq_ignore_ascii_case("maxptime") && decimal::millis(value).is_none();
                odd.then_some(SdpOddity::Expected("milliseconds, such as 1 or 0.125"))
            }
            _ => None,
        }
    }

    pub(super) const fn fault(&self, fault: SdpFault) -> DescriptionError {
        DescriptionError { line: Some(self.number), fault }
    }

    pub(super) fn warning(&self, oddity: SdpOddity) -> SdpWarning {
        let text = shown(&format!("{}={}", self.letter, self.value));
        SdpWarning { line: self.number, text, oddity }
    }
}

fn is_noise(c: char) -> bool {
    !is_printable(c)
}

/// Without keys (RFC 4568 §9.1, RFC 8866 §5.12).
pub(super) fn shown(text: &str) -> String {
    if text.contains("crypto") || text.contains("inline:") || text.starts_with('k') {
        return "(hidden)".to_owned();
    }
    printable(text, SHOWN)
}

#[derive(Debug)]
pub(super) struct Lines {
    pub(super) session: Vec<Line>,
    /// `m=` lines, each with the lines after it.
    pub(super) sections: Vec<(Line, Vec<Line>)>,
    /// Warnings independent of the chosen stream.
    pub(super) warnings: Vec<SdpWarning>,
}

impl Lines {
    pub(super) fn of(bytes: &[u8]) -> Result<Self, DescriptionError> {
        let whole = |fault| DescriptionError { line: None, fault };
        if bytes.len() > MAX_BYTES {
            return Err(whole(SdpFault::Bytes(bytes.len())));
        }
        let bytes = utf8(bytes);
        let count = split(&bytes).count();
        if count > MAX_LINES {
            return Err(whole(SdpFault::Lines(count)));
        }
        let (mut session, mut sections) = (Vec::new(), Vec::<(Line, Vec<Line>)>::new());
        let mut warnings = Vec::new();
        for (number, text) in (1..).zip(split(&bytes)) {
            let line = match Line::read(number, text) {
                Ok(Some(line)) => line,
                Ok(None) => continue,
                Err(warning) => {
                    warnings.push(warning);
                    continue;
                }
            };
            warnings.extend(line.oddity().map(|oddity| line.warning(oddity)));
            match line.letter {
                'v' if !sections.is_empty() => {
                    warnings.push(line.warning(SdpOddity::Second));
                    break;
                }
                'm' => sections.push((line, Vec::new())),
                _ => sections.last_mut().map_or(&mut session, |(_, lines)| lines).push(line),
            }
        }
        match sections.len() {
            // The first line shows another kind of file.
            0 if !session.iter().any(|line| line.letter == 'v') => {
                let first = warnings.first().map(|warning| warning.line);
                let line = first.or(session.first().map(|line| line.number));
                Err(DescriptionError { line, fault: SdpFault::NotSdp })
            }
            sections if sections > MAX_MEDIA => Err(whole(SdpFault::Media(sections))),
            _ => Ok(Self { session, sections, warnings }),
        }
    }
}

/// Converts UTF-16 with a byte order mark.
fn utf8(bytes: &[u8]) -> Cow<'_, [u8]> {
    let unit: fn([u8; 2]) -> u16 = match bytes {
        [0xFF, 0xFE, ..] => u16::from_le_bytes,
        [0xFE, 0xFF, ..] => u16::from_be_bytes,
        _ => return Cow::Borrowed(bytes),
    };
    let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
    Cow::Owned(String::from_utf16_lossy(&units).into_bytes())
}

fn split(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(bytes);
    core::iter::from_fn(move || {
        let text = rest.take()?;
        let Some(end) = text.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
            return Some(text);
        };
        let after = end + 1 + usize::from(text[end..].starts_with(b"\r\n"));
        rest = Some(&text[after..]);
        Some(&text[..end])
    })
}

pub(super) struct Section<'a> {
    pub(super) session: &'a [Line],
    pub(super) media: &'a Line,
    pub(super) lines: &'a [Line],
    pub(super) warnings: Vec<SdpWarning>,
}

impl<'a> Section<'a> {
    pub(super) const fn of(session: &'a [Line], media: &'a Line, lines: &'a [Line]) -> Self {
        Self { session, media, lines, warnings: Vec::new() }
    }

    /// RFC 8866 §5.14.
    pub(super) fn words(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.media.value.split_whitespace()
    }

    pub(super) fn is_audio(&self) -> bool {
        self.words().next().is_some_and(|media| media.eq_ignore_ascii_case("audio"))
    }
}
