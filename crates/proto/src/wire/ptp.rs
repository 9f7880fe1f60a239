//! PTP management messages (IEEE 1588-2008 §15) for the local socket of linuxptp's `ptp4l`. Only
//! queries; never sets anything.
//!
//! | byte | field | meaning |
//! |---|---|---|
//! | 0 | `transportSpecific`, `messageType` | 4 bits, 4 (0xD, management) |
//! | 1 | `versionPTP` | lowest 4 bits, 2 |
//! | 2 | `messageLength` | total length |
//! | 4 | `domainNumber` | |
//! | 20 | `sourcePortIdentity` | clock (64 bits) and port (16) |
//! | 30 | `sequenceId` | of the query, repeated in the response |
//! | 32 | `controlField`, `logMessageInterval` | 4, 0x7F |
//! | 34 | `targetPortIdentity` | all ones: every port |
//! | 46 | `actionField` | lowest 4 bits: 0 GET, 2 RESPONSE |
//! | 48 | `tlvType`, `lengthField` | 1 MANAGEMENT; remaining length |
//! | 52 | `managementId` | requested data |
//! | 54 | | data of the response |

#[cfg(test)]
mod tests;

use core::fmt;

use crate::time::Span;

pub(crate) const QUESTION_BYTES: usize = 54;
/// Maximum response: an Ethernet frame.
pub const MAX_BYTES: usize = 1500;

const MANAGEMENT: u8 = 0xD;
const VERSION: u8 = 2;
const CONTROL: u8 = 4;
const NO_INTERVAL: u8 = 0x7F;
const GET: u8 = 0;
const RESPONSE: u8 = 2;
const MANAGEMENT_TLV: u16 = 1;
/// `lengthField` counts from here.
const TLV_HEAD_ENDS: usize = 52;

/// Clock identity (EUI-64; §7.5.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ClockIdentity(pub [u8; 8]);

impl fmt::Display for ClockIdentity {
    /// Formats as in linuxptp: `001b21.fffe.0a0b0c`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g, h, i] = self.0;
        write!(f, "{a:02x}{b:02x}{c:02x}.{d:02x}{e:02x}.{g:02x}{h:02x}{i:02x}")
    }
}

/// PTP domain. A daemon ignores queries for other domains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Domain {
    /// `domainNumber`.
    pub number: u8,
    /// `transportSpecific`: 1 for IEEE 802.1AS, else 0.
    pub transport: u8,
}

/// Data set to query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requested {
    /// CURRENT_DATA_SET.
    Current,
    /// PORT_DATA_SET, per port.
    Port,
    /// TIME_STATUS_NP of linuxptp.
    TimeStatus,
}

impl Requested {
    /// All data sets.
    pub const ALL: [Self; 3] = [Self::Current, Self::Port, Self::TimeStatus];

    const fn id(self) -> u16 {
        match self {
            Self::Current => 0x2001,
            Self::Port => 0x2004,
            Self::TimeStatus => 0xC000,
        }
    }
}

tautline_dsp::named_enum! {
    /// Port state (IEEE 1588-2008 table 8).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum PortState {
        /// Initializing.
        Initializing = "INITIALIZING",
        /// Faulty.
        Faulty = "FAULTY",
        /// Disabled by management.
        Disabled = "DISABLED",
        /// Receives no announcements.
        Listening = "LISTENING",
        /// About to be a master.
        PreMaster = "PRE_MASTER",
        /// Master of others.
        Master = "MASTER",
        /// Inactive: another port, or a better master, is active.
        Passive = "PASSIVE",
        /// Found a master; measuring.
        Uncalibrated = "UNCALIBRATED",
        /// Synchronized to a master.
        Slave = "SLAVE",
    }
}

impl PortState {
    // Codes begin at 1.
    fn of(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }

    fn code(self) -> u8 {
        self as u8 + 1
    }
}

/// Data of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PtpData {
    /// Deviation from the master.
    Current {
        /// Hops to the grandmaster.
        steps: u16,
        /// Clock minus master clock.
        offset: Span,
        /// Path delay.
        path_delay: Span,
    },
    /// Port state.
    Port {
        /// Port number.
        number: u16,
        /// Port state.
        state: PortState,
    },
    /// Synchronization.
    TimeStatus {
        /// Clock minus master clock.
        offset: Span,
        /// Arrival of the last master message on that clock, in nanoseconds.
        ingress: i64,
        /// Whether the clock follows another clock.
        present: bool,
        /// Grandmaster, possibly itself.
        grandmaster: ClockIdentity,
    },
}

/// Response and its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PtpAnswer {
    /// Domain.
    pub domain: Domain,
    /// Daemon's clock.
    pub clock: ClockIdentity,
    /// Sequence number of the query.
    pub sequence: u16,
    /// Data.
    pub reported: PtpData,
}

/// Query.
pub fn question(requested: Requested, domain: Domain, sequence: u16) -> [u8; QUESTION_BYTES] {
    let mut bytes = [0; QUESTION_BYTES];
    head(&mut bytes, domain, sequence, GET, requested.id());
    bytes
}

fn head(bytes: &mut [u8], domain: Domain, sequence: u16, action: u8, id: u16) {
    let (whole, tlv) = (bytes.len() as u16, (bytes.len() - TLV_HEAD_ENDS) as u16);
    bytes[0] = domain.transport << 4 | MANAGEMENT;
    bytes[1] = VERSION;
    bytes[2..4].copy_from_slice(&whole.to_be_bytes());
    bytes[4] = domain.number;
    bytes[30..32].copy_from_slice(&sequence.to_be_bytes());
    bytes[32] = CONTROL;
    bytes[33] = NO_INTERVAL;
    bytes[34..44].fill(0xFF);
    bytes[46] = action;
    bytes[48..50].copy_from_slice(&MANAGEMENT_TLV.to_be_bytes());
    bytes[50..52].copy_from_slice(&tlv.to_be_bytes());
    bytes[52..54].copy_from_slice(&id.to_be_bytes());
}

struct PtpReader<'a>(&'a [u8]);

impl PtpReader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn pass(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.get(bytes..)?;
        Some(())
    }

    fn short(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn long(&mut self) -> Option<i64> {
        self.take().map(i64::from_be_bytes)
    }

    /// 16 fractional bits.
    fn interval(&mut self) -> Option<Span> {
        self.long().map(|scaled| Span::from_nanos(scaled >> 16))
    }
}

/// Parses a response; `None` for other datagrams.
pub fn answer(datagram: &[u8]) -> Option<PtpAnswer> {
    let whole = usize::from(u16::from_be_bytes(*datagram.get(2..)?.first_chunk()?));
    let mut from = PtpReader(datagram.get(..whole)?);
    let [first, version] = from.take()?;
    let known = first & 0xF == MANAGEMENT && version & 0xF == VERSION;
    from.pass(2)?;
    let [number] = from.take()?;
    let domain = Domain { number, transport: first >> 4 };
    from.pass(15)?;
    let clock = ClockIdentity(from.take()?);
    from.pass(2)?;
    let sequence = from.short()?;
    from.pass(14)?;
    let [action, _] = from.take()?;
    let (kind, length) = (from.short()?, from.short()?);
    if !known || action & 0xF != RESPONSE || kind != MANAGEMENT_TLV {
        return None;
    }
    let mut body = PtpReader(from.0.get(..usize::from(length))?);
    let id = body.short()?;
    let requested = Requested::ALL.into_iter().find(|requested| requested.id() == id)?;
    Some(PtpAnswer { domain, clock, sequence, reported: reported(requested, &mut body)? })
}

fn reported(requested: Requested, body: &mut PtpReader<'_>) -> Option<PtpData> {
    Some(match requested {
        Requested::Current => PtpData::Current {
            steps: body.short()?,
            offset: body.interval()?,
            path_delay: body.interval()?,
        },
        Requested::Port => {
            body.pass(8)?;
            let number = body.short()?;
            let [state] = body.take()?;
            PtpData::Port { number, state: PortState::of(state)? }
        }
        Requested::TimeStatus => {
            let (offset, ingress) = (Span::from_nanos(body.long()?), body.long()?);
            // Rate and phase changes of the grandmaster.
            body.pass(4 + 4 + 2 + 12)?;
            let present = body.take::<4>()? != [0; 4];
            PtpData::TimeStatus {
                offset,
                ingress,
                present,
                grandmaster: ClockIdentity(body.take()?),
            }
        }
    })
}

impl PtpAnswer {
    /// Writes a response. Returns its length. For tests.
    pub fn write(&self, room: &mut [u8; MAX_BYTES]) -> usize {
        let (requested, bytes) = match self.reported {
            PtpData::Current { .. } => (Requested::Current, 18),
            PtpData::Port { .. } => (Requested::Port, 26),
            PtpData::TimeStatus { .. } => (Requested::TimeStatus, 50),
        };
        let datagram = &mut room[..QUESTION_BYTES + bytes];
        datagram.fill(0);
        head(datagram, self.domain, self.sequence, RESPONSE, requested.id());
        datagram[20..28].copy_from_slice(&self.clock.0);
        let body = &mut datagram[QUESTION_BYTES..];
        match self.reported {
            PtpData::Current { steps, offset, path_delay } => {
                body[..2].copy_from_slice(&steps.to_be_bytes());
                let scaled = |span: Span| (span.as_nanos() << 16).to_be_bytes();
                body[2..10].copy_from_slice(&scaled(offset));
                body[10..18].copy_from_slice(&scaled(path_delay));
            }
            PtpData::Port { number, state } => {
                body[..8].copy_from_slice(&self.clock.0);
                body[8..10].copy_from_slice(&number.to_be_bytes());
                body[10] = state.code();
            }
            PtpData::TimeStatus { offset, ingress, present, grandmaster } => {
                body[..8].copy_from_slice(&offset.as_nanos().to_be_bytes());
                body[8..16].copy_from_slice(&ingress.to_be_bytes());
                body[38..42].copy_from_slice(&u32::from(present).to_be_bytes());
                body[42..50].copy_from_slice(&grandmaster.0);
            }
        }
        datagram.len()
    }
}

/// Daemon status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PtpState {
    /// Main port: the slave port, if any.
    pub port: PortState,
    /// Whether the clock follows another clock.
    pub present: bool,
    /// Grandmaster.
    pub grandmaster: ClockIdentity,
    /// Clock minus master clock.
    pub offset: Span,
    /// Path delay.
    pub path_delay: Span,
    /// See [`PtpData::TimeStatus`].
    pub ingress: i64,
}

impl PtpState {
    /// Whether the clock follows a grandmaster.
    pub fn is_locked(&self) -> bool {
        self.port == PortState::Slave && self.present
    }

    /// Maximum deviation from the grandmaster: offset plus path delay, whose asymmetry is unknown.
    pub fn uncertainty(&self) -> Span {
        self.offset.abs() + self.path_delay.abs()
    }
}

/// Collects responses.
#[derive(Debug, Clone, Copy, Default)]
pub struct PtpAnswers {
    port: Option<PortState>,
    delay: Option<Span>,
    status: Option<(Span, i64, bool, ClockIdentity)>,
}

impl PtpAnswers {
    /// Adds a response.
    pub fn take(&mut self, reported: PtpData) {
        match reported {
            PtpData::Current { path_delay, .. } => self.delay = Some(path_delay),
            // Slave ports are last in the order of states.
            PtpData::Port { state, .. } => self.port = self.port.max(Some(state)),
            PtpData::TimeStatus { offset, ingress, present, grandmaster } => {
                self.status = Some((offset, ingress, present, grandmaster));
            }
        }
    }

    /// Status, once all data sets arrived.
    pub fn state(&self) -> Option<PtpState> {
        let (offset, ingress, present, grandmaster) = self.status?;
        let (port, path_delay) = (self.port?, self.delay?);
        Some(PtpState { port, present, grandmaster, offset, path_delay, ingress })
    }
}
