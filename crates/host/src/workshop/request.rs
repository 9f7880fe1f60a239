//! Validates a stream request.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tautline_api::seal::{self, SECRET_BYTES};
use tautline_api::v1::{
    FedStream, MAX_KEPT_BYTES, SecretText, StreamRequest, VERSION, WorkRefused, WorkStream,
    WorkStreamState,
};
use tautline_engine::offload::sound_set::SoundSet;
use tautline_proto::offload::block::{BlockLeg, BlockSet};
use tautline_proto::offload::datagram::MIN_DATAGRAM_BYTES;

use crate::offers::OfferedPlugin;
use crate::plan::PlannedFeed;

const RATES: core::ops::RangeInclusive<u32> = 1_000..=1_536_000;
const MAX_HISTORY: u32 = 65_536;
const MAX_CARRIED: usize = 4096;
const MAX_COPIES: u8 = 8;
const MAX_DATAGRAM: usize = 65_507 - seal::ROOM;

const ASSUMED_FRAMES: u32 = 64;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Agreed {
    set: BlockSet,
    pub(super) run_frames: f64,
    pub(super) period_ns: f64,
}

impl Agreed {
    pub(super) fn on(request: &StreamRequest, offer: &OfferedPlugin) -> Result<Self, WorkRefused> {
        let refuse = |sentence: String| Err(WorkRefused::BadRequest(sentence));
        if request.version != VERSION {
            return refuse(format!(
                "unsupported version {}: this worker supports {VERSION}; use the same taut on both hosts",
                request.version
            ));
        }
        if !RATES.contains(&request.rate) {
            let (minimum, maximum) = RATES.into_inner();
            return refuse(format!(
                "invalid rate {} Hz: must be {minimum} to {maximum}",
                request.rate
            ));
        }
        if request.max_frames == 0 {
            return refuse("max_frames is 0: must be at least 1".into());
        }
        let datagrams = MIN_DATAGRAM_BYTES..=MAX_DATAGRAM;
        if !datagrams.contains(&(request.datagram_bytes as usize)) {
            let (minimum, maximum) = datagrams.into_inner();
            return refuse(format!(
                "invalid datagram length of {} bytes: must be {minimum} to {maximum}",
                request.datagram_bytes
            ));
        }
        if !(1..=MAX_HISTORY).contains(&request.history) || request.copies > MAX_COPIES {
            return refuse(format!(
                "invalid history of {} iterations and {} copies: must be 1 to {MAX_HISTORY} and 0 to {MAX_COPIES}",
                request.history, request.copies
            ));
        }
        if request.period_ns == Some(0) {
            return refuse("period_ns is 0: must be at least 1; increase or remove it".into());
        }
        let sound = offer.ports.sound_set(request);
        let SoundSet { onward, earlier, .. } = sound;
        if onward.max(earlier) > MAX_CARRIED {
            return refuse(format!(
                "{onward} and {earlier} control values of other plugins are too many; send at most {MAX_CARRIED}"
            ));
        }
        let set = sound.block_set().map_err(|error| WorkRefused::BadRequest(error.to_string()))?;
        let bytes = [BlockLeg::There, BlockLeg::Back].map(|leg| set.bytes(leg, request.max_frames));
        let kept = bytes.iter().sum::<usize>().saturating_mul(request.history as usize);
        if kept > MAX_KEPT_BYTES {
            return refuse(format!(
                "{} iterations of {} frames need {kept} bytes, more than the maximum of {MAX_KEPT_BYTES}; use a \
                 shorter history or shorter runs",
                request.history, request.max_frames
            ));
        }
        let nanos_of = |frames: f64| frames * 1e9 / f64::from(request.rate);
        let maximum = f64::from(request.max_frames);
        let assumed = f64::from(request.max_frames.min(ASSUMED_FRAMES));
        let period_ns = request.period_ns.map_or(nanos_of(assumed), |period| period as f64);
        let run_frames = (period_ns * f64::from(request.rate) / 1e9).clamp(1.0, maximum);
        Ok(Self { set, run_frames, period_ns })
    }

    pub(super) fn answer(
        &self,
        request: &StreamRequest,
        offer: &OfferedPlugin,
        state: WorkStreamState,
    ) -> WorkStream {
        let ports = offer.ports;
        WorkStream {
            id: state.id,
            udp_port: state.udp_port,
            set: self.set.blocks().to_vec(),
            max_frames: request.max_frames,
            datagram_bytes: request.datagram_bytes,
            byte_order: request.byte_order,
            inputs: ports.inputs as u32,
            outputs: ports.outputs as u32,
            controls_in: ports.controls as u32,
            controls_out: ports.reported as u32,
            salt: None,
            key: None,
            fed: None,
            state,
        }
    }
}

pub(super) fn planned(feeds: &FedStream, is_sealed: bool) -> Result<PlannedFeed, WorkRefused> {
    let refuse = |sentence: &str| Err(WorkRefused::BadRequest(sentence.to_owned()));
    let key = feeds.key.as_ref().map(|SecretText(key)| {
        STANDARD.decode(key).ok().and_then(|key| <[u8; SECRET_BYTES]>::try_from(key).ok())
    });
    let secret = match (is_sealed, key) {
        (true, Some(Some(key))) => Some(key),
        (false, None) => None,
        (true, _) => {
            return refuse("the key of the fed stream is not 32 bytes in base64; pass its fed.key");
        }
        (false, Some(_)) => {
            return refuse(
                "a cleartext stream cannot feed an encrypted one; open both with cleartext, or neither",
            );
        }
    };
    Ok(PlannedFeed { address: feeds.address, stream: feeds.stream, secret })
}
