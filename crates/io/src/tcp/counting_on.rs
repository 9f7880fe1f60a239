//! Seals that outlive a connection: a key that is given seals by every connection of a stream, and no two packets may be
//! sealed alike, so what a seal has counted goes on where the next connection begins.

use std::sync::Arc;

use super::claimed::Claimed;
use crate::link::muxed::Seals;
use crate::socket::seal::Seal;
use crate::udp::pair::MakeSeal;

/// A seal that the connections of a stream have one after the other. Their halves change lines on the thread that uses
/// them, so no two ever want it at once: whoever did would go without.
#[derive(Clone)]
struct LentSeal {
    seal: Arc<Claimed<Box<dyn Seal>>>,
    room: usize,
}

impl LentSeal {
    fn of(make: MakeSeal<'_>) -> Self {
        let seal = make();
        Self { room: seal.room(), seal: Arc::new(Claimed::new(seal)) }
    }

    fn lend(&self) -> Box<dyn Seal> {
        Box::new(self.clone())
    }
}

impl Seal for LentSeal {
    fn room(&self) -> usize {
        self.room
    }

    /// Nothing is sent where another has the seal: never what others can read.
    fn seal(&mut self, bytes: &mut [u8], len: usize) -> usize {
        self.seal.try_with(|seal| seal.seal(bytes, len)).unwrap_or(0)
    }

    fn open<'a>(&mut self, bytes: &'a mut [u8]) -> Option<&'a [u8]> {
        self.seal.try_with(|seal| seal.open(bytes)).flatten()
    }
}

/// What seals and opens at one end of a stream, by whichever connection.
#[derive(Default)]
pub(super) struct StreamSeals {
    sending: Option<LentSeal>,
    receiving: Option<LentSeal>,
    reports: [Option<LentSeal>; 2],
}

impl StreamSeals {
    /// Of the end that sends the stream, if it is sealed.
    pub(super) fn of_sender(make: Option<MakeSeal<'_>>) -> Self {
        let seal = || make.map(LentSeal::of);
        Self { sending: seal(), receiving: seal(), reports: [seal(), None] }
    }

    /// Of the end that hears it.
    pub(super) fn of_receiver(make: Option<MakeSeal<'_>>) -> Self {
        let seal = || make.map(LentSeal::of);
        Self { sending: None, receiving: seal(), reports: [None, seal()] }
    }

    /// For the next connection. The one before is used no more once this is.
    pub(super) fn lend(&self) -> Seals {
        let lend = |seal: &Option<LentSeal>| seal.as_ref().map(LentSeal::lend);
        let [one, other] = &self.reports;
        Seals {
            sending: lend(&self.sending),
            receiving: lend(&self.receiving),
            reports: [lend(one), lend(other)],
        }
    }
}
