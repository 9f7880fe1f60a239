use tautline_dsp::format::SampleFormat;
use tautline_proto::codec::Codec;
use tautline_proto::packetizer::Packetizer;
use tautline_proto::stream::Coding;
use tautline_proto::time::Frames;

/// Changes one part of the format. Returns `false` if [`Packetizer::set_format`] fails.
pub(crate) trait Reformat {
    fn set_packet(&mut self, packet: Frames) -> bool;
    fn set_coding(&mut self, sample: SampleFormat, codec: Option<Codec>, payload_type: u8) -> bool;

    fn set_sample(&mut self, sample: SampleFormat, payload_type: u8) -> bool {
        self.set_coding(sample, None, payload_type)
    }
}

impl Reformat for Packetizer {
    fn set_packet(&mut self, packet: Frames) -> bool {
        let format = *self.format();
        self.set_format(packet, format.coding(), format.payload_type)
    }

    fn set_coding(&mut self, sample: SampleFormat, codec: Option<Codec>, payload_type: u8) -> bool {
        self.set_format(self.format().packet, Coding { sample, codec }, payload_type)
    }
}
