//! Numbers, labels and names of plugins. Sessions store these, so they are stable.

use std::collections::{BTreeMap, BTreeSet};

use tautline_proto::text::is_printable;

/// First unique ID to assign. Lower IDs were assigned by hand.
const FIRST: u32 = 0x0010_0000;
/// End of the unique IDs (ladspa.h, `UniqueID`).
const END: u32 = 0x0100_0000;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PluginOrigin {
    pub(super) host: String,
    pub(super) id: String,
}

impl PluginOrigin {
    /// Without blanks and commas, which break hosts.
    pub(super) fn label(&self) -> String {
        format!("{}@{}", self.id, self.host)
            .chars()
            .map(|c| if c.is_whitespace() || !is_printable(c) || c == ',' { '_' } else { c })
            .collect()
    }

    /// FNV-1a, then the final steps of splitmix64.
    fn number(&self, attempt: u32) -> u32 {
        const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let parts = [self.host.as_bytes(), &[0], self.id.as_bytes(), &attempt.to_le_bytes()];
        let mut hash = parts
            .concat()
            .iter()
            .fold(BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        FIRST + (hash % u64::from(END - FIRST)) as u32
    }
}

/// On a collision the first in name order keeps its number.
pub(super) fn numbered(origins: &[PluginOrigin]) -> Vec<u32> {
    let mut taken = BTreeSet::new();
    let in_order: BTreeSet<&PluginOrigin> = origins.iter().collect();
    let numbers: BTreeMap<&PluginOrigin, u32> = in_order
        .into_iter()
        .map(|origin| {
            let free = (0..).map(|attempt| origin.number(attempt)).find(|n| taken.insert(*n));
            (origin, free.expect("a file has fewer plugins than there are numbers"))
        })
        .collect();
    origins.iter().map(|origin| numbers[origin]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn many(count: usize) -> Vec<PluginOrigin> {
        (0..count)
            .map(|n| PluginOrigin { host: "studio".into(), id: format!("cmt.so:effect_{n}") })
            .collect()
    }

    #[test]
    fn numbers_are_those_of_yesterday() {
        let origin = |host: &str, id: &str| PluginOrigin { host: host.into(), id: id.into() };
        let origins = [origin("studio", "cmt.so:delay_5s"), origin("attic", "cmt.so:delay_5s")];
        assert_eq!(numbered(&origins), [1_808_376, 6_189_564], "sessions are saved with them");
    }

    #[test]
    fn no_two_plugins_share_a_number_and_hosts_may_have_all() {
        let numbers = numbered(&many(20_000));
        assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 20_000);
        assert!(numbers.iter().all(|number| (FIRST..END).contains(number)));
    }

    #[test]
    fn the_order_of_a_catalogue_changes_no_number() {
        let (one_way, mut other_way) = (many(5000), many(5000));
        other_way.reverse();
        let mut other = numbered(&other_way);
        other.reverse();
        assert_eq!(numbered(&one_way), other);
    }

    #[test]
    fn a_label_has_neither_blanks_nor_commas() {
        let origin = PluginOrigin { host: "the attic".into(), id: "my chain,\tlong".into() };
        assert_eq!(origin.label(), "my_chain__long@the_attic");
    }
}
