//! Parameters as SPA's plain old data.

use std::io::Cursor;

use pipewire::spa::param::ParamType;
use pipewire::spa::param::audio::{AudioFormat, AudioInfoRaw};
use pipewire::spa::pod::serialize::PodSerializer;
use pipewire::spa::pod::{Object, Pod, Property, Value};
use pipewire::spa::sys;
use pipewire::spa::utils::{Direction, Id, SpaTypes};
use tautline_proto::device::Settings;
use tautline_proto::time::Span;

type Positions = [u32; 64];

pub(super) struct Coded(Vec<u8>);

impl Coded {
    fn of(type_: SpaTypes, id: ParamType, properties: Vec<Property>) -> Self {
        let object = Object { type_: type_.as_raw(), id: id.as_raw(), properties };
        let (written, _) =
            PodSerializer::serialize(Cursor::new(Vec::new()), &Value::Object(object))
                .expect("memory takes what is written to it");
        Self(written.into_inner())
    }

    pub(super) fn pod(&self) -> &Pod {
        Pod::from_bytes(&self.0).expect("what was just written can be read")
    }
}

pub(super) fn format(settings: &Settings) -> Coded {
    let channels = settings.channels.count();
    let mut positions: Positions = [0; 64];
    match channels {
        1 => positions[0] = sys::SPA_AUDIO_CHANNEL_MONO,
        2 => {
            positions[..2].copy_from_slice(&[sys::SPA_AUDIO_CHANNEL_FL, sys::SPA_AUDIO_CHANNEL_FR])
        }
        _ => {
            let numbered = sys::SPA_AUDIO_CHANNEL_AUX0..;
            positions.iter_mut().zip(numbered).take(channels).for_each(|(at, aux)| *at = aux);
        }
    }
    let mut info = AudioInfoRaw::new();
    info.set_format(AudioFormat::F32LE);
    info.set_rate(settings.rate.hertz());
    info.set_channels(channels as u32);
    info.set_position(positions);
    Coded::of(SpaTypes::ObjectParamFormat, ParamType::EnumFormat, info.into())
}

pub(super) fn latency(direction: Direction, beyond: Span) -> [Coded; 2] {
    let nanos = beyond.as_nanos();
    let property = Property::new;
    let ports = vec![
        property(sys::SPA_PARAM_LATENCY_direction, Value::Id(Id(direction.as_raw()))),
        property(sys::SPA_PARAM_LATENCY_minNs, Value::Long(nanos)),
        property(sys::SPA_PARAM_LATENCY_maxNs, Value::Long(nanos)),
    ];
    let node = vec![property(sys::SPA_PARAM_PROCESS_LATENCY_ns, Value::Long(nanos))];
    [
        Coded::of(SpaTypes::ObjectParamLatency, ParamType::Latency, ports),
        Coded::of(SpaTypes::ObjectParamProcessLatency, ParamType::ProcessLatency, node),
    ]
}
