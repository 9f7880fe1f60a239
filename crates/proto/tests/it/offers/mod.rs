use tautline_dsp::format::SampleFormat;
use tautline_proto::call::terms::{CallOffer, CallPath, StreamAbilities};
use tautline_proto::time::Span;
use tautline_proto::units::{Channels, Rate};

pub(crate) fn offer(codings: &[SampleFormat]) -> CallOffer {
    let abilities = StreamAbilities {
        rates: vec![Rate::HZ_48000],
        channels: vec![Channels::STEREO],
        codings: codings.iter().map(|sample| (*sample).into()).collect(),
        ptimes: (Span::from_millis(1), Span::from_millis(20)),
        takes: None,
    };
    let (there, back) = (abilities.clone(), abilities);
    CallOffer {
        there,
        back,
        paths: vec![CallPath::Udp, CallPath::Tcp],
        latency: None,
        adapts: None,
        redundancy: None,
    }
}
