//! Values of `--redundancy`.

use std::str::FromStr;

use tautline_proto::redundancy::{Redundancy, RedundancyError};

/// Value of `--redundancy`: an amount, networks, or both.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RedundancyFlag {
    pub(crate) amount: Redundancy,
    /// Interfaces that each packet uses; empty if the address determines them.
    pub(crate) paths: Vec<String>,
}

impl FromStr for RedundancyFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut requested = Self::default();
        let (mut amounts, mut networks) = (0, 0);
        for part in text.split('+') {
            if let Some(names) = part.strip_prefix("paths:") {
                requested.paths = names.split(',').map(str::to_owned).collect();
                networks += 1;
            } else {
                requested.amount = part.parse().map_err(|error: RedundancyError| {
                    error.to_string() + ", or paths:eth0,eth1, or both: fec:2+paths:eth0,eth1"
                })?;
                amounts += 1;
            }
        }
        if amounts > 1 || networks > 1 {
            return Err(format!(
                "`{text}` has two amounts or two lists of networks\nhint: write fec:2+paths:eth0,eth1"
            ));
        }
        let mut different = requested.paths.clone();
        different.sort();
        different.dedup();
        if networks > 0 && (different.len() != 2 || different.iter().any(String::is_empty)) {
            return Err(format!(
                "`{text}` does not name two networks\nhint: write paths:eth0,eth1"
            ));
        }
        Ok(requested)
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;

    #[test]
    fn an_amount_and_networks_are_read_in_any_order() {
        let both = RedundancyFlag {
            amount: Redundancy::Code(2),
            paths: vec!["eth0".into(), "wlan0".into()],
        };
        assert_eq!("fec:2+paths:eth0,wlan0".parse(), Ok(both.clone()));
        assert_eq!("paths:eth0,wlan0+fec:2".parse(), Ok(both));
        assert_eq!("off".parse(), Ok(RedundancyFlag::default()));
    }

    #[test]
    fn invalid_redundancy_is_refused_with_valid_values() {
        for text in ["fec", "red:0", "fec:25", "paths:eth0", "paths:eth0,eth0", "red:1+fec:1"] {
            let reported = text.parse::<RedundancyFlag>().unwrap_err();
            snapshot!(format!("{text:?}"), reported);
        }
    }
}
