//! Parses network impairments.

use core::fmt;
use core::str::FromStr;

use clap::Args;
use tautline_proto::text::{SpanError, parse_span};
use tautline_proto::time::Span;
use tautline_sim::clock::TrueTime;
use tautline_sim::link::{Bottleneck, Jitter, Loss, PathModel};
use tautline_ui::readers::span;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WordError {
    #[error("invalid share '{0}'\nhint: use 5% or 0.05")]
    Share(String),
    #[error("invalid bit rate '{0}'\nhint: use kbit, Mbit or Gbit, such as 10Mbit")]
    BitRate(String),
    #[error("invalid outage '{0}'\nhint: use 10s+2s, which is after 10 s, for 2 s")]
    Outage(String),
    #[error(
        "cannot lose {share} in bursts of {length}: at least one packet arrives between two \
         bursts\nhint: use --burst {minimum} or more"
    )]
    ShortBursts { share: Share, length: f64, minimum: f64 },
    #[error("--burst needs losses\nhint: add --loss 5%, or a --preset with losses")]
    NoLoss,
    #[error(transparent)]
    Span(#[from] SpanError),
}

#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Share(pub f64);

impl FromStr for Share {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        let (figure, unit) = match text.strip_suffix('%') {
            Some(figure) => (figure, 0.01),
            None => (text, 1.0),
        };
        let share = figure.trim().parse::<f64>().map(|share| share * unit).ok();
        let share = share.filter(|share| (0.0..=1.0).contains(share));
        share.map(Self).ok_or_else(|| WordError::Share(text.into()))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} %", self.0 * 100.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reordering {
    pub share: Share,
    /// Default 2 ms.
    pub by: Span,
}

impl FromStr for Reordering {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        let (share, by) = text.split_once('+').unwrap_or((text, "2ms"));
        Ok(Self { share: share.parse()?, by: parse_span(by)? })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BitRate(pub u64);

impl FromStr for BitRate {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        let unit_at = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
        let (figure, unit) = text.split_at(unit_at);
        let scale = match unit.to_ascii_lowercase().as_str() {
            "bit" => 1.0,
            "kbit" => 1e3,
            "mbit" => 1e6,
            "gbit" => 1e9,
            _ => 0.0,
        };
        let bits = figure.trim().parse::<f64>().unwrap_or(0.0) * scale;
        if (1.0..1e15).contains(&bits) {
            Ok(Self(bits as u64))
        } else {
            Err(WordError::BitRate(text.into()))
        }
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}bit", self.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    pub after: Span,
    pub lasts: Span,
}

impl FromStr for Outage {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        let unusable = || WordError::Outage(text.into());
        let (after, lasts) = text.split_once('+').ok_or_else(unusable)?;
        let outage = Self { after: parse_span(after)?, lasts: parse_span(lasts)? };
        if outage.after < Span::ZERO || outage.lasts <= Span::ZERO {
            return Err(unusable());
        }
        Ok(outage)
    }
}

// `None` keeps the path's value.
#[derive(Debug, Clone, PartialEq, Default, Args)]
pub struct PathChanges {
    /// Minimum delay
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = "Network")]
    pub delay: Option<Span>,
    /// Maximum random extra delay; packets stay in order, so one also delays those behind it
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = "Network")]
    pub jitter: Option<Span>,
    /// Share of packets lost, such as 5%
    #[arg(long, value_name = "SHARE", help_heading = "Network")]
    pub loss: Option<Share>,
    /// In bursts of this many on average
    #[arg(long, value_name = "PACKETS", value_parser = burst, help_heading = "Network")]
    pub burst: Option<f64>,
    /// Share of packets overtaken by later ones, such as 1%, or 1%+5ms [default: for 2ms]
    #[arg(long, value_name = "SHARE", help_heading = "Network")]
    pub reorder: Option<Reordering>,
    /// Share of packets duplicated, such as 1%
    #[arg(long, value_name = "SHARE", help_heading = "Network")]
    pub duplicate: Option<Share>,
    /// Bandwidth of the bottleneck, such as 10Mbit; its queue holds 125 ms
    #[arg(long, value_name = "RATE", help_heading = "Network")]
    pub rate: Option<BitRate>,
    /// Largest IP packet that is carried whole; longer ones go in parts, each with its own luck
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(68..),
          help_heading = "Network", hide_short_help = true)]
    pub mtu: Option<u16>,
    /// Outage, such as 10s+2s: after 10 s, for 2 s; repeatable
    #[arg(long, value_name = "TIME+TIME", help_heading = "Network")]
    pub outage: Vec<Outage>,
}

fn burst(text: &str) -> Result<f64, String> {
    let length = text.parse::<f64>().ok().filter(|length| (1.0..=1e6).contains(length));
    length.ok_or_else(|| format!("invalid burst length '{text}'\nhint: use a number such as 3"))
}

impl PathChanges {
    pub fn of(&self, mut path: PathModel) -> Result<PathModel, WordError> {
        path.delay = self.delay.unwrap_or(path.delay);
        path.jitter = self.jitter.map_or(path.jitter, Jitter::Uniform);
        path.loss = self.loss_beside(path.loss)?;
        path.reorders = self.reorder.map_or(path.reorders, |held| (held.share.0, held.by));
        path.duplicates = self.duplicate.map_or(path.duplicates, |share| share.0);
        path.mtu = self.mtu.map_or(path.mtu, usize::from);
        if let Some(BitRate(rate)) = self.rate {
            // Bytes of 1/8 s.
            let queue = (rate / 64).max(3000) as usize;
            path.bottleneck = Some(Bottleneck { rate, queue });
        }
        let at = |span: Span| TrueTime::ZERO.after(span);
        path.outages
            .extend(self.outage.iter().map(|one| (at(one.after), at(one.after + one.lasts))));
        Ok(path)
    }

    /// `--loss` alone is random; `--burst` alone groups the path's own losses.
    fn loss_beside(&self, given: Loss) -> Result<Loss, WordError> {
        let share = match self.loss {
            Some(share) => share.0,
            None if self.burst.is_none() => return Ok(given),
            None => given.share(),
        };
        let Some(length) = self.burst.filter(|_| share < 1.0) else {
            return Ok(Loss::random(share));
        };
        if share == 0.0 {
            return if self.loss.is_some() { Ok(Loss::NONE) } else { Err(WordError::NoLoss) };
        }
        // Rounded up, so that the printed value is accepted.
        let minimum = (Loss::min_burst(share) * 100.0 - 1e-6).ceil() / 100.0;
        if length + 1e-9 < Loss::min_burst(share) {
            return Err(WordError::ShortBursts { share: Share(share), length, minimum });
        }
        Ok(Loss::bursts(share, length))
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use tautline_sim::preset::Preset;

    #[test]
    fn shares_rates_and_outages_are_read() {
        assert_eq!("5%".parse(), Ok(Share(0.05)));
        assert_eq!("0.05".parse(), Ok(Share(0.05)));
        assert_eq!("10Mbit".parse(), Ok(BitRate(10_000_000)));
        assert_eq!("1.5gbit".parse(), Ok(BitRate(1_500_000_000)));
        let outage = Outage { after: Span::from_secs(10), lasts: Span::from_secs(2) };
        assert_eq!("10s+2s".parse(), Ok(outage));
        assert_eq!("1%".parse(), Ok(Reordering { share: Share(0.01), by: Span::from_millis(2) }));
        assert_eq!(
            "1%+9ms".parse(),
            Ok(Reordering { share: Share(0.01), by: Span::from_millis(9) })
        );
    }

    #[test]
    fn unreadable_input_has_a_hint() {
        let share = |text: &str| text.parse::<Share>().unwrap_err().to_string();
        snapshot!(share("5"));
        snapshot!(share("-1%"));
        let rate = |text: &str| text.parse::<BitRate>().unwrap_err().to_string();
        snapshot!(rate("10"));
        let outage = |text: &str| text.parse::<Outage>().unwrap_err().to_string();
        assert!(outage("2s").contains("use 10s+2s"), "{}", outage("2s"));
        assert!(outage("2s+0s").contains("use 10s+2s"), "{}", outage("2s+0s"));
        assert!(outage("2+1").contains("no unit"), "{}", outage("2+1"));
    }

    #[test]
    fn given_values_override_the_preset() {
        let preset = Preset::Wifi5Ghz.path();
        let changes = PathChanges {
            delay: Some(Span::from_millis(9)),
            loss: Some(Share(0.2)),
            burst: Some(3.0),
            ..PathChanges::default()
        };
        let path = changes.of(preset.clone()).unwrap();
        assert_eq!((path.delay, path.loss), (Span::from_millis(9), Loss::bursts(0.2, 3.0)));
        assert_eq!((path.jitter, path.holds), (preset.jitter, preset.holds));
        assert_eq!(PathChanges::default().of(preset.clone()), Ok(preset));
    }

    #[test]
    fn single_burst_includes_losses_next_to_it() {
        let random = PathModel { loss: Loss::random(0.1), ..PathModel::ideal(Span::ZERO) };
        let path = PathChanges { burst: Some(4.0), ..PathChanges::default() }.of(random).unwrap();
        assert!((path.loss.share() - 0.1).abs() < 1e-9, "{:?}", path.loss);
        assert_eq!(path.loss.into_good, 0.25);
    }

    #[test]
    fn bursts_that_cannot_be_are_refused_with_those_that_can() {
        let requested = |loss: Option<f64>, burst| {
            let changes =
                PathChanges { loss: loss.map(Share), burst: Some(burst), ..PathChanges::default() };
            changes.of(PathModel::ideal(Span::ZERO)).map(|path| path.loss)
        };
        for (share, length, minimum) in [(0.9, 3.0, "9"), (0.99, 1.0, "99"), (0.7, 2.0, "2.34")] {
            let said = requested(Some(share), length).unwrap_err().to_string();
            assert!(said.ends_with(&format!("use --burst {minimum} or more")), "{said}");
            let loss = requested(Some(share), minimum.parse().unwrap()).unwrap();
            assert!((loss.share() - share).abs() < 1e-9 && loss.into_bad <= 1.0 + 1e-9, "{loss:?}");
        }
        assert_eq!(requested(None, 3.0), Err(WordError::NoLoss));
        assert_eq!(requested(Some(0.0), 3.0), Ok(Loss::NONE));
        assert_eq!(requested(Some(0.5), 1.0).map(Loss::share), Ok(0.5));
        assert_eq!(requested(Some(1.0), 3.0).map(Loss::share), Ok(1.0));
    }
}
