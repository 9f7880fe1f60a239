//! Interrupt moderation of network cards (linux/ethtool.h).

use std::io;

use tautline_proto::time::Span;

use crate::socket::interface;

/// When a card raises a receive interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moderation {
    /// Maximum delay after the first packet.
    pub delay: Span,
    /// Maximum packets; 0 for no limit.
    pub packets: u32,
    /// Whether the driver adapts these.
    pub adaptive: bool,
}

const GET_COALESCE: u32 = 0x0e;
/// `struct ethtool_coalesce` in 32-bit words: the command and 22 values.
const WORDS: usize = 23;
const RX_USECS: usize = 1;
const RX_PACKETS: usize = 2;
const ADAPTIVE_RX: usize = 10;

/// An interface's moderation; an error if its driver reports none. Virtual drivers report none.
pub fn moderation(interface: &str) -> io::Result<Moderation> {
    let mut words = [0_u32; WORDS];
    words[0] = GET_COALESCE;
    request(interface, &mut words)?;
    Ok(read(&words))
}

fn read(words: &[u32; WORDS]) -> Moderation {
    Moderation {
        delay: Span::from_micros(words[RX_USECS].into()),
        packets: words[RX_PACKETS],
        adaptive: words[ADAPTIVE_RX] != 0,
    }
}

fn request(interface: &str, words: &mut [u32; WORDS]) -> io::Result<()> {
    let mut request = interface::request(interface)?;
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: an ifreq whose data outlives the call and is as long as the command in its first word
    // requires.
    unsafe { interface::send_request(&mut request, libc::SIOCETHTOOL) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_where_the_kernel_puts_them() {
        let mut words = [0; WORDS];
        (words[1], words[2], words[10], words[11]) = (50, 8, 0, 1);
        let sends_adapt = Moderation { delay: Span::from_micros(50), packets: 8, adaptive: false };
        assert_eq!(read(&words), sends_adapt);
        words[10] = 1;
        assert!(read(&words).adaptive);
    }

    #[test]
    fn interface_without_moderation_is_an_error() {
        for name in ["lo", "nope0", "a-name-that-no-interface-can-have"] {
            let error = moderation(name).expect_err(name).raw_os_error();
            assert!(matches!(error, Some(libc::EOPNOTSUPP | libc::ENODEV)), "{name}: {error:?}");
        }
    }
}
