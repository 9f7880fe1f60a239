//! Multicast addresses of announcements and sources.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use super::Checker;
use crate::mistake::MistakeKind;
use crate::section::{At, Section};

const ADDRESS: &str = "a multicast address and an even port, such as \"239.255.77.1:5004\"";
const FIX: &str = "write an address that no other table has";

/// Addresses in use.
pub(super) type Multicast = BTreeMap<SocketAddr, String>;

impl<'a> Checker<'a> {
    pub(super) fn address(
        &mut self,
        section: &Section<'a>,
        key: &'static str,
    ) -> Option<SocketAddr> {
        let given = section.text(key, ADDRESS, &mut self.mistakes)?;
        self.group(key, given, section)
    }

    fn group(
        &mut self,
        key: &'static str,
        given: At<&str>,
        section: &Section<'a>,
    ) -> Option<SocketAddr> {
        let At { at, value: text } = given;
        // RTCP uses the next port (RFC 3550 §11).
        let parsed = text.parse::<SocketAddr>().ok();
        let Some(address) = parsed.filter(|it| it.port() != 0 && it.port() % 2 == 0) else {
            let (key, value) = (key.to_owned(), crate::mistake::shown(text));
            self.mistakes.add(at, MistakeKind::Value { key, value, write: ADDRESS });
            return None;
        };
        if !address.ip().is_multicast() {
            self.mistakes.add(at, MistakeKind::NotMulticast(address.ip().to_string()));
            return None;
        }
        if is_reserved(address.ip()) {
            self.mistakes.add(at, MistakeKind::ReservedMulticast(address.ip().to_string()));
            return None;
        }
        let mut taken = core::mem::take(&mut self.multicast);
        self.once(&mut taken, "address", At { at, value: address }, section, FIX);
        self.multicast = taken;
        Some(address)
    }
}

fn is_reserved(address: IpAddr) -> bool {
    match address {
        // Local network control block (RFC 5771 §4).
        IpAddr::V4(four) => four.octets()[..3] == [224, 0, 0],
        IpAddr::V6(six) => {
            let [first, middle @ .., last] = six.segments();
            // Scopes 0 and 1 do not leave the machine; ff02::1 and others are assigned (RFC 4291
            // §2.7.1).
            first & 0xF < 2 || (middle == [0; 6] && last < 0x100)
        }
    }
}
