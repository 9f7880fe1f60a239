//! The path of a packet through chains of rules.

use std::ops::BitOrAssign;

/// A packet that a receiver waits for: it comes from another host, to an address of this one, the first of
/// its flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct AwaitedPacket {
    /// Name and number of its protocol.
    pub(super) protocol: [&'static str; 2],
    pub(super) v6: bool,
    pub(super) port: u16,
}

/// Rules, one after the other.
#[derive(Debug)]
pub(super) struct Chain<'a> {
    /// A rule sees only the chains of its own table.
    pub(super) table: &'a str,
    pub(super) name: &'a str,
    /// The kernel itself sends what comes in here; with what becomes of what no rule ends.
    pub(super) begins: Option<Policy>,
    pub(super) rules: Vec<&'a str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    Accept,
    Drop,
}

/// A rule, as one packet meets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rule<'a> {
    pub(super) fits: Fits,
    pub(super) then: Then<'a>,
}

/// Whether a rule's conditions hold. Of several the least counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fits {
    Never,
    /// By more than is known here: an interface, a rate, or words that are not read.
    Perhaps,
    /// Where it comes from some hosts.
    OfSomeHosts,
    Always,
}

impl Fits {
    /// What is known for sure.
    pub(super) fn surely(holds: bool) -> Self {
        if holds { Self::Always } else { Self::Never }
    }

    /// Of the opposite condition.
    pub(super) fn negated(self) -> Self {
        match self {
            Self::Never => Self::Always,
            Self::Always => Self::Never,
            // Of all hosts but some.
            Self::Perhaps | Self::OfSomeHosts => Self::Perhaps,
        }
    }
}

/// What a rule does with what fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then<'a> {
    GoOn,
    Accept,
    Refuse,
    Return,
    Jump(&'a str),
    Goto(&'a str),
    /// What is not read here.
    Anything,
}

/// What may become of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Fates {
    pub(super) accepted: bool,
    pub(super) refused: bool,
    /// It goes back to where the chain was called from.
    returned: bool,
}

impl Fates {
    const NONE: Self = Self { accepted: false, refused: false, returned: false };
    const ACCEPTED: Self = Self { accepted: true, ..Self::NONE };
    const REFUSED: Self = Self { refused: true, ..Self::NONE };
    const RETURNED: Self = Self { returned: true, ..Self::NONE };
    const EITHER: Self = Self { accepted: true, refused: true, returned: false };
}

impl BitOrAssign for Fates {
    fn bitor_assign(&mut self, other: Self) {
        self.accepted |= other.accepted;
        self.refused |= other.refused;
        self.returned |= other.returned;
    }
}

/// The kernel follows so many jumps (`NFT_JUMP_STACK_SIZE`), iptables no circle.
const DEEPEST: u32 = 16;

/// How a rule is read.
pub(super) type Read = for<'a> fn(&'a str, AwaitedPacket) -> Rule<'a>;

/// What may become of the packet in a chain that the kernel sends it to.
pub(super) fn fates<'a>(
    chains: &'a [Chain<'a>],
    begin: &'a Chain<'a>,
    packet: AwaitedPacket,
    read: Read,
) -> Fates {
    let known = vec![None; chains.len()];
    let mut fates = RuleWalk { chains, known, table: begin.table, packet, read }.through(begin, 0);
    if fates.returned {
        let drops = begin.begins == Some(Policy::Drop);
        fates |= if drops { Fates::REFUSED } else { Fates::ACCEPTED };
    }
    fates
}

struct RuleWalk<'a> {
    chains: &'a [Chain<'a>],
    /// What becomes of the packet in each, once that is known: one may be jumped to from many places,
    /// and those again from many.
    known: Vec<Option<Fates>>,
    table: &'a str,
    packet: AwaitedPacket,
    read: Read,
}

impl<'a> RuleWalk<'a> {
    fn through(&mut self, chain: &'a Chain<'a>, depth: u32) -> Fates {
        let mut fates = Fates::NONE;
        for text in &chain.rules {
            let rule = (self.read)(text, self.packet);
            if rule.fits == Fits::Never {
                continue;
            }
            let (mut ends, goes_on) = self.then(rule.then, depth);
            if rule.fits == Fits::OfSomeHosts {
                // Hosts that somebody shut out are not those that sound is wanted from.
                ends.refused = false;
            }
            fates |= ends;
            if rule.fits == Fits::Always && !goes_on {
                return fates;
            }
        }
        fates |= Fates::RETURNED;
        fates
    }

    /// How it may end, and whether the next rule may follow.
    fn then(&mut self, then: Then<'_>, depth: u32) -> (Fates, bool) {
        match then {
            Then::GoOn => (Fates::NONE, true),
            Then::Accept => (Fates::ACCEPTED, false),
            Then::Refuse => (Fates::REFUSED, false),
            Then::Return => (Fates::RETURNED, false),
            Then::Anything => (Fates::EITHER, true),
            Then::Goto(name) => (self.called(name, depth), false),
            Then::Jump(name) => {
                let fates = self.called(name, depth);
                (Fates { returned: false, ..fates }, fates.returned)
            }
        }
    }

    fn called(&mut self, name: &str, depth: u32) -> Fates {
        let unknown = Fates { returned: true, ..Fates::EITHER };
        let mut chains = self.chains.iter().enumerate();
        let of_table = chains.find(|(_, chain)| chain.table == self.table && chain.name == name);
        let Some((index, chain)) = of_table.filter(|_| depth < DEEPEST) else { return unknown };
        if let Some(fates) = self.known[index] {
            return fates;
        }
        // Whoever comes back here on the way goes in a circle.
        self.known[index] = Some(unknown);
        let fates = self.through(chain, depth + 1);
        self.known[index] = Some(fates);
        fates
    }
}
