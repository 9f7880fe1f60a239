//! What is asked for, whether it can be meant so, and what was agreed on.

use tautline_api::seal;
use tautline_api::v1::{
    DescribedBlock, DescribedElement, DescribedLength, DescribedOrder, DescribedWay, StreamRequest,
    VERSION, WorkRefused, WorkStream, WorkStreamState,
};
use tautline_proto::offload::block::{BlockLeg, BlockSet, BlockSpec, BlockWay, Element, Length};
use tautline_proto::offload::datagram::LEAST_DATAGRAM_BYTES;

use crate::offers::OfferedPlugin;

/// Frames per second that plugins are begun with.
const RATES: core::ops::RangeInclusive<u32> = 1_000..=1_536_000;
/// Iterations that are kept at most.
const MOST_HISTORY: u32 = 65_536;
/// Bytes that one stream keeps of them, both ways together, at most.
const MOST_KEPT: usize = 128 << 20;
/// Copies of earlier answers at most.
const MOST_COPIES: u8 = 8;
/// What UDP over IPv4 carries at most, less a seal.
const MOST_DATAGRAM: usize = 65_507 - seal::ROOM;

/// What was agreed on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Agreed {
    set: BlockSet,
    /// Frames of a run, as far as that is known before.
    pub(super) run_frames: f64,
    /// From one run to the next.
    pub(super) period_ns: f64,
}

impl Agreed {
    pub(super) fn on(request: &StreamRequest, offer: &OfferedPlugin) -> Result<Self, WorkRefused> {
        let refuse = |sentence: String| Err(WorkRefused::BadRequest(sentence));
        if request.version != VERSION {
            return refuse(format!(
                "version {} was asked for, and this worker speaks {VERSION}; use the same taut at both ends",
                request.version
            ));
        }
        if !RATES.contains(&request.rate) {
            let (least, most) = RATES.into_inner();
            return refuse(format!(
                "a rate of {} Hz makes no sense; ask for {least} to {most}",
                request.rate
            ));
        }
        if request.most_frames == 0 {
            return refuse(
                "runs of 0 frames make no sense; ask for most_frames of 1 or more".into(),
            );
        }
        let datagrams = LEAST_DATAGRAM_BYTES..=MOST_DATAGRAM;
        if !datagrams.contains(&(request.datagram_bytes as usize)) {
            let (least, most) = datagrams.into_inner();
            return refuse(format!(
                "datagrams of {} bytes cannot be carried; ask for {least} to {most}",
                request.datagram_bytes
            ));
        }
        if !(1..=MOST_HISTORY).contains(&request.history) || request.copies > MOST_COPIES {
            return refuse(format!(
                "a history of {} iterations and {} copies make no sense; ask for 1 to {MOST_HISTORY} and up to \
                 {MOST_COPIES}",
                request.history, request.copies
            ));
        }
        if request.period_ns == Some(0) {
            return refuse("a period of nothing cannot be kept; leave period_ns out".into());
        }
        let set = offer.ports.sound_set(request.most_frames).block_set();
        let set = set.map_err(|error| WorkRefused::BadRequest(error.to_string()))?;
        let bytes =
            [BlockLeg::There, BlockLeg::Back].map(|leg| set.bytes(leg, request.most_frames));
        let kept = bytes.iter().sum::<usize>().saturating_mul(request.history as usize);
        if kept > MOST_KEPT {
            return refuse(format!(
                "{} iterations of {} frames are {kept} bytes to be kept, and a stream may keep {MOST_KEPT}; ask for a \
                 shorter history, or for shorter runs",
                request.history, request.most_frames
            ));
        }
        let nanos_of = |frames: f64| frames * 1e9 / f64::from(request.rate);
        let most = f64::from(request.most_frames);
        let period_ns = request.period_ns.map_or(nanos_of(most), |period| period as f64);
        // Of a host that says how often it runs, a run has as many frames as that, if it may.
        let run_frames = (period_ns * f64::from(request.rate) / 1e9).clamp(1.0, most);
        Ok(Self { set, run_frames, period_ns })
    }

    /// What the master is told.
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
            set: self.set.blocks().iter().map(described).collect(),
            most_frames: request.most_frames,
            datagram_bytes: request.datagram_bytes,
            byte_order: DescribedOrder::NATIVE,
            inputs: ports.inputs as u32,
            outputs: ports.outputs as u32,
            controls_in: ports.controls as u32,
            controls_out: ports.told as u32,
            salt: None,
            key: None,
            state,
        }
    }
}

fn described(block: &BlockSpec) -> DescribedBlock {
    DescribedBlock {
        element: match block.element {
            Element::F32 => DescribedElement::F32,
            Element::F64 => DescribedElement::F64,
            Element::I16 => DescribedElement::I16,
            Element::I32 => DescribedElement::I32,
            Element::Byte => DescribedElement::Byte,
        },
        way: match block.way {
            BlockWay::ToWorker => DescribedWay::ToWorker,
            BlockWay::FromWorker => DescribedWay::FromWorker,
            BlockWay::Both => DescribedWay::Both,
        },
        length: match block.length {
            Length::Fixed(elements) => DescribedLength::Fixed(elements),
            Length::PerFrame(elements) => DescribedLength::PerFrame(elements),
        },
    }
}
