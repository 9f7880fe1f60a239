//! Captures: pcap (both byte orders, micro- and nanoseconds) and pcapng.

use std::io::Read;

use super::flows::{Flows, instant};
use super::headers::{LinkType, packet_of_frame};
use pcap_parser::pcapng::Block;
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{PcapBlockOwned, PcapError, create_reader};

/// The longest block that is read: far more than any frame, and no more memory than this.
const BUFFER: usize = 1 << 20;

/// An interface of a capture.
#[derive(Debug, Clone, Copy)]
struct CaptureInterface {
    /// `None` for one that is not read here.
    link: Option<LinkType>,
    /// Units of its stamps in a second.
    units: u64,
    /// Seconds to add to them.
    offset: i64,
}

/// Everything that a capture has.
pub(super) struct ReadCapture {
    pub(super) flows: Flows,
    /// Why it was not read to its end, if it was not.
    pub(super) ended: Option<String>,
    /// What else a reader should know of it.
    pub(super) notes: Vec<String>,
}

/// Reads as far as it can be read.
pub(super) fn read(file: impl Read + Send) -> ReadCapture {
    let mut taken = TakenPacket::default();
    let ended = match create_reader(BUFFER, file) {
        Ok(mut reader) => taken.all(reader.as_mut()),
        Err(PcapError::Eof) => Err("it is empty; capture again".to_owned()),
        Err(PcapError::ReadError) => Err("it could not be read; check the disk".to_owned()),
        Err(_) => {
            Err("it is neither pcap nor pcapng; tcpdump -w FILE writes the one, Wireshark the \
                       other"
                .to_owned())
        }
    };
    let TakenPacket { flows, other_links, mut notes, .. } = taken;
    if other_links > 0 {
        notes.push(format!(
            "{other_links} frames are of a link that is not read here; capture Ethernet or -i any"
        ));
    }
    ReadCapture { flows, ended: ended.err(), notes }
}

/// What was read so far.
#[derive(Default)]
struct TakenPacket {
    flows: Flows,
    interfaces: Vec<CaptureInterface>,
    other_links: u64,
    notes: Vec<String>,
}

impl TakenPacket {
    /// Until the end, or the sentence that says why not so far.
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
                    return Err("it breaks off in the middle of a frame; what came before is read"
                        .to_owned());
                }
                Err(_) => {
                    return Err("it is damaged; what came before the damage is read".to_owned());
                }
            }
            let before = reader.data().len();
            if reader.refill().is_err() {
                return Err("it could not be read to its end; check the disk".to_owned());
            }
            if reader.data().len() == before && !reader.reader_exhausted() {
                return Err(
                    "a frame in it is longer than any can be; what came before is read".to_owned()
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
                self.frame(interface, stamp, packet.data);
            }
            // Interfaces are numbered anew in each section.
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
                // Padding follows the frame.
                let length = packet.data.len().min(packet.caplen as usize);
                self.frame(interface, stamp, packet.data.get(..length).unwrap_or_default());
            }
            // Others have no stamp, or no frame.
            PcapBlockOwned::NG(_) => {}
        }
    }

    fn frame(&mut self, interface: CaptureInterface, stamp: u128, frame: &[u8]) {
        let Some(link) = interface.link else {
            self.other_links += 1;
            return;
        };
        let units = u128::from(interface.units.max(1));
        let nanos = stamp.saturating_mul(u128::from(NANOS)) / units;
        let offset = interface.offset.saturating_mul(NANOS as i64);
        let at = i64::try_from(nanos).unwrap_or(i64::MAX).saturating_add(offset);
        if let (Some(at), Some(packet)) = (instant(at), packet_of_frame(link, frame)) {
            self.flows.see(at, &packet);
        }
    }
}

const NANOS: u64 = 1_000_000_000;
