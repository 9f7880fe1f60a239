use std::path::Path;

use tautline_api::srtp::{MasterKey, SrtpSeal, allow_description, read_key};
use tautline_engine::plan::address::{Address, Resolved};
use tautline_engine::plan::sockets::LinkOptions;
use tautline_io::socket::seal::Seal;
use tautline_io::thread::Scheduler;
use tautline_io::udp::pair::OpenedStream;
use tautline_proto::wire::WireForm;
use tautline_proto::wire::sdp::SdpCrypto;

use crate::failure::Failure;

/// `None` without encryption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamKey(Option<MasterKey>);

impl StreamKey {
    pub(crate) fn of<'a>(
        file: Option<&Path>,
        addresses: impl IntoIterator<Item = (&'a Address, &'a Resolved)>,
    ) -> Result<Self, Failure> {
        let given = file.map(read_key).transpose()?;
        let mut all: Option<(&Address, Self)> = None;
        for (address, resolved) in addresses {
            let key = Self(key_of(given.as_ref(), address, resolved)?);
            match &all {
                Some((first, other)) if *other != key => {
                    return Err(Failure::usage(format!(
                        "{first} and {address} have different keys, but all --to get the same packets\n\
                         hint: use --srtp-key-file, or run one taut for each"
                    )));
                }
                Some(_) => {}
                None => all = Some((address, key)),
            }
        }
        Ok(all.map_or(Self(None), |(_, key)| key))
    }

    pub(crate) fn profile(&self) -> Option<&'static str> {
        self.0.as_ref().map(|key| key.profile().name())
    }

    pub(crate) fn room(&self) -> usize {
        self.0.as_ref().map_or(0, |key| key.profile().room())
    }

    pub(crate) fn to_description(&self) -> Option<SdpCrypto> {
        self.0.as_ref().map(|key| SdpCrypto(key.to_sdes()))
    }

    /// Whether programs without RFC 9335 may play encrypted header extensions as noise: profiles
    /// without AEAD do not authenticate the form (RFC 3711 §4.2).
    pub(crate) fn is_misheard_with_redundancy(&self) -> bool {
        self.0.as_ref().is_some_and(|key| !key.profile().is_aead())
    }

    pub(crate) fn open(
        &self,
        options: &LinkOptions,
        device: Option<Scheduler>,
    ) -> Result<OpenedStream, Failure> {
        let Some(key) = &self.0 else { return Ok(options.open(device)?) };
        let seal = || -> Box<dyn Seal> { Box::new(SrtpSeal::shared(key)) };
        Ok(options.open_sealed(device, Some(&seal))?)
    }
}

fn key_of(
    given: Option<&MasterKey>,
    address: &Address,
    resolved: &Resolved,
) -> Result<Option<MasterKey>, Failure> {
    if let Some(given) = given {
        return match resolved.form {
            WireForm::Rtp => Ok(Some(given.clone())),
            WireForm::Avtp(_) => Err(Failure::usage(format!(
                "--srtp-key-file is for RTP, but {address} is AVTP\nhint: use rtp://, or leave the option out"
            ))),
        };
    }
    let Some(described) = resolved.description.as_ref().filter(|described| described.sealed) else {
        return Ok(None);
    };
    if described.crypto.is_empty() {
        return Err(Failure::usage(format!(
            "{address} is encrypted with SRTP and does not contain the key\nhint: name the key's file with \
             --srtp-key-file"
        )));
    }
    if let Some(path) = address.file() {
        allow_description(path)?;
    }
    // The first supported one of several.
    let mut keys = described.crypto.iter().map(|SdpCrypto(text)| text.parse::<MasterKey>());
    let first = keys.next().unwrap_or(Err(tautline_api::srtp::NoMasterKey::Form));
    let key = first.or_else(|error| keys.find_map(Result::ok).ok_or(error));
    key.map(Some).map_err(|error| Failure::usage(format!("{address}: a=crypto: {error}")))
}
