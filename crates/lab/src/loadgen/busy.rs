use core::fmt;
use core::str::FromStr;

use super::LoadKind;
use super::running::{LoadSide, RunningBurdens, among};
use crate::hosts::HostError;
use crate::streams::{LabStream, StreamEnds};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum BusyHost {
    #[default]
    Spin,
    Spinners(u32),
    /// Options and values of `stress-ng`.
    StressNg(Vec<(String, String)>),
}

impl fmt::Display for BusyHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spin => f.write_str("spin"),
            Self::Spinners(threads) => write!(f, "spin:{threads}"),
            Self::StressNg(options) => {
                let words = options.iter().map(|(name, value)| format!("{name},{value}"));
                write!(f, "stress-ng:{}", words.collect::<Vec<_>>().join(","))
            }
        }
    }
}

/// Maximum threads, against typing errors.
const MAX: u32 = 1024;

impl FromStr for BusyHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || {
            format!(
                "invalid load '{text}'\nhint: use spin, spin:4 or stress-ng:cpu,4, each option of \
                 stress-ng with its value"
            )
        };
        match text.split_once(':') {
            None if text == "spin" => Ok(Self::Spin),
            Some(("spin", threads)) => match threads.parse() {
                Ok(threads) if (1..=MAX).contains(&threads) => Ok(Self::Spinners(threads)),
                _ => Err(refused()),
            },
            Some(("stress-ng", options)) => {
                let words: Vec<&str> = options.split(',').collect();
                let (pairs, rest) = words.as_chunks::<2>();
                let is = |word: &str| !word.is_empty() && !word.starts_with('-');
                if !rest.is_empty() || !words.iter().all(|word| is(word)) {
                    return Err(refused());
                }
                let pair = |[name, value]: &[&str; 2]| ((*name).to_owned(), (*value).to_owned());
                Ok(Self::StressNg(pairs.iter().map(pair).collect()))
            }
            _ => Err(refused()),
        }
    }
}

impl BusyHost {
    pub(crate) fn around<T>(
        &self,
        ends: &mut StreamEnds,
        plan: &LabStream,
        run: impl FnOnce(&mut StreamEnds) -> Result<T, HostError>,
    ) -> Result<T, HostError> {
        let start = |running: &mut RunningBurdens, ends: &mut StreamEnds| {
            let burden = self.burden(ends.receiver.description().cpus);
            running.start_surely(ends, LoadSide::Receiver, &burden)
        };
        among(ends, plan, start, |ends, ()| run(ends)).map(|(arrived, _)| arrived)
    }

    pub(crate) fn around_if<T>(
        load: Option<&Self>,
        ends: &mut StreamEnds,
        plan: &LabStream,
        run: impl FnOnce(&mut StreamEnds) -> Result<T, HostError>,
    ) -> Result<T, HostError> {
        match load {
            Some(load) => load.around(ends, plan, run),
            None => run(ends),
        }
    }

    pub(crate) fn named(load: Option<&Self>, row: impl fmt::Display) -> String {
        load.map_or_else(|| row.to_string(), |load| format!("{row}, loaded by {load}"))
    }

    pub(crate) fn burden(&self, cpus: usize) -> LoadKind {
        match self {
            Self::Spin => LoadKind::Cpu { threads: cpus as u32 },
            Self::Spinners(threads) => LoadKind::Cpu { threads: *threads },
            Self::StressNg(options) => LoadKind::StressNg {
                words: options
                    .iter()
                    .flat_map(|(name, value)| [format!("--{name}"), value.clone()])
                    .collect(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_runs_as_named() {
        let burden = |text: &str| text.parse::<BusyHost>().unwrap().burden(8);
        assert_eq!(
            (burden("spin"), burden("spin:3")),
            (LoadKind::Cpu { threads: 8 }, LoadKind::Cpu { threads: 3 })
        );
        let words = ["--cpu", "4", "--vm", "1"].map(str::to_owned).to_vec();
        assert_eq!(burden("stress-ng:cpu,4,vm,1"), LoadKind::StressNg { words });
        for text in ["spin", "spin:3", "stress-ng:cpu,4,vm,1"] {
            assert_eq!(
                text.parse::<BusyHost>().unwrap().to_string(),
                text,
                "displayed as requested"
            );
        }
        for text in ["", "spin:0", "spin:x", "stress-ng", "stress-ng:cpu", "stress-ng:--x,1"] {
            let refused = text.parse::<BusyHost>().unwrap_err();
            assert!(refused.contains("spin, spin:4 or stress-ng:cpu,4"), "{refused}");
        }
    }
}
