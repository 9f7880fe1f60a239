//! The path of a packet through chains of rules.

/// A packet that a receiver waits for: it comes from another host, to an address of this one, the first of
/// its flow.
#[derive(Clone, Copy)]
pub(super) struct AwaitedPacket {
    /// Name and number of its protocol.
    pub(super) protocol: [&'static str; 2],
    pub(super) v6: bool,
    pub(super) port: u16,
}

pub(super) struct Chain<'a> {
    /// A rule sees only the chains of its own table.
    pub(super) table: &'a str,
    pub(super) name: &'a str,
    /// If the kernel itself sends here what comes in: what becomes of packets that no rule ends.
    pub(super) policy: Option<Fates>,
    pub(super) rules: Vec<String>,
}

/// Whether a rule's conditions hold. Of several the least counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fits {
    Never,
    /// By more than is known here: an interface, a rate, or words that are not read.
    Perhaps,
    /// Where it comes from some hosts.
    OfSomeHosts,
    Always,
}

impl Fits {
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

/// What may become of a packet: a set of the flags below.
pub(super) type Fates = u8;
pub(super) const ACCEPTED: Fates = 1;
pub(super) const REFUSED: Fates = 2;
/// It goes back to where the chain was called from.
pub(super) const RETURNED: Fates = 4;
/// It meets the next rule.
pub(super) const GOES_ON: Fates = 8;

/// What a rule does with what fits.
pub(super) enum Then<'a> {
    Ends(Fates),
    Jump(&'a str),
    Goto(&'a str),
}

/// How a rule is read.
pub(super) type Read = for<'a> fn(&'a str, AwaitedPacket) -> (Fits, Then<'a>);

/// The kernel follows so many jumps (`NFT_JUMP_STACK_SIZE`), iptables no circle.
const DEEPEST: u32 = 16;

/// What may become of the packet in a chain that the kernel sends it to.
pub(super) fn fates(
    chains: &[Chain<'_>],
    begin: &Chain<'_>,
    packet: AwaitedPacket,
    read: Read,
) -> Fates {
    let known = vec![None; chains.len()];
    let fates = RuleWalk { chains, known, table: begin.table, packet, read }.through(begin, 0);
    if fates & RETURNED == 0 { fates } else { fates | begin.policy.unwrap_or(ACCEPTED) }
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
        let mut fates = 0;
        for rule in &chain.rules {
            let (fits, then) = (self.read)(rule, self.packet);
            if fits == Fits::Never {
                continue;
            }
            let mut ends = match then {
                Then::Ends(fates) => fates,
                Then::Goto(name) => self.called(name, depth),
                Then::Jump(name) => match self.called(name, depth) {
                    fates if fates & RETURNED == 0 => fates,
                    fates => fates & !RETURNED | GOES_ON,
                },
            };
            if fits == Fits::OfSomeHosts {
                // Hosts that somebody shut out are not those that sound is wanted from.
                ends &= !REFUSED;
            }
            fates |= ends & !GOES_ON;
            if fits == Fits::Always && ends & GOES_ON == 0 {
                return fates;
            }
        }
        fates | RETURNED
    }

    fn called(&mut self, name: &str, depth: u32) -> Fates {
        let unknown = ACCEPTED | REFUSED | RETURNED;
        let mut chains = self.chains.iter().enumerate();
        let of_table = chains.find(|(_, chain)| chain.table == self.table && chain.name == name);
        let Some((index, chain)) = of_table.filter(|_| depth < DEEPEST) else { return unknown };
        if let Some(fates) = self.known[index] {
            return fates;
        }
        // A jump back here on the way is a circle.
        self.known[index] = Some(unknown);
        let fates = self.through(chain, depth + 1);
        self.known[index] = Some(fates);
        fates
    }
}
