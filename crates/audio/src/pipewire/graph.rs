//! A graph's settings (metadata `settings`).

use tautline_proto::time::Frames;
#[cfg(any(feature = "pipewire", test))]
use tautline_proto::units::Rate;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    pub quantum: Frames,
    pub min_quantum: Frames,
    pub max_quantum: Frames,
    pub forced: Option<Frames>,
    pub rate: u32,
    pub rates: Vec<u32>,
}

impl Graph {
    /// Parses `pw-metadata -n settings`: `update: id:0 key:'clock.rate' value:'48000' type:''`.
    pub fn listed(text: &str) -> Option<Self> {
        Self::described(|name| {
            text.lines().find_map(|line| {
                let (_, rest) = line.split_once(" key:'clock.")?;
                rest.strip_prefix(name)?
                    .strip_prefix("' value:'")?
                    .split_once('\'')
                    .map(|(value, _)| value)
            })
        })
    }

    /// Settings without `clock.`; `None` if a required setting is missing. A `force-` of 0 has no
    /// effect.
    pub(super) fn described<'a>(setting: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        let number = |name: &str| setting(name)?.parse::<u32>().ok().filter(|number| *number > 0);
        let frames = |name: &str| number(name).map(|frames| Frames::new(i64::from(frames)));
        let rate = number("force-rate").or(number("rate"))?;
        let rates = setting("allowed-rates").unwrap_or_default();
        let rates = rates.split(|c: char| !c.is_ascii_digit()).filter_map(|rate| rate.parse().ok());
        let mut rates: Vec<u32> = rates.chain([rate]).collect();
        rates.sort_unstable();
        rates.dedup();
        Some(Self {
            quantum: frames("quantum")?,
            min_quantum: frames("min-quantum")?,
            max_quantum: frames("max-quantum")?,
            forced: frames("force-quantum"),
            rate,
            rates,
        })
    }

    /// Frames that a node gets for `wanted`: the minimum of all nodes, by default rounded down to a
    /// power of two (`pw_context_recalc_graph`).
    #[cfg(any(feature = "pipewire", test))]
    pub(super) fn grants(&self, wanted: Frames, rate: Rate) -> Frames {
        let (own, stream) = (i64::from(self.rate), i64::from(rate.hertz()));
        let (minimum, maximum) = (self.min_quantum.count(), self.max_quantum.count());
        let requested = (wanted.count() * own / stream).clamp(minimum, maximum.max(minimum));
        let granted = self.forced.map_or(1 << requested.max(1).ilog2(), Frames::count);
        Frames::new((granted * stream + own - 1) / own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(settings: &[(&str, &str)]) -> Option<Graph> {
        Graph::described(|name| settings.iter().find(|(key, _)| *key == name).map(|(_, v)| *v))
    }

    const USUAL: [(&str, &str); 6] = [
        ("rate", "48000"),
        ("allowed-rates", "[ 48000, 44100 ]"),
        ("quantum", "1024"),
        ("min-quantum", "32"),
        ("max-quantum", "2048"),
        ("force-quantum", "0"),
    ];

    fn granted(settings: &[(&str, &str)], wanted: i64, rate: u32) -> i64 {
        let rate = Rate::new(rate).unwrap();
        graph(settings).unwrap().grants(Frames::new(wanted), rate).count()
    }

    #[test]
    fn a_graph_is_read_from_its_settings() {
        let graph = graph(&USUAL).unwrap();
        assert_eq!((graph.rate, graph.rates.as_slice()), (48_000, &[44_100, 48_000][..]));
        assert_eq!((graph.quantum.count(), graph.forced), (1024, None));
        assert_eq!((graph.min_quantum.count(), graph.max_quantum.count()), (32, 2048));
    }

    #[test]
    fn graph_settings_are_read_from_pw_metadata() {
        let line = |(key, value): &(&str, &str)| {
            format!("update: id:0 key:'clock.{key}' value:'{value}' type:''\n")
        };
        let listed = "Found \"settings\" metadata 30\n".to_owned();
        let listed = listed + &USUAL.iter().map(line).collect::<String>();
        assert_eq!(Graph::listed(&listed), graph(&USUAL));
        assert_eq!(Graph::listed("Found \"settings\" metadata 30\n"), None);
    }

    #[test]
    fn settings_that_lack_something_describe_no_graph() {
        for left_out in ["rate", "quantum", "min-quantum", "max-quantum"] {
            let rest: Vec<_> = USUAL.into_iter().filter(|(key, _)| *key != left_out).collect();
            assert_eq!(graph(&rest), None, "{left_out}");
        }
    }

    #[test]
    fn a_quantum_is_a_power_of_two_within_the_bounds() {
        for (wanted, want) in [(48, 32), (64, 64), (240, 128), (1, 32), (100_000, 2048)] {
            assert_eq!(granted(&USUAL, wanted, 48_000), want, "{wanted}");
        }
    }

    #[test]
    fn forced_quantum_applies_to_all_clients() {
        let forced =
            USUAL.map(|(key, value)| (key, if key == "force-quantum" { "480" } else { value }));
        assert_eq!(granted(&forced, 48, 48_000), 480);
    }

    #[test]
    fn quantum_is_reported_at_the_streams_rate() {
        assert_eq!(granted(&USUAL, 128, 96_000), 128);
        assert_eq!(granted(&USUAL, 1024, 192_000), 1024);
        assert_eq!(granted(&USUAL, 44, 44_100), 30);
    }
}
