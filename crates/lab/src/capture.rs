//! Reads captures: pcap (both byte orders, µs and ns) and pcapng.

use std::io::Read;

use pcap_parser::pcapng::Block;
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{PcapBlockOwned, PcapError, create_reader};

/// Block size. It exceeds any frame, and limits memory.
const BUFFER: usize = 1 << 20;

/// Link-layer header (tcpdump.org/linktypes.html).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkType {
    Ethernet,
    Raw,
    /// BSD loopback: address family in four bytes.
    Null,
    Cooked,
    Cooked2,
}

impl LinkType {
    pub(crate) const fn of(number: i32) -> Option<Self> {
        match number {
            0 | 108 => Some(Self::Null),
            1 => Some(Self::Ethernet),
            12 | 14 | 101 | 228 | 229 => Some(Self::Raw),
            113 => Some(Self::Cooked),
            276 => Some(Self::Cooked2),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct CapturedFrame<'a> {
    pub(crate) link: LinkType,
    /// Time since 1970, on the interface's clock.
    pub(crate) at_ns: i64,
    /// Original length.
    pub(crate) bytes: usize,
    pub(crate) frame: &'a [u8],
}

pub(crate) struct ReadFrames {
    pub(crate) ended: Option<String>,
    pub(crate) other_links: u64,
}

impl ReadFrames {
    pub(crate) fn note(&self) -> Option<String> {
        let Self { other_links, .. } = self;
        (*other_links > 0).then(|| {
            format!(
                "{other_links} frames have an unsupported link type; capture Ethernet or -i any"
            )
        })
    }
}

pub(crate) fn read_frames(
    file: impl Read + Send,
    see: &mut dyn FnMut(&CapturedFrame<'_>),
) -> ReadFrames {
    let mut blocks = CaptureBlocks { interfaces: Vec::new(), other_links: 0, see };
    let ended = match create_reader(BUFFER, file) {
        Ok(mut reader) => blocks.all(reader.as_mut()),
        Err(PcapError::Eof) => Err("it is empty\nhint: capture again".to_owned()),
        Err(PcapError::ReadError) => Err("read error\nhint: check the disk".to_owned()),
        Err(_) => {
            Err("it is neither pcap nor pcapng, as written by tcpdump -w FILE and Wireshark"
                .to_owned())
        }
    };
    ReadFrames { ended: ended.err(), other_links: blocks.other_links }
}

#[derive(Debug, Clone, Copy)]
struct CaptureInterface {
    link: Option<LinkType>,
    units: u64,
    offset: i64,
}

struct CaptureBlocks<'a> {
    interfaces: Vec<CaptureInterface>,
    other_links: u64,
    see: &'a mut dyn FnMut(&CapturedFrame<'_>),
}

impl CaptureBlocks<'_> {
    fn all(&mut self, reader: &mut dyn PcapReaderIterator) -> Result<(), String> {
        loop {
            match reader.next() {
                Ok((length, block)) => {
                    self.block(&block);
                    reader.consume(length);
                    continue;
                }
                Err(PcapError::Eof) => return Ok(()),
                Err(PcapError::Incomplete(_)) => {}
                Err(PcapError::UnexpectedEof) => {
                    return Err("it ends within a frame; the frames before were read".to_owned());
                }
                Err(_) => {
                    return Err("it is damaged; the frames before the damage were read".to_owned());
                }
            }
            let before = reader.data().len();
            if reader.refill().is_err() {
                return Err("read error before its end\nhint: check the disk".to_owned());
            }
            if reader.data().len() == before && !reader.reader_exhausted() {
                return Err(
                    "it has a frame that is too long; the frames before were read".to_owned()
                );
            }
        }
    }

    fn block(&mut self, block: &PcapBlockOwned<'_>) {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let units = if header.is_nanosecond_precision() { NANOS } else { 1_000_000 };
                let link = LinkType::of(header.network.0);
                self.interfaces = vec![CaptureInterface { link, units, offset: 0 }];
            }
            PcapBlockOwned::Legacy(packet) => {
                let Some(interface) = self.interfaces.first().copied() else { return };
                let units = u128::from(interface.units);
                let stamp = u128::from(packet.ts_sec) * units + u128::from(packet.ts_usec);
                self.frame(interface, stamp, packet.origlen, packet.data);
            }
            // Interface numbers restart per section.
            PcapBlockOwned::NG(Block::SectionHeader(_)) => self.interfaces.clear(),
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                self.interfaces.push(CaptureInterface {
                    link: LinkType::of(interface.linktype.0),
                    units: interface.ts_resolution().unwrap_or(1_000_000),
                    offset: interface.ts_offset(),
                });
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let Some(interface) = self.interfaces.get(packet.if_id as usize).copied() else {
                    return;
                };
                let stamp = u128::from(packet.ts_high) << 32 | u128::from(packet.ts_low);
                let length = packet.data.len().min(packet.caplen as usize);
                let frame = packet.data.get(..length).unwrap_or_default();
                self.frame(interface, stamp, packet.origlen, frame);
            }
            PcapBlockOwned::NG(_) => {}
        }
    }

    fn frame(&mut self, interface: CaptureInterface, stamp: u128, bytes: u32, frame: &[u8]) {
        let Some(link) = interface.link else {
            self.other_links += 1;
            return;
        };
        let units = u128::from(interface.units.max(1));
        let nanos = stamp.saturating_mul(u128::from(NANOS)) / units;
        let offset = interface.offset.saturating_mul(NANOS as i64);
        let at_ns = i64::try_from(nanos).unwrap_or(i64::MAX).saturating_add(offset);
        let bytes = frame.len().max(bytes as usize);
        (self.see)(&CapturedFrame { link, at_ns, bytes, frame });
    }
}

const NANOS: u64 = 1_000_000_000;
