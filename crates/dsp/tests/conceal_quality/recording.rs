//! The repository's recording.

use std::fs::File;
use std::path::Path;

use symphonia::core::formats::TrackType;
use symphonia::core::formats::probe::Hint;
use symphonia::core::io::MediaSourceStream;

use crate::RATE;

/// In seconds.
pub(crate) fn mono(begin: f64, end: f64) -> Vec<f32> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/recording.flac");
    let stream = MediaSourceStream::new(Box::new(File::open(path).unwrap()), Default::default());
    let mut container = symphonia::default::get_probe()
        .probe(&Hint::new(), stream, Default::default(), Default::default())
        .unwrap();
    let track = container.default_track(TrackType::Audio).unwrap();
    let parameters = track.codec_params.as_ref().unwrap().audio().unwrap().clone();
    let mut decoder = symphonia::default::get_codecs()
        .make_audio_decoder(&parameters, &Default::default())
        .unwrap();
    let (mut sound, mut packet) = (vec![], vec![]);
    let frames = (begin * RATE as f64) as usize..(end * RATE as f64) as usize;
    while sound.len() < frames.end {
        let next = container.next_packet().unwrap().unwrap();
        decoder.decode(&next).unwrap().copy_to_vec_interleaved::<f32>(&mut packet);
        sound.extend(packet.chunks_exact(2).map(|frame| (frame[0] + frame[1]) / 2.0));
    }
    sound[frames].to_vec()
}
