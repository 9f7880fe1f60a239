//! One channel of interleaved frames.

/// Copies `channel` from frames of `channels` samples.
#[inline]
pub fn pick(from: &[f32], channels: usize, channel: usize, to: &mut [f32]) {
    match (channels, channel) {
        (1, _) => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
        (2, 0) => to.iter_mut().zip(from.as_chunks().0).for_each(|(to, &[left, _])| *to = left),
        (2, 1) => to.iter_mut().zip(from.as_chunks().0).for_each(|(to, &[_, right])| *to = right),
        _ => {
            let frames = from.chunks_exact(channels.max(1));
            let picked = frames.filter_map(|frame| frame.get(channel));
            to.iter_mut().zip(picked).for_each(|(to, sample)| *to = *sample);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channel_n_is_sample_n_of_each_frame() {
        for channels in 1..5 {
            let from: Vec<f32> = (0..channels * 7).map(|at| at as f32).collect();
            for channel in 0..channels {
                let mut to = [-1.0; 9];
                pick(&from, channels, channel, &mut to);
                let wanted: Vec<f32> = (0..7).map(|at| (at * channels + channel) as f32).collect();
                assert_eq!(to[..7], wanted, "{channel} of {channels}");
                assert_eq!(to[7..], [-1.0; 2], "no frame is there");
            }
        }
    }
}
